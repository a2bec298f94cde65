"""What loops go over. In: iterables. Out: how often a loop runs, and its element in an iteration."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tilewise.kernel.dependence.expr import (
    Expr,
    choose,
    constant,
    least,
    scale,
)
from tilewise.parfor.walk.evaluate import elements_of
from tilewise.parfor.walk.kept import replace
from tilewise.parfor.walk.places.cells import Cells
from tilewise.parfor.walk.places.subscripts import (
    length_of,
    range_extent,
)
from tilewise.parfor.walk.record import endless
from tilewise.parfor.walk.values import (
    ANYTHING,
    INTEGER,
    Val,
    join,
    objects,
    of_expr,
)

AS_THEY_GO = ("range", "enumerate", "zip", "reversed")  # what these go over is followed
MOST_CHOICES = 16  # of a list that is written out


class Iteration(NamedTuple):
    """A loop: how often it runs, and its element in an iteration."""

    extent: Expr
    element: Callable[[Expr], Val]


class Iterations(Cells):
    """Follows what loops go over."""

    def iterate(self, node: ast.expr) -> Iteration:
        """A loop over an iterable. Its elements are read where `element` is called: inside of the loop."""
        computed = self._computed(node)
        if computed is not None:
            return computed
        if isinstance(node, ast.List):
            node = ast.copy_location(ast.Tuple(node.elts, ast.Load()), node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            function = self.look_up(node.func.id)
            strict = [k for k in node.keywords if k.arg != "strict" or function.known is not zip]
            plain = not strict and not any(isinstance(a, ast.Starred) for a in node.args)
            if plain and function.is_known:
                found = self.iterate_call(function.known, node.args)
                if found is not None:
                    return found
        views = ("items", "keys", "values")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in views:
            held = self.ev(node.func.value)
            if held.is_known and isinstance(held.known, dict):
                return self._over_dict(held, node.func.attr)
        return self.over(self.ev(node))

    def _computed(self, node: ast.expr) -> Iteration | None:
        """A loop over what can be computed now: nothing has been written yet to what an outermost loop goes over."""
        if self.loops or not isinstance(node, ast.Call | ast.List | ast.Tuple):
            return None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in AS_THEY_GO:
            return None
        read = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        values = {name: self._quiet(name) for name in read}
        if any(o.written or o.maybe_written for v in values.values() for o in objects(v)):
            return None
        found = elements_of(node, {name: value.known for name, value in values.items() if value.is_known})
        if found is None:
            return None
        return Iteration(constant(len(found)), lambda at: self.element(found, at, "an element"))

    def _over_dict(self, held: Val, which: str) -> Iteration:
        (obj,) = held.objs
        constant_keys = self.memory.constant(obj)

        def element(at: Expr) -> Val:
            self.touch_object(obj, write=False)
            if not constant_keys:
                return Val(items=(ANYTHING, ANYTHING)) if which == "items" else ANYTHING
            keys = self.element(list(held.known), at, obj.name)
            if which == "keys":
                return keys
            values = self.element(list(held.known.values()), at, obj.name)
            return values if which == "values" else Val(items=(keys, values))

        return Iteration(constant(len(held.known)) if constant_keys else endless(), element)

    def iterate_call(self, function: Any, args: Sequence[ast.expr]) -> Iteration | None:
        """A loop over a range, or over what Python makes of iterables; None for others."""
        if function is range:
            return self._over_range([self.use(self.ev(a)).expr for a in args])
        if function is enumerate and 1 <= len(args) <= 2:
            first = self.use(self.ev(args[1])).expr if len(args) == 2 else constant(0)
            walk = self.iterate(args[0])

            def numbered(at: Expr) -> Val:
                return Val(items=(INTEGER if first is None else of_expr(at + first), walk.element(at)))

            return Iteration(walk.extent, numbered)
        if (function is list or function is tuple or function is sorted) and len(args) == 1:
            held = self._snapshot(args[0])
            if held is not None and (function is not sorted or {type(h) for h in held} in ({int}, {str}, {float})):
                taken = sorted(held) if function is sorted else held
                return Iteration(constant(len(taken)), lambda at: self.element(taken, at, "an element"))
        if function is zip and args:
            walks = [self.iterate(a) for a in args]
            extent = walks[0].extent
            for other in walks[1:]:
                extent = least(extent, other.extent)
            return Iteration(extent, lambda at: Val(items=tuple(w.element(at) for w in walks)))
        if function is reversed and len(args) == 1:
            walk = self.iterate(args[0])
            if walk.extent.integer and walk.extent.hi < 1 << 62:
                return Iteration(walk.extent, lambda at: walk.element(walk.extent - 1 - at))
        return None

    def _snapshot(self, node: ast.expr) -> list[Any] | None:
        """What a container holds where the walk begins, if nothing has been written to it before."""
        part = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
        if self.loops or (isinstance(node, ast.Call) and (part not in ("keys", "values", "items") or node.args)):
            return None
        held = self.ev(node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else node)
        if not held.is_known or type(held.known) not in ((dict,) if part else (dict, list, tuple)):
            return None
        if any(o.written or o.maybe_written for o in held.objs):
            return None
        return list(getattr(held.known, part)() if part else held.known)

    def _over_range(self, given: Sequence[Expr | None]) -> Iteration:
        exprs = [e for e in given if e is not None and e.integer]
        if len(exprs) != len(given) or not 1 <= len(exprs) <= 3:
            return Iteration(endless(), lambda at: INTEGER)
        start, stop = (constant(0), exprs[0]) if len(exprs) == 1 else (exprs[0], exprs[1])
        step = exprs[2] if len(exprs) == 3 else constant(1)
        if not step.constant or step.const == 0:
            return Iteration(endless(), lambda at: INTEGER)
        return Iteration(range_extent(start, stop, step.const), lambda at: of_expr(start + scale(at, step.const)))

    def over(self, value: Val) -> Iteration:
        """A loop over a value."""
        if value.is_known and isinstance(value.known, dict):
            return self._over_dict(value, "keys")
        if value.is_known and type(value.known) in (str, bytes):
            letters = list(value.known)
            return Iteration(constant(len(letters)), lambda at: self.element(letters, at, "an element"))
        length = length_of(value)
        stays = not isinstance(value.known, list) or self.length_read(value)
        if length is None or not stays or (value.is_known and isinstance(value.known, set | frozenset)):
            return Iteration(endless(), lambda at: replace(self.contents(self.use(value)), kind=value.kind))
        if value.items is not None:
            return Iteration(length, lambda at: self._item(value.items or (), at))
        return Iteration(length, lambda at: self.load(value, [of_expr(at)]))

    def _item(self, items: Sequence[Val], at: Expr) -> Val:
        if all(i.is_known for i in items):
            return self.element([i.known for i in items], at, "an element")
        if at.constant and 0 <= at.const < len(items):
            return items[at.const]
        exprs = [i.expr for i in items if i.expr is not None and i.expr.integer and i.kind == "i" and i.narrow is None]
        if len(exprs) == len(items) <= MOST_CHOICES:
            return of_expr(choose(at, exprs))
        total: Val | None = None
        for item in items:
            total = join(total, item)
        return total or Val()
