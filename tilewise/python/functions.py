"""Functions of NumPy, math and Python that compiled loops have. In: names, values. Out: values.

Results are of the kind that the namespace gives: `numpy.zeros` makes an ndarray, `tilewise.zeros` an Array.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise.kernel.program.ir import BOOL, CALL, INT, Const, Expr, Fail, If, Op, Set, Var
from tilewise.python import arithmetic, arrays, calls, values
from tilewise.python.build import (
    ONE,
    ZERO,
    Array,
    Lazy,
    Scalar,
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
from tilewise.python.types import LENGTH, PY_BOOL, PY_FLOAT, Arr, Num, ints, key

if TYPE_CHECKING:
    from tilewise.python.lower import Lower

# -- functions of the user -------------------------------------------------------------------------------------------


def locals_of(tree: ast.FunctionDef | ast.Lambda) -> frozenset[str]:
    """The local names of a function: arguments and what is assigned to."""
    a = tree.args
    names = {x.arg for x in (*a.posonlyargs, *a.args, *a.kwonlyargs)}
    todo: list[ast.AST] = list(tree.body) if isinstance(tree, ast.FunctionDef) else [tree.body]
    while todo:
        n = todo.pop()
        if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load):
            names.add(n.id)
        elif isinstance(n, ast.FunctionDef):
            names.add(n.name)
            continue
        elif isinstance(n, ast.Lambda | ast.GeneratorExp | ast.ListComp):
            continue
        elif isinstance(n, ast.Import | ast.ImportFrom):
            raise Refused("an import inside", n.lineno, "Import at the top of the file")
        todo += ast.iter_child_nodes(n)
    return frozenset(names)


def scope_of(f: FunctionType, tree: ast.FunctionDef | ast.Lambda) -> frozenset[str]:
    """The same, of a function from outside."""
    return locals_of(tree)


def matched(
    lo: Lower, tree: Any, name: str, args: list[Value], options: dict[str, Value], defaults: tuple[Value, ...],
    named: dict[str, Value], line: int,
) -> dict[str, Value]:  # fmt: skip
    """Which argument gets which value."""
    a = tree.args
    if a.vararg is not None or a.kwarg is not None:
        raise Refused(f"{name}, which takes * or ** arguments", line)
    places = [x.arg for x in (*a.posonlyargs, *a.args)]
    found = dict(zip(places, args, strict=False))
    late = dict(zip(places[len(places) - len(defaults) :], defaults, strict=True))
    if len(args) > len(places) or not set(options) <= {*places, *(x.arg for x in a.kwonlyargs)} or set(options) & set(found):
        raise Refused(f"a call of {name} with other arguments than it takes", line)
    found |= options
    for k, v in {**late, **named}.items():
        found.setdefault(k, v)
    if set(found) != {*places, *(x.arg for x in a.kwonlyargs)}:
        raise Refused(f"a call of {name} with too few arguments", line)
    return found


# -- math ------------------------------------------------------------------------------------------------------------

_LIBM = "exp expm1 log log2 log10 log1p sqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc cbrt".split()


def of_math(lo: Lower, name: str, args: list[Value], line: int) -> Value:
    """A function of Python's math: C's, and a fault where Python raises."""
    s = [calls.number(lo, args, k, line) for k in range(len(args))]
    if any(x.t.dtype[0] == "c" for x in s):
        raise Refused(f"math.{name} of complex numbers", line)
    if name in ("floor", "ceil", "trunc"):
        if s[0].t.whole:
            return calls.whole(lo, s[0], line)
        near = Op(name, "float64", (arithmetic.cast(s[0].e, "float64"),))
        return Scalar(ints(-(1 << 63), (1 << 63) - 1), Op("whole:int64", INT, (near,), lo.b.fault(CALL + "int", "", line)))
    floats = tuple(arithmetic.as_float(lo.b, arithmetic.as_int(x), line) if x.t.py else arithmetic.cast(x.e, "float64") for x in s)
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
    if name == "log" and len(floats) == 2:
        raise Refused("math.log with a base", line)
    if name in _LIBM and len(floats) == 1:
        fault = lo.b.fault(CALL + name, "", line)
        return Scalar(PY_FLOAT, Op(f"libm:{name}", "float64", floats, fault))
    if name in ("pow", "atan2", "hypot", "fmod") and len(floats) == 2:
        fault = lo.b.fault(CALL + name, "", line)
        return Scalar(PY_FLOAT, Op(f"libm:{name}", "float64", floats, fault))
    raise Refused(f"math.{name}", line)


def _domain(f: Callable[[float], Any], x: float) -> str:
    try:
        f(x)
    except ValueError as error:
        return str(error)
    return "math domain error"


# -- NumPy -----------------------------------------------------------------------------------------------------------

_DTYPE_NAMES = {"bool_": "bool", "float": "float64", "int": "int64", "complex": "complex128", "double": "float64", "single": "float32", "intp": "int64", "int_": "int64", "uint": "uint64", "complex_": "complex128", "float_": "float64", "ubyte": "uint8", "byte": "int8", "half": "float16", "longlong": "int64", "csingle": "complex64", "cdouble": "complex128"}  # fmt: skip


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
            return name
        raise Refused(f"the dtype {name or v}", line)
    raise Refused("a dtype that is not known before", line)


def of_numpy(lo: Lower, name: str, kind: str, args: list[Value], options: dict[str, Value], line: int) -> Value:
    """A function of NumPy's namespace."""
    plain = _DTYPE_NAMES.get(name, name)
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
                arrays.assign(lo, out, made, line)
                return out
            raise Refused(f"{name} with options", line)
        return of_ufunc(lo, name, args, line)
    raise Refused(f"a call of {kind}.{name}", line)


