"""Loops as axes, and positions along them. In: ranges. Out: `Axis`, `Position`, index arrays.

While a body is traced its loop variables are `Position`s: affine in the numbers of iterations. They can be added,
multiplied by integers and used as subscripts; whatever needs their value ends the trace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

LARGEST = 1 << 31  # of values of positions, so that sums and products of two fit into 64 bits


class NotArrays(BaseException):
    """Why a body is no array expression. (A BaseException: bodies and libraries catch others.)"""


@dataclass(frozen=True, eq=False)
class Axis:
    """A loop: its nesting, and how many iterations it has. `bounds`: first and end of a loop in outer positions."""

    order: int
    length: int
    bounds: tuple[Position, Position] | None = None


class Ranges:
    """Which iterations of each loop are looked at: all, or a part of the outermost one."""

    def __init__(self, parts: Mapping[Axis, tuple[int, int]]) -> None:
        self.parts = parts

    def of(self, axis: Axis) -> tuple[int, int]:
        """First and end."""
        return self.parts.get(axis, (0, axis.length))

    def length(self, axis: Axis) -> int:
        """How many iterations."""
        first, end = self.of(axis)
        return end - first


def merged(*groups: Sequence[Axis]) -> tuple[Axis, ...]:
    """All axes of several values, outermost first."""
    return tuple(sorted({axis for group in groups for axis in group}, key=lambda axis: axis.order))


class Position:
    """const + the sum of slope * number of the iteration, over loops."""

    __array_ufunc__: Any = None  # set in traced.py: arithmetic with anything but integers makes values of positions

    def __init__(self, terms: Mapping[Axis, int], const: int) -> None:
        self.terms = {axis: slope for axis, slope in terms.items() if slope}
        self.const = const
        if max(abs(self.lowest), abs(self.highest)) > LARGEST:
            raise NotArrays("positions that are too large")

    @property
    def dims(self) -> tuple[Axis, ...]:
        """The loops it depends on."""
        return merged(tuple(self.terms))

    @property
    def lowest(self) -> int:
        """The least value, over whole loops."""
        return self.const + sum(min(0, s * (a.length - 1)) for a, s in self.terms.items())

    @property
    def highest(self) -> int:
        """The greatest value."""
        return self.const + sum(max(0, s * (a.length - 1)) for a, s in self.terms.items())

    @property
    def sample(self) -> int:
        """The value in the first iterations."""
        return self.const

    def values(self, ranges: Ranges, dims: Sequence[Axis]) -> Any:
        """All values, with one axis for each loop of `dims` (of length 1 where it does not matter)."""
        total: Any = np.full((1,) * len(dims), self.const, np.int64)
        for n, axis in enumerate(dims):
            if axis in self.terms:
                shape = [1] * len(dims)
                shape[n] = -1
                total = total + self.terms[axis] * np.arange(*ranges.of(axis)).reshape(shape)
        return total

    def plus(self, other: Position, factor: int = 1) -> Position:
        """The sum with a multiple of another position."""
        terms = dict(self.terms)
        for axis, slope in other.terms.items():
            terms[axis] = terms.get(axis, 0) + factor * slope
        return Position(terms, self.const + factor * other.const)

    def times(self, factor: int) -> Position:
        """A multiple."""
        return Position({axis: slope * factor for axis, slope in self.terms.items()}, self.const * factor)

    def __index__(self) -> int:
        raise NotArrays("a loop variable used as a number")

    def __bool__(self) -> bool:
        raise NotArrays("a condition on a loop variable")

    def __hash__(self) -> int:
        raise NotArrays("a loop variable as a key")

    def __eq__(self, other: object) -> bool:
        raise NotArrays("a condition on a loop variable")

    __float__ = __int__ = __iter__ = __len__ = __index__
    __lt__ = __le__ = __gt__ = __ge__ = __ne__ = __eq__


def as_position(value: Any) -> Position | None:
    """A position or an integer, as a position."""
    if isinstance(value, Position):
        return value
    if isinstance(value, int | np.integer) and not isinstance(value, bool | np.bool_):
        return Position({}, int(value))
    return None
