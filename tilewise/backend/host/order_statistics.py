"""Quantiles of a long vector, by all threads. In: quantiles as NumPy is asked for them, a vector. Out: NumPy's results.

NumPy copies the vector and partitions the copy, on one thread. But a sample says between which two values an element
of the sorted vector lies, almost surely: one pass counts what comes before them and takes out what lies between, which
is a hundredth of the vector, and only that is partitioned. Elements are the vector's own and the formula is NumPy's, so
results are the same to the last bit. What is not as simple (NaNs, zeros of both signs, a sample that misleads) is left
to NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isqrt
from typing import Any

import numpy as np

from tilewise.backend import threads
from tilewise.ops.lines import Lines, Numbers
from tilewise.ops.quantile_formula import quantiles as by_formula
from tilewise.ops.quantile_formula import shares_of

ND = np.ndarray[Any, Any]

LEAST = 1 << 17  # elements: NumPy is as fast with fewer
MOST = 16  # positions in the sorted vector that are looked for
SAMPLE = 1 << 14  # elements
SPREAD = 4  # standard deviations that a rank in the sample may be off
STRIDE = 0x9E3779B97F4A7C15  # 2**64 by the golden ratio: multiples of it are spread evenly, whatever period data has
CHUNK = 1 << 17  # elements that a core's cache holds; with fewer, threads wait for the interpreter's lock
PARTS = 4  # per thread: threads that are held up hand over the rest


def quantiles(op: Lines, x: ND) -> Any:
    """What a function of one long line gives; None where NumPy must do it."""
    if x.ndim != 1 or len(x) < LEAST or x.dtype.kind not in "iuf" or not x.dtype.isnative:
        return None
    fn = op.fn.removeprefix("nan")  # without NaNs they give the same
    if fn == "median":
        n = len(x)
        found = elements(x, range((n - 1) // 2, n // 2 + 1))
        return None if found is None else np.mean(list(found.values()), dtype=_mean_dtype(x))
    if fn not in ("quantile", "percentile"):
        return None
    options = dict(op.options)
    q = options["q"]
    shares, weak = shares_of(fn, q.array() if isinstance(q, Numbers) else q)
    return by_formula(x.dtype, len(x), shares, options["method"], weak, lambda at: elements(x, at))


def _mean_dtype(x: ND) -> Any:
    return x.dtype if x.dtype.kind == "f" else None


def elements(x: ND, positions: Sequence[int]) -> dict[int, Any] | None:
    """Elements of a sorted vector by their positions (-1 is the last one); None where this is not the way."""
    n = len(x)
    wanted = sorted({k % n for k in positions})
    if not wanted or len(wanted) > MOST or n < LEAST:
        return None
    at = ((np.arange(SAMPLE, dtype=np.uint64) * np.uint64(STRIDE)) >> np.uint64(32)) * np.uint64(n) >> np.uint64(32)
    sample = np.sort(x[at.astype(np.intp)])
    if sample[-1] != sample[-1]:
        return None
    brackets = _brackets(sample, wanted, n)
    counted = _counted(x, brackets)
    if counted is None:
        return None
    found: dict[int, Any] = {}
    for bracket, before, between in counted:
        if not bracket.settle(x, before, between, found):
            return None
    zero = x.dtype.kind == "f" and any(value == 0 for value in found.values())
    return None if zero and _zeros_of_both_signs(x) else found


class _Bracket:
    """Positions in the sorted vector, and two values between which their elements lie (None: no bound)."""

    def __init__(self, positions: list[int], low: Any, high: Any) -> None:
        self.positions, self.low, self.high = positions, low, high

    def between(self, x: ND) -> ND:
        """The elements of x that lie between the two values."""
        inside = np.ones(len(x), bool) if self.low is None else x > self.low
        return x.compress(inside if self.high is None else inside & (x < self.high))

    def settle(self, x: ND, before: int, between: ND, found: dict[int, Any]) -> bool:
        """Note the elements. `before` elements are not greater than the lower value. Gives whether it was right."""
        inner = [k - before for k in self.positions if before <= k < before + len(between)]
        if inner:
            between.partition(inner)
        up_to_low = up_to_high = None
        for k in self.positions:
            if k < before:  # equal to the lower value, if no less
                if up_to_low is None:
                    up_to_low = _count(x, lambda part: part < self.low)
                if k < up_to_low:
                    return False
                found[k] = self.low
            elif k < before + len(between):
                found[k] = between[k - before]
            else:
                if self.high is None:
                    return False
                if up_to_high is None:
                    up_to_high = _count(x, lambda part: part <= self.high)
                if k >= up_to_high:
                    return False
                found[k] = self.high
        return True


def _brackets(sample: ND, wanted: Sequence[int], n: int) -> list[_Bracket]:
    """Brackets for positions; what overlaps is one."""
    made: list[tuple[list[int], int, int]] = []
    for k in wanted:
        rank = k * SAMPLE // n
        far = SPREAD * isqrt(max(rank * (SAMPLE - rank) // SAMPLE, 1)) + SPREAD
        low, high = rank - far, rank + far
        if made and low <= made[-1][2]:
            made[-1] = [*made[-1][0], k], made[-1][1], high
        else:
            made.append(([k], low, high))
    return [_Bracket(ks, sample[a] if a >= 0 else None, sample[b] if b < SAMPLE else None) for ks, a, b in made]


def _counted(x: ND, brackets: Sequence[_Bracket]) -> list[tuple[_Bracket, int, ND]] | None:
    """For each bracket, how many elements are not greater than its lower value, and those between; None with a NaN."""
    ranges = _parts(x)
    befores = [[0] * len(brackets) for _ in ranges]
    taken: list[list[ND]] = [[] for _ in ranges]

    def part(k: int, start: int, stop: int) -> None:
        masks = np.empty((3, CHUNK), bool)
        for at in range(start, stop, CHUNK):
            chunk = x[at : min(at + CHUNK, stop)]
            outside, beyond, every = masks[:, : len(chunk)]
            for i, bracket in enumerate(brackets):
                into = outside if i else every
                if bracket.low is None:
                    into.fill(False)
                else:
                    befores[k][i] += int(np.count_nonzero(np.less_equal(chunk, bracket.low, out=into)))
                if bracket.high is not None:
                    np.logical_or(into, np.greater_equal(chunk, bracket.high, out=beyond), out=into)
                if i:
                    np.logical_and(every, outside, out=every)
            # NaNs are not outside of any: they are taken, too.
            taken[k].append(chunk.compress(np.logical_not(every, out=every)))

    _by_parts(ranges, part)
    inner = np.concatenate([piece for pieces in taken for piece in pieces])
    if inner.dtype.kind == "f" and np.isnan(inner).any():
        return None
    return [
        (bracket, sum(each[i] for each in befores), bracket.between(inner) if len(brackets) > 1 else inner)
        for i, bracket in enumerate(brackets)
    ]


def _count(x: ND, condition: Callable[[ND], ND]) -> int:
    """How many elements fulfil a condition."""
    ranges = _parts(x)
    counts = [0] * len(ranges)

    def part(k: int, start: int, stop: int) -> None:
        for at in range(start, stop, CHUNK):
            counts[k] += int(np.count_nonzero(condition(x[at : min(at + CHUNK, stop)])))

    _by_parts(ranges, part)
    return sum(counts)


def _zeros_of_both_signs(x: ND) -> bool:
    """Then it is up to the algorithm which of them is where: NumPy's must decide."""
    negative = _count(x, lambda part: (part == 0) & np.signbit(part))
    return 0 < negative < _count(x, lambda part: part == 0)


def _parts(x: ND) -> list[tuple[int, int]]:
    count = PARTS * threads.get_threads()
    step = -(-len(x) // (count * CHUNK)) * CHUNK
    return [(at, min(at + step, len(x))) for at in range(0, len(x), step)]


def _by_parts(ranges: Sequence[tuple[int, int]], part: Callable[[int, int, int], None]) -> None:
    threads.run(lambda k: part(k, *ranges[k]), len(ranges))
