"""`copy.copy` and `copy.deepcopy`. In: values. Out: values that are the iteration's own; what is copied is read."""

from __future__ import annotations

import inspect
import types

from tilewise.parfor.walk.calls.containers import Containers
from tilewise.parfor.walk.own_code import classes_of
from tilewise.parfor.walk.values import Val, may_be_anything

# Methods by which a class says itself how it is copied.
HOOKS = "__copy__ __deepcopy__ __reduce__ __reduce_ex__ __getstate__ __setstate__ __getnewargs__ __new__".split()


class Copies(Containers):
    """Follows copies."""

    def copied(self, value: Val, deep: bool, text: str) -> Val:
        """A copy of a value: of a shallow one, what it holds is shared."""
        self.use(value)
        if value.scalar:
            return value
        held = self.reachable([value]) if deep else value
        if may_be_anything(held) or value.method is not None or any(map(_own_copies, classes_of(held.objs))):
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


def _own_copies(cls: type) -> bool:
    return any(isinstance(inspect.getattr_static(cls, hook, None), types.FunctionType | staticmethod) for hook in HOOKS)
