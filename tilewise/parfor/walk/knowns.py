"""Objects that are there at loop entry, as values of the walk. In: objects. Out: `Val`.

Numbers, tables of indices and the structure of containers are used as constants; `Memory.constant` notes where, and the
walk is done again without them if the loop writes to one.
"""

from __future__ import annotations

import array
import io
import types
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewise.array.handle import Array
from tilewise.kernel.dependence.expr import Expr, computed, constant, gather
from tilewise.parfor.walk.kept import replace
from tilewise.parfor.walk.own_code import function_behind, has_operators
from tilewise.parfor.walk.places.subscripts import LONGEST_TABLE
from tilewise.parfor.walk.record import Recorder
from tilewise.parfor.walk.values import ANYTHING, NUMBER, Axis, Obj, Val, View, join, narrow_of, narrowed, of_expr

IMMUTABLE = (
    float,
    complex,
    str,
    bytes,
    type(None),
    type(Ellipsis),
    type,
    range,
    slice,
    frozenset,
    np.generic,
    np.dtype,
    types.ModuleType,
    types.FunctionType,
    types.BuiltinFunctionType,
    np.ufunc,
    type(np.bincount),  # NumPy's other functions
)
# Classes derived from these may have operators of their own.
_VALUES = (int, float, complex, str, bytes, frozenset, tuple)
_BUILT_IN = frozenset((bool, *_VALUES))
MOST_ITEMS = 4096  # of a container that are looked at one by one


def _compares_itself(cls: Any) -> bool:
    """Whether a class of numbers, texts or tuples has operators of its own."""
    return cls not in _BUILT_IN and issubclass(cls, _VALUES) and has_operators(cls)


def boxed(key: Any) -> Any:
    """A scalar array that holds an object."""
    box = np.empty((), dtype=object)
    box[()] = key
    return box


def objects_of(found: Any) -> Any:
    """What a function of objects gave: an array of objects, or one object as a scalar array of it."""
    return found if isinstance(found, np.ndarray) else boxed(found)


def fixed_key(key: Any) -> Expr:
    """A key of a container as a subscript."""
    if isinstance(key, int | np.integer):
        return constant(int(key))
    box = boxed(key)
    same = ("key", type(key), key) if isinstance(key, str | bytes | float | complex) else None
    return computed(lambda: box, (), integer=False, same=same)


def objects_table(values: Sequence[Any]) -> Any:
    """A one-dimensional table of objects."""
    table = np.empty(len(values), dtype=object)
    for n, value in enumerate(values):
        table[n] = value
    return table


