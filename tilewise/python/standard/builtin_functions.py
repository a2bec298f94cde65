"""Python's own functions. In: a name, values. Out: values."""

from __future__ import annotations

import ast
import math
from typing import TYPE_CHECKING, Any, cast

from tilewise.kernel.program.ir import BOOL, CALL, INT, RERUN, Const, Expr, Fail, If, Op
from tilewise.python.build import (
    ZERO,
    Array,
    Dict,
    Lazy,
    List,
    Scalar,
    Sequence_,
    Static,
    Tuple,
    Value,
    add,
    compare,
    pick,
    sub,
)
from tilewise.python.refuse import Refused
from tilewise.python.types import MOST, PY_BOOL, PY_COMPLEX, PY_FLOAT, ints

if TYPE_CHECKING:
    from tilewise.python.statements import Statements
from tilewise.python import conditions, values
from tilewise.python.arrays import elementwise, functions
from tilewise.python.containers import dicts, lists
from tilewise.python.functions import calls
from tilewise.python.host import calling
from tilewise.python.host import library as host_library
from tilewise.python.scalars import arithmetic
from tilewise.python.standard import kinds, sequences, written


def call(lo: Statements, name: str, args: list[Value], options: dict[str, Value], node: ast.Call) -> Value:
    """A call of one of Python's own functions."""
    line = node.lineno
    if name in ("min", "max", "sum") and not options:
        return TABLE[name](lo, args, line, node)  # type: ignore[no-any-return]
    if name in written.BUILTINS and not options and args and _several(args[0]):
        return calls.of_written(lo, written.BUILTINS[name], args, {}, node)
    strict = options.get("strict") if name == "zip" else None
    if isinstance(strict, Scalar) and strict.e == Const(BOOL, False):
        options = {}
    if name == "print":
        return host_library.printed(lo, args, options, line)
    if name == "list" and not args:
        return Tuple((), listed=True)
    if name == "enumerate" and "start" in options and len(args) == 1:
        args, options = [args[0], options["start"]], {k: v for k, v in options.items() if k != "start"}
    if name == "pow" and len(args) == 3 and not options:
        return _power_of_rest(lo, args, node)
    how = TABLE.get(name)
    if how is None or options:
        raise Refused(f"a call of {name}", line)
    return how(lo, args, line)  # type: ignore[no-any-return]


def range_(lo: Statements, args: list[Value], line: int) -> Value:
    parts = [calls.whole(lo, a, line) for a in args]
    if len(parts) == 1:
        parts = [arithmetic.constant(0), parts[0]]
    if len(parts) == 2:
        parts.append(arithmetic.constant(1))
    if isinstance(parts[2].e, Const) and parts[2].e.value == 0:
        raise Refused("a range with a step of zero", line)
    return Sequence_("range", tuple(parts))


