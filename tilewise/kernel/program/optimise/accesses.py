"""What the iterations of a loop touch. In: a loop of a program. Out: accesses for kernel/dependence.

Sizes are not known here: numbers that the loop does not change are indices that both sides share, of any value, so that
they count only where they cancel. Views made inside of the loop are seen through: subscripts are those of the array
that was there before.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tilewise.kernel.dependence.access import Access
from tilewise.kernel.dependence.affine_tests import distances, never_meet
from tilewise.kernel.dependence.expr import Expr, Index, constant, var
from tilewise.kernel.program import ir
from tilewise.kernel.program.walk import arrays_set, expressions, names_set, statements

MOST_PAIRS = 4000  # of accesses that are compared
_ENDLESS = Expr((), 0, 0, math.inf)
# From which end loops are counted, in the order of trial: this one, those inside.
FLAT_ENDS = ((False, False), (True, False))
NEST_ENDS = ((False, False), (False, True), (True, False), (True, True))


@dataclass(frozen=True)
class Touch:
    """An access, and the memory that it may be in."""

    access: Access
    roots: frozenset[str]


class Accesses:
    """The accesses of a loop's iterations. `ends`: count from the last iteration (of this loop, of those inside).

    A loop from i to n is known to go up from i; counted from its end, it is known to stay below n.
    """

    def __init__(
        self,
        program: ir.Program,
        loop: ir.For,
        ends: tuple[bool, bool] = (False, False),
        own: frozenset[str] = frozenset(),
    ) -> None:
        """own: roots of memory that each iteration has for itself."""
        self.own = own
        self.program, self.loop, self.ends = program, loop, ends
        self.names = names_set((loop,))
        self.arrays = arrays_set(loop.body)
        every = list(statements(loop.body))
        self.stored = {s.array for s in every if isinstance(s, ir.Store) and not program.arrays[s.array].roots <= own}
        self.touched = {r for a in self.stored for r in program.arrays[a].roots}
        counts = Counter(s.name for s in every if isinstance(s, ir.Set | ir.For))
        counts[loop.name] += 1
        self.defined = {s.name: s.value for s in every if isinstance(s, ir.Set) and counts[s.name] == 1}
        self.once = {n for n, c in counts.items() if c == 1}
        made: dict[str, list[ir.Alloc | ir.View]] = {}
        for s in every:
            if isinstance(s, ir.Alloc | ir.View):
                made.setdefault(s.array, []).append(s)
        self.views = {n: m[0] for n, m in made.items() if len(m) == 1 and isinstance(m[0], ir.View)}
        self.symbols: dict[ir.Expr, tuple[Index, Index]] = {}
        self._symbol_forms: dict[ir.Expr, Expr] = {}
        self._variable_forms: dict[tuple[str, int], Expr | None] = {}  # by name and innermost loop around
        self.indices: dict[int, Index] = {}
        self.touches: list[Touch] = []
        self.parallel = self.index_of(loop)
        self._block(loop.body, (loop,))

    @property
    def shared(self) -> tuple[Index, ...]:
        return tuple(i for pair in self.symbols.values() for i in pair)

    # -- forms of expressions ----------------------------------------------------------------------------------------

    def index_of(self, s: ir.For) -> Index:
        """The index of a loop."""
        if id(s) not in self.indices:
            extent = _ENDLESS
            if all(isinstance(e, ir.Const) for e in (s.start, s.stop, s.step)):
                extent = constant(len(range(s.start.value, s.stop.value, s.step.value)))  # type: ignore[union-attr]
            self.indices[id(s)] = Index(s.name, extent)
        return self.indices[id(s)]

    def _free(self, name: str) -> Expr:
        """Any value, another one at each access."""
        return var(Index(name, _ENDLESS)) - var(Index(name, _ENDLESS))

    def _same(self, e: ir.Expr) -> bool:
        """Whether an expression has one value while the loop runs."""
        if isinstance(e, ir.Const):
            return True
        if isinstance(e, ir.Var):
            return e.name not in self.names
        if isinstance(e, ir.Dim):
            return e.array not in self.arrays
        if isinstance(e, ir.Op):
            return all(map(self._same, e.args))
        if isinstance(e, ir.Pick):
            return self._same(e.test) and self._same(e.yes) and self._same(e.no)
        if isinstance(e, ir.Load):
            roots = self.program.arrays[e.array].roots
            return e.array not in self.arrays and not roots & self.touched and all(map(self._same, e.index))
        return False

    def form(self, e: ir.Expr, loops: Sequence[ir.For]) -> Expr | None:
        """An integer as an affine form; None: it has none."""
        if isinstance(e, ir.Const):
            return constant(e.value)
        if isinstance(e, ir.Op) and e.fn in ("add", "subtract", "multiply") and e.exact:
            a, b = (self.form(x, loops) for x in e.args)
            if a is not None and b is not None:
                if e.fn != "multiply":
                    return a + b if e.fn == "add" else a - b
                if a.constant or b.constant:
                    return b * a.const if a.constant else a * b.const
        if isinstance(e, ir.Var) and e.name in self.names:
            return self._variable(e.name, loops)
        if isinstance(e, ir.Dim) and e.array in self.arrays:
            view = self.views.get(e.array)
            return None if view is None else self.form(view.spans[e.axis].length, loops)
        if not self._same(e):
            return None
        found = self._symbol_forms.get(e)
        if found is None:
            up, down = self.symbols[e] = Index("symbol", _ENDLESS), Index("symbol", _ENDLESS)
            found = self._symbol_forms[e] = var(up) - var(down)
        return found

    def _variable(self, name: str, loops: Sequence[ir.For]) -> Expr | None:
        key = name, id(loops[-1]) if loops else 0
        if key not in self._variable_forms:
            self._variable_forms[key] = self._variable_form(name, loops)
        return self._variable_forms[key]

    def _variable_form(self, name: str, loops: Sequence[ir.For]) -> Expr | None:
        if name in self.defined:
            return self.form(self.defined[name], loops)
        around = next((k for k in reversed(range(len(loops))) if loops[k].name == name), None)
        if around is None or sum(s.name == name for s in loops) > 1:
            return None
        s = loops[around]
        if name in {x.name for x in statements(s.body) if isinstance(x, ir.Set | ir.For)}:
            return None
        if not isinstance(s.step, ir.Const):
            return None
        by, index = int(s.step.value), var(self.index_of(s))
        if self.ends[s is not self.loop] and abs(by) == 1:
            stop = self.form(s.stop, loops[:around])
            return None if stop is None else stop - index * by - by
        start = self.form(s.start, loops[:around])
        return None if start is None else start + index * by

    # -- accesses ----------------------------------------------------------------------------------------------------

    def _block(self, block: ir.Block, loops: tuple[ir.For, ...]) -> None:
        for s in block:
            for e in expressions(s):
                if isinstance(e, ir.Load):
                    self._touch(e.array, e.index, e.faults, loops, False)
            if isinstance(s, ir.Store):
                self._touch(s.array, s.index, s.faults, loops, True)
            inside = (*loops, s) if isinstance(s, ir.For) else loops
            for name in ("then", "other", "body"):
                self._block(getattr(s, name, ()), inside)

    def _touch(
        self, array: str, index: tuple[ir.Expr, ...], faults: tuple[int, ...], loops: tuple[ir.For, ...], write: bool
    ) -> None:
        roots = self.program.arrays[array].roots
        if roots <= self.own or (not write and not roots & self.touched):
            return
        at: list[Expr] = []
        for axis, (i, fault) in enumerate(zip(index, faults, strict=True)):
            from_end = fault >= 0 and isinstance(i, ir.Const) and i.value < 0
            form = self.form(ir.Dim(array, axis), loops) if from_end else self.form(i, loops)
            if from_end and form is not None:
                assert isinstance(i, ir.Const)
                form = form + i.value
            at.append(self._free("?") if form is None else form)
        while array in self.arrays:
            view = self.views.get(array)
            if view is None:
                array, at = f"unknown {array}", [self._free("?")]
                break
            array, at = view.source, self._in_source(view, at, loops)
        self.touches.append(Touch(Access(array, tuple(at), tuple(loops), write), roots))  # type: ignore[arg-type]

    def _in_source(self, view: ir.View, at: list[Expr], loops: tuple[ir.For, ...]) -> list[Expr]:
        """Subscripts of a view as those of what it shows."""
        found = {axis: self.form(i, loops) for axis, i in view.at}
        for x, i in zip(view.spans, at, strict=True):
            if x.axis >= 0:
                start = self.form(_unclamped(x.start, self.defined), loops)
                step = self.form(x.step, loops)
                fits = start is not None and step is not None and step.constant
                found[x.axis] = start + i * step.const if fits and start is not None and step is not None else None
        rank = self.program.arrays[view.source].rank
        return [f if (f := found.get(k)) is not None else self._free("?") for k in range(rank)]

    # -- questions ---------------------------------------------------------------------------------------------------

    def pairs(self) -> list[tuple[int, int]]:
        """Numbers of accesses that may meet, one of them a write."""
        writes = [k for k, t in enumerate(self.touches) if t.access.write]
        found = [(w, k) for w in writes for k, t in enumerate(self.touches) if self.touches[w].roots & t.roots]
        return [(a, b) for a, b in found if b not in writes or a <= b]

    def apart(self, first: int, second: int) -> bool:
        """Whether two accesses do not meet in different iterations."""
        a, b = self.touches[first], self.touches[second]
        if a.access.array != b.access.array:
            return False
        if never_meet(a.access, b.access, self.parallel, self.shared) is not None:
            return True
        return distances(a.access, b.access, self.parallel, self.shared)[1] is None

    def same_element(self, number: int) -> bool:
        """Whether an access touches one element, the same in every iteration: no proof will tell these apart."""
        shared = set(self.shared)
        return all(x.affine and x.indices <= shared for x in self.touches[number].access.subscripts)


def independent(program: ir.Program, loop: ir.For, own: frozenset[str] = frozenset()) -> bool:
    """Whether no two iterations touch the same element, one of them to write it; each has memory of its `own`."""
    open_pairs: list[tuple[int, int]] | None = None
    nested = any(isinstance(s, ir.For) for s in statements(loop.body))
    for ends in NEST_ENDS if nested else FLAT_ENDS:
        found = Accesses(program, loop, ends, own)
        if open_pairs is None:
            open_pairs = found.pairs()
            if len(open_pairs) > MOST_PAIRS or any(a == b and found.same_element(a) for a, b in open_pairs):
                return False
        open_pairs = [p for p in open_pairs if not found.apart(*p)]
        if not open_pairs:
            return True
    return False


def _unclamped(start: ir.Expr, defined: dict[str, ir.Expr]) -> ir.Expr:
    """The start of a slice before it was cut to the length of its axis: where it was cut, the slice is empty."""
    made = defined.get(start.name, start) if isinstance(start, ir.Var) else start
    if isinstance(made, ir.Op) and made.fn == "minimum" and isinstance(made.args[1], ir.Dim):
        return made.args[0]
    return start
