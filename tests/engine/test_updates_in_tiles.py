"""Updates of parts (`u[1:-1] = ...`) that share their tiles with what reads them, and with each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.conftest import Some
from tilewise import compiler
from tilewise.backend.llvm.tiles import builder
from tilewise.config import current
from tilewise.stage.cut_axis import replaces
from tilewise.stage.steps import Tiled, passes

pytestmark = pytest.mark.usefixtures("no_plans")
TILES = (1, 3, 7, None)


@pytest.fixture
def tiled(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many updates each group had that was laid out in tiles."""
    seen: list[int] = []
    plan = builder.Builder.plan

    def counted(self: Any) -> Any:
        made = plan(self)
        if made is not None:
            seen.append(len(self.way.updates))
        return made

    monkeypatch.setattr(builder.Builder, "plan", counted)
    return seen


def jacobi(u: Any, sweeps: int) -> Any:
    u = u.copy()
    for _ in range(sweeps):
        u[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
    return u


def waves(ex: Any, ey: Any, hz: Any, turns: int) -> Any:
    ex, ey, hz = ex.copy(), ey.copy(), hz.copy()
    for _ in range(turns):
        ey[1:] -= 0.5 * (hz[1:] - hz[:-1])
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])
    return ex, ey, hz


def doubling(x: Any, turns: int) -> Any:
    y = 0.5 * x
    for k in range(turns):
        y[2**k :] = y[2**k :] + 0.5 ** (2**k) * y[: -(2**k)]
    return y


def numbers(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape)


def same(got: Any, want: Any) -> None:
    for a, b in zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]:
        np.testing.assert_array_equal(np.asarray(a), b)


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("order", ["C", "F"])
def test_sweeps_share_tiles(tile: int | None, order: Any, tiled: list[int]) -> None:
    u = np.asarray(numbers(97, 83) if tile else numbers(600, 500), order=order)
    f = tw.jit(lambda x: jacobi(x, 4))
    with tw.config(eager_bytes=0, tile=tile):
        same(f(tw.asarray(u)), jacobi(u, 4))
    assert max(tiled) > 1


@pytest.mark.parametrize("tile", TILES)
def test_fields_that_update_each_other(tile: int | None, tiled: list[int]) -> None:
    fields = [numbers(53, 40, seed=k) if tile else numbers(400, 300, seed=k) for k in range(3)]
    f = tw.jit(lambda *given: waves(*given, 3))
    with tw.config(eager_bytes=0, tile=tile):
        same(f(*map(tw.asarray, fields)), waves(*fields, 3))
    assert max(tiled) > 2


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("n", [2, 5, 31, 33, 300_000])
def test_halos_as_long_as_the_array(n: int, tile: int | None, tiled: list[int]) -> None:
    turns = min(5, n.bit_length() - 1)
    x = numbers(n if tile is None else min(n, 1000))
    f = tw.jit(lambda x: doubling(x, turns))
    with tw.config(eager_bytes=0, tile=tile):
        same(f(tw.asarray(x)), doubling(x, turns))


def random_program(rng: np.random.Generator) -> Any:
    """A chain of updates of random boxes, each from shifted boxes of what is there, some of it read at the end."""
    ndim = int(rng.integers(1, 4))
    shape = (int(rng.integers(24, 60)), *(int(n) for n in rng.integers(3, 9, ndim - 1)))
    turns: tuple[Any, ...] = ()
    for _ in range(int(rng.integers(1, 6))):
        lengths = [int(rng.integers(max(1, n - 3), n + 1)) for n in shape]
        boxes = []
        for _ in range(4):
            starts = [int(rng.integers(0, n - m + 1)) for n, m in zip(shape, lengths, strict=True)]
            boxes.append(tuple(slice(s, s + m) for s, m in zip(starts, lengths, strict=True)))
        turns = (*turns, (int(rng.integers(0, 2)), tuple(int(k) for k in rng.integers(0, 2, 3)), tuple(boxes)))
    ends = int(rng.integers(0, 4))

    def program(a: Any, b: Any) -> Any:
        fields = [a.copy(), b * 2.0]
        for which, sources, boxes in turns:
            left, right, third = (fields[k][box] for k, box in zip(sources, boxes[1:], strict=True))
            fields[which][boxes[0]] = left - right * 3.0 + third
        if ends == 0:
            return fields[0]
        if ends == 1:
            return fields[0], fields[1]
        if ends == 2:
            return fields[0][1:] - fields[1][:-1]
        return fields[0].max(axis=0), fields[1] + 1.0

    return shape, program


