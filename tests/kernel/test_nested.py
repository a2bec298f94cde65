"""Kernels with a reduction inside: sums of products that never leave the registers, and what is made of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tilewise as tw
from tests.conftest import Retune
from tests.kernel.guards import guarded
from tests.kernel.support import ND, RUNNABLE
from tilewise.backend import llvm
from tilewise.backend.llvm.call import prepare
from tilewise.backend.llvm.call.compiled import Compiled
from tilewise.backend.llvm.compile.cpu import host_machine, level
from tilewise.backend.llvm.emit.bodies import vector_lanes
from tilewise.backend.llvm.products import panels
from tilewise.backend.llvm.tiles.builder import Builder
from tilewise.kernel import interpret
from tilewise.kernel.loops import Instr, Kernel, Output, nested
from tilewise.kernel.show import text

SHAPES = [
    (1, 4, 1),
    (3, 8, 5),
    (7, 13, 17),
    (50, 64, 50),
    (25, 33, 512),
    (9, 96, 4),
    (2, 5, 3),
    (13, 68, 51),
    (5, 120, 2),
]
OUTPUTS = {
    "argmin": (Output(5, "argmin"),),
    "argmax and maximum": (Output(5, "argmax"), Output(5, "maximum")),
    "stored and summed": (Output(5), Output(5, "add")),
    "stored": (Output(5),),
}


def product(dtype: str) -> Kernel:
    return Kernel((dtype, dtype), (), (Instr("multiply", (0, 1), dtype),), (Output(2, "add"),), (False, False, True))


def whole(dtype: str, outputs: str) -> Kernel:
    """row - 3 * (A @ B) + column, and what becomes of it; the product is the second of three inputs."""
    body = (Instr("multiply", (3, 1), dtype), Instr("subtract", (0, 4), dtype))
    reduced = any(o.reduce for o in OUTPUTS[outputs])
    outer = Kernel((dtype, dtype, dtype), (dtype,), body, OUTPUTS[outputs], (False, reduced))
    more = Instr("add", (5, 2), dtype)
    moved = tuple(replace(o, value=6) for o in outer.outputs)
    return nested(product(dtype), replace(outer, body=(*body, more), outputs=moved), 1)


def fits(kernel: Kernel, shape: tuple[int, int, int], width: int | None) -> bool:
    machine = host_machine() if width is None else level(width)
    lanes = vector_lanes(kernel, machine.vector_bytes)
    return panels.nested_tile(kernel, shape[2], shape[1], machine, lanes) is not None


def operands(dtype: str, shape: tuple[int, int, int], side: str) -> list[ND]:
    """Small integers, so that sums are exact, on memory that ends at a guard page."""
    rows, across, steps = shape
    found = []
    for dims in ((rows, 1, steps), (1, across, steps), (rows, 1, 1), (across, 1)):
        size = np.dtype(dtype).itemsize
        strides = tuple(int(np.prod(dims[i + 1 :])) * size for i in range(len(dims)))
        array = guarded(dims, dtype, strides, side)
        array[...] = np.random.default_rng(len(found)).integers(-4, 5, dims)
        found.append(array)
    return found


@pytest.mark.quick_code
@pytest.mark.parametrize("width", RUNNABLE)
@pytest.mark.parametrize("outputs", OUTPUTS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_as_the_interpreter_says(dtype: str, outputs: str, width: int | None) -> None:
    kernel, met = whole(dtype, outputs), 0
    for shape in SHAPES:
        if not fits(kernel, shape, width):
            continue
        met += 1
        for side in ("left", "right"):
            inputs = operands(dtype, shape, side)
            if shape[1] > 4:
                inputs[3][3] = np.nan if shape[0] % 2 else -np.inf
            results = []
            for run in (interpret.run, None):
                outs = [
                    np.empty(shape[:2] if o.reduce is None else shape[:1], t)
                    for o, t in zip(kernel.outputs, kernel.out_dtypes, strict=True)
                ]
                (run or (lambda k, *rest: llvm.compile(k, width)(*rest)))(kernel, shape, inputs, [3.0], outs)
                results.append(outs)
            for want, found in zip(*results, strict=True):
                np.testing.assert_array_equal(found, want, err_msg=f"{shape} {side}")
    assert met or width == 0


@pytest.mark.skipif(not host_machine().masked, reason="only machines with masked stores stream")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_large_results_go_past_the_caches(dtype: str, retune: Retune) -> None:
    """The first output is aligned and the second is not, unless its size is a multiple of a cache line."""
    retune(stream_at_bytes=1)
    kernel, streamed = whole(dtype, "stored"), []
    for shape in [*SHAPES, (64, 20, 50), (83, 20, 50), (16, 24, 3)]:
        if not fits(kernel, shape, None):
            continue
        for side in ("left", "right"):
            inputs = operands(dtype, shape, side)
            want, size = np.empty(shape[:2], dtype), np.dtype(dtype).itemsize
            found = guarded(shape[:2], dtype, (shape[1] * size, size), side)
            interpret.run(kernel, shape, inputs, [3.0], [want])
            compiled = Compiled(kernel, host_machine())
            compiled(shape, inputs, [3.0], [found])
            np.testing.assert_array_equal(found, want, err_msg=f"{shape} {side}")
            streamed.append(prepare.Preparer(kernel, host_machine()).prepare(shape, [*inputs, found]).streams)
        apart = np.zeros((shape[0], shape[1] + 1), dtype)
        Compiled(kernel, host_machine())(shape, inputs, [3.0], [apart[:, :-1]])
        np.testing.assert_array_equal(apart[:, :-1], want)
        assert not apart[:, -1].any()
    assert any(streamed) and not all(streamed)


def test_the_loops_as_text() -> None:
    lines = text(whole("float64", "argmin")).splitlines()
    assert any(" = add over k of " in line for line in lines) and lines[-1].startswith(
        "    out0[i] = argmin over j of "
    )


@pytest.mark.quick_code
@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("shape", [(3000, 50, 64), (3000, 50, 7), (3000, 3, 130), (5000, 600, 8), (2000, 20, 1)])
def test_products_that_a_pass_reads_are_made_inside_of_it(shape, dtype, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    rows, steps, across = shape
    rng = np.random.default_rng(1)
    X, C = rng.integers(-3, 4, (rows, steps)).astype(dtype), rng.integers(-3, 4, (across, steps)).astype(dtype)
    made: list[bool] = []
    plain = Builder._nested
    monkeypatch.setattr(
        Builder, "_nested", lambda *a: (lambda calls: (made.append(calls is not None), calls)[1])(plain(*a))
    )

    def programs(np, X, C):  # type: ignore[no-untyped-def]
        P = X @ C.T
        return (
            ((X * X).sum(1)[:, None] - 2 * P + (C * C).sum(1)).argmin(1),
            np.maximum(P + C[:, 0], 0) * X[:, :1],
            (P - 1).max(1),
        )

    for k in range(3):
        for tile in (1, 7, None):
            with tw.config(eager_bytes=0, tile=tile):
                found = programs(tw, tw.asarray(X), tw.asarray(C))[k].compute()
            want = programs(np, X, C)[k]
            assert found.dtype == want.dtype
            np.testing.assert_array_equal(found, want)
    machine = host_machine()
    if (shape == (3000, 50, 64) and machine.fuses) or (shape == (3000, 50, 7) and machine.masked):
        assert all(made) and made
    if steps > 512 or across < 4:
        assert not any(made)
