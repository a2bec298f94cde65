"""Arrays whose axes change places or direction. In: the arguments of NumPy's functions. Out: views."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewise.kernel.program.ir import Const
from tilewise.python.build import Array, Lazy, Scalar, Slice, Tuple, Value
from tilewise.python.refuse import Refused

if TYPE_CHECKING:
    from tilewise.python.arrays.functions import Given
    from tilewise.python.statements import Statements
from tilewise.python.arrays import attributes, elementwise, reductions, subscripts
from tilewise.python.scalars import arithmetic


def transpose(lo: Statements, kind: str, g: Given) -> Value:
    """np.transpose(a, axes)"""
    x, axes = g.need(0, "a"), g.take(1, "axes")
    g.done(2)
    if not isinstance(x, Array | Lazy):
        raise Refused("transpose of this", g.line)
    order = list(reversed(range(x.t.rank)))
    if axes is not None:
        given = [_fixed(n) for n in axes.items] if isinstance(axes, Tuple) else [None]
        order = [n % x.t.rank for n in given if n is not None and -x.t.rank <= n < x.t.rank]
        if len(given) != x.t.rank or sorted(order) != list(range(x.t.rank)):
            raise Refused("transpose by these axes", g.line)
    return attributes.transposed(lo, elementwise.materialised(lo, x, g.line), order)


def _fixed(v: Value) -> int | None:
    """A whole number that is known when compiling."""
    known = isinstance(v, Scalar) and isinstance(v.e, Const) and v.t.dtype == "int64"
    return int(v.e.value) if known else None  # type: ignore[union-attr]


def flip(lo: Statements, kind: str, g: Given) -> Value:
    """np.flip(m, axis)"""
    x, axis = g.need(0, "m"), g.take(1, "axis")
    g.done(2)
    if not isinstance(x, Array | Lazy) or not x.t.rank:
        raise Refused("flip of this", g.line)
    axes = reductions.axes_of("flip", axis, x.t.rank, g.line)
    back, all_ = Slice(None, None, arithmetic.constant(-1)), Slice(None, None, None)
    parts: list[Any] = [back if k in axes else all_ for k in range(x.t.rank)]
    return subscripts.view(lo, elementwise.materialised(lo, x, g.line), parts, g.line)
