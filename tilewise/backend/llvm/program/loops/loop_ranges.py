"""Where integers go while a loop runs. In: a loop that is about to be emitted, expressions. Out: intervals at run time.

Of numbers that the loop does not change, and of the variables of the loops inside; comparisons that hold make them
smaller. What is known without running is in kernel/program/optimise/intervals.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilewise.backend.llvm.emit.text import Val
from tilewise.backend.llvm.program import scalars
from tilewise.kernel.program.ir import (
    INT,
    Alloc,
    Block,
    Const,
    Dim,
    Expr,
    For,
    HostCall,
    Invoke,
    Op,
    Set,
    Var,
    View,
    results_of,
)
from tilewise.kernel.program.walk import BLOCKS

if TYPE_CHECKING:
    from tilewise.backend.llvm.program.emit import Emitter


@dataclass(frozen=True)
class Fact:
    """A comparison of integers that holds."""

    fn: str
    left: Expr
    right: Expr


@dataclass
class Changed:
    """What a loop changes."""

    names: set[str]
    arrays: set[str]


def changed_by(block: Block) -> Changed:
    """What a block changes."""
    found = Changed(set(), set())

    def walk(inner: Block) -> None:
        for s in inner:
            if isinstance(s, Set | For):
                found.names.add(s.name)
            if isinstance(s, Alloc | View):
                found.arrays.add(s.array)
            if isinstance(s, HostCall | Invoke):
                found.names.update(results_of(s))
                found.arrays.update(results_of(s))
            for name in BLOCKS.get(type(s), ()):
                walk(getattr(s, name))

    walk(block)
    return found


def parts_of(e: Any) -> Iterator[Any]:
    """An expression, and what operations in it are made of."""
    yield e
    if isinstance(e, Op):
        for a in e.args:
            yield from parts_of(a)


Range = tuple[Val, Val]
ONE = Const(INT, 1)


def _form(e: Expr) -> dict[Expr, int] | None:
    """An affine form: how often each name, length, and one, is in a sum."""
    if isinstance(e, Const):
        return {ONE: e.value}
    if isinstance(e, Var | Dim):
        return {e: 1}
    if not isinstance(e, Op) or not e.exact or e.fn not in ("add", "subtract", "multiply"):
        return None
    a, b = _form(e.args[0]), _form(e.args[1])
    if a is None or b is None:
        return None
    if e.fn == "multiply":
        if not isinstance(e.args[0], Const):
            a, b = b, a
        return {k: c * a.get(ONE, 0) for k, c in b.items()} if a.keys() <= {ONE} else None
    made = dict(a)
    for k, c in b.items():
        made[k] = made.get(k, 0) + (c if e.fn == "add" else -c)
    return made


class Ranges:
    """Where expressions can go while a loop runs: intervals, computed before it."""

    def __init__(self, em: Emitter, s: For, start: Val, stop: Val, step: Val, changed: Changed) -> None:
        self.em, self.changed, self.steps = em, changed, {id(s): (step, step)}
        self.loops: dict[int, Range | None] = {}
        self.unless: list[Val] = []  # where intervals say nothing: their ends have overflowed
        self.loops[id(s)] = self._of_loop(s, (start, start), (stop, stop))

    def _of_loop(self, s: For, start: Range, stop: Range) -> Range | None:
        """The variable of a loop."""
        if s.name in self._sets(s.body):
            return None
        if not isinstance(s.step, Const):
            same = start[0] is start[1] and stop[0] is stop[1]
            step = self.steps.get(id(s)) or self.of(s.step, (), ())
            if not same or step is None or step[0] is not step[1]:
                return None
            last = self._last(s, start[0], stop[0], step[0])
            return start[0].intrinsic("smin", last), start[0].intrinsic("smax", last)
        by = s.step.value
        if by in (1, -1):
            return (start[0], stop[1] - 1) if by > 0 else (stop[0] + 1, start[1])
        if start[0] is not start[1] or stop[0] is not stop[1]:
            return (start[0], stop[1] - 1) if by > 0 else (stop[0] + 1, start[1])
        first, last = start[0], self._last(s, start[0], stop[0], start[0].const(by))
        return (first, last) if by > 0 else (last, first)

    def _last(self, s: For, start: Val, stop: Val, step: Val) -> Val:
        """The value of a loop's variable in its last iteration."""
        more = (self.em.trips(s, start, stop, step) - 1).intrinsic("smax", 0)
        return start + more * step

    def _sets(self, block: Block) -> set[str]:
        return changed_by(block).names

    def of(self, e: Expr, facts: tuple[Fact, ...], loops: tuple[For, ...]) -> Range | None:
        """The least and greatest value of an expression; None: not known."""
        plain = self._plain(e, facts, loops)
        if isinstance(e, Op) and plain is not None:
            low, high = (self._affine(e, loops, top) for top in (False, True))
            plain = (
                plain[0] if low is None else plain[0].intrinsic("smax", low),
                plain[1] if high is None else plain[1].intrinsic("smin", high),
            )
        for f in facts:
            plain = self._narrowed(plain, e, f, facts, loops)
        return plain

    def _affine(self, e: Expr, loops: tuple[For, ...], top: bool) -> Val | None:
        """An end of an affine form: variables of inner loops are replaced by the ends of their ranges, which may have
        variables of outer ones: `i - j` for j in range(i) is at least 1. None if that says no more than intervals."""
        form = _form(e)
        more = False
        for s in reversed(loops):
            times = 0 if form is None else form.pop(Var(s.name, INT), 0)
            if not times or form is None:
                continue
            if not isinstance(s.step, Const) or s.name in self._sets(s.body):
                return None
            end, off = (s.stop, -1) if ((times > 0) == top) == (s.step.value > 0) else (s.start, 0)
            inner = _form(end)
            if inner is None:
                return None
            off = off if s.step.value > 0 else -off
            more = more or any(k in form for k in inner if k != ONE)
            for k, c in (*inner.items(), (ONE, off)):
                form[k] = form.get(k, 0) + times * c
        if form is None or not more:
            return None
        total = self.em.number(form.pop(ONE, 0))
        for k, c in form.items():
            if c and not self._invariant(k):
                return None
            total = total + self.em.e(k) * c if c else total
        return total

    def _invariant(self, e: Expr) -> bool:
        if isinstance(e, Var):
            return e.name not in self.changed.names
        return isinstance(e, Dim) and e.array not in self.changed.arrays

    def _narrowed(
        self, found: Range | None, e: Expr, f: Fact, facts: tuple[Fact, ...], loops: tuple[For, ...]
    ) -> Range | None:
        if isinstance(e, Const) or found is None or not self._usable(f, loops):
            return found
        fn, limit = f.fn, None
        if f.left == e:
            limit = f.right
        elif f.right == e:
            limit, fn = f.left, _SWAPPED[f.fn]
        if limit is None or limit == e:
            return found
        rest = tuple(x for x in facts if x is not f)
        bound = self._plain(limit, rest, loops)
        if bound is None:
            return found
        low, high = found
        if fn in ("less", "less_equal", "equal"):
            high = high.intrinsic("smin", bound[1] if fn != "less" else bound[1] - 1)
        if fn in ("greater", "greater_equal", "equal"):
            low = low.intrinsic("smax", bound[0] if fn != "greater" else bound[0] + 1)
        return low, high

    def _usable(self, f: Fact, loops: tuple[For, ...]) -> bool:
        """Whether a fact is about what stays the same during an iteration."""
        counters = {s.name for s in loops}
        names = [e.name for e in (*parts_of(f.left), *parts_of(f.right)) if isinstance(e, Var)]
        return all(n in counters or n not in self.changed.names for n in names)

    def _plain(self, e: Expr, facts: tuple[Fact, ...], loops: tuple[For, ...]) -> Range | None:
        em = self.em
        if isinstance(e, Const):
            v = em.e(e)
            return v, v
        if isinstance(e, Dim):
            if e.array in self.changed.arrays:
                return None
            v = em.e(e)
            return v, v
        if isinstance(e, Var):
            for s in reversed(loops):
                if s.name == e.name:
                    return self._variable(s, facts, loops)
            if e.name in self.changed.names:
                return None
            v = em.e(e)
            return v, v
        if isinstance(e, Op) and not e.exact and e.dtype == INT and e.fn in ("add", "subtract"):
            return self._wrapping(e, facts, loops)
        if not isinstance(e, Op) or not e.exact or e.fn not in ("add", "subtract", "multiply"):
            if isinstance(e, Op) and e.fn in ("minimum", "maximum") and e.dtype == INT:
                both = [self.of(a, facts, loops) for a in e.args]
                if both[0] is None or both[1] is None:
                    return None
                name = "smin" if e.fn == "minimum" else "smax"
                return both[0][0].intrinsic(name, both[1][0]), both[0][1].intrinsic(name, both[1][1])
            return None
        a, b = (self.of(x, facts, loops) for x in e.args)
        if a is None or b is None:
            return None
        if e.fn == "add":
            return a[0] + b[0], a[1] + b[1]
        if e.fn == "subtract":
            return a[0] - b[1], a[1] - b[0]
        return self._product(e, a, b)

    def _wrapping(self, e: Op, facts: tuple[Fact, ...], loops: tuple[For, ...]) -> Range | None:
        """A sum that may overflow. It does not between two ends that do not."""
        a, b = (self.of(x, facts, loops) for x in e.args)
        if a is None or b is None:
            return None
        ends = []
        for k in (0, 1):
            end, over = scalars.overflowing(e.fn, a[k], b[k if e.fn == "add" else 1 - k])
            assert over is not None
            self.unless.append(over)
            ends.append(end)
        return ends[0], ends[1]

    def _product(self, e: Op, a: Range, b: Range) -> Range | None:
        if isinstance(e.args[0], Const):
            a, b = b, a
            c = e.args[0].value
        elif isinstance(e.args[1], Const):
            c = e.args[1].value
        else:
            ends = [x * y for x in a for y in b]
            low, high = ends[0], ends[0]
            for x in ends[1:]:
                low, high = low.intrinsic("smin", x), high.intrinsic("smax", x)
            return low, high
        low, high = a[0] * b[0], a[1] * b[0]
        return (low, high) if c >= 0 else (high, low)

    def _variable(self, s: For, facts: tuple[Fact, ...], loops: tuple[For, ...]) -> Range | None:
        if id(s) not in self.loops:
            outer = loops[: loops.index(s)]
            start, stop = self.of(s.start, (), outer), self.of(s.stop, (), outer)
            self.loops[id(s)] = None if start is None or stop is None else self._of_loop(s, start, stop)
        return self.loops[id(s)]


_SWAPPED = {
    "less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal",
    "equal": "equal",
}  # fmt: skip
