"""Loops on several threads. In: a loop that is marked as parallel. Out: a function of a range of its iterations.

The function reads what the loop needs from a block of words, and takes chunks of iterations until there are none. If
the work is worth it, helpers run the function too (team.py); iterations do not need each other, so the bits are the
same however many come. Where one fails, all stop, and the loop runs again from its start, here and in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tilewise.backend.llvm.call.helpers import CODE, GEOM, OBJS
from tilewise.backend.llvm.emit.text import Function, Val, vtype
from tilewise.backend.llvm.math import scalar
from tilewise.backend.llvm.program import layout, poll
from tilewise.backend.llvm.program.loops import loop_cost
from tilewise.kernel.program.ir import For, Program, View
from tilewise.kernel.program.walk import arrays_set, arrays_used, names_read, names_set, size, statements

if TYPE_CHECKING:
    from tilewise.backend.llvm.program.emit import Emitter, Slots

CHUNKS = 32  # at most 64: those that somebody has taken are bits of a word
TAKEN, MANY, COUNT, START, TOUCHED, FAILED, THREADS, FIRST = range(8)  # words of a block
MOST_HELPERS = 63
ROUND = 1 << 25  # units of work that are never divided, some 10 ms on two threads
SHORT = 20  # statements of an innermost loop inside of others that is emitted again, for where it is not worth threads
ALL = -1  # chunks are taken, where one has failed
NONE = 1  # in place of an address: there are no helpers


def used(program: Program) -> bool:
    """Whether a program has such loops."""
    return any(isinstance(s, For) and s.parallel for s in statements(program.body))


def emit(em: Emitter, s: For, start: Val, stop: Val, step: Val) -> None:
    """The loop, by a function of its iterations."""
    count = em.trips(s, start, stop, step)
    code, block = _outlined(em, s)
    fn, kept = em.fn, s.kept  # numbers that are read later are those of the last iteration, which then runs here
    here = (
        kept
        or s.restarts
        or (em.nested > 0 and size(s.body) <= SHORT and (not poll.has_loops(s.body) or poll.only_short(s.body)))
    )
    if not here:
        _filled(em, s, block)
    shared, alone, after = fn.fresh("shared"), fn.fresh("alone"), fn.fresh("after")
    cost = loop_cost.of_iteration(em, s, start, count, step)
    work = loop_cost.of_all(s, count, cost)
    if em.patience is not None and em.nested and not here:  # nobody counts in there
        em.put(em.patience, em.word(em.patience) - work.intrinsic("smin", poll.PART))
    worth = count.cmp("sgt", 1) & work.cmp("sgt", em.word(em.out(layout.WORTH)))
    fn.do(f"br i1 {worth.name}, label %{shared}, label %{alone}, !prof !{em.scopes.unlikely}")
    before = fn.block
    fn.label(shared)
    team = _team(em)
    have = team.cmp("ugt", NONE)
    go = fn.fresh("go")
    fn.do(f"br i1 {have.name}, label %{go}, label %{alone}")
    asked = fn.block
    fn.label(go)
    if here:
        _filled(em, s, block)
    most = count - 1 if kept else count
    fn.helpers["share"] = _SHARE
    run = f"call void @share({team.text}, ptr {code}, ptr {block})"
    failed = _rounds(em, block, start, step, most, cost, run, failed=alone if s.restarts else None)
    for at, name in enumerate(s.sums, FIRST):
        em.put(em.names[name], em.word(_word(fn, block, at)))
    last = start + most * step
    went = fn.block
    em.jump(alone if kept else after)
    fn.label(alone)
    if kept:
        ways = f"[ {start.name}, %{before} ], [ {start.name}, %{asked} ], [ {last.name}, %{went} ]"
        ways += f", [ {start.name}, %{failed} ]" if failed is not None else ""
        em.for_(s, start.make(f"phi i64 {ways}"), stop, step)
    elif here:
        em.for_(s, start, stop, step)
    else:
        _rounds(em, block, start, step, count, cost, f"call void {code}(ptr {block}, ptr null)", chunks=1)
    em.jump(after)
    fn.label(after)


def _rounds(
    em: Emitter,
    block: str,
    start: Val,
    step: Val,
    most: Val,
    cost: Val,
    run: str,
    chunks: int = CHUNKS,
    failed: str | None = None,
) -> str | None:
    """All iterations; of a long loop so many at a time as may pass between two questions to Python (poll.py).

    `failed` is where to go if one has failed. Out: the block from where.
    """
    fn = em.fn
    if em.patience is None:
        _ranged(em, block, start, most, most.intrinsic("smin", chunks))
        fn.do(run)
        _note_written(em, block)
        return _look(em, block, failed)
    done, head, again, over = fn.hoist("alloca i64"), fn.fresh("round"), fn.fresh("again"), fn.fresh("over")
    em.put(done, em.number(0))
    em.jump(head)
    fn.label(head)
    before = em.word(done)
    units = em.word(em.patience).intrinsic("smax", ROUND)
    some = (most - before).intrinsic("smin", units.op("sdiv", cost.intrinsic("smax", 1)).intrinsic("smax", CHUNKS))
    _ranged(em, block, start + before * step, some, some.intrinsic("smin", chunks))
    fn.do(run)
    _note_written(em, block)
    left = _look(em, block, failed)
    em.put(done, before + some)
    more = (before + some).cmp("slt", most)
    fn.do(f"br i1 {more.name}, label %{again}, label %{over}, !prof !{em.scopes.unlikely}")
    fn.label(again)
    em.put(em.patience, em.word(em.patience) - some * cost)
    poll.ask(em, 0)
    em.jump(head)
    fn.label(over)
    return left


def _look(em: Emitter, block: str, failed: str | None) -> str | None:
    """Go elsewhere if an iteration has failed."""
    if failed is None:
        return None
    fn = em.fn
    good, here = fn.fresh("good"), fn.block
    bad = em.word(_word(fn, block, FAILED)).cmp("ne", 0)
    fn.do(f"br i1 {bad.name}, label %{failed}, label %{good}, !prof !{em.scopes.unlikely}")
    fn.label(good)
    return here


def fail(em: Emitter) -> None:
    """In the function of a loop: an iteration fails, and no more are begun."""
    fn = em.fn
    for at, value in ((FAILED, 1), (TAKEN, ALL)):
        fn.do(f"store atomic i64 {value}, ptr {_word(fn, '%block', at)} monotonic, align 8")
    em.jump(em.exit)


def _add_part(em: Emitter, place: str, part: Val) -> None:
    """Add a thread's part of a sum to what others have added; the loop fails if that overflows."""
    fn = em.fn
    fn.helpers["add_part"] = _ADD_PART
    fn.declares.add("declare { i64, i1 } @llvm.sadd.with.overflow.i64(i64, i64)")
    over = Val(fn, fn.let(f"call i1 @add_part(ptr {place}, {part.text})"), "i1", 1).convert("zext", "i64")
    failed = _word(fn, "%block", FAILED)
    fn.do(f"atomicrmw or ptr {failed}, {over.text} monotonic, align 8")


