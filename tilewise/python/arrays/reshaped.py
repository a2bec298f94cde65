"""x.shape = ... In: a name of an array that no other name stands for. Out: the name, of an array of another shape.

An array that has two names would get another shape under both. Which names stand for one array is not known here, so
the text decides: a name whose array is only read, written and computed with has it alone.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise.python.build import Array, Scalar, Tuple, Value
from tilewise.python.functions.nodes import walk
from tilewise.python.functions.source import tree_of
from tilewise.python.refuse import Refused

if TYPE_CHECKING:
    from tilewise.python.statements import Statements
from tilewise.python import values
from tilewise.python.host import calling

_SHARED = frozenset("asarray asanyarray ascontiguousarray atleast_1d atleast_2d atleast_3d require".split())
_CURE = "Use np.reshape"


def set_shape(lo: Statements, name: ast.Name, shape: Value, line: int) -> None:
    """name.shape = shape"""
    found = values.value(lo, name)
    sizes = shape if isinstance(shape, Tuple) else Tuple((shape,))
    if not isinstance(found, Array) or not all(isinstance(n, Scalar) for n in sizes.items):
        raise Refused("an assignment of a shape", line, _CURE)
    if lo.scope.function is None or name.id not in lo.scope.locals or not _alone(lo.scope.function, name.id):
        raise Refused(f"an assignment of a shape to {name.id}, which may have other names", line, _CURE)
    sample = np.empty((1,) * len(sizes.items), found.t.dtype)
    made = calling.called(
        lo, _reshaped, [found, sizes], {}, line, name="an assignment of a shape", kind=found.t.kind, shown=True,
        result=sample, lengths=calling.new_shape([found, sizes]),
    )  # fmt: skip
    lo.bind(name.id, made, line)


def _reshaped(x: Any, shape: Any) -> Any:
    view = x.view()
    view.shape = shape
    return view


def _alone(function: Any, name: str) -> bool:
    """Whether all that is done with a name gives its array no other, and it takes none from another."""
    tree = tree_of(function)
    if name in {a.arg for a in (*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs)}:
        return False
    results = {id(n.value) for n in walk(tree) if isinstance(n, ast.Return) and isinstance(n.value, ast.Tuple)}
    for node in walk(tree):
        for child in ast.iter_child_nodes(node) if id(node) not in results else ():
            if _is(child, name) and isinstance(child.ctx, ast.Load) and not _harmless(node, child):  # type: ignore[attr-defined]
                return False
        if isinstance(node, ast.Assign) and any(_takes(t, node.value, name) for t in node.targets):
            return False
        if isinstance(node, ast.For) and any(_is(t, name) for t in walk(node.target)):
            return False
    return True


def _is(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _harmless(parent: ast.AST, child: ast.AST) -> bool:
    if isinstance(parent, ast.Call):
        called = parent.func.attr if isinstance(parent.func, ast.Attribute) else ""
        plain = isinstance(parent.func, ast.Name) and parent.func.id in ("len", "abs", "range", "enumerate", "zip")
        return plain or (bool(called) and called not in _SHARED)
    return isinstance(parent, ast.Subscript | ast.BinOp | ast.UnaryOp | ast.Compare | ast.Attribute | ast.Return)


def _takes(target: ast.expr, value: ast.expr, name: str) -> bool:
    """Whether an assignment gives the name an array that has another name."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        return any(_takes(t, v, name) for t, v in zip(target.elts, value.elts, strict=True))
    if isinstance(target, ast.Tuple):
        return any(_is(t, name) for t in target.elts) and not isinstance(value, ast.Subscript)
    return _is(target, name) and isinstance(value, ast.Name | ast.IfExp | ast.BoolOp | ast.NamedExpr)
