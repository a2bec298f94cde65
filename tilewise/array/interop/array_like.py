"""Objects whose `__array__` gives an Array. In: arguments that NumPy refused. Out: the same with Arrays in their place.

A program's own class has `__array__`, which with only the import changed gives an Array. NumPy takes ndarrays there and
nothing else, so whoever hands arguments to NumPy asks here when it complains.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewise.array.handle import Array

REFUSED = "object __array__ method not producing an array"


def given(error: ValueError, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments with what objects among them give; the error again if that is not what is wrong."""
    if str(error) != REFUSED:
        raise error
    new = tuple(as_given(a) for a in args)
    if all(a is b for a, b in zip(args, new, strict=True)):
        raise error
    return new


def as_given(value: Any) -> Any:
    """The Array that an object gives, or what it is."""
    t = type(value)
    if t is list or t is tuple:
        new = [as_given(v) for v in value]
        return value if all(a is b for a, b in zip(value, new, strict=True)) else t(new)
    if t is Array or isinstance(value, np.ndarray | np.generic) or not hasattr(t, "__array__"):
        return value
    made = value.__array__()
    return made if type(made) is Array else value
