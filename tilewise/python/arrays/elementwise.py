"""Elementwise expressions. In: values. Out: formulas of one element, and loops over them where memory is needed.

An expression of arrays stays a formula of its elements until someone needs them: then it is a nest of loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tilewise.kernel.program.ir import INT, Alloc, Const, Dim, Expr, Fail, For, If, Op, Set, Store, Var
from tilewise.kernel.program.walk import expressions
from tilewise.python.build import ONE, TRUE, ZERO, Array, Lazy, Scalar, both, compare, element, mul, negate, pick, sub
from tilewise.python.types import LENGTH, Arr, Num, ints

if TYPE_CHECKING:
    from tilewise.python.statements import Statements
from tilewise.python.arrays import assign
from tilewise.python.scalars import arithmetic


def shape_of(v: Array | Lazy) -> tuple[Expr, ...]:
    return v.shape if isinstance(v, Lazy) else tuple(Dim(v.name, k) for k in range(v.t.rank))


def length(v: Array | Lazy, axis: int) -> Scalar:
    """How long an axis is, as Python's integer."""
    e = shape_of(v)[axis]
    return arithmetic.constant(e.value) if isinstance(e, Const) else Scalar(ints(0, LENGTH), e)


def lazy(v: Array | Lazy) -> Lazy:
    """An array as a formula of its elements."""
    if isinstance(v, Lazy):
        return v
    t, name = Num(False, v.t.dtype), v.name
    return Lazy(v.t, shape_of(v), lambda at, _: Scalar(t, element(name, t.dtype, at)), (name,), frozenset([name]))


def true_length(lo: Statements, e: Expr) -> Expr:
    """The length of an axis in terms of what a view was made from."""
    while isinstance(e, Dim) and (view := lo.b.views.get(e.array)) is not None and e.array.startswith("$"):
        e = view.spans[e.axis].length
    return e


def elementwise(
    lo: Statements, f: Callable[..., Scalar], name: str, operands: Sequence[Scalar | Array | Lazy], line: int,
    into: Array | None = None,
) -> Lazy:  # fmt: skip
    """A function of elements, of all operands together; `into`: an array that the result must fit."""
    ready: list[Scalar | Lazy] = [Scalar(v.t, lo.b.held(v.e)) if isinstance(v, Scalar) else lazy(v) for v in operands]
    several = [v for v in ready if isinstance(v, Lazy)]
    rank = max(v.t.rank for v in several)
    with lo.b.inside():
        probe = f(
            *(Scalar(Num(False, v.t.dtype), Var("$probe", v.t.dtype)) if isinstance(v, Lazy) else v for v in ready)
        )
    ready = [_converted(lo, v, probe.e) if isinstance(v, Scalar) else v for v in ready]
    if into is None:
        shape = broadcast(lo, [v.shape for v in several], rank, line)
    else:
        shape = shape_of(into)
        together = broadcast(lo, [v.shape for v in several], rank, line, shape)
        assign.check_same(lo, together, shape, line)
    kind = "tilewise" if any(v.t.kind == "tilewise" for v in several) else "numpy"
    strides = {id(v): repeats(lo, v.shape, shape) for v in several}

    def made(at: Sequence[Expr], exact: bool) -> Scalar:
        found = []
        for v in ready:
            if isinstance(v, Lazy):
                places = zip(at[rank - v.t.rank :], strides[id(v)], strict=True)
                found.append(v.element([place(i, how, exact) for i, how in places], exact))
            else:
                found.append(v)
        return f(*found)

    reads = tuple(dict.fromkeys(r for v in several for r in v.reads))
    equal = [c for v in several for c in (*equal_lengths(lo, v.shape, shape), *v.equal)]
    whole = {id(v): v.t.rank == rank and ZERO not in strides[id(v)] for v in several}
    aligned = frozenset(r for v in several if whole[id(v)] for r in v.aligned)
    aligned -= {r for v in several for r in v.reads if r not in v.aligned or not whole[id(v)]}
    return Lazy(Arr(probe.t.dtype, rank, kind), shape, made, reads, aligned, tuple(dict.fromkeys(equal)))


def _converted(lo: Statements, v: Scalar, one: Expr) -> Scalar:
    """A number as the elements take it: Python's must fit their dtype, even if there are none."""
    for e in expressions(Set("", one)):
        if isinstance(e, Op) and e.fn.startswith("fit:") and e.fault >= 0 and e.args[0] == v.e and v.t.py:
            return Scalar(Num(False, e.dtype), lo.b.keep(e))
    return v


def same_shape(lo: Statements, a: tuple[Expr, ...], b: tuple[Expr, ...]) -> bool:
    return len(a) == len(b) and all(true_length(lo, x) == true_length(lo, y) for x, y in zip(a, b, strict=True))


def broadcast(
    lo: Statements, shapes: Sequence[tuple[Expr, ...]], rank: int, line: int, into: tuple[Expr, ...] | None = None
) -> tuple[Expr, ...]:
    """The shape of all together."""
    named = shapes if into is None else [*shapes, into]
    out: list[Expr] = []
    for axis in range(rank):
        have = [s[axis - rank + len(s)] for s in shapes if axis - rank + len(s) >= 0]
        wide = [e for e in have if true_length(lo, e) != ONE]
        first: Expr = wide[0] if wide else ONE
        for other in wide[1:]:
            a, c = true_length(lo, first), true_length(lo, other)
            if a == c:
                continue
            a, c = lo.b.held(a), lo.b.held(c)
            same = compare("equal", a, c)
            bad = both(both(negate(same), compare("not_equal", a, ONE)), compare("not_equal", c, ONE))
            lo.b.emit(If(bad, (unfit(lo, _TOGETHER, named, line),)))
            first = lo.b.keep(pick(compare("equal", a, ONE), c, a))
        out.append(first)
    return tuple(out)


