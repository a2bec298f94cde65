"""Helpers that wait in native code. In: memory of each helper's own. Out: parts they take, microseconds after a call.

A thread that sleeps in Python needs the GIL when it wakes. A helper stays in native code instead: it looks at a word
until that says there is work, for a while if work follows work, then sleeps on a semaphore (where there are none, it
goes back to Python). Whoever has work posts it to all helpers, wakes those that sleep, works itself, and takes back
what nobody has begun: so it never waits for a thread to wake.

The states of a helper, in its first word: AWAY (in Python), WAITING, CALLED (work is posted), BUSY (with that work),
ASLEEP. A helper changes AWAY to WAITING and back, WAITING to ASLEEP and back, CALLED to BUSY, BUSY to WAITING; the
caller changes AWAY, WAITING or ASLEEP to CALLED, and CALLED to AWAY. Its other words: whether it shall leave, on which
core it was (or, if it did not come, probably would have been: that of the caller), the code, operands and geometry of
what is posted, for how many spins to wait for more; then, in a cache line of its own, the semaphore.
"""

from __future__ import annotations

import ctypes
import struct
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from tilewise.backend import cores, threads
from tilewise.backend.llvm.call.call_table import by_address
from tilewise.backend.llvm.compile.build import native
from tilewise.backend.llvm.emit.control import each, word, word_at
from tilewise.backend.llvm.emit.text import Function
from tilewise.backend.threads import AWAY, CORE, LEAVE, SOON_S, STATE, WORDS
from tilewise.kernel.family import X86

WAITING, CALLED, BUSY, ASLEEP = 1, 2, 3, 4
CODE, OBJS, GEOM, TURNS, SEMAPHORE = 3, 4, 5, 6, 8  # words of what is posted
SLEEPS = cores.LINUX  # in native code
STAY, GO = struct.pack("<q", SLEEPS), struct.pack("<q", 0)  # after so many spins
SAMPLE = 1000  # spins that are timed, to set how many a helper waits


def _changed(fn: Function, at: str, old: int, new: int) -> str:
    """Whether a word was one value and is another now."""
    both = fn.let(f"cmpxchg ptr {at}, i64 {old}, i64 {new} acq_rel acquire")
    return fn.let(f"extractvalue {{ i64, i1 }} {both}, 1")


def pause(fn: Function) -> None:
    """Tell the core that a thread waits."""
    if X86:
        fn.declares.add("declare void @llvm.x86.sse2.pause()")
        fn.do("call void @llvm.x86.sse2.pause()")


def _semaphore(fn: Function, what: str, words: str) -> str:
    """Call a function of a helper's semaphore."""
    fn.declares.add(f"declare i32 @{what}(ptr)")
    return fn.let(f"call i32 @{what}(ptr {word_at(fn, words, SEMAPHORE)})")


def _note_core(fn: Function, words: str) -> None:
    """Note in the words of a helper on which core this thread is."""
    fn.declares.add("declare i32 @sched_getcpu()")
    core = fn.let(f"sext i32 {fn.let('call i32 @sched_getcpu()')} to i64")
    fn.do(f"store i64 {core}, ptr {word_at(fn, words, CORE)}, align 8")


def _branch(fn: Function, condition: str, yes: str, no: str) -> None:
    fn.do(f"br i1 {condition}, label %{yes}, label %{no}")


