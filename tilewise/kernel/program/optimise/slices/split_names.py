"""A name for each array, counter or size that a name stands for in turn. In: a program. Out: with more names.

    for k in ...: flux = u + v ...; flux = u * v ...      for k~0 in ...: flux~1 = u + v ...; flux~2 = u * v ...
    for k in ...: ...                                =>   for k~3 in ...: ...

Passes after it know what an array is by the one place that makes it, and a counter by its loop. A view (or a number of
the compiler's own) gets a name of its own where nobody reads the old name after the statements that follow it, up to
the next view of that name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from tilewise.kernel.program import ir
from tilewise.kernel.program.optimise.liveness import NONE, Names, follow_back
from tilewise.kernel.program.walk import (
    BLOCKS,
    arrays_set,
    arrays_used,
    mapped,
    names_read,
    names_set,
    statements,
)


def split_names(program: ir.Program) -> ir.Program:
    """All names that can be several."""
    every = list(statements(program.body))
    arrays = Counter(s.array for s in every if isinstance(s, ir.View))
    numbers = Counter(s.name for s in every if isinstance(s, ir.Set | ir.For))
    several = {name for name, n in arrays.items() if n > 1}
    several |= {s.name for s in every if isinstance(s, ir.For) and numbers[s.name] > 1}
    several |= {s.name for s in every if isinstance(s, ir.Set) and numbers[s.name] > 1 and s.name.startswith("$t")}
    if not several:
        return program
    maker = _Maker(program, several)
    body = maker.block(program.body)
    return replace(
        program,
        body=body,
        arrays={**program.arrays, **maker.new_arrays},
        names={**program.names, **maker.new_names},
    )


class _Live:
    """Names that are read after a statement, and where a `Leave` goes on."""

    def __init__(
        self, program: ir.Program, reads: Callable[[ir.Stmt], Names], sets: Callable[[ir.Stmt], Names]
    ) -> None:
        self.after: dict[int, Names] = {}
        self.ends: dict[str, Names] = {}

        def note(s: ir.Stmt, after: Names) -> None:
            self.after[id(s)] = self.after.get(id(s), NONE) | after
            if isinstance(s, ir.Named):
                self.ends[s.label] = self.ends.get(s.label, NONE) | after

        follow_back(program, reads, sets, note)

    def elsewhere(self, name: str, block: ir.Block) -> bool:
        """Whether a name is read where statements leave a block for."""
        every = list(statements(block))
        inside = {s.label for s in every if isinstance(s, ir.Named)}
        left = (s.label for s in every if isinstance(s, ir.Leave) and s.label not in inside)
        return any(name in self.ends.get(label, NONE) for label in left)


class _Maker:
    def __init__(self, program: ir.Program, several: set[str]) -> None:
        self.program, self.several = program, several
        self.new_arrays, self.new_names = dict[str, ir.Array](), dict[str, str]()
        self.arrays = _Live(program, lambda s: frozenset(arrays_used(s)), _arrays_set)
        self.numbers = _Live(program, lambda s: frozenset(names_read(s)), _numbers_set)

    def _new(self, name: str) -> str:
        new = f"{name}~{len(self.new_arrays) + len(self.new_names)}"
        while new in self.program.arrays or new in self.program.names:
            new += "~"
        if name in self.program.arrays:
            self.new_arrays[new] = self.program.arrays[name]
        else:
            self.new_names[new] = self.program.names[name]
        return new

    def block(self, block: ir.Block) -> ir.Block:
        """Names inside of statements first: they are read nowhere else."""
        out: list[ir.Stmt] = []
        for s in block:
            inner = {n: self.block(getattr(s, n)) for n in BLOCKS.get(type(s), ())}
            made: ir.Stmt = replace(cast(Any, s), **inner) if inner else s
            out.append(self._counter(s, made) if isinstance(s, ir.For) and isinstance(made, ir.For) else made)
        starts = [(at, name) for at, s in enumerate(out) if (name := _name(s)) in self.several]
        for at, name in starts:
            live = self.arrays if isinstance(out[at], ir.View) else self.numbers
            stop = next((k for k, other in starts if k > at and other == name), len(out))
            after = tuple(out[at + 1 : stop])
            if stop == len(out) and name in live.after[id(block[-1])]:
                continue
            if live.elsewhere(name, block[at + 1 : stop]) or name in _others(after):
                continue
            new = self._new(name)
            out[at] = _named(out[at], new)
            out[at + 1 : stop] = renamed(after, name, new)
            if stop < len(out):  # the next one of this name may show what it stood for
                (next_one,) = renamed((out[stop],), name, new)
                out[stop] = _named(next_one, name)
        return tuple(out)

    def _counter(self, s: ir.For, made: ir.For) -> ir.For:
        """A loop with a counter of its own."""
        inside = (*s.body, *s.proved)
        if s.name not in self.several or s.name in self.numbers.after[id(s)] or s.name in names_set(inside):
            return made
        if self.numbers.elsewhere(s.name, inside):
            return made
        new = self._new(s.name)
        return replace(made, name=new, body=renamed(made.body, s.name, new), proved=renamed(made.proved, s.name, new))


def _arrays_set(s: ir.Stmt) -> Names:
    return frozenset([s.array]) if isinstance(s, ir.Alloc | ir.View) else NONE


def _numbers_set(s: ir.Stmt) -> Names:
    return frozenset([s.name]) if isinstance(s, ir.Set | ir.For) else NONE


def _name(s: ir.Stmt) -> str:
    """The array or number that a statement sets."""
    return s.array if isinstance(s, ir.View) else s.name if isinstance(s, ir.Set) else ""


def _named(s: ir.Stmt, name: str) -> ir.Stmt:
    """The statement as one that sets another array or number."""
    assert isinstance(s, ir.View | ir.Set)
    return replace(s, array=name) if isinstance(s, ir.View) else replace(s, name=name)


def _others(block: ir.Block) -> set[str]:
    """Arrays and numbers that something else than a view or an assignment sets."""
    every = [s for s in statements(block) if isinstance(s, ir.Alloc | ir.For | ir.HostCall | ir.Invoke)]
    found = arrays_set(tuple(s for s in every if not isinstance(s, ir.For)))
    return found | {s.name for s in every if isinstance(s, ir.For)}


def renamed(stmts: ir.Block, old: str, new: str) -> ir.Block:
    """Statements that speak of an array or number by another name."""

    def change(node: Any) -> Any:
        made: dict[str, Any] = {n: new for n in _FIELDS.get(type(node), ()) if getattr(node, n) == old}
        for n in _LISTS.get(type(node), ()):
            if old in getattr(node, n):
                made[n] = tuple(new if x == old else x for x in getattr(node, n))
        return replace(node, **made) if made else node

    return cast(ir.Block, mapped(stmts, change))


_FIELDS: dict[type, tuple[str, ...]] = {
    ir.Load: ("array",), ir.Dim: ("array",), ir.Apart: ("first", "second"), ir.Store: ("array",),
    ir.View: ("array", "source"), ir.Alloc: ("array",), ir.Product: ("array", "left", "right"),
    ir.Var: ("name",), ir.Set: ("name",), ir.For: ("name",),
}  # fmt: skip
_LISTS: dict[type, tuple[str, ...]] = {
    ir.HostCall: ("inputs", "writes"), ir.Invoke: ("inputs",), ir.Return: ("values",),
}  # fmt: skip
