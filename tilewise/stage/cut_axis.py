"""Along which dim passes can be cut together. In: passes, types of values. Out: possible cuts, and the best one.

A pass that is cut along one dim of its space reads, per tile, a slice of the inputs that have the dim and all of those
that have not; it makes slices, or, where the dim is reduced, contributions. Another pass may join it if it takes the
slices as they are made, or cuts an input as the first does: what they share then comes from memory once. It may read
windows of them, too: how many more slices a tile then needs is in stage/halo.py. It cannot join if it needs all of a
value that exists only in slices, or a sum that exists only as contributions.

The same question is asked twice: of the sizes at hand when a plan is made (tile.py), and of those of each run
(lengths.py, which says how long tiles are).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from math import prod
from typing import Any

from tilewise import rounding
from tilewise.ops.views import Arrange, Cut, Window, axes_of, explain
from tilewise.records import dataclass
from tilewise.stage.steps import Call, Pass, Tiled, View, makes

MEAN = "mean"  # made of a sum over all tiles, after them; a tile takes the mean of its own part

At = int | str | None  # an axis; the reduction that adds contributions; None: all of it


@dataclass(frozen=True)
class Update:
    """An update: the base it replaces a part of, and the slices along the cut that contain new elements."""

    base: int
    start: int
    stop: int


@dataclass(frozen=True)
class CutAxis:
    """One dim along which steps are cut: its length, which axes of values and inputs are cut."""

    length: int
    at: dict[int, At]  # what the steps make
    cut: frozenset[tuple[int, int]]  # of inputs: the array that is seen, and its axis
    dims: dict[int, int]  # of each pass (by its outputs): the dim of its space
    begins: dict[int, int] = field(default_factory=dict)  # the same: where its first slice is along the cut
    windows: dict[int, tuple[int, int]] = field(default_factory=dict)  # views: the value behind, the first slice
    updates: dict[int, Update] = field(default_factory=dict)  # passes that replace a part of another value

    def behind(self, pos: int) -> tuple[int, int]:
        """The value that a position is a view of, and at which of its slices it starts."""
        return self.windows.get(pos, (pos, 0))


def space_of(step: Pass, nodes: Sequence[Any]) -> tuple[int, ...]:
    """The sizes of the iteration space."""
    if step.letters is None:
        dims: tuple[int, ...] = nodes[step.space].dims
        return dims
    sizes = [1] * len(step.kernel.reduced)
    for x, letters in zip(step.inputs, step.letters, strict=True):
        for n, d in zip(nodes[x].dims, letters, strict=True):
            sizes[d] = n if sizes[d] == 1 else sizes[d]
    return tuple(sizes)


def target(step: Pass, nodes: Sequence[Any]) -> tuple[int, tuple[int, ...]] | None:
    """What an update replaces a part of, and where that part begins; None if it is no box along all of its axes."""
    (pos, *more), base = step.outs, step.writes[0]
    if more or base is None:
        return None
    window = nodes[pos].op.window
    found = explain(window)
    if found is None or step.letters is not None or len(window.shape) != len(window.base_shape):
        return None
    axes, starts = found
    plain = all(a.length == 1 or (a.base == d and a.step == 1) for d, a in enumerate(axes))
    return (base, starts) if plain and space_of(step, nodes) == window.shape else None


def replaces(step: Pass) -> bool:
    """Whether a pass is an update."""
    return any(w is not None for w in step.writes)


def operands(step: Pass) -> tuple[int, ...]:
    """The arrays that a pass reads: inputs, and what it replaces a part of."""
    return (*step.inputs, *(w for w in step.writes if w is not None))


def single(step: Pass, nodes: Sequence[Any]) -> bool:
    """Whether a sum of products has one term each: NumPy gives the product, a zero with its sign."""
    reduced = step.kernel.reduced
    if step.kernel.outputs[0].key is not None:
        return False
    return any(reduced) and all(n == 1 for n, r in zip(space_of(step, nodes), reduced, strict=True) if r)


def axis_of(step: Pass, k: int, dim: int, nodes: Sequence[Any]) -> int | None:
    """The axis of input k that walks along a dim of the space."""
    shape = nodes[step.inputs[k]].dims
    if step.letters is not None:
        axis = step.letters[k].index(dim) if dim in step.letters[k] else -1
    else:
        axis = dim - (len(step.kernel.reduced) - len(shape))
    return None if axis < 0 or shape[axis] == 1 else axis


def out_axis(step: Pass, k: int, dim: int, nodes: Sequence[Any]) -> At:
    """Where a dim of the space is in output k: its axis, or the reduction if it is gone."""
    reduced, output = step.kernel.reduced, step.kernel.outputs[k]
    if output.key is not None:  # buckets, then what is kept
        return output.reduce if reduced[dim] else 1 + dim - sum(reduced[:dim])
    if output.stored or nodes[step.outs[k]].ndim == len(reduced):
        return output.reduce if output.reduce is not None and reduced[dim] else dim
    return output.reduce if reduced[dim] else dim - sum(reduced[:dim])


def drops_axes(step: Pass, k: int, node: Any) -> bool:
    """Whether output k has axes of length one where dims were reduced, of which the kernel knows nothing."""
    output = step.kernel.outputs[k]
    return not output.stored and output.key is None and node.ndim == len(step.kernel.reduced)


class Views:
    """Which array a position is a view of, and which of its axes each axis of the view walks along."""

    def __init__(self, nodes: Sequence[Any]) -> None:
        self.nodes = nodes
        self.known: dict[int, tuple[int, tuple[int | None, ...]]] = {}

    def add(self, step: View) -> None:
        """A further view."""
        self.known[step.pos] = (step.input, view_axes(self.nodes[step.pos].op, self.nodes[step.pos].ndim))

    def source(self, pos: int, axis: int) -> tuple[int, int]:
        """The array behind a position, and its axis."""
        while pos in self.known:
            base, axes = self.known[pos]
            under = axes[axis]
            if under is None:
                return pos, axis
            pos, axis = base, under
        return pos, axis


def view_axes(op: Any, ndim: int) -> tuple[int | None, ...]:
    """The axis of the base that each axis of a view walks along; None where it is new, or cannot be told."""
    if isinstance(op, Window):
        axes = axes_of(op)
        return (None,) * ndim if axes is None else tuple(a.base for a in axes)
    if isinstance(op, Arrange):
        return op.axes
    return tuple(range(ndim))  # a Cut


def _start(op: Any, axis: int) -> int | None:
    """Where a view starts along one of its axes; None if its slices are not consecutive."""
    if isinstance(op, Window):
        axes = axes_of(op)
        assert axes is not None
        plain = axes[axis].step == 1 and all(a.length == 1 for a in axes if a.base is None)
        return axes[axis].start if plain else None
    if isinstance(op, Cut):
        return op.starts[axis] if op.steps[axis] == 1 else None
    return 0


def _fits(step: Pass, dim: int, space: tuple[int, ...], nodes: Sequence[Any]) -> bool:
    """Whether to cut along a dim: of a dim much shorter than others, one slice often fills the caches."""
    if 2 * space[dim] >= max(space):
        return True
    plain = step.letters is None and not step.kernel.reduced[dim]
    return plain and prod(space) // max(1, space[dim]) * nodes[step.outs[0]].dtype.itemsize <= rounding.NEAR_BYTES


def first_ways(step: Pass, nodes: Sequence[Any], views: Views) -> list[CutAxis]:
    """All cuts of a step: along long dims, and along short ones if slices are small and contiguous."""
    out, space, made = [], space_of(step, nodes), nodes[step.outs[0]]
    outer = made.order[0] if made.order and made.ndim == len(space) else 0
    for dim, length in enumerate(space):
        if length > 1 and (2 * length >= max(space) or (dim == outer and _fits(step, dim, space, nodes))):
            way = _joined(CutAxis(length, {}, frozenset(), {}), step, dim, nodes, views, free=True)
            if way is not None:
                out.append(way)
    return out


def further_ways(way: CutAxis, step: Pass, nodes: Sequence[Any], views: Views) -> list[CutAxis]:
    """All cuts with which a step can join steps that are cut like this."""
    out, space = [], space_of(step, nodes)
    for dim, length in enumerate(space):
        if not _fits(step, dim, space, nodes):
            continue
        length = nodes[step.outs[0]].dims[dim] if replaces(step) else length
        if abs(length - way.length) * rounding.SIMILAR <= way.length:
            found = _joined(way, step, dim, nodes, views, free=False)
            if found is not None:
                out.append(found)
    return out


def seen_way(way: CutAxis, step: View, nodes: Sequence[Any]) -> CutAxis | None:
    """The cut, extended by a view of a value made by tiles; None if a tile of the view is not a view of the tile."""
    at = way.at[step.input]
    op, node = nodes[step.pos].op, nodes[step.pos]
    if not isinstance(at, int):
        return None
    axes = view_axes(op, node.ndim)
    start = _start(op, axes.index(at)) if at in axes else None
    if start is None:
        return None
    value, before = way.behind(step.input)
    windows = {**way.windows, step.pos: (value, before + start)}
    return replace(way, at={**way.at, step.pos: axes.index(at)}, windows=windows)


def plain_window(op: Window) -> bool:
    """Whether a window shows all of its base: axes permuted, axes of length one added."""
    axes = axes_of(op)
    if axes is None:  # a part of each element, say
        return False
    kept = [a for a in axes if a.base is not None]
    full = all(a.start == 0 and a.step == 1 and a.length == op.base_shape[a.base] for a in kept if a.base is not None)
    left = [n for d, n in enumerate(op.base_shape) if d not in {a.base for a in kept}]
    return full and all(n == 1 for n in left) and all(a.length == 1 for a in axes if a.base is None)


def _joined(way: CutAxis, step: Pass, dim: int, nodes: Sequence[Any], views: Views, free: bool) -> CutAxis | None:
    at, cut, linked = dict(way.at), set(way.cut), free
    begin: int | None = None
    updates = way.updates
    shift = 0  # of the first slice with new elements
    if replaces(step):
        found = target(step, nodes)
        if found is None:
            return None
        base, starts = found
        shift = starts[dim]
        updates = {**updates, step.outs[0]: Update(base, shift, shift + space_of(step, nodes)[dim])}
    own = None if step.centre is None or at.get(step.centre.mean) != MEAN else step.centre
    if own is not None and way.dims[own.total] != dim:
        return None
    for k, x in enumerate(operands(step)):
        axis = axis_of(step, k, dim, nodes) if k < len(step.inputs) else dim
        if own is not None and x == own.mean:
            continue
        if x in at:
            if axis is None or at[x] != axis:
                return None
            linked = True
            value, start = way.behind(x)
            first = way.begins[value] + start
            if k == len(step.inputs):
                begin = first  # an update is aligned with its base
            else:
                begin = first - shift if begin is None else min(begin, first - shift)
        elif axis is not None:
            source = views.source(x, axis)
            if not free and source not in cut and any(base == source[0] for base, _ in cut):
                return None  # one reads its rows, the other its columns: it would be read twice, with strides
            linked = linked or source in cut
            cut.add(source)
    for k, pos in enumerate(step.outs):
        where = out_axis(step, k, dim, nodes)
        output = step.kernel.outputs[k]
        if isinstance(where, str) and (output.is_arg or output.scan):
            return None
        at[pos] = where
    if not linked:
        return None
    dims = {**way.dims, **dict.fromkeys(step.outs, dim)}
    begins = {**way.begins, **dict.fromkeys(step.outs, begin or 0)}
    return replace(way, at=at, cut=frozenset(cut), dims=dims, begins=begins, updates=updates)


def mean_way(way: CutAxis, step: Pass | Call, total: int) -> CutAxis | None:
    """The cut, extended by a step that makes a mean of a sum over tiles: it runs after all; tiles use their own."""
    return replace(way, at={**way.at, **dict.fromkeys(makes(step), MEAN)}) if way.at.get(total) == "add" else None


def centred(group: Tiled, way: CutAxis) -> list[Pass]:
    """The sums of squares that each tile takes about its own mean."""
    return [
        s for s in group.steps if isinstance(s, Pass) and s.centre is not None and way.at.get(s.centre.mean) == MEAN
    ]


def best_way(group: Tiled, nodes: Sequence[Any]) -> CutAxis | None:
    """How to cut a group with the sizes at hand: so that the fewest bytes are needed whole by every tile."""
    views = Views(nodes)
    ways: list[CutAxis] | None = None
    totals = {s.centre.mean: s.centre.total for s in group.steps if isinstance(s, Pass) and s.centre is not None}
    for step in group.steps:
        if isinstance(step, View):
            views.add(step)
            ways = [w for way in ways or () if (w := seen_way(way, step, nodes)) is not None]
        elif ways is None:
            assert isinstance(step, Pass)
            ways = first_ways(step, nodes, views)
        else:
            late = [w for p in makes(step) if p in totals for way in ways if (w := mean_way(way, step, totals[p]))]
            if isinstance(step, Pass):
                late += [w for way in ways for w in further_ways(way, step, nodes, views)]
            ways = late
    return min(ways or (), key=lambda w: _burden(w, group, nodes), default=None)


def _burden(way: CutAxis, group: Tiled, nodes: Sequence[Any]) -> tuple[int, int, int]:
    """Bytes that every tile needs whole or adds to; bytes whose slices are not contiguous.

    What is needed whole is free while it is small; then contiguous slices decide.
    """
    cut = {pos: axis for pos, axis in way.cut}
    whole = sum(nodes[x].nbytes for x in group.inputs if x not in cut)
    whole += sum(nodes[x].nbytes for x, a in way.at.items() if isinstance(a, str))
    sliced = {x: cut[x] for x in group.inputs if x in cut} | {x: a for x, a in way.at.items() if isinstance(a, int)}
    across = sum(nodes[x].nbytes for x, axis in sliced.items() if axis != (nodes[x].order or (0,))[0])
    return max(whole, rounding.NEAR_BYTES), across, whole
