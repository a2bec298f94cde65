"""One NumPy operation on lanes. In: a function's name, dtypes, operand `Val`s. Out: a `Val` with NumPy's bits.

A family is a table: float rules, integer rules, rules for all, functions with a polynomial (table.py). bool lanes are
i1. Which rows exist for which dtype is `kernel/native_support.py`'s to say.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tilewise.backend.llvm.emit import outline
from tilewise.backend.llvm.emit.text import BITS, Val, apart, pair
from tilewise.backend.llvm.math import (
    complexes,
    floats,
    half,
    integer,
    roots,
    single,
)
from tilewise.backend.llvm.math.table import MATH
from tilewise.kernel.family import ARM

IR_TYPE = {
    "float64": "double", "float32": "float", "bool": "i1", "float16": "float", "complex128": "c128",
    "complex64": "c64",
    **{f"{u}int{n}": f"i{n}" for u in ("", "u") for n in (8, 16, 32, 64)},
}  # fmt: skip

Rule = Callable[..., Val]  # (dtype of the operands, *operands) -> result

_FLOAT_CMP = {"equal": "oeq", "not_equal": "une", "less": "olt", "less_equal": "ole", "greater": "ogt",
              "greater_equal": "oge"}  # fmt: skip
_INT_CMP = {"equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge"}


def is_float(dtype: str) -> bool:
    return dtype.startswith("float")


def is_signed(dtype: str) -> bool:
    return dtype.startswith("int")


def is_complex(dtype: str) -> bool:
    return dtype.startswith("complex")


def truth(dtype: str, a: Val) -> Val:
    """a != 0 (a NaN is true)."""
    if is_complex(dtype):
        return complexes.truth(a)
    if dtype == "bool":
        return a
    return a.cmp("une" if is_float(dtype) else "ne", 0)


def compare(fn: str, dtype: str, a: Val, b: Val) -> Val:
    if is_float(dtype):
        return a.cmp(_FLOAT_CMP[fn], b)
    word = _INT_CMP[fn]
    sign = "" if word in ("eq", "ne") else "s" if is_signed(dtype) else "u"
    return a.cmp(sign + word, b)


def _compare_signs(fn: str, dtypes: tuple[str, ...], args: list[Val]) -> Val:
    """int64 with uint64, either first: where the signed one is negative the answer is known."""
    a, b = args
    signed, below = (a, "less") if is_signed(dtypes[0]) else (b, "greater")
    known = fn == "not_equal" or fn.startswith(below)
    return signed.cmp("slt", 0).select(a.const(known, "i1"), compare(fn, "uint64", a, b))


def extreme(dtype: str, a: Val, b: Val, *, less: bool, skip_nan: bool) -> Val:
    """minimum and maximum; of equal zeros the second, as NumPy's vector loops do (its loop for halves: the first).

    ARM has instructions for these, which NumPy uses too: they order zeros.
    """
    if ARM and dtype in ("float32", "float64"):
        return a.intrinsic(("min" if less else "max") + ("num" if skip_nan else "imum"), b)
    word = ("less" if less else "greater") + ("_equal" if dtype == "float16" else "")
    first = compare(word, dtype, a, b).select(a, b)
    if not is_float(dtype):
        return first
    # The comparison is false with a NaN and takes b: right unless a (propagating) or b (skipping) is the NaN.
    return b.cmp("uno", b).select(a, first) if skip_nan else a.cmp("uno", a).select(a, first)


def _sign(dtype: str, a: Val) -> Val:
    if is_float(dtype):
        one = a.cmp("ogt", 0.0).select(a.const(1.0), a.cmp("olt", 0.0).select(a.const(-1.0), 0.0))
        return a.cmp("uno", a).select(a, one)
    positive = a.cmp("ne", 0).select(a.const(1), 0)
    return a.cmp("slt", 0).select(a.const(-1), positive) if is_signed(dtype) else positive


def _absolute(dtype: str, a: Val) -> Val:
    if is_float(dtype):
        return a.intrinsic("fabs")
    return a.cmp("slt", 0).select(-a, a) if is_signed(dtype) else a


def _floor_divide(dtype: str, a: Val, b: Val) -> Val:
    return floats.divmod_(a, b)[0] if is_float(dtype) else integer.divmod_(is_signed(dtype), a, b)[0]


def _remainder(dtype: str, a: Val, b: Val) -> Val:
    return floats.divmod_(a, b)[1] if is_float(dtype) else integer.divmod_(is_signed(dtype), a, b)[1]


def _reciprocal(dtype: str, a: Val) -> Val:
    return 1.0 / a if is_float(dtype) else cast("float64", dtype, 1.0 / cast(dtype, "float64", a))


def _scaled(per: float, of: float) -> Rule:
    """Times a quotient that is computed in the operand's own precision."""
    single = float(np.float32(per) / np.float32(of))
    return lambda t, a: a * (per / of if t == "float64" else single)


