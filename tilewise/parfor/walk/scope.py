"""Names, guards: what the whole walk needs. In: values. Out: `Scope`, `Walk`."""

from __future__ import annotations

import ast
import builtins
import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tilewise.kernel.dependence.expr import (
    Expr,
    computed,
    negate,
    truth,
)
from tilewise.parfor.walk.knowns import Knowns, boxed, fixed_key, objects_of
from tilewise.parfor.walk.own_code import classes_of, compares_contents, has_operators
from tilewise.parfor.walk.values import (
    ANYTHING,
    TEXT,
    Function,
    Obj,
    Val,
    join,
    may_be_anything,
    objects,
)

MOST_REACHED = 1000  # objects


class Scope:
    """The names of a function, or of the program; `outer` are those it can see besides."""

    def __init__(self, names: dict[str, Val], outer: Scope | None = None, space: dict[str, Any] | None = None) -> None:
        self.names = names
        self.outer = outer
        self.space = space  # a module's names, where the values of the walk are none
        self.shared: set[str] = set()  # declared global or nonlocal
        self.returned: Val | None = None
        self.comprehension = False
        self.called = False  # a function that is being followed
        self.loops_outside = 0  # loops around its call


class Walk(Knowns):
    """Names, and what every part of the walk does with values."""

    def ev(self, node: ast.expr) -> Val:
        """The value of an expression."""
        raise NotImplementedError

    def bind(self, target: ast.expr, value: Val) -> None:
        """Assign to a target."""
        raise NotImplementedError

    def defined(self, node: ast.FunctionDef | ast.Lambda, name: str) -> Function:
        """A function that the program defines here."""
        raise NotImplementedError

    scope: Scope

    def look_up(self, name: str) -> Val:
        """The value of a name; reading one that may be left from an earlier iteration is recorded."""
        scope: Scope | None = self.scope
        while scope is not None:
            if name in scope.names:
                value = scope.names[name]
                if value.carried:
                    self.name_use(name, "read", value.carried)
                if value.is_known:
                    self.met(value.known, name)
                return value
            if scope.space is not None and name in scope.space:
                return self.value_of(scope.space[name], name)
            scope = scope.outer
        if hasattr(builtins, name):
            return self.value_of(getattr(builtins, name), name)
        return ANYTHING

    def use(self, value: Val) -> Val:
        """Read all of a value. Operators of classes that users write are calls of what is not known."""
        classes = classes_of(value.objs)
        if value.is_known and not value.scalar:
            classes.add(type(value.known))
        for cls in classes:
            if has_operators(cls):
                self.hazard(cls.__name__, "call", "what the operators of this class do is not known")
        self.touch_value(value, write=False)
        return value

    def use_held(self, values: Sequence[Val]) -> None:
        """What values hold is read, and its operators may run: lists are sorted, compared, searched or printed."""
        for value in values:
            if value.scalar or value.view is not None or (value.objs and all(o.array for o in value.objs)):
                continue
            queue = [self.contents(value)]
            seen: set[Obj] = set()
            while queue and len(seen) < MOST_REACHED:
                held = queue.pop()
                self.use(held)
                for obj in objects(held) - seen:
                    if not obj.array and compares_contents(obj):
                        queue.append(self.contents(Val(objs=frozenset((obj,)))))
                seen |= objects(held)
            if queue:
                self.use(ANYTHING)

    def contents(self, value: Val) -> Val:
        """Anything that may be found in a value."""
        raise NotImplementedError

    def reachable(self, values: Sequence[Val]) -> Val:
        """Anything that can be got from values: what they are, and what they hold."""
        found: set[Obj] = set().union(*(objects(v) for v in values))
        anything = any(map(may_be_anything, values))
        queue = list(found)
        while queue and len(found) < MOST_REACHED:
            obj = queue.pop()
            held = Val(objs=frozenset(obj.content), anything=obj.anything)
            if obj.value is not None:
                held = join(held, self.held_by(obj, obj.value, obj.name))
            anything |= may_be_anything(held)
            queue += [o for o in objects(held) if o not in found]
            found |= objects(held)
        return Val(objs=frozenset(found), anything=anything or bool(queue))

    def made(self, parts: Sequence[Val], array: bool = True, kind: str | None = None, name: str = "a result") -> Val:
        """Something new, which may hold the parts."""
        obj = self.memory.fresh(name, self.born, array)
        if not array:
            for part in parts:
                obj.content |= objects(part)
                obj.anything |= may_be_anything(part)
        return Val(objs=frozenset((obj,)), kind=kind)

    def text_of(self, function: Callable[..., Any], parts: Sequence[Val]) -> Val:
        """A text (or another immutable object) of values that depend on indices only."""
        exprs = [self.object_expr(p) for p in parts]
        if any(e is None for e in exprs):
            return TEXT
        ufunc = np.frompyfunc(function, max(len(parts), 1), 1) if parts else None
        if ufunc is None:
            return TEXT
        made = computed(lambda *xs: objects_of(ufunc(*xs)), [e for e in exprs if e is not None], integer=False)
        return Val(expr=made, scalar=True, kind="U")

    def object_expr(self, value: Val) -> Expr | None:
        """A value that depends on indices only, as a subscript."""
        if value.expr is not None:
            return value.expr
        if value.is_known and value.scalar:
            return fixed_key(value.known) if value.items is None else _fixed_tuple(value.known)
        if value.items is not None:
            parts = [self.object_expr(i) for i in value.items]
            if all(p is not None for p in parts):
                pack = np.frompyfunc(lambda *xs: tuple(xs), len(parts), 1)
                return computed(lambda *xs: objects_of(pack(*xs)), [p for p in parts if p is not None], integer=False)
        return None

    @contextlib.contextmanager
    def under(self, test: Val, holds: bool) -> Iterator[None]:
        """Record as of a place that is reached only where a condition holds (or does not)."""
        kept, unsure = len(self.guards), self.unsure
        self.add_guard(test, holds)
        yield
        del self.guards[kept:]
        self.unsure = unsure

    def add_guard(self, test: Val, holds: bool) -> None:
        """From here on a condition holds (or does not)."""
        if test.expr is not None and test.expr.integer:
            self.guards.append(truth(test.expr) if holds else negate(test.expr))
        else:
            self.unsure += 1

    def _quiet(self, name: str) -> Val:
        self.silent += 1
        value = self.look_up(name)
        self.silent -= 1
        return value


def _fixed_tuple(value: Any) -> Expr:
    box = boxed(value)
    return computed(lambda: box, (), integer=False)
