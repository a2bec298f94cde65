"""Division of many numbers by one. In: a divisor, then lanes. Out: their quotients, with the bits that `/` gives.

A quotient is the product with the reciprocal, corrected twice by its exact remainder (Markstein): the first correction
leaves it within one unit of the last place, the second rounds it. That holds where nothing overflows or loses bits to
subnormal numbers; other lanes, and divisors that are not positive, are divided.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tilewise.target.llvm.rare import rarely
from tilewise.target.llvm.text import Val, anywhere, fma

# Powers of two: dividends from 2**-x to 2**x, divisors from 2**-s to 2**s.
DIVIDEND = {"double": 480, "float": 60}
DIVISOR = {"double": 480, "float": 40}


@dataclass(frozen=True)
class Inverse:
    """A divisor in one lane, its reciprocal, and which dividends may be multiplied by that (by their bits)."""

    divisor: Val
    reciprocal: Val
    span: Val  # of bits, from the least dividend on: 0 if none may
    zero: Val  # a zero, which may, too; else NaN, which equals nothing


def inverse(s: Val) -> Inverse:
    """What divisions by s share."""
    least, most = 2.0 ** -DIVISOR[s.ty], 2.0 ** DIVISOR[s.ty]
    good = s.cmp("oge", least) & s.cmp("ole", most)
    low, high = _bounds(s.ty)
    kind = "i64" if s.ty == "double" else "i32"
    return Inverse(s, 1.0 / s, good.select(s.const(high - low, kind), 0), good.select(s.const(0.0), math.nan))


def divided(x: Val, by: Inverse) -> Val:
    """x / the divisor, in every lane."""
    s, r, span, zero = (v.splat(x.lanes) for v in (by.divisor, by.reciprocal, by.span, by.zero))
    q = x * r
    for _ in range(2):  # minus the remainder: the sign of a zero stays
        q = fma(-fma(s, q, -x), r, q)
    low, _ = _bounds(x.ty)
    far = (x.intrinsic("fabs").bits() - low).cmp("ugt", span)
    return rarely(anywhere(far & x.cmp("une", zero)), q, lambda: x / s)


def _bounds(ty: str) -> tuple[int, int]:
    """The bits of the least and of the greatest dividend."""
    bias, shift = (1023, 52) if ty == "double" else (127, 23)
    return (bias - DIVIDEND[ty]) << shift, (bias + DIVIDEND[ty]) << shift
