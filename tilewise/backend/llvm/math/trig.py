"""sin, cos, tan and their inverses on double lanes. In: `Val`s of doubles. Out: at most 2 ulp, IEEE special values.

Coefficients: sin and cos from fdlibm, the inverses by Chebyshev interpolation (mpmath).
"""

from __future__ import annotations

import math

from tilewise.backend.llvm.emit.text import Val, anywhere, fma, polynomial
from tilewise.backend.llvm.math.elementary import bits_of, round_to_int
from tilewise.backend.llvm.math.pairs import fast_sum, quotient, root, two_product
from tilewise.backend.llvm.math.slow_path import by_libm_where, rarely_all
from tilewise.backend.llvm.math.table import body

# sin(r) and cos(r) on |r| <= pi/4 (fdlibm)
SIN_S = (
    -1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04, 2.75573137070700676789e-06,
    -2.50507602534068634195e-08, 1.58969099521155010221e-10,
)  # fmt: skip
COS_C = (
    4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05, -2.75573143513906633035e-07,
    2.08757232129817482790e-09, -1.13596475577881948265e-11,
)  # fmt: skip
# (sin(r) - r) / r**3 in r**2, for |r| <= pi/2; error 2**-54.6 of sin(r)
SIN_HALF = (
    -0.16666666666666666, 0.008333333333333316, -0.00019841269841254955, 2.755731921915843e-06, -2.5052107616384595e-08,
    1.6058977272815506e-10, -7.643969031052769e-13, 2.731428986122616e-15,
)  # fmt: skip
# (atan(x) - x) / x**3 in x**2, for x <= tan(pi/8); error 2**-57 of atan(x)
ATAN = (
    -0.3333333333333333, 0.19999999999995516, -0.14285714284665682, 0.11111111015187018, -0.0909090457530649,
    0.07692183125376892, -0.06664510525508936, 0.05858140904866328, -0.050854078345894844, 0.03923044778479309,
    -0.019175404711104935,
)  # fmt: skip
# (asin(x) - x) / x**3 in x**2, for x <= 1/2; error 2**-57 of asin(x)
ASIN = (
    0.16666666666666669, 0.07499999999998433, 0.04464285714635543, 0.030381944138531247, 0.02237217294214989,
    0.017352392720869973, 0.013971212973552933, 0.011479177415184906, 0.01032281435018578, 0.005457506718640358,
    0.01740087944269402, -0.014851887071247204, 0.028757851367421566,
)  # fmt: skip
HALF_PI, HALF_PI_LO, HALF_PI_LEAST = 1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33
TAN_EIGHTH = math.sqrt(2.0) - 1.0  # tan(pi/8)
SIGN = -(1 << 63)
LARGE, SMALL = 2.0**1000, 2.0**-900  # beyond, sums of two overflow, and quotients lose bits
# Beyond this the three-part reduction loses bits and libm does the lanes one by one.
TRIG_LIMIT = 2.0**20


def _turned(x: Val, turns: int) -> tuple[Val, Val, Val]:
    """r as a rounded double and the rest, with x = k (turns pi/2) + r and |r| <= turns pi/4; and k."""
    kf, k = round_to_int(x * (2.0 / math.pi / turns))
    near = fma(kf, -HALF_PI * turns, x)
    second, second_low = two_product(kf, HALF_PI_LO * turns)
    r = near - second
    return r, ((near - r) - second) - fma(kf, HALF_PI_LEAST * turns, second_low), k


def _reduced(x: Val) -> tuple[tuple[Val, Val], tuple[Val, Val], Val]:
    """sin(r) and cos(r), each as two terms, with x = k pi/2 + r and |r| <= pi/4; and k."""
    r, low, k = _turned(x, 1)
    z = r * r
    half = z * 0.5
    head = 1.0 - half
    sin = fma(r * z, polynomial(z, SIN_S), low * head)
    cos = fma(z * z, polynomial(z, COS_C), fma(-r, low, (1.0 - head) - half))
    return (r, sin), (head, cos), k


def _exact_where_large(x: Val, libm: str, y: Val) -> Val:
    return by_libm_where(~x.intrinsic("fabs").cmp("ole", TRIG_LIMIT), libm, y, x)


@body
def sin(x: Val) -> Val:
    """The sine"""
    r, low, k = _turned(x, 2)
    z, z_low = two_product(r, r)
    cube = r * z
    # The rests count by the derivatives, of which a parabola and a line are enough.
    rest = fma(r * z_low, -0.14, low * fma(z, -1.0 / HALF_PI**2, 1.0))
    y = r + fma(cube, SIN_HALF[0], fma(cube * z, polynomial(z, SIN_HALF[1:]), rest))
    y = x.cmp("oeq", 0.0).select(x, (y.bits() ^ (k << 63)).as_float())
    return _exact_where_large(x, "sin", y)


@body
def cos(x: Val) -> Val:
    """The cosine"""
    (r, sin), (head, cos), k = _reduced(x)
    k = k + 1
    y = (k & 1).cmp("ne", 0).select(head + cos, r + sin)
    return _exact_where_large(x, "cos", (y.bits() ^ ((k & 2) << 62)).as_float())


