"""Arrays larger than memory=: plans run block by block. Values are NumPy's, memory holds, bytes are as announced."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.fuzz.settings import in_turns
from tests.store.toys import Grown, elements
from tilewise.array.handle import from_source
from tilewise.engine.stream.run import Share
from tilewise.errors import MemoryBudgetError
from tilewise.layout import Box, Mesh, Shard, box_size
from tilewise.store import files
from tilewise.store.spill import Spilled

ND = np.ndarray[Any, Any]
NAMES = count(10_000)
SHAPE = (400, 100)  # 320,000 bytes
MEMORY = 180_000
ROWS = np.random.default_rng(3).integers(0, SHAPE[0], 64)
SMALL: Any = elements((100, 8), "f8") / 100


@pytest.fixture(autouse=True)
def everything_recorded(same_settings_after_each_test: None) -> None:
    tw.config(eager_bytes=0, fallback="silent", native=False)


def inner(np: Any, x: Any) -> Any:
    """A stencil that is written into new memory."""
    made = np.empty_like(x)
    made[1:-1] = x[2:] - x[:-2]
    made[0] = made[-1] = 0
    return made


# By name: the program, and how often it reads the file.
PROGRAMS: dict[str, tuple[Callable[[Any, Any], Any], float]] = {
    "sum": (lambda np, x: x.sum(0), 1),
    "all": (lambda np, x: x.sum() + x.max(), 1),
    "mean of rows": (lambda np, x: x.mean(1), 1),
    "argmin": (lambda np, x: x.argmin(0), 1),
    "standardise and reduce": (lambda np, x: ((x - x.mean(0)) / x.std(0)).max(1), 2),
    "standardise": (lambda np, x: (x - x.mean(0)) / x.std(0), 2),
    "logarithm twice": (lambda np, x: (np.log(x + 1) - np.log(x + 1).sum(0)).max(), 2),
    "Gram": (lambda np, x: x.T @ x, 1),
    "product": (lambda np, x: x @ SMALL, 1),
    "gradient": (lambda np, x: x.T @ (1 / (1 + np.exp(-(x @ SMALL)))), 1),
    "k-means": (lambda np, x: np.bincount(((x[:, None, :] - SMALL.T[:5]) ** 2).sum(2).argmin(1)), None),
    "transpose": (lambda np, x: (x * 2).T.copy(), 1),
    "differences": (lambda np, x: np.gradient(x, axis=0), None),
    "inner": (lambda np, x: inner(np, x), None),
    "mask": (lambda np, x: x[x[:, 0] > 50].sum(0), 1),
    "groups": (lambda np, x: np.bincount((x[:, 0] % 7).astype(int), weights=x[:, 1], minlength=7), None),
    "stencil": (lambda np, x: x[1:-1] + x[:-2] - 2 * x[2:], None),
    "cumulative sum": (lambda np, x: np.cumsum(x, axis=0), 2),
    "sort": (lambda np, x: np.sort(x.ravel()), 1),
    "sort of columns": (lambda np, x: np.sort(x, axis=0), 1),
    "median": (lambda np, x: np.median(x, axis=0), None),
    "slice": (lambda np, x: x[3:7, ::2].T + 1, None),
    "sums of two loops": (lambda np, x: x[ROWS].sum(0) + (x * 2).sum(0), None),
    "products of two loops": (lambda np, x: x[ROWS].T @ x[ROWS] - 0.5 * (x.T @ x), None),
    "counts of two loops": (lambda np, x: (x[ROWS] > 50).sum(0) + (x > 50).sum(0), None),
    "variances of two loops": (lambda np, x: x[ROWS].var(0) + (x * 2).var(0), None),
    "maxima of two loops": (lambda np, x: np.maximum(x[ROWS].max(0) * 2, x.max(0)), None),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_within_memory(name: str) -> None:
    program, passes = PROGRAMS[name]
    source = Grown(SHAPE, (16, 100), name=next(NAMES))
    want = program(np, elements(SHAPE, "f8"))
    with tw.session(memory=MEMORY) as session:
        y = program(tw, from_source(source))
        plan = tw.explain(y)
        tw.evaluate(y)
        disk = session.disk
        read = sum(map(box_size, source.boxes)) * 8
        if passes is not None:
            assert read == plan.read_bytes == passes * 320_000 == disk.read_bytes == disk.predicted_read_bytes
            if name not in ("sort of columns", "Gram"):  # which cut across chunks
                assert len(source.boxes) == passes * 25  # every chunk once in a pass
        assert (
            disk.peak_bytes <= MEMORY and plan.memory_bytes <= MEMORY and disk.read_bytes == disk.predicted_read_bytes
        )
        assert disk.spilled_bytes <= disk.predicted_spilled_bytes
        assert disk.restored_bytes <= disk.predicted_restored_bytes
        got = np.asarray(y)
    assert got.dtype == want.dtype and got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-11)


@pytest.mark.parametrize("chunks", [(7, 100), (400, 9), (33, 11), (1, 1)], ids=str)
def test_chunks_of_any_shape(chunks: tuple[int, int]) -> None:
    shape = (57, 41)
    source, x = Grown(shape, chunks, name=next(NAMES)), elements(shape, "f8")
    with tw.session(memory="10kB") as session:
        got = np.asarray((from_source(source) * 2 + 1).sum(1))
        assert session.disk.blocks > 1 and session.disk.peak_bytes <= 10_000
    np.testing.assert_array_equal(got, (x * 2 + 1).sum(1))
    assert sum(map(box_size, source.boxes)) == x.size  # every element once


@pytest.mark.parametrize("dtype", ["i2", "u1", "f4", "c16", "?"])
@pytest.mark.parametrize("order", [None, (1, 0)], ids=["C", "F"])
def test_dtypes_and_orders(dtype: str, order: Any) -> None:
    shape = (300, 20)
    source, x = Grown(shape, (30, 20), dtype, order, name=next(NAMES)), elements(shape, dtype)
    with tw.session(memory=x.nbytes // 3):
        y = from_source(source)
        assert np.asarray(y.sum(0)).tolist() == x.sum(0).tolist()
        z = y != 3
        np.testing.assert_array_equal(np.asarray(z), x != 3)
        assert np.asarray(y + y).flags.f_contiguous == (order is not None)


def test_arrays_of_this_process_count_and_what_is_made_of_them_is_taken_in_turn() -> None:
    a = np.arange(1000.0)
    with tw.session(memory="100kB") as session:  # the outer product has eight million bytes
        x = tw.asarray(a)
        got = float(tw.sort(x[:, None] - x[None, :], axis=1)[:, -1].max())
        assert got == 999 and session.disk.blocks > 80 and session.disk.peak_bytes <= 100_000
        with pytest.raises(MemoryBudgetError):
            (tw.asarray(np.zeros(10**5)) + 1).sum().item()


def test_draws_are_never_there_as_a_whole() -> None:
    def draw() -> Any:
        return tw.random.Generator(tw.random.Counter(3)).normal(size=200_000)

    want = np.asarray(draw())
    with tw.session(memory="200kB") as session:
        got = float((draw() ** 2).mean())
        assert abs(got - (want**2).mean()) < 1e-12
        assert session.disk.spilled_bytes == 0 and session.disk.peak_bytes <= 200_000


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (1, 1), (1, 3000), (3000, 1), (3,)], ids=str)
def test_shapes_at_the_edge(shape: tuple[int, ...]) -> None:
    x = elements(shape, "f8")
    with tw.session(memory=16_000):
        y = from_source(Grown(shape, tuple(max(n // 10, 1) for n in shape), name=next(NAMES)))
        assert float(y.sum()) == x.sum()
        np.testing.assert_array_equal(np.asarray(y * 2), x * 2)
        np.testing.assert_array_equal(np.asarray(tw.sort(y.ravel())), np.sort(x.ravel()))


def test_nan_inf_and_zeros_with_signs() -> None:
    x = np.resize([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0], 6000).reshape(600, 10)[:, ::-1].copy()

    class Given(Grown):
        def read(self, box: Box, out: ND | None = None) -> ND:
            part = x[tuple(slice(*b) for b in box)]
            if out is None:
                return part
            out[...] = part
            return out

    with tw.session(memory="20kB") as session:
        y = from_source(Given(x.shape, (50, 10), name=next(NAMES)))
        for f in (lambda np, x: -x, lambda np, x: np.nanmax(x, 0), lambda np, x: np.sort(x.ravel())):
            got, want = np.asarray(f(tw, y)), f(np, x)
            np.testing.assert_array_equal(got, want)
            if got.ndim > 1:  # which of two zeros a sort puts first is not said
                np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
        assert session.disk.blocks > 1


def test_a_result_larger_than_memory_is_in_a_file_and_can_be_computed_with() -> None:
    x = elements(SHAPE, "f8")
    with tw.session(memory=MEMORY) as session:
        y = from_source(Grown(SHAPE, (16, 100), name=next(NAMES))) * 3
        tw.evaluate(y)
        assert isinstance(y._cell.node.value, Spilled) and session.disk.spilled_bytes == x.nbytes
        before = session.disk.read_bytes
        assert float(y[17:19].sum()) == (x[17:19] * 3).sum()
        assert session.disk.read_bytes - before <= 2 * 800
        z = y[5].copy()
        y[5] = 0  # a new value: what was read of the old one stays
        np.testing.assert_array_equal(np.asarray(z), x[5] * 3)
        want = x * 3
        want[5] = 0
        np.testing.assert_array_equal(np.asarray(y.sum(1)), want.sum(1))
    np.testing.assert_array_equal(np.asarray(y), want)  # also after the session


def test_two_matrices_larger_than_memory() -> None:
    a, b = elements((120, 150), "f8", 1), elements((150, 90), "f8", 2)
    with tw.session(memory="70kB") as session:
        x = from_source(Grown(a.shape, (10, 150), seed=1, name=next(NAMES)))
        y = from_source(Grown(b.shape, (10, 90), seed=2, name=next(NAMES)))
        c = x @ y
        tw.evaluate(c)
        assert session.disk.peak_bytes <= 70_000 and session.disk.blocks > 1
        np.testing.assert_allclose(np.asarray(c), a @ b)


def test_what_is_refused_says_how_much_would_do() -> None:
    shape = (6, 3)
    x = from_source(Grown(shape, (2, 3), name=next(NAMES)))
    with tw.session(memory=20):
        y = x.T @ x
        with pytest.raises(MemoryBudgetError, match="no plan needs less than") as refused:
            tw.evaluate(y)
        least = int(str(refused.value).split("memory=")[-1].split(",")[0])
    with tw.session(memory=least) as session:
        np.testing.assert_allclose(np.asarray(x.T @ x), (e := elements(shape, "f8")).T @ e)
        assert session.disk.peak_bytes <= least


def test_arrays_in_memory_that_alone_are_too_large_are_refused_with_what_would_do() -> None:
    x = np.arange(24.0).reshape(6, 4)
    with tw.session(memory=100), pytest.raises(MemoryBudgetError, match="no plan needs less than") as refused:
        tw.evaluate(tw.asarray(x).T @ tw.asarray(x))
    least = int(str(refused.value).split("memory=")[-1].split(",")[0])
    with tw.session(memory=least) as session:
        np.testing.assert_array_equal(np.asarray(tw.asarray(x).T @ tw.asarray(x)), x.T @ x)
        assert session.disk.peak_bytes <= least


class Failing(Grown):
    """Fails at its third read."""

    def read(self, box: Box, out: ND | None = None) -> ND:
        if len(self.boxes) == 2:
            raise OSError("the disk is gone")
        return super().read(box, out)


def open_files() -> int:
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


def test_errors_reach_the_user_and_leave_nothing() -> None:
    gc.collect()
    before, threads = open_files(), threading.active_count()
    x = from_source(Failing(SHAPE, (16, 100), name=next(NAMES)))
    with tw.session(memory=MEMORY):
        y = x * 2
        with pytest.raises(OSError, match="the disk is gone"):
            tw.evaluate(y)
        assert float(from_source(Grown(SHAPE, (16, 100), name=next(NAMES))).max()) == 100
    del x, y
    gc.collect()
    assert open_files() == before and threading.active_count() <= threads + 1


def test_the_next_block_is_read_while_one_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks, reads, real = [], threading.Semaphore(0), Share._block

    class Seen(Grown):
        def read(self, box: Box, out: ND | None = None) -> ND:
            assert threading.current_thread() is not threading.main_thread()
            reads.release()
            return super().read(box, out)

    def block(self: Any, loop: Any, steps: Any, number: int, arrays: Any) -> Any:
        blocks.append(number)
        for _ in range(2 if number == 0 else 1):  # its own, and the next one's
            assert number == 7 or reads.acquire(timeout=20), "nothing is read ahead"
        return real(self, loop, steps, number, arrays)

    monkeypatch.setattr(Share, "_block", block)
    with tw.session(memory=9000):
        x = from_source(Seen((8, 125), (1, 125), name=next(NAMES)))
        assert float((x + 1).sum()) == elements((8, 125), "f8").sum() + 1000
    assert blocks == list(range(8))


def test_the_same_bits_every_time() -> None:
    bits = set()
    for _ in range(3):
        with tw.session(memory=MEMORY):
            x = from_source(Grown(SHAPE, (16, 100), name=next(NAMES)))
            bits.add(np.asarray((np.sin(x) @ SMALL).var(0)).tobytes())
    assert len(bits) == 1


def test_results_are_written_to_files_as_they_are_made(tmp_path: Any) -> None:
    x = elements(SHAPE, "f8")
    np.save(tmp_path / "x.npy", x)
    with tw.session(memory=MEMORY) as session:
        y = tw.asarray(np.load(tmp_path / "x.npy", mmap_mode="r"))
        (y * 2).store(tmp_path / "twice.npy")
        assert session.disk.written_bytes == x.nbytes and session.disk.spilled_bytes == 0
        assert session.disk.read_bytes == x.nbytes and session.disk.peak_bytes <= MEMORY
        z = (y - y.mean(0)).T  # a view of what is made
        z.store(tmp_path / "off.npy")
        y[:2].store(tmp_path / "part.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "twice.npy"), x * 2)
    np.testing.assert_allclose(np.load(tmp_path / "off.npy"), (x - x.mean(0)).T)
    np.testing.assert_array_equal(np.load(tmp_path / "part.npy"), x[:2])
    with tw.session(memory=MEMORY), pytest.raises(OSError, match="the disk is gone"):
        (from_source(Failing(SHAPE, (16, 100), name=next(NAMES))) * 2).store(tmp_path / "none.npy")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["off.npy", "part.npy", "twice.npy", "x.npy"]


def test_blocks_of_columns_are_written_in_one_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not as a short run for every row: neither to spill files nor to the file of a result."""
    lengths: list[int] = []
    real = files.write_at

    def counted(handle: int, data: memoryview, at: int) -> None:
        lengths.append(len(data))
        real(handle, data, at)

    x = np.random.default_rng(5).normal(size=(4000, 21))
    np.save(tmp_path / "x.npy", x)
    monkeypatch.setattr(files, "write_at", counted)
    with tw.session(memory=200_000) as session:
        y = tw.evaluate(tw.sort(tw.open(tmp_path / "x.npy"), axis=0))
        assert session.disk.spilled_bytes == x.nbytes and 1 < len(lengths) <= session.disk.blocks
        tw.sort(tw.open(tmp_path / "x.npy"), axis=0).store(tmp_path / "y.npy")
        assert min(lengths) > 10_000
        np.testing.assert_array_equal(np.asarray(y[3990:]), np.sort(x, axis=0)[3990:])
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), np.sort(x, axis=0))


