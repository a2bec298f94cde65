"""Arrays: elements, views, elementwise expressions. In: values, subscripts. Out: values, statements.

An elementwise expression stays a formula of one element until someone needs memory: then it is a nest of loops. What a
statement writes and reads at different places of one array goes through memory of its own, unless it is seen to be apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise.kernel.program.ir import (
    INT,
    Alloc,
    Apart,
    Const,
    Dim,
    Expr,
    Fail,
    For,
    If,
    Op,
    Set,
    Span,
    Store,
    Var,
    View,
)
from tilewise.python import arithmetic, calls, values
from tilewise.python.build import (
    ONE,
    TRUE,
    ZERO,
    Array,
    Lazy,
    Scalar,
    Slice,
    Static,
    Tuple,
    Value,
    add,
    both,
    compare,
    element,
    mul,
    negate,
    pick,
    sub,
)
from tilewise.python.refuse import Refused
from tilewise.python.types import LENGTH, Arr, Num, ints

if TYPE_CHECKING:
    from tilewise.python.lower import Lower

NEW = object()


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


# -- elementwise -----------------------------------------------------------------------------------------------------


def _true_length(lo: Lower, e: Expr) -> Expr:
    """The length of an axis in terms of what a view was made from."""
    while isinstance(e, Dim) and (view := lo.b.views.get(e.array)) is not None and e.array.startswith("$"):
        e = view.spans[e.axis].length
    return e


def elementwise(
    lo: Lower, f: Callable[..., Scalar], name: str, operands: Sequence[Scalar | Array | Lazy], line: int,
    into: Array | None = None,
) -> Lazy:  # fmt: skip
    """A function of elements, of all operands together; `into`: an array that the result must fit."""
    ready: list[Scalar | Lazy] = [
        Scalar(v.t, lo.b.held(v.e)) if isinstance(v, Scalar) else lazy(v) for v in operands
    ]
    several = [v for v in ready if isinstance(v, Lazy)]
    rank = max(v.t.rank for v in several)
    if into is None:
        shape = broadcast(lo, [v.shape for v in several], rank, line)
    else:
        shape = shape_of(into)
        together = broadcast(lo, [v.shape for v in several], rank, line, shape)
        _check_same(lo, together, shape, line)
    kind = "tilewise" if any(v.t.kind == "tilewise" for v in several) else "numpy"
    strides = {id(v): _repeats(lo, v.shape, shape) for v in several}

    def made(at: Sequence[Expr], exact: bool) -> Scalar:
        found = []
        for v in ready:
            if isinstance(v, Lazy):
                places = zip(at[rank - v.t.rank :], strides[id(v)], strict=True)
                found.append(v.element([_place(i, how, exact) for i, how in places], exact))
            else:
                found.append(v)
        return f(*found)

    with lo.b.inside():
        probe = f(*(Scalar(Num(False, v.t.dtype), Var("$probe", v.t.dtype)) if isinstance(v, Lazy) else v for v in ready))
    reads = tuple(dict.fromkeys(r for v in several for r in v.reads))
    equal = [c for v in several for c in (*_equal(lo, v.shape, shape), *v.equal)]
    aligned = frozenset(r for v in several if _same_shape(lo, v.shape, shape) for r in v.aligned)
    aligned -= {r for v in several for r in v.reads if r not in v.aligned or not _same_shape(lo, v.shape, shape)}
    return Lazy(Arr(probe.t.dtype, rank, kind), shape, made, reads, aligned, tuple(dict.fromkeys(equal)))


def _same_shape(lo: Lower, a: tuple[Expr, ...], b: tuple[Expr, ...]) -> bool:
    return len(a) == len(b) and all(_true_length(lo, x) == _true_length(lo, y) for x, y in zip(a, b, strict=True))


def broadcast(
    lo: Lower, shapes: Sequence[tuple[Expr, ...]], rank: int, line: int, into: tuple[Expr, ...] | None = None
) -> tuple[Expr, ...]:
    """The shape of all together."""
    named = shapes if into is None else [*shapes, into]
    out: list[Expr] = []
    for axis in range(rank):
        have = [s[axis - rank + len(s)] for s in shapes if axis - rank + len(s) >= 0]
        wide = [e for e in have if _true_length(lo, e) != ONE]
        first: Expr = wide[0] if wide else ONE
        for other in wide[1:]:
            a, c = _true_length(lo, first), _true_length(lo, other)
            if a == c:
                continue
            a, c = lo.b.held(a), lo.b.held(c)
            same = compare("equal", a, c)
            bad = both(both(negate(same), compare("not_equal", a, ONE)), compare("not_equal", c, ONE))
            lo.b.emit(If(bad, (unfit(lo, _TOGETHER, named, line),)))
            first = lo.b.keep(pick(compare("equal", a, ONE), c, a))
        out.append(first)
    return tuple(out)


def _repeats(lo: Lower, shape: tuple[Expr, ...], out: tuple[Expr, ...]) -> list[Expr | None]:
    """Of each axis: None if it is as long as the result's, 0 if it is repeated, else a factor for subscripts."""
    found: list[Expr | None] = []
    for e, o in zip(shape, out[len(out) - len(shape) :], strict=True):
        e, o = _true_length(lo, e), _true_length(lo, o)
        if e == o:
            found.append(None)
        elif e == ONE:
            found.append(ZERO)
        else:
            found.append(lo.b.once(Op("minimum", INT, (sub(lo.b.held(e), ONE), ONE))))
    return found


