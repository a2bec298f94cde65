"""Reductions. In: an array, perhaps an axis. Out: a number or an array, by loops."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise.kernel.program.ir import BOOL, INT, Const, Expr, Fail, If, Op, Set, Var
from tilewise.python.build import ONE, ZERO, Array, Lazy, Scalar, Tuple, Value, compare, mul, pick
from tilewise.python.refuse import Refused
from tilewise.python.types import Arr, Num

if TYPE_CHECKING:
    from tilewise.python.statements import Statements
from tilewise.python import arithmetic
from tilewise.python.arrays import attributes, elementwise, functions


def reduced(lo: Statements, name: str, found: Value, axis: Value | None, keep: bool, line: int) -> Value:
    """sum, prod, min, max, mean, any, all: of all elements, or along an axis."""
    if isinstance(found, Tuple):
        found = attributes.from_tuple(lo, found, None, line)
    if isinstance(found, Scalar):
        return found
    if not isinstance(found, Array | Lazy):
        raise Refused(f"{name} of something that is no array", line)
    v = elementwise.lazy(found)
    axes = _axes(name, axis, v.t.rank, line)
    inner = tuple(v.shape[k] for k in axes)
    if name in ("min", "max"):
        for n in inner:
            text = f"zero-size array to reduction operation {name}imum which has no identity"
            lo.b.emit(If(compare("equal", n, ZERO), (Fail(lo.b.fault("ValueError", text, line)),)))
    if isinstance(found, Lazy) and (found.equal or len(axes) < v.t.rank):
        v = elementwise.lazy(elementwise.materialised(lo, found, line))
    if len(axes) == v.t.rank and not keep:
        return _accumulate(lo, name, v, inner, list, line)
    with lo.b.inside():
        t = _accumulate(lo, name, v, inner, lambda at: [ZERO] * v.t.rank, line).t
    shape = tuple(ONE if k in axes else n for k, n in enumerate(v.shape) if k not in axes or keep)

    def one(at: Sequence[Expr], _: bool) -> Scalar:
        outer = [i for k, i in enumerate(at) if not (keep and k in axes)]

        def place(inside: list[Expr]) -> list[Expr]:
            others, reduced_ = iter(outer), iter(inside)
            return [next(reduced_ if k in axes else others) for k in range(v.t.rank)]

        return _accumulate(lo, name, v, inner, place, line)

    return elementwise.materialised(lo, Lazy(Arr(t.dtype, len(shape), v.t.kind), shape, one, v.reads), line)


def _axes(name: str, axis: Value | None, rank: int, line: int) -> tuple[int, ...]:
    """The axes that a reduction goes along, in order."""
    if axis is None:
        return tuple(range(rank))
    found = []
    for a in axis.items if isinstance(axis, Tuple) else (axis,):
        if not isinstance(a, Scalar) or not isinstance(a.e, Const):
            raise Refused(f"{name} along axes not known before", line)
        found.append(a.e.value + (rank if a.e.value < 0 else 0))
    if len(set(found)) < len(found) or any(not 0 <= k < rank for k in found):
        raise Refused(f"{name} along an axis that there is not", line)
    return tuple(sorted(found))


def _accumulate(
    lo: Statements, name: str, v: Lazy, inner: Sequence[Expr], place: Callable[[list[Expr]], list[Expr]], line: int
) -> Scalar:
    dtype = v.t.dtype
    if name in ("any", "all"):
        whole = name == "all"
        op = "logical_and" if whole else "logical_or"

        def truth(acc: Var, at: list[Expr]) -> Expr:
            return Op(op, BOOL, (acc, arithmetic.truth(v.element(place(at), False))))

        return Scalar(Num(False, BOOL), elementwise.accumulated(lo, BOOL, Const(BOOL, whole), inner, truth, line))
    if name in ("min", "max"):
        if dtype == "bool" or dtype[0] == "c":
            raise Refused(f"{name} of {dtype}", line)
        fn = f"{name}imum"
        first: Any = (
            (math.inf if name == "min" else -math.inf)
            if dtype[0] == "f"
            else int(np.iinfo(dtype).max if name == "min" else np.iinfo(dtype).min)
        )
        step = lambda acc, at: Op(fn, dtype, (acc, v.element(place(at), False).e))  # noqa: E731
        return Scalar(Num(False, dtype), elementwise.accumulated(lo, dtype, Const(dtype, first), inner, step, line))
    out = dtype if dtype[0] in "fc" else "uint64" if dtype[0] == "u" else INT
    if name == "mean" and out[0] in "iu":
        out = "float64"
    fn, unit = ("multiply", 1) if name == "prod" else ("add", 0)
    make = lambda acc, at: Op(fn, out, (acc, arithmetic.cast(v.element(place(at), False).e, out)), loose=True)  # noqa: E731
    total = elementwise.accumulated(lo, out, functions.number(out, unit), inner, make, line)
    if name != "mean":
        return Scalar(Num(False, out), total)
    count: Expr = ONE
    for n in inner:
        count = mul(count, n)
    return Scalar(Num(False, out), Op("divide", out, (total, arithmetic.cast(arithmetic.cast(count, "float64"), out))))


def reduction(name: str) -> Any:
    def act(lo: Statements, kind: str, g: functions.Given) -> Value:
        found, axis = g.need(0, "a"), g.take(1, "axis")
        keep = g.options.pop("keepdims", None)
        g.done(2)
        kept = isinstance(keep, Scalar) and isinstance(keep.e, Const) and bool(keep.e.value)
        return reduced(lo, name, found, axis, kept, g.line)

    return act


def arg(less: bool) -> Any:
    def act(lo: Statements, kind: str, g: functions.Given) -> Value:
        found = g.need(0, "a")
        g.done(1)
        if not isinstance(found, Array | Lazy) or found.t.rank != 1 or found.t.dtype[0] == "c":
            raise Refused(f"{g.name} of this", g.line)
        v = elementwise.lazy(elementwise.materialised(lo, found, g.line))
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

        elementwise.loops(lo, v.shape, one, g.line)
        return Scalar(Num(False, INT), Var(at_best, INT))

    return act
