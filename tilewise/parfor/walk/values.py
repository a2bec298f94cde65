"""What is known of a value while source is walked. In: nothing. Out: `Val`, `View`, `Obj`.

A value may be an object known at loop entry, an expression over loop indices, a region of an array, a tuple of values,
or one of several objects. `Obj` stands for something that can be written to; those born inside an iteration are
private to it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewise.kernel.dependence.expr import Expr, Index, constant
from tilewise.parfor.walk.kept import replace
from tilewise.parfor.walk.mapped import FileBytes

MOST_FUNCTIONS = 8  # of which a value may be one
NOTHING: Any = type("Nothing", (), {"__repr__": lambda self: "NOTHING"})()


@dataclass(eq=False)
class Obj:
    """Something that can be written to: the memory of an array, a list, a dict, an instance."""

    code: int
    name: str
    born: frozenset[Index]  # the loops in whose iterations it is made; none for what is there at entry
    array: bool = False
    shape: tuple[Any, ...] | None = None  # of an array: numbers, or expressions
    strides: tuple[int, ...] = ()  # of an array known at entry, in bytes
    itemsize: int = 8
    address: int = 0
    flat: bool = False  # it has views that are no slices of it: cells are told apart by address
    content: set[Obj] = field(default_factory=set)  # what it may hold, beyond what it holds at entry
    anything: bool = False  # it may hold any object
    read_as_data: bool = False  # its values at entry may be used as constants
    read_at: set[str] = field(default_factory=set)  # the same for single attributes, and cells with texts as keys
    written_at: set[str] = field(default_factory=set)  # those that are written
    written_elsewhere: bool = False
    evaluated: bool = False  # they were
    written: bool = False
    resized: bool = False  # by a write to cells that are not known
    length_used: bool = False
    maybe_written: bool = False  # by a function of which nothing is known
    key: int = 0  # id() of what is known at entry
    cls: type | None = None  # of an instance made inside the loop
    value: Any = None  # what is known at entry, but for arrays
    mapped: FileBytes | None = None  # of an array in a mapped file, which may be mapped twice
    function: Function | None = None  # what it is, if it is a function that the loop defines
    fields: dict[str, Val] = field(default_factory=dict)  # attributes of an instance made in the loop, as they were


@dataclass(frozen=True, eq=False)
class Group:
    """Rows that are selected by a label: `order[start : start + count]`, of `length` rows in all."""

    order: Any
    start: Expr
    count: Expr
    length: int
    mask: bool = True  # a mask of all rows; else an array of positions


@dataclass(frozen=True, eq=False)
class Axis:
    """One axis of a view: it moves along `dim` of its array by `slope`. `dim` None: an axis that does not move."""

    dim: int | None
    slope: int
    length: Expr | None
    table: Any = None  # positions along it, where they are selected one by one: numbers, expressions or a Group


@dataclass(frozen=True, eq=False)
class View:
    """A region of an array: offsets per dimension of the array, and the axes that walk through it."""

    obj: Obj
    ident: Expr  # the number of the array; not constant for an element of a list of arrays
    dims: tuple[Expr, ...]
    axes: tuple[Axis, ...]
    itemsize: int = 8
    within: bool = False  # the value is some part of this region, in another shape
    others: tuple[Obj, ...] = ()  # the other arrays that `ident` may stand for
    flat: bool = False  # its one dimension is the address
    name: str = ""  # by which the program got there


@dataclass(frozen=True)
class Function:
    """A function whose source is known, and the names it sees."""

    node: ast.FunctionDef | ast.Lambda
    scope: Any
    name: str
    file: str
    defaults: tuple[tuple[str, Val], ...] = ()  # of its parameters, as they were when it was defined
    obj: Obj | None = None  # stands for it where it is stored, if the loop defines it


@dataclass(frozen=True)
class Wrapped:
    """A function made of others: "partial" with arguments, "elements" of arrays, or "either" of several."""

    how: str
    functions: tuple[Val, ...]
    args: tuple[Val, ...] = ()
    named: tuple[tuple[str, Val], ...] = ()

    def parts(self) -> tuple[Val, ...]:
        """All that can be reached by calling it."""
        return (*self.functions, *self.args, *(value for _, value in self.named))


@dataclass(frozen=True)
class Val:
    """A value. Nothing given: an object of which nothing is known but that no shared memory can be reached from it."""

    known: Any = NOTHING
    expr: Expr | None = None
    view: View | None = None
    objs: frozenset[Obj] = frozenset()
    ident: Expr | None = None  # which one of `objs` it is
    anything: bool = False
    items: tuple[Val, ...] | None = None
    kind: str | None = None  # NumPy's letter for the kind of a number, or of an array's elements
    scalar: bool = False  # certainly immutable
    function: Function | None = None
    method: tuple[Val, str] | None = None
    positions: tuple[Expr, ...] | None = None  # of a list that is written out as a subscript
    narrow: tuple[int, int] | None = None  # the least and the greatest number of its type, where it wraps
    carried: frozenset[Index] = frozenset()  # loops in whose iteration it may not have been assigned yet
    group: Group | None = None  # the rows that a mask or an array of positions stands for
    lazy: Function | None = None  # what runs when it is iterated: of a generator expression, or a `map`
    wraps: Wrapped | None = None

    @property
    def is_known(self) -> bool:
        """Whether the object itself is known."""
        return self.known is not NOTHING


ANYTHING = Val(anything=True)
NUMBER = Val(scalar=True)
FLOAT = Val(scalar=True, kind="f")
INTEGER = Val(scalar=True, kind="i")
TRUTH = Val(scalar=True, kind="b")
TEXT = Val(scalar=True, kind="U")


def of_expr(expr: Expr, kind: str = "i") -> Val:
    """A value that depends on indices only."""
    return Val(expr=expr, scalar=True, kind=kind if expr.integer else None)


def narrow_of(dtype: Any) -> tuple[int, int] | None:
    """The range of a type of integers, outside of which it wraps; None for Python's, and for those of 64 bits.

    >>> narrow_of(np.uint8), narrow_of(np.int64)
    ((0, 255), None)
    """
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return 0, 1
    if kind.kind not in "iu" or kind == np.int64:
        return None
    limits = np.iinfo(kind)
    return int(limits.min), int(limits.max)


def narrowed(values: Iterable[Val]) -> tuple[int, int] | None:
    """The range that results of values surely have room in; None if none of them wraps."""
    ranges = [v.narrow for v in values if v.narrow is not None]
    return (max(r[0] for r in ranges), min(r[1] for r in ranges)) if ranges else None


def fitted(value: Val, narrow: tuple[int, int] | None) -> Val:
    """A result of integers of a type with a range: what it is, is known only if it does not wrap."""
    if narrow is None:
        return value
    if value.expr is None or not value.expr.integer or value.expr.lo < narrow[0] or value.expr.hi > narrow[1]:
        return replace(NUMBER, kind=value.kind)
    return replace(value, narrow=narrow)


def is_exact(value: Val) -> bool:
    """Whether a value is an integer that is known as an expression, of a type that does not wrap."""
    return value.scalar and value.expr is not None and value.expr.integer and value.kind == "i" and value.narrow is None


def integer(value: int) -> Val:
    """A number that is known."""
    return of_expr(constant(value))


def kind_of(values: Iterable[Val]) -> str | None:
    """The kind of an arithmetic result: the highest of its operands', None if one is not known."""
    kinds = [v.kind for v in values]
    if any(k is None or k not in "buifc" for k in kinds):
        return None
    return max((k or "" for k in kinds), key="buifc".index, default=None)


