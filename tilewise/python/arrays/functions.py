"""Functions of NumPy, math and Python that compiled loops have. In: names, values. Out: values.

Results are of the kind that the namespace gives: `numpy.zeros` makes an ndarray, `tilewise.zeros` an Array.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tilewise.kernel.program.ir import BOOL, INT, Const, Expr, Op
from tilewise.python.build import (
    ONE,
    Array,
    Lazy,
    List,
    Scalar,
    Sequence_,
    Slice,
    Static,
    Tuple,
    Value,
    add,
    compare,
    mul,
    pick,
    sub,
)
from tilewise.python.refuse import Refused
from tilewise.python.types import Arr, Num

if TYPE_CHECKING:
    from tilewise.python.statements import Statements
from tilewise.python import conditions, values
from tilewise.python.arrays import assign, attributes, copies, elementwise, reductions, subscripts, turned
from tilewise.python.containers import lists
from tilewise.python.functions import calls
from tilewise.python.host import library as host_library
from tilewise.python.scalars import arithmetic, stored
from tilewise.python.standard import builtin_functions, kinds

_DTYPE_NAMES = {"bool_": "bool", "float": "float64", "int": "int64", "complex": "complex128", "double": "float64",
                "single": "float32", "intp": "int64", "int_": "int64", "uint": "uint64", "ubyte": "uint8",
                "byte": "int8", "longlong": "int64", "csingle": "complex64", "cdouble": "complex128"}  # fmt: skip


def dtype_named(found: Value | None, line: int, default: str = "float64") -> str:
    """What a dtype argument says."""
    if found is None or (isinstance(found, Static) and found.value is None):
        return default
    if isinstance(found, Static):
        v = found.value
        if isinstance(v, calls.Library):
            v = _DTYPE_NAMES.get(v.name, v.name)
        try:
            name = np.dtype(v).name
        except TypeError:
            name = ""
        if name in arithmetic.NATIVE_DTYPES:
            return str(name)
        raise Refused(f"the dtype {name or v}", line)
    raise Refused("a dtype that is not known before", line)


def of_numpy(lo: Statements, name: str, kind: str, args: list[Value], options: dict[str, Value], line: int) -> Value:
    """A function of NumPy's namespace: by loops, or else through Python."""
    args = [lists.as_array(lo, a, line) if isinstance(a, List) else a for a in args]
    return lo.native_or(
        lambda: _of_numpy(lo, name, kind, args, options, line),
        lambda: host_library.of_numpy(lo, name, kind, args, options, line),
    )


def _of_numpy(lo: Statements, name: str, kind: str, args: list[Value], options: dict[str, Value], line: int) -> Value:
    plain = _DTYPE_NAMES.get(name, name)
    given = args[0].value if len(args) == 1 and isinstance(args[0], Static) else None
    if plain == "uint64" and type(given) is int and given < 1 << 64:
        return arithmetic.constant(np.uint64(given), line)
    if plain == "dtype" and len(args) == 1 and not options:
        return kinds.dtype_of(args[0], line)
    if plain == "issubdtype" and len(args) == 2 and not options:
        return kinds.issubdtype(args, line)
    if plain in ("finfo", "iinfo") and len(args) == 1 and not options:
        return Static(_limits(plain, dtype_named(args[0], line)))
    if plain in arithmetic.NATIVE_DTYPES and not options and len(args) <= 1:
        return _converted(lo, plain, args, line)
    how = _FUNCTIONS.get(name)
    if how is not None:
        return how(lo, kind, Given(lo, name, args, options, line))  # type: ignore[no-any-return]
    if name.endswith(".outer") and len(args) == 2 and not options:
        return _outer(lo, kind, Given(lo, name.removesuffix(".outer"), args, {}, line))
    if name.endswith(".reduce") and (how := _FUNCTIONS.get(_REDUCES.get(name, ""))) is not None:
        return how(lo, kind, Given(lo, name, args, options, line))  # type: ignore[no-any-return]
    function = getattr(np, name, None)
    if isinstance(function, np.ufunc) and function.nout == 1:
        if options or len(args) != function.nin:
            out = options.get("out") or (args[function.nin] if len(args) == function.nin + 1 else None)
            if isinstance(out, Array) and not set(options) - {"out"} and len(args) >= function.nin:
                made = of_ufunc(lo, name, args[: function.nin], line)
                assign.assign(lo, out, made, line)
                return out
            raise Refused(f"{name} with options", line)
        return of_ufunc(lo, name, args, line)
    raise Refused(f"a call of {kind}.{name}", line)