def _equal(lo: Lower, shape: tuple[Expr, ...], out: tuple[Expr, ...]) -> list[Expr]:
    """What holds if no axis is repeated that might be."""
    pairs = [(_true_length(lo, e), _true_length(lo, o)) for e, o in zip(shape, out[len(out) - len(shape) :], strict=True)]
    return [compare("equal", e, o) for e, o in pairs if e not in (o, ONE)]


def _place(i: Expr, how: Expr | None, exact: bool) -> Expr:
    if how is None or (exact and how != ZERO):
        return i
    return ZERO if how == ZERO else mul(i, how)


def loops(lo: Lower, shape: Sequence[Expr], body: Callable[[list[Expr]], None], line: int) -> None:
    """A nest of loops over a shape."""
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
        lo.b.emit(For(name, ZERO, shape[k], ONE, tuple(inner), line, lo.b.rare))

    nest(0)


def allocated(lo: Lower, t: Arr, shape: Sequence[Expr], zero: bool, line: int) -> Array:
    name = f"$a{line}.{lo.b.fresh('')[1:]}"
    lo.b.arrays[name] = (t.dtype, t.rank)
    lo.b.root(name, frozenset([f"{lo.scope.prefix}{line}"]))
    fault = lo.b.fault("ValueError", "negative dimensions are not allowed", line)
    lo.b.emit(Alloc(name, tuple(lo.b.held(e) for e in shape), zero, fault))
    return Array(t, name)


def materialised(lo: Lower, v: Lazy | Array, line: int) -> Array:
    """The elements in memory of their own."""
    if isinstance(v, Array):
        return v
    shape = [lo.b.held(e) for e in v.shape]
    made = allocated(lo, v.t, shape, False, line)
    either(lo, v.equal, lambda exact: _fill(lo, made, v, exact, line))
    return made


def either(lo: Lower, conditions: Sequence[Expr], act: Callable[[bool], None]) -> None:
    """Emit what is simpler if some conditions hold, and beside it what is right anyway."""
    if not conditions:
        act(True)
        return
    test: Expr = TRUE
    for c in conditions:
        test = both(test, c)
    with lo.b.inside() as one:
        act(True)
    rare, lo.b.rare = lo.b.rare, True
    with lo.b.inside() as other:
        act(False)
    lo.b.rare = rare
    lo.b.emit(If(test, tuple(one), tuple(other)))


def _fill(lo: Lower, target: Array, v: Lazy, exact: bool, line: int) -> None:
    def one(at: list[Expr]) -> None:
        s = v.element(at, exact)
        value = arithmetic.cast(s.e, target.t.dtype)
        lo.b.emit(Store(target.name, tuple(at), value, (-1,) * len(at)))

    loops(lo, shape_of(target), one, line)


