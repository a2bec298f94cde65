"""Every function of a module or class. In: it, a decorator. Out: the same object, its own functions decorated."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

Decorator = Callable[[Any], Any]


def decorate_all(what: ModuleType | type, decorator: Decorator) -> ModuleType | type:
    """Decorate what is defined in a module, or in a class and not in its bases; special methods but for `__call__`
    stay. Methods of both kinds without an object are decorated inside of their `staticmethod` and `classmethod`.
    """
    for name, found in list(vars(what).items()):
        if name.startswith("__") and name != "__call__":
            continue
        if isinstance(what, ModuleType) and getattr(found, "__module__", None) != what.__name__:
            continue
        if isinstance(found, FunctionType):
            setattr(what, name, decorator(found))
        elif isinstance(found, staticmethod | classmethod) and isinstance(found.__func__, FunctionType):
            setattr(what, name, type(found)(decorator(found.__func__)))
    return what
