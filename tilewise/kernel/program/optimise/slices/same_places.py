"""Which expressions and elements are the same. In: a program. Out: one form of all that are equal by definition.

Names that are set at one place stand for what they are set to, if that is made of such names, too, and where all of
these were surely set before (`known`): then all belong to the same iteration. Views stand for what they show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import cast

from tilewise.kernel.program import ir
from tilewise.kernel.program.walk import BLOCKS, arrays_used, expressions, mapped, names_read, statements

LARGEST = 60  # expressions that stand for a name
Place = Hashable  # of an array: equal ones have the same elements at the same subscripts


def _defined(s: ir.Stmt) -> tuple[str, ...]:
    """The names that a statement itself sets, but for counters."""
    if isinstance(s, ir.Set):
        return (s.name,)
    if isinstance(s, ir.Alloc | ir.View):
        return (f"array {s.array}",)
    if isinstance(s, ir.HostCall | ir.Invoke):
        return tuple(name for n in ir.results_of(s) for name in (n, f"array {n}"))
    return ()


class Definitions:
    """What the names and arrays of a program are."""

    def __init__(self, program: ir.Program) -> None:
        self.program = program
        self.counts: Counter[str] = Counter()
        values: dict[str, ir.Expr] = {}
        made: dict[str, ir.Alloc | ir.View] = {}
        for s in statements(program.body):
            if isinstance(s, ir.Set | ir.For):
                self.counts[s.name] += 1
                if isinstance(s, ir.Set) and s.value.dtype in (ir.INT, ir.BOOL):
                    values[s.name] = _without_faults(s.value)
            elif isinstance(s, ir.Alloc | ir.View):
                self.counts[f"array {s.array}"] += 1
                made[s.array] = s
            elif isinstance(s, ir.HostCall | ir.Invoke):
                self.counts.update(name for n in ir.results_of(s) for name in (n, f"array {n}"))
        self.known = {n for p in program.params for n in (p.name, f"array {p.name}")}  # have a value here
        self._forms: dict[ir.Expr, ir.Expr] = {}
        self._places: dict[str, Place] = {}
        self._look(program.body)
        self.values: dict[str, ir.Expr] = {}
        sizes: dict[str, int] = {}  # of what stands for a name
        for n, e in values.items():
            sizes[n] = 1 + sum(sizes.get(x.name, 1) if isinstance(x, ir.Var) else 1 for x in expressions(ir.Set(n, e)))
            if self.counts[n] == 1 and self._lasting(e) and sizes[n] <= LARGEST:
                self.values[n] = e
            else:
                sizes[n] = 1
        self.made = {n: s for n, s in made.items() if self.counts[f"array {n}"] == 1}
        self.views = {
            n: s
            for n, s in self.made.items()
            if isinstance(s, ir.View) and self._lasting(s) and self.counts[f"array {s.source}"] <= 1
        }

    def _look(self, block: ir.Block) -> None:
        """Find names that are set to something that may have no value there, or that of an earlier iteration."""
        added: list[str] = []
        for s in block:
            if isinstance(s, ir.Set | ir.Alloc | ir.View):
                read = names_read(s) | {f"array {a}" for a in arrays_used(s)}
                if not read <= self.known:
                    self.counts.update(_defined(s))  # as if it were set at several places
            for name in BLOCKS.get(type(s), ()):
                with self.inside(s):
                    self._look(getattr(s, name))
            added += self.define(s)
        self.forget(added)

    def define(self, s: ir.Stmt) -> list[str]:
        """From here on a statement has been run: the names that are new."""
        new = [n for n in _defined(s) if n not in self.known]
        self.known.update(new)
        return new

    def forget(self, names: list[str]) -> None:
        """These may have no value from here on."""
        self.known.difference_update(names)
        self._forms.clear()
        self._places.clear()

    @contextmanager
    def inside(self, s: ir.Stmt) -> Iterator[None]:
        """In the blocks of a statement."""
        counter = [s.name] if isinstance(s, ir.For) and s.name not in self.known else []
        self.known.update(counter)
        yield
        self.known.difference_update(counter)

    def _lasting(self, node: ir.Expr | ir.View) -> bool:
        """Whether what it is made of is set at one place each, and no element."""
        parts = [node, *expressions(node)] if not isinstance(node, ir.View) else list(expressions(node))
        return all(
            self.counts[e.name] <= 1
            if isinstance(e, ir.Var)
            else self.counts[f"array {e.array}"] <= 1
            if isinstance(e, ir.Dim)
            else e.fault < 0
            if isinstance(e, ir.Op)
            else not isinstance(e, ir.Load | ir.Apart)
            for e in parts
        )

    def form(self, e: ir.Expr) -> ir.Expr:
        """The same for equal expressions."""
        found = self._forms.get(e)
        if found is None:
            found = self._forms[e] = mapped(e, self._resolved)
        return found

    def _resolved(self, e: ir.Expr) -> ir.Expr:
        if isinstance(e, ir.Var) and e.name in self.values and e.name in self.known:
            return self.form(self.values[e.name])
        if isinstance(e, ir.Dim) and f"array {e.array}" in self.known:
            s = self.made.get(e.array)
            if isinstance(s, ir.Alloc) and all(map(self._lasting, s.shape)):
                return self.form(s.shape[e.axis])
            if e.array in self.views:
                return self.form(self.views[e.array].spans[e.axis].length)
        return e

    def place(self, array: str) -> Place:
        """Where the elements of an array are."""
        if array not in self._places:
            self._places[array] = self._place(array)
        return self._places[array]

    def _place(self, array: str) -> Place:
        s = self._view(array)
        if s is None:
            return array
        rank = self.program.arrays[s.source].rank
        spans = tuple((x.axis, self.form(x.start), self.form(x.step)) for x in s.spans)
        if not s.at and spans == tuple((k, ZERO, ONE) for k in range(rank)):
            return self.place(s.source)
        return self.place(s.source), tuple((k, self.form(e)) for k, e in s.at), spans

    def repeats(self, array: str) -> bool:
        """Whether several subscripts may be one element."""
        while (s := self._view(array)) is not None:
            if any(x.axis < 0 for x in s.spans):
                return True
            array = s.source
        return False

    def memory(self, array: str) -> str:
        """The argument or allocation (or the array of unknown memory) that an array shows."""
        while (s := self._view(array)) is not None:
            array = s.source
        return array

    def steps_apart(self, a: str, b: str) -> ir.Expr | None:
        """That two views show different rows of one array, where their subscripts are not seen to be the same.

        x[:, k], x[:, k - 1]   =>   the places that k and k - 1 stand for differ (they do unless there is one row)
        x[:, k], x[:, 0]       =>   the places that k and 0 stand for differ
        """
        one, other = self._view(a), self._view(b)
        if one is None or other is None or len(one.at) != 1 or len(other.at) != 1:
            return None
        (axis, i), (beside, j) = one.at[0], other.at[0]
        if axis != beside or self.place(one.source) != self.place(other.source):
            return None
        one_at, other_at = (_offset(self.form(e)) for e in (i, j))
        return ir.Op("not_equal", ir.BOOL, (i, j)) if one_at != other_at else None

    def _view(self, array: str) -> ir.View | None:
        return self.views.get(array) if f"array {array}" in self.known else None

    def may_meet(self, a: str, b: str) -> bool:
        """Whether two arrays may have memory in common."""
        arrays = self.program.arrays
        if not arrays[a].roots & arrays[b].roots:
            return False
        one, other = self.memory(a), self.memory(b)
        if one == other:
            return True
        params = {p.name for p in self.program.params}
        ours = [isinstance(self.made.get(m), ir.Alloc) and f"array {m}" in self.known for m in (one, other)]
        return not (all(ours) or (any(ours) and (one in params or other in params)))


def _offset(e: ir.Expr) -> tuple[ir.Expr, int]:
    """A subscript as an expression and what is added to it."""
    if isinstance(e, ir.Op) and e.fn == "subscript":
        return _offset(e.args[0])
    if isinstance(e, ir.Const):
        return ZERO, int(e.value)
    if isinstance(e, ir.Op) and e.fn in ("add", "subtract") and isinstance(e.args[1], ir.Const):
        base, by = _offset(e.args[0])
        return base, by + int(e.args[1].value) * (1 if e.fn == "add" else -1)
    return e, 0


def _without_faults(e: ir.Expr) -> ir.Expr:
    """An expression as its value is where it has one."""
    return cast(ir.Expr, mapped(e, lambda x: replace(x, fault=-1) if isinstance(x, ir.Op) and x.fault >= 0 else x))


ZERO, ONE = ir.Const(ir.INT, 0), ir.Const(ir.INT, 1)