def assign(lo: Lower, target: Array, value: Value, line: int) -> None:
    """target[...] = value: the right side first."""
    if isinstance(value, Tuple):
        value = from_tuple(lo, value, target.t.dtype, line)
    if isinstance(value, Scalar):
        held = lo.b.keep(arithmetic.stored(lo.b, value, target.t.dtype, line))
        loops(lo, shape_of(target), lambda at: lo.b.emit(Store(target.name, tuple(at), held, (-1,) * len(at))), line)
        return
    if not isinstance(value, Array | Lazy):
        raise Refused("an assignment of something that is no array", line)
    v = lazy(value)
    if v.t.dtype[0] == "c" and target.t.dtype[0] != "c":
        raise Refused("complex numbers into real ones", line)
    rank, shape = target.t.rank, shape_of(target)
    if v.t.rank > rank:
        raise Refused("an assignment of an array of more axes", line)
    _check_fits(lo, v.shape, shape, lambda: _not_into(lo, v.shape, shape, line))
    how = _repeats(lo, v.shape, shape)
    still = v.aligned if _same_shape(lo, v.shape, shape) else frozenset[str]()
    shared = [r for r in v.reads if _meets(lo, target.name, r) and not (r in still and _same_view(lo, target.name, r))]
    if any(not r.startswith("$v") or r == target.name for r in shared):  # what cannot show a copy instead
        v = lazy(materialised(lo, v, line))
        shared = []
    for r in shared:
        rare, lo.b.rare = lo.b.rare, True
        with lo.b.inside() as copying:
            t = Arr(lo.b.arrays[r][0], lo.b.arrays[r][1])
            copy = allocated(lo, t, [Dim(r, k) for k in range(t.rank)], False, line)
            _fill(lo, copy, lazy(Array(t, r)), True, line)
            shown = lo.b.views[r]
            lo.b.rename(r, copy.name)
            lo.b.views[r] = shown  # of the same lengths
        lo.b.rare = rare
        lo.b.emit(If(negate(Apart(target.name, r)), tuple(copying)))

    def run(exact: bool) -> None:
        def one(at: list[Expr]) -> None:
            inner = [_place(i, h, exact) for i, h in zip(at[rank - v.t.rank :], how, strict=True)]
            s = v.element(inner, exact)
            lo.b.emit(Store(target.name, tuple(at), arithmetic.cast(s.e, target.t.dtype), (-1,) * len(at)))

        loops(lo, shape, one, line)

    either(lo, tuple(dict.fromkeys((*_equal(lo, v.shape, shape), *v.equal))), run)


_TOGETHER = "operands could not be broadcast together with shapes"


def _shape_text(shape: tuple[Expr, ...], values: list[Expr]) -> str:
    """(2,3), with places for the numbers."""
    first = len(values)
    values += shape
    places = [f"{{{first + k}}}" for k in range(len(shape))]
    return f"({','.join(places)}{',' * (len(shape) == 1)})"


def unfit(lo: Lower, text: str, shapes: Sequence[tuple[Expr, ...]], line: int) -> Fail:
    """The exception for shapes that do not go together."""
    values: list[Expr] = []
    whole = f"{text} {' '.join(_shape_text(s, values) for s in shapes)} "
    return Fail(lo.b.fault("ValueError", whole, line), tuple(values))


def _check_same(lo: Lower, shape: tuple[Expr, ...], into: tuple[Expr, ...], line: int) -> None:
    """Fail if an operation in place would need a larger array."""
    for e, o in zip(shape, into, strict=True):
        a, c = _true_length(lo, e), _true_length(lo, o)
        if a != c:
            values: list[Expr] = []
            parts = [_shape_text(s, values) for s in (into, shape)]
            text = f"non-broadcastable output operand with shape {parts[0]} doesn't match the broadcast shape {parts[1]}"
            fault = Fail(lo.b.fault("ValueError", text, line), tuple(values))
            lo.b.emit(If(compare("not_equal", lo.b.held(a), lo.b.held(c)), (fault,)))


def _not_into(lo: Lower, shape: tuple[Expr, ...], into: tuple[Expr, ...], line: int) -> Fail:
    values: list[Expr] = []
    parts = [_shape_text(s, values) for s in (shape, into)]
    text = f"could not broadcast input array from shape {parts[0]} into shape {parts[1]}"
    return Fail(lo.b.fault("ValueError", text, line), tuple(values))


def _check_fits(
    lo: Lower, shape: tuple[Expr, ...], into: tuple[Expr, ...], fail: Callable[[], Fail]
) -> None:
    """Fail unless a shape can be repeated to another."""
    for e, o in zip(reversed(shape), reversed(into), strict=False):
        a, c = _true_length(lo, e), _true_length(lo, o)
        if a in (c, ONE):
            continue
        a, c = lo.b.held(a), lo.b.held(c)
        lo.b.emit(If(both(compare("not_equal", a, c), compare("not_equal", a, ONE)), (fail(),)))


