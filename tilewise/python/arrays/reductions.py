"""Reductions. In: an array, perhaps axes. Out: a number or an array, by loops."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise.kernel.program.ir import BOOL, INT, Const, Expr, Fail, If, Load, Op, Set, Store, Var
from tilewise.python.build import ONE, ZERO, Array, Lazy, Scalar, Tuple, Value, compare, mul, pick
from tilewise.python.refuse import Refused
from tilewise.python.types import Arr, Num

if TYPE_CHECKING:
    from tilewise.python.statements import Statements
from tilewise.python import values
from tilewise.python.arrays import assign, attributes, elementwise, functions
from tilewise.python.scalars import arithmetic


@dataclass(frozen=True)
class Rule:
    """How numbers are joined: the first one, a step, and what is made of the last."""

    dtype: str
    first: Expr
    step: Callable[[Expr, Scalar], Expr]
    count: bool = False  # the last is divided by how many there were


def reduced(lo: Statements, name: str, found: Value, axis: Value | None, keep: bool, line: int) -> Value:
    """sum, prod, min, max, mean, any, all: of all elements, or along axes."""
    if isinstance(found, Tuple):
        found = attributes.from_tuple(lo, found, None, line)
    if isinstance(found, Scalar):
        return found
    if not isinstance(found, Array | Lazy):
        raise Refused(f"{name} of something that is no array", line)
    v = elementwise.lazy(found)
    axes = axes_of(name, axis, v.t.rank, line)
    for k in axes if name in ("min", "max") else ():
        text = f"zero-size array to reduction operation {name}imum which has no identity"
        lo.b.emit(If(compare("equal", v.shape[k], ZERO), (Fail(lo.b.fault("ValueError", text, line)),)))
    rule = _rule(name, v.t.dtype, line)
    count: Expr = ONE
    for k in axes:
        count = mul(count, v.shape[k])
    if len(axes) == v.t.rank and not keep:
        return _to_number(lo, v, rule, count, line)
    return _to_array(lo, v, rule, axes, keep, count, line)


def axes_of(name: str, axis: Value | None, rank: int, line: int) -> tuple[int, ...]:
    """The axes that an argument names: all, if there is none."""
    if axis is None:
        return tuple(range(rank))
    found = []
    for a in axis.items if isinstance(axis, Tuple) else (axis,):
        if not isinstance(a, Scalar) or not isinstance(a.e, Const):
            raise Refused(f"{name} along an axis that is not known before", line)
        which = a.e.value + (rank if a.e.value < 0 else 0)
        if not 0 <= which < rank or which in found:
            raise Refused(f"{name} along an axis that there is not, or twice", line)
        found.append(which)
    return tuple(sorted(found))


def _last(rule: Rule, acc: Expr, count: Expr) -> Expr:
    if not rule.count:
        return acc
    return Op("divide", rule.dtype, (acc, arithmetic.cast(arithmetic.cast(count, "float64"), rule.dtype)))


def _to_number(lo: Statements, v: Lazy, rule: Rule, count: Expr, line: int) -> Scalar:
    name = lo.b.fresh("s")
    lo.b.names[name] = rule.dtype
    acc = Var(name, rule.dtype)

    def run(exact: bool) -> None:
        lo.b.emit(Set(name, rule.first))
        elementwise.loops(
            lo, v.shape, lambda at: lo.b.emit(Set(name, rule.step(acc, v.element(list(at), exact)))), line
        )

    elementwise.either(lo, v.equal, run)
    return Scalar(Num(False, rule.dtype), _last(rule, acc, count))


def _to_array(lo: Statements, v: Lazy, rule: Rule, axes: tuple[int, ...], keep: bool, count: Expr, line: int) -> Array:
    """Rows that are left whole are added up one after the other; others by themselves."""
    kept = [k for k in range(v.t.rank) if k not in axes]
    shape = [ONE if k in axes else v.shape[k] for k in range(v.t.rank) if keep or k not in axes]
    made = elementwise.allocated(lo, Arr(rule.dtype, len(shape), v.t.kind), shape, False, line, v.reads)
    faults = (-1,) * len(shape)

    def place(at: Sequence[Expr]) -> tuple[Expr, ...]:
        return tuple(ZERO if k in axes else at[k] for k in range(v.t.rank) if keep or k not in axes)

    def whole(at: dict[int, Expr]) -> list[Expr]:
        return [at.get(k, ZERO) for k in range(v.t.rank)]

    def by_rows(exact: bool) -> None:
        def one(at: list[Expr]) -> None:
            old = Load(made.name, rule.dtype, place(at), faults)
            lo.b.emit(Store(made.name, place(at), rule.step(old, v.element(list(at), exact)), faults))

        elementwise.loops(lo, v.shape, one, line)

    def by_element(exact: bool) -> None:
        def one(outer: list[Expr]) -> None:
            at = dict(zip(kept, list(outer), strict=True))
            step = lambda acc, inner: rule.step(  # noqa: E731
                acc, v.element(whole(at | dict(zip(axes, inner, strict=True))), exact)
            )
            acc = elementwise.accumulated(lo, rule.dtype, rule.first, [v.shape[k] for k in axes], step, line)
            lo.b.emit(Store(made.name, place(whole(at)), _last(rule, acc, count), faults))

        elementwise.loops(lo, [v.shape[k] for k in kept], one, line, independent=True)

    if kept and kept[-1] == v.t.rank - 1:
        assign.assign(lo, made, Scalar(Num(False, rule.dtype), rule.first), line)
        elementwise.either(lo, v.equal, by_rows)
        if rule.count:
            divided = lambda at, _: Scalar(  # noqa: E731
                Num(False, rule.dtype), _last(rule, Load(made.name, rule.dtype, tuple(at), faults), count)
            )
            total = elementwise.lazy(made)
            assign.assign(lo, made, Lazy(made.t, total.shape, divided, total.reads, total.aligned), line)
    else:
        elementwise.either(lo, v.equal, by_element)
    return made


def _rule(name: str, dtype: str, line: int) -> Rule:
    if name in ("any", "all"):
        op = "logical_and" if name == "all" else "logical_or"
        return Rule(BOOL, Const(BOOL, name == "all"), lambda acc, x: Op(op, BOOL, (acc, arithmetic.truth(x))))
    if name in ("min", "max"):
        if dtype == "bool" or dtype[0] == "c":
            raise Refused(f"{name} of {dtype}", line)
        fn = f"{name}imum"
        first: Any = (
            (math.inf if name == "min" else -math.inf)
            if dtype[0] == "f"
            else int(np.iinfo(dtype).max if name == "min" else np.iinfo(dtype).min)
        )
        return Rule(dtype, Const(dtype, first), lambda acc, x: Op(fn, dtype, (acc, x.e)))
    out = dtype if dtype[0] in "fc" else "uint64" if dtype[0] == "u" else INT
    if name == "mean" and out[0] in "iu":
        out = "float64"
    fn, unit = ("multiply", 1) if name == "prod" else ("add", 0)
    step = lambda acc, x: Op(fn, out, (acc, arithmetic.cast(x.e, out)), loose=True)  # noqa: E731
    return Rule(out, functions.number(out, unit), step, name == "mean")


def spread(root: bool) -> Any:
    """var, and std: its square root."""

    def act(lo: Statements, kind: str, g: functions.Given) -> Value:
        found, axis = g.need(0, "a"), g.take(1, "axis")
        keep = g.options.pop("keepdims", None)
        g.done(2)
        if not isinstance(found, Array | Lazy) or found.t.dtype[0] == "c":
            raise Refused(f"{g.name} of this", g.line)
        kept = isinstance(keep, Scalar) and isinstance(keep.e, Const) and bool(keep.e.value)
        middle = reduced(lo, "mean", found, axis, axis is not None, g.line)
        apart = values.binary(lo, "-", found, middle, g.line)
        made = reduced(lo, "mean", values.binary(lo, "*", apart, apart, g.line), axis, kept, g.line)
        return functions.of_ufunc(lo, "sqrt", [made], g.line) if root else made

    return act


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
