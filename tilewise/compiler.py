"""From a graph to a plan, made once per structure. In: nodes, which are wanted, where leaves lie. Out: plans.

The key of a plan for one worker leaves out everything that only changes numbers: sizes, offsets, scalar values, which
buffers. On a mesh, layouts depend on sizes and offsets, so the key has them; scalars are still left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tilewise.config import Settings
from tilewise.cost.model import Machine
from tilewise.cost.stored import machine_for
from tilewise.ir.node import Node, Op, numbered
from tilewise.layout import Layout, Mesh
from tilewise.ops.bucket import Bucket
from tilewise.ops.const import Const
from tilewise.ops.contract import Contract
from tilewise.ops.create import Arange, Full
from tilewise.ops.elementwise import Map
from tilewise.ops.index import Update
from tilewise.ops.join import Broadcast, Reshape
from tilewise.ops.views import Arrange, Cut, Window
from tilewise.plan.fuse import fuse
from tilewise.plan.memory import peak_bytes
from tilewise.plan.mesh import MeshPlan, build
from tilewise.plan.steps import Step, Write, passes
from tilewise.plan.tile import tall
from tilewise.plan.tiling import slice_class
from tilewise.rewrite import may_fire, rewrite
from tilewise.solver.choose import choose
from tilewise.solver.place import Choice
from tilewise.solver.problem import Infeasible, cost_of

BUDGETS = tuple(1.5 * 0.88**k for k in range(24))  # of what the cheapest plan needs, for plans that need less
MAX_PLANS = 2048  # plans kept; a program that makes more structures than this is not a loop

planned_count = 0  # plans made so far (tests assert that loops stop making them)


class LocalPlan:
    """Steps for one worker with whole arrays. An engine hangs what it made of them on `bound`.

    `uses` counts how often the graph's own operators refer to each position. `dear` are the positions whose values cost
    more than elementwise work, each with the one to keep (a view's base) if work outside of the graph needs it, too.
    `runs` counts the evaluations of recorded graphs.
    """

    __slots__ = ("bases", "bound", "dear", "rolled", "runs", "steps", "uses")

    def __init__(self, steps: Sequence[Step], uses: Sequence[int] = (), dear: Sequence[tuple[int, int]] = ()) -> None:
        self.steps = tuple(steps)
        self.bases = tuple(b for s in steps for b in overwritten(s))
        self.uses = tuple(uses)
        self.dear = tuple(dear)
        self.rolled = any(p.turns is not None for s in steps for p in passes(s))
        self.bound: Any = None
        self.runs = 0


def overwritten(step: Step) -> list[int]:
    """Positions whose arrays a step may overwrite."""
    if isinstance(step, Write):
        return [step.base] if step.last_use else []
    pairs = [pair for p in passes(step) for pair in zip(p.writes, p.last_uses, strict=False)]
    return [w for w, last in pairs if w is not None and last]


class Structure:
    """What graphs share that are equal but for sizes, offsets and values: their plans, by what is wanted and how.

    `rewritable` says that rules may fire on them; whether they do is up to each graph. `away` says that some of their
    leaves are not arrays here.
    """

    __slots__ = ("away", "plans", "rewritable")

    def __init__(self, rewritable: bool, away: bool) -> None:
        self.plans: dict[Any, LocalPlan] = {}
        self.rewritable = rewritable
        self.away = away


# A graph as one evaluation sees it: its nodes, inputs first, with their positions; the values of leaves and constants
# (None for all others); its structure.
Graph = tuple[dict[Node, int], list[Any], Structure]

_structures: dict[Any, Structure] = {}
_mesh_plans: dict[Any, MeshPlan] = {}


def graph_of(roots: Sequence[Node]) -> Graph:
    """What must be known to compute some nodes, as `numbered` has it, from one walk: evaluations begin with it."""
    at: dict[Node, int] = {}
    values: list[Any] = []
    parts: list[Any] = []
    try:
        for root in roots:
            if root not in at:
                _add(root, at, values, parts)
    except RecursionError:  # a deep graph: inputs first, so that none looks for others
        at, values, parts = {}, [], []
        for n in numbered(roots):
            _add(n, at, values, parts)
    key = tuple(parts)
    found = _structures.get(key)
    if found is None:
        found = Structure(may_fire(at), any(getattr(value, "away", False) for value in values))
        _remember(_structures, key, found)
    return at, values, found


def _add(node: Node, at: dict[Node, int], values: list[Any], parts: list[Any]) -> None:
    """Add what a node hangs on, then the node.

    `parts` is the structure as a stack machine would build the graph: a node's inputs, then what it is. A number is a
    node that is there already; None says that an operand has another shape than the result.
    """
    value = node.value
    if value is None:
        op = node.op
        if type(op) is Map:  # as many inputs as the function has, and the rank of the largest
            shape = node.shape
            for x in node.inputs:
                if x in at:
                    parts.append(at[x])
                else:
                    _add(x, at, values, parts)
                if x.shape is not shape and x.shape != shape:
                    parts.append(None)
            parts.append(op)
        elif type(op) is Const:
            parts.append(op.signature)
            value = op.value
        else:
            for x in node.inputs:
                if x in at:
                    parts.append(at[x])
                else:
                    _add(x, at, values, parts)
            parts += _signature(node, op)
    else:
        rank = len(node.shape)
        if type(value) is not np.ndarray and getattr(value, "away", False):
            parts.append("away")
        parts += (node.dtype, rank)
        if rank > 1:
            sizes = value.shape  # a length in the node's shape may be named by a mask
            parts.append(sizes.index(max(sizes)))  # tiles are cut along the longest axis
    at[node] = len(at)
    values.append(value)


def _signature(node: Node, op: Op) -> tuple[Any, ...]:
    """What of a node decides a plan, beside its inputs."""
    if type(op) is Update:
        new = node.inputs[1]
        fits = new.shape == op.window.shape and new.dtype == node.dtype
        return Update, fits, len(op.window.shape), slice_class(node)
    if type(op) is Contract:
        return op.signature, node.dtype, tall(node)
    if type(op) is Bucket:
        values, keys = node.inputs[:2]
        return op.signature, len(node.inputs), len(node.shape), node.dtype, values.shape == keys.shape
    return op.signature, len(node.inputs), len(node.shape), node.dtype


def rewritten(roots: Sequence[Node], structure: Structure, settings: Settings) -> dict[Node, Node] | None:
    """For the nodes of a graph of this structure, equal ones that cost less; None if there are no such."""
    if not structure.rewritable or not settings.rewrite:
        return None
    new = rewrite(roots, settings.exact)
    return None if all(n is m for n, m in new.items()) else new


def prepare(at: dict[Node, int], wanted: Sequence[int], settings: Settings, structure: Structure) -> LocalPlan:
    """The plan for a graph of a structure on one worker: from the cache, or made now."""
    global planned_count
    merge = settings.rewrite and not settings.exact
    key = (*wanted, settings.fusion, settings.native, merge)
    plan = structure.plans.get(key)
    if plan is None:
        planned_count += 1
        nodes = list(at)
        plan = LocalPlan(fuse(nodes, _flags(nodes, wanted), settings.fusion, merge=merge), *_shared(at, wanted))
        _remember(structure.plans, key, plan)
    return plan


_LIGHT = (Map, Full, Arange, Const)  # computing them again costs little more than reading them
_VIEWS = (Window, Cut, Arrange, Reshape, Broadcast)


def _shared(at: dict[Node, int], wanted: Sequence[int]) -> tuple[list[int], list[tuple[int, int]]]:
    """What a LocalPlan says about values that others may need: `uses` and `dear`."""
    uses = [0] * len(at)
    keep: list[int | None] = [None] * len(at)  # where a value is dear, the position that holds it
    for n, i in at.items():
        if n.value is None:
            for x in n.inputs:
                uses[at[x]] += 1
            if isinstance(n.op, _VIEWS):
                keep[i] = keep[at[n.inputs[0]]]
            elif not isinstance(n.op, _LIGHT) or any(keep[at[x]] is not None for x in n.inputs):
                keep[i] = i
    return uses, [(i, k) for i, k in enumerate(keep) if k is not None and k not in wanted]


def prepare_mesh(
    nodes: Sequence[Node],
    wanted: Sequence[int],
    leaves: dict[Node, tuple[Layout, ...]],
    mesh: Mesh,
    settings: Settings,
    machine: Machine | None = None,
    memory: int | None = None,
    to_show: bool = False,
) -> MeshPlan:
    """The plan for a graph on a mesh (of machines as the settings say, unless others are given), within some memory.

    A plan to show has the lines and numbers of this very graph, one to run perhaps those of an equal one before it.
    """
    global planned_count
    machine = machine or machine_for(settings)
    at: dict[Node, int] = {}
    parts: list[Any] = []
    for i, n in enumerate(nodes):
        at[n] = i
        if n in leaves:
            parts.append((leaves[n], n.dims, n.dtype, n.order))
        elif type(n.op) is Const:
            parts.append((n.op.signature, n.dtype))
        else:
            parts.append((n.op, n.dims, *[at[x] for x in n.inputs]))
    key = (tuple(parts), tuple(wanted), mesh, settings.fusion, settings.layout_seed, machine, memory)
    plan = _mesh_plans.get(key)
    told = tuple(n.op if type(n.op) is Const else n.site for n in nodes)
    if plan is None or (to_show and plan.told != told):
        planned_count += 1
        plan = _mesh_plan(nodes, wanted, leaves, mesh, settings, machine, None)
        if memory is not None and plan.choice is not None and mesh_peak(plan) > memory:
            plan = _smaller(
                plan, memory, lambda budget: _mesh_plan(nodes, wanted, leaves, mesh, settings, machine, budget)
            )
        plan = replace(plan, told=told)
        if key not in _mesh_plans:  # workers know the plan that is there
            _remember(_mesh_plans, key, plan)
    return plan


def _smaller(plan: MeshPlan, memory: int, make: Callable[[int], MeshPlan]) -> MeshPlan:
    """The first plan that fits, of some made under smaller and smaller budgets; the smallest, if none does.

    What the solver takes for memory is not the peak of the steps that then run, and often more: so budgets begin above
    what is needed, and real peaks decide. They do not depend on what is allowed, so that more never gives a worse plan.
    Nothing is proved about these plans; the bound without a budget holds.
    """
    assert plan.choice is not None
    free, need = plan.choice, mesh_peak(plan)
    for share in BUDGETS:
        try:
            other = make(round(need * share))
        except Infeasible:
            break
        if mesh_peak(other) < mesh_peak(plan):
            assert other.choice is not None
            values = other.choice.solution.values
            cost = cost_of(free.model.problem, values)
            plan = replace(other, choice=Choice(free.model, replace(free.solution, values=values, cost=cost)))
        if mesh_peak(plan) <= memory:
            break
    return plan


def _mesh_plan(
    nodes: Sequence[Node],
    wanted: Sequence[int],
    leaves: dict[Node, tuple[Layout, ...]],
    mesh: Mesh,
    settings: Settings,
    machine: Machine,
    memory: int | None,
) -> MeshPlan:
    placed = choose(nodes, wanted, leaves, mesh, machine, settings.layout_seed, memory)
    landed = placed.landed if memory is None else ()  # where memory is short, no copy of an input is kept
    ends = (*placed.wanted, *(pos for _, pos in landed))
    steps = fuse(placed.nodes, _flags(placed.nodes, ends), settings.fusion, placed.layouts)
    homes = tuple(leaf for leaf, _ in landed)
    given = tuple(pos for copies in placed.leaves for pos in copies)
    return build(placed.nodes, placed.layouts, steps, mesh, given, ends, homes, machine.tariff, placed.choice)


def mesh_peak(plan: MeshPlan) -> int:
    """The most bytes that a worker holds at once."""
    return peak_bytes(plan.steps, plan.specs, plan.layouts, plan.mesh, plan.wanted)


def _flags(nodes: Sequence[Node], wanted: Sequence[int]) -> list[bool]:
    flags = [False] * len(nodes)
    for i in wanted:
        flags[i] = True
    return flags


def _remember(plans: dict[Any, Any], key: Any, plan: Any) -> None:
    if len(plans) >= MAX_PLANS:
        plans.clear()
    plans[key] = plan
