"""Values of expressions as far as sizes need it. In: syntax trees, objects at the start of the loop. Out: `Value`.

Subscripts, attributes and numbers; calls are in estimate.py. Nothing is evaluated that a program could notice.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tilewise.array.handle import Array
from tilewise.kernel.dependence.expr import Expr, compare, constant, floor_divide, least, multiply
from tilewise.parfor.plan.operators import NOTHING, NUMBER, Shape, Value, most, new

SIGNS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}


def root_of(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array that owns the memory."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def value_of(thing: Any) -> Value:
    """An object that is there before the loop."""
    if isinstance(thing, bool | np.bool_):
        return Value(known=bool(thing), number=constant(int(thing)), scalar=True)
    if isinstance(thing, int | np.integer):
        return Value(known=thing, number=constant(int(thing)), scalar=True)
    if isinstance(thing, np.ndarray | Array):
        shape = tuple(constant(n) for n in thing.shape)
        strides = thing.strides if isinstance(thing, np.ndarray) else None
        return Value(known=thing, shape=shape, itemsize=thing.dtype.itemsize, owner=thing, strides=strides)
    if isinstance(thing, float | complex | str | bytes | np.generic | type(None)):
        return Value(known=thing, scalar=True)
    if isinstance(thing, tuple) and len(thing) <= 64:
        return Value(known=thing, items=tuple(map(value_of, thing)))
    return Value(known=thing)


def largest(values: Sequence[Any]) -> Value:
    """One of several objects: the one that takes most."""
    found = [value_of(v) for v in values[:1000]]
    arrays = [v for v in found if v.shape is not None]
    if arrays:
        return replace(max(arrays, key=lambda v: most(v.shape or ()) * v.itemsize), known=NOTHING)
    return NUMBER if found and all(v.scalar for v in found) else Value()


def operated(op: ast.operator, a: Value, b: Value) -> Value:
    """Whole numbers."""
    if a.number is None or b.number is None:
        return NUMBER
    x, y = a.number, b.number
    found: Expr | None = None
    if isinstance(op, ast.Add):
        found = x + y
    elif isinstance(op, ast.Sub):
        found = x - y
    elif isinstance(op, ast.Mult):
        found = multiply(x, y)
    elif isinstance(op, ast.FloorDiv) and y.constant and y.const > 0:
        found = floor_divide(x, y)
    return Value(number=found, scalar=True)


def compared(op: ast.cmpop, a: Value, b: Value) -> bool | None:
    """Whether a comparison holds, where that is the same in all iterations."""
    if isinstance(op, ast.Is | ast.IsNot) and a.known is not NOTHING and b.known is not NOTHING:
        return (a.known is b.known) == isinstance(op, ast.Is)
    if a.number is not None and b.number is not None and type(op) in SIGNS:
        found = compare(SIGNS[type(op)], a.number, b.number)
        return bool(found.const) if found.constant else None
    if isinstance(op, ast.Eq | ast.NotEq) and isinstance(a.known, str) and isinstance(b.known, str):
        return (a.known == b.known) == isinstance(op, ast.Eq)
    return None


def length(n: Expr, start: Value | None, stop: Value | None, step: Value | None) -> Expr:
    """The length of a slice of an axis, at most."""

    def place(v: Value | None, default: Expr) -> Expr | None:
        if v is None or v.known is None:
            return default
        if v.number is None:
            return None
        return v.number + n if v.number.hi < 0 else v.number

    by = 1 if step is None or step.known is None else step.number.const if step.number and step.number.constant else 0
    a, b = place(start, constant(0)), place(stop, n)
    if a is None or b is None or by == 0 or (start is not None and a.lo < 0):
        return n
    if by < 0:
        return n
    out = least(b, n) - a if b.hi > n.lo else b - a
    if (b - a).hi < out.hi:  # the same index in both ends cancels, which a minimum hides
        out = b - a
    out = least(out, n) if out.hi > n.hi else out
    return floor_divide(out + (by - 1), constant(by)) if by > 1 else out


def subscripted(base: Value, parts: Sequence[ast.expr], values: Sequence[Value | tuple[Value | None, ...]]) -> Value:
    """`base[parts]`; slices are given as three values."""
    if base.items is not None and len(values) == 1:
        at = values[0]
        if isinstance(at, Value) and at.number is not None and at.number.constant:
            k = at.number.const
            if -len(base.items) <= k < len(base.items):
                return base.items[k]
        return max(base.items, key=lambda v: most(v.shape or ()), default=Value())
    if base.shape is None:
        return _element(base)
    shape: list[Expr] = []
    rest = list(base.shape)
    along = list(base.strides) if base.strides is not None and len(base.strides) == len(rest) else [8] * len(rest)
    strides: list[int] = []
    used = sum(not (isinstance(v, Value) and (v.known is None or v.known is Ellipsis)) for v in values)
    picked: list[Shape] = []
    for v in values:
        if isinstance(v, tuple):
            if rest:
                shape.append(length(rest.pop(0), *v))
                strides.append(along.pop(0) * _step(v[2]))
        elif v.known is None:
            shape.append(constant(1))
            strides.append(0)
        elif v.known is Ellipsis:
            for _ in range(len(rest) - used):
                shape.append(rest.pop(0))
                strides.append(along.pop(0))
            continue
        elif v.shape is not None:
            gone = max(1, len(v.shape)) if v.itemsize == 1 else 1
            sizes = rest[:gone]
            del rest[:gone], along[:gone]
            picked.append((sizes[0],) if v.itemsize == 1 and gone == 1 and sizes else v.shape)
        elif v.scalar or v.number is not None:
            del rest[:1], along[:1]
        elif rest:
            picked.append((rest.pop(0),))  # something that selects
            del along[:1]
        used -= 1
    if picked:
        return new((*max(picked, key=most), *shape, *rest), base.itemsize)
    out = (*shape, *rest)
    if not out:
        return NUMBER
    places = (*strides, *along) if base.strides is not None else None
    return replace(base, known=NOTHING, shape=out, bytes=0, strides=places)


def _step(value: Value | None) -> int:
    return abs(value.number.const) or 1 if value is not None and value.number is not None else 1


def _element(base: Value) -> Value:
    """Some element of a container."""
    known = base.known
    if isinstance(known, list | tuple):
        return largest(known)
    if isinstance(known, dict):
        return largest(list(known.values()))
    if isinstance(known, str | range):
        return NUMBER
    return Value(memory=base.memory)


def attribute(base: Value, name: str) -> Value:
    """`base.name`."""
    if base.shape is not None:
        if name == "T":
            strides = base.strides[::-1] if base.strides is not None else None
            return replace(base, known=NOTHING, shape=base.shape[::-1], bytes=0, strides=strides)
        if name == "shape":
            return Value(items=tuple(Value(number=n, scalar=True) for n in base.shape))
        if name == "size":
            total = constant(1)
            for n in base.shape:
                total = multiply(total, n)
            return Value(number=total, scalar=True)
        if name == "ndim":
            return value_of(len(base.shape))
        if name in ("dtype", "flags", "nbytes", "itemsize"):
            return NUMBER
        return Value(function=(base, name))
    if isinstance(base.known, types.ModuleType | type):
        return value_of(getattr(base.known, name, None))
    if base.known is not NOTHING:
        found = getattr(base.known, "__dict__", {}).get(name, NOTHING)
        if found is not NOTHING:
            return value_of(found)
        method = getattr(type(base.known), name, None)
        return Value(function=(base, name), known=method if isinstance(method, types.FunctionType) else NOTHING)
    return Value(function=(base, name))
