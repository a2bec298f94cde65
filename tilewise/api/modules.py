"""NumPy's smaller modules, loaded when asked for. In: a name. Out: a module (`char`, `rec`, `emath` … give Arrays)."""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any

import numpy as np

from tilewise.api.dispatch import call
from tilewise.api.ufuncs import special_ufunc

WRAPPED = {"char": "numpy.char", "strings": "numpy.strings", "rec": "numpy.rec", "emath": "numpy.lib.scimath"}
PLAIN = (
    "ma",
    "polynomial",
    "dtypes",
    "exceptions",
    "typing",
    "ctypeslib",
    "f2py",
)  # NumPy's own; they take Arrays as data
NAMES = (*WRAPPED, *PLAIN, "special")


def load(name: str) -> Any:
    """A module of the namespace; AttributeError if there is none of that name."""
    if name in PLAIN:
        return importlib.import_module(f"numpy.{name}")
    if name == "special":
        return Special()
    if name not in WRAPPED:
        raise AttributeError(f"module 'tilewise' has no attribute {name!r}")
    source = importlib.import_module(WRAPPED[name])
    module = types.ModuleType(f"tilewise.{name}", source.__doc__)
    for n in dir(source):
        value = getattr(source, n)
        if not n.startswith("_") and not isinstance(value, types.ModuleType):
            setattr(module, n, value if isinstance(value, type) or not callable(value) else _calling(value))
    sys.modules[module.__name__] = module
    return module


def _calling(func: Any) -> Any:
    def function(*args: Any, **kwargs: Any) -> Any:
        return call(func, args, kwargs)

    function.__name__ = getattr(func, "__name__", "function")
    function.__doc__ = func.__doc__
    return function


class Special(types.ModuleType):
    """SciPy's special functions on Arrays: ufuncs are recorded and fused like NumPy's, the others run on SciPy.

    >>> import tilewise as tw
    >>> tw.special.erf(tw.array([0.0, 0.5]))
    Array([0.        , 0.52049988])
    """

    def __init__(self) -> None:
        super().__init__("tilewise.special", type(self).__doc__)
        sys.modules["tilewise.special"] = self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        source = importlib.import_module("scipy.special")
        value = getattr(source, name)
        if isinstance(value, np.ufunc):
            value = special_ufunc(value)
        elif callable(value) and not isinstance(value, type):
            value = _calling(value)
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return list(importlib.import_module("scipy.special").__all__)