def of_ufunc(lo: Lower, name: str, args: Sequence[Value], line: int) -> Value:
    if any(isinstance(a, Array | Lazy) for a in args):
        if not all(isinstance(a, Scalar | Array | Lazy) for a in args):
            raise Refused(f"{name} of these", line)
        return arrays.elementwise(lo, lambda *s: _ufunc(lo, name, s, line), name, args, line)  # type: ignore[arg-type]
    return _ufunc(lo, name, tuple(values.scalar(lo, a, line) for a in args), line)


def _ufunc(lo: Lower, name: str, s: tuple[Scalar, ...], line: int) -> Scalar:
    if all(x.t.py for x in s):  # numbers of Python become NumPy's
        s = tuple(Scalar(Num(False, x.t.dtype), x.e) for x in s)
    if name in ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"):
        return arithmetic._compared(name, *s, line)
    return arithmetic.ufunc(lo.b, name, s, line)


class Given:
    """The arguments of a call, by place or name."""

    def __init__(self, lo: Lower, name: str, args: list[Value], options: dict[str, Value], line: int) -> None:
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


def _converted(lo: Lower, dtype: str, args: list[Value], line: int) -> Value:
    if not args:
        return Scalar(Num(False, dtype), arithmetic.cast(Const(BOOL, False), dtype))
    if isinstance(args[0], Array | Lazy):
        return arrays.elementwise(lo, lambda s: Scalar(Num(False, dtype), arithmetic.cast(s.e, dtype)), dtype, (args[0],), line)
    s = values.scalar(lo, args[0], line)
    return Scalar(Num(False, dtype), arithmetic.stored(lo.b, s, dtype, line))


def shape_given(lo: Lower, found: Value, line: int) -> list[Expr]:
    items = found.items if isinstance(found, Tuple) else (found,)
    return [lo.b.held(calls.whole(lo, i, line).e) for i in items]


def _number(dtype: str, value: int) -> Const:
    return Const(dtype, {"f": float, "c": complex, "b": bool}.get(dtype[0], int)(value))


def _created(value: int | None) -> Any:
    def act(lo: Lower, kind: str, g: Given) -> Value:
        shape = shape_given(lo, g.need(0, "shape"), g.line)
        dtype = dtype_named(g.take(1, "dtype"), g.line)
        g.done(2)
        made = arrays.allocated(lo, Arr(dtype, len(shape), kind), shape, value == 0, g.line)
        if value:
            arrays.assign(lo, made, Scalar(Num(False, dtype), _number(dtype, value)), g.line)
        return made

    return act


