"""Rows of a group: `labels == i`. In: a table of labels that does not change, a label that depends on indices.

Out: `Group`, the positions that have the label.

Positions are sorted by label, so the rows of a group are a run of that order: all groups together have as many
positions as the table, whatever their number, and the inspector sees that no row is in two of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewise.kernel.dependence.expr import Expr, computed, constant, gather, greatest
from tilewise.parfor.walk.kept import replace
from tilewise.parfor.walk.places.subscripts import LONGEST_TABLE
from tilewise.parfor.walk.record import Recorder
from tilewise.parfor.walk.values import Group, Val, objects


def equal_rows(values: Sequence[Val], label: Expr | None, recorder: Recorder) -> Group | None:
    """The positions at which a table equals a label: `values` are the two sides of the comparison."""
    tables = [v.known for v in values if v.is_known and isinstance(v.known, np.ndarray)]
    if len(tables) != 1 or label is None:
        return None
    (table,) = tables
    text = table.dtype.kind == "U"
    whole = table.dtype.kind in "iub" and table.dtype != np.uint64
    if table.dtype.kind == "f" and label.integer:  # integers are compared as numbers of its type
        most = 1 << np.finfo(table.dtype).nmant
        whole = -most <= label.lo and label.hi <= most
    if table.ndim != 1 or not 0 < table.size <= LONGEST_TABLE or not (text or (whole and label.integer)):
        return None
    if not recorder.memory.constant(recorder.memory.owner(table, "labels")):
        return None
    names, order, starts, counts = _sorted(table, recorder)
    known = {name: n for n, name in enumerate(names.tolist())}
    find = np.frompyfunc(lambda x: known.get(x, len(known)), 1, 1)

    def number(labels: Any) -> Any:
        return np.asarray(find(labels)).astype(np.int64)

    at = computed(number, [label], (0, len(known)), ("label", id(names)))
    return Group(order, gather(starts, [at]), gather(counts, [at]), table.size)


def chosen_rows(tables: Sequence[Any], at: Expr, recorder: Recorder) -> Group | None:
    """The positions that one of several index arrays or masks has: `tables[at]`."""
    first = tables[0]
    if any(type(t) is not np.ndarray or t.ndim != 1 or t.dtype.kind not in "iub" for t in tables):
        return None
    mask = first.dtype == bool
    if any((t.dtype == bool) != mask or (mask and t.size != first.size) for t in tables):
        return None
    if not 0 < sum(t.size for t in tables) <= LONGEST_TABLE:
        return None
    if not all([recorder.memory.constant(recorder.memory.owner(t, "positions")) for t in tables]):
        return None
    rows = [np.flatnonzero(t) if mask else t for t in tables]
    order = np.concatenate(rows).astype(np.int64)
    if order.size and order.min() < 0:
        return None
    counts = np.array([r.size for r in rows], dtype=np.int64)
    length = int(first.size if mask else order.max(initial=0) + 1)
    start = gather(np.cumsum(counts) - counts, [at])
    return Group(order if order.size else np.zeros(1, dtype=np.int64), start, gather(counts, [at]), length, mask)


def _sorted(table: Any, recorder: Recorder) -> tuple[Any, Any, Any, Any]:
    """Labels, positions in the order of labels, and the run of each label; one more for labels that are not there."""
    kept = recorder.memory.sorted_tables
    if id(table) not in kept:
        names, codes = np.unique(table, return_inverse=True)
        counts = np.append(np.bincount(codes, minlength=names.size), 0)
        recorder.memory.alive.append(table)
        kept[id(table)] = names, np.argsort(codes, kind="stable"), np.cumsum(counts) - counts, counts
    found: tuple[Any, Any, Any, Any] = kept[id(table)]
    return found


def positions_of(mask: Val, made: Val) -> Val:
    """An index array (`np.flatnonzero(mask)`): the same rows."""
    group = mask.group if not any(o.written or o.maybe_written for o in objects(mask)) else None
    return made if group is None or not group.mask else replace(made, group=replace(group, mask=False))


def counted(args: Sequence[Val], made: Val) -> Val:
    """`np.arange` of numbers that are known, as an index array."""
    exprs = [a.expr for a in args if a.expr is not None and a.expr.integer and a.kind == "i"]
    if len(exprs) == len(args) <= 2 and not all(e.constant for e in exprs):
        first, last = exprs if len(exprs) == 2 else (constant(0), exprs[0])
        return _run(first, greatest(last - first, constant(0)), last.hi, made)
    bounds = [e.const for e in exprs if e.constant]
    if len(bounds) != len(args) or not 1 <= len(bounds) <= 3 or (len(bounds) == 3 and bounds[2] == 0):
        return made
    found = range(*bounds)
    if not 0 < len(found) <= LONGEST_TABLE or min(found[0], found[-1]) < 0:
        return made
    size = max(found[0], found[-1]) + 1
    return replace(made, group=Group(np.arange(*bounds), constant(0), constant(len(found)), size, mask=False))


def _run(first: Expr, count: Expr, end: float, made: Val) -> Val:
    """Positions one after the other, all before `end`."""
    if first.lo < 0 or not end <= LONGEST_TABLE:
        return made
    size = max(int(end), 1)
    return replace(made, group=Group(np.arange(size), first, count, size, mask=False))


def shifted(left: Val, right: Val, made: Val) -> Val:
    """`np.arange(n) + k`: positions one after the other, further on."""
    for run, by in ((left, right), (right, left)):
        group, step = run.group, by.expr
        if group is None or group.mask or step is None or not step.integer or by.kind != "i" or step.lo < 0:
            continue
        consecutive = np.array_equal(group.order, np.arange(group.order.size))
        if consecutive and not any(o.written or o.maybe_written for o in objects(run)):
            return _run(group.start + step, group.count, group.length + step.hi, made)
    return made


def common_rows(values: Sequence[Val], made: Val) -> Val:
    """`mask & other`: rows of the mask, at most."""
    groups = [v.group for v in values if v.group is not None and v.group.mask]
    written = any(o.written or o.maybe_written for v in values for o in objects(v) if v.group is not None)
    return made if not groups or written or not all(map(_one_axis, values)) else replace(made, group=groups[0])


def _one_axis(value: Val) -> bool:
    """Whether a value surely has not more than one axis."""
    if value.is_known and isinstance(value.known, np.ndarray):
        return value.known.ndim < 2
    if value.view is not None:
        return not value.view.within and len(value.view.axes) < 2
    return value.scalar or value.group is not None
