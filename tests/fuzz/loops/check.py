"""One case by plain Python and by `tw.jit`. In: a case. Out: the first difference, or None."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import tilewise as tw
from tests.fuzz.loops.case import Case
from tests.fuzz.loops.generate import WARNED
from tests.fuzz.loops.outcome import Outcome, Runaway, difference, parts_of, run, same_value
from tests.fuzz.loops.overflow import accepted
from tests.fuzz.loops.settings import Setting

COPIES = re.compile(r"(?m)^(\s*\w+\[.*\]) = (\w+(?:\[.*\])?)$")
CALLS = (0, 0, 1)  # the second has code at hand, the third has other values
Compiler = Callable[[Callable[..., Any]], Callable[..., Any]]


@dataclass(frozen=True)
class Failure:
    """What went wrong under which setting; `kind` is what a shrunk case must share with it."""

    kind: str
    text: str
    setting: str = ""
    calls: tuple[int, ...] = (0,)  # the last of which failed

    def __str__(self) -> str:
        return f"{self.kind} under {self.setting}: {self.text}"


def expected(case: Case, call: int) -> Outcome | None:
    """Plain Python's outcome, or None where the processor or nobody says what it is."""
    try:
        outcome = run(case.function(), case.arguments(call), traced=True)
    except Runaway:
        return None
    return None if any(WARNED in text for text in outcome.told) else outcome


def compared(case: Case, got: Outcome, want: Outcome) -> tuple[str, str]:
    """A difference; the last parts of a result, which the r… names are, may differ in the last digits."""
    rough = len(set(re.findall(r"\br\d+\b", case.source)))
    if not rough or got.error or want.error or len(parts_of(got.result)) != len(parts_of(want.result)):
        return difference(got, want)
    mine, theirs = parts_of(got.result), parts_of(want.result)
    if text := same_value(mine[-rough:], theirs[-rough:], loose=True):
        return "result", text
    return difference(replace(got, result=mine[:-rough]), replace(want, result=theirs[:-rough]))


def copied(case: Case, call: int, got: Outcome) -> bool:
    """Whether an outcome is Python's where a slice is set to a copy of another.

    `x[::2] = x[:3]` is to read before it writes; NumPy 2.4 makes no copy there, and has read what it had written.
    """
    apart = replace(case, source=COPIES.sub(r"\1 = np.array(\2)", case.source))
    want = expected(apart, call) if apart != case else None
    return want is not None and (not compared(apart, got, want)[0] or accepted(apart, call, got))


def check(case: Case, settings: Mapping[str, Setting], jit: Compiler = tw.jit) -> Failure | None:
    """The first difference under any of the settings."""
    for name, setting in settings.items():
        with setting():
            compiled = jit(case.function())
            for turn, call in enumerate(CALLS):
                want = expected(case, call)
                if want is None:
                    continue
                got = run(compiled, case.arguments(call))
                kind, text = compared(case, got, want)
                if kind and not accepted(case, call, got) and not copied(case, call, got):
                    return Failure(kind, f"{text} (call {turn + 1})", name, CALLS[: turn + 1])
    return None


def refusal(case: Case) -> str:
    """Why a case is not compiled whole, or nothing; what the program itself raises is no refusal."""
    want = expected(case, 0)
    got = run(tw.jit(case.function(), strict=True), case.arguments())
    return got.error.splitlines()[0] if got.error and (want is None or got.error != want.error) else ""
