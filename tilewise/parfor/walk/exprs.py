"""Expressions. In: syntax trees. Out: values; what they read on the way is recorded.

A region of an array is not read where it is named (`B = A[1:]`) but where it is used.
"""

from __future__ import annotations

import ast
import contextlib
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewise.kernel.dependence.expr import (
    Expr,
    Index,
    both,
    compare,
    computed,
    constant,
    either,
    floor_divide,
    multiply,
    negate,
    remainder,
    scale,
    select,
    truth,
    var,
)
from tilewise.parfor.walk.iterate import Iterations
from tilewise.parfor.walk.kept import replace
from tilewise.parfor.walk.places.groups import common_rows, equal_rows, shifted
from tilewise.parfor.walk.scope import Scope
from tilewise.parfor.walk.values import (
    ANYTHING,
    NUMBER,
    TEXT,
    TRUTH,
    Function,
    Val,
    fitted,
    join,
    kind_of,
    narrowed,
    of_expr,
)

SIGNS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}
OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
HIGHEST_POWER = 8
MOST_STEPS = 50_000  # expressions of one walk


class Exprs(Iterations):
    """Follows expressions. Calls are in calls/call.py."""

    steps = 0

    def ev(self, node: ast.expr) -> Val:
        """The value of an expression."""
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise RecursionError("the loop takes too long to follow")
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    self.use(self.ev(child))
            self.hazard(ast.unparse(node), "syntax", f"{type(node).__name__} is not followed")
            return ANYTHING
        found: Val = method(node)
        return found

    def _constant(self, node: ast.Constant) -> Val:
        return self.value_of(node.value, repr(node.value))

    def _name(self, node: ast.Name) -> Val:
        return self.look_up(node.id)

    def _tuple(self, node: ast.Tuple) -> Val:
        if any(isinstance(e, ast.Starred) for e in node.elts):
            return self.made([self.ev(e) for e in node.elts], array=False)
        items = tuple(self.ev(e) for e in node.elts)
        return Val(items=items, scalar=all(i.scalar for i in items))

    def _list(self, node: ast.List | ast.Set) -> Val:
        return self.made([self.ev(e) for e in node.elts], array=False, name="a list")

    _set = _list

    def _dict(self, node: ast.Dict) -> Val:
        parts = [self.ev(e) for e in (*node.keys, *node.values) if e is not None]
        spread = any(key is None for key in node.keys)
        return self.made([self.reachable(parts)] if spread else parts, array=False, name="a dict")

    def _starred(self, node: ast.Starred) -> Val:
        value = self.use(self.ev(node.value))
        return self.contents(value)

    def _joinedstr(self, node: ast.JoinedStr) -> Val:
        parts = [self.use(self.ev(v)) for v in node.values]
        return self.text_of(lambda *texts: "".join(map(str, texts)), parts)

    def _formattedvalue(self, node: ast.FormattedValue) -> Val:
        value = self.use(self.ev(node.value))
        self.use_held([value])
        form = _plain(node.format_spec)
        if node.format_spec is None:
            return self.text_of(str, [value])
        return self.text_of(lambda x: format(x, form), [value]) if form is not None else TEXT

    def defined(self, node: ast.FunctionDef | ast.Lambda, name: str) -> Function:
        """A function that the program defines here."""
        raise NotImplementedError

    def _lambda(self, node: ast.Lambda) -> Val:
        return Val(function=self.defined(node, "lambda"), scalar=True)

    def _namedexpr(self, node: ast.NamedExpr) -> Val:
        value = self.ev(node.value)
        if not self.scope.comprehension:
            self.bind(node.target, value)
            return value
        kept = self.scope
        while self.scope.comprehension and self.scope.outer is not None:
            self.scope = self.scope.outer
        before = self.scope.names.get(node.target.id)  # there may be no element
        self.bind(node.target, value)
        if before is not None and node.target.id not in self.scope.shared:
            joined = join(replace(value, carried=frozenset()), replace(before, carried=frozenset()))
            self.scope.names[node.target.id] = replace(joined, carried=before.carried)
        self.scope = kept
        return value

    def _unaryop(self, node: ast.UnaryOp) -> Val:
        value = self.use(self.ev(node.operand))
        if isinstance(node.op, ast.Not):
            return of_expr(negate(value.expr), "b") if value.expr is not None and value.expr.integer else TRUTH
        if value.expr is not None and value.expr.integer and value.kind != "b":
            if isinstance(node.op, ast.USub):
                return fitted(of_expr(scale(value.expr, -1)), value.narrow)
            if isinstance(node.op, ast.UAdd):
                return value
            return fitted(of_expr(scale(value.expr, -1) - 1), value.narrow)
        if value.is_known and value.scalar and isinstance(value.known, float) and isinstance(node.op, ast.USub):
            return self.value_of(-value.known, "a number")
        if value.scalar:
            return replace(NUMBER, kind=value.kind if value.kind != "b" else None)
        return self.made([value], kind=value.kind)

    def _binop(self, node: ast.BinOp) -> Val:
        left, right = self.use(self.ev(node.left)), self.use(self.ev(node.right))
        return self.operate(node.op, left, right)

    def operate(self, op: ast.operator, left: Val, right: Val) -> Val:
        """The result of an operator."""
        if isinstance(op, ast.MatMult) or not (left.scalar and right.scalar):
            kind = kind_of((left, right))
            if any(v.objs and not all(o.array for o in v.objs) for v in (left, right)) or left.items or right.items:
                return self.made([left, right, *self.elements_of((left, right))], array=False)
            array = self.made([left, right], kind="f" if isinstance(op, ast.Div) and kind in ("i", "u", "b") else kind)
            if isinstance(op, ast.Add):
                return shifted(left, right, array)
            return common_rows((left, right), array) if isinstance(op, ast.BitAnd) and kind == "b" else array
        if left.is_known and right.is_known and not (left.expr and right.expr):
            with contextlib.suppress(Exception):
                return self.value_of(OPERATORS[type(op)](left.known, right.known), "a number")
        a, b = left.expr, right.expr
        narrow = narrowed((left, right))
        if a is not None and b is not None and a.integer and b.integer:
            found = integers(op, a, b)
            if found is not None:
                return fitted(of_expr(found), narrow)
        if left.kind == "U" or right.kind == "U":
            return self.text_of(OPERATORS[type(op)], [left, right])
        plain = isinstance(op, ast.Div | ast.Mult | ast.Add | ast.Sub) and narrow is None
        if plain and "U" not in (left.kind, right.kind):
            parts = [self.object_expr(v) for v in (left, right)]
            if all(p is not None for p in parts):
                made = computed(OPERATORS[type(op)], [p for p in parts if p is not None], integer=False)
                return Val(expr=made, scalar=True, kind="f" if isinstance(op, ast.Div) else kind_of((left, right)))
        kind = kind_of((left, right))
        if isinstance(op, ast.Div) and kind in ("i", "u", "b"):
            kind = "f"
        if isinstance(op, ast.Pow) and kind == "i":
            kind = None
        return replace(NUMBER, kind="i" if kind == "b" else kind)

    def _compare(self, node: ast.Compare) -> Val:
        if len(node.ops) == 1 and isinstance(node.ops[0], ast.In | ast.NotIn):
            key, table = self.use(self.ev(node.left)), self.ev(node.comparators[0])
            if self.is_dict(table):  # one cell is looked at
                self.touch_cells(table, self.key_of([key], table), write=False)
                return TRUTH
        values = [self.use(self.ev(e)) for e in (node.left, *node.comparators)]
        if not all(isinstance(op, ast.Is | ast.IsNot) for op in node.ops):
            self.use_held(values)
        if (
            not all(v.scalar for v in values)
            and len(values) == 2
            and not isinstance(node.ops[0], ast.In | ast.NotIn | ast.Is | ast.IsNot)
        ):
            made = self.made(values, kind="b")
            if isinstance(node.ops[0], ast.Eq):
                other = next((v for v in values if v.scalar), None)
                rows = equal_rows(values, self.object_expr(other) if other is not None else None, self)
                made = replace(made, group=rows)
            return made
        total: Expr | None = None
        for op, a, b in zip(node.ops, values, values[1:], strict=False):
            found = self._compared(op, a, b)
            if found is None:
                return TRUTH
            total = found if total is None else both(total, found)
        assert total is not None
        return of_expr(total, "b")

    def _compared(self, op: ast.cmpop, a: Val, b: Val) -> Expr | None:
        if isinstance(op, ast.Is | ast.IsNot):
            if a.is_known and b.is_known and (a.known is None or b.known is None):
                return constant((a.known is b.known) != isinstance(op, ast.IsNot))
            return None
        x, y = self.object_expr(a), self.object_expr(b)
        if isinstance(op, ast.In | ast.NotIn):
            if x is None or not b.is_known or not isinstance(b.known, tuple | frozenset | range | list | set):
                return None
            if isinstance(b.known, list | set) and not self.memory.constant(self.memory.container(b.known, "a list")):
                return None
            held = b.known
            inside = computed(np.frompyfunc(lambda v: v in held, 1, 1), [x], (0, 1))
            return negate(inside) if isinstance(op, ast.NotIn) else inside
        return compare(SIGNS[type(op)], x, y) if x is not None and y is not None else None

    def _boolop(self, node: ast.BoolOp) -> Val:
        total: Val | None = None
        kept, unsure = len(self.guards), self.unsure
        for part in node.values:
            value = self.use(self.ev(part))
            condition = value.expr if value.expr is not None and value.expr.integer else None
            if total is None:
                total = value
            elif total.expr is not None and condition is not None and total.kind == value.kind == "b":
                total = of_expr((both if isinstance(node.op, ast.And) else either)(total.expr, condition), "b")
            else:
                total = join(total, value)
            if condition is not None:
                self.guards.append(truth(condition) if isinstance(node.op, ast.And) else negate(condition))
            else:
                self.unsure += 1
        del self.guards[kept:]
        self.unsure = unsure
        assert total is not None
        return total

    def _ifexp(self, node: ast.IfExp) -> Val:
        test = self.use(self.ev(node.test))
        if test.expr is not None and test.expr.constant:
            return self.ev(node.body if test.expr.const else node.orelse)
        with self.under(test, True):
            a = self.ev(node.body)
        with self.under(test, False):
            b = self.ev(node.orelse)
        if (
            test.expr is not None
            and a.expr is not None
            and b.expr is not None
            and a.kind == b.kind
            and test.expr.integer
        ):
            made = of_expr(select(truth(test.expr), a.expr, b.expr), a.kind or "i")
            return replace(made, narrow=narrowed((a, b)))
        return join(a, b)

    def _subscript(self, node: ast.Subscript) -> Val:
        base = self.ev(node.value)
        return self.load(base, self.parts_of(node.slice), node.slice)

    def _listcomp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Val:
        return self._comprehension(node.generators, [node.elt])

    _setcomp = _listcomp

    def _generatorexp(self, node: ast.GeneratorExp) -> Val:
        return replace(self._listcomp(node), lazy=self.defined(_later(node), "a generator"))

    def _dictcomp(self, node: ast.DictComp) -> Val:
        return self._comprehension(node.generators, [node.key, node.value])

    def _comprehension(self, generators: Sequence[ast.comprehension], parts: Sequence[ast.expr]) -> Val:
        kept, unsure = self.scope, self.unsure
        self.scope = Scope({}, kept)
        self.scope.comprehension = True
        with contextlib.ExitStack() as stack:
            for one in generators:
                walk = self.iterate(one.iter)
                index = Index("element", walk.extent)
                stack.enter_context(self.inside(index))
                self.bind(one.target, walk.element(var(index)))
                for condition in one.ifs:
                    self.add_guard(self.use(self.ev(condition)), True)
            values = [self.use(self.ev(p)) for p in parts]
        self.unsure = unsure
        self.scope = kept
        return self.made(values, array=False, name="a list", kind=values[-1].kind)


