"""What values are, in Python's words: isinstance, type, hasattr, dtypes. In: values. Out: what is known of them.

Types are known when a function is compiled, so each of these is a constant, and a branch on it is no branch.
"""

from __future__ import annotations

from types import UnionType
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise.python.build import Array, Choice, Dict, Lazy, List, Opaque, Scalar, Static, Tuple, Value
from tilewise.python.refuse import Refused

if TYPE_CHECKING:
    from tilewise.python.statements import Statements
from tilewise.python import values
from tilewise.python.functions import calls
from tilewise.python.scalars import arithmetic

OF_DTYPES = ("kind", "name", "char", "itemsize", "str", "type", "num")  # attributes of theirs that are constants
_PYTHON = {"bool": bool, "int64": int, "float64": float, "complex128": complex}


def object_of(v: Value, line: int) -> Any:
    """The object that is known. Raises Refused if it is not."""
    if isinstance(v, Static) and not isinstance(v.value, Opaque | values.Closure):
        try:
            return v.value.python if isinstance(v.value, calls.Library) else v.value
        except AttributeError:  # a class of ours, which NumPy has not
            raise Refused(f"tilewise.{v.value.name} where a type is expected", line) from None
    if isinstance(v, Tuple):
        return (list if v.listed else tuple)(object_of(item, line) for item in v.items)
    raise Refused(f"{values.type_text(v)} where a type is expected", line)


def equal(x: Static, y: Static, line: int) -> Scalar:
    """x == y of objects that are known: functions, texts, dtypes and what names them."""
    try:
        same = object_of(x, line) == object_of(y, line)
    except (TypeError, ValueError):  # of a dtype and what is none: Python says so
        raise Refused(f"== of {values.type_text(x)} and {values.type_text(y)}", line) from None
    if type(same) is not bool:
        raise Refused(f"== of {values.type_text(x)} and {values.type_text(y)}", line)
    return arithmetic.constant(same)


def either(x: Static, y: Static, line: int) -> Static:
    """int | float"""
    one, other = (object_of(v, line) for v in (x, y))
    if not isinstance(one, type | UnionType) or not isinstance(other, type | UnionType):
        raise Refused(f"| of {values.type_text(x)} and {values.type_text(y)}", line)
    return Static(one | other)


def class_of(lo: Statements, v: Value, line: int) -> type:
    """type(v)"""
    if isinstance(v, Choice):
        v = values.scalar(lo, v, line)  # the statement is emitted for each type
    if isinstance(v, Scalar):
        return _PYTHON[v.t.dtype] if v.t.py else np.dtype(v.t.dtype).type
    if isinstance(v, Array | Lazy) and v.t.kind == "numpy":
        return np.ndarray
    if isinstance(v, List) or (isinstance(v, Tuple) and v.listed):
        return list
    if isinstance(v, Tuple):
        return tuple
    if isinstance(v, Dict):
        return set if v.t.members else dict
    if isinstance(v, Static):
        return type(object_of(v, line))
    raise Refused("the type of such a value", line)


def isinstance_(lo: Statements, args: list[Value], line: int) -> Value:
    """isinstance(x, class or classes)"""
    if len(args) != 2:
        raise Refused("a call of isinstance", line)
    try:
        return arithmetic.constant(issubclass(class_of(lo, args[0], line), object_of(args[1], line)))
    except TypeError:
        raise Refused("isinstance of what is no class", line) from None


def type_(lo: Statements, args: list[Value], line: int) -> Value:
    """type(x)"""
    if len(args) != 1:
        raise Refused("a call of type", line)
    return Static(class_of(lo, args[0], line))


def hasattr_(lo: Statements, args: list[Value], line: int) -> Value:
    """hasattr(x, name)"""
    if len(args) != 2 or not isinstance(args[1], Static) or isinstance(args[0], Static):
        raise Refused("a call of hasattr", line)
    return arithmetic.constant(hasattr(class_of(lo, args[0], line), str(args[1].value)))


def dtype_of(v: Value, line: int) -> Value:
    """np.dtype(v)"""
    try:
        return Static(np.dtype(object_of(v, line)))
    except (TypeError, ValueError):
        raise Refused("a call of np.dtype", line) from None


def issubdtype(args: list[Value], line: int) -> Value:
    """np.issubdtype(dtype, class)"""
    try:
        one, other = (object_of(v, line) for v in args)
        return arithmetic.constant(np.issubdtype(one, other))
    except (TypeError, ValueError):
        raise Refused("a call of np.issubdtype", line) from None


def attribute_of_dtype(dtype: np.dtype[Any], name: str) -> Value:
    """dtype.kind and its like"""
    found = getattr(dtype, name)
    return arithmetic.constant(found) if type(found) is int else Static(found)
