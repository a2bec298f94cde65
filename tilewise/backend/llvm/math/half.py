"""float16 on lanes: kept in registers as float32 that float16 holds, in memory as 16 bits. In: `Val`s. Out: `Val`s.

NumPy computes in float32 and rounds each result to float16; so do we. By integer instructions, since not every machine
converts halves.
"""

from __future__ import annotations

from tilewise.backend.llvm.emit.text import Val

SIGN, SIZE, INFINITE = 0x8000, 0x7FFF, 0x7F800000
LEAST, LARGEST = 113 << 23, 143 << 23  # exponents (as float bits) of 2**-14 and 2**16
EXTRA_BITS = 13  # that float32 has and float16 has not
REBASE = 2.0**112  # between the exponent biases


def rounded(x: Val) -> Val:
    """A float32 to the nearest float16, ties to even."""
    exponent = (x.bits() & INFINITE).intrinsic("smax", LEAST).intrinsic("smin", LARGEST)
    # The last place of this number is that of the half: adding it rounds.
    rounder = (exponent + (EXTRA_BITS << 23)).as_float()
    size = (x.intrinsic("fabs") + rounder) - rounder
    size = size.cmp("oge", 2.0**16).select(size.const(float("inf")), size)
    return size.intrinsic("copysign", x)


def rounded_double(x: Val) -> Val:
    """A double to the nearest float16 (not by way of the nearest float32)."""
    exponent = x.bits() & (0x7FF << 52)
    exponent = exponent.intrinsic("smax", 1009 << 52).intrinsic("smin", 1039 << 52)
    rounder = (exponent + (42 << 52)).as_float()
    size = ((x.intrinsic("fabs") + rounder) - rounder).convert("fptrunc", "float")
    size = size.cmp("oge", 2.0**16).select(size.const(float("inf")), size)
    return size.intrinsic("copysign", x.convert("fptrunc", "float"))


def from_memory(h: Val) -> Val:
    """16 bits to float32."""
    wide = h.convert("zext", "i32")
    size = (wide & SIZE) << EXTRA_BITS
    number = (size.as_float() * REBASE).bits()
    special = size.cmp("uge", 0x7C00 << EXTRA_BITS)
    return (special.select(size | INFINITE, number) | ((wide & SIGN) << 16)).as_float()


def to_memory(x: Val) -> Val:
    """A float32 that float16 holds to 16 bits."""
    bits = x.bits()
    size = bits & 0x7FFFFFFF
    number = (size.as_float() * (1.0 / REBASE)).bits().op("lshr", EXTRA_BITS)
    special = size.cmp("uge", INFINITE)
    code = special.select((size.op("lshr", EXTRA_BITS) & 0x3FF) | 0x7C00, number)
    return (code | (bits.op("lshr", 16) & SIGN)).convert("trunc", "i16")
