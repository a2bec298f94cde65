"""A loop's worker on a cluster. In: a packed job, tasks. Out: what they changed.

It has its own copy of what the loop writes, and reads the rest from memory that all workers of a node share.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tilewise.engine.ray_tasks import cloudpickle
from tilewise.parfor.blas_threads import blas_threads
from tilewise.parfor.cluster.packing import unpacked
from tilewise.parfor.cluster.pieces import Box, placed
from tilewise.parfor.job import Cancelled, inside
from tilewise.parfor.merge import Changes, all_zero, apply, block_of, changes
from tilewise.parfor.reductions.combine import combine
from tilewise.parfor.report import Report, TaskRunner, packed
from tilewise.parfor.staging import StagingFolder

Array = np.ndarray[Any, Any]
CACHE_BYTES = 256 << 20  # of parts of inputs that a process keeps for later loops
MISSING = b"missing"  # a part that was thought to be there is not


@dataclass(frozen=True)
class Empty:
    """An array that is zero: it need not be sent."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool

    @staticmethod
    def of(array: Array) -> Empty | Array:
        """An array, or what says that it is zero."""
        fortran = array.flags.f_contiguous and not array.flags.c_contiguous
        return Empty(array.shape, array.dtype, fortran) if all_zero(array) else array

    def made(self) -> Array:
        """The array."""
        return np.zeros(self.shape, self.dtype, order="F" if self.fortran else "C")


def serve(data: bytes, written: frozenset[int], name: str, values: list[Any]) -> Worker:
    """The worker of a job: `values` are the arrays of the job by number, those that are written become copies."""
    roots = [
        v.made() if isinstance(v, Empty) else np.array(v, order="K") if n in written else v
        for n, v in enumerate(values)
    ]
    return Worker(data, roots, name)


class Worker:
    """Runs tasks when it is told to."""

    def __init__(self, data: bytes, roots: list[Array], name: str) -> None:
        self.name = name
        self.job = unpacked(data, roots)
        self.done, self.stop_at = 0, math.inf
        self.job.count = self._count
        self.runner = TaskRunner(self.job)

    def _count(self) -> None:
        self.done += 1

    def progress(self) -> int:
        """Iterations that are done."""
        return self.done

    def stop(self, at: int) -> None:
        """Iterations after this one are not needed."""
        self.stop_at = min(self.stop_at, at)

    def run(self, number: int, pieces: Sequence[tuple[str, bytes, Box, tuple[int, ...]]], *sent: Any) -> bytes | None:
        """Run a task; a failure as bytes. Parts of inputs that the driver thinks are not here are sent along."""
        for (_, key, _, _), piece in zip(pieces, sent, strict=False):
            pieces_here.put(key, piece)
        for name, key, box, shape in pieces:
            held = pieces_here.get(key)
            if held is None:
                return MISSING
            self.job.names[name] = placed(held, box, shape)
        inside.worker, inside.left = True, self.job.left
        try:
            with blas_threads(self.job.threads):
                self.runner.run(number, lambda: self.stop_at)
        except Cancelled:
            return packed(Report(), self.job.where)
        except BaseException as error:
            failure = self.runner.fail(error)
            self.runner.report.failure = None
            return packed(Report(failure=failure), self.job.where, _dumps)
        return None

    def finished(self, folder: str | None, arrays: bool = True) -> bytes:
        """What all tasks have changed, as bytes; arrays staged in a folder, if there is one."""
        staging = StagingFolder(folder) if folder is not None else None
        report = self.runner.finished(staging, self.name, arrays)
        if not arrays:
            report = replace(report, sums={task: [] for task in report.parts}, arrays=[])
        return packed(report, self.job.where, _dumps)

    def changed_blocks(self, number: int, blocks: Sequence[slice]) -> list[Changes | None]:
        """What it changed in an array, block by block."""
        array, before = self.job.results.arrays[number], self.runner.before[number]
        found = [changes(block_of(array, b), None if before is None else block_of(before, b)) for b in blocks]
        return [None if f.cells is not None and not len(f.cells) else f for f in found]

    def summed_blocks(self, number: int, blocks: Sequence[slice]) -> list[dict[int, Array]]:
        """What its tasks accumulated in an array, block by block."""
        parts = self.runner.report.sums
        return [{task: block_of(arrays[number], b).copy() for task, arrays in parts.items()} for b in blocks]

    def merge_changed(self, block: Array, *found: Changes) -> Array:
        """A block of what was before, with what workers changed."""
        out = block.copy()
        for one in found:
            apply(out, one)
        return out

    def merge_summed(self, op: str, block: Array, *found: dict[int, Array]) -> Array:
        """A block of what was before, with what tasks accumulated, in their order."""
        out = block.copy()
        parts = {task: part for one in found for task, part in one.items()}
        for task in sorted(parts):
            out[...] = combine(op, out, parts[task])
        return out


class PieceCache:
    """Parts of inputs that this process has been sent, by their content; the ones used last, up to some bytes."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.held: OrderedDict[bytes, Array] = OrderedDict()

    def put(self, key: bytes, piece: Array) -> None:
        """Keep a piece."""
        self.held[key] = piece
        while len(self.held) > 1 and sum(p.nbytes for p in self.held.values()) > self.most:
            self.held.popitem(last=False)

    def get(self, key: bytes) -> Array | None:
        """A piece, if it is still there."""
        if key in self.held:
            self.held.move_to_end(key)
        return self.held.get(key)


pieces_here = PieceCache(CACHE_BYTES)


def _dumps(value: Any) -> bytes:
    data: bytes = cloudpickle.dumps(value)
    return data