def _meets(lo: Lower, a: str, b: str) -> bool:
    return bool(lo.b.roots[a] & lo.b.roots[b])


def _same_view(lo: Lower, a: str, b: str) -> bool:
    """Whether two names show the same elements at the same subscripts."""
    if a == b:
        return True
    p, q = lo.b.views.get(a), lo.b.views.get(b)
    if p is None or q is None or not a.startswith("$") or not b.startswith("$"):
        return False
    return p.source == q.source and p.at == q.at and p.spans == q.spans


def update(lo: Lower, target: Array, op: str, other: Value, line: int) -> None:
    """target op= other, in place."""
    if op == "@" or not isinstance(other, Scalar | Array | Lazy):
        raise Refused(f"{op}= of an array", line)
    if isinstance(other, Array | Lazy) and other.t.rank > target.t.rank:
        raise Refused(f"{op}= of an array of more axes", line)
    act = lambda p, q: arithmetic.binary(lo.b, op, p, q, line)  # noqa: E731
    made = elementwise(lo, act, op, (target, other), line, target)
    if not np.can_cast(made.t.dtype, target.t.dtype, "same_kind"):
        raise Refused(f"{op}= of {made.t.dtype} to an array of {target.t.dtype}", line)
    assign(lo, target, made, line)


# -- subscripts ------------------------------------------------------------------------------------------------------


def fixed(lo: Lower, index: tuple[Value, ...]) -> tuple[Value, ...]:
    """Subscripts whose numbers are computed now."""
    return tuple(
        Scalar(i.t, lo.b.keep(i.e)) if isinstance(i, Scalar)
        else Slice(*(Scalar(p.t, lo.b.keep(p.e)) if isinstance(p, Scalar) else p for p in (i.start, i.stop, i.step)))
        if isinstance(i, Slice) else i
        for i in index
    )  # fmt: skip


def get_item(lo: Lower, base: Value, index: tuple[Value, ...], line: int) -> Value:
    """base[index]"""
    if isinstance(base, Tuple):
        return _of_tuple(lo, base, index, line)
    if isinstance(base, Scalar) and not base.t.py and (not index or index == (Static(...),)):
        return base
    if not isinstance(base, Array | Lazy):
        raise Refused("a subscript of something that is no array", line)
    if any(isinstance(i, Array | Lazy) for i in index):
        return _gathered(lo, base, index, line)
    parts = _expanded(base.t.rank, index, line)
    if len([p for p in parts if isinstance(p, Scalar)]) == base.t.rank == len(parts):
        if isinstance(base, Array):
            faults = _faults(lo, base.t.rank, line)
            at = tuple(calls.whole(lo, p, line).e for p in parts)  # type: ignore[arg-type]
            return Scalar(Num(False, base.t.dtype), _load(base, at, faults))
        at = tuple(
            _subscript(lo, calls.whole(lo, p, line), base.shape[k], k, line) for k, p in enumerate(parts)  # type: ignore[arg-type]
        )
        return base.element(at, False)
    return view(lo, materialised(lo, base, line), parts, line)


def _load(base: Array, at: tuple[Expr, ...], faults: tuple[int, ...]) -> Expr:
    from tilewise.kernel.program.ir import Load

    return Load(base.name, base.t.dtype, at, faults)


def _faults(lo: Lower, rank: int, line: int) -> tuple[int, ...]:
    text = "index {{0}} is out of bounds for axis {0} with size {{1}}"
    return tuple(lo.b.fault("IndexError", text.format(k), line) for k in range(rank))


def _subscript(lo: Lower, s: Scalar, size: Expr, axis: int, line: int) -> Expr:
    """A subscript in range, counted from the start."""
    fault = lo.b.fault("IndexError", f"index {{0}} is out of bounds for axis {axis} with size {{1}}", line)
    return lo.b.once(Op("subscript", INT, (lo.b.held(s.e), size), fault))


