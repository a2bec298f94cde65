"""Arithmetic on numbers of both families. In: operators, numbers. Out: numbers with Python's or NumPy's meaning.

Python's integers are int64 with a fault where they do not fit; intervals say where that cannot be. With NumPy's numbers
Python's are weak: what they become is asked of NumPy's own tables.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from tilewise.kernel.native_support import supports
from tilewise.kernel.program.ir import BOOL, CALL, INT, RERUN, Const, Expr, Load, Op, Pick
from tilewise.python.build import Builder, Scalar, both, compare, negate, pick
from tilewise.python.refuse import Refused
from tilewise.python.types import LEAST, MOST, PY_BOOL, PY_COMPLEX, PY_FLOAT, Num, ints

from tilewise.python.scalars import powers  # isort: skip

EXACT = 1 << 53
UFUNCS = {
    "+": "add", "-": "subtract", "*": "multiply", "/": "divide", "//": "floor_divide", "%": "remainder",
    "**": "power", "<<": "left_shift", ">>": "right_shift", "&": "bitwise_and", "|": "bitwise_or",
    "^": "bitwise_xor",
}  # fmt: skip
COMPARE = {"<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal", "==": "equal", "!=": "not_equal"}
PYTHON: dict[str, Callable[..., Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "<<": operator.lshift, ">>": operator.rshift, "&": operator.and_,
    "|": operator.or_, "^": operator.xor, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
TOO_LARGE = "an integer of more than 64 bits; Python has no such limit, compiled loops do"
LONGEST_SHIFT = 62


def constant(value: Any, line: int = 0) -> Scalar:
    """A number of Python or NumPy."""
    if isinstance(value, np.generic):
        if value.dtype.name not in _DTYPES:
            raise Refused(f"a number of dtype {value.dtype}", line)
        return Scalar(Num(False, value.dtype.name), Const(value.dtype.name, value.item()))
    if type(value) is bool:
        return Scalar(Num(True, BOOL, int(value), int(value)), Const(BOOL, value))
    if type(value) is int:
        if not LEAST <= value <= MOST:
            raise Refused("an integer of more than 63 bits", line, "Those of 64 bits are np.uint64(...)")
        return Scalar(ints(value, value), Const(INT, value))
    if type(value) is float:
        return Scalar(PY_FLOAT, Const("float64", value))
    assert type(value) is complex
    return Scalar(PY_COMPLEX, Const("complex128", value))


_DTYPES = frozenset(
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128".split()
)
NATIVE_DTYPES = _DTYPES


def cast(e: Expr, dtype: str) -> Expr:
    """As astype; what fits stays as it is."""
    if e.dtype == dtype:
        return e
    if isinstance(e, Const):
        with np.errstate(all="ignore"):
            return Const(dtype, np.array(e.value, e.dtype).astype(dtype).item())
    if not supports("cast", (e.dtype,), dtype):
        raise Refused(f"a conversion of {e.dtype} to {dtype}")
    return Op("cast", dtype, (e,))


def fails(e: Expr) -> bool:
    """Whether evaluating an expression may raise."""
    if isinstance(e, Load):
        return any(f >= 0 for f in e.faults) or any(map(fails, e.index))
    if isinstance(e, Pick):
        return fails(e.test) or fails(e.yes) or fails(e.no)
    return isinstance(e, Op) and (e.fault >= 0 or any(map(fails, e.args)))


def truth(s: Scalar) -> Expr:
    """bool(s), as a condition."""
    if s.t.dtype == BOOL:
        return s.e
    if isinstance(s.e, Const):
        return Const(BOOL, bool(s.e.value))
    zero = Const(s.t.dtype, 0j if s.t.dtype[0] == "c" else 0.0 if s.t.dtype[0] == "f" else 0)
    return Op("not_equal", BOOL, (s.e, zero))


def rerun(b: Builder, line: int) -> int:
    return b.fault(RERUN, TOO_LARGE, line)


def as_int(s: Scalar) -> Scalar:
    """A bool of Python as the integer that it is in arithmetic."""
    return Scalar(ints(max(s.t.lo, 0), min(s.t.hi, 1)), cast(s.e, INT)) if s.t.py and s.t.dtype == BOOL else s


def exact_float(b: Builder, s: Scalar, line: int) -> Expr:
    """An integer of Python as the float that it is; a fault if there is none."""
    if s.t.dtype == INT and s.t.py and not (s.t.lo >= -EXACT and s.t.hi <= EXACT) and not isinstance(s.e, Const):
        return Op("exact_float", "float64", (s.e,), rerun(b, line))
    return cast(s.e, "float64")


def inexact(x: Scalar, y: Scalar) -> bool:
    """Whether the quotient of two integers of Python may be another than that of two floats."""
    whole = all(s.t.py and s.t.dtype in (INT, BOOL) for s in (x, y))
    return whole and any(s.t.dtype == INT and not (s.t.lo >= -EXACT and s.t.hi <= EXACT) for s in (x, y))


def plain_float(b: Builder, s: Scalar, line: int) -> Expr:
    """A number of Python as a float, rounded as Python does."""
    return cast(s.e, "float64")


def binary(b: Builder, op: str, x: Scalar, y: Scalar, line: int) -> Scalar:
    """x op y."""
    if op == "@":
        raise Refused("@ of numbers", line)
    if x.t == PY_COMPLEX and y.t == Num(False, "float64"):  # which is a float, too: Python's complex numbers take it
        y = Scalar(PY_FLOAT, y.e)
    if x.t.py and y.t.py:
        if (
            isinstance(x.e, Const)
            and isinstance(y.e, Const)
            and (made := _folded(op, x.e.value, y.e.value)) is not None
        ):
            return constant(made, line)
        return _python(b, op, x, y, line)
    if op in COMPARE:
        return _compared(COMPARE[op], x, y, line)
    if op == "**" and (made := powers.of_constant(b, x, y, line)) is not None:
        return made
    return ufunc(b, UFUNCS[op], (x, y), line)


def _folded(op: str, x: Any, y: Any) -> Any:
    try:
        made = PYTHON[op](x, y)
    except (ArithmeticError, ValueError, TypeError):
        return None
    return None if isinstance(made, int) and not LEAST <= made <= MOST else made


def _python(b: Builder, op: str, x: Scalar, y: Scalar, line: int) -> Scalar:
    """Both are Python's."""
    if op in "&|^" and x.t.dtype == y.t.dtype == BOOL:
        return Scalar(PY_BOOL, Op(UFUNCS[op], BOOL, (x.e, y.e)))
    kinds = x.t.dtype + y.t.dtype
    x, y = as_int(x), as_int(y)
    if "complex" in kinds:
        return _complex(b, op, x, y, line)
    if op in COMPARE:
        return _python_compared(b, op, x, y)
    if "float" in kinds or (op == "/"):
        return _python_float(b, op, x, y, line)
    return _python_int(b, op, x, y, line)


