"""Chunks of tiles handed out by native code: each once, whoever takes it; long runs ask Python between chunks."""

from __future__ import annotations

import numpy as np
import pytest

import tilewise as tw
from tests.conftest import Retune
from tilewise.backend.llvm.call import parallel_for


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many parts each run by native code has."""
    found: list[int] = []
    real = parallel_for.Parts.run

    def run(self: parallel_for.Parts, operands: object) -> None:
        found.append(self._count)
        real(self, operands)  # type: ignore[arg-type]

    monkeypatch.setattr(parallel_for.Parts, "run", run)
    return found


@pytest.mark.parametrize("brief", [1e9, 0.0])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_chunks_of_tiles(brief: float, count: int, runs: list[int], retune: Retune) -> None:
    """The first run is by Python; if it was short, those that follow are not."""
    retune(walk_brief_s=brief)
    rng = np.random.default_rng(2)
    rows = 701 + 2 * count + bool(brief)  # tiles of their own for each test: a plan remembers its last run
    a, v = rng.normal(size=(rows, 300)), rng.normal(size=300)
    x, y = tw.asarray(a), tw.asarray(v)
    with tw.config(eager_bytes=0, threads=count, tile=16, tune=False):
        program = [(x.T @ (x @ y)).compute().tobytes() for _ in range(4)]
    with tw.config(eager_bytes=0, threads=1, tile=16, tune=False):
        alone = (x.T @ (x @ y)).compute()
    assert {*program} == {alone.tobytes()}
    np.testing.assert_allclose(alone, a.T @ (a @ v), rtol=1e-12)
    chunks = [n for n in runs if n == 32]
    assert bool(chunks) == bool(brief)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_every_chunk_once(count: int, runs: list[int], retune: Retune) -> None:
    """Sums of ones: a chunk that ran twice, or not at all, would show. The last tile is shorter than the others."""
    retune(walk_brief_s=1e9)
    x = tw.asarray(np.ones((1000 + count, 30)))
    with tw.config(eager_bytes=0, threads=count, tile=7, tune=False):
        for _ in range(10):
            e = x * 2
            total = ((e - e.max(1, keepdims=True) + 1) * e).sum(0)
            assert (total.compute() == 2 * (1000 + count)).all()
    assert runs and set(runs) == {32}
