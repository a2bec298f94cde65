"""Conditions and choices. In: trees. Out: bools, numbers; what is not chosen is not evaluated."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING

from tilewise.kernel.program.ir import Const, Expr, If, Set, Stmt, Var
from tilewise.python.build import FALSE, TRUE, Array, Dict, Lazy, List, Scalar, Static, Tuple, Value, negate, pick
from tilewise.python.refuse import Refused
from tilewise.python.scope import Dead
from tilewise.python.types import PY_BOOL, Num, key, merge

if TYPE_CHECKING:
    from tilewise.python.statements import Statements
from tilewise.python import values
from tilewise.python.containers import dicts, lists
from tilewise.python.functions import calls
from tilewise.python.scalars import arithmetic, stored
from tilewise.python.standard import kinds, written_dicts, written_lists


def test(lo: Statements, node: ast.expr) -> Expr:
    """Whether an expression is true."""
    if isinstance(node, ast.BoolOp):
        return _chain(lo, isinstance(node.op, ast.And), [_later(lo, v) for v in node.values])
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return negate(test(lo, node.operand))
    if isinstance(node, ast.Compare) and len(node.ops) > 1:
        return _compare_chain(lo, node)[0]
    return values.truth_of(lo, values.value(lo, node), node.lineno)


def _later(lo: Statements, node: ast.expr) -> Callable[[], Expr]:
    return lambda: lo.condition(node)


def _chain(lo: Statements, all_: bool, parts: list[Callable[[], Expr]]) -> Expr:
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


def _when(lo: Statements, condition: Expr, part: Callable[[], Expr], otherwise: Expr) -> Expr:
    """part if condition else otherwise; what part emits runs only then."""
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


def bool_op(lo: Statements, node: ast.BoolOp) -> Value:
    """a and b, a or b: one of the two."""
    all_, careless = isinstance(node.op, ast.And), lo.careless
    one, rest = halves(node)
    first = last(lo, one, careless)
    if not isinstance(first, Scalar):
        if not isinstance(first, Tuple | Static):
            raise Refused(f"{'and' if all_ else 'or'} of {values.type_text(first)}", node.lineno)
        first = lo.settled(first, node.lineno)
        known = values.truth_of(lo, first, node.lineno)
        return last(lo, rest, careless) if known == (TRUE if all_ else FALSE) else first
    first = Scalar(first.t, lo.b.held(first.e))
    truth = arithmetic.truth(first)
    if isinstance(truth, Const):
        return last(lo, rest, careless) if truth.value == all_ else first

    def second() -> Value:
        try:
            return values.scalar(lo, last(lo, rest, careless), node.lineno)
        except calls.Several as error:  # a part that is not always computed: this goes before the statement first
            raise calls.Several(node, error.construct, error.line) from None

    return chosen(lo, truth if all_ else negate(truth), second, lambda: first, node.lineno, node)


def halves(node: ast.BoolOp) -> tuple[ast.expr, ast.expr]:
    """The first operand, and what follows."""
    one, *others = node.values
    return one, others[0] if len(others) == 1 else ast.copy_location(ast.BoolOp(node.op, others), node)


def compare(lo: Statements, node: ast.Compare) -> Value:
    if len(node.ops) > 1:
        made, kinds = _compare_chain(lo, node)
        if len(kinds) > 1:
            raise Refused("a chain of comparisons of Python's and NumPy's numbers", node.lineno)
        return Scalar(kinds.pop(), made)
    return _compared(lo, node.ops[0], node.left, node.comparators[0], node.lineno)[0]


def _compared(lo: Statements, op: ast.cmpop, left: ast.expr | Value, right: ast.expr, line: int) -> tuple[Value, Value]:
    first = values.value(lo, left) if isinstance(left, ast.expr) else left
    if isinstance(first, Dict) and not first.t.members and _is_empty(right) and isinstance(op, ast.Eq | ast.NotEq):
        full = values.truth_of(lo, first, line)
        return Scalar(PY_BOOL, negate(full) if isinstance(op, ast.Eq) else full), first
    x, y = values.after(lo, first, lambda: values.value(lo, right), line)
    if isinstance(op, ast.Is | ast.IsNot):
        if not (isinstance(y, Static) and y.value is None):
            raise Refused("is of something else than None", line)
        return arithmetic.constant((isinstance(x, Static) and x.value is None) == isinstance(op, ast.Is)), y
    if isinstance(op, ast.In | ast.NotIn):
        if isinstance(y, List):
            inside = calls.of_written(lo, written_lists.contains, [y, x], {}, right)
            test = values.truth_of(lo, inside, line)
            return Scalar(PY_BOOL, negate(test) if isinstance(op, ast.NotIn) else test), y
        return _contained(lo, x, y, isinstance(op, ast.NotIn), line), y
    empty = isinstance(y, Tuple) and y.listed and not y.items
    if isinstance(x, List) and (isinstance(y, List) or empty) and isinstance(op, ast.Eq | ast.NotEq):
        if not isinstance(y, List):
            full = values.truth_of(lo, x, line)
            return Scalar(PY_BOOL, negate(full) if isinstance(op, ast.Eq) else full), y
        return _same_items(lo, x, y, isinstance(op, ast.NotEq), right), y
    if isinstance(x, Dict) and isinstance(y, Dict) and isinstance(op, ast.Eq | ast.NotEq):
        return _same_entries(lo, x, y, isinstance(op, ast.NotEq), right), y
    return values.binary(lo, values.OPERATORS[type(op)], x, y, line), y


def _is_empty(node: ast.expr) -> bool:
    """Whether an expression is {}."""
    return isinstance(node, ast.Dict) and not node.keys


def _same_entries(lo: Statements, x: Dict, y: Dict, differ: bool, at: ast.expr) -> Value:
    """Whether two dicts are equal, or are not."""
    if not (dicts.compared_by_value(x) and dicts.compared_by_value(y)) or x.t.members or y.t.members:
        raise Refused("== of sets, or of dicts of floats or of lists", at.lineno, "Compare their items")
    place = SimpleNamespace(lineno=at.lineno, col_offset=-1 - at.col_offset)  # that of no other call
    test = values.truth_of(lo, calls.of_written(lo, written_dicts.equal, [x, y], {}, place), at.lineno)
    return Scalar(PY_BOOL, negate(test) if differ else test)


def _same_items(lo: Statements, x: List, y: List, differ: bool, at: ast.expr) -> Value:
    """Whether two lists are equal, or are not."""
    if not lists.compared_by_value(x, y):
        raise Refused("== of lists of floats or of lists", at.lineno, "Compare their items")
    place = SimpleNamespace(lineno=at.lineno, col_offset=-1 - at.col_offset)  # that of no other call
    test = values.truth_of(lo, calls.of_written(lo, written_lists.equal, [x, y], {}, place), at.lineno)
    return Scalar(PY_BOOL, negate(test) if differ else test)


def _contained(lo: Statements, x: Value, y: Value, absent: bool, line: int) -> Value:
    if isinstance(x, Static) and isinstance(y, Static) and isinstance(y.value, tuple | str | list | dict | set):
        return arithmetic.constant((kinds.object_of(x, line) in y.value) != absent)
    if isinstance(y, Dict):
        inside = dicts.contains(lo, y, x, line)
        return Scalar(PY_BOOL, negate(inside.e) if absent else inside.e)
    if isinstance(x, Static) and isinstance(y, Tuple) and all(isinstance(v, Static) for v in y.items):
        return arithmetic.constant((kinds.object_of(x, line) in kinds.object_of(y, line)) != absent)
    if not isinstance(x, Scalar) or not isinstance(y, Tuple):
        raise Refused("in of something else than a tuple of numbers", line)
    x = Scalar(x.t, lo.b.held(x.e))
    found: Expr = FALSE
    for item in y.items:
        if isinstance(item, Static) and item.value is None:
            continue
        same = arithmetic.truth(arithmetic.binary(lo.b, "==", x, values.scalar(lo, item, line), line))
        found = pick(found, TRUE, same)
    return Scalar(PY_BOOL, negate(found) if absent else found)


def _compare_chain(lo: Statements, node: ast.Compare) -> tuple[Expr, set[Num]]:
    kinds: set[Num] = set()
    if any(type(op) not in values.OPERATORS for op in node.ops):
        raise Refused("a chain of comparisons with in or is", node.lineno)
    middle: list[Value] = [values.value(lo, node.left)]

    def held(right: ast.expr) -> Value:
        found = values.value(lo, right)
        return Scalar(found.t, lo.b.held(found.e)) if isinstance(found, Scalar) else found

    def link(op: ast.cmpop, right: ast.expr) -> Callable[[], Expr]:
        def act() -> Expr:
            left = middle[-1]
            first, second = values.after(lo, left, lambda: held(right), node.lineno)
            made = values.binary(lo, values.OPERATORS[type(op)], first, second, node.lineno)
            middle.append(second)
            found = values.scalar(lo, made, node.lineno)
            kinds.add(replace(found.t, lo=0, hi=1))
            return arithmetic.truth(found)

        return act

    return _chain(lo, True, [link(o, c) for o, c in zip(node.ops, node.comparators, strict=True)]), kinds


def if_exp(lo: Statements, node: ast.IfExp) -> Value:
    careless = lo.careless
    with lo.caring():
        condition = test(lo, node.test)
    if isinstance(condition, Const):
        return last(lo, node.body if condition.value else node.orelse, careless)

    def arm(part: ast.expr) -> Callable[[], Value]:
        def act() -> Value:
            try:
                return last(lo, part, careless)
            except calls.Several as error:  # as in bool_op
                raise calls.Several(node, error.construct, error.line) from None

        return act

    return chosen(lo, condition, arm(node.body), arm(node.orelse), node.lineno, node)


def last(lo: Statements, node: ast.expr, careless: bool) -> Value:
    """The value of an expression of which all is made of one of its parts, whose type may not matter (names.py)."""
    with lo.caring(careless and isinstance(node, ast.IfExp | ast.Call | ast.BoolOp)):
        return values.value(lo, node)


def chosen(
    lo: Statements, condition: Expr, yes: Callable[[], Value], no: Callable[[], Value], line: int, node: ast.expr | None
) -> Value:
    """One of two numbers. Of different types, they become what holds both, if nobody sees the difference."""
    made: list[Value | None] = []
    blocks: list[list[Stmt]] = []
    env = lo.env
    for act in (yes, no):
        with lo.b.inside() as block:
            try:
                v = act()
                made.append(v if _no_number(v) else values.scalar(lo, v, line))
            except Dead:
                made.append(None)
                lo.env = env
        blocks.append(block)
    if isinstance(node, ast.IfExp) and any(_no_number(v) for v in made):
        raise calls.Several(node, f"a choice of {' or '.join(values.type_text(v) for v in made if v)}", line)
    one, other = blocks
    x, y = (None if v is None else values.scalar(lo, v, line) for v in made)
    if x is None or y is None:
        alive = y if x is None else x
        if alive is None:
            lo.b.emit(If(condition, tuple(one), tuple(other)))
            lo.env = None
            raise Dead
        slot = lo.b.fresh("c")
        lo.b.names[slot] = alive.t.dtype
        (other if x is None else one).append(Set(slot, alive.e))
        lo.b.emit(If(condition, tuple(one), tuple(other)))
        return Scalar(alive.t, Var(slot, alive.t.dtype))
    if key(x.t) != key(y.t) and node is not None and not (lo.careless and _same_stored(lo, x, y)):
        raise calls.Several(node, f"a choice of {x.t} or {y.t}", line)
    t, p, q = common(lo, x, y, line, one, other)
    if not one and not other:
        return Scalar(t, pick(condition, p, q))
    slot = lo.b.fresh("c")
    lo.b.names[slot] = t.dtype
    lo.b.emit(If(condition, (*one, Set(slot, p)), (*other, Set(slot, q))))
    return Scalar(t, Var(slot, t.dtype))


def _same_stored(lo: Statements, x: Scalar, y: Scalar) -> bool:
    """Whether two numbers are the same elements if they become numbers of one type before."""
    if x.t.py and y.t.py:
        dtype = next((t for t in ("complex128", "float64") if t in (x.t.dtype, y.t.dtype)), "int64")
    else:
        dtype = arithmetic.resolved("add", arithmetic._spec(x), arithmetic._spec(y))[-1]
        raises = lo.stored_as[:1] in ("", "u") and dtype[0] in "iu" and dtype != lo.stored_as  # Python's only
        if raises and any(v.t.py and not (v.t.lo >= 0 and v.t.hi < 128) for v in (x, y)):
            return False
    return dtype == lo.stored_as or (stored.holds(x, dtype) and stored.holds(y, dtype))


def _no_number(v: Value | None) -> bool:
    return isinstance(v, Tuple | Array | Lazy | List | Dict) or (isinstance(v, Static) and v.value is None)


def common(
    lo: Statements, x: Scalar, y: Scalar, line: int, one: list[Stmt], other: list[Stmt]
) -> tuple[Num, Expr, Expr]:
    if key(x.t) == key(y.t):
        return merge(x.t, y.t), x.e, y.e  # type: ignore[return-value]
    if x.t.py and y.t.py:
        if "complex128" in (x.t.dtype, y.t.dtype):
            return replace(x.t, dtype="complex128"), *(arithmetic.cast(v.e, "complex128") for v in (x, y))  # type: ignore[return-value]
        if "float64" in (x.t.dtype, y.t.dtype):
            p, q = (arithmetic.plain_float(lo.b, arithmetic.as_int(v), line) for v in (x, y))
            return replace(x.t, dtype="float64"), p, q
        p2, q2 = arithmetic.as_int(x), arithmetic.as_int(y)
        return merge(p2.t, q2.t), p2.e, q2.e  # type: ignore[return-value]
    dtype = arithmetic.resolved("add", arithmetic._spec(x), arithmetic._spec(y))[-1]
    return Num(False, dtype), arithmetic.weak(lo.b, x, dtype, line), arithmetic.weak(lo.b, y, dtype, line)
