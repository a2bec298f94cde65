"""Positions of extremes, what they point at, and reductions by any row. In: a node and axes. Out: one with fewer.

Where a mesh cuts the reduced axis, contributions are not values (positions), and an operator is three steps: what each
block contributes (`contribution`), an exchange that combines that, and what it comes to (`Lower`).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from tilewise.ir.node import Node, Op, intern
from tilewise.ir.reductions import Reduction, by_name
from tilewise.kernel.native_support import supports_arg
from tilewise.layout import Cutting, Layout, Mesh, Partial, Replicate, Shard, grid_layout, shards
from tilewise.ops.reduce.reduction import reduced_shape
from tilewise.ops.traits.batch import Rolled, batch
from tilewise.ops.traits.block import Part, on_block
from tilewise.ops.traits.lower import accumulates, reduced_axes
from tilewise.ops.traits.rule import (
    LETTERS,
    Options,
    Rule,
    axis_cuts,
    by_letters,
    cutting_both,
    on_grid,
    settled,
    specific,
)
from tilewise.records import dataclass


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


@dataclass(frozen=True)
class Extreme(Op):
    """The elements that argmin or argmax point at."""

    of: Arg
    name = "extreme"

    def numpy(self, *arrays: Any) -> Any:
        (x,), axis = arrays, self.of.axis
        where = np.asarray(self.of.numpy(x))
        if axis is None:
            return np.asarray(x.reshape(-1)[where])
        kept = where if self.of.keepdims else np.expand_dims(where, axis)
        return np.take_along_axis(x, kept, axis).reshape(where.shape)

    def label(self) -> str:
        return f"value at {self.of.fn}"


def _arg(op: Arg | Extreme) -> Arg:
    return op.of if isinstance(op, Extreme) else op


@dataclass(frozen=True)
class Fold(Op):
    """The reduction along an axis by any row, in the table of reductions or not."""

    by: Reduction
    axis: int
    name = "fold"

    def numpy(self, *arrays: Any) -> Any:
        with np.errstate(all="ignore"):
            return np.array(self.by.lower(self.by.reduced(arrays[0], self.axis)))

    def label(self) -> str:
        return f"{self.by.symbol}[{self.axis}]"


@functools.singledispatch
def contribution(op: Any, node: Node) -> Op:
    """The operator that makes a block's contribution from its part of the operands."""
    raise AssertionError(f"{op} is not made of contributions")


@dataclass(frozen=True)
class Lower(Op):
    """The results that contributions come to, or one of their components."""

    by: Reduction
    field: str | None = None
    name = "result of"

    def numpy(self, *arrays: Any) -> Any:
        return np.array(self.by.lower(arrays[0]) if self.field is None else arrays[0][self.field])

    def label(self) -> str:
        return f"result of {self.by.symbol}"


@dataclass(frozen=True)
class Best(Op):
    """The best of a block, with its position in the whole: a contribution to `of`."""

    of: Arg
    starts: tuple[int, ...]  # of the block, along each axis
    shape: tuple[int, ...]  # of the whole operand
    name = "best of block"

    def numpy(self, *arrays: Any) -> Any:
        (x,), axis = arrays, self.of.axis
        where = np.asarray(self.of.numpy(x))
        row = by_name(self.of.fn)
        if axis is not None:
            kept = where if self.of.keepdims else np.expand_dims(where, axis)
            return row.lift(np.take_along_axis(x, kept, axis).reshape(where.shape), where + self.starts[axis])
        at = np.unravel_index(where, x.shape)
        moved = tuple(k + start for k, start in zip(at, self.starts, strict=True))
        return row.lift(np.asarray(x[at]), np.asarray(np.ravel_multi_index(moved, self.shape)))

    def label(self) -> str:
        return f"{self.of.fn} of blocks"


@contribution.register(Arg)
@contribution.register(Extreme)
def _(op: Arg | Extreme, node: Node) -> Op:
    base = node.inputs[0]
    return Best(_arg(op), (0,) * base.ndim, base.dims)


def lowered(op: Op, by: Reduction) -> Lower:
    """The operator that makes results of contributions to this one."""
    return Lower(by, "value" if isinstance(op, Extreme) else None)


@on_block.register(Best)
def _(op: Best, out: Part, ins: Sequence[Part]) -> Op:
    return replace(op, starts=tuple(low for low, _ in ins[0].box))


@dataclass(frozen=True)
class FoldBlock(Op):
    """What a block contributes to a fold."""

    of: Fold
    start: int  # of the block, along the axis
    name = "fold of block"

    def numpy(self, *arrays: Any) -> Any:
        return self.of.by.reduced(arrays[0], self.of.axis, self.start)

    def label(self) -> str:
        return f"{self.of.by.symbol} of blocks"


@contribution.register(Fold)
def _(op: Fold, node: Node) -> Op:
    return FoldBlock(op, 0)


