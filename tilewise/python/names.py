"""Names and their types. In: values for names, in turn. Out: variables, and which types each name may have."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from tilewise.kernel.program.ir import (
    INT,
    Const,
    Expr,
    Fail,
    If,
    Set,
    Stmt,
    Var,
)
from tilewise.python.arrays import elementwise
from tilewise.python.build import (
    Array,
    Builder,
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
    compare,
)
from tilewise.python.containers import lists
from tilewise.python.functions.nodes import names_in, walk
from tilewise.python.refuse import Refused
from tilewise.python.scalars import arithmetic
from tilewise.python.scope import Dead, LoopFrame, Scope
from tilewise.python.types import UNBOUND, Arr, Dct, Env, Lst, Num, Obj, Tup, Type, Unbound, join, replaced

if TYPE_CHECKING:
    from tilewise.python.statements import Statements

MOST_ALTERNATIVES = 4
MOST_SPLITS = 6


class Names:
    """The state of lowering: where statements go, what names are, which loops are around."""

    def __init__(self, b: Builder, watch: Any, functions: Any) -> None:
        """functions: those of the program that call themselves (recursion.py)."""
        self.b, self.watch, self.functions = b, watch, functions
        self.inner = False  # of a function that calls itself, not of the program
        self.env: Env | None = {}
        self.scope = Scope(None, "", frozenset())
        self.loops: list[LoopFrame] = []
        self.heads: dict[tuple[Any, ...], Env] = {}
        self.results: list[Any] = []  # structures of what is returned
        self.result_dtypes: list[tuple[str, ...]] = []
        self.splitting = 0
        self.under_way = 0  # statements, tests and the like that are evaluated around here
        self.made_lists = set[str]()  # pools of lists that the outermost of them makes
        self.probing = False  # whether what is lowered is looked at only
        self.reads: dict[int, tuple[ast.AST, tuple[str, ...]]] = {}  # by node, which is held: the names in it
        self.careless = False  # whether the type of a number does not matter, if it has its value
        self.assigned = ""  # the name that gets the dict that is being made
        self.stored_as = ""  # the dtype that it gets then, if that is known
        self.last: dict[str, tuple[Type, ...]] = {}  # what names were last
        self.rebound = frozenset[str]()  # names that get another value (by :=) within this statement

    @contextmanager
    def caring(self, careless: bool = False) -> Iterator[None]:
        """Inside, the type of a number matters again, or still does not."""
        self.careless, kept = careless, self.careless
        try:
            yield
        finally:
            self.careless = kept

    def bind(self, name: str, value: Value, line: int, full: bool = False) -> None:
        """A name gets a value."""
        name = name if full else self.scope.prefix + name
        if isinstance(value, Choice):
            self.choose(name, value, line)
            return
        if isinstance(value, Tuple):  # its items may be those that the name has now, in another order
            value = cast("Statements", self).settled(value, line)
        t = self.store_in(name, value, line)
        self.set_type(name, t)

    def choose(self, full: str, value: Choice, line: int) -> None:
        """A name gets the one of several values that it is."""
        before, after = self.env, None
        assert before is not None
        blocks: list[list[Stmt]] = []
        for v in value.items:
            self.env = dict(before)
            with self.b.inside() as block:
                self.bind(full, v, line, full=True)
            blocks.append(block)
            after = join(after, self.env)
        rest = blocks[-1]
        for k in reversed(range(len(blocks) - 1)):
            rest = [If(compare("equal", Var(value.which, INT), Const(INT, k)), tuple(blocks[k]), tuple(rest))]
        self.b.block.extend(rest)
        self.env = after

    def set_type(self, name: str, t: Type) -> None:
        assert self.env is not None
        self.env[name] = self.last[name] = (t,)
        self.b.emit(Set(self.b.tag_name(name), self.b.tag(name, t)))

    def set_items(self, empty: Lst | Dct, t: Lst | Dct) -> None:
        """An empty container gets what it is of, for all who know it: its place stays, and so do tags of names."""
        assert self.env is not None
        for name, alts in self.env.items():
            now = tuple(replaced(a, empty, t) for a in alts)
            if now != alts:
                self.env[name] = self.last[name] = now

    def store_in(self, name: str, value: Value, line: int) -> Type:
        """The variables of a name get a value; its type."""
        b = self.b
        if isinstance(value, Lazy):
            value = elementwise.materialised(cast("Statements", self), value, line)
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
                return self.store_in(name, lists.made(cast("Statements", self), value.items, name, line), line)
            items = []
            for k, item in enumerate(value.items):
                items.append(self.store_in(f"{name}.{k}", item, line))
            return Tup(tuple(items))
        if isinstance(value, List) and value.at is not None:
            slot = b.slot(name, value.t)
            if not (isinstance(value.at, Var) and value.at.name == slot):
                b.emit(Set(slot, value.at))
            return value.t
        if isinstance(value, List | Dict):
            return value.t
        if isinstance(value, Static):
            return Obj(value.value)
        raise Refused(f"a name for {what(value)}", line)

    def fetch(self, name: str, t: Type) -> Value:
        """What a name is now, if it is of this type."""
        if isinstance(t, Num):
            return Scalar(t, Var(self.b.slot(name, t), t.dtype))
        if isinstance(t, Arr):
            return Array(t, self.b.slot(name, t))
        if isinstance(t, Tup):
            return Tuple(tuple(self.fetch(f"{name}.{k}", item) for k, item in enumerate(t.items)))
        if isinstance(t, Lst):
            return List(t, Var(self.b.slot(name, t), INT) if t.pooled else None)
        if isinstance(t, Dct):
            return Dict(t)
        assert isinstance(t, Obj)
        return Static(t.value)

    def read(self, name: str, line: int) -> Value:
        """A local name, which has one type here."""
        assert self.env is not None
        owner = self.owner(name)
        full = owner.prefix + name
        alts = self.env.get(full, (UNBOUND,))
        if len(alts) > 1:
            raise Refused(f"{name}, which is {' or '.join(map(str, alts))}", line, "Give it one type")
        if isinstance(alts[0], Unbound):
            text, without = f"variable '{name}' where it is not associated with a value", "cannot access"
            if owner is self.scope and name not in owner.free:
                self.fail("UnboundLocalError", f"{without} local {text}", line)
            self.fail("NameError", f"{without} free {text} in enclosing scope", line)
        found = self.fetch(full, alts[0])
        return self._as_now(found) if full in self.rebound else found

    @contextmanager
    def rebinding(self, node: ast.AST) -> Iterator[None]:
        """A statement or test, which may give names other values on its way."""
        kept = self.rebound
        new = {n.target.id for n in walk(node) if isinstance(n, ast.NamedExpr)}
        self.rebound = kept | {self.owner(name).prefix + name for name in new}
        try:
            yield
        finally:
            self.rebound = kept

    def _as_now(self, value: Value) -> Value:
        """Arrays with names that stay."""
        if isinstance(value, Tuple):
            return Tuple(tuple(map(self._as_now, value.items)), value.listed)
        if not isinstance(value, Array):
            return value
        name = self.b.array(value.t.dtype, value.t.rank)
        self.b.rename(name, value.name)
        del self.b.views[name]  # whose lengths are those of another array later
        return Array(value.t, name)

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
            test = arithmetic.truth(arithmetic.binary(self.b, "<" if less else ">", other, now, line))
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

    def torn(self, *nodes: ast.AST | None) -> str | None:
        """A name that is read in trees and has several types here."""
        if self.env is None:
            return None
        for node in nodes:
            if node is None:
                continue
            known = self.reads.get(id(node))  # bodies of loops are looked at several times
            if known is None:
                known = self.reads[id(node)] = (node, tuple(dict.fromkeys(names_in(node, read=True))))
            for name in known[1]:
                if self.is_local(name):
                    full = self.owner(name).prefix + name
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
        try:
            for t in alts:
                self.env = {**before, full: (t,)}
                with self.b.inside() as block:
                    try:
                        act()
                    except Dead:
                        self.env = None
                blocks.append((self.b.tag(full, t), block))
                after = join(after, self.env)
        finally:
            self.splitting -= 1
        tag = Var(self.b.tag_name(full), INT)
        rest = blocks[-1][1]
        for number, block in reversed(blocks[:-1]):
            rest = [If(compare("equal", tag, number), tuple(block), tuple(rest))]
        self.b.block.extend(rest)
        self.env = after

    @contextmanager
    def within(self, scope: Scope) -> Iterator[None]:
        self.scope, kept = scope, self.scope
        self.loops, loops = [], self.loops
        self.b.place, place = scope.place, self.b.place
        try:
            yield
        except Refused as error:
            if error.line:
                error.file = error.file or scope.place[0]
            raise
        finally:
            self.scope, self.loops, self.b.place = kept, loops, place


def what(value: Value) -> str:
    if isinstance(value, Static):
        return str(Obj(value.value))
    if isinstance(value, Scalar | Array | Lazy | List | Dict):
        return str(value.t)
    return {Tuple: "a tuple", Slice: "a slice", Sequence_: "a range or the like"}[type(value)]
