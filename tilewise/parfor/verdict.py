"""From what the walk found to a verdict per loop. In: touches, names, hazards. Out: `Verdict`."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tilewise.kernel.dependence.access import Outcome
from tilewise.kernel.dependence.decide import decide
from tilewise.kernel.dependence.expr import Undecided
from tilewise.parfor.walk.lasting import held_by
from tilewise.parfor.walk.loops import ParLoop, Statements
from tilewise.parfor.walk.names import assigned
from tilewise.parfor.walk.record import NameUse, Touch
from tilewise.parfor.walk.values import Obj

# Which test is named for a loop that needed several: the last of these.
RANK = "no shared writes,arrays,trip count,constant,equals,GCD,Banerjee,interval,mixed radix,inspector".split(",")


class SummedCells(NamedTuple):
    """Cells of a list, a dict or an instance that are accumulated; `keys` None: all that it has."""

    op: str
    keys: tuple[Any, ...] | None


@dataclass(frozen=True)
class Verdict:
    """What is known of one loop.

    `pair`: two values of the loop's variable (or positions, for loops over other things than numbers) whose iterations
    clash, or may. `accesses`: the two places, as lines and texts. `reductions`: what is accumulated, and by which
    operator.
    """

    independent: bool
    variable: str | None
    pair: tuple[Any, Any] | None
    test: str
    line: int
    accesses: tuple[tuple[int, str], ...] = ()
    why: str = ""
    reductions: dict[str, str] = field(default_factory=dict)
    cells: dict[int, SummedCells] = field(default_factory=dict)  # by the number of a list, dict or instance

    def __str__(self) -> str:
        """One line, or one per access.

        >>> print(Verdict(False, "A", (0, 1), "Banerjee", 3, ((3, "A[i] = A[i + 1]"),)))
        dependent: A, iterations 0 and 1 (Banerjee)
          line 3: A[i] = A[i + 1]
        """
        if self.independent:
            sums = "".join(f", {name} accumulated by {op}" for name, op in self.reductions.items())
            return f"independent ({self.test}){sums}"
        which = f", iterations {self.pair[0]} and {self.pair[1]}" if self.pair is not None else ""
        head = f"dependent: {self.variable}{which} ({self.test}{': ' if self.why else ''}{self.why})"
        return "\n".join([head, *(f"  line {line}: {text}" for line, text in self.accesses)])


class _Found(Exception):
    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict


class Judge:
    """Decides one loop."""

    def __init__(self, walk: Statements, loop: ParLoop, live: set[str]) -> None:
        self.walk = walk
        self.loop = loop
        self.live = live
        self.tests: set[str] = set()
        self.reductions: dict[str, str] = {}
        self.cells: dict[int, SummedCells] = {}

    def verdict(self) -> Verdict:
        """The verdict."""
        line = self.loop.node.lineno
        if self.loop.index.last < 1:
            return Verdict(True, None, None, "trip count", line)
        try:
            self._hazards()
            self._names()
            self._touches()
        except _Found as found:
            return found.verdict
        test = max(self.tests, key=lambda t: RANK.index(t) if t in RANK else 0, default="no shared writes")
        if self.reductions and test == "no shared writes":
            test = "reduction"
        return Verdict(True, None, None, test, line, reductions=self.reductions, cells=self.cells)

    def _fail(
        self,
        variable: str,
        test: str,
        places: Sequence[tuple[int, str]],
        why: str = "",
        pair: tuple[int, int] | None = None,
    ) -> None:
        values = tuple(self._value(k) for k in (pair or (0, 1)))
        raise _Found(Verdict(False, variable, (values[0], values[1]), test, self.loop.node.lineno, tuple(places), why))

    def _value(self, number: int) -> Any:
        """The loop's variable in an iteration."""
        expr = self.loop.element.expr
        if expr is None:
            return number
        points = {index: 0 for index in expr.indices} | {self.loop.index: np.int64(number)}
        try:
            value = expr.at(points)
        except (Undecided, KeyError):
            return number
        value = value.item() if isinstance(value, np.generic | np.ndarray) else value
        return value

    def accumulated(self) -> dict[str, str]:
        """Names that are only ever accumulated, whatever else keeps the iterations from being independent."""
        uses: dict[str, set[str]] = {}
        for use in self.walk.names:
            if self.loop.index in use.loops and (use.how == "write" or self.loop.index in use.carried):
                uses.setdefault(use.name, set()).add(use.how)
        found = {name: next(iter(how)) for name, how in uses.items() if len(how) == 1}
        return {name: op for name, op in found.items() if op not in ("read", "write")}

    # -- what is no memory ----------------------------------------------------------------------------------------

    def _hazards(self) -> None:
        for hazard in self.walk.hazards:
            if self.loop.index in hazard.loops:
                self._fail(hazard.variable, hazard.test, [(hazard.line, hazard.why)], hazard.why)

    def _names(self) -> None:
        uses: dict[str, list[NameUse]] = {}
        for use in self.walk.names:
            if self.loop.index in use.loops:
                uses.setdefault(use.name, []).append(use)
        own = {n.id for n in ast.walk(self.loop.node.target) if isinstance(n, ast.Name)}
        for name, found in uses.items():
            reads = [u for u in found if u.how == "read" and self.loop.index in u.carried]
            writes = [u for u in found if u.how == "write"]
            sums = [u for u in found if u.how not in ("read", "write") and self.loop.index in u.carried]
            if reads:
                places = [_place(u) for u in (*(writes or sums)[:1], reads[0])]
                self._fail(name, "scalar", places, "it is read before it is assigned in its iteration")
            if sums:
                if writes or len({u.how for u in sums}) > 1:
                    self._fail(
                        name,
                        "scalar",
                        [_place(sums[0]), _place((writes or sums)[-1])],
                        "it is assigned and accumulated",
                    )
                self.reductions[name] = sums[0].how
            elif writes and name in self.live and name not in own:
                self._fail(name, "scalar", [_place(writes[0])], "it is used after the loop")

    # -- memory ---------------------------------------------------------------------------------------------------

    def _mapped_twice(self, touches: Sequence[Touch], writes: Sequence[Touch]) -> None:
        """Arrays in two mappings of one file are not told apart."""
        for a in writes:
            mapped = [(o, o.mapped) for o in a.objs if o.mapped is not None]
            for b in touches if mapped else ():
                others = [(p, p.mapped) for p in b.objs if p.mapped is not None]
                if any(o is not p and here.seen_in(there) for o, here in mapped for p, there in others):
                    self._fail(a.name, "alias", [_at(a), _at(b)], "two mappings of one file share its bytes")

    def _touches(self) -> None:
        index = self.loop.index
        mine = [
            t for t in self.walk.touches if index in t.access.loops and not all(index in obj.born for obj in t.objs)
        ]
        writes = [t for t in mine if t.access.write]
        for t in mine:
            if t.access.array == "anything" and writes:
                self._fail(writes[0].name, "alias", [_at(writes[0]), _at(t)], "an object that is not known is read")
        self._mapped_twice(mine, writes)
        summed: dict[Obj, str] = {}
        for a, b in self._pairs(mine):
            if a.op is not None and a.op == b.op:
                if summed.keys() >= a.objs | b.objs:
                    continue
                together = self._decide(a, b)
                if not together.independent and not all(obj.array or obj.key for obj in a.objs | b.objs):
                    why = "only arrays, names and what was there before are accumulated"
                    self._fail(a.name, "reduction", [_at(a), _at(b)], why, together.pair)
                if not together.independent:
                    summed |= dict.fromkeys(a.objs | b.objs, a.op)
                continue
            outcome = self._decide(a, b)
            if not outcome.independent:
                self._fail(a.name, outcome.test, [_at(a), _at(b)], pair=outcome.pair)
        for obj, op in summed.items():
            if not obj.array:
                self._sum_cells(obj, op, [t for t in mine if obj in t.objs])
                continue
            for t in mine:
                if obj in t.objs and t.op != op:
                    other = next(o for o in mine if obj in o.objs and o.op == op and o.access.write)
                    self._fail(obj.name, "reduction", [_at(other), _at(t)], "it is accumulated, and used in other ways")
            self.reductions[obj.name] = op
        self._stored(writes, summed)

    def _stored(self, writes: Sequence[Touch], summed: Collection[Obj]) -> None:
        """What a worker has for itself must not be left in what lasts: accumulators, and names that functions read."""
        own = assigned([self.loop.node])
        for t in writes:
            holders = [o for o in t.objs if self.loop.index not in o.born and (o.content or o.anything)]
            if not holders:
                continue
            held = held_by(self.walk, holders, own)
            for name in sorted(held.names):
                self._fail(name, "stored", [_at(t)], "a function that is stored reads it after its iteration")
            found = next((o for o in summed if o in held.objs or held.anything), None)
            if found is not None:
                sums = next(s for s in writes if found in s.objs and s.op is not None)
                self._fail(found.name, "stored", [_at(sums), _at(t)], "it is accumulated, and stored")

    def _sum_cells(self, obj: Obj, op: str, touches: Sequence[Touch]) -> None:
        """Cells of an object: all of it, or those with keys that are known, and others are only read."""
        own = [t for t in touches if t.op == op]
        keys: list[Any] = []
        if all(t.access.array == "cells" and not t.access.subscripts[-1].indices for t in own):
            with contextlib.suppress(Undecided):
                keys = [np.asarray(t.access.subscripts[-1].at({}))[()] for t in own]
        other = [t for t in touches if t.op != op and (not keys or t.access.write or t.access.array != "cells")]
        if other:
            self._fail(obj.name, "reduction", [_at(own[0]), _at(other[0])], "it is accumulated, and used in other ways")
        self.reductions[obj.name] = op
        self.cells[obj.code] = SummedCells(op, tuple(dict.fromkeys(keys)) or None)

    def _pairs(self, mine: Sequence[Touch]) -> Iterator[tuple[Touch, Touch]]:
        """Each write with each access to the same arrays, once."""
        seen = set()  # without guards: these cover others of the same form
        unique: list[Touch] = []
        for t in sorted(mine, key=lambda t: bool(t.access.guards)):
            at = t.access
            key = (at.array, tuple(e.key() for e in at.subscripts), tuple(map(id, at.loops)), at.write, t.op)
            if key in seen:
                continue
            unique.append(t)
            if not at.guards:
                seen.add(key)
        for n, a in enumerate(unique):
            for m, b in enumerate(unique):
                if a.access.write and (m >= n or not b.access.write) and self._may_meet(a, b):
                    yield a, b

    @staticmethod
    def _may_meet(a: Touch, b: Touch) -> bool:
        return a.access.array == b.access.array and bool(a.objs & b.objs or a.access.array == "flat")

    def _decide(self, a: Touch, b: Touch) -> Outcome:
        outcome = decide(a.access, b.access, self.loop.index, self.loop.around)
        if outcome.independent:
            self.tests.add(outcome.test)
        return outcome


def _place(use: NameUse) -> tuple[int, str]:
    return use.line, use.text


def _at(touch: Touch) -> tuple[int, str]:
    return touch.access.where, touch.access.text
