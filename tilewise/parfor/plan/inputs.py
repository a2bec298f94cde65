"""Which parts of inputs each task reads. In: the walk of a loop. Out: boxes of arrays, by task.

Every access to an array, wherever the walk found it (functions included), has subscripts over loop indices; over the
iterations of a task they stay in a box. Where boxes are small, a task is sent its box instead of the whole array: rows,
columns or blocks. An array that may be reached in ways that are not known is sent whole.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewise.kernel.dependence.expr import Expr, Index, Undecided
from tilewise.parfor.plan.values import root_of
from tilewise.parfor.walk.loops import Statements

Box = tuple[range, ...]
LEAST_BYTES = 1 << 16  # of an array that is worth being cut
LARGEST_SHARE = 0.8  # of the whole, that boxes may have together per copy of the whole that they save
MOST_POINTS = 100_000  # iterations for which computed subscripts are evaluated


@dataclass(frozen=True)
class Pattern:
    """How a read-only array is accessed."""

    name: str
    root: np.ndarray[Any, Any]
    index: Index
    accesses: tuple[tuple[Expr, ...], ...]  # subscripts, one per dimension of the root

    def box(self, task: range) -> Box:
        """The cells that a task may read."""
        out = []
        for d, n in enumerate(self.root.shape):
            ends = [_bounds(subscripts[d], self.index, task) for subscripts in self.accesses]
            low, high = min(e[0] for e in ends), max(e[1] for e in ends)
            out.append(range(int(low), int(min(high, n - 1)) + 1) if low >= 0 else range(n))  # from the end, maybe
        return tuple(out)

    def bytes(self, task: range) -> int:
        """Of its box."""
        return math.prod(map(len, self.box(task))) * self.root.itemsize

    def kind(self, tasks: Sequence[range]) -> str:
        """Along which axes it is cut, for people."""
        boxes = [self.box(task) for task in tasks]
        cut = [d for d, n in enumerate(self.root.shape) if any(len(b[d]) < n for b in boxes)]
        if len(cut) == 1 and cut[0] < 2:
            return ("rows", "columns")[cut[0]]
        return "blocks"


def _bounds(expr: Expr, index: Index, task: range) -> tuple[float, float]:
    """The least and the greatest value in the iterations of a task."""
    if expr.affine:
        low = high = float(expr.const)
        for at, slope in expr.terms:
            first, last = (task[0], task[-1]) if at is index else (0, max(at.last, 0))
            ends = sorted((slope * first, slope * last))
            low, high = low + ends[0], high + ends[1]
        return low, high
    if expr.indices == {index} and len(task) <= MOST_POINTS:
        try:
            found = np.asarray(expr.at({index: np.arange(task.start, task.stop)}))
            return float(found.min()), float(found.max())
        except (Undecided, TypeError, ValueError):
            pass
    return float(expr.lo), float(expr.hi)


def patterns(walk: Statements, given: Mapping[str, Any], written: set[int]) -> list[Pattern]:
    """The arrays that names stand for, are only read, and by subscripts that are all known."""
    index = walk.found[0].index
    mine = [t for t in walk.touches if index in t.access.loops]
    if any(t.access.array == "anything" for t in mine):
        return []
    found: list[Pattern] = []
    for name, value in given.items():
        if type(value) is not np.ndarray or value.dtype.kind not in "biufc" or not value.size:
            continue
        root = root_of(value)
        obj = walk.memory.known.get(id(root))
        if obj is None or obj.flat or id(root) in written or root.nbytes < LEAST_BYTES:
            continue
        if type(root) is not np.ndarray or value is not root or any(f.root is root for f in found):
            continue
        touches = [t for t in mine if obj in t.objs]
        rank = ("memory", root.ndim)
        if not touches or any(t.access.write or t.access.array != rank or len(t.objs) > 1 for t in touches):
            continue
        found.append(Pattern(name, root, index, tuple(t.access.subscripts[1:] for t in touches)))
    return found


def cut(found: Sequence[Pattern], tasks: Sequence[range], nodes: int) -> list[Pattern]:
    """Those that are worth being cut: their boxes are less than a copy of the whole on each node."""
    return [p for p in found if sum(map(p.bytes, tasks)) <= LARGEST_SHARE * p.root.nbytes * nodes or _exact(p, tasks)]


def _exact(pattern: Pattern, tasks: Sequence[range]) -> bool:
    """Whether boxes cover the array once at most, several tasks each a part: then nothing is sent twice."""
    return len(tasks) > 1 and sum(map(pattern.bytes, tasks)) <= pattern.root.nbytes