def _of_tuple(lo: Lower, base: Tuple, index: tuple[Value, ...], line: int) -> Value:
    (i,) = index if len(index) == 1 else (None,)
    if isinstance(i, Scalar) and isinstance(i.e, Const) and i.t.whole and -len(base.items) <= i.e.value < len(base.items):
        return base.items[i.e.value]
    if isinstance(i, Slice):
        ends = [None if p is None else p.e.value for p in (i.start, i.stop, i.step) if p is None or (isinstance(p, Scalar) and isinstance(p.e, Const))]
        if len(ends) == 3:
            return Tuple(base.items[slice(*ends)], base.listed)
    raise Refused("a computed subscript of a tuple", line, "Use an array")


def _expanded(rank: int, index: tuple[Value, ...], line: int) -> list[Any]:
    """Subscripts, one for each axis: numbers, slices, NEW."""
    parts: list[Any] = [NEW if isinstance(i, Static) and i.value is None else i for i in index]
    given = len([p for p in parts if p is not NEW and not _dots(p)])
    if given > rank:
        raise Refused("too many subscripts", line)
    missing: list[Any] = [Slice(None, None, None)] * (rank - given)
    for k, p in enumerate(parts):
        if _dots(p):
            parts[k : k + 1] = missing
            break
    else:
        parts += missing
    if any(isinstance(p, Scalar) and p.t.dtype == "bool" for p in parts):
        raise Refused("a bool as a subscript", line)
    if any(not isinstance(p, Scalar | Slice) and p is not NEW for p in parts):
        raise Refused("a subscript that is no number and no slice", line)
    return parts


def _dots(p: Any) -> bool:
    return isinstance(p, Static) and p.value is Ellipsis


def view(lo: Lower, base: Array, parts: list[Any], line: int) -> Array:
    """A part of an array, by numbers and slices."""
    at: list[tuple[int, Expr]] = []
    spans: list[Span] = []
    axis = 0
    for p in parts:
        if p is NEW:
            spans.append(Span(-1, ZERO, ONE, ZERO))
            continue
        size = Dim(base.name, axis)
        if isinstance(p, Scalar):
            at.append((axis, _subscript(lo, calls.whole(lo, p, line), size, axis, line)))
        else:
            spans.append(span(lo, p, axis, size, line))
        axis += 1
    name = lo.b.array(base.t.dtype, len(spans))
    lo.b.view(View(name, base.name, tuple(at), tuple(spans)))
    return Array(Arr(base.t.dtype, len(spans), base.t.kind), name)


def row(lo: Lower, base: Array, at: Expr) -> Value:
    """base[at], which is in range."""
    if base.t.rank == 1:
        return Scalar(Num(False, base.t.dtype), element(base.name, base.t.dtype, [at]))
    spans = tuple(Span(k, ZERO, Dim(base.name, k), ONE) for k in range(1, base.t.rank))
    name = lo.b.array(base.t.dtype, base.t.rank - 1)
    lo.b.view(View(name, base.name, ((0, at),), spans))
    return Array(Arr(base.t.dtype, base.t.rank - 1, base.t.kind), name)


def span(lo: Lower, s: Slice, axis: int, size: Expr, line: int) -> Span:
    """A slice of an axis, cut to what there is."""
    step = arithmetic.constant(1) if s.step is None else calls.whole(lo, s.step, line)
    if not isinstance(step.e, Const):
        return _span_by(lo, s, step, axis, size, line)
    if step.e.value == 0:
        raise Refused("a slice with a step of zero", line)
    k = step.e.value
    ends = [None if p is None else calls.whole(lo, p, line) for p in (s.start, s.stop)]
    if k > 0:
        if ends == [None, None]:
            if k == 1:
                return Span(axis, ZERO, size, ONE)
        start = ZERO if ends[0] is None else _clamped(lo, ends[0], size)
        stop = size if ends[1] is None else _clamped(lo, ends[1], size)
        count = _short(ends, _true_length(lo, size)) or sub(stop, start)
        if start != ZERO or ends[1] is not None:
            count = Op("maximum", INT, (count, ZERO))
        if k > 1:
            count = Op("floor_divide", INT, (add(count, Const(INT, k - 1)), Const(INT, k)))
        return Span(axis, start, lo.b.once(count), Const(INT, k))
    last = sub(size, ONE)
    start = lo.b.keep(last) if ends[0] is None else _clamped_down(lo, ends[0], size)
    stop = Const(INT, -1) if ends[1] is None else _clamped_down(lo, ends[1], size)
    count = Op("maximum", INT, (sub(start, stop), ZERO))
    if k < -1:
        count = Op("floor_divide", INT, (add(count, Const(INT, -k - 1)), Const(INT, -k)))
    return Span(axis, start, lo.b.keep(count), Const(INT, k))


