"""Iteration spaces: sizes, strides, orders, broadcasting, aliasing; nothing compiled twice."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import Retune
from tests.kernel.support import ND, WIDTHS, call, one_op, same_bits
from tilewise.backend import llvm, threads
from tilewise.kernel import interpret
from tilewise.kernel.loops import Instr, Kernel, Output

AXPY = Kernel(
    ("float64", "float64"), ("float64",),
    (Instr("multiply", (0, 2), "float64"), Instr("add", (3, 1), "float64"), Instr("less", (0, 1), "bool")),
    (Output(4), Output(5)), (False, False),
)  # fmt: skip


def of_rank(rank: int) -> Kernel:
    return Kernel(AXPY.inputs, AXPY.params, AXPY.body, AXPY.outputs, (False,) * rank)


def check(kernel: Kernel, shape: tuple[int, ...], inputs: list[ND], params: list[Any], width: int | None) -> None:
    got = call(kernel, shape, inputs, params, width=width)
    want = [np.empty(g.shape, g.dtype) for g in got]
    interpret.run(kernel, shape, inputs, params, want)
    for g, w in zip(got, want, strict=True):
        assert same_bits(g, w), (shape, [a.strides for a in inputs], width)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 1000, 4099])
def test_sizes(n: int, width: int | None) -> None:
    x, y = np.random.default_rng(n).normal(size=(2, n))
    check(of_rank(1), (n,), [x, y], [2.5], width)


@pytest.mark.parametrize("width", WIDTHS)
def test_zero_dimensional(width: int | None) -> None:
    check(of_rank(0), (), [np.array(3.0), np.array(-1.0)], [0.5], width)


def views(rows: int, columns: int) -> list[ND]:
    rng = np.random.default_rng(rows)
    big = rng.normal(size=(3 * rows, 3 * columns))
    return [
        rng.normal(size=(rows, columns)),
        np.asfortranarray(rng.normal(size=(rows, columns))),
        big[::3, ::3],
        big[:rows, :columns],
        big[rows - 1 :: -1, columns - 1 :: -1],
        big[:rows, :columns][:, ::-1],
        rng.normal(size=(columns,)),
        rng.normal(size=(1, columns)),
        rng.normal(size=(rows, 1)),
        np.array(1.25),
        np.broadcast_to(rng.normal(size=(rows, 1)), (rows, columns)),
    ]


@pytest.mark.parametrize("width", [None, 16, 0])
@pytest.mark.parametrize(("rows", "columns"), [(5, 7), (40, 70), (3, 130), (100, 3)])
def test_views(rows: int, columns: int, width: int | None) -> None:
    for x, y in itertools.product(views(rows, columns), repeat=2):
        check(of_rank(2), (rows, columns), [x, y], [0.1], width)


@pytest.mark.parametrize(("rows", "columns"), [(40, 70), (3, 1300), (1300, 3), (5, 1100)])
def test_views_in_parts(rows: int, columns: int, retune: Retune) -> None:
    """Small work cut among many threads all the same, along every dim."""
    retune(split_at_ns=0, part_ns=1)
    before = threads.get_threads()
    threads.set_threads(5)
    try:
        for x, y in itertools.product(views(rows, columns), repeat=2):
            check(of_rank(2), (rows, columns), [x, y], [0.1], None)
            check(of_rank(2), (columns, rows), [_flipped(x), _flipped(y)], [0.1], None)
    finally:
        threads.set_threads(before)


def _flipped(a: ND) -> ND:
    """What broadcasts to the transposed space."""
    return a[:, None] if a.ndim == 1 else a.T


def test_no_inputs() -> None:
    fill = Kernel((), ("float32",), (), (Output(0),), (False, False))
    assert (call(fill, (5, 40), [], [2.5])[0] == 2.5).all()
    count = Kernel((), (), (Instr("const:1", (), "int64"),), (Output(0, "add"),), (True, False))
    assert (call(count, (700, 3), [])[0] == 700).all()


def test_no_outputs() -> None:
    call(Kernel(("float64",), (), (), (), (False,)), (5,), [np.ones(5)])


@pytest.mark.parametrize("dtype", ["int8", "bool", "float32", "uint16"])
@pytest.mark.parametrize("width", WIDTHS)
def test_strided_narrow_dtypes(dtype: str, width: int | None) -> None:
    base = np.random.default_rng(0).integers(0, 100, (90, 110)).astype(dtype)
    kernel = one_op("maximum", (dtype, dtype), dtype, rank=2)
    out = np.zeros((90, 110), dtype)[::2, ::2]
    call(kernel, (45, 55), [base[::2, ::2], base[::-2, ::-2]], outs=[out], width=width)
    assert same_bits(out, np.maximum(base[::2, ::2], base[::-2, ::-2]))


@pytest.mark.parametrize("width", WIDTHS)
def test_output_views(width: int | None) -> None:
    x, y = np.random.default_rng(0).normal(size=(2, 33, 65))
    kernel = one_op("add", ("float64", "float64"), "float64", rank=2)
    for make in (
        lambda: np.zeros((33, 65), order="F"),
        lambda: np.zeros((66, 130))[::2, ::2],
        lambda: np.zeros((40, 100))[3:36, 10:75],
        lambda: np.zeros((33, 65))[::-1, ::-1],
    ):
        out = make()
        call(kernel, (33, 65), [x, y], outs=[out], width=width)
        assert same_bits(np.ascontiguousarray(out), x + y)


def test_neighbours_of_an_output_are_not_touched() -> None:
    kernel = one_op("negative", ("float64",), "float64")
    for n in range(70):
        out = np.full(100, 7.0)
        call(kernel, (n,), [np.arange(float(n))], outs=[out[5 : 5 + n]])
        assert (out[:5] == 7).all() and (out[5 + n :] == 7).all()


@pytest.mark.parametrize("count", [1, 2, 5])
def test_in_place(count: int) -> None:
    before = threads.get_threads()
    threads.set_threads(count)
    try:
        x = np.random.default_rng(0).normal(size=300_001)
        want = x + x
        call(one_op("add", ("float64", "float64"), "float64"), x.shape, [x, x], outs=[x])
        assert same_bits(x, want)
        grid = np.random.default_rng(0).normal(size=(300, 400))
        want = grid[1:-1, 2:-2] * 2.0
        inner = grid[1:-1, 2:-2]
        call(one_op("add", ("float64", "float64"), "float64", 2), inner.shape, [inner, inner], outs=[inner])
        assert same_bits(np.ascontiguousarray(inner), want)
    finally:
        threads.set_threads(before)


def test_three_dims_any_order() -> None:
    rng = np.random.default_rng(0)
    base = rng.normal(size=(6, 7, 9))
    for order in itertools.permutations(range(3)):
        shape = tuple(base.shape[i] for i in np.argsort(order))
        x = base.transpose(np.argsort(order))
        y = rng.normal(size=shape)
        out = np.empty(base.shape).transpose(np.argsort(order))
        call(one_op("subtract", ("float64", "float64"), "float64", 3), shape, [x, y], outs=[out])
        assert (out == x - y).all()


@given(st.data())
def test_any_space(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(0, 9), max_size=4)))
    rng = np.random.default_rng(0)

    def operand() -> ND:
        keep = data.draw(st.integers(0, len(shape)))
        own = tuple(1 if data.draw(st.booleans()) else n for n in shape[len(shape) - keep :])
        steps = [data.draw(st.sampled_from([1, 1, 2, -1])) for _ in own]
        order = data.draw(st.permutations(range(len(own))))
        memory = (
            rng.normal(size=[2 * own[i] for i in order]).transpose(np.argsort(order)) if own else rng.normal(size=())
        )
        index = tuple(slice(None, None, s) for s in steps)
        return np.asarray(memory[index][tuple(slice(0, n) for n in own)])

    check(of_rank(len(shape)), shape, [operand(), operand()], [1.5], data.draw(st.sampled_from([None, 0])))


def test_nothing_is_compiled_twice() -> None:
    kernel = of_rank(2)
    rng = np.random.default_rng(0)
    for turn in range(2):
        before = llvm.compiled_count()
        for n in (10, 11, 1000):
            x, y = rng.normal(size=(2, n, n + turn))
            check(kernel, x.shape, [x, y], [float(n)], None)
            check(kernel, x.shape, [x, y[:1]], [float(n)], None)
        if turn:
            assert llvm.compiled_count() == before


def test_large_arrays_at_any_alignment() -> None:
    """Streaming stores need aligned memory; what is not aligned must come out the same."""
    n = 5_000_000
    memory = np.zeros(n + 64, np.float32)
    x = np.random.default_rng(0).random(n, dtype=np.float32)
    kernel = one_op("add", ("float32", "float32"), "float32")
    for shift in (0, 1, 5, 16):
        memory[:] = 7
        out = memory[shift : shift + n]
        call(kernel, (n,), [x, x], outs=[out])
        assert (out == x + x).all()
        assert (memory[:shift] == 7).all() and (memory[shift + n :] == 7).all()
