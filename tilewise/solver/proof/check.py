"""Check a solver's claim. In: a problem, an assignment, its cost, a lower bound and a certificate. Out: nothing, or an
error. Imports nothing of the solver; recomputes all that it relies on, in whole numbers that cannot overflow.

A certificate is a list of steps (certificate.py says what each means). They are repeated here on the problem's own
tables, and the condition of each is tested: that it does not raise the least cost, or only above the bound to be shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np

LARGE = 1 << 58  # No table may hold more: sums of four of them stay whole in 64 bits.
LAST = ("branch", "order", "frontier")
STEPS = ("dominated", "split", "eliminate", "move", "over", *LAST)


class CertificateError(Exception):
    """The claim is wrong, or its certificate does not show it."""


def check(problem: Any, values: Sequence[int], cost: int, bound: int, certificate: Any) -> None:
    """Raise CertificateError unless `values` cost `cost`, satisfy every limit, and nothing costs less than `bound`."""
    try:
        _check_plan(problem, values, cost)
        _require(bound <= cost, f"the bound {bound} is above the cost {cost}")
        _State(problem, certificate, bound).run(certificate.steps)
    except (KeyError, IndexError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise CertificateError(f"the certificate does not fit the problem: {error!r}") from error


def _require(condition: object, message: str) -> None:
    if not condition:
        raise CertificateError(message)


def _guard(table: Any, times: int = 1) -> Any:
    """A table times a factor, if it holds no number that is too large."""
    table = np.asarray(table)
    _require(table.dtype == np.int64, "a table does not hold whole numbers")
    _require(max(int(table.max()), -int(table.min())) * abs(times) <= LARGE, "a table holds too large a number")
    return table * times


def _check_plan(problem: Any, values: Sequence[int], cost: int) -> None:
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
        scale, ceiling, prices = certificate.scale, certificate.ceiling, certificate.multipliers
        shift = certificate.shift
        _require(scale >= 1 and shift >= 0, "the scale or the shift does not fit")
        _require(len(prices) in (0, len(problem.limits)), "the multipliers do not fit")
        bound = -(-bound >> shift)  # What is shown of costs without their last bits holds for these.
        self.goal = (bound - 1) * scale + 1  # Costs are whole: more than bound - 1 is bound.
        self.empty = False  # Whether a variable has no value left: nothing is below the bound.
        self.constant = 0
        self.unary = {v: _guard(np.minimum(table, ceiling) >> shift, scale) for v, table in enumerate(problem.unary)}
        self.left = {v: list(range(len(table))) for v, table in self.unary.items()}
        self.near: dict[int, dict[int, Any]] = {v: {} for v in self.unary}  # v -> w -> table with v in its rows
        for (i, j), table in problem.pairs.items():
            _require(i < j, "a pair is not in order")
            self.put(i, j, _guard(np.minimum(table, ceiling) >> shift, scale))
        self.limits = list(problem.limits) if certificate.hard else []
        for price, limit in zip(prices, problem.limits, strict=False):
            _require(price >= 0, "a multiplier is negative")
            self.constant -= price * limit.budget
            for v, use in limit.use.items():
                self.unary[v] = _guard(self.unary[v] + _guard(use, price))

    def put(self, v: int, w: int, table: Any) -> None:
        self.near[v][w], self.near[w][v] = table, table.T

    def keep(self, v: int, values: Sequence[int]) -> None:
        places = [self.left[v].index(value) for value in values]
        self.empty |= not places
        self.left[v], self.unary[v] = list(values), self.unary[v][places]
        for w in self.near[v]:
            self.put(v, w, self.near[v][w][places])

    def bound(self) -> int:
        tables = [table for v, around in self.near.items() for w, table in around.items() if v < w]
        return self.constant + sum(int(table.min()) for table in (*self.unary.values(), *tables))

    def least(self, limit: Any, without: int) -> int:
        return sum(int(use[self.left[w]].min()) for w, use in limit.use.items() if w != without)

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
        lighter = all(limit.use[v][by] <= limit.use[v][value] for limit in self.limits if v in limit.use)
        _require(a != b and excess >= 0 and lighter, f"value {value} of {v} is not dominated by {by}")
        self.keep(v, [other for other in self.left[v] if other != value])

    def split(self, v: int, w: int) -> None:
        table = self.near[v][w]
        rows, columns = table[:, 0], table[0] - table[0, 0]
        _require(np.array_equal(rows[:, None] + columns, table), f"the table of {v} and {w} is not a sum")
        self.unary[v], self.unary[w] = _guard(self.unary[v] + rows), _guard(self.unary[w] + columns)
        del self.near[v][w], self.near[w][v]

    def eliminate(self, v: int) -> None:
        _require(not any(v in limit.use for limit in self.limits), f"{v} is limited")
        unary, around = self.unary.pop(v), sorted(self.near.pop(v).items())
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
        rows, columns = _guard(rows), _guard(columns)
        self.put(v, w, _guard(self.near[v][w] - rows[:, None] - columns))
        self.unary[v], self.unary[w] = _guard(self.unary[v] + rows), _guard(self.unary[w] + columns)

    def over(self, values: Sequence[tuple[int, int]]) -> None:
        missing = self.goal - self.bound()
        for v, value in values:
            at = self.left[v].index(value)
            slack = int(self.unary[v][at] - self.unary[v].min())
            slack += sum(int(table[at].min() - table.min()) for table in self.near[v].values())
            limits = [limit for limit in self.limits if v in limit.use] if slack < missing else ()
            unfit = any(int(limit.use[v][value]) > limit.budget - self.least(limit, v) for limit in limits)
            _require(slack >= missing or unfit, f"value {value} of {v} may be below the bound")
        for v in {v for v, _ in values}:
            self.keep(v, [value for value in self.left[v] if (v, value) not in values])

    def branch(self, v: int, parts: Sequence[tuple[Sequence[int], Sequence[Any]]]) -> None:
        _require({value for values, _ in parts for value in values} == set(self.left[v]), f"not all values of {v}")
        for values, steps in parts:
            twin = copy(self)
            twin.unary, twin.left = dict(self.unary), dict(self.left)
            twin.near = {w: dict(around) for w, around in self.near.items()}
            twin.keep(v, values)
            twin.run(steps)

    def order(self, variables: Sequence[int]) -> None:
        place = self.places(variables)
        buckets: list[list[tuple[tuple[int, ...], Any]]] = [[((), self.unary[v])] for v in variables]
        for v, around in self.near.items():
            for w, table in around.items():
                if place[v] < place[w]:
                    buckets[place[v]].append(((place[w],), table))
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

    def places(self, variables: Sequence[int]) -> dict[int, int]:
        _require(sorted(variables) == sorted(self.unary), "not every variable once")
        tables = [table for around in self.near.values() for table in around.values()]
        mass = sum(max(int(table.max()), -int(table.min())) for table in (*self.unary.values(), *tables))
        mass += sum(int(np.abs(use).max()) for limit in self.limits for use in limit.use.values())
        _require(mass < 1 << 62, "the costs are too large to be added")
        return {v: at for at, v in enumerate(variables)}

    def frontier(self, variables: Sequence[int]) -> None:
        place = self.places(variables)
        last = {v: max([place[v], *(place[w] for w in self.near[v])]) for v in variables}
        chosen: dict[int, Any] = {}  # the partial assignments, as columns: places of values
        used: dict[int, Any] = {}  # and what they use of each limit
        ahead = {v: (self.unary[v] - self.unary[v].min())[None] for v in variables}  # and what they make values cost
        cost = np.full(1, self.bound(), dtype=np.int64)
        for at, v in enumerate(variables):
            total = cost[:, None] + ahead.pop(v)
            later = sum((here.min(axis=1) for here in ahead.values()), np.zeros(len(cost), np.int64))
            stands = total + later[:, None] < self.goal
            grown = {}
            for k, limit in enumerate(self.limits):
                if v in limit.use:
                    rest = [limit.use[w][self.left[w]] for w in limit.use if place[w] > at]
                    here = used.get(k, np.zeros(len(cost), np.int64))[:, None] + limit.use[v][self.left[v]]
                    stands &= here <= limit.budget - sum(int(use.min()) for use in rest)
                    grown[k] = np.maximum(here, limit.budget - sum(int(use.max()) for use in rest))  # Less is the same.
            states, chosen[v] = np.nonzero(stands)
            if not len(states):
                return
            used = {k: column[states] for k, column in used.items()} | {k: here[stands] for k, here in grown.items()}
            picked = chosen[v]
            chosen = {w: c if w == v else c[states] for w, c in chosen.items() if last[w] > at}
            first = _cheapest([*chosen.values(), *used.values()], total[stands])
            chosen = {w: column[first] for w, column in chosen.items()}
            used = {k: column[first] for k, column in used.items()}
            cost, states, picked = total[stands][first], states[first], picked[first]
            ahead = {w: here if len(here) == 1 else here[states] for w, here in ahead.items()}
            for w, table in self.near[v].items():
                if w in ahead:
                    ahead[w] = ahead[w] + (table - table.min())[picked]
        _require(bool((cost >= self.goal).all()), "an assignment may be below the bound")


def _cheapest(columns: list[Any], cost: Any) -> Any:
    """Of the states that agree in all columns, the place of the cheapest."""
    order = np.lexsort((cost, *columns))
    changes = [column[order][1:] != column[order][:-1] for column in columns]
    return order[np.concatenate(([True], np.any(changes, axis=0) if changes else np.zeros(len(order) - 1, bool)))]
