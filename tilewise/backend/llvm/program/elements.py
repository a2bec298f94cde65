"""Elements of arrays. In: subscripts. Out: addresses, loads, stores; IR that fails where there is no such element."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewise.backend.llvm.emit.text import COMPLEX, Val, pair
from tilewise.backend.llvm.math import scalar
from tilewise.backend.llvm.program import memory
from tilewise.backend.llvm.program.loops.loop_ranges import parts_of
from tilewise.kernel.program.ir import Alloc, Block, Const, Expr, Load, Op, Set, Stmt, Store, Var, View
from tilewise.kernel.program.walk import expressions

if TYPE_CHECKING:
    from tilewise.backend.llvm.program.emit import Emitter


def place(em: Emitter, array: str, index: tuple[Expr, ...], faults: tuple[int, ...]) -> str:
    """The address of an element; that of `A[k] += x` is worked out, and checked, once."""
    known = em.places.get((array, index))
    if known is None or em.assumed:
        known = _address(em, array, _indices(em, array, index, faults))
        if not em.assumed and all(isinstance(e, Const | Var | Op) for i in index for e in parts_of(i)):
            em.places[array, index] = known
    return known


def changed(em: Emitter, s: Stmt) -> None:
    """After a statement: forget addresses that it may have changed."""
    if isinstance(s, Set):
        gone = [key for key in em.places if any(_reads(i, s.name) for i in key[1])]
    elif isinstance(s, Alloc | View):
        gone = [key for key in em.places if key[0] == s.array]
    else:
        gone = [] if isinstance(s, Store) else list(em.places)
    for key in gone:
        del em.places[key]


def _reads(e: Expr, name: str) -> bool:
    return any(isinstance(x, Var) and x.name == name for x in parts_of(e))


def _indices(em: Emitter, array: str, index: tuple[Expr, ...], faults: tuple[int, ...]) -> list[Val]:
    made: list[Val] = []
    doubtful: dict[int, Val] = {}  # axes whose subscripts are checked where they stand, with their lengths
    for axis, (i, fault) in enumerate(zip(index, faults, strict=True)):
        at, length = em.e(i), em.arrays[array].dims[axis]
        negative = isinstance(i, Const) and i.value < 0
        if fault >= 0 and not em.bounds.proved(array, axis, i):
            doubtful[axis] = em.word(length)
            at = at + doubtful[axis] if negative else at
        elif fault >= 0 and negative:
            at = at + em.word(length)
        made.append(at)
    return _checked(em, made, doubtful, index, faults) if doubtful else made


def _checked(
    em: Emitter, made: list[Val], doubtful: dict[int, Val], index: tuple[Expr, ...], faults: tuple[int, ...]
) -> list[Val]:
    """Subscripts in range, by one branch. Which are negative is looked at only where not all are numbers below n."""
    fn = em.fn
    good, look = fn.fresh("good"), fn.fresh("look")
    beyond = None
    for axis, n in doubtful.items():
        over = made[axis].cmp("uge", n)
        beyond = over if beyond is None else beyond | over
    assert beyond is not None
    fn.do(f"br i1 {beyond.name}, label %{look}, label %{good}, !prof !{em.scopes.unlikely}")
    here = fn.block
    kept, fn.lines = fn.lines, []
    fn.label(look)
    wrapped = {}
    for axis, n in doubtful.items():
        at, i = made[axis], index[axis]
        if isinstance(i, Const):
            em.fail_if(at.cmp("uge", n), faults[axis], (em.e(i), n))
            continue
        from_end = at + n
        if len(doubtful) > 1:  # this one may be a number below n
            from_end = at.make(f"select i1 {at.cmp('slt', 0).name}, {from_end.text}, {at.text}")
        em.fail_if(from_end.cmp("uge", n), faults[axis], (at, n))
        wrapped[axis] = from_end
    there = fn.block
    fn.do(f"br label %{good}")
    em.late.append(fn.lines)
    fn.lines = kept
    fn.label(good)
    for axis, from_end in wrapped.items():
        at = made[axis]
        made[axis] = at.make(f"phi i64 [ {at.name}, %{here} ], [ {from_end.name}, %{there} ]")
    return made


def _address(em: Emitter, array: str, at: list[Val]) -> str:
    """The address of an element. Each subscript has a term of its own, so that those that stay can leave a loop."""
    fn, a, slots = em.fn, em.p.arrays[array], em.arrays[array]
    data = fn.let(f"load ptr, ptr {slots.data}")
    if not at:
        return data
    ty = memory.STORED[a.dtype]
    last = a.rank - 1
    for axis in range(last if a.dense or a.unit else a.rank):
        if (array, axis) in em.near:
            data = fn.let(f"getelementptr inbounds {ty}, ptr {data}, {at[axis].text}")
            continue
        s = _step(em, array, axis) if a.dense else em.word(slots.strides[axis])
        offset = at[axis].make(f"mul nsw {at[axis].text}, {s.name}")
        data = fn.let(f"getelementptr inbounds i8, ptr {data}, {offset.text}")
    if a.dense or a.unit:
        data = fn.let(f"getelementptr inbounds {ty}, ptr {data}, {at[last].text}")
    return data


def _step(em: Emitter, array: str, axis: int) -> Val:
    """Bytes between neighbours along an axis of a dense array, from its lengths: these may be constants."""
    dims = em.arrays[array].dims
    step = em.word(dims[-1])
    step = step.make(f"mul nsw {step.text}, {np.dtype(em.p.arrays[array].dtype).itemsize}")
    for n in reversed(dims[axis + 1 : -1]):
        step = step.make(f"mul nsw {step.text}, {em.word(n).name}")
    return step


def looks_up(block: Block) -> bool:
    """Whether statements look bytes (or pairs of them) up in tables: vectors of these are put together one by one."""
    every = [e for s in block for e in expressions(s) if isinstance(e, Load)]
    read = {s.name for s in block if isinstance(s, Set) and any(isinstance(e, Load) for e in expressions(s))}
    small = [e for e in every if np.dtype(e.dtype).itemsize <= 2]
    parts = (x for e in small for i in e.index for x in parts_of(i))
    return any(isinstance(x, Load) or (isinstance(x, Var) and x.name in read) for x in parts)


def load(em: Emitter, array: str, at: str) -> Val:
    """The element at an address."""
    fn, dtype = em.fn, em.p.arrays[array].dtype
    note, size = em.scopes.note(array) + em.group, memory.align(dtype)
    ty = scalar.IR_TYPE[dtype]
    if ty in COMPLEX:
        part = COMPLEX[ty]
        other = fn.let(f"getelementptr inbounds {part}, ptr {at}, i64 1")
        re, im = (Val(fn, fn.let(f"load {part}, ptr {p}, align {size}{note}"), part, 1) for p in (at, other))
        return pair(re, im)
    if dtype == "bool":
        byte = Val(fn, fn.let(f"load i8, ptr {at}, align 1{note}"), "i8", 1)
        return byte.cmp("ne", 0)
    return Val(fn, fn.let(f"load {ty}, ptr {at}, align {size}{note}"), ty, 1)


def save(em: Emitter, array: str, at: str, v: Val) -> None:
    """A number to the element at an address."""
    fn, dtype = em.fn, em.p.arrays[array].dtype
    note, size = em.scopes.note(array) + em.group, memory.align(dtype)
    if v.ty in COMPLEX:
        other = fn.let(f"getelementptr inbounds {COMPLEX[v.ty]}, ptr {at}, i64 1")
        for p, part in zip((at, other), v.parts, strict=True):
            fn.do(f"store {part.text}, ptr {p}, align {size}{note}")
    else:
        byte = v.convert("zext", "i8") if dtype == "bool" else v
        fn.do(f"store {byte.text}, ptr {at}, align {size}{note}")
