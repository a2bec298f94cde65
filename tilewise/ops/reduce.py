"""Reductions, scans, segments, positions of extremes. In: a node and axes. Out: a node with fewer (or equal) axes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewise.ir.node import Node, Op, Shape, intern
from tilewise.ir.order import Order, normal
from tilewise.ir.scalar import UFUNCS
from tilewise.ops.elementwise import cast, walked


@dataclass(frozen=True)
class Reduce(Op):
    """`ufunc.reduce` over axes. The operand already has the accumulator's dtype."""

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


@dataclass(frozen=True)
class Scan(Op):
    """`ufunc.accumulate` along an axis."""

    fn: str
    axis: int
    dtype: np.dtype[Any]
    name = "scan"

    @property
    def signature(self) -> Any:
        return self

    def numpy(self, *arrays: Any) -> Any:
        return UFUNCS[self.fn].accumulate(arrays[0], axis=self.axis, dtype=self.dtype)

    def label(self) -> str:
        return f"{self.fn}.accumulate[{self.axis}]"


@dataclass(frozen=True)
class Segments(Op):
    """`ufunc.reduceat` along an axis: the second input holds where segments start."""

    fn: str
    axis: int
    dtype: np.dtype[Any]
    name = "segments"

    def numpy(self, *arrays: Any) -> Any:
        return UFUNCS[self.fn].reduceat(arrays[0], arrays[1], axis=self.axis, dtype=self.dtype)

    def label(self) -> str:
        return f"{self.fn}.reduceat[{self.axis}]"


@dataclass(frozen=True)
class Arg(Op):
    """argmin / argmax along an axis, or over everything (axis None)."""

    fn: str
    axis: int | None
    keepdims: bool
    name = "arg"

    @property
    def signature(self) -> Any:
        return self

    def numpy(self, *arrays: Any) -> Any:
        return getattr(np, self.fn)(arrays[0], axis=self.axis, keepdims=self.keepdims)

    def label(self) -> str:
        return self.fn


def reduced_shape(shape: Shape, axes: tuple[int, ...], keepdims: bool) -> Shape:
    """The shape after reducing axes."""
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
    out = np.dtype(bool) if fn in ("logical_and", "logical_or", "logical_xor") else dtype
    return intern(
        Reduce(fn, axes, keepdims, dtype),
        (operand,),
        reduced_shape(node.shape, axes, keepdims),
        out,
        reduced_order(node, axes, keepdims),
    )


def scan(node: Node, fn: str, axis: int, dtype: np.dtype[Any]) -> Node:
    """Running reduction along an axis."""
    return intern(Scan(fn, axis, dtype), (cast(node, dtype),), node.shape, dtype, walked(node))


def segments(node: Node, starts: Node, fn: str, axis: int, dtype: np.dtype[Any]) -> Node:
    """Reductions of the slices that `starts` names."""
    shape = (*node.shape[:axis], starts.shape[0], *node.shape[axis + 1 :])
    return intern(Segments(fn, axis, dtype), (cast(node, dtype), starts), shape, dtype)


def arg(node: Node, fn: str, axis: int | None, keepdims: bool) -> Node:
    """Position of the smallest or largest element."""
    axes = tuple(range(node.ndim)) if axis is None else (axis,)
    return intern(Arg(fn, axis, keepdims), (node,), reduced_shape(node.shape, axes, keepdims), np.dtype(np.intp))
