"""Accumulators: where a task starts, and how its result is added. In: operators and values. Out: values.

Sums, products and exclusive ors start from the neutral element, so that the value before the loop counts once; the
others may start from that value, as it does not matter how often it counts (late.py has those for which it does).
Results are joined in the order of tasks: the same loop gives the same bits on every run, whoever ran which task.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tilewise.parfor.reductions.late import LATE, NAN, RAN, combine_late

NEUTRAL: Mapping[str, float] = {"+": 0, "*": 1, "^": 0}


def start_of(op: str, value: Any) -> Any:
    """What a task starts with.

    >>> start_of("+", 7), start_of("+", 7.5), start_of("max", 7)
    (0, -0.0, 7)
    >>> start_of("^", True), start_of("+", np.True_)
    (False, np.False_)
    """
    if op in LATE:
        return np.inf if op == "late min" else -np.inf
    if isinstance(value, np.ndarray):
        if op not in NEUTRAL:
            return value.copy()
        return np.full_like(value, _neutral(op, value.dtype.kind))
    if op not in NEUTRAL:
        return value
    if isinstance(value, bool) and op == "^":
        return False
    if isinstance(value, int) and not isinstance(value, np.integer):
        return int(NEUTRAL[op])
    return type(value)(_neutral(op, np.asarray(value).dtype.kind))


def _neutral(op: str, kind: str) -> Any:
    if op == "+" and kind in "fc":
        return complex(-0.0, -0.0) if kind == "c" else -0.0  # -0.0 + x is x, also for x = -0.0
    return bool(NEUTRAL[op]) if kind == "b" else NEUTRAL[op]


def _largest(a: Any, b: Any) -> Any:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.maximum(a, b)
    return b if b > a or b != b else a


def _smallest(a: Any, b: Any) -> Any:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.minimum(a, b)
    return b if b < a or b != b else a


COMBINE: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "*": operator.mul,
    "^": operator.xor,
    "|": operator.or_,
    "&": operator.and_,
    "max": _largest,
    "min": _smallest,
    "fmax": np.fmax,
    "fmin": np.fmin,
}


def combine_all(reductions: Mapping[str, str], values: dict[str, Any], part: Mapping[str, Any]) -> None:
    """Bring what a task accumulated into the values so far, name by name."""
    for name, op in reductions.items():
        if op in LATE:
            values[name] = combine_late(op, values[name], part[name], part[NAN + name], part[RAN + name])
        else:
            values[name] = combine(op, values[name], part[name])


def combine(op: str, value: Any, part: Any) -> Any:
    """The value so far, with what a task accumulated.

    >>> combine("max", 3, 5), combine("+", 1.0, 2)
    (5, 3.0)
    """
    return COMBINE[op](value, part)
