"""Python's operators on Arrays. In: operands. Out: what arithmetic.py and assign.py make of them.

The first lines of each operator are the fast path: known operands that touch few bytes go straight to NumPy.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewise.array import force as forcing
from tilewise.array import record as rec
from tilewise.array.arithmetic import (
    BASES,
    BINARY,
    COMPARE,
    COMPLEX_POWERS,
    ND,
    NUMBERS,
    POWERS,
    apply_ufunc,
    at_hand,
    binary,
    little,
    pair,
    unary,
)
from tilewise.array.assign import inplace
from tilewise.array.chains.chain import chain_of, joined, settle
from tilewise.array.handle import NUMBER, Array, from_buffer, from_number, meta
from tilewise.array.reuse import EITHER, TEMPORARY, TEMPORARY_RIGHT, reusable
from tilewise.array.schedule import policy, sites
from tilewise.array.schedule.deferred import Call
from tilewise.array.schedule.promote import LEAST_BYTES, promoted, promotion
from tilewise.config import LEAST, current

MOST_BYTES = 32  # of a number
REUSE_BYTES = 256 * 1024  # as NumPy: below, a new result costs less than finding out
boxed: Callable[[Any], Array] = from_buffer  # slots/takeover.py counts results for a while


def _forward(ufunc: np.ufunc, op: Callable[[Any, Any], Any]) -> Callable[[Array, Any], Any]:
    """`self op other`. Python's operator on NumPy's arrays and scalars is what a NumPy program would do."""

    backward = _backward(ufunc, op)
    exact = ufunc is not np.power

    def method(self: Array, other: Any) -> Any:
        cell = self._cell
        t = type(other)
        if cell.node is None and self._gen == cell.gen:
            a: Any = self._nd
            size = a.nbytes
            if size < LEAST.eager_bytes or size < current().eager_bytes:
                b = other
                if t is Array:
                    c = other._cell
                    if c is NUMBER:
                        b = other._nd
                    elif c.node is not None:
                        if chain_of(other) is None:
                            return pair(ufunc, self, other)
                        if sys.getrefcount(other) > TEMPORARY_RIGHT + 1:  # `b`
                            settle(other)
                        r = joined(ufunc, self, other)
                        return method(self, other) if r is None else r
                    else:
                        b = other._nd if other._gen == c.gen else meta(other)
                        if a.shape != b.shape and not little(a, b, current().eager_bytes):
                            plain = current().engine is None
                            return pair(ufunc, self, other) if plain else binary(ufunc, self, other)
                        if other._fixed:
                            b = b[()]
                elif t not in NUMBERS:
                    if ufunc is np.multiply and t in _SEQUENCES and self._fixed and a.dtype.kind in "iu":
                        return other * int(a)  # n * [0] repeats the list
                    if t in _TEXTS_AND_TIMES:
                        return rec.at_once(op, (self, other), {})
                    return _asked(op, self, other) if foreign(other) else _unlike(ufunc, op, self, other)
                if size >= LEAST_BYTES and exact and not promotion.asleep() and promotion.begins(sites.spot(1).place):
                    return promoted(pair(ufunc, self, other))
                if size >= REUSE_BYTES:
                    if exact:
                        r = joined(ufunc, self, other)
                        if r is not None:
                            return r
                    if sys.getrefcount(self) <= TEMPORARY and reusable(ufunc, cell, a, b, self):
                        ufunc(a, b, out=a)
                        return self
                    right = t is Array and ufunc in EITHER and sys.getrefcount(other) <= TEMPORARY_RIGHT
                    if right and type(b) is ND and reusable(ufunc, c, b, a, other, right=True):
                        ufunc(a, b, out=b)
                        return other
                if t in BASES:
                    b = BASES[t](b)
                r = op(a[()] if self._fixed else a, b)
                return boxed(r) if type(r) is ND else rec.wrap(r)
            if current().engine is None and (t is Array or t in NUMBERS):
                return pair(ufunc, self, other)
        elif cell is NUMBER:
            b = other
            if t is Array:
                c = other._cell
                if c is not NUMBER:
                    return backward(other, self._nd) if c.node is None else pair(ufunc, self, other)
                b = other._nd
            if t is Array or t in NUMBERS:
                if LEAST.eager_bytes > MOST_BYTES or current().eager_bytes > MOST_BYTES:
                    return from_number(op(self._nd, b))
                if current().engine is None:
                    return pair(ufunc, self, other)
        elif cell.node is not None and (t is Array or t in NUMBERS):
            if type(cell.node.op) is not Call or chain_of(self) is None:
                return pair(ufunc, self, other)
            if sys.getrefcount(self) > TEMPORARY:
                settle(self)
            if t is Array and sys.getrefcount(other) > TEMPORARY_RIGHT:
                settle(other)
            r = joined(ufunc, self, other)
            return method(self, other) if r is None else r
        if foreign(other):
            return _asked(op, self, other)
        if ufunc is np.multiply and t in _SEQUENCES and self._fixed and self.dtype.kind in "iu":
            return other * int(forcing.fetch(self))  # n * [0] repeats the list
        if t in _TEXTS_AND_TIMES:
            return rec.at_once(op, (self, other), {})
        return _unlike(ufunc, op, self, other)

    return method


def _unlike(ufunc: np.ufunc, op: Callable[[Any, Any], Any], self: Array, other: Any) -> Any:
    """An operation with a list, an ndarray or something else. Where no ufunc takes it, `==` still has an answer."""
    try:
        return binary(ufunc, self, other)
    except TypeError:
        return rec.at_once(op, (self, other), {})


SPARSE = "scipy.sparse."


def foreign(other: Any) -> bool:
    """Whether Python should ask the other operand."""
    t = type(other)
    if t is Array or t in NUMBERS:
        return False
    if rec.peculiar(other):
        return bool(other.__array_priority__ > 0)  # as an ndarray does
    if issubclass(t, np.ndarray | np.generic | int | float | complex | bool | list | tuple):
        return False
    return getattr(other, "__array_ufunc__", True) is None or hasattr(other, "__array_priority__")


def _asked(op: Callable[[Any, Any], Any], self: Array, other: Any) -> Any:
    """What the other operand makes of it. Some classes take no arrays, or none of two axes, but NumPy's."""
    if not type(other).__module__.startswith(("pandas", SPARSE)):
        return NotImplemented
    return _as_made(op(np.asarray(self), other))


