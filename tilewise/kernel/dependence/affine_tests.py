"""Tests on the forms of subscripts. In: two accesses and the loop that is to run in parallel.

Out: a proof, or distances.

For iterations p and q the accesses meet where all subscripts are equal. Where a subscript has the same slope s on both
sides, s * (p - q) must lie in the interval that the other indices span (Banerjee), and leave the right remainder by
their slopes (GCD). Each subscript so bounds the distance p - q; if no distance but 0 is left, the iterations are
independent. Blocks `3*i + k`, rows of several indices `i*m + j` and shifted reads are all instances of this.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from tilewise.kernel.dependence.access import Access
from tilewise.kernel.dependence.expr import Bound, Expr, Index

MOST_DISTANCES = 4096  # that are tried one by one


@dataclass(frozen=True)
class Relation:
    """What one subscript says of p - q: `slope * (p - q)` is in [lo, hi], and `rest` modulo `step` (0: equal)."""

    slope: int
    lo: Bound
    hi: Bound
    rest: int
    step: int
    sliced: bool  # a slice takes part
    looped: bool  # an inner loop takes part

    def distances(self, most: int) -> tuple[int, int]:
        """The least and greatest p - q it allows, between -most and most."""
        if self.slope == 0:
            return -most, most
        ends = sorted((_divided(self.lo, self.slope), _divided(self.hi, self.slope)))
        low = -most if math.isinf(ends[0]) else math.ceil(ends[0])
        high = most if math.isinf(ends[1]) else math.floor(ends[1])
        return max(low, -most), min(high, most)

    def allows(self, distance: int) -> bool:
        """Whether the remainder is right."""
        gap = self.slope * distance - self.rest
        return gap == 0 if self.step == 0 else gap % self.step == 0

    @property
    def name(self) -> str:
        """The name of the test that this is an instance of."""
        if self.sliced:
            return "interval"
        if self.looped:
            return "mixed radix"
        return "equals" if self.rest == 0 else "GCD" if self.slope and self.rest % self.slope else "Banerjee"


def _divided(a: Bound, b: int) -> Bound:
    from_exact = isinstance(a, int) and a % b == 0
    return a // b if from_exact else a / b


def never_meet(a: Access, b: Access, parallel: Index, shared: Collection[Index]) -> str | None:
    """The test that proves that no two iterations touch the same cell (the same iteration included), or None."""
    for x, y in zip(a.subscripts, b.subscripts, strict=True):
        if not (x.integer and y.integer):
            continue
        if x.hi < y.lo or y.hi < x.lo:
            return "constant" if x.constant and y.constant else "Banerjee"
        if x.affine and y.affine:
            slopes = [s for e in (x, y) for index, s in e.terms if index not in shared]
            slopes += [x.slope(t) - y.slope(t) for t in shared]
            divisor = math.gcd(*slopes) if slopes else 0
            gap = y.const - x.const
            if gap % divisor if divisor else gap:
                return "GCD" if divisor else "constant"
            lo, hi = _span(x, y, shared, (parallel,), apart=True)
            if lo > 0 or hi < 0:
                return "Banerjee"
    return None


def _span(
    x: Expr, y: Expr, shared: Collection[Index], left_out: Collection[Index], apart: bool = False
) -> tuple[Bound, Bound]:
    """The bounds of y - x without the terms of some indices; `apart`: with them, as separate indices on both sides."""
    lo: Bound = y.const - x.const
    hi: Bound = lo
    slopes = [(i, s) for i, s in y.terms if i not in shared and (apart or i not in left_out)]
    slopes += [(i, -s) for i, s in x.terms if i not in shared and (apart or i not in left_out)]
    slopes += [(t, y.slope(t) - x.slope(t)) for t in shared]
    for index, slope in slopes:
        far: Bound = slope * max(index.last, 0) if slope else 0
        lo, hi = lo + min(0, far), hi + max(0, far)
    return lo, hi


def relation(x: Expr, y: Expr, parallel: Index, shared: Collection[Index]) -> Relation | None:
    """What a pair of subscripts says of the distance; None if they are not affine, or differ in slope."""
    if not (x.affine and y.affine) or x.slope(parallel) != y.slope(parallel):
        return None
    lo, hi = _span(x, y, shared, (parallel,))
    others = [index for e in (x, y) for index, _ in e.terms if index is not parallel and index not in shared]
    slopes = [s for e in (x, y) for index, s in e.terms if index is not parallel and index not in shared]
    slopes += [x.slope(t) - y.slope(t) for t in shared]
    step = math.gcd(*slopes) if slopes else 0
    sliced = any(index.name == ":" for index in others)
    return Relation(x.slope(parallel), lo, hi, y.const - x.const, step, sliced, bool(others) and not sliced)


def distances(a: Access, b: Access, parallel: Index, shared: Collection[Index]) -> tuple[str, int | None]:
    """The test that left the fewest distances, and one that is left (None: none but 0, so they are independent)."""
    last = parallel.last
    most = int(last) if last < 1 << 60 else 1 << 60
    low, high, name = -most, most, "constant"
    relations = []
    for x, y in zip(a.subscripts, b.subscripts, strict=True):
        found = relation(x, y, parallel, shared)
        if found is None:
            continue
        relations.append(found)
        start, stop = found.distances(most)
        if start > low or stop < high:
            name = found.name
        low, high = max(low, start), min(high, stop)
    if low > high:
        return name, None
    for size in range(1, min(max(abs(low), abs(high)), MOST_DISTANCES) + 1):
        for distance in (size, -size):
            if low <= distance <= high and all(r.allows(distance) for r in relations):
                return name, distance
    if max(abs(low), abs(high)) > MOST_DISTANCES:  # not all were tried
        return name, MOST_DISTANCES + 1
    return name, None
