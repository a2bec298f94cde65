"""The vector math: errors in ulp against extended precision, and special values against NumPy and SciPy."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from tests.kernel import ulps
from tests.kernel.support import WIDTHS, awkward, call, one_op, pairs, same_bits
from tilewise.backend.llvm.math.table import FOREIGN, MATH
from tilewise.kernel import interpret
from tilewise.kernel.loops import Instr, Kernel, Output

SAMPLES = 1500
SLACK_ULP = 0.3  # other samples than the document's may find a little more


@pytest.mark.parametrize("dtype", ulps.DTYPES)
@pytest.mark.parametrize("fn", ulps.functions())
def test_error(fn: str, dtype: str) -> None:
    error = ulps.measure(fn, dtype, SAMPLES, seed=1)
    assert error <= min(ulps.LIMIT_ULP, ulps.documented()[fn, dtype] + SLACK_ULP)


def test_every_function_is_documented() -> None:
    table = ulps.documented()
    assert sorted(table) == sorted((fn, dtype) for fn in ulps.functions() for dtype in ulps.DTYPES)
    assert all(error <= ulps.LIMIT_ULP for error in table.values())
    assert set(ulps.functions()) == set(MATH) - FOREIGN - {"float_power"}  # power by another name


def test_powers_of_ten_have_whole_logarithms() -> None:
    n = np.arange(-300, 300)
    x = np.array([float(f"1e{k}") for k in n])
    (got,) = call(one_op("log10", ("float64",), "float64"), x.shape, [x])
    assert (got == n).all()


@pytest.mark.parametrize("width", WIDTHS)
def test_quarter_turns(width: int | None) -> None:
    """Where a sine is largest it is one, and no sine is larger."""
    k = np.arange(-101, 102, 2)
    x = k * (np.pi / 2)
    sine = one_op("sin", ("float64",), "float64")
    assert (call(sine, x.shape, [x], width=width)[0] == (2 - k % 4)).all()
    near = (x[:, None] + np.linspace(-1e-7, 1e-7, 501)).ravel()
    assert (np.abs(call(sine, near.shape, [near], width=width)[0]) <= 1).all()


@pytest.mark.quick_code
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", ulps.DTYPES)
@pytest.mark.parametrize("fn", sorted(ulps.functions()))
def test_special_values(fn: str, dtype: str, width: int | None) -> None:
    args = list(pairs(dtype)) if fn in ulps.TWO else [awkward(dtype)]
    if fn == "gammaln":  # SciPy's is inf where gamma overflows
        args = [a[~(np.abs(a) < np.finfo(dtype).tiny) | (a == 0)] for a in args]
    kernel = one_op(fn, (dtype,) * len(args), dtype)
    (got,) = call(kernel, args[0].shape, args, width=width)
    want = np.empty_like(args[0])
    interpret.run(kernel, args[0].shape, args, (), [want])
    special = ~np.isfinite(want) | (want == 0)
    wrong = special & ~((got == want) & (np.signbit(got) == np.signbit(want)) | np.isnan(got) & np.isnan(want))
    assert not wrong.any(), [a[wrong] for a in [*args, got, want]]
    finite = ~special
    np.testing.assert_allclose(
        got[finite], want[finite], rtol=100 * np.finfo(dtype).eps, atol=float(np.finfo(dtype).tiny) / 1e6
    )


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", [*ulps.DTYPES, "float16"])
def test_functions_called_often_have_the_same_bits(dtype: str, width: int | None) -> None:
    x = awkward(dtype)
    for fn in ("exp", "sin", "power"):
        args = (0, 0) if fn == "power" else (0,)
        once = Kernel((dtype,), (), (Instr(fn, args, dtype),), (Output(1),), (False,))
        often = Kernel((dtype,), (), (Instr(fn, args, dtype),) * 4, tuple(Output(1 + i) for i in range(4)), (False,))
        (want,) = call(once, x.shape, [x], width=width)
        assert all(same_bits(got, want) for got in call(often, x.shape, [x], width=width))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("exponent", [1.5, -1.5])
def test_known_halves_of_exponents(exponent: float, width: int | None) -> None:
    """By roots: within an ulp, with NumPy's special values; a lane has the same bits whatever is beside it."""
    rng = np.random.default_rng(5)
    limits = [2.0**k * s for k in (-600, 600) for s in (1 - 2**-53, 1.0, 1 + 2**-52, 1 + 2**-20, 1 + 2**-19)]
    near, far = rng.uniform(0.5, 2.0, 2000), np.ldexp(rng.uniform(1.0, 2.0, 1000), rng.integers(-1070, 1023, 1000))
    x = np.concatenate([near, far, limits, awkward("float64"), near[:7]])
    kernel = Kernel(
        ("float64",),
        (),
        (Instr(f"const:{exponent!r}", (), "float64"), Instr("power", (0, 1), "float64")),
        (Output(2),),
        (False,),
    )
    (got,) = call(kernel, x.shape, [x], width=width)
    with np.errstate(all="ignore"):
        want = np.power(x, exponent)
    special = ~np.isfinite(want) | (want == 0)
    assert np.array_equal(got[special], want[special], equal_nan=True)
    assert np.array_equal(np.signbit(got[special & (want == 0)]), np.signbit(want[special & (want == 0)]))
    with mpmath.workprec(200):
        exact = [mpmath.mpf(v) ** mpmath.mpf(exponent) for v in x[~special].tolist()]
        errors = [abs(mpmath.mpf(g) - e) for g, e in zip(got[~special].tolist(), exact, strict=True)]
    ulp = np.spacing(np.abs(want[~special]))
    moderate = (x[~special] >= 2.0**-600) & (x[~special] <= 2.0**600)
    relative = np.array([float(e / mpmath.mpf(u)) for e, u in zip(errors, ulp.tolist(), strict=True)])
    assert relative[moderate].max() < 0.51 and relative.max() <= ulps.LIMIT_ULP
    for start in (1, 2, 3):
        (moved,) = call(kernel, x[start:].shape, [x[start:].copy()], width=width)
        assert same_bits(moved, got[start:])
    often = Kernel(
        ("float64",),
        (),
        (kernel.body[0], *[kernel.body[1]] * 4),
        tuple(Output(2 + i) for i in range(4)),
        (False,),
    )
    assert all(same_bits(each, got) for each in call(often, x.shape, [x], width=width))
