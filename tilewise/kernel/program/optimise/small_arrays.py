"""Small arrays of an iteration. In: a program. Out: the program; allocations moved into the loops that fill them anew.

`window = np.empty(9)` before a loop whose iterations fill it before they read it is one array for all of them, so that
they had to run one after the other. Moved into the loop, each iteration has its own, on the stack of its thread.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

import numpy as np

from tilewise.kernel.program import ir
from tilewise.kernel.program.walk import (
    BLOCKS,
    arrays_set,
    arrays_used,
    expressions,
    inner_blocks,
    names_set,
    statements,
)

STACK_BYTES = 512  # of an array that lies on the stack
MOST_STEPS = 500  # statements that are gone through to see whether an iteration fills an array

Places = frozenset[tuple[int, ...]]  # of elements that are surely written
Known = Places | None  # None: that is never reached


def on_stack(program: ir.Program, s: ir.Alloc) -> bool:
    """Whether an array is small, with known lengths, so that it can lie on the stack if nobody keeps it."""
    shape = _shape(s)
    size = np.dtype(program.arrays[s.array].dtype).itemsize
    return shape is not None and min(shape, default=1) > 0 and size * math.prod(shape) <= STACK_BYTES


def own_memory(program: ir.Program, loop: ir.For) -> frozenset[str] | None:
    """The roots of small arrays that each iteration of a loop has for itself; None: some are looked at later."""
    inside = list(statements(loop.body))
    made = (s.array for s in inside if isinstance(s, ir.Alloc) and s.private and on_stack(program, s))
    own = frozenset().union(*(program.arrays[a].roots for a in made))
    if not own:
        return own
    here = Counter(a for s in inside for a in arrays_used(s) if own & program.arrays[a].roots)
    every = Counter(a for s in statements(program.body) for a in arrays_used(s) if own & program.arrays[a].roots)
    return own if here == every else None


def small_arrays(program: ir.Program) -> ir.Program:
    """Such allocations as deep inside as they can be; zeros that are overwritten are not written."""
    program = _named_at_once(program)
    every = list(statements(program.body))
    made = Counter(s.array for s in every if isinstance(s, ir.Alloc))
    moving = {s.array for s in every if isinstance(s, ir.Alloc) and made[s.array] == 1 and on_stack(program, s)}
    for s in every:
        if isinstance(s, ir.View | ir.HostCall | ir.Invoke):  # others may show it, or it others
            moving -= arrays_used(s) | arrays_set((s,))
        elif isinstance(s, ir.Return | ir.Product):
            moving -= arrays_used(s)
    users = Counter(a for s in every for a in arrays_used(s))
    return replace(program, body=_block(program.body, {a: users[a] for a in moving})) if moving else program


def _named_at_once(program: ir.Program) -> ir.Program:
    """`window := another name of $a`, where nobody else looks at $a: the allocation sets `window`."""
    every = list(statements(program.body))
    small = {s.array for s in every if isinstance(s, ir.Alloc) and on_stack(program, s)}
    made = Counter(a for s in every for a in arrays_set((s,)) if not inner_blocks(s))
    users = Counter(a for s in every for a in arrays_used(s))
    names = {
        s.source: s.array
        for s in every
        if isinstance(s, ir.View) and s.renamed and s.source in small
        if made[s.source] == made[s.array] == 1 and users[s.source] == 1
    }

    def renamed(block: ir.Block) -> ir.Block:
        out: list[ir.Stmt] = []
        for s in block:
            if isinstance(s, ir.View) and s.source in names:
                continue
            if isinstance(s, ir.Alloc) and s.array in names:
                s = replace(s, array=names[s.array])
            inner = {n: renamed(getattr(s, n)) for n in BLOCKS.get(type(s), ())}
            out.append(replace(cast(Any, s), **inner) if inner else s)
        return tuple(out)

    return replace(program, body=renamed(program.body)) if names else program


def _shape(s: ir.Alloc) -> tuple[int, ...] | None:
    found = tuple(n.value for n in s.shape if isinstance(n, ir.Const))
    return found if len(found) == len(s.shape) else None


def _block(block: ir.Block, moving: dict[str, int]) -> ir.Block:
    """moving: arrays, and how many statements of the program use each; one after the allocation has them all."""
    out: list[ir.Stmt] = []
    later = list(block)
    while later:
        s = later.pop(0)
        if isinstance(s, ir.Alloc) and s.array in moving:
            user = next((k for k, x in enumerate(later) if _users(x, s.array)), None)
            all_of_them = user is not None and _users(later[user], s.array) == moving[s.array]
            if user is not None and all_of_them and (inside := _moved(s, later[user])) is not None:
                later[user] = inside
                continue
        inner = {n: _block(getattr(s, n), moving) for n in BLOCKS.get(type(s), ())}
        out.append(replace(cast(Any, s), **inner) if inner else s)
    return tuple(out)


def _users(s: ir.Stmt, array: str) -> int:
    """How many statements use an array, this one and those inside."""
    return sum(array in arrays_used(x) for x in statements((s,)))


def _moved(alloc: ir.Alloc, s: ir.Stmt) -> ir.Stmt | None:
    """The statement with the allocation inside; None: it has to stay before it."""
    if isinstance(s, ir.Named):
        return replace(s, body=(alloc, *s.body))
    if not isinstance(s, ir.For) or s.proved or alloc.array in arrays_used(s):
        return None
    filled = _Filled(alloc)
    filled.block(s.body, frozenset(), {})
    return replace(s, body=(replace(alloc, zero=False), *s.body)) if filled.good else None


class _Filled:
    """Whether statements read only those elements of an array that they have written before."""

    def __init__(self, alloc: ir.Alloc) -> None:
        shape = _shape(alloc)
        assert shape is not None
        self.array, self.shape = alloc.array, shape
        self.every = frozenset(itertools.product(*map(range, shape)))
        self.good, self.steps = True, 0
        self.left: dict[str, list[Places]] = {}  # by labels: what is written where they are left

    def block(self, block: ir.Block, known: Known, values: dict[str, int]) -> Known:
        """What is surely written after a block; `values` are those of names that are known."""
        for s in block:
            self.steps += 1
            if known is None or not self.good:
                break
            if self.steps > MOST_STEPS:
                self.good = False
            known = self._statement(s, known, values)
        return known

    def _statement(self, s: ir.Stmt, known: Places, values: dict[str, int]) -> Known:
        for e in expressions(s):
            if isinstance(e, ir.Load) and e.array == self.array:
                at = self._place(e.index, values)
                self.good &= known >= self.every if at is None else at in known
        if isinstance(s, ir.Store) and s.array == self.array:
            at = self._place(s.index, values)
            return known if at is None else known | {at}
        if isinstance(s, ir.Set):
            self._set(s.name, _value(s.value, values), values)
        elif isinstance(s, ir.If):
            ways = [self.block(b, known, dict(values)) for b in (s.then, s.other)]
            self._forget((s,), values)
            return _together(ways)
        elif isinstance(s, ir.For):
            return self._for(s, known, values)
        elif isinstance(s, ir.Loop):
            self._forget((s,), values)
            self.block(s.body, known, dict(values))
            return None
        elif isinstance(s, ir.Named):
            kept, self.left[s.label] = self.left.get(s.label, []), []
            after = self.block(s.body, known, values)
            self._forget((s,), values)
            after, self.left[s.label] = _together([after, *self.left[s.label]]), kept
            return after
        elif isinstance(s, ir.Leave):
            self.left.setdefault(s.label, []).append(known)
            return None
        elif isinstance(s, ir.Return | ir.Fail):
            return None
        return known

    def _for(self, s: ir.For, known: Places, values: dict[str, int]) -> Known:
        ends = [_value(e, values) for e in (s.start, s.stop, s.step)]
        self.good &= not s.proved  # that has another order
        self._forget((s,), values)
        if None in ends or len(turns := range(*cast(list[int], ends))) > MOST_STEPS:
            self.block(s.body, known, dict(values))
            return known
        after: Known = known
        for i in turns:
            if after is None:
                break
            self._set(s.name, i, values)
            after = self.block(s.body, after, values)
        self._forget((s,), values)
        return after

    def _place(self, index: tuple[ir.Expr, ...], values: dict[str, int]) -> tuple[int, ...] | None:
        """Which element it is, if that is known, and if it is one."""
        found = [_value(e, values) for e in index]
        at = tuple(i + n if i < 0 else i for i, n in zip(found, self.shape, strict=True) if i is not None)
        return at if at in self.every else None

    def _set(self, name: str, value: int | None, values: dict[str, int]) -> None:
        values.pop(name, None)
        if value is not None:
            values[name] = value

    def _forget(self, block: ir.Block, values: dict[str, int]) -> None:
        for name in names_set(block):
            values.pop(name, None)


def _together(ways: Iterable[Known]) -> Known:
    """What all ways that go on have written."""
    several = [w for w in ways if w is not None]
    return frozenset.intersection(*several) if several else None


def _value(e: ir.Expr, values: dict[str, int]) -> int | None:
    """An integer, if it is known."""
    if isinstance(e, ir.Const):
        return e.value if e.dtype == ir.INT else None
    if isinstance(e, ir.Var):
        return values.get(e.name)
    if isinstance(e, ir.Op) and e.dtype == ir.INT and e.fn in ("add", "subtract", "multiply"):
        a, b = (_value(x, values) for x in e.args)
        if a is None or b is None:
            return None
        return a + b if e.fn == "add" else a - b if e.fn == "subtract" else a * b
    return None