def _as_made(r: Any) -> Any:
    return from_buffer(r) if type(r) is ND and r.base is None else r


def _backward(ufunc: np.ufunc, op: Callable[[Any, Any], Any]) -> Callable[[Array, Any], Any]:
    exact = ufunc is not np.power

    def method(self: Array, other: Any) -> Any:
        cell = self._cell
        if cell.node is None and type(other) in NUMBERS:
            if self._gen == cell.gen:
                a: Any = self._nd
                size = a.nbytes
                if size < LEAST.eager_bytes or size < current().eager_bytes:
                    if (
                        size >= LEAST_BYTES
                        and exact
                        and not promotion.asleep()
                        and promotion.begins(sites.spot(1).place)
                    ):
                        return promoted(pair(ufunc, other, self))
                    if size >= REUSE_BYTES and exact:
                        r = joined(ufunc, other, self)
                        if r is not None:
                            return r
                    alone = size >= REUSE_BYTES and sys.getrefcount(self) <= TEMPORARY
                    if alone and reusable(ufunc, cell, a, other, self, right=True):
                        ufunc(other, a, out=a)
                        return self
                    if type(other) in BASES:
                        other = BASES[type(other)](other)
                    r = op(other, a[()] if self._fixed else a)
                    return boxed(r) if type(r) is ND else _number(r)
                if current().engine is None:
                    return pair(ufunc, other, self)
            elif cell is NUMBER and (LEAST.eager_bytes > MOST_BYTES or current().eager_bytes > MOST_BYTES):
                return _number(op(other, self._nd))
        elif type(other) in NUMBERS:
            if chain_of(self) is None:
                return pair(ufunc, other, self)
            if sys.getrefcount(self) > TEMPORARY:
                settle(self)
            r = joined(ufunc, other, self)
            return method(self, other) if r is None else r
        if ufunc is np.multiply and type(other) in _SEQUENCES and self._fixed and self.dtype.kind in "iu":
            return other * int(forcing.fetch(self))  # [0] * n repeats the list
        if type(other).__module__.startswith(SPARSE):  # it has been asked, and takes no arrays but NumPy's
            return _as_made(op(other, np.asarray(self)))
        return binary(ufunc, other, self)

    return method


def _number(r: Any) -> Any:
    """A number of a result that is no array (Python's own complex numbers take a float64 for a float)."""
    return from_number(np.complex128(r)) if type(r) is complex else rec.wrap(r)


