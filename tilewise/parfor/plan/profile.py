"""What operators cost, measured beforehand. In: kinds of operators, amounts. Out: seconds.

One row per kind: a line through times that were measured for several sizes of one shape. Another shape is corrected by
the ratio of its floating-point operations (or elements) to those of the shape that was measured. `FIXED` was made by
`measure` on one machine, so that plans, and with them the rounding of sums, are the same on all machines with as many
cores.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np


class Row(NamedTuple):
    """Seconds of one call: `call`, and `each` for every unit of work (an element, or a floating-point operation)."""

    call: float
    each: float


# Units: elements for map, function, reduce, copy, random; n * log2(n) for sort; operations for dot, product, factor;
# bytecode-like steps of the interpreter for python.
FIXED: Mapping[str, Row] = {
    "map": Row(1.0e-6, 0.9e-9),
    "function": Row(1.2e-6, 6.0e-9),
    "reduce": Row(3.0e-6, 0.5e-9),
    "copy": Row(0.6e-6, 0.6e-9),
    "random": Row(2.0e-6, 8.0e-9),
    "sort": Row(2.0e-6, 2.5e-9),
    "dot": Row(1.2e-6, 0.35e-9),
    "product": Row(2.0e-6, 0.04e-9),
    "factor": Row(8.0e-6, 0.15e-9),
    "python": Row(0.0, 6.0e-8),
    "call": Row(5.0e-3, 0.0),  # of a function of which nothing is known
}
# What the kinds hold of the interpreter's lock: NumPy lets go of it inside of its own loops, not around them.
LOCKED_CALLS = 1e-5  # seconds: calls that are shorter are taken to hold it


def seconds(kind: str, amount: float, profile: Mapping[str, Row] = FIXED) -> float:
    """The time of one call.

    >>> round(seconds("map", 1e6) * 1e3, 2)
    0.9
    """
    row = profile[kind]
    return row.call + row.each * amount


def _runs() -> Mapping[str, tuple[Callable[[int], Any], Callable[[int], float]]]:
    """For each kind: a call by size, and how many units of work it is."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=1 << 20)
    square = {n: rng.normal(size=(n, n)) + 3 * n * np.eye(n) for n in (32, 96, 192)}
    place = np.empty(1 << 20)

    def side(n: int) -> int:
        return min(square, key=lambda m: abs(m * m * m - n))

    return {
        "map": (lambda n: np.add(x[:n], 1.0), float),
        "function": (lambda n: np.exp(x[:n]), float),
        "reduce": (lambda n: x[:n].mean(), float),
        "copy": (lambda n: np.copyto(place[:n], x[:n]), float),
        "random": (lambda n: rng.normal(size=n), float),
        "sort": (lambda n: np.sort(x[:n]), lambda n: n * float(np.log2(n))),
        "dot": (lambda n: x[:n] @ x[:n], lambda n: 2.0 * n),
        "product": (lambda n: square[side(n)] @ square[side(n)], lambda n: 2.0 * side(n) ** 3),
        "factor": (lambda n: np.linalg.inv(square[side(n)]), lambda n: 2.0 * side(n) ** 3),
    }


def measure(sizes: tuple[int, ...] = (1 << 10, 1 << 15, 1 << 18, 1 << 20), repeats: int = 5) -> dict[str, Row]:
    """The profile of this machine (a second or two): lines through the best times, fitted to their relative errors."""
    found = dict(FIXED)
    for kind, (call, amount) in _runs().items():
        work, taken = [], []
        for n in sizes:
            best = np.inf
            for _ in range(repeats):
                begin = time.perf_counter()
                call(n)
                best = min(best, time.perf_counter() - begin)
            work.append(amount(n))
            taken.append(best)
        t = np.array(taken)
        lines = np.stack([np.ones_like(t), np.array(work)], axis=1) / t[:, None]
        (constant, slope), *_ = np.linalg.lstsq(lines, np.ones_like(t), rcond=None)
        found[kind] = Row(max(float(constant), 1e-7), max(float(slope), 1e-12))
    return found