def _team(em: Emitter) -> Val:
    """Where helpers are, or NONE; asked for once in a call."""
    fn = em.fn
    known = em.word(em.team)
    ask, have = fn.fresh("ask"), fn.fresh("have")
    before = fn.block
    fn.do(f"br i1 {known.cmp('eq', 0).name}, label %{ask}, label %{have}")
    fn.label(ask)
    claim = fn.let(f"load ptr, ptr {em.out(layout.CLAIM)}")
    answer = Val(fn, fn.let(f"call i64 {claim}()"), "i64", 1).intrinsic("umax", NONE)
    em.put(em.team, answer)
    asked = fn.block
    em.jump(have)
    fn.label(have)
    return known.make(f"phi i64 [ {known.name}, %{before} ], [ {answer.name}, %{asked} ]")


def release(em: Emitter) -> None:
    """At the end of the program: let helpers go."""
    fn = em.fn
    go, over = fn.fresh("letgo"), fn.fresh("over")
    fn.do(f"br i1 {em.word(em.team).cmp('ugt', NONE).name}, label %{go}, label %{over}")
    fn.label(go)
    fn.do(f"call void {fn.let(f'load ptr, ptr {em.out(layout.RELEASE)}')}()")
    em.jump(over)
    fn.label(over)


# -- the block of words ----------------------------------------------------------------------------------------------


