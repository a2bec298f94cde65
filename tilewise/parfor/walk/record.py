"""What the walk found. In: reads, writes, names, hazards, each where it happens.

Out: `Touch`, `NameUse`, `Hazard` lists.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewise.kernel.dependence.access import Access
from tilewise.kernel.dependence.expr import Expr, Index, Undecided, choose, computed, constant, gather, scale, var
from tilewise.parfor.walk.kept import replace, text_of
from tilewise.parfor.walk.places.memory import Memory
from tilewise.parfor.walk.values import Group, Obj, Val, View, objects

NO_END = float("inf")


@dataclass(frozen=True)
class Touch:
    """An access to memory that may be shared, and by which name the program got there."""

    access: Access
    objs: frozenset[Obj]
    name: str
    op: str | None  # of an accumulation


@dataclass(frozen=True)
class NameUse:
    """A name that is read before it is assigned in its iteration ("read"), assigned ("write"), or accumulated."""

    name: str
    how: str  # the operator, if it is accumulated
    carried: frozenset[Index]
    loops: tuple[Index, ...]
    line: int
    text: str


@dataclass(frozen=True)
class Hazard:
    """Something that orders the iterations of the loops around it, whatever the subscripts are."""

    variable: str
    test: str
    loops: tuple[Index, ...]
    line: int
    why: str


def _no_value() -> Any:
    raise Undecided


def unknown() -> Expr:
    """A subscript of which nothing is known."""
    return computed(_no_value, (), integer=False)


def is_unknown(expr: Expr) -> bool:
    """Whether nothing is known of a subscript."""
    return not expr.integer and not expr.evaluates()


def fixed_text(expr: Expr) -> str | None:
    """The text that a key is, or the name of an attribute; None for other keys."""
    if expr.indices or expr.integer:
        return None
    try:
        found: Any = np.asarray(expr.at({}))[()]
    except Undecided:
        return None
    return found if type(found) is str else None


def endless() -> Expr:
    """An extent of which nothing is known."""
    return Expr((), 0, 0, NO_END, lambda points: _no_value())


def _left_over(used: Sequence[Expr], loops: Sequence[Index]) -> list[Index]:
    """Loops that have ended, of which values that are used still depend: any of their values may be meant."""
    found: list[Index] = []

    def visit(expr: Expr) -> None:
        for index in expr.indices:
            if index not in found and index not in loops:
                visit(index.extent)
                found.append(index)

    for expr in (*used, *(index.extent for index in loops)):
        visit(expr)
    return found


def _selected(table: Any, along: Expr) -> Expr:
    """A position that is selected by a table, or by a list of expressions."""
    if isinstance(table, Group):
        return gather(table.order, [table.start + along])
    if isinstance(table, tuple):
        return choose(along, table)
    return gather(table, [along]) if table.size else constant(0)


class Recorder:
    """Where the walk is, and what it has found."""

    def __init__(self, memory: Memory, file: str) -> None:
        self.memory = memory
        self.file = file
        self.loops: list[Index] = []
        self.guards: list[Expr] = []
        self.unsure = 0  # branches around this place whose condition is not known
        self.touches: list[Touch] = []
        self.names: list[NameUse] = []
        self.hazards: list[Hazard] = []
        self.parallel: set[Index] = set()
        self.at: ast.AST = ast.Pass()
        self.silent = 0  # a first round through an inner loop records nothing
        self.line = 0

    @property
    def born(self) -> frozenset[Index]:
        """The loops around this place."""
        return frozenset(self.loops)

    def text(self) -> str:
        """The statement at hand."""
        with contextlib.suppress(Exception):
            return text_of(self.at).split("\n", 1)[0]
        return ""

    @contextlib.contextmanager
    def inside(self, index: Index) -> Iterator[None]:
        """Record as of the body of a loop."""
        self.loops.append(index)
        kept = len(self.guards)
        yield
        del self.guards[kept:]
        self.loops.pop()

    def hazard(self, variable: str, test: str, why: str, loops: Sequence[Index] | None = None) -> None:
        """Note what orders the iterations of some loops, of all around this place if they are left out."""
        if self.parallel and not self.silent:
            self.hazards.append(Hazard(variable, test, tuple(self.loops if loops is None else loops), self.line, why))

    def name_use(self, name: str, how: str, carried: frozenset[Index], loops: Sequence[Index] | None = None) -> None:
        """Note what happens to a name in some loops, in all around this place if they are left out."""
        if self.parallel and not self.silent and loops != []:
            around = tuple(self.loops if loops is None else loops)
            self.names.append(NameUse(name, how, carried, around, self.line, self.text()))

    # -- memory ---------------------------------------------------------------------------------------------------

    def _private(self, objs: frozenset[Obj]) -> bool:
        return all(set(self.loops) & self.parallel <= obj.born for obj in objs)

    def touch(
        self,
        key: Any,
        subscripts: Sequence[Expr],
        objs: frozenset[Obj],
        write: bool,
        more: Sequence[Index] = (),
        op: str | None = None,
        name: str | None = None,
    ) -> None:
        """Record one access, unless it is private to the iterations of all parallel loops around it."""
        if write:
            resized = key == "cells" and is_unknown(subscripts[-1])
            at = fixed_text(subscripts[-1]) if key == "cells" else None
            for obj in objs:
                obj.written = True
                obj.resized |= resized
                obj.written_elsewhere |= at is None
                obj.written_at |= {at} if at is not None else set()
        if self.silent or not self.parallel or self._private(objs):
            return
        loops = [*self.loops, *more]
        access = Access(
            key,
            tuple(subscripts),
            (*_left_over([*subscripts, *self.guards], loops), *loops),
            write,
            tuple(self.guards),
            not self.unsure,
            self.line,
            self.text(),
        )
        self.touches.append(Touch(access, objs, name or next(iter(objs)).name, op))

    def touch_view(self, view: View, write: bool, op: str | None = None) -> None:
        """Record an access to all of a region."""
        objs = frozenset((view.obj, *view.others))
        if view.obj.shape is None:
            self.touch(("object", view.obj.code), (), objs, write, op=op, name=view.name)
            return
        dims, more = list(view.dims), []
        for axis in view.axes:
            if axis.dim is None:
                continue
            length = axis.length if axis.length is not None else endless()
            index = Index(":", length)
            more.append(index)
            along = var(index)
            if axis.table is not None:
                along = _selected(axis.table, along)
            dims[axis.dim] = dims[axis.dim] + scale(along, axis.slope)
        try:
            key, cells, width = self.memory.cell(view, dims)
        except ValueError:
            for obj in objs:
                self.hazard(obj.name, "alias", "arrays of a list share memory")
            return
        if width > 1:
            index = Index(":", constant(width))
            more.append(index)
            cells = (*cells[:-1], cells[-1] + var(index))
        self.touch(key, cells, objs, write, more, op, view.name)

    def touch_object(self, obj: Obj, write: bool, op: str | None = None) -> None:
        """Record an access to all of an object."""
        if obj.array and obj.shape is not None:
            shape = [n if isinstance(n, Expr) else constant(n) for n in obj.shape]
            more = [Index(":", n) for n in shape]
            if obj.flat:
                self.touch("flat", (unknown(),), frozenset((obj,)), write, op=op)
                return
            cells = (constant(obj.code), *(var(i) for i in more))
            self.touch(("memory", len(shape)), cells, frozenset((obj,)), write, more, op)
        elif obj.array:
            self.touch(("object", obj.code), (), frozenset((obj,)), write, op=op)
        else:
            self.touch("cells", (constant(obj.code), unknown()), frozenset((obj,)), write, op=op)

    def touch_value(self, value: Val, write: bool, op: str | None = None) -> None:
        """Record an access to all that a value may be."""
        if value.scalar and not write:
            return
        if value.view is not None:
            self.touch_view(value.view, write, op)
        if value.ident is not None and not any(obj.array for obj in value.objs):
            self.touch("cells", (value.ident, unknown()), value.objs, write, op=op)
        else:
            for obj in value.objs:
                self.touch_object(obj, write, op)
        for item in value.items or ():
            self.touch_value(item, write, op)
        if value.anything:
            if write:
                self.hazard("?", "alias", "a write to an object that is not known")
            else:
                self.touch("anything", (unknown(),), frozenset((self.anywhere(),)), False)

    def anywhere(self) -> Obj:
        """Stands for memory of which nothing is known."""
        return Obj(0, "?", frozenset())

    def within(self, value: Val) -> Val:
        """A value that is some part of another one, in a shape that is not known."""
        view = replace(value.view, within=True) if value.view is not None else None
        return Val(
            view=view, objs=objects(value) if view is None else value.objs, anything=value.anything, kind=value.kind
        )
