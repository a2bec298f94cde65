"""Division of many numbers by one. In: a divisor, then lanes. Out: their quotients, with the bits that `/` gives.

With the reciprocal as two numbers, a quotient is a product within one unit of the last place, which its exact remainder
corrects (Markstein). That holds where nothing overflows or loses bits to subnormal numbers, which the quotient tells,
and for 0.0; other lanes, and all by divisors that are not positive, are divided.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tilewise.target.llvm.rare import outside, rarely
from tilewise.target.llvm.text import Val, fma

# Powers of two: quotients from 2**-x to 2**x, divisors from 2**-s to 2**s.
QUOTIENT = {"double": 480, "float": 60}
DIVISOR = {"double": 480, "float": 40}


@dataclass(frozen=True)
class Inverse:
    """A divisor, and its reciprocal: rounded, and what is missing (NaN if it may not be used)."""

    divisor: Val
    reciprocal: Val
    rest: Val


def inverse(s: Val) -> Inverse:
    """What divisions by s share."""
    good = s.cmp("oge", 2.0 ** -DIVISOR[s.ty]) & s.cmp("ole", 2.0 ** DIVISOR[s.ty])
    r = 1.0 / s
    return Inverse(s, r, good.select(fma(-s, r, 1.0) * r, math.nan))


def divided(x: Val, by: Inverse) -> Val:
    """x / the divisor (of one lane, or as many), in every lane."""
    s, r, rest = (v if v.lanes == x.lanes else v.splat(x.lanes) for v in (by.divisor, by.reciprocal, by.rest))
    q = fma(x, r, x * rest)
    q = fma(fma(-s, q, x), r, q)
    zero = x.bits().cmp("eq", (rest - rest).bits())  # nothing, where that is NaN
    return rarely(_far(q, zero), q, lambda: x / s)


def _far(q: Val, zero: Val) -> Val:
    """Whether any lane that is no zero is not well within the normal numbers."""
    bias, shift = (1023, 52) if q.ty == "double" else (127, 23)
    return outside(q, (bias - QUOTIENT[q.ty]) << shift, (2 * QUOTIENT[q.ty]) << shift, signed=True, but=zero)
