"""sqrt, cbrt and hypot on double lanes. In: `Val`s of doubles. Out: at most 1 ulp (sqrt 1/2), IEEE special values."""

from __future__ import annotations

import math

from tilewise.backend.llvm.emit.text import Val, apart, fma, joined, polynomial
from tilewise.backend.llvm.math import avx512, neon
from tilewise.backend.llvm.math.elementary import normal, power_of_two, round_to_int
from tilewise.backend.llvm.math.pairs import two_product
from tilewise.backend.llvm.math.slow_path import outside, rarely
from tilewise.backend.llvm.math.table import body

# m**(-1/3) on [1, 2]; error 2**-17 (Chebyshev interpolation, mpmath)
RCBRT = (
    1.7776471684890054, -1.5540274077106597, 1.2271496200207155, -0.5865141615889806, 0.15224956438221762,
    -0.016511679091286462,
)  # fmt: skip
LARGE, SMALL = 2.0**500, 2.0**-500  # beyond, squares overflow or lose bits
SQRT_FROM, SQRT_SPAN = (1023 - 900) << 52, 1800 << 52  # the bits of 2**-900, and how far 2**900 is from them
MANTISSA, ONE = 0x000FFFFFFFFFFFFF, 0x3FF0000000000000


def sqrt(x: Val) -> Val:
    """The square root, rounded once as the instruction does it, which takes twice as long (and divisions wait for it).

    On ARM, multiplications make some lanes while the divider makes the others.
    """
    if avx512.suits(x):
        return _by_products(x)
    first = neon.rooted_lanes(x)
    if first in (0, x.lanes):
        return _by_products(x) if first else x.intrinsic("sqrt")
    size = min(first, x.lanes - first)
    others = [neon.kept(x.shuffle(k, size).intrinsic("sqrt")) for k in range(first, x.lanes, size)]
    root = _by_products(x.shuffle(0, first))
    return joined([*(root.shuffle(k, size) for k in range(0, first, size)), *others])


def _by_products(x: Val) -> Val:
    """The square root by multiplications.

    g -> sqrt(x) and h -> 1 / (2 sqrt(x)) start with 14 bits, which two steps of Newton's make 52 (Goldschmidt), or with
    8 bits, for three. Then g + (x - g*g) h, rounded, is off by less than any root can be close to the middle of two
    doubles, but for two: those of 1 and its last bit, and of all bits. These, and what is not well within the normal
    range, go another way.
    """
    if avx512.suits(x):
        y, steps = avx512.rsqrt14(x), 2
        g = x * y
        close = ((x.bits() + 1) & (MANTISSA - 2)).cmp("eq", 0)
    else:
        y, steps = neon.rsqrt8(x), 1
        g = x * y
        for _ in range(2):
            s = neon.rsqrt_step(g, y)
            g, y = g * s, y * s
        low = apart(x.halves())[0]  # these tell nearly as much, in half as many vectors
        close = low.cmp("slt", 0).select(0 - low, low).cmp("eq", 1)
    h = y * 0.5
    for _ in range(steps):
        r = fma(-g, h, 0.5)
        g, h = fma(g, r, g), fma(h, r, h)
    hard = outside(x, SQRT_FROM, SQRT_SPAN, also=close)
    return rarely(hard, fma(fma(-g, g, x), h, g), lambda: x.intrinsic("sqrt"))


@body
def cbrt(x: Val) -> Val:
    """The cube root"""
    size, shift = normal(x.intrinsic("fabs"))
    bits = size.bits()
    m = ((bits & MANTISSA) | ONE).as_float()
    exponent = (bits >> 52) - 1023
    ef = exponent.convert("sitofp", "double")
    # exponent = 3 third + left, left in 0, 1, 2
    third_f, third = round_to_int((ef - 1.0) * (1.0 / 3.0))
    left = fma(third_f, -3.0, ef)
    one, two = left.cmp("ogt", 0.5), left.cmp("ogt", 1.5)
    a = two.select(m * 4.0, one.select(m + m, m))
    start = two.select(x.const(4.0 ** (-1 / 3)), one.select(x.const(2.0 ** (-1 / 3)), 1.0))
    y = polynomial(m, RCBRT) * start
    # y -> a**(-1/3), of third order: 17 bits become 50.
    e = fma(-(y * y) * y, a, 1.0)
    y = fma(y * e, fma(e, 2.0 / 9.0, 1.0 / 3.0), y)
    slope = y * y
    t = a * slope
    # One step of Newton's on t**3 = a, with the exact residual.
    square, low = two_product(t, t)
    residual = fma(-square, t, a) - low * t
    t = fma(residual, slope * (1.0 / 3.0), t)
    # 54, by which tiny x were scaled, is three times 18.
    root = t * power_of_two(third) * shift.cmp("ogt", 0.0).select(x.const(2.0**-18), 1.0)
    own = x.cmp("oeq", 0.0) | ~x.intrinsic("fabs").cmp("olt", math.inf)
    return own.select(x, root.intrinsic("copysign", x))


@body
def hypot(x: Val, y: Val) -> Val:
    """sqrt(x*x + y*y) without overflow"""
    a, b = x.intrinsic("fabs"), y.intrinsic("fabs")
    swap = b.cmp("ogt", a)
    large, small = swap.select(b, a), swap.select(a, b)
    huge, tiny = large.cmp("ogt", LARGE), large.cmp("olt", SMALL)
    down = huge.select(x.const(2.0**-600), tiny.select(x.const(2.0**600), 1.0))
    up = huge.select(x.const(2.0**600), tiny.select(x.const(2.0**-600), 1.0))
    p, q = large * down, small * down
    root = sqrt(fma(p, p, q * q)) * up
    infinite = a.cmp("oeq", math.inf) | b.cmp("oeq", math.inf)
    return infinite.select(x.const(math.inf), root)
