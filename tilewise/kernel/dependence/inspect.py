"""The exact answer, by evaluating subscripts. In: two accesses. Out: two iterations that meet, or none.

Only subscripts, loop extents and guards are evaluated, for all iterations at once; the body does not run. Dimensions
that are the same for every iteration are compared once. Contiguous slices that would be too many cells are compared as
intervals.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tilewise.kernel.dependence.access import Access
from tilewise.kernel.dependence.expr import Expr, Index, Undecided

MOST_POINTS = 2_000_000  # about a tenth of a second and 100 MB
MOST_INTERVALS = 200_000
MOST_TRIED = 100  # iterations, for a pair that is near

Ints = np.ndarray[Any, np.dtype[np.int64]]


class TooMany(Exception):
    """More points than are evaluated."""


def meeting(
    a: Access, b: Access, parallel: Index, shared: Sequence[Index], first: int | None = None, same: bool = False
) -> tuple[int, int] | None:
    """Two iterations of `parallel` that touch one cell, one by each access; raises `Undecided` or `TooMany`.

    `first`: look at so many iterations only. `same`: an iteration that meets itself counts.
    """
    trimmed = _trim(a, b, parallel, shared)
    if trimmed is None:
        return None
    a, b = (_without_idle_loops(x, (parallel, *shared)) for x in trimmed)
    try:
        left, right = (_cells(x, parallel, shared, first) for x in (a, b))
    except TooMany:
        runs = [_run(x, parallel, shared, first) for x in (a, b)] if not same else [None]
        if None in runs:
            raise
        return _overlap(runs[0], runs[1])  # type: ignore[arg-type]
    return _join(left, right, same)


def _without_idle_loops(access: Access, kept: Sequence[Index]) -> Access:
    """Leave out loops on which nothing depends: those that surely run, or of which nothing is known."""
    used = set(kept).union(*(e.indices for e in (*access.subscripts, *access.guards)))
    loops: list[Index] = []
    for index in reversed(access.loops):
        if index in used or (index.extent.lo < 1 and not math.isinf(index.extent.hi)):
            used |= index.extent.indices
            loops.append(index)
    return replace(access, loops=tuple(reversed(loops)))


def _fixed(access: Access, dim: int, varying: set[Index]) -> bool:
    """Whether a subscript takes the same values in every iteration, whatever the other subscripts are."""
    own = access.subscripts[dim].indices
    if own & varying or any(g.indices & own for g in access.guards):
        return False
    if any(i.extent.indices & own for i in access.loops) or any(not i.extent.constant for i in own):
        return False
    return not any(own & e.indices for d, e in enumerate(access.subscripts) if d != dim)


def _values(expr: Expr) -> Any:
    points: dict[Index, Any] = {}
    count = 1
    for index in expr.indices:
        count *= max(int(index.last) + 1, 0)
        if count > MOST_POINTS:
            raise TooMany
    grids = np.meshgrid(*(np.arange(int(i.last) + 1) for i in expr.indices), indexing="ij")
    for index, grid in zip(expr.indices, grids, strict=True):
        points[index] = grid.ravel()
    return np.unique(np.asarray(expr.at(points)))


def _trim(a: Access, b: Access, parallel: Index, shared: Sequence[Index]) -> tuple[Access, Access] | None:
    """Leave out dimensions that are fixed on both sides; None where they have nothing in common."""
    varying = {parallel, *shared}
    kept = []
    dropped: list[set[Index]] = [set(), set()]
    for dim in range(len(a.subscripts)):
        sides = (a.subscripts[dim], b.subscripts[dim])
        if not (_fixed(a, dim, varying) and _fixed(b, dim, varying) and all(e.integer for e in sides)):
            kept.append(dim)
            continue
        if not np.intersect1d(_values(sides[0]), _values(sides[1])).size:
            return None
        for side, expr in zip(dropped, sides, strict=True):
            side |= expr.indices
    out = [
        replace(x, subscripts=tuple(x.subscripts[d] for d in kept), loops=tuple(i for i in x.loops if i not in gone))
        for x, gone in zip((a, b), dropped, strict=True)
    ]
    return out[0], out[1]


def _points(
    access: Access, parallel: Index, shared: Sequence[Index], first: int | None, without: Index | None = None
) -> dict[Index, Ints]:
    """All points of the loops around an access at which its guards hold."""
    points: dict[Index, Any] = {}
    count = 1
    guards = list(access.guards)
    order = list(dict.fromkeys((*shared, parallel, *access.loops)))
    for index in order:
        if index is without:
            continue
        if index.extent.hi == float("inf"):
            raise TooMany
        extents = np.broadcast_to(np.asarray(index.extent.at(points), dtype=np.int64), count)
        if index is parallel and first is not None:
            extents = np.minimum(extents, first)
        extents = np.maximum(extents, 0)
        count = int(extents.sum())
        if count > MOST_POINTS:
            raise TooMany
        starts = np.repeat(np.cumsum(extents) - extents, extents)
        points = {i: np.repeat(v, extents) for i, v in points.items()}
        points[index] = np.arange(count, dtype=np.int64) - starts
        while guards and guards[0].indices <= points.keys():
            holds = np.broadcast_to(np.asarray(guards.pop(0).at(points), dtype=bool), count)
            if not holds.all():
                points = {i: v[holds] for i, v in points.items()}
                count = int(holds.sum())
    assert not guards, "a guard over loops that are not around the access"
    return points


def _cells(access: Access, parallel: Index, shared: Sequence[Index], first: int | None) -> tuple[Ints, list[Any]]:
    """Iteration numbers, and the coordinates of the cells they touch (values of shared loops among them)."""
    points = _points(access, parallel, shared, first)
    which = points[parallel]
    coordinates = [points[t] for t in shared]
    for expr in access.subscripts:
        got = expr.at(points) if which.size else np.zeros(0, np.int64)
        if not expr.integer and not isinstance(got, np.ndarray | np.number):
            raise Undecided  # one object for all points would be taken for a list of them
        got = np.asarray(got)
        coordinates.append(np.broadcast_to(got, which.shape))
    return which, coordinates


def _codes(left: Any, right: Any) -> tuple[Ints, Ints]:
    """Numbers that are equal where the values are."""
    if left.dtype.kind in "iub" and right.dtype.kind in "iub":
        return left.astype(np.int64), right.astype(np.int64)
    known: dict[Any, int] = {}
    try:
        out = [np.array([known.setdefault(v, len(known)) for v in side.tolist()], np.int64) for side in (left, right)]
    except TypeError as error:
        raise Undecided from error
    return out[0], out[1]


def _join(left: tuple[Ints, list[Any]], right: tuple[Ints, list[Any]], same: bool) -> tuple[int, int] | None:
    (p, at), (q, other) = left, right
    if not p.size or not q.size:
        return None
    keys = np.zeros(p.size + q.size, np.int64)
    span = 1
    for x, y in zip(at, other, strict=True):
        both = np.concatenate(_codes(x, y))
        low, high = int(both.min()), int(both.max())
        if span * (high - low + 1) > 1 << 62:
            keys = np.unique(keys, return_inverse=True)[1].astype(np.int64)
            both = np.unique(both, return_inverse=True)[1].astype(np.int64)
            low, high, span = 0, int(both.max()), int(keys.max()) + 1
        keys = keys * (high - low + 1) + (both - low)
        span *= high - low + 1
    sides = [_extremes(keys[: p.size], p), _extremes(keys[p.size :], q)]
    common, i, j = np.intersect1d(sides[0][0], sides[1][0], assume_unique=True, return_indices=True)
    if not common.size:
        return None
    (_, p_low, p_high), (_, q_low, q_high) = sides
    p_low, p_high, q_low, q_high = p_low[i], p_high[i], q_low[j], q_high[j]
    if same:
        return int(p_low[0]), int(q_low[0])
    clash = np.flatnonzero((p_low != q_high) | (p_high != q_low))
    if not clash.size:
        return None
    key = common[clash[0]]
    return _nearest(p[keys[: p.size] == key], q[keys[p.size :] == key])


def _nearest(p: Ints, q: Ints) -> tuple[int, int]:
    """Two different iterations that are as near to each other as any."""
    best: tuple[int, int] | None = None
    q = np.unique(q)
    for one in np.unique(p)[:MOST_TRIED].tolist():
        at = int(np.searchsorted(q, one))
        for other in q[max(at - 1, 0) : at + 2].tolist():
            if other != one and (best is None or abs(one - other) < abs(best[0] - best[1])):
                best = one, other
    if best is None:
        best = int(p.max()), int(q.min() if q.min() != p.max() else q.max())
    return best


def _extremes(keys: Ints, which: Ints) -> tuple[Ints, Ints, Ints]:
    """For each key the least and the greatest iteration."""
    order = np.lexsort((which, keys))
    keys, which = keys[order], which[order]
    starts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    ends = np.concatenate((starts[1:], [keys.size])) - 1
    return keys[starts], which[starts], which[ends]


Run = tuple[Ints, Ints, Ints]  # iterations, first cells, cells after the last


def _run(access: Access, parallel: Index, shared: Sequence[Index], first: int | None) -> Run | None:
    """The cells of each iteration as intervals, where that is what they are."""
    if len(access.subscripts) != 1 or not access.loops or shared:
        return None
    (expr,) = access.subscripts
    index = access.loops[-1]
    if index.name != ":" or not expr.affine or expr.slope(index) != 1 or any(index in g.indices for g in access.guards):
        return None
    points = _points(access, parallel, shared, first, without=index)
    which = points[parallel]
    if which.size > MOST_INTERVALS:
        return None
    start = np.broadcast_to(np.asarray(expr.at({**points, index: np.int64(0)})), which.shape)
    length = np.broadcast_to(np.asarray(index.extent.at(points)), which.shape)
    some = length > 0
    return which[some], start[some], (start + length)[some]


def _overlap(a: Run, b: Run) -> tuple[int, int] | None:
    """Intervals of different iterations, one of each side, that have a cell in common: a sweep from left to right."""
    sides = [[(int(s), int(e), int(p), side) for p, s, e in zip(*run, strict=True)] for side, run in enumerate((a, b))]
    best: list[list[tuple[int, int]]] = [[], []]  # per side, the two that reach furthest, of different iterations
    for start, end, which, side in sorted(itertools.chain(*sides)):
        for reach, other in best[1 - side]:
            if reach > start and other != which:
                return (which, other) if side == 0 else (other, which)
        mine = [x for x in best[side] if x[1] != which]
        own = max([x for x in best[side] if x[1] == which] + [(end, which)])
        best[side] = sorted([*mine, own], reverse=True)[:2]
    return None
