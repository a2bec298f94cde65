"""Integer division, shifts and float-to-integer conversion on lanes, with NumPy's answers where C has none.

In: `Val`s of integers. Out: x // 0 and x % 0 are 0, INT_MIN // -1 wraps, a shift by the width or more shifts all out.
"""

from __future__ import annotations

from tilewise.target.llvm.text import BITS, Val


def divmod_(signed: bool, a: Val, b: Val) -> tuple[Val, Val]:
    """floor_divide and remainder."""
    zero = b.cmp("eq", 0)
    divisor = zero.select(a.const(1), b)
    if signed:
        # a // -1 is -a, which wraps; the instruction would trap.
        minus = b.cmp("eq", -1)
        divisor = minus.select(a.const(1), divisor)
    quotient = _truncated(signed, a, divisor)
    rest = a - quotient * divisor
    if signed:
        down = rest.cmp("ne", 0) & (rest ^ divisor).cmp("slt", 0)
        quotient = down.select(quotient - 1, quotient)
        rest = down.select(rest + divisor, rest)
        quotient = minus.select(-a, quotient)
    return zero.select(a.const(0), quotient), zero.select(a.const(0), rest)


def _truncated(signed: bool, a: Val, b: Val) -> Val:
    """a / b towards zero; up to 32 bits by double division, which is exact there and has vector instructions."""
    if BITS[a.ty] == 64:
        return a.op("sdiv" if signed else "udiv", b)
    to, back = ("sitofp", "fptosi") if signed else ("uitofp", "fptoui")
    return (a.convert(to, "double") / b.convert(to, "double")).convert(back, a.ty)


def shift(opcode: str, a: Val, count: Val) -> Val:
    """A shift whose count may be negative or too large: all bits leave."""
    width = BITS[a.ty]
    inside = count.cmp("ult", width)
    if opcode == "ashr":
        return a.op(opcode, inside.select(count, width - 1))
    return inside.select(a.op(opcode, inside.select(count, 0)), 0)


def from_float(ty: str, a: Val) -> Val:
    """Truncation to i32 or i64; what does not fit gives the least integer, as x86 does."""
    limit = 2.0 ** (BITS[ty] - 1)
    low = a.cmp("oge", -limit) if ty == "i64" or a.ty == "float" else a.cmp("ogt", -limit - 1.0)
    inside = low & a.cmp("olt", limit)
    return inside.select(inside.select(a, 0.0).convert("fptosi", ty), -int(limit))