def _python_compared(b: Builder, op: str, x: Scalar, y: Scalar) -> Scalar:
    if x.t.dtype == y.t.dtype == INT and not (fails(x.e) or fails(y.e)):
        always = {"<": x.t.hi < y.t.lo, "<=": x.t.hi <= y.t.lo, ">": x.t.lo > y.t.hi, ">=": x.t.lo >= y.t.hi}
        never = {"<": x.t.lo >= y.t.hi, "<=": x.t.lo > y.t.hi, ">": x.t.hi <= y.t.lo, ">=": x.t.hi < y.t.lo}
        if always.get(op):
            return constant(True)
        if never.get(op):
            return constant(False)
    if x.t.dtype == y.t.dtype == INT:
        return Scalar(PY_BOOL, compare(COMPARE[op], x.e, y.e))
    if y.t.dtype == INT and not _within_floats(y, x):
        return _compared_exactly(b, _MIRRORED.get(op, op), y, b.held(x.e))
    if x.t.dtype == INT and not _within_floats(x, y):
        return _compared_exactly(b, op, x, y.e)
    return Scalar(PY_BOOL, compare(COMPARE[op], cast(x.e, "float64"), cast(y.e, "float64")))


_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _within_floats(n: Scalar, x: Scalar) -> bool:
    """Whether an integer and a float compare as two floats do: no two integers become that float."""
    known = isinstance(x.e, Const) and x.t.dtype != "complex128" and not abs(x.e.value) >= EXACT
    return known or (n.t.lo >= -EXACT and n.t.hi <= EXACT)


