"""Cache fusion: which passes share their tiles. In: steps, types of values. Out: steps, some joined in `Tiled`.

A pass that is cut along one dim of its space reads, per tile, a slice of the inputs that have the dim and all of those
that have not; it makes slices, or, where the dim is reduced, contributions. Another pass may join it if it takes the
slices as they are made, or cuts an input as the first does: what they share then comes from memory once. It cannot
join if it needs a whole value of which there are only slices, or a sum to which there are only contributions.

The same question is asked twice: of the sizes at hand when a plan is made, and (`best_way`) of those of each run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from tilewise.ops.views import Arrange, Window, axes_of
from tilewise.plan.steps import Pass, Step, Tiled, View, makes, reads

MOST_STEPS = 24  # of one Tiled; a tile's working set grows with every value

At = int | str | None  # an axis; the reduction that adds contributions; None: all of it


@dataclass(frozen=True)
class Way:
    """One dim along which steps are cut: its length, how their values lie, which axes of inputs are cut."""

    length: int
    at: dict[int, At]  # what the steps make
    cut: frozenset[tuple[int, int]]  # of inputs: the array that is seen, and its axis
    dims: dict[int, int]  # of each pass (by its first output): the dim of its space


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
    if output.reduce is None or nodes[step.outs[k]].ndim == len(reduced):
        return output.reduce if output.reduce is not None and reduced[dim] else dim
    return output.reduce if reduced[dim] else dim - sum(reduced[:dim])


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


def _whole(op: Any, base: Any, node: Any, axis: int) -> bool:
    """Whether a view has all of the base along one of its axes, in order."""
    if isinstance(op, Window):
        axes = axes_of(op)
        assert axes is not None
        return axes[axis].start == 0 and axes[axis].step == 1 and axes[axis].length == base
    return isinstance(op, Arrange)


def _long_dims(step: Pass, nodes: Sequence[Any]) -> list[tuple[int, int]]:
    """Dims to cut, and their lengths: across a short dim, one slice fills the caches."""
    space = space_of(step, nodes)
    return [(dim, length) for dim, length in enumerate(space) if 2 * length >= max(space)]


def first_ways(step: Pass, nodes: Sequence[Any], views: Views) -> list[Way]:
    """Every way to cut a step."""
    out = []
    for dim, length in _long_dims(step, nodes):
        if length > 1:
            way = _joined(Way(length, {}, frozenset(), {}), step, dim, nodes, views, free=True)
            if way is not None:
                out.append(way)
    return out


def further_ways(way: Way, step: Pass, nodes: Sequence[Any], views: Views) -> list[Way]:
    """Every way in which a step can go along with steps that are cut so."""
    out = []
    for dim, length in _long_dims(step, nodes):
        if length == way.length:
            found = _joined(way, step, dim, nodes, views, free=False)
            if found is not None:
                out.append(found)
    return out


def seen_way(way: Way, step: View, nodes: Sequence[Any]) -> Way | None:
    """The way with a view of what is made by tiles; None if a tile of the view is not a view of the tile."""
    at = way.at[step.input]
    op, node = nodes[step.pos].op, nodes[step.pos]
    if not isinstance(at, int):
        return None
    axes = view_axes(op, node.ndim)
    if at not in axes or not _whole(op, nodes[step.input].dims[at], node, axes.index(at)):
        return None
    if isinstance(op, Window) and not _plain(op):
        return None
    return replace(way, at={**way.at, step.pos: axes.index(at)})


def _plain(op: Window) -> bool:
    """Whether a window has all of its base, axes moved and new ones of length one."""
    axes = axes_of(op)
    assert axes is not None
    kept = [a for a in axes if a.base is not None]
    full = all(a.start == 0 and a.step == 1 and a.length == op.base_shape[a.base] for a in kept if a.base is not None)
    left = [n for d, n in enumerate(op.base_shape) if d not in {a.base for a in kept}]
    return full and all(n == 1 for n in left) and all(a.length == 1 for a in axes if a.base is None)


def _joined(way: Way, step: Pass, dim: int, nodes: Sequence[Any], views: Views, free: bool) -> Way | None:
    at, cut, linked = dict(way.at), set(way.cut), free
    for k, x in enumerate(step.inputs):
        axis = axis_of(step, k, dim, nodes)
        if x in at:
            if axis is None or at[x] != axis:
                return None
            linked = True
        elif axis is not None:
            source = views.source(x, axis)
            linked = linked or source in cut
            cut.add(source)
    for k, pos in enumerate(step.outs):
        where = out_axis(step, k, dim, nodes)
        if isinstance(where, str) and where in ("argmin", "argmax"):
            return None
        at[pos] = where
    return Way(way.length, at, frozenset(cut), {**way.dims, step.outs[0]: dim}) if linked else None


def best_way(group: Tiled, nodes: Sequence[Any]) -> Way | None:
    """How to cut a group with the sizes at hand: so that the least is needed whole."""
    views = Views(nodes)
    ways: list[Way] | None = None
    for step in group.steps:
        if isinstance(step, View):
            views.add(step)
            ways = [w for way in ways or () if (w := seen_way(way, step, nodes)) is not None]
        elif ways is None:
            ways = first_ways(step, nodes, views)
        else:
            ways = [w for way in ways for w in further_ways(way, step, nodes, views)]
    return min(ways or (), key=lambda w: _burden(w, group, nodes), default=None)


def _burden(way: Way, group: Tiled, nodes: Sequence[Any]) -> tuple[int, int]:
    """Bytes that every tile needs whole or adds to; bytes whose slices are not contiguous."""
    whole = across = 0
    cut = {pos: axis for pos, axis in way.cut}
    for x in group.inputs:
        if x in cut:
            order = nodes[x].order
            across += nodes[x].nbytes * (cut[x] != (order[0] if order else 0))
        else:
            whole += nodes[x].nbytes
    whole += sum(nodes[x].nbytes for x, a in way.at.items() if isinstance(a, str))
    return whole, across


# -- joining steps ------------------------------------------------------------------------------------------------


@dataclass
class _Unit:
    """A step, or passes that share their tiles; views of what they make come after."""

    steps: list[Step]
    ways: list[Way] = field(default_factory=list)
    after: list[View] = field(default_factory=list)

    @property
    def made(self) -> set[int]:
        """What is computed here."""
        return {m for s in self.steps for m in makes(s)}


def tile(nodes: Sequence[Any], steps: Sequence[Step], wanted: Sequence[bool]) -> list[Step]:
    """The steps, those that can share tiles together."""
    if sum(isinstance(s, Pass) for s in steps) < 2:
        return list(steps)
    return _Tiler(nodes, steps, wanted).steps()


class _Tiler:
    def __init__(self, nodes: Sequence[Any], steps: Sequence[Step], wanted: Sequence[bool]) -> None:
        self.nodes, self.wanted = nodes, wanted
        self.views = Views(nodes)
        self.view_steps: dict[int, View] = {}
        self.first: list[View] = []
        self.units: list[_Unit] = []
        self.unit_of: dict[int, int] = {}
        for step in steps:
            self._add(step)

    def _add(self, step: Step) -> None:
        if isinstance(step, View):
            unit = self.unit_of.get(step.input, -1)
            self.unit_of[step.pos] = unit
            self.views.add(step)
            self.view_steps[step.pos] = step
            (self.first if unit < 0 else self.units[unit].after).append(step)
            return
        ways: list[Way] = []
        if isinstance(step, Pass) and self._can(step):
            found = self._best(step)
            if found is not None:
                unit, ways = found
                self.units[unit].steps.append(step)
                self.units[unit].ways = ways
                self.unit_of |= dict.fromkeys(step.outs, unit)
                return
            ways = first_ways(step, self.nodes, self.views)
        self.unit_of |= dict.fromkeys(makes(step), len(self.units))
        self.units.append(_Unit([step], ways))

    def _can(self, step: Pass) -> bool:
        if any(w is not None for w in step.writes):
            return False
        return all(self.nodes[x].known for x in (*step.inputs, *step.outs, step.space))

    def _best(self, step: Pass) -> tuple[int, list[Way]] | None:
        """The unit that a step joins with the most bytes saved."""
        least = max((self.unit_of.get(x, -1) for x in reads(step)), default=-1)
        best: tuple[int, int, list[Way]] | None = None
        for u in range(max(least, 0), len(self.units)):
            unit = self.units[u]
            if not unit.ways or len(unit.steps) >= MOST_STEPS:
                continue
            if u == least and any(self.unit_of.get(p) == u for p in step.params):
                continue
            ways = [w for way in unit.ways for w in self._joins(way, step, unit)]
            if ways:
                saved = self._saved(step, ways[0], unit)
                if saved > 0 and (best is None or saved >= best[0]):
                    best = (saved, u, ways)
        return None if best is None else best[1:]

    def _joins(self, way: Way, step: Pass, unit: _Unit) -> list[Way]:
        seen: Way | None = way
        for view in self._inner_views(step, unit):
            if seen is not None and view.pos not in seen.at:
                seen = seen_way(seen, view, self.nodes)
        return [] if seen is None else further_ways(seen, step, self.nodes, self.views)

    def _inner_views(self, step: Pass, unit: _Unit) -> list[View]:
        """Views of what the unit makes, through which a step reads it; bases first."""
        made, out = unit.made, []
        for x in step.inputs:
            chain = []
            while x in self.view_steps:
                chain.append(self.view_steps[x])
                x = chain[-1].input
            if x in made:
                out += chain[::-1]
        return list(dict.fromkeys(out))

    def _saved(self, step: Pass, way: Way, unit: _Unit) -> int:
        """Bytes that need not be read again."""
        read = {self.views.source(x, 0)[0] for s in unit.steps for x in reads(s) if self.nodes[x].ndim}
        mine = {self.views.source(x, 0)[0] for x in step.inputs if self.nodes[x].ndim}
        return sum(self.nodes[x].nbytes for x in mine & (read | unit.made))

    def steps(self) -> list[Step]:
        """All steps in order."""
        outside = self._outside()
        out: list[Step] = list(self.first)
        for unit in self.units:
            if len(unit.steps) == 1:
                out += unit.steps
            else:
                out.append(self._tiled(unit, outside))
            tiled = len(unit.steps) > 1
            out += [v for v in unit.after if not tiled or v.pos in outside]
        return out

    def _outside(self) -> set[int]:
        """Positions that are needed beyond the unit that makes them, the views on the way there included."""
        found = {x for x, w in enumerate(self.wanted) if w}
        for u, unit in enumerate(self.units):
            found |= {x for s in unit.steps for x in reads(s) if self.unit_of.get(x, -1) != u}
        for pos in sorted(found, reverse=True):  # a view is made after its base
            while pos in self.view_steps:
                pos = self.view_steps[pos].input
                found.add(pos)
        return found

    def _tiled(self, unit: _Unit, outside: Iterable[int]) -> Tiled:
        needed = set(outside)
        steps: list[Pass | View] = []
        for step in unit.steps:
            assert isinstance(step, Pass)
            steps += [v for v in self._inner_views(step, unit) if v not in steps]
            steps.append(step)
        made = {m for s in steps for m in makes(s)}
        inputs = dict.fromkeys(x for s in steps for x in reads(s) if x not in made)
        return Tiled(tuple(steps), tuple(inputs), tuple(x for x in sorted(unit.made) if x in needed))


def bytes_of(nodes: Sequence[Any], positions: Iterable[int]) -> int:
    """The size of some values together."""
    return sum(prod(nodes[x].dims) * nodes[x].dtype.itemsize for x in positions)
