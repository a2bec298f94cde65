"""Cache fusion: which passes share their tiles. In: steps, types of values. Out: steps, some joined in `Tiled`.

A step joins the unit with which it saves the most bytes: values of the unit need not be read from memory again. Values
that it needs whole must have been made by an earlier unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from math import prod
from typing import Any

from tilewise import rounding
from tilewise.backend import facts
from tilewise.layout import blocked, is_cut
from tilewise.plan.draft import Draft
from tilewise.records import dataclass
from tilewise.stage.cut_axis import (
    CutAxis,
    Views,
    first_ways,
    further_ways,
    mean_way,
    operands,
    replaces,
    seen_way,
    target,
)
from tilewise.stage.steps import Call, Pass, Step, Tiled, View, Write, makes, reads
from tilewise.stage.tiles import fits
from tilewise.stage.variance import centre_of


@dataclass
class _Unit:
    """A step, or passes that share their tiles; views of what they make come after."""

    steps: list[Step]
    ways: list[CutAxis] = field(default_factory=list)
    after: list[View] = field(default_factory=list)

    @property
    def made(self) -> set[int]:
        """What is computed here."""
        return {m for s in self.steps for m in makes(s)}


def tile(draft: Draft) -> Draft:
    """A pass of the compiler: steps that can share tiles become groups."""
    if not draft.fusion:
        return draft
    if sum(isinstance(s, Pass) for s in draft.steps) < 2:
        return replace(draft, steps=tuple(_alone(s, draft.nodes) for s in draft.steps))
    return replace(draft, steps=tuple(_Tiler(draft).steps()))


def _alone(step: Step, nodes: Sequence[Any]) -> Step:
    """A step that shares tiles with no other: a product of matrices is NumPy's, but for tall ones."""
    if not isinstance(step, Pass) or not step.blas:
        return step
    if tall(nodes[step.outs[0]]):
        return Tiled((step,), step.inputs, step.outs, step.inputs)
    return Call(step.outs[0], step.inputs)


