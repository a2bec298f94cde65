"""The commonest functions on float lanes: twice as many at once as in double. In: `Val`s of floats. Out: at most 2 ulp.

Functions that are not here are computed in double and rounded (see `scalar.py`); so is the reduction of angles, and
power as a whole, for which the precision of double is enough. Coefficients: Chebyshev interpolation (mpmath).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

from tilewise.backend.llvm.emit.text import Val, fma, polynomial
from tilewise.backend.llvm.math import elementary, power, special
from tilewise.backend.llvm.math.elementary import clamp
from tilewise.backend.llvm.math.slow_path import by_libm_where

LN2, LN2_LO = 0.6931471824645996, -1.9046542121259336e-09
ROUNDER = 1.5 * 2.0**23
ONE_BITS = 0x3F800000
# (e**r - 1 - r) / r**2 on |r| <= ln(2)/2; error 2**-30 of e**r
EXP_Q = (
    0.5, 0.1666666716337204, 0.041666463017463684, 0.00833331048488617, 0.0013933731243014336, 0.000198910798644647,
)  # fmt: skip
# (log(1 + f) - f + f**2/2) / f**3 for 1 + f in [sqrt(1/2), sqrt(2)]; error 2**-28 of log(1 + f)
LOG_P = (
    0.3333333432674408, -0.24999989569187164, 0.2000001072883606, -0.1666800081729889, 0.14286524057388306,
    -0.12450743466615677, 0.11037783324718475, -0.10646191984415054, 0.1053086444735527, -0.062015000730752945,
)  # fmt: skip
SIN_S = (-0.166666641831398, 0.008332746103405952, -0.00019587387214414775)
COS_C = (0.0416666641831398, -0.0013888300163671374, 2.4547436623834074e-05)
# (tanh(x) / x - 1) / x**2 in x**2 for |x| < 0.625; error 2**-27
TANH_P = (
    -0.3333333432674408, 0.1333329975605011, -0.053958460688591, 0.021762503311038017, -0.0083231870085001,
    0.0022695017978549004,
)  # fmt: skip
# erf(x) / x - 1 in x**2 for |x| <= 1; error 2**-29
ERF_P = (
    0.12837916612625122, -0.37612637877464294, 0.11283782124519348, -0.026865430176258087, 0.005221031606197357,
    -0.0008484080317430198, 0.00011265958892181516, -9.667044650996104e-06,
)  # fmt: skip
# log(erfc(x)) on [1, 4]; error of erfc 2**-27
ERFC_LOG = (
    0.0003201380604878068, -1.1302334070205688, -0.6318260431289673, -0.11008008569478989, 0.026421135291457176,
    -0.004759596195071936, 0.0005968056502752006, -4.605804133461788e-05, 1.6371513993362896e-06,
)  # fmt: skip
# As elementary.LOG_R and EXP_Q, in double but for float results: errors 2**-42 and 2**-32
POWER_LOG = (0.6666666666737868, 0.3999999879244169, 0.28571755535032944, 0.22191337428065783, 0.19363884986633198)
POWER_EXP = (
    0.500000001353873, 0.16666666681704215, 0.04166646419740569, 0.008333310844647862, 0.0013933730715792083,
    0.00019891080463998843,
)  # fmt: skip
ANGLE_LIMIT = 2.0**30  # beyond, two doubles of pi/2 are not enough


def _round_to_int(x: Val) -> tuple[Val, Val]:
    """The nearest integer to |x| < 2**22, as a float and as an i32."""
    shifted = x + ROUNDER
    return shifted - ROUNDER, shifted.bits() - _bits(ROUNDER)


def _power_of_two(k: Val) -> Val:
    return ((k << 23) + ONE_BITS).as_float()


def _exp_parts(x: Val) -> tuple[Val, Val]:
    """e**r and k with x = k ln 2 + r."""
    kf, k = _round_to_int(x * elementary.LOG2E)
    r = fma(kf, -LN2_LO, fma(kf, -LN2, x))
    return fma(r * r, polynomial(r, EXP_Q), r) + 1.0, k


def exp(x: Val) -> Val:
    """e**x"""
    e, k = _exp_parts(clamp(x, -110.0, 90.0))
    half = k >> 1
    return e * _power_of_two(half) * _power_of_two(k - half)


def log(x: Val) -> Val:
    """The natural logarithm"""
    tiny = x.cmp("olt", 2.0**-126)
    bits = tiny.select(x * 2.0**25, x).bits()
    k = (bits - _bits(math.sqrt(0.5))) >> 23
    f = (bits - (k << 23)).as_float() - 1.0
    kf = k.convert("sitofp", "float") - tiny.select(x.const(25.0), 0.0)
    z = f * f
    tail = fma(z * f, polynomial(f, LOG_P), kf * LN2_LO)
    y = fma(kf, LN2, f - fma(z, 0.5, -tail))
    y = x.cmp("olt", 0.0).select(x.const(math.nan), y)
    y = x.cmp("oeq", 0.0).select(x.const(-math.inf), y)
    return x.cmp("ueq", math.inf).select(x, y)  # NaN and inf are their own value


def tanh(x: Val) -> Val:
    """The hyperbolic tangent"""
    size = x.intrinsic("fabs")
    z = x * x
    near = fma(x * z, polynomial(z, TANH_P), x)
    far = size.cmp("ogt", 10.0).select(x.const(10.0), size)
    e, k = _exp_parts(far + far)
    y = 1.0 - 2.0 / fma(e, _power_of_two(k), 1.0)
    result = size.cmp("olt", 0.625).select(near, y.intrinsic("copysign", x))
    return x.cmp("ueq", 0.0).select(x, result)


def erf(x: Val) -> Val:
    """The error function"""
    size = x.intrinsic("fabs")
    near = fma(x, polynomial(x * x, ERF_P), x)
    far = size.cmp("ogt", 4.0).select(x.const(4.0), size)
    e, k = _exp_parts(polynomial(far, ERFC_LOG))
    y = fma(-e, _power_of_two(k), 1.0).intrinsic("copysign", x)
    result = size.cmp("olt", 1.0).select(near, y)
    return x.cmp("uno", 0.0).select(x, result)


def _wave(x: Val, quarter_turns: int) -> Val:
    """sin(x + quarter_turns * pi/2)"""
    wide = x.convert("fpext", "double")
    kf, k = elementary.round_to_int(wide * (2.0 / math.pi))
    r = fma(kf, -6.123233995736766e-17, fma(kf, -math.pi / 2, wide)).convert("fptrunc", "float")
    k = k.convert("trunc", "i32") + quarter_turns
    z = r * r
    sin = fma(r * z, polynomial(z, SIN_S), r)
    cos = fma(z * z, polynomial(z, COS_C), fma(z, -0.5, 1.0))
    y = (k & 1).cmp("ne", 0).select(cos, sin)
    return (y.bits() ^ ((k & 2) << 30)).as_float()


def sin(x: Val) -> Val:
    """The sine"""
    y = x.cmp("oeq", 0.0).select(x, _wave(x, 0))
    return by_libm_where(~x.intrinsic("fabs").cmp("ole", ANGLE_LIMIT), "sin", y, x)


def cos(x: Val) -> Val:
    """The cosine"""
    return by_libm_where(~x.intrinsic("fabs").cmp("ole", ANGLE_LIMIT), "cos", _wave(x, 1), x)


def power_(x: Val, y: Val) -> Val:
    """x**y, in double: its logarithm is exact enough as one number, and no float is denormal there"""
    x, y = x.convert("fpext", "double"), y.convert("fpext", "double")
    size = x.intrinsic("fabs")
    f, k = elementary.split(size)
    kf = k.convert("sitofp", "double")
    s = f / (f + 2.0)
    z = s * s
    log = fma(kf, elementary.LN2, fma(s * z, polynomial(z, POWER_LOG), s + s))
    log = size.cmp("oeq", 0.0).select(x.const(-math.inf), size.cmp("oeq", math.inf).select(size, log))
    product = clamp(y * log, -200.0, 200.0)
    whole, n = elementary.round_to_int(product * elementary.LOG2E)
    r = fma(whole, -elementary.LN2, product)
    e = fma(r * r, polynomial(r, POWER_EXP), r) + 1.0
    result = power.special(x, y, size, e * elementary.power_of_two(n))
    return result.convert("fptrunc", "float")


def hypot(x: Val, y: Val) -> Val:
    """sqrt(x*x + y*y), whose squares double holds"""
    p, q = x.convert("fpext", "double"), y.convert("fpext", "double")
    root = fma(p, p, q * q).intrinsic("sqrt").convert("fptrunc", "float")
    infinite = x.intrinsic("fabs").cmp("oeq", math.inf) | y.intrinsic("fabs").cmp("oeq", math.inf)
    return infinite.select(x.const(math.inf), root)


def _bits(value: float) -> int:
    return int.from_bytes(struct.pack("<f", value), "little")


def expit(x: Val) -> Val:
    """1 / (1 + e**-x)"""
    return special.logistic(x, exp)


FUNCTIONS: dict[str, Callable[..., Val]] = {
    "exp": exp, "log": log, "expit": expit, "tanh": tanh, "erf": erf, "sin": sin, "cos": cos, "power": power_,
    "hypot": hypot,
}  # fmt: skip
