"""Masks, and arrays as subscripts. In: an array, subscripts. Out: new arrays, stores.

Masks are loops: how many elements are chosen is counted first. What else NumPy takes goes through Python.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise.kernel.program.ir import INT, Expr, Fail, If, Op, Set, Store, Var
from tilewise.python.build import ONE, ZERO, Array, Lazy, Scalar, Tuple, Value, add, compare, element, mul
from tilewise.python.refuse import Refused
from tilewise.python.types import Arr

if TYPE_CHECKING:
    from tilewise.python.statements import Statements
from tilewise.python.arrays import elementwise
from tilewise.python.host import calling
from tilewise.python.scalars import arithmetic, stored


def by_mask(lo: Statements, base: Array, mask: Array | Lazy, line: int) -> Array:
    """base[mask], where the mask is of the first axes."""
    chosen = _held(lo, base, mask, line)
    count = _count(lo, chosen, line)
    rank = mask.t.rank
    rest = elementwise.shape_of(base)[rank:]
    made = elementwise.allocated(
        lo, Arr(base.t.dtype, 1 + len(rest), base.t.kind), [count, *rest], zero=False, line=line, like=(base.name,)
    )
    at_out = _position(lo)

    def one(at: list[Expr]) -> None:
        with lo.b.inside() as yes:
            _over(lo, rest, line, lambda more: _copy(lo, made, (at_out, *more), base, (*at, *more)))
            lo.b.emit(Set(at_out.name, add(at_out, ONE)))
        lo.b.emit(If(element(chosen.name, "bool", at), tuple(yes)))

    elementwise.loops(lo, elementwise.shape_of(chosen), one, line)
    return made


def put_by_mask(lo: Statements, base: Array, index: tuple[Value, ...], value: Value, line: int) -> bool:
    """base[mask] = value: a number, or as many as there are places."""
    (mask,) = index if len(index) == 1 else (None,)
    if not isinstance(mask, Array | Lazy) or mask.t.dtype != "bool":
        raise Refused("an assignment by arrays of subscripts", line, "Write it as a loop")
    if isinstance(value, Scalar):
        held = lo.b.keep(stored.converted(lo.b, value, base.t.dtype, line))
        chosen = _held(lo, base, mask, line)
        rest = elementwise.shape_of(base)[mask.t.rank :]

        def one(at: list[Expr]) -> None:
            with lo.b.inside() as yes:
                _over(lo, rest, line, lambda more: _store(lo, base, (*at, *more), held))
            lo.b.emit(If(element(chosen.name, "bool", at), tuple(yes)))

        elementwise.loops(lo, elementwise.shape_of(chosen), one, line)
        return True
    if not isinstance(value, Array | Lazy) or value.t.rank != 1 or mask.t.rank != base.t.rank:
        raise Refused("an assignment of arrays by a mask", line, "Use np.where")
    if value.t.dtype[0] == "c" and base.t.dtype[0] != "c":
        raise Refused("complex numbers into real ones", line)
    meets = any(lo.b.roots[r] & lo.b.roots[base.name] for r in elementwise.lazy(value).reads)
    several = elementwise.lazy(
        elementwise.computed(lo, value, line) if isinstance(value, Lazy) else _copied(lo, value, line)
        if meets else value
    )  # fmt: skip
    chosen = _held(lo, base, mask, line)
    count, given = lo.b.held(_count(lo, chosen, line)), lo.b.held(several.shape[0])
    text = "NumPy boolean array indexing assignment cannot assign {0} input values to the {1} output values where the "
    fault = lo.b.fault("ValueError", text + "mask is true", line)
    other = Op("logical_and", "bool", (compare("not_equal", given, count), compare("not_equal", given, ONE)))
    lo.b.emit(If(other, (Fail(fault, (given, count)),)))
    step = lo.b.keep(Op("minimum", INT, (Op("subtract", INT, (given, ONE), exact=True), ONE)))
    at_value = _position(lo)

    def put(at: list[Expr]) -> None:
        with lo.b.inside() as yes:
            s = several.element([mul(at_value, step)], False)
            _store(lo, base, tuple(at), arithmetic.cast(s.e, base.t.dtype))
            lo.b.emit(Set(at_value.name, add(at_value, ONE)))
        lo.b.emit(If(element(chosen.name, "bool", at), tuple(yes)))

    elementwise.loops(lo, elementwise.shape_of(chosen), put, line)
    return True


def gathered_by_python(lo: Statements, base: Array, index: tuple[Value, ...], line: int) -> Value:
    """base[index], any subscripts that NumPy takes."""
    one = index[0] if len(index) == 1 else Tuple(index)
    return calling.called(
        lo, operator.getitem, [base, one], {}, line, name="a subscript", kind=base.t.kind,
        sampled=lambda x, i: x[_in_range(i)],
    )  # fmt: skip


def put_by_python(lo: Statements, base: Array, index: tuple[Value, ...], value: Value, line: int) -> bool:
    """base[index] = value, any subscripts that NumPy takes."""
    one = index[0] if len(index) == 1 else Tuple(index)
    calling.called(
        lo, operator.setitem, [base, one, value], {}, line, name="an assignment", writes=[0],
        sampled=lambda *_: None,
    )  # fmt: skip
    return True


def _in_range(index: Any) -> Any:
    """Subscripts of a sample."""
    if isinstance(index, tuple):
        return tuple(map(_in_range, index))
    whole = isinstance(index, int | np.integer) or (isinstance(index, np.ndarray) and index.dtype.kind in "iu")
    return index * 0 if whole else index


def _held(lo: Statements, base: Array, mask: Array | Lazy, line: int) -> Array:
    """The mask in memory of its own, which fits the array."""
    chosen = _copied(lo, mask, line) if lo.b.roots.get(base.name, frozenset()) & _roots(lo, mask) else mask
    chosen = elementwise.materialised(lo, chosen, line)
    if mask.t.rank > base.t.rank:
        raise Refused("a mask of more axes than the array has", line)
    for k, (a, c) in enumerate(zip(elementwise.shape_of(chosen), elementwise.shape_of(base), strict=False)):
        text = f"boolean index did not match indexed array along axis {k}; size of axis is {{0}} "
        text += "but size of corresponding boolean axis is {1}"
        lo.b.emit(If(compare("not_equal", a, c), (Fail(lo.b.fault("IndexError", text, line), (c, a)),)))
    return chosen


def _roots(lo: Statements, v: Array | Lazy) -> frozenset[str]:
    return lo.b.roots[v.name] if isinstance(v, Array) else frozenset()


def _copied(lo: Statements, v: Array | Lazy, line: int) -> Array:
    made = elementwise.allocated(lo, v.t, elementwise.shape_of(v), zero=False, line=line)
    elementwise.fill(lo, made, elementwise.lazy(v), False, line)
    return made


def _count(lo: Statements, chosen: Array, line: int) -> Expr:
    """How many elements of a mask are true."""

    def step(acc: Var, at: list[Expr]) -> Expr:
        return add(acc, arithmetic.cast(element(chosen.name, "bool", at), INT))

    return elementwise.accumulated(lo, INT, ZERO, elementwise.shape_of(chosen), step, line)


def _position(lo: Statements) -> Var:
    name = lo.b.fresh("p")
    lo.b.names[name] = INT
    lo.b.emit(Set(name, ZERO))
    return Var(name, INT)


def _over(lo: Statements, shape: Sequence[Expr], line: int, act: Any) -> None:
    elementwise.loops(lo, shape, act, line) if shape else act([])


def _store(lo: Statements, target: Array, at: tuple[Expr, ...], value: Expr) -> None:
    lo.b.emit(Store(target.name, tuple(at), value, (-1,) * len(at)))


def _copy(lo: Statements, to: Array, at: tuple[Expr, ...], source: Array, there: tuple[Expr, ...]) -> None:
    _store(lo, to, at, element(source.name, source.t.dtype, there))
