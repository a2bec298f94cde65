"""Abstract programs as Tilewise records them. In: a Program. Out: the nodes of its graph, its results, its model.

Inputs are on the driver and have a type but no data: nothing is run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tilewise as tw
from benchmarks.tilings.programs import Op, Program
from tilewise.array.handle import from_node, node_of
from tilewise.cost.model import Rates
from tilewise.ir.node import Node, known_leaf, walk
from tilewise.layout import Layout, Mesh, OnDriver
from tilewise.solver.model.budget import within
from tilewise.solver.model.graph import Stub, graph_of
from tilewise.solver.model.model import Model, model_of
from tilewise.solver.search.solve import solve

NO_LIMIT = 1 << 60  # bytes


Recorded = tuple[list[Node], list[int]]


def recorded(program: Program) -> Recorded:
    """The graph of a program: nodes in order, and the positions of values that nothing else uses."""
    with tw.config(eager_bytes=0, flush=False):
        values: list[Any] = []
        for op in program.ops:
            values.append(MEANINGS[op.kind](op, *(values[i] for i in op.inputs)))
        used = {i for op in program.ops for i in op.inputs}
        ends = [node_of(values[i]) for i in range(len(values)) if i not in used]
        nodes = walk(ends)
    at = {n: i for i, n in enumerate(nodes)}
    return nodes, [at[n] for n in dict.fromkeys(ends)]


def model(
    recorded: Recorded,
    mesh: Mesh,
    machine: Rates,
    *,
    inputs: tuple[Layout, ...] = (OnDriver(),),
    limited: bool = False,
) -> Model:
    """The tiling problem of a recorded program whose inputs are all in some layouts."""
    nodes, wanted = recorded
    leaves = {n for n in nodes if n.value is not None}
    graph = graph_of(nodes, leaves)
    return model_of(graph, [graph.at[w] for w in wanted], [inputs] * len(leaves), mesh, machine, limited=limited)


def tight(model: Model, part: float) -> int | None:
    """A limit that binds: bytes per worker between the least that any plan may need (0) and what the cheapest has (1).

    None if the two are the same.
    """
    values = solve(model.problem).values
    limits = within(model, NO_LIMIT).limits
    most = max(sum(int(use[values[v]]) for v, use in limit.use.items()) for limit in limits)
    least = max(sum(int(use.min()) for use in limit.use.values()) for limit in limits)
    return None if least >= most else least + int((most - 1 - least) * part)


def _new(op: Op) -> Any:
    return from_node(known_leaf(Stub(op.shape, np.dtype(np.float64)), None))


def _pairwise(function: Any, alone: Any) -> Callable[..., Any]:
    """An elementwise function of one array or two; a vector as long as the rows of a matrix goes with its rows."""

    def apply(op: Op, a: Any, *rest: Any) -> Any:
        if not rest:
            return alone(a)
        (b,) = rest
        a, b = (x[:, None] if len(x.shape) == 1 and x.shape != op.shape[-1:] else x for x in (a, b))
        return function(a, b)

    return apply


MEANINGS: dict[str, Callable[..., Any]] = {
    "new": _new,
    "linear": _pairwise(lambda a, b: a + b, lambda a: -a),
    "bilinear": _pairwise(lambda a, b: a * b, lambda a: a * 2.0),
    "nonlinear": _pairwise(lambda a, b: a / b, tw.sqrt),  # type: ignore[attr-defined]
    "sum": lambda op, a: a.sum(op.axis),
    "max": lambda op, a: a.max(op.axis),
    "scan": lambda op, a: a.cumsum(op.axis),
    "matmul": lambda op, a, b: a @ b,
    "transpose": lambda op, a: a.T,
}
