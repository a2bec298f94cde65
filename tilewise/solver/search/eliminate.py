"""Exact minimisation by eliminating variables one by one. In: tables and an order. Out: the least cost and its values.

A variable's factors are added and minimised over it; the result is a factor of its neighbours. Scopes are positions in
the order, ascending, so that the variable that goes first is always axis 0 and no table is ever turned. Equal steps
(the iterations of an unrolled loop) are recognised by the identity of their tables and done once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tilewise.solver.problem import Ints
from tilewise.tuning import tuned

_minimum = np.minimum.reduce

Scope = tuple[int, ...]
Factor = tuple[Scope, Ints]


class Elimination:
    """The tables of an elimination: `bound` is the least cost, `values` finds an assignment that has it."""

    def __init__(self, unary: Sequence[Ints], pairs: Mapping[tuple[int, int], Ints], order: Sequence[int]) -> None:
        count = len(order)
        position = [0] * count
        for at, v in enumerate(order):
            position[v] = at
        self.order = order
        self._sizes = [len(unary[v]) for v in order]
        self.buckets: list[list[Factor]] = [[((), unary[v])] for v in order]
        turned: dict[int, Ints] = {}
        for (i, j), table in pairs.items():
            a, b = position[i], position[j]
            if a < b:
                self.buckets[a].append(((b,), table))
            else:
                other = turned.get(id(table))
                if other is None:
                    other = turned[id(table)] = table.T.copy()
                self.buckets[b].append(((a,), other))
        self._turned = turned  # Keeps the tables alive, whose identities are keys.
        self._done: dict[tuple[object, ...], tuple[int, Ints]] = {}
        self._equal: dict[tuple[object, ...], Ints] = {}
        limits = tuned()
        self._intern = count >= limits.solver_intern_from
        self._at_once = limits.solver_sum_at_once  # entries
        self.bound = 0
        for at in range(count):
            self._eliminate(at)

    def _eliminate(self, at: int) -> None:
        bucket = self.buckets[at]
        scopes = [scope for scope, _ in bucket if scope]
        if not scopes:
            self.bound += int(_alone(bucket).min())
            return
        others = scopes[0] if len(scopes) == 1 else tuple(sorted({p for scope in scopes for p in scope}))
        if not self._intern:
            table: Ints = self._least(at, others)
        else:
            if len(scopes) == 1:
                key: tuple[object, ...] = tuple([id(table) for _, table in bucket])
            else:
                place = {p: k for k, p in enumerate(others)}
                key = tuple([(id(table), *[place[p] for p in scope]) for scope, table in bucket])
            known = self._done.get(key)
            if known is None:
                known = self._done[key] = self._normal(self._least(at, others))
            constant, table = known
            self.bound += constant
        self.buckets[others[0]].append((others[1:], table))

    def _least(self, at: int, others: Scope) -> Ints:
        """The least of a bucket's sum over its variable, by the values of the others."""
        bucket = self.buckets[at]
        if len(others) == 1:
            total: Ints | None = None
            for scope, table in bucket:
                if scope:
                    total = table if total is None else total + table
            assert total is not None
            return _minimum(total + _alone(bucket)[:, None], axis=0)  # type: ignore[no-any-return]
        entries = self._sizes[at]
        for p in others:
            entries *= self._sizes[p]
        if entries <= self._at_once:
            return _minimum(_joint(bucket, others), axis=0)  # type: ignore[no-any-return]
        return _least_by_rows(bucket, others)

    def _normal(self, table: Ints) -> tuple[int, Ints]:
        """A table apart from a constant, one object for all that are equal."""
        constant = int(table.min())
        table = table - constant
        return constant, self._equal.setdefault((table.shape, table.tobytes()), table)

    def values(self) -> list[int]:
        """An assignment of least cost; among equals the lowest value, last eliminated variable first."""
        chosen = [0] * len(self.order)
        values = [0] * len(self.order)
        for at in range(len(self.order) - 1, -1, -1):
            costs = None
            for scope, table in self.buckets[at]:
                row: Ints = table[(slice(None), *[chosen[p] for p in scope])] if scope else table  # type: ignore[arg-type]
                costs = row if costs is None else costs + row
            assert costs is not None
            chosen[at] = values[self.order[at]] = int(costs.argmin())
        return values


def _alone(bucket: list[Factor]) -> Ints:
    """The sum of what depends on a bucket's variable alone; that of its own costs is always there."""
    total = bucket[0][1]
    for scope, table in bucket[1:]:
        if not scope:
            total = total + table
    return total


def _joint(bucket: list[Factor], others: Scope) -> Ints:
    """The sum of a bucket's factors over its variable (axis 0) and the others."""
    rank = len(others) + 1
    total = None
    for factor in sorted(bucket, key=_rank):  # Small sums first.
        table = factor[1] if len(factor[0]) + 1 == rank else _shaped(factor, others)
        total = table if total is None else total + table
    assert total is not None
    return total


def _rank(factor: Factor) -> int:
    return len(factor[0])


def _shaped(factor: Factor, others: Scope) -> Ints:
    """A factor's table with an axis for each of the others, of length one where it does not depend on it."""
    scope, table = factor
    shape = [1] * (len(others) + 1)
    shape[0] = len(table)
    for p, size in zip(scope, table.shape[1:], strict=True):
        shape[others.index(p) + 1] = size
    return table.reshape(shape)


def _least_by_rows(bucket: list[Factor], others: Scope) -> Ints:
    """The same for large sums, made one value at a time, to stay in the cache."""
    shaped = [_shaped(factor, others) for factor in bucket]
    least: Ints | None = None
    room: Ints | None = None
    for a in range(len(shaped[0])):
        row = shaped[0][a]
        for table in shaped[1:-1]:
            row = row + table[a]
        room = np.add(row, shaped[-1][a], out=room)
        least = room.copy() if least is None else np.minimum(least, room, out=least)
    assert least is not None
    return least
