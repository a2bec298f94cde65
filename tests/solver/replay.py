"""What a placed graph costs, counted from its nodes and pieces alone: nothing of the solver's tables is used.

In: a model and values of its variables. Out: the cost, in the machine's units.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from tilewise.cost.model import TICKS, work_costs
from tilewise.ir.node import Node, known_leaf
from tilewise.layout import Exchange, Layout, Mesh, OnDriver, Tariff, local_dims, moves, route
from tilewise.ops.create import is_new
from tilewise.ops.move import Move
from tilewise.ops.views import Cut
from tilewise.solver.choose import placed
from tilewise.solver.model.graph import Stub, Use, results
from tilewise.solver.model.holding import settle, small_bytes
from tilewise.solver.model.model import Model
from tilewise.solver.model.place import Placer


@lru_cache(maxsize=1 << 16)
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
    total += sum(_made(model, n, graph.layouts[k]) for k, n in enumerate(graph.nodes) if is_new(n))
    for i, var in model.rule_at.items():
        n = model.graph.items[i].node
        if is_new(n):  # what the rule makes is work; what is made besides, in other layouts, is not
            total -= _made(model, n, model.choices[i].rules[values[var]].out)
        total += work_costs(model.graph.items[i].node, [model.choices[i].rules[values[var]]], mesh, machine)[0]
    for item, where in {use.item: pos for use, pos in zip(ends, graph.wanted, strict=True)}.items():
        n = graph.nodes[where]
        if n.nbytes <= small_bytes(model.graph.items[item].node, machine):
            total += _to_driver(n.dims, graph.layouts[where], mesh, n.dtype.itemsize, tariff)
    return total


def _made(model: Model, n: Node, layout: Layout) -> int:
    """Blocks of an array that is made of nothing, where they are wanted."""
    if model.machine.objective == "bytes":
        return 0
    return round(
        math.prod(local_dims(layout, n.dims, model.mesh)) * n.dtype.itemsize * TICKS / model.machine.store_rate
    )


def _to_driver(shape: tuple[int, ...], layout: object, mesh: Mesh, itemsize: int, tariff: Tariff) -> int:
    return exchange_cost(moves(layout, OnDriver(), shape, mesh), itemsize, tariff)  # type: ignore[arg-type]


class Replay:
    """As `plan_cost`, a value at a time: where it is moved depends on how it is made, held and asked for alone.

    What was counted for a value is remembered, so that plans that differ little from others cost little.
    """

    def __init__(self, model: Model, ends: Sequence[Use]) -> None:
        self.model = model
        self.ends = {i: [use for use in ends if use.item == i] for i in {use.item for use in ends}}
        self.results = results(ends)
        self.items = [i for i, item in enumerate(model.graph.items) if not item.constant]
        self.known: dict[tuple[int, ...], int] = {}
        self.variables: dict[int, list[int]] = {}  # that decide what is done with a value
        for i in self.items:
            own = [at[i] for at in (model.rule_at, model.held_at) if i in at]
            self.variables[i] = own + [model.rule_at[u] for u in model.graph.items[i].users]
        self.touched = [[i for i in self.items if v in self.variables[i]] for v in range(len(model.problem.unary))]

    def cost(self, i: int, values: Sequence[int]) -> int:
        """What is paid for one value: making it, and its exchanges."""
        key = (i, *[values[v] for v in self.variables[i]])
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self._count(i, values)
        return found

    def _count(self, i: int, values: Sequence[int]) -> int:
        model, item = self.model, self.model.graph.items[i]
        mesh, machine, n = model.mesh, model.machine, item.node
        tariff, total = machine.tariff, 0
        placer = Placer(model.graph, model.kind, mesh)
        placer.copies = [{} for _ in model.graph.items]
        made = model.sources.get(i, ())
        if i in model.rule_at:
            rule = model.choices[i].rules[values[model.rule_at[i]]]
            made, (total,) = (rule.out,), work_costs(n, [rule], mesh, machine)
        placer.copies[i] = {x: placer.add(known_leaf(Stub(n.dims, n.dtype), None), x) for x in made}
        if i in model.held_at:
            placer.hold(i, model.holdings[i].sets[values[model.held_at[i]]])
        for u in item.users:
            user = model.graph.items[u]
            rule = model.choices[u].rules[values[model.rule_at[u]]]
            for use, layout in zip(user.uses, rule.ins, strict=True):
                if use.item == i:
                    placer.see(use, layout, isinstance(user.node.op, Cut))
        if i in self.ends:
            small = small_bytes(n, machine)
            settled = [settle(x, model.kind(i), small, self.results[i]) for x in placer.copies[i]]
            final = min(settled, key=lambda pair: pair[0])[1]
            last = [placer.leave(use, final) for use in self.ends[i]][-1]
            left = placer.nodes[last]
            if left.nbytes <= small:
                total += _to_driver(left.dims, placer.layouts[last], mesh, left.dtype.itemsize, tariff)
        for node in placer.nodes:
            if isinstance(node.op, Move):
                size = node.dtype.itemsize
                steps = route(node.op.src, node.op.dst, node.dims, mesh, size, tariff)
                total += sum(exchange_cost(e, size, tariff) for e in steps)
        return total
