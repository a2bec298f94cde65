"""Why a value has its layout. In: a solved model, an item. Out: what each other layout would cost, and where."""

from __future__ import annotations

import numpy as np

from tilewise.layout import Layout, describe
from tilewise.records import dataclass
from tilewise.solver.model.model import Model
from tilewise.solver.problem import INF, Infeasible, Problem
from tilewise.solver.search.solve import Solution, solve

SECONDS = 1.0  # for each alternative; then the best plan so far stands for it


@dataclass(frozen=True)
class Alternative:
    """A layout that a value could be made in: the least cost of the whole program then, and where it differs."""

    layout: Layout
    cost: int
    chosen: bool
    reasons: tuple[tuple[str, int], ...]  # what then costs more, and by how much; the most first


def alternatives(model: Model, best: Solution, item: int) -> list[Alternative]:
    """Every layout an operator's result could have, the cheapest first."""
    choices, var = model.choices[item], model.rule_at[item]
    chosen = choices.rules[best.values[var]].out
    out = []
    for k, layout in enumerate(choices.outs):
        solution = best if layout == chosen else _with(model.problem, var, choices.out_at == k)
        if solution is not None:
            out.append(Alternative(layout, solution.cost, layout == chosen, _reasons(model, best, solution)))
    return sorted(out, key=lambda a: (a.cost, not a.chosen))


def _with(problem: Problem, var: int, allowed: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Solution | None:
    """The cheapest plan in which a variable has one of some values."""
    unary = list(problem.unary)
    unary[var] = np.where(allowed, unary[var], INF)
    try:
        found = solve(Problem(unary, problem.pairs, problem.limits), SECONDS)
    except Infeasible:
        return None
    return found if found.cost < INF else None


def _reasons(model: Model, best: Solution, other: Solution) -> tuple[tuple[str, int], ...]:
    """Where another plan costs more than the best one."""
    p = model.problem
    more: dict[str, int] = {}
    names = _names(model, other)
    for v, table in enumerate(p.unary):
        _add(more, names[v], int(table[other.values[v]]) - int(table[best.values[v]]))
    for (i, j), table in p.pairs.items():
        cost = int(table[other.values[i], other.values[j]]) - int(table[best.values[i], best.values[j]])
        _add(more, names[max(i, j)] if i in model.held_at.values() else names[i], cost)
    rows = sorted(((name, cost) for name, cost in more.items() if cost > 0), key=lambda row: -row[1])
    return tuple(rows)


def _add(more: dict[str, int], name: str, cost: int) -> None:
    more[name] = more.get(name, 0) + cost


def _names(model: Model, solution: Solution) -> dict[int, str]:
    """What a variable stands for, and the choice made for it."""
    out: dict[int, str] = {}
    for item, var in model.rule_at.items():
        rule = model.choices[item].rules[solution.values[var]]
        out[var] = f"{label(model, item)} as {describe(rule.out)}"
    for item, var in model.held_at.items():
        held = model.holdings[item].sets[solution.values[var]]
        out[var] = f"{label(model, item)} held as {' and '.join(map(describe, held))}"
    return out


def label(model: Model, item: int) -> str:
    """An operator as a person knows it: its name, its size, its line."""
    n = model.graph.items[item].node
    size = "x".join(map(str, n.dims)) or "number"
    where = f" at {n.site[0].rsplit('/', 1)[-1]}:{n.site[1]}" if n.site else ""
    return f"{n.op.label()} {size}{where}"
