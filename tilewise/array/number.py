"""Known numbers. In: NumPy's scalars. Out: scalars of NumPy's classes that have Tilewise's own methods as well.

Programs and libraries take them for what they are in NumPy (a float64 is a Python float; json and pandas know what to
do with it), and `x.sum().compute()` works for an array of any size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

OURS = frozenset(("compute", "layout", "relayout"))  # what Arrays have and NumPy's arrays have not

# What may give arrays of a number.
GIVING_ARRAYS = "__getitem__ choose compress cumprod cumsum flatten ravel repeat reshape take".split()

_as_array: Callable[[Any], Any]
_from_buffer: Callable[[Any], Any]


def set_array(as_array: Callable[[Any], Any], from_buffer: Callable[[Any], Any]) -> None:
    """handle.py says what a number is as an Array, and an ndarray."""
    global _as_array, _from_buffer
    _as_array, _from_buffer = as_array, from_buffer


def plain(number: Any) -> Any:
    """NumPy's own scalar."""
    return type(number).__base__(number)  # type: ignore[misc]


def _giving_array(method: Any) -> Any:
    def given(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = method(plain(self), *args, **kwargs)
        return _from_buffer(found) if type(found) is np.ndarray else found

    given.__name__, given.__doc__ = method.__name__, method.__doc__
    return given


def _class(base: type[np.generic]) -> type[np.generic]:
    """A class of numbers; it looks and pickles like NumPy's."""

    def ours(self: Any, name: str) -> Any:
        if name in OURS:
            return getattr(_as_array(plain(self)), name)
        raise AttributeError(f"'{base.__name__}' object has no attribute {name!r}")

    def text(self: Any) -> str:
        return repr(plain(self))

    def namespace(self: Any, *, api_version: str | None = None) -> Any:
        return _as_array(plain(self)).__array_namespace__(api_version=api_version)

    def reduce(self: Any) -> Any:
        return plain(self).__reduce__()

    body = {
        "__slots__": (),
        "__doc__": f"A known {base.__name__}.",
        "__module__": __name__,
        "__getattr__": ours,
        "__repr__": text,
        "__array_namespace__": namespace,
        "__reduce__": reduce,
        **{name: _giving_array(getattr(base, name)) for name in GIVING_ARRAYS},
    }
    return type(base.__name__, (base,), body)


# Of bool there are no subclasses: truth values are Arrays without axes.
CLASSES: dict[type[Any], Any] = {t: _class(t) for t in (np.dtype(c).type for c in "bhilqBHILQefdgFDG")}
