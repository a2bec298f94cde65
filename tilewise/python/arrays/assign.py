"""Assignments of arrays. In: an array, a value. Out: loops that fill the array, the right side first.

What is written and read at different places of one array is copied before, unless it is seen to lie apart; what is
read at the place that is written, or at other subscripts, is copied only where operands of other lengths are repeated,
or the subscripts are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from tilewise.kernel.program.ir import Apart, Dim, Expr, Fail, If, Store
from tilewise.python.build import FALSE, ONE, TRUE, ZERO, Array, Lazy, Scalar, Tuple, Value, both, compare, negate
from tilewise.python.refuse import Refused
from tilewise.python.types import Arr

if TYPE_CHECKING:
    from tilewise.python.statements import Statements
from tilewise.python.arrays import attributes, elementwise
from tilewise.python.scalars import arithmetic, stored


def assign(lo: Statements, target: Array, value: Value, line: int) -> None:
    """target[...] = value: the right side first."""
    if isinstance(value, Tuple):
        value = attributes.from_tuple(lo, value, target.t.dtype, line)
    if isinstance(value, Scalar):
        held = lo.b.keep(stored.stored(lo.b, value, target.t.dtype, line))
        elementwise.loops(
            lo,
            elementwise.shape_of(target),
            lambda at: lo.b.emit(Store(target.name, tuple(at), held, (-1,) * len(at))),
            line,
            independent=True,
        )
        return
    if not isinstance(value, Array | Lazy):
        raise Refused("an assignment of something that is no array", line)
    v = elementwise.lazy(value)
    if v.t.dtype[0] == "c" and target.t.dtype[0] != "c":
        raise Refused("complex numbers into real ones", line)
    rank, shape = target.t.rank, elementwise.shape_of(target)
    if v.t.rank > rank:
        raise Refused("an assignment of an array of more axes", line)
    _check_fits(lo, v.shape, shape, lambda: _not_into(lo, v.shape, shape, line))
    how = elementwise.repeats(lo, v.shape, shape)
    met = [r for r in v.reads if _meets(lo, target.name, r)]
    still = v.aligned if v.t.rank == rank and ZERO not in how else frozenset[str]()
    other = [r for r in met if not (r in still and _same_view(lo, target.name, r))]
    apart = {r: negate(_at_one_place(lo, target.name, r)) for r in other}
    shared = [r for r in other if apart[r] == FALSE]
    conditions = [*elementwise.equal_lengths(lo, v.shape, shape), *v.equal]
    conditions += [test for test in apart.values() if test != FALSE]
    inexact = len(met) > len(shared)  # elements are needed after they were written, if one of these does not hold
    if any(not r.startswith("$v") or r == target.name for r in shared):  # what cannot show a copy instead
        v = elementwise.lazy(elementwise.computed(lo, v, line))
        conditions = elementwise.equal_lengths(lo, v.shape, shape)
        shared, inexact = [], False
    for r in shared:
        with lo.b.rarely(), lo.b.inside() as copying:
            t = Arr(lo.b.arrays[r][0], lo.b.arrays[r][1])
            copy = elementwise.allocated(lo, t, [Dim(r, k) for k in range(t.rank)], False, line)
            elementwise.fill(lo, copy, elementwise.lazy(Array(t, r)), True, line)
            shown = lo.b.views[r]
            lo.b.rename(r, copy.name)
            lo.b.views[r] = shown  # of the same lengths
        lo.b.emit(If(negate(Apart(target.name, r)), tuple(copying)))

    def run(exact: bool) -> None:
        w = v
        if inexact and not exact:
            made = elementwise.allocated(lo, v.t, v.shape, False, line)
            elementwise.fill(lo, made, v, False, line)
            w = elementwise.lazy(made)

        def one(at: list[Expr]) -> None:
            inner = [elementwise.place(i, h, exact) for i, h in zip(at[rank - w.t.rank :], how, strict=True)]
            s = w.element(inner, exact)
            lo.b.emit(Store(target.name, tuple(at), arithmetic.cast(s.e, target.t.dtype), (-1,) * len(at)))

        elementwise.loops(lo, shape, one, line, independent=True)

    elementwise.either(lo, tuple(dict.fromkeys(conditions)), run)


def check_same(lo: Statements, shape: tuple[Expr, ...], into: tuple[Expr, ...], line: int) -> None:
    """Fail if an operation in place would need a larger array."""
    for e, o in zip(shape, into, strict=True):
        a, c = elementwise.true_length(lo, e), elementwise.true_length(lo, o)
        if a != c:
            values: list[Expr] = []
            parts = [elementwise.shape_text(s, values) for s in (into, shape)]
            text = (
                f"non-broadcastable output operand with shape {parts[0]} doesn't match the broadcast shape {parts[1]}"
            )
            fault = Fail(lo.b.fault("ValueError", text, line), tuple(values))
            lo.b.emit(If(compare("not_equal", lo.b.held(a), lo.b.held(c)), (fault,)))


def _not_into(lo: Statements, shape: tuple[Expr, ...], into: tuple[Expr, ...], line: int) -> Fail:
    values: list[Expr] = []
    parts = [elementwise.shape_text(s, values) for s in (shape, into)]
    text = f"could not broadcast input array from shape {parts[0]} into shape {parts[1]}"
    return Fail(lo.b.fault("ValueError", text, line), tuple(values))


def _check_fits(lo: Statements, shape: tuple[Expr, ...], into: tuple[Expr, ...], fail: Callable[[], Fail]) -> None:
    """Fail unless a shape can be repeated to another."""
    for e, o in zip(reversed(shape), reversed(into), strict=False):
        a, c = elementwise.true_length(lo, e), elementwise.true_length(lo, o)
        if a in (c, ONE):
            continue
        a, c = lo.b.held(a), lo.b.held(c)
        lo.b.emit(If(both(compare("not_equal", a, c), compare("not_equal", a, ONE)), (fail(),)))


def _meets(lo: Statements, a: str, b: str) -> bool:
    return bool(lo.b.roots[a] & lo.b.roots[b])


def _at_one_place(lo: Statements, a: str, b: str) -> Expr:
    """False if two views of an array show different rows or columns of it: A[i, 1:] and A[j, :-1]."""
    p, q = lo.b.views.get(a), lo.b.views.get(b)
    test: Expr = TRUE
    if p is not None and q is not None and p.source == q.source:
        other = dict(q.at)
        for axis, i in p.at:
            if axis in other and other[axis] != i:
                test = both(test, compare("equal", i, other[axis]))
    return test


def _same_view(lo: Statements, a: str, b: str) -> bool:
    """Whether two names show the same elements at the same subscripts."""
    if a == b:
        return True
    p, q = lo.b.views.get(a), lo.b.views.get(b)
    if p is None or q is None or not a.startswith("$") or not b.startswith("$"):
        return False
    return p.source == q.source and p.at == q.at and p.spans == q.spans


def update(lo: Statements, target: Array, op: str, other: Value, line: int) -> None:
    """target op= other, in place."""
    if op == "@" or not isinstance(other, Scalar | Array | Lazy):
        raise Refused(f"{op}= of an array", line)
    if isinstance(other, Array | Lazy) and other.t.rank > target.t.rank:
        raise Refused(f"{op}= of an array of more axes", line)
    act = lambda p, q: arithmetic.binary(lo.b, op, p, q, line)  # noqa: E731
    made = elementwise.elementwise(lo, act, op, (target, other), line, target)
    if not np.can_cast(made.t.dtype, target.t.dtype, "same_kind"):
        raise Refused(f"{op}= of {made.t.dtype} to an array of {target.t.dtype}", line)
    assign(lo, target, made, line)
