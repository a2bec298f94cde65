"""Plans larger than the memory of workers: each worker takes its share of the blocks in turn.

Values are NumPy's, no worker holds more than memory=, bytes read, spilled and sent are as announced.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.out_of_core.test_in_turns import PROGRAMS
from tests.store.toys import Grown, elements
from tilewise.array.handle import from_source
from tilewise.array.session import Session
from tilewise.store import files, pool
from tilewise.store.formats.flat import GAP_BYTES
from tilewise.store.formats.npy import open_npy

NAMES = count(70_000)
SHAPE, MEMORY = (401, 100), 90_000  # 320,800 bytes
SHARED = ("sum", "argmin", "standardise", "Gram", "transpose", "stencil", "cumulative sum", "sort", "mean of rows")
SHARED += ("sums of two loops", "variances of two loops")


@pytest.fixture(autouse=True)
def everything_recorded(same_settings_after_each_test: None) -> None:
    tw.config(eager_bytes=0, fallback="silent", native=False)


def opened(shape: tuple[int, ...] = SHAPE, dtype: Any = "f8") -> Any:
    return from_source(Grown(shape, (16, *shape[1:]), dtype, name=next(NAMES)))


def check_bytes(session: Session) -> None:
    assert session.cluster is not None
    disk, moved = session.disk, session.cluster.counters
    assert disk.read_bytes == disk.predicted_read_bytes
    assert disk.spilled_bytes <= disk.predicted_spilled_bytes
    assert disk.restored_bytes <= disk.predicted_restored_bytes
    assert moved.predicted_bytes <= moved.network_bytes <= moved.predicted_bytes + moved.bounded_bytes
    assert disk.peak_bytes <= MEMORY


GRID, SEVERAL = {"mesh": (2, 2)}, {"workers": 2, "blocks": 3}  # workers in a square; with several blocks each
PLACES: list[tuple[str, dict[str, Any]]] = [(name, {"workers": n}) for name in SHARED for n in (2, 3)]
PLACES += [
    (name, where) for name in ("standardise", "transpose", "stencil", "sort", "Gram") for where in (GRID, SEVERAL)
]


def session_of(where: dict[str, Any]) -> Session:
    """A session with so much memory per worker."""
    rest = {k: v for k, v in where.items() if k != "blocks"}
    with tw.config(blocks=where.get("blocks", 1)):
        return tw.session(engine="virtual", memory=MEMORY, **rest)


@pytest.mark.parametrize(("name", "where"), PLACES, ids=str)
def test_programs_on_workers(name: str, where: dict[str, Any]) -> None:
    program, passes = PROGRAMS[name]
    want, workers = program(np, elements(SHAPE, "f8")), where.get("workers", 4)
    with session_of(where) as session:
        y = program(tw, opened())
        plan = tw.explain(y)
        tw.evaluate(y)
        assert session.cluster is not None
        disk, moved = session.disk, session.cluster.counters
        assert disk.blocks > workers and disk.read_bytes == plan.read_bytes
        if name in ("sum", "argmin", "standardise", "transpose", "stencil", "mean of rows"):  # nothing depends on data
            assert (disk.spilled_bytes, disk.restored_bytes) == (plan.spilled_bytes, plan.restored_bytes)
            assert moved.network_bytes == plan.network_bytes
        assert f"{workers} workers, {plan.blocks} blocks in turn" in str(plan)  # type: ignore[attr-defined]
        check_bytes(session)
        got = np.asarray(y)
        if passes is not None and name != "Gram":
            assert disk.read_bytes == passes * 320_800
    assert got.dtype == want.dtype and got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-11)


@pytest.mark.parametrize(("where", "rows"), [({"workers": 3}, 100), (SEVERAL, 60), (GRID, 80)], ids=str)
def test_results_stay_on_the_disks_of_workers_and_are_read_there(where: dict[str, Any], rows: int) -> None:
    x = elements(SHAPE, "f8")
    want = (x - x.mean(0)) / x.std(0)
    with session_of(where) as session:
        y = opened()
        z = (y - y.mean(0)) / y.std(0)
        tw.evaluate(z)
        assert session.cluster is not None
        (held,) = session.cluster.living()
        assert held.on_disk and held.held_bytes == 0 and min(np.diff(held.layout.cuts)) > rows  # type: ignore[union-attr]
        read = session.disk.read_bytes
        np.testing.assert_allclose(np.asarray((z * 2).max(0)), (want * 2).max(0))
        np.testing.assert_allclose(np.asarray((z + 1).T.copy()), (want + 1).T)
        np.testing.assert_allclose(np.asarray(z[1:] - z[:-1]), want[1:] - want[:-1], atol=1e-12)
        np.testing.assert_allclose(np.asarray(tw.sort(z.ravel())), np.sort(want.ravel()))
        np.testing.assert_allclose(np.asarray((z * tw.asarray(x[0])).sum(1)), (want * x[0]).sum(1), atol=1e-10)
        assert session.disk.read_bytes == read  # what lies on workers is not read from the source again
        np.testing.assert_allclose(np.asarray(z + y), want + x)
        z[5] = 1.0
        want[5] = 1.0
        np.testing.assert_allclose(np.asarray(z.sum(1)), want.sum(1), atol=1e-10)
        check_bytes(session)
        del y, z, held
        tw.evaluate(opened((10, 10)).sum())
        session.cluster.sweep()
        assert all(len(w.store) <= 1 for w in session.cluster.host.workers.values())  # type: ignore[attr-defined]


def test_workers_write_to_a_file_from_their_loops(tmp_path: Path) -> None:
    x = elements(SHAPE, "f8")
    with tw.session(engine="virtual", workers=2, memory=MEMORY) as session:
        (opened() * 2 + 1).store(tmp_path / "x.npy")
        assert session.disk.written_bytes == x.nbytes and session.disk.spilled_bytes == 0
        check_bytes(session)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), x * 2 + 1)


@pytest.mark.parametrize("shape", [(3, 900), (1, 5000), (5000,), (40, 0, 3)], ids=str)
def test_fewer_rows_than_blocks_and_none(shape: tuple[int, ...]) -> None:
    x = elements(shape, "f8")
    with tw.session(engine="virtual", workers=4, memory=12_000):
        y = from_source(Grown(shape, tuple(max(min(n, 100), 1) for n in shape), name=next(NAMES)))
        np.testing.assert_allclose(np.asarray(y + y.sum(0)), x + x.sum(0))
        np.testing.assert_array_equal(np.asarray((y == 3).sum()), (x == 3).sum())
        np.testing.assert_array_equal(np.asarray(y.sum(-1)), x.sum(-1))


def test_the_same_bits_on_every_run() -> None:
    def run() -> bytes:
        with tw.session(engine="virtual", workers=3, memory=MEMORY):
            y = opened() / 7
            return np.asarray(y.var(0) + y.sum()).tobytes()

    assert run() == run()


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "u1"])
def test_medians_read_twice_and_once_for_nan(dtype: str) -> None:
    x = elements((9000,), dtype)
    with tw.session(memory=x.nbytes // 4) as session:
        got = tw.median(from_source(Grown((9000,), (500,), dtype, name=next(NAMES))))
        assert got == np.median(x) and got.dtype == np.median(x).dtype
        assert session.disk.read_bytes == session.disk.predicted_read_bytes == (3 if dtype[0] == "f" else 2) * x.nbytes


def test_medians_with_nan_and_zeros(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    for case in range(6):
        x = rng.choice([-7.0, -1.0, -0.0, 0.0, 2.5], 8000)
        if case % 2:
            x[rng.integers(0, 8000, 5000 if case == 5 else 3)] = np.nan
        np.save(tmp_path / f"{case}.npy", x)
        with tw.session(memory=16_000):
            y = tw.open(tmp_path / f"{case}.npy")
            for fn in ("median", "nanmedian"):
                np.testing.assert_array_equal(np.asarray(getattr(tw, fn)(y)), getattr(np, fn)(x))
            np.testing.assert_array_equal(np.asarray(tw.percentile(y, [3, 50, 99])), np.percentile(x, [3, 50, 99]))


def test_profiles_count_what_blocks_in_turn_move(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", elements(SHAPE, "f8"))
    with tw.session(engine="virtual", workers=3, memory=MEMORY) as session:
        assert session.cluster is not None
        disk, moved = session.disk, session.cluster.counters
        with tw.profile() as p:
            y = tw.open(tmp_path / "x.npy")
            z = tw.evaluate((y - y.mean(0)) / y.std(0))
        assert (p.network_bytes, p.read_bytes) == (moved.network_bytes, disk.read_bytes) and p.network_bytes > 0
        assert sum(row.spilled_bytes for row in p.workers) == disk.spilled_bytes > 0
        assert all(row.network_bytes and row.read_bytes and row.spilled_bytes for row in p.workers)
        assert sorted(p.worker_peaks) == [0, 1, 2] and max(p.worker_peaks.values()) == disk.peak_bytes
        with tw.profile() as p:
            (z * 2).store(tmp_path / "z.npy")
        assert p.written_bytes == moved.written_bytes == disk.written_bytes == z.nbytes
        assert all(row.disk_seconds for row in p.workers) and len(p.workers) == 3
    with tw.session(memory=MEMORY), tw.profile() as p:
        (tw.open(tmp_path / "x.npy") * 2).store(tmp_path / "twice.npy")
    assert p.written_bytes == z.nbytes


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("name", ["z.npy", "z.zarr"])
def test_what_stores_get_is_announced(name: str, workers: int, tmp_path: Path) -> None:
    """Written by the loops, from the workers' disks, or by the driver: bytes are as announced."""
    np.save(tmp_path / "x.npy", elements(SHAPE, "f8"))
    where: Any = {"engine": "virtual", "workers": workers} if workers > 1 else {}
    with tw.session(**where, memory=MEMORY) as session:
        y = tw.open(tmp_path / "x.npy")
        z = y * 2 + 1
        plan = tw.explain(z, store=tmp_path / name, detail="passes")
        with tw.profile() as p:
            z.store(tmp_path / name)
        disk = session.disk
        assert plan.written_bytes == p.written_bytes == z.nbytes
        assert plan.spilled_bytes == disk.spilled_bytes == (0 if name == "z.npy" else z.nbytes)
        assert (plan.read_bytes, plan.network_bytes) == (p.read_bytes, p.network_bytes)
        assert f"{z.nbytes:,} are written to a store" in str(plan) and plan.detail == "passes"
        if session.cluster is not None:
            assert session.cluster.counters.network_bytes == p.network_bytes
    np.testing.assert_array_equal(np.asarray(tw.open(tmp_path / name)), elements(SHAPE, "f8") * 2 + 1)


