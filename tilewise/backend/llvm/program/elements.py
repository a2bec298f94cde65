"""Elements of arrays. In: subscripts. Out: addresses, loads, stores; IR that fails where there is no such element."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewise.backend.llvm.emit.text import COMPLEX, Val, pair
from tilewise.backend.llvm.math import scalar
from tilewise.backend.llvm.program import memory
from tilewise.backend.llvm.program.loop_ranges import parts_of
from tilewise.kernel.program.ir import Alloc, Const, Expr, Op, Set, Stmt, Store, Var, View

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
    made = []
    for axis, (i, fault) in enumerate(zip(index, faults, strict=True)):
        at, length = em.e(i), em.arrays[array].dims[axis]
        negative = isinstance(i, Const) and i.value < 0
        if fault >= 0 and not em.bounds.proved(array, axis, i):
            n = em.word(length)
            if isinstance(i, Const):
                whole = at + n if negative else at
                em.fail_if(whole.cmp("uge", n), fault, (at, n))
                at = whole
            else:
                at = _checked(em, at, n, fault)
        elif fault >= 0 and negative:
            at = at + em.word(length)
        made.append(at)
    return made


def _checked(em: Emitter, at: Val, n: Val, fault: int) -> Val:
    """A subscript in range. That it is negative is looked at only where it is no number below n: mostly it is one."""
    fn = em.fn
    good, look, wrong = fn.fresh("good"), fn.fresh("look"), fn.fresh("wrong")
    fn.do(f"br i1 {at.cmp('uge', n).name}, label %{look}, label %{good}, !prof !{em.scopes.unlikely}")
    here = fn.block
    kept, fn.lines = fn.lines, []
    fn.label(look)
    from_end = at + n
    fn.do(f"br i1 {from_end.cmp('uge', n).name}, label %{wrong}, label %{good}")
    fn.label(wrong)
    em.fail(fault, (at, n))
    em.late.append(fn.lines)
    fn.lines = kept
    fn.label(good)
    return at.make(f"phi i64 [ {at.name}, %{here} ], [ {from_end.name}, %{look} ]")


def _address(em: Emitter, array: str, at: list[Val]) -> str:
    fn, a, slots = em.fn, em.p.arrays[array], em.arrays[array]
    data = fn.let(f"load ptr, ptr {slots.data}")
    if not at:
        return data
    ty = memory.STORED[a.dtype]
    if a.dense:
        flat = at[0]
        for axis in range(1, a.rank):
            n = em.word(slots.dims[axis])
            flat = flat.make(f"mul nsw {flat.text}, {n.name}")
            flat = flat.make(f"add nsw {flat.text}, {at[axis].name}")
        return fn.let(f"getelementptr inbounds {ty}, ptr {data}, {flat.text}")
    last = a.rank - 1
    for axis in range(last if a.unit else a.rank):
        s = em.word(slots.strides[axis])
        offset = at[axis].make(f"mul nsw {at[axis].text}, {s.name}")
        data = fn.let(f"getelementptr inbounds i8, ptr {data}, {offset.text}")
    if a.unit:
        data = fn.let(f"getelementptr inbounds {ty}, ptr {data}, {at[last].text}")
    return data


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