def of_ufunc(lo: Statements, name: str, args: Sequence[Value], line: int) -> Value:
    args = values.zero_dimensional(lo, args, line)
    if any(isinstance(a, Array | Lazy) for a in args):
        if not all(isinstance(a, Scalar | Array | Lazy) for a in args):
            raise Refused(f"{name} of these", line)
        return elementwise.elementwise(lo, lambda *s: _ufunc(lo, name, s, line), name, args, line)  # type: ignore[arg-type]
    return _ufunc(lo, name, tuple(values.scalar(lo, a, line) for a in args), line)


def _ufunc(lo: Statements, name: str, s: tuple[Scalar, ...], line: int) -> Scalar:
    if all(x.t.py for x in s):  # numbers of Python become NumPy's
        s = tuple(Scalar(Num(False, x.t.dtype), x.e) for x in s)
    if name in ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"):
        return arithmetic._compared(name, s[0], s[1], line)
    return arithmetic.ufunc(lo.b, name, s, line)


class Given:
    """The arguments of a call, by place or name."""

    def __init__(self, lo: Statements, name: str, args: list[Value], options: dict[str, Value], line: int) -> None:
        self.lo, self.name, self.args, self.options, self.line = lo, name, args, dict(options), line

    def take(self, at: int, name: str) -> Value | None:
        found = self.args[at] if at < len(self.args) else self.options.pop(name, None)
        return None if isinstance(found, Static) and found.value is None else found

    def need(self, at: int, name: str) -> Value:
        found = self.take(at, name)
        if found is None:
            raise Refused(f"{self.name} without {name}", self.line)
        return found

    def done(self, most: int) -> None:
        if self.options or len(self.args) > most:
            raise Refused(f"{self.name} with {', '.join(self.options) or 'so many arguments'}", self.line)


@functools.cache
def _limits(name: str, dtype: str) -> Any:
    """np.finfo or np.iinfo: one object for each dtype, so that a name has it in all turns of a loop."""
    try:
        return getattr(np, name)(dtype)
    except ValueError as error:
        raise Refused(f"np.{name} of {dtype} ({error})") from None


def _converted(lo: Statements, dtype: str, args: list[Value], line: int) -> Value:
    if not args:
        return Scalar(Num(False, dtype), arithmetic.cast(Const(BOOL, False), dtype))
    if isinstance(args[0], Array) and args[0].t.dtype == dtype and args[0].t.rank:
        return args[0]
    if isinstance(args[0], Array | Lazy):
        return elementwise.elementwise(
            lo, lambda s: Scalar(Num(False, dtype), arithmetic.cast(s.e, dtype)), dtype, (args[0],), line
        )
    s = values.scalar(lo, args[0], line)
    return Scalar(Num(False, dtype), stored.converted(lo.b, s, dtype, line))


def shape_given(lo: Statements, found: Value, line: int) -> list[Expr]:
    items = found.items if isinstance(found, Tuple) else (found,)
    return [lo.b.held(calls.whole(lo, i, line).e) for i in items]


def number(dtype: str, value: int) -> Const:
    return Const(dtype, {"f": float, "c": complex, "b": bool}.get(dtype[0], int)(value))


def _created(value: int | None) -> Any:
    def act(lo: Statements, kind: str, g: Given) -> Value:
        shape = shape_given(lo, g.need(0, "shape"), g.line)
        dtype = dtype_named(g.take(1, "dtype"), g.line)
        g.done(2)
        made = elementwise.allocated(lo, Arr(dtype, len(shape), kind), shape, value == 0, g.line)
        if value:
            assign.assign(lo, made, Scalar(Num(False, dtype), number(dtype, value)), g.line)
        return made

    return act


