"""Python's math. In: a name, numbers. Out: C's functions, with a fault where Python raises."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tilewise.kernel.program.ir import BOOL, CALL, INT, Const, Op
from tilewise.python.build import Scalar, Value
from tilewise.python.refuse import Refused
from tilewise.python.types import PY_BOOL, PY_FLOAT, ints

if TYPE_CHECKING:
    from tilewise.python.statements import Statements
from tilewise.python.functions import calls
from tilewise.python.host import calling
from tilewise.python.scalars import arithmetic
from tilewise.python.standard import builtin_functions, written

_LIBM = frozenset(
    "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc "
    "cbrt".split()
)


_WHOLE = frozenset("gcd lcm isqrt factorial".split())
_BY_PYTHON = frozenset("comb perm fsum prod dist modf frexp ldexp nextafter ulp gamma lgamma sumprod fma".split())


def call(lo: Statements, name: str, args: list[Value], options: dict[str, Value], node: ast.Call) -> Value:
    """math.name(...): C's function, ours (written.py), or Python's own."""
    line = node.lineno
    if name in written.MATH and len(args) == written.MATH[name].__code__.co_argcount:
        given: list[Value] = list(args)
        if name in _WHOLE:
            given = [calls.whole(lo, a, line) for a in args]
        else:
            given = [builtin_functions.TABLE["float"](lo, [a], line) for a in args]
        return calls.of_written(lo, written.MATH[name], given, options, node)
    if name == "log" and len(args) == 2 and not options:
        return calls.of_written(lo, written.log_of_base, args, {}, node)
    if name in (_BY_PYTHON | _WHOLE) and hasattr(math, name):
        return calling.called(lo, getattr(math, name), args, options, line, name=f"math.{name}")
    if options:
        raise Refused(f"math.{name} with options", line)
    return of_math(lo, name, args, line)


def of_math(lo: Statements, name: str, args: list[Value], line: int) -> Value:
    """A function of Python's math: C's, and a fault where Python raises."""
    s = [calls.number(lo, args, k, line) for k in range(len(args))]
    if any(x.t.dtype[0] == "c" for x in s):
        raise Refused(f"math.{name} of complex numbers", line)
    if name in ("floor", "ceil", "trunc"):
        if s[0].t.whole:
            return calls.whole(lo, s[0], line)
        near = Op(name, "float64", (arithmetic.cast(s[0].e, "float64"),))
        return Scalar(
            ints(-(1 << 63), (1 << 63) - 1), Op("whole:int64", INT, (near,), lo.b.fault(CALL + "int", "", line))
        )
    floats = tuple(
        arithmetic.plain_float(lo.b, arithmetic.as_int(x), line) if x.t.py else arithmetic.cast(x.e, "float64")
        for x in s
    )
    if name == "sqrt":
        fault = lo.b.fault("ValueError", _domain(math.sqrt, -1.0), line)
        return Scalar(PY_FLOAT, Op("real_sqrt", "float64", floats, fault))
    if name == "fabs":
        return Scalar(PY_FLOAT, Op("absolute", "float64", floats))
    if name in ("isnan", "isinf", "isfinite"):
        return Scalar(PY_BOOL, Op(name, BOOL, floats))
    if name == "copysign":
        return Scalar(PY_FLOAT, Op("copysign", "float64", floats))
    if name in ("radians", "degrees"):
        factor = math.pi / 180.0 if name == "radians" else 180.0 / math.pi
        return Scalar(PY_FLOAT, Op("multiply", "float64", (floats[0], Const("float64", factor))))
    if name in _LIBM and len(floats) == 1:
        fault = lo.b.fault(CALL + name, "", line)
        return Scalar(PY_FLOAT, Op(f"libm:{name}", "float64", floats, fault))
    if name in ("pow", "atan2", "hypot", "fmod", "remainder") and len(floats) == 2:
        fault = lo.b.fault(CALL + name, "", line)
        return Scalar(PY_FLOAT, Op(f"libm:{name}", "float64", floats, fault))
    raise Refused(f"math.{name}", line)


def _domain(f: Callable[[float], Any], x: float) -> str:
    try:
        f(x)
    except ValueError as error:
        return str(error)
    return "math domain error"
