"""Names that a piece of source reads from where it stands. In: a node. Out: the names, without those of inner scopes.

Comprehensions, lambdas and functions have names of their own (variables, parameters, locals): reading those reads
nothing of the scope around them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from tilewise.parfor.walk.kept import inner_nodes
from tilewise.parfor.walk.names import assigned

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def free_names(node: ast.AST | None) -> set[str]:
    """Names that are read (or deleted) by a node, or by functions that it makes, in the scope around it.

    >>> sorted(free_names(ast.parse("[t + u for t in x]")))
    ['u', 'x']
    """
    if node is None:
        return set()
    known: set[str] | None = node.__dict__.get("_tw_free")
    if known is None:
        known = node.__dict__["_tw_free"] = _free(node)
    return set(known)


def stored_names(target: ast.AST) -> set[str]:
    """Names that a target, or a pattern, binds."""
    found = {n.id for n in ast.walk(target) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    found |= {n.name for n in ast.walk(target) if isinstance(n, ast.MatchAs | ast.MatchStar) and n.name is not None}
    return found | {n.rest for n in ast.walk(target) if isinstance(n, ast.MatchMapping) and n.rest is not None}


def _free(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Name):
        return set() if isinstance(node.ctx, ast.Store) else {node.id}
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        return {node.target.id} | free_names(node.value)
    if isinstance(node, FUNCTIONS):
        return _of_function(node)
    if isinstance(node, COMPREHENSIONS):
        return _of_comprehension(node)
    return _all(ast.iter_child_nodes(node))


def _all(nodes: Iterable[ast.AST | None]) -> set[str]:
    return set().union(*(free_names(n) for n in nodes))


def _of_comprehension(node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> set[str]:
    """The first iterable belongs to the scope around."""
    own = set().union(*(stored_names(g.target) for g in node.generators))
    return free_names(node.generators[0].iter) | (_all(ast.iter_child_nodes(node)) - own)


def _of_function(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> set[str]:
    """Defaults, decorators and annotations belong to the scope around."""
    arguments = node.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every += [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
    outside: list[ast.AST | None] = [*arguments.defaults, *arguments.kw_defaults, *(a.annotation for a in every)]
    body: list[ast.AST] = [node.body] if isinstance(node, ast.Lambda) else list(node.body)
    if not isinstance(node, ast.Lambda):
        outside += [*node.decorator_list, node.returns]
    shared = {name for n in inner_nodes(body) if isinstance(n, ast.Global | ast.Nonlocal) for name in n.names}
    return _all(outside) | (_all(body) - ((assigned(body) | {a.arg for a in every}) - shared))
