"""Constants. In: a NumPy scalar. Out: a node that carries it."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from tilewise.ir.node import Node, Op, intern

# Kept in the plan's key, because the compiler simplifies with them; every other scalar is an argument of the kernel.
_SHARP = frozenset((0, 1, -1, 2, 1.5, -1.5))  # the last two as exponents: a root in the place of a logarithm
_SMALL = frozenset(range(-1, 11))  # integers: products with them are shifts and additions, and quotients products


class Const(Op):
    """A scalar constant, equal by dtype and bits (so -0.0 is not 0.0, and NaN is itself)."""

    __slots__ = ("_hash", "_part", "bits", "signature", "value")
    name = "const"
    signature: Any

    def __init__(self, value: np.generic) -> None:
        self.value = value
        self.bits = (value.dtype, value.tobytes())
        self._hash = hash(self.bits)
        known = _SMALL if value.dtype.kind in "iu" else _SHARP
        sharp = value.dtype.kind in "fiub" and value in known and not (value == 0 and np.signbit(float(value)))
        self.signature = ("const", self.bits) if sharp else _blunt(value.dtype)

    @property
    def part(self) -> tuple[Any, bool]:
        """What of it belongs to the key of a plan."""
        try:
            return self._part
        except AttributeError:
            self._part: tuple[Any, bool] = (self.signature, self.scales)
            return self._part

    @property
    def scales(self) -> bool:
        """Whether each part of a sum may be multiplied by it, or divided: a finite number other than zero."""
        return bool(self.value.dtype.kind == "f" and np.isfinite(self.value) and self.value != 0)

    @property
    def sharp(self) -> bool:
        """Whether the compiler knows the value."""
        return self.signature[1] is self.bits

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (type(other) is Const and self.bits == other.bits)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Const, (self.value,))

    def numpy(self, *arrays: Any) -> Any:
        return self.value

    def label(self) -> str:
        return str(self.value)


@cache
def _blunt(dtype: np.dtype[Any]) -> tuple[str, np.dtype[Any]]:
    """One object for all constants of a dtype: keys that have it compare at once."""
    return ("const", dtype)


def const(value: np.generic) -> Node:
    """A constant node."""
    return intern(Const(value), (), (), value.dtype)


numbers: dict[tuple[Any, np.dtype[Any]], Node] = {}  # of Python, as dtypes: those met of late
MAX_NUMBERS = 256


def number(value: complex, dtype: np.dtype[Any]) -> Node:
    """The constant of one of Python's numbers as a dtype: programs have the same ones again and again.

    Raises OverflowError.
    """
    found = numbers.get((value, dtype))
    if found is None:
        found = const(dtype.type(value))
        if value.real and value.imag if dtype.kind == "c" else value:  # 0.0 and -0.0 are equal keys
            if len(numbers) >= MAX_NUMBERS:
                numbers.clear()
            numbers[value, dtype] = found
    return found