def _created_like(value: int | None) -> Any:
    def act(lo: Statements, kind: str, g: Given) -> Value:
        like = g.need(0, "a")
        if not isinstance(like, Array | Lazy):
            raise Refused(f"{g.name} of something that is no array", g.line)
        dtype = dtype_named(g.take(1, "dtype"), g.line, like.t.dtype)
        g.done(2)
        t = Arr(dtype, like.t.rank, kind_of(kind, like))
        shape, reads = elementwise.shape_of(like), elementwise.lazy(like).reads
        made = elementwise.allocated(lo, t, shape, value == 0, g.line, reads)
        if value:
            assign.assign(lo, made, Scalar(Num(False, dtype), number(dtype, value)), g.line)
        return made

    return act


def kind_of(kind: str, *others: Value) -> str:
    ours = any(isinstance(o, Array | Lazy) and o.t.kind == "tilewise" for o in others)
    return "tilewise" if ours or kind == "tilewise" else "numpy"


def _full(lo: Statements, kind: str, g: Given) -> Value:
    shape = shape_given(lo, g.need(0, "shape"), g.line)
    fill = values.scalar(lo, g.need(1, "fill_value"), g.line)
    dtype = dtype_named(g.take(2, "dtype"), g.line, fill.t.dtype)
    g.done(3)
    made = elementwise.allocated(lo, Arr(dtype, len(shape), kind), shape, False, g.line)
    if fill.t.whole and not fill.t.py:
        fill = Scalar(Num(False, dtype), arithmetic.cast(fill.e, dtype))
    assign.assign(lo, made, fill, g.line)
    return made


def _arange(lo: Statements, kind: str, g: Given) -> Value:
    parts = [values.scalar(lo, a, g.line) for a in g.args]
    dtype = g.options.pop("dtype", None)
    g.done(3)
    if not all(p.t.py and p.t.dtype == INT for p in parts) or not parts:
        raise Refused("arange of something else than integers", g.line)
    sequence = builtin_functions.range_(lo, list(parts), g.line)
    assert isinstance(sequence, Sequence_)
    start, stop, step = cast(tuple[Scalar, Scalar, Scalar], sequence.parts)
    n = builtin_functions.range_length(lo, start, stop, step, g.line)
    named = dtype_named(dtype, g.line, INT)
    first, by = lo.b.held(start.e), lo.b.held(step.e)
    t = Num(False, named)
    return Lazy(
        Arr(named, 1, kind),
        (lo.b.held(n.e),),
        lambda at, _: Scalar(t, arithmetic.cast(add(first, mul(at[0], by)), named)),
        (),
    )


def _linspace(lo: Statements, kind: str, g: Given) -> Value:
    first, last = (
        lo.b.held(arithmetic.cast(values.scalar(lo, g.need(k, n), g.line).e, "float64"))
        for k, n in ((0, "start"), (1, "stop"))
    )
    count = calls.whole(lo, g.take(2, "num") or arithmetic.constant(50), g.line)
    g.done(3)
    n = lo.b.held(count.e)
    parts = arithmetic.cast(sub(n, ONE), "float64")
    step = lo.b.keep(Op("divide", "float64", (Op("subtract", "float64", (last, first)), parts)))
    t = Num(False, "float64")

    def one(at: Sequence[Expr], _: bool) -> Scalar:
        e: Expr = Op("add", "float64", (Op("multiply", "float64", (arithmetic.cast(at[0], "float64"), step)), first))
        final = compare("equal", at[0], sub(n, ONE))
        only = compare("equal", n, ONE)
        return Scalar(t, pick(only, first, pick(final, last, e)))

    return elementwise.materialised(lo, Lazy(Arr("float64", 1, kind), (n,), one, ()), g.line)


def _eye(lo: Statements, kind: str, g: Given) -> Value:
    n = lo.b.held(calls.whole(lo, g.need(0, "N"), g.line).e)
    dtype = dtype_named(g.options.pop("dtype", None), g.line)
    g.done(1)
    t = Num(False, dtype)
    return Lazy(
        Arr(dtype, 2, kind), (n, n), lambda at, _: Scalar(t, arithmetic.cast(compare("equal", at[0], at[1]), dtype)), ()
    )


