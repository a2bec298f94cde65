"""Code of classes that runs unasked: operators, attributes. In: classes. Out: whether they have any."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import types
from collections.abc import Iterable
from typing import Any

from tilewise.parfor.walk.values import Obj

_GENERATED = frozenset("__init__ __repr__ __eq__ __lt__ __le__ __gt__ __ge__ __hash__".split())
_OPERATORS = (
    "add radd iadd sub rsub isub mul rmul imul matmul truediv floordiv mod pow lshift rshift and or xor neg pos invert "
    "abs eq ne lt le gt ge bool len iter next contains getitem setitem delitem enter exit str repr format hash int "
    "float index array array_ufunc array_function reversed round"
).split()


def _has(cls: type, name: str) -> bool:
    found = inspect.getattr_static(cls, name, None)
    if not isinstance(found, types.FunctionType) or found.__module__ == "enum":
        return False
    if issubclass(cls, tuple) and found.__module__ == "collections":  # of named tuples
        return False
    return not generated(cls, found)


def generated(cls: type, function: types.FunctionType) -> bool:
    """Whether a method was written by `dataclasses`: it reads fields and does nothing else.

    >>> A = dataclasses.make_dataclass("A", ["x"])
    >>> generated(A, A.__eq__), generated(A, generated)
    (True, False)
    """
    if not dataclasses.is_dataclass(cls):
        return False
    code = getattr(function, "__wrapped__", function).__code__
    return code.co_qualname.startswith("__create_fn__.") and function.__name__ in _GENERATED


def function_behind(thing: Any) -> Any:
    """The function under `@tw.jit` or `@tw.parallel`, which does what these give; other things as they are."""
    function = thing.__wrapped__ if getattr(type(thing), "does_as_wrapped", False) else None
    return function if isinstance(function, types.FunctionType) else thing


@functools.cache
def has_operators(cls: type) -> bool:
    """Whether a class has operators that are written in Python."""
    return any(_has(cls, f"__{o}__") for o in _OPERATORS)


def compares_contents(obj: Obj) -> bool:
    """Whether an object is compared by what it holds: containers are, and data classes."""
    cls = obj.cls or (type(obj.value) if obj.key else None)
    return cls is None or issubclass(cls, list | tuple | dict | set | frozenset) or dataclasses.is_dataclass(cls)


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
