"""Make a problem smaller without changing its least cost. In: tables. Out: a kernel, and how its values extend.

To a fixpoint: values that another dominates (Goldstein's dead-end elimination) are dropped, tables that are sums of a
row and a column cost are split, variables with at most two neighbours are eliminated. Each step is recorded for the
proof; the checker repeats it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from tilewise.solver.problem import Ints
from tilewise.solver.proof.certificate import Dominated, Eliminate, Move, Over, Split, Step
from tilewise.solver.search.tables import Tables, dominated


class Kernel:
    """What is left: `unary`, `near` (v -> w -> table with v in its rows), `left` (v -> its values that stand).

    Under limits, `lighter[v][a, b]` says of a limited variable whether value b uses no more than a in each of them.
    Such a variable is not eliminated, and only a lighter value dominates.
    """

    def __init__(
        self,
        unary: Sequence[Ints],
        pairs: Mapping[tuple[int, int], Ints],
        tables: Tables,
        lighter: Mapping[int, NDArray[np.bool_]] | None = None,
    ) -> None:
        self._lighter = lighter or {}
        self.tables = tables
        self.unary = dict(enumerate(unary))
        self.near: dict[int, dict[int, Ints]] = {v: {} for v in self.unary}
        self.left = {v: tuple(range(len(table))) for v, table in self.unary.items()}
        self.constant = 0
        self.steps: list[Step] = []
        self._undo: list[tuple[int, Ints, dict[int, Ints], dict[int, tuple[int, ...]]]] = []
        self._queue: deque[int] = deque()
        self._later: deque[int] = deque()  # Variables with many neighbours: these may go, which costs less.
        self._queued: set[int] = set()
        self._whole = set(pairs)  # tables (v, w), v < w, that may be sums: not looked at since they were made
        self._given: Mapping[tuple[int, int], Ints] | None = pairs  # until anything is changed

    def _open(self) -> None:
        """Get ready to change something: many kernels are bounded as they are."""
        pairs, self._given = self._given, None
        if pairs is not None:
            self.unary = {v: self.tables.intern(table) for v, table in self.unary.items()}
            both: dict[int, tuple[Ints, Ints]] = {}  # Pairs share their tables.
            for (i, j), table in pairs.items():
                ways = both.get(id(table))
                if ways is None:
                    own = self.tables.intern(table)
                    ways = both[id(table)] = own, self.tables.turn(own)
                self.near[i][j], self.near[j][i] = ways
            for v in self.unary:
                self.wake(v)

    def copy(self) -> Kernel:
        """A kernel that goes its own way from here, with steps of its own."""
        self._open()
        twin = object.__new__(Kernel)
        twin.tables = Tables(share=False)
        twin._lighter, twin._given = self._lighter, None
        twin.unary, twin.left, twin.constant = dict(self.unary), dict(self.left), self.constant
        twin.near = {v: dict(around) for v, around in self.near.items()}
        twin.steps, twin._undo, twin._whole = [], list(self._undo), set(self._whole)
        twin._queue, twin._later, twin._queued = deque(self._queue), deque(self._later), set(self._queued)
        return twin

    def flat(self) -> tuple[list[int], list[Ints], dict[tuple[int, int], Ints]]:
        """The variables left, and their tables by their places among them."""
        if self._given is not None:
            edges = sorted(self._given, key=itemgetter(0))
            return list(self.unary), list(self.unary.values()), {edge: self._given[edge] for edge in edges}
        names = sorted(self.unary)
        place = {v: at for at, v in enumerate(names)}
        pairs = {(place[v], place[w]): table for v in names for w, table in self.near[v].items() if v < w}
        return names, [self.unary[v] for v in names], pairs

    def reduce(self) -> None:
        """Go on until nothing changes."""
        self._open()
        while self._queue or self._later:
            v = (self._queue or self._later).popleft()
            self._queued.discard(v)
            if v in self.unary:
                self._look(v)

    def wake(self, v: int) -> None:
        if v not in self._queued:
            self._queued.add(v)
            (self._queue if len(self.near.get(v, ())) <= 2 else self._later).append(v)

    def _look(self, v: int) -> None:
        near = self.near[v]
        if (len(near) > 2 or v in self._lighter) and len(self.unary[v]) > 1:
            if v in self._lighter:
                excess = self.tables.excess(self.unary[v], near.values())
                excess[~self._lighter[v][np.ix_(self.left[v], self.left[v])]] = -1
                gone = dominated(excess)
            else:
                gone = self.tables.needless(self.unary[v], near.values())
            if gone:
                names = self.left[v]
                self.steps.extend(Dominated(v, names[a], names[b]) for a, b in gone)
                self.drop(v, [a for a, _ in gone])
        for w in list(near):
            edge = (v, w) if v < w else (w, v)
            if edge in self._whole:
                self._whole.discard(edge)
                self._split(v, w)
        if len(near) <= 2 and v not in self._lighter:
            self._eliminate(v)

    def drop(self, v: int, gone: Sequence[int]) -> bool:
        """Let values go, by their places among those that stand. Whether any is left."""
        self._open()
        keep = tuple(a for a in range(len(self.left[v])) if a not in gone)
        if not keep:
            return False
        self.left[v] = tuple(self.left[v][a] for a in keep)
        self.unary[v] = self.tables.take(self.unary[v], keep, 0)
        for w, table in self.near[v].items():
            self._put(v, w, self.tables.take(table, keep, 0))
            self._whole.add((v, w) if v < w else (w, v))
            self.wake(w)
        self.wake(v)
        return True

    def move(self, moves: Sequence[Move], unary: Mapping[int, Ints], tables: Sequence[Ints]) -> None:
        """Take over costs that were moved between the tables of `flat()`.

        That changes neither what is dominated nor which tables are sums, so nothing needs to be looked at again.
        """
        self._open()
        self.steps.extend(moves)
        self.unary.update(unary)
        self.tables = Tables(share=False)
        for (v, w, *_), table in zip(moves, tables, strict=True):
            self._put(v, w, table)

    def over(self, gone: Mapping[int, Sequence[int]]) -> bool:
        """Let values go with which nothing fits, or is better than what is known. Whether any is left of each."""
        for v, places in gone.items():
            if len(places) == len(self.left[v]):
                gone = {v: places}
                break
        if gone:
            self.steps.append(Over(tuple((v, self.left[v][a]) for v, places in gone.items() for a in places)))
        return all([self.drop(v, places) for v, places in gone.items()])

    def _put(self, v: int, w: int, table: Ints) -> None:
        self.near[v][w] = table
        self.near[w][v] = self.tables.turn(table)

    def _split(self, v: int, w: int) -> None:
        parts = self.tables.parts(self.near[v][w])
        if parts is not None:
            self.steps.append(Split(v, w))
            self.unary[v] = self.tables.add(self.unary[v], parts[0])
            self.unary[w] = self.tables.add(self.unary[w], parts[1])
            del self.near[v][w], self.near[w][v]
            self.wake(w)
            self.wake(v)

    def _eliminate(self, v: int) -> None:
        around = self.near.pop(v)
        unary = self.unary.pop(v)
        self.steps.append(Eliminate(v))
        self._undo.append((v, unary, around, {w: self.left[w] for w in around}))
        for w in around:
            del self.near[w][v]
            self.wake(w)
        if not around:
            self.constant += int(unary.min())
        elif len(around) == 1:
            ((w, table),) = around.items()
            self.unary[w] = self.tables.add(self.unary[w], self.tables.fold(unary, table))
        else:
            (w, left), (x, right) = sorted(around.items())
            table = self.tables.fold(unary, left, right)
            known = self.near[w].get(x)
            self._put(w, x, table if known is None else self.tables.add(known, table))
            self._whole.add((w, x))

    def extend(self, values: dict[int, int]) -> dict[int, int]:
        """An assignment of all variables from one of the kernel's: the lowest best value of each."""
        full = dict(values)
        for v, unary, around, left in reversed(self._undo):
            cost = unary
            for w, table in around.items():
                cost = cost + table[:, left[w].index(full[w])]
            full[v] = self.left[v][int(np.argmin(cost))]
        return full
