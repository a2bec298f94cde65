"""What loops go over, and what is raised. In: values, trees. Out: ranges and items, exceptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from tilewise.kernel.program.ir import INT, Const, Expr, Fail, If
from tilewise.python.build import Array, Dict, Lazy, List, Scalar, Sequence_, Tuple, Value, compare, pick
from tilewise.python.refuse import Refused
from tilewise.python.types import LENGTH, Num, ints

if TYPE_CHECKING:
    from tilewise.python.statements import Statements
from tilewise.python import values
from tilewise.python.arrays import elementwise, subscripts
from tilewise.python.containers import columns, dicts, lists
from tilewise.python.scalars import arithmetic
from tilewise.python.standard import builtin_functions


def unpacked(lo: Statements, found: Array | Lazy, count: int, line: int) -> Value:
    """a, b = array"""
    held = elementwise.materialised(lo, found, line) if isinstance(found, Lazy) else found
    n = elementwise.shape_of(held)[0]
    few = lo.b.fault("ValueError", f"not enough values to unpack (expected {count}, got {{0}})", line)
    many = lo.b.fault("ValueError", f"too many values to unpack (expected {count})", line)
    lo.b.emit(If(compare("less", n, Const(INT, count)), (Fail(few, (n,)),)))
    lo.b.emit(If(compare("greater", n, Const(INT, count)), (Fail(many),)))
    items = [subscripts.get_item(lo, held, (arithmetic.constant(k),), line) for k in range(count)]
    return Tuple(tuple(Scalar(i.t, lo.b.keep(i.e)) if isinstance(i, Scalar) else i for i in items))


def iterated(lo: Statements, found: Value, line: int) -> Any:
    """What a loop goes over: a tuple, or (start, stop, step, item of a counter or None)."""
    if isinstance(found, Tuple):
        return lo.settled(found, line)
    if isinstance(found, Sequence_):
        return _iterated_sequence(lo, found, line)
    if isinstance(found, List):
        found = lists.now(lo, found)
        count = Scalar(ints(0, LENGTH), lo.b.keep(lists.length(lo, found).e))
        shown = [cast(Array, lo.settled(a, line)).name for a in lists.shown_in(lo, found, line)]
        t = found.t.item or Num(False, "float64")
        zero, one = arithmetic.constant(0), arithmetic.constant(1)
        return zero, count, one, lambda at: columns.read(lo, shown, t, at.e)
    if isinstance(found, Dict):
        return _entries(lo, found, "keys", line)
    if isinstance(found, Lazy):
        found = elementwise.materialised(lo, found, line)
    if isinstance(found, Array):
        if found.t.rank == 0:
            raise Refused("a loop over a number", line)
        held = cast(Array, lo.settled(found, line))
        n = lo.b.keep(elementwise.shape_of(held)[0])
        length = Scalar(ints(0, LENGTH), n)
        return (
            arithmetic.constant(0), length, arithmetic.constant(1),
            lambda at: subscripts.row(lo, held, at.e),
        )  # fmt: skip
    raise Refused(f"a loop over {values.type_text(found)}", line, "Loop over a range or an array")


def _entries(lo: Statements, found: Dict, kind: str, line: int) -> Any:
    """The keys, values or items of a dict."""
    if found.t.members:
        raise Refused("a loop over a set, whose order is Python's own", line, "Use a dict")
    found = dicts.now(lo, found)
    if found.t.key is None or found.t.value is None:
        return Tuple(())
    parts = []
    for mark, t in (("k", found.t.key), ("v", found.t.value)):
        if kind != {"k": "values", "v": "keys"}[mark]:
            arrays = [cast(Array, lo.settled(a, line)).name for a in dicts.shown_in(lo, found, mark, line)]
            parts.append((arrays, t))
    count = Scalar(ints(0, LENGTH), lo.b.keep(dicts.length(found).e))

    def entry(at: Scalar) -> Value:
        made = tuple(columns.read(lo, arrays, t, at.e) for arrays, t in parts)
        return Tuple(made) if kind == "items" else made[0]

    return arithmetic.constant(0), count, arithmetic.constant(1), entry


def places(found: Value) -> list[str]:
    """Where the dicts are made that a loop goes over."""
    if isinstance(found, Dict):
        return [found.t.place]
    return [p for v in getattr(found, "parts", ()) for p in places(v)]


def _iterated_sequence(lo: Statements, found: Sequence_, line: int) -> Any:
    if found.kind in ("keys", "values", "items"):
        return _entries(lo, cast(Dict, found.parts[0]), found.kind, line)
    if found.kind == "range":
        parts = [Scalar(p.t, lo.b.held(p.e)) for p in map(arithmetic.as_int, found.parts)]  # type: ignore[arg-type]
        return (*parts, None)
    zero, one = arithmetic.constant(0), arithmetic.constant(1)
    first = zero
    if found.kind == "enumerate" and len(found.parts) == 2:
        first = cast(Scalar, found.parts[1])
        found = Sequence_("enumerate", found.parts[:1])
    inner = [iterated(lo, p, line) for p in found.parts]
    if all(isinstance(i, Tuple) for i in inner):
        rows = zip(*(i.items for i in inner), strict=False)
        if found.kind == "zip":
            return Tuple(tuple(Tuple(r) for r in rows))
        if found.kind == "reversed":
            return Tuple(inner[0].items[::-1])
        at = [arithmetic.binary(lo.b, "+", first, arithmetic.constant(k), line) for k in range(len(inner[0].items))]
        return Tuple(tuple(Tuple((k, v)) for k, v in zip(at, inner[0].items, strict=True)))
    if any(isinstance(i, Tuple) for i in inner):
        raise Refused("zip of a tuple and an array", line)
    counts = [_count(lo, i, line) for i in inner]
    if found.kind == "enumerate":
        n = counts[0]
        return (
            zero,
            n,
            one,
            lambda at: Tuple((arithmetic.binary(lo.b, "+", first, at, line), _item(lo, inner[0], at, line))),
        )
    if found.kind == "zip":
        n = counts[0]
        for other in counts[1:]:
            least = min(n.t.hi, other.t.hi)
            n = Scalar(ints(0, least), lo.b.keep(pick(_less(other.e, n.e), other.e, n.e)))
        return zero, n, one, lambda at: Tuple(tuple(_item(lo, i, at, line) for i in inner))
    assert found.kind == "reversed"
    n = counts[0]
    last = arithmetic.binary(lo.b, "-", n, one, line)
    return (
        Scalar(last.t, lo.b.keep(last.e)), arithmetic.constant(-1), arithmetic.constant(-1),
        lambda at: _item(lo, inner[0], at, line),
    )  # fmt: skip


def _less(a: Expr, b: Expr) -> Expr:
    return compare("less", a, b)


def _count(lo: Statements, iteration: Any, line: int) -> Scalar:
    """How many iterations there are."""
    start, stop, step, _ = iteration
    return Scalar(*_kept(lo, builtin_functions.range_length(lo, start, stop, step, line)))


def _kept(lo: Statements, s: Scalar) -> tuple[Num, Expr]:
    return s.t, lo.b.keep(s.e)


def _item(lo: Statements, iteration: Any, at: Scalar, line: int) -> Value:
    """What the iteration of this number goes over."""
    start, _, step, item = iteration
    index = arithmetic.binary(lo.b, "+", start, arithmetic.binary(lo.b, "*", at, step, line), line)
    top = max(abs(start.t.lo), abs(start.t.hi), abs(iteration[1].t.lo), abs(iteration[1].t.hi))
    if start.t.lo >= 0 and step.t.lo > 0:
        index = Scalar(ints(start.t.lo, iteration[1].t.hi - 1), index.e)
    elif top < LENGTH:
        index = Scalar(ints(-top, top), index.e)
    return index if item is None else item(index)