def _created_like(value: int | None) -> Any:
    def act(lo: Lower, kind: str, g: Given) -> Value:
        like = g.need(0, "a")
        if not isinstance(like, Array | Lazy):
            raise Refused(f"{g.name} of something that is no array", g.line)
        dtype = dtype_named(g.take(1, "dtype"), g.line, like.t.dtype)
        g.done(2)
        t = Arr(dtype, like.t.rank, _kind(kind, like))
        made = arrays.allocated(lo, t, arrays.shape_of(like), value == 0, g.line)
        if value:
            arrays.assign(lo, made, Scalar(Num(False, dtype), _number(dtype, value)), g.line)
        return made

    return act


def _kind(kind: str, *others: Value) -> str:
    ours = any(isinstance(o, Array | Lazy) and o.t.kind == "tilewise" for o in others)
    return "tilewise" if ours or kind == "tilewise" else "numpy"


def _full(lo: Lower, kind: str, g: Given) -> Value:
    shape = shape_given(lo, g.need(0, "shape"), g.line)
    fill = values.scalar(lo, g.need(1, "fill_value"), g.line)
    dtype = dtype_named(g.take(2, "dtype"), g.line, fill.t.dtype)
    g.done(3)
    made = arrays.allocated(lo, Arr(dtype, len(shape), kind), shape, False, g.line)
    arrays.assign(lo, made, fill, g.line)
    return made


def copied(lo: Lower, found: Value, kind: str, line: int, dtype: str | None = None) -> Array:
    """A new array with the same elements."""
    if isinstance(found, Tuple):
        made = arrays.from_tuple(lo, found, dtype, line)
        return Array(Arr(made.t.dtype, made.t.rank, kind), made.name)
    if not isinstance(found, Array | Lazy):
        raise Refused("an array of this", line)
    v = arrays.lazy(found)
    t = Arr(dtype or v.t.dtype, v.t.rank, _kind(kind, found))
    made = arrays.allocated(lo, t, v.shape, False, line)
    arrays.assign(lo, made, v, line)
    return made


def _array(lo: Lower, kind: str, g: Given) -> Value:
    found = g.need(0, "object")
    dtype = g.take(1, "dtype")
    g.done(2)
    named = None if dtype is None else dtype_named(dtype, g.line)
    return copied(lo, found, kind, g.line, named)


def _asarray(lo: Lower, kind: str, g: Given) -> Value:
    found = g.need(0, "a")
    dtype = g.take(1, "dtype")
    g.done(2)
    if isinstance(found, Array) and (dtype is None or dtype_named(dtype, g.line) == found.t.dtype) and _kind(kind, found) == found.t.kind:
        return found
    return copied(lo, found, kind, g.line, None if dtype is None else dtype_named(dtype, g.line))


def _copy(lo: Lower, kind: str, g: Given) -> Value:
    found = g.need(0, "a")
    g.done(1)
    return copied(lo, found, kind, g.line)


def _arange(lo: Lower, kind: str, g: Given) -> Value:
    parts = [values.scalar(lo, a, g.line) for a in g.args]
    dtype = g.options.pop("dtype", None)
    g.done(3)
    if not all(p.t.py and p.t.dtype == INT for p in parts) or not parts:
        raise Refused("arange of something else than integers", g.line)
    sequence = calls._range(lo, list(parts), g.line)
    start, _, step = sequence.parts  # type: ignore[union-attr]
    n = calls.range_length(lo, *sequence.parts, g.line)  # type: ignore[union-attr,arg-type]
    named = dtype_named(dtype, g.line, INT)
    first, by = lo.b.held(start.e), lo.b.held(step.e)
    t = Num(False, named)
    return Lazy(Arr(named, 1, kind), (lo.b.held(n.e),), lambda at, _: Scalar(t, arithmetic.cast(add(first, mul(at[0], by)), named)), ())


