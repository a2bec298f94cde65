"""Expressions. In: syntax trees. Out: values; what they read on the way is recorded.

A region of an array is not read where it is named (`B = A[1:]`) but where it is used.
"""

from __future__ import annotations

import ast
import builtins
import collections
import contextlib
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

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
    least,
    multiply,
    negate,
    remainder,
    scale,
    select,
    truth,
    var,
)
from tilewise.parfor.walk.knowns import Alike, Knowns, boxed, fixed_key
from tilewise.parfor.walk.record import endless, unknown
from tilewise.parfor.walk.subscripts import (
    Part,
    Slice,
    length_of,
    range_extent,
    subscript_view,
    wrapped,
)
from tilewise.parfor.walk.values import (
    ANYTHING,
    INTEGER,
    NUMBER,
    TEXT,
    TRUTH,
    Function,
    Val,
    join,
    kind_of,
    may_be_anything,
    objects,
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
PLAIN_DICTS = (dict, collections.OrderedDict)
DICTS = (collections.defaultdict, collections.Counter)


class Scope:
    """The names of a function, or of the program; `outer` are those it can see besides."""

    def __init__(self, names: dict[str, Val], outer: Scope | None = None, space: dict[str, Any] | None = None) -> None:
        self.names = names
        self.outer = outer
        self.space = space  # a module's names, where the values of the walk are none
        self.shared: set[str] = set()  # declared global or nonlocal
        self.returned: Val | None = None
        self.called = False  # a function that is being followed


class Exprs(Knowns):
    """Follows expressions. Calls are in calls.py."""

    scope: Scope

    def call(self, node: ast.Call) -> Val:
        """Follow a call."""
        raise NotImplementedError

    def bind(self, target: ast.expr, value: Val) -> None:
        """Assign to a target."""
        raise NotImplementedError

    # -- names ----------------------------------------------------------------------------------------------------

    def look_up(self, name: str) -> Val:
        """The value of a name; reading one that may be left from an earlier iteration is recorded."""
        scope: Scope | None = self.scope
        while scope is not None:
            if name in scope.names:
                value = scope.names[name]
                if value.carried:
                    self.name_use(name, "read", value.carried)
                return value
            if scope.space is not None and name in scope.space:
                return self.value_of(scope.space[name], name)
            scope = scope.outer
        if hasattr(builtins, name):
            return Val(known=getattr(builtins, name), scalar=True)
        return ANYTHING

    # -- use ------------------------------------------------------------------------------------------------------

    def use(self, value: Val) -> Val:
        """Read all of a value."""
        self.touch_value(value, write=False)
        return value

    def made(self, parts: Sequence[Val], array: bool = True, kind: str | None = None, name: str = "a result") -> Val:
        """Something new, which may hold the parts."""
        obj = self.memory.fresh(name, self.born, array)
        if not array:
            for part in parts:
                obj.content |= objects(part)
                obj.anything |= may_be_anything(part)
        return Val(objs=frozenset((obj,)), kind=kind)

    def ev(self, node: ast.expr) -> Val:
        """The value of an expression."""
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
        return self.made([self.ev(e) for e in (*node.keys, *node.values) if e is not None], array=False, name="a dict")

    def _starred(self, node: ast.Starred) -> Val:
        value = self.use(self.ev(node.value))
        return self.contents(value)

    def _joinedstr(self, node: ast.JoinedStr) -> Val:
        parts = [self.use(self.ev(v)) for v in node.values]
        return self.text_of(lambda *texts: "".join(map(str, texts)), parts)

    def _formattedvalue(self, node: ast.FormattedValue) -> Val:
        value = self.use(self.ev(node.value))
        form = _plain(node.format_spec)
        if node.format_spec is None:
            return self.text_of(str, [value])
        return self.text_of(lambda x: format(x, form), [value]) if form is not None else TEXT

    def text_of(self, function: Callable[..., Any], parts: Sequence[Val]) -> Val:
        """A text (or another immutable object) of values that depend on indices only."""
        exprs = [self.object_expr(p) for p in parts]
        if any(e is None for e in exprs):
            return TEXT
        ufunc = np.frompyfunc(function, max(len(parts), 1), 1) if parts else None
        if ufunc is None:
            return TEXT
        made = computed(lambda *xs: ufunc(*xs), [e for e in exprs if e is not None], integer=False)
        return Val(expr=made, scalar=True, kind="U")

    def object_expr(self, value: Val) -> Expr | None:
        """A value that depends on indices only, as a subscript."""
        if value.expr is not None:
            return value.expr
        if value.is_known and value.scalar:
            return fixed_key(value.known) if value.items is None else _fixed_tuple(value.known)
        if value.items is not None:
            parts = [self.object_expr(i) for i in value.items]
            if all(p is not None for p in parts):
                pack = np.frompyfunc(lambda *xs: tuple(xs), len(parts), 1)
                return computed(lambda *xs: pack(*xs), [p for p in parts if p is not None], integer=False)
        return None

    def _lambda(self, node: ast.Lambda) -> Val:
        return Val(function=Function(node, self.scope, "lambda", self.file), scalar=True)

    def _namedexpr(self, node: ast.NamedExpr) -> Val:
        value = self.ev(node.value)
        self.bind(node.target, value)
        return value

    # -- operators ------------------------------------------------------------------------------------------------

    def _unaryop(self, node: ast.UnaryOp) -> Val:
        value = self.use(self.ev(node.operand))
        if isinstance(node.op, ast.Not):
            return of_expr(negate(value.expr), "b") if value.expr is not None and value.expr.integer else TRUTH
        if value.expr is not None and value.expr.integer and value.kind != "b":
            if isinstance(node.op, ast.USub):
                return of_expr(scale(value.expr, -1))
            if isinstance(node.op, ast.UAdd):
                return value
            return of_expr(scale(value.expr, -1) - 1)
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
                return self.made([left, right], array=False)
            return self.made([left, right], kind="f" if isinstance(op, ast.Div) and kind in ("i", "u", "b") else kind)
        if left.is_known and right.is_known and not (left.expr and right.expr):
            with contextlib.suppress(Exception):
                return self.value_of(OPERATORS[type(op)](left.known, right.known), "a number")
        a, b = left.expr, right.expr
        if a is not None and b is not None and a.integer and b.integer:
            found = integers(op, a, b)
            if found is not None:
                return of_expr(found)
        if left.kind == "U" or right.kind == "U":
            return self.text_of(OPERATORS[type(op)], [left, right])
        if isinstance(op, ast.Div | ast.Mult | ast.Add | ast.Sub) and "U" not in (left.kind, right.kind):
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
        values = [self.use(self.ev(e)) for e in (node.left, *node.comparators)]
        if (
            not all(v.scalar for v in values)
            and len(values) == 2
            and not isinstance(node.ops[0], ast.In | ast.NotIn | ast.Is | ast.IsNot)
        ):
            return self.made(values, kind="b")
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
            return of_expr(select(truth(test.expr), a.expr, b.expr), a.kind or "i")
        return join(a, b)

    @contextlib.contextmanager
    def under(self, test: Val, holds: bool) -> Iterator[None]:
        """Record as of a place that is reached only where a condition holds (or does not)."""
        kept, unsure = len(self.guards), self.unsure
        self.add_guard(test, holds)
        yield
        del self.guards[kept:]
        self.unsure = unsure

    def add_guard(self, test: Val, holds: bool) -> None:
        """From here on a condition holds (or does not)."""
        if test.expr is not None and test.expr.integer:
            self.guards.append(truth(test.expr) if holds else negate(test.expr))
        else:
            self.unsure += 1

    # -- subscripts and attributes --------------------------------------------------------------------------------

    def parts_of(self, node: ast.expr) -> list[Part]:
        """The parts of a subscript."""
        if isinstance(node, ast.Tuple):
            return [self._part(e) for e in node.elts]
        part = self._part(node)
        if isinstance(part, Val) and part.items is not None:
            return list(part.items)
        return [part]

    def _part(self, node: ast.expr) -> Part:
        if isinstance(node, ast.Slice):
            ends = (node.lower, node.upper, node.step)
            return Slice(*(self.use(self.ev(e)) if e is not None else None for e in ends))
        if isinstance(node, ast.List):
            items = [self.use(self.ev(e)) for e in node.elts]
            if items and all(i.expr is not None and i.expr.constant and i.kind == "i" for i in items):
                return Val(known=tuple(i.expr.const for i in items if i.expr is not None), scalar=True)
            return self.made(items, array=False)
        value = self.use(self.ev(node))
        if value.is_known and isinstance(value.known, slice):
            ends = (value.known.start, value.known.stop, value.known.step)
            return Slice(*(None if e is None else self.value_of(e, "a slice") for e in ends))
        if value.function is None and value.method is not None and value.method[1] == "slice" and value.method[0].items:
            one = value.method[0].items
            return Slice(*((None if v.is_known and v.known is None else v) for v in one))
        return value

    def _subscript(self, node: ast.Subscript) -> Val:
        base = self.ev(node.value)
        return self.load(base, self.parts_of(node.slice), node.slice)

    def load(self, base: Val, parts: list[Part], node: ast.expr | None = None) -> Val:
        """`base[parts]` where it is read."""
        if base.view is not None:
            return self._load_region(base, parts)
        if base.items is not None and len(parts) == 1 and isinstance(parts[0], Val) and parts[0].expr is not None:
            at = parts[0].expr
            if at.constant and -len(base.items) <= at.const < len(base.items):
                return base.items[at.const]
        if base.items is not None:
            total: Val | None = None
            for item in base.items:
                total = join(total, item)
            return total or Val()
        if base.is_known and base.scalar and not isinstance(base.known, str | bytes | range):
            return ANYTHING if not base.scalar else Val(scalar=False, objs=base.objs)
        if self.own_subscripts(base):
            return ANYTHING
        key = self.key_of(parts, base)
        self.touch_cells(base, key, write=False)
        if base.is_known and isinstance(base.known, dict) and type(base.known) not in PLAIN_DICTS:
            self.touch_cells(base, key, write=True)  # a key that is missing is added
        return self._found(base, parts, key)

    def own_subscripts(self, base: Val) -> bool:
        """Whether an object has subscripts of its own making; recorded as a call of what is not known."""
        plain = (list, tuple, str, bytes, bytearray, range, Alike, *PLAIN_DICTS, *DICTS)
        own = base.is_known and type(base.known) not in plain and not base.scalar
        if own or base.method is not None or any(o.cls is not None for o in base.objs):
            name = next(iter(base.objs)).name if base.objs else "?"
            self.hazard(name, "call", "what its subscripts do is not known")
            return True
        return False

    def _load_region(self, base: Val, parts: list[Part]) -> Val:
        assert base.view is not None
        if base.is_known and isinstance(base.known, np.ndarray) and base.known.dtype.names and len(parts) == 1:
            part = parts[0]
            if isinstance(part, Val) and isinstance(part.known, str | list):
                return self.value_of(base.known[part.known], base.view.obj.name)
        found = subscript_view(base.view, parts, self)
        if found is None:
            return self.within(base)
        view, selects = found
        if selects:
            self.touch_view(view, write=False)
            return self.made([base], kind=base.kind)
        if view.axes or view.within or base.kind == "V":  # an element with fields shares memory
            return Val(view=view, kind=base.kind)
        self.touch_view(view, write=False)
        if base.kind == "O":
            return ANYTHING
        out = Val(scalar=True, kind=base.kind)
        if base.is_known and isinstance(base.known, np.ndarray) and base.known.dtype.kind in "iubf":
            at = [p.expr for p in parts if isinstance(p, Val)]
            whole = all(e is not None and e.integer for e in at) and len(at) == len(parts) == base.known.ndim
            if whole and self.memory.constant(base.view.obj):
                from_table = _gathered(base.known, [e for e in at if e is not None])
                return replace(out, expr=from_table) if from_table is not None else out
        return out

    def key_of(self, parts: list[Part], base: Val) -> Expr:
        """The key of a cell of a list or dict."""
        if len(parts) != 1:
            items = [p for p in parts if isinstance(p, Val)]
            return (self.object_expr(Val(items=tuple(items))) if len(items) == len(parts) else None) or unknown()
        (part,) = parts
        if isinstance(part, Slice):
            return unknown()
        found = self.object_expr(part)
        if found is None:
            return unknown()
        if base.is_known and isinstance(base.known, list) and found.integer:
            return wrapped(found, constant(len(base.known))) or unknown()
        if (
            base.is_known
            and isinstance(base.known, Alike)
            and found.lo < 0
            and all(isinstance(v, list) for v in base.known.values)
        ):
            return unknown()
        if not base.is_known and found.lo < 0 and found.integer:
            return unknown()
        return found

    def touch_cells(self, base: Val, key: Expr, write: bool, op: str | None = None) -> None:
        """Record an access to a cell of a list, a dict or an instance."""
        if base.ident is not None:
            self.touch("cells", (base.ident, key), base.objs, write, op=op)
            return
        for obj in base.objs:
            if obj.array:
                self.touch_object(obj, write, op)
            else:
                self.touch("cells", (constant(obj.code), key), frozenset((obj,)), write, op=op)
        if base.anything:
            self.touch_value(ANYTHING, write, op)

    def _found(self, base: Val, parts: list[Part], key: Expr) -> Val:
        """What is in a cell."""
        if base.is_known and base.scalar:  # texts, ranges
            if isinstance(base.known, range) and key.integer:
                at = wrapped(key, constant(len(base.known)))
                if at is not None:
                    return of_expr(scale(at, base.known.step) + base.known.start)
            return TEXT
        if base.is_known and len(base.objs) == 1 and isinstance(base.known, list | dict):
            (obj,) = base.objs
            if type(base.known) in DICTS:
                return ANYTHING if not isinstance(base.known, collections.Counter) else INTEGER
            if self.memory.constant(obj):
                if isinstance(base.known, dict):
                    return self._looked_up(base.known, key, obj.name)
                if key.integer:
                    return self.element(base.known, key, obj.name)
            return self.held_by(obj, base.known, obj.name)
        total: Val | None = None
        for obj in base.objs:
            if obj.array:
                total = join(total, self.within(Val(objs=frozenset((obj,)), kind=base.kind)))
            else:
                known = base.known if base.is_known else None
                total = join(total, self.held_by(obj, known, obj.name))
        if base.anything:
            return ANYTHING
        return total or Val()

    def _looked_up(self, known: dict[Any, Any], key: Expr, name: str) -> Val:
        if not key.indices:
            with contextlib.suppress(Exception):
                at = key.at({})
                at = at[()] if isinstance(at, np.ndarray) else at
                if at in known:
                    return self.value_of(known[at], name)
        keys = list(known)
        if keys == list(range(len(keys))) and key.integer:
            return self.element(list(known.values()), key, name)
        order = {k: n for n, k in enumerate(keys)}
        if len(keys) and len(keys) < 100_000:
            find = np.frompyfunc(lambda k: order[k], 1, 1)
            at = computed(lambda ks: find(ks).astype(np.int64), [key], (0, len(keys) - 1))
            return self.element(list(known.values()), at, name)
        return ANYTHING

    def contents(self, value: Val) -> Val:
        """Anything that may be found in a value."""
        if value.items is not None:
            total: Val | None = None
            for item in value.items:
                total = join(total, item)
            return total or Val()
        if value.view is not None:
            return self.within(value)
        if value.anything:
            return ANYTHING
        return self._found(replace(value, known=value.known), [], unknown()) if value.objs else Val(scalar=value.scalar)

    # -- comprehensions and iteration -----------------------------------------------------------------------------

    def _listcomp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Val:
        return self._comprehension(node.generators, [node.elt])

    _setcomp = _listcomp
    _generatorexp = _listcomp

    def _dictcomp(self, node: ast.DictComp) -> Val:
        return self._comprehension(node.generators, [node.key, node.value])

    def _comprehension(self, generators: Sequence[ast.comprehension], parts: Sequence[ast.expr]) -> Val:
        kept, unsure = self.scope, self.unsure
        self.scope = Scope({}, kept)
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

    def iterate(self, node: ast.expr) -> Iteration:
        """A loop over an iterable. Its elements are read where `element` is called: inside of the loop."""
        if isinstance(node, ast.List):
            node = ast.copy_location(ast.Tuple(node.elts, ast.Load()), node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            function = self.look_up(node.func.id)
            plain = not node.keywords and not any(isinstance(a, ast.Starred) for a in node.args)
            if plain and function.is_known:
                found = self.iterate_call(function.known, node.args)
                if found is not None:
                    return found
        views = ("items", "keys", "values")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in views:
            held = self.ev(node.func.value)
            if held.is_known and isinstance(held.known, dict):
                return self._over_dict(held, node.func.attr)
        return self.over(self.ev(node))

    def _over_dict(self, held: Val, which: str) -> Iteration:
        (obj,) = held.objs
        constant_keys = self.memory.constant(obj)

        def element(at: Expr) -> Val:
            self.touch_object(obj, write=False)
            if not constant_keys:
                return Val(items=(ANYTHING, ANYTHING)) if which == "items" else ANYTHING
            keys = self.element(list(held.known), at, obj.name)
            if which == "keys":
                return keys
            values = self.element(list(held.known.values()), at, obj.name)
            return values if which == "values" else Val(items=(keys, values))

        return Iteration(constant(len(held.known)) if constant_keys else endless(), element)

    def iterate_call(self, function: Any, args: Sequence[ast.expr]) -> Iteration | None:
        """A loop over a range, or over what Python makes of iterables; None for others."""
        if function is range:
            return self._over_range([self.use(self.ev(a)).expr for a in args])
        if function is enumerate and 1 <= len(args) <= 2:
            first = self.use(self.ev(args[1])).expr if len(args) == 2 else constant(0)
            walk = self.iterate(args[0])

            def numbered(at: Expr) -> Val:
                return Val(items=(INTEGER if first is None else of_expr(at + first), walk.element(at)))

            return Iteration(walk.extent, numbered)
        if function is zip and args:
            walks = [self.iterate(a) for a in args]
            extent = walks[0].extent
            for other in walks[1:]:
                extent = least(extent, other.extent)
            return Iteration(extent, lambda at: Val(items=tuple(w.element(at) for w in walks)))
        if function is reversed and len(args) == 1:
            walk = self.iterate(args[0])
            if walk.extent.integer and walk.extent.hi < 1 << 62:
                return Iteration(walk.extent, lambda at: walk.element(walk.extent - 1 - at))
        return None

    def _over_range(self, given: Sequence[Expr | None]) -> Iteration:
        exprs = [e for e in given if e is not None and e.integer]
        if len(exprs) != len(given) or not 1 <= len(exprs) <= 3:
            return Iteration(endless(), lambda at: INTEGER)
        start, stop = (constant(0), exprs[0]) if len(exprs) == 1 else (exprs[0], exprs[1])
        step = exprs[2] if len(exprs) == 3 else constant(1)
        if not step.constant or step.const == 0:
            return Iteration(endless(), lambda at: INTEGER)
        return Iteration(range_extent(start, stop, step.const), lambda at: of_expr(start + scale(at, step.const)))

    def over(self, value: Val) -> Iteration:
        """A loop over a value."""
        if value.is_known and isinstance(value.known, dict):
            return self._over_dict(value, "keys")
        length = length_of(value)
        if length is None or (value.is_known and isinstance(value.known, set | frozenset)):
            return Iteration(endless(), lambda at: replace(self.contents(self.use(value)), kind=value.kind))
        if value.items is not None:
            return Iteration(length, lambda at: self._item(value.items or (), at))
        return Iteration(length, lambda at: self.load(value, [of_expr(at)]))

    def _item(self, items: Sequence[Val], at: Expr) -> Val:
        if all(i.is_known for i in items):
            return self.element([i.known for i in items], at, "an element")
        if at.constant and 0 <= at.const < len(items):
            return items[at.const]
        total: Val | None = None
        for item in items:
            total = join(total, item)
        return total or Val()


class Iteration(NamedTuple):
    """A loop: how often it runs, and its element in an iteration."""

    extent: Expr
    element: Callable[[Expr], Val]


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
        return computed(lambda x: np.int64(a.const) ** x, [b], (min(a.const**b.lo, 1), a.const**b.hi))
    if isinstance(op, ast.LShift) and b.lo >= 0 and b.hi < 62:
        return integers(ast.Mult(), a, computed(lambda x: np.int64(1) << x, [b], (1, 1 << int(b.hi))))
    if isinstance(op, ast.RShift) and b.constant and 0 <= b.const < 62:
        return floor_divide(a, constant(1 << b.const))
    if isinstance(op, ast.BitAnd | ast.BitOr | ast.BitXor) and a.lo >= 0 and b.lo >= 0 and max(a.hi, b.hi) < 1 << 62:
        top = min(a.hi, b.hi) if isinstance(op, ast.BitAnd) else (1 << int(max(a.hi, b.hi)).bit_length()) - 1
        return computed(OPERATORS[type(op)], [a, b], (0, top))
    return None


def _gathered(table: Any, at: Sequence[Expr]) -> Expr | None:
    if table.size > 1_000_000 or table.size == 0 or table.dtype == np.uint64:
        return None

    def look_up(*where: Any) -> Any:
        return table[tuple(np.asarray(w) for w in where)].astype(np.int64 if table.dtype.kind in "iub" else float)

    whole = table.dtype.kind in "iub"
    bounds = (int(table.min()), int(table.max())) if whole else (-np.inf, np.inf)
    return computed(look_up, at, bounds, ("table", id(table)), whole)


def _fixed_tuple(value: Any) -> Expr:
    box = boxed(value)
    return computed(lambda: box, (), integer=False)


def _plain(node: ast.expr | None) -> str | None:
    """The text of a format that has no values in it."""
    if not isinstance(node, ast.JoinedStr) or not all(isinstance(v, ast.Constant) for v in node.values):
        return None
    return "".join(str(v.value) for v in node.values if isinstance(v, ast.Constant))
