"""Inputs that are fetched ahead: which they are, and that nothing but time hangs on it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import tilewise as tw
from tests.conftest import Retune
from tests.kernel.guards import guarded
from tests.kernel.support import ND, RUNNABLE, empty_outs
from tilewise.backend.llvm.call import compiled, tile_walk
from tilewise.backend.llvm.call.compiled import Compiled
from tilewise.backend.llvm.call.prepare import Preparer
from tilewise.backend.llvm.compile.build import listing
from tilewise.backend.llvm.compile.cpu import host_machine, level
from tilewise.kernel.loops import Instr, Kernel, Output
from tilewise.tuning import tuned

FORGETFUL = replace(host_machine(), follows=False)
MANY = tuned().fetch_at_bytes // 8 + 1000  # float64


def product(reduced: tuple[bool, ...] = (False, True), fn: str = "multiply") -> Kernel:
    """Sums of products (or of something else)."""
    return Kernel(("float64", "float64"), (), (Instr(fn, (0, 1), "float64"),), (Output(2, "add"),), reduced)


def fetches(kernel: Kernel, shape: tuple[int, ...], inputs: list[ND]) -> int:
    """How many prefetches the code has."""
    made = Preparer(kernel, FORGETFUL).prepare(shape, [*inputs, *empty_outs(kernel, shape)])
    return listing(made.code)[0].count("call void @llvm.prefetch")


def test_which_inputs() -> None:
    matrix, vector = np.zeros((MANY // 100, 100)), np.zeros((1, 100))
    shape = matrix.shape
    once = fetches(product(), shape, [matrix, vector])
    assert once > 0, "a large matrix, whose rows follow each other"
    assert fetches(product(), shape, [matrix, matrix]) == 2 * once
    few = matrix[: MANY // 200]
    assert not fetches(product(), few.shape, [few, vector]), "the caches hold it"
    wide = np.zeros((MANY // 100, 200))[:, :100]
    assert not fetches(product(), shape, [wide, vector]), "what is ahead is not read"
    assert not fetches(product((True, False)), shape, [matrix, vector]), "in panels of columns"
    assert not fetches(product(fn="power"), shape, [matrix, vector]), "it does not wait for memory"


@pytest.mark.quick_code
@pytest.mark.parametrize("width", RUNNABLE)
@pytest.mark.parametrize("shape", [(1, 5), (3, 50), (40, 33), (7, 512), (5, 513), (3, 5000), (1, 70_000)])
def test_the_same_bits_up_to_the_last_page(shape: tuple[int, int], width: int | None, retune: Retune) -> None:
    matrix = guarded(shape, "float64", (shape[1] * 8, 8), "right")
    matrix[...] = np.random.default_rng(5).normal(size=shape)
    vector = guarded((1, shape[1]), "float64", (0, 8), "right")
    vector[...] = np.random.default_rng(6).normal(size=(1, shape[1]))
    machine = FORGETFUL if width is None else replace(level(width), follows=False)
    for kernel in (product(), product((True, True))):
        found = []
        for least in (tuned().fetch_at_bytes, 0):
            retune(fetch_at_bytes=least)
            outs = empty_outs(kernel, shape)
            Compiled(kernel, machine)(shape, [matrix, vector], [], outs)
            found.append(outs[0].tobytes())
        assert found[0] == found[1]


def test_on_tiles_what_is_read_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """a.T @ (a @ v): the first product reads a tile of `a` from memory, the second from the caches."""
    calls: list[tile_walk.Call] = []
    init = tile_walk.Walk.__init__

    def noted(
        self: tile_walk.Walk, n: int, chunks: int, stretches: list[tile_walk.Stretch], layout: tile_walk.Scratch
    ) -> None:
        calls.extend(stretches[0].calls)
        init(self, n, chunks, stretches, layout)

    monkeypatch.setattr(tile_walk.Walk, "__init__", noted)
    monkeypatch.setattr(compiled, "host_machine", lambda: FORGETFUL)
    monkeypatch.setattr(compiled, "compile", cache(compiled.compile.__wrapped__))
    a, v = tw.asarray(np.ones((MANY // 500, 1000))), tw.asarray(np.ones(1000))
    with tw.config(eager_bytes=0):
        (a.T @ (a @ v)).compute()
    found = [(c.tree[0], "call void @llvm.prefetch" in listing(c.code)[0]) for c in calls if c.tree is not None]
    assert found == [("rows", True), ("columns", False)]