def _compared_exactly(b: Builder, op: str, n: Scalar, x: Expr) -> Scalar:
    """n op x: by n as a float; where that is x, by what n is more than it."""
    whole, x = b.held(n.e), b.held(x)
    near = b.held(cast(whole, "float64"))
    more = Op("beyond_float", INT, (whole,))
    tie = compare(COMPARE[op], more, Const(INT, 0))
    return Scalar(PY_BOOL, pick(compare("equal", near, x), tie, compare(COMPARE[op], near, x)))


def _complex(b: Builder, op: str, x: Scalar, y: Scalar, line: int) -> Scalar:
    if op in COMPARE:
        if op not in ("==", "!="):
            raise Refused("an order of complex numbers", line)
        for n, z in ((x, y), (y, x)):
            if n.t.dtype == INT and not _within_floats(n, z):
                first = b.held(x.e)
                n, z = (Scalar(s.t, first if s is x else b.held(s.e)) for s in (n, z))
                real, imag = (Op(part, "float64", (z.e,)) for part in ("real", "imag"))
                same = _compared_exactly(b, "==", n, real).e
                same = both(same, compare("equal", imag, Const("float64", 0.0)))
                return Scalar(PY_BOOL, same if op == "==" else negate(same))
        return Scalar(PY_BOOL, compare(COMPARE[op], cast(x.e, "complex128"), cast(y.e, "complex128")))
    if op == "**":
        return powers.of_complex(b, x, y, line)
    fault = b.fault("ZeroDivisionError", "complex division by zero", line) if op == "/" else -1
    if op not in "+-*/":
        raise Refused(f"{op} of complex numbers", line)
    name = {"*": "complex_multiply", "/": "complex_divide"}.get(op, UFUNCS[op])
    return Scalar(PY_COMPLEX, Op(name, "complex128", (cast(x.e, "complex128"), cast(y.e, "complex128")), fault))


def _python_float(b: Builder, op: str, x: Scalar, y: Scalar, line: int) -> Scalar:
    if op not in UFUNCS or op in "&|^<<>>":
        raise Refused(f"{op} of floats", line)
    both_int = x.t.dtype == y.t.dtype == INT
    if op == "**":
        return powers.of_floats(b, x, y, line)
    as_float = exact_float if both_int else plain_float
    p, q = as_float(b, x, line), as_float(b, y, line)
    fault = -1
    if op in ("/", "//", "%") and not (isinstance(q, Const) and q.value):
        text = "division by zero" if both_int else "float division by zero" if op == "/" else _DIVMOD[op]
        fault = b.fault("ZeroDivisionError", text, line)
        if y.t.whole and (y.t.lo > 0 or y.t.hi < 0):
            fault = -1
    return Scalar(PY_FLOAT, Op(UFUNCS[op], "float64", (p, q), fault))


def _message(f: Callable[[], Any]) -> str:
    """What this Python says of a division by zero."""
    try:
        f()
    except ZeroDivisionError as error:
        return str(error)
    return "division by zero"


