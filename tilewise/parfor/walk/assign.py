"""Assignments and accumulations. In: targets and values. Out: names; writes are recorded."""

from __future__ import annotations

import ast
import collections
import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewise.array.handle import Array
from tilewise.kernel.dependence.expr import Expr, Undecided
from tilewise.parfor.walk.accumulate import UFUNCS, Accumulation, accumulation
from tilewise.parfor.walk.calls.call import Calls
from tilewise.parfor.walk.kept import replace
from tilewise.parfor.walk.knowns import fixed_key
from tilewise.parfor.walk.own_code import classes_of, runs_when_read, runs_when_set
from tilewise.parfor.walk.places.cells import kind_of_numbers
from tilewise.parfor.walk.places.subscripts import Slice
from tilewise.parfor.walk.values import (
    ANYTHING,
    Val,
    join,
    may_be_anything,
    objects,
)

NUMERIC = "buifc"


class Assign(Calls):
    """Follows assignments."""

    def _do_assign(self, node: ast.Assign) -> None:
        found = accumulation(node)
        if found is not None and self._accumulates(found):
            return
        value = self.ev(node.value)
        for target in node.targets:
            self.bind(target, value)

    def _do_annassign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.bind(node.target, self.ev(node.value))

    def _do_augassign(self, node: ast.AugAssign) -> None:
        found = accumulation(node)
        if found is not None and self._accumulates(found):
            return
        if isinstance(node.target, ast.Name):
            left = self.look_up(node.target.id)
            right = self.use(self.ev(node.value))
            if not left.scalar and (left.view is not None or left.objs):
                if not isinstance(node.op, ast.BitOr) or not self.put_all(left, node.value):
                    self._write(self.use(left), right)
                return
            self.bind(node.target, self.operate(node.op, self.use(left), right))
            return
        right = self.use(self.ev(node.value))
        if isinstance(node.target, ast.Subscript):
            base, parts = self.ev(node.target.value), self.parts_of(node.target.slice)
            old = self.use(self.load(base, parts))
            if (base.view is None or base.kind == "O") and not old.scalar:
                self._write(old, right)
            if base.view is not None or not _stays(old):
                self._put(base, parts, right)
        else:
            old = self.use(self.ev(_loaded(node.target)))
            if not old.scalar:
                self._write(old, right)
            if not _stays(old) or self._sets(node.target):
                self.bind(node.target, right)

    def _sets(self, target: ast.expr) -> bool:
        """Whether assigning to an attribute runs code."""
        if not isinstance(target, ast.Attribute):
            return True
        return any(runs_when_set(c, target.attr) for c in classes_of(self._quietly(target.value).objs))

    def bind(self, target: ast.expr, value: Val) -> None:
        """Assign to a target."""
        if isinstance(target, ast.Name):
            self._bind_name(target.id, value)
        elif isinstance(target, ast.Tuple | ast.List):
            self._unpack(target.elts, value)
        elif isinstance(target, ast.Starred):
            self.bind(target.value, self.made([value], array=False))
        elif isinstance(target, ast.Subscript):
            self.use(value)
            self._put(self.ev(target.value), self.parts_of(target.slice), value)
        elif isinstance(target, ast.Attribute):
            self.use(value)
            self.set_attribute(self.ev(target.value), target.attr, value, ast.unparse(target))
        else:
            self.hazard(ast.unparse(target), "syntax", "this target is not followed")

    def set_attribute(self, base: Val, name: str, value: Val, text: str) -> None:
        """`base.name = value`."""
        if base.view is not None or not (base.objs or base.anything):
            self.hazard(text, "attribute", "an attribute is assigned")
            return
        if any(runs_when_set(c, name) for c in classes_of(base.objs)):
            self.hazard(text, "call", "what assigning to this attribute does is not known")
        for obj in base.objs:
            obj.content |= objects(value)
            obj.anything |= may_be_anything(value)
        self.touch_cells(base, fixed_key(name), write=True)

    def _bind_name(self, name: str, value: Val) -> None:
        scope = self.scope
        if name in scope.shared:
            self.hazard(name, "scalar", "a function assigns to a name outside of it")
            outer = scope.outer
            while outer is not None:
                outer.names[name] = join(outer.names.get(name), replace(value, expr=None, known=Val().known))
                outer = outer.outer
            return
        scope.names[name] = replace(value, carried=frozenset())
        if not scope.called and scope.outer is None:
            self.name_use(name, "write", frozenset())
        elif scope.called:  # the loops of this call only
            self.name_use(name, "write", frozenset(), self.loops[scope.loops_outside :])

    def _unpack(self, targets: Sequence[ast.expr], value: Val) -> None:
        plain = not any(isinstance(t, ast.Starred) for t in targets)
        if value.items is not None and plain and len(value.items) == len(targets):
            for target, item in zip(targets, value.items, strict=True):
                self.bind(target, item)
            return
        for n, target in enumerate(targets):
            if value.view is not None and plain:
                self.bind(target, self.load(value, [self.value_of(n, "an index")]))
            elif value.scalar:
                self.bind(target, Val(scalar=True, kind=value.kind))
            else:
                self.bind(target, self.contents(self.use(value)))

    def _put(self, base: Val, parts: list[Any], value: Val, op: str | None = None) -> None:
        """`base[parts] = value`."""
        if base.view is not None:
            self.touch_value(self.region(base, parts), write=True, op=op)
            return
        if base.items is not None or base.scalar or self.own_subscripts(base):
            return  # an error at run time, or recorded
        spread = self.elements_of([value]) if any(isinstance(p, Slice) for p in parts) else []
        for obj in base.objs:
            for part in (value, *spread) if not obj.array else ():
                obj.content |= objects(part)
                obj.anything |= may_be_anything(part)
        self.touch_cells(base, self.key_of(parts, base), write=True, op=op)

    def _write(self, target: Val, value: Val) -> None:
        """Write to all that a value may be, in place: it takes in what another value is, or holds."""
        for obj in objects(target):
            for part in (value, *self.elements_of([value])) if not obj.array else ():
                obj.content |= objects(part)
                obj.anything |= may_be_anything(part)
        self.touch_value(target, write=True)

    def _accumulates(self, found: Accumulation) -> bool:
        """Record an accumulation; False if the statement is to be followed as any other."""
        target = found.target
        if found.function is not None and not _combines(self._quietly(found.function).known):
            return False
        if found.whole and not all(self._is_whole(e) for e in (target, *found.operands)):
            if not found.late or not isinstance(target, ast.Name):
                return False
            found = found._replace(op=f"late {found.op}")
        if isinstance(target, ast.Name):
            return self._accumulate_name(target.id, found)
        if isinstance(target, ast.Attribute):
            return self._accumulate_attribute(target, found)
        if not isinstance(target, ast.Subscript):
            return False
        if found.default:
            return self._accumulate_default(target, found)
        base = self.ev(target.value)
        parts = self.parts_of(target.slice)
        operands = [self.use(self.ev(o)) for o in found.operands]
        if base.view is not None and base.kind == "O":
            return False  # what is in a cell may be changed in place
        if base.view is not None:
            self.accumulate(self.region(base, parts), found.op, operands)
            return True
        if self.own_subscripts(base):
            return True
        held = self._found(base, parts, self.key_of(parts, base)) if base.objs else ANYTHING
        held = self._number_at(base, self.key_of(parts, base)) or held
        if (found.into and not (held.view is not None and _stays(held))) or (
            isinstance(self.at, ast.Assign) and not held.scalar
        ):
            return False
        if not held.scalar and (found.into or isinstance(self.at, ast.AugAssign)):  # it may be changed in place
            if _stays(held):
                self.touch_cells(base, self.key_of(parts, base), write=False)
                self._combine(held, found.op, operands)
                return True
            for value in operands:
                self.use(held)
                self._write(held, value)
        kind = held.kind if held.scalar else None
        op = found.op if kind is not None and kind in NUMERIC and all(_number(o) for o in operands) else None
        key = self.key_of(parts, base)
        self.touch_cells(base, key, write=False, op=op)
        if base.items is None and not base.scalar:
            self.touch_cells(base, key, write=True, op=op)
            for obj in base.objs:
                for value in operands:
                    obj.content |= objects(value)
        return True

    def _accumulate_default(self, target: ast.Subscript, found: Accumulation) -> bool:
        """`d[k] = d.get(k, 0) + x`, for a dict of numbers."""
        self.silent += 1
        base = self.ev(target.value)
        kind = kind_of_numbers(base.known.values()) if base.is_known and type(base.known) is dict else None
        self.silent -= 1
        if kind is None or any(o.content or o.anything for o in base.objs):
            return False
        self.ev(target.value)
        key = self.key_of(self.parts_of(target.slice), base)
        op = found.op if all(_number(self.use(self.ev(o))) for o in found.operands) else None
        for write in (False, True):
            self.touch_cells(base, key, write=write, op=op)
        return True

    def _accumulate_attribute(self, target: ast.Attribute, found: Accumulation) -> bool:
        """`obj.total += x`, for numbers of instances that were there before."""
        self.silent += 1
        base = self.ev(target.value)
        self.silent -= 1
        held = [getattr(o.value, "__dict__", {}).get(target.attr) for o in base.objs]
        own = any(runs_when_set(c, target.attr) or runs_when_read(c, target.attr) for c in classes_of(base.objs))
        if not held or own or base.view is not None or base.anything or any(x is None for x in held):
            return False
        if any(o.array or not o.key for o in base.objs):
            return False
        if found.into or isinstance(self.at, ast.AugAssign):
            value = self._quietly(target)
            if _stays(value) and (value.view is not None or not found.into):
                self.ev(_loaded(target))
                self._combine(value, found.op, [self.use(self.ev(o)) for o in found.operands])
                return True
        if found.into or kind_of_numbers(held) is None:
            return False
        self.ev(target.value)
        op = found.op if all(_number(self.use(self.ev(o))) for o in found.operands) else None
        for write in (False, True):
            self.touch_cells(base, fixed_key(target.attr), write=write, op=op)
        return True

    def _combine(self, held: Val, op: str, operands: Sequence[Val]) -> None:
        """`held += x` for what is changed in place: a list takes in what operands hold, an array is accumulated."""
        if held.view is not None or all(o.array for o in held.objs):
            self.accumulate(held, op, operands)
            return
        self.use(held)
        for value in operands:
            self._write(held, value)

    @staticmethod
    def _number_at(base: Val, key: Expr) -> Val | None:
        """The number in a cell with a fixed key, of a dict whose other cells hold other things."""
        if not base.is_known or type(base.known) is not dict or key.indices:
            return None
        if any(o.content or o.anything for o in base.objs):
            return None
        with contextlib.suppress(Undecided, TypeError):
            at = np.asarray(key.at({}))[()]
            kind = kind_of_numbers([base.known[at]]) if at in base.known else None
            return Val(scalar=True, kind=kind) if kind is not None else None
        return None

    def _quietly(self, node: ast.expr) -> Val:
        self.silent += 1
        value = self.ev(_loaded(node))
        self.silent -= 1
        return value

    def _is_whole(self, node: ast.expr) -> bool:
        value = self._quietly(node)
        return value.kind is not None and value.kind in "bui"

    def _accumulate_name(self, name: str, found: Accumulation) -> bool:
        if name in self.scope.shared or (name not in self.scope.names and self.scope.called):
            return False
        scope = self.scope
        value = scope.names.get(name) or self._quiet(name)
        array = value.view is not None or (bool(value.objs) and all(o.array for o in value.objs))
        if found.into and not array:
            return False
        if array and (found.into or isinstance(self.at, ast.AugAssign)):  # in place
            if value.carried & self.parallel:
                return False
            operands = [self.use(self.ev(o)) for o in found.operands]
            self.accumulate(value, found.op, operands)
            return True
        if not (value.carried & self.parallel & set(self.loops)):
            return False
        numeric = (value.kind or "?") in NUMERIC and (value.scalar or array)
        if not numeric or isinstance((scope.space or {}).get(name), Array):
            return False
        for operand in found.operands:
            self.use(self.ev(operand))
        self.name_use(name, found.op, value.carried)
        scope.names[name] = Val(scalar=value.scalar, kind=value.kind, objs=objects(value), carried=value.carried)
        return True

    def accumulate(self, target: Val, op: str | None, operands: Sequence[Val]) -> None:
        """Record that all of a region is combined with operands."""
        kind = target.kind
        if kind is None or kind not in NUMERIC:
            op = None
        elif kind in "bui" and any(o.kind is None or o.kind not in "bui" for o in operands):
            op = None  # each step would be rounded to an integer
        self.touch_value(target, write=False, op=op)
        self.touch_value(target, write=True, op=op)


def _combines(function: Any) -> bool:
    """Whether it is Python's `max` or `min`, or NumPy's or our own function of two arguments."""
    if function is max or function is min:
        return True
    name = getattr(function, "__name__", "")
    own = getattr(function, "__module__", None) or ""
    return name in UFUNCS and (function is getattr(np, name) or own.split(".")[0] == "tilewise")


def _stays(value: Val) -> bool:
    """Whether operators in place surely leave the same object where it is: arrays and containers that were there."""
    if value.view is not None:
        return bool(value.view.obj.key)
    own = (list, dict, set, collections.deque)
    return (
        bool(value.objs)
        and not value.anything
        and all(o.key and (o.array or any(type(o.value) is c for c in own)) for o in value.objs)
    )


def _number(value: Val) -> bool:
    return value.scalar and value.kind is not None and value.kind in NUMERIC


def _loaded(target: ast.expr) -> ast.expr:
    out = ast.parse(ast.unparse(target), mode="eval").body
    return ast.copy_location(out, target)