def repeats(lo: Statements, shape: tuple[Expr, ...], out: tuple[Expr, ...]) -> list[Expr | None]:
    """Of each axis: None if it is as long as the result's, 0 if it is repeated, else a factor for subscripts."""
    found: list[Expr | None] = []
    for e, o in zip(shape, out[len(out) - len(shape) :], strict=True):
        e, o = true_length(lo, e), true_length(lo, o)
        if e == o:
            found.append(None)
        elif e == ONE:
            found.append(ZERO)
        else:
            found.append(lo.b.once(Op("minimum", INT, (sub(lo.b.held(e), ONE), ONE))))
    return found


def equal_lengths(lo: Statements, shape: tuple[Expr, ...], out: tuple[Expr, ...]) -> list[Expr]:
    """What holds if no axis is repeated that might be."""
    pairs = [(true_length(lo, e), true_length(lo, o)) for e, o in zip(shape, out[len(out) - len(shape) :], strict=True)]
    return [compare("equal", e, o) for e, o in pairs if e not in (o, ONE)]


def place(i: Expr, how: Expr | None, exact: bool) -> Expr:
    if how is None or (exact and how != ZERO):
        return i
    return ZERO if how == ZERO else mul(i, how)


def loops(
    lo: Statements, shape: Sequence[Expr], body: Callable[[list[Expr]], None], line: int, independent: bool = False
) -> None:
    """A nest of loops over a shape; `independent`: elements do not need each other."""
    at: list[Expr] = []

    def nest(k: int) -> None:
        if k == len(shape):
            body(at)
            return
        name = lo.b.fresh("i")
        lo.b.names[name] = INT
        at.append(Var(name, INT))
        with lo.b.inside() as inner:
            nest(k + 1)
        lo.b.emit(For(name, ZERO, shape[k], ONE, tuple(inner), line, lo.b.rare, independent))

    nest(0)


def allocated(lo: Statements, t: Arr, shape: Sequence[Expr], zero: bool, line: int, like: Sequence[str] = ()) -> Array:
    """A new array in C order; NumPy's would have the order of those that it is `like`."""
    name = f"$a{line}.{lo.b.fresh('')[1:]}"
    lo.b.arrays[name] = (t.dtype, t.rank)
    lo.b.like[name] = tuple(like)
    lo.b.root(name, frozenset([f"{lo.scope.prefix}{line}"]))
    fault = lo.b.fault("ValueError", "negative dimensions are not allowed", line)
    huge = lo.b.fault("ValueError", "array is too big; `arr.size * arr.dtype.itemsize` is larger than the maximum "
                      "possible size.", line)  # fmt: skip
    full = lo.b.fault("MemoryError", "Unable to allocate an array", line)
    lo.b.emit(Alloc(name, tuple(lo.b.held(e) for e in shape), zero, fault, huge, full))
    return Array(t, name)


def materialised(lo: Statements, v: Lazy | Array, line: int) -> Array:
    """The elements in memory."""
    if isinstance(v, Array):
        return v
    return computed(lo, v, line) if v.shown is None else v.shown()


def computed(lo: Statements, v: Lazy, line: int) -> Array:
    """The elements in memory of their own."""
    shape = [lo.b.held(e) for e in v.shape]
    made = allocated(lo, v.t, shape, False, line, v.reads)
    either(lo, v.equal, lambda exact: fill(lo, made, v, exact, line))
    return made


def either(lo: Statements, conditions: Sequence[Expr], act: Callable[[bool], None]) -> None:
    """Emit what is simpler if some conditions hold, and beside it what is right anyway."""
    if not conditions:
        act(True)
        return
    test: Expr = TRUE
    for c in conditions:
        test = both(test, c)
    with lo.b.inside() as one:
        act(True)
    with lo.b.rarely(), lo.b.inside() as other:
        act(False)
    lo.b.emit(If(test, tuple(one), tuple(other)))


def fill(lo: Statements, target: Array, v: Lazy, exact: bool, line: int) -> None:
    def one(at: list[Expr]) -> None:
        s = v.element(at, exact)
        value = arithmetic.cast(s.e, target.t.dtype)
        lo.b.emit(Store(target.name, tuple(at), value, (-1,) * len(at)))

    loops(lo, shape_of(target), one, line, independent=True)


_TOGETHER = "operands could not be broadcast together with shapes"


def shape_text(shape: tuple[Expr, ...], values: list[Expr]) -> str:
    """(2,3), with places for the numbers."""
    first = len(values)
    values += shape
    places = [f"{{{first + k}}}" for k in range(len(shape))]
    return f"({','.join(places)}{',' * (len(shape) == 1)})"


def unfit(lo: Statements, text: str, shapes: Sequence[tuple[Expr, ...]], line: int) -> Fail:
    """The exception for shapes that do not go together."""
    values: list[Expr] = []
    whole = f"{text} {' '.join(shape_text(s, values) for s in shapes)} "
    return Fail(lo.b.fault("ValueError", whole, line), tuple(values))


def accumulated(
    lo: Statements, dtype: str, first: Expr, shape: Sequence[Expr], step: Callable[[Var, list[Expr]], Expr], line: int
) -> Var:
    """A number that loops over a shape make."""
    name = lo.b.fresh("s")
    lo.b.names[name] = dtype
    lo.b.emit(Set(name, first))
    acc = Var(name, dtype)
    loops(lo, shape, lambda at: lo.b.emit(Set(name, step(acc, at))), line)
    return acc
