"""From a graph to a plan on a mesh. In: nodes, which are wanted, where leaves lie. Out: exchanges, with their stages.

Loaded with the first session that has workers, and by `explain`: layouts are chosen by the solver, blocks get the
passes of a whole array.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tilewise import events
from tilewise.compiler import count_plan, flags, mesh_plans, stages_of
from tilewise.config import Settings
from tilewise.cost.model import Rates
from tilewise.cost.stored import machine_for
from tilewise.ir.node import Node
from tilewise.layout import Mesh, Shard, blocked, reduction, shards
from tilewise.ops.const import Const
from tilewise.plan.blocks import BlockNode, PlacedTypes, specs_of
from tilewise.plan.deep_halo import deepen
from tilewise.plan.draft import Draft
from tilewise.plan.exchanges import Exchanges, exchanges
from tilewise.plan.memory import peak_bytes
from tilewise.plan.stages import Stages
from tilewise.plan.structure import placed_structure, remember
from tilewise.rewrite.extremes import extremes, with_extremes
from tilewise.rewrite.moments import variances, with_moments
from tilewise.solver.choose import choose
from tilewise.solver.model.budget import need
from tilewise.solver.model.place import Choice
from tilewise.solver.model.replicas import Held
from tilewise.solver.one_place import at_one_place
from tilewise.solver.problem import Infeasible, cost_of
from tilewise.stage.variance import Deviations

BUDGETS = tuple(1.5 * 0.88**k for k in range(24))  # of what the cheapest plan needs, for plans that need less
NO_LIMIT = 1 << 60  # bytes


def prepare_mesh(
    nodes: Sequence[Node],
    wanted: Sequence[int],
    leaves: dict[Node, Held],
    mesh: Mesh,
    settings: Settings,
    machine: Rates | None = None,
    memory: int | None = None,
    to_show: bool = False,
    one_pass: bool = False,
) -> Exchanges:
    """The plan for a graph on a mesh (of machines as the settings say, unless others are given), within some memory.

    With `one_pass`, blocks contribute to a variance in one pass whatever is exchanged for that.

    A plan to show has the lines and numbers of this very graph, one to run perhaps those of an equal one before it.
    """
    machine = machine or machine_for(settings)
    at: dict[Node, int] = {}
    parts: list[Any] = []
    for i, n in enumerate(nodes):
        at[n] = i
        if n in leaves:
            parts.append((leaves[n], n.dims, n.dtype, n.order))
        elif type(n.op) is Const:
            parts.append((n.op.signature, n.dtype, n.op.scales))
        else:
            parts.append((n.op, n.dims, *[at[x] for x in n.inputs]))
    how = (settings.fusion, settings.rewrite, settings.exact, settings.without, settings.layout_seed)
    key = (tuple(parts), tuple(wanted), mesh, how, machine, memory, one_pass, *_variances(nodes, leaves, settings))
    plan: Exchanges | None = mesh_plans.get(key)
    told = tuple(n.op if type(n.op) is Const else n.site for n in nodes)
    if plan is None or (to_show and plan.told != told):
        count_plan()
        plan = _mesh_plan(nodes, wanted, leaves, mesh, settings, machine, None)
        for alternative in (_one_pass, _picked):
            others = alternative(plan, nodes, wanted, leaves, settings)
            if others is not None:
                other = _mesh_plan(*others, leaves, mesh, settings, machine, None)
                surely = one_pass and alternative is _one_pass
                if surely or plan.choice is None or other.choice is None or other.choice.cost < plan.choice.cost:
                    plan, (nodes, wanted) = other, others
        if memory is not None and plan.choice is not None and mesh_peak(plan) > memory:
            plan = _smaller(
                plan, memory, lambda budget: _mesh_plan(nodes, wanted, leaves, mesh, settings, machine, budget)
            )
        types = plan.types if memory is None else replace(plan.types, roomy=False)
        plan = replace(plan, told=told, types=types, _blocks={} if types is not plan.types else plan._blocks)
        if key not in mesh_plans:  # workers know the plan that is there
            remember(mesh_plans, key, plan)
    return plan


def _one_pass(
    plan: Exchanges, nodes: Sequence[Node], wanted: Sequence[int], leaves: dict[Node, Held], settings: Settings
) -> tuple[list[Node], list[int]] | None:
    """The graph with variances that blocks contribute to in one pass (layouts by chance: every second seed, all)."""
    found = _variances(nodes, leaves, settings)
    if plan.choice is None:
        found = found if settings.layout_seed is not None and settings.layout_seed % 2 else {}
    else:
        made_in = plan.choice.made_in
        found = {i: about for i, about in found.items() if reduction(made_in(i)) is not None}
    return with_moments(nodes, wanted, leaves, found) if found else None


def _picked(
    plan: Exchanges, nodes: Sequence[Node], wanted: Sequence[int], leaves: dict[Node, Held], settings: Settings
) -> tuple[list[Node], list[int]] | None:
    """The graph with extremes in place of what their positions point at, where blocks contribute to these."""
    found = extremes(nodes, wanted, leaves) if settings.rewrite else {}
    if plan.choice is None:
        found = found if settings.layout_seed is not None and settings.layout_seed % 2 else {}
    else:
        rule_of = plan.choice.rule_of
        found = {i: k for i, k in found.items() if rule_of(k).partial is not None}
    return with_extremes(nodes, wanted, leaves, found) if found else None


def _variances(nodes: Sequence[Node], leaves: dict[Node, Held], settings: Settings) -> dict[int, Deviations]:
    return variances(nodes, leaves) if settings.rewrite and not settings.exact else {}


def _smaller(plan: Exchanges, memory: int, make: Callable[[int], Exchanges]) -> Exchanges:
    """The first plan that fits, of some made under smaller and smaller budgets; the smallest, if none does.

    What the solver takes for memory is not the peak of the steps that then run, and often more: so budgets begin above
    what is needed, and real peaks decide. They do not depend on what is allowed, so that more never gives a worse plan.
    Nothing is proved about these plans; the bound without a budget holds. It comes from a model with the same
    variables: where memory counts, more sets of copies are weighed than were for the plan at hand.
    """
    free, peak, kept_to = make(NO_LIMIT).choice, mesh_peak(plan), NO_LIMIT
    assert free is not None
    for budget in [round(peak * share) for share in BUDGETS]:
        if budget >= kept_to:
            continue  # the last plan is the cheapest under this budget as well
        try:
            other = make(budget)
        except Infeasible:
            break
        assert other.choice is not None
        values = other.choice.solution.values
        kept_to = need(other.choice.model, values)
        if mesh_peak(other) < mesh_peak(plan):
            cost = cost_of(free.model.problem, values)
            plan = replace(other, choice=Choice(free.model, replace(free.solution, values=values, cost=cost)))
        if mesh_peak(plan) <= memory:
            break
    return plan


def _mesh_plan(
    nodes: Sequence[Node],
    wanted: Sequence[int],
    leaves: dict[Node, Held],
    mesh: Mesh,
    settings: Settings,
    machine: Rates,
    memory: int | None,
) -> Exchanges:
    began = time.perf_counter()
    placed = choose(nodes, wanted, leaves, mesh, machine, settings.layout_seed, memory)
    if "halo" not in settings.without and memory is None:  # blocks with deeper halos are larger
        placed = deepen(placed, mesh)
    placed = at_one_place(placed, mesh, machine.tariff)
    if events.listeners:
        events.emit(events.Event("compile", "solve", began, time.perf_counter(), 0))
    solved = time.perf_counter() - began
    landed = placed.landed if memory is None else ()  # where memory is short, no copy of an input is kept
    ends = (*placed.wanted, *(pos for _, pos in landed))
    types = PlacedTypes(specs_of(placed.nodes), placed.layouts, mesh, ends)
    homes = tuple(leaf for leaf, _ in landed)
    given = tuple(pos for copies in placed.leaves for pos in copies)
    block = types.block(types.largest)
    stages = _block_stages(types, block, settings)
    plan = exchanges(types, stages, given, homes, machine.tariff, placed.choice, solved)
    return replace(plan, _blocks={types.largest: block})


def _block_stages(types: PlacedTypes, nodes: Sequence[BlockNode], settings: Settings) -> Stages:
    """What every worker does, decided on the sizes of the largest block."""
    classes = _layout_classes(types)
    structure = placed_structure(nodes, classes)
    merge = settings.rewrite and not settings.exact
    key = (*types.wanted, settings.fusion, merge, settings.without)
    stages = structure.plans.get(key)
    if stages is None:
        draft = Draft(nodes, flags(nodes, types.wanted), settings.fusion, merge, types.layouts)
        stages = stages_of(draft, settings, ((), ()))
        remember(structure.plans, key, stages)
    return stages


def _layout_classes(types: PlacedTypes) -> list[Any]:
    """Per value: numbers that are equal where layouts are, or share their cuts but for ghosts; which axes are cut."""
    number: dict[Any, int] = {}
    out: list[Any] = []
    for layout in types.layouts:
        cut = (layout.axis, layout.cuts) if isinstance(layout, Shard) else layout
        axes = tuple([s.axis for s in shards(layout)])
        out.append((number.setdefault(layout, len(number)), number.setdefault(cut, len(number)), axes, blocked(layout)))
    return out


def mesh_peak(plan: Exchanges) -> int:
    """The most bytes that a worker holds at once."""
    return peak_bytes(plan.steps, plan.specs, plan.layouts, plan.mesh, plan.wanted, plan.routes)
