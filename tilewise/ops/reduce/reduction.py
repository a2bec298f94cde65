"""Reductions by ufuncs. In: a node and axes. Out: a node with fewer (or equal) axes. Others: see scan, contributed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tilewise.ir.node import Node, Op, Shape, intern
from tilewise.ir.order import Order, normal
from tilewise.ir.reductions import by_name, splits
from tilewise.ir.scalar import UFUNCS
from tilewise.kernel.native_support import supports_reduce
from tilewise.layout import Mesh, Partial
from tilewise.ops.elementwise import cast, walked
from tilewise.ops.traits.batch import Rolled, batch
from tilewise.ops.traits.lower import accumulates, reduced_axes
from tilewise.ops.traits.rule import LETTERS, Options, Rule, by_letters, specific
from tilewise.records import dataclass


@dataclass(frozen=True, eq=False)
class Reduce(Op):
    """`ufunc.reduce` over axes. The operand already has the accumulator's dtype. There is one object of each."""

    fn: str
    axes: tuple[int, ...]
    keepdims: bool
    dtype: np.dtype[Any]
    name = "reduce"

    @property
    def signature(self) -> Any:
        return self

    def numpy(self, *arrays: Any) -> Any:
        return UFUNCS[self.fn].reduce(arrays[0], axis=self.axes, keepdims=self.keepdims, dtype=self.dtype)

    def label(self) -> str:
        return f"{self.fn}.reduce{list(self.axes)}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (reduce_op, (self.fn, self.axes, self.keepdims, self.dtype))


_ops: dict[tuple[str, tuple[int, ...], bool, np.dtype[Any]], Reduce] = {}


def reduce_op(fn: str, axes: tuple[int, ...], keepdims: bool, dtype: np.dtype[Any]) -> Reduce:
    """The operator for a ufunc's name, axes and dtype."""
    key = (fn, axes, keepdims, dtype)
    return _ops.get(key) or _ops.setdefault(key, Reduce(*key))


def reduced_shape(shape: Shape, axes: tuple[int, ...], keepdims: bool) -> Shape:
    """The shape after reducing axes."""
    if len(axes) == len(shape) and not keepdims:
        return ()
    if keepdims:
        return tuple(1 if i in axes else d for i, d in enumerate(shape))
    return tuple(d for i, d in enumerate(shape) if i not in axes)


def reduced_order(node: Node, axes: tuple[int, ...], keepdims: bool) -> Order:
    """NumPy keeps the operand's order among the axes that stay."""
    order = walked(node)
    if order is None or keepdims:
        return order
    left = [a for a in range(node.ndim) if a not in axes]
    return normal([left.index(a) for a in order if a in left])


def reduce(node: Node, fn: str, axes: tuple[int, ...], keepdims: bool, dtype: np.dtype[Any]) -> Node:
    """Reduce `axes` with `fn`, accumulating in `dtype`."""
    operand = cast(node, dtype)
    return intern(
        reduce_op(fn, axes, keepdims, dtype),
        (operand,),
        reduced_shape(node.shape, axes, keepdims),
        by_name(fn).kind(dtype),
        reduced_order(node, axes, keepdims),
    )


@specific.register(Reduce)
def _(op: Reduce, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    term = LETTERS[: node.inputs[0].ndim]
    out = "".join(c if i not in op.axes else c.swapcase() if op.keepdims else "" for i, c in enumerate(term))
    over = op.fn if splits(op.fn) else None
    yield from by_letters([term], out, node, have, mesh, over, pieces=True)
    if over is not None:
        yield Rule((Partial(over),), Partial(over))
    if over == "add":
        yield Rule((Partial("placed"),), Partial("add"))


@batch.register(Reduce)
def _(op: Reduce, first: Node, ins: list[Rolled], count: int, last: bool) -> Node | None:
    axes = op.axes if last else tuple([a + 1 for a in op.axes])
    return reduce(ins[0].node, op.fn, axes, op.keepdims, op.dtype)


@reduced_axes.register(Reduce)
def _(op: Reduce, node: Node) -> tuple[int, ...]:
    return op.axes


@accumulates.register(Reduce)
def _(op: Reduce, node: Node) -> bool:
    native = node.inputs[0].dtype.isnative and op.dtype.isnative
    return native and bool(op.axes) and supports_reduce(op.fn, op.dtype.name)
