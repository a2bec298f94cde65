"""erf, tanh, sin and cos on double lanes. In: `Val`s of doubles. Out: at most 2 ulp, IEEE special values.

Coefficients: erf by a weighted minimax fit (mpmath, Lawson's algorithm), tanh from Cephes, sin and cos from fdlibm.
"""

from __future__ import annotations

import math

from tilewise.target.llvm.elementary import exp_reduced, power_of_two, round_to_int
from tilewise.target.llvm.text import Val, anywhere, fma, polynomial

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
# tanh(x) = x + x**3 * P(x**2) / Q(x**2) for |x| < 0.625 (Cephes)
TANH_P = (-1.61468768441708447952e3, -9.92877231001918586564e1, -9.64399179425052238628e-1)
TANH_Q = (4.84406305325125486048e3, 2.23548839060100448583e3, 1.12811678491632931402e2, 1.0)
# sin(r) and cos(r) on |r| <= pi/4 (fdlibm)
SIN_S = (
    -1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04, 2.75573137070700676789e-06,
    -2.50507602534068634195e-08, 1.58969099521155010221e-10,
)  # fmt: skip
COS_C = (
    4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05, -2.75573143513906633035e-07,
    2.08757232129817482790e-09, -1.13596475577881948265e-11,
)  # fmt: skip
HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)
# Beyond this the three-part reduction loses bits and libm does the lanes one by one.
TRIG_LIMIT = 2.0**20


def erf(x: Val) -> Val:
    """The error function"""
    size = x.intrinsic("fabs")
    z = x * x
    near = fma(x, polynomial(z, ERF_P), x)
    far = size.cmp("ogt", 6.0).select(x.const(6.0), size)
    u = fma(1.0 / (far + 2.5), ERFCX_A, ERFCX_B)
    # The rounding of far*far costs erfc(x) * x*x ulps of erfc, which is far below one of erf.
    _, p, k = exp_reduced(-(far * far))
    e = power_of_two(k)
    erfc = fma(e, p, e) * polynomial(u, ERFCX)
    result = size.cmp("olt", 1.0).select(near, (1.0 - erfc).intrinsic("copysign", x))
    return x.cmp("uno", 0.0).select(x, result)


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


def _trig(x: Val, quarter_turns: int, libm: str) -> Val:
    """sin(x + quarter_turns * pi/2)."""
    kf, k = round_to_int(x * (2.0 / math.pi))
    r = x
    for part in HALF_PI:
        r = fma(kf, -part, r)
    z = r * r
    sin = fma(r * z, polynomial(z, SIN_S), r)
    half = z * 0.5
    head = 1.0 - half
    cos = head + fma(z * z, polynomial(z, COS_C), (1.0 - head) - half)
    k = k + quarter_turns
    y = (k & 1).cmp("ne", 0).select(cos, sin)
    y = (y.bits() ^ ((k & 2) << 62)).as_float()
    if not quarter_turns:
        y = x.cmp("oeq", 0.0).select(x, y)
    return _by_libm_where(x, ~x.intrinsic("fabs").cmp("ole", TRIG_LIMIT), libm, y)


def _by_libm_where(x: Val, hard: Val, libm: str, y: Val) -> Val:
    """y, or libm's value in all lanes when some lane is hard: a branch that is hardly ever taken."""
    fn = x.fn
    slow, done = fn.fresh("slow"), fn.fresh("done")
    before = fn.block
    fn.do(f"br {anywhere(hard).text}, label %{slow}, label %{done}")
    fn.label(slow)
    exact = hard.select(x.intrinsic(libm), y)
    fn.do(f"br label %{done}")
    fn.label(done)
    kind = y.text.removesuffix(y.name)
    return y.make(f"phi {kind}[ {y.name}, %{before} ], [ {exact.name}, %{slow} ]")


def sin(x: Val) -> Val:
    """The sine"""
    return _trig(x, 0, "sin")


def cos(x: Val) -> Val:
    """The cosine"""
    return _trig(x, 1, "cos")