def _linspace(lo: Lower, kind: str, g: Given) -> Value:
    first, last = (lo.b.held(arithmetic.cast(values.scalar(lo, g.need(k, n), g.line).e, "float64")) for k, n in ((0, "start"), (1, "stop")))
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

    return arrays.materialised(lo, Lazy(Arr("float64", 1, kind), (n,), one, ()), g.line)


def _eye(lo: Lower, kind: str, g: Given) -> Value:
    n = lo.b.held(calls.whole(lo, g.need(0, "N"), g.line).e)
    dtype = dtype_named(g.options.pop("dtype", None), g.line)
    g.done(1)
    t = Num(False, dtype)
    return Lazy(Arr(dtype, 2, kind), (n, n), lambda at, _: Scalar(t, arithmetic.cast(compare("equal", at[0], at[1]), dtype)), ())


# -- reductions ------------------------------------------------------------------------------------------------------


def reduced(lo: Lower, name: str, found: Value, axis: Value | None, keep: bool, line: int) -> Value:
    """sum, prod, min, max, mean, any, all: of all elements, or along an axis."""
    if isinstance(found, Tuple):
        found = arrays.from_tuple(lo, found, None, line)
    if isinstance(found, Scalar):
        return found
    if not isinstance(found, Array | Lazy):
        raise Refused(f"{name} of something that is no array", line)
    v = arrays.lazy(found)
    which: int | None = None
    if axis is not None:
        if not isinstance(axis, Scalar) or not isinstance(axis.e, Const):
            raise Refused(f"{name} along several axes, or one not known before", line)
        which = axis.e.value + (v.t.rank if axis.e.value < 0 else 0)
        if not 0 <= which < v.t.rank:
            raise Refused(f"{name} along an axis that there is not", line)
        if v.t.rank == 1 and not keep:
            which = None
    if which is None and keep:
        raise Refused(f"{name} with keepdims", line)
    inner = v.shape if which is None else (v.shape[which],)
    if name in ("min", "max"):
        for n in inner:
            text = f"zero-size array to reduction operation {name}imum which has no identity"
            lo.b.emit(If(compare("equal", n, ZERO), (Fail(lo.b.fault("ValueError", text, line)),)))

    if which is None and isinstance(found, Lazy) and found.equal:
        v = arrays.lazy(arrays.materialised(lo, found, line))

    def all_of(place: Callable[[list[Expr]], list[Expr]]) -> Scalar:
        return _accumulate(lo, name, v, inner, place, line)

    if which is None:
        return all_of(lambda at: list(at))
    v = arrays.lazy(arrays.materialised(lo, found, line)) if isinstance(found, Lazy) else v
    with lo.b.inside():
        t = all_of(lambda at: [*at] * v.t.rank).t
    shape = tuple(ONE if k == which else n for k, n in enumerate(v.shape) if k != which or keep)

    def one(at: Sequence[Expr], _: bool) -> Scalar:
        outer = [i for k, i in enumerate(at) if not (keep and k == which)]
        return all_of(lambda k: [*outer[:which], k[0], *outer[which:]])

    return arrays.materialised(lo, Lazy(Arr(t.dtype, len(shape), v.t.kind), shape, one, v.reads), line)


