"""Sums of two floats that hold twice the bits of one. In: `Val`s. Out: a rounded result and what the rounding lost."""

from __future__ import annotations

from tilewise.backend.llvm.emit.text import Number, Val, fma


def two_sum(a: Val, b: Val | Number) -> tuple[Val, Val]:
    """a + b and its error, whichever is larger."""
    b = a.coerce(b)
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


def fast_sum(a: Val, b: Val) -> tuple[Val, Val]:
    """a + b and its error, for |a| >= |b| or a = 0."""
    total = a + b
    return total, b - (total - a)


def two_product(a: Val, b: Val | Number) -> tuple[Val, Val]:
    """a * b and its error."""
    product = a * b
    return product, fma(a, b, -product)


def root(a: Val, low: Val) -> tuple[Val, Val]:
    """The square root of a + low, for a >= 0."""
    s = a.intrinsic("sqrt")
    # The least number keeps 0 / 0 away; it changes nothing else.
    return s, (fma(-s, s, a) + low) * (0.5 / (s + 2.0**-1000))


def quotient(a: Val, a_low: Val, b: Val, b_low: Val) -> tuple[Val, Val]:
    """(a + a_low) / (b + b_low) as a rounded double and the rest, by one division."""
    inverse = 1.0 / b
    q = a * inverse
    low = fma(-q, b, a) + fma(-q, b_low, a_low)
    return fast_sum(q, low * inverse)
