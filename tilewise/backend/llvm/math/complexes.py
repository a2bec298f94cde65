"""Complex operations on lanes. In: complex `Val`s. Out: NumPy's bits for + - * /, 2 ulp for absolute.

A complex value is a pair of vectors, the real and the imaginary lanes (see `text.py`); only memory is interleaved.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewise.backend.llvm.emit.text import Val, fma, pair
from tilewise.backend.llvm.math import roots, single


def multiply(a: Val, b: Val) -> Val:
    """With one rounding less in each part: NumPy's vector loops fuse (as every machine with AVX2 or NEON does)."""
    (ar, ai), (br, bi) = a.parts, b.parts
    return pair(fma(ar, br, -(ai * bi)), fma(ar, bi, ai * br))


def divide(a: Val, b: Val) -> Val:
    """Smith's algorithm; by zero, part by part."""
    (ar, ai), (br, bi) = a.parts, b.parts
    real_size, imag_size = br.intrinsic("fabs"), bi.intrinsic("fabs")
    flat = real_size.cmp("oge", imag_size)
    large, small = flat.select(br, bi), flat.select(bi, br)
    ratio = small / large
    scale = 1.0 / (large + small * ratio)
    x, y = flat.select(ar, ai), flat.select(ai, ar)
    # (x + y ratio) and +-(y - x ratio); of a sum of two the order does not show.
    real = (x + y * ratio) * scale
    across = x * ratio
    imag = flat.select(y - across, across - y) * scale
    zero = flat & real_size.cmp("oeq", 0.0)
    return pair(zero.select(ar / real_size, real), zero.select(ai / real_size, imag))


def reciprocal(a: Val) -> Val:
    """1 / a, by the same idea."""
    re, im = a.parts
    flat = im.intrinsic("fabs").cmp("ole", re.intrinsic("fabs"))
    large, small = flat.select(re, im), flat.select(im, re)
    ratio = small / large
    whole = large + small * ratio
    one = re.const(1.0)
    return pair(flat.select(one, ratio) / whole, -(flat.select(ratio, one) / whole))


def absolute(a: Val) -> Val:
    """The modulus"""
    re, im = a.parts
    return roots.hypot(re, im) if re.ty == "double" else single.hypot(re, im)


def square(a: Val) -> Val:
    return multiply(a, a)


def truth(a: Val) -> Val:
    """a != 0 (a NaN is true)."""
    re, im = a.parts
    return re.cmp("une", 0.0) | im.cmp("une", 0.0)


def _parts(rule: Callable[..., Val]) -> Callable[..., Val]:
    """A rule for each part."""

    def both(*args: Val) -> Val:
        reals, imags = zip(*(a.parts for a in args), strict=True)
        return pair(rule(*reals), rule(*imags))

    return both


def _ordered(predicate: str) -> Callable[..., Val]:
    """A comparison of the real parts, then of the imaginary ones; false with a NaN."""

    def compare(a: Val, b: Val) -> Val:
        (ar, ai), (br, bi) = a.parts, b.parts
        first = ar.cmp(predicate[:2] + "t", br) & ai.cmp("ord", bi)
        return first | (ar.cmp("oeq", br) & ai.cmp(predicate, bi))

    return compare


def _either(rule: Callable[[Val], Val], *, both: bool = False) -> Callable[..., Val]:
    """A question about one part or the other (or both)."""
    return lambda a: rule(a.parts[0]) & rule(a.parts[1]) if both else rule(a.parts[0]) | rule(a.parts[1])


def _unequal(a: Val, b: Val) -> Val:
    (ar, ai), (br, bi) = a.parts, b.parts
    return ar.cmp("une", br) | ai.cmp("une", bi)


INF = float("inf")
RULES: dict[str, Callable[..., Val]] = {
    "add": _parts(lambda a, b: a + b),
    "subtract": _parts(lambda a, b: a - b),
    "multiply": multiply,
    "divide": divide,
    "negative": _parts(lambda a: -a),
    "positive": lambda a: a,
    "conjugate": lambda a: pair(a.parts[0], -a.parts[1]),
    "square": square,
    "reciprocal": reciprocal,
    "absolute": absolute,
    "real": lambda a: a.parts[0],
    "imag": lambda a: a.parts[1],
    "not_equal": _unequal,
    "equal": lambda a, b: ~_unequal(a, b),
    "less": _ordered("olt"),
    "less_equal": _ordered("ole"),
    "greater": _ordered("ogt"),
    "greater_equal": _ordered("oge"),
    "logical_and": lambda a, b: truth(a) & truth(b),
    "logical_or": lambda a, b: truth(a) | truth(b),
    "logical_xor": lambda a, b: truth(a) ^ truth(b),
    "logical_not": lambda a: ~truth(a),
    "isnan": _either(lambda x: x.cmp("uno", x)),
    "isinf": _either(lambda x: x.intrinsic("fabs").cmp("oeq", INF)),
    "isfinite": _either(lambda x: x.intrinsic("fabs").cmp("olt", INF), both=True),
}
