"""Names that statements assign to, and values of names where ways through a program meet.

In: syntax trees. Out: names.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from tilewise.kernel.dependence.expr import (
    Index,
)
from tilewise.parfor.walk.kept import inner_nodes, replace
from tilewise.parfor.walk.values import (
    Val,
    join,
    objects,
)

Names = dict[str, Val]
_NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)


def joined(a: Names, b: Names) -> Names:
    """Names after two ways through a program; those that only one has may be left from before."""
    out = {n: join(a[n], b[n]) for n in a.keys() & b.keys()}
    for name in a.keys() ^ b.keys():
        out[name] = a.get(name) or b[name]
    return out


def assigned(body: Sequence[ast.AST], in_place: set[str] | frozenset[str] = frozenset()) -> set[str]:
    """Names that statements assign to."""
    if in_place:
        return _assigned(body, in_place)
    found: set[str] = set()
    for statement in body:
        if "_tw_assigned" not in statement.__dict__:
            statement.__dict__["_tw_assigned"] = _assigned([statement], in_place)
        found |= statement.__dict__["_tw_assigned"]
    return found


def _assigned(body: Sequence[ast.AST], in_place: set[str] | frozenset[str]) -> set[str]:
    found: set[str] = set()
    nodes = inner_nodes(body)
    skipped = {
        id(n.target)
        for n in nodes
        if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name) and n.target.id in in_place
    }
    inner = {
        id(t) for n in nodes if isinstance(n, ast.comprehension) for t in ast.walk(n.target) if isinstance(t, ast.Name)
    }
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del) and id(node) not in skipped | inner:
            found.add(node.id)
        elif isinstance(node, _NAMED):
            found |= {node.name} if node.name else set()
        elif isinstance(node, ast.MatchMapping):
            found |= {node.rest} if node.rest else set()
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {a.asname or a.name.split(".")[0] for a in node.names}
    return found


def is_parfor(node: ast.expr) -> bool:
    """Whether an iterable is `parfor(...)`, by whatever module."""
    if not isinstance(node, ast.Call):
        return False
    return getattr(node.func, "id", getattr(node.func, "attr", None)) == "parfor"


def generator_name(call: ast.Call) -> str | None:
    """The name of the generator that each iteration gets a stream of."""
    for keyword in call.keywords:
        if keyword.arg == "rng" and isinstance(keyword.value, ast.Name):
            return keyword.value.id
    return None


def anew(value: Val) -> Val:
    """A value that is not what it was at entry."""
    return (
        replace(value, known=Val().known, expr=None, items=None, function=None, method=None, group=None, wraps=None)
        if value.view is None
        else replace(value, known=Val().known, group=None)
    )


def stale(value: Val, index: Index) -> Val:
    """A value left from an earlier iteration of a loop: regions that depend on its index may be any."""
    if value.view is None:
        return value
    view = value.view
    used = [view.ident, *view.dims, *(a.length for a in view.axes if a.length is not None)]
    if not any(index in e.indices for e in used):
        return value
    return Val(objs=objects(value), kind=value.kind, carried=value.carried)


def without_inner(value: Val, index: Index) -> Val:
    """A value without objects made in the iterations of a loop: each time through there are others."""
    return replace(value, objs=frozenset(o for o in value.objs if index not in o.born))
