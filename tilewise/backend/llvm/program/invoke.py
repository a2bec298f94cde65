"""Functions of a program that call themselves or each other. In: an emitter, a program's functions. Out: IR.

They are called as programs are, with two blocks of words; arrays come as the words of their variables. Before the
arguments stand the words of `layout.ENVIRONMENT`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewise.backend.llvm.emit.text import Val
from tilewise.backend.llvm.program import host, layout, memory
from tilewise.backend.llvm.program.environment import environment
from tilewise.kernel.program.ir import Invoke, Program

if TYPE_CHECKING:
    from tilewise.backend.llvm.program.emit import Emitter


def add(em: Emitter, k: int, p: Program) -> None:
    """The code of function k, beside that of the program."""
    inner = type(em)(p, f"function{k}", em).run()
    em.scopes.next = inner_next(inner.metadata, em.scopes.next)
    inner.head = inner.head.replace("define void", "define internal void", 1)
    em.fn.helpers.update(inner.helpers)
    inner.helpers = {}
    em.fn.helpers[f"function{k}"] = inner.text()
    em.fn.declares |= inner.declares
    em.fn.metadata += inner.metadata


def inner_next(metadata: list[str], first: int) -> int:
    """The first number after those of notes."""
    return max([first, *(int(line[1:].partition(" ")[0]) + 1 for line in metadata)])


def arguments(em: Emitter) -> None:
    """Take the arguments of a function apart."""
    fn, at = em.fn, layout.ENVIRONMENT
    for p in em.p.params:
        word = fn.let(f"getelementptr i64, ptr %objs, i64 {at}")
        if p.array is None:
            memory.number_from(em, p.name, p.dtype, word)
        else:
            memory.copy_words(em, p.name, word)
        at += layout.array_words(p.array.rank) if p.array is not None else 2 if p.dtype == "complex128" else 1


def call(em: Emitter, s: Invoke) -> None:
    """IR for a call: what goes in, the call, what comes out, or the way out."""
    fn, main = em.fn, em.main or em
    words = sum(host.words_of(em.p, v) for v in s.inputs) + layout.ENVIRONMENT
    given = fn.hoist(f"alloca [{words} x i64], align 16")
    most = max((sum(host.words_of(em.p, v) for v in r) for r in s.results), default=0)
    out = fn.hoist(f"alloca [{layout.RESULTS + most} x i64], align 16")
    depth = environment(em, layout.DEPTH)
    em.fail_if(depth.cmp("slt", 1), s.deep)
    here = Val(fn, fn.let(f"ptrtoint ptr {given} to i64"), "i64", 1)
    first = environment(em, layout.FIRST_FRAME) if em.main is not None else here
    em.fail_if((first - here).cmp("sgt", layout.STACK_BYTES), s.stack)
    for k, v in ((layout.HOST_ADDRESS, environment(em, layout.HOST_ADDRESS)), (layout.DEPTH, depth - 1),
                 (layout.FIRST_FRAME, first)):  # fmt: skip
        em.put(_at(em, given, k), v)
    at = layout.ENVIRONMENT
    for x in s.inputs:
        place = _at(em, given, at)
        memory.hand_array(em, x, place) if isinstance(x, str) else memory.hand_number(em, em.e(x), place)
        at += host.words_of(em.p, x)
    for k in range(layout.BLAS, layout.TEAM):
        em.put(_at(em, out, k), em.word(em.out(k)))
    fn.do(f"call void @function{s.function}(ptr {given}, ptr {out})")
    if em.reruns and em.scopes.touches(s, main.p.functions):
        em.put(em.written, em.word(em.written) | em.word(_at(em, out, layout.WRITTEN)))
    _pass_on(em, out)
    which = em.word(_at(em, out, layout.WHICH))
    em.put(em.names[s.which], which)
    after = fn.fresh("taken")
    for k, names in enumerate(s.results):
        mine, other = fn.fresh("result"), fn.fresh("other")
        if len(s.results) > 1:
            fn.do(f"br i1 {which.cmp('eq', k).name}, label %{mine}, label %{other}")
            fn.label(mine)
        at = layout.RESULTS
        for name in names:
            place = _at(em, out, at)
            if name in em.p.arrays:
                memory.take_array(em, name, place)
            else:
                memory.number_from(em, name, em.p.names[name], place)
            at += host.words_of(em.p, name)
        if len(s.results) > 1:
            em.jump(after)
            fn.label(other)
    em.jump(after)
    fn.label(after)
    assert main.p.functions


def _at(em: Emitter, block: str, k: int) -> str:
    return em.fn.let(f"getelementptr i64, ptr {block}, i64 {k}")


def _pass_on(em: Emitter, out: str) -> None:
    """Leave with the fault that a function has left with."""
    fn, good, wrong = em.fn, em.fn.fresh("good"), em.fn.fresh("wrong")
    failed = em.word(_at(em, out, layout.STATUS)).cmp("ne", layout.RETURNED)
    fn.do(f"br i1 {failed.name}, label %{wrong}, label %{good}, !prof !{em.scopes.unlikely}")
    fn.label(wrong)
    fn.declares.add("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
    fn.do(f"call void @llvm.memcpy.p0.p0.i64(ptr %out, ptr {out}, i64 {8 * layout.POLL}, i1 false)")
    if em.reruns:
        em.put(em.out(layout.WRITTEN), em.word(em.written))
    em.jump(em.exit)
    fn.label(good)
