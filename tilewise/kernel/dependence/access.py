"""What an iteration touches. In: subscripts over loop indices.

Out: `Access`, and `Outcome` of a test of two of them.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from tilewise.kernel.dependence.expr import Expr, Index


@dataclass(frozen=True)
class Access:
    """One place of a program that reads or writes cells of an array, for all values of the loops around it.

    A slice is a loop of its own: `A[3*i : 3*i + 3]` has the subscript `3*i + k` and the loop `k` of extent 3. All
    subscripts of two accesses to the same array have one meaning, so an array is named with its coordinate system.
    """

    array: Hashable
    subscripts: tuple[Expr, ...]
    loops: tuple[Index, ...]  # from the outermost on, slices included
    write: bool
    guards: tuple[Expr, ...] = ()  # conditions over the indices, in the order in which they are evaluated
    exact: bool = True  # whether it happens at each point where the guards hold; else it may
    where: int = 0  # for messages: a line
    text: str = ""


@dataclass(frozen=True)
class Outcome:
    """What a test found: `pair` are the (normalised) iterations that clash; None where no test could name them."""

    independent: bool
    test: str
    pair: tuple[int, int] | None = None
