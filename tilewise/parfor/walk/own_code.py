"""Code of users that runs where none is called. In: classes. Out: which attributes and operators run some."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Iterable
from typing import Any

from tilewise.parfor.walk.values import Obj

_OPERATORS = (
    "add radd iadd sub rsub isub mul rmul imul matmul truediv floordiv mod pow lshift rshift and or xor neg pos invert "
    "abs eq ne lt le gt ge bool len iter next contains getitem setitem delitem enter exit str repr format hash int "
    "float index array array_ufunc array_function reversed round"
).split()


def _has(cls: type, name: str) -> bool:
    return isinstance(inspect.getattr_static(cls, name, None), types.FunctionType)


@functools.cache
def has_operators(cls: type) -> bool:
    """Whether a class has operators that are written in Python."""
    return any(_has(cls, f"__{o}__") for o in _OPERATORS)


@functools.cache
def runs_when_read(cls: type, name: str) -> bool:
    """Whether reading an attribute of an instance, one that is not in its dict, runs code.

    >>> class A:
    ...     half = property(lambda self: 0.5)
    >>> runs_when_read(A, "half"), runs_when_read(A, "other")
    (True, False)
    """
    if _has(cls, "__getattribute__"):
        return True
    static = inspect.getattr_static(cls, name, None)
    if static is None:
        return _has(cls, "__getattr__")
    if isinstance(static, types.FunctionType | staticmethod | classmethod | type):
        return False
    return isinstance(static, property) or (_has(type(static), "__get__") and type(static).__module__ != "enum")


@functools.cache
def runs_when_set(cls: type, name: str) -> bool:
    """Whether assigning to an attribute runs code."""
    static = inspect.getattr_static(cls, name, None)
    return _has(cls, "__setattr__") or isinstance(static, property) or _has(type(static), "__set__")


@functools.cache
def may_run(cls: type) -> bool:
    """Whether reading some attribute runs code."""
    return any(runs_when_read(cls, name) for c in cls.__mro__ for name in (*vars(c), "__no_such_name__"))


def classes_of(objs: Iterable[Obj]) -> set[Any]:
    """The classes of objects, where they are known."""
    return {o.cls or type(o.value) for o in objs if not o.array and (o.cls is not None or o.key)}