def _words(a: Val) -> tuple[Val, Val]:
    """The lower and the upper half of a float64's bits."""
    return apart(a.halves())


def _ints_have(value: bool, rule: Rule) -> Rule:
    """A question about floats, whose answer for integers is known."""
    return lambda t, a: rule(t, a) if is_float(t) else a.const(value, "i1")


def _whole(intrinsic: str) -> Rule:
    """A rounding to whole numbers; integers are."""
    return lambda t, a: a.intrinsic(intrinsic) if is_float(t) else a


def _bool_or(op: str, otherwise: Rule) -> Rule:
    """A rule that is a logic operation on bool lanes."""
    return lambda t, a, b: a.op(op, b) if t == "bool" else otherwise(t, a, b)


_REAL: dict[str, Rule] = {
    "add": _bool_or("or", lambda t, a, b: a + b),
    "subtract": lambda t, a, b: a - b,
    "multiply": _bool_or("and", lambda t, a, b: a * b),
    "divide": lambda t, a, b: a / b,
    "floor_divide": _floor_divide,
    "remainder": _remainder,
    "negative": lambda t, a: -a,
    "positive": lambda t, a: a,
    "absolute": _absolute,
    "sign": _sign,
    "square": lambda t, a: a * a,
    "sqrt": lambda t, a: roots.sqrt(a),
    "reciprocal": _reciprocal,
    "minimum": _bool_or("and", lambda t, a, b: extreme(t, a, b, less=True, skip_nan=False)),
    "maximum": _bool_or("or", lambda t, a, b: extreme(t, a, b, less=False, skip_nan=False)),
    "fmin": _bool_or("and", lambda t, a, b: extreme(t, a, b, less=True, skip_nan=True)),
    "fmax": _bool_or("or", lambda t, a, b: extreme(t, a, b, less=False, skip_nan=True)),
    "logical_and": lambda t, a, b: truth(t, a) & truth(t, b),
    "logical_or": lambda t, a, b: truth(t, a) | truth(t, b),
    "logical_xor": lambda t, a, b: truth(t, a) ^ truth(t, b),
    "logical_not": lambda t, a: ~truth(t, a),
    "bitwise_and": lambda t, a, b: a & b,
    "bitwise_or": lambda t, a, b: a | b,
    "bitwise_xor": lambda t, a, b: a ^ b,
    "invert": lambda t, a: ~a,
    "left_shift": lambda t, a, b: integer.shift("shl", a, b),
    "right_shift": lambda t, a, b: integer.shift("ashr" if is_signed(t) else "lshr", a, b),
    "isnan": _ints_have(False, lambda t, a: a.cmp("uno", a)),
    "isinf": _ints_have(False, lambda t, a: a.intrinsic("fabs").cmp("oeq", math.inf)),
    "isfinite": _ints_have(True, lambda t, a: a.intrinsic("fabs").cmp("olt", math.inf)),
    "low_word": lambda t, a: _words(a)[0],
    "high_word": lambda t, a: _words(a)[1],
    "signbit": lambda t, a: a.bits().cmp("slt", 0),
    "copysign": lambda t, a, b: a.intrinsic("copysign", b),
    "floor": _whole("floor"),
    "ceil": _whole("ceil"),
    "trunc": _whole("trunc"),
    "rint": _whole("rint"),
    "fabs": lambda t, a: a.intrinsic("fabs"),
    "conjugate": lambda t, a: a,
    "fmod": lambda t, a, b: floats.fmod(a, b) if is_float(t) else integer.fmod(is_signed(t), a, b),
    "modf:0": lambda t, a: floats.fraction(a),
    "modf:1": lambda t, a: a.intrinsic("trunc"),
    "heaviside": lambda t, a, b: floats.heaviside(a, b),
    "ldexp": lambda t, a, b: floats.ldexp(a, b),
    "nextafter": lambda t, a, b: floats.nextafter(a, b),
    "spacing": lambda t, a: floats.spacing(a),
    **dict.fromkeys(("deg2rad", "radians"), _scaled(math.pi, 180.0)),
    **dict.fromkeys(("rad2deg", "degrees"), _scaled(180.0, math.pi)),
    "power": lambda t, a, b: integer.power(a, b),
    "gcd": lambda t, a, b: integer.gcd(is_signed(t), a, b),
    "lcm": lambda t, a, b: integer.lcm(is_signed(t), a, b),
    "bitwise_count": lambda t, a: integer.count_bits(is_signed(t), a),
}


