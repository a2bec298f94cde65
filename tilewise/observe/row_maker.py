"""Rows of a plan's table. In: steps, exchanges and values at positions of a graph. Out: `StepRow`, `ExchangeRow`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewise.backend import host_backend
from tilewise.config import current
from tilewise.cost.model import TICKS, Rates, collective_cost, exchange_seconds
from tilewise.layout import Layout, Mesh, describe, total_held
from tilewise.observe.rows import ExchangeRow, Site, StepRow, count_text, where_text
from tilewise.ops.traits.collectives import Traffic
from tilewise.plan.blocks import Spec
from tilewise.plan.memory import held_bytes
from tilewise.plan.show import dtype_text, size_text
from tilewise.plan.step_seconds import seen_bytes, step_seconds
from tilewise.records import dataclass
from tilewise.stage.steps import Call, Pass, Step, Tiled, View, Write, makes, passes
from tilewise.stage.steps import members as all_members


@dataclass(frozen=True)
class RowMaker:
    """Makes the rows of a plan's table, from its graph and layouts."""

    specs: Sequence[Spec]
    nodes: Sequence[Any]  # as the largest block has them
    mesh: Mesh
    layouts: Sequence[Layout] | None  # None: all of it is here
    machine: Rates
    sites: Sequence[Site | None]  # the user's line of every node
    guessed: bool  # whether what a mask keeps is not known: what moves is a bound

    def exchange(self, pos: int, e: Any) -> ExchangeRow:
        """What an exchange (of layout/moves.py) moves of a value."""
        size = self.specs[pos].dtype.itemsize
        seconds = exchange_seconds(e.src, e.dst, e.shape, self.mesh, size, self.machine)
        way = describe(e.src), "here" if self.layouts is None else describe(e.dst)
        where, read = self.where(pos), e.read_elements * size
        bound = self.guessed and e.bytes(size) > 0
        return ExchangeRow(str(e.kind), self.value(pos), *way, e.bytes(size), seconds, where, bound=bound, read=read)

    def collective(self, pos: int, src: Layout, traffic: Traffic) -> ExchangeRow:
        """What an operator exchanges by itself, as it runs."""
        assert self.layouts is not None
        seconds = collective_cost(traffic, self.mesh, self.machine.timed) / TICKS
        ends = describe(src), describe(self.layouts[pos])
        where = self.where(pos)
        most = traffic.any_length if self.guessed else None
        return ExchangeRow(
            traffic.name,
            self.value(pos),
            *ends,
            traffic.bytes if most is None else most,
            seconds,
            where,
            bound=self.guessed or not traffic.exact,
            expected=traffic.expected,
        )

    def value(self, pos: int) -> str:
        """Shape and dtype of a value."""
        return f"{size_text(self.specs[pos].shape)} {dtype_text(self.specs[pos].dtype)}"

    def where(self, pos: int) -> str:
        """The user's line that makes a value."""
        return where_text([self.sites[pos]])

    def step(self, step: Step) -> StepRow:
        """One step: what it goes over, reads and writes."""
        specs = self.specs
        made = makes(step)
        members, space, shape, tiles = made, made[0], specs[made[0]].shape, ""
        kind, kernel = {View: "view", Call: "numpy", Write: "write", Pass: "pass", Tiled: "pass"}[type(step)], None
        if isinstance(step, Tiled):
            members, space, tiles = all_members(step), made[0], _tiles_text(step, self.nodes)
        if isinstance(step, Pass):
            members = (*step.members, *(o for o in made if o not in step.members))
            kernel = step.kernel
            if any(w is not None for w in step.writes):
                shape = specs[step.space].shape  # the part that is written
            else:
                space = step.space
        read, written = (0, 0) if kind == "view" else seen_bytes(step, specs, self.most_bytes, self.nodes)
        return StepRow(
            kind,
            tuple(specs[m].op.label() for m in members),
            shape if space == made[0] else specs[space].shape,
            shape,
            dtype_text(specs[made[0]].dtype),
            self._lies(space, made[0]),
            read,
            written,
            step_seconds(step, specs, self.layouts, self.mesh, self.machine, self.nodes),
            where_text([self.sites[m] for m in members]),
            kernel,
            tiles,
        )

    def _lies(self, space: int, made: int) -> str:
        if self.layouts is None:
            return "here"
        words = dict.fromkeys(describe(self.layouts[p]) for p in (space, made))
        return " -> ".join(words)

    def most_bytes(self, pos: int) -> int:
        """Bytes of a value on the worker that has most of it."""
        return held_bytes(self.specs[pos], None if self.layouts is None else self.layouts[pos], self.mesh)

    def all_bytes(self, pos: int) -> int:
        """Bytes of a value on all workers together."""
        if self.layouts is None:
            return self.most_bytes(pos)
        spec = self.specs[pos]
        return total_held(self.layouts[pos], spec.shape, self.mesh) * spec.dtype.itemsize


def sites_of(specs: Sequence[Spec]) -> list[Site | None]:
    """The user's line of every node; of what has none (inputs, views, parts of a composed function), its user's."""
    sites = [s.site for s in specs]
    for pos in reversed(range(len(specs))):
        for x in specs[pos].inputs:
            if specs[x].site is None and sites[pos] is not None:
                sites[x] = sites[pos]  # of several users, the first
    return sites


def _tiles_text(step: Tiled, nodes: Sequence[Any]) -> str:
    """How passes that share tiles are cut."""
    found = host_backend(current().native).report(step, nodes)
    if found is None:
        return f"{count_text(len(passes(step)), 'kernel')}, one after the other"
    how = ", tuned" if found.tuned else ""
    return f"{count_text(found.kernels, 'kernel')} on each of {found.tiles:,} tiles of {found.tile:,}{how}"