@on_block.register(FoldBlock)
def _(op: FoldBlock, out: Part, ins: Sequence[Part]) -> Op:
    return replace(op, start=ins[0].box[op.of.axis][0])


def arg(node: Node, fn: str, axis: int | None, keepdims: bool) -> Node:
    """Position of the smallest or largest element."""
    axes = tuple(range(node.ndim)) if axis is None else (axis,)
    return intern(Arg(fn, axis, keepdims), (node,), reduced_shape(node.shape, axes, keepdims), np.dtype(np.intp))


def extreme(node: Node) -> Node:
    """What a node of positions points at."""
    assert isinstance(node.op, Arg)
    base = node.inputs[0]
    return intern(Extreme(node.op), (base,), node.shape, base.dtype)


def fold(node: Node, by: Reduction, axis: int) -> Node:
    """The reduction of an axis by a row."""
    return intern(Fold(by, axis), (node,), reduced_shape(node.shape, (axis,), False), by.result_dtype(node.dtype))


@specific.register(Fold)
def _(op: Fold, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    base = node.inputs[0]
    term = LETTERS[: base.ndim]
    yield from by_letters([term], term.replace(term[op.axis], ""), node, have, mesh)
    if mesh.workers > 1 and op.by.associative and base.shape[op.axis] >= 2:
        yield from _contributed(node, op.axis, op.by, have, mesh)


def _contributed(node: Node, axis: int, by: Reduction, have: Options, mesh: Mesh) -> Iterator[Rule]:
    """The operand is cut along a reduced axis: blocks contribute."""
    for cuts in axis_cuts(have[0], axis, node.inputs[0].shape[axis], mesh):
        yield from (Rule((Shard(axis, cuts),), end, line=True, partial=Partial(by)) for end in settled(node, mesh))


def _contributed_on_grid(
    node: Node, axes: Sequence[int], by: Reduction, have: Sequence[Sequence[Layout]], mesh: Mesh
) -> Iterator[Rule]:
    """Both directions are cut, and blocks contribute along those that cut a reduced axis."""
    (base,) = node.inputs
    left = [a for a in range(base.ndim) if a not in axes]
    at = {a: a if node.ndim == base.ndim else left.index(a) for a in left}
    for pair in combinations(range(base.ndim), 2):
        if not set(pair).isdisjoint(axes):
            for grid in cutting_both(have[0], base.shape, pair, mesh):
                parts = [Partial(by) if p.axis in axes else p.along(at[p.axis]) for p in shards(grid)]
                ends: list[Layout] = settled(node, mesh)
                if parts[0] != parts[1]:
                    whole = [p if isinstance(p, Cutting) else Replicate() for p in parts]
                    ends.append(grid_layout(whole[0], whole[1]))
                yield from (Rule((grid,), end, partial=grid_layout(parts[0], parts[1])) for end in ends)


@on_grid.register(Fold)
def _(op: Fold, node: Node, have: Sequence[Sequence[Layout]], mesh: Mesh) -> Iterator[Rule]:
    if op.by.associative:
        yield from _contributed_on_grid(node, (op.axis,), op.by, have, mesh)


@on_grid.register(Arg)
@on_grid.register(Extreme)
def _(op: Arg | Extreme, node: Node, have: Sequence[Sequence[Layout]], mesh: Mesh) -> Iterator[Rule]:
    if node.inputs[0].size:
        yield from _contributed_on_grid(node, reduced_axes(_arg(op), node), by_name(_arg(op).fn), have, mesh)


@specific.register(Arg)
@specific.register(Extreme)
def _(op: Arg | Extreme, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    base, op = node.inputs[0], _arg(op)
    term = LETTERS[: base.ndim]
    if op.axis is not None:
        out = "".join(c if i != op.axis else c.swapcase() if op.keepdims else "" for i, c in enumerate(term))
        yield from by_letters([term], out, node, have, mesh)
    if mesh.workers == 1 or base.size == 0:
        return
    for axis in range(base.ndim) if op.axis is None else (op.axis,):
        if base.shape[axis] >= 2:
            yield from _contributed(node, axis, by_name(op.fn), have, mesh)


@batch.register(Arg)
def _(op: Arg, first: Node, ins: list[Rolled], count: int, last: bool) -> Node | None:
    axis = 0 if op.axis is None and first.inputs[0].ndim == 1 else op.axis
    return None if axis is None or op.keepdims else arg(ins[0].node, op.fn, axis + (not last), False)


@reduced_axes.register(Arg)
def _(op: Arg, node: Node) -> tuple[int, ...]:
    return tuple(range(node.inputs[0].ndim)) if op.axis is None else (op.axis,)


@accumulates.register(Arg)
def _(op: Arg, node: Node) -> bool:
    (x,) = node.inputs
    return x.dtype.isnative and bool(reduced_axes(op, node)) and supports_arg(op.fn, x.dtype.name)
