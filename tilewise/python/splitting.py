"""Statements that are emitted once for each type that a part of them may have. In: a statement, what has several types.

A name that has several types is looked at for each (`Names.each_type`). What has no name (a call, an item of a list)
gets one first, in a statement of its own, and so does what Python evaluates before it: the statement that is left then
reads names only.
"""

from __future__ import annotations

import ast
import copy
from typing import TYPE_CHECKING, Any

from tilewise.kernel.program.ir import Stmt
from tilewise.python import conditions, order, values
from tilewise.python.arrays import subscripts
from tilewise.python.build import Array, Choice, Lazy, Scalar, Value
from tilewise.python.functions import calls
from tilewise.python.functions.nodes import walk
from tilewise.python.names import MOST_SPLITS
from tilewise.python.scope import Dead

if TYPE_CHECKING:
    from tilewise.python.statements import Statements


def call_before(lo: Statements, node: Any, error: calls.Several, done: list[Stmt]) -> Any:
    """Make a call of several types before the rest of a statement, which then has a name for it.

    done: what the statement did before it.
    """
    if (in_arms := _arms(node, error.node)) is not None:
        return in_arms
    if _sheltered(node, error.node) or order.names_meet(node, error.node):
        raise error
    if lo.splitting >= MOST_SPLITS:
        raise error
    lo.b.kept, lo.b.steadily = {}, {}  # what was computed is gone
    before = order.operands_before(node, error.node)
    swapped = operands_first(lo, node, before)
    if swapped is not None:
        return swapped
    if isinstance(node, ast.AugAssign) and node.target in before:
        raise error
    name = f"call@{error.node.lineno}.{error.node.col_offset}"
    lo.scope.locals = lo.scope.locals | {name}
    at = error.node
    full = lo.scope.prefix + name
    start = len(lo.b.block)
    if isinstance(at, ast.IfExp):
        target = ast.copy_location(ast.Name(name, ast.Store()), at)
        arms = [ast.copy_location(ast.Assign([target], v), v) for v in (at.body, at.orelse)]
        lo.statement(ast.copy_location(ast.If(at.test, [arms[0]], [arms[1]]), at))
    elif isinstance(at, ast.BoolOp):
        target = ast.copy_location(ast.Name(name, ast.Store()), at)
        first, rest = (ast.copy_location(ast.Assign([target], v), v) for v in conditions.halves(at))
        test = ast.copy_location(ast.Name(name, ast.Load()), at)
        lo.statement(first)
        choice = ast.If(test, [rest], []) if isinstance(at.op, ast.And) else ast.If(test, [], [rest])
        lo.statement(ast.copy_location(choice, at))
    elif not error.source:  # min or max
        calls.extreme_before(lo, at, full)
    else:
        source = error.source
        try:
            values.value(lo, at)
        except calls.Several as again:
            if again.node is not at:
                raise
            source = again.source
        assert lo.env is not None
        lo.share(source, full)
    if lo.env is None:
        raise Dead
    made = lo.b.block[start:]
    if order.memory_meets(lo, node, at, done, made) or (before and order.acts(made)):
        raise error
    return _swapped(node, {error.node: ast.copy_location(ast.Name(name, ast.Load()), error.node)})


def operands_first(lo: Statements, node: Any, before: list[ast.expr]) -> Any:
    """Give names to what a statement evaluates before a call, in its order; None: there is nothing to name.

    What fails first, or draws the first random number, is then what does in Python.
    """
    if isinstance(node, ast.AugAssign) and node.target in before:
        return element_first(lo, node)
    names: dict[ast.AST, ast.AST] = {}
    for at in before:
        start, env = len(lo.b.block), dict(lo.env or {})
        found = values.value(lo, at)
        if isinstance(found, Scalar | Array | Lazy):
            names[at] = named(lo, at, found)
        else:
            del lo.b.block[start:]
            lo.b.kept, lo.b.steadily, lo.env = {}, {}, env
    return _swapped(node, names) if names else None


def element_first(lo: Statements, node: ast.AugAssign) -> Any:
    """x[i] += value, where x[i] is looked at before the value."""
    target = node.target
    assert isinstance(target, ast.Subscript)
    parts = order.operands_before(ast.Tuple([target.value, target.slice, node.value]), node.value)
    if (swapped := operands_first(lo, node, parts)) is not None:
        return swapped
    base = values.value(lo, target.value)
    index = subscripts.fixed(lo, values.index_of(lo, target.slice))
    old = subscripts.get_item(lo, base, index, node.lineno)
    if isinstance(old, Scalar | Choice):
        value = ast.copy_location(ast.BinOp(named(lo, target, old), node.op, node.value), node)
        return ast.copy_location(ast.Assign([target], value), node)
    if isinstance(old, Array) and not any(isinstance(i, Array | Lazy) for i in index):
        return ast.copy_location(ast.AugAssign(named(lo, target, old), node.op, node.value), node)
    return None


def named(lo: Statements, at: ast.expr, found: Value) -> ast.Name:
    """A name for the value of an expression."""
    name = f"before@{at.lineno}.{at.col_offset}.{at.end_lineno}.{at.end_col_offset}"
    lo.scope.locals = lo.scope.locals | {name}
    lo.bind(name, found, at.lineno)
    return ast.copy_location(ast.Name(name, ast.Load()), at)


class _Swap(ast.NodeTransformer):
    """Puts expressions in the place of others."""

    def __init__(self, new: dict[ast.AST, ast.AST]) -> None:
        self.new = new

    def visit(self, node: ast.AST) -> Any:
        return self.new[node] if node in self.new else self.generic_visit(node)


def _swapped(node: Any, new: dict[ast.AST, ast.AST]) -> Any:
    """A copy of a statement with other expressions in it."""
    return _Swap(new).visit(copy.deepcopy(node, {id(x): x for x in new}))


def _arms(node: ast.AST, part: ast.AST) -> ast.If | None:
    """`x = a if test else b`, where a part of a or b has several types, as two statements; None: it is not."""
    named = isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)
    choice = node.value if isinstance(node, ast.Assign | ast.Return | ast.AugAssign) else None
    if not isinstance(choice, ast.IfExp) or (isinstance(node, ast.AugAssign) and not named):
        return None
    if not any(m is part for m in (*walk(choice.body), *walk(choice.orelse))):
        return None
    one, other = (_swapped(node, {choice: arm}) for arm in (choice.body, choice.orelse))
    return ast.copy_location(ast.If(choice.test, [one], [other]), node)


def _sheltered(node: ast.AST, call: ast.AST) -> bool:
    """Whether a call is made only if something before it in the statement says so."""
    for n in walk(node):
        late: list[ast.AST] = []
        if isinstance(n, ast.BoolOp):
            late = list(n.values[1:])
        elif isinstance(n, ast.IfExp):
            late = [n.body, n.orelse]
        elif isinstance(n, ast.Compare):
            late = list(n.comparators[1:])
        elif isinstance(n, ast.GeneratorExp | ast.ListComp | ast.DictComp | ast.SetComp | ast.Lambda):
            late = [n]
        if any(m is call for part in late for m in walk(part)):
            return True
    return False
