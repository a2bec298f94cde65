"""Expressions. In: syntax trees. Out: values, as expressions of a program; what must run before them is emitted."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise.kernel.program.ir import Const, Dim, Expr, Set, Stmt, Var
from tilewise.python.build import (
    FALSE,
    TRUE,
    Array,
    Choice,
    Dict,
    Lazy,
    List,
    Scalar,
    Sequence_,
    Slice,
    Static,
    Tuple,
    Value,
    negate,
)
from tilewise.python.refuse import Refused
from tilewise.python.types import MOST, PY_BOOL, Obj, Unbound

if TYPE_CHECKING:
    from tilewise.python.scope import Scope
    from tilewise.python.statements import Statements
from tilewise.python import conditions, order
from tilewise.python.arrays import attributes, elementwise, subscripts
from tilewise.python.containers import dicts, lists, tuples
from tilewise.python.functions import calls, recursion
from tilewise.python.host import calling
from tilewise.python.host import library as host_library
from tilewise.python.scalars import arithmetic
from tilewise.python.standard import kinds, written

UFUNC_METHODS = frozenset(("outer", "reduce", "accumulate", "reduceat", "at"))
OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.MatMult: "@",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
    ast.USub: "-", ast.UAdd: "+", ast.Invert: "~", ast.Not: "not",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Closure:
    """A function defined inside, or a lambda: its tree and where its other names are.

    known: the defaults that are known when compiling; others were given names where it was defined.
    """

    node: ast.FunctionDef | ast.Lambda
    scope: Scope
    name: str
    known: dict[ast.expr, Value] = field(default_factory=dict)


def value(lo: Statements, node: ast.expr) -> Value:
    """What an expression gives."""
    how = _EXPRESSIONS.get(type(node))
    if how is None:
        raise Refused(_NAMES.get(type(node), type(node).__name__), node.lineno)
    start = len(lo.b.block)
    try:
        found: Value = how(lo, node)
        return recursion.one_of(lo, found, "an item that is", node, start) if isinstance(found, Choice) else found
    except Refused as error:
        error.line = error.line or node.lineno
        raise


def scalar(lo: Statements, found: Value, line: int) -> Scalar:
    """A value that must be a number."""
    if isinstance(found, Scalar):
        return found
    if isinstance(found, Lazy | Array) and found.t.rank == 0:
        return subscripts.get_item(lo, found, (), line)  # type: ignore[return-value]
    if isinstance(found, Array | Lazy):
        raise Refused("an array as a number or condition", line)
    if isinstance(found, Static) and type(found.value) is int:
        return arithmetic.constant(found.value, line)  # which says what is wrong with it
    if isinstance(found, Tuple) and found.listed:
        raise Refused("a list, perhaps of lists, as a number or condition", line, "Use an array with more axes")
    raise Refused(f"{type_text(found)} as a number or condition", line)


def truth_of(lo: Statements, found: Value, line: int) -> Expr:
    """Whether a value is true: that of None and of a tuple is known here."""
    if isinstance(found, Static) and found.value is None:
        return FALSE
    if isinstance(found, List):
        return arithmetic.truth(lists.length(lo, found))
    if isinstance(found, Dict):
        return arithmetic.truth(dicts.length(found))
    if isinstance(found, Tuple):
        lo.settled(found, line)
        return TRUE if found.items else FALSE
    return arithmetic.truth(scalar(lo, found, line))


def after(lo: Statements, first: Value, act: Callable[[], Value], line: int) -> tuple[Value, Value]:
    """first, evaluated before all that `act` emits; and what act gives."""
    block, at = lo.b.block, len(lo.b.block)
    second = act()
    return spilled(lo, first, block, at, line), second


def spilled(lo: Statements, first: Value, block: list[Stmt], at: int, line: int) -> Value:
    """A value that was computed at some place of a block, where statements have followed."""
    if len(block) == at:
        return first
    if isinstance(first, Scalar) and not isinstance(first.e, Const | Dim):
        name = lo.b.fresh()
        lo.b.names[name] = first.e.dtype
        block.insert(at, Set(name, first.e))
        return Scalar(first.t, Var(name, first.e.dtype))
    if isinstance(first, Tuple):
        return Tuple(tuple(all_spilled(lo, first.items, block, at, line)), first.listed)
    if isinstance(first, Slice):
        ends: Any = (first.start, first.stop, first.step)
        return Slice(*all_spilled(lo, ends, block, at, line))
    if isinstance(first, Sequence_):
        return Sequence_(first.kind, tuple(all_spilled(lo, first.parts, block, at, line)))
    if isinstance(first, Lazy) and first.shown is None:
        read = frozenset().union(*(lo.b.roots[r] for r in first.reads))
        if read & order.written(lo, block[at:]):
            with lo.b.inside() as before:
                lo.b.kept, lo.b.steadily = {}, {}  # what was computed after it
                made = elementwise.materialised(lo, first, line)
            block[at:at] = before
            return made
    return first


def all_spilled(lo: Statements, first: Sequence[Value], block: list[Stmt], at: int, line: int) -> list[Value]:
    """Values that were computed at some place of a block, one after the other."""
    found: dict[int, Value] = {}  # what is there twice stays one
    for v in reversed(first):  # each is inserted before those after it
        if id(v) not in found:
            found[id(v)] = spilled(lo, v, block, at, line)
    return [found[id(v)] for v in first]


def in_order(lo: Statements, nodes: Sequence[ast.expr], line: int) -> list[Value]:
    """What expressions give, each evaluated before those after it."""
    found: list[Value] = []
    block = lo.b.block
    for node in nodes:
        at = len(block)
        v = value(lo, node)
        found = [*all_spilled(lo, found, block, at, line), v]
    return found


def binary(lo: Statements, op: str, x: Value, y: Value, line: int, node: ast.AST | None = None) -> Value:
    """x op y; node: where that is written."""
    numbers = isinstance(x, Scalar) and isinstance(y, Scalar)
    if op == "/" and node is not None and numbers and arithmetic.inexact(x, y):  # type: ignore[arg-type]
        return calls.of_written(lo, written.quotient, [x, y], {}, node)
    column = getattr(node, "col_offset", 0)
    return lo.native_or(lambda: _binary(lo, op, x, y, line, column), lambda: host_library.operation(lo, op, x, y, line))


def zero_dimensional(lo: Statements, operands: Sequence[Value], line: int) -> list[Value]:
    """Operands of an operation: arrays without axes are numbers in it, if there are no others."""
    if any(isinstance(v, Array | Lazy) and v.t.rank for v in operands):
        return list(operands)
    return [scalar(lo, v, line) if isinstance(v, Array | Lazy) else v for v in operands]


def _binary(lo: Statements, op: str, x: Value, y: Value, line: int, column: int) -> Value:
    x, y = zero_dimensional(lo, (x, y), line)
    if isinstance(x, Scalar) and isinstance(y, Scalar):
        return arithmetic.binary(lo.b, op, x, y, line)
    if isinstance(x, Scalar | Array | Lazy) and isinstance(y, Scalar | Array | Lazy):
        if op == "@":
            return attributes.product(lo, x, y, line)
        return elementwise.elementwise(lo, lambda p, q: arithmetic.binary(lo.b, op, p, q, line), op, (x, y), line)
    if isinstance(x, Tuple) and isinstance(y, Tuple) and op in tuples.COMPARISONS:
        return tuples.compared(lo, op, x, y, line)
    if isinstance(x, Tuple) and isinstance(y, Tuple) and op == "+":
        if x.listed != y.listed:
            raise Refused("+ of a list and a tuple", line)
        return Tuple(x.items + y.items, x.listed)
    if isinstance(x, Tuple) and isinstance(y, Scalar) and op == "*" and isinstance(y.e, Const) and y.t.whole:
        return Tuple(lo.settled(x, line).items * int(y.e.value), x.listed)  # type: ignore[union-attr]
    if isinstance(x, Tuple) and x.listed and isinstance(y, Scalar) and op == "*":
        return lists.repeated(lo, x, y, line, column)
    if op in ("==", "!=") and isinstance(x, Static) and isinstance(y, Static):
        same = kinds.equal(x, y, line)
        return same if op == "==" else Scalar(same.t, negate(same.e))
    if op == "|" and isinstance(x, Static) and isinstance(y, Static):
        return kinds.either(x, y, line)
    for v in (x, y):
        if isinstance(v, Static) and type(v.value) is int:
            scalar(lo, v, line)  # says what is wrong with it
    raise Refused(f"{op} of {type_text(x)} and {type_text(y)}", line)


def type_text(v: Value) -> str:
    if isinstance(v, Static):
        return str(Obj(v.value)).strip()
    return str(v.t) if isinstance(v, Scalar | Array | Lazy) else type(v).__name__.lower().strip("_")


def _constant(lo: Statements, node: ast.Constant) -> Value:
    small = type(node.value) is int and node.value <= MOST  # larger ones are no numbers until np.uint64 takes them
    if small or type(node.value) in (bool, float, complex):
        return arithmetic.constant(node.value, node.lineno)
    return Static(node.value)


def _name(lo: Statements, node: ast.Name) -> Value:
    if lo.is_local(node.id):
        return lo.read(node.id, node.lineno)
    return outer(lo, node.id, node.lineno)


def outer(lo: Statements, name: str, line: int) -> Value:
    """A name from outside of the function, as it is now; it is watched."""
    scope: Any = lo.scope
    while scope.function is None:
        scope = scope.parent
    f: FunctionType = scope.function
    cells = dict(zip(f.__code__.co_freevars, f.__closure__ or (), strict=True))
    if name in cells:
        try:
            found = cells[name].cell_contents
        except ValueError:
            raise Refused(f"{name}, which has no value yet", line) from None
        lo.watch.cell(cells[name])
    else:
        lo.watch.name(f.__globals__, name)
        if name in f.__globals__:
            found = f.__globals__[name]
        elif hasattr(builtins, name):
            lo.watch.name(vars(builtins), name)
            found = getattr(builtins, name)
        else:
            raise Refused(f"{name}, which has no value", line)
    number: Value | None = lo.watch.number(lo, found)
    return given(lo, found, name, line) if number is None else number


def given(lo: Statements, found: Any, name: str, line: int) -> Value:
    """A value from outside."""
    if type(found) is int and found > MOST:
        return Static(found)
    if type(found) in (bool, int, float, complex) or (isinstance(found, np.generic) and not isinstance(found, np.void)):
        return arithmetic.constant(found, line)
    if type(found) is tuple:
        return Tuple(tuple(given(lo, v, name, line) for v in found))
    if isinstance(found, np.ndarray):
        return lo.watch.captured(lo, found, name, line)  # type: ignore[no-any-return]
    return Static(found)


def _tuple(lo: Statements, node: ast.Tuple | ast.List) -> Value:
    if any(isinstance(e, ast.Starred) for e in node.elts):
        raise Refused("* in a tuple", node.lineno)
    return Tuple(tuple(in_order(lo, node.elts, node.lineno)), isinstance(node, ast.List))


def _bin_op(lo: Statements, node: ast.BinOp) -> Value:
    x, y = after(lo, value(lo, node.left), lambda: value(lo, node.right), node.lineno)
    return binary(lo, OPERATORS[type(node.op)], x, y, node.lineno, node)


def _unary_op(lo: Statements, node: ast.UnaryOp) -> Value:
    op = OPERATORS[type(node.op)]
    if op == "not":
        return Scalar(PY_BOOL, negate(conditions.test(lo, node.operand)))
    (x,) = zero_dimensional(lo, (value(lo, node.operand),), node.lineno)
    if isinstance(x, Array | Lazy):
        return elementwise.elementwise(lo, lambda p: arithmetic.unary(lo.b, op, p, node.lineno), op, (x,), node.lineno)
    return arithmetic.unary(lo.b, op, scalar(lo, x, node.lineno), node.lineno)


def _subscript(lo: Statements, node: ast.Subscript) -> Value:
    base = value(lo, node.value)
    grid: Any = (
        getattr(base.value, "source", base.value) if isinstance(base, Static) else None
    )  # ours are made of NumPy's
    if any(grid is g for g in (np.mgrid, np.ogrid)):
        assert isinstance(base, Static)
        name = "np.mgrid" if grid is np.mgrid else "np.ogrid"
        kind = "numpy" if grid is base.value else "tilewise"
        return calling.called(lo, grid.__getitem__, [value(lo, node.slice)], {}, node.lineno, name=name, kind=kind)
    if isinstance(base, Static) and isinstance(base.value, tuple | list | dict):
        raise Refused(f"a subscript of a {type(base.value).__name__} from outside", node.lineno)
    block, at = lo.b.block, len(lo.b.block)
    index = index_of(lo, node.slice)
    if isinstance(base, List) and isinstance(index[0], Slice) and len(index) == 1:
        return lists.part(lo, base, index[0], node)
    return subscripts.get_item(lo, spilled(lo, base, block, at, node.lineno), index, node.lineno)


def index_of(lo: Statements, node: ast.expr) -> tuple[Value, ...]:
    """The subscripts, in order."""
    found = value(lo, node)
    items = found.items if isinstance(found, Tuple) and not found.listed else (found,)
    return tuple(attributes.from_list(lo, i, node.lineno) if isinstance(i, Tuple) else i for i in items)


def _slice(lo: Statements, node: ast.Slice) -> Value:
    given = (node.lower, node.upper, node.step)
    found = iter(in_order(lo, [p for p in given if p is not None], node.lineno))
    parts = [None if p is None else next(found) for p in given]
    return Slice(*(None if isinstance(p, Static) and p.value is None else p for p in parts))


def _attribute(lo: Statements, node: ast.Attribute) -> Value:
    base = value(lo, node.value)
    if isinstance(base, Static):
        if isinstance(base.value, ModuleType):
            lo.watch.name(vars(base.value), node.attr)
            try:
                found = getattr(base.value, node.attr)
            except AttributeError:
                raise Refused(f"{node.attr}, which the module has not", node.lineno) from None
            return calls.member(lo, base.value, node.attr, found, node.lineno)
        if isinstance(base.value, np.dtype) and node.attr in kinds.OF_DTYPES:
            return kinds.attribute_of_dtype(base.value, node.attr)
        if isinstance(base.value, np.finfo | np.iinfo) and hasattr(base.value, node.attr):
            return given(lo, getattr(base.value, node.attr), node.attr, node.lineno)
        if isinstance(base.value, calls.Library) and node.attr in UFUNC_METHODS:
            return Static(calls.Library(base.value.kind, f"{base.value.name}.{node.attr}"))
        raise Refused(f"the attribute {node.attr} of an object", node.lineno, "Give its value as an argument")
    if isinstance(base, Scalar) and node.attr in ("real", "imag"):
        return calls.part(lo, base, node.attr, node.lineno)
    if isinstance(base, Array | Lazy):
        return attributes.attribute(lo, base, node.attr, node.lineno)
    raise Refused(f"the attribute {node.attr}", node.lineno)


def _bool_op(lo: Statements, node: ast.BoolOp) -> Value:
    return conditions.bool_op(lo, node)


def _compare(lo: Statements, node: ast.Compare) -> Value:
    return conditions.compare(lo, node)


def _if_exp(lo: Statements, node: ast.IfExp) -> Value:
    return conditions.if_exp(lo, node)


def _call(lo: Statements, node: ast.Call) -> Value:
    return calls.call(lo, node)


def _lambda(lo: Statements, node: ast.Lambda) -> Value:
    return closure(lo, node, "<lambda>")


def closure(lo: Statements, node: ast.FunctionDef | ast.Lambda, name: str) -> Static:
    """A function that is defined here: its defaults are evaluated now."""
    known: dict[ast.expr, Value] = {}
    for at in (*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)):
        found = value(lo, at)
        if isinstance(found, Static) or (isinstance(found, Scalar) and isinstance(found.e, Const)):
            known[at] = found
        else:
            lo.bind(_default_name(lo.scope, at), found, at.lineno, full=True)
    return Static(Closure(node, lo.scope, name, known))


def default(lo: Statements, of: Closure, node: ast.expr) -> Value:
    """What a default was where the function was defined."""
    if node in of.known:
        return of.known[node]
    assert lo.env is not None
    full = _default_name(of.scope, node)
    alts = lo.env.get(full, ())
    if len(alts) != 1 or isinstance(alts[0], Unbound):
        raise Refused(f"a default of {of.name}, which has no one type where that is called", node.lineno)
    return lo.fetch(full, alts[0])


def _default_name(scope: Scope, node: ast.expr) -> str:
    return f"{scope.prefix}default@{node.lineno}.{node.col_offset}"


def _list_comp(lo: Statements, node: ast.ListComp) -> Value:
    return lists.comprehended(lo, node)


def _dict(lo: Statements, node: ast.Dict | ast.Set) -> Value:
    items: list[tuple[Value, Value | None]] = []
    if isinstance(node, ast.Dict):
        if any(k is None for k in node.keys):
            raise Refused("** in a dict", node.lineno)
        for k, v in zip(node.keys, node.values, strict=True):
            first, second = lo.settled(value(lo, k), node.lineno), value(lo, v)  # type: ignore[arg-type]
            items.append((first, lo.settled(second, node.lineno)))
    else:
        items = [(lo.settled(value(lo, e), node.lineno), None) for e in node.elts]
    name = f"{lo.scope.prefix}dict{node.col_offset}"
    return dicts.made(lo, items, name, node.lineno, members=isinstance(node, ast.Set))


def _dict_comp(lo: Statements, node: ast.DictComp | ast.SetComp) -> Value:
    return dicts.comprehended(lo, node)


def _named(lo: Statements, node: ast.NamedExpr) -> Value:
    found = lo.settled(value(lo, node.value), node.lineno)
    lo.assign_to(node.target, found, node.lineno)
    return found


_EXPRESSIONS: dict[type[ast.expr], Any] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Tuple: _tuple,
    ast.List: _tuple,
    ast.BinOp: _bin_op,
    ast.UnaryOp: _unary_op,
    ast.BoolOp: _bool_op,
    ast.Compare: _compare,
    ast.IfExp: _if_exp,
    ast.Subscript: _subscript,
    ast.Slice: _slice,
    ast.Attribute: _attribute,
    ast.Call: _call,
    ast.Lambda: _lambda,
    ast.NamedExpr: _named,
    ast.ListComp: _list_comp,
    ast.Dict: _dict,
    ast.Set: _dict,
    ast.DictComp: _dict_comp,
    ast.SetComp: _dict_comp,
}
_NAMES: dict[type[ast.expr], str] = {
    ast.GeneratorExp: "a generator",
    ast.Yield: "yield",
    ast.YieldFrom: "yield",
    ast.Await: "await",
    ast.JoinedStr: "an f-string",
    ast.Starred: "* before an argument",
}