def tall(product: Any) -> bool:
    """Whether a product of matrices is cut into tiles even if no other pass shares them.

    Plans are kept for graphs of all sizes that agree in this.
    """
    nodes = (*product.inputs, product)
    if len(nodes) != 3 or not all(x.known and x.ndim == 2 for x in nodes):
        return False
    most = max(n for x in nodes for n in x.dims)
    device = facts()
    if most < device.product_rows * rounding.TALL_TILES:
        return False
    tile = device.tile_length(sum(prod(x.dims) for x in nodes if most in x.dims) // most * product.dtype.itemsize)
    return tile >= device.product_rows and most > tile * (rounding.TALL_TILES - 1)


class _Tiler:
    def __init__(self, draft: Draft) -> None:
        self.nodes, self.wanted, self.merge = draft.nodes, draft.wanted, draft.merge
        self.cut = None if draft.layouts is None else [(blocked(x), is_cut(x)) for x in draft.layouts]
        self.at = {n: i for i, n in enumerate(self.nodes)}
        self.views = Views(self.nodes)
        self.view_steps: dict[int, View] = {}
        self.first: list[View] = []
        self.units: list[_Unit] = []
        self.unit_of: dict[int, int] = {}
        for step in draft.steps:
            self._add(step)

    def _add(self, step: Step) -> None:
        if isinstance(step, View):
            unit = self.unit_of.get(step.input, -1)
            self.unit_of[step.pos] = unit
            self.views.add(step)
            self.view_steps[step.pos] = step
            (self.first if unit < 0 else self.units[unit].after).append(step)
            return
        ways: list[CutAxis] = []
        if isinstance(step, Pass) and self._can(step):
            if self.merge and (centre := centre_of(step, self.nodes, self.at)) is not None:
                step = replace(step, centre=centre)
            found = self._with_mean(step) or self._best(step)
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
        if step.iterations is not None or (replaces(step) and target(step, self.nodes) is None):
            return False
        return all(self.nodes[x].known for x in (*step.inputs, *step.outs, step.space))

    def _best(self, step: Pass) -> tuple[int, list[CutAxis]] | None:
        """The unit that a step joins with the most bytes saved."""
        needed = {self.unit_of.get(x, -1) for x in reads(step)}
        best: tuple[int, int, list[CutAxis]] | None = None
        by_block = self._by_block(step)
        for u in range(self._least(needed), len(self.units)):
            unit = self.units[u]
            if not unit.ways or len(unit.steps) >= rounding.MOST_STEPS or self._by_block(unit.steps[0]) != by_block:
                continue
            if u in needed and any(self.unit_of.get(p) == u for p in step.params):
                continue
            ways = self._with_room([w for way in unit.ways for w in self._joins(way, step, unit)], step, unit)
            if ways and self._others(needed, u) is not None:
                # A cut along the memory order of large inputs is worth more than the few bytes a step saves.
                strips = max(self._across(ways) - self._across(unit.ways), 0)
                saved = self._saved(step, ways[0], unit) - strips // rounding.STRIPS
                if saved > 0 and (best is None or saved >= best[0]):
                    best = (saved, u, ways)
        return None if best is None else (self._after(best[1], self._others(needed, best[1]) or set()), best[2])

    def _by_block(self, step: Step) -> tuple[bool, bool]:
        """On a mesh: whether a step runs once per block (else once per worker, on what every worker has); and whether
        it does if blocks take turns.

        A pass that reads constants only, and reduces them, runs per block where its space is cut.
        """
        if self.cut is None:
            return False, False
        space = (step.space,) if isinstance(step, Pass) else ()
        seen = [self.cut[x] for x in (*reads(step), *makes(step), *space)]
        return any(by_worker for by_worker, _ in seen), any(in_turns for _, in_turns in seen)

    def _across(self, ways: Sequence[CutAxis]) -> int:
        """Bytes of inputs whose slices are not contiguous, by the best way."""

        def strips(way: CutAxis) -> int:
            orders = ((self.nodes[x], axis) for x, axis in way.cut)
            return sum(n.nbytes for n, axis in orders if n.ndim > 1 and axis != (n.order[0] if n.order else 0))

        return min(map(strips, ways), default=0)

    def _least(self, needed: set[int]) -> int:
        """The first unit that a step may join: what it needs is made before it, or can be moved there."""
        return max((v for v in needed if v >= 0 and self._others({v}, -1) is None), default=0)

    def _others(self, needed: set[int], u: int) -> set[int] | None:
        """The units after u that would have to come before it; None if they depend on it, are many, or overwrite."""
        found = {v for v in needed if v > u}
        stack = list(found)
        while stack:
            steps = self.units[stack.pop()].steps
            if any(isinstance(s, Write) or (isinstance(s, Pass) and replaces(s)) for s in steps):
                return None
            before = {self.unit_of.get(x, -1) for s in steps for x in reads(s)}
            if (u >= 0 and u in before) or len(found) > rounding.MOST_MOVED:
                return None
            new = {v for v in before if v > u} - found
            found |= new
            stack += new
        return found

    def _after(self, u: int, late: set[int]) -> int:
        """Put some of the units that come after a unit before it; the number that it has then."""
        if not late:
            return u
        order = [v for v in range(len(self.units)) if v not in late]
        at = order.index(u)
        order[at:at] = sorted(late)
        new = {v: k for k, v in enumerate(order)} | {-1: -1}
        self.units = [self.units[v] for v in order]
        self.unit_of = {x: new[v] for x, v in self.unit_of.items()}
        return new[u]

    def _with_mean(self, step: Pass) -> tuple[int, list[CutAxis]] | None:
        """The unit that makes the sum of a mean, for deviations from it; what makes the mean goes there, too."""
        if step.centre is None:
            return None
        mean, total = step.centre.mean, step.centre.total
        u, v = self.unit_of.get(total, -1), self.unit_of.get(mean, -1)
        others = [x for x in reads(step) if x != mean]
        if u < 0 or any(self.unit_of.get(x, -1) > u for x in others):
            return None
        if any(self.unit_of.get(p) == u for p in step.params if p != mean):
            return None
        unit, ways = self.units[u], self.units[u].ways
        if self._by_block(unit.steps[0]) != self._by_block(step):
            return None
        if v != u:
            (maker, *more) = self.units[v].steps
            if more or not isinstance(maker, Pass | Call) or len(unit.steps) + 2 > rounding.MOST_STEPS:
                return None
            if any(self.unit_of.get(x, -1) >= u for x in reads(maker) if x != total):
                return None
            ways = [w for way in ways if (w := mean_way(way, maker, total)) is not None]
        ways = self._with_room([w for way in ways for w in self._joins(way, step, unit)], step, unit)
        if not ways:
            return None
        if v != u:
            self._move(v, u)
        return u, ways

    def _move(self, source: int, target: int) -> None:
        """All of a unit into an earlier one."""
        old, new = self.units[source], self.units[target]
        new.steps += old.steps
        new.after += old.after
        self.units[source] = _Unit([])
        self.unit_of = {x: target if u == source else u for x, u in self.unit_of.items()}

    def _joins(self, way: CutAxis, step: Pass, unit: _Unit) -> list[CutAxis]:
        seen: CutAxis | None = way
        for view in self._inner_views(step, unit):
            if seen is not None and view.pos not in seen.at:
                seen = seen_way(seen, view, self.nodes)
        if seen is None:
            return []
        return further_ways(seen, step, self.nodes, self.views)

    def _with_room(self, ways: list[CutAxis], step: Pass, unit: _Unit) -> list[CutAxis]:
        """The cuts whose tiles with halos fit into the caches; none, if the best does not."""
        if not any(w.windows for w in ways):
            return ways
        both = self._tiled(replace(unit, steps=[*unit.steps, step]), step.outs)
        room = facts().scratch_bytes
        fit = [w for w in ways if not w.windows or fits(both, w, self.nodes, room)]
        return fit if self._across(fit) <= self._across(ways) else []

    def _inner_views(self, step: Pass | Call, unit: _Unit) -> list[View]:
        """Views of what the unit makes, through which a step reads it; bases first."""
        made, out = unit.made, []
        for x in step.inputs if isinstance(step, Call) else operands(step):
            chain = []
            while x in self.view_steps:
                chain.append(self.view_steps[x])
                x = chain[-1].input
            if x in made:
                out += chain[::-1]
        return list(dict.fromkeys(out))

    def _saved(self, step: Pass, way: CutAxis, unit: _Unit) -> int:
        """Bytes that need not be read again."""
        read = {self.views.source(x, 0)[0] for s in unit.steps for x in reads(s) if self.nodes[x].ndim}
        mine = {self.views.source(x, 0)[0] for x in operands(step) if self.nodes[x].ndim}
        return sum(self.nodes[x].nbytes for x in mine & (read | unit.made))

    def steps(self) -> list[Step]:
        """All steps in order."""
        outside = self._outside()
        out: list[Step] = list(self.first)
        for unit in self.units:
            if len(unit.steps) == 1:
                out.append(_alone(unit.steps[0], self.nodes))
            elif unit.steps:
                out.append(self._tiled(unit, outside))
            tiled = len(unit.steps) > 1
            out += [v for v in unit.after if not tiled or v.pos in outside]
        return out

    def _outside(self) -> set[int]:
        """Positions that are needed beyond the unit that makes them, intermediate views included."""
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
        steps: list[Pass | View | Call] = []
        for step in unit.steps:
            assert isinstance(step, Pass | Call)
            steps += [v for v in self._inner_views(step, unit) if v not in steps]
            steps.append(step)
        made = {m for s in steps for m in makes(s)}
        inputs = dict.fromkeys(x for s in steps for x in reads(s) if x not in made)
        outs = tuple(x for x in sorted(unit.made) if x in needed)
        return Tiled(tuple(steps), tuple(inputs), outs, tuple(self._base(x) for x in inputs))

    def _base(self, pos: int) -> int:
        while pos in self.view_steps:
            pos = self.view_steps[pos].input
        return pos
