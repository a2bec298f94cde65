"""What a loop leaves in things that outlive an iteration. In: a walk, objects that are written to. Out: what they hold.

Workers have what they accumulate, and the names of an iteration, for themselves: what is left in a list, and read by
it after the loop, would show theirs. Functions hold what their names stand for.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable
from typing import NamedTuple

from tilewise.parfor.walk.calls.functions import Functions
from tilewise.parfor.walk.scope import Scope
from tilewise.parfor.walk.values import Function, Obj, Val, may_be_anything, objects


class Held(NamedTuple):
    """What can be reached: objects, names of the loop that functions read when they are called, or anything."""

    objs: frozenset[Obj]
    names: frozenset[str]
    anything: bool


def held_by(walk: Functions, holders: Iterable[Obj], assigned: Collection[str]) -> Held:
    """What was put into some objects, and into what lies in them. `assigned`: names that the loop assigns to."""
    found: set[Obj] = set()
    names: set[str] = set()
    queue = list(holders)
    anything = any(obj.anything for obj in queue)
    while queue:
        obj = queue.pop()
        inner = set(obj.content)
        if obj.function is not None:
            read = _read_later(walk, obj.function, assigned)
            inner |= read.objs
            names |= read.names
            anything |= read.anything
        queue += inner - found
        found |= inner
        anything |= any(o.anything for o in inner)
    return Held(frozenset(found), frozenset(names), anything)


def _read_later(walk: Functions, function: Function, assigned: Collection[str]) -> Held:
    """What the names of a function stand for when the loop is over; those of the loop itself by name."""
    objs: set[Obj] = set()
    names: set[str] = set()
    anything = False
    values = [value for _, value in function.defaults]
    for name in free_names(function.node):
        scope: Scope | None = function.scope
        while scope is not None and name not in scope.names and name not in (scope.space or ()):
            scope = scope.outer
        if (scope is None or scope is walk.root) and name in assigned:
            names.add(name)
        elif scope is not None:
            values.append(_value_in(walk, scope, name))
    for value in values:
        objs |= objects(value)
        anything |= may_be_anything(value)
    return Held(frozenset(objs), frozenset(names), anything)


def _value_in(walk: Functions, scope: Scope, name: str) -> Val:
    kept, walk.scope = walk.scope, scope
    walk.silent += 1
    value = walk.look_up(name)
    walk.silent -= 1
    walk.scope = kept
    return value


def free_names(node: ast.FunctionDef | ast.Lambda) -> set[str]:
    """Names that a function reads from outside.

    >>> sorted(free_names(ast.parse("lambda x: [v + a for v in x] + (lambda b: b + c)(x)", mode="eval").body))
    ['a', 'c']
    """
    given = node.args
    own = {a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg) if a}
    read: set[str] = set()
    queue: list[ast.AST] = [*node.body] if isinstance(node.body, list) else [node.body]
    while queue:
        inner = queue.pop()
        if isinstance(inner, ast.FunctionDef | ast.Lambda):
            read |= free_names(inner)
            if isinstance(inner, ast.FunctionDef):
                own.add(inner.name)
            queue += [*inner.args.defaults, *(d for d in inner.args.kw_defaults if d is not None)]
            continue
        if isinstance(inner, ast.Name):
            (read if isinstance(inner.ctx, ast.Load) else own).add(inner.id)
        queue += ast.iter_child_nodes(inner)
    return read - own
