"""NumPy's smaller modules, loaded when asked for. In: a name. Out: a module (`char`, `rec`, `emath` … give Arrays)."""

from __future__ import annotations

import functools
import importlib
import sys
import types
from collections.abc import Callable, Mapping
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise.api.dispatch import call
from tilewise.api.ufuncs import special_ufunc
from tilewise.later import later

if TYPE_CHECKING:
    from importlib.abc import Loader, MetaPathFinder

    from tilewise.api import random

    class Finder(MetaPathFinder, Loader):
        """What imports go through."""
else:
    random = later("tilewise.api.random")
    Finder = object  # the classes only say what it has, and take 2 ms to load


WRAPPED = {
    "char": "numpy.char",
    "strings": "numpy.strings",
    "rec": "numpy.rec",
    "emath": "numpy.lib.scimath",
    "lib.recfunctions": "numpy.lib.recfunctions",
}
PLAIN = (
    "ma",
    "dtypes",
    "exceptions",
    "typing",
    "ctypeslib",
    "f2py",
)  # NumPy's own; they take Arrays as data
OWN = ("linalg", "fft", "lib")  # made by namespace.py
NAMES = (*(n for n in WRAPPED if "." not in n), *PLAIN, "polynomial", "special", "random", *OWN)
IMPORTED = ("matlib", "lib.npyio", "lib.user_array")  # NumPy's own that are there only once they are imported


def load(name: str) -> Any:
    """A module of the namespace; AttributeError if there is none of that name."""
    if name in PLAIN:
        return importlib.import_module(f"numpy.{name}")
    if name == "special":
        return Special()
    if name == "random":
        return _given(name, np.random, random.NAMES)
    if name == "polynomial":
        module = _module(name, np.polynomial, _calling)
        module.polyutils = np.polynomial.polyutils  # type: ignore[attr-defined]  # a module made here
        sys.modules[f"{module.__name__}.polyutils"] = np.polynomial.polyutils
        for part in POLYNOMIALS:
            setattr(module, part, _module(f"{name}.{part}", getattr(np.polynomial, part), _polynomial))
        return module
    if name not in WRAPPED:
        raise AttributeError(f"module 'tilewise' has no attribute {name!r}")
    return _module(name, importlib.import_module(WRAPPED[name]), _calling)


class Importer(Finder):
    """Lets `import tilewise.ma` or `from tilewise.polynomial import Polynomial` find what the namespace has."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        root, _, name = fullname.partition(".")
        known = root == "tilewise" and (name.partition(".")[0] in NAMES or name in WRAPPED or name in IMPORTED)
        return ModuleSpec(fullname, self) if known else None

    def create_module(self, spec: ModuleSpec) -> None:
        """An ordinary module, for the moment."""

    def exec_module(self, module: types.ModuleType) -> None:
        """Put the module that there is in the place of the new one."""
        assert module.__spec__ is not None
        full = module.__spec__.name
        name = full.partition(".")[2]
        if name.partition(".")[0] in PLAIN or name in IMPORTED:
            sys.modules[full] = importlib.import_module(f"numpy.{name}")
        elif name in NAMES:
            sys.modules[full] = getattr(sys.modules["tilewise"], name)
        elif name in WRAPPED:
            sys.modules[full] = load(name)
        else:
            raise ModuleNotFoundError(f"No module named {full!r}", name=full)


def _given(name: str, source: types.ModuleType, given: Mapping[str, Any]) -> types.ModuleType:
    """A module with NumPy's names and more, all of them ours."""
    module = types.ModuleType(f"tilewise.{name}", source.__doc__)
    for n in (*source.__all__, *(n for n in given if n not in source.__all__)):
        setattr(module, n, given[n])
    sys.modules[module.__name__] = module
    return module


POLYNOMIALS = ("polynomial", "chebyshev", "legendre", "laguerre", "hermite", "hermite_e")


def _module(name: str, source: types.ModuleType, ours: Callable[[Any], Any]) -> types.ModuleType:
    """A module with NumPy's names; `ours` makes our functions of its functions."""
    module = types.ModuleType(f"tilewise.{name}", source.__doc__)
    for n in dir(source):
        value = getattr(source, n)
        if not n.startswith("_") and not isinstance(value, types.ModuleType):
            setattr(module, n, value if isinstance(value, type) or not callable(value) else _at(module, n, ours(value)))
    sys.modules[module.__name__] = module
    return module


def _at(module: types.ModuleType, name: str, function: Any) -> Any:
    """A function that says where it is, so that it can be pickled."""
    function.__module__, function.__qualname__ = module.__name__, name
    return function


def _polynomial(func: Any) -> Any:
    """The values of one polynomial are elementwise work. All else asks whether its arguments are ndarrays."""
    at_once = _calling(func)
    if not func.__name__.endswith("val"):
        return at_once

    @functools.wraps(func)
    def values(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs) if len(args) > 1 and np.ndim(args[1]) == 1 else at_once(*args, **kwargs)

    return values


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
            value = _at(self, name, _calling(value))
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return list(importlib.import_module("scipy.special").__all__)