def _accumulate(
    lo: Lower, name: str, v: Lazy, inner: Sequence[Expr], place: Callable[[list[Expr]], list[Expr]], line: int
) -> Scalar:
    dtype = v.t.dtype
    if name in ("any", "all"):
        whole = name == "all"
        truth = lambda acc, at: Op("logical_and" if whole else "logical_or", BOOL, (acc, arithmetic.truth(v.element(place(at), False))))  # noqa: E731
        return Scalar(Num(False, BOOL), arrays.accumulated(lo, BOOL, Const(BOOL, whole), inner, truth, line))
    if name in ("min", "max"):
        if dtype == "bool" or dtype[0] == "c":
            raise Refused(f"{name} of {dtype}", line)
        fn = f"{name}imum"
        first: Any = (math.inf if name == "min" else -math.inf) if dtype[0] == "f" else int(np.iinfo(dtype).max if name == "min" else np.iinfo(dtype).min)
        step = lambda acc, at: Op(fn, dtype, (acc, v.element(place(at), False).e))  # noqa: E731
        return Scalar(Num(False, dtype), arrays.accumulated(lo, dtype, Const(dtype, first), inner, step, line))
    out = dtype if dtype[0] in "fc" else "uint64" if dtype[0] == "u" else INT
    if name == "mean" and out[0] in "iu":
        out = "float64"
    fn, unit = ("multiply", 1) if name == "prod" else ("add", 0)
    make = lambda acc, at: Op(fn, out, (acc, arithmetic.cast(v.element(place(at), False).e, out)), loose=True)  # noqa: E731
    total = arrays.accumulated(lo, out, _number(out, unit), inner, make, line)
    if name != "mean":
        return Scalar(Num(False, out), total)
    count: Expr = ONE
    for n in inner:
        count = mul(count, n)
    return Scalar(Num(False, out), Op("divide", out, (total, arithmetic.cast(arithmetic.cast(count, "float64"), out))))


def _reduction(name: str) -> Any:
    def act(lo: Lower, kind: str, g: Given) -> Value:
        found, axis = g.need(0, "a"), g.take(1, "axis")
        keep = g.options.pop("keepdims", None)
        g.done(2)
        kept = isinstance(keep, Scalar) and isinstance(keep.e, Const) and bool(keep.e.value)
        return reduced(lo, name, found, axis, kept, g.line)

    return act


def _arg(less: bool) -> Any:
    def act(lo: Lower, kind: str, g: Given) -> Value:
        found = g.need(0, "a")
        g.done(1)
        if not isinstance(found, Array | Lazy) or found.t.rank != 1 or found.t.dtype[0] == "c":
            raise Refused(f"{g.name} of this", g.line)
        v = arrays.lazy(arrays.materialised(lo, found, g.line))
        text = f"attempt to get {g.name} of an empty sequence"
        lo.b.emit(If(compare("equal", v.shape[0], ZERO), (Fail(lo.b.fault("ValueError", text, g.line)),)))
        best, at_best = lo.b.fresh("s"), lo.b.fresh("s")
        lo.b.names[best], lo.b.names[at_best] = v.t.dtype, INT
        lo.b.emit(Set(best, v.element([ZERO], False).e))
        lo.b.emit(Set(at_best, ZERO))

        def one(at: list[Expr]) -> None:
            e = lo.b.keep(v.element(at, False).e)
            old = Var(best, v.t.dtype)
            better = compare("less" if less else "greater", e, old)
            if v.t.dtype[0] == "f":  # the first NaN stays
                nan = compare("not_equal", e, e)
                better = pick(compare("not_equal", old, old), Const(BOOL, False), pick(nan, Const(BOOL, True), better))
            lo.b.emit(If(better, (Set(best, e), Set(at_best, at[0]))))

        arrays.loops(lo, v.shape, one, g.line)
        return Scalar(Num(False, INT), Var(at_best, INT))

    return act


def _dot(lo: Lower, kind: str, g: Given) -> Value:
    x, y = g.need(0, "a"), g.need(1, "b")
    g.done(2)
    if isinstance(x, Scalar) or isinstance(y, Scalar):
        return values.binary(lo, "*", x, y, g.line)
    return arrays.product(lo, x, y, g.line)


def _outer(lo: Lower, kind: str, g: Given) -> Value:
    x, y = g.need(0, "a"), g.need(1, "b")
    g.done(2)
    if not (isinstance(x, Array | Lazy) and isinstance(y, Array | Lazy) and x.t.rank == y.t.rank == 1):
        raise Refused("outer of these", g.line)
    column = arrays.view(lo, arrays.materialised(lo, x, g.line), [values.Slice(None, None, None), arrays.NEW], g.line)
    return of_ufunc(lo, "multiply" if g.name == "outer" else g.name, [column, y], g.line)


