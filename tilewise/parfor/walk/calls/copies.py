"""`copy.copy` and `copy.deepcopy`. In: values. Out: values that are the iteration's own; what is copied is read."""

from __future__ import annotations

import collections
import inspect
import types

from tilewise.parfor.walk.calls.containers import Containers
from tilewise.parfor.walk.own_code import classes_of
from tilewise.parfor.walk.places.cells import DICTS, PLAIN_DICTS
from tilewise.parfor.walk.values import Val, may_be_anything

# Methods by which a class says itself how it is copied.
HOOKS = "__copy__ __deepcopy__ __reduce__ __reduce_ex__ __getstate__ __setstate__ __getnewargs__ __new__".split()
CONTAINERS = (list, dict, set, tuple, frozenset, collections.deque, *PLAIN_DICTS, *DICTS)
_HEAP_TYPE = 1 << 9  # of Python's flags of types: made by a class statement, or like one


class Copies(Containers):
    """Follows copies."""

    def copied(self, value: Val, deep: bool, text: str) -> Val:
        """A copy of a value: of a shallow one, what it holds is shared."""
        self.use(value)
        if value.scalar:
            return value
        held = self.reachable([value]) if deep else value
        if may_be_anything(held) or value.method is not None or not all(map(_plainly_copied, classes_of(held.objs))):
            return self._opaque([held], {}, text)
        if deep:
            inner = self.reachable(self.elements_of([value]))
            self.use(inner)
        if value.view is not None or (value.objs and all(o.array for o in value.objs)):
            whole = value.view is not None and not value.view.within
            axes = value.view.axes if value.view is not None else ()
            return self.new_array([a.length for a in axes], value.kind) if whole else self.made([], kind=value.kind)
        if value.items is not None and not deep:
            return value
        made = self.made([] if deep else self.elements_of([value]), array=False, name="a copy")
        classes = classes_of(value.objs)
        (new,) = made.objs
        cls = classes.pop() if len(classes) == 1 else None
        if cls is not None and not issubclass(cls, list | dict | set | tuple | frozenset):
            new.cls = cls
            if not deep and len(value.objs) == 1:
                (old,) = value.objs
                new.fields = {name: self.attribute(value, name) for name in getattr(old.value, "__dict__", {})}
        return made


def _plainly_copied(cls: type) -> bool:
    """Whether copies of instances have all that they hold for themselves: of Python's containers, and plain classes."""
    if cls in CONTAINERS:
        return True
    written = all(c is object or c.__flags__ & _HEAP_TYPE for c in cls.__mro__)
    hooks = (inspect.getattr_static(cls, hook, None) for hook in HOOKS)
    return written and not any(isinstance(hook, types.FunctionType | staticmethod) for hook in hooks)
