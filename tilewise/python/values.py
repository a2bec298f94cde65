"""Expressions. In: syntax trees. Out: values, as expressions of a program; what must run before them is emitted."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise.kernel.program.ir import BOOL, INT, Const, Dim, Expr, If, Set, Stmt, Var
from tilewise.python import arithmetic, arrays, calls
from tilewise.python.build import (
    FALSE,
    TRUE,
    Array,
    Lazy,
    Scalar,
    Sequence_,
    Slice,
    Static,
    Tuple,
    Value,
    negate,
    pick,
)
from tilewise.python.refuse import Refused
from tilewise.python.types import LENGTH, PY_BOOL, Num, Obj, ints, key, merge

if TYPE_CHECKING:
    from tilewise.python.lower import Lower, Scope

OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.MatMult: "@",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
    ast.USub: "-", ast.UAdd: "+", ast.Invert: "~", ast.Not: "not",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Closure:
    """A function defined inside, or a lambda: its tree and where its other names are."""

    node: ast.FunctionDef | ast.Lambda
    scope: Scope
    name: str


def value(lo: Lower, node: ast.expr) -> Value:
    """What an expression gives."""
    how = _EXPRESSIONS.get(type(node))
    if how is None:
        raise Refused(_NAMES.get(type(node), type(node).__name__), node.lineno)
    try:
        return how(lo, node)  # type: ignore[no-any-return]
    except Refused as error:
        error.line = error.line or node.lineno
        raise


def scalar(lo: Lower, found: Value, line: int) -> Scalar:
    """A value that must be a number."""
    if isinstance(found, Scalar):
        return found
    if isinstance(found, Lazy | Array) and found.t.rank == 0:
        return arrays.get_item(lo, found, (), line)  # type: ignore[return-value]
    if isinstance(found, Static) and found.value is None:
        return arithmetic.constant(False)  # as a condition
    if isinstance(found, Array | Lazy):
        raise Refused("an array as a number or condition", line)
    if isinstance(found, Tuple):
        return arithmetic.constant(bool(found.items))
    raise Refused(f"{type(found).__name__.lower()} as a number or condition", line)


def after(lo: Lower, first: Value, act: Callable[[], Value]) -> tuple[Value, Value]:
    """first, evaluated before all that `act` emits; and what act gives."""
    block, at = lo.b.block, len(lo.b.block)
    second = act()
    return spilled(lo, first, block, at), second


def spilled(lo: Lower, first: Value, block: list[Stmt], at: int) -> Value:
    """A value that was computed at some place of a block, where statements have followed."""
    if len(block) == at:
        return first
    if isinstance(first, Scalar) and not isinstance(first.e, Const | Dim):
        name = lo.b.fresh()
        lo.b.names[name] = first.e.dtype
        block.insert(at, Set(name, first.e))
        return Scalar(first.t, Var(name, first.e.dtype))
    if isinstance(first, Tuple):
        return Tuple(tuple(spilled(lo, v, block, at) for v in reversed(first.items))[::-1], first.listed)
    return first


def binary(lo: Lower, op: str, x: Value, y: Value, line: int) -> Value:
    if isinstance(x, Scalar) and isinstance(y, Scalar):
        return arithmetic.binary(lo.b, op, x, y, line)
    if isinstance(x, Scalar | Array | Lazy) and isinstance(y, Scalar | Array | Lazy):
        if op == "@":
            return arrays.product(lo, x, y, line)
        return arrays.elementwise(lo, lambda p, q: arithmetic.binary(lo.b, op, p, q, line), op, (x, y), line)
    if isinstance(x, Tuple) and isinstance(y, Tuple) and op == "+":
        return Tuple(x.items + y.items)
    if isinstance(x, Tuple) and isinstance(y, Scalar) and op == "*" and isinstance(y.e, Const):
        return Tuple(x.items * y.e.value)
    if op in ("==", "!=") and isinstance(x, Static) and isinstance(y, Static):
        return arithmetic.constant((x.value == y.value) == (op == "=="))
    raise Refused(f"{op} of {_type(x)} and {_type(y)}", line)


def _type(v: Value) -> str:
    if isinstance(v, Static):
        return str(Obj(v.value))
    return str(v.t) if isinstance(v, Scalar | Array | Lazy) else type(v).__name__.lower().strip("_")


def _constant(lo: Lower, node: ast.Constant) -> Value:
    if type(node.value) in (bool, int, float, complex):
        return arithmetic.constant(node.value, node.lineno)
    return Static(node.value)


def _name(lo: Lower, node: ast.Name) -> Value:
    if lo.is_local(node.id):
        return lo.read(node.id, node.lineno)
    return outer(lo, node.id, node.lineno)


def outer(lo: Lower, name: str, line: int) -> Value:
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
    return given(lo, found, name, line)


def given(lo: Lower, found: Any, name: str, line: int) -> Value:
    """A value from outside."""
    if type(found) in (bool, int, float, complex) or (isinstance(found, np.generic) and not isinstance(found, np.void)):
        return arithmetic.constant(found, line)
    if type(found) is tuple:
        return Tuple(tuple(given(lo, v, name, line) for v in found))
    if isinstance(found, np.ndarray):
        return lo.watch.captured(lo, found, name, line)  # type: ignore[no-any-return]
    return Static(found)


def _tuple(lo: Lower, node: ast.Tuple | ast.List) -> Value:
    if any(isinstance(e, ast.Starred) for e in node.elts):
        raise Refused("* in a tuple", node.lineno)
    found: list[Value] = []
    for e in node.elts:
        block, at = lo.b.block, len(lo.b.block)
        v = value(lo, e)
        if len(block) > at:
            for k in reversed(range(len(found))):
                found[k] = spilled(lo, found[k], block, at)
        found.append(v)
    return Tuple(tuple(found), isinstance(node, ast.List))


def _bin_op(lo: Lower, node: ast.BinOp) -> Value:
    x, y = after(lo, value(lo, node.left), lambda: value(lo, node.right))
    return binary(lo, OPERATORS[type(node.op)], x, y, node.lineno)


def _unary_op(lo: Lower, node: ast.UnaryOp) -> Value:
    op = OPERATORS[type(node.op)]
    if op == "not":
        return Scalar(PY_BOOL, negate(test(lo, node.operand)))
    x = value(lo, node.operand)
    if isinstance(x, Array | Lazy):
        return arrays.elementwise(lo, lambda p: arithmetic.unary(lo.b, op, p, node.lineno), op, (x,), node.lineno)
    return arithmetic.unary(lo.b, op, scalar(lo, x, node.lineno), node.lineno)


# -- conditions ------------------------------------------------------------------------------------------------------


def test(lo: Lower, node: ast.expr) -> Expr:
    """Whether an expression is true."""
    if isinstance(node, ast.BoolOp):
        return _chain(lo, isinstance(node.op, ast.And), [_later(lo, v) for v in node.values])
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return negate(test(lo, node.operand))
    if isinstance(node, ast.Compare) and len(node.ops) > 1:
        return _compare_chain(lo, node)[0]
    return arithmetic.truth(scalar(lo, value(lo, node), node.lineno))


def _later(lo: Lower, node: ast.expr) -> Callable[[], Expr]:
    return lambda: test(lo, node)


def _chain(lo: Lower, all_: bool, parts: list[Callable[[], Expr]]) -> Expr:
    """and, or: a part is looked at only if those before it have not decided."""
    found = parts[0]()
    for part in parts[1:]:
        if isinstance(found, Const):
            if bool(found.value) != all_:
                return found
            found = part()
            continue
        found = _when(lo, found if all_ else negate(found), part, FALSE if all_ else TRUE)
    return found


def _when(lo: Lower, condition: Expr, part: Callable[[], Expr], otherwise: Expr) -> Expr:
    """part if condition else otherwise; what part emits runs only then."""
    from tilewise.python.lower import Dead

    env = lo.env
    with lo.b.inside() as inner:
        try:
            made = part()
        except Dead:
            lo.env = env
            made = None
    if made is None:
        lo.b.emit(If(condition, tuple(inner)))
        return otherwise
    if not inner:
        return pick(condition, made, otherwise)
    slot = lo.b.fresh("c")
    lo.b.names[slot] = made.dtype
    lo.b.emit(If(condition, (*inner, Set(slot, made)), (Set(slot, otherwise),)))
    return Var(slot, made.dtype)


def _bool_op(lo: Lower, node: ast.BoolOp) -> Value:
    all_ = isinstance(node.op, ast.And)
    first = value(lo, node.values[0])
    if not isinstance(first, Scalar):
        return Scalar(PY_BOOL, test(lo, node))
    rest: ast.expr = node.values[1] if len(node.values) == 2 else ast.copy_location(ast.BoolOp(node.op, node.values[1:]), node)
    first = Scalar(first.t, lo.b.held(first.e))
    kinds: list[Num] = []

    def second() -> Expr:
        found = scalar(lo, value(lo, rest), node.lineno)
        kinds.append(found.t)
        if key(found.t) != key(first.t):
            raise Refused(f"{'and' if all_ else 'or'} of {first.t} and {found.t}", node.lineno)
        return found.e

    truth = arithmetic.truth(first)
    if isinstance(truth, Const) and truth.value == all_:
        return value(lo, rest)
    if isinstance(truth, Const):
        return first
    made = _when(lo, truth if all_ else negate(truth), second, first.e)
    t = merge(first.t, kinds[0]) if kinds else first.t
    return Scalar(t, made)  # type: ignore[arg-type]


def _compare(lo: Lower, node: ast.Compare) -> Value:
    if len(node.ops) > 1:
        made, kinds = _compare_chain(lo, node)
        if len(kinds) > 1:
            raise Refused("a chain of comparisons of Python's and NumPy's numbers", node.lineno)
        return Scalar(kinds.pop(), made)
    return _compared(lo, node.ops[0], node.left, node.comparators[0], node.lineno)[0]


def _compared(
    lo: Lower, op: ast.cmpop, left: ast.expr | Value, right: ast.expr, line: int
) -> tuple[Value, Value]:
    first = value(lo, left) if isinstance(left, ast.expr) else left
    x, y = after(lo, first, lambda: value(lo, right))
    if isinstance(op, ast.Is | ast.IsNot):
        if not (isinstance(y, Static) and y.value is None):
            raise Refused("is of something else than None", line)
        return arithmetic.constant((isinstance(x, Static) and x.value is None) == isinstance(op, ast.Is)), y
    if isinstance(op, ast.In | ast.NotIn):
        return _contained(lo, x, y, isinstance(op, ast.NotIn), line), y
    return binary(lo, OPERATORS[type(op)], x, y, line), y


def _contained(lo: Lower, x: Value, y: Value, absent: bool, line: int) -> Value:
    if isinstance(x, Static) and isinstance(y, Static) and isinstance(y.value, tuple | str | list | dict | set):
        return arithmetic.constant((x.value in y.value) != absent)
    if not isinstance(x, Scalar) or not isinstance(y, Tuple):
        raise Refused("in of something else than a tuple of numbers", line)
    x = Scalar(x.t, lo.b.held(x.e))
    found: Expr = FALSE
    for item in y.items:
        same = arithmetic.truth(arithmetic.binary(lo.b, "==", x, scalar(lo, item, line), line))
        found = pick(found, TRUE, same)
    return Scalar(PY_BOOL, negate(found) if absent else found)


def _compare_chain(lo: Lower, node: ast.Compare) -> tuple[Expr, set[Num]]:
    kinds: set[Num] = set()
    middle: list[Value] = [value(lo, node.left)]

    def link(op: ast.cmpop, right: ast.expr) -> Callable[[], Expr]:
        def act() -> Expr:
            left = middle[-1]
            first, second = after(lo, left, lambda: value(lo, right))
            if isinstance(second, Scalar):
                second = Scalar(second.t, lo.b.held(second.e))
            made = binary(lo, OPERATORS[type(op)], first, second, node.lineno)
            middle.append(second)
            found = scalar(lo, made, node.lineno)
            kinds.add(replace(found.t, lo=0, hi=1))
            return arithmetic.truth(found)

        return act

    return _chain(lo, True, [link(o, c) for o, c in zip(node.ops, node.comparators, strict=True)]), kinds


def _if_exp(lo: Lower, node: ast.IfExp) -> Value:
    condition = test(lo, node.test)
    if isinstance(condition, Const):
        return value(lo, node.body if condition.value else node.orelse)
    return chosen(lo, condition, lambda: value(lo, node.body), lambda: value(lo, node.orelse), node.lineno, node)


def chosen(
    lo: Lower, condition: Expr, yes: Callable[[], Value], no: Callable[[], Value], line: int, node: ast.expr | None
) -> Value:
    """One of two numbers. Of different types, they become what holds both, if nobody sees the difference."""
    from tilewise.python.lower import Dead

    found: list[Scalar | None] = []
    blocks: list[list[Stmt]] = []
    env = lo.env
    for act in (yes, no):
        with lo.b.inside() as block:
            try:
                found.append(scalar(lo, act(), line))
            except Dead:
                found.append(None)
                lo.env = env
        blocks.append(block)
    (x, y), (one, other) = found, blocks
    if x is None or y is None:
        alive = y if x is None else x
        if alive is None:
            raise Dead
        slot = lo.b.fresh("c")
        lo.b.names[slot] = alive.t.dtype
        (other if x is None else one).append(Set(slot, alive.e))
        lo.b.emit(If(condition, tuple(one), tuple(other)))
        return Scalar(alive.t, Var(slot, alive.t.dtype))
    if key(x.t) != key(y.t) and node is not None and not lo.careless:
        raise calls.Several(node, f"a choice of {x.t} or {y.t}", line)
    t, p, q = common(lo, x, y, line, one, other)
    if not one and not other:
        return Scalar(t, pick(condition, p, q))
    slot = lo.b.fresh("c")
    lo.b.names[slot] = t.dtype
    lo.b.emit(If(condition, (*one, Set(slot, p)), (*other, Set(slot, q))))
    return Scalar(t, Var(slot, t.dtype))


def common(lo: Lower, x: Scalar, y: Scalar, line: int, one: list[Stmt], other: list[Stmt]) -> tuple[Num, Expr, Expr]:
    if key(x.t) == key(y.t):
        return merge(x.t, y.t), x.e, y.e  # type: ignore[return-value]
    if x.t.py and y.t.py:
        if "float64" in (x.t.dtype, y.t.dtype) and "complex128" not in (x.t.dtype, y.t.dtype):
            p, q = (arithmetic.as_float(lo.b, arithmetic.as_int(v), line) for v in (x, y))
            return replace(x.t, dtype="float64"), p, q
        p2, q2 = arithmetic.as_int(x), arithmetic.as_int(y)
        return merge(p2.t, q2.t), p2.e, q2.e  # type: ignore[return-value]
    dtype = arithmetic.resolved("add", arithmetic._spec(x), arithmetic._spec(y))[-1]
    return Num(False, dtype), arithmetic.weak(lo.b, x, dtype, line), arithmetic.weak(lo.b, y, dtype, line)


# -- the rest --------------------------------------------------------------------------------------------------------


def _subscript(lo: Lower, node: ast.Subscript) -> Value:
    base = value(lo, node.value)
    if isinstance(base, Static) and isinstance(base.value, tuple | list | dict):
        raise Refused(f"a subscript of a {type(base.value).__name__} from outside", node.lineno)
    return arrays.get_item(lo, base, index_of(lo, node.slice), node.lineno)


def index_of(lo: Lower, node: ast.expr) -> tuple[Value, ...]:
    """The subscripts, in order."""
    found = value(lo, node)
    return found.items if isinstance(found, Tuple) else (found,)


def _slice(lo: Lower, node: ast.Slice) -> Value:
    parts = [None if p is None else value(lo, p) for p in (node.lower, node.upper, node.step)]
    parts = [None if isinstance(p, Static) and p.value is None else p for p in parts]
    return Slice(*parts)


def _attribute(lo: Lower, node: ast.Attribute) -> Value:
    base = value(lo, node.value)
    if isinstance(base, Static):
        if isinstance(base.value, ModuleType):
            lo.watch.name(vars(base.value), node.attr)
            try:
                found = getattr(base.value, node.attr)
            except AttributeError:
                raise Refused(f"{node.attr}, which the module has not", node.lineno) from None
            return calls.member(lo, base.value, node.attr, found, node.lineno)
        if isinstance(base.value, calls.Library) and node.attr in ("outer", "reduce"):
            return Static(calls.Library(base.value.kind, f"{base.value.name}.{node.attr}"))
        raise Refused(f"the attribute {node.attr} of an object", node.lineno, "Give its value as an argument")
    if isinstance(base, Scalar) and node.attr in ("real", "imag"):
        return calls.part(lo, base, node.attr, node.lineno)
    if isinstance(base, Array | Lazy):
        return arrays.attribute(lo, base, node.attr, node.lineno)
    raise Refused(f"the attribute {node.attr}", node.lineno)


def _call(lo: Lower, node: ast.Call) -> Value:
    return calls.call(lo, node)


def _lambda(lo: Lower, node: ast.Lambda) -> Value:
    return Static(Closure(node, lo.scope, "<lambda>"))


def _named(lo: Lower, node: ast.NamedExpr) -> Value:
    found = value(lo, node.value)
    if isinstance(found, Scalar):
        found = Scalar(found.t, lo.b.keep(found.e))
    lo.assign_to(node.target, found, node.lineno)
    return found


def unpacked(lo: Lower, found: Array | Lazy, count: int, line: int) -> Value:
    """a, b = array"""
    held = arrays.materialised(lo, found, line) if isinstance(found, Lazy) else found
    n = arrays.shape_of(held)[0]
    few = lo.b.fault("ValueError", f"not enough values to unpack (expected {count}, got {{0}})", line)
    many = lo.b.fault("ValueError", f"too many values to unpack (expected {count})", line)
    from tilewise.kernel.program.ir import Fail
    from tilewise.python.build import compare

    lo.b.emit(If(compare("less", n, Const(INT, count)), (Fail(few, (n,)),)))
    lo.b.emit(If(compare("greater", n, Const(INT, count)), (Fail(many),)))
    items = [arrays.get_item(lo, held, (arithmetic.constant(k),), line) for k in range(count)]
    return Tuple(tuple(Scalar(i.t, lo.b.keep(i.e)) if isinstance(i, Scalar) else i for i in items))


def iterated(lo: Lower, found: Value, line: int) -> Any:
    """What a loop goes over: a tuple, or (start, stop, step, item of a counter or None)."""
    if isinstance(found, Tuple):
        return found
    if isinstance(found, Sequence_):
        return _iterated_sequence(lo, found, line)
    if isinstance(found, Lazy):
        found = arrays.materialised(lo, found, line)
    if isinstance(found, Array):
        if found.t.rank == 0:
            raise Refused("a loop over a number", line)
        held = lo.settled(found, line)
        n = lo.b.keep(arrays.shape_of(held)[0])  # type: ignore[arg-type]
        length = Scalar(ints(0, LENGTH), n)
        return (
            arithmetic.constant(0), length, arithmetic.constant(1),
            lambda at: arrays.row(lo, held, at.e),
        )  # fmt: skip
    raise Refused(f"a loop over {_type(found)}", line, "Loop over a range or an array")


def _iterated_sequence(lo: Lower, found: Sequence_, line: int) -> Any:
    if found.kind == "range":
        parts = [Scalar(p.t, lo.b.held(p.e)) for p in map(arithmetic.as_int, found.parts)]  # type: ignore[arg-type]
        return (*parts, None)
    zero, one = arithmetic.constant(0), arithmetic.constant(1)
    inner = [iterated(lo, p, line) for p in found.parts]
    if all(isinstance(i, Tuple) for i in inner):
        rows = zip(*(i.items for i in inner), strict=False)
        if found.kind == "zip":
            return Tuple(tuple(Tuple(r) for r in rows))
        if found.kind == "reversed":
            return Tuple(inner[0].items[::-1])
        return Tuple(tuple(Tuple((arithmetic.constant(k), v)) for k, v in enumerate(inner[0].items)))
    if any(isinstance(i, Tuple) for i in inner):
        raise Refused("zip of a tuple and an array", line)
    counts = [_count(lo, i, line) for i in inner]
    if found.kind == "enumerate":
        n = counts[0]
        return zero, n, one, lambda at: Tuple((at, _item(lo, inner[0], at, line)))
    if found.kind == "zip":
        n = counts[0]
        for other in counts[1:]:
            least = min(n.t.hi, other.t.hi)
            n = Scalar(ints(0, least), lo.b.keep(pick(_less(other.e, n.e), other.e, n.e)))
        return zero, n, one, lambda at: Tuple(tuple(_item(lo, i, at, line) for i in inner))
    assert found.kind == "reversed"
    n = counts[0]
    last = arithmetic.binary(lo.b, "-", n, one, line)
    return (
        Scalar(last.t, lo.b.keep(last.e)), arithmetic.constant(-1), arithmetic.constant(-1),
        lambda at: _item(lo, inner[0], at, line),
    )  # fmt: skip


def _less(a: Expr, b: Expr) -> Expr:
    return arithmetic.compare("less", a, b)


def _count(lo: Lower, iteration: Any, line: int) -> Scalar:
    """How many iterations there are."""
    start, stop, step, _ = iteration
    return Scalar(*_kept(lo, calls.range_length(lo, start, stop, step, line)))


def _kept(lo: Lower, s: Scalar) -> tuple[Num, Expr]:
    return s.t, lo.b.keep(s.e)


def _item(lo: Lower, iteration: Any, at: Scalar, line: int) -> Value:
    """What the iteration of this number goes over."""
    start, _, step, item = iteration
    index = arithmetic.binary(lo.b, "+", start, arithmetic.binary(lo.b, "*", at, step, line), line)
    top = max(abs(start.t.lo), abs(start.t.hi), abs(iteration[1].t.lo), abs(iteration[1].t.hi))
    if start.t.lo >= 0 and step.t.lo > 0:
        index = Scalar(ints(start.t.lo, iteration[1].t.hi - 1), index.e)
    elif top < LENGTH:
        index = Scalar(ints(-top, top), index.e)
    return index if item is None else item(index)  # type: ignore[no-any-return]


def exception(lo: Lower, node: ast.Raise) -> tuple[str, str, tuple[Expr, ...]]:
    """Class, message and numbers in it of what is raised."""
    line = node.lineno
    if node.exc is None or node.cause is not None:
        raise Refused("raise without an exception, or from another", line)
    made = node.exc
    kind = value(lo, made.func if isinstance(made, ast.Call) else made)
    if not isinstance(kind, Static) or not isinstance(kind.value, type) or getattr(builtins, kind.value.__name__, None) is not kind.value or not issubclass(kind.value, Exception):
        raise Refused("raise of an exception that is not Python's own", line)
    name = kind.value.__name__
    if not isinstance(made, ast.Call) or not made.args:
        return name, "", ()
    if len(made.args) > 1 or made.keywords:
        raise Refused("an exception of several arguments", line)
    arg = made.args[0]
    parts: list[Expr] = []
    pieces = arg.values if isinstance(arg, ast.JoinedStr) else [arg]
    text = ""
    for p in pieces:
        if isinstance(p, ast.Constant) and isinstance(p.value, str):
            text += p.value.replace("{", "{{").replace("}", "}}")
        elif isinstance(p, ast.FormattedValue) and p.format_spec is None and p.conversion == -1:
            s = scalar(lo, value(lo, p.value), line)
            if not s.t.py or s.t.dtype != INT:
                raise Refused("a message with something else than integers", line)
            text += f"{{{len(parts)}}}"
            parts.append(lo.b.keep(s.e))
        else:
            raise Refused("an exception whose argument is no text", line)
    return name, text, tuple(parts)


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
}
_NAMES: dict[type[ast.expr], str] = {
    ast.Dict: "a dict",
    ast.Set: "a set",
    ast.ListComp: "a list",
    ast.SetComp: "a set",
    ast.DictComp: "a dict",
    ast.GeneratorExp: "a generator",
    ast.Yield: "yield",
    ast.YieldFrom: "yield",
    ast.Await: "await",
    ast.JoinedStr: "an f-string",
    ast.Starred: "* before an argument",
}
_ = BOOL
