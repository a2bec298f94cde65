"""Every NumPy name. In: the functions of the families. Out: a namespace: ours, NumPy's constants, or fallbacks."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from tilewise.api import (
    compose,
    create,
    flat,
    formulas,
    joining,
    methods,
    modules,
    padding,
    reductions,
    standard,
    views,
    writes,
)
from tilewise.api.data import saving
from tilewise.api.dispatch import MUTATORS, public, signature_of
from tilewise.api.functions import along_axis
from tilewise.api.linalg import fourier, products
from tilewise.api.linalg import functions as linalg
from tilewise.api.searching import histogram, lookup, nonzero, quantiles, sets
from tilewise.api.ufuncs import ufunc, wrapped
from tilewise.array import indexing, setitem
from tilewise.array import record as rec
from tilewise.array.interop import convert, float_warnings, notebook
from tilewise.ir.scalar import ADDED

OWN: dict[str, Any] = (
    {
        n: getattr(create, n)
        for n in (
            "zeros ones full empty zeros_like ones_like empty_like full_like arange array asarray asanyarray "
            "ascontiguousarray asfortranarray eye identity tri from_dlpack frombuffer"
        ).split()
    }
    | compose.MADE
    | standard.MADE
)

OWN |= {n: getattr(products, n) for n in ("matmul", "vecdot", "matvec", "vecmat")}
for _name in ("arange", "matmul", "vecdot", "matvec", "vecmat"):  # they take any arguments, to see which there are
    _theirs = getattr(np, _name, None)
    if getattr(_theirs, "__text_signature__", None) is not None:
        OWN[_name].__wrapped__ = _theirs  # read when someone asks
    elif (_called := signature_of(_theirs)) is not None:
        OWN[_name].__signature__ = _called


def frompyfunc(func: Any, /, nin: int, nout: int, **kwargs: Any) -> Any:
    """A ufunc of a Python function, with Arrays of objects for results.

    >>> import tilewise as tw
    >>> tw.frompyfunc(lambda a: a + 1, 1, 1)(tw.arange(3))
    Array([1, 2, 3], dtype=object)
    """
    return np.frompyfunc(func, nin, nout, **kwargs)


OWN |= float_warnings.NAMES
OWN["save"] = saving.save
OWN |= {"frompyfunc": frompyfunc, "ufunc": ufunc, "nditer": flat.nditer}


class Grid:
    """np.mgrid, np.ogrid, np.r_, np.c_: made by indexing."""

    def __init__(self, source: Any) -> None:
        self.source = source

    def __getitem__(self, key: Any) -> Any:
        return rec.wrap(self.source[rec.unwrap(key)])


OWN |= {n: Grid(getattr(np, n)) for n in ("mgrid", "ogrid", "r_", "c_")}

for _f in (np.copyto, np.put, np.place, np.putmask, np.fill_diagonal, np.put_along_axis):
    MUTATORS[_f] = 0

_NOT_EXPORTED = {"TYPE_CHECKING", "Any", "annotations", "fill_namespace"}
_SKIP = {"ndarray", "test", "testing", "core", "matlib"}


def ours(name: str, value: Any) -> Any:
    """What stands for a NumPy name in our namespace."""
    if name in OWN:
        return OWN[name]
    if isinstance(value, np.ufunc) and value.signature is None:
        return wrapped(value.__name__)
    if isinstance(value, type) or not callable(value) or isinstance(value, types.ModuleType):
        return value
    return public(value)


def fill_namespace(names: dict[str, Any], later: Mapping[str, str]) -> None:
    """Add every NumPy name (`array` also hides the subpackage of that name), and our names of modules loaded later.

    What stands for a function of NumPy's that has none of ours is made when someone asks for it: there are 400.
    `__all__` is given when asked for: `help` writes out all that it lists, 67,000 lines. It is told of no name, and so
    shows what the package itself says.
    """
    lazy: set[str] = getattr(np, "__numpy_submodules__", set())  # asking for one would load it
    made: dict[str, Callable[[], Any]] = {name: partial(submodule, name) for name in ("linalg", "fft")}
    made["lib"] = library
    for name in dir(np):
        if name in lazy or name in later:
            continue
        if name in OWN:
            names[name] = OWN[name]
        elif not name.startswith("_") and name not in names and name not in _SKIP:
            value = getattr(np, name)
            if isinstance(value, type) or not callable(value):
                if not isinstance(value, types.ModuleType):
                    names[name] = value
            else:
                made[name] = partial(ours, name, value)
    made |= {name: partial(wrapped, name) for name in ADDED if name not in names}
    names.update((name, getattr(np, name)) for name in ("_CopyMode", "_NoValue"))  # values of NumPy's arguments
    for name, home in later.items():
        if home.startswith(f"tilewise.{name}."):
            importlib.import_module(f"tilewise.{name}")  # a package: it is bound to its name now, and never again
        names.pop(name, None)
    given = (*names.pop("__all__"), *names, *made, *(n for n in (*later, *modules.NAMES) if n in np.__all__))
    exported = sorted({name for name in given if not name.startswith("_")} - _NOT_EXPORTED)

    def asked(name: str) -> Any:
        if name == "__all__":
            return [] if sys._getframe(1).f_globals.get("__name__") == "pydoc" else exported
        if name in made:
            value = made[name]()
        else:
            home = later.get(name)
            value = modules.load(name) if home is None else getattr(importlib.import_module(home), name)
        found = names.setdefault(name, value)  # another thread may have been first
        if found is not value and isinstance(found, types.ModuleType):
            sys.modules[found.__name__] = found
        return found

    names["__getattr__"] = asked
    names["__dir__"] = lambda: sorted({*names, *made, *modules.NAMES, *(name for name in later if name[0] != "_")})
    float_warnings.tell_lines()
    sys.meta_path.insert(0, modules.Importer())  # before NumPy's parts would be loaded once more under our name


def library() -> types.ModuleType:
    """np.lib, as far as it is public."""
    module = types.ModuleType("tilewise.lib", np.lib.__doc__)
    for name in ("stride_tricks", "array_utils", "scimath", "format", "mixins", "introspect"):
        source = getattr(np.lib, name)
        part = types.ModuleType(f"tilewise.lib.{name}", source.__doc__)
        for n in dir(source):
            if not n.startswith("_"):
                setattr(part, n, ours(n, getattr(source, n)))
        setattr(module, name, part)
        sys.modules[part.__name__] = part
    module.NumpyVersion = np.lib.NumpyVersion  # type: ignore[attr-defined]
    module.__path__ = []  # a package, of whose modules some are imported later
    sys.modules["tilewise.lib"] = module
    return module


def submodule(name: str) -> types.ModuleType:
    """Our version of one of NumPy's modules."""
    full, source = f"tilewise.{name}", getattr(np, name)
    module = types.ModuleType(full, source.__doc__)
    for n in source.__all__:
        setattr(module, n, ours(n, getattr(source, n)))
    sys.modules[full] = module
    return module


__all__ = [
    "along_axis",
    "convert",
    "formulas",
    "fourier",
    "histogram",
    "indexing",
    "joining",
    "linalg",
    "lookup",
    "methods",
    "nonzero",
    "notebook",
    "padding",
    "quantiles",
    "reductions",
    "setitem",
    "sets",
    "views",
    "writes",
]