# What a half gives as float32 is a half: nothing to round.
_KEEP_HALVES = frozenset(
    "negative positive absolute fabs conjugate sign minimum maximum fmin fmax copysign floor ceil trunc rint fmod "
    "heaviside modf:0 modf:1".split()
)


def _of_dtype(name: str, rule: Rule | None) -> Rule:
    """A rule for every dtype: complex numbers have their own, halves are rounded."""

    def dispatch(dtype: str, *args: Val) -> Val:
        if is_complex(dtype):
            return complexes.RULES[name](*args)
        assert rule is not None
        result = rule(dtype, *args)
        return half.rounded(result) if dtype == "float16" and name not in _KEEP_HALVES and result.is_float else result

    return dispatch


RULES: dict[str, Rule] = {
    name: _of_dtype(name, rule) for name, rule in (*_REAL.items(), ("real", None), ("imag", None))
}


def cast(source: str, target: str, a: Val) -> Val:
    """astype, with NumPy's bits."""
    ty = IR_TYPE[target]
    if is_complex(target):
        part = "float64" if target == "complex128" else "float32"
        if not is_complex(source):
            real = cast(source, part, a)
            return pair(real, real.const(0.0))
        from_part = "float64" if source == "complex128" else "float32"
        re, im = a.parts
        return pair(cast(from_part, part, re), cast(from_part, part, im))
    if source == target or (not is_float(source) and a.ty == ty):
        return a
    if target == "bool":
        return truth(source, a)
    if target == "float16":
        return half.rounded_double(a) if source == "float64" else half.rounded(cast(source, "float32", a))
    if is_float(source):
        if is_float(target):
            return a if a.ty == ty else a.convert("fpext" if target == "float64" else "fptrunc", ty)
        return integer.from_float(ty, is_signed(target), a, half=source == "float16")
    if is_float(target):
        return a.convert("sitofp" if is_signed(source) else "uitofp", ty)
    if BITS[ty] < BITS[a.ty]:
        return a.convert("trunc", ty)
    return a.convert("sext" if is_signed(source) else "zext", ty)


def apply(fn: str, in_dtypes: tuple[str, ...], out_dtype: str, args: list[Val], *, often: bool = False) -> Val:
    """Emit one operation; a function that the body has often is called, not inlined."""
    dtype = in_dtypes[0]
    if fn == "cast":
        return cast(dtype, out_dtype, args[0])
    if fn in ("where", "rarely"):
        return args[0].select(args[1], args[2])
    if fn in _INT_CMP and is_complex(dtype):
        return complexes.RULES[fn](*args)
    if fn in _INT_CMP:
        return compare(fn, dtype, *args) if dtype == in_dtypes[1] else _compare_signs(fn, in_dtypes, args)
    if fn in MATH and is_float(dtype):
        emit = MATH[fn] if dtype == "float64" else _single(fn)
        result = outline.called(fn, emit, args) if often else emit(*args)
        return half.rounded(result) if dtype == "float16" else result
    return RULES[fn](dtype, *args)


def _single(fn: str) -> Callable[..., Val]:
    """A function on float lanes: its own code, or that in double, rounded."""
    wide = MATH[fn]
    return single.FUNCTIONS.get(
        fn, lambda *args: wide(*(a.convert("fpext", "double") for a in args)).convert("fptrunc", "float")
    )
