"""Evaluations on workers that were planned before. In: cells. Out: their plan, looked up with one walk of the graph.

A loop that evaluates each of its steps asks for the same plan again and again. Rewriting, narrowing and the look at
masks have found nothing to do for such a graph: this is remembered with the plan, and they are not asked again. The key
says all that these and the plan depend on; graphs in which they might look at the value of a number are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewise.array.cell import Cell
from tilewise.array.session import current_session
from tilewise.compiler import repeats
from tilewise.config import Settings
from tilewise.cost.stored import machine_for
from tilewise.engine.cluster import Cluster
from tilewise.engine.remote import Remote
from tilewise.ir.node import Length, Node, numbered
from tilewise.layout import OnDriver
from tilewise.ops.const import Const
from tilewise.plan.exchanges import Exchanges
from tilewise.plan.structure import remember
from tilewise.records import dataclass
from tilewise.stage.variance import deviations

MOST = 1000  # nodes of a graph that is looked up: larger ones have work enough to plan


@dataclass(eq=False)
class Graph:
    """What an evaluation makes and reads, and the parts of its key."""

    cluster: Cluster
    outputs: list[Cell]
    at: dict[Node, int]
    parts: list[Any]
    leaves: list[Remote]
    consts: list[Any]
    key: Any = None  # what its plan is remembered by, once somebody has looked for it

    def describe(self) -> bool:
        """Say what its nodes are, and what it reads; whether all of it can be looked up."""
        at, parts = self.at, self.parts
        for node in at:
            value, op = node.value, node.op
            if value is not None:
                if type(value) is not Remote or value.cluster is not self.cluster or value.copies:
                    return False
                parts.append((value.layout, node.shape, node.dtype, node.order))
                self.leaves.append(value)
            elif type(op) is Const:
                parts.append(op.part)
                self.consts.append(op.value)
            elif len(inputs := node.inputs) == 2:
                x, y = inputs
                parts.append((op, node.shape, at[x], at[y]))
            else:
                parts.append((op, node.shape, *[at[x] for x in inputs]))
        return True


def graph_on(outputs: Sequence[Cell], cluster: Cluster) -> Graph | None:
    """The graph of some cells; None where a plan cannot be looked up: it reads more than workers hold once."""
    session = current_session()
    if session is None or session.memory is not None:
        return None
    at = numbered([c.node for c in outputs])  # type: ignore[misc]
    if len(at) > MOST:
        return None
    found = Graph(cluster, [*outputs], at, [], [], [])
    return found if found.describe() else None


def plan_of(graph: Graph, settings: Settings) -> Exchanges | None:
    """The plan that was remembered of an equal graph."""
    at, outputs = graph.at, graph.outputs
    wanted = [at[outputs[0].node]] if len(outputs) == 1 else [at[c.node] for c in outputs]  # type: ignore[index]
    key = graph.key = (graph.cluster.mesh, id(settings), *wanted, None, *graph.parts)
    found = repeats.get(key)
    if found is None:
        return None
    plan, same, machine = found
    return plan if same is settings and machine is machine_for(settings) else None


def keep(graph: Graph, plan: Exchanges, nodes: list[Node], settings: Settings) -> None:
    """Remember the plan of a graph for which nothing but the plan had to be found, of nodes in this order."""
    through_driver = any(isinstance(x.layout, OnDriver) for x in graph.leaves)
    if nodes == list(graph.at) and not through_driver and not any(_may_look(n) for n in nodes):
        remember(repeats, graph.key, (plan, settings, machine_for(settings)))


def _may_look(n: Node) -> bool:
    """Whether planning a node may depend on the value of a number, or of a mask."""
    return any(type(d) is Length for d in n.shape) or deviations(n) is not None
