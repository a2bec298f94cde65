"""Floats as parameters of a trace. In: arithmetic of a float argument with numbers and Arrays. Out: its steps.

Where a `Number` meets an Array, a leaf of the graph stands for it; `Floats` says which step gives the leaf its value.
Whatever looks at the value raises `Untraceable`: the trace is then made for that value only.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewise.api.functions.purity import Untraceable
from tilewise.api.functions.trace.scalar_tracer import user_line
from tilewise.array import record as rec
from tilewise.array.arithmetic import BINARY, CannotRecord, loop_of
from tilewise.array.handle import Array
from tilewise.ir.node import Node, known_leaf
from tilewise.ops.elementwise import UnknownLength, apply


class At(int):
    """Which value is meant: the given floats, then one for each step."""


class Floats:
    """What a function does with its floats, one step after the other, also what nothing uses: it may raise."""

    def __init__(self, given: int) -> None:
        self._made = given
        self._steps: list[tuple[Any, tuple[Any, ...]]] = []  # an operator, and numbers or places
        self.used: dict[Node, At] = {}  # leaves of the graph

    def __bool__(self) -> bool:
        return bool(self._steps or self.used)

    def step(self, f: Any, *parts: Any) -> Number:
        """One more value."""
        self._steps.append((f, parts))
        self._made += 1
        return Number(At(self._made - 1), self)

    def values(self, floats: Sequence[float]) -> dict[Node, Any]:
        """What the leaves stand for, given the arguments. Raises Untraceable where the function is to raise itself."""
        made = list(floats)
        try:
            for f, parts in self._steps:
                made.append(f(*[made[p] if type(p) is At else p for p in parts]))
        except (ArithmeticError, TypeError) as error:  # the latter of complex numbers
            raise Untraceable(f"a float that raises {type(error).__name__}") from None
        if any(type(v) is complex for v in made):
            raise Untraceable("a float that becomes complex")
        return {leaf: made[at] for leaf, at in self.used.items()}


class Absent:
    """The value of a leaf that stands for a float."""

    shape = ()

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype


class Number:
    """A float argument whose value is not known."""

    __array_ufunc__ = None
    __class__ = property(lambda self: float)  # isinstance() finds what the function is given
    __slots__ = ("at", "floats")

    def __init__(self, at: At, floats: Floats) -> None:
        self.at, self.floats = at, floats

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
        self.floats.used[leaf] = self.at
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
        right = other.at if t is Number else other
        return self.floats.step(plain, *((right, self.at) if swapped else (self.at, right)))

    return method


def _unary(name: str) -> Any:
    plain = getattr(operator, f"__{name}__")

    def method(self: Number) -> Number:
        return self.floats.step(plain, self.at)

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
