"""Sums of many lanes in few registers: down columns in strips, along rows in parts. Bits do not hang on the vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.conftest import Some
from tests.kernel.support import ND, RUNNABLE, alike, call, empty_outs, same_bits
from tilewise.backend.llvm.call.compiled import Compiled
from tilewise.backend.llvm.compile.cpu import host_machine, level
from tilewise.backend.llvm.loops import strips
from tilewise.kernel import interpret
from tilewise.kernel.loops import Instr, Kernel, Output

HERE = host_machine()
SHAPES = [(32, 33), (35, 34), (63, 129), (70, 513), (131, 1025), (4133, 35), (40, 4099)]
OUTPUTS: dict[str, tuple[Output, ...]] = {
    "sum": (Output(2, "add"),),
    "several": (Output(0, "add"), Output(2, "maximum"), Output(1, "add"), Output(2, "multiply"), Output(2, "add")),
    "beside what is stored": (Output(2), Output(2, "minimum"), Output(0, "add")),
}


def product(dtype: str, outputs: tuple[Output, ...], reduced: tuple[bool, bool]) -> Kernel:
    return Kernel((dtype, dtype), (), (Instr("multiply", (0, 1), dtype),), outputs, reduced)


def inputs(dtype: str, shape: tuple[int, int], wide: bool) -> list[ND]:
    """Whole numbers, whose sums are exact; products of them are of ones."""
    rng = np.random.default_rng(shape[0])
    numbers = rng.integers(-3, 4, shape).astype(dtype)
    return [numbers, np.where(rng.random((1, shape[1]) if wide else (shape[0], 1)) < 0.5, 1, -1).astype(dtype)]


@pytest.mark.quick_code
@pytest.mark.parametrize("reduced", [(True, False), (False, True)], ids=["down", "along"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int8", "complex128"])
@pytest.mark.parametrize("name", OUTPUTS)
def test_values(name: str, dtype: str, reduced: tuple[bool, bool], some: Some) -> None:
    outputs = OUTPUTS[name]
    if dtype.startswith("complex"):
        outputs = tuple(o for o in outputs if o.reduce not in ("maximum", "minimum"))
    kernel = product(dtype, outputs, reduced)
    for shape in some(SHAPES):
        for wide in (True, False):
            given = inputs(dtype, shape, wide)
            want = empty_outs(kernel, shape)
            interpret.run(kernel, shape, given, (), want)
            for width in some(RUNNABLE):
                got = call(kernel, shape, given, width=width)
                for output, g, w in zip(kernel.outputs, got, want, strict=True):
                    if output.reduce == "multiply":  # grows beyond what is exact
                        np.testing.assert_allclose(g, w, rtol=1e-3)
                    else:
                        assert np.array_equal(g, w), (shape, wide, width, output)


@pytest.mark.quick_code
@pytest.mark.parametrize("op", ["argmin", "argmax"])
def test_positions(op: str) -> None:
    kernel = Kernel(("float64",), (), (), (Output(0, op), Output(0, "add")), (True, False))
    for shape in SHAPES:
        x = np.random.default_rng(1).integers(-9, 9, shape).astype(float)
        for width in RUNNABLE:
            place, total = call(kernel, shape, [x], width=width)
            assert np.array_equal(place, getattr(x, op)(0)) and np.array_equal(total, x.sum(0)), (shape, width)


@pytest.mark.parametrize("reduced", [(True, False), (False, True)], ids=["down", "along"])
def test_the_same_bits_by_strips_and_panels(reduced: tuple[bool, bool], monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = product("float64", OUTPUTS["several"], reduced)
    rng = np.random.default_rng(2)
    for shape in SHAPES:
        given = [rng.normal(size=shape), rng.normal(size=shape)]
        found: list[list[Any]] = []
        for rows in (0, 1, strips.TOGETHER, strips.CHUNK_ROWS):
            monkeypatch.setattr(strips, "rows_at_a_time", lambda *_, rows=rows: rows)
            for width in alike(None):
                outs = empty_outs(kernel, shape)
                Compiled(kernel, host_machine() if width is None else level(width))(shape, given, (), outs)
                found.append(outs)
        for other in found[1:]:
            assert all(same_bits(a, b) for a, b in zip(found[0], other, strict=True)), shape


def test_where_registers_do_better() -> None:
    """Few columns, few rows; and what is too wide for one strip takes several rows at a time."""
    one, many = (product("float64", OUTPUTS[name], (True, False)) for name in ("sum", "several"))
    assert [
        strips.rows_at_a_time(one, *shape, near=False, machine=HERE) for shape in [(1000, 8), (10, 1000), (1000, 50)]
    ] == [
        0,
        0,
        1,
    ]
    assert [strips.rows_at_a_time(one, rows, 50, near=True, machine=HERE) for rows in (1000, 2000)] == [0, 1]
    assert (
        strips.rows_at_a_time(one, 1000, 513, near=True, machine=HERE) == strips.TOGETHER
        and strips.rows_at_a_time(many, 1000, 512, near=True, machine=HERE) > 1
    )
    whole = strips.CHUNK_ROWS if HERE.by_lane else 1
    assert [strips.rows_at_a_time(many, 1000, n, near=False, machine=HERE) for n in (50, 129)] == [
        whole,
        strips.TOGETHER,
    ]
    truth = Kernel(("bool",), (), (), (Output(0, "logical_or"),), (True, False))
    assert [strips.rows_at_a_time(truth, 1000, n, near=False, machine=HERE) for n in (100, 200, 5000)] == [
        0,
        1,
        strips.TOGETHER,
    ]


def test_truth_values() -> None:
    kernel = Kernel(("bool",), (), (), (Output(0, "logical_or"), Output(0, "logical_and")), (True, False))
    for shape in ((40, 300), (33, 5001)):
        x = np.random.default_rng(3).random(shape) < 0.05
        for width in RUNNABLE:
            some, all_ = call(kernel, shape, [x], width=width)
            assert np.array_equal(some, x.any(0)) and np.array_equal(all_, x.all(0)), (shape, width)
