"""erf, erfc and their kin on double lanes. In: `Val`s of doubles. Out: at most 2 ulp, IEEE special values.

Coefficients: erf by a weighted minimax fit (mpmath, Lawson's algorithm), erfc by Chebyshev interpolation.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tilewise.backend.llvm.emit.text import Val, fma, polynomial
from tilewise.backend.llvm.math.elementary import (
    LOG2E,
    at_most,
    exp,
    exp2,
    exp_reduced,
    log,
    log1p,
    log_of_sum,
    power_of_two,
    scale,
)
from tilewise.backend.llvm.math.pairs import fast_sum, quotient, two_product
from tilewise.backend.llvm.math.table import body

# erf(x) / x - 1 in x**2, on x**2 <= 1; error 1e-17
ERF_P = (
    0.12837916709551256, -0.37612638903183543, 0.11283791670945006, -0.02686617064323777, 0.0052239776071164225,
    -0.0008548325975389692, 0.00012055294904839707, -1.492473690741966e-05, 1.6447424703317362e-06,
    -1.6208483801871705e-07, 1.3720064546777686e-08, -7.795898827002142e-10,
)  # fmt: skip
# erfc(x) * exp(x*x) on 1 <= x <= 6 in u = A / (x + 2.5) + B; error of erfc below 2**-56
ERFCX_A, ERFCX_B = 11.9, -2.4
ERFCX = (
    0.21394805165754754, 0.15798058438196988, 0.04499721516891377, 0.009374321299546271, 0.001249399752443317,
    5.053695017443662e-05, -1.481945694842351e-05, -1.988924256817899e-06, 2.3007400997503003e-07,
    5.400621457654279e-08, -8.753807571966167e-09,
)  # fmt: skip
# erfc(x) * exp(x*x) * (1 + 2 x) on 1/2 <= x <= 27.5 is HEAD + t TAIL(t) with t = (x - C) / (x + C); error 2**-57
TAIL_C = 3.5
HEAD, HEAD_LO = 1.2423492448711544, -1.0846756337728736e-17
TAIL = (
    -0.1400091801376194, -0.010555596332218187, 0.09751909515325544, -0.11508959816019818, 0.087983153824984,
    -0.04882332582774931, 0.019099330940408693, -0.004215019909758838, -0.0003022678593040315, 0.0005643844327911639,
    -0.0001215125186092381, -4.2782302542950644e-05, 2.4261258123456305e-05, 2.3285146062435864e-06,
    -3.815079521880384e-06, -4.45832269625481e-08, 6.01078994166306e-07, -7.624117911069303e-09,
    -9.371459422224175e-08, 4.697481205664926e-10, 1.0626378168225577e-08, -8.689931460950133e-12,
)  # fmt: skip
TAIL_END = 27.5  # erfc is 0 here
ROOT_HALF, ROOT_HALF_LO = 0.7071067811865476, -4.833646656726457e-17


@body
def erf(x: Val) -> Val:
    """The error function"""
    size = x.intrinsic("fabs")
    z = x * x
    near = fma(x, polynomial(z, ERF_P, loaded=True), x)
    far = at_most(size, 6.0)
    u = fma(1.0 / (far + 2.5), ERFCX_A, ERFCX_B)
    # The rounding of far*far costs erfc(x) * x*x ulps of erfc, which is far below one of erf.
    _, p, k = exp_reduced(-(far * far))
    e = power_of_two(k)
    erfc = fma(e, p, e) * polynomial(u, ERFCX, loaded=True)
    return size.cmp("olt", 1.0).select(near, (1.0 - erfc).intrinsic("copysign", x))


def _tail(x: Val, low: Val | None) -> Val:
    """erfc(x + low) for x >= 1/2: e**(-x*x) with the low parts of the square, of the power and of 1 / (1 + 2 x)."""
    h, h_low = two_product(x, x)
    if low is not None:
        h_low = fma(x + x, low, h_low)
    _, p, k = exp_reduced(-h)
    e = p + 1.0
    e_low = fma(-e, h_low, p - (e - 1.0))
    d = fma(x, 2.0, 1.0)
    d_low = (1.0 - d) + (x + x)
    if low is not None:
        d_low = fma(low, 2.0, d_low)
    shifted = x + TAIL_C
    inverse = 1.0 / (d * shifted)
    v = shifted * inverse
    v_low = v * (fma(-v, d, 1.0) - v * d_low)
    t = (x - TAIL_C) * (d * inverse)
    q = fma(t, polynomial(t, TAIL), HEAD_LO)
    w, w_low = two_product(v, HEAD)
    w, w_low = fast_sum(w, fma(q, v, fma(v_low, HEAD, w_low)))
    return scale(fma(e, w, fma(e_low, w, e * w_low)), k)


def _erfc(x: Val, low: Val | None = None) -> Val:
    size = x.intrinsic("fabs")
    inside = size.cmp("ogt", TAIL_END).select(x.const(TAIL_END), size)
    size_low = None if low is None else (low.bits() ^ (x.bits() & -(1 << 63))).as_float()
    tail = _tail(inside, size_low)
    far = x.cmp("olt", 0.0).select(2.0 - tail, tail)
    # 1 - erf(x) = (1 - x) - x P
    head = 1.0 - x
    lost = (1.0 - head) - x
    if low is not None:
        lost = fma(low, -1.13, lost)
    near = head - fma(x, polynomial(x * x, ERF_P), -lost)
    return (x.cmp("olt", 0.5) & size.cmp("olt", 1.0)).select(near, far)


@body
def erfc(x: Val) -> Val:
    """1 - erf(x)"""
    return _erfc(x)


@body
def ndtr(x: Val) -> Val:
    """The normal distribution function"""
    y = x * -ROOT_HALF
    low = fma(x, -ROOT_HALF, -y) + x * -ROOT_HALF_LO
    finite = x.intrinsic("fabs").cmp("olt", 100.0)  # beyond, the low part could be inf - inf
    return _erfc(y, finite.select(low, 0.0)) * 0.5


def logistic(x: Val, exponential: Callable[[Val], Val]) -> Val:
    """1 / (1 + e**-x), with the rounding of the sum made good."""
    e = exponential(-x.intrinsic("fabs"))
    top = x.cmp("olt", 0.0).select(e, 1.0)
    return quotient(top, x.const(0.0), *fast_sum(x.const(1.0), e))[0]


@body
def expit(x: Val) -> Val:
    """1 / (1 + e**-x)"""
    return logistic(x, exp)


@body
def logit(x: Val) -> Val:
    """log(x / (1 - x)), the inverse of expit"""
    tiny = x.cmp("olt", 2.0**-60)
    inside = tiny.select(x.const(0.25), x)
    zero = x.const(0.0)
    u, low = quotient(inside, zero, *fast_sum(x.const(1.0), -inside))
    y = log_of_sum(u, low)
    y = x.cmp("oeq", 1.0).select(x.const(math.inf), y)
    y = x.cmp("ugt", 1.0).select(x.const(math.nan), y)
    return tiny.select(log(x), y)


@body
def xlogy(x: Val, y: Val) -> Val:
    """x log(y), and 0 for x = 0"""
    quiet = x.cmp("oeq", 0.0) & y.cmp("ord", y)
    return quiet.select(x.const(0.0), x * log(y))


@body
def logaddexp(x: Val, y: Val) -> Val:
    """log(e**x + e**y)"""
    large, gap = _apart(x, y)
    return large + log1p(exp(gap))


@body
def logaddexp2(x: Val, y: Val) -> Val:
    """log2(2**x + 2**y)"""
    large, gap = _apart(x, y)
    return large + log1p(exp2(gap)) * LOG2E


def _apart(x: Val, y: Val) -> tuple[Val, Val]:
    """The larger of two, and how far the smaller is below it (0 between equal infinities, NaN with a NaN)."""
    less = x.cmp("olt", y)
    large, small = less.select(y, x), less.select(x, y)
    gap = x.cmp("oeq", y).select(x.const(0.0), small - large)
    return large, gap
