"""The form of a proof that nothing costs less than a bound. In and out: plain values. `check.py` verifies them.

A certificate is a list of steps, each of which turns the problem into one whose least cost is not greater than before
(or not below the bound that is to be shown). What is left at the end has an obvious bound: the sum of the least entries
of its tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tilewise.records import dataclass


class Dominated(NamedTuple):
    """`value` is never better than `by`, whatever the neighbours do."""

    variable: int
    value: int
    by: int


class Split(NamedTuple):
    """The table of two variables is the sum of a cost of each."""

    variable: int
    other: int


class Eliminate(NamedTuple):
    """A variable with at most two neighbours becomes a table of these."""

    variable: int


class Move(NamedTuple):
    """Costs go from a table to its two variables."""

    variable: int
    other: int
    rows: Any  # one number per value of `variable` that still stands
    columns: Any


class Over(NamedTuple):
    """Values with which no assignment that fits costs less than the bound to be shown: (variable, value) each."""

    values: tuple[tuple[int, int], ...]


class Branch(NamedTuple):
    """The values of a variable in parts; each part has steps of its own. The last step of its list."""

    variable: int
    parts: tuple[tuple[tuple[int, ...], tuple[Any, ...]], ...]


class Order(NamedTuple):
    """All variables are eliminated, in this order. The last step of its list."""

    variables: Sequence[int]


class Frontier(NamedTuple):
    """All partial assignments in this order; limits are kept, and those that reach the bound are let go. Last."""

    variables: Sequence[int]


Step = Dominated | Split | Eliminate | Move | Over | Branch | Order | Frontier


@dataclass(frozen=True)
class Certificate:
    """Costs are cut down to `ceiling`, divided by 2 ** `shift` (rounded down) and multiplied by `scale`.

    Limit k is charged `multipliers[k]` per unit.
    """

    steps: tuple[Step, ...]
    scale: int = 1
    ceiling: int = 1 << 40
    shift: int = 0
    multipliers: tuple[int, ...] = ()
    hard: bool = False  # Whether limits are kept while stepping (else only charged for).
