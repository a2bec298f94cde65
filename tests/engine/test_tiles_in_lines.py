"""Groups of passes that share tiles, as items of a line: walks moved onto the arrays of the line."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.engine.test_straight import lines_of
from tilewise.array.program import program_of
from tilewise.backend.llvm.call import tile_walk
from tilewise.backend.llvm.call.tile_walk import Walk
from tilewise.backend.llvm.replay.entries import Tiles
from tilewise.backend.llvm.tiles.lengths import tiling
from tilewise.stage.steps import Tiled

pytestmark = pytest.mark.usefixtures("no_plans")


@pytest.fixture(autouse=True)
def no_trials() -> None:
    """The length of tiles is settled from the first run on, however busy the machine is."""
    tw.config(tune=False)


def maxima(np: Any, x: Any) -> Any:
    """Where a number is the greatest of its neighbourhood."""
    top = x
    for axis in range(x.ndim):
        y = np.moveaxis(top, axis, 0)
        top = np.moveaxis(np.maximum(np.maximum(y[:-2], y[1:-1]), y[2:]), 0, axis)
    return x[(slice(1, -1),) * x.ndim] == top


def blurred(np: Any, x: Any) -> Any:
    rows = 0.25 * x[:-2] + 0.5 * x[1:-1] + 0.25 * x[2:]
    return 0.25 * rows[:, :-2] + 0.5 * rows[:, 1:-1] + 0.25 * rows[:, 2:]


def swept(np: Any, x: Any) -> Any:
    u = x.copy()
    for _ in range(3):
        u[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
    return u


def turned(np: Any, x: Any) -> Any:
    return blurred(np, x).T


def two(np: Any, x: Any) -> Any:
    b = blurred(np, x)
    return b, b * 2 - x[1:-1, 1:-1]


Program = Callable[[Any, Any], Any]
PROGRAMS: list[tuple[Program, tuple[int, ...]]] = [
    (maxima, (29, 29, 22, 12)),
    (maxima, (30, 21, 264)),
    (blurred, (700, 400)),
    (swept, (700, 400)),
    (turned, (500, 600)),
    (two, (700, 400)),
]


def several(made: Any) -> tuple[Any, ...]:
    return made if isinstance(made, tuple) else (made,)


def moved(f: Any) -> list[Tiles]:
    """The groups of a function's lines whose walks were moved."""
    items = [item for line in lines_of(f) for item in line._items if type(item) is Tiles]
    return [item for item in items if any(walk is not None for walk in item._walks.values())]


@pytest.mark.parametrize(("program", "shape"), PROGRAMS)
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_call_after_call_on_other_arrays(program: Program, shape: tuple[int, ...], threads: int) -> None:
    rng = np.random.default_rng(8)
    f = tw.jit(lambda x: program(np, x))
    with tw.config(threads=threads):
        for _ in range(8):
            x = rng.integers(0, 9, size=shape).astype(float)
            given = tw.asarray(x)
            found = [np.array(a) for a in several(tw.evaluate(*several(f(given))))]
            for a, b in zip(found, several(program(np, x)), strict=True):
                assert a.dtype == b.dtype and a.strides == b.strides
                np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-13)
            np.testing.assert_array_equal(np.asarray(given), x)
        assert moved(f)


SEEN: list[Callable[[Any], Any]] = [lambda w: w, lambda w: w.T, lambda w: w[3:], lambda w: w[::-1, ::2]]


@pytest.mark.parametrize("see", SEEN)
def test_panels_are_copied_anew_in_every_call(see: Callable[[Any], Any]) -> None:
    """Tiles of products share copies of the smaller matrix, which is another one each time; so in lines and without."""

    def positive(np: Any, x: Any, w: Any) -> Any:
        part = see(w)
        return np.maximum(x[:, : part.shape[0]] @ part, 0) + 1

    def check(f: Callable[[Any, Any], Any]) -> None:
        x, w = rng.normal(size=(3001, 48)), rng.normal(size=(48, 48))
        found = np.asarray(f(tw.asarray(x), tw.asarray(w)))
        np.testing.assert_allclose(found, positive(np, x, w), rtol=1e-12, atol=1e-12)

    rng, f = np.random.default_rng(3), tw.jit(lambda x, w: positive(tw, x, w))
    for _ in range(8):
        check(f)
    assert moved(f)
    with tw.config(eager_bytes=0):
        for _ in range(2):
            check(lambda x, w: positive(tw, x, w))


def test_results_of_earlier_calls_stay() -> None:
    f = tw.jit(lambda x: blurred(np, x))
    given = [np.full((700, 400), float(k)) for k in range(8)]
    made = [tw.evaluate(f(tw.asarray(x))) for x in given]
    assert moved(f)
    for x, y in zip(given, made, strict=True):
        np.testing.assert_array_equal(np.asarray(y), x[1:-1, 1:-1])