_one, _none = 1.0, 0.0
_DIVMOD = {"//": _message(lambda: _one // _none), "%": _message(lambda: _one % _none)}
_INT_DIVMOD = {"//": _message(lambda: int(_one) // int(_none)), "%": _message(lambda: int(_one) % int(_none))}


def _python_int(b: Builder, op: str, x: Scalar, y: Scalar, line: int) -> Scalar:
    a, c = x.t, y.t
    if op in ("+", "-", "*"):
        ends = [PYTHON[op](p, q) for p in (a.lo, a.hi) for q in (c.lo, c.hi)]
        t = ints(min(ends), max(ends))
        fits = min(ends) >= LEAST and max(ends) <= MOST
        return Scalar(t, _linear(op, x.e, y.e, -1 if fits else rerun(b, line)))
    if op in ("//", "%"):
        fault = -1 if c.lo > 0 or c.hi < 0 else b.fault("ZeroDivisionError", _INT_DIVMOD[op], line)
        if op == "//":
            if c.lo > 0:
                ends = [p // q for p in (a.lo, a.hi) for q in (c.lo, c.hi)]
                t = ints(min(ends), max(ends))
            else:
                most = max(abs(a.lo), abs(a.hi))
                t = ints(-most, most)
                if most > MOST and c.lo <= -1 <= c.hi:  # the least integer by -1
                    by = Op("nonzero", INT, (y.e,), fault) if fault >= 0 else y.e
                    return Scalar(t, Op("negatable_divide", INT, (x.e, by), rerun(b, line)))
            return Scalar(t, Op("floor_divide", INT, (x.e, y.e), fault))
        t = (
            ints(0, min(c.hi - 1, a.hi) if a.lo >= 0 else c.hi - 1)
            if c.lo > 0
            else ints(min(c.lo + 1, 0), max(c.hi - 1, 0))
        )
        if a.lo >= 0 and c.lo > a.hi:
            return x
        return Scalar(t, Op("remainder", INT, (x.e, y.e), fault))
    if op == "**":
        return powers.of_integers(b, x, y, line)
    if op in ("<<", ">>"):
        fault = -1 if c.lo >= 0 else b.fault("ValueError", "negative shift count", line)
        if op == ">>":
            t = ints(min(a.lo, 0) if a.lo < 0 else 0, max(a.hi, -1)) if a.lo >= 0 or a.hi < 0 else ints(a.lo, a.hi)
            if fault >= 0:
                y = Scalar(c, Op("natural", INT, (y.e,), fault))
            return Scalar(t, Op("right_shift", INT, (x.e, y.e)))
        if fault >= 0:
            y = Scalar(c, Op("natural", INT, (y.e,), fault))
        if c.lo >= 0 and c.hi <= LONGEST_SHIFT:
            ends = [p << q for p in (a.lo, a.hi) for q in (c.lo, c.hi)]
            if min(ends) >= LEAST and max(ends) <= MOST:
                return Scalar(ints(min(ends), max(ends)), Op("left_shift", INT, (x.e, y.e)))
        return Scalar(ints(LEAST, MOST), Op("left_shift", INT, (x.e, y.e), rerun(b, line)))
    made = Op(UFUNCS[op], INT, (x.e, y.e))
    if op == "&" and (a.lo >= 0 or c.lo >= 0):
        return Scalar(ints(0, min(t.hi for t in (a, c) if t.lo >= 0)), made)
    if a.lo >= 0 and c.lo >= 0:
        return Scalar(ints(0, (1 << max(a.hi, c.hi).bit_length()) - 1), made)
    return Scalar(ints(LEAST, MOST), made)


def _linear(op: str, x: Expr, y: Expr, fault: int) -> Expr:
    if isinstance(y, Const) and ((y.value == 0 and op in "+-") or (y.value == 1 and op == "*")):
        return x
    if isinstance(x, Const) and ((x.value == 0 and op == "+") or (x.value == 1 and op == "*")):
        return y
    return Op(UFUNCS[op], INT, (x, y), fault, exact=fault < 0)


def _spec(s: Scalar) -> Any:
    """How NumPy's tables are asked for an operand."""
    if s.t.py and s.t.dtype != BOOL:
        return {"i": int, "f": float, "c": complex}[s.t.dtype[0]]
    return np.dtype(s.t.dtype)


@lru_cache(maxsize=4096)
def resolved(name: str, *operands: Any) -> tuple[str, ...]:
    """The dtypes of the loop that NumPy takes, results last. Raises TypeError."""
    function = getattr(np, name)
    if all(isinstance(o, type) for o in operands):
        operands = tuple(np.dtype(o) for o in operands)
    found = function.resolve_dtypes((*operands, *(None,) * function.nout))
    return tuple(d.name for d in found)


def _may_not_fit(s: Scalar, dtype: str) -> bool:
    """Whether a number of Python may be none of a dtype."""
    if not (s.t.py and s.t.dtype == INT and dtype[0] in "iu"):
        return False
    info = np.iinfo(dtype)
    return s.t.lo < int(info.min) or s.t.hi > int(info.max)


def weak(b: Builder, s: Scalar, dtype: str, line: int) -> Expr:
    """A number as an operand of a loop of this dtype; Python's integers must fit."""
    if _may_not_fit(s, dtype):
        if isinstance(s.e, Const):
            raise Refused(f"{s.e.value}, which is no {dtype}", line)
        fault = b.fault("OverflowError", f"Python integer {{0}} out of bounds for {dtype}", line)
        return Op(f"fit:{dtype}", dtype, (s.e,), fault)
    return cast(s.e, dtype)


def ufunc(b: Builder, name: str, operands: tuple[Scalar, ...], line: int) -> Scalar:
    """A NumPy function of numbers."""
    try:
        dtypes = resolved(name, *map(_spec, operands))
    except TypeError:
        raise Refused(f"{name} of {' and '.join(str(s.t) for s in operands)}", line) from None
    if any(_may_not_fit(s, d) for s, d in zip(operands, dtypes, strict=False)) and any(fails(s.e) for s in operands):
        operands = tuple(Scalar(s.t, b.held(s.e)) for s in operands)  # all are evaluated before one is converted
    args = tuple(weak(b, s, d, line) for s, d in zip(operands, dtypes, strict=False))
    return Scalar(Num(False, dtypes[-1]), native(b, name, dtypes[:-1], dtypes[-1], args, line))


def native(b: Builder, name: str, ins: tuple[str, ...], out: str, args: tuple[Expr, ...], line: int) -> Expr:
    """An operation of kernels; the few that they have not are refused."""
    if not set((*ins, out)) <= _DTYPES:
        raise Refused(f"{name} of {', '.join(ins)}", line)
    if name == "power" and out[0] == "i":
        return Op(
            "wrapping_power",
            out,
            args,
            b.fault("ValueError", "Integers to negative integer powers are not allowed.", line),
        )
    name = {"true_divide": "divide", "mod": "remainder", "abs": "absolute", "conj": "conjugate"}.get(name, name)
    if name == "exp" and out == "complex128":
        return Op("complex_exp", out, args)
    if not supports(name, ins, out):
        raise Refused(f"{name} of {', '.join(ins)}", line)
    return Op(name, out, args)


def _compared(name: str, x: Scalar, y: Scalar, line: int) -> Scalar:
    """A comparison with a number of NumPy's: integers by their values."""
    a, c = x.t.dtype, y.t.dtype
    result = Num(False, BOOL)
    if a != c and (x.t.whole or a == BOOL) and (y.t.whole or c == BOOL):
        if "uint64" in (a, c):
            pair = tuple(t if t == "uint64" else INT for t in (a, c))
            if not supports(name, pair, BOOL):
                raise Refused(f"{name} of {a} and {c}", line)
            return Scalar(result, Op(name, BOOL, (cast(x.e, pair[0]), cast(y.e, pair[1]))))
        return Scalar(result, compare(name, cast(x.e, INT), cast(y.e, INT)))
    try:
        common = resolved(name, _spec(x), _spec(y))[0]
    except TypeError:
        raise Refused(f"{name} of {a} and {c}", line) from None
    return Scalar(result, compare(name, cast(x.e, common), cast(y.e, common)))


def unary(b: Builder, op: str, x: Scalar, line: int) -> Scalar:
    """-x, +x, ~x, not x."""
    if op == "not":
        return Scalar(PY_BOOL, negate(truth(x)))
    if not x.t.py:
        return ufunc(b, {"-": "negative", "+": "positive", "~": "invert"}[op], (x,), line)
    x = as_int(x)
    if isinstance(x.e, Const):
        act: Callable[[Any], Any] = {"-": operator.neg, "+": operator.pos, "~": operator.invert}[op]  # type: ignore[assignment]
        return constant(act(x.e.value), line)
    if op == "+":
        return x
    if x.t.dtype != INT:
        return Scalar(x.t, Op("negative", x.t.dtype, (x.e,)))
    if op == "~":
        return Scalar(ints(~x.t.hi, ~x.t.lo), Op("invert", INT, (x.e,)))
    fault = rerun(b, line) if x.t.lo == LEAST else -1
    return Scalar(ints(-x.t.hi, -x.t.lo), Op("subtract", INT, (Const(INT, 0), x.e), fault, exact=fault < 0))


def absolute(b: Builder, x: Scalar, line: int) -> Scalar:
    """abs(x)"""
    if not x.t.py:
        return ufunc(b, "absolute", (x,), line)
    x = as_int(x)
    if x.t.dtype == "complex128":
        held = b.held(x.e)
        parts = tuple(Op(name, "float64", (held,)) for name in ("real", "imag"))
        return Scalar(PY_FLOAT, Op("libm:hypot", "float64", parts, b.fault(CALL + "hypot", "", line)))
    if isinstance(x.e, Const):
        return constant(abs(x.e.value), line)
    if x.t.dtype != INT:
        return Scalar(x.t, Op("absolute", x.t.dtype, (x.e,)))
    if x.t.lo >= 0:
        return x
    most = max(-x.t.lo, x.t.hi)
    return Scalar(ints(0, most), Op("absolute", INT, (x.e,), rerun(b, line) if most > MOST else -1))