@pytest.mark.parametrize("order", [None, (1, 0, 2), (2, 1, 0)])
@pytest.mark.parametrize("cut", [None, Shard(1, (0, 3, 3, 4, 7)), Shard(2, (0, 0, 5)), Shard(0, (0, 2, 6))], ids=str)
def test_spill_files_have_all_boxes(order: Any, cut: Shard | None) -> None:
    x = np.arange(6 * 7 * 5, dtype="i4").reshape(6, 7, 5)
    spilled, draw = Spilled(x.shape, "i4", order, cut), np.random.default_rng(1)
    for low, high in ((0, 2), (2, 7)):
        spilled.write(((0, 6), (low, high), (0, 5)), x[:, low:high])
    for _ in range(40):
        box = tuple(tuple(sorted(draw.integers(0, n + 1, 2).tolist())) for n in x.shape)
        np.testing.assert_array_equal(spilled.read(box), x[tuple(slice(*s) for s in box)])  # type: ignore[arg-type]


@pytest.mark.parametrize("mesh", [2, (2, 2)], ids=str)
def test_files_larger_than_the_memory_of_workers(mesh: Any) -> None:
    x = elements(SHAPE, "f8")
    with tw.session(engine="virtual", mesh=mesh, memory=40_000) as session:
        y = from_source(Grown(SHAPE, (16, 100), name=next(NAMES)))
        z = (y - y.mean(0)).max(1)
        plan = tw.explain(z)
        tw.evaluate(z)
        assert session.disk.read_bytes == plan.read_bytes and session.disk.peak_bytes <= 40_000
        assert session.cluster.counters.network_bytes == plan.network_bytes
        assert plan.network_bytes > 0  # workers of a grid share the blocks as well
        np.testing.assert_allclose(np.asarray(z), (x - x.mean(0)).max(1))
        small = tw.asarray(np.arange(100.0)) + 1
        assert float((tw.evaluate(small) * y[0]).sum()) == ((np.arange(100) + 1) * x[0]).sum()