def sin_beside_cos(x: Val) -> Val:
    """The sine by the steps of `cos`, which LLVM then does once for both."""
    (r, sin), (head, cos), k = _reduced(x)
    y = (k & 1).cmp("ne", 0).select(head + cos, r + sin)
    y = x.cmp("oeq", 0.0).select(x, (y.bits() ^ ((k & 2) << 62)).as_float())
    return _exact_where_large(x, "sin", y)


@body
def tan(x: Val) -> Val:
    """The tangent"""
    sin, cos, k = _reduced(x)
    odd = (k & 1).cmp("ne", 0)
    (s, s_low), (c, c_low) = fast_sum(*sin), fast_sum(*cos)
    y, _ = quotient(odd.select(-c, s), odd.select(-c_low, s_low), odd.select(s, c), odd.select(s_low, c_low))
    return _exact_where_large(x, "tan", x.cmp("oeq", 0.0).select(x, y))


def _angle(small: Val, large: Val, steep: Val, left: Val | None = None) -> Val:
    """atan(small / large) for 0 <= small <= large; less than a right angle by that where steep; the rest of pi left."""
    # Above tan(pi/8): atan(q) = pi/4 + atan((q - 1) / (q + 1)).
    beyond = small.cmp("ogt", large * TAN_EIGHTH)
    top, top_low = fast_sum(-large, small)
    bottom, bottom_low = fast_sum(large, small)
    r, low = quotient(
        beyond.select(top, small), beyond.select(top_low, 0.0), beyond.select(bottom, large),
        beyond.select(bottom_low, 0.0),
    )  # fmt: skip
    z = r * r
    tail = fma(r * z, polynomial(z, ATAN), low)
    # All angles are eighths of a turn plus or minus that.
    eighths = beyond.select(r.const(1.0), 0.0)
    eighths = steep.select(2.0 - eighths, eighths)
    minus = steep
    if left is not None:
        eighths, minus = left.select(4.0 - eighths, eighths), steep ^ left
    sign = minus.select(r.const(SIGN, "i64"), 0)
    r, tail = ((v.bits() ^ sign).as_float() for v in (r, tail))
    base = eighths * (HALF_PI / 2)  # 0, or larger than r
    head, lost = fast_sum(base, r)
    return head + (lost + (fma(eighths, HALF_PI / 2, -base) + fma(eighths, HALF_PI_LO / 2, tail)))


@body
def arctan(x: Val) -> Val:
    """The angle whose tangent is x"""
    size = x.intrinsic("fabs")
    steep = size.cmp("ogt", 1.0)
    one = x.const(1.0)
    angle = _angle(steep.select(one, size), steep.select(size, one), steep)
    return size.cmp("oeq", math.inf).select(x.const(HALF_PI), angle).intrinsic("copysign", x)


@body
def arctan2(y: Val, x: Val) -> Val:
    """The angle of the point (x, y)"""
    across, up = x.intrinsic("fabs"), y.intrinsic("fabs")
    steep = up.cmp("ogt", across)
    small, large = steep.select(across, up), steep.select(up, across)

    def safe() -> tuple[Val, Val]:
        # Neither sums that overflow, nor quotients that lose bits below the normal numbers: scaled by powers of two.
        huge, tiny = large.cmp("ogt", LARGE), large.cmp("olt", SMALL)
        factor = huge.select(x.const(2.0**-60), tiny.select(x.const(2.0**120), 1.0))
        # inf / inf is 1 here, and x / inf and 0 / 0 are 0 (the general formula would have NaN).
        endless, both, none = large.cmp("oeq", math.inf), small.cmp("oeq", math.inf), large.cmp("oeq", 0.0)
        one = x.const(1.0)
        top = both.select(one, small * endless.select(x.const(0.0), factor))
        return top, (endless | none).select(one, large * factor)

    far = (large.bits() - bits_of(SMALL)).cmp("ugt", bits_of(LARGE) - bits_of(SMALL))
    small, large = rarely_all(anywhere(far), (small, large), safe)
    return _angle(small, large, steep, x.bits().cmp("slt", 0)).intrinsic("copysign", y)


def _asin_parts(size: Val) -> tuple[Val, Val, Val]:
    """Whether size > 1/2, and s, t with asin(size) = s + t there not, acos(size) = 2 (s + t) there."""
    far = size.cmp("ogt", 0.5)
    half = (1.0 - size) * 0.5
    s, low = root(half, half.const(0.0))
    z = far.select(half, size * size)
    s = far.select(s, size)
    return far, s, fma(s * z, polynomial(z, ASIN), far.select(low, 0.0))


@body
def arcsin(x: Val) -> Val:
    """The angle whose sine is x"""
    far, s, tail = _asin_parts(x.intrinsic("fabs"))
    beyond = (HALF_PI - (s + s)) - ((tail + tail) - HALF_PI_LO)
    return far.select(beyond, s + tail).intrinsic("copysign", x)


@body
def arccos(x: Val) -> Val:
    """The angle whose cosine is x"""
    far, s, tail = _asin_parts(x.intrinsic("fabs"))
    negative = x.cmp("olt", 0.0)
    # |x| > 1/2: 2 (s + tail) or pi less that; else pi/2 -+ (s + tail)
    twice = (s + s) + (tail + tail)
    beyond = negative.select((2 * HALF_PI - (s + s)) - ((tail + tail) - 2 * HALF_PI_LO), twice)
    s, tail = negative.select(-s, s), negative.select(-tail, tail)
    return far.select(beyond, HALF_PI - (s + (tail - HALF_PI_LO)))