def _given(em: Emitter, s: For) -> tuple[list[str], list[str]]:
    """Numbers and arrays that a loop takes from outside."""
    every = list(statements((s,)))
    names = {n for x in every for n in names_read(x)} - names_set((s,))
    arrays = {a for x in every for a in arrays_used(x)} - arrays_set(s.body)
    return sorted(names), sorted(arrays)


def _size(em: Emitter, s: For) -> int:
    names, arrays = _given(em, s)
    return FIRST + len(s.sums) + 2 * len(names) + sum(layout.array_words(em.p.arrays[a].rank) for a in arrays)


def _ranged(em: Emitter, block: str, start: Val, count: Val, chunks: Val) -> None:
    """Say which iterations there are to do."""
    fn = em.fn
    for at, v in ((TAKEN, em.number(0)), (MANY, chunks), (COUNT, count), (START, start), (TOUCHED, em.number(0))):
        em.put(_word(fn, block, at), v)


def _filled(em: Emitter, s: For, block: str) -> None:
    """Write down what the loop takes from outside."""
    fn, at = em.fn, FIRST + len(s.sums)
    em.put(_word(fn, block, FAILED), em.number(0))
    em.put(_word(fn, block, THREADS), em.number(1))
    for k, name in enumerate(s.sums, FIRST):
        em.put(_word(fn, block, k), em.word(em.names[name]))
    names, arrays = _given(em, s)
    for n in names:
        ty = vtype(scalar.IR_TYPE[em.p.names[n]], 1)
        fn.do(f"store {ty} {fn.let(f'load {ty}, ptr {em.names[n]}')}, ptr {_word(fn, block, at)}")
        at += 2
    for a in arrays:
        slots = em.arrays[a]
        fn.do(f"store ptr {fn.let(f'load ptr, ptr {slots.data}')}, ptr {_word(fn, block, at)}")
        for k, place in _fields(s, slots):
            em.put(_word(fn, block, at + k), em.word(place))
        at += layout.array_words(em.p.arrays[a].rank)


def _fields(s: For, slots: Slots) -> list[tuple[int, str]]:
    """The numbered words of an array that a loop may look at: who owns its memory only where views are made."""
    views = any(isinstance(x, View) for x in statements(s.body))
    every = list(enumerate((slots.base, slots.ident, *slots.dims, *slots.strides), 1))
    return every if views else every[2:]


def _word(fn: Function, block: str, at: int) -> str:
    return fn.let(f"getelementptr i64, ptr {block}, i64 {at}")


def _note_written(em: Emitter, block: str) -> None:
    if em.reruns:
        em.put(em.written, em.word(em.written) | em.word(_word(em.fn, block, TOUCHED)))


# -- the function ----------------------------------------------------------------------------------------------------


