"""exp and log families as polynomials on double lanes. In: a `Val` of doubles. Out: at most 2 ulp, IEEE special values.

Coefficients: Chebyshev interpolation with mpmath at 50 digits (tests/kernel/test_math.py measures the errors). float32
is computed in double and rounded (see `scalar.py`).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

from tilewise.backend.llvm.emit.outline import called
from tilewise.backend.llvm.emit.text import Val, fma, polynomial
from tilewise.backend.llvm.math.avx512 import scalef, suits
from tilewise.backend.llvm.math.pairs import two_sum
from tilewise.backend.llvm.math.slow_path import outside, rarely
from tilewise.backend.llvm.math.table import body
from tilewise.kernel.family import ARM

LOG2E = 1.4426950408889634
LOG2E_LO = float.fromhex("0x1.777d0ffda0d24p-56")
LN2 = float.fromhex("0x1.62e42fefa39efp-1")
LN2_LO = float.fromhex("0x1.abc9e3b39803fp-56")
LOG10E, LOG10E_LO = 0.4342944819032518, 1.098319650216765e-17
LOG10_2, LOG10_2_LO = 0.30102999566383914, 1.42050232272661e-13  # the first has 42 bits: k times it is exact
# Adding 1.5 * 2**52 rounds to an integer and leaves it in the low bits.
ROUNDER = 1.5 * 2.0**52
ONE_BITS = 0x3FF0000000000000

# (e**r - 1 - r) / r**2 on |r| <= ln(2)/2; error 4e-17
EXP_Q = (
    0.5000000000000001, 0.16666666666666669, 0.041666666666623824, 0.008333333333330039, 0.0013888888917367081,
    0.00019841269863171557, 2.4801521057868204e-05, 2.7557268276905696e-06, 2.7620201591031547e-07,
    2.5100472505694996e-08,
)  # fmt: skip
# (log((1+s)/(1-s)) / s - 2) / s**2 in s**2, on s**2 <= 0.0295
LOG_R = (
    0.666666666666667, 0.3999999999989889, 0.28571428626253836, 0.22222211089379496, 0.1818289243253687,
    0.15331611722055008, 0.14617807153417325,
)  # fmt: skip


def clamp(x: Val, low: float, high: float) -> Val:
    """x within [low, high]; NaN stays NaN."""
    x = at_most(x, high)
    return x.intrinsic("maximum", low) if ARM else x.cmp("olt", low).select(x.const(low), x)


def at_most(x: Val, high: float) -> Val:
    """x or less; NaN stays NaN."""
    return x.intrinsic("minimum", high) if ARM else x.cmp("ogt", high).select(x.const(high), x)


def round_to_int(x: Val, per: float = 1.0) -> tuple[Val, Val]:
    """The nearest integer to |x * per| < 2**51, as a double and as an i64."""
    shifted = x + ROUNDER if per == 1.0 else fma(x, per, ROUNDER)
    return shifted - ROUNDER, shifted.bits() - bits_of(ROUNDER)


def power_of_two(k: Val) -> Val:
    """2.0**k for an i64 in the normal range."""
    return ((k << 52) + ONE_BITS).as_float()


def scale(x: Val, k: Val) -> Val:
    """x * 2**k for |k| < 2000, in two steps so that neither factor overflows."""
    half = (k << 51) & -(1 << 52)  # of the exponent
    return x * (half + ONE_BITS).as_float() * ((k << 52) - half + ONE_BITS).as_float()


def scaled(x: Val, kf: Val, k: Val) -> Val:
    """The same with k as a double, too: one instruction, where there is one."""
    return scalef(x, kf) if suits(x) else scale(x, k)


def exp_reduced(x: Val) -> tuple[Val, Val, Val]:
    """r and e**r - 1 with x = k ln 2 + r, and k."""
    kf, k = round_to_int(x, LOG2E)
    r, p = _exp_rest(x, kf)
    return r, p, k


def _exp_rest(x: Val, kf: Val) -> tuple[Val, Val]:
    """r and e**r - 1 with x = kf ln 2 + r."""
    r = fma(kf, -LN2_LO, fma(kf, -LN2, x))
    return r, fma(r * r, polynomial(r, EXP_Q), r)


@body
def exp(x: Val) -> Val:
    """e**x"""
    x = clamp(x, -760.0, 720.0)
    kf, k = round_to_int(x, LOG2E)
    return scaled(_exp_rest(x, kf)[1] + 1.0, kf, k)


@body
def exp2(x: Val) -> Val:
    """2**x"""
    x = clamp(x, -1100.0, 1030.0)
    kf, k = round_to_int(x)
    r = (x - kf) * LN2
    return scaled(fma(r * r, polynomial(r, EXP_Q), r) + 1.0, kf, k)


@body
def expm1(x: Val) -> Val:
    """e**x - 1, accurate near zero"""
    inside = clamp(x, -60.0, 720.0)
    kf, k = round_to_int(inside, LOG2E)
    # The reduction's rounding would show where 2**k * e**r is near 1: carry it along.
    near = fma(kf, -LN2, inside)
    r = fma(kf, -LN2_LO, near)
    lost = fma(kf, -LN2_LO, near - r)
    p = r + fma(r * r, polynomial(r, EXP_Q), lost)
    # Two halves of 2**k: k can be 1024, where 2**k is not a double but the result may be.
    big = k.cmp("sgt", 1000)
    factor = power_of_two(big.select(k - 64, k))
    y = fma(factor, p, factor - 1.0)
    y = big.select(y * 2.0**64, y)
    return x.cmp("oeq", 0.0).select(x, y)


def split(x: Val) -> tuple[Val, Val]:
    """f and k with x = 2**k * (1 + f), 1 + f in [sqrt(1/2), sqrt(2)), for positive normal x."""
    bits = x.bits()
    # Moving the window to sqrt(1/2) makes the exponent field count from there.
    base = bits_of(math.sqrt(0.5))
    k = (bits - base) >> 52
    mantissa = (bits - (k << 52)).as_float()
    return mantissa - 1.0, k


def _log_tail(f: Val) -> tuple[Val, Val]:
    """h = f*f/2 and t with log(1 + f) = f - (h - t)."""
    s = f / (f + 2.0)
    z = s * s
    half = f * f * 0.5
    return half, s * (half + z * polynomial(z, LOG_R))


def _finite_log(x: Val, y: Val, at_zero: Val) -> Val:
    """y with the special values of a logarithm of x; `at_zero` says where the result is -inf."""
    y = at_zero.select(x.const(-math.inf), y)
    return x.cmp("ueq", math.inf).select(x, y)  # NaN and inf are their own value


def normal(x: Val) -> tuple[Val, Val]:
    """x scaled out of the denormals, and the power of two to subtract (as a double)."""
    tiny = x.cmp("olt", 2.0**-1022)
    return tiny.select(x * 2.0**54, x), tiny.select(x.const(54.0), 0.0)


def _of_all(name: str, log: Callable[[Val, Val], Val], x: Val) -> Val:
    """A logarithm of any x, by what it is of 1 + f and k with x = 2**k * (1 + f), which is positive and normal.

    ARM asks all lanes at once whether they are: 12 instructions less. Where one is not, all are done again.
    """

    def everywhere(x: Val) -> Val:
        scaled, shift = normal(x)
        f, k = split(scaled)
        y = log(f, k.convert("sitofp", "double") - shift)
        y = x.cmp("olt", 0.0).select(x.const(math.nan), y)
        return _finite_log(x, y, x.cmp("oeq", 0.0))

    if not ARM or x.lanes == 1:
        return everywhere(x)
    f, k = split(x)
    y = log(f, k.convert("sitofp", "double"))
    least, most = bits_of(2.0**-1022), bits_of(math.inf) - 1
    return rarely(outside(x, least, most - least), y, lambda: called(name, everywhere, [x]))


def _in_base(f: Val, kf: Val, per_e: tuple[float, float], per_two: tuple[float, float]) -> Val:
    """A logarithm of 2**kf * (1 + f), by what it is of e and of two (each as a sum of two doubles)."""
    half, tail = _log_tail(f)
    hi = f - half
    lo = (f - hi) - half + tail
    p = hi * per_e[0]
    low = fma(lo, per_e[0], fma(hi, per_e[1], fma(hi, per_e[0], -p)))
    whole = kf * per_two[0]
    if per_two[1]:
        low = fma(kf, per_two[1], low)
    w = whole + p
    return w + (low + ((whole - w) + p))


@body
def log(x: Val) -> Val:
    """The natural logarithm"""

    def natural(f: Val, kf: Val) -> Val:
        half, tail = _log_tail(f)
        return fma(kf, LN2, f - (half - fma(kf, LN2_LO, tail)))

    return _of_all("log_everywhere", natural, x)


@body
def log2(x: Val) -> Val:
    """The logarithm to base two"""
    return _of_all("log2_everywhere", lambda f, kf: _in_base(f, kf, (LOG2E, LOG2E_LO), (1.0, 0.0)), x)


@body
def log10(x: Val) -> Val:
    """The logarithm to base ten"""
    per = (LOG10E, LOG10E_LO), (LOG10_2, LOG10_2_LO)
    return _of_all("log10_everywhere", lambda f, kf: _in_base(f, kf, *per), x)


def log_of_sum(u: Val, low: Val, doubled: Val | None = None) -> Val:
    """log(u + low) for positive normal u and a low part below its last bit; times two where `doubled`."""
    f, k = split(u)
    kf = k.convert("sitofp", "double")
    if doubled is not None:
        kf = doubled.select(kf + 1.0, kf)
    half, tail = _log_tail(f)
    correction = fma(kf, LN2_LO, low / u)
    return fma(kf, LN2, f - (half - (tail + correction)))


@body
def log1p(x: Val) -> Val:
    """log(1 + x), accurate near zero"""
    y = log_of_sum(*two_sum(x, 1.0))
    # For k = 0 and f = x the formula keeps the sign of zero and the last bit of tiny x.
    y = x.intrinsic("fabs").cmp("olt", 2.0**-54).select(x, y)
    y = x.cmp("olt", -1.0).select(x.const(math.nan), y)
    return _finite_log(x, y, x.cmp("oeq", -1.0))


def bits_of(value: float) -> int:
    """The bits of a double, as a whole number."""
    return int.from_bytes(struct.pack("<d", value), "little")
