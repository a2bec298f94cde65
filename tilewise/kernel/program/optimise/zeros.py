"""Zeros that nobody reads. In: a program. Out: the program; arrays of which all is written first are not cleared.

`out = np.zeros((m, n))`, then a nest of loops that writes each element before anything reads it: clearing the memory
would take as long as many a nest does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

from tilewise.kernel.program import ir
from tilewise.kernel.program.walk import (
    BLOCKS,
    arrays_set,
    arrays_used,
    expressions,
    inner_blocks,
    mapped,
    names_set,
    statements,
)

_ZERO, _ONE = ir.Const(ir.INT, 0), ir.Const(ir.INT, 1)
_WHOLE = frozenset("add subtract multiply minimum maximum".split())


def zeros(program: ir.Program) -> ir.Program:
    """Such allocations ask for memory as it is."""
    if not any(isinstance(s, ir.Alloc) and s.zero for s in statements(program.body)):
        return program
    return replace(program, body=_Maker(program).block(program.body))


class _NotSure(Exception):
    """An element may be read that was not written."""


class _Maker:
    def __init__(self, program: ir.Program) -> None:
        self.fixed, self.shown, self.params = _fixed(program)

    def block(self, block: ir.Block) -> ir.Block:
        out: list[ir.Stmt] = []
        for at, s in enumerate(block):
            if isinstance(s, ir.Alloc) and s.zero and self._written(s, block[at + 1 :]):
                s = replace(s, zero=False)
            inner = {n: self.block(getattr(s, n)) for n in BLOCKS.get(type(s), ())}
            out.append(replace(cast(Any, s), **inner) if inner else s)
        return tuple(out)

    def _written(self, alloc: ir.Alloc, later: ir.Block) -> bool:
        """Whether the first statement that touches an array writes all of it."""
        names = {alloc.array}
        for at, s in enumerate(later):
            if isinstance(s, ir.View) and s.renamed and s.source in names:
                names.add(s.array)
            elif _touched((s,), names):
                shape = [self.value(n) for n in alloc.shape]
                kept = all(_kept(e, (*later[:at], s)) for e in shape)
                return kept and isinstance(s, ir.For) and _Nest(self, names, shape, s).writes_all()
            elif _jumps((s,)):
                return False
        return False

    def value(self, e: ir.Expr) -> ir.Expr:
        """An expression in what it is made of, as far as that has one value for good."""

        def change(node: Any) -> Any:
            if isinstance(node, ir.Var) and node.name in self.fixed:
                found = self.value(self.fixed[node.name])
                return found if all(map(self._for_good, expressions(ir.Set("", found)))) else node
            if isinstance(node, ir.Dim) and node.array in self.shown:
                return change(replace(node, array=self.shown[node.array]))
            return replace(node, exact=False) if isinstance(node, ir.Op) else node

        return cast(ir.Expr, mapped(e, change))

    def _for_good(self, e: ir.Expr) -> bool:
        if isinstance(e, ir.Var):
            return e.name in self.fixed or e.name in self.params
        if isinstance(e, ir.Dim):
            return e.array in self.shown or e.array in self.params
        return isinstance(e, ir.Const) or (isinstance(e, ir.Op) and e.fn in _WHOLE and e.fault < 0)


class _Nest:
    """A nest of loops, and whether it writes an array of this shape before it reads it."""

    def __init__(self, maker: _Maker, names: set[str], shape: list[ir.Expr], s: ir.For) -> None:
        self.maker, self.names, self.shape, self.nest = maker, names, shape, s

    def writes_all(self) -> bool:
        try:
            return self._block((self.nest,), {}) is not None
        except _NotSure:
            return False

    def _block(self, block: ir.Block, loops: dict[str, ir.Expr]) -> tuple[ir.Expr, ...] | None:
        """The subscript of the element that a block surely writes; () after a loop over such; None: it does not."""
        found: tuple[ir.Expr, ...] | None = None
        for s in block:
            if found is not None:
                self._only_there((s,), found)
            elif not _touched((s,), self.names):
                if _jumps((s,)):
                    raise _NotSure
            elif isinstance(s, ir.Store) and not self._reads(s):
                found = self._element(s.index, loops)
            elif isinstance(s, ir.If) and not self._reads(s):
                both = [self._block(b, loops) for b in (s.then, s.other)]
                if both[0] is None or both[0] != both[1]:
                    raise _NotSure
                found = both[0]
            elif isinstance(s, ir.For) and not s.proved and not self._reads(s):
                stop = self._value(s.stop)
                counts = s.start == _ZERO and s.step == _ONE and _kept(stop, (self.nest,))
                if not counts or s.name in loops or s.name in names_set(s.body):
                    raise _NotSure
                found = None if self._block(s.body, {**loops, s.name: stop}) is None else ()
            else:
                raise _NotSure
        return found

    def _element(self, index: tuple[ir.Expr, ...], loops: dict[str, ir.Expr]) -> tuple[ir.Expr, ...]:
        """The subscript, if the loops go through all elements by it."""
        at = [i.name for i in index if isinstance(i, ir.Var)]
        if len(at) != len(index) or not index or len(set(at)) != len(at) or set(at) != set(loops):
            raise _NotSure
        if any(loops[i] != n for i, n in zip(at, self.shape, strict=True)):
            raise _NotSure
        return index

    def _value(self, e: ir.Expr) -> ir.Expr:
        """The end of a loop; lengths of the array are those it was made with."""

        def change(node: Any) -> Any:
            return self.shape[node.axis] if isinstance(node, ir.Dim) and node.array in self.names else node

        return cast(ir.Expr, mapped(self.maker.value(e), change))

    def _only_there(self, block: ir.Block, index: tuple[ir.Expr, ...]) -> None:
        """Raise where statements touch another element than the one that was written."""
        for s in statements(block):
            if _whole(s) & self.names or any(x.index != index for x in _elements(s, self.names)):
                raise _NotSure

    def _reads(self, s: ir.Stmt) -> bool:
        """Whether the statement itself reads elements."""
        return any(isinstance(x, ir.Load) for x in _elements(s, self.names))


def _elements(s: ir.Stmt, names: set[str]) -> list[ir.Load | ir.Store]:
    """Where a statement itself reads or writes elements of an array."""
    found: list[ir.Load | ir.Store] = [s] if isinstance(s, ir.Store) and s.array in names else []
    return found + [e for e in expressions(s) if isinstance(e, ir.Load) and e.array in names]


def _whole(s: ir.Stmt) -> set[str]:
    """Arrays that a statement itself touches, or sets, other than by their elements."""
    found = {a for e in expressions(s) if isinstance(e, ir.Apart) for a in (e.first, e.second)}
    if isinstance(s, ir.View):
        found |= {s.array, s.source}
    elif isinstance(s, ir.Alloc):
        found.add(s.array)
    elif isinstance(s, ir.Product | ir.HostCall | ir.Invoke | ir.Return):
        found |= arrays_used(s) | (set(_names((s,))))
    return found


def _touched(block: ir.Block, names: set[str]) -> bool:
    return any(_whole(s) & names or _elements(s, names) for s in statements(block))


def _jumps(block: ir.Block) -> bool:
    """Whether statements may go on at another place."""
    return any(isinstance(s, ir.Leave) for s in statements(block))


def _kept(e: ir.Expr, block: ir.Block) -> bool:
    """Whether statements leave the value of an expression as it is, which has one anywhere."""
    names, arrays = names_set(block), arrays_set(block)
    for x in expressions(ir.Set("", e)):
        good = isinstance(x, ir.Const) or (isinstance(x, ir.Op) and x.fn in _WHOLE and x.fault < 0)
        good |= isinstance(x, ir.Var) and x.name not in names
        if not (good or (isinstance(x, ir.Dim) and x.array not in arrays)):
            return False
    return True


def _fixed(program: ir.Program) -> tuple[dict[str, ir.Expr], dict[str, str], set[str]]:
    """Values of numbers and of second names of arrays that are set once, not in a loop; arguments that stay."""
    every = list(statements(program.body))
    looped = {id(s) for loop in every if isinstance(loop, ir.For | ir.Loop) for s in statements(_inside(loop))}
    sets = Counter(_names(every))
    sets.update(p.name for p in program.params)
    once = [s for s in every if id(s) not in looped]
    numbers = {s.name: s.value for s in once if isinstance(s, ir.Set) and sets[s.name] == 1}
    arrays = {s.array: s.source for s in once if isinstance(s, ir.View) and s.renamed and sets[s.array] == 1}
    shown = {a: b for a, b in arrays.items() if sets[b] == 1}
    return numbers, shown, {p.name for p in program.params if sets[p.name] == 1}


def _inside(loop: ir.Stmt) -> ir.Block:
    return tuple(s for block in inner_blocks(loop) for s in block)


def _names(every: Iterable[ir.Stmt]) -> Iterable[str]:
    """What statements set, each time that they do."""
    for s in every:
        if isinstance(s, ir.Set | ir.For):
            yield s.name
        elif isinstance(s, ir.Alloc | ir.View):
            yield s.array
        elif isinstance(s, ir.HostCall | ir.Invoke):
            yield from ir.results_of(s)