def _span_by(lo: Lower, s: Slice, step: Scalar, axis: int, size: Expr, line: int) -> Span:
    """A slice with a computed step, which must be positive."""
    if step.t.lo <= 0:
        raise Refused("a slice with a computed step that may be negative", line, "Test the step before")
    by = lo.b.held(step.e)
    start = ZERO if s.start is None else _clamped(lo, calls.whole(lo, s.start, line), size)
    stop = size if s.stop is None else _clamped(lo, calls.whole(lo, s.stop, line), size)
    count = Op("maximum", INT, (sub(stop, start), ZERO))
    count = Op("floor_divide", INT, (add(count, sub(by, ONE)), by))
    return Span(axis, start, lo.b.keep(count), by)


def _short(ends: list[Scalar | None], size: Expr) -> Expr | None:
    """What [c:-d] leaves of an axis, in one form (it may be negative); None: other ends."""
    first, last = ends
    left = 0 if first is None else first.e.value if isinstance(first.e, Const) else -1
    right = 0 if last is None else -last.e.value if isinstance(last.e, Const) else -1
    if left < 0 or right < 0 or (last is not None and right == 0):
        return None
    return sub(size, Const(INT, left + right))


def _clamped(lo: Lower, s: Scalar, size: Expr) -> Expr:
    """An end of a slice, in 0 ... size."""
    if s.t.lo >= 0:
        return lo.b.once(Op("minimum", INT, (lo.b.held(s.e), size))) if s.e != ZERO else ZERO
    if s.t.hi < 0:
        return lo.b.once(Op("maximum", INT, (add(size, lo.b.held(s.e)), ZERO)))
    e = lo.b.held(s.e)
    up = pick(compare("less", e, ZERO), Op("maximum", INT, (add(size, e), ZERO)), Op("minimum", INT, (e, size)))
    return lo.b.keep(up)


def _clamped_down(lo: Lower, s: Scalar, size: Expr) -> Expr:
    """An end of a slice that goes down, in -1 ... size - 1."""
    e = lo.b.held(s.e)
    low = Op("maximum", INT, (add(size, e), Const(INT, -1)))
    return lo.b.keep(pick(compare("less", e, ZERO), low, Op("minimum", INT, (e, sub(size, ONE)))))


def _gathered(lo: Lower, base: Array | Lazy, index: tuple[Value, ...], line: int) -> Value:
    """base[integers], along the first axis."""
    held = materialised(lo, base, line)
    which = index[0]
    if len(index) != 1 or not isinstance(which, Array | Lazy):
        raise Refused("arrays beside other subscripts", line)
    if which.t.dtype == "bool":
        raise Refused("a mask, whose length is not known before", line, "Use np.where, or a loop with an if")
    if which.t.dtype[0] not in "iu":
        raise Refused(f"an array of {which.t.dtype} as a subscript", line)
    at = lazy(which)
    fault = lo.b.fault("IndexError", "index {0} is out of bounds for axis 0 with size {1}", line)

    def one(place: Sequence[Expr], exact: bool) -> Scalar:
        first = at.element(place[: at.t.rank], exact)
        whole = calls.whole(lo, first, line)
        rest = tuple(place[at.t.rank :])
        faults = (fault, *(-1,) * len(rest))
        return Scalar(Num(False, held.t.dtype), _load(held, (whole.e, *rest), faults))

    shape = (*at.shape, *shape_of(held)[1:])
    t = Arr(held.t.dtype, len(shape), held.t.kind)
    return Lazy(t, shape, one, (*at.reads, held.name), frozenset(), at.equal)


