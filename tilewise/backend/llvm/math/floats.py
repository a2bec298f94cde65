"""Floats that are taken apart: remainders, scaling, neighbours. In: `Val`s of floats. Out: NumPy's bits."""

from __future__ import annotations

import math

from tilewise.backend.llvm.emit.text import Val, fma
from tilewise.backend.llvm.math.elementary import power_of_two
from tilewise.backend.llvm.math.slow_path import by_libm_where

EXACT = {"double": 2.0**53, "float": 2.0**24}  # whole numbers below are floats


def fmod(a: Val, b: Val) -> Val:
    """The exact remainder with the sign of a."""
    quotient = a / b
    # Of a quotient below 2**53 the whole part is right, or one too large; then the remainder is exact, or -b too small.
    rest = fma(-quotient.intrinsic("trunc"), b, a)
    size = b.intrinsic("fabs")
    beyond = (rest * a.const(1.0).intrinsic("copysign", a)).cmp("olt", 0.0)
    rest = beyond.select(rest + size.intrinsic("copysign", a), rest).intrinsic("copysign", a)
    hard = ~(quotient.intrinsic("fabs").cmp("olt", EXACT[a.ty]) & size.cmp("olt", math.inf))
    return by_libm_where(hard, "fmod", rest, a, b)


def divmod_(a: Val, b: Val) -> tuple[Val, Val]:
    """floor_divide and remainder, as npy_divmod."""
    raw = fmod(a, b)
    nonzero = raw.cmp("une", 0.0)
    wrong_side = nonzero & (b.cmp("olt", 0.0) ^ raw.cmp("olt", 0.0))
    mod = wrong_side.select(raw + b, nonzero.select(raw, a.const(0.0).intrinsic("copysign", b)))
    quotient = (a - raw) / b
    quotient = wrong_side.select(quotient - 1.0, quotient)
    floor = quotient.intrinsic("floor")
    floor = (quotient - floor).cmp("ogt", 0.5).select(floor + 1.0, floor)
    div = quotient.cmp("une", 0.0).select(floor, a.const(0.0).intrinsic("copysign", a / b))
    zero = b.cmp("oeq", 0.0)
    return zero.select(a / b, div), zero.select(raw, mod)


def fraction(a: Val) -> Val:
    """The part after the point, with the sign of a."""
    part = a - a.intrinsic("trunc")
    part = a.intrinsic("fabs").cmp("oeq", math.inf).select(a.const(0.0), part)
    return part.intrinsic("copysign", a)


def heaviside(a: Val, at_zero: Val) -> Val:
    """0 below zero, 1 above, `at_zero` there."""
    step = a.cmp("olt", 0.0).select(a.const(0.0), 1.0)
    step = a.cmp("oeq", 0.0).select(at_zero, step)
    return a.cmp("uno", a).select(a, step)


def ldexp(a: Val, n: Val) -> Val:
    """a * 2**n, rounded once."""
    single = a.ty == "float"
    x = a.convert("fpext", "double") if single else a
    k = n if n.ty == "i64" else n.convert("sext", "i64")
    # Twice by the largest steps that keep all bits, then by what is left.
    for _ in range(2):
        up, down = k.cmp("sgt", 1023), k.cmp("slt", -1022)
        x = x * up.select(x.const(2.0**1023), down.select(x.const(2.0**-969), 1.0))
        k = k + up.select(k.const(-1023), down.select(k.const(969), 0))
    k = k.cmp("sgt", 1023).select(k.const(1023), k)
    k = k.cmp("slt", -1022).select(k.const(-1022), k)
    x = x * power_of_two(k)
    return x.convert("fptrunc", "float") if single else x


def nextafter(a: Val, b: Val) -> Val:
    """The float next to a on the way to b."""
    bits = a.bits()
    outwards = (a.cmp("olt", b) ^ a.cmp("olt", 0.0)).select(bits + 1, bits - 1)
    least = bits.const(1).as_float().intrinsic("copysign", b)
    moved = a.cmp("oeq", 0.0).select(least, outwards.as_float())
    return a.cmp("uno", b).select(a + b, a.cmp("oeq", b).select(b, moved))


def spacing(a: Val) -> Val:
    """The distance to the next float away from zero, with the sign of a."""
    size = a.intrinsic("fabs")
    gap = (size.bits() + 1).as_float() - size
    gap = a.cmp("oeq", 0.0).select(gap, gap.intrinsic("copysign", a))
    return size.cmp("olt", math.inf).select(gap, math.nan)
