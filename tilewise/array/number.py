"""Known numbers. In: NumPy's scalars. Out: scalars of NumPy's classes that have Tilewise's own methods as well.

Programs and libraries take them for what they are in NumPy (a float64 is a Python float; json and pandas know what to
do with it), and `(x.sum() / 2).compute()` works for an array of any size.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise.later import later

if TYPE_CHECKING:
    from tilewise.array.interop import array_like
else:
    array_like = later("tilewise.array.interop.array_like")

OURS = frozenset(("compute", "layout", "relayout"))  # what Arrays have and NumPy's arrays have not
# What may give arrays of a number.
GIVING_ARRAYS = "__getitem__ choose compress cumprod cumsum flatten ravel repeat reshape take".split()
_BOTH = "add sub mul truediv floordiv mod pow and or xor lshift rshift".split()
# What gives numbers.
GIVING_NUMBERS = [f"__{r}{name}__" for name in _BOTH for r in ("", "r")]
GIVING_NUMBERS += "__neg__ __pos__ __abs__ __invert__".split()

_array: type[Any]
_as_array: Callable[[Any], Any]
_from_buffer: Callable[[Any], Any]


def set_array(cls: type[Any], as_array: Callable[[Any], Any], from_buffer: Callable[[Any], Any]) -> None:
    """handle.py says what Arrays are, and what a number is as an Array, and an ndarray."""
    global _array, _as_array, _from_buffer
    _array, _as_array, _from_buffer = cls, as_array, from_buffer


def scalar(number: Any) -> Any:
    """NumPy's own scalar."""
    return type(number).__base__(number)  # type: ignore[misc]


def _giving_array(method: Any) -> Any:
    def given(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = method(scalar(self), *args, **kwargs)
        return _from_buffer(found) if type(found) is np.ndarray else found

    given.__name__, given.__doc__ = method.__name__, method.__doc__
    return given


def _giving_number(method: Any) -> Any:
    def given(self: Any, *args: Any) -> Any:
        if args and type(args[0]) is _array:
            return NotImplemented  # NumPy's method would call a ufunc, and that the Array
        try:
            found = method(self, *args)
        except ValueError as error:  # an object whose `__array__` gives an Array
            (other,) = array_like.given(error, args)
            return getattr(_as_array(scalar(self)), method.__name__)(other)
        kind = GIVEN.get(type(found))
        return found if kind is None else kind(found)

    given.__name__, given.__doc__ = method.__name__, method.__doc__
    return given


# Between these, neither float64 nor Python's float has anything to tell: no overflow, no underflow, no NaN.
_LEAST, _MOST = 1e-300, 1e300


def _quick(name: str, general: Any, cls: type[Any], base: type[Any]) -> Any:
    """An operator of float64 with floats: Python's own, where its result is NumPy's and nothing is to be told."""
    plain = getattr(float, name)

    def given(self: Any, other: Any) -> Any:
        t = type(other)
        if t is cls or t is float or t is base:
            try:
                found = plain(self, other)
            except ZeroDivisionError:
                return general(self, other)
            if _LEAST < found < _MOST or -_MOST < found < -_LEAST:
                return cls(found)
        elif t is _array:
            return NotImplemented  # as in _giving_number
        return general(self, other)

    given.__name__, given.__doc__ = general.__name__, general.__doc__
    return given


def _class(base: type[np.generic]) -> type[np.generic]:
    """A class of numbers; it looks and pickles like NumPy's."""

    def ours(self: Any, name: str) -> Any:
        if name in OURS:
            return getattr(_as_array(scalar(self)), name)
        raise AttributeError(f"'{base.__name__}' object has no attribute {name!r}")

    def text(self: Any) -> str:
        return repr(scalar(self))

    def namespace(self: Any, *, api_version: str | None = None) -> Any:
        return _as_array(scalar(self)).__array_namespace__(api_version=api_version)

    def reduce(self: Any) -> Any:
        return scalar(self).__reduce__()

    body = {
        "__slots__": (),
        "__doc__": f"A known {base.__name__}.",
        "__module__": __name__,
        "__getattr__": ours,
        "__repr__": text,
        "__array_namespace__": namespace,
        "__reduce__": reduce,
        **{name: _giving_array(getattr(base, name)) for name in GIVING_ARRAYS},
        **{name: _giving_number(getattr(base, name)) for name in GIVING_NUMBERS if hasattr(base, name)},
    }
    return _no_sequence(type(base.__name__, (base,), body))


def _no_sequence(cls: type[np.generic]) -> type[np.generic]:
    """A class of Python's with `__getitem__` is a sequence, for C and for loops; NumPy's scalars are none."""
    if sys.implementation.name == "cpython":
        word = ctypes.sizeof(ctypes.c_void_p)
        table = ctypes.c_void_p.from_address(id(cls) + 13 * word)  # tp_as_sequence, in every 3.x
        assert table.value, "a class has a table of its own"
        ctypes.c_void_p.from_address(table.value + 3 * word).value = None  # sq_item
    return cls


# Of bool there are no subclasses: truth values are Arrays without axes.
CLASSES: dict[type[Any], Any] = {}
CLASSES.update((t, _class(t)) for t in dict.fromkeys(np.dtype(c).type for c in "bhilqBHILQefdgFDG"))
for _name in "add sub mul truediv radd rsub rmul rtruediv".split():
    _float64 = CLASSES[np.float64]
    setattr(_float64, f"__{_name}__", _quick(f"__{_name}__", getattr(_float64, f"__{_name}__"), _float64, np.float64))
# Under this switch (any text but none, as SciPy reads it) SciPy takes arrays of one library only, and NumPy's scalars
# are NumPy's to it. Numbers are Arrays without axes then, and may be written to as the array API has it.
ARE_ARRAYS = bool(os.environ.get("SCIPY_ARRAY_API"))
GIVEN: dict[type[Any], Any] = {} if ARE_ARRAYS else CLASSES  # what known numbers become