class Knowns(Recorder):
    """Makes values of objects."""

    def value_of(self, thing: Any, name: str) -> Val:
        """What is known of an object."""
        thing = function_behind(thing)
        self.met(thing, name)
        if _compares_itself(type(thing)):
            return Val(known=thing, objs=frozenset((self.memory.container(thing, name),)))
        if isinstance(thing, bool | np.bool_):
            narrow = (0, 1) if isinstance(thing, np.bool_) else None
            return replace(of_expr(constant(int(thing)), "b"), known=thing, narrow=narrow)
        if isinstance(thing, int | np.integer):
            narrow = narrow_of(thing.dtype) if isinstance(thing, np.integer) else None
            return replace(of_expr(constant(int(thing))), known=thing, narrow=narrow)
        if isinstance(thing, float | complex | np.number):
            return Val(known=thing, scalar=True, kind=np.asarray(thing).dtype.kind)
        if isinstance(thing, str):
            return Val(known=thing, scalar=True, kind="U")
        if isinstance(thing, IMMUTABLE):
            return Val(known=thing, scalar=True)
        if isinstance(thing, np.ndarray) and type(thing) not in (np.ndarray, np.memmap):  # its subscripts are its own
            return Val(objs=frozenset((self.memory.owner(np.asarray(thing), name),)), kind=thing.dtype.kind)
        if isinstance(thing, np.ndarray):
            return Val(known=thing, view=self.memory.view(thing, name), kind=thing.dtype.kind)
        if isinstance(thing, Array):
            return self._lazy(thing, name)
        if isinstance(thing, tuple):
            items = tuple(self.value_of(item, name) for item in thing[:MOST_ITEMS])
            whole = len(items) == len(thing)
            return Val(known=thing, items=items if whole else None, scalar=all(i.scalar for i in items) and whole)
        return Val(known=thing, objs=frozenset((self.memory.container(thing, name),)))

    def met(self, thing: Any, name: str) -> None:
        """Note an object from outside of the loop that changes when it is looked at, or that shares its memory."""
        if isinstance(thing, type):
            return
        if hasattr(type(thing), "__next__") or isinstance(thing, io.IOBase):
            self.hazard(name, "iterator", "all iterations draw from one iterator")
        elif isinstance(thing, bytearray | memoryview | array.array):
            self.hazard(name, "alias", "arrays may share the memory of this object")

    def _lazy(self, lazy: Any, name: str) -> Val:
        """One of our arrays: views share a cell, which is all that is known of where they lie."""
        cell = lazy._cell
        obj = self.memory.container(cell, name)
        kind = lazy.dtype.kind
        if lazy.base is not None or (obj.shape is not None and obj.shape != tuple(lazy.shape)):
            obj.array, obj.shape = True, None
            return Val(objs=frozenset((obj,)), kind=kind)
        obj.array, obj.shape = True, tuple(lazy.shape)
        axes = tuple(Axis(d, 1, constant(n)) for d, n in enumerate(lazy.shape))
        return Val(view=View(obj, constant(obj.code), (constant(0),) * lazy.ndim, axes, lazy.itemsize), kind=kind)

    def element(self, values: Sequence[Any], at: Expr, name: str) -> Val:
        """`values[at]` for things that do not change: one value that depends on the index."""
        if at.constant and -len(values) <= at.const < len(values):
            return self.value_of(values[at.const], name)
        if not len(values) or len(values) > LONGEST_TABLE:
            return ANYTHING
        own = any(map(_compares_itself, set(map(type, values))))
        if not own and all(isinstance(v, bool | int | np.integer | np.bool_) for v in values):
            try:
                table = np.array([int(v) for v in values], dtype=np.int64)
            except OverflowError:
                return NUMBER
            kind = "b" if all(isinstance(v, bool | np.bool_) for v in values) else "i"
            types_held = {v.dtype for v in values if isinstance(v, np.generic)}
            ranges = [Val(narrow=narrow_of(t)) for t in types_held]
            return replace(of_expr(gather(table, [at]), kind), narrow=narrowed(ranges))
        if not own and all(isinstance(v, float | complex | int | np.number | str | bytes | type(None)) for v in values):
            kinds = {np.asarray(v).dtype.kind for v in values}
            expr = gather(objects_table(values), [at])
            return Val(expr=expr, scalar=True, kind=kinds.pop() if len(kinds) == 1 else None)
        if len(values) > MOST_ITEMS:
            return ANYTHING
        if all(isinstance(v, slice) for v in values):
            ends = [self.element([getattr(v, end) for v in values], at, name) for end in ("start", "stop", "step")]
            whole = all(isinstance(v.start, int) and isinstance(v.stop, int) and v.step is None for v in values)
            return (
                Val(method=(Val(items=(*ends[:2], Val(known=None, scalar=True))), "slice"), scalar=True)
                if whole
                else NUMBER
            )
        parts = [self.value_of(v, name) for v in values]
        if not own and all(isinstance(v, tuple) for v in values) and len({len(v) for v in values}) == 1:
            columns = zip(*values, strict=True)
            return Val(items=tuple(self.element(column, at, name) for column in columns))
        if all(p.view is not None for p in parts):
            view = self.memory.family([p.view for p in parts if p.view is not None], at)
            if view is not None:
                return Val(view=view, kind=parts[0].kind)
        if all(len(p.objs) == 1 and p.view is None and not p.anything for p in parts):
            codes = [next(iter(p.objs)).code for p in parts]
            ident = gather(np.array(codes, dtype=np.int64), [at])
            out = Val(objs=frozenset().union(*(p.objs for p in parts)), ident=ident)
            return replace(out, known=_Alike(tuple(values), at))
        total = parts[0]
        for part in parts[1:]:
            total = join(total, part)
        return total

    def held_by(self, obj: Obj, known: Any, name: str) -> Val:
        """What may be found in a container, whatever the key."""
        out: Val | None = None
        if isinstance(known, dict):
            values: Sequence[Any] = list(known.values())
        elif isinstance(known, list | tuple | set | frozenset):
            values = list(known)
        elif isinstance(known, _Alike):
            values = [v for one in known.values for v in (one.values() if isinstance(one, dict) else _listed(one))]
        else:
            values = list(getattr(known, "__dict__", {}).values())
        types_held = {type(v) for v in values}
        if values and all(issubclass(t, bool | int | float | complex | str | np.number) for t in types_held):
            kinds = {np.dtype(t).kind for t in types_held}
            out = Val(scalar=True, kind=kinds.pop() if len(kinds) == 1 else None)
        elif len(values) >= MOST_ITEMS:
            out = ANYTHING
        else:
            for value in values:
                out = join(out, self.value_of(value, name))
        held_here = Val(objs=frozenset(obj.content), anything=obj.anything, scalar=not obj.content and not obj.anything)
        if out is None:
            return held_here
        return join(out, held_here) if obj.content or obj.anything else replace(out, known=Val().known, expr=None)


def _listed(value: Any) -> Sequence[Any]:
    if isinstance(value, list | tuple):
        return value
    return list(getattr(value, "__dict__", {}).values())


class _Alike:
    """Several objects of which a value is one, and which."""

    def __init__(self, values: tuple[Any, ...], at: Expr) -> None:
        self.values, self.at = values, at


Alike = _Alike
