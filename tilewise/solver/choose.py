"""Choose a layout for every node. In: nodes in order, where the leaves lie. Out: the graph with its changes of layout.

The choice is the cheapest there is under the cost model, with a proof (search/solve.py); or, with a seed, an arbitrary
valid one, to test that no choice changes a result (so none that rounds contributions before they are added).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from tilewise.cost.model import Rates, on_contributions
from tilewise.ir.node import Node
from tilewise.layout import Layout, Mesh, OnDriver, Outside, Replicate, bare, reduction
from tilewise.ops.traits.rule import rules
from tilewise.solver.gc_off import gc_off
from tilewise.solver.model.budget import within
from tilewise.solver.model.graph import Graph, Use, graph_of, results, seen
from tilewise.solver.model.holding import settle, small_bytes
from tilewise.solver.model.model import Model, kind_of, model_of
from tilewise.solver.model.place import Choice, Placed, Placer
from tilewise.solver.model.replicas import Held
from tilewise.solver.search.solve import solve

SECONDS = 10.0  # after which the best plan so far is taken, with the gap that is proved


@gc_off()
def choose(
    nodes: Sequence[Node],
    wanted: Sequence[int],
    leaves: dict[Node, Held],
    mesh: Mesh,
    machine: Rates,
    seed: int | None = None,
    memory: int | None = None,
) -> Placed:
    """Layouts for a graph: the cheapest, within so many bytes of memory per worker; or, with a seed, any."""
    graph = graph_of(nodes, leaves, wanted)
    ends = [graph.at[w] for w in wanted]
    sources = [leaves[n] for n in nodes if n in leaves]
    if seed is not None:
        return _by_chance(graph, ends, sources, mesh, machine, random.Random(seed))
    model = model_of(graph, ends, sources, mesh, machine, limited=memory is not None)
    if memory is not None:
        model.problem = within(model, memory)
    found = solve(model.problem, SECONDS, model.replicated)
    return replace(placed(model, found.values, ends), choice=Choice(model, found))


def placed(model: Model, values: Sequence[int], ends: Sequence[Use]) -> Placed:
    """The placed graph for an assignment of a model's variables."""
    placer = Placer(model.graph, model.kind, model.mesh)
    for i, item in enumerate(model.graph.items):
        if item.given:
            placer.give(item, model.sources[i])
        elif item.constant:
            placer.constant(item, Replicate())
        else:
            placer.make(item, model.choices[i].rules[values[model.rule_at[i]]])
        if i in model.held_at:
            placer.hold(i, model.holdings[i].sets[values[model.held_at[i]]])
    return _finish(placer, ends, model.machine)


def _by_chance(
    graph: Graph, ends: Sequence[Use], sources: Sequence[Held], mesh: Mesh, machine: Rates, dice: random.Random
) -> Placed:
    leaves = iter(sources)
    placer = Placer(graph, lambda i: kind_of(graph.items[i].node, mesh, machine), mesh)
    for item in graph.items:
        if item.given:
            placer.give(item, next(leaves))
        elif item.constant:
            placer.constant(item, Replicate())
        else:
            views = [[seen(x, use.alias, mesh) for x in placer.copies[use.item]] for use in item.uses]
            have = [[x for x in row if x is not None] for row in views]
            found = rules(item.node, have, mesh, first=machine.objective == "bytes")
            placer.make(item, dice.choice([r for r in found if not on_contributions(item.node, r)]))
    return _finish(placer, ends, machine)


def _finish(placer: Placer, ends: Sequence[Use], machine: Rates) -> Placed:
    """Results where they may stay, and the copies of inputs that may."""
    copies = placer.copies
    finals: dict[int, Layout] = {}
    for item, aliases in results(ends).items():
        small = small_bytes(placer.graph.items[item].node, machine)
        kind, there = placer.kind(item), placer.graph.items[item].given
        settled = [settle(x, kind, small, aliases) for x in copies[item]]
        # What is there already is read from the nearest of its copies (array/evaluation/workers.py::whole).
        read = [kind.cost(x, OnDriver()) if there else 0 for _, x in settled]
        finals[item] = min(zip(settled, read, strict=True), key=lambda pair: (pair[0][0], pair[1]))[0][1]
    wanted = tuple(placer.leave(use, finals[use.item]) for use in ends)
    given = [i for i, item in enumerate(placer.graph.items) if item.given]
    landed = tuple((k, where) for k, i in enumerate(given) for where in _landed(placer, i))
    return Placed(
        tuple(placer.nodes),
        tuple(placer.layouts),
        tuple(tuple(copies[i][x] for x in placer.first[i]) for i in given),
        wanted,
        landed,
    )


def _landed(placer: Placer, item: int) -> list[int]:
    """Where copies of an input are that may stay: one for each layout, without ghosts."""
    copies, found = placer.copies[item], dict[Layout, int]()
    if placer.graph.items[item].node.ndim:
        for layout, where in copies.items():
            plain = bare(layout)
            new = layout not in placer.first[item] and plain not in found
            if new and stays(plain) and (plain == layout or plain not in copies):
                found[plain] = placer.trimmed(where, plain)
    return list(found.values())


def stays(layout: Layout) -> bool:
    """Whether a value may be left in a layout after a plan."""
    return not isinstance(layout, Outside) and reduction(layout) is None and bare(layout) == layout