def _dot(lo: Statements, kind: str, g: Given) -> Value:
    x, y = g.need(0, "a"), g.need(1, "b")
    g.done(2)
    if isinstance(x, Scalar) or isinstance(y, Scalar):
        return values.binary(lo, "*", x, y, g.line)
    return attributes.product(lo, x, y, g.line)


def _outer(lo: Statements, kind: str, g: Given) -> Value:
    x, y = g.need(0, "a"), g.need(1, "b")
    g.done(2)
    if not (isinstance(x, Array | Lazy) and isinstance(y, Array | Lazy) and x.t.rank == y.t.rank == 1):
        raise Refused("outer of these", g.line)
    column = subscripts.view(
        lo, elementwise.materialised(lo, x, g.line), [Slice(None, None, None), subscripts.NEW], g.line
    )
    return of_ufunc(lo, "multiply" if g.name == "outer" else g.name, [column, y], g.line)


_REDUCES = {"minimum.reduce": "min", "maximum.reduce": "max"}


def _where(lo: Statements, kind: str, g: Given) -> Value:
    if len(g.args) != 3:
        raise Refused("where without values", g.line)

    def one(c: Scalar, x: Scalar, y: Scalar) -> Scalar:
        if x.t.py == y.t.py:
            t, p, q = conditions.common(lo, x, y, g.line, [], [])
        else:  # a number of Python that does not fit is converted like an element, without an error
            t = Num(False, arithmetic.resolved("add", arithmetic._spec(x), arithmetic._spec(y))[-1])
            p, q = arithmetic.cast(x.e, t.dtype), arithmetic.cast(y.e, t.dtype)
        return Scalar(Num(False, t.dtype), Op("where", t.dtype, (arithmetic.truth(c), p, q)))

    if any(isinstance(a, Array | Lazy) for a in g.args):
        return elementwise.elementwise(lo, one, "where", g.args, g.line)  # type: ignore[arg-type]
    raise Refused("where of numbers", g.line, "Use: x if condition else y")


def _clip(lo: Statements, kind: str, g: Given) -> Value:
    x, low, high = g.need(0, "a"), g.need(1, "a_min"), g.need(2, "a_max")
    g.done(3)
    return of_ufunc(lo, "minimum", [of_ufunc(lo, "maximum", [x, low], g.line), high], g.line)


def rounded(lo: Statements, x: Value, digits: int, line: int) -> Value:
    """NumPy's round: scaled, rounded to the nearest, scaled back; in the dtype of x."""

    def one(s: Scalar) -> Scalar:
        dtype = s.t.dtype
        if dtype[0] not in "f":
            if digits >= 0 and s.t.whole:
                return s
            raise Refused(f"round of {dtype}", line)
        scale = Const(dtype, 10.0 ** abs(digits))
        names = ("multiply", "divide") if digits >= 0 else ("divide", "multiply")
        if not digits:
            return Scalar(s.t, Op("rint", dtype, (s.e,)))
        near = Op("rint", dtype, (Op(names[0], dtype, (s.e, scale)),))
        return Scalar(s.t, Op(names[1], dtype, (near, scale)))

    if isinstance(x, Array | Lazy) and x.t.rank:
        return elementwise.elementwise(lo, one, "round", (x,), line)
    s = values.scalar(lo, x, line)
    return one(Scalar(Num(False, s.t.dtype), s.e))


def _round(lo: Statements, kind: str, g: Given) -> Value:
    x, digits = g.need(0, "a"), g.take(1, "decimals") or arithmetic.constant(0)
    g.done(2)
    if not isinstance(digits, Scalar) or not isinstance(digits.e, Const) or not isinstance(x, Array | Lazy | Scalar):
        raise Refused("round to digits that are not known before", g.line)
    return rounded(lo, x, int(digits.e.value), g.line)


def _part(name: str) -> Any:
    def act(lo: Statements, kind: str, g: Given) -> Value:
        x = g.need(0, "val")
        g.done(1)
        if isinstance(x, Scalar):
            return calls.part(lo, x, name, g.line)
        if not isinstance(x, Array | Lazy):
            raise Refused(f"{name} of something that is no array", g.line)
        return attributes.attribute(lo, x, name, g.line)

    return act


