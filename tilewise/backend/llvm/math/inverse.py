"""Division of many numbers by one. In: a divisor, then lanes. Out: their quotients, with the bits that `/` gives.

With the reciprocal as two numbers, a quotient is a product within one unit of the last place, which its exact remainder
corrects (Markstein). That holds for 0.0, and where nothing overflows or loses bits to subnormal numbers: if divisor and
dividend are not far from 1. Other lanes, and all by divisors that are not positive, are divided.

The product needs no correction if the divisor is short, an integer for instance: x / s is at least 1 / 2m units from
the middle of two numbers, m the odd factor of the integer in s, while the product is far closer to x / s. Only tiny x
lose bits. Infinities and both zeros come out right because both parts of the reciprocal are positive.
"""

from __future__ import annotations

import math

from tilewise.backend.llvm.emit.control import either
from tilewise.backend.llvm.emit.text import Val, anywhere, fma, vtype
from tilewise.backend.llvm.math.slow_path import bits_of_power, nearly_zero, outside, rarely
from tilewise.kernel.family import ARM
from tilewise.records import dataclass

# Powers of two: divisors from 2**-s to 2**s, what they divide from 2**-x to 2**x.
DIVISOR = {"double": 200, "float": 20}
DIVIDEND = {"double": 511, "float": 60}
# Short divisors: the bits that they have, which also bound their powers of two; what they divide is 2**-x or more.
SHORT = {"double": 32, "float": 12}
TINY = {"double": 900, "float": 80}
BITS = {"double": 53, "float": 24}
UNSEEN = 2.0**-60  # of a reciprocal: too little to change a product


@dataclass(frozen=True)
class Inverse:
    """A divisor, and its reciprocal: rounded (NaN if it may not be used), and what is missing.

    That of a short divisor is rounded towards zero, and misses at least something.
    """

    divisor: Val
    reciprocal: Val
    rest: Val
    closely: str  # where it says whether to look at dividends closely: one was out of range, or a reciprocal is NaN
    short: Val | None = None  # whether the divisor is one, if it is the same for all lanes


@dataclass(frozen=True)
class Kept:
    """Inverses in memory: where reciprocals lie, what these miss, and `Inverse.closely` for all of them."""

    reciprocals: str
    rests: str
    closely: str


def inverse(s: Val) -> Inverse:
    """What divisions by s share."""
    good = s.cmp("oge", 2.0 ** -DIVISOR[s.ty]) & s.cmp("ole", 2.0 ** DIVISOR[s.ty])
    r = 1.0 / s
    missed = fma(-s, r, 1.0)
    closely = s.fn.hoist("alloca i1, align 1")
    s.fn.do(f"store {anywhere(~good).text}, ptr {closely}, align 1")
    if s.lanes > 1:
        return Inverse(s, good.select(r, math.nan), missed * r, closely)
    short = _is_short(s)
    r = (short & missed.cmp("olt", 0.0)).select((r.bits() - 1).as_float(), r)
    missed = fma(-s, r, 1.0)
    none = short & missed.cmp("oeq", 0.0)
    return Inverse(s, good.select(r, math.nan), none.select(r * UNSEEN, missed * r), closely, short)


def _is_short(s: Val) -> Val:
    size = SHORT[s.ty]
    near = s.cmp("oge", 2.0**-size) & s.cmp("ole", 2.0**size)
    return near & (s.bits() & ((1 << BITS[s.ty] - size) - 1)).cmp("eq", 0)


def divided(x: Val, by: Inverse) -> Val:
    """x / the divisor (of one lane, or as many), in every lane."""
    if by.short is None:
        return _corrected(x, by)
    fn, found, ends = x.fn, [], []

    def branch(quotient: Val) -> None:
        found.append(quotient.name)
        ends.append(fn.block)

    either(fn, by.short.name, lambda: branch(_product(x, by)), lambda: branch(_corrected(x, by)))
    return x.make(f"phi {vtype(x.ty, x.lanes)} [ {found[0]}, %{ends[0]} ], [ {found[1]}, %{ends[1]} ]")


def _product(x: Val, by: Inverse) -> Val:
    s, r, rest = (v.splat(x.lanes) for v in (by.divisor, by.reciprocal, by.rest))
    return rarely(nearly_zero(x, -TINY[x.ty]), fma(x, r, x * rest), lambda: x / s)


def _corrected(x: Val, by: Inverse) -> Val:
    s, r, rest = (v if v.lanes == x.lanes else v.splat(x.lanes) for v in (by.divisor, by.reciprocal, by.rest))
    q = fma(x, r, x * rest)
    q = fma(fma(-s, q, x), r, q)
    return rarely(_far(x, by), q, lambda: x / s)


def _far(x: Val, by: Inverse) -> Val:
    """Whether any lane that is no zero is far from 1, or its reciprocal may not be used.

    ARM tests the range alone, until a lane is not in it or a reciprocal may not be used.
    """
    if not ARM or x.lanes == 1:
        return _outside(x, nan=by.reciprocal, but=x.bits().cmp("eq", 0))
    fn = x.fn
    quick, note, slow, done = (fn.fresh(name) for name in ("quick", "note", "close", "told"))
    fn.do(f"br i1 {fn.let(f'load i1, ptr {by.closely}, align 1')}, label %{slow}, label %{quick}")
    fn.label(quick)
    fn.do(f"br {_outside(x).text}, label %{note}, label %{done}")
    fn.label(note)
    fn.do(f"store i1 true, ptr {by.closely}, align 1")
    fn.do(f"br label %{slow}")
    fn.label(slow)
    far = _outside(x, nan=by.reciprocal, but=x.bits().cmp("eq", 0))
    fn.do(f"br label %{done}")
    fn.label(done)
    return far.make(f"phi i1 [ false, %{quick} ], [ {far.name}, %{slow} ]")


def _outside(x: Val, **more: Val) -> Val:
    low, high = (bits_of_power(x.ty, sign * DIVIDEND[x.ty]) for sign in (-1, 1))
    return outside(x, low, high - low, signed=True, **more)
