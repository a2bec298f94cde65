"""Complex numbers and halves in every kind of loop: strided, transposed, repeated, streamed, reduced, as params."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from tests.kernel.support import ND, WIDTHS, call, complex_of, one_op, reduction, same_bits
from tests.kernel.ulps import ulps
from tilewise.kernel import interpret
from tilewise.kernel.loops import Instr, Kernel, Output

PAIRED = ("complex64", "complex128")
DTYPES = (*PAIRED, "float16")


def some(dtype: str, shape: tuple[int, ...], seed: int = 0) -> ND:
    rng = np.random.default_rng(seed)
    if dtype in PAIRED:
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
    return rng.normal(size=shape).astype(dtype)


def body(dtype: str) -> Kernel:
    """(a * p + b) - 2 where the first is not zero, else b, of two operands and a param."""
    return Kernel(
        (dtype, dtype), (dtype,),
        (Instr("multiply", (0, 2), dtype), Instr("add", (3, 1), dtype), Instr("const:2", (), dtype),
         Instr("subtract", (4, 5), dtype), Instr("cast", (0,), "bool"), Instr("where", (7, 6, 1), dtype)),
        (Output(8), Output(7)), (False, False),
    )  # fmt: skip


def views(a: ND) -> list[ND]:
    return [
        a,
        np.asfortranarray(a),
        a[::-1],
        np.repeat(a, 2, 1)[:, ::2],
        np.repeat(a, 3, 0)[::3, ::-1],
        a[:1],
        a[:, :1],
    ]


@pytest.mark.quick_code
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_layout(dtype: str, width: int | None) -> None:
    a, b = some(dtype, (13, 77)), some(dtype, (13, 77), seed=1)
    a[3] = 0
    kernel, p = body(dtype), a[0, 5]
    for x in views(a):
        for y in views(b)[:4]:
            want = [np.empty(b.shape, dtype), np.empty(b.shape, bool)]
            interpret.run(kernel, b.shape, [x, y], [p], want)
            for outs in ([np.empty_like(w) for w in want], [np.empty(w.shape[::-1], w.dtype).T for w in want]):
                call(kernel, b.shape, [x, y], [p], outs, width=width)
                assert all(same_bits(np.ascontiguousarray(o), w) for o, w in zip(outs, want, strict=True))


@pytest.mark.parametrize("text", ["(2-1j)", "(nan+infj)", "-0.5", "1j"])
@pytest.mark.parametrize("dtype", PAIRED)
def test_constants(dtype: str, text: str) -> None:
    a = some(dtype, (50,))
    kernel = Kernel(
        (dtype,), (), (Instr(f"const:{text}", (), dtype), Instr("add", (0, 1), dtype)), (Output(2),), (False,)
    )
    assert same_bits(call(kernel, a.shape, [a])[0], a + np.asarray(complex(text), dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_streamed(dtype: str) -> None:
    n = 9_000_001  # more than fits the caches
    a = some(dtype, (n,))
    (got,) = call(one_op("add", (dtype, dtype), dtype), a.shape, [a, a[::-1]])
    assert same_bits(got, a + a[::-1])


@pytest.mark.quick_code
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", PAIRED)
def test_sums_and_products(dtype: str, width: int | None) -> None:
    a = some(dtype, (70, 301))
    a /= np.abs(a)
    for x in views(a)[:4]:
        for reduced in ((True, True), (True, False), (False, True)):
            axes = tuple(d for d in (0, 1) if reduced[d])
            for op in ("add", "multiply"):
                (got,) = call(reduction(op, dtype, reduced), x.shape, [x], width=width)
                want = getattr(np, op).reduce(x.astype("complex128"), axis=axes)
                np.testing.assert_allclose(got, want, rtol=0, atol=3000 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", PAIRED)
def test_absolute(dtype: str) -> None:
    rng = np.random.default_rng(0)
    part = np.finfo(dtype).dtype
    size = 2.0 ** rng.uniform(-140 if dtype == "complex64" else -1070, 120 if dtype == "complex64" else 1020, 2000)
    z = complex_of((size * rng.normal(size=2000)).astype(part), (size * rng.normal(size=2000)).astype(part))
    (got,) = call(one_op("absolute", (dtype,), part.name), z.shape, [z])
    with mpmath.workdps(40):
        exact = [mpmath.hypot(a, b) for a, b in zip(z.real.tolist(), z.imag.tolist(), strict=True)]
        assert ulps(got, exact) <= 2
    inf, nan = np.inf, np.nan
    z = complex_of(np.array([inf, nan, nan, -inf, 0.0], part), np.array([nan, inf, 1.0, 2.0, -0.0], part))
    (got,) = call(one_op("absolute", (dtype,), part.name), z.shape, [z])
    assert same_bits(got, np.abs(z))


def test_halves_round_once_from_double() -> None:
    # Just above the middle of two halves, by less than float32 sees.
    x = np.array([1 + 2.0**-11 + 2.0**-40, 65519.99999, 65520.0, 2.0**-25 * (1 + 2.0**-30), 2.0**-25, -1e-300])
    with np.errstate(over="ignore"):
        want = x.astype(np.float16)
    (got,) = call(one_op("cast", ("float64",), "float16"), x.shape, [x])
    assert same_bits(got, want)


def test_every_half() -> None:
    h = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    (wide,) = call(one_op("cast", ("float16",), "float32"), h.shape, [h])
    with np.errstate(invalid="ignore"):  # of signalling NaNs, on some CPUs
        want = h.astype(np.float32)
    assert same_bits(wide, want)
    (back,) = call(one_op("cast", ("float32",), "float16"), h.shape, [wide])
    assert same_bits(back, h)