def set_item(lo: Lower, base: Value, index: tuple[Value, ...], value: Value, line: int) -> None:
    """base[index] = value"""
    if not isinstance(base, Array):
        raise Refused("an assignment to a part of something that is no array", line)
    if any(isinstance(i, Array | Lazy) for i in index):
        _scatter(lo, base, index, value, line)
        return
    parts = _expanded(base.t.rank, index, line)
    if len([p for p in parts if isinstance(p, Scalar)]) == base.t.rank == len(parts):
        if isinstance(value, Array | Lazy) and value.t.rank == 0:
            value = values.scalar(lo, value, line)
        if not isinstance(value, Scalar):
            raise Refused("an array as one element", line)
        at = tuple(calls.whole(lo, p, line).e for p in parts)
        made = arithmetic.stored(lo.b, value, base.t.dtype, line)
        lo.b.emit(Store(base.name, at, made, _faults(lo, base.t.rank, line)))
        return
    if isinstance(value, Lazy | Array):
        pass
    elif isinstance(value, Scalar):
        value = Scalar(value.t, lo.b.keep(value.e))
    assign(lo, view(lo, base, parts, line), value, line)


def _scatter(lo: Lower, base: Array, index: tuple[Value, ...], value: Value, line: int) -> None:
    """base[mask] = number"""
    (mask,) = index if len(index) == 1 else (None,)
    if not isinstance(mask, Array | Lazy) or mask.t.dtype != "bool" or mask.t.rank != base.t.rank:
        raise Refused("an assignment by arrays of subscripts", line, "Write it as a loop")
    if not isinstance(value, Scalar):
        raise Refused("an assignment of arrays by a mask", line, "Use np.where")
    held = lo.b.keep(arithmetic.stored(lo.b, value, base.t.dtype, line))
    at_mask = lazy(materialised(lo, mask, line) if isinstance(mask, Lazy) and base.name in mask.reads and base.name not in mask.aligned else mask)
    for k, (a, c) in enumerate(zip(at_mask.shape, shape_of(base), strict=True)):
        text = f"boolean index did not match indexed array along axis {k}; size of axis is {{0}} but size of corresponding boolean axis is {{1}}"
        lo.b.emit(If(compare("not_equal", a, c), (Fail(lo.b.fault("IndexError", text, line), (c, a)),)))

    def one(at: list[Expr]) -> None:
        test = at_mask.element(at, False)
        lo.b.emit(If(test.e, (Store(base.name, tuple(at), held, (-1,) * len(at)),)))

    loops(lo, shape_of(base), one, line)


# -- the rest --------------------------------------------------------------------------------------------------------


def attribute(lo: Lower, v: Array | Lazy, name: str, line: int) -> Value:
    """array.name"""
    if name == "shape":
        return Tuple(tuple(length(v, k) for k in range(v.t.rank)))
    if name == "ndim":
        return arithmetic.constant(v.t.rank)
    if name == "size":
        return size_of(lo, v)
    if name == "dtype":
        return Static(np.dtype(v.t.dtype))
    if name == "T":
        return transposed(lo, materialised(lo, v, line))
    if name in ("real", "imag"):
        if v.t.dtype[0] != "c":
            raise Refused(f"{name} of an array of {v.t.dtype}", line)
        return elementwise(lo, lambda x: calls.part(lo, x, name, line), name, (v,), line)  # type: ignore[arg-type,return-value]
    raise Refused(f"the attribute {name} of an array", line)


def size_of(lo: Lower, v: Array | Lazy) -> Scalar:
    e: Expr = ONE
    for n in shape_of(v):
        e = mul(e, n)
    return Scalar(ints(0, LENGTH), lo.b.held(e))


def transposed(lo: Lower, v: Array) -> Array:
    spans = tuple(Span(k, ZERO, Dim(v.name, k), ONE) for k in reversed(range(v.t.rank)))
    name = lo.b.array(v.t.dtype, v.t.rank)
    lo.b.view(View(name, v.name, (), spans))
    return Array(v.t, name)


def from_tuple(lo: Lower, v: Tuple, dtype: str | None, line: int) -> Array:
    """An array of nested numbers."""

    def leaves(x: Value) -> tuple[tuple[int, ...], list[Scalar]]:
        if isinstance(x, Scalar):
            return (), [x]
        if not isinstance(x, Tuple) or not x.items:
            raise Refused("an array of something else than numbers", line)
        inner = [leaves(i) for i in x.items]
        if any(s != inner[0][0] for s, _ in inner):
            raise Refused("an array of rows of different lengths", line)
        return (len(inner), *inner[0][0]), [e for _, some in inner for e in some]

    shape, numbers = leaves(v)
    if dtype is None:
        kinds = [np.dtype(s.t.dtype) for s in numbers]
        dtype = np.result_type(*kinds).name
    made = allocated(lo, Arr(dtype, len(shape)), [Const(INT, n) for n in shape], False, line)
    for at, s in zip(np.ndindex(*shape), numbers, strict=True):
        value = arithmetic.stored(lo.b, s, dtype, line)
        lo.b.emit(Store(made.name, tuple(Const(INT, i) for i in at), value, (-1,) * len(at)))
    return made


