"""Check a solver's claim. In: a problem, an assignment, its cost, a lower bound and a certificate. Out: nothing, or an
error. Imports nothing of the solver; recomputes all that it relies on, in whole numbers that cannot overflow.

A certificate is a list of steps (certificate.py says what each means). They are repeated here on the problem's own
tables, and the condition of each is tested: that it does not raise the least cost, or only above the bound to be shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

LARGE = 1 << 58  # No table may hold more: sums of three of them stay whole in 64 bits.


LAST = ("branch", "order", "frontier")
STEPS = ("dominated", "split", "eliminate", "move", "over", "unfit", *LAST)


class CertificateError(Exception):
    """The claim is wrong, or its certificate does not show it."""


def check(problem: Any, values: Sequence[int], cost: int, bound: int, certificate: Any) -> None:
    """Raise CertificateError unless `values` cost `cost`, satisfy every limit, and nothing costs less than `bound`."""
    try:
        _check_plan(problem, values, cost)
        _require(bound <= cost, f"the bound {bound} is above the cost {cost}")
        state = _State(problem, certificate, bound)
        state.run(certificate.steps)
    except (KeyError, IndexError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise CertificateError(f"the certificate does not fit the problem: {error!r}") from error


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise CertificateError(message)


def _guard(table: Any) -> Any:
    _require(
        bool(abs(int(table.max())) <= LARGE and abs(int(table.min())) <= LARGE), "a table holds too large a number"
    )
    return table


def _check_plan(problem: Any, values: Sequence[int], cost: int) -> None:
    _require(len(values) == len(problem.unary), "not one value per variable")
    for table, value in zip(problem.unary, values, strict=True):
        _require(0 <= value < len(table), f"{value} is not a value")
    total = sum(int(table[value]) for table, value in zip(problem.unary, values, strict=True))
    total += sum(int(table[values[i], values[j]]) for (i, j), table in problem.pairs.items())
    _require(total == cost, f"the values cost {total}, not {cost}")
    for at, limit in enumerate(problem.limits):
        used = sum(int(use[values[v]]) for v, use in limit.use.items())
        _require(used <= limit.budget, f"limit {at} allows {limit.budget}, the values use {used}")


class _State:
    """The problem as the steps have left it: tables over the values that stand."""

    def __init__(self, problem: Any, certificate: Any, bound: int) -> None:
        scale, ceiling = certificate.scale, certificate.ceiling
        _require(scale >= 1 and abs(ceiling) * scale <= LARGE, "the scale or the ceiling is out of range")
        _require(len(certificate.multipliers) in (0, len(problem.limits)), "not one multiplier per limit")
        cut = lambda table: _guard(np.minimum(table, ceiling) * scale)  # noqa: E731
        self.goal = (bound - 1) * scale + 1  # Costs are whole: more than bound - 1 is bound.
        self.empty = False  # Whether a variable has no value left: nothing is below the bound.
        self.constant = 0
        self.unary = {v: cut(table) for v, table in enumerate(problem.unary)}
        self.left = {v: list(range(len(table))) for v, table in self.unary.items()}
        self.near: dict[int, dict[int, Any]] = {v: {} for v in self.unary}  # v -> w -> table with v in its rows
        for (i, j), table in problem.pairs.items():
            self.put(i, j, cut(table))
        self.limits = list(problem.limits) if certificate.hard else []
        for multiplier, limit in zip(certificate.multipliers, problem.limits, strict=False):
            _require(multiplier >= 0, "a multiplier is negative")
            self.constant -= multiplier * limit.budget
            for v, use in limit.use.items():
                _require(multiplier * int(np.abs(use).max()) <= LARGE, "a multiplier is too large")
                self.unary[v] = _guard(self.unary[v] + multiplier * use)

    def copy(self) -> _State:
        twin = object.__new__(_State)
        twin.__dict__.update(self.__dict__, unary=dict(self.unary), left={v: list(a) for v, a in self.left.items()})
        twin.near = {v: dict(around) for v, around in self.near.items()}
        return twin

    def put(self, v: int, w: int, table: Any) -> None:
        self.near[v][w], self.near[w][v] = table, table.T

    def keep(self, v: int, values: Sequence[int]) -> None:
        self.empty = not values
        places = [self.left[v].index(value) for value in values]
        self.left[v] = list(values)
        self.unary[v] = self.unary[v][places]
        for w in self.near[v]:
            self.put(v, w, self.near[v][w][places])

    def bound(self) -> int:
        tables = (table for v, around in self.near.items() for w, table in around.items() if v < w)
        return self.constant + sum(int(t.min()) for t in self.unary.values()) + sum(int(t.min()) for t in tables)

    def run(self, steps: Sequence[Any]) -> None:
        for at, step in enumerate(steps):
            kind = type(step).__name__.lower()
            _require(kind in STEPS, f"no such step: {kind}")
            getattr(self, kind)(*step)
            if kind in LAST or self.empty:
                _require(at + 1 == len(steps), "steps after the last")
                return
        _require(self.bound() >= self.goal, "the sum of the least entries does not reach the bound")

    def dominated(self, v: int, value: int, by: int) -> None:
        a, b = self.left[v].index(value), self.left[v].index(by)
        excess = int(self.unary[v][a] - self.unary[v][b])
        excess += sum(int((table[a] - table[b]).min()) for table in self.near[v].values())
        _require(a != b and excess >= 0, f"value {value} of {v} is not dominated by {by}")
        cheap = all(limit.use[v][by] <= limit.use[v][value] for limit in self.limits if v in limit.use)
        _require(cheap, f"value {by} of {v} uses more than {value}")
        self.keep(v, [other for other in self.left[v] if other != value])

    def split(self, v: int, w: int) -> None:
        table = self.near[v][w]
        rows, columns = table[:, 0], table[0] - table[0, 0]
        _require(np.array_equal(rows[:, None] + columns, table), f"the table of {v} and {w} is not a sum")
        self.unary[v], self.unary[w] = _guard(self.unary[v] + rows), _guard(self.unary[w] + columns)
        del self.near[v][w], self.near[w][v]

    def eliminate(self, v: int) -> None:
        _require(not any(v in limit.use for limit in self.limits), f"{v} is limited")
        around = sorted(self.near.pop(v).items())
        unary = self.unary.pop(v)
        for w, _ in around:
            del self.near[w][v]
        if not around:
            self.constant += int(unary.min())
        elif len(around) == 1:
            ((w, table),) = around
            self.unary[w] = _guard(self.unary[w] + (unary[:, None] + table).min(axis=0))
        else:
            (w, rows), (x, columns) = around  # Three neighbours or more do not unpack.
            table = (unary[:, None, None] + rows[:, :, None] + columns[:, None, :]).min(axis=0)
            self.put(w, x, _guard(table + self.near[w].get(x, 0)))

    def move(self, v: int, w: int, rows: Any, columns: Any) -> None:
        rows, columns = _guard(np.array(rows, dtype=np.int64)), _guard(np.array(columns, dtype=np.int64))
        self.put(v, w, _guard(self.near[v][w] - rows[:, None] - columns))
        self.unary[v], self.unary[w] = _guard(self.unary[v] + rows), _guard(self.unary[w] + columns)

    def unfit(self, v: int, value: int) -> None:
        rest = [
            value in self.left[v] and self.least(limit, but=v) + int(limit.use[v][value]) > limit.budget
            for limit in self.limits
            if v in limit.use
        ]
        _require(any(rest), f"value {value} of {v} may fit")
        self.keep(v, [other for other in self.left[v] if other != value])

    def least(self, limit: Any, but: int) -> int:
        return sum(int(np.min(use[self.left[w]])) for w, use in limit.use.items() if w != but)

    def over(self, values: Sequence[tuple[int, int]]) -> None:
        bound = self.bound()
        for v, value in values:
            at = self.left[v].index(value)
            slack = int(self.unary[v][at] - self.unary[v].min())
            slack += sum(int(table[at].min() - table.min()) for table in self.near[v].values())
            _require(bound + slack >= self.goal, f"value {value} of {v} may be below the bound")
        gone = set(values)
        for v in {v for v, _ in values}:
            self.keep(v, [value for value in self.left[v] if (v, value) not in gone])

    def branch(self, v: int, parts: Sequence[tuple[Sequence[int], Sequence[Any]]]) -> None:
        _require({value for values, _ in parts for value in values} == set(self.left[v]), f"not all values of {v}")
        for values, steps in parts:
            twin = self.copy()
            twin.keep(v, values)
            twin.run(steps)

    def order(self, variables: Sequence[int]) -> None:
        _require(sorted(variables) == sorted(self.unary), "not every variable once")
        place = {v: at for at, v in enumerate(variables)}
        buckets: list[list[tuple[tuple[int, ...], Any]]] = [[((), self.unary[v])] for v in variables]
        for v, around in self.near.items():
            for w, table in around.items():
                if place[v] < place[w]:
                    buckets[place[v]].append(((place[w],), table))
        mass = sum(int(np.abs(table).max()) for bucket in buckets for _, table in bucket)
        _require(mass < 1 << 62, "the costs are too large to be added")
        for bucket in buckets:
            scope = sorted({p for others, _ in bucket for p in others})
            total: Any = 0
            for others, table in bucket:
                shape = iter(table.shape[1:])
                total = total + table.reshape(-1, *[next(shape) if p in others else 1 for p in scope])
            if scope:
                buckets[scope[0]].append((tuple(scope[1:]), total.min(axis=0)))
            else:
                self.constant += int(total.min())
        _require(self.constant >= self.goal, f"the elimination ends at {self.constant}, below the bound")

    def frontier(self, variables: Sequence[int]) -> None:
        _require(sorted(variables) == sorted(self.unary), "not every variable once")
        place = {v: at for at, v in enumerate(variables)}
        _require(abs(self.bound()) < LARGE, "the costs are too large to be added")
        last = {v: max([place[v], *map(place.__getitem__, self.near[v])]) for v in variables}
        for limit in self.limits:
            for v in limit.use:
                last[v] = max(last[v], *map(place.__getitem__, limit.use))
        chosen: dict[int, Any] = {}  # the partial assignments, as columns: places of values
        cost = np.full(1, self.bound(), dtype=np.int64)
        for at, v in enumerate(variables):
            total = cost[:, None] + (self.unary[v] - self.unary[v].min())
            for w, table in self.near[v].items():
                if place[w] < at:
                    total = np.minimum(total + (table.T[chosen[w]] - table.min()), self.goal)
            stands = total < self.goal
            for limit in self.limits:
                if v in limit.use:
                    use = {w: np.asarray(limit.use[w])[self.left[w]] for w in limit.use}
                    later = sum(int(use[w].min()) for w in use if place[w] > at)
                    earlier = sum((use[w][chosen[w]] for w in use if place[w] < at), np.zeros(len(cost), np.int64))
                    stands &= earlier[:, None] + use[v] <= limit.budget - later
            states, chosen[v] = np.nonzero(stands)
            if not len(states):
                return
            chosen = {w: c if w == v else c[states] for w, c in chosen.items() if last[w] > at}
            first = _cheapest(list(chosen.values()), total[stands])
            chosen = {w: column[first] for w, column in chosen.items()}
            cost = total[stands][first]
        raise CertificateError("an assignment may be below the bound")


def _cheapest(columns: list[Any], cost: Any) -> Any:
    """Of the states that agree in all columns, the place of the cheapest."""
    order = np.lexsort((cost, *columns))
    changes = [column[order][1:] != column[order][:-1] for column in columns]
    return order[np.concatenate(([True], np.any(changes, axis=0) if changes else np.zeros(len(order) - 1, bool)))]
