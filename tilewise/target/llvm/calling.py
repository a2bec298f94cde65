"""Helpers that wait in native code. In: memory of each helper's own. Out: parts they take, microseconds after a call.

Waking a thread that sleeps takes 30 to 90 us, and then it needs the GIL. Where work follows work, a helper waits for it
without either: it looks at a word until that says there is some. Whoever has work posts it to all helpers, asleep or
not, works itself, and takes back what nobody has begun: so it never waits for a thread to wake.

The states of a helper, in its first word: AWAY (not looking), WAITING, CALLED (work is posted), BUSY (with that work).
A helper changes AWAY to WAITING and back, CALLED to BUSY, BUSY to WAITING; the caller changes AWAY or WAITING to
CALLED, and CALLED to AWAY. Its other words: whether it shall leave, then the code, operands and geometry of what is
posted.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from tilewise.kernel.family import X86
from tilewise.target import threads
from tilewise.target.llvm.build import native
from tilewise.target.llvm.control import each, word, word_at
from tilewise.target.llvm.drive import by_address
from tilewise.target.llvm.text import Function
from tilewise.target.threads import AWAY, LEAVE, SOON_S, STATE

WAITING, CALLED, BUSY = 1, 2, 3
CODE, OBJS, GEOM = 2, 3, 4  # words of what is posted
NO_TURNS = struct.pack("<q", 0)
SAMPLE = 1000  # turns of waiting, whose time says how many these are
_let_others_go_on: Callable[[], None] = getattr(os, "sched_yield", lambda: None)


def _changed(fn: Function, at: str, old: int, new: int) -> str:
    """Whether a word was one value and is another now."""
    both = fn.let(f"cmpxchg ptr {at}, i64 {old}, i64 {new} acq_rel acquire")
    return fn.let(f"extractvalue {{ i64, i1 }} {both}, 1")


def _pause(fn: Function) -> None:
    """Tell the core that a thread waits."""
    if X86:
        fn.declares.add("declare void @llvm.x86.sse2.pause()")
        fn.do("call void @llvm.x86.sse2.pause()")


def _branch(fn: Function, condition: str, yes: str, no: str) -> None:
    fn.do(f"br i1 {condition}, label %{yes}, label %{no}")


def build_wait(name: str) -> Function:
    """For a helper: work, as long as there is some within so many turns (the word at geom) of waiting for it."""
    fn = Function(name, "ptr %objs, ptr %geom")
    turns, left = word(fn, "%geom", 0), fn.hoist("alloca i64, align 8")
    state, leave = word_at(fn, "%objs", STATE), word_at(fn, "%objs", LEAVE)
    names = "anew look called work idle back turn ends missed over".split()
    anew, look, called, work, idle, back, turn, ends, missed, over = map(fn.fresh, names)
    fn.do(f"br label %{anew}")

    fn.label(anew)
    fn.do(f"store i64 {turns}, ptr {left}, align 8")
    fn.do(f"br label %{look}")

    fn.label(look)
    found = fn.let(f"load atomic i64, ptr {state} acquire, align 8")
    _branch(fn, fn.let(f"icmp eq i64 {found}, {CALLED}"), called, idle)

    fn.label(called)
    _branch(fn, _changed(fn, state, CALLED, BUSY), work, look)

    fn.label(work)
    code, operands, geometry = (word(fn, "%objs", k, "ptr") for k in (CODE, OBJS, GEOM))
    fn.do(f"call void {code}(ptr {operands}, ptr {geometry})")
    fn.do(f"store atomic i64 {WAITING}, ptr {state} release, align 8")
    fn.do(f"br label %{anew}")

    fn.label(idle)
    _branch(fn, fn.let(f"icmp eq i64 {found}, {AWAY}"), back, turn)

    fn.label(back)
    _changed(fn, state, AWAY, WAITING)
    fn.do(f"br label %{turn}")

    fn.label(turn)
    now = fn.let(f"sub i64 {word(fn, left, 0)}, 1")
    fn.do(f"store i64 {now}, ptr {left}, align 8")
    _pause(fn)
    asked = fn.let(f"load atomic i64, ptr {leave} monotonic, align 8")
    end = fn.let(f"or i1 {fn.let(f'icmp slt i64 {now}, 0')}, {fn.let(f'icmp ne i64 {asked}, 0')}")
    _branch(fn, end, ends, look)

    fn.label(ends)
    _branch(fn, _changed(fn, state, WAITING, AWAY), over, missed)

    fn.label(missed)  # it was called just now; or what it was called for has been taken back
    latest = fn.let(f"load atomic i64, ptr {state} acquire, align 8")
    _branch(fn, fn.let(f"icmp eq i64 {latest}, {CALLED}"), look, over)

    fn.label(over)
    return fn


def build_call(name: str) -> Function:
    """For the caller: post work to helpers, work, see them through. Words: their number, code, operands, geometry,
    then where each helper's words are."""
    fn = Function(name, "ptr %objs, ptr %geom")
    count, code = word(fn, "%objs", 0), word(fn, "%objs", 1, "ptr")
    operands, geometry = (word(fn, "%objs", k, "ptr") for k in (2, 3))
    helpers = word_at(fn, "%objs", 4)

    def post(k: str) -> None:
        fn.let(f"atomicrmw xchg ptr {word(fn, helpers, k, 'ptr')}, i64 {CALLED} acq_rel, align 8")

    def end(k: str) -> None:
        state = word(fn, helpers, k, "ptr")
        wait, after = fn.fresh("wait"), fn.fresh("after")
        _branch(fn, _changed(fn, state, CALLED, AWAY), after, wait)
        fn.label(wait)
        _pause(fn)
        found = fn.let(f"load atomic i64, ptr {state} acquire, align 8")
        _branch(fn, fn.let(f"icmp eq i64 {found}, {BUSY}"), wait, after)
        fn.label(after)

    each(fn, "0", count, "1", post)
    fn.do(f"call void {code}(ptr {operands}, ptr {geometry})")
    each(fn, "0", count, "1", end)
    return fn


