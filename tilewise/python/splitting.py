"""Statements that are emitted once for each type that a part of them may have. In: a statement, what has several types.

A name that has several types is looked at for each (`Names.each_type`). What has no name (a call, an item of a list)
gets one first, in a statement of its own, and so does what Python evaluates before it: the statement that is left then
reads names only.
"""

from __future__ import annotations

import ast
import copy
from typing import TYPE_CHECKING, Any, cast

from tilewise.kernel.program.ir import INT, Const, Expr, Stmt, Var
from tilewise.python import conditions, order, values
from tilewise.python.arrays import subscripts
from tilewise.python.build import ZERO, Array, Choice, Lazy, Scalar, Tuple, Value, compare, pick
from tilewise.python.functions import calls
from tilewise.python.functions.nodes import walk
from tilewise.python.names import MOST_ALTERNATIVES, MOST_SPLITS
from tilewise.python.refuse import Refused
from tilewise.python.scope import Dead
from tilewise.python.types import Num, Tup, Type

if TYPE_CHECKING:
    from tilewise.python.statements import Statements

PART = "part@"  # what names of parts begin with


def named_first(lo: Statements, node: Any) -> list[Any] | None:
    """A statement (or a test) that reads a name of several types, with names for its other parts of several types.

    Emitting it for each type of each part costs their product; what has a name is evaluated once, and costs their sum.
    None: there is nothing to name.
    """
    if lo.probing or any(isinstance(n, ast.NamedExpr) for n in walk(node)):
        return None
    if (apart := _items_apart(lo, node)) is not None:
        return apart
    for at in _untorn(lo, node):
        if not _sheltered(node, at) and _has_several(lo, at):
            before = order.operands_before(node, at)
            if isinstance(node, ast.AugAssign) and node.target in before:
                return None
            return [_swapped(node, {part: _name_of(lo, part) for part in [*before, at]})]
    return None


def _items_apart(lo: Statements, node: Any) -> list[ast.stmt] | None:
    """A tuple that is returned, or assigned to several names, with a name for each of its items."""
    if not isinstance(node, ast.Return | ast.Assign) or not isinstance(node.value, ast.Tuple):
        return None
    items = node.value.elts
    if any(isinstance(e, ast.Starred) for e in items):
        return None
    if isinstance(node, ast.Return):
        if not any(map(_computed, items)):
            return None
        return [_swapped(node, {e: _name_of(lo, e) for e in items if _computed(e)})]
    (target,) = node.targets if len(node.targets) == 1 else (None,)
    if not isinstance(target, ast.Tuple) or len(target.elts) != len(items):
        return None
    if any(isinstance(t, ast.Starred) for t in target.elts):
        return None
    names = [e if isinstance(e, ast.Constant) else _name_of(lo, e) for e in items]
    return [ast.copy_location(ast.Assign([t], v), node) for t, v in zip(target.elts, names, strict=True)]


def _computed(node: ast.expr) -> bool:
    return not isinstance(node, ast.Name | ast.Constant)


def _untorn(lo: Statements, node: ast.AST) -> list[ast.expr]:
    """The largest parts of a statement that may have several types though they read no name that has."""
    if isinstance(node, ast.Lambda | ast.GeneratorExp | ast.ListComp | ast.SetComp | ast.DictComp):
        return []
    if isinstance(node, ast.BinOp | ast.BoolOp | ast.IfExp | ast.Call | ast.Subscript) and lo.torn(node) is None:
        return [] if isinstance(getattr(node, "ctx", None), ast.Store | ast.Del) else [node]
    return [part for inner in order.inside(node) for part in _untorn(lo, inner)]


def _has_several(lo: Statements, at: ast.expr) -> bool:
    """Whether an expression has several types: it is lowered, and what that emits is left out."""
    start, env = len(lo.b.block), dict(lo.env or {})
    lo.probing = True
    try:
        values.value(lo, at)
    except calls.Several:
        return True
    except (Refused, Dead):
        return False
    finally:
        lo.probing = False
        del lo.b.block[start:]
        lo.b.kept, lo.b.steadily, lo.env = {}, {}, env
    return False


def _name_of(lo: Statements, at: ast.expr) -> ast.Name:
    """A name for an expression of any types, which is evaluated now."""
    name = f"{PART}{at.lineno}.{at.col_offset}.{at.end_lineno}.{at.end_col_offset}"
    lo.scope.locals = lo.scope.locals | {name}
    lo.statement(ast.copy_location(ast.Assign([ast.copy_location(ast.Name(name, ast.Store()), at)], at), at))
    if lo.env is None:
        raise Dead
    return ast.copy_location(ast.Name(name, ast.Load()), at)


def forget(lo: Statements, apart: list[Any]) -> None:
    """The parts that statements read which are over: containers among them may be made again."""
    for node in (n for s in apart for n in walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)):
        if node.id.startswith(PART) and lo.env is not None:
            lo.env.pop(lo.scope.prefix + node.id, None)


def choices(lo: Statements, node: ast.Return) -> Tuple | None:
    """A tuple of names of which each is of one of several types, all of them numbers; None: it is no such tuple.

    Few ways are returned one by one, which callers take apart sooner.
    """
    if lo.scope.returns is not None or lo.inner or not isinstance(node.value, ast.Tuple):
        return None
    found: list[Value] = []
    ways = 1
    for e in node.value.elts:
        full = lo.torn(e)
        if full is None:
            if _computed(e):
                return None
            found.append(values.value(lo, e))
            continue
        assert lo.env is not None
        alts = lo.env[full]
        if _computed(e) or not all(map(_of_numbers, alts)):
            return None
        ways *= len(alts)
        tag, which = Var(lo.b.tag_name(full), INT), cast(Expr, ZERO)
        for k, t in enumerate(alts[1:], 1):
            which = pick(compare("equal", tag, lo.b.tag(full, t)), Const(INT, k), which)
        kept = lo.b.keep(which)
        assert isinstance(kept, Var)
        found.append(Choice(tuple(lo.fetch(full, t) for t in alts), kept.name))
    return Tuple(tuple(found)) if ways > MOST_ALTERNATIVES else None


def _of_numbers(t: Type) -> bool:
    return isinstance(t, Num) or (isinstance(t, Tup) and all(map(_of_numbers, t.items)))


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