def _assigning(ufunc: np.ufunc, op: Callable[[Any, Any], Any]) -> Callable[[Array, Any], Array]:
    def method(self: Array, other: Any) -> Array:
        cell = self._cell
        if cell.node is None and self._gen == cell.gen and not self._fixed and cell.free_to_write():
            a = self._nd
            b = at_hand(other, type(other))
            size: int = a.nbytes  # type: ignore[union-attr]
            if b is not None and (size < LEAST.eager_bytes or size < current().eager_bytes):
                op(a, b)
                return self
        return inplace(ufunc, self, other)

    return method


def _unary(ufunc: np.ufunc, op: Callable[[Any], Any]) -> Callable[[Array], Any]:
    def method(self: Array) -> Any:
        cell = self._cell
        if cell.node is None and self._gen == cell.gen:
            nd: Any = self._nd
            if nd.nbytes < LEAST.eager_bytes or nd.nbytes < current().eager_bytes:
                if nd.nbytes >= REUSE_BYTES:
                    waits = joined(ufunc, self)
                    if waits is not None:
                        return waits
                r = op(nd[()] if self._fixed else nd)
                return boxed(r) if type(r) is ND else rec.wrap(r)
        elif cell is NUMBER and (LEAST.eager_bytes > MOST_BYTES or current().eager_bytes > MOST_BYTES):
            return from_number(op(self._nd))
        elif chain_of(self) is not None:
            if sys.getrefcount(self) > TEMPORARY:
                settle(self)
            waits = joined(ufunc, self)
            return method(self) if waits is None else waits
        return unary(ufunc, self)

    return method


_TEXTS_AND_TIMES = (str, bytes, np.datetime64, np.timedelta64)
_SEQUENCES = (list, tuple, str, bytes, bytearray)


def _power(self: Array, other: Any, modulo: Any = None) -> Any:
    if modulo is not None:
        return NotImplemented
    if type(other) in NUMBERS:
        nd = at_hand(self, Array)
        if nd is not None and nd.nbytes < policy.eager_limit():
            square = nd.nbytes >= REUSE_BYTES and type(other) in (int, float) and other == 2
            waits = joined(np.square, self) if square and nd.dtype.kind == "f" else None
            if waits is not None:
                return waits
            if square and sys.getrefcount(self) <= TEMPORARY and reusable(np.multiply, self._cell, nd, other, self):
                np.square(nd, out=nd)
                return self
            return rec.wrap(nd**other)
    kind = self.dtype.kind
    if (self._fixed or kind != "f") and policy.close((self,)):
        return _power(self, other)  # NumPy's numbers have powers of their own
    # Of numbers only squares, which have right last bits (pow's are off now and then): (-inf) ** 0.5 is inf.
    if type(other) in (int, float) and other in POWERS and (not self._fixed or (other == 2 and kind == "f")):
        if (
            kind == "f"
            or (kind == "c" and (type(other), other) in COMPLEX_POWERS)
            or (kind in "biu" and type(other) is int and (other == 2 or (other == 1 and kind in "iu")))
        ):
            return apply_ufunc(POWERS[other], (self,))
        if kind in "iu" and other == 0.5:  # exact, where vectors of powers are not
            return apply_ufunc(np.sqrt, (self,), np.dtype(np.float64))
    return binary(np.power, self, other)


BACKWARD: dict[np.ufunc, Callable[[Array, Any], Any]] = {}  # what `number op array` ends in (api/ufuncs.py)

for _name, _ufunc in BINARY.items():
    _plain = getattr(operator, f"__{_name}__")
    setattr(Array, f"__{_name}__", _forward(_ufunc, _plain))
    BACKWARD[_ufunc] = _backward(_ufunc, _plain)
    setattr(Array, f"__r{_name}__", BACKWARD[_ufunc])
    setattr(Array, f"__i{_name}__", _assigning(_ufunc, getattr(operator, f"__i{_name}__")))
for _name, _ufunc in COMPARE.items():
    _plain = getattr(operator, f"__{_name}__")
    setattr(Array, f"__{_name}__", _forward(_ufunc, _plain))
    BACKWARD[_ufunc] = _backward(_ufunc, _plain)
for _name, _one in {"neg": np.negative, "pos": np.positive, "abs": np.absolute, "invert": np.invert}.items():
    setattr(Array, f"__{_name}__", _unary(_one, getattr(operator, f"__{_name}__")))
Array.__pow__ = _power


def _divmod(self: Array, other: Any) -> Any:
    x: Any = self
    whole = x.__floordiv__(other)
    return whole if whole is NotImplemented else (whole, x % other)


def _rdivmod(self: Array, other: Any) -> Any:
    return other // self, other % self


Array.__divmod__ = _divmod
Array.__rdivmod__ = _rdivmod
