"""Abstract programs as Tilewise records them. In: a Program. Out: the nodes of its graph, and its results.

Inputs are on the driver and have a type but no data: nothing is run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tilewise as tw
from benchmarks.tilings.programs import Op, Program
from tilewise.array.handle import from_node, node_of
from tilewise.ir.node import Node, known_leaf, walk
from tilewise.solver.graph import Stub


def recorded(program: Program) -> tuple[list[Node], list[int]]:
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
