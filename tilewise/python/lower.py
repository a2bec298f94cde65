"""Statements. In: a function's syntax tree, types of its arguments. Out: a program, with every name's types known.

The tree is interpreted on types while statements are emitted: a loop is lowered again until the types at its head stay
the same. Where a name has several types (or perhaps none), a statement that reads it is emitted for each of them.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

from tilewise.kernel.program.ir import (
    BOOL,
    INT,
    Const,
    Expr,
    Fail,
    For,
    If,
    Leave,
    Loop,
    Named,
    Op,
    Return,
    Set,
    Stmt,
    Store,
    Var,
)
from tilewise.python import arrays, calls, refine, values
from tilewise.python.build import Array, Builder, Lazy, Scalar, Sequence_, Slice, Static, Tuple, Value, compare, negate
from tilewise.python.refuse import Refused
from tilewise.python.types import UNBOUND, Arr, Env, Num, Obj, Tup, Type, Unbound, ints, join, key, widen

MOST_LOOKS = 40  # at a loop, before its types count as unstable
MOST_ALTERNATIVES = 4
MOST_SPLITS = 6


class Dead(Exception):
    """The rest of a statement is never reached: what was emitted fails."""


@dataclass
class Scope:
    """A function being lowered: its names are those of the program after a prefix."""

    function: FunctionType | None
    prefix: str
    locals: frozenset[str]
    parent: Scope | None = None
    returns: Callable[[Value, int], None] | None = None
    depth: int = 0


@dataclass
class LoopFrame:
    label: str
    breaks: list[Env] = field(default_factory=list)
    continues: list[Env] = field(default_factory=list)


class Lower:
    """The state: where statements go, what names are, which loops are around."""

    def __init__(self, b: Builder, watch: Any) -> None:
        self.b, self.watch = b, watch
        self.env: Env | None = {}
        self.scope = Scope(None, "", frozenset())
        self.loops: list[LoopFrame] = []
        self.heads: dict[tuple[str, int], Env] = {}
        self.results: list[Any] = []  # structures of what is returned
        self.result_dtypes: list[tuple[str, ...]] = []
        self.splitting = 0
        self.careless = False  # whether the type of a number does not matter
        self.last: dict[str, tuple[Type, ...]] = {}  # what names were last

    # -- names -------------------------------------------------------------------------------------------------------

    def bind(self, name: str, value: Value, line: int, full: bool = False) -> None:
        """A name gets a value."""
        name = name if full else self.scope.prefix + name
        t = self.store_in(name, value, line)
        self.set_type(name, t)

    def set_type(self, name: str, t: Type) -> None:
        assert self.env is not None
        self.env[name] = self.last[name] = (t,)
        self.b.emit(Set(self.b.tag_name(name), self.b.tag(name, t)))

    def store_in(self, name: str, value: Value, line: int) -> Type:
        """The variables of a name get a value; its type."""
        b = self.b
        if isinstance(value, Lazy):
            value = arrays.materialised(self, value, line)
        if isinstance(value, Scalar):
            slot = b.slot(name, value.t)
            if not (isinstance(value.e, Var) and value.e.name == slot):
                b.emit(Set(slot, value.e))
            return value.t
        if isinstance(value, Array):
            slot = b.slot(name, value.t)
            if slot != value.name:
                b.rename(slot, value.name)
            return value.t
        if isinstance(value, Tuple):
            if value.listed:
                raise Refused("a list", line, "Use an array, or a tuple")
            items = []
            for k, item in enumerate(value.items):
                items.append(self.store_in(f"{name}.{k}", item, line))
            return Tup(tuple(items))
        if isinstance(value, Static):
            return Obj(value.value)
        raise Refused(f"a name for {_what(value)}", line)

    def fetch(self, name: str, t: Type) -> Value:
        """What a name is now, if it is of this type."""
        if isinstance(t, Num):
            return Scalar(t, Var(self.b.slot(name, t), t.dtype))
        if isinstance(t, Arr):
            return Array(t, self.b.slot(name, t))
        if isinstance(t, Tup):
            return Tuple(tuple(self.fetch(f"{name}.{k}", item) for k, item in enumerate(t.items)))
        assert isinstance(t, Obj)
        return Static(t.value)

    def read(self, name: str, line: int) -> Value:
        """A local name, which has one type here."""
        assert self.env is not None
        full = self.owner(name).prefix + name
        alts = self.env.get(full, (UNBOUND,))
        if len(alts) > 1:
            raise Refused(f"{name}, which is {' or '.join(map(str, alts))}", line, "Give it one type")
        if isinstance(alts[0], Unbound):
            text = f"cannot access local variable '{name}' where it is not associated with a value"
            self.fail("UnboundLocalError", text, line)
        return self.fetch(full, alts[0])

    def share(self, source: str, name: str) -> None:
        """A name gets what another is, whichever of its types that has."""
        assert self.env is not None

        def act() -> None:
            assert self.env is not None
            self.bind(name, self.fetch(source, self.env[source][0]), 0, full=True)

        self.each_type(source, 0, act)

    def better(self, full: str, other: Scalar, less: bool, line: int) -> None:
        """A name becomes another number, if that is less, or greater."""

        def act() -> None:
            assert self.env is not None
            now = self.fetch(full, self.env[full][0])
            assert isinstance(now, Scalar)
            test = values.arithmetic.truth(values.arithmetic.binary(self.b, "<" if less else ">", other, now, line))
            before = dict(self.env)
            with self.b.inside() as block:
                self.bind(full, other, line, full=True)
            self.b.emit(If(test, tuple(block)))
            self.env = join(before, self.env)

        self.each_type(full, line, act)

    def owner(self, name: str) -> Scope:
        """The function around here whose local a name is."""
        scope: Scope | None = self.scope
        while scope is not None:
            if name in scope.locals:
                return scope
            scope = scope.parent
        raise KeyError(name)

    def is_local(self, name: str) -> bool:
        scope: Scope | None = self.scope
        while scope is not None:
            if name in scope.locals:
                return True
            scope = scope.parent
        return False

    def fail(self, error: str, text: str, line: int, *values: Expr) -> None:
        """The program raises here."""
        self.b.emit(Fail(self.b.fault(error, text, line), values))
        self.env = None
        raise Dead

    # -- alternatives ------------------------------------------------------------------------------------------------

    def torn(self, *nodes: ast.AST | None) -> str | None:
        """A name that is read in trees and has several types here."""
        if self.env is None:
            return None
        for node in nodes:
            for n in ast.walk(node) if node is not None else ():
                read = isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
                if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name):
                    n, read = n.target, True
                if read and self.is_local(n.id):
                    full = self.owner(n.id).prefix + n.id
                    if len(self.env.get(full, ())) > 1:
                        return full
        return None

    def each_type(self, full: str, line: int, act: Callable[[], None]) -> None:
        """Emit something for each type that a name may have."""
        assert self.env is not None
        alts, before = self.env[full], self.env
        if len(alts) > MOST_ALTERNATIVES or self.splitting >= MOST_SPLITS:
            raise Refused(f"names of several types ({' or '.join(map(str, alts))})", line, "Give each name one type")
        after: Env | None = None
        self.splitting += 1
        blocks: list[tuple[Const, list[Stmt]]] = []
        for t in alts:
            self.env = {**before, full: (t,)}
            with self.b.inside() as block:
                try:
                    act()
                except Dead:
                    self.env = None
            blocks.append((self.b.tag(full, t), block))
            after = join(after, self.env)
        self.splitting -= 1
        tag = Var(self.b.tag_name(full), INT)
        rest = blocks[-1][1]
        for number, block in reversed(blocks[:-1]):
            rest = [If(compare("equal", tag, number), tuple(block), tuple(rest))]
        self.b.block.extend(rest)
        self.env = after

    def condition(self, node: ast.expr) -> Expr:
        """A test, as a bool."""
        torn = self.torn(node)
        if torn is None:
            at, env = len(self.b.block), dict(self.env or {})
            try:
                return values.test(self, node)
            except calls.Several as error:
                del self.b.block[at:]
                self.env = env
                return self.condition(self.call_before(node, error))
        slot = self.b.fresh("c")
        self.b.names[slot] = BOOL
        self.each_type(torn, node.lineno, lambda: self.b.emit(Set(slot, self.condition(node))))
        if self.env is None:
            raise Dead
        return Var(slot, BOOL)

    # -- statements --------------------------------------------------------------------------------------------------

    def block(self, body: list[ast.stmt]) -> None:
        for node in body:
            if self.env is None:
                return
            try:
                self.statement(node)
            except Dead:
                self.env = None
            except Refused as error:
                error.line = error.line or node.lineno
                raise

    def statement(self, node: ast.stmt) -> None:
        self.b.kept = {}
        how = _STATEMENTS.get(type(node))
        if how is None:
            raise Refused(_CONSTRUCTS.get(type(node), type(node).__name__.lower()), node.lineno)
        if type(node) in _SIMPLE and (torn := self.torn(node)) is not None:
            self.each_type(torn, node.lineno, lambda: self.statement(node))
            return
        if isinstance(node, ast.If | ast.For | ast.While):
            how(self, node)
            return
        at, env = len(self.b.block), dict(self.env or {})
        try:
            how(self, node)
        except calls.Several as error:
            del self.b.block[at:]
            self.env = env
            self.statement(self.call_before(node, error))

    def call_before(self, node: Any, error: calls.Several) -> Any:
        """Make a call of several types before the rest of a statement, which then has a name for it."""
        if _sheltered(node, error.node):
            raise error
        if self.splitting >= MOST_SPLITS:
            raise error
        name = f"call@{error.node.lineno}.{error.node.col_offset}"
        self.scope.locals = self.scope.locals | {name}
        at = error.node
        full = self.scope.prefix + name
        if isinstance(at, ast.IfExp):
            target = ast.copy_location(ast.Name(name, ast.Store()), at)
            arms = [ast.copy_location(ast.Assign([target], v), v) for v in (at.body, at.orelse)]
            self.statement(ast.copy_location(ast.If(at.test, [arms[0]], [arms[1]]), at))
        elif isinstance(at.func, ast.Name) and at.func.id in ("min", "max") and not self.is_local(at.func.id):
            calls.extreme_before(self, at, full)
        else:
            source = error.source
            try:
                calls.call(self, at)
            except calls.Several as again:
                if again.node is not at:
                    raise
                source = again.source
            assert self.env is not None
            self.share(source, full)
        if self.env is None:
            raise Dead
        swap = _Swap(error.node, ast.copy_location(ast.Name(name, ast.Load()), error.node))
        return swap.visit(copy.deepcopy(node, {id(error.node): error.node}))

    def expression(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return
        found = values.value(self, node.value)
        if isinstance(found, Scalar):
            self.b.keep(found.e)

    def assign(self, node: ast.Assign) -> None:
        # An element has the array's type, whichever a number has.
        kept, self.careless = self.careless, all(isinstance(t, ast.Subscript) for t in node.targets)
        self.careless &= isinstance(node.value, ast.IfExp | ast.Call)
        try:
            found = values.value(self, node.value)
        finally:
            self.careless = kept
        if len(node.targets) > 1 or isinstance(node.targets[0], ast.Tuple | ast.List):
            found = self.settled(found, node.lineno)
        for target in node.targets:
            self.assign_to(target, found, node.lineno)

    def ann_assign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.assign_to(node.target, values.value(self, node.value), node.lineno)

    def settled(self, value: Value, line: int) -> Value:
        """A value that later assignments cannot change."""
        if isinstance(value, Tuple):
            return Tuple(tuple(self.settled(v, line) for v in value.items))
        if isinstance(value, Scalar):
            return Scalar(value.t, self.b.keep(value.e))
        if isinstance(value, Lazy):
            return arrays.materialised(self, value, line)
        if isinstance(value, Array):  # owned, unlike temporary views: the name that owns it may get another
            name = "=" + self.b.fresh()
            self.b.arrays[name] = self.b.arrays[value.name]
            self.b.rename(name, value.name)
            return Array(value.t, name)
        return value

    def assign_to(self, target: ast.expr, value: Value, line: int) -> None:
        if isinstance(target, ast.Name):
            if not self.is_local(target.id) or target.id not in self.scope.locals:
                raise Refused(f"assignment to {target.id}, which is outside of the function", line)
            self.bind(target.id, value, line)
        elif isinstance(target, ast.Tuple | ast.List):
            if isinstance(value, Array | Lazy):
                value = values.unpacked(self, value, len(target.elts), line)
            if not isinstance(value, Tuple) or any(isinstance(t, ast.Starred) for t in target.elts):
                raise Refused(f"unpacking of {_what(value)}", line)
            if len(value.items) != len(target.elts):
                n, m = len(target.elts), len(value.items)
                text = f"too many values to unpack (expected {n})" if m > n else f"not enough values to unpack (expected {n}, got {m})"
                self.fail("ValueError", text, line)
            for t, v in zip(target.elts, value.items, strict=True):
                self.assign_to(t, v, line)
        elif isinstance(target, ast.Subscript):
            base = values.value(self, target.value)
            arrays.set_item(self, base, values.index_of(self, target.slice), value, target.lineno)
        else:
            raise Refused("assignment to an attribute", line)

    def aug_assign(self, node: ast.AugAssign) -> None:
        op, line = values.OPERATORS[type(node.op)], node.lineno
        if isinstance(node.target, ast.Name):
            now = values.value(self, ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target))
            now, other = values.after(self, now, lambda: values.value(self, node.value))
            if isinstance(now, Array):
                arrays.update(self, now, op, other, line)
                return
            if (isinstance(now, Scalar) and isinstance(other, Array | Lazy)) or isinstance(now, Scalar | Tuple):
                self.assign_to(node.target, values.binary(self, op, now, other, line), line)
                return
            raise Refused(f"{op}= of {_what(now)}", line)
        if not isinstance(node.target, ast.Subscript):
            raise Refused("assignment to an attribute", line)
        base = values.value(self, node.target.value)
        index = arrays.fixed(self, values.index_of(self, node.target.slice))
        old = arrays.get_item(self, base, index, line)
        if isinstance(old, Scalar):
            old = Scalar(old.t, self.b.keep(old.e))
            new = values.binary(self, op, old, values.value(self, node.value), line)
            arrays.set_item(self, base, index, new, line)
        elif isinstance(old, Array):
            arrays.update(self, old, op, values.value(self, node.value), line)
        else:
            old = arrays.materialised(self, old, line) if isinstance(old, Lazy) else old
            arrays.set_item(self, base, index, values.binary(self, op, old, values.value(self, node.value), line), line)

    def if_(self, node: ast.If) -> None:
        test = self.condition(node.test)
        if isinstance(test, Const):
            self.block(node.body if test.value else node.orelse)
            return
        before = self.env
        assert before is not None
        self.env = refine.by(self, dict(before), node.test, True)
        with self.b.inside() as then:
            self.block(node.body)
        one = self.env
        self.env = refine.by(self, dict(before), node.test, False)
        with self.b.inside() as other:
            self.block(node.orelse)
        self.env = join(one, self.env)
        self.b.emit(If(test, tuple(then), tuple(other)))

    def return_(self, node: ast.Return) -> None:
        found = Static(None) if node.value is None else values.value(self, node.value)
        self.return_value(found, node.lineno)

    def return_value(self, found: Value, line: int) -> None:
        if self.scope.returns is not None:
            self.scope.returns(found, line)
            return
        leaves: list[Expr | str] = []
        structure = self._structure(found, leaves, line)
        shapes = self.b.arrays
        dtypes = tuple(f"array {shapes[v][0]} {shapes[v][1]}" if isinstance(v, str) else v.dtype for v in leaves)
        if structure not in self.results:
            self.results.append(structure)
            self.result_dtypes.append(dtypes)
        self.b.emit(Return(self.results.index(structure), tuple(leaves)))
        self.env = None

    def _structure(self, value: Value, leaves: list[Expr | str], line: int) -> Any:
        if isinstance(value, Lazy):
            value = arrays.materialised(self, value, line)
        if isinstance(value, Scalar):
            leaves.append(value.e)
            return ("py" if value.t.py else "np", value.t.dtype)
        if isinstance(value, Array):
            leaves.append(value.name)
            return ("array", value.t.kind, value.t.dtype, value.t.rank)
        if isinstance(value, Tuple) and not value.listed:
            return ("tuple", *(self._structure(v, leaves, line) for v in value.items))
        if isinstance(value, Static):
            return ("object", Obj(value.value))
        raise Refused(f"a result that is {_what(value)}", line)

    def raise_(self, node: ast.Raise) -> None:
        error, text, parts = values.exception(self, node)
        self.fail(error, text, node.lineno, *parts)

    def assert_(self, node: ast.Assert) -> None:
        test = self.condition(node.test)
        text = ""
        if node.msg is not None:
            if not isinstance(node.msg, ast.Constant) or not isinstance(node.msg.value, str):
                raise Refused("an assert with a computed message", node.lineno, "Give it a text")
            text = node.msg.value.replace("{", "{{").replace("}", "}}")
        self.b.emit(If(negate(test), (Fail(self.b.fault("AssertionError", text, node.lineno)),)))

    def pass_(self, node: ast.stmt) -> None:
        pass

    def break_(self, node: ast.Break) -> None:
        self._leave(self.loops[-1].breaks, self.loops[-1].label + ".end")

    def continue_(self, node: ast.Continue) -> None:
        self._leave(self.loops[-1].continues, self.loops[-1].label + ".next")

    def _leave(self, envs: list[Env], label: str) -> None:
        assert self.env is not None
        envs.append(self.env)
        self.b.emit(Leave(label))
        self.env = None

    def define(self, node: ast.FunctionDef) -> None:
        if node.decorator_list:
            raise Refused("a decorator inside", node.lineno)
        self.bind(node.name, Static(values.Closure(node, self.scope, node.name)), node.lineno)

    # -- loops -------------------------------------------------------------------------------------------------------

    def while_(self, node: ast.While) -> None:
        def once() -> Env | None:
            """One iteration; what is known where the test fails."""
            try:
                test = self.condition(node.test)
            except Dead:
                self.env = None
                return None
            if isinstance(test, Const) and test.value:
                self.block(node.body)
                return None
            assert self.env is not None
            out = refine.by(self, dict(self.env), node.test, False)
            self.b.emit(If(negate(test), (Leave(frame.label + ".over"),)))
            self.env = refine.by(self, self.env, node.test, True)
            self.block(node.body)
            return out

        frame = LoopFrame(self.b.fresh("w"))
        body, _, ends = self.fixed_point(node, frame, once)
        self.finish(node, frame, [Named(frame.label + ".over", (Loop(body, node.lineno),))], ends)

    def for_(self, node: ast.For) -> None:
        if node.iter and (torn := self.torn(node.iter)) is not None:
            node = self._calm(node)
        iterated = values.iterated(self, values.value(self, node.iter), node.iter.lineno)
        if isinstance(iterated, Tuple):
            self.unrolled(node, iterated)
            return
        start, stop, step, item = iterated
        if isinstance(step.e, Const):
            down = step.e.value < 0
        else:
            down = step.t.hi < 0
            zero = self.b.fault("ValueError", "range() arg 3 must not be zero", node.iter.lineno)
            step = Scalar(step.t, self.b.keep(step.e))
            self.b.emit(If(compare("equal", step.e, Const(INT, 0)), (Fail(zero),)))
        lo, hi = start.t.lo, stop.t.hi - 1
        if down:
            lo, hi = stop.t.lo + 1, start.t.hi
        elif not isinstance(step.e, Const) and step.t.lo <= 0:
            lo, hi = min(start.t.lo, stop.t.lo + 1), max(start.t.hi, stop.t.hi - 1)
        t = ints(min(lo, hi), hi)
        runs = not down and stop.t.lo > start.t.hi and isinstance(step.e, Const)
        direct = item is None and isinstance(node.target, ast.Name) and not _assigns(node.body, node.target.id)
        if isinstance(node.target, ast.Name) and not self.is_local(node.target.id):
            raise Refused(f"assignment to {node.target.id}, which is outside of the function", node.lineno)
        counter = self.b.slot(self.scope.prefix + node.target.id, t) if direct else self.b.fresh("i")  # type: ignore[attr-defined]
        self.b.names[counter] = INT
        at = Scalar(t, Var(counter, INT))

        def once() -> Env | None:
            assert self.env is not None
            out = dict(self.env)
            self.assign_to(node.target, at if item is None else item(at), node.lineno)
            self.block(node.body)
            return out

        frame = LoopFrame(self.b.fresh("f"))
        body, back, ends = self.fixed_point(node, frame, once)
        loop = For(counter, start.e, stop.e, step.e, body, node.lineno)
        self.finish(node, frame, [loop], back if runs and back is not None and not frame.breaks else ends)

    def _calm(self, node: ast.For) -> ast.For:
        """The same loop over a range of names that have one type each."""
        if not isinstance(node.iter, ast.Call):
            raise Refused("a loop over something of several types", node.lineno)
        args: list[ast.expr] = []
        for k, arg in enumerate(node.iter.args):
            full = self.torn(arg)
            if full is None:
                args.append(arg)
                continue
            name = f"range{k}@{node.lineno}"
            self.scope.locals = self.scope.locals | {name}
            self.statement(ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], arg), arg))
            if self.env is None:
                raise Dead
            args.append(ast.copy_location(ast.Name(name, ast.Load()), arg))
        call = ast.copy_location(ast.Call(node.iter.func, args, []), node.iter)
        made = ast.copy_location(ast.For(node.target, call, node.body, node.orelse), node)
        if (torn := self.torn(call)) is not None:
            raise Refused(f"a loop over {torn}, which has several types", node.lineno)
        return made

    def fixed_point(
        self, node: ast.stmt, frame: LoopFrame, once: Callable[[], Env | None]
    ) -> tuple[tuple[Stmt, ...], Env | None, Env | None]:
        """The body of a loop; what is known after an iteration, and where the loop ends."""
        assert self.env is not None
        at = (self.scope.prefix, node.lineno, node.col_offset, frame.label[:2])
        known = self.heads.get(at)  # type: ignore[call-overload]
        head = dict(self.env)
        if known is not None:
            head = {n: _keeping(known.get(n), alts) for n, alts in head.items()}
        for look in range(MOST_LOOKS):
            frame.breaks.clear()
            frame.continues.clear()
            self.env, grown = dict(head), self.b.grown
            self.loops.append(frame)
            with self.b.inside() as body:
                try:
                    out = once()
                except Dead:
                    self.env, out = None, None
            self.loops.pop()
            back = self.env
            for env in frame.continues:
                back = join(back, env)
            after = join(dict(head), back)
            assert after is not None
            if after == head and grown == self.b.grown:
                self.heads[at] = head  # type: ignore[index]
                inner: tuple[Stmt, ...] = tuple(body)
                if frame.continues:
                    inner = (Named(frame.label + ".next", inner),)
                return inner, back, out
            head = widen(head, after) if look else after
        raise Refused("types that change in a loop", node.lineno, "Give each name one type")

    def finish(self, node: ast.For | ast.While, frame: LoopFrame, loop: list[Stmt], ends: Env | None) -> None:
        """What follows a loop that ended by itself, and one that was left."""
        self.env = ends
        with self.b.inside() as other:
            self.b.block.extend(loop)
            if node.orelse:
                self.block(node.orelse)
        for env in frame.breaks:
            self.env = join(self.env, env)
        self.b.emit(Named(frame.label + ".end", tuple(other))) if frame.breaks else self.b.block.extend(other)

    def unrolled(self, node: ast.For, items: Tuple) -> None:
        """A loop over a tuple: its items may have types of their own."""
        if len(items.items) > 64:
            raise Refused("a loop over a long tuple", node.lineno)
        frame = LoopFrame(self.b.fresh("u"))
        with self.b.inside() as whole:
            for item in items.items:
                if self.env is None:
                    break
                frame.continues.clear()
                self.loops.append(frame)
                with self.b.inside() as body:
                    self.assign_to(node.target, item, node.lineno)
                    self.block(node.body)
                self.loops.pop()
                for env in frame.continues:
                    self.env = join(self.env, env)
                self.b.block.extend([Named(frame.label + ".next", tuple(body))] if frame.continues else body)
            if self.env is not None and node.orelse:
                self.block(node.orelse)
        for env in frame.breaks:
            self.env = join(self.env, env)
        self.b.block.extend([Named(frame.label + ".end", tuple(whole))] if frame.breaks else whole)

    @contextmanager
    def within(self, scope: Scope) -> Iterator[None]:
        self.scope, kept = scope, self.scope
        self.loops, loops = [], self.loops
        try:
            yield
        finally:
            self.scope, self.loops = kept, loops


class _Swap(ast.NodeTransformer):
    """Puts one expression in the place of another."""

    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> Any:
        return self.new if node is self.old else self.generic_visit(node)


def _sheltered(node: ast.AST, call: ast.AST) -> bool:
    """Whether a call is made only if something before it in the statement says so."""
    for n in ast.walk(node):
        late: list[ast.AST] = []
        if isinstance(n, ast.BoolOp):
            late = list(n.values[1:])
        elif isinstance(n, ast.IfExp):
            late = [n.body, n.orelse]
        elif isinstance(n, ast.Compare):
            late = list(n.comparators[1:])
        elif isinstance(n, ast.GeneratorExp | ast.ListComp | ast.Lambda):
            late = [n]
        if any(m is call for part in late for m in ast.walk(part)):
            return True
    return False


def _keeping(known: Any, alts: Any) -> Any:
    """What is known of a name at the head of a loop from an earlier look, if it is more."""
    if known is None:
        return alts
    merged = {key(t): t for t in known}
    return tuple(merged.get(key(t), t) if _inside(t, merged.get(key(t))) else t for t in alts)


def _inside(t: Type, other: Type | None) -> bool:
    return isinstance(t, Num) and isinstance(other, Num) and other.lo <= t.lo and t.hi <= other.hi


def _assigns(body: list[ast.stmt], name: str) -> bool:
    return any(
        isinstance(n, ast.Name) and n.id == name and not isinstance(n.ctx, ast.Load) for s in body for n in ast.walk(s)
    )


def _what(value: Value) -> str:
    if isinstance(value, Static):
        return str(Obj(value.value))
    if isinstance(value, Scalar | Array | Lazy):
        return str(value.t)
    return {Tuple: "a tuple", Slice: "a slice", Sequence_: "a range or the like"}[type(value)]


_STATEMENTS: dict[type[ast.stmt], Any] = {
    ast.Expr: Lower.expression,
    ast.Assign: Lower.assign,
    ast.AnnAssign: Lower.ann_assign,
    ast.AugAssign: Lower.aug_assign,
    ast.If: Lower.if_,
    ast.While: Lower.while_,
    ast.For: Lower.for_,
    ast.Return: Lower.return_,
    ast.Raise: Lower.raise_,
    ast.Assert: Lower.assert_,
    ast.Pass: Lower.pass_,
    ast.Break: Lower.break_,
    ast.Continue: Lower.continue_,
    ast.FunctionDef: Lower.define,
}
_SIMPLE = (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Raise, ast.Assert)
_CONSTRUCTS: dict[type[ast.stmt], str] = {
    ast.Try: "try",
    ast.With: "with",
    ast.Global: "global",
    ast.Nonlocal: "nonlocal",
    ast.ClassDef: "a class inside",
    ast.Import: "an import inside",
    ast.ImportFrom: "an import inside",
    ast.Delete: "del",
    ast.Match: "match",
    ast.AsyncFor: "async",
}
_ = (Op, Store)
