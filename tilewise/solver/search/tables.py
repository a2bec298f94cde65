"""Operations on cost tables that are done once for equal operands. In: tables. Out: tables, one object per content.

Unrolled loops make the same tables over and over; here they are recognised by identity, so that a hundred equal
iterations cost little more than one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

import numpy as np

from tilewise.solver.problem import Ints
from tilewise.tuning import tuned

Keep = tuple[int, ...]


class Tables:
    """A store of tables. What it returns is never written to.

    Tables that message passing has changed are all different; for them `share` is off, and equality is not looked for.
    """

    def __init__(self, share: bool = True) -> None:
        self._share = share
        self._equal: dict[tuple[object, ...], Ints] = {}
        # Results by what was done and the identities of the operands, which are kept alive beside them.
        self._known: dict[tuple[object, ...], tuple[Ints, tuple[Ints, ...]]] = {}
        self._parts: dict[int, tuple[tuple[Ints, Ints] | None, Ints]] = {}
        self._needless: dict[tuple[int, ...], tuple[list[tuple[int, int]], tuple[Ints, ...]]] = {}

    def intern(self, table: Ints) -> Ints:
        """The one object with this content."""
        return self._once(("is", id(table)), (table,), lambda: table)

    def _once(self, key: tuple[object, ...], operands: tuple[Ints, ...], make: Callable[[], Ints]) -> Ints:
        known = self._known.get(key)
        if known is None:
            result = np.ascontiguousarray(make())
            if self._share:
                result = self._equal.setdefault((result.shape, result.tobytes()), result)
            known = self._known[key] = (result, operands)
        return known[0]

    def turn(self, table: Ints) -> Ints:
        return self._once(("turn", id(table)), (table,), lambda: table.T)

    def add(self, a: Ints, b: Ints) -> Ints:
        return self._once(("add", id(a), id(b)), (a, b), lambda: a + b)

    def take(self, table: Ints, keep: Keep, axis: int) -> Ints:
        """Only these values along an axis."""
        return self._once(("take", id(table), axis, keep), (table,), lambda: table.take(keep, axis=axis))

    def fold(self, unary: Ints, *around: Ints) -> Ints:
        """The least over a variable of its cost and its tables (its values in the rows): of one neighbour or two."""

        def make() -> Ints:
            joint = unary[:, None] + around[0]
            if len(around) == 2:
                joint = joint[:, :, None] + around[1][:, None, :]
            least: Ints = joint.min(axis=0)
            return least

        return self._once(("fold", id(unary), *map(id, around)), (unary, *around), make)

    def differences(self, table: Ints) -> Ints:
        """[a, b]: the least, over the other variable, of the cost of row a beyond that of row b."""
        return self._once(("differences", id(table)), (table,), lambda: _differences(table))

    def excess(self, unary: Ints, around: Iterable[Ints]) -> Ints:
        """[a, b]: how much value a of a variable costs beyond b, at least (tables have its values in the rows)."""
        excess = unary[:, None] - unary
        for table in around:
            excess = excess + self.differences(table)
        return excess

    def needless(self, unary: Ints, around: Collection[Ints]) -> list[tuple[int, int]]:
        """What `dominated` finds among the values of a variable."""
        if not self._share:
            return dominated(self.excess(unary, around))
        key = (id(unary), *sorted([id(table) for table in around]))
        known = self._needless.get(key)
        if known is None:
            known = self._needless[key] = (dominated(self.excess(unary, around)), (unary, *around))
        return known[0]

    def parts(self, table: Ints) -> tuple[Ints, Ints] | None:
        """A row cost and a column cost whose sum the table is, if it is one."""
        known = self._parts.get(id(table))
        if known is None:
            rows = table[:, 0]
            columns = table[0] - table[0, 0]
            separable = bool((rows[:, None] + columns == table).all())
            parts = (self.intern(rows.copy()), self.intern(columns)) if separable else None
            known = self._parts[id(table)] = (parts, table)
        return known[0]


def _differences(table: Ints) -> Ints:
    rows, columns = table.shape
    if rows * rows * columns <= tuned().solver_at_once:
        return (table[:, None, :] - table[None, :, :]).min(axis=2)  # type: ignore[no-any-return]
    turned = np.ascontiguousarray(table.T)
    least: Ints = np.subtract.outer(turned[0], turned[0])
    room = np.empty_like(least)
    for column in turned[1:]:
        np.minimum(least, np.subtract.outer(column, column, out=room), out=least)
    return least


def dominated(excess: Ints) -> list[tuple[int, int]]:
    """Values that another makes needless, as (value, by), in an order in which each `by` still stands."""
    weak = excess >= 0
    found: list[tuple[int, int]] = []
    if np.count_nonzero(weak) == len(weak):  # each only of itself
        return found
    rows = weak.tolist()
    alive = list(range(len(rows)))
    for a in range(len(rows) - 1, -1, -1):  # Of two equals the lower stays.
        row = rows[a]
        for b in alive:
            if b != a and row[b]:
                found.append((a, b))
                alive.remove(a)
                break
    return found
