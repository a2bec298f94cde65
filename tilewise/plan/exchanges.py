"""Plans for several workers. In: a placed graph, its stages. Out: what moves between them, with exact bytes.

Every worker runs the same stages on its own blocks (`nodes` is the graph as a block sees it), with exchanges
between them. On one worker without a mesh there are stages only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any

from tilewise.layout import Exchange as Move
from tilewise.layout import Layout, Mesh, Tariff, blocked, reduction, route, step_cost
from tilewise.ops.const import Const
from tilewise.ops.traits.collectives import Collective, Operand, Traffic, traffic
from tilewise.plan.blocks import BlockNode, PlacedTypes, Spec
from tilewise.plan.stages import Stages
from tilewise.records import dataclass
from tilewise.solver.model.place import Choice
from tilewise.stage.steps import Call, Exchange, Pass, Step, Tiled, View, Write, makes, passes, reads

SPARE = 50  # one part in so many of a plan's time may be given for fewer bytes
LEAST_SAVED = 512  # bytes, for which a round more is made: contributions of 4 workers to some 20 numbers
FEWEST = Tariff(step=1, price=1 << 6)  # of routes with the fewest bytes the shortest


@dataclass(frozen=True)
class Exchanges:
    """What moves between the workers of a mesh, around the stages that each of them runs."""

    types: PlacedTypes
    stages: Stages
    routes: tuple[
        tuple[Move, ...], ...
    ]  # per step; () for steps that are no exchange, and for collectives that depend on data
    leaves: tuple[int, ...]
    homes: tuple[int, ...]  # which leaf each of the last `wanted` is a copy of: it stays for later plans
    consts: tuple[int, ...]
    choice: Choice | None = field(default=None, compare=False, repr=False)  # not sent to workers
    solved_s: float = field(default=0.0, compare=False)  # seconds for choosing layouts
    given: int = field(default=0, compare=False)  # of the choice's cost, what routes with fewer bytes cost beyond it
    told: tuple[Any, ...] = field(default=(), compare=False, repr=False)  # the lines and numbers it was made from
    _blocks: dict[int, tuple[BlockNode, ...]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def mesh(self) -> Mesh:
        return self.types.mesh

    @property
    def specs(self) -> tuple[Spec, ...]:
        return self.types.specs

    @property
    def layouts(self) -> tuple[Layout, ...]:
        return self.types.layouts

    @property
    def wanted(self) -> tuple[int, ...]:
        """Results, then the inputs' copies named in `homes`."""
        return self.types.wanted

    @property
    def steps(self) -> tuple[Step, ...]:
        return self.stages.steps

    @cached_property
    def network_bytes(self) -> int:
        """Bytes that cross between workers, summed; exact, but for a bound where it depends on data."""
        return sum(self.step_bytes(i) for i in range(len(self.steps)))

    @property
    def bounded_bytes(self) -> int:
        """The part of `network_bytes` that is only a bound."""
        return sum(self.step_bytes(i) for i, s in enumerate(self.steps) if (t := self.traffic(s)) and not t.exact)

    def step_bytes(self, index: int) -> int:
        """Bytes that cross in one step."""
        step = self.steps[index]
        traffic = self.traffic(step)
        itemsize = self.specs[_pos(step)].dtype.itemsize
        return traffic.bytes if traffic is not None else sum(e.bytes(itemsize) for e in self.routes[index])

    def traffic(self, step: Step) -> Traffic | None:
        """What a step's collective sends; None for other steps."""
        op = self.specs[_pos(step)].op
        if not isinstance(step, Exchange) or not isinstance(op, Collective):
            return None
        return traffic(op.op, [self.operand(x) for x in (step.input, *step.more)], self.operand(step.pos), self.mesh)

    def operand(self, pos: int) -> Operand:
        """The type and layout of a value."""
        return Operand(self.specs[pos].shape, self.specs[pos].dtype, self.layouts[pos])

    def ranges(self) -> list[tuple[int, int]]:
        """Ranges of steps between exchanges."""
        out, start = [], 0
        for i, s in enumerate(self.steps):
            if isinstance(s, Exchange):
                if i > start:
                    out.append((start, i))
                out.append((i, i + 1))
                start = i + 1
        if start < len(self.steps):
            out.append((start, len(self.steps)))
        return out

    def blockwise(self, step: Step) -> bool:
        """Whether a worker runs a step once per block (else once)."""
        if isinstance(step, Pass | Tiled):
            seen = tuple(x for p in passes(step) for x in (*p.inputs, *p.outs, p.space))
        elif isinstance(step, Call | Write):
            seen = (step.pos, *(step.inputs if isinstance(step, Call) else (step.base, *step.inputs)))
        else:
            assert isinstance(step, View | Exchange)
            seen = (step.pos, step.input)
        return any(blocked(self.layouts[p]) for p in seen)

    def to_send(self) -> Exchanges:
        """The same without what workers do not need."""
        return replace(self, choice=None, told=(), _blocks={})

    def nodes(self, block: int) -> tuple[BlockNode, ...]:
        """The graph as a block sees it."""
        found = self._blocks.get(block)
        if found is None:
            found = self._blocks[block] = self.types.block(block)
        return found


