"""Which subscripts are in range. In: loops as they are emitted. Out: loops, perhaps in two forms.

Before a loop it is worked out where each subscript inside can go, by intervals at run time: of numbers that the loop
does not change, and of the variables of the loops inside. If all of these are in range, the loop runs without their
checks, and may become vectors; if not, it runs as it is written, and fails at the right iteration.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from tilewise.backend.llvm.emit.text import Val
from tilewise.backend.llvm.program import parallel_loop
from tilewise.kernel.program.ir import (
    INT,
    Alloc,
    Block,
    Const,
    Dim,
    Expr,
    For,
    HostCall,
    If,
    Invoke,
    Load,
    Loop,
    Named,
    Op,
    Pick,
    Set,
    Stmt,
    Store,
    Var,
    View,
    results_of,
)
from tilewise.kernel.program.walk import BLOCKS, size

if TYPE_CHECKING:
    from tilewise.backend.llvm.program.emit import Emitter

MOST_CHECKS = 40  # at the head of one loop
LARGEST = 250  # statements of a loop that is emitted twice


@dataclass(frozen=True)
class Fact:
    """A comparison of integers that holds."""

    fn: str
    left: Expr
    right: Expr


_OPPOSITE = {"less": "greater_equal", "less_equal": "greater", "greater": "less_equal", "greater_equal": "less"}


def facts_of(test: Expr, holds: bool) -> list[Fact]:
    """What a test says of integers."""
    if isinstance(test, Op):
        if test.fn == "logical_not":
            return facts_of(test.args[0], not holds)
        if (test.fn == "logical_and" and holds) or (test.fn == "logical_or" and not holds):
            return facts_of(test.args[0], holds) + facts_of(test.args[1], holds)
        if all(a.dtype == INT for a in test.args) and (test.fn in _OPPOSITE or (test.fn == "equal" and holds)):
            fn = test.fn if holds else _OPPOSITE[test.fn]
            return [Fact(fn, test.args[0], test.args[1])]
        return []
    if isinstance(test, Pick):  # a conditional: `a and b`, `a or b`
        yes, no = test.yes, test.no
        if holds and isinstance(no, Const) and not no.value:
            return facts_of(test.test, True) + facts_of(yes, True)
        if not holds and isinstance(yes, Const) and yes.value:
            return facts_of(test.test, False) + facts_of(no, False)
        if not holds and isinstance(no, Const) and no.value:  # not test, or yes
            return facts_of(test.test, True) + facts_of(yes, False)
    return []


@dataclass
class Access:
    """A subscript, and what holds where it is."""

    array: str
    axis: int
    index: Expr
    facts: tuple[Fact, ...]
    loops: tuple[For, ...]  # around it, inside of the loop that is looked at


class Bounds:
    """What is known at the place that is being emitted."""

    def __init__(self, em: Emitter) -> None:
        self.em = em
        self.known: list[set[tuple[str, int, Expr]]] = []  # in range, in loops around
        self.checked = 0  # inside of loops whose checks stay

    def proved(self, array: str, axis: int, i: Expr) -> bool:
        """Whether a subscript needs no check."""
        return any((array, axis, i) in k for k in self.known)

    def loop(self, s: For) -> None:
        em = self.em
        start, stop, step = em.e(s.start), em.e(s.stop), em.e(s.step)
        accesses: list[Access] = []
        if not self.checked:
            changed = _changed((s,))
            self._collect(s.body, (), (s,), changed, accesses)
        found = self._guards(s, start, stop, step, accesses) if accesses else None
        if found is None:
            if accesses:
                em.for_(s, start, stop, step)
            else:
                self._fast(s, start, stop, step)
            return
        good, known = found
        fn = em.fn
        fast, slow, after = fn.fresh("fast"), fn.fresh("slow"), fn.fresh("both")
        labels = dict(em.labels)
        fn.do(f"br i1 {good.name}, label %{fast}, label %{slow}")
        fn.label(fast)
        self.known.append(known)
        if known.issuperset((a.array, a.axis, a.index) for a in accesses):
            self._fast(s, start, stop, step)
        else:
            em.for_(s, start, stop, step)
        self.known.pop()
        em.jump(after)
        fn.label(slow)
        em.labels = dict(labels)
        self.checked += 1
        em.for_(s, start, stop, step)
        self.checked -= 1
        em.labels = labels
        em.jump(after)
        fn.label(after)

    def _fast(self, s: For, start: Val, stop: Val, step: Val) -> None:
        """A loop all of whose subscripts are in range."""
        if s.proved and not self.checked:
            self.em.block(s.proved)
        elif s.parallel and not self.checked and not self.em.within:
            parallel_loop.emit(self.em, s, start, stop, step)
        else:
            self.em.for_(s, start, stop, step)

    # -- collecting --------------------------------------------------------------------------------------------------

    def _collect(
        self, block: Block, facts: tuple[Fact, ...], loops: tuple[For, ...], changed: Changed, out: list[Access]
    ) -> None:
        """The subscripts of a block that may be out of range."""
        for s in block:
            for node in _own(s):
                self._of_expression(node, facts, loops, out)
            if isinstance(s, Store):
                self._subscripts(s.array, s.index, s.faults, facts, loops, out)
            if isinstance(s, If):
                for holds, inner in ((True, s.then), (False, s.other)):
                    more = tuple(f for f in facts_of(s.test, holds) if _stays(f, inner))
                    self._collect(inner, (*facts, *more), loops, changed, out)
                if _leaves(s.then) and not s.other:  # what follows knows that the test failed
                    facts = (*facts, *facts_of(s.test, False))
            elif isinstance(s, For):
                self._collect(s.body, facts, (*loops, s), changed, out)
            elif isinstance(s, Loop | Named):
                self._collect(s.body, facts, loops, changed, out)

    def _of_expression(self, e: Any, facts: tuple[Fact, ...], loops: tuple[For, ...], out: list[Access]) -> None:
        if isinstance(e, Load):
            self._subscripts(e.array, e.index, e.faults, facts, loops, out)
        if isinstance(e, Pick):
            self._of_expression(e.test, facts, loops, out)
            self._of_expression(e.yes, (*facts, *facts_of(e.test, True)), loops, out)
            self._of_expression(e.no, (*facts, *facts_of(e.test, False)), loops, out)
            return
        if isinstance(e, tuple):
            for x in e:
                self._of_expression(x, facts, loops, out)
        elif is_dataclass(e):
            for f in fields(e):
                self._of_expression(getattr(e, f.name), facts, loops, out)

    def _subscripts(
        self, array: str, index: tuple[Expr, ...], faults: tuple[int, ...], facts: Any, loops: Any, out: list[Access]
    ) -> None:
        for axis, (i, fault) in enumerate(zip(index, faults, strict=True)):
            if fault >= 0 and not self.proved(array, axis, i):
                out.append(Access(array, axis, i, facts, loops))

    # -- guards ------------------------------------------------------------------------------------------------------

    def _guards(
        self, s: For, start: Val, stop: Val, step: Val, accesses: list[Access]
    ) -> tuple[Val, set[tuple[str, int, Expr]]] | None:
        """Whether all subscripts that can be bounded here are in range, and which these are."""
        em, changed = self.em, _changed((s,))
        if size(s.body) > LARGEST:
            return None
        groups: dict[tuple[str, int, Expr], list[Access]] = {}
        for a in accesses:
            groups.setdefault((a.array, a.axis, a.index), []).append(a)
        good: Val | None = None
        known: set[tuple[str, int, Expr]] = set()
        ranges = Ranges(em, s, start, stop, step, changed)
        for (array, axis, index), several in groups.items():
            if array in changed.arrays or len(known) >= MOST_CHECKS:
                continue
            found = [ranges.of(index, a.facts, a.loops) for a in several]
            if any(f is None for f in found):
                continue
            n = em.word(em.arrays[array].dims[axis])
            for f in found:
                assert f is not None
                low, high = f
                if isinstance(index, Const) and index.value < 0:
                    fits = n.cmp("sge", -index.value)
                else:
                    fits = low.cmp("sge", 0) & high.cmp("slt", n)
                good = fits if good is None else good & fits
            known.add((array, axis, index))
        return None if good is None else (good, known)


@dataclass
class Changed:
    """What a loop changes."""

    names: set[str]
    arrays: set[str]


def _changed(block: Block) -> Changed:
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


def _own(s: Stmt) -> list[Any]:
    """The expressions of a statement itself."""
    skip = BLOCKS.get(type(s), ())
    return [
        getattr(s, f.name) for f in fields(s) if f.name not in skip and not isinstance(getattr(s, f.name), str | int)
    ]


def _stays(f: Fact, block: Block) -> bool:
    """Whether a fact holds in all of a block: nothing in it is changed there."""
    changed = _changed(block)
    return not any(isinstance(e, Var) and e.name in changed.names for e in (*_parts(f.left), *_parts(f.right)))


def _parts(e: Any) -> Iterator[Any]:
    yield e
    if isinstance(e, Op):
        for a in e.args:
            yield from _parts(a)


def _leaves(block: Block) -> bool:
    return bool(block) and type(block[-1]).__name__ in ("Leave", "Return", "Fail")


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
        return _changed(block).names

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
        names = [e.name for e in (*_parts(f.left), *_parts(f.right)) if isinstance(e, Var)]
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