def _norm(lo: Statements, kind: str, g: Given) -> Value:
    x = g.need(0, "x")
    g.done(1)
    if not isinstance(x, Array | Lazy) or x.t.dtype not in ("float64", "float32"):
        raise Refused("norm of this", g.line)
    total = reductions.reduced(lo, "sum", values.binary(lo, "*", x, x, g.line), None, False, g.line)
    return of_ufunc(lo, "sqrt", [total], g.line)


_FUNCTIONS: dict[str, Any] = {
    "zeros": _created(0), "ones": _created(1), "empty": _created(None), "ndarray": _created(None), "full": _full,
    "zeros_like": _created_like(0), "ones_like": _created_like(1), "empty_like": _created_like(None),
    "copy": copies.copy, "array": copies.array, "asarray": copies.asarray, "arange": _arange,
    "linspace": _linspace, "eye": _eye, "identity": _eye,
    **{name: reductions.reduction(name) for name in ("sum", "prod", "mean", "any", "all", "min", "max")},
    "amin": reductions.reduction("min"), "amax": reductions.reduction("max"), "argmin": reductions.arg(True),
    "argmax": reductions.arg(False), "dot": _dot, "matmul": _dot, "vdot": _dot,
    "outer": _outer, "where": _where, "clip": _clip, "real": _part("real"), "imag": _part("imag"),
    "transpose": turned.transpose, "linalg.norm": _norm, "flip": turned.flip, "std": reductions.spread(True),
    "var": reductions.spread(False), "round": _round, "around": _round,
}  # fmt: skip
_METHODS = frozenset("sum prod mean std var any all min max argmin argmax dot copy transpose clip round".split())


def method(lo: Statements, base: Value, name: str, args: list[Value], options: dict[str, Value], line: int) -> Value:
    """base.name(...)"""
    if isinstance(base, Scalar):
        if name in ("conjugate", "conj") and not args:
            return base if base.t.dtype[0] != "c" else Scalar(base.t, Op("conjugate", base.t.dtype, (base.e,)))
        if name == "item" and not base.t.py:
            return Scalar(
                Num(True, {"f": "float64", "c": "complex128", "b": "bool"}.get(base.t.dtype[0], INT)),
                arithmetic.cast(base.e, {"f": "float64", "c": "complex128", "b": "bool"}.get(base.t.dtype[0], INT)),
            )
        if name == "astype" and len(args) == 1:
            return _converted(lo, dtype_named(args[0], line), [base], line)
        raise Refused(f"the method {name} of a number", line)
    assert isinstance(base, Array | Lazy)
    array = base
    return lo.native_or(
        lambda: _method(lo, array, name, args, options, line),
        lambda: host_library.method(lo, array, name, args, options, line),
    )


def _method(
    lo: Statements, base: Array | Lazy, name: str, args: list[Value], options: dict[str, Value], line: int
) -> Value:
    kind = base.t.kind
    if name == "copy" and not args and not options:
        return copies.copied(lo, base, kind, line, in_c_order=True)
    if name in _METHODS:
        if name == "transpose" and len(args) > 1:
            args = [Tuple(tuple(args))]
        return _of_numpy(lo, name, kind, [base, *args], options, line)
    if name == "fill" and len(args) == 1 and isinstance(base, Array):
        assign.assign(lo, base, args[0], line)
        return Static(None)
    if name == "astype" and len(args) == 1:
        g, dtype = Given(lo, name, args, options, line), dtype_named(args[0], line)
        same = None if copies.wanted(g) else copies.itself(base, kind, dtype)
        g.done(1)
        return copies.copied(lo, _converted(lo, dtype, [base], line), kind, line) if same is None else same
    if name in ("conj", "conjugate") and not args:
        if base.t.dtype[0] != "c":
            return base
        return of_ufunc(lo, "conjugate", [base], line)
    if name == "item" and not args and base.t.rank == 0:
        return method(lo, values.scalar(lo, base, line), "item", [], {}, line)
    raise Refused(f"the method {name} of an array", line)
