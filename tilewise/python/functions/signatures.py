"""Arguments and local names of functions. In: a syntax tree, values. Out: which argument gets which value."""

from __future__ import annotations

import ast
from types import FunctionType
from typing import TYPE_CHECKING, Any

from tilewise.python.build import Value
from tilewise.python.refuse import Refused

if TYPE_CHECKING:
    from tilewise.python.statements import Statements


def locals_of(tree: ast.FunctionDef | ast.Lambda) -> frozenset[str]:
    """The local names of a function: arguments and what is assigned to."""
    a = tree.args
    names = {x.arg for x in (*a.posonlyargs, *a.args, *a.kwonlyargs)}
    todo: list[ast.AST] = list(tree.body) if isinstance(tree, ast.FunctionDef) else [tree.body]
    while todo:
        n = todo.pop()
        if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load):
            names.add(n.id)
        elif isinstance(n, ast.FunctionDef):
            names.add(n.name)
            continue
        elif isinstance(n, ast.Lambda | ast.GeneratorExp | ast.ListComp | ast.DictComp | ast.SetComp):
            continue
        elif isinstance(n, ast.Import | ast.ImportFrom):
            raise Refused("an import inside", n.lineno, "Import at the top of the file")
        todo += ast.iter_child_nodes(n)
    return frozenset(names)


def scope_of(f: FunctionType, tree: ast.FunctionDef | ast.Lambda) -> frozenset[str]:
    """The same, of a function from outside."""
    return locals_of(tree)


def matched(
    lo: Statements, tree: Any, name: str, args: list[Value], options: dict[str, Value], defaults: tuple[Value, ...],
    named: dict[str, Value], line: int,
) -> dict[str, Value]:  # fmt: skip
    """Which argument gets which value."""
    a = tree.args
    if a.vararg is not None or a.kwarg is not None:
        raise Refused(f"{name}, which takes * or ** arguments", line)
    places = [x.arg for x in (*a.posonlyargs, *a.args)]
    found = dict(zip(places, args, strict=False))
    late = dict(zip(places[len(places) - len(defaults) :], defaults, strict=True))
    if (
        len(args) > len(places)
        or not set(options) <= {x.arg for x in (*a.args, *a.kwonlyargs)}
        or set(options) & set(found)
    ):
        raise Refused(f"a call of {name} with other arguments than it takes", line)
    found |= options
    for k, v in {**late, **named}.items():
        found.setdefault(k, v)
    if set(found) != {*places, *(x.arg for x in a.kwonlyargs)}:
        raise Refused(f"a call of {name} with too few arguments", line)
    return found
