"""Which operations a native target has code for. In: a function's name and dtypes. Out: yes or no, by a set lookup.

Pure data, so that a planner can ask without loading LLVM. `backend/llvm/` implements exactly these rows, and the
functions that are added in ir/scalar.py with dtypes of their own.
"""

from __future__ import annotations

from tilewise.ir.scalar import ADDED
from tilewise.kernel.family import ARM, X86

HALF = ("float16",)
WIDE = ("float32", "float64")  # floats whose bits we take apart
FLOATS = HALF + WIDE
COMPLEX = ("complex64", "complex128")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTS = SIGNED + UNSIGNED
NUMBERS = FLOATS + INTS
REALS = (*NUMBERS, "bool")
DTYPES = REALS + COMPLEX

_FUNCTIONS = (
    "exp exp2 expm1 log log2 log10 log1p cbrt sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh "
    "erf erfc ndtr expit logit gamma gammaln"
).split()

_COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")

# fn, number of operands, operand dtypes (all equal), result ("same" or a dtype)
_ROWS: tuple[tuple[str, int, tuple[str, ...], str], ...] = (
    *((f, 2, DTYPES, "same") for f in ("add", "multiply")),
    *((f, 2, REALS, "same") for f in ("minimum", "maximum", "fmin", "fmax")),
    ("subtract", 2, NUMBERS + COMPLEX, "same"),
    ("divide", 2, FLOATS + COMPLEX, "same"),
    *((f, 2, FLOATS, "same") for f in ("copysign", "heaviside")),
    ("nextafter", 2, WIDE, "same"),
    ("power", 2, FLOATS + UNSIGNED, "same"),  # of signed integers it may raise
    *((f, 2, NUMBERS, "same") for f in ("floor_divide", "remainder", "fmod")),
    *((f, 1, NUMBERS + COMPLEX, "same") for f in ("negative", "positive", "square", "conjugate")),
    ("sign", 1, NUMBERS, "same"),
    ("absolute", 1, REALS, "same"),
    *((f, 1, FLOATS, "same") for f in ("sqrt", "rint", "fabs", "modf:0", "modf:1")),
    ("reciprocal", 1, FLOATS + COMPLEX, "same"),
    ("spacing", 1, WIDE, "same"),
    *((f, 1, FLOATS, "same") for f in ("deg2rad", "radians", "rad2deg", "degrees")),
    *((f, 1, REALS, "same") for f in ("floor", "ceil", "trunc")),
    *((f, 2, DTYPES, "bool") for f in _COMPARISONS),
    *((f, 2, DTYPES, "bool") for f in ("logical_and", "logical_or", "logical_xor")),
    ("logical_not", 1, DTYPES, "bool"),
    *((f, 2, (*INTS, "bool"), "same") for f in ("bitwise_and", "bitwise_or", "bitwise_xor")),
    ("invert", 1, (*INTS, "bool"), "same"),
    *((f, 2, INTS, "same") for f in ("left_shift", "right_shift", "gcd", "lcm")),
    ("bitwise_count", 1, INTS, "uint8"),
    *((f, 1, DTYPES, "bool") for f in ("isnan", "isinf", "isfinite")),
    ("signbit", 1, FLOATS, "bool"),
    *((f, 1, FLOATS, "same") for f in _FUNCTIONS),
    *((f, 2, FLOATS, "same") for f in ("arctan2", "hypot", "logaddexp", "logaddexp2", "xlogy")),
    ("float_power", 2, ("float64",), "same"),
    *((f, 1, ("float64",), "uint32") for f in ("low_word", "high_word")),
)

# A float that does not fit converts as the CPU pleases: we know the answers of these.
_CONVERTS = X86 or ARM


def _table() -> frozenset[tuple[str, tuple[str, ...], str]]:
    rows = {(fn, (t,) * n, t if out == "same" else out) for fn, n, types, out in _ROWS for t in types}
    rows |= {(f, ("bool", t, t), t) for f in ("where", "rarely") for t in DTYPES}
    rows |= {("absolute", ("complex64",), "float32"), ("absolute", ("complex128",), "float64")}
    rows |= {(f, (t,), p) for f in ("real", "imag") for t, p in zip(COMPLEX, WIDE, strict=True)}
    rows |= {("cast", (a,), b) for a in (*INTS, "bool") for b in DTYPES}
    rows |= {("cast", (a,), b) for a in FLOATS for b in (*FLOATS, "bool", *COMPLEX, *(INTS if _CONVERTS else ()))}
    rows |= {("cast", (a,), b) for a in COMPLEX for b in (*COMPLEX, "bool")}
    rows |= {("reciprocal", (t,), t) for t in (INTS if _CONVERTS else ())}
    rows |= {(f, pair, "bool") for f in _COMPARISONS for pair in (("int64", "uint64"), ("uint64", "int64"))}
    rows |= {("ldexp", (t, n), t) for t in WIDE for n in ("int32", "int64")}
    return frozenset(rows)


_SUPPORTED = _table()
_REDUCTIONS = frozenset(
    [(op, t) for op in ("add", "multiply", "minimum", "maximum") for t in WIDE + INTS]
    + [(op, t) for op in ("add", "multiply") for t in COMPLEX]
    + [(op, "float16") for op in ("minimum", "maximum")]  # NumPy adds halves up in float32
    + [(op, "bool") for op in ("logical_or", "logical_and", "minimum", "maximum")]
)


def supports(fn: str, in_dtypes: tuple[str, ...], out_dtype: str) -> bool:
    """Whether there is native code for this operation on exactly these dtypes."""
    if fn.startswith("const:"):
        return out_dtype in DTYPES
    if fn == "inner:add":
        return out_dtype in WIDE
    if fn in ("iterations", "carried", "carry") or fn.startswith("table:"):
        return out_dtype in DTYPES
    if fn in ADDED:
        return out_dtype in ADDED[fn].native and set(in_dtypes) == {out_dtype}
    return (fn, in_dtypes, out_dtype) in _SUPPORTED


def supports_reduce(op: str, dtype: str) -> bool:
    """Whether a value of this dtype can be accumulated natively by `op`."""
    return (op, dtype) in _REDUCTIONS


def supports_arg(op: str, dtype: str) -> bool:
    """Whether there is native code for "argmin" or "argmax" of values of this dtype."""
    return op in ("argmin", "argmax") and dtype in (*FLOATS, *INTS, "bool")


def supports_bucket(op: str, dtype: str) -> bool:
    """Whether values of this dtype can be accumulated natively by key."""
    return supports_reduce(op, dtype)


def supports_scan(op: str, dtype: str) -> bool:
    """Whether there is native code for a running reduction."""
    return supports_reduce(op, dtype) and not dtype.startswith("complex")
