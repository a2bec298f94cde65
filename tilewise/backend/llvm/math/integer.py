"""Integer division, powers, shifts and float-to-integer conversion on lanes, with NumPy's answers where C has none.

In: `Val`s of integers. Out: x // 0 and x % 0 are 0, INT_MIN // -1 wraps, a shift by the width or more shifts all out.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewise.backend.llvm.emit.text import BITS, SUFFIX, Val, anywhere, vtype
from tilewise.kernel.family import X86


def divmod_(signed: bool, a: Val, b: Val) -> tuple[Val, Val]:
    """floor_divide and remainder."""
    bits = _power_of_two(b)
    if bits is not None:  # an arithmetic shift rounds down, as floor_divide does
        return a.op("ashr" if signed else "lshr", bits), a & ((1 << bits) - 1)
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


def _power_of_two(b: Val) -> int | None:
    """k, if all lanes are the constant 2**k (the sign bit aside)."""
    text = b.name.removeprefix(f"splat ({b.ty} ").removesuffix(")")
    if not text.isdigit() or int(text) == 0 or int(text) & (int(text) - 1):
        return None
    return int(text).bit_length() - 1


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


def fmod(signed: bool, a: Val, b: Val) -> Val:
    """The remainder with the sign of a, as C's %."""
    hole = b.cmp("eq", 0)
    special = hole | b.cmp("eq", -1) if signed else hole
    divisor = special.select(a.const(1), b)
    return special.select(a.const(0), a - _truncated(signed, a, divisor) * divisor)


def magnitude(signed: bool, a: Val) -> Val:
    """|a| as an unsigned integer."""
    return a.cmp("slt", 0).select(-a, a) if signed else a


def count_bits(signed: bool, a: Val) -> Val:
    """The ones of |a|, as a uint8."""
    ones = magnitude(signed, a).intrinsic("ctpop")
    return ones if ones.ty == "i8" else ones.convert("trunc", "i8")


def power(a: Val, b: Val) -> Val:
    """a**b of unsigned integers, wrapping."""

    def turn(result: Val, base: Val, rest: Val) -> list[Val]:
        odd = (rest & 1).cmp("ne", 0)
        return [odd.select(result * base, result), base * base, rest.op("lshr", 1)]

    return _while_any(turn, [a.const(1), a, b])[0]


def gcd(signed: bool, a: Val, b: Val) -> Val:
    """The greatest common divisor, by Euclid."""

    def turn(x: Val, y: Val) -> list[Val]:
        done = y.cmp("eq", 0)
        divisor = done.select(x.const(1), y)
        return [done.select(x, y), done.select(y, x - _truncated(False, x, divisor) * divisor)]

    return _while_any(turn, [magnitude(signed, a), magnitude(signed, b)])[0]


def lcm(signed: bool, a: Val, b: Val) -> Val:
    """The least common multiple, wrapping."""
    divisor = gcd(signed, a, b)
    none = divisor.cmp("eq", 0)
    share = _truncated(False, magnitude(signed, a), none.select(divisor.const(1), divisor))
    return share * magnitude(signed, b)


def _while_any(turn: Callable[..., list[Val]], state: list[Val]) -> list[Val]:
    """Turns of a loop until the last value is zero in all lanes."""
    fn = state[0].fn
    head, body, done, before = fn.fresh("while"), fn.fresh("turn"), fn.fresh("done"), fn.block
    fn.do(f"br label %{head}")
    fn.label(head)
    hole = len(fn.lines)
    turning = [Val(fn, "%" + fn.fresh("w"), v.ty, v.lanes) for v in state]
    fn.do(f"br {anywhere(turning[-1].cmp('ne', 0)).text}, label %{body}, label %{done}")
    fn.label(body)
    after = turn(*turning)
    last = fn.block
    fn.do(f"br label %{head}")
    fn.lines[hole:hole] = [
        f"  {w.name} = phi {vtype(w.ty, w.lanes)} [ {v.name}, %{before} ], [ {a.name}, %{last} ]"
        for w, v, a in zip(turning, state, after, strict=True)
    ]
    fn.label(done)
    return turning


def from_float(ty: str, signed: bool, a: Val, half: bool) -> Val:
    """Truncation. What does not fit gives what it gives in NumPy's loops on this CPU, in vectors if those differ."""
    return _from_float_x86(ty, signed, a, half) if X86 else _from_float_arm(ty, signed, a, half)


def _from_float_arm(ty: str, signed: bool, a: Val, half: bool) -> Val:
    """The nearest i32 or i64, or u32 or u64, cut to the type; 0 for a NaN."""
    bits = BITS[ty]
    wide = "i64" if bits == 64 or a.ty == "double" else "i32"
    unsigned = not signed and (bits == 64 or (wide == "i32" and (half or bits == 32)))
    name = f"llvm.fpto{'u' if unsigned else 's'}i.sat"
    inner, outer = vtype(a.ty, a.lanes), vtype(wide, a.lanes)
    of = [("" if a.lanes == 1 else f"v{a.lanes}") + SUFFIX.get(t, t) for t in (wide, a.ty)]
    full = ".".join([name, *of])
    a.fn.declares.add(f"declare {outer} @{full}({inner})")
    nearest = Val(a.fn, a.fn.let(f"call {outer} @{full}({a.text})"), wide, a.lanes)
    return nearest if wide == ty else nearest.convert("trunc", ty)


def _from_float_x86(ty: str, signed: bool, a: Val, half: bool) -> Val:
    """What does not fit gives the least i32 or i64, or wraps."""
    bits = BITS[ty]
    if bits == 64 and signed:
        return _signed_from_float("i64", a)
    if bits == 64 or (bits == 32 and not signed and not half):
        # Above the top bit's value without that, and the bit put back.
        limit = 2.0 ** (bits - 1)
        top = a.cmp("oge", limit)
        low = _signed_from_float(ty, top.select(a - limit, a))
        return low ^ top.select(low.const(-(1 << (bits - 1))), 0)
    wide = _signed_from_float("i64" if bits == 32 and not signed else "i32", a)  # halves go one by one in NumPy
    return wide if wide.ty == ty else wide.convert("trunc", ty)


def _signed_from_float(ty: str, a: Val) -> Val:
    limit = 2.0 ** (BITS[ty] - 1)
    low = a.cmp("oge", -limit) if ty == "i64" or a.ty == "float" else a.cmp("ogt", -limit - 1.0)
    inside = low & a.cmp("olt", limit)
    return inside.select(inside.select(a, 0.0).convert("fptosi", ty), -int(limit))