@pytest.mark.parametrize("memory", [None, MEMORY])
def test_lengths_that_no_mask_of_the_plan_decides_are_explained(memory: int | None) -> None:
    """Distinct values are found by a collective on workers: the mask that counts them is in no plan."""
    x = elements(SHAPE, "f8")
    with tw.session(engine="virtual", workers=2, memory=memory):
        y = tw.unique(tw.round(opened()[:, 0], 1))
        assert tw.explain(y).read_bytes > 0
        np.testing.assert_array_equal(np.asarray(y), np.unique(np.round(x[:, 0], 1)))


def test_columns_of_a_file_are_read_many_rows_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not row by row, and with no more between them than a limit."""
    x = elements((3000, 40), "f8")
    np.save(tmp_path / "x.npy", x)
    sizes, real = [], files.read_at

    def counted(handle: int, into: Any, at: int) -> Any:
        sizes.append(len(into))
        return real(handle, into, at)

    source = open_npy(tmp_path / "x.npy")
    monkeypatch.setattr(files, "read_at", counted)
    for box in (((0, 3000), (3, 4)), ((1, 2999), (38, 40)), ((5, 6), (0, 1))):
        np.testing.assert_array_equal(source.read(box), x[box[0][0] : box[0][1], box[1][0] : box[1][1]])
    assert len(sizes) < 40 and max(sizes) < 2 * GAP_BYTES


def test_the_pool_is_free_again_afterwards() -> None:
    with tw.session(engine="virtual", workers=3, memory=MEMORY):
        tw.evaluate(opened().sum(0))
    assert not pool._pool.bounds and pool._pool.most is None
