"""Accumulations that write to arrays. In: a loop, the values of its names. Out: under which names arrays are written.

`s += x` writes to the array that s is, so s stays that array after the loop, and whoever else has it sees the sum.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tilewise.parfor.plan.values import root_of

Array = np.ndarray[Any, Any]


def in_place(node: ast.For, names: frozenset[str], given: Mapping[str, Any], arrays: Sequence[Any]) -> frozenset[str]:
    """Of names that a body assigns, those that are always one of some arrays, or a view of one."""
    known = {id(a) for a in arrays}
    values = {n: given.get(n) for n in names - _rebound(node)}
    roots = {n: root_of(v) if isinstance(v, np.ndarray) else v for n, v in values.items()}
    return frozenset(n for n in values if {id(values[n]), id(roots[n])} & known)


def _rebound(node: ast.For) -> set[str]:
    """Names that a loop assigns to in other ways than by `+=` and its like; found once."""
    found: set[str] | None = node.__dict__.get("_tw_rebound")
    if found is None:
        augmented = {id(n.target) for n in ast.walk(node) if isinstance(n, ast.AugAssign)}
        stored = (n for n in ast.walk(node) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load))
        found = node.__dict__["_tw_rebound"] = {n.id for n in stored if id(n) not in augmented}
    return found


def hidden(node: ast.For, names: Mapping[str, Any], given: Mapping[str, Any], arrays: Sequence[Array]) -> bool:
    """Whether the body reaches one of some arrays by more than one name: threads cannot have one of their own."""
    if not arrays:
        return False
    read = {n.id for part in node.body for n in ast.walk(part) if isinstance(n, ast.Name)}
    others = [x for name in read - given.keys() if name in names for x in _reached(names[name], set())]
    shown = [x for value in given.values() for x in _reached(value, set())]
    for array in arrays:
        direct = sum(value is array for value in given.values())
        if direct != 1 or sum(root_of(x) is root_of(array) for x in (*shown, *others)) > 1:
            return True
    return False


def _reached(value: Any, seen: set[int]) -> Iterator[Array]:
    """Arrays that a value leads to: by functions, containers and attributes."""
    if isinstance(value, np.ndarray):
        yield value
    if id(value) in seen or isinstance(value, types.ModuleType | type):
        return
    seen.add(id(value))
    inner: list[Any] = []
    if isinstance(value, types.FunctionType):
        inner = [*(c.cell_contents for c in value.__closure__ or () if _filled(c)), *(value.__defaults__ or ())]
        inner += [value.__globals__[n] for n in _names(value.__code__) if n in value.__globals__]
    elif isinstance(value, types.MethodType):
        inner = [value.__self__, value.__func__]
    elif isinstance(value, dict):
        inner = list(value.values())
    elif isinstance(value, list | tuple | set | frozenset):
        inner = list(value)
    elif not type(value).__module__.startswith(("numpy", "tilewise")):
        inner = list(getattr(value, "__dict__", {}).values())
    for x in inner:
        yield from _reached(x, seen)


def _names(code: types.CodeType) -> set[str]:
    inner = (c for c in code.co_consts if isinstance(c, types.CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True