def _outlined(em: Emitter, s: For) -> tuple[str, str]:
    """The function of a loop's iterations, and memory for its words."""
    outer = em.fn
    block = outer.hoist(f"alloca [{_size(em, s)} x i64], align 16")
    around = outer.head.partition("@")[2].partition("(")[0]  # parts of a program count for themselves (outline.py)
    name = f"{around}.{outer.fresh('iterations')}"
    with _inside(em, s, name) as fn:
        _taken(em, s)
        fn.do(f"store i64 0, ptr {em.written}")
        chunks, count, start = (em.word(_word(fn, "%block", at)) for at in (MANY, COUNT, START))
        more, over = fn.fresh("more"), fn.fresh("over")
        step = fn.hoist("alloca i64, align 8")
        em.put(step, em.number(0))
        em.jump(more)
        fn.label(more)
        chunk = _next_chunk(em, step, chunks, over)
        above = chunks - chunk  # from the last on: if a loop were marked by mistake, tests would see it
        ends = [(c * count).op("udiv", chunks) for c in (above - 1, above)]
        em.iterations(s, start, *ends)
        em.jump(more)
        fn.label(over)
        for at, n in enumerate(s.sums, FIRST):
            _add_part(em, _word(fn, "%block", at), em.word(em.names[n]))
        if em.reruns:
            touched, end = fn.fresh("touched"), fn.fresh("end")
            fn.do(f"br i1 {em.word(em.written).cmp('ne', 0).name}, label %{touched}, label %{end}")
            fn.label(touched)
            fn.do(f"store atomic i64 1, ptr {_word(fn, '%block', TOUCHED)} monotonic, align 8")
            em.jump(end)
            fn.label(end)
        if s.restarts:
            em.jump(em.exit)
            for lines in em.late:
                fn.lines += lines
            fn.label(em.exit)
    outer.helpers[name] = fn.text()
    return f"@{name}", block


def _next_chunk(em: Emitter, step: str, chunks: Val, over: str) -> Val:
    """A chunk that nobody has taken; go to `over` if there is none.

    A thread begins at its own part of them, so that it comes to the same elements in every loop over some arrays.
    """
    fn = em.fn
    number = Val(fn, fn.let("ptrtoint ptr %own to i64"), "i64", 1)
    first = (number * chunks).op("udiv", em.word(_word(fn, "%block", THREADS)))
    ask, look, take, free = fn.fresh("ask"), fn.fresh("look"), fn.fresh("take"), fn.fresh("free")
    taken = _word(fn, "%block", TAKEN)
    em.jump(ask)
    fn.label(ask)
    at = em.word(step)
    fn.do(f"br i1 {at.cmp('slt', chunks).name}, label %{look}, label %{over}")
    fn.label(look)
    em.put(step, at + 1)
    place = first + at
    chunk = place.cmp("sge", chunks).select(place - chunks, place)
    bit = em.number(1).op("shl", chunk)
    seen = Val(fn, fn.let(f"load atomic i64, ptr {taken} monotonic, align 8"), "i64", 1)
    fn.do(f"br i1 {(seen & bit).cmp('eq', 0).name}, label %{take}, label %{ask}")
    fn.label(take)
    before = Val(fn, fn.let(f"atomicrmw or ptr {taken}, {bit.text} monotonic, align 8"), "i64", 1)
    fn.do(f"br i1 {(before & bit).cmp('eq', 0).name}, label %{free}, label %{ask}")
    fn.label(free)
    return chunk


@contextmanager
def _inside(em: Emitter, s: For, name: str) -> Iterator[Function]:
    """What is emitted inside is another function."""
    kept = em.fn, em.names, em.arrays, em.written, em.late, em.labels, em.frame, em.patience, em.exit
    fn = em.fn = Function(name, "ptr noalias %block, ptr %own")
    fn.head = fn.head.replace("define void", "define internal void").replace(" #0", " noinline #0")
    fn.metadata, fn.declares = kept[0].metadata, kept[0].declares
    fn.avx512, fn.pooling = kept[0].avx512, kept[0].pooling
    em.scopes.fn = fn
    every = list(statements((s,)))
    names = {n for x in every for n in names_read(x)} | names_set((s,))
    arrays = {a for x in every for a in arrays_used(x)} | arrays_set(s.body)
    em.names = {n: fn.hoist(f"alloca {vtype(scalar.IR_TYPE[em.p.names[n]], 1)}") for n in sorted(names)}
    em.arrays = {a: em.slots(em.p.arrays[a].rank) for a in sorted(arrays)}
    for a in arrays_set(s.body):  # arrays of an iteration lie on the stack: nobody counts who holds them
        em.put(em.arrays[a].base, em.number(0))
    em.written, em.late, em.labels, em.frame = fn.hoist("alloca i64"), [], {}, None
    em.patience, em.exit = None, fn.fresh("exit")
    em.within += 1
    yield fn
    assert s.restarts or not em.late, "a loop that may fail and cannot be run again is not parallel"
    kept[0].helpers.update(fn.helpers)
    fn.helpers = {}
    em.within -= 1
    em.fn, em.names, em.arrays, em.written, em.late, em.labels, em.frame, em.patience, em.exit = kept
    em.scopes.fn = em.fn