_REDUCES = {"minimum.reduce": "min", "maximum.reduce": "max"}


def _where(lo: Lower, kind: str, g: Given) -> Value:
    if len(g.args) != 3:
        raise Refused("where without values", g.line)

    def one(c: Scalar, x: Scalar, y: Scalar) -> Scalar:
        t, p, q = values.common(lo, x, y, g.line, [], [])
        return Scalar(Num(False, t.dtype), Op("where", t.dtype, (arithmetic.truth(c), p, q)))

    if any(isinstance(a, Array | Lazy) for a in g.args):
        return arrays.elementwise(lo, one, "where", g.args, g.line)  # type: ignore[arg-type]
    raise Refused("where of numbers", g.line, "Use: x if condition else y")


def _clip(lo: Lower, kind: str, g: Given) -> Value:
    x, low, high = g.need(0, "a"), g.need(1, "a_min"), g.need(2, "a_max")
    g.done(3)
    return of_ufunc(lo, "minimum", [of_ufunc(lo, "maximum", [x, low], g.line), high], g.line)


def _part(name: str) -> Any:
    def act(lo: Lower, kind: str, g: Given) -> Value:
        x = g.need(0, "val")
        g.done(1)
        if isinstance(x, Scalar):
            return calls.part(lo, x, name, g.line)
        return arrays.attribute(lo, x, name, g.line)  # type: ignore[arg-type]

    return act


def _transpose(lo: Lower, kind: str, g: Given) -> Value:
    x = g.need(0, "a")
    g.done(1)
    return arrays.attribute(lo, x, "T", g.line)  # type: ignore[arg-type]


def _norm(lo: Lower, kind: str, g: Given) -> Value:
    x = g.need(0, "x")
    g.done(1)
    if not isinstance(x, Array | Lazy) or x.t.dtype not in ("float64", "float32"):
        raise Refused("norm of this", g.line)
    total = reduced(lo, "sum", values.binary(lo, "*", x, x, g.line), None, False, g.line)
    return of_ufunc(lo, "sqrt", [total], g.line)


_FUNCTIONS: dict[str, Any] = {
    "zeros": _created(0), "ones": _created(1), "empty": _created(None), "full": _full,
    "zeros_like": _created_like(0), "ones_like": _created_like(1), "empty_like": _created_like(None),
    "copy": _copy, "array": _array, "asarray": _asarray, "ascontiguousarray": _asarray, "arange": _arange,
    "linspace": _linspace, "eye": _eye, "identity": _eye,
    "sum": _reduction("sum"), "prod": _reduction("prod"), "mean": _reduction("mean"), "any": _reduction("any"),
    "all": _reduction("all"), "min": _reduction("min"), "amin": _reduction("min"), "max": _reduction("max"),
    "amax": _reduction("max"), "argmin": _arg(True), "argmax": _arg(False), "dot": _dot, "matmul": _dot, "vdot": _dot,
    "outer": _outer, "where": _where, "clip": _clip, "real": _part("real"), "imag": _part("imag"),
    "transpose": _transpose, "linalg.norm": _norm,
}  # fmt: skip
_METHODS = frozenset("sum prod mean any all min max argmin argmax dot copy transpose clip".split())


