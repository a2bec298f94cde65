"""Loops over slices, block of elements by block. In: a program. Out: loops with a second form for large slices.

    for k in range(n):                          for block of i:
        for i: y[i, k] = f(x[i, k])      =>         for k in range(n):
                                                        for i in block: y[i, k] = f(x[i, k])

Slices across the rows of arrays (`x[:, k]`) fetch a cache line for each element, and the next k needs the others of the
same line. If an element of a slice depends only on that element of other slices, a block of elements may go through all
k by itself, while its lines are in the cache. What guards the loops over elements is tested for all k before; if it
fails for one, or if slices are short, the loop runs as it was written.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, cast

from tilewise.kernel.program import ir
from tilewise.kernel.program.optimise.liveness import live_after
from tilewise.kernel.program.optimise.slices.guards import doubtful, in_range, movable, only_fails, opposite, surely
from tilewise.kernel.program.optimise.slices.nests import Touch, element_nest, touches
from tilewise.kernel.program.optimise.slices.same_places import ONE, ZERO, Definitions
from tilewise.kernel.program.optimise.slices.split_names import split_names
from tilewise.kernel.program.walk import (
    BLOCKS,
    arrays_set,
    arrays_used,
    expressions,
    mapped,
    names_read,
    names_set,
    statements,
)

BLOCK = 64  # elements of a slice that go through all k together
LEAST = 1024  # elements of a slice: the lines of fewer stay in the cache anyway


def blocks(program: ir.Program) -> ir.Program:
    """All loops over slices for which it is better."""
    if not any(_looks_like_one(s) for s in statements(program.body)):
        return program
    program = split_names(program)  # the ways that fusion makes set the same names
    maker = _Maker(program)
    body = maker.block(program.body)
    return replace(
        program, body=body, names={**program.names, **maker.names}, arrays={**program.arrays, **maker.arrays}
    )


def _looks_like_one(s: ir.Stmt) -> bool:
    """A loop of assignments and loops over elements."""
    if not isinstance(s, ir.For) or s.rare or s.independent or s.proved or not all(map(movable, (s.start, s.stop))):
        return False
    kinds = [type(x) for x in s.body]
    return bool({ir.For, ir.If} & {*kinds}) and {*kinds} <= {ir.Set, ir.View, ir.If, ir.For}


@dataclass(frozen=True)
class Slice:
    """A loop over the elements of a slice, and the test that it is right."""

    loops: tuple[ir.For, ...]
    body: ir.Block
    views: tuple[ir.View, ...]
    test: ir.Expr | None
    touches: tuple[Touch, ...]


def _slice(s: ir.Stmt) -> Slice | None:
    """A statement as such a loop."""
    if isinstance(s, ir.For):
        found = element_nest(s)
        return Slice(*found, (), None, touches(*found)) if found else None
    if not isinstance(s, ir.If) or not s.then or not movable(s.test):
        return None
    *views, nest = s.then
    found = element_nest(nest)
    if found is None or not all(isinstance(v, ir.View) and _lasting(v) for v in views):
        return None
    return Slice(*found, tuple(cast(list[ir.View], views)), s.test, touches(*found))


def _lasting(s: ir.Stmt) -> bool:
    """Whether what stands beside the loops can be done elsewhere: no element is read, nothing fails but subscripts."""
    if isinstance(s, ir.View):
        return all(movable(e) for e in expressions(s) if not isinstance(e, ir.Span))
    return not isinstance(s, ir.Set) or movable(s.value) or doubtful(s)


class _Maker:
    def __init__(self, program: ir.Program) -> None:
        self.program = program
        self.names, self.arrays = dict[str, str](), dict[str, ir.Array]()
        self.known = Definitions(program)
        self.live = live_after(program)
        self.used = _uses(program.body)

    def block(self, block: ir.Block) -> ir.Block:
        out: list[ir.Stmt] = []
        added: list[str] = []
        for s in block:
            made = self._made(s) if isinstance(s, ir.For) and _looks_like_one(s) else ()
            if made:
                out += made
            else:
                inner: dict[str, ir.Block] = {}
                for n in BLOCKS.get(type(s), ()):
                    with self.known.inside(s):
                        inner[n] = self.block(getattr(s, n))
                out.append(replace(cast(Any, s), **inner) if inner else s)
            added += self.known.define(s)
        self.known.forget(added)
        return tuple(out)

    # -- where it is right -------------------------------------------------------------------------------------------

    def _made(self, k: ir.For) -> ir.Block:
        """The loop with its second form, or nothing."""
        every: list[Slice] = []
        for s in k.body:
            if isinstance(s, ir.For) or (isinstance(s, ir.If) and not only_fails(s)):
                found = _slice(s)
                if found is None:
                    return ()
                every.append(found)
            elif not _lasting(s):
                return ()
        if not self._alone(k):
            return ()
        added: list[str] = []
        with self.known.inside(k):
            for s in (*k.body, *(v for x in every for v in x.views)):
                added += self.known.define(s)
            lengths = self._lengths(k, every)
            good = lengths and self._apart(k, every) and self._across(k, every)
            self.known.forget(added)
        return self._forms(k, every, lengths) if good else ()

    def _alone(self, k: ir.For) -> bool:
        """Whether no number or view goes from one k to the next, or is needed after the loop."""
        own, arrays = names_set((k,)), arrays_set((k,))
        if own & self.live[id(k)] or k.name in names_set(k.body):
            return False
        inside = _uses((k,))
        if any(self.used[name] > inside[name] for name in arrays):
            return False
        numbers, views = {k.name}, set[str]()
        for s in k.body:
            read = {n for x in statements((s,)) for n in names_read(x)} & own
            shown = {n for x in statements((s,)) for n in arrays_used(x)} & arrays
            within = (names_set((s,)), arrays_set((s,))) if isinstance(s, ir.If | ir.For) else (set(), set())
            if read - numbers - within[0] or shown - views - within[1]:
                return False
            numbers |= {s.name} if isinstance(s, ir.Set) else set()
            views |= {s.array} if isinstance(s, ir.View) else set()
        return True

    def _lengths(self, k: ir.For, slices: list[Slice]) -> list[ir.Expr]:
        """The lengths of all slices, if they are the same and known before the loop."""
        forms = [[self.known.form(x.stop) for x in s.loops] for s in slices]
        own, arrays = names_set((k,)), arrays_set((k,))
        if not forms or any(f != forms[0] for f in forms) or not 1 <= len(forms[0]) <= 2:
            return []
        for e in forms[0]:
            parts = list(expressions(ir.Set("", e)))
            if any((isinstance(x, ir.Var) and x.name in own) for x in parts) or not movable(e):
                return []
            if any(isinstance(x, ir.Dim) and x.array in arrays for x in parts):
                return []
        return forms[0]

    def _apart(self, k: ir.For, slices: list[Slice]) -> bool:
        """Whether an element depends on no other element, of any k."""
        every = [t for s in slices for t in s.touches]
        for a in every:
            for b in every:
                if (a.write or b.write) and self.known.may_meet(a.array, b.array):
                    one, other = self._column(k, a), self._column(k, b)
                    if one is None or one != other:
                        return False
        return True

    def _column(self, k: ir.For, t: Touch) -> Any:
        """The same for elements that are at one place of a slice; None: they may be anywhere."""
        if {*t.index} != {ir.Var(f"#{n}", ir.INT) for n in range(len(t.index))} or self.known.repeats(t.array):
            return None
        place = self._strip(k, t.array)
        return None if place is None else (place, t.index)

    def _strip(self, k: ir.For, array: str) -> Any:
        """Where the elements of an array are, but for the subscripts of the slice that it is; None: not known."""
        within, own = arrays_set((k,)), names_set((k,))
        if array not in within:
            return self.known.place(array)
        view = self.known.views.get(array)
        source = self._strip(k, view.source) if view is not None else None
        if view is None or source is None:
            return None
        spans = tuple((x.axis, self.known.form(x.start), self.known.form(x.step)) for x in view.spans)
        parts = [x for _, *both in spans for e in both for x in expressions(ir.Set("", e))]
        if any(isinstance(x, ir.Var) and x.name in own for x in parts):
            return None
        if not view.at and spans == tuple((n, ZERO, ONE) for n in range(self.program.arrays[view.source].rank)):
            return source
        return source, tuple(axis for axis, _ in view.at), spans

    def _across(self, k: ir.For, slices: list[Slice]) -> bool:
        """Whether more slices lie across the rows of their arrays than along."""
        across = along = 0
        for array in {t.array for s in slices for t in s.touches}:
            view = self.known.views.get(array)
            if view is None or array not in arrays_set((k,)) or not self.program.arrays[view.source].unit:
                continue
            last = self.program.arrays[view.source].rank - 1
            across += any(axis == last for axis, _ in view.at)
            along += any(x.axis == last for x in view.spans)
        return across > along

    # -- the loops ---------------------------------------------------------------------------------------------------

    def _name(self, name: str, dtype: str) -> str:
        self.names[name] = dtype
        return name

    def _forms(self, k: ir.For, slices: list[Slice], lengths: list[ir.Expr]) -> ir.Block:
        fits = ir.Var(self._name(f"$fits.{k.name}", ir.BOOL), ir.BOOL)
        size = lengths[0]
        for n in lengths[1:]:
            size = _op("multiply", size, n)
        first = ir.Set(fits.name, ir.Op("greater_equal", ir.BOOL, (size, ir.Const(ir.INT, LEAST))))
        return (first, *self._check(k, slices, fits), ir.If(fits, self._blocked(k, slices, lengths), (k,)))

    def _check(self, k: ir.For, slices: list[Slice], fits: ir.Var) -> ir.Block:
        """That nothing fails, for any k."""
        made = {v.array: v for v in (*k.body, *(v for s in slices for v in s.views)) if isinstance(v, ir.View)}

        def length(e: Any) -> Any:
            """Lengths of views that are not made."""
            if isinstance(e, ir.Dim) and e.array in made:
                return mapped(made[e.array].spans[e.axis].length, length)
            return e

        tests = [s.test for s in slices if s.test is not None]
        body: list[ir.Stmt] = []
        for s in k.body:
            if isinstance(s, ir.Set):
                tests += in_range(s) if doubtful(s) else []
                body.append(mapped(surely(s) if doubtful(s) else s, length))
            elif isinstance(s, ir.If) and only_fails(s):
                tests.append(opposite(s.test))
        for test in dict.fromkeys(mapped(t, length) for t in tests):
            body.append(ir.Set(fits.name, ir.Op("logical_and", ir.BOOL, (fits, test))))
        other = self._name(f"{k.name}~fits", ir.INT)
        loop = replace(k, name=other, body=_in_terms(tuple(body), {k.name: other}))
        return (ir.If(fits, (loop,)),) if tests else ()

    def _blocked(self, k: ir.For, slices: list[Slice], lengths: list[ir.Expr]) -> ir.Block:
        """Blocks of elements; in each, all k."""
        *rows, columns = lengths
        counts: list[ir.Expr] = [ir.Const(ir.INT, BLOCK)]
        if rows:  # short rows: several together
            wide = ir.Op("maximum", ir.INT, (columns, ONE))
            counts.insert(0, ir.Op("maximum", ir.INT, (_op("floor_divide", ir.Const(ir.INT, BLOCK), wide), ONE)))
        new = {k.name: self._name(f"{k.name}~blocks", ir.INT)}
        renamed = self._views(k, slices)
        starts = [self._name(f"$block{n}.{k.name}", ir.INT) for n in range(len(lengths))]
        body: list[ir.Stmt] = []
        at = iter(slices)
        for s in k.body:
            if isinstance(s, ir.Set | ir.View):
                body.append(surely(s) if isinstance(s, ir.Set) and doubtful(s) else s)
                continue
            if isinstance(s, ir.If) and only_fails(s):
                continue
            part = next(at)
            inner = part.body
            for n in reversed(range(len(lengths))):
                start = ir.Var(starts[n], ir.INT)
                stop = ir.Op("minimum", ir.INT, (_op("add", start, counts[n]), lengths[n]))
                inner = (replace(part.loops[n], start=start, stop=stop, body=inner),)
            body += [*part.views, *inner]
        loop: ir.Block = (replace(k, name=new[k.name], body=_in_terms(tuple(body), {**new, **renamed})),)
        for n in reversed(range(len(lengths))):
            loop = (ir.For(starts[n], ZERO, lengths[n], counts[n], loop, k.line, independent=True),)
        return loop

    def _views(self, k: ir.For, slices: list[Slice]) -> dict[str, str]:
        """Names of the compiler's own for views: they hold no memory, so that threads can have them."""
        found = {}
        for s in (*k.body, *(v for x in slices for v in x.views)):
            if isinstance(s, ir.View):
                new = found[s.array] = f"$v.{s.array}~blocks"
                self.arrays[new] = self.program.arrays[s.array]
        return found


def _in_terms(block: ir.Block, new: dict[str, str]) -> ir.Block:
    """The same with other names of numbers and arrays."""

    def change(node: Any) -> Any:
        made: dict[str, Any] = {}
        if isinstance(node, ir.Var | ir.Set) and node.name in new:
            made["name"] = new[node.name]
        if isinstance(node, ir.Dim | ir.Load | ir.Store | ir.View) and node.array in new:
            made["array"] = new[node.array]
        if isinstance(node, ir.View) and node.source in new:
            made["source"] = new[node.source]
        return replace(node, **made) if made else node

    return cast(ir.Block, mapped(block, change))


def _op(fn: str, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    return ir.Op(fn, ir.INT, (a, b), exact=True)


def _uses(block: ir.Block) -> Counter[str]:
    """How many statements use an array."""
    return Counter(n for s in statements(block) for n in arrays_used(s))
