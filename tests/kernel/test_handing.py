"""Parts handed out by native code: each once, whoever takes it; long runs ask Python between parts."""

from __future__ import annotations

import numpy as np
import pytest

import tilewise as tw
from tests.kernel.support import empty_outs, one_op, reduction
from tilewise.target import threads
from tilewise.target.llvm import cutting, handing, prepare, tiles
from tilewise.target.llvm.cpu import host_machine
from tilewise.target.llvm.launch import Compiled


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many parts each run by native code has."""
    found: list[int] = []
    real = handing.Parts.run

    def run(self: handing.Parts, operands: object) -> None:
        found.append(self._count)
        real(self, operands)  # type: ignore[arg-type]

    monkeypatch.setattr(handing.Parts, "run", run)
    return found


@pytest.mark.parametrize("count", [2, 3, 7])
def test_every_part_of_a_launch_once(count: int, runs: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cutting, "SPLIT_AT_NS", 0)
    monkeypatch.setattr(cutting, "PART_NS", 100)
    x = np.arange(200_000.0)
    kernel = one_op("add", ("float64", "float64"), "float64")
    add = Compiled(kernel, host_machine())
    with tw.config(threads=count):
        for _ in range(20):
            total = x.copy()
            add(x.shape, [total, x], [], [total])  # in place: a part that ran twice would show
            assert np.array_equal(total, 2 * x)
    assert runs == [min(count * cutting.PARTS_PER_THREAD, 391)] * 20


def test_partial_sums_do_not_hang_on_who_adds(runs: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(1).normal(size=300_000)
    found = set()
    kernel = reduction("add", "float64", (True,))
    for least in (1e9, 0):
        monkeypatch.setattr(cutting, "SPLIT_AT_NS", least)
        for count in (2, 5):
            outs = empty_outs(kernel, x.shape)
            with tw.config(threads=count):
                Compiled(kernel, host_machine())(x.shape, [x], [], outs)
            found.add(outs[0].tobytes())
    assert len(found) == 1 and len(runs) == 2


def test_a_long_launch_comes_back_to_python(runs: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "BRIEF_NS", 1)
    monkeypatch.setattr(cutting, "SPLIT_AT_NS", 0)
    x = np.ones(100_000)
    outs = [np.empty_like(x)]
    with tw.config(threads=2):
        Compiled(one_op("negative", ("float64",), "float64"), host_machine())(x.shape, [x], [], outs)
    assert not runs and (outs[0] == -1).all()


@pytest.mark.parametrize("brief", [tiles.BRIEF_S, 0.0])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_chunks_of_tiles(brief: float, count: int, runs: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """The first run is by Python; if it was short, those that follow are not."""
    monkeypatch.setattr(tiles, "BRIEF_S", brief or -1.0)
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


def test_other_launches_have_the_helpers(runs: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch inside of a launch takes all its parts itself."""
    monkeypatch.setattr(cutting, "SPLIT_AT_NS", 0)
    x = np.arange(100_000.0)
    outs = [np.empty_like(x), np.empty_like(x)]
    double = Compiled(one_op("negative", ("float64",), "float64"), host_machine())
    with tw.config(threads=2):
        threads.run(lambda i: double(x.shape, [x], [], [outs[i]]), 2)
    assert all(np.array_equal(out, -x) for out in outs)