def test_other_numbers() -> None:
    """Numbers of a walk are words that are kept as long as they are the same."""
    x = np.random.default_rng(3).random((700, 400))
    f = tw.jit(lambda x, w: (w * x[:-2] + x[2:])[:, 1:] * w)
    for w in (0.5, 0.5, 0.5, 0.5, 0.25, 3.0, 3.0, np.float64(0.5), 2.0):
        found = np.asarray(tw.evaluate(f(tw.asarray(x), w)))
        np.testing.assert_allclose(found, (w * x[:-2] + x[2:])[:, 1:] * w, rtol=1e-13)


def test_numbers_that_are_shown_of_arguments() -> None:
    """They are read in each run, and the memory they are in is let go of after it."""
    rng = np.random.default_rng(3)
    f = tw.jit(lambda x: (x[0, 0] * x[:-2] + x[2:])[:, 1:] * x[0, 0])
    for _ in range(8):
        x = rng.random((700, 400))
        given = tw.asarray(x)
        found = np.asarray(tw.evaluate(f(given)))
        np.testing.assert_allclose(found, (x[0, 0] * x[:-2] + x[2:])[:, 1:] * x[0, 0], rtol=1e-13)
    memory = weakref.ref(given._nd)
    del given
    assert moved(f) and memory() is None


@pytest.mark.parametrize("count", [1, 2])
def test_an_interrupt_leaves_no_scratch_to_two_threads(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(3).random((70, 40))
    f = tw.jit(lambda x: blurred(np, x))

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with tw.config(threads=count, tile=7):
        for _ in range(6):
            f(tw.asarray(x))
        assert moved(f)
        for _ in range(2):
            with monkeypatch.context() as m, pytest.raises(KeyboardInterrupt):
                m.setattr(tile_walk._Room, "fill", interrupted)
                f(tw.asarray(x))
        idle = [id(space) for space in tile_walk._spaces]
        assert len(set(idle)) == len(idle)
        np.testing.assert_allclose(np.asarray(f(tw.asarray(x))), blurred(np, x), rtol=1e-13)


def test_words_are_laid_out_again_after_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(3).random((70, 40))
    f = tw.jit(lambda x: blurred(np, x))
    laid: list[object] = []
    lay = tile_walk.Table.lay

    def half(self: tile_walk.Table, view: memoryview[int], memory: tile_walk.Scratch) -> None:
        lay(self, view, memory)
        raise KeyboardInterrupt

    with tw.config(threads=1, tile=7):
        for _ in range(6):
            f(tw.asarray(x))
        mine = tile_walk._spaces.pop()  # somebody else has it
        with monkeypatch.context() as m, pytest.raises(KeyboardInterrupt):
            m.setattr(tile_walk.Table, "lay", half)
            f(tw.asarray(x))
        tile_walk._spaces.append(mine)
        monkeypatch.setattr(tile_walk.Table, "lay", lambda *given: (laid.append(given[2]), lay(*given)))
        np.testing.assert_allclose(np.asarray(f(tw.asarray(x))), blurred(np, x), rtol=1e-13)
    assert mine in laid


def test_other_settings_take_tiles_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(3).random((700, 400))
    f = tw.jit(lambda x: blurred(np, x))
    for _ in range(6):
        tw.evaluate(f(tw.asarray(x)))
    assert moved(f)
    counts: list[int] = []
    real = Walk.run
    monkeypatch.setattr(Walk, "run", lambda self, *given: (counts.append(self.tiles), real(self, *given))[1])
    with tw.config(tile=7):
        found = np.asarray(tw.evaluate(f(tw.asarray(x))))
    np.testing.assert_allclose(found, blurred(np, x), rtol=1e-13)
    assert counts == [100]


@pytest.mark.parametrize(("shape", "length"), [((29, 29, 264), 27), ((264, 29, 29), 262), ((20, 300, 300), 300)])
def test_short_outer_dims_are_cut_if_slices_are_small(shape: tuple[int, ...], length: int) -> None:
    """Of three, the last has slices of 0.7 MB: it is cut along a long dim."""
    x = np.random.default_rng(1).random(shape)
    with tw.config(eager_bytes=0):
        made = maxima(tw, tw.asarray(x))
        plan, nodes, *_ = program_of([made]).plan(None)
        cuts = [tiling(s, nodes) for s in plan.steps if isinstance(s, Tiled)]
        assert cuts and cuts[0] is not None and cuts[0].way.length in (length, length - 2)
        np.testing.assert_array_equal(made.compute(), maxima(np, x))
