"""Attributes where they are read. In: values, names. Out: values."""

from __future__ import annotations

import ast
import collections
import inspect
import types
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewise.kernel.dependence.expr import (
    Expr,
    constant,
)
from tilewise.parfor.walk.calls import library
from tilewise.parfor.walk.exprs import Exprs
from tilewise.parfor.walk.kept import replace
from tilewise.parfor.walk.knowns import Alike, fixed_key
from tilewise.parfor.walk.own_code import classes_of, runs_when_read
from tilewise.parfor.walk.values import (
    ANYTHING,
    INTEGER,
    NOTHING,
    NUMBER,
    Obj,
    Val,
    join,
    may_be_anything,
    objects,
    of_expr,
)


class Attributes(Exprs):
    """Follows attributes."""

    def follow(self, function: Any, args: Sequence[Val], named: dict[str, Val]) -> Val | None:
        """Follow a function by its source."""
        raise NotImplementedError

    def _attribute(self, node: ast.Attribute) -> Val:
        return self.attribute(self.ev(node.value), node.attr)

    def attribute(self, base: Val, name: str) -> Val:
        """`base.name` where it is read."""
        if library.all_random(base):
            return base if name in ("bit_generator", "_bit_generator") else Val(method=(base, name))  # one stream
        if base.is_known and isinstance(base.known, types.ModuleType | types.FunctionType | type | np.ufunc):
            if not hasattr(base.known, name):
                return ANYTHING
            return self.value_of(getattr(base.known, name), name)
        if base.view is not None:
            return self._array_attribute(base, name)
        if base.items is not None and isinstance(base.known, tuple):
            fields = getattr(type(base.known), "_fields", ())
            if name in fields and type(inspect.getattr_static(type(base.known), name)).__name__ == "_tuplegetter":
                return base.items[fields.index(name)]
        classes = classes_of(base.objs)
        if any(runs_when_read(c, name) for c in classes):
            own = self._own_attribute(base, classes, name)
            if own is not None:
                return own
        if base.is_known and not isinstance(base.known, list | dict | set | tuple | str | Alike) and not base.scalar:
            return self._instance_attribute(base, name)
        if base.is_known and isinstance(base.known, Alike) and base.ident is not None:
            found = [getattr(v, "__dict__", {}).get(name) for v in base.known.values]
            if all(name in getattr(v, "__dict__", {}) for v in base.known.values):
                self.touch_cells(base, fixed_key(name), write=False)
                if all([self.memory.constant(o, at=name) for o in base.objs]):
                    return self.element(found, base.known.at, name)
                stored: frozenset[Obj] = frozenset().union(*(o.content for o in base.objs))
                total = Val(objs=stored, anything=any(o.anything for o in base.objs), scalar=not stored)
                for value in found:
                    total = join(total, replace(self.value_of(value, name), known=Val().known, expr=None))
                return total
        if base.is_known and base.scalar and isinstance(base.known, np.number | complex | float | int):
            return (
                replace(NUMBER, kind=base.kind) if name in ("real", "imag") else Val(method=(base, name), scalar=True)
            )
        if name in ("shape", "size", "ndim", "dtype", "itemsize", "nbytes") and (base.objs or base.anything):
            return Val(scalar=True, kind=None if name in ("shape", "dtype") else "i")
        if name in ("T", "real", "imag", "flat"):
            return self.within(base)
        self._attribute_read(base, name)
        there = [o for o in base.objs if not o.array and o.key and _attribute_of(o.value, name) is not NOTHING]
        if there and len(there) == len(base.objs) and not base.anything:
            return self._of_several(there, name)
        if len(base.objs) == 1 and base.view is None and not base.anything:
            (only,) = base.objs
            if name in only.fields and name not in only.written_at and not only.written_elsewhere:
                return self._as_now(only.fields[name])
        held: frozenset[Obj] = frozenset().union(*(o.content for o in base.objs if o.key == 0))
        made_here = {o.cls for o in base.objs}
        if len(made_here) == 1 and None not in made_here:
            static = inspect.getattr_static(made_here.pop(), name, None)
            if static is None:
                return Val(objs=held, anything=any(o.anything for o in base.objs))
        return Val(method=(base, name), objs=held, anything=base.anything or any(o.anything for o in base.objs))

    def _attribute_read(self, base: Val, name: str) -> None:
        """Record that an attribute is read of objects that have it, or may have been given it in the loop."""
        read = frozenset(o for o in base.objs if not o.array and _has_attributes(o, name))
        if read:
            self.touch_cells(Val(objs=read, ident=base.ident), fixed_key(name), write=False)

    def _of_several(self, there: Sequence[Obj], name: str) -> Val:
        """An attribute of one of several objects that were there before: what it was, or what the loop puts there."""
        total: Val | None = None
        for obj in there:
            was = replace(
                self.value_of(_attribute_of(obj.value, name), f"{obj.name}.{name}"), known=Val().known, expr=None
            )
            put = Val(objs=frozenset(obj.content), anything=obj.anything, scalar=True)
            total = join(join(total, was), put) if obj.content or obj.anything else join(total, was)
        return total or ANYTHING

    def _as_now(self, value: Val) -> Val:
        """What an attribute was given; in an inner loop, that may have been in another round of it."""
        if set(self.loops) <= self.parallel:
            return value
        return Val(objs=objects(value), anything=may_be_anything(value), kind=value.kind, scalar=value.scalar)

    def _own_attribute(self, base: Val, classes: set[Any], name: str) -> Val | None:
        """An attribute that code of the user's computes, or may compute; None if it is there already."""
        cls = next(iter(classes))
        static = inspect.getattr_static(cls, name, None)
        missing = static is None and all(not inspect.isfunction(vars(c).get("__getattribute__")) for c in cls.__mro__)
        if missing and len(classes) == 1 and all(name in getattr(o.value, "__dict__", {}) for o in base.objs):
            return None
        found: Val | None = None
        if len(classes) == 1 and len(base.objs) == 1 and not base.anything:
            if isinstance(static, property) and isinstance(static.fget, types.FunctionType):
                found = self.follow(static.fget, [base], {})
            elif missing:
                found = self.follow(inspect.getattr_static(cls, "__getattr__"), [base, self.value_of(name, name)], {})
                held = Val(objs=frozenset().union(*(o.content for o in base.objs)))
                found = found if found is None else join(found, held)
        if found is None:
            for obj in base.objs:
                obj.maybe_written = True
            self.hazard(name, "call", "what reading this attribute does is not known")
        return found if found is not None else ANYTHING

    def _array_attribute(self, base: Val, name: str) -> Val:
        view = base.view
        assert view is not None
        if name == "T" and not view.within:
            return Val(view=replace(view, axes=view.axes[::-1]), kind=base.kind)
        if name in ("shape", "size", "ndim", "itemsize", "nbytes", "dtype"):
            if base.is_known and isinstance(base.known, np.ndarray):
                return self.value_of(getattr(base.known, name), name)
            if name == "ndim" and not view.within:
                return of_expr(constant(len(view.axes)))
            if name == "shape" and not view.within:
                return Val(items=tuple(_length(a.length) for a in view.axes), scalar=True)
            return Val(scalar=True, kind="i" if name != "dtype" else None)
        if name == "flat" and base.is_known and isinstance(base.known, np.ndarray) and base.known.flags.c_contiguous:
            return self.value_of(base.known.reshape(-1), view.name)
        if (name == "real" or (name == "imag" and base.kind == "c")) and not view.within:
            return Val(view=view, kind="f" if base.kind == "c" else base.kind)  # one part of each element
        if name in ("real", "imag", "flat", "T", "base", "data"):
            return self.within(base)
        return Val(method=(base, name))

    def _instance_attribute(self, base: Val, name: str) -> Val:
        known = base.known
        if library.is_generator(known) or isinstance(known, types.GeneratorType):
            return Val(method=(base, name))
        own = getattr(known, "__dict__", {})
        (obj,) = base.objs or (None,)
        if obj is not None and isinstance(own, dict) and name in own:
            self.touch_cells(base, fixed_key(name), write=False)
            if self.memory.constant(obj, at=name):
                return self.value_of(own[name], f"{obj.name}.{name}")
            return join(
                replace(self.value_of(own[name], f"{obj.name}.{name}"), known=Val().known, expr=None),
                Val(objs=frozenset(obj.content), anything=obj.anything, scalar=not obj.content and not obj.anything),
            )
        static = inspect.getattr_static(type(known), name, None)
        if isinstance(static, types.FunctionType | staticmethod | classmethod):
            return Val(method=(base, name))
        if static is not None and not hasattr(static, "__get__"):
            return self.value_of(static, name)
        if isinstance(static, types.MemberDescriptorType) and obj is not None:
            self.touch_cells(base, fixed_key(name), write=False)
            return self.value_of(getattr(known, name), name) if self.memory.constant(obj, at=name) else ANYTHING
        if obj is not None and static is None and not callable(getattr(type(known), "__getattr__", None)):
            self.touch_cells(base, fixed_key(name), write=False)
            return Val(objs=frozenset(obj.content), anything=obj.anything)
        return Val(method=(base, name), anything=not isinstance(static, types.MethodDescriptorType))


def _length(expr: Expr | None) -> Val:
    return of_expr(expr) if expr is not None else INTEGER


def _attribute_of(thing: Any, name: str) -> Any:
    """What an object has by itself under a name, in its dict or in a slot; NOTHING if there is nothing."""
    own = getattr(thing, "__dict__", {})
    if name in own:
        return own[name]
    slot = isinstance(inspect.getattr_static(type(thing), name, None), types.MemberDescriptorType)
    return getattr(thing, name, NOTHING) if slot else NOTHING


def _has_attributes(obj: Obj, name: str) -> bool:
    """Whether an object has an attribute, or may be given it: lists and dicts are not."""
    if not obj.key:
        return obj.cls is not None
    containers = (list, dict, set, frozenset, tuple, collections.deque)
    return not isinstance(obj.value, containers) or _attribute_of(obj.value, name) is not NOTHING
