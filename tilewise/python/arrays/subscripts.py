"""Subscripts. In: an array, numbers and slices. Out: elements, views, stores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from tilewise.kernel.program.ir import INT, Const, Dim, Expr, Load, Op, Span, Store, Var, View
from tilewise.python.build import (
    ONE,
    ZERO,
    Array,
    Dict,
    Lazy,
    List,
    Scalar,
    Slice,
    Static,
    Tuple,
    Value,
    add,
    compare,
    element,
    pick,
    sub,
)
from tilewise.python.refuse import Refused
from tilewise.python.types import Arr, Num, key, merge

if TYPE_CHECKING:
    from tilewise.python.statements import Statements
from tilewise.python import values
from tilewise.python.arrays import assign, elementwise, indexing
from tilewise.python.containers import dicts, lists
from tilewise.python.functions import calls
from tilewise.python.scalars import arithmetic, stored

NEW = object()
LONGEST_CHOICE = 32  # items of a tuple that a computed subscript chooses from


def fixed(lo: Statements, index: tuple[Value, ...]) -> tuple[Value, ...]:
    """Subscripts whose numbers are computed now."""
    return tuple(
        Scalar(i.t, lo.b.keep(i.e)) if isinstance(i, Scalar)
        else Slice(*(Scalar(p.t, lo.b.keep(p.e)) if isinstance(p, Scalar) else p for p in (i.start, i.stop, i.step)))
        if isinstance(i, Slice) else i
        for i in index
    )  # fmt: skip


def get_item(lo: Statements, base: Value, index: tuple[Value, ...], line: int) -> Value:
    """base[index]"""
    if isinstance(base, List):
        return lists.item(lo, base, index, line)
    if isinstance(base, Dict):
        return dicts.item(lo, base, _key(index), line)
    if isinstance(base, Tuple):
        return _of_tuple(lo, base, index, line)
    if isinstance(base, Scalar) and not base.t.py and (not index or index == (Static(...),)):
        return base
    if not isinstance(base, Array | Lazy):
        if isinstance(base, Static) and base.value is None:
            lo.fail("TypeError", "'NoneType' object is not subscriptable", line)
        raise Refused("a subscript of something that is no array", line)
    if any(isinstance(i, Array | Lazy) for i in index):
        held = elementwise.materialised(lo, base, line)
        return lo.native_or(
            lambda: _gathered(lo, held, index, line), lambda: indexing.gathered_by_python(lo, held, index, line)
        )
    parts = _expanded(base.t.rank, index, line)
    dots = any(map(_dots, index))  # with which NumPy gives an array without axes
    if len([p for p in parts if isinstance(p, Scalar)]) == base.t.rank == len(parts) and not dots:
        if isinstance(base, Array):
            faults = _faults(lo, base.t.rank, line)
            at = tuple(calls.whole(lo, p, line).e for p in parts)
            return Scalar(Num(False, base.t.dtype), _load(base, at, faults))
        at = tuple(_subscript(lo, calls.whole(lo, p, line), base.shape[k], k, line) for k, p in enumerate(parts))
        return base.element(at, False)
    return view(lo, elementwise.materialised(lo, base, line), parts, line)


def _key(index: tuple[Value, ...]) -> Value:
    """The key that subscripts of a dict are: a tuple, if there are several."""
    return index[0] if len(index) == 1 else Tuple(index)


def _load(base: Array, at: tuple[Expr, ...], faults: tuple[int, ...]) -> Expr:
    return Load(base.name, base.t.dtype, at, faults)


def _faults(lo: Statements, rank: int, line: int) -> tuple[int, ...]:
    if lo.b.sure:
        return (-1,) * rank
    text = "index {{0}} is out of bounds for axis {0} with size {{1}}"
    return tuple(lo.b.fault("IndexError", text.format(k), line) for k in range(rank))


def _subscript(lo: Statements, s: Scalar, size: Expr, axis: int, line: int) -> Expr:
    """A subscript in range, counted from the start."""
    fault = lo.b.fault("IndexError", f"index {{0}} is out of bounds for axis {axis} with size {{1}}", line)
    return lo.b.once(Op("subscript", INT, (lo.b.steady(s.e), size), fault))


def _alike(base: Tuple) -> list[Scalar] | None:
    """The items of a short tuple, if all of them are numbers of one type that are known or have names."""
    items = [v for v in base.items if isinstance(v, Scalar) and isinstance(v.e, Const | Var)]
    same = len(items) == len(base.items) and len({key(v.t) for v in items}) == 1
    return items if same and len(items) <= LONGEST_CHOICE else None


def _of_tuple(lo: Statements, base: Tuple, index: tuple[Value, ...], line: int) -> Value:
    (i,) = index if len(index) == 1 else (None,)
    if (
        isinstance(i, Scalar)
        and isinstance(i.e, Const)
        and i.t.whole
        and -len(base.items) <= i.e.value < len(base.items)
    ):
        return base.items[int(i.e.value)]
    if isinstance(i, Slice):
        ends = [
            None if p is None else cast(Any, p).e.value
            for p in (i.start, i.stop, i.step)
            if p is None or (isinstance(p, Scalar) and isinstance(p.e, Const))
        ]
        if len(ends) == 3:
            return Tuple(base.items[slice(*ends)], base.listed)
    if isinstance(i, Scalar) and not base.listed and (same := _alike(base)) is not None:
        fault = lo.b.fault("IndexError", "tuple index out of range", line)
        at = lo.b.keep(Op("subscript", INT, (lo.b.held(calls.whole(lo, i, line).e), Const(INT, len(same))), fault))
        made, t = same[-1].e, same[-1].t
        for k in reversed(range(len(same) - 1)):
            made, t = pick(compare("equal", at, Const(INT, k)), same[k].e, made), cast(Num, merge(t, same[k].t))
        return Scalar(t, made)
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


def view(lo: Statements, base: Array, parts: list[Any], line: int) -> Array:
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


def row(lo: Statements, base: Array, at: Expr) -> Value:
    """base[at], which is in range."""
    if base.t.rank == 1:
        return Scalar(Num(False, base.t.dtype), element(base.name, base.t.dtype, [at]))
    spans = tuple(Span(k, ZERO, Dim(base.name, k), ONE) for k in range(1, base.t.rank))
    name = lo.b.array(base.t.dtype, base.t.rank - 1)
    lo.b.view(View(name, base.name, ((0, at),), spans))
    return Array(Arr(base.t.dtype, base.t.rank - 1, base.t.kind), name)


def span(lo: Statements, s: Slice, axis: int, size: Expr, line: int) -> Span:
    """A slice of an axis, cut to what there is."""
    step = arithmetic.constant(1) if s.step is None else calls.whole(lo, s.step, line)
    if not isinstance(step.e, Const):
        return _span_by(lo, s, step, axis, size, line)
    if step.e.value == 0:
        raise Refused("a slice with a step of zero", line)
    k = step.e.value
    ends = [None if p is None else calls.whole(lo, p, line) for p in (s.start, s.stop)]
    if k > 0:
        if ends == [None, None] and k == 1:
            return Span(axis, ZERO, size, ONE)
        start = ZERO if ends[0] is None else _clamped(lo, ends[0], size)
        stop = size if ends[1] is None else _clamped(lo, ends[1], size)
        count = _short(ends, elementwise.true_length(lo, size)) or sub(stop, start)
        if start != ZERO or ends[1] is not None:
            count = Op("maximum", INT, (count, ZERO))
        if k > 1:
            count = Op("floor_divide", INT, (add(count, Const(INT, k - 1)), Const(INT, k)))
        return Span(axis, start, lo.b.once(count), Const(INT, k))
    last = sub(size, ONE)
    start = lo.b.once(last) if ends[0] is None else _clamped_down(lo, ends[0], size)
    stop = Const(INT, -1) if ends[1] is None else _clamped_down(lo, ends[1], size)
    count = Op("maximum", INT, (sub(start, stop), ZERO))
    if k < -1:
        count = Op("floor_divide", INT, (add(count, Const(INT, -k - 1)), Const(INT, -k)))
    return Span(axis, start, lo.b.once(count), Const(INT, k))


def _span_by(lo: Statements, s: Slice, step: Scalar, axis: int, size: Expr, line: int) -> Span:
    """A slice with a computed step, which must be positive."""
    if step.t.lo <= 0:
        raise Refused("a slice with a computed step that may be negative", line, "Test the step before")
    by = lo.b.steady(step.e)
    start = ZERO if s.start is None else _clamped(lo, calls.whole(lo, s.start, line), size)
    stop = size if s.stop is None else _clamped(lo, calls.whole(lo, s.stop, line), size)
    count = Op("maximum", INT, (sub(stop, start), ZERO))
    count = Op("floor_divide", INT, (add(count, sub(by, ONE)), by))
    return Span(axis, start, lo.b.once(count), by)


def _short(ends: list[Scalar | None], size: Expr) -> Expr | None:
    """What [c:-d] leaves of an axis, in one form (it may be negative); None: other ends."""
    first, last = ends
    left = 0 if first is None else first.e.value if isinstance(first.e, Const) else -1
    right = 0 if last is None else -last.e.value if isinstance(last.e, Const) else -1
    if left < 0 or right < 0 or (last is not None and right == 0):
        return None
    return sub(size, Const(INT, left + right))


def _clamped(lo: Statements, s: Scalar, size: Expr) -> Expr:
    """An end of a slice, in 0 ... size."""
    if s.t.lo >= 0:
        return lo.b.once(Op("minimum", INT, (lo.b.steady(s.e), size))) if s.e != ZERO else ZERO
    if s.t.hi < 0:
        return lo.b.once(Op("maximum", INT, (add(size, lo.b.steady(s.e)), ZERO)))
    e = lo.b.steady(s.e)
    up = pick(compare("less", e, ZERO), Op("maximum", INT, (add(size, e), ZERO)), Op("minimum", INT, (e, size)))
    return lo.b.once(up)


def _clamped_down(lo: Statements, s: Scalar, size: Expr) -> Expr:
    """An end of a slice that goes down, in -1 ... size - 1."""
    e = lo.b.steady(s.e)
    low = Op("maximum", INT, (add(size, e), Const(INT, -1)))
    return lo.b.once(pick(compare("less", e, ZERO), low, Op("minimum", INT, (e, sub(size, ONE)))))


def _gathered(lo: Statements, held: Array, index: tuple[Value, ...], line: int) -> Value:
    """base[integers], along the first axis, or base[mask]."""
    which = index[0]
    if len(index) != 1 or not isinstance(which, Array | Lazy):
        raise Refused("arrays beside other subscripts", line)
    if which.t.dtype == "bool":
        return indexing.by_mask(lo, held, which, line)
    if which.t.dtype[0] not in "iu":
        raise Refused(f"an array of {which.t.dtype} as a subscript", line)
    at = elementwise.lazy(which)
    fault = lo.b.fault("IndexError", "index {0} is out of bounds for axis 0 with size {1}", line)

    def one(place: Sequence[Expr], exact: bool) -> Scalar:
        first = at.element(place[: at.t.rank], exact)
        whole = calls.whole(lo, first, line)
        rest = tuple(place[at.t.rank :])
        faults = (fault, *(-1,) * len(rest))
        return Scalar(Num(False, held.t.dtype), _load(held, (whole.e, *rest), faults))

    shape = (*at.shape, *elementwise.shape_of(held)[1:])
    t = Arr(held.t.dtype, len(shape), held.t.kind)
    return Lazy(t, shape, one, (*at.reads, held.name), frozenset(), at.equal)


def set_item(lo: Statements, base: Value, index: tuple[Value, ...], value: Value, line: int) -> None:
    """base[index] = value"""
    if isinstance(base, List):
        lists.set_item(lo, base, index, value, line)
        return
    if isinstance(base, Dict) and not base.t.members:
        dicts.put(lo, base, _key(index), value, line)
        return
    if isinstance(base, Lazy) and base.shown is not None:
        base = base.shown()
    if not isinstance(base, Array):
        raise Refused("an assignment to a part of something that is no array", line)
    if any(isinstance(i, Array | Lazy) for i in index):
        lo.native_or(
            lambda: indexing.put_by_mask(lo, base, index, value, line),
            lambda: indexing.put_by_python(lo, base, index, value, line),
        )
        return
    parts = _expanded(base.t.rank, index, line)
    if len([p for p in parts if isinstance(p, Scalar)]) == base.t.rank == len(parts):
        into = stored.stored
        if isinstance(value, Array | Lazy) and value.t.rank == 0:
            into, value = stored.converted, values.scalar(lo, value, line)
        if not isinstance(value, Scalar):
            raise Refused("an array as one element", line)
        at = tuple(calls.whole(lo, p, line).e for p in parts)
        made = into(lo.b, value, base.t.dtype, line)
        lo.b.emit(Store(base.name, at, made, _faults(lo, base.t.rank, line)))
        return
    if isinstance(value, Lazy | Array):
        pass
    elif isinstance(value, Scalar):
        value = Scalar(value.t, lo.b.keep(value.e))
    assign.assign(lo, view(lo, base, parts, line), value, line)
