"""Hyperbolic functions and their inverses on double lanes. In: `Val`s of doubles. Out: at most 2 ulp, special values.

Coefficients: tanh from Cephes, sinh by Chebyshev interpolation (mpmath).
"""

from __future__ import annotations

import math

from tilewise.backend.llvm.emit.text import Val, fma, polynomial
from tilewise.backend.llvm.math.elementary import exp_reduced, log_of_sum, power_of_two, scale
from tilewise.backend.llvm.math.pairs import fast_sum, quotient, root, two_product, two_sum
from tilewise.backend.llvm.math.table import body

# tanh(x) = x + x**3 * P(x**2) / Q(x**2) for |x| < 0.625 (Cephes)
TANH_P = (-1.61468768441708447952e3, -9.92877231001918586564e1, -9.64399179425052238628e-1)
TANH_Q = (4.84406305325125486048e3, 2.23548839060100448583e3, 1.12811678491632931402e2, 1.0)
# (sinh(x) - x) / x**3 in x**2, for x <= 1; error 2**-56 of sinh(x)
SINH = (
    0.16666666666666666, 0.008333333333333299, 0.00019841269841324198, 2.7557319191381816e-06, 2.5052117695907823e-08,
    1.6057679623801638e-10, 7.746178593018827e-13,
)  # fmt: skip
TINY = 2.0**-28  # the inverses of such x are x, but for x**3 / 3
LARGE = 2.0**28  # sqrt(x*x + 1) of such x is x


def _half_exp(size: Val) -> Val:
    """e**size / 2, which is finite longer than e**size."""
    capped = size.cmp("ogt", 720.0).select(size.const(720.0), size)
    _, p, k = exp_reduced(capped)
    return scale(p + 1.0, k - 1)


@body
def sinh(x: Val) -> Val:
    """The hyperbolic sine"""
    size = x.intrinsic("fabs")
    z = x * x
    near = fma(x * z, polynomial(z, SINH), x)
    e = _half_exp(size)
    far = (e - 0.25 / e).intrinsic("copysign", x)
    return size.cmp("olt", 1.0).select(near, far)


@body
def cosh(x: Val) -> Val:
    """The hyperbolic cosine"""
    e = _half_exp(x.intrinsic("fabs"))
    return e + 0.25 / e


@body
def tanh(x: Val) -> Val:
    """The hyperbolic tangent"""
    size = x.intrinsic("fabs")
    z = x * x
    near = fma(x * z, polynomial(z, TANH_P) / polynomial(z, TANH_Q), x)
    far = size.cmp("ogt", 22.0).select(x.const(22.0), size)
    _, p, k = exp_reduced(far + far)
    e = power_of_two(k)
    y = 1.0 - 2.0 / (fma(e, p, e) + 1.0)
    result = size.cmp("olt", 0.625).select(near, y.intrinsic("copysign", x))
    return x.cmp("ueq", 0.0).select(x, result)  # NaN and both zeros are their own value


def _log_with_root(x: Val, one: float) -> Val:
    """log(x + sqrt(x*x + one)) for x >= 0, with the low parts of the root and the sum."""
    large = x.cmp("ogt", LARGE)
    inside = large.select(x.const(1.0), x)
    square, square_low = two_product(inside, inside)
    total, lost = two_sum(square, one)
    s, s_low = root(total, lost + square_low)
    u, u_low = two_sum(inside, s)
    # Large x: log(2 x).
    return log_of_sum(large.select(x, u), large.select(x.const(0.0), u_low + s_low), doubled=large)


@body
def arcsinh(x: Val) -> Val:
    """The inverse of sinh"""
    size = x.intrinsic("fabs")
    y = _log_with_root(size, 1.0).intrinsic("copysign", x)
    own = size.cmp("olt", TINY) | ~size.cmp("olt", math.inf)
    return own.select(x, y)


@body
def arccosh(x: Val) -> Val:
    """The inverse of cosh, not negative"""
    y = _log_with_root(x, -1.0)
    y = x.cmp("ult", 1.0).select(x.const(math.nan), y)
    return x.cmp("oeq", math.inf).select(x, y)


@body
def arctanh(x: Val) -> Val:
    """The inverse of tanh"""
    size = x.intrinsic("fabs")
    u, low = quotient(*fast_sum(x.const(1.0), size), *fast_sum(x.const(1.0), -size))
    y = (log_of_sum(u, low) * 0.5).intrinsic("copysign", x)
    y = size.cmp("oeq", 1.0).select(x.const(math.inf).intrinsic("copysign", x), y)
    y = size.cmp("ogt", 1.0).select(x.const(math.nan), y)
    return size.cmp("ult", TINY).select(x, y)
