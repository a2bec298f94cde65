"""Ctrl-C while a program runs. In: an emitter at the end of an iteration. Out: IR that asks Python now and then.

A variable counts down iterations of the loops inside; where it is used up, at the end of an iteration of a loop around
others or of a loop without a count, the code calls Python, which then runs the handlers of signals. The answer is how
many iterations may pass until the next time (about 50 ms), or 0: the program ends, as something was raised, here or in
another thread that works for the same launch.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewise.backend import threads
from tilewise.backend.llvm.emit.text import Val
from tilewise.backend.llvm.program import layout
from tilewise.kernel.program import raised
from tilewise.kernel.program.ir import Block, Const, For, Loop
from tilewise.kernel.program.walk import size, statements

if TYPE_CHECKING:
    from tilewise.backend.llvm.program.emit import Emitter

FIRST = 1 << 17  # iterations before the first question, some 0.1 ms
FIRST_OF_TASK = 1 << 20  # of one call of several on threads, which wait for each other when they ask
UNCOUNTED = 64  # what a loop is taken for whose iterations are not counted
FEW = 16
LIGHT = 20  # statements of such a loop
COPIES = 4  # of its body between two questions, where it has to ask
PART = 1 << 24  # iterations of a statement between two questions at the most, some 10 ms
SHORT, LONG = 0.02, 0.1  # seconds between two questions
FASTEST = 2e10  # iterations per second, with those that were taken for UNCOUNTED
MOST = 1 << 26  # iterations between two questions, should they take much longer than those before

_ASKED = ctypes.CFUNCTYPE(ctypes.c_int64)


def has_loops(block: Block) -> bool:
    """Whether there are loops in a block."""
    return any(isinstance(s, For | Loop) for s in statements(block))


def light(s: Loop) -> bool:
    """Whether counting would take a good part of a loop's time. Inside of others, such a loop does not ask."""
    return not has_loops(s.body) and size(s.body) <= LIGHT


def has_light(block: Block) -> bool:
    """Whether there are loops in a block whose iterations are not counted."""
    return any(isinstance(s, Loop) and light(s) for s in statements(block))


def short(s: For) -> bool:
    """Whether a loop has few iterations, so that it is enough if a loop around it asks."""
    ends = [e.value for e in (s.start, s.stop, s.step) if isinstance(e, Const)]
    return len(ends) == 3 and len(range(*ends)) <= FEW


def only_short(block: Block) -> bool:
    """Whether all loops in a block have few iterations."""
    return all(isinstance(s, For) and short(s) for s in statements(block) if isinstance(s, For | Loop))


def begin(em: Emitter) -> str | None:
    """The counter of a function; None: nobody asks (functions inside, which have no address to ask)."""
    if em.main is not None:
        return None
    place = em.fn.hoist("alloca i64")
    em.fn.do(f"store i64 {FIRST_OF_TASK if em.p.task else FIRST}, ptr {place}")
    return place


@dataclass(frozen=True)
class Parts:
    """A long loop without loops inside, which runs in parts."""

    head: str
    stop: Val  # of the part that is next


def parts(em: Emitter, counter: str, end: Val, by: int, statements: int) -> Parts | None:
    """At the head of a loop without loops inside: the end of its next part, which is the loop's unless it is long.

    Loops inside of others run in parts only in tasks: it takes a nanosecond or two each time such a loop starts.
    """
    if em.patience is None:
        return None
    i = em.word(counter)
    left = end - i if by > 0 else i - end
    if em.nested and not em.p.task:
        em.put(em.patience, em.word(em.patience) - left.intrinsic("smax", 0))
        return None
    head, many = em.fn.fresh("part"), max(FIRST, PART // max(1, statements))
    em.jump(head)
    em.fn.label(head)
    i = em.word(counter)
    left = end - i if by > 0 else i - end
    stop = left.cmp("sgt", many).select(i + many * by, end)
    em.put(em.patience, em.word(em.patience) - left.intrinsic("smin", many).intrinsic("smax", 0))
    return Parts(head, stop)


def next_part(em: Emitter, part: Parts, counter: str, end: Val, by: int) -> None:
    """Where a part is over: ask Python, if it is time, and go on with the next one."""
    fn, again, over = em.fn, em.fn.fresh("again"), em.fn.fresh("over")
    more = em.word(counter).cmp("slt" if by > 0 else "sgt", end)
    fn.do(f"br i1 {more.name}, label %{again}, label %{over}, !prof !{em.scopes.unlikely}")
    fn.label(again)
    ask(em, 0)
    em.jump(part.head)
    fn.label(over)


def ask(em: Emitter, used: int) -> None:
    """At the end of an iteration: ask Python, if it is time."""
    if em.patience is None:
        return
    fn = em.fn
    left = em.word(em.patience) - used
    em.put(em.patience, left)
    due, on, stop = fn.fresh("due"), fn.fresh("on"), fn.fresh("stop")
    fn.do(f"br i1 {left.cmp('sle', 0).name}, label %{due}, label %{on}, !prof !{em.scopes.unlikely}")
    kept, fn.lines = fn.lines, []
    fn.label(due)
    address = fn.let(f"load ptr, ptr {em.out(layout.POLL)}")
    more = em.number(fn.let(f"call i64 {address}() memory(inaccessiblemem: readwrite)"))
    em.put(em.patience, more)
    fn.do(f"br i1 {more.cmp('eq', 0).name}, label %{stop}, label %{on}")
    fn.label(stop)
    fn.do(f"store i64 {layout.INTERRUPTED}, ptr {em.out(layout.STATUS)}")
    em.jump(em.exit)
    em.late.append(fn.lines)
    fn.lines = kept
    fn.label(on)


class Poll:
    """What code asks, for one block of results (which is used by one call at a time)."""

    def __init__(self) -> None:
        answers = _answers()
        next(answers)
        # A generator goes on inside of its try: there handlers of signals run. A function would not be in it yet.
        self._function = _ASKED(answers.__next__)
        self.address = ctypes.cast(self._function, ctypes.c_void_p).value or 0


def _answers() -> Generator[int, None, None]:
    step, last = FIRST, time.perf_counter()
    while True:
        try:
            while True:  # handlers of signals run where a loop begins again, too: that must be inside of the try
                yield step
                now = time.perf_counter()
                passed, last = now - last, now
                if step == 0 or passed > 1:
                    step = FIRST
                elif passed < SHORT and step < passed * FASTEST:  # else not all of them have passed: a new call
                    step = min(2 * step, MOST)
                elif passed > LONG:
                    step = max(step // 2, 1)
                if threads.stopped():
                    step = 0
        except GeneratorExit:
            return
        except BaseException as error:
            raised.keep(error)
            step = 0