def build_wait(name: str) -> Function:
    """For a helper: work, whenever there is some; sleep after some spins without, or leave (word at geom: STAY, GO)."""
    fn = Function(name, "ptr %objs, ptr %geom")
    stays, left = word(fn, "%geom", 0), fn.hoist("alloca i64, align 8")
    state, leave = word_at(fn, "%objs", STATE), word_at(fn, "%objs", LEAVE)
    names = "drain anew look called work idle back turn tired doze sleep ends missed over".split()
    drain, anew, look, called, work, idle, back, turn, tired, doze, sleep, ends, missed, over = map(fn.fresh, names)
    fn.do(f"br label %{drain if SLEEPS else anew}")

    if SLEEPS:
        fn.label(drain)  # of wakes that it was up for
        _branch(fn, fn.let(f"icmp eq i32 {_semaphore(fn, 'sem_trywait', '%objs')}, 0"), drain, anew)

    fn.label(anew)
    fn.do(f"store i64 {word(fn, '%objs', TURNS)}, ptr {left}, align 8")
    fn.do(f"br label %{look}")

    fn.label(look)
    found = fn.let(f"load atomic i64, ptr {state} acquire, align 8")
    _branch(fn, fn.let(f"icmp eq i64 {found}, {CALLED}"), called, idle)

    fn.label(called)
    _branch(fn, _changed(fn, state, CALLED, BUSY), work, look)

    fn.label(work)
    if SLEEPS:
        _note_core(fn, "%objs")
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
    pause(fn)
    asked = fn.let(f"load atomic i64, ptr {leave} monotonic, align 8")
    _branch(fn, fn.let(f"icmp ne i64 {asked}, 0"), ends, tired)

    fn.label(tired)
    _branch(fn, fn.let(f"icmp slt i64 {now}, 0"), doze, look)

    fn.label(doze)
    _branch(fn, fn.let(f"icmp ne i64 {stays}, 0"), sleep, ends)

    fn.label(sleep)
    if SLEEPS:
        sleeps = fn.fresh("sleeps")
        _branch(fn, _changed(fn, state, WAITING, ASLEEP), sleeps, look)
        fn.label(sleeps)
        _semaphore(fn, "sem_wait", "%objs")
        _changed(fn, state, ASLEEP, WAITING)
    fn.do(f"br label %{look}")

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
        words = word(fn, helpers, k, "ptr")
        was = fn.let(f"atomicrmw xchg ptr {words}, i64 {CALLED} acq_rel, align 8")
        if SLEEPS:
            wake, up = fn.fresh("wake"), fn.fresh("up")
            _branch(fn, fn.let(f"icmp eq i64 {was}, {ASLEEP}"), wake, up)
            fn.label(wake)
            _semaphore(fn, "sem_post", words)
            fn.do(f"br label %{up}")
            fn.label(up)

    def end(k: str) -> None:
        words = word(fn, helpers, k, "ptr")
        back, wait, after = fn.fresh("back"), fn.fresh("wait"), fn.fresh("after")
        _branch(fn, _changed(fn, words, CALLED, AWAY), back, wait)
        fn.label(back)
        if SLEEPS:
            _note_core(fn, words)
        fn.do(f"br label %{after}")
        fn.label(wait)
        pause(fn)
        found = fn.let(f"load atomic i64, ptr {words} acquire, align 8")
        _branch(fn, fn.let(f"icmp eq i64 {found}, {BUSY}"), wait, after)
        fn.label(after)

    each(fn, "0", count, "1", post)
    fn.do(f"call void {code}(ptr {operands}, ptr {geometry})")
    each(fn, "0", count, "1", end)
    return fn


@cache
def _waiting() -> tuple[Callable[[int | bytes, int | bytes], None], int]:
    """The function for helpers, and for how many spins they wait."""
    wait = by_address(native("wait to be called", build_wait))
    words, taken = np.zeros(WORDS, np.int64), []
    for _ in range(3):
        words[STATE], words[TURNS] = AWAY, SAMPLE
        began = time.perf_counter()
        wait(words.ctypes.data, GO)
        taken.append(time.perf_counter() - began)
    return wait, int(SAMPLE * SOON_S / min(taken))


@cache
def _calling() -> Callable[[int | bytes, int | bytes], None]:
    """The function for the caller."""
    return by_address(native("call helpers", build_call))


@cache
def _calling_code() -> int:
    """Where the code for the caller is."""
    code: Any = native("call helpers", build_call)
    return ctypes.cast(code, ctypes.c_void_p).value or 0


def ask() -> None:
    """Ask for what `prepare` makes, within `build.asking`."""
    native("wait to be called", build_wait)
    native("call helpers", build_call)


def prepare() -> None:
    """Make the code here and now: a helper that could not would be gone, and who waits for it would wait for ever."""
    _waiting(), _calling()


@cache
def _process() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def serve(place: int) -> None:
    """Do what is posted, as the helper whose words are there."""
    _waiting()[0](place, STAY)


def rouse(place: int) -> None:
    """Wake the helper whose words are there, if it sleeps."""
    if SLEEPS:
        _process().sem_post(ctypes.c_void_p(place + SEMAPHORE * 8))


def together(helpers: Sequence[threads.Helper], code: int, operands: int, own: Sequence[int]) -> None:
    """Call code of (operands, own[0]) here, and of (operands, own[1]), … on those helpers that come in time.

    There may be fewer than were counted on: somebody has just set another number of threads.
    """
    words = struct.pack(f"<{4 + len(helpers)}q", len(helpers), code, operands, own[0], *[h.place for h in helpers])
    turns = _waiting()[1]
    for helper, geometry in zip(helpers, own[1:], strict=False):
        helper.view[CODE], helper.view[OBJS], helper.view[GEOM] = code, operands, geometry
        helper.view[TURNS] = turns if helper.waits else 0
    _calling()(words, b"")


def posting(helpers: Sequence[threads.Helper]) -> bytes:
    """What native code needs to post work to helpers itself: their number, the code that calls them, their places."""
    turns = _waiting()[1]
    for helper in helpers:
        helper.view[TURNS] = turns if helper.waits else 0
    return struct.pack(f"<{2 + len(helpers)}q", len(helpers), _calling_code(), *[h.place for h in helpers])


threads.set_native(serve, rouse)
