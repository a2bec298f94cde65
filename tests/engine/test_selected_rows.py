"""Selections by masks: rows of blocks that lie between each other, bounds, and what is left where it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import accumulate
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tilewise.layout import Mesh, Shard, even_cuts
from tilewise.ops.index.interleaved import intervals
from tilewise.ops.recut import recut_traffic
from tilewise.ops.traits.collectives import COUNT_BYTES, Operand


@contextmanager
def counting(mesh: tuple[int, ...], blocks: int = 1, **config: Any) -> Iterator[Any]:
    grid: dict[str, Any] = {"mesh": mesh} if len(mesh) > 1 else {"workers": mesh[0]}
    config = {"eager_bytes": 0, "objective": "bytes", **config}
    with tw.config(blocks=blocks, **config), tw.session(engine="virtual", **grid) as session:
        yield session.cluster


def moved(cluster: Any, run: Callable[[], Any]) -> tuple[Any, int, int]:
    """A result, the bytes that its evaluation moved, and those that were announced."""
    counters = cluster.counters
    before = counters.network_bytes, counters.predicted_bytes + counters.bounded_bytes
    found = run()
    tw.evaluate(found)
    announced = counters.predicted_bytes + counters.bounded_bytes - before[1]
    return found, counters.network_bytes - before[0], announced


SELECTIONS = {
    "mask": lambda np, a: a[a > 0.5],
    "all": lambda np, a: a[a > -9.0],
    "none": lambda np, a: a[a > 9.0],
    "positions": lambda np, a: np.flatnonzero(a > 0.5),
    "argwhere": lambda np, a: np.argwhere(a > 0.5),
    "corner": lambda np, a: a[(a > 0.5) & (np.arange(a.shape[1]) > a.shape[1] // 2)],
}


@pytest.mark.parametrize(("mesh", "blocks"), [((2, 2), 1), ((3, 2), 3), ((2, 3), 1)])
@pytest.mark.parametrize("shape", [(30, 22), (7, 5), (1, 6), (5, 1)])
def test_grids(mesh: tuple[int, int], shape: tuple[int, int], blocks: int) -> None:
    data = np.random.default_rng(1).normal(size=shape)
    for name, f in SELECTIONS.items():
        with counting(mesh, blocks) as cluster:
            a = tw.asarray(data).relayout(0, 1)
            tw.evaluate(a)
            found, bytes_moved, announced = moved(cluster, lambda: f(tw, a))  # noqa: B023 (called at once)
            want = f(np, data)
            assert bytes_moved <= announced, name
            np.testing.assert_array_equal(np.asarray(found), want, err_msg=name)
            assert found.dtype == want.dtype and found.shape == want.shape


def test_a_mask_of_a_grid_moves_what_it_selects() -> None:
    data = np.random.default_rng(0).normal(size=(200, 240))
    with counting((2, 2)) as cluster:
        a = tw.asarray(data).relayout(0, 1)
        tw.evaluate(a)
        found, bytes_moved, _ = moved(cluster, lambda: a[a > 2])
        assert bytes_moved < 8 * found.size < data.nbytes / 40


def test_three_axes() -> None:
    data = np.random.default_rng(0).normal(size=(6, 5, 4))
    with counting((2, 2)) as cluster:
        a = tw.asarray(data).relayout(0, 2)
        rows = tw.asarray(data[..., 0] > 0).relayout(0, 1)
        tw.evaluate(a, rows)
        for run, want in ((lambda: a[a > 0], data[data > 0]), (lambda: a[rows], data[data[..., 0] > 0])):
            found, bytes_moved, announced = moved(cluster, run)
            assert bytes_moved <= announced
            np.testing.assert_array_equal(np.asarray(found), want)


def test_intervals_of_a_block() -> None:
    assert intervals(((0, 2), (1, 3)), (4, 5)) == [(1, 3), (6, 8)]
    assert intervals(((1, 3), (0, 5)), (4, 5)) == [(5, 15)]
    assert intervals(((0, 4), (2, 2)), (4, 5)) == []
    assert intervals(((0, 5000), (0, 1)), (5000, 2)) is None


@pytest.mark.parametrize("seed", range(400))
def test_rows_cut_anew_never_move_more_than_announced(seed: int) -> None:
    """Against counting: for any numbers of selected rows, and any cuts of what they are selected from."""
    rng = np.random.default_rng(seed)
    p = int(rng.integers(2, 6))
    have = rng.integers(0, 12 if seed % 2 else 300, p)
    chosen = rng.integers(0, have + 1)
    chosen[rng.random(p) < 0.3] = 0
    total, size = int(chosen.sum()), int(have.sum())
    mesh = Mesh(p)
    mask = Operand((size,), np.dtype(bool), Shard(0, tuple(accumulate(have.tolist(), initial=0))))
    rows = Operand((total,), np.dtype(float), Shard(0, even_cuts(total, p)))
    owner = np.repeat(np.arange(p), chosen)
    belongs = np.repeat(np.arange(p), np.diff(even_cuts(total, p)))
    counts = p * (p - 1) * COUNT_BYTES
    traffic = recut_traffic(mask, rows, mesh)
    assert np.count_nonzero(owner != belongs) * 8 + counts <= traffic.bytes
    assert traffic.expected is not None and counts <= traffic.expected <= traffic.bytes
    guessed = Operand((size,), np.dtype(float), Shard(0, even_cuts(size, p)))
    ever = recut_traffic(mask, guessed, mesh).any_length
    assert ever is not None and traffic.bytes <= ever <= counts + size * 8


def test_a_dense_selection_is_announced_tightly() -> None:
    mask = Operand((1000,), np.dtype(bool), Shard(0, even_cuts(1000, 4)))
    rows = Operand((990,), np.dtype(float), Shard(0, even_cuts(990, 4)))
    assert recut_traffic(mask, rows, Mesh(4)).bytes <= 12 * COUNT_BYTES + 3 * 10 * 8


def test_pending_work_finds_what_workers_hold() -> None:
    data = np.random.default_rng(0).normal(size=4200)
    with counting((4,)) as cluster:
        x = tw.asarray(data).relayout(0)
        tw.evaluate(x)
        y = tw.sort(x)
        z, s = y * 2.0, tw.unique(x)[::2] * 1.0
        _, first, _ = moved(cluster, lambda: y)
        assert first > 8 * 4200 / 2
        np.testing.assert_array_equal(np.asarray(s), np.unique(data)[::2])
        before = cluster.counters.network_bytes
        tw.evaluate(z)
        assert cluster.counters.network_bytes == before  # not sorted again
        np.testing.assert_array_equal(np.asarray(z), np.sort(data) * 2.0)
        y[0] = 5.0  # the value that z was made of is not written to
        again = z + y
        np.testing.assert_array_equal(np.asarray(again)[0], np.sort(data)[0] * 2.0 + 5.0)


def test_evaluated_masks_are_not_kept() -> None:
    data = np.random.default_rng(0).normal(size=4200)
    with counting((3,)) as cluster:
        x = tw.asarray(data).relayout(0)
        tw.evaluate(x)
        y = tw.unique(x[x > 0.5])
        tw.evaluate(y)
        assert {v.shape for v in cluster.living()} == {x.shape, y.shape}


ROWS: dict[str, Callable[[Any], Any]] = {
    "first row": lambda a: a[0],
    "row": lambda a: a[17],
    "last row": lambda a: a[-1],
    "column": lambda a: a[:, 3],
    "row with a new axis": lambda a: a[17][:, None],
    "row of a matrix of matrices": lambda a: a.reshape(6, 5, 22)[4, 1],
    "few elements": lambda a: a.reshape(-1)[300:310],
}


@pytest.mark.parametrize("objective", ["bytes", "time"])
@pytest.mark.parametrize("mesh", [(2,), (4,), (7,), (2, 2)])
def test_small_slices_stay_with_their_owners(mesh: tuple[int, ...], objective: str) -> None:
    data = np.random.default_rng(0).normal(size=(30, 22))
    for name, f in ROWS.items():
        if name == "few elements" and len(mesh) > 1:
            continue  # of a matrix in pieces
        with counting(mesh) as cluster, tw.config(objective=objective):
            a = tw.asarray(data).relayout(*range(len(mesh)))
            tw.evaluate(a)
            found, bytes_moved, announced = moved(cluster, lambda: f(a))  # noqa: B023 (called at once)
            assert bytes_moved == announced == 0, name
            np.testing.assert_array_equal(np.asarray(found), f(data), err_msg=name)


@pytest.mark.parametrize("mesh", [(3,), (2, 2)])
def test_what_one_mask_selects_along_two_axes(mesh: tuple[int, ...]) -> None:
    """Reduced over both: a mask stands for one axis only."""
    x, y = np.sin(np.arange(11.0))[:, None], np.cos(np.arange(11.0))
    keys = np.arange(11) % 3
    with counting(mesh) as cluster:
        given = tw.evaluate(*(tw.asarray(a).relayout(0) for a in (x, y, keys)))
        for f in (np.sum, np.mean, np.std, np.any):
            for low in (-2.0, 0.3, 2.0):
                want = 0.0 if low == 2.0 and f in (np.mean, np.std) else f(x[y > low] * y[y > low])
                u, v, _ = given
                got = f(u[v > low] * v[v > low])
                np.testing.assert_allclose(np.nan_to_num(np.asarray(got)), want, rtol=1e-12)
        u, v, k = given
        sums = [(u[k == j] - v[k == j]).sum() for j in range(3)]
        wanted = [(x[keys == j] - y[keys == j]).sum() for j in range(3)]
        np.testing.assert_allclose([float(s) for s in sums], wanted, rtol=1e-12)
        assert cluster.counters.network_bytes <= cluster.counters.predicted_bytes + cluster.counters.bounded_bytes


@pytest.mark.parametrize("workers", [2, 7])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_an_ellipsis_of_no_axes_between_index_arrays(workers: int, n: int) -> None:
    data, at = np.arange(24.0).reshape(2, 3, 4), np.arange(n) % 2
    with counting((workers,)):
        a, i = tw.asarray(data).relayout(0), tw.asarray(at) + 0
        np.testing.assert_array_equal(a[:, i, ..., i], data[:, at, ..., at])  # the selected axis comes first
        np.testing.assert_array_equal(a[i, ..., i], data[at, ..., at])
        np.testing.assert_array_equal(a[:, i, i, ...], data[:, at, at, ...])
        a[:, i, ..., i] = 7.0
        data[:, at, ..., at] = 7.0
        np.testing.assert_array_equal(a, data)


@pytest.mark.parametrize("mesh", [(4,), (2, 2)])
@pytest.mark.parametrize("shape", [(2, 2, 2), (2, 3, 4), (3, 2, 1)])
def test_what_stands_beside_a_selection_by_a_mask_of_two_axes(mesh: tuple[int, ...], shape: tuple[int, ...]) -> None:
    """The selected axis is two of those of all elements, and one of what is added to it."""
    data = np.arange(float(np.prod(shape))).reshape(*shape[1:], shape[0])
    mask, more = data[..., 0] % 3 != 1, np.arange(1.0, shape[0] + 1)[:, None]
    programs: list[Callable[[Any, Any, Any], Any]] = [
        lambda x, m, y: (x[m].T * y).sum(1),
        lambda x, m, y: (y - x[m].T).max(),
        lambda x, m, y: (x[..., 0][m][None] * y).argmax(1),
        lambda x, m, y: (x[m][:, None] + y.T[:, None]).min(axis=(0, 2)),
    ]
    for k, f in enumerate(programs):
        with counting(mesh):
            found = f(tw.asarray(data).relayout(0), tw.asarray(mask), tw.asarray(more))
            np.testing.assert_array_equal(found, f(data, mask, more), err_msg=str(k))


def test_functions_of_numpy_get_views_without_elements_as_they_lie(same_settings_after_each_test: None) -> None:
    """A result has NumPy's order in memory, which it takes from its operand's."""
    tw.config(eager_bytes=0, fallback="silent", native=False)
    x = np.arange(6).reshape(2, 3, 1)
    want = np.minimum.reduce(x.T[1:], initial=1.0)
    with tw.session(engine="virtual", workers=2):
        found = tw.minimum.reduce((tw.asarray(x) + 1).T[1:], initial=1.0)
        assert found.strides == want.strides
        np.testing.assert_array_equal(found, want)
        line = tw.cumsum(tw.asarray(np.ones((6, 0))))
        shown = []  # and they may write to them, whoever has seen them
        for _ in range(2):
            line[:].sort(kind="stable")
            shown.append(np.asarray(line))
        parts = tw.asarray(np.ones(0, np.complex64))
        parts.imag = 1
        shown.append(np.asarray(parts))
        parts.real = True


def test_views_of_views_of_what_is_not_counted_yet_show_it(same_settings_after_each_test: None) -> None:
    tw.config(eager_bytes=0, fallback="silent", native=False)
    writes: list[Callable[[Any, Any], Any]] = [
        lambda np, v: np.multiply(v, 3, out=v.T[...]),
        lambda np, v: np.add(v, 1, out=v.T[::-1]),
        lambda np, v: v.T[:].__setitem__(slice(None), 7.0),
        lambda np, v: v.T[1:].__iadd__(1.0),
        lambda np, v: v[:, None][:, 0].__setitem__(0, -1.0),
    ]
    for k, write in enumerate(writes):
        x = np.array([1.0, -2, 2, 0, 3])
        mine, plain = tw.asarray(x), x.copy()
        with tw.session(engine="virtual", workers=2):
            mine, plain = mine[mine > 0], plain[plain > 0]
            write(tw, mine)
            write(np, plain)
            np.testing.assert_array_equal(mine, plain, err_msg=str(k))
