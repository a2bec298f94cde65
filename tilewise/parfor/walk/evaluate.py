"""What a loop goes over, computed before it starts. In: an expression of known values. Out: its elements.

Only functions of NumPy's and Python's are called that look at their arguments and return something new, and only before
anything has been written: the loop will compute the same, and what it writes does not change what it goes over.
"""

from __future__ import annotations

import ast
import builtins
import itertools
import types
from collections.abc import Mapping
from typing import Any

import numpy as np

MOST_ELEMENTS = 1_000_000  # of what is looked at, and of what is found
_NUMPY = tuple(
    getattr(np, name) for name in "arange array argsort argwhere concatenate flatnonzero linspace sort unique".split()
)
_PYTHON = (abs, int, len, list, max, min, range, round, sorted, str, sum, tuple)
_LISTS = (itertools.product, itertools.combinations, itertools.permutations)
_METHODS: Mapping[type, frozenset[str]] = {
    str: frozenset("split splitlines strip lower upper".split()),
    np.ndarray: frozenset("tolist argsort flatten copy".split()),
    dict: frozenset("keys values items".split()),
}
_SYNTAX = (ast.expr_context, ast.operator, ast.unaryop, ast.cmpop, ast.Slice, ast.Constant, ast.Tuple, ast.List)


class _Unknown(Exception):
    """It is not to be computed."""


def elements_of(node: ast.expr, names: Mapping[str, Any]) -> list[Any] | None:
    """The elements of an expression; None if it is not one that can be computed here.

    >>> elements_of(ast.parse("np.flatnonzero(x > 1)", mode="eval").body, {"np": np, "x": np.arange(4)})
    [np.int64(2), np.int64(3)]
    """
    if not isinstance(node, ast.Call | ast.List | ast.Tuple):
        return None
    try:
        _check(node, names)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS[dict]:
            return None  # it shows what the loop does to the dict
        text = compile(ast.fix_missing_locations(ast.Expression(node)), "<elements>", "eval")
        found = eval(text, {"__builtins__": builtins}, dict(names))
        taken = list(itertools.islice(found, MOST_ELEMENTS + 1))
    except Exception:  # the loop itself says what is wrong
        return None
    return taken if len(taken) <= MOST_ELEMENTS else None


def _check(node: ast.AST, names: Mapping[str, Any]) -> None:
    """Raise unless an expression only looks at plain values."""
    if isinstance(node, ast.Call):
        _function(node.func, names)
        if any(k.arg is None for k in node.keywords):
            raise _Unknown
        for inner in (*node.args, *(k.value for k in node.keywords)):
            _check(inner, names)
        return
    if isinstance(node, ast.Name):
        _plain(_named(node.id, names), 3)
        return
    if not isinstance(node, (*_SYNTAX, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Subscript)):
        raise _Unknown
    for child in ast.iter_child_nodes(node):
        _check(child, names)


def _named(name: str, names: Mapping[str, Any]) -> Any:
    if name in names:
        return names[name]
    if not hasattr(builtins, name):
        raise _Unknown
    return getattr(builtins, name)


def _function(node: ast.expr, names: Mapping[str, Any]) -> None:
    """Raise unless a function is one of those that look at their arguments."""
    if isinstance(node, ast.Attribute) and not isinstance(node.value, ast.Name):
        if isinstance(node.value, ast.Constant) and node.attr in _METHODS.get(type(node.value.value), ()):
            return
        raise _Unknown
    if isinstance(node, ast.Attribute):
        owner = _named(node.value.id, names) if isinstance(node.value, ast.Name) else None
        if isinstance(owner, types.ModuleType):
            found = getattr(owner, node.attr, None)
        elif node.attr in _METHODS.get(type(owner), ()):
            _plain(owner, 3)
            return
        else:
            raise _Unknown
    elif isinstance(node, ast.Name):
        found = _named(node.id, names)
    else:
        raise _Unknown
    if not any(found is one for one in (*_NUMPY, *_PYTHON, *_LISTS)):
        raise _Unknown


def _plain(value: Any, depth: int) -> None:
    """Raise unless a value is made of numbers and texts."""
    if type(value) is bool or value is None or type(value) in (int, float, complex, str, bytes, range):
        return
    if isinstance(value, np.number | np.bool_):
        return
    if type(value) is np.ndarray and value.dtype.kind in "biufcU" and value.size <= MOST_ELEMENTS:
        return
    if type(value) in (list, tuple, dict) and depth and len(value) <= MOST_ELEMENTS:
        for one in (*value, *(value.values() if isinstance(value, dict) else ())):
            _plain(one, depth - 1)
        return
    raise _Unknown