def _later(node: ast.GeneratorExp) -> ast.Lambda:
    """What a generator expression runs when it is iterated, as a function."""
    known: ast.Lambda | None = node.__dict__.get("_tw_later")
    if known is None:
        nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        made = ast.Lambda(nothing, ast.ListComp(node.elt, node.generators))
        known = node.__dict__["_tw_later"] = ast.copy_location(made, node)
    return known


def integers(op: ast.operator, a: Expr, b: Expr) -> Expr | None:
    """An operator on integers that depend on indices only."""
    if isinstance(op, ast.Add):
        return a + b
    if isinstance(op, ast.Sub):
        return a - b
    if isinstance(op, ast.Mult):
        return multiply(a, b)
    if isinstance(op, ast.FloorDiv):
        return floor_divide(a, b)
    if isinstance(op, ast.Mod):
        return remainder(a, b)
    if isinstance(op, ast.Pow) and b.constant and 0 <= b.const <= HIGHEST_POWER:
        total = constant(1)
        for _ in range(b.const):
            total = multiply(total, a)
        return total
    if isinstance(op, ast.Pow) and a.constant and a.const >= 0 and b.lo >= 0 and b.hi < 62:
        return computed(
            lambda x: np.int64(a.const) ** x, [b], (min(a.const**b.lo, 1), a.const**b.hi), ("power", a.const)
        )
    if isinstance(op, ast.LShift) and b.lo >= 0 and b.hi < 62:
        return integers(ast.Mult(), a, computed(lambda x: np.int64(1) << x, [b], (1, 1 << int(b.hi)), "<<"))
    if isinstance(op, ast.RShift) and b.constant and 0 <= b.const < 62:
        return floor_divide(a, constant(1 << b.const))
    if isinstance(op, ast.BitAnd | ast.BitOr | ast.BitXor) and a.lo >= 0 and b.lo >= 0 and max(a.hi, b.hi) < 1 << 62:
        top = min(a.hi, b.hi) if isinstance(op, ast.BitAnd) else (1 << int(max(a.hi, b.hi)).bit_length()) - 1
        return computed(OPERATORS[type(op)], [a, b], (0, top), type(op).__name__)
    return None


def _plain(node: ast.expr | None) -> str | None:
    """The text of a format that has no values in it."""
    if not isinstance(node, ast.JoinedStr) or not all(isinstance(v, ast.Constant) for v in node.values):
        return None
    return "".join(str(v.value) for v in node.values if isinstance(v, ast.Constant))
