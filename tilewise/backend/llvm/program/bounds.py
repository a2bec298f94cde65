"""Which subscripts are in range. In: loops as they are emitted. Out: loops, perhaps in two forms.

Before a loop it is worked out where each subscript inside can go, by intervals at run time: of numbers that the loop
does not change, and of the variables of the loops inside. If all of these are in range, the loop runs without their
checks, and may become vectors; if not, it runs as it is written, and fails at the right iteration.

Hardly any call comes to the second form. So where nothing of the caller's was written before, a first code has none:
it ends, and code with all forms is made and runs the call from the start (call.py).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from tilewise.backend.llvm.emit.text import Val
from tilewise.backend.llvm.program import layout
from tilewise.backend.llvm.program.loops import parallel_loop
from tilewise.backend.llvm.program.loops.loop_ranges import Changed, Fact, Ranges, changed_by, parts_of
from tilewise.kernel.program.ir import (
    INT,
    Block,
    Const,
    Expr,
    For,
    If,
    Load,
    Loop,
    Named,
    Op,
    Pick,
    Stmt,
    Store,
    Var,
)
from tilewise.kernel.program.walk import BLOCKS, size

if TYPE_CHECKING:
    from tilewise.backend.llvm.program.emit import Emitter

MOST_CHECKS = 40  # at the head of one loop
LARGEST = 250  # statements of a loop that is emitted twice


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
            changed = changed_by((s,))
            self._collect(s.body, (), (s,), changed, accesses)
        found = self._guards(s, start, stop, step, accesses) if accesses else None
        if found is None:
            self._run(s, start, stop, step, proved=not accesses)
            return
        good, known = found
        fn, ends = em.fn, em.optimistic and not em.touched and not em.within
        fast, slow, after = fn.fresh("fast"), fn.fresh("slow"), fn.fresh("both")
        labels = dict(em.labels)
        fn.do(f"br i1 {good.name}, label %{fast}, label %{slow}")
        fn.label(fast)
        self.known.append(known)
        proved = known.issuperset((a.array, a.axis, a.index) for a in accesses)
        self._run(s, start, stop, step, proved=proved)
        self.known.pop()
        em.jump(after)
        fn.label(slow)
        em.labels = dict(labels)
        if ends:
            fn.do(f"store i64 {layout.UNPROVED}, ptr {em.out(layout.STATUS)}")
            em.jump(em.exit)
        else:
            self.checked += 1
            self._run(s, start, stop, step, proved=False)
            self.checked -= 1
            em.jump(after)
        em.labels = labels
        fn.label(after)

    def _run(self, s: For, start: Val, stop: Val, step: Val, proved: bool) -> None:
        """A loop; `proved`: all of its subscripts are in range."""
        proved = proved and not self.checked
        if s.proved and proved:
            self.em.block(s.proved)
        elif s.parallel and (proved or s.restarts) and not self.em.within:
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
        em, changed = self.em, changed_by((s,))
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
        if good is None:
            return None
        for over in ranges.unless:
            good = good & ~over
        return good, known


def _own(s: Stmt) -> list[Any]:
    """The expressions of a statement itself."""
    skip = BLOCKS.get(type(s), ())
    return [
        getattr(s, f.name) for f in fields(s) if f.name not in skip and not isinstance(getattr(s, f.name), str | int)
    ]


def _stays(f: Fact, block: Block) -> bool:
    """Whether a fact holds in all of a block: nothing in it is changed there."""
    changed = changed_by(block)
    return not any(isinstance(e, Var) and e.name in changed.names for e in (*parts_of(f.left), *parts_of(f.right)))


def _leaves(block: Block) -> bool:
    return bool(block) and type(block[-1]).__name__ in ("Leave", "Return", "Fail")