def _taken(em: Emitter, s: For) -> None:
    """Read what the loop needs; sums begin at zero in each thread."""
    fn, at = em.fn, FIRST + len(s.sums)
    for name in s.sums:
        em.put(em.names[name], em.number(0))
    names, arrays = _given(em, s)
    for n in names:
        ty = vtype(scalar.IR_TYPE[em.p.names[n]], 1)
        place = _word(fn, "%block", at)
        fn.do(f"store {ty} {fn.let(f'load {ty}, ptr {place}')}, ptr {em.names[n]}")
        at += 2
    for a in arrays:
        slots = em.arrays[a]
        first = _word(fn, "%block", at)
        fn.do(f"store ptr {fn.let(f'load ptr, ptr {first}')}, ptr {slots.data}")
        for k, place in _fields(s, slots):
            em.put(place, em.word(_word(fn, "%block", at + k)))
        for dim, length in zip(slots.dims, em.lengths.get(a, ()), strict=False):
            if length is not None:
                em.put(dim, em.number(length))
        at += layout.array_words(em.p.arrays[a].rank)


_ADD_PART = """define internal i1 @add_part(ptr %place, i64 %part) noinline {
entry:
  %first = load atomic i64, ptr %place monotonic, align 8
  br label %again
again:
  %seen = phi i64 [ %first, %entry ], [ %now, %again ]
  %both = call { i64, i1 } @llvm.sadd.with.overflow.i64(i64 %seen, i64 %part)
  %sum = extractvalue { i64, i1 } %both, 0
  %over = extractvalue { i64, i1 } %both, 1
  %pair = cmpxchg ptr %place, i64 %seen, i64 %sum monotonic monotonic
  %now = extractvalue { i64, i1 } %pair, 0
  %stored = extractvalue { i64, i1 } %pair, 1
  br i1 %stored, label %done, label %again
done:
  ret i1 %over
}"""


_SHARE = f"""define internal void @share(i64 %team, ptr %code, ptr %block) noinline {{
entry:
  %words = alloca [{MOST_HELPERS + 4} x i64], align 16
  %t = inttoptr i64 %team to ptr
  %found = load i64, ptr %t
  %count = call i64 @llvm.smin.i64(i64 %found, i64 {MOST_HELPERS})
  %w1 = getelementptr i64, ptr %words, i64 1
  %w2 = getelementptr i64, ptr %words, i64 2
  %w3 = getelementptr i64, ptr %words, i64 3
  store i64 %count, ptr %words
  store ptr %code, ptr %w1
  store ptr %block, ptr %w2
  store ptr null, ptr %w3
  %threads = add i64 %count, 1
  %wt = getelementptr i64, ptr %block, i64 {THREADS}
  store i64 %threads, ptr %wt
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %k1, %body ]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %body, label %over
body:
  %k1 = add i64 %k, 1
  %from = add i64 %k, 2
  %p = getelementptr i64, ptr %t, i64 %from
  %place = load ptr, ptr %p
  %to = add i64 %k, 4
  %q = getelementptr i64, ptr %words, i64 %to
  store ptr %place, ptr %q
  %c = getelementptr i64, ptr %place, i64 {CODE}
  store ptr %code, ptr %c
  %o = getelementptr i64, ptr %place, i64 {OBJS}
  store ptr %block, ptr %o
  %g = getelementptr i64, ptr %place, i64 {GEOM}
  %number = inttoptr i64 %k1 to ptr
  store ptr %number, ptr %g
  br label %head
over:
  %cp = getelementptr i64, ptr %t, i64 1
  %call = load ptr, ptr %cp
  call void %call(ptr %words, ptr null)
  ret void
}}"""
