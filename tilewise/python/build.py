"""A program under construction. In: statements, one after the other. Out: blocks, variables, faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tilewise.kernel.program.ir import (
    BOOL,
    INT,
    Alloc,
    Block,
    Const,
    Dim,
    Expr,
    Fault,
    Host,
    HostCall,
    Invoke,
    Load,
    Op,
    Pick,
    Set,
    Span,
    Stmt,
    Var,
    View,
)
from tilewise.kernel.program.walk import inner_blocks
from tilewise.python.types import UNBOUND, Arr, Dct, Lst, Num, Type, key, suffix


@dataclass(frozen=True)
class Scalar:
    """A number, and how it is computed."""

    t: Num
    e: Expr


@dataclass(frozen=True)
class Array:
    """An array in a variable."""

    t: Arr
    name: str


@dataclass(frozen=True)
class Lazy:
    """An array that is not computed yet: its elements one by one.

    element(index, exact): `exact` if all conditions of `equal` hold, so that nothing is repeated along an axis.
    `reads`: the arrays whose elements are read; of those that are `aligned`, element i of this needs element i alone
    (if all of `equal` holds). `shown`: the array that it is where it gets a name, which shows the memory of another;
    without it, that is a new one.
    """

    t: Arr
    shape: tuple[Expr, ...]
    element: Callable[[Sequence[Expr], bool], Scalar]
    reads: tuple[str, ...]
    aligned: frozenset[str] = frozenset()
    equal: tuple[Expr, ...] = ()
    shown: Callable[[], Array] | None = None


@dataclass(frozen=True)
class Tuple:
    items: tuple[Value, ...]
    listed: bool = False  # a list, of which nobody may keep hold


@dataclass(frozen=True)
class List:
    """A list that may grow (lists.py). `at`: its number, if it is one of a pool (pools.py)."""

    t: Lst
    at: Expr | None = None


@dataclass(frozen=True)
class Dict:
    """A dict or a set (dicts.py)."""

    t: Dct


@dataclass(frozen=True)
class Choice:
    """One of several values, of which each has its type; a variable has the number of the one that it is."""

    items: tuple[Value, ...]
    which: str


@dataclass(frozen=True)
class Static:
    """Something known when compiling."""

    value: Any


@dataclass(frozen=True, eq=False)
class Opaque:
    """An object at a place of the table of a call; `sample` is one of its kind."""

    at: int
    sample: Any


@dataclass(frozen=True)
class Slice:
    start: Value | None
    stop: Value | None
    step: Value | None


@dataclass(frozen=True)
class Sequence_:
    """range, enumerate, zip, reversed; keys, values, items of a dict: what a loop goes over."""

    kind: str
    parts: tuple[Value, ...]


Value = Scalar | Array | Lazy | Tuple | List | Dict | Choice | Static | Slice | Sequence_

ZERO, ONE = Const(INT, 0), Const(INT, 1)
TRUE, FALSE = Const(BOOL, True), Const(BOOL, False)


def dtype_of(e: Expr) -> str:
    return e.dtype


def simple(e: Expr) -> bool:
    """Whether evaluating it again costs nothing and cannot fail or change before the statement ends."""
    return isinstance(e, Const | Var | Dim)


def add(a: Expr, b: Expr) -> Expr:
    """Of subscripts and lengths, which are far from overflowing."""
    if isinstance(a, Const) and isinstance(b, Const):
        return Const(INT, a.value + b.value)
    if a == ZERO or b == ZERO:
        return b if a == ZERO else a
    return Op("add", INT, (a, b), exact=True)


def sub(a: Expr, b: Expr) -> Expr:
    if isinstance(a, Const) and isinstance(b, Const):
        return Const(INT, a.value - b.value)
    return a if b == ZERO else Op("subtract", INT, (a, b), exact=True)


def mul(a: Expr, b: Expr) -> Expr:
    if isinstance(a, Const) and isinstance(b, Const):
        return Const(INT, a.value * b.value)
    if a == ONE or b == ONE:
        return b if a == ONE else a
    return Op("multiply", INT, (a, b), exact=True)


def compare(fn: str, a: Expr, b: Expr) -> Expr:
    return Op(fn, BOOL, (a, b))


def both(a: Expr, b: Expr) -> Expr:
    if TRUE in (a, b):
        return b if a == TRUE else a
    return Op("logical_and", BOOL, (a, b))


def either(a: Expr, b: Expr) -> Expr:
    if FALSE in (a, b):
        return b if a == FALSE else a
    return Op("logical_or", BOOL, (a, b))


def negate(a: Expr) -> Expr:
    return Const(BOOL, not a.value) if isinstance(a, Const) else Op("logical_not", BOOL, (a,))


def pick(test: Expr, yes: Expr, no: Expr) -> Expr:
    if isinstance(test, Const):
        return yes if test.value else no
    return Pick(test, yes, no, yes.dtype)


@dataclass
class CalledByOrder:
    """What memory order has to do with a call of Python (memory_order.py).

    `depends`: its name, if its result depends on how its first argument lies in memory. `in_c_order`: what it gives
    lies in C order if its arguments do.
    """

    depends: str
    line: int
    in_c_order: bool


@dataclass
class Builder:
    """Statements go to `block`."""

    block: list[Stmt] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    arrays: dict[str, tuple[str, int]] = field(default_factory=dict)
    faults: dict[Fault, int] = field(default_factory=dict)
    tags: dict[str, list[Any]] = field(default_factory=dict)  # of each name: the keys of its types
    roots: dict[str, frozenset[str]] = field(default_factory=dict)  # whose memory arrays may show
    views: dict[str, View] = field(default_factory=dict)  # of temporary names
    grown: int = 0  # counts changes of roots
    kept: dict[Expr, Expr] = field(default_factory=dict)  # sizes computed in this statement
    steadily: dict[Expr, Expr] = field(default_factory=dict)  # what variables of the program were in this statement
    rare: bool = False  # what is emitted hardly ever runs
    sure: bool = False  # subscripts of what is emitted are in range
    count: int = 0
    host: list[Host] = field(default_factory=list)  # what HostCalls call
    calls: dict[int, CalledByOrder] = field(default_factory=dict)  # of these: what memory order has to do with them
    like: dict[str, tuple[str, ...]] = field(default_factory=dict)  # of new arrays: those whose order NumPy gives them
    objects: dict[Any, Opaque] = field(default_factory=dict)  # what has no type of its own, by where it is made
    generators: dict[Any, int] = field(default_factory=dict)  # which of `host` gives a generator that is drawn from
    removed: set[str] = field(default_factory=set)  # places of dicts that entries go from
    holders: dict[str, Any] = field(default_factory=dict)  # what containers are of in which there are lists, by place
    iterated: list[str] = field(default_factory=list)  # places of dicts that loops around here go over
    moved: set[str] = field(default_factory=set)  # places of those that get or lose entries there
    dense: set[str] = field(default_factory=set)  # arrays given by functions of the program, always in C order
    place: tuple[str, str] = ("", "")  # the file and name of a function that is called, for its exceptions

    def object(self, key: Any, sample: Any) -> Opaque:
        """The object that is made at some place."""
        return self.objects.setdefault(key, Opaque(len(self.objects), sample))

    def emit(self, stmt: Stmt) -> None:
        self.block.append(stmt)
        if self.steadily and _sets_variables(stmt):
            self.steadily = {}

    @contextmanager
    def inside(self) -> Iterator[list[Stmt]]:
        """What is emitted inside goes to a block of its own."""
        self.block, kept = [], self.block
        known, self.kept = self.kept, dict(self.kept)
        steadily, self.steadily = self.steadily, dict(self.steadily)
        try:
            yield self.block
        finally:
            self.block, self.kept, self.steadily = kept, known, steadily

    @contextmanager
    def rarely(self) -> Iterator[None]:
        """Loops that are emitted inside hardly ever run."""
        self.rare, kept = True, self.rare
        try:
            yield
        finally:
            self.rare = kept

    @contextmanager
    def surely(self) -> Iterator[None]:
        """Subscripts that are emitted inside are in range, and not negative."""
        self.sure, kept = True, self.sure
        try:
            yield
        finally:
            self.sure = kept

    def fault(self, error: str, text: str, line: int) -> int:
        return self.faults.setdefault(Fault(error, text, line, *self.place), len(self.faults))

    def fresh(self, hint: str = "t") -> str:
        self.count += 1
        return f"${hint}{self.count}"

    def slot(self, name: str, t: Type) -> str:
        """The variable of a name for one of its types."""
        full = f"{name}:{suffix(t)}"
        if isinstance(t, Num):
            self.names[full] = t.dtype
        elif isinstance(t, Lst):
            self.names[full] = INT
        else:
            assert isinstance(t, Arr)
            self.arrays[full] = (t.dtype, t.rank)
        return full

    def tag(self, name: str, t: Type) -> Const:
        """The number that says that a name is of this type now."""
        keys = self.tags.setdefault(name, [UNBOUND])  # variables begin as zeros
        k = key(t)
        if k not in keys:
            keys.append(k)
        return Const(INT, keys.index(k))

    def tag_name(self, name: str) -> str:
        self.names[f"{name}?"] = INT
        return f"{name}?"

    def keep(self, e: Expr, hint: str = "t") -> Var | Const:
        """The value of an expression in a variable of its own."""
        if isinstance(e, Const):
            return e
        name = self.fresh(hint)
        self.names[name] = e.dtype
        self.emit(Set(name, e))
        return Var(name, e.dtype)

    def once(self, e: Expr) -> Expr:
        """The value of an expression of sizes, computed once in a statement (and block)."""
        if isinstance(e, Const | Dim | Var):
            return self.held(e)
        if e not in self.kept:
            self.kept[e] = self.keep(e)
        return self.kept[e]

    def held(self, e: Expr) -> Expr:
        """Something that may be written down twice."""
        return e if isinstance(e, Const | Dim) or (isinstance(e, Var) and e.name.startswith("$")) else self.keep(e)

    def steady(self, e: Expr) -> Expr:
        """Something that may be written down twice: the same for the same subscripts, while no variable changes."""
        if isinstance(e, Const | Dim) or not _of_variables(e):
            return self.held(e)
        if e not in self.steadily:
            self.steadily[e] = self.held(e)
        return self.steadily[e]

    def array(self, dtype: str, rank: int, hint: str = "v") -> str:
        name = self.fresh(hint)
        self.arrays[name] = (dtype, rank)
        return name

    def root(self, name: str, roots: frozenset[str]) -> None:
        """An array may show this memory."""
        known = self.roots.setdefault(name, frozenset())
        if not roots <= known:
            self.roots[name] = known | roots
            self.grown += name[0] not in "$="  # others are new in every look at a loop

    def view(self, view: View) -> None:
        """An array shows a part of another."""
        self.root(view.array, self.roots[view.source])
        self.views[view.array] = view
        self.emit(view)

    def rename(self, name: str, source: str) -> None:
        """name shows all of source."""
        rank = self.arrays[source][1]
        spans = tuple(Span(k, ZERO, Dim(source, k), ONE) for k in range(rank))
        self.view(View(name, source, (), spans, renamed=True))


def _of_variables(e: Expr) -> bool:
    """Whether an expression is made of variables and lengths, and nothing can go wrong."""
    if isinstance(e, Op):
        return e.fault < 0 and all(map(_of_variables, e.args))
    return isinstance(e, Const | Var | Dim)


def _sets_variables(stmt: Stmt) -> bool:
    """Whether a statement may give a variable of the program another value."""
    if isinstance(stmt, HostCall | Invoke):
        return True
    name = stmt.name if isinstance(stmt, Set) else stmt.array if isinstance(stmt, View | Alloc) else "$"
    return not name.startswith("$") or any(_sets_variables(s) for b in inner_blocks(stmt) for s in b)


def block(stmts: list[Stmt]) -> Block:
    return tuple(stmts)


def element(array: str, dtype: str, index: Sequence[Expr]) -> Load:
    """An element that is known to exist."""
    return Load(array, dtype, tuple(index), (-1,) * len(index))
