"""The grid of result merges: method x what was there before x what is written x accumulated x workers.

Each worker has a copy of everything, as a process has, and owns a third of the rows; the last seven columns are left
alone. Compared to the bit with what one worker alone leaves.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.parfor.test_merge import before, update
from tilewise.parfor import report as reports
from tilewise.parfor.job import Job, Results
from tilewise.parfor.report import Report, TaskRunner, merge
from tilewise.parfor.staging import StagingFolder

KINDS = ("empty", "dense", "sparse", "nan")
UPDATES = ("values", "zeros", "some", "nan", "minus zero", "same")
ROWS = 60


def make(arrays: list[Any], summed: list[tuple[Any, str]], body: Callable[..., Any], tasks: int, how: str) -> Job:
    """A job whose body is a function of row numbers, of its own arrays."""
    step = ROWS // tasks
    spans = [range(k, k + step) for k in range(0, ROWS, step)]

    def run(steps: Any, **names: Any) -> dict[str, Any]:
        rows = list(steps)
        body(arrays, [a for a, _ in summed], slice(rows[0], rows[-1] + 1))
        return {}

    results = Results(arrays=arrays)
    return Job(run, {}, range(ROWS), spans, tasks, results, {}, summed, frozenset(), None, None, "here", "i", merge=how)


def merged(
    arrays: list[Any], summed: list[tuple[Any, str]], body: Any, workers: int, how: str, block_bytes: int = 4096
) -> None:
    """The loop on workers, each of which has copies of its own; merged into the arrays."""
    found: list[Report] = []
    runners = []
    job = make(arrays, summed, body, 3, how)
    with StagingFolder(block_bytes=block_bytes) as staging:
        for w in range(workers):
            own = [a.copy(order="K") for a in arrays]
            sums = [(a.copy(order="K"), op) for a, op in summed]
            runner = TaskRunner(make(own, sums, body, 3, how))
            for task in range(3):
                if task % workers == w:
                    runner.run(task, lambda: float("inf"))
            runners.append(runner)
            if how != "cluster":
                found.append(runner.finished(staging if how == "file" else None, f"worker-{w}"))
        if how == "cluster":
            _on_cluster(job, runners)
        else:
            merge(job, found, staging if how == "file" else None)


def _on_cluster(job: Job, runners: list[TaskRunner]) -> None:
    """What the driver has workers do, without Ray between them."""
    worker = pytest.importorskip("tilewise.parfor.cluster.worker")
    from tilewise.parfor.merge import block_of

    served = [worker.Worker.__new__(worker.Worker) for _ in runners]
    for one, runner in zip(served, runners, strict=True):
        one.runner, one.job = runner, runner.job
    for n, array in enumerate(job.results.arrays):
        blocks = [slice(k, min(k + 64, array.size)) for k in range(0, array.size, 64)]
        parts = [one.changed_blocks(n, blocks) for one in served]
        for k, block in enumerate(blocks):
            target = block_of(array, block)
            target[...] = served[k % len(served)].merge_changed(target, *(p[k] for p in parts if p[k] is not None))
    for n, (array, op) in enumerate(job.summed):
        blocks = [slice(k, min(k + 64, array.size)) for k in range(0, array.size, 64)]
        sums = [one.summed_blocks(n, blocks) for one in served]
        for k, block in enumerate(blocks):
            target = block_of(array, block)
            target[...] = served[0].merge_summed(op, target, *(p[k] for p in sums))


@pytest.mark.parametrize("how", ["memory", "file", "cluster"])
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("order", ["C", "F"])
def test_grid(how: str, workers: int, order: str) -> None:
    for kind, change in itertools.product(KINDS, UPDATES):
        old = before(kind, np.float64, order)

        def body(arrays: list[Any], sums: list[Any], rows: slice, change: str = change) -> None:
            update(arrays[0], rows, change)

        expected = old.copy(order="K")
        for k in range(3):
            update(expected, slice(20 * k, 20 * k + 20), change)
        merged([old], [], body, workers, how)
        assert old.tobytes() == expected.tobytes(), (kind, change)


@pytest.mark.parametrize("how", ["memory", "file", "cluster"])
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("op", ["+", "*", "max"])
def test_grid_of_accumulators(how: str, workers: int, op: str) -> None:
    combine = {"+": np.add, "*": np.multiply, "max": np.maximum}[op]
    for kind, dtype in itertools.product(("empty", "dense", "sparse"), ("f8", "i4")):
        start = before(kind, dtype, "C")

        def body(arrays: list[Any], sums: list[Any], rows: slice) -> None:
            for r in range(rows.start, rows.stop):
                combine(sums[0][:, :-7], r % 3 + 1, out=sums[0][:, :-7], casting="unsafe")

        expected = start.copy()
        for k in range(3):
            body([], [expected], slice(20 * k, 20 * k + 20))
        merged([], [(start, op)], body, workers, how)
        assert (start == expected).all() and start.dtype == expected.dtype  # the start value counts once


@pytest.mark.parametrize("how", ["memory", "file", "cluster"])
def test_many_results_of_many_types(how: str) -> None:
    dtypes = ["i1", "u2", "f4", "f8", "c8", "c16", "bool", "S3", "M8[s]", "f2"]
    olds = [np.ones((ROWS, 3), dtype="i8").astype(d) for d in dtypes] + [np.zeros((ROWS, k)) for k in range(22)]

    def body(arrays: list[Any], sums: list[Any], rows: slice) -> None:
        for array in arrays:
            array[rows, ::2] = np.zeros((), array.dtype)
            if array.shape[1] > 1 and rows.start == 20:
                array[25, 1] = np.ones((), "i8").astype(array.dtype)

    expected = [a.copy() for a in olds]
    for k in range(3):
        body(expected, [], slice(20 * k, 20 * k + 20))
    merged(olds, [], body, 3, how)
    for a, b in zip(olds, expected, strict=True):
        assert a.tobytes() == b.tobytes()


def test_large_results_are_merged_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "MERGE_THREADS_BYTES", 1000)
    old = np.random.default_rng(0).normal(size=(1200, 1100))
    expected = old.copy()

    def body(arrays: list[Any], sums: list[Any], rows: slice) -> None:
        arrays[0][20 * rows.start : 20 * rows.stop, :-7] *= 2.0

    for how in ("memory", "file"):
        body([expected], [], slice(0, ROWS))
        merged([old], [], body, 3, how, 1 << 20)
        assert old.tobytes() == expected.tobytes()


def test_staged_files_hold_numbers_only(tmp_path: Any) -> None:
    staging = StagingFolder(str(tmp_path), block_bytes=64)
    assert staging.write("w", 0, np.arange(20.0), np.zeros(20))
    assert not staging.write("w", 1, np.array([None, "a"], dtype=object), None)  # objects go another way
    assert {p.suffix for p in tmp_path.iterdir()} == {".cells", ".values", ".counts"}
    assert np.fromfile(tmp_path / "w-0.values").tolist() == list(range(1, 20))
    out = np.zeros(20)
    (tmp_path / "w-0.values").write_bytes(b"")
    with pytest.raises(Exception, match="not whole"):
        staging.merge(0, out, ["w"])
