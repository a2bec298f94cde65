"""Calls of library functions and methods of arrays. In: names, operands. Out: `Work`, or a value at no cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewise.kernel.dependence.expr import Expr, constant, greatest, least
from tilewise.parfor.plan import operators as ops
from tilewise.parfor.plan.operators import NOTHING, NUMBER, Shape, Value, Work
from tilewise.parfor.plan.values import value_of

COUNTING_LOCKED = 0.4  # of the time of np.bincount: two threads run 1.55 times as fast as one
COUNTING_SAVED = 0.75  # of the same by machine code, which goes through the keys once


def call_work(target: Value, text: str, args: Sequence[Value], named: dict[str, Value]) -> Work | Value:
    """The work of calling something that cannot be followed."""
    name = text.rsplit(".", 1)[-1]
    if target.function is not None and isinstance(target.function, tuple):
        base, name = target.function
        if base.shape is not None:
            return _array_function(name, [base, *args], named)
        if isinstance(base.known, np.random.Generator) or name in ops.RANDOM:
            return _random(args, named)
        return Value(memory=base.memory)
    known = target.known
    module = str(getattr(known, "__module__", "") or "")
    if isinstance(known, np.ufunc) or module.startswith(("numpy", "scipy", "tilewise")):
        return _array_function(str(getattr(known, "__name__", name)), list(args), named)
    return _builtin(name, args)


def _builtin(name: str, args: Sequence[Value]) -> Work | Value:
    first = args[0] if args else NUMBER
    if name == "len":
        if first.shape:
            return Value(number=first.shape[0], scalar=True)
        return value_of(len(first.known)) if hasattr(first.known, "__len__") else NUMBER
    if name in ("min", "max") and len(args) > 1 and all(a.number is not None for a in args):
        total: Expr | None = None
        for a in args:
            assert a.number is not None
            total = a.number if total is None else (least if name == "min" else greatest)(total, a.number)
        return Value(number=total, scalar=True)
    if name == "int" and first.number is not None:
        return first
    if name in ("list", "tuple", "sorted", "dict", "set", "zip", "enumerate", "range", "reversed"):
        return Value(memory=frozenset().union(*(a.memory for a in args)), items=first.items)
    if name in ("sum", "abs", "float", "int", "bool", "min", "max", "round", "str", "isinstance", "repr", "any", "all"):
        if first.shape:
            return Work(NUMBER, "python", ops.middle(first.shape), name)
        return NUMBER
    return ops.unknown(name, args)


def _axis(args: Sequence[Value], named: dict[str, Value]) -> Any:
    given = named.get("axis", args[1] if len(args) > 1 else None)
    if given is None or given.known is None:
        return None
    return given.known if given.known is not NOTHING else "some"


def _shape(value: Value) -> Shape | None:
    if value.number is not None:
        return (value.number,)
    if value.items is not None and all(v.number is not None for v in value.items):
        return tuple(v.number for v in value.items if v.number is not None)
    return None


def _array_function(name: str, args: list[Value], named: dict[str, Value]) -> Work | Value:
    arrays = [a for a in args if a.shape is not None]
    inner = [i for a in args if a.items is not None for i in a.items if i.shape is not None]
    if name in ops.NEW and args:
        shape = _shape(args[0])
        return Work(ops.new(shape), "copy", ops.middle(shape), name) if shape is not None else Value()
    if name in ("arange", "linspace", "eye", "identity"):
        last = args[min(1 if name == "arange" else 2, len(args) - 1)].number if args else None
        side = last if last is not None else constant(1)
        return Work(ops.new((side, side) if name in ("eye", "identity") else (side,)), "copy", float(side.hi), name)
    if name in ops.RANDOM and not arrays:
        return _random(args, named)
    if name in ops.JOINS:
        parts = inner or arrays
        total = sum(ops.most(v.shape) * v.itemsize for v in parts if v.shape is not None)
        count = constant(sum(ops.most(v.shape) for v in parts if v.shape is not None))
        return Work(Value(shape=(count,), bytes=total), "copy", float(count.hi), ops.text_of(name, parts))
    if not arrays:
        return NUMBER if all(a.scalar for a in args) else ops.unknown(name, args)
    first = arrays[0]
    assert first.shape is not None
    if name in ops.VIEWS:
        return _view(name, args, first)
    if name in ops.REDUCTIONS:
        keep = named.get("keepdims")
        return ops.reduction(name, first, _axis(args, named), keep is not None and keep.known is True)
    if name in ops.PRODUCTS and len(arrays) > 1:
        return ops.product(arrays[0], arrays[1])
    if name in ("outer", "kron") and len(arrays) > 1 and arrays[1].shape:
        shape = (*first.shape, *arrays[1].shape)
        return Work(ops.new(shape), "map", ops.middle(shape), ops.text_of(name, arrays))
    if name in ops.FACTORS:
        return ops.factor(name, arrays)
    if name in ops.FUNCTIONS or name in ops.MAPS:
        work = ops.elementwise(name, arrays)
        if "out" in named:
            return Work(named["out"], work.kind, work.amount, work.text)
        return work
    if name in ops.SORTS or name in ops.SCANS:
        size = ops.middle(first.shape)
        amount = size if name in ops.SCANS else size * float(np.log2(max(size, 2)))
        kind = "map" if name in ops.SCANS else "sort"
        copies = ops.most(first.shape) * 16
        return Work(ops.new(first.shape, 8), kind, amount, ops.text_of(name, arrays), copies)
    if name in ops.LIKE or name in ("astype", "flatten"):
        return Work(ops.new(first.shape, first.itemsize), "copy", ops.middle(first.shape), ops.text_of(name, arrays))
    if name in ("bincount", "histogram"):
        made, size, text = ops.new(first.shape), ops.middle(first.shape), ops.text_of(name, arrays)
        if name == "histogram":
            return Work(made, "function", size, text)
        return Work(made, "function", size, text, locked=COUNTING_LOCKED, saved=COUNTING_SAVED)
    if name in ("item", "tolist", "any", "all", "fill"):
        return Work(NUMBER, "map", ops.middle(first.shape), ops.text_of(name, arrays))
    return ops.unknown(name, arrays)


def _view(name: str, args: Sequence[Value], first: Value) -> Value:
    """A view; a copy of the same size at worst, which is counted where it is of memory from outside."""
    assert first.shape is not None
    shape: Shape | None = first.shape[::-1] if name == "transpose" else None
    if name == "reshape" and len(args) > 1:
        given = _shape(args[1]) if len(args) == 2 else tuple(a.number for a in args[1:] if a.number is not None)
        if given is not None and all(n.lo >= 0 for n in given):
            shape = given
    if shape is None:
        shape = (constant(ops.most(first.shape)),)
    return Value(shape=shape, itemsize=first.itemsize, owner=first.owner, memory=first.memory)


def _random(args: Sequence[Value], named: dict[str, Value]) -> Work | Value:
    given = named.get("size", args[-1] if args else None)
    shape = _shape(given) if given is not None else None
    if shape is None:
        return Work(NUMBER, "call", 0, "random")
    return Work(ops.new(shape), "random", ops.middle(shape), "random")
