"""Checks that cannot fail, left out. In: a program. Out: the program; its integers go where intervals say.

Sums and products that fit lose their fault; divisions of numbers that are not negative, and shifts by few bits, are
marked as `exact`, for which machines have one instruction. What cannot fail may run on several threads, too. Integers
that can be one number only are written as that number, and what is never reached is left out: small arrays that meet
others of known lengths get known lengths by that.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any, cast

from tilewise.kernel.program import ir
from tilewise.kernel.program.idle import without_idle
from tilewise.kernel.program.optimise.hoist import pure
from tilewise.kernel.program.optimise.intervals import (
    ANY,
    LENGTH,
    Key,
    State,
    below,
    equal_to,
    in_range,
    interval,
    joined,
    learned,
    linear,
    narrowed,
    refined,
    subscripted,
    sure,
    widened,
)
from tilewise.kernel.program.walk import arrays_set, expressions, mapped, names_set, size, statements

EXACT_FLOAT = 1 << 53
SOON = 2  # times that a loop is looked at before ends that still grow are taken to be anywhere
OFTEN = 8
LONGEST = 800  # statements of a program that is looked at: longer ones shall not take longer to compile
WRITTEN_OUT = 64  # multiplications of a product that is written out
BACK = 2  # times that what follows from the test of a loop is taken back into its head


def ranges(program: ir.Program) -> ir.Program:
    """The program and its functions."""
    functions = tuple(map(_one, program.functions))
    return replace(_one(program), functions=functions)


def _one(program: ir.Program) -> ir.Program:
    if size(program.body) > LONGEST:
        return program
    maker = _Maker(program)
    maker.block(program.body, maker.start)
    maker.changing = True
    return replace(program, body=without_idle(maker.block(program.body, maker.start)[0]))


class _Maker:
    """Goes through the program twice: to find what holds at the heads of loops, and then to change expressions."""

    def __init__(self, program: ir.Program) -> None:
        ends: dict[Key, tuple[int, int]] = {n: (0, 0) for n, t in program.names.items() if t == ir.INT and n[0] != "$"}
        given = [p for p in program.params if p.array is None and p.dtype == ir.INT]
        ends.update({p.name: (p.low, p.high) for p in given})
        if program.short:
            arrays = [(p.name, p.array.rank) for p in program.params if p.array is not None]
            ends.update({(name, axis): (0, ir.SHORT) for name, rank in arrays for axis in range(rank)})
        ends.update({(p.name, p.array.rank - 1): (p.width, p.width) for p in program.params if p.array and p.width})
        self.start = State({k: v for k, v in ends.items() if v != ANY}, {})
        self.rank = {n: a.rank for n, a in program.arrays.items()}
        self.dtypes = {n: a.dtype for n, a in program.arrays.items()}
        self.names = program.names
        self.heads: dict[int, State] = {}
        self.simple: dict[int, bool] = {}  # by statement
        self.left: dict[str, State | None] = {}
        self.changing = False

    def block(self, block: ir.Block, st: State | None) -> tuple[ir.Block, State | None]:
        """The statements, and what is known after them; None: that is never reached."""
        out: list[ir.Stmt] = []
        for s in block:
            if st is None:
                out.append(s)
                continue
            before = st
            made, st = self.statement(s, st)
            if isinstance(made, ir.If) and isinstance(made.test, ir.Const):
                out += made.then if made.test.value else made.other
            else:
                out += self._written_out(s, before) if self.changing and isinstance(s, ir.Product) else (made,)
        return tuple(out) if self.changing else block, st

    def statement(self, s: ir.Stmt, st: State) -> tuple[ir.Stmt, State | None]:
        if isinstance(s, ir.Set):
            return self._set(s, st)
        if isinstance(s, ir.Store):
            after = learned(st, s.value)
            for i in s.index:
                after = learned(after, i)
            if after is not None:
                after = subscripted(after, s.array, s.index, s.faults)
            return self._changed(s, st), after
        if isinstance(s, ir.If):
            return self._if(s, st)
        if isinstance(s, ir.For):
            return self._for(s, st)
        if isinstance(s, ir.Loop):
            body, _ = self._repeated(s, s.body, st, lambda head: head)
            return replace(s, body=body) if self.changing else s, None
        if isinstance(s, ir.Named):
            kept, self.left[s.label] = self.left.get(s.label), None
            body, after = self.block(s.body, st)
            after, self.left[s.label] = joined(after, self.left[s.label]), kept
            return replace(s, body=body) if self.changing else s, after
        if isinstance(s, ir.Leave):
            self.left[s.label] = joined(self.left[s.label], st)
            return s, None
        if isinstance(s, ir.Return | ir.Fail):
            return self._changed(s, st), None
        if isinstance(s, ir.Alloc | ir.View):
            return self._changed(s, st), self._shaped(s, st)
        return self._changed(s, st), self._without(st, (s,))

    def _written_out(self, s: ir.Product, st: State) -> ir.Block:
        """A product of few elements, of which all lengths are known, as a sum for each element."""
        t = self.dtypes[s.array]
        ends = [[interval(ir.Dim(a, k), st) for k in range(self.rank[a])] for a in (s.left, s.right)]
        if any(low != high for axes in ends for low, high in axes):
            return (s,)
        left, right = ([low for low, _ in axes] for axes in ends)
        rows, columns = left[:-1], right[1:]
        if math.prod((*left, *columns)) > WRITTEN_OUT or not left[-1]:
            return (s,)

        def load(array: str, *at: int) -> ir.Expr:
            return ir.Load(array, t, tuple(ir.Const(ir.INT, i) for i in at), (-1,) * len(at))

        out: list[ir.Stmt] = []
        for i in itertools.product(*map(range, rows)):
            for j in itertools.product(*map(range, columns)):
                total: ir.Expr = ir.Const(t, 0.0)
                for k in range(left[-1]):
                    term = ir.Op("multiply", t, (load(s.left, *i, k), load(s.right, k, *j)))
                    total = ir.Op("add", t, (total, term))
                at = tuple(ir.Const(ir.INT, x) for x in (*i, *j))
                out.append(ir.Store(s.array, at, total, (-1,) * len(at)))
        return tuple(out)

    def _if(self, s: ir.If, st: State) -> tuple[ir.Stmt, State | None]:
        known = learned(st, s.test)
        yes, no = refined(known, s.test, True), refined(known, s.test, False)
        then, one = self.block(s.then, yes)
        other, two = self.block(s.other, no)
        if not self.changing:
            return s, joined(one, two)
        test = self._expression(s.test, st)
        if _silent(s.test) and (yes is None) != (no is None):
            then, other = (then, ()) if no is None else ((), other)
            test = ir.Const(ir.BOOL, no is None)
        return replace(s, test=test, then=then, other=other), joined(one, two)

    def _without(self, st: State, block: ir.Block) -> State:
        """What is known whatever a block has set."""
        return st.without([*names_set(block), *self._lengths(block)])

    def _lengths(self, block: ir.Block) -> list[Key]:
        """Of arrays that a block sets."""
        return [(a, k) for a in arrays_set(block) for k in range(self.rank.get(a, 0))]

    def _set(self, s: ir.Set, st: State) -> tuple[ir.Stmt, State | None]:
        value = self._expression(s.value, st)
        made = replace(s, value=value) if self.changing else s
        known = learned(st, s.value)
        if known is None or s.value.dtype != ir.INT:
            return made, known
        ends, form = interval(s.value, known), linear(s.value)
        if form is not None and form[0] == {s.name: 1}:
            return made, equal_to(known.moved(s.name, form[1]), s.name, ends, None)
        return made, equal_to(known.without([s.name]), s.name, ends, form)

    def _shaped(self, s: ir.Alloc | ir.View, st: State) -> State:
        """What is known after an array has got new lengths, which are not negative."""
        lengths = s.shape if isinstance(s, ir.Alloc) else [x.length for x in s.spans]
        after = self._without(st, (s,))
        for axis, e in enumerate(lengths):
            ends, form = interval(e, st), linear(e)
            if form is not None and any(k[0] == s.array for k in form[0] if isinstance(k, tuple)):
                form = None
            after = equal_to(after, (s.array, axis), (max(ends[0], 0), min(max(ends[1], 0), LENGTH)), form)
        return after

    # -- loops -------------------------------------------------------------------------------------------------------

    def _for(self, s: ir.For, st: State) -> tuple[ir.Stmt, State | None]:
        before: State | None = st
        for e in (s.start, s.stop, s.step):
            before = learned(before, e)
        if before is None:
            return s, None
        start, stop, step = (interval(e, before) for e in (s.start, s.stop, s.step))
        low, high = min(start[0], stop[0] + 1), max(start[1], stop[1] - 1)
        if step[0] > 0:
            low, high = start[0], stop[1] - 1
        elif step[1] < 0:
            low, high = stop[0] + 1, start[1]
        changed = {*names_set(s.body), *self._lengths(s.body)}

        def inside(head: State) -> State | None:
            now = head.without([s.name])
            for e, gap, rising in ((s.start, 0, True), (s.stop, 1, False)):
                up = rising == (step[0] > 0)
                if not (step[0] > 0 or step[1] < 0) or (form := linear(e)) is None or len(form[0]) != 1:
                    continue
                ((key, times),) = form[0].items()
                if times != 1 or key in changed or key == s.name:
                    continue
                now = now.above(s.name, key, form[1] + gap) if up else now.above(key, s.name, gap - form[1])
            return narrowed(now, ir.Var(s.name, ir.INT), low, high)

        body, end = self._repeated(s, s.body, before, inside)
        ends = (s.stop, s.start) if step[0] > 0 else (s.start, s.stop)
        turns = interval(ir.Op("subtract", ir.INT, ends, exact=True), before)
        runs = turns[0] > 0 and (step[0] > 0 or step[1] < 0)
        after = end if runs else joined(before, end)
        made: ir.Stmt = s
        if self.changing:
            first, last, by = (self._expression(e, st) for e in (s.start, s.stop, s.step))
            made = replace(s, start=first, stop=last, step=by, body=body)
        return made, after

    def _iteration(self, s: ir.For | ir.Loop, body: ir.Block, start: State | None) -> tuple[ir.Block, State | None]:
        """The body of a loop, and what is known at its end: of others than its variable as well."""
        made, end = self.block(body, start)
        return made, end.through(s.name) if end is not None and isinstance(s, ir.For) else end

    def _repeated(self, s: ir.For | ir.Loop, body: ir.Block, st: State, inside: Any) -> tuple[ir.Block, State | None]:
        """The body of a loop, and what is known after its last iteration."""
        if self._simple(s):
            made, end = self._iteration(s, body, inside(self._without(st, (s,))))
            return made, end
        if self.changing:
            anywhere = self._without(st, (s,))
            head = self.heads.get(id(s), anywhere)
            made, end = self._iteration(s, body, inside(head))
            if joined(joined(head, st), end) != head:  # a head of a time when less was known to be possible
                made, end = self._iteration(s, body, inside(anywhere))
            return made, end
        found = self.heads.get(id(s))
        head = st if found is None else joined(st, found) or st
        for times in range(OFTEN):
            _, end = self._iteration(s, body, inside(head))
            both = joined(st, end) or st
            both = joined(head, both) or head
            new = widened(head, both, surely=times >= SOON)
            if new == head:
                return body, self._narrow(s, body, st, inside, head, end)
            head = new
        self.heads[id(s)] = head = self._without(st, (s,))
        return body, self._iteration(s, body, inside(head))[1]

    def _simple(self, s: ir.For | ir.Loop) -> bool:
        """Whether nothing but counters changes in a loop, those of the loops inside included: one look is enough."""
        found = self.simple.get(id(s))
        if found is None:
            inside = list(statements(s.body))
            sets = any(isinstance(x, ir.Set) and self.names[x.name] == ir.INT for x in inside)
            makes = any(isinstance(x, ir.Alloc | ir.View | ir.HostCall | ir.Invoke) for x in inside)
            found = self.simple[id(s)] = isinstance(s, ir.For) and not sets and not makes
        return found

    def _narrow(
        self, s: ir.For | ir.Loop, body: ir.Block, st: State, inside: Any, head: State, end: State | None
    ) -> State | None:
        """Keep what holds at the head of a loop, less than `head` if that is enough; what holds after an iteration."""
        for _ in range(BACK):
            less = joined(st, end) or st
            if less == head:
                break
            _, again = self._iteration(s, body, inside(less))
            if joined(less, again) != less:
                break
            head, end = less, again
        self.heads[id(s)] = head
        return end

    # -- expressions -------------------------------------------------------------------------------------------------

    def _changed(self, s: ir.Stmt, st: State) -> ir.Stmt:
        """A statement without blocks, with its expressions changed."""
        if not self.changing:
            return s
        if isinstance(s, ir.Store):
            index = tuple(self._expression(i, st) for i in s.index)
            after = learned(st, s.value) or st
            return replace(s, index=index, value=self._expression(s.value, st), faults=_faults(after, s))
        if isinstance(s, ir.Alloc):
            return replace(s, shape=tuple(self._expression(n, st) for n in s.shape))
        if isinstance(s, ir.View):
            s = replace(s, spans=tuple(replace(x, length=self._expression(x.length, st)) for x in s.spans))
        return cast(ir.Stmt, mapped(s, lambda e: _simpler(e, st) if isinstance(e, ir.Op) else e))

    def _expression(self, e: ir.Expr, st: State) -> ir.Expr:
        if not self.changing or isinstance(e, ir.Const | ir.Apart):
            return e
        if isinstance(e, ir.Var | ir.Dim):
            low, high = interval(e, st) if e.dtype == ir.INT else ANY
            return ir.Const(ir.INT, low) if low == high else e
        if isinstance(e, ir.Pick):
            yes, no = refined(st, e.test, True), refined(st, e.test, False)
            if _silent(e.test) and (yes is None) != (no is None):
                return self._expression(e.yes, yes) if yes is not None else self._expression(e.no, no or st)
            return replace(
                e,
                test=self._expression(e.test, st),
                yes=e.yes if yes is None else self._expression(e.yes, yes),
                no=e.no if no is None else self._expression(e.no, no),
            )
        if isinstance(e, ir.Load):
            return replace(e, index=tuple(self._expression(i, st) for i in e.index), faults=_faults(st, e))
        args = tuple(self._expression(a, st) for a in e.args)
        return _simpler(e if args == e.args else replace(e, args=args), st)


def _silent(e: ir.Expr) -> bool:
    """Whether an expression has no faults, so that nobody sees that it is not evaluated."""
    parts = list(expressions(ir.Set("", e)))
    return not any((isinstance(x, ir.Op) and x.fault >= 0) or isinstance(x, ir.Load) for x in parts)


def _faults(st: State, s: ir.Load | ir.Store) -> tuple[int, ...]:
    """The faults of subscripts, without those that are known to be in range."""
    pairs = enumerate(zip(s.index, s.faults, strict=True))
    return tuple(-1 if f >= 0 and in_range(st, s.array, axis, i) else f for axis, (i, f) in pairs)


def _simpler(e: ir.Op, st: State) -> ir.Expr:
    """An operation of integers without what cannot happen."""
    if not e.args or any(a.dtype != ir.INT for a in e.args):
        return e
    args = [interval(a, st) for a in e.args]
    if e.fn == "natural" and args[0][0] >= 0:
        return e.args[0]
    if e.fn == "subscript" and below(st, e.args[0], e.args[1]):
        return e.args[0]
    if e.fn == "nonzero" and not args[0][0] <= 0 <= args[0][1]:
        return e.args[0]
    if e.fn == "exact_float" and args[0][0] >= -EXACT_FLOAT and args[0][1] <= EXACT_FLOAT:
        return ir.Op("cast", "float64", e.args)
    if e.dtype != ir.INT or e.exact or len(args) != 2:
        return e
    if e.fn == "negatable_divide" and args[1][0] >= 0:
        return _simpler(replace(e, fn="floor_divide", fault=-1), st)
    if e.fn in ("floor_divide", "remainder") and e.fault >= 0 and not args[1][0] <= 0 <= args[1][1]:
        e = replace(e, fault=-1)
    if e.fn == "remainder" and args[1][0] > 0 and (wrapped := _wrapped(e, st)) is not None:
        return wrapped
    checked = e.fn in ("add", "subtract", "multiply")
    if sure(e, args) and (e.fault >= 0 or not checked):
        return replace(e, fault=-1, exact=True)
    return e


def _wrapped(e: ir.Op, st: State) -> ir.Expr | None:
    """`(i + 1) % n` and `(i - 1) % n` on a ring: a choice instead of a division, which takes ten times as long."""
    x, n = e.args
    if not isinstance(n, ir.Var | ir.Dim) or not pure(x):
        return None
    if below(st, x, n):
        return x
    low, room = interval(x, st)[0], interval(ir.Op("subtract", ir.INT, (n, x), exact=True), st)[0]
    if low >= 0 and room >= 0:
        return ir.Pick(ir.Op("equal", ir.BOOL, (x, n)), ir.Const(ir.INT, 0), x, ir.INT)
    if low >= -1 and room > 0:
        last = ir.Op("subtract", ir.INT, (n, ir.Const(ir.INT, 1)), exact=True)
        return ir.Pick(ir.Op("less", ir.BOOL, (x, ir.Const(ir.INT, 0))), last, x, ir.INT)
    return None
