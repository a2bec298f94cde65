"""Methods of lists, dicts and sets. In: values. Out: values; which cells are read and written is recorded."""

from __future__ import annotations

import ast
from typing import Any

from tilewise.kernel.dependence.expr import Expr
from tilewise.parfor.walk.calls import library
from tilewise.parfor.walk.calls.random_calls import RandomCalls
from tilewise.parfor.walk.kept import replace
from tilewise.parfor.walk.record import unknown
from tilewise.parfor.walk.values import ANYTHING, INTEGER, Val, join, may_be_anything, objects

# Methods that take in what their arguments hold.
SPREADING = frozenset("extend update __iadd__ __ior__ symmetric_difference_update".split())


class Containers(RandomCalls):
    """Follows methods of containers."""

    def _put(self, base: Val, parts: list[Any], value: Val, op: str | None = None) -> None:
        raise NotImplementedError

    def put_all(self, base: Val, node: ast.expr) -> bool:
        """`base.update({key: value, ...})` by cells, for a dict with keys that are written out; whether it is one."""
        if not isinstance(node, ast.Dict) or None in node.keys or not self.is_dict(base):
            return False
        given = [(key, value) for key, value in zip(node.keys, node.values, strict=True) if key is not None]
        pairs = [(self.parts_of(key), self.use(self.ev(value))) for key, value in given]
        for parts, value in pairs:
            self._put(base, parts, value)
        return True

    def _set_default(self, base: Val, key: Expr, default: list[Val]) -> Val:
        """`base.setdefault(key, default)`: what is in the cell, which gets the default if there is nothing."""
        (new,) = default or (Val(known=None, scalar=True),)
        for obj in base.objs:
            obj.content |= objects(new)
            obj.anything |= may_be_anything(new)
        for write in (False, True):
            self.touch_cells(base, key, write=write)
        found = self._found(base, [], key)
        if found.scalar or not new.scalar:
            return join(found, new) if found.ident is None else found
        return replace(found, kind=None)

    def _container_method(self, base: Val, name: str, args: list[Val], named: dict[str, Val], text: str) -> Val:
        for value in (*args, *named.values()):
            self.use(value)
        if named and any(v.function is not None or callable(v.known) for v in named.values()):
            self._with_function([base, *args], named, name)
        in_place = library.writes_in_place(name)
        writes = in_place or name in library.LIST_WRITES | library.DICT_WRITES | library.SET_WRITES
        if name not in ("append", "extend", "insert", "clear", "copy", "get", "values", "pop", "__len__"):
            self.use_held([base, *args])
        private = base.objs and all(o.key == 0 for o in base.objs) and not base.anything
        if not writes and name not in library.CONTAINER_READS and not private:
            return self._opaque([base, *args], named, text)
        kind: dict[Any, frozenset[str]] = {
            dict: library.DICT_WRITES,
            list: library.LIST_WRITES,
            set: library.SET_WRITES,
        }
        if base.is_known and type(base.known) in kind:
            writes = in_place or name in kind[type(base.known)]
        elif not base.is_known:
            writes = writes or name not in library.CONTAINER_READS
        if name == "setdefault" and args and not named and self.is_dict(base):
            return self._set_default(base, self.key_of([args[0]], base), args[1:])
        if name == "get" and args and not named:
            key = self.key_of([args[0]], base)
            self.touch_cells(base, key, write=False)
            return join(self._found(base, [], key), args[1] if len(args) > 1 else Val(known=None, scalar=True))
        for obj in base.objs:
            if writes and name != "sort":
                for value in (*args, *named.values(), *self.elements_of(args if name in SPREADING else ())):
                    value = replace(value, lazy=None) if name in library.CONSUMING else value
                    obj.content |= objects(value)
                    obj.anything |= may_be_anything(value)
            for write in (True, False)[not writes :]:
                if base.ident is not None and not obj.array:
                    self.touch_cells(base, unknown(), write=write)
                else:
                    self.touch_object(obj, write=write)
        if base.anything and writes:
            self.touch_value(ANYTHING, write=True)
        held = self.contents(base)
        if name in ("copy", "keys", "values", "items", "union", "intersection", "difference", "symmetric_difference"):
            return self.made([held, *args], array=False)
        if name in ("index", "count"):
            return INTEGER
        return join(held, args[1] if name == "setdefault" and len(args) > 1 else held)
