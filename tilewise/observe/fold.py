"""Loops in a list. In: a sequence of comparable things. Out: which runs of it repeat, and how often."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from tilewise.records import dataclass

LONGEST = 24  # things in a run


@dataclass(frozen=True)
class Run:
    """`length` things from `start` on, `times` times in a row."""

    start: int
    length: int
    times: int


def fold(things: Sequence[Hashable]) -> list[Run]:
    """The sequence as runs, left to right, each the one that saves most.

    >>> fold("abababc")
    [Run(start=0, length=2, times=3), Run(start=6, length=1, times=1)]
    """
    names: dict[Hashable, int] = {}
    row = [names.setdefault(t, len(names)) for t in things]  # numbers: compared often
    out: list[Run] = []
    i = 0
    while i < len(row):
        best = Run(i, 1, 1)
        for length in range(1, min(LONGEST, (len(row) - i) // 2) + 1):
            times = 1
            while row[i + times * length : i + (times + 1) * length] == row[i : i + length]:
                times += 1
            if length * (times - 1) > best.length * (best.times - 1):
                best = Run(i, length, times)
        out.append(best)
        i += best.length * best.times
    return out
