"""gamma and gammaln on double lanes. In: `Val`s of doubles. Out: at most 2 ulp for x > 0; below, libm's lane by lane.

Stirling's series at x + 8 or more, with the logarithm as a sum of two doubles; for smaller x the factors from x up to
there are divided out. Coefficients: Chebyshev interpolation (mpmath).
"""

from __future__ import annotations

import math

from tilewise.backend.llvm.emit.text import Val, fma, polynomial
from tilewise.backend.llvm.math.elementary import scale
from tilewise.backend.llvm.math.pairs import fast_sum, quotient, two_product, two_sum
from tilewise.backend.llvm.math.power import exp_pair, log_pair
from tilewise.backend.llvm.math.slow_path import by_libm_where
from tilewise.backend.llvm.math.table import body

STEPS = 8
# (log gamma(y) - (y - 1/2) log y + y - log(2 pi)/2) * y in 1/y**2, for y >= 8; error 2**-54 of the term
STIRLING = (
    0.08333333333333333, -0.002777777777773988, 0.0007936507897524059, -0.0005952365845057049, 0.0008414700852503147,
    -0.001890382993887715, 0.005065905360156132,
)  # fmt: skip
HALF_LOG_2PI, HALF_LOG_2PI_LO = 0.9189385332046728, -3.8782941580672414e-17
# log gamma(1 + t) and log gamma(2 + t) on |t| <= 1/8: a t + t**2 P(t), a as a sum of two doubles; error 2**-58 of a t
NEAR_ONE = (-0.5772156649015329, 4.942915152430645e-18, (
    0.8224670334241132, -0.40068563438653143, 0.2705808084277731, -0.20738555102866324, 0.16955717700909767,
    -0.1440498967798514, 0.12550966504247354, -0.11133426164969644, 0.10010027504238739, -0.09095478680277302,
    0.08327745465136459, -0.07686060566443692, 0.07495427366391531, -0.06998352362194853,
))  # fmt: skip
NEAR_TWO = (0.42278433509846713, 4.942915152430645e-18, (
    0.3224670334241132, -0.0673523010531981, 0.020580808427784692, -0.0073855510286740525, 0.0028905103306335,
    -0.0011927539116529044, 0.0005096695542256825, -0.00022315477219722382, 9.945387730802947e-05,
    -4.492454203844993e-05, 2.071360325213438e-05, -9.535696732434743e-06,
))  # fmt: skip
END = 172.0  # gamma is inf from 171.62… on


def _stirling(y: Val, y_low: Val) -> tuple[Val, Val]:
    """log gamma(y + y_low) for y >= 8 as a rounded double and the rest."""
    log, log_low = log_pair(y)
    half = y - 0.5
    product, low = two_product(half, log)
    low = fma(half, log_low, low)
    head, lost = fast_sum(product, -y)
    total, more = fast_sum(head, head.const(HALF_LOG_2PI))
    inverse = 1.0 / y
    series = inverse * polynomial(inverse * inverse, STIRLING)
    # The derivative of log gamma, for the low part of y: log y - 1/(2 y).
    rest = (low + HALF_LOG_2PI_LO) + (lost + more) + fma(y_low, log - 0.5 * inverse, series)
    return fast_sum(total, rest)


def _factors(x: Val) -> tuple[Val, Val]:
    """x (x + 1) … (x + STEPS - 1) as a rounded double and the rest."""
    product, low = x, x.const(0.0)
    for i in range(1, STEPS):
        factor, lost = two_sum(x, float(i))
        new, error = two_product(product, factor)
        low = fma(product, lost, fma(low, factor, error))
        product = new
    return fast_sum(product, low)


def _shifted(x: Val) -> tuple[Val, Val, Val]:
    """Whether x is small, and x, or x + STEPS where it is."""
    small = x.cmp("olt", float(STEPS))
    y, low = two_sum(x, float(STEPS))
    return small, small.select(y, x), small.select(low, 0.0)


@body
def gamma(x: Val) -> Val:
    """The gamma function"""
    inside = x.cmp("ogt", END).select(x.const(END), x)
    small, y, y_low = _shifted(inside)
    e, e_low, k = exp_pair(*_stirling(y, y_low))
    product, low = _factors(small.select(inside, 1.0))
    result, _ = quotient(e, e_low, small.select(product, 1.0), small.select(low, 0.0))
    result = scale(result, k)
    return by_libm_where(x.cmp("olt", 2.0**-1000), "tgamma", result, x)


@body
def gammaln(x: Val) -> Val:
    """The logarithm of |gamma(x)|"""
    inside = x.cmp("ogt", 2.0**1000).select(x.const(1.0), x)
    small, y, y_low = _shifted(inside)
    total, rest = _stirling(y, y_low)
    product, low = _factors(small.select(inside, 1.0))
    log, log_low = log_pair(product)
    log_low = log_low + low / product
    log, log_low = small.select(log, 0.0), small.select(log_low, 0.0)
    head, lost = two_sum(total, -log)
    result = head + (lost + (rest - log_low))
    for zero, (slope, slope_low, coefficients) in ((1.0, NEAR_ONE), (2.0, NEAR_TWO)):
        t = x - zero
        first, low = two_product(t, slope)
        near = first + fma(t * t, polynomial(t, coefficients), fma(t, slope_low, low))
        result = t.intrinsic("fabs").cmp("ole", 0.125).select(near, result)
    result = by_libm_where(x.cmp("olt", 2.0**-1000) | x.cmp("ogt", 2.0**1000), "lgamma", result, x)
    return x.cmp("oeq", -math.inf).select(x, result)  # as SciPy has it; libm has inf