def method(lo: Lower, base: Value, name: str, args: list[Value], options: dict[str, Value], line: int) -> Value:
    """base.name(...)"""
    if isinstance(base, Scalar):
        if name in ("conjugate", "conj") and not args:
            return base if base.t.dtype[0] != "c" else Scalar(base.t, Op("conjugate", base.t.dtype, (base.e,)))
        if name == "item" and not base.t.py:
            return Scalar(Num(True, {"f": "float64", "c": "complex128", "b": "bool"}.get(base.t.dtype[0], INT)), arithmetic.cast(base.e, {"f": "float64", "c": "complex128", "b": "bool"}.get(base.t.dtype[0], INT)))
        if name == "astype" and len(args) == 1:
            return _converted(lo, dtype_named(args[0], line), [base], line)
        raise Refused(f"the method {name} of a number", line)
    assert isinstance(base, Array | Lazy)
    kind = base.t.kind
    if name in _METHODS:
        return of_numpy(lo, name, kind, [base, *args], options, line)
    if name == "fill" and len(args) == 1 and isinstance(base, Array):
        arrays.assign(lo, base, args[0], line)
        return Static(None)
    if name == "astype" and len(args) == 1 and not options:
        dtype = dtype_named(args[0], line)
        return copied(lo, _converted(lo, dtype, [base], line), kind, line)
    if name in ("conj", "conjugate") and not args:
        return of_ufunc(lo, "conjugate", [base], line)
    if name == "item" and not args and base.t.rank == 0:
        return method(lo, values.scalar(lo, base, line), "item", [], {}, line)
    raise Refused(f"the method {name} of an array", line)


# -- builtins of sequences -------------------------------------------------------------------------------------------


def ordered(lo: Lower, found: Array | Lazy, less: bool, line: int) -> Value:
    """min(array), max(array): Python's, element by element."""
    raise Refused(f"{'min' if less else 'max'} of an array", line, f"Use np.{'min' if less else 'max'}")


def added_up(lo: Lower, found: Value, start: Value, line: int) -> Value:
    """sum(array): Python's, element by element."""
    if not isinstance(found, Array | Lazy) or found.t.rank != 1 or not isinstance(start, Scalar):
        raise Refused("sum of this", line, "Use np.sum")
    v = arrays.lazy(found)
    first = values.scalar(lo, start, line)
    t = arithmetic.binary(lo.b, "+", first, Scalar(Num(False, v.t.dtype), Var("$probe", v.t.dtype)), line).t
    acc = arrays.accumulated(
        lo, t.dtype, arithmetic.weak(lo.b, first, t.dtype, line), v.shape,
        lambda acc, at: arithmetic.binary(lo.b, "+", Scalar(t, acc), v.element(at, False), line).e, line,
    )  # fmt: skip
    return Scalar(t, acc)


def comprehended(lo: Lower, name: str, node: ast.GeneratorExp | ast.ListComp, call: ast.Call) -> Value:
    """sum, min, max, any, all of a generator: a loop."""
    line = call.lineno
    if len(node.generators) != 1 or name in ("min", "max"):
        raise Refused(f"{name} of a generator", line, "Write it as a loop")
    gen = node.generators[0]
    target = f"{name}@{line}.{node.col_offset}"
    body: list[ast.stmt]
    at = lambda n: ast.copy_location(n, node)  # noqa: E731
    result = ast.Name(target, ast.Load())
    store = ast.Name(target, ast.Store())
    if name == "sum":
        first: Any = 0
        body = [ast.AugAssign(store, ast.Add(), node.elt)]
    else:
        first = name == "all"
        test = ast.UnaryOp(ast.Not(), node.elt) if first else node.elt
        body = [ast.If(test, [ast.Assign([store], ast.Constant(not first)), ast.Break()], [])]
    for test in reversed(gen.ifs):
        body = [ast.If(test, body, [])]
    names = {n.id for n in ast.walk(gen.target) if isinstance(n, ast.Name)}
    if any(lo.is_local(n) for n in names):
        raise Refused("a generator whose name is one of the function's", line, "Give it a name of its own")
    tree = [at(ast.Assign([store], ast.Constant(first))), at(ast.For(gen.target, gen.iter, body, []))]
    for t in tree:
        ast.fix_missing_locations(t)
    kept = lo.scope.locals
    lo.scope.locals = kept | names | {target}
    try:
        lo.block(tree)
        if lo.env is None:
            from tilewise.python.lower import Dead

            raise Dead
        full = lo.scope.prefix + target
        alts = lo.env[full]
        if len(alts) > 1:
            raise calls.Several(call, f"{name}, which gives {' or '.join(map(str, alts))}", line, full)
        return values.value(lo, at(result))
    finally:
        lo.scope.locals = kept


_ = (FunctionType, LENGTH, key)
