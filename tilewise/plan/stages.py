"""What one worker does. In: steps. Out: `Stages`, which all graphs of a structure share, whatever their sizes.

Steps between two exchanges are one stage; on one worker, all steps are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from tilewise.stage.steps import ALIASES, Call, Pass, Step, Tiled, View, Write, passes, reads


class Stages:
    """Fused, rolled and tiled steps in order. `bound` keeps what an engine made of them for one worker, `ran` says that
    this was run.

    `uses` counts how often the graph's own operators refer to each position. `costly` are the positions whose values
    cost more than elementwise work, each with the one to keep (a view's base) if work outside of the graph needs it.
    `centred` says that some pass sums squares about a mean (which it is only for the right number of terms).
    `seconds` says how long each pass of the compiler took.
    """

    __slots__ = ("bases", "bound", "centred", "costly", "ran", "rolled", "seconds", "steps", "uses")

    def __init__(
        self,
        steps: Sequence[Step],
        uses: Sequence[int] = (),
        costly: Sequence[tuple[int, int]] = (),
        seconds: Sequence[tuple[str, float]] = (),
    ) -> None:
        self.steps = tuple(steps)
        self.bases = tuple(b for s in steps for b in overwritten(s))
        self.uses = tuple(uses)
        self.costly = tuple(costly)
        self.rolled = any(p.iterations is not None for s in steps for p in passes(s))
        self.centred = any(p.centre is not None for s in steps for p in passes(s))
        self.seconds = tuple(seconds)
        self.bound: Any = None
        self.ran = False

    def __reduce__(self) -> tuple[Any, ...]:
        return Stages, (self.steps, self.uses, self.costly, self.seconds)  # what is bound stays here


def overwritten(step: Step) -> list[int]:
    """Positions whose arrays a step may overwrite."""
    if isinstance(step, Write):
        return [step.base] if step.last_use else []
    pairs = [pair for p in passes(step) for pair in zip(p.writes, p.last_uses, strict=False)]
    return [w for w, last in pairs if w is not None and last]


def keeping(step: Step, bases: Collection[int]) -> Step:
    """The step, which overwrites none of these: it writes into copies."""
    if not set(bases).intersection(overwritten(step)):
        return step
    if isinstance(step, Write):
        return replace(step, last_use=False)
    if isinstance(step, Tiled):
        return replace(step, steps=tuple(keeping(s, bases) for s in step.steps))  # type: ignore[misc]
    assert isinstance(step, Pass)
    uses = zip(step.writes, step.last_uses, strict=True)
    return replace(step, last_uses=tuple(last and w not in bases for w, last in uses))


def memory_of(steps: Iterable[Step], specs: Sequence[Any]) -> dict[int, int]:
    """By value: the first one whose memory it may show (its own: not in here)."""
    shown: dict[int, int] = {}
    for step in steps:
        for s in step.steps if isinstance(step, Tiled) else (step,):
            if isinstance(s, View) or (isinstance(s, Call) and type(specs[s.pos].op) in ALIASES):
                first = reads(s)[0]
                shown[s.pos] = shown.get(first, first)
    return shown