@pytest.mark.parametrize("seed", range(100))
def test_random_updates(seed: int, some: Some) -> None:
    rng = np.random.default_rng(seed)
    shape, program = random_program(rng)
    a, b = rng.integers(-4, 5, (2, *shape)).astype(float)
    want = program(a, b)
    for tile in some(TILES):
        with tw.config(eager_bytes=0, tile=tile, flush=False):
            same(program(tw.asarray(a), tw.asarray(b)), want)


def test_random_updates_do_share_tiles(tiled: list[int]) -> None:
    for seed in range(12):
        shape, program = random_program(np.random.default_rng(seed))
        with tw.config(eager_bytes=0, tile=3, flush=False):
            made = program(tw.ones(shape), tw.ones(shape))
            tw.evaluate(*(made if isinstance(made, tuple) else (made,)))
    assert sum(n > 1 for n in tiled) > 3


def test_run_one_by_one_they_update_in_place() -> None:
    """Little data is not cut into tiles: then nothing is copied that need not be."""
    with tw.config(eager_bytes=0, flush=False):
        u = tw.asarray(numbers(33, 21))
        v = u * 2.0
        v[1:-1] -= 0.5 * u[1:-1]
        v[2:-2] *= 3.0
        w = v + u
        node = w._cell.node
        at, _, structure = compiler.graph_of([node])
        plan = compiler.prepare(at, [at[node]], current(), structure)
    updates = [p for s in plan.steps for p in passes(s) if replaces(p)]
    assert len(updates) == 2 and all(all(p.last_uses) for p in updates)
    assert any(isinstance(s, Tiled) and any(map(replaces, passes(s))) for s in plan.steps)


@pytest.mark.parametrize(("rows", "tile"), [(50, 3), (50, None), (90_000, None)])  # in tiles, one by one, in tiles
def test_a_base_that_is_read_later_keeps_its_value(rows: int, tile: int | None) -> None:
    def program(a: Any) -> Any:
        u = a * 2.0
        before = u[2:] + 0.0
        v = u.copy()
        v[1:-1] = u[:-2] + u[2:]
        u[1:-1] = v[:-2] - v[2:]
        return u, v, before, v[1:] * u[:-1]

    a = numbers(rows, 4)
    with tw.config(eager_bytes=0, tile=tile, flush=False):
        x = tw.asarray(a)
        same(tw.evaluate(*program(x)), program(a))
        same(x, a)


def test_versions_in_one_group_that_are_all_wanted() -> None:
    def program(a: Any) -> Any:
        u = a * 2.0
        v = u.copy()
        v[1:-1] = u[:-2] + u[2:]
        w = v.copy()
        w[1:-1] = v[:-2] - v[2:]
        old = v[3:] * 1.0
        v[2:-2] = w[:-4] * w[4:]
        return u + v, old + w[3:], v[1:] - u[:-1]

    for rows in (40, 200_000):
        a = numbers(rows)
        with tw.config(eager_bytes=0, flush=False):
            same(tw.evaluate(*program(tw.asarray(a))), program(a))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_make_no_difference(threads: int) -> None:
    u = numbers(700, 300)
    with tw.config(eager_bytes=0, threads=threads, flush=False):
        same(tw.jit(lambda x: jacobi(x, 3))(tw.asarray(u)), jacobi(u, 3))


def test_sums_of_what_is_updated() -> None:
    def program(a: Any) -> Any:
        u = a * 2.0
        u[1:-1] = u[:-2] + u[2:]
        return u.sum(axis=0), (u * u).sum()

    a = np.random.default_rng(0).integers(-9, 9, (60_000, 6)).astype(float)
    for tile in (7, None):
        with tw.config(eager_bytes=0, tile=tile, flush=False):
            same(program(tw.asarray(a)), program(a))


@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0), (1, 1), (5, 1)])
def test_small_and_empty_bases(shape: tuple[int, ...]) -> None:
    def program(a: Any) -> Any:
        u = a.copy()
        u[...] = a + 1.0
        u[...] += u
        return u

    a = numbers(*shape)
    for tile in TILES:
        with tw.config(eager_bytes=0, tile=tile, flush=False):
            same(program(tw.asarray(a)), program(np.asarray(a)))


@pytest.mark.parametrize("rows", [40, 200_000])
def test_a_base_that_a_later_pass_reads(rows: int) -> None:
    """An expression of the old value, recorded before the update and computed after it."""

    def program(a: Any) -> Any:
        u = a.cumsum()
        old = u * 3.0
        u[1:-1] *= 2.0  # could be in place, if nobody read the old value any more
        return old * u - u

    a = np.random.default_rng(0).integers(-9, 9, rows).astype(float)
    with tw.config(eager_bytes=0, flush=False):
        same(program(tw.asarray(a)), program(a))
