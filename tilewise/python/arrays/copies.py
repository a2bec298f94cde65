"""Arrays made of others: copies, or the same ones. In: arrays, what is wanted of them. Out: arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewise.kernel.program.ir import Const
from tilewise.python.build import Array, Lazy, Scalar, Static, Tuple, Value
from tilewise.python.refuse import Refused
from tilewise.python.types import Arr

if TYPE_CHECKING:
    from tilewise.python.arrays.functions import Given
    from tilewise.python.statements import Statements
from tilewise.python.arrays import assign, attributes, elementwise, functions


def copied(
    lo: Statements, found: Value, kind: str, line: int, dtype: str | None = None, *, in_c_order: bool = False
) -> Array:
    """A new array with the same elements."""
    if isinstance(found, Tuple):
        made = attributes.from_tuple(lo, found, dtype, line)
        return Array(Arr(made.t.dtype, made.t.rank, kind), made.name)
    if not isinstance(found, Array | Lazy):
        raise Refused("an array of this", line)
    v = elementwise.lazy(found)
    t = Arr(dtype or v.t.dtype, v.t.rank, functions.kind_of(kind, found))
    made = elementwise.allocated(lo, t, v.shape, False, line, () if in_c_order else v.reads)
    assign.assign(lo, made, v, line)
    return made


def array(lo: Statements, kind: str, g: Given) -> Value:
    found = g.need(0, "object")
    dtype = g.take(1, "dtype")
    copying = wanted(g)
    g.done(2)
    named = None if dtype is None else functions.dtype_named(dtype, g.line)
    if copying:
        return copied(lo, found, kind, g.line, named)
    same = itself(found, kind, named)
    if same is None:  # which may be an error
        raise Refused("an array that must be copied perhaps", g.line)
    return same


def wanted(g: Given) -> bool:
    """Whether a copy is wanted in any case: what the option `copy` says."""
    found = g.options.pop("copy", None)
    if found is None:
        return True
    if isinstance(found, Static) and found.value is None:
        return False
    if isinstance(found, Scalar) and isinstance(found.e, Const):
        return bool(found.e.value)
    raise Refused(f"{g.name} with a copy that is not known before", g.line)


def itself(found: Value, kind: str, dtype: str | None) -> Array | None:
    """An array that is of a dtype (None: of any) and kind already."""
    if isinstance(found, Lazy) and found.shown is not None:
        found = found.shown()
    if isinstance(found, Array) and dtype in (None, found.t.dtype) and functions.kind_of(kind, found) == found.t.kind:
        return found
    return None


def asarray(lo: Statements, kind: str, g: Given) -> Value:
    found = g.need(0, "a")
    dtype = g.take(1, "dtype")
    g.done(2)
    named = None if dtype is None else functions.dtype_named(dtype, g.line)
    same = itself(found, kind, named)
    return copied(lo, found, kind, g.line, named) if same is None else same


def copy(lo: Statements, kind: str, g: Given) -> Value:
    found = g.need(0, "a")
    g.done(1)
    return copied(lo, found, kind, g.line)