def _pos(step: Step) -> int:
    return makes(step)[0]


def exchanges(
    types: PlacedTypes,
    stages: Stages,
    leaves: tuple[int, ...],
    homes: tuple[int, ...],
    tariff: Tariff,
    choice: Choice | None,
    solved_s: float,
) -> Exchanges:
    """The routes between stages."""
    spare = 0 if choice is None or tariff.all_bytes else choice.cost // SPARE
    routes, given = _routes(types, stages.steps, tariff, spare)
    consts = tuple(i for i, s in enumerate(types.specs) if type(s.op) is Const)
    return Exchanges(types, stages, routes, leaves, homes, consts, choice, solved_s, given)


def _routes(
    types: PlacedTypes, steps: Sequence[Step], tariff: Tariff, spare: int
) -> tuple[tuple[tuple[Move, ...], ...], int]:
    """The quickest routes; of sums, those with the fewest bytes if these together cost no more than is to spare.

    Gives what they cost more, too. Small ones are brought to all workers in one exchange of W (W - 1) copies, or in two
    of W - 1 each.
    """

    def ways(tariff: Tariff) -> list[tuple[Move, ...]]:
        specs, layouts = types.specs, types.layouts
        return [
            route(layouts[s.input], layouts[s.pos], specs[s.pos].shape, types.mesh, specs[s.pos].dtype.itemsize, tariff)
            if isinstance(s, Exchange) and type(specs[s.pos].op) is not Collective
            else ()
            for s in steps
        ]

    quick = ways(tariff)
    if spare <= 0:
        return tuple(quick), 0
    given = 0
    few = ways(FEWEST)

    def price(way: tuple[Move, ...], k: int) -> int:
        """Without what a round costs, which is shared."""
        itemsize = _itemsize(types, steps[k])
        return sum(step_cost(e.src, e.dst, e.shape, e.mesh, itemsize, tariff) - tariff.step for e in way)

    for group in together(steps, quick):
        fewer = [k for k in group if reduction(quick[k][0].src) and _elements(few[k]) < _elements(quick[k])]
        if fewer:
            rounds = max(len(few[k]) for k in fewer) - max(len(quick[k]) for k in group)
            more = sum(price(few[k], k) - price(quick[k], k) for k in fewer) + max(rounds, 0) * tariff.step
            saved = sum((_elements(quick[k]) - _elements(few[k])) * _itemsize(types, steps[k]) for k in fewer)
            if more <= spare - given and saved >= LEAST_SAVED:
                given += max(more, 0)
                for k in fewer:
                    quick[k] = few[k]
    return tuple(quick), given


def _itemsize(types: PlacedTypes, step: Step) -> int:
    return types.specs[_pos(step)].dtype.itemsize


def _elements(way: tuple[Move, ...]) -> int:
    return sum(e.network_elements for e in way)


def together(steps: Sequence[Step], routes: Sequence[Sequence[Move]]) -> list[list[int]]:
    """The exchanges that stand side by side and do not need each other: each round of one is one of all."""
    groups: list[list[int]] = []
    made: set[int] = set()
    for k, (step, way) in enumerate(zip(steps, routes, strict=True)):
        if not way:
            continue
        alone = not groups or groups[-1][-1] != k - 1 or bool(made & {*reads(step)})
        if alone:
            groups.append([])
            made = set()
        groups[-1].append(k)
        made |= {*makes(step)}
    return groups