def objects(value: Val) -> frozenset[Obj]:
    """All it may be, or be a part of."""
    found = set(value.objs)
    if value.view is not None:
        found |= {value.view.obj, *value.view.others}
    found |= {f.obj for f in (value.function, value.lazy) if f is not None and f.obj is not None}
    if value.method is not None:
        found |= objects(value.method[0])
    for item in (*(value.items or ()), *(value.wraps.parts() if value.wraps is not None else ())):
        found |= objects(item)
    return frozenset(found)


def may_be_anything(value: Val) -> bool:
    """Whether any object can be reached."""
    inner = (*(value.items or ()), *(value.wraps.parts() if value.wraps is not None else ()))
    return value.anything or any(map(may_be_anything, inner))


def same(a: Val, b: Val) -> bool:
    """Whether two values are known to be the same."""
    if a is b:
        return True
    if a.carried != b.carried or a.narrow != b.narrow or (a.items is None) != (b.items is None):
        return False
    if a.is_known or b.is_known:
        return a.known is b.known
    if a.expr is not None or b.expr is not None:
        return a.expr is not None and b.expr is not None and a.expr.key() == b.expr.key()
    return replace(a, kind=None) == replace(b, kind=None)


def _called(value: Val) -> bool:
    """Whether it is a function, which may reach any object."""
    if value.function is not None or (value.method is not None and value.method[1] != "slice"):
        return True
    return value.wraps is not None or (value.is_known and callable(value.known) and not isinstance(value.known, type))


def _either(a: Val, b: Val) -> Wrapped | None:
    """One of some functions, where both values surely are functions."""
    found: list[Val] = []
    for value in (a, b):
        value = replace(value, carried=frozenset())
        several = value.wraps.functions if value.wraps is not None and value.wraps.how == "either" else (value,)
        plain = value.function is not None or value.wraps is not None or (value.is_known and _called(value))
        if not plain or value.objs or value.anything or value.items is not None:
            return None
        found += [v for v in several if not any(same(v, f) for f in found)]
    return Wrapped("either", tuple(found)) if len(found) <= MOST_FUNCTIONS else None


def join(a: Val | None, b: Val | None) -> Val:
    """A value that may be either."""
    if a is None or b is None:
        return a or b or Val()
    if same(a, b):
        return a
    carried = a.carried | b.carried
    if same(replace(a, carried=carried), replace(b, carried=carried)):
        return replace(a, carried=carried)
    kind = a.kind if a.kind == b.kind else None
    either = _either(a, b)
    if either is not None:
        return Val(wraps=either, scalar=True, carried=carried)
    return Val(
        objs=objects(a) | objects(b),
        anything=may_be_anything(a) or may_be_anything(b) or _called(a) or _called(b),
        kind=kind,
        narrow=narrowed((a, b)),
        scalar=a.scalar and b.scalar,
        carried=carried,
    )
