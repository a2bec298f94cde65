"""A group of passes of a line, shared out. In: a `Tiled` that has no tiles, whole arrays. Out: calls of each part.

What is too little for tiles may still be worth a second thread. All passes are cut along rows that no pass sums over,
so that a part needs nothing that another makes, and threads meet once: after the last pass. Until then, parts are at
different passes: memory that one of them reads is not used again by another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewise.backend.host.boxes import slices
from tilewise.backend.llvm.call.tile_walk import calls_of
from tilewise.stage.cut_axis import CutAxis, axis_of, best_way, space_of
from tilewise.stage.halo import halos_of, placed
from tilewise.stage.steps import Pass, Tiled

ND = np.ndarray[Any, Any]
Seen = list[tuple[int, ND]]  # the operands of a pass: positions, and how they are seen


def way_of(group: Tiled, nodes: Sequence[Any]) -> CutAxis | None:
    """How a group is cut so that parts have nothing to do with each other; None if there is no such way."""
    if not all(isinstance(s, Pass) and _plain(s) for s in group.steps):
        return None
    way = best_way(group, nodes)
    if way is None or any(not isinstance(at, int) for at in way.at.values()):
        return None
    way, even = placed(group, way, nodes)
    return way if even and not any(halos_of(group, way).values()) else None


def _plain(step: Pass) -> bool:
    """Whether a pass is a kernel that fills whole values, point by point or by reductions along the rows."""
    alone = not step.blas and step.centre is None and all(base is None for base in step.writes)
    return alone and all(o.key is None and not o.scan for o in step.kernel.outputs)


def parts(
    laid: Sequence[tuple[Pass, Any, Seen]],
    way: CutAxis,
    nodes: Sequence[Any],
    ref: Callable[[int, ND], Any],
    count: int,
    scratch: Callable[[int], Any],
) -> list[list[Any]] | None:
    """The calls of each of some parts; None where there are none, or not all of them."""
    out: list[list[Any]] = []
    for part in range(count):
        low, high = (way.length * k // count for k in (part, part + 1))
        calls: list[Any] = []
        for step, kernel, seen in laid:
            dim = way.dims[step.outs[0]]
            space = space_of(step, nodes)
            refs = [ref(pos, _cut(step, k, a, dim, nodes, low, high)) for k, (pos, a) in enumerate(seen)]
            shape = (*space[:dim], high - low, *space[dim + 1 :])
            found = calls_of(kernel, shape, refs, step.params, scratch(part), None)
            if found is None:
                return None
            calls += found
        out.append(calls)
    return out


def _cut(step: Pass, k: int, seen: ND, dim: int, nodes: Sequence[Any], low: int, high: int) -> ND:
    """The slices of an operand that a part has."""
    n = len(step.inputs)
    axis: int | None
    if k < n:
        axis = axis_of(step, k, dim, nodes)
        axis = dim if axis is not None and step.letters is not None else axis
    else:
        axis = dim if step.kernel.outputs[k - n].stored else dim - sum(step.kernel.reduced[:dim])
    return seen if axis is None else slices(seen, axis, low, high)
