"""Memory as a hard limit. In: a model, bytes per worker. Out: a limit for every moment of the program.

While an operator runs, a worker has its operands as it asks for them, its result, and everything made before that is
still needed. Results of elementwise operators with one elementwise user are not counted: they are fused, never stored.
What a value was converted from is there as well while that is done, so conversions that alone need more are forbidden.
The real peak of a plan is looked at afterwards (plan/memory.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tilewise.layout import Layout
from tilewise.ops.elementwise import Map
from tilewise.ops.reduce import Reduce
from tilewise.solver.model.choices import Slots, needs
from tilewise.solver.model.model import Model
from tilewise.solver.problem import INF, Ints, Limit, Problem


def within(model: Model, budget: int) -> Problem:
    """The model's problem under a budget."""
    model.conversions = list(_conversions(model))
    return Problem(model.problem.unary, _possible(model, budget), _limits(model, budget))


def need(model: Model, values: Sequence[int]) -> int:
    """The smallest budget that an assignment of a model under some budget keeps to."""
    held = [sum(int(use[values[v]]) for v, use in limit.use.items()) for limit in model.problem.limits]
    moved = [int(nbytes[values[i], values[j]]) for (i, j), nbytes in model.conversions]
    return max(held + moved, default=0)


def _possible(model: Model, budget: int) -> dict[tuple[int, int], Ints]:
    """The tables of pairs, without conversions that need more than there is."""
    pairs = dict(model.problem.pairs)
    for key, nbytes in model.conversions:
        heavy = nbytes > budget
        if heavy.any():
            pairs[key] = np.where(heavy, INF, pairs[key])
    return pairs


def _conversions(model: Model) -> Iterator[tuple[tuple[int, int], Ints]]:
    """Bytes of source and result together, where a value is converted between its rule and what is asked or held."""
    for i, mine in model.choices.items():
        users = model.graph.items[i].users
        if i in model.held_at:
            other, rows = model.held_at[i], model.holdings[i].sets
        elif len(users) == 1 and i not in model.wanted:
            other, rows = model.rule_at[users[0]], needs(model.choices[users[0]], _slots(model, i, users[0])).rows
        else:
            continue
        asked = [set(row) for row in rows]  # where it has one of them already, nothing is converted to that
        there = np.array([sum(_bytes(model, i, x) for x in row) for row in asked], dtype=np.int64)
        both = [there + _bytes(model, i, out) * np.array([out not in row for row in asked]) for out in mine.outs]
        table = np.array(both)[mine.out_at]
        key = (model.rule_at[i], other)
        yield (key, table) if key[0] < key[1] else (key[::-1], table.T)


def _limits(model: Model, budget: int) -> list[Limit]:
    """What may be held at each operator."""
    items = model.graph.items
    last = {i: max(x.users, default=i) for i, x in enumerate(items)}
    stored = {i: _stored(model, i) for i in range(len(items)) if not items[i].constant}
    alive: set[int] = set()
    out: list[Limit] = []
    for i, item in enumerate(items):
        if item.constant:
            continue
        if i in stored and stored[i] is not None:
            alive.add(i)
        if i in model.rule_at:
            use: dict[int, Ints] = {}
            operands = [x for x in dict.fromkeys(u.item for u in item.uses) if x not in model.held_at]
            for x in alive:
                if x in operands and x not in model.wanted:
                    continue  # as the operator asks for it, below
                pair = stored[x]
                assert pair is not None
                use[pair[0]] = use[pair[0]] + pair[1] if pair[0] in use else pair[1]
            for x in operands:
                if not items[x].constant:
                    use[model.rule_at[i]] = use.get(model.rule_at[i], 0) + _asked(model, i, x)
            out.append(Limit(budget, use))
        alive = {x for x in alive if last[x] > i or x in model.wanted or items[x].given}
    return out


def _stored(model: Model, i: int) -> tuple[int, Ints] | None:
    """The variable that says how a value is stored, and bytes per choice; None where it is not stored at all."""
    if i in model.held_at:
        sets = model.holdings[i].sets
        return model.held_at[i], np.array([sum(_bytes(model, i, x) for x in held) for held in sets], dtype=np.int64)
    item = model.graph.items[i]
    fused = isinstance(item.node.op, Map) and all(
        isinstance(model.graph.items[u].node.op, Map | Reduce) for u in item.users
    )
    if i not in model.rule_at or (fused and i not in model.wanted):
        return None
    outs = np.array([_bytes(model, i, x) for x in model.choices[i].outs], dtype=np.int64)
    return model.rule_at[i], outs[model.choices[i].out_at]


def _asked(model: Model, user: int, i: int) -> Ints:
    """Bytes of an operand as each rule of its only user asks for it, beyond what is stored of it anyway."""
    made = isinstance(model.graph.items[i].node.op, Map)
    rows = needs(model.choices[user], _slots(model, i, user)).rows
    return np.array([0 if made else sum(_bytes(model, i, x) for x in row) for row in rows], dtype=np.int64)


def _slots(model: Model, i: int, user: int) -> Slots:
    return tuple((k, use.alias) for k, use in enumerate(model.graph.items[user].uses) if use.item == i)


def _bytes(model: Model, i: int, layout: Layout) -> int:
    return model.kind(i).bytes_of(layout)
