"""The abstract problem: least sum of whole-number costs over discrete variables, under hard limits.

In: tables. Out: values that `solver.search` takes. Nothing here knows of graphs or layouts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from tilewise.errors import TilewiseError
from tilewise.records import dataclass

Ints = NDArray[np.int64]
INF = 1 << 60  # A cost of INF or more forbids the value (or the pair of values).


class Infeasible(TilewiseError):
    """No assignment satisfies every limit and avoids every forbidden value."""


@dataclass(frozen=True, eq=False)
class Limit:
    """Hard: the sum over its variables of `use[variable][value]` is at most `budget`."""

    budget: int
    use: Mapping[int, Ints]


@dataclass(frozen=True, eq=False)
class Problem:
    """Costs of single variables (1-D tables) and of pairs (i, j), i < j (rows i, columns j), and limits."""

    unary: Sequence[Ints]
    pairs: Mapping[tuple[int, int], Ints]
    limits: Sequence[Limit] = field(default=())


def cost_of(problem: Problem, values: Sequence[int]) -> int:
    """The cost of an assignment, as a Python integer."""
    total = sum(int(table[value]) for table, value in zip(problem.unary, values, strict=True))
    return total + sum(int(table[values[i], values[j]]) for (i, j), table in problem.pairs.items())


def fits(problem: Problem, values: Sequence[int]) -> bool:
    """Whether an assignment satisfies every limit."""
    return all(sum(int(use[values[v]]) for v, use in limit.use.items()) <= limit.budget for limit in problem.limits)
