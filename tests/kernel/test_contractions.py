"""Contractions in register tiles: any two operations, shapes around the tiles, orders in memory, threads, widths."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest

from tests.conftest import Retune
from tests.kernel.support import ND, WIDTHS, alike, call, empty_outs, meaning, numbers, same_bits
from tilewise.backend import threads
from tilewise.backend.llvm.call import prepare
from tilewise.backend.llvm.call.packing import packed
from tilewise.backend.llvm.compile import cpu
from tilewise.backend.llvm.loops.geometry import Pack
from tilewise.kernel.loops import Instr, Kernel, Output

SHAPES = [
    (1, 4, 2),
    (2, 4, 3),
    (3, 5, 17),
    (17, 4, 16),
    (5, 64, 50),
    (33, 70, 33),
    (100, 9, 4),
    (8, 300, 2),
    (4, 4, 900),
]


@pytest.fixture(autouse=True)
def same_threads_after() -> Iterator[None]:
    before = threads.get_threads()
    yield
    threads.set_threads(before)


def product(inside: str, outside: str, dtype: str = "float64") -> Kernel:
    """(i, k, d) -> (i, k): `outside` over d of x[i, d] `inside` c[k, d]."""
    body = (Instr(inside, (0, 1), dtype),)
    return Kernel((dtype, dtype), (), body, (Output(2, outside),), (False, False, True))


DISTANCES = Kernel(
    ("float64", "float64"), (), (Instr("subtract", (0, 1), "float64"), Instr("multiply", (2, 2), "float64")),
    (Output(3, "add"),), (False, False, True),
)  # fmt: skip


def is_contraction(kernel: Kernel, shape: tuple[int, ...], inputs: list[ND]) -> bool:
    """Whether register tiles are what runs."""
    preparer = prepare.Preparer(kernel, cpu.host_machine())
    strides = preparer._strides(shape, [*inputs, *empty_outs(kernel, shape)])
    return preparer._nest(shape, strides, []).form == "contract"


def operands(i: int, k: int, d: int, dtype: str = "float64") -> list[ND]:
    return [numbers(dtype, (i, 1, d)), numbers(dtype, (k, d), seed=1)]


def orders(x: ND) -> list[ND]:
    return [x, np.asfortranarray(x), np.repeat(x, 2, -1)[..., ::2], x[..., ::-1], x[::-1]]


def test_which_kernels_are_contractions() -> None:
    assert is_contraction(DISTANCES, (100, 64, 50), operands(100, 64, 50))
    x = np.ones((100, 64, 50))
    assert not is_contraction(DISTANCES, x.shape, [x, x[0]])  # reads x once: nothing is used twice


@pytest.mark.quick_code
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(shape: tuple[int, int, int], width: int | None) -> None:
    inputs = operands(*shape)
    for kernel in (DISTANCES, product("add", "minimum"), product("minimum", "maximum")):
        (got,), (want,) = call(kernel, shape, inputs, width=width), meaning(kernel, shape, inputs)
        assert same_bits(got, want)  # whole numbers: no rounding


@pytest.mark.quick_code
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", ["float32", "int8", "uint16", "int32", "int64", "bool"])
def test_dtypes(dtype: str, width: int | None) -> None:
    shape = (37, 41, 29)
    inputs = operands(*shape, dtype=dtype)
    pairs = [("logical_and", "logical_or")] if dtype == "bool" else [("multiply", "add"), ("maximum", "minimum")]
    for inside, outside in pairs:
        kernel = product(inside, outside, dtype)
        (got,), (want,) = call(kernel, shape, inputs, width=width), meaning(kernel, shape, inputs)
        assert same_bits(got, want)


@pytest.mark.parametrize("width", [None, 16])
def test_orders_in_memory(width: int | None) -> None:
    shape = (21, 35, 19)
    x, c = operands(*shape)
    for a, b in itertools.product(orders(x), orders(c)):
        for out in (np.empty((21, 35)), np.empty((21, 35), order="F"), np.empty((42, 70))[::2, ::-2]):
            call(DISTANCES, shape, [a, b], outs=[out], width=width)
            assert same_bits(np.ascontiguousarray(out), meaning(DISTANCES, shape, [a, b])[0])


def test_in_batches_and_over_two_dims() -> None:
    rng = np.random.default_rng(0)
    batch, i, k, d = 3, 20, 30, 7
    x, c = rng.normal(size=(batch, i, 1, d)), rng.normal(size=(batch, 1, k, d))
    kernel = Kernel(DISTANCES.inputs, (), DISTANCES.body, DISTANCES.outputs, (False, False, False, True))
    np.testing.assert_allclose(call(kernel, (batch, i, k, d), [x, c])[0], ((x - c) ** 2).sum(-1), rtol=1e-13)
    kernel = Kernel(DISTANCES.inputs, (), DISTANCES.body, DISTANCES.outputs, (True, False, False, True))
    np.testing.assert_allclose(call(kernel, (batch, i, k, d), [x, c])[0], ((x - c) ** 2).sum((0, 3)), rtol=1e-13)


@pytest.mark.quick_code
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", ["int8", "bool", "uint16"])
def test_narrow_outputs_in_any_order(dtype: str, width: int | None) -> None:
    shape = (21, 70, 9)
    inputs = operands(*shape, dtype=dtype)
    kernel = product("logical_and", "logical_or", "bool") if dtype == "bool" else product("multiply", "add", dtype)
    for out in (np.empty((21, 70), dtype, order="F"), np.empty((21, 140), dtype)[:, ::-2]):
        call(kernel, shape, inputs, outs=[out], width=width)
        assert same_bits(np.ascontiguousarray(out), meaning(kernel, shape, inputs)[0])


@pytest.mark.parametrize("width", WIDTHS)
def test_with_params_weights_and_two_outputs(width: int | None) -> None:
    rng = np.random.default_rng(0)
    x, c, w, s = rng.normal(size=(40, 1, 9)), rng.normal(size=(24, 9)), rng.normal(size=9), rng.normal(size=(24, 1))
    kernel = Kernel(
        ("float64",) * 4, ("float64",),
        (Instr("subtract", (0, 1), "float64"), Instr("absolute", (5,), "float64"), Instr("multiply", (6, 2), "float64"),
         Instr("multiply", (7, 3), "float64"), Instr("add", (8, 4), "float64")),
        (Output(8, "add"), Output(9, "maximum")), (False, False, True),
    )  # fmt: skip
    total, most = call(kernel, (40, 24, 9), [x, c, w, s], [0.5], width=width)
    want = np.abs(x - c) * w * s
    np.testing.assert_allclose(total, want.sum(-1), rtol=1e-12, atol=1e-13)
    assert same_bits(most, (want + 0.5).max(-1))


@pytest.mark.parametrize("shape", [(60, 40, 50), (5, 9, 3000), (700, 4, 3)])
def test_same_bits_for_any_threads_and_width(shape: tuple[int, int, int], retune: Retune) -> None:
    retune(split_at_ns=0, part_ns=1)
    rng = np.random.default_rng(0)
    i, k, d = shape
    inputs = [rng.normal(size=(i, 1, d)), rng.normal(size=(k, d))]
    results = []
    for count in (1, 2, 5):
        threads.set_threads(count)
        results += call(DISTANCES, shape, inputs)
    results += [call(DISTANCES, shape, inputs, width=w)[0] for w in alike(None)]
    assert all(same_bits(results[0], other) for other in results[1:])


@pytest.mark.parametrize("d", [50, 1000, 40_000])
def test_sums_as_good_as_pairwise(d: int) -> None:
    rng = np.random.default_rng(0)
    x, c = rng.normal(size=(6, 1, d)).astype(np.float32), rng.normal(size=(5, d)).astype(np.float32)
    kernel = product("multiply", "add", "float32")
    (got,) = call(kernel, (6, 5, d), [x, c])
    terms = x.astype(np.float64) * c
    exact = np.array([[math.fsum(t) for t in row] for row in terms])
    bound = (24 + math.log2(d)) * np.finfo(np.float32).eps / 2 * np.abs(terms).sum(-1)
    assert (np.abs(got - exact) <= bound).all()


def test_nan_and_infinity_stay_in_their_cells() -> None:
    x, c = operands(20, 30, 10)
    x[3, 0, 4], c[7, 2], c[9, 1] = np.nan, np.inf, -np.inf
    for kernel in (DISTANCES, product("add", "minimum"), product("multiply", "add")):
        assert same_bits(call(kernel, (20, 30, 10), [x, c])[0], meaning(kernel, (20, 30, 10), [x, c])[0])


def test_panels_of_a_part_of_an_array() -> None:
    whole = np.arange(200.0).reshape(10, 20)
    part = whole[2:, 3:]
    pack = Pack(0, (5, 8, 4), (32, 160, 8), 17)  # the last panel has one lane
    panels = packed(whole, pack, 2 * 160 + 3 * 8)
    np.testing.assert_array_equal(panels.transpose(1, 0, 2).reshape(8, 20)[:, :17], part)
    assert not panels[-1, :, 1:].any()
    np.testing.assert_array_equal(panels, packed(part, pack))