def range_length(lo: Statements, start: Scalar, stop: Scalar, step: Scalar, line: int) -> Scalar:
    """len(range(...))"""
    if not isinstance(step.e, Const):
        raise Refused("the length of a range with a computed step", line)
    k = step.e.value
    first, last, k = (start, stop, k) if k > 0 else (stop, start, -k)
    span = sub(last.e, first.e)
    count = span if k == 1 else Op("floor_divide", INT, (add(span, Const(INT, k - 1)), Const(INT, k)))
    most = max(0, -(-(last.t.hi - first.t.lo) // k))
    if last.t.hi - first.t.lo > MOST:
        raise Refused("a range that may be too long", line)
    count = lo.b.held(count)
    if last.t.lo >= first.t.hi:
        return Scalar(ints(0, most), count)
    return Scalar(ints(0, most), pick(compare("less", count, ZERO), ZERO, count))


def _len(lo: Statements, args: list[Value], line: int) -> Value:
    x = args[0]
    if isinstance(x, List):
        return lists.length(lo, x)
    if isinstance(x, Dict):
        return dicts.length(x)
    if isinstance(x, Tuple):
        return arithmetic.constant(len(x.items))
    if isinstance(x, Array | Lazy) and x.t.rank:
        return elementwise.length(x, 0)
    if isinstance(x, Sequence_) and x.kind == "range":
        start, stop, step = cast(tuple[Scalar, Scalar, Scalar], x.parts)
        return range_length(lo, start, stop, step, line)
    raise Refused("len of something else than an array", line)


def _abs(lo: Statements, args: list[Value], line: int) -> Value:
    if isinstance(args[0], Array | Lazy):
        return functions.of_numpy(lo, "absolute", args[0].t.kind, args, {}, line)
    return arithmetic.absolute(lo.b, calls.number(lo, args, 0, line), line)


def _extreme(less: bool) -> Any:
    def act(lo: Statements, args: list[Value], line: int, node: ast.expr | None = None) -> Value:
        if len(args) == 1:
            if isinstance(args[0], Tuple):
                args = list(args[0].items)
            elif isinstance(args[0], Array | Lazy | List) and node is not None:
                return calls.of_written(lo, written.BUILTINS["min" if less else "max"], args, {}, node)
        if not args:
            raise Refused("min or max of nothing", line)
        best = values.scalar(lo, args[0], line)
        for a in args[1:]:
            s = values.scalar(lo, a, line)
            best, s = (Scalar(v.t, lo.b.held(v.e)) for v in (best, s))
            better = arithmetic.truth(arithmetic.binary(lo.b, "<" if less else ">", s, best, line))
            old, new = best, s
            made = conditions.chosen(lo, better, lambda new=new: new, lambda old=old: old, line, node)  # type: ignore[misc]
            assert isinstance(made, Scalar)
            t = made.t
            if t.py and t.dtype == INT:
                low, high = (old.t, new.t)
                t = (
                    ints(min(low.lo, high.lo), min(low.hi, high.hi))
                    if less
                    else ints(max(low.lo, high.lo), max(low.hi, high.hi))
                )
            best = Scalar(t, made.e)
        return best

    return act


def _float(lo: Statements, args: list[Value], line: int) -> Value:
    if not args:
        return arithmetic.constant(0.0)
    if isinstance(args[0], Static) and isinstance(args[0].value, str):
        return arithmetic.constant(float(args[0].value))
    s = calls.number(lo, args, 0, line)
    if s.t.dtype[0] == "c":
        raise Refused("float of a complex number", line)
    return Scalar(PY_FLOAT, arithmetic.plain_float(lo.b, s, line) if s.t.py else arithmetic.cast(s.e, "float64"))


def _int(lo: Statements, args: list[Value], line: int) -> Value:
    if not args:
        return arithmetic.constant(0)
    s = calls.number(lo, args, 0, line)
    if s.t.dtype == BOOL or s.t.whole:
        if s.t.dtype == BOOL:
            return Scalar(ints(0, 1), arithmetic.cast(s.e, INT))
        return calls.whole(lo, s, line)
    if s.t.dtype[0] == "c":
        raise Refused("int of a complex number", line)
    if isinstance(s.e, Const) and math.isfinite(s.e.value):
        return arithmetic.constant(int(s.e.value), line)
    fault = lo.b.fault(CALL + "int", "", line)
    return Scalar(ints(-(1 << 63), MOST), Op("whole:int64", INT, (arithmetic.cast(s.e, "float64"),), fault))


def _bool(lo: Statements, args: list[Value], line: int) -> Value:
    return Scalar(PY_BOOL, values.truth_of(lo, args[0], line)) if args else arithmetic.constant(False)


def _complex(lo: Statements, args: list[Value], line: int) -> Value:
    parts = [calls.number(lo, args, k, line) for k in range(len(args))]
    if len(parts) == 1:
        return Scalar(PY_COMPLEX, arithmetic.cast(parts[0].e, "complex128"))
    if len(parts) != 2 or any(p.t.dtype[0] == "c" for p in parts):
        raise Refused("complex of these", line)
    both = tuple(arithmetic.cast(p.e, "float64") for p in parts)
    return Scalar(PY_COMPLEX, Op("complex", "complex128", both))


def _several(v: Value) -> bool:
    return isinstance(v, List)


MOST_DIGITS = 22  # 10**22 is the largest power of ten that a float64 holds exactly


def _round(lo: Statements, args: list[Value], line: int) -> Value:
    s = calls.number(lo, args, 0, line)
    if len(args) > 1 and not (isinstance(args[1], Static) and args[1].value is None):
        return _round_to(lo, s, args[1], line)
    if s.t.whole:
        return s if s.t.py else calls.whole(lo, s, line)
    if s.t.dtype[0] != "f":
        raise Refused(f"round of {s.t}", line)
    near = Op("rint", "float64", (arithmetic.cast(s.e, "float64"),))
    return Scalar(ints(-(1 << 63), MOST), Op("whole:int64", INT, (near,), lo.b.fault(CALL + "int", "", line)))


def _round_to(lo: Statements, s: Scalar, digits: Value, line: int) -> Value:
    """round(x, digits), natively for some digits that are known before."""
    known = digits.e.value if isinstance(digits, Scalar) and isinstance(digits.e, Const) and digits.t.whole else -1
    if not 0 <= known <= MOST_DIGITS or s.t.dtype not in ("float64", "float32"):
        return calling.called(lo, round, [s, digits], {}, line, name="round")
    if not s.t.py:
        return functions.rounded(lo, s, known, line)
    return Scalar(PY_FLOAT, nearest_decimal(lo, s.e, known))


def nearest_decimal(lo: Statements, x: Expr, digits: int) -> Expr:
    """The float nearest to x rounded half to even at a decimal place, as Python does: by the exact value of x.

    x * 10**digits is a float and an error, both known exactly. It is rounded by the float alone, but where that is
    halfway between integers: there the sign of the error decides. Quotients of two exact floats are rounded once.
    """
    b = lo.b

    def op(name: str, *args: Expr) -> Expr:
        return b.keep(Op(name, "float64", args))

    def const(value: float) -> Expr:
        return Const("float64", value)

    def halves(v: Expr) -> tuple[Expr, Expr]:  # Dekker's: two floats of 26 bits, whose products are exact
        c = op("multiply", v, const(2.0**27 + 1.0))
        high = op("subtract", c, op("subtract", c, v))
        return high, op("subtract", v, high)

    x, scale = b.held(x), const(10.0**digits)
    product = op("multiply", x, scale)
    (xh, xl), (sh, sl) = halves(x), halves(scale)
    error = op("subtract", op("multiply", xh, sh), product)
    error = op("add", error, op("multiply", xh, sl))
    error = op("add", error, op("multiply", xl, sh))
    error = op("add", error, op("multiply", xl, sl))
    near = op("rint", product)
    off = op("absolute", op("subtract", product, near))
    halfway = b.keep(compare("equal", off, const(0.5)))
    below, above = op("floor", product), op("ceil", product)
    exact = compare("equal", error, const(0.0))
    decided = pick(compare("less", error, const(0.0)), below, above)
    near = b.keep(pick(halfway, pick(exact, near, decided), near))
    whole_already = compare("greater_equal", op("absolute", product), const(2.0**53))
    return pick(whole_already, x, Op("divide", "float64", (near, scale)))


def _divmod(lo: Statements, args: list[Value], line: int) -> Value:
    x, y = (Scalar(s.t, lo.b.held(s.e)) for s in (calls.number(lo, args, 0, line), calls.number(lo, args, 1, line)))
    first = arithmetic.binary(lo.b, "//", x, y, line)
    return Tuple((Scalar(first.t, lo.b.keep(first.e)), arithmetic.binary(lo.b, "%", x, y, line)))


def _pow(lo: Statements, args: list[Value], line: int) -> Value:
    if len(args) == 2:
        return values.binary(lo, "**", args[0], args[1], line)
    raise Refused("pow of these", line)


def _power_of_rest(lo: Statements, args: list[Value], node: ast.Call) -> Value:
    """pow(a, b, m) of integers; an inverse, where b is negative, is Python's."""
    given = [calls.whole(lo, a, node.lineno) for a in args]
    if given[1].t.lo < 0:
        given = [Scalar(s.t, lo.b.keep(s.e)) for s in given]
        fault = lo.b.fault(RERUN, "pow with a negative exponent and a modulus", node.lineno)
        lo.b.emit(If(compare("less", given[1].e, ZERO), (Fail(fault),)))
    return calls.of_written(lo, written.power_of_rest, list(given), {}, node)


def _sum(lo: Statements, args: list[Value], line: int, node: ast.Call) -> Value:
    if args and isinstance(args[0], List):
        return calls.of_written(lo, written.total, args, {}, node)
    start: Value = args[1] if len(args) > 1 else arithmetic.constant(0)
    if isinstance(args[0], Tuple):
        for item in args[0].items:
            start = values.binary(lo, "+", start, item, line)
        return start
    return sequences.added_up(lo, args[0], start, node)


def _sequence(kind: str) -> Any:
    def act(lo: Statements, args: list[Value], line: int) -> Value:
        if kind == "enumerate" and len(args) == 2:
            first = calls.whole(lo, args[1], line)
            return Sequence_(kind, (args[0], Scalar(first.t, lo.b.keep(first.e))))
        if kind != "zip" and len(args) != 1:
            raise Refused(f"{kind} with several arguments", line)
        return Sequence_(kind, tuple(args))

    return act


def _tuple(lo: Statements, args: list[Value], line: int) -> Value:
    if len(args) == 1 and isinstance(args[0], Tuple):
        return Tuple(args[0].items)
    raise Refused("tuple of something of unknown length", line)


TABLE: dict[str, Any] = {
    "range": range_, "len": _len, "abs": _abs, "min": _extreme(True), "max": _extreme(False), "float": _float,
    "int": _int, "bool": _bool, "complex": _complex, "round": _round, "divmod": _divmod, "pow": _pow, "sum": _sum,
    "enumerate": _sequence("enumerate"), "zip": _sequence("zip"), "reversed": _sequence("reversed"), "tuple": _tuple,
    "isinstance": kinds.isinstance_, "type": kinds.type_, "hasattr": kinds.hasattr_,
}  # fmt: skip
