"""Evaluating in this process, on whole arrays. In: a graph and the values known. Out: the values of all its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from sys import getrefcount
from typing import TYPE_CHECKING, Any

from tilewise import compiler
from tilewise.array.cell import Cell
from tilewise.array.evaluation.unshared import mark_unshared
from tilewise.array.pending import PENDING
from tilewise.array.schedule.promote import promotion
from tilewise.array.session import Session
from tilewise.backend import chosen
from tilewise.backend.while_waiting import offered
from tilewise.config import Settings
from tilewise.engine.device import runner
from tilewise.ir.node import Leaf, Node
from tilewise.later import later
from tilewise.ops.const import Const
from tilewise.plan.stages import Stages
from tilewise.store.base import Source

if TYPE_CHECKING:
    from tilewise.array.evaluation import next_code, reference, workers
else:
    next_code = later("tilewise.array.evaluation.next_code")
    reference = later("tilewise.array.evaluation.reference")
    workers = later("tilewise.array.evaluation.workers")


def run(
    nodes: list[Node],
    at: dict[Node, int],
    values: list[Any],
    structure: compiler.Structure,
    outputs: Sequence[Cell],
    settings: Settings,
) -> tuple[list[Any], set[Node], list[int]]:
    """The values of all nodes, the nodes on which they are noted, and the positions that other pending work needs."""
    if len(outputs) == 1:
        wanted = [at[outputs[0].node]]  # type: ignore[index]
    else:
        wanted = sorted({at[c.node] for c in outputs})  # type: ignore[index]
    if settings.engine == "numpy":
        return reference.reference(nodes, _read(values)), set(), []
    plan = compiler.prepare(at, wanted, settings, structure)
    shared = _needed_elsewhere(nodes, plan, outputs, at)
    if shared and not set(shared) <= set(wanted):
        wanted = sorted({*wanted, *shared})
        plan = compiler.prepare(at, wanted, settings, structure)
    if plan.bound is None:
        plan.bound = runner(plan.steps, chosen(settings))
    if settings.compare:
        return reference.compare(nodes, _read(values), settings), set(), []
    if structure.stored:
        values = _read(values)
    if plan.bases:
        mark_unshared(nodes, plan.bases, outputs)
    try:
        if plan.ran or len(PENDING) == len(outputs):
            noted = plan.bound.run(nodes, values)
        else:  # there may be code to wait for
            with offered(next_code.requests(nodes, wanted, outputs, settings)):
                noted = plan.bound.run(nodes, values)
        plan.ran = True
    finally:
        promotion.ended(plan.rolled)
        for b in plan.bases:
            op = nodes[b].op
            if isinstance(op, Leaf):
                op.unshared = False
    return values, noted, shared


def too_small(
    nodes: list[Node],
    at: dict[Node, int],
    structure: compiler.Structure,
    outputs: Sequence[Cell],
    settings: Settings,
    session: Session,
) -> bool:
    """Whether a session limits memory to less than a plan on whole arrays needs."""
    if session.memory is None or settings.engine == "numpy" or settings.compare:
        return False
    return not _fits(nodes, at, structure, outputs, settings, session.memory)


def _fits(
    nodes: list[Node],
    at: dict[Node, int],
    structure: compiler.Structure,
    outputs: Sequence[Cell],
    settings: Settings,
    memory: int,
) -> bool:
    """Whether a plan on whole arrays stays within memory."""
    wanted = sorted({at[c.node] for c in outputs})  # type: ignore[index]
    plan = compiler.prepare(at, wanted, settings, structure)
    return workers.needed_here(plan.steps, nodes, wanted) <= memory


def _read(values: list[Any]) -> list[Any]:
    """The values of a graph, with arrays in the place of sources."""
    return [v.whole() if isinstance(v, Source) else v for v in values]


def _needed_elsewhere(nodes: list[Node], plan: Stages, outputs: Sequence[Cell], at: dict[Node, int]) -> list[int]:
    """Positions of results, and of values that cost much, which recorded work outside of this graph refers to."""
    found = []
    own = [at[c.node] for c in outputs]  # type: ignore[index]  # all are pending
    for i in own:
        new = nodes[i].value is None and type(nodes[i].op) is not Const  # constants are shared, and stay what they are
        if new and getrefcount(nodes[i]) > _HELD + 1 + plan.uses[i] and nodes[i].known:
            found.append(i)
    for i, kept in plan.costly:
        others = getrefcount(nodes[i]) - _HELD - plan.uses[i]
        if others > 0 and others > own.count(i):
            found.append(kept)
    return found


_HELD = 3  # references to a node that an evaluation holds: `nodes`, the keys of `at`, getrefcount's argument
