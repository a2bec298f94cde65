"""The tree of a loop, with its costs. In: the syntax tree of a loop, the values of names. Out: `Tree`.

The body is followed once, with the shapes that names have; functions whose source is there are followed into. What is
alive is tracked by allocations: views keep alive what they are of, names hold values until they are bound again.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import types
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tilewise.kernel.dependence.expr import Expr, Index, constant, floor_divide, multiply, var
from tilewise.parfor.plan import operators as ops
from tilewise.parfor.plan.calls import call_work
from tilewise.parfor.plan.ledger import Ledger
from tilewise.parfor.plan.operators import NOTHING, NUMBER, Value, Work
from tilewise.parfor.plan.profile import FIXED, Row
from tilewise.parfor.plan.tree import Node, Tree
from tilewise.parfor.plan.values import attribute, compared, largest, operated, root_of, subscripted, value_of
from tilewise.parfor.walk.names import is_parfor
from tilewise.python.functions.source import tree_of
from tilewise.python.refuse import Refused

WHILE_COUNT = 10  # iterations of loops whose number is not known
DEEPEST = 6  # calls that are followed
BINARY = {
    ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide", ast.Pow: "power",
    ast.FloorDiv: "floor_divide", ast.Mod: "remainder", ast.BitAnd: "bitwise_and", ast.BitOr: "bitwise_or",
    ast.BitXor: "bitwise_xor", ast.LShift: "left_shift", ast.RShift: "right_shift",
}  # fmt: skip


def estimate(node: ast.For, names: Mapping[str, Any], count: int, profile: Mapping[str, Row] = FIXED) -> Tree:
    """The tree of a parfor of `count` iterations, with the values of names before it."""
    return Estimator(names, profile).tree(node, count)


class _Returned(Exception):
    """A function has returned."""


class Estimator(Ledger):
    """Follows statements."""

    def __init__(self, names: Mapping[str, Any], profile: Mapping[str, Row]) -> None:
        super().__init__(profile)
        self.outside: Mapping[str, Any] = names
        self.shared: dict[int, tuple[str, int]] = {}
        self.unknown: list[str] = []
        self.line = 0
        self.depth = 0
        self.returned: list[Value] = []

    def tree(self, node: ast.For, count: int) -> Tree:
        """The whole."""
        root = Node("parfor", ast.unparse(node.target), node.lineno, count)
        self.stack.append(root)
        call = node.iter
        assert isinstance(call, ast.Call)
        index = Index("parfor", constant(count))
        self.bind(node.target, self.element(call.args, var(index), count))
        self.block(node.body)
        shared = {name: size for name, size in self.shared.values()}
        return Tree(root, count, shared, self.unknown, self.rounds)

    # -- statements -----------------------------------------------------------------------------------------------

    def block(self, body: Sequence[ast.stmt]) -> None:
        """Statements, one after the other."""
        for node in body:
            self.line = getattr(node, "lineno", self.line)
            outer, self.temporary = self.temporary, set()
            self.around.append(outer)
            self.statement(node)
            self.around.pop()
            self.temporary = outer

    def statement(self, node: ast.stmt) -> None:
        """One statement."""
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is not None:
            method(node)
            return
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.ev(child)
            elif isinstance(child, ast.stmt):
                self.block([child])

    def _assign(self, node: ast.Assign) -> None:
        value = self.ev(node.value)
        for target in node.targets:
            self.bind(target, value)

    def _annassign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.bind(node.target, self.ev(node.value))

    def _augassign(self, node: ast.AugAssign) -> None:
        right = self.ev(node.value)
        left = self.ev(node.target)
        if left.shape is None:
            value = self.work(ops.elementwise(BINARY.get(type(node.op), "matmul"), (left, right)))
            if isinstance(node.target, ast.Name):
                self.bind(node.target, operated(node.op, left, right) if left.scalar and right.scalar else value)
            return
        work = ops.elementwise(BINARY.get(type(node.op), "add"), (left, right))
        self.work(replace(work, value=replace(work.value, bytes=0)))  # in place

    def bind(self, target: ast.expr, value: Value) -> None:
        """An assignment."""
        if isinstance(target, ast.Name):
            self.steps()
            self.names[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            for n, part in enumerate(target.elts):
                whole = value.items is not None and n < len(value.items)
                self.bind(part, value.items[n] if whole and value.items else subscripted(value, [], [NUMBER]))
        elif isinstance(target, ast.Subscript):
            base = self.ev(target.value)
            region = self._load(base, target.slice)
            if base.shape is not None:
                shape = region.shape or ()
                self.work(Work(NUMBER, "copy", ops.middle(shape), ops.text_of("write", [region])))
            else:
                self.keep(value)
        else:
            self.keep(value)

    def _for(self, node: ast.For) -> None:
        call = node.iter
        parallel = is_parfor(call)
        parts = call.args if parallel and isinstance(call, ast.Call) else [call]
        extent = self.extent(parts)
        index = Index("for", extent)
        count = ops.middle((extent,))
        loop = Node("parfor" if parallel else "for", ast.unparse(node.target), node.lineno, count)
        with self.inside(loop, max(1.0, float(min(extent.hi, 1e12)))):
            self.bind(node.target, self.element(parts, var(index), None))
            self.block(node.body)
        self.block(node.orelse)

    def _while(self, node: ast.While) -> None:
        with self.inside(Node("while", ast.unparse(node.test), node.lineno, WHILE_COUNT), WHILE_COUNT):
            self.ev(node.test)
            self.block(node.body)
        self.block(node.orelse)

    def _if(self, node: ast.If) -> None:
        truth = self.truth(node.test)
        if truth is not None:
            self.block(node.body if truth else node.orelse)
            return
        before = dict(self.names)
        with self.inside(Node("if", ast.unparse(node.test)[:40], node.lineno, 0.5 if node.orelse else 1.0)):
            self.block(node.body)
        first, self.names = self.names, before
        if node.orelse:
            with self.inside(Node("else", "", node.orelse[0].lineno, 0.5)):
                self.block(node.orelse)
        for name, value in first.items():
            other = self.names.get(name)
            if other is None or ops.most(value.shape or ()) > ops.most(other.shape or ()):
                other = other or value
                self.names[name] = replace(value, memory=value.memory | other.memory, number=None)
            elif other is not value:
                self.names[name] = replace(other, memory=value.memory | other.memory, number=None, known=NOTHING)

    def _with(self, node: ast.With) -> None:
        for item in node.items:
            self.ev(item.context_expr)
        self.block(node.body)

    def _try(self, node: ast.Try) -> None:
        for part in (node.body, *(h.body for h in node.handlers), node.orelse, node.finalbody):
            self.block(part)

    def _return(self, node: ast.Return) -> None:
        self.returned.append(self.ev(node.value) if node.value is not None else NUMBER)

    def _functiondef(self, node: ast.FunctionDef) -> None:
        self.names[node.name] = Value(function=node)

    def _expr(self, node: ast.Expr) -> None:
        self.ev(node.value)

    # -- loops ----------------------------------------------------------------------------------------------------

    def extent(self, parts: Sequence[ast.expr]) -> Expr:
        """How many iterations a loop over something has."""
        node = parts[0]
        if len(parts) > 1:
            return _range_length([self.ev(p) for p in parts])
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id == "range":
                return _range_length([self.ev(a) for a in node.args])
            if node.func.id in ("enumerate", "zip", "reversed", "list", "sorted") and node.args:
                return self.extent(node.args[:1])
        value = self.ev(node)
        if value.number is not None:
            return value.number
        if value.shape:
            return value.shape[0]
        try:
            return constant(len(value.known))
        except TypeError:
            return constant(len(value.items) if value.items is not None else WHILE_COUNT)

    def element(self, parts: Sequence[ast.expr], at: Expr, count: int | None) -> Value:
        """What a loop's variable is."""
        node = parts[0]
        name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
        assert not name or isinstance(node, ast.Call)
        args = node.args if isinstance(node, ast.Call) else []
        if len(parts) > 1 or name == "range":
            return _range_element([self.ev(p) for p in (parts if len(parts) > 1 else args)], at)
        if name == "enumerate" and args:
            return Value(items=(Value(number=at, scalar=True), self.element(args[:1], at, count)))
        if name == "zip" and args:
            return Value(items=tuple(self.element([a], at, count) for a in args))
        if name in ("reversed", "list", "sorted") and args:
            return self.element(args[:1], at, count)
        value = self.ev(node)
        if value.number is not None and value.scalar:
            return Value(number=at, scalar=True)
        if isinstance(value.known, range) and len(value.known):
            return Value(number=at * value.known.step + value.known.start, scalar=True)
        if isinstance(value.known, list | tuple):
            return largest(value.known)
        return subscripted(value, [], [NUMBER])

    # -- expressions ----------------------------------------------------------------------------------------------

    def ev(self, node: ast.expr) -> Value:
        """The value of an expression; its operators become leaves."""
        if isinstance(node, ast.Constant):
            return value_of(node.value)
        if isinstance(node, ast.Name):
            return self.look_up(node.id)
        method = getattr(self, f"_ev_{type(node).__name__.lower()}", None)
        if method is not None:
            found: Value = method(node)
            return found
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.ev(child)
        return Value()

    def look_up(self, name: str) -> Value:
        """A name."""
        if name in self.names:
            return self.names[name]
        thing = self.outside.get(name, NOTHING)
        if thing is NOTHING:
            thing = getattr(builtins, name, NOTHING)
        return Value() if thing is NOTHING else self.met(value_of(thing), name)

    def met(self, value: Value, name: str) -> Value:
        """Note an array from outside: all workers share it."""
        owner = value.owner
        if isinstance(owner, np.ndarray):
            root = root_of(owner)
            self.shared.setdefault(id(root), (name, root.nbytes))
        elif owner is not None:
            self.shared.setdefault(id(owner), (name, owner.nbytes))
        return value

    def _ev_tuple(self, node: ast.Tuple) -> Value:
        items = tuple(self.ev(e) for e in node.elts)
        return Value(items=items, memory=frozenset().union(*(i.memory for i in items)))

    def _ev_list(self, node: ast.List) -> Value:
        return self._ev_tuple(ast.Tuple(node.elts))

    def _ev_attribute(self, node: ast.Attribute) -> Value:
        return self.met(attribute(self.ev(node.value), node.attr), ast.unparse(node))

    def _ev_binop(self, node: ast.BinOp) -> Value:
        a, b = self.ev(node.left), self.ev(node.right)
        if isinstance(node.op, ast.MatMult) and a.shape is not None and b.shape is not None:
            return self.work(ops.product(a, b))
        self.rounds = self.rounds or isinstance(node.op, ast.Pow)
        if a.shape is None and b.shape is None:
            self.steps()
            return operated(node.op, a, b)
        return self.work(ops.elementwise(BINARY.get(type(node.op), "add"), (a, b)))

    def _ev_unaryop(self, node: ast.UnaryOp) -> Value:
        value = self.ev(node.operand)
        if value.shape is not None:
            return self.work(ops.elementwise("negative", [value]))
        self.steps()
        if isinstance(node.op, ast.USub) and value.number is not None:
            return Value(number=value.number * -1, scalar=True)
        return NUMBER

    def _ev_compare(self, node: ast.Compare) -> Value:
        values = [self.ev(e) for e in (node.left, *node.comparators)]
        if any(v.shape is not None for v in values) and len(values) == 2:
            return self.work(ops.elementwise("less", values))
        self.steps()
        return NUMBER

    def truth(self, node: ast.expr) -> bool | None:
        """Whether a condition holds in all iterations, or in none."""
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            found = compared(node.ops[0], self.ev(node.left), self.ev(node.comparators[0]))
            self.steps()
            return found
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = self.truth(node.operand)
            return None if inner is None else not inner
        value = self.ev(node)
        if isinstance(value.known, bool | int | str | type(None)):
            return bool(value.known)
        return None

    def _ev_ifexp(self, node: ast.IfExp) -> Value:
        self.ev(node.test)
        a, b = self.ev(node.body), self.ev(node.orelse)
        return a if ops.most(a.shape or ()) >= ops.most(b.shape or ()) else b

    def _ev_subscript(self, node: ast.Subscript) -> Value:
        return self._load(self.ev(node.value), node.slice)

    def _load(self, base: Value, index: ast.expr) -> Value:
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        values: list[Any] = []
        for part in parts:
            if isinstance(part, ast.Slice):
                ends = (part.lower, part.upper, part.step)
                values.append(tuple(None if e is None else self.ev(e) for e in ends))
            else:
                values.append(self.ev(part))
        out = self.met(subscripted(base, parts, values), ast.unparse(index))
        if out.bytes:
            return self.work(Work(out, "copy", ops.middle(out.shape or ()) * 3, ops.text_of("take", [out])))
        self.steps(2)
        return out

    def _ev_listcomp(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp) -> Value:
        first = node.generators[0]
        extent = self.extent([first.iter])
        index = Index("element", extent)
        loop = Node("for", ast.unparse(first.target), self.line, ops.middle((extent,)))
        with self.inside(loop, max(1.0, float(min(extent.hi, 1e12)))):
            self.bind(first.target, self.element([first.iter], var(index), None))
            for more in node.generators[1:]:
                self.bind(more.target, self.element([more.iter], constant(0), None))
            value = self.ev(node.elt)
            if isinstance(node, ast.ListComp):
                self.keep(value)
        return Value(memory=value.memory, items=(value,) if value.shape is not None else None)

    _ev_generatorexp = _ev_listcomp
    _ev_setcomp = _ev_listcomp

    def _ev_lambda(self, node: ast.Lambda) -> Value:
        return Value(function=node)

    def _ev_call(self, node: ast.Call) -> Value:
        args = [self.ev(a.value if isinstance(a, ast.Starred) else a) for a in node.args]
        named = {k.arg: self.ev(k.value) for k in node.keywords if k.arg is not None}
        target = self.ev(node.func)
        name = ast.unparse(node.func)
        followed = self._source(target)
        if followed is not None:
            return self._follow(*followed, name, args, named)
        work = call_work(target, name, args, named)
        if isinstance(work, Value):
            self.rounds = self.rounds or name.rsplit(".", 1)[-1] in ops.FUNCTIONS
            self.steps(3)
            if target.function is not None and name.endswith((".append", ".add", ".extend")):
                for value in args:
                    self.keep(value)
            return work
        if work.text.endswith("(...)"):
            self.unknown.append(name)
        return self.work(work)

    def _source(self, target: Value) -> tuple[ast.FunctionDef | ast.Lambda, Mapping[str, Any], bool] | None:
        """A function of the user's that can be followed: its source, its names, and whether it sees ours."""
        if isinstance(target.function, ast.FunctionDef | ast.Lambda):
            return target.function, {}, True
        known = inspect.unwrap(target.known) if callable(target.known) else target.known
        if isinstance(known, types.FunctionType) and not known.__module__.startswith(("numpy", "scipy", "tilewise")):
            try:
                tree = tree_of(known)
            except Refused:
                return None
            if isinstance(tree, ast.FunctionDef):
                return tree, {**known.__globals__, **inspect.getclosurevars(known).nonlocals}, False
        return None

    def _follow(
        self,
        function: ast.FunctionDef | ast.Lambda,
        outside: Mapping[str, Any],
        inner: bool,
        name: str,
        args: list[Value],
        named: dict[str, Value],
    ) -> Value:
        """Inside of a function of the user's."""
        if self.depth >= DEEPEST:
            self.unknown.append(name)
            return Value()
        kept = self.names, self.outside, self.returned, self.temporary, self.line
        parameters = [a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]
        local = dict(zip(parameters, args, strict=False)) | {n: v for n, v in named.items() if n in parameters}
        held: set[int] = set()
        for value in self.names.values():
            held |= value.memory
        self.around.append(held | self.temporary)
        self.names = {**self.names, **local} if inner else local
        self.outside = self.outside if inner else outside
        self.returned, self.temporary = [], set()
        self.depth += 1
        with self.inside(Node("call", name, self.line)):
            self.steps(4)
            if isinstance(function, ast.Lambda):
                self.returned.append(self.ev(function.body))
            else:
                self.block(function.body)
        self.depth -= 1
        out = max(self.returned, key=lambda v: ops.most(v.shape or ()), default=NUMBER)
        self.names, self.outside, self.returned, self.temporary, self.line = kept
        self.around.pop()
        self.temporary |= out.memory
        return out


def _range_length(values: Sequence[Value]) -> Expr:
    """The length of a range."""
    numbers = [v.number for v in values]
    if any(n is None for n in numbers):
        known = [n for n in numbers if n is not None]
        return known[-1] if known else constant(WHILE_COUNT)
    whole = [n for n in numbers if n is not None]
    start, stop = (constant(0), whole[0]) if len(whole) == 1 else (whole[0], whole[1])
    step = whole[2].const if len(whole) > 2 and whole[2].constant else 1
    span = stop - start if step > 0 else start - stop
    return floor_divide(span + (abs(step) - 1), constant(abs(step))) if abs(step) > 1 else span


def _range_element(values: Sequence[Value], at: Expr) -> Value:
    start = values[0].number if len(values) > 1 else constant(0)
    step = values[2].number if len(values) > 2 else constant(1)
    if start is None or step is None:
        return NUMBER
    return Value(number=start + multiply(at, step), scalar=True)