@cache
def _waiting() -> tuple[Callable[[int, int | bytes], None], bytes]:
    """The function for helpers, and how many turns it waits."""
    wait = by_address(native("wait to be called", build_wait))
    place, taken = np.zeros(GEOM + 1, np.int64).ctypes, []
    for _ in range(3):
        began = time.perf_counter()
        wait(place.data, struct.pack("<q", SAMPLE))
        taken.append(time.perf_counter() - began)
    return wait, struct.pack("<q", int(SAMPLE * SOON_S / min(taken)))


@cache
def _calling() -> Callable[[int, int | bytes], None]:
    """The function for the caller."""
    return by_address(native("call helpers", build_call))


def prepare() -> None:
    """Make the code here and now: a helper that could not would be gone, and who waits for it would wait for ever."""
    _waiting(), _calling()


def serve(place: int, more: bool) -> None:
    """Do what is posted, as the helper whose words are there; wait for more for a while."""
    wait, turns = _waiting()
    # Where other programs have the cores, it wakes on that of the caller, who is about to post the work.
    _let_others_go_on()
    wait(place, turns if more else NO_TURNS)


def together(helpers: Sequence[threads.Helper], code: int, operands: int, own: Sequence[int]) -> None:
    """Call code of (operands, own[0]) here, and of (operands, own[1]), … on those helpers that come in time.

    There may be fewer than were counted on: somebody has just set another number of threads.
    """
    words = np.array([len(helpers), code, operands, own[0], *[h.place for h in helpers]], np.int64)
    for helper, geometry in zip(helpers, own[1:], strict=False):
        helper.view[CODE], helper.view[OBJS], helper.view[GEOM] = code, operands, geometry
    _calling()(words.ctypes.data, b"")


threads.set_serve(serve)
