"""Whether a function's loops are for the source or for a trace. In: a function. Out: "elements", "items", "scalars".

A loop over elements (its subscripts hang on the loop, or it ends when something holds) is compiled from the source:
a trace would have every turn of it. Loops whose turns are operations of whole arrays are traced, and rolled again.
"""

from __future__ import annotations

import ast
from functools import lru_cache
from types import CodeType, FunctionType

from tilewise.python.functions.nodes import walk
from tilewise.python.functions.source import parsed
from tilewise.python.refuse import Refused

ITERATORS = frozenset(("enumerate", "zip", "reversed"))


def loops_of(f: FunctionType) -> str:
    """Elements: for the source. Items, scalars: the same, if arrays have one axis, or if no argument is an array.

    Nothing: no loops, or no source.
    """
    return _loops_of(f.__code__)


@lru_cache(maxsize=1024)
def _loops_of(code: CodeType) -> str:
    try:
        tree = parsed(code)
    except Refused:
        return ""
    nodes = walk(tree)
    calls = (n.func for n in nodes if isinstance(n, ast.Call))
    if any(isinstance(n, ast.Name) and n.id == code.co_name for n in calls):
        return "elements"  # it calls itself: a trace would have all of these calls
    loops = [n for n in nodes if isinstance(n, ast.For | ast.While)]
    if not loops:
        return ""
    if any(map(_by_element, loops)):
        return "elements"
    names = {a.arg for a in (*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs)}
    return "items" if any(_over_items(n, names) for n in loops) else "scalars"


def _over_items(loop: ast.For | ast.While, names: set[str]) -> bool:
    """Whether a loop goes through an argument: numbers, if that is an array with one axis."""
    iterated = loop.iter if isinstance(loop, ast.For) else None
    if isinstance(iterated, ast.Call) and isinstance(iterated.func, ast.Name) and iterated.func.id in ITERATORS:
        return any(isinstance(a, ast.Name) and a.id in names for a in iterated.args)
    return isinstance(iterated, ast.Name) and iterated.id in names


def _by_element(loop: ast.For | ast.While) -> bool:
    if isinstance(loop, ast.While):
        return True
    names = {n.id for s in walk(loop) if isinstance(s, ast.For) for n in walk(s.target) if isinstance(n, ast.Name)}
    for n in (n for s in loop.body for n in walk(s)):
        if isinstance(n, ast.Break | ast.Continue):
            return True
        if isinstance(n, ast.Subscript) and any(isinstance(m, ast.Name) and m.id in names for m in walk(n.slice)):
            return True
    return False
