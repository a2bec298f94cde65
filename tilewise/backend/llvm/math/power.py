"""power on double lanes. In: two `Val`s of doubles. Out: at most 2 ulp, with IEEE's special values.

x**y = exp(y log x) where log x is a sum of two doubles: y multiplies its error by up to 745.
"""

from __future__ import annotations

import math

from tilewise.backend.llvm.emit.text import Val, fma, literal, polynomial
from tilewise.backend.llvm.math.elementary import EXP_Q, LN2, LN2_LO, LOG2E, clamp, normal, round_to_int, scale, split
from tilewise.backend.llvm.math.pairs import fast_sum
from tilewise.backend.llvm.math.slow_path import bits_of_power, outside, rarely
from tilewise.backend.llvm.math.table import body

# (log((1+s)/(1-s)) / s - 2 - 2z/3) / z**2 in z = s**2, on z <= 0.0295; relative error below 2**-54
LOG_P = (
    0.4, 0.28571428571428564, 0.2222222222222847, 0.1818181817964499, 0.1538461576290815,
    0.13333296397963826, 0.11766819021629842, 0.10456195110395912, 0.1076362151505583,
)  # fmt: skip
TWO_THIRDS, TWO_THIRDS_LO = 0.6666666666666666, 3.700743415417188e-17
# Beyond e**800 and below e**-800 every result is inf or 0.
LIMIT = 800.0


def log_pair(x: Val) -> tuple[Val, Val]:
    """log(x) for positive finite x as a rounded double and the rest, together some 2**-66 exact."""
    scaled, shift = normal(x)
    f, k = split(scaled)
    kf = k.convert("sitofp", "double") - shift
    d = f + 2.0
    s = f / d
    s_lo = (fma(-s, d, f) - s * (f - (d - 2.0))) / d
    z = s * s
    z_lo = fma(s, s, -z) + (s + s) * s_lo
    w = s * z
    w_lo = fma(s, z, -w) + fma(s, z_lo, s_lo * z)
    c = w * TWO_THIRDS
    c_lo = fma(w, TWO_THIRDS, -c) + fma(w_lo, TWO_THIRDS, w * fma(z, polynomial(z, LOG_P), TWO_THIRDS_LO))
    p = kf * LN2
    p_lo = fma(kf, LN2, -p) + kf * LN2_LO
    b = s + s
    # |p| >= |b| unless k = 0, where p is zero and the sum exact.
    first = p + b
    e1 = b - (first - p)
    second = first + c
    e2 = c - (second - first)
    low = (e1 + e2) + (p_lo + (s_lo + s_lo) + c_lo)
    hi = second + low
    return hi, low - (hi - second)


def exp_pair(hi: Val, lo: Val) -> tuple[Val, Val, Val]:
    """e, its low part and k with e**(hi + lo) = e * 2**k; inf and 0 beyond the limit."""
    lo = hi.intrinsic("fabs").cmp("olt", LIMIT).select(lo, 0.0)
    top = clamp(hi, -LIMIT, LIMIT)
    kf, k = round_to_int(top, LOG2E)
    r = fma(kf, -LN2, top) + fma(kf, -LN2_LO, lo)
    p = fma(r * r, polynomial(r, EXP_Q), r)
    return *fast_sum(p.const(1.0), p), k


@body
def power(x: Val, y: Val) -> Val:
    """x**y"""
    half = HALVES.get(y.constant or "")
    if half is None:
        return _power(x, y)
    low, high = bits_of_power("double", -MODERATE), bits_of_power("double", MODERATE)
    span = (high - low) | 0xFFFFFFFF  # ARM looks at the upper halves alone: lanes are hard by these, alone or not
    hard = outside(x, low, span)
    return rarely(hard, half(x), lambda: (x.bits() - low).cmp("ugt", span).select(_power(x, y), half(x)))


def _power(x: Val, y: Val) -> Val:
    size = x.intrinsic("fabs")
    hi, lo = log_pair(size)
    hi = size.cmp("oeq", 0.0).select(x.const(-math.inf), size.cmp("oeq", math.inf).select(size, hi))
    product = y * hi
    e, _, k = exp_pair(product, fma(y, hi, -product) + y * lo)
    return special(x, y, size, scale(e, k))


@body
def float_power(x: Val, y: Val) -> Val:
    """x**y, by another name"""
    return power(x, y)


def _times_root(x: Val) -> tuple[Val, Val]:
    """x**1.5 as a rounded double and the rest."""
    s = x.intrinsic("sqrt")
    p = x * s
    return p, fma(s, fma(-s, s, x) * 0.5, fma(x, s, -p))


def _three_halves(x: Val) -> Val:
    p, rest = _times_root(x)
    return p + rest


def _minus_three_halves(x: Val) -> Val:
    p, rest = _times_root(x)
    r = p.const(1.0) / p
    return fma(r, fma(-r, rest, fma(-r, p, 1.0)), r)


# Exponents with a square root in the place of a logarithm: a fifth of the time, less than 1 ulp.
HALVES = {literal("double", 1.5): _three_halves, literal("double", -1.5): _minus_three_halves}  # sharp: ops/const.py
MODERATE = 600  # from 2**-600 to 2**600 nothing overflows, and nothing loses bits below the normal numbers


def special(x: Val, y: Val, size: Val, magnitude: Val) -> Val:
    """The sign of a negative base, and the cases where a NaN or an infinity does not decide."""
    half = y * 0.5
    whole = y.intrinsic("floor").cmp("oeq", y)
    odd = whole & half.intrinsic("floor").cmp("une", half)
    magnitude = size.cmp("oeq", 1.0).select(size, magnitude)
    result = odd.select(magnitude.intrinsic("copysign", x), magnitude)
    undefined = x.cmp("olt", 0.0) & size.cmp("olt", math.inf) & ~whole
    result = undefined.select(x.const(math.nan), result)
    result = x.cmp("uno", y).select(x + y, result)
    return (x.cmp("oeq", 1.0) | y.cmp("oeq", 0.0)).select(x.const(1.0), result)
