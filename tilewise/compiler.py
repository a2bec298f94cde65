"""From a graph to a plan, made once per structure. In: nodes, which are wanted, where leaves lie. Out: plans.

The key of a plan for one worker leaves out everything that only changes numbers: sizes, offsets, scalar values, which
buffers. On a mesh, layouts depend on sizes and offsets, so the key has them; scalars are still left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tilewise.config import Settings
from tilewise.cost.model import FIXED, Machine
from tilewise.ir.node import Node
from tilewise.layout import Layout, Mesh
from tilewise.ops.const import Const
from tilewise.ops.elementwise import Map
from tilewise.ops.index import Update
from tilewise.plan.fuse import fuse
from tilewise.plan.memory import peak_bytes
from tilewise.plan.mesh import MeshPlan, build
from tilewise.plan.steps import Pass, Step, Write
from tilewise.solver.choose import choose

MAX_PLANS = 2048  # plans kept; a program that makes more structures than this is not a loop

planned_count = 0  # plans made so far (tests assert that loops stop making them)


class LocalPlan:
    """Steps for one worker with whole arrays. An engine hangs what it made of them on `bound`."""

    __slots__ = ("bases", "bound", "steps")

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = tuple(steps)
        self.bases = tuple(b for s in steps for b in overwritten(s))
        self.bound: Any = None


def overwritten(step: Step) -> list[int]:
    """Positions whose arrays a step may overwrite."""
    if isinstance(step, Write):
        return [step.base] if step.last_use else []
    if isinstance(step, Pass):
        return [w for w, last in zip(step.writes, step.last_uses, strict=False) if w is not None and last]
    return []


_plans: dict[Any, LocalPlan] = {}
_mesh_plans: dict[Any, MeshPlan] = {}


def key_of(nodes: Sequence[Node], wanted: Sequence[int]) -> tuple[Any, ...]:
    """The structure of a graph, flat: it is hashed at every evaluation."""
    at = {n: i for i, n in enumerate(nodes)}
    parts: list[Any] = []
    add = parts.append
    for n in nodes:
        shape = n.shape
        if n.value is not None:
            add(n.dtype)
            add(len(shape))
            continue
        op = n.op
        if type(op) is Map:  # as many inputs as the function has
            add(op)
            for x in n.inputs:
                add(at[x] if x.shape == shape else ~at[x])
            add(len(shape))
        elif type(op) is Update:
            base, value = n.inputs
            fits = value.shape == op.window.shape and value.dtype == n.dtype
            parts += (Update, at[base], at[value], fits, len(op.window.shape))
        else:
            parts += (op.signature, len(n.inputs), *[at[x] for x in n.inputs], len(shape), n.dtype)
    return (*parts, None, *wanted)


def prepare(nodes: Sequence[Node], wanted: Sequence[int], settings: Settings) -> LocalPlan:
    """The plan for a graph on one worker: from the cache, or made now."""
    global planned_count
    key = (key_of(nodes, wanted), settings.fusion, settings.native)
    plan = _plans.get(key)
    if plan is None:
        planned_count += 1
        plan = LocalPlan(fuse(nodes, _flags(nodes, wanted), settings.fusion))
        _remember(_plans, key, plan)
    return plan


def prepare_mesh(
    nodes: Sequence[Node],
    wanted: Sequence[int],
    leaves: dict[Node, tuple[Layout, ...]],
    mesh: Mesh,
    settings: Settings,
    machine: Machine | None = None,
    memory: int | None = None,
) -> MeshPlan:
    """The plan for a graph on a mesh (of machines such as FIXED, unless others are given), within some memory."""
    global planned_count
    machine = machine or replace(FIXED, objective=settings.objective)
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
    if plan is None:
        planned_count += 1
        plan = _mesh_plan(nodes, wanted, leaves, mesh, settings, machine, None)
        if memory is not None and settings.layout_seed is None and mesh_peak(plan) > memory:
            plan = _mesh_plan(nodes, wanted, leaves, mesh, settings, machine, memory)
        _remember(_mesh_plans, key, plan)
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
