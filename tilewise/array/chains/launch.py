"""Running an expression. In: its text, arrays and numbers, where the result goes. Out: the result, with NumPy's bits.

As one native loop where there is code for it, by NumPy one operator after the other elsewhere and until then. Both give
the same bits, and the same warnings: a loop that met a division by zero, say, is done again by NumPy, which tells.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from tilewise.array.cell import ND, address
from tilewise.array.chains.consumer import Place
from tilewise.array.interop.float_warnings import SPEAKER
from tilewise.backend import NATIVE, named
from tilewise.backend.chains import BROADCAST, CONTIGUOUS, DATA, MOST_OUTER, STRIDED, Code, Expression

UFUNCS: dict[str, np.ufunc] = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}
ONE: dict[str, np.ufunc] = {"m": np.negative, "q": np.square}
AGAIN = 4  # runs of a loop before code is made for it
MOST_LAUNCHES = 4096
MOST_CODES = 512
MOST_TOLD = 3  # runs of a loop that NumPy had to do again, for its warnings


class Loop:
    """The code of an expression, once there is some."""

    __slots__ = ("_asked", "_code", "_expression", "_runs", "told")

    def __init__(self, expression: Expression) -> None:
        self._expression = expression
        self._code: Code | None = None
        self._asked = False
        self._runs = 0
        self.told = 0  # runs that met a division by zero or the like

    def ready(self) -> Code | None:
        """The code to run, if there is some by now."""
        if self._code is None and not self._asked:
            self._runs += 1
            if self._runs >= AGAIN:
                self._asked = True
                named(NATIVE).chain(self._expression, self._arrived)
        return self._code if self.told < MOST_TOLD else None

    def _arrived(self, code: Code) -> None:
        self._code = code


class Launch:
    """A loop and its sizes."""

    __slots__ = ("form", "loop", "sizes")

    def __init__(self, loop: Loop, form: str, sizes: bytes) -> None:
        self.loop, self.form, self.sizes = loop, form, sizes

    def run(self, code: Code, out: ND, arrays: list[ND], numbers: list[Any]) -> bool:
        """Whether it went without anything to tell."""
        if code(struct.pack(self.form, id(out), *map(id, arrays), *numbers), self.sizes):
            self.loop.told += 1
            return False
        return True


_launches: dict[Any, Launch | None] = {}
_loops: dict[Expression, Loop] = {}


def computed(
    text: str, dtype: np.dtype[Any], shape: tuple[int, ...], arrays: list[ND], numbers: list[Any], places: list[Place]
) -> ND:
    """The result in new memory; the arrays' axes lie from the slowest to the fastest, and so do the result's."""
    key = (text, dtype, shape, *[(a.shape, a.strides) for a in arrays])
    if key not in _launches:
        _keep(key, _prepared(text, np.empty(shape, dtype), arrays))
    launch = _launches[key]
    code = None if launch is None else launch.loop.ready()
    if launch is not None and code is not None:
        out: ND = np.empty(shape, dtype)
        if launch.run(code, out, arrays, numbers):
            return out
    return by_numpy(text, arrays, numbers, places)


def written(text: str, out: ND, arrays: list[ND], numbers: list[Any]) -> bool:
    """Whether the result is in an array now that overlaps with none of the others. (If not, it may hold anything.)"""
    key = (text, out.dtype, out.shape, out.strides, *[(a.shape, a.strides) for a in arrays])
    if key not in _launches:
        _keep(key, _prepared(text, out, arrays))
    launch = _launches[key]
    code = None if launch is None else launch.loop.ready()
    return launch is not None and code is not None and launch.run(code, out, arrays, numbers)


def _keep(key: Any, launch: Launch | None) -> None:
    if len(_launches) >= MOST_LAUNCHES:
        _launches.clear()
    _launches[key] = launch


def _prepared(text: str, out: ND, arrays: list[ND]) -> Launch | None:
    """The loop and sizes for arrays that lie so; None if there can be none."""
    if ctypes.c_uint64.from_address(id(out) + DATA).value != address(out):  # not the NumPy that we know
        return None
    strides = [out.strides, *(np.broadcast_to(a, out.shape).strides for a in arrays)]
    axes = [k for k, n in enumerate(out.shape) if n != 1]
    axes.sort(key=lambda k: -abs(out.strides[k]))
    lengths: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for k in axes:
        n = out.shape[k]
        if lengths and all(own[-1] == s[k] * n for own, s in zip(steps, strides, strict=True)):
            lengths[-1] *= n
            for own, s in zip(steps, strides, strict=True):
                own[-1] = s[k]
        else:
            lengths.append(n)
            for own, s in zip(steps, strides, strict=True):
                own.append(s[k])
    if not lengths or len(lengths) - 1 > MOST_OUTER or steps[0][-1] == 0:
        return None
    size = out.itemsize
    ways = "".join(CONTIGUOUS if own[-1] == size else STRIDED if own[-1] else BROADCAST for own in steps)
    expression = Expression(text, out.dtype.char, ways, len(lengths) - 1)
    loop = _loops.get(expression)
    if loop is None:
        if len(_loops) >= MOST_CODES:
            return None
        loop = _loops[expression] = Loop(expression)
    form = f"<{1 + len(arrays)}Q{text.count('n')}{'q' if out.dtype.kind == 'i' else 'd'}"
    sizes = struct.pack(f"<{len(lengths) * (1 + len(steps))}q", *lengths, *[s for own in steps for s in own])
    return Launch(loop, form, sizes)


def by_numpy(text: str, arrays: list[ND], numbers: list[Any], places: list[Place]) -> ND:
    """One operator after the other, over intermediate results as NumPy does. Each warns at its own place."""
    try:
        return _by_numpy(text, arrays, numbers, iter(places))
    finally:
        SPEAKER.place = None


def _by_numpy(text: str, arrays: list[ND], numbers: list[Any], place: Iterator[Place]) -> ND:
    stack: list[Any] = []
    owned: list[bool] = []  # whether a value is an intermediate result
    array = iter(arrays)
    number = iter(numbers)
    for letter in text:
        if letter in "an":
            stack.append(next(array) if letter == "a" else next(number))
            owned.append(False)
            continue
        SPEAKER.place = next(place)
        count = 2 if letter in UFUNCS else 1
        ufunc = UFUNCS[letter] if count == 2 else ONE[letter]
        args, mine = stack[-count:], owned[-count:]
        del stack[-count:], owned[-count:]
        shape = np.broadcast_shapes(*[np.shape(x) for x in args]) if count == 2 else args[0].shape
        out = next((x for x, own in zip(args, mine, strict=True) if own and x.shape == shape), None)
        stack.append(ufunc(*args) if out is None else ufunc(*args, out=out))
        owned.append(True)
    found: ND = stack.pop()
    return found
