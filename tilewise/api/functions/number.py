"""Floats as parameters of a trace. In: arithmetic of a float argument with numbers and Arrays. Out: formulas.

Where a `Number` meets an Array, a leaf of the graph stands for it; `used` says which formula gives the leaf its value.
Whatever looks at the value raises `Untraceable`: the trace is then made for that value only.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewise.api.functions.reach import Untraceable
from tilewise.api.functions.tracer import user_line
from tilewise.array import record as rec
from tilewise.array.arithmetic import BINARY, CannotRecord, loop_of
from tilewise.array.handle import Array
from tilewise.ir.node import Node, known_leaf
from tilewise.ops.elementwise import UnknownLength, apply

Formula = tuple[Any, ...]  # ("given", which) or (operator, Formula | number, ...)


def evaluate(formula: Any, floats: Sequence[float]) -> Any:
    """The value of a formula."""
    if not isinstance(formula, tuple):
        return formula
    if formula[0] == "given":
        return floats[formula[1]]
    return formula[0](*[evaluate(part, floats) for part in formula[1:]])


class Absent:
    """The value of a leaf that stands for a float."""

    shape = ()

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype


class Number:
    """A float argument whose value is not known."""

    __array_ufunc__ = None
    __slots__ = ("formula", "used")

    def __init__(self, formula: Formula, used: dict[Node, Formula]) -> None:
        self.formula, self.used = formula, used

    def with_array(self, ufunc: np.ufunc, x: Array, swapped: bool) -> Any:
        """A ufunc of an Array and this number."""
        if ufunc is np.power:
            raise self.refuse("a power")
        kinds = (float, x.dtype) if swapped else (x.dtype, float)
        try:
            loop = loop_of(ufunc, kinds)
            leaf = known_leaf(Absent(loop[0 if swapped else 1]), None)
            node = rec.as_node(x)
            made = apply(ufunc.__name__, (leaf, node) if swapped else (node, leaf), loop)
        except (CannotRecord, UnknownLength):
            raise self.refuse("this operator") from None
        self.used[leaf] = self.formula
        return rec.record(made, not made.shape)

    def refuse(self, construct: str) -> Untraceable:
        return Untraceable(f"{construct} of a float argument", user_line())


def _binary(name: str, swapped: bool) -> Any:
    plain = getattr(operator, f"__{name}__")

    def method(self: Number, other: Any) -> Any:
        t = type(other)
        if t is Array:
            return self.with_array(BINARY[name], other, not swapped)
        if t is not Number and t is not float and t is not int:
            return NotImplemented
        right = other.formula if t is Number else other
        parts = (right, self.formula) if swapped else (self.formula, right)
        return Number((plain, *parts), self.used)

    return method


def _unary(name: str) -> Any:
    plain = getattr(operator, f"__{name}__")

    def method(self: Number) -> Number:
        return Number((plain, self.formula), self.used)

    return method


def _refuses(name: str) -> Any:
    def method(self: Number, *args: Any) -> Any:
        raise self.refuse(f"{name}()")

    return method


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    setattr(Number, f"__{_name}__", _binary(_name, False))
    setattr(Number, f"__r{_name}__", _binary(_name, True))
for _name in ("neg", "pos", "abs"):
    setattr(Number, f"__{_name}__", _unary(_name))
for _name in (
    "bool int float complex index hash round floor ceil trunc str repr format array eq ne lt le gt ge iter len".split()
):
    setattr(Number, f"__{_name}__", _refuses(_name))