def accumulated(
    lo: Lower, dtype: str, first: Expr, shape: Sequence[Expr], step: Callable[[Var, list[Expr]], Expr], line: int
) -> Var:
    """A number that loops over a shape make."""
    name = lo.b.fresh("s")
    lo.b.names[name] = dtype
    lo.b.emit(Set(name, first))
    acc = Var(name, dtype)
    loops(lo, shape, lambda at: lo.b.emit(Set(name, step(acc, at))), line)
    return acc


def product(lo: Lower, x: Value, y: Value, line: int) -> Value:
    """x @ y"""
    if not isinstance(x, Array | Lazy) or not isinstance(y, Array | Lazy) or not (x.t.rank and y.t.rank):
        raise Refused("@ of numbers", line)
    if max(x.t.rank, y.t.rank) > 2:
        raise Refused("@ of arrays of more than two axes", line)
    p, q = (lazy(v if isinstance(v, Array) or (v.t.rank == 1 and x.t.rank == y.t.rank) else materialised(lo, v, line)) for v in (x, y))
    dtype = arithmetic.resolved("multiply", np.dtype(x.t.dtype), np.dtype(y.t.dtype))[-1]
    n, m = _true_length(lo, p.shape[-1]), _true_length(lo, q.shape[0])
    if n != m:
        n, m = lo.b.held(n), lo.b.held(m)
        signature = "(n?,k),(k,m?)->(n?,m?)"
        text = f"matmul: Input operand 1 has a mismatch in its core dimension 0, with gufunc signature {signature} (size {{1}} is different from {{0}})"
        lo.b.emit(If(compare("not_equal", n, m), (Fail(lo.b.fault("ValueError", text, line), (n, m)),)))
    kind = "tilewise" if "tilewise" in (x.t.kind, y.t.kind) else "numpy"
    zero = Const(dtype, 0j if dtype[0] == "c" else 0.0 if dtype[0] == "f" else False if dtype == "bool" else 0)

    def dot(left: Callable[[Expr], list[Expr]], right: Callable[[Expr], list[Expr]]) -> Expr:
        def step(acc: Var, at: list[Expr]) -> Expr:
            a = arithmetic.cast(p.element(left(at[0]), False).e, dtype)
            c = arithmetic.cast(q.element(right(at[0]), False).e, dtype)
            return Op("add", dtype, (acc, Op("multiply", dtype, (a, c))), loose=True)

        return accumulated(lo, dtype, zero, (n,), step, line)

    one = Num(False, dtype)
    reads = (*p.reads, *q.reads)
    if p.t.rank == q.t.rank == 1:
        return Scalar(one, dot(lambda k: [k], lambda k: [k]))
    if q.t.rank == 1:
        shape: tuple[Expr, ...] = (p.shape[0],)
        made = Lazy(Arr(dtype, 1, kind), shape, lambda at, _: Scalar(one, dot(lambda k: [at[0], k], lambda k: [k])), reads)
        return materialised(lo, made, line)
    if p.t.rank == 1:
        rows: tuple[Expr, ...] = (q.shape[1],)
        return materialised(lo, Lazy(Arr(dtype, 1, kind), rows, lambda at, _: Scalar(one, dot(lambda k: [k], lambda k: [k, at[0]])), reads), line)
    out = allocated(lo, Arr(dtype, 2, kind), (p.shape[0], q.shape[1]), True, line)

    def add_up(at: list[Expr]) -> None:
        i, k, j = at
        a = arithmetic.cast(p.element([i, k], False).e, dtype)
        c = arithmetic.cast(q.element([k, j], False).e, dtype)
        old = element(out.name, dtype, [i, j])
        lo.b.emit(Store(out.name, (i, j), Op("add", dtype, (old, Op("multiply", dtype, (a, c)))), (-1, -1)))

    loops(lo, (p.shape[0], n, q.shape[1]), add_up, line)
    return out
