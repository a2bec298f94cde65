"""Memory that programs allocate. In: an emitter, allocations. Out: IR that takes it, counts its holders, lets it go.

A block has a head: how many hold it, and its size. A place in a program that is reached again uses its last block
again if nobody else holds it; in a loop, also the one before that.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

import numpy as np

from tilewise.backend.llvm.emit.text import Val
from tilewise.backend.llvm.program import layout
from tilewise.kernel.program.ir import Alloc, Const
from tilewise.kernel.program.optimise.small_arrays import on_stack

if TYPE_CHECKING:
    from tilewise.backend.llvm.program.emit import Emitter

SPARE_BYTES = 1 << 20  # of arrays that are kept for the next turn
SMALL_BYTES = 512  # of arrays that need not begin with a line of the cache: malloc is several times faster


def owned(array: str) -> bool:
    """Whether a variable keeps memory alive; temporary views do not."""
    return not array.startswith("$") or array.startswith("$a")


def counted(em: Emitter, array: str) -> bool:
    """Whether a variable counts as a holder of memory: not if it can show that of arguments only."""
    roots, params = em.p.arrays[array].memory, em.scopes.params
    return owned(array) and array not in params and any(r not in params and r != "arguments" for r in roots)


_HOLD = """define internal void @hold(i64 %base, i64 %by) {
entry:
  %heap = icmp uge i64 %base, 4096
  br i1 %heap, label %yes, label %no
yes:
  %p = inttoptr i64 %base to ptr
  %old = load i64, ptr %p
  %new = add i64 %old, %by
  store i64 %new, ptr %p
  %last = icmp eq i64 %new, 0
  br i1 %last, label %gone, label %no
gone:
  call void @free(ptr %p)
  ret void
no:
  ret void
}"""


_LET_GO = """define internal void @let_go(i64 %base) noinline {
entry:
  call void @hold(i64 %base, i64 -1)
  ret void
}"""


def count(em: Emitter, base: Val, by: int) -> None:
    """One more holder of memory, or one less."""
    em.fn.declares.add("declare void @free(ptr)")
    em.fn.helpers["hold"] = _HOLD
    em.fn.do(f"call void @hold({base.text}, i64 {by})")


def allocate(em: Emitter, s: Alloc) -> None:
    """Memory for an array; that of its last turn, if nobody else holds it and it is large enough."""
    if s.private and (not em.long or em.within) and on_stack(em.p, s):
        _place_on_stack(em, s)
        return
    fn, target = em.fn, em.arrays[s.array]
    a = em.p.arrays[s.array]
    dims = [em.e(n) for n in s.shape]
    bad = huge = Val(fn, "false", "i1", 1)
    total = em.number(np.dtype(a.dtype).itemsize)
    strides: list[Val] = []
    for n in reversed(dims):
        bad = bad | n.cmp("slt", 0)
        strides.insert(0, total)
        fn.declares.add("declare { i64, i1 } @llvm.smul.with.overflow.i64(i64, i64)")
        both = fn.let(f"call {{ i64, i1 }} @llvm.smul.with.overflow.i64({total.text}, {n.text})")
        total = Val(fn, fn.let(f"extractvalue {{ i64, i1 }} {both}, 0"), "i64", 1)
        huge = huge | Val(fn, fn.let(f"extractvalue {{ i64, i1 }} {both}, 1"), "i1", 1)
    em.fail_if(bad, s.fault)
    em.fail_if(huge, s.huge)
    fn.declares |= {"declare void @free(ptr)", "declare ptr @aligned_alloc(i64, i64)", "declare ptr @malloc(i64)"}
    fn.helpers["hold"] = _HOLD
    fn.helpers["obtain"] = _OBTAIN
    holder = target.base
    if s.private and not em.long:  # views do not count who holds it: its variable has no base
        if s.array not in em.kept:
            em.kept[s.array] = fn.hoist("alloca i64")
            fn.entry.append(f"  store i64 0, ptr {em.kept[s.array]}")
        holder = em.kept[s.array]
    spare = _spare(em, s)
    base = Val(fn, fn.let(f"call i64 @obtain({em.word(holder).text}, {total.text}, ptr {spare})"), "i64", 1)
    em.put(holder, base)
    em.fail_if(base.cmp("eq", 0), s.full)
    start = base + layout.HEAD
    data = fn.let(f"inttoptr {start.text} to ptr")
    fn.do(f"store ptr {data}, ptr {target.data}")
    em.put(target.ident, em.number(0))
    for k, (n, stride) in enumerate(zip(dims, strides, strict=True)):
        em.put(target.dims[k], n)
        em.put(target.strides[k], stride)
    if s.zero:
        fn.declares.add("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
        fn.do(f"call void @llvm.memset.p0.i64(ptr {data}, i8 0, {total.text}, i1 false)")


def _spare(em: Emitter, s: Alloc) -> str:
    """Where a place in a loop writes down memory that others hold at the time; "null": it does not.

    `y = y + f(y)` needs two arrays in turns: while one is read, the other is written.
    """
    if s.private or em.long or not em.nested or em.within:
        return "null"
    if s.array not in em.spares:
        em.spares[s.array] = em.fn.hoist("alloca i64")
        em.fn.entry.append(f"  store i64 0, ptr {em.spares[s.array]}")
    return em.spares[s.array]


def _place_on_stack(em: Emitter, s: Alloc) -> None:
    """Memory on the stack for a small array of known lengths."""
    fn, target = em.fn, em.arrays[s.array]
    shape = [cast(Const, n).value for n in s.shape]
    size = np.dtype(em.p.arrays[s.array].dtype).itemsize
    place = fn.hoist(f"alloca [{size * math.prod(shape)} x i8], align 64")
    fn.do(f"store ptr {place}, ptr {target.data}")
    em.put(target.ident, em.number(0))
    for k, n in enumerate(shape):
        em.put(target.dims[k], em.number(n))
        em.put(target.strides[k], em.number(size * math.prod(shape[k + 1 :])))
    if s.zero:
        fn.declares.add("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
        fn.do(f"call void @llvm.memset.p0.i64(ptr {place}, i8 0, i64 {size * math.prod(shape)}, i1 false)")


_OBTAIN = f"""define internal i64 @obtain(i64 %old, i64 %size, ptr %spare) {{
entry:
  %again = call i1 @usable(i64 %old, i64 %size)
  br i1 %again, label %same, label %other
same:
  ret i64 %old
other:
  %turns = icmp ne ptr %spare, null
  br i1 %turns, label %look, label %drop
look:
  %kept = load i64, ptr %spare
  %small = icmp ule i64 %size, {SPARE_BYTES}
  %next = select i1 %small, i64 %old, i64 0
  store i64 %next, ptr %spare
  %usable = call i1 @usable(i64 %kept, i64 %size)
  br i1 %usable, label %swap, label %replace
swap:
  br i1 %small, label %swapped, label %let
let:
  call void @hold(i64 %old, i64 -1)
  br label %swapped
swapped:
  ret i64 %kept
replace:
  call void @hold(i64 %kept, i64 -1)
  br i1 %small, label %fresh, label %drop
drop:
  call void @hold(i64 %old, i64 -1)
  br label %fresh
fresh:
  %up = add i64 %size, {layout.HEAD + 63}
  %all = and i64 %up, -64
  %short = icmp ule i64 %size, {SMALL_BYTES}
  br i1 %short, label %any, label %lines
any:
  %m1 = call ptr @malloc(i64 %all)
  br label %got
lines:
  %m2 = call ptr @aligned_alloc(i64 64, i64 %all)
  br label %got
got:
  %m = phi ptr [ %m1, %any ], [ %m2, %lines ]
  %none = icmp eq ptr %m, null
  br i1 %none, label %fail, label %good
good:
  store i64 1, ptr %m
  %s = getelementptr i64, ptr %m, i64 1
  store i64 %size, ptr %s
  %w = ptrtoint ptr %m to i64
  ret i64 %w
fail:
  ret i64 0
}}

define internal i1 @usable(i64 %old, i64 %size) {{
entry:
  %heap = icmp uge i64 %old, 4096
  br i1 %heap, label %look, label %no
look:
  %p = inttoptr i64 %old to ptr
  %holders = load i64, ptr %p
  %q = getelementptr i64, ptr %p, i64 1
  %room = load i64, ptr %q
  %alone = icmp eq i64 %holders, 1
  %fits = icmp uge i64 %room, %size
  %both = and i1 %alone, %fits
  ret i1 %both
no:
  ret i1 0
}}"""


def release_all(em: Emitter) -> None:
    """What variables and places of allocation hold is let go, by calls: copies of the code would be much of it."""
    places = [*em.kept.values(), *em.spares.values()]
    for name, slots in em.arrays.items():
        if counted(em, name):
            places.append(slots.base)
    for place in places:
        em.fn.declares.add("declare void @free(ptr)")
        em.fn.helpers["hold"], em.fn.helpers["let_go"] = _HOLD, _LET_GO
        em.fn.do(f"call void @let_go({em.word(place).text})")
