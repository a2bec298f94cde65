"""What a placed graph costs, counted from its nodes and pieces alone: nothing of the solver's tables is used.

In: a model and values of its variables. Out: the cost, in the machine's units.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewise.cost.model import work_cost
from tilewise.layout import Exchange, Mesh, OnDriver, Tariff, moves, route
from tilewise.ops.move import Move
from tilewise.solver.choose import placed
from tilewise.solver.graph import Use
from tilewise.solver.model import Model, small_bytes


def exchange_cost(e: Exchange, itemsize: int, tariff: Tariff) -> int:
    """One exchange, from the pieces that cross."""
    taken = [0] * e.mesh.workers
    given = [0] * e.mesh.workers
    for piece in e.pieces:
        if piece.crosses:
            taken[max(piece.dst_worker, 0)] += piece.size * itemsize
            given[max(piece.src_worker, 0)] += piece.size * itemsize
    if not sum(taken):
        return 0
    busiest = sum(taken) if isinstance(e.src, OnDriver) else max(taken)
    return int(tariff.cost(sum(taken) if tariff.all_bytes else busiest))


def plan_cost(model: Model, values: Sequence[int], ends: Sequence[Use]) -> int:
    """Exchanges of the placed graph, what operators compute, and bringing small results to the driver."""
    machine, mesh = model.machine, model.mesh
    tariff = machine.tariff
    graph = placed(model, values, ends)
    total = 0
    for k, n in enumerate(graph.nodes):
        if isinstance(n.op, Move):
            steps = route(n.op.src, n.op.dst, n.dims, mesh, n.dtype.itemsize, tariff)
            assert graph.layouts[k] == n.op.dst
            total += sum(exchange_cost(e, n.dtype.itemsize, tariff) for e in steps)
    for i, var in model.rule_at.items():
        total += work_cost(model.graph.items[i].node, model.choices[i].rules[values[var]], mesh, machine)
    for item, where in {use.item: pos for use, pos in zip(ends, graph.wanted, strict=True)}.items():
        n = graph.nodes[where]
        if n.nbytes <= small_bytes(model.graph.items[item].node, machine):
            total += _to_driver(n.dims, graph.layouts[where], mesh, n.dtype.itemsize, tariff)
    return total


def _to_driver(shape: tuple[int, ...], layout: object, mesh: Mesh, itemsize: int, tariff: Tariff) -> int:
    return exchange_cost(moves(layout, OnDriver(), shape, mesh), itemsize, tariff)  # type: ignore[arg-type]
