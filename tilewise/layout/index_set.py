"""Indices of one axis that a block has. In: intervals. Out: sets of indices: sizes, intersections, positions.

Most sets are one interval, a plain pair (low, high). A block of a concatenation has an interval of each operand: a
Union. A block holds its indices in ascending order, whatever their kind.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import accumulate, product
from math import prod

from tilewise.records import dataclass

Interval = tuple[int, int]
Box = tuple[Interval, ...]


@dataclass(frozen=True)
class Union:
    """Two or more intervals in ascending order, none empty, with gaps between them; made by `union`."""

    runs: tuple[Interval, ...]

    def __post_init__(self) -> None:
        assert len(self.runs) > 1 and all(low < high for low, high in self.runs), self
        assert all(a[1] < b[0] for a, b in zip(self.runs, self.runs[1:], strict=False)), self

    @cached_property
    def before(self) -> tuple[int, ...]:
        """How many indices lie before each interval."""
        return tuple(accumulate((high - low for low, high in self.runs), initial=0))


def _end(run: Interval) -> int:
    return run[1]


IndexSet = Interval | Union
Held = tuple[IndexSet, ...]  # what a block has of an array, axis by axis; a Box where all are intervals


def union(intervals: Iterable[Interval]) -> IndexSet:
    """The indices of intervals that do not overlap."""
    runs: list[Interval] = []
    for low, high in sorted(x for x in intervals if x[0] < x[1]):
        if runs and runs[-1][1] == low:
            runs[-1] = runs[-1][0], high
        else:
            runs.append((low, high))
    if len(runs) > 1:
        return Union(tuple(runs))
    return runs[0] if runs else (0, 0)


def runs(s: IndexSet) -> tuple[Interval, ...]:
    """The intervals of a set, in ascending order."""
    return s.runs if isinstance(s, Union) else (s,)


def length(s: IndexSet) -> int:
    """How many indices it has."""
    if isinstance(s, Union):
        return sum(high - low for low, high in s.runs)
    return s[1] - s[0]


def common(s: IndexSet, part: Interval) -> Iterator[Interval]:
    """The intervals that a set has in common with one; none of them empty."""
    every = runs(s)
    for k in range(bisect_right(every, part[0], key=_end), len(every)):
        low, high = every[k]
        if low >= part[1]:
            break
        if max(low, part[0]) < min(high, part[1]):
            yield max(low, part[0]), min(high, part[1])


def position(s: IndexSet, part: Interval) -> slice:
    """The positions of an interval among the indices of a set that contains it."""
    if not isinstance(s, Union):
        return slice(part[0] - s[0], part[1] - s[0])
    if part[0] == part[1]:
        return slice(0, 0)
    k = bisect_right(s.runs, part[0], key=_end)
    low, high = s.runs[k]
    assert low <= part[0] and part[1] <= high, f"{part} is not in one run of {s}"
    return slice(s.before[k] + part[0] - low, s.before[k] + part[1] - low)


def dims(held: Held) -> tuple[int, ...]:
    """The lengths of an array that holds just these."""
    return tuple([length(s) for s in held])


def size(held: Held) -> int:
    """How many elements have their indices in all of the sets."""
    return prod([length(s) for s in held])


def boxes(held: Held) -> Iterator[Box]:
    """Boxes that together are all of it."""
    return product(*map(runs, held))


def shared(held: Held, box: Box) -> int:
    """How many elements of a box are there."""
    count = 1
    for s, part in zip(held, box, strict=True):
        if isinstance(s, Union):
            count *= sum(high - low for low, high in common(s, part))
        else:
            count *= max(min(s[1], part[1]) - max(s[0], part[0]), 0)
    return count