def test_what_was_read_from_a_file_is_read_again_under_a_limit(tmp_path: Path) -> None:
    x = elements(SHAPE, "f8")
    np.save(tmp_path / "x.npy", x)
    y = tw.open(tmp_path / "x.npy")
    tw.savez(tmp_path / "y.npz", y=y)
    assert y._cell.buf is not None  # it lies in memory
    with tw.session(memory=MEMORY) as session:
        total = y.sum(0)
        y[0] = 7.0  # the file's elements are what was recorded
        np.testing.assert_array_equal(np.asarray(total), x.sum(0))
        assert session.disk.read_bytes == x.nbytes
    x[0] = 7.0
    np.testing.assert_array_equal(np.asarray(y.sum(0)), x.sum(0))
    with pytest.raises(MemoryBudgetError), tw.session(memory=MEMORY):
        np.asarray(y.sum(0))  # it is no file's any more


@pytest.mark.parametrize("weighted", [False, True])
def test_views_of_one_sum_that_is_added_block_by_block(weighted: bool) -> None:
    """Contributions too large for a tree are added in the memory of the first, which views of it show, too."""
    keys = np.arange(24) % 3
    with in_turns(Mesh(4), True):
        x = tw.asarray(keys)
        counts = tw.bincount(x, weights=x * 1.0 if weighted else None)
        found = counts[1::-1][counts[1::-1] > 0].compute()
    want = np.bincount(keys, weights=keys * 1.0 if weighted else None)
    np.testing.assert_array_equal(found, want[1::-1][want[1::-1] > 0])


@pytest.mark.parametrize("workers", [1, 2])
def test_what_is_made_again_is_there_for_those_who_read_all_of_it(workers: int) -> None:
    x = elements((6, 6), "f8")
    with in_turns(Mesh(4), True, workers):
        seen = tw.asarray(x).T
        above = seen[seen > seen.mean()]  # the view is made in both loops, and all blocks of it are selected from
        found = above.compute()
    np.testing.assert_array_equal(found, x.T[np.greater(x.T, x.mean())])


def test_a_worker_has_one_part_of_a_sum_in_memory() -> None:
    x = elements((2, 14), "f8")
    with in_turns(Mesh(4, 1, 2), False, 2):
        found = (tw.asarray(x)[::-1, ::-1].argmax(1) + 1).compute()  # each worker adds up a column of blocks
    np.testing.assert_array_equal(found, x[::-1, ::-1].argmax(1) + 1)
