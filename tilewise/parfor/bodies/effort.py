"""What a loop would cost the interpreter. In: its syntax tree and the values of names. Out: seconds, roughly.

Operations are counted in the source, times the lengths of the loops around them. Nothing is measured: the same loop on
the same data is always run the same way, so that its bits are the same.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewise.array.handle import Array
from tilewise.python.functions.source import tree_of
from tilewise.python.refuse import Refused

OPERATION_SECONDS = 60e-9  # of Python's interpreter: an operator, a subscript, an assignment
CALL_SECONDS = 500e-9  # of a function
UNKNOWN_LENGTH = 10  # iterations of a loop whose length is not known before
MOST_DEPTH = 4  # of functions that call functions

_OPERATIONS = (ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.Subscript, ast.Attribute, ast.Assign, ast.AugAssign)
_FUNCTIONS: Mapping[str, Any] = {"len": len, "min": min, "max": max, "abs": abs, "range": range, "int": int}


def seconds_of(body: Sequence[ast.stmt], names: Mapping[str, Any], depth: int = 0) -> float:
    """What one run through statements takes, roughly.

    >>> loop = ast.parse("for j in range(1000): s += x[j]").body
    >>> 5e-5 < seconds_of(loop, {}) < 5e-4
    True
    """
    return sum(_of(statement, names, depth) for statement in body)


def _of(node: ast.AST, names: Mapping[str, Any], depth: int) -> float:
    known: float | None = node.__dict__.get("_tw_effort", -1.0)  # None: it depends on names
    if known is None or known >= 0:
        return _counted(node, names, depth) if known is None else known
    seconds = _counted(node, names, depth)
    node.__dict__["_tw_effort"] = seconds if _is_fixed(node) else None
    return seconds


def _is_fixed(node: ast.AST) -> bool:
    """Whether names do not matter: there are no loops in it, and no calls of what may be a function of the program."""
    return not any(
        isinstance(n, ast.For | ast.While) or (isinstance(n, ast.Call) and isinstance(n.func, ast.Name))
        for n in ast.walk(node)
    )


def _counted(node: ast.AST, names: Mapping[str, Any], depth: int) -> float:
    if isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
        return 0.0
    if isinstance(node, ast.For):
        span = evaluated(span_of(node.iter), names)
        length = len(span) if isinstance(span, range | list | tuple | np.ndarray) else UNKNOWN_LENGTH
        inner = dict(names)
        if isinstance(node.target, ast.Name) and isinstance(span, range) and span:
            inner[node.target.id] = span[len(span) // 2]
        return _of(node.iter, names, depth) + length * seconds_of(node.body, inner, depth)
    if isinstance(node, ast.While):
        return UNKNOWN_LENGTH * (_of(node.test, names, depth) + seconds_of(node.body, names, depth))
    own = OPERATION_SECONDS if isinstance(node, _OPERATIONS) else 0.0
    if isinstance(node, ast.Call):
        own = CALL_SECONDS
        called = names.get(node.func.id) if isinstance(node.func, ast.Name) else None
        if isinstance(called, types.FunctionType) and depth < MOST_DEPTH:
            own += _of_function(called, depth + 1)
    return own + sum(_of(child, names, depth) for child in ast.iter_child_nodes(node))


def _of_function(called: types.FunctionType, depth: int) -> float:
    try:
        body = tree_of(called).body
    except Refused:
        return 0.0
    names = called.__globals__
    return seconds_of(body, names, depth) if isinstance(body, list) else _of(body, names, depth)


def span_of(node: ast.expr) -> ast.expr:
    """What a loop goes over, without parfor(...) around it."""
    if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == "parfor":
        if len(node.args) == 1 and isinstance(node.args[0], ast.Call):
            return node.args[0]
        return ast.Call(ast.Name("range", ast.Load()), node.args, [])
    return node


def evaluated(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """The value of an expression of numbers and lengths, or None.

    >>> evaluated(ast.parse("range(1, len(x) + n)", mode="eval").body, {"x": np.zeros(4), "n": 2})
    range(1, 6)
    """
    try:
        return _value(node, names)
    except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError):
        return None


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return names[node.id]
    if isinstance(node, ast.Attribute):
        owner = _value(node.value, names)
        if isinstance(owner, np.ndarray | Array) and node.attr in ("shape", "size", "ndim"):
            return getattr(owner, node.attr)
        raise LookupError(node.attr)
    if isinstance(node, ast.Subscript):
        owner = _value(node.value, names)
        if isinstance(owner, tuple | list):
            return owner[_value(node.slice, names)]
        if isinstance(owner, np.ndarray) and owner.ndim == 1:
            return owner[int(_value(node.slice, names))].item()
        raise LookupError
    if isinstance(node, ast.BinOp | ast.UnaryOp):
        parts = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.operand]
        values = [_value(p, names) for p in parts]
        if not all(isinstance(v, int | float | np.integer) for v in values):
            raise LookupError
        return _OPERATORS[type(node.op).__name__](*values)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        return _FUNCTIONS[node.func.id](*(_value(a, names) for a in node.args))
    raise LookupError(type(node).__name__)


_OPERATORS: Mapping[str, Any] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mult": lambda a, b: a * b,
    "FloorDiv": lambda a, b: a // b,
    "Mod": lambda a, b: a % b,
    "Div": lambda a, b: a / b,
    "USub": lambda a: -a,
    "UAdd": lambda a: a,
}
