"""Means and squared deviations along cut axes. In: a node and axes. Out: contributions, components of them.

On a mesh, a variance is three steps: every block's count, mean and squared deviations from it (the row `moments` of
ir/reductions.py), one exchange that combines these, and the components that a program asked for. The steps of a block
are plain nodes (solver/model/expand.py), so that a block is read once where a whole array would be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from tilewise.ir.node import Node, Op, intern
from tilewise.ir.reductions import by_name, two_sum
from tilewise.layout import Cutting, Layout, Mesh, Shard, grid_layout, lengths_of, placements, shards
from tilewise.ops.reduce import reduced_shape
from tilewise.ops.traits.block import Part, on_block
from tilewise.ops.traits.rule import LETTERS, Options, Rule, by_letters, specific
from tilewise.records import dataclass

ND = np.ndarray[Any, Any]

BY = by_name("moments")
NOISE = 64  # units of the last place of two sums of squares whose difference is nothing but rounding


@dataclass(frozen=True)
class Moments(Op):
    """Count, mean and squared deviations over axes."""

    axes: tuple[int, ...]
    keepdims: bool
    name = "moments"

    def numpy(self, *arrays: Any) -> Any:
        (x,) = arrays
        count = np.full((1,) * x.ndim, prod(x.shape[a] for a in self.axes), x.dtype)
        with np.errstate(all="ignore"):
            mean = x.sum(self.axes, keepdims=True) / count
            off = x - mean
            rest, squares = off.sum(self.axes, keepdims=True), np.square(off).sum(self.axes, keepdims=True)
        return Pack(self).numpy(count, mean, rest, squares)

    def label(self) -> str:
        return f"moments{list(self.axes)}"


@dataclass(frozen=True)
class Terms(Op):
    """How many elements of its operand each block reduces: one number per block, cut like the operand.

    `lengths` are those of the blocks along each axis that is reduced, and cut; `others` is the number along the rest.
    """

    lengths: tuple[tuple[int, ...], ...]
    others: int
    dtype: np.dtype[Any]
    value: np.generic | None = None  # of one block
    name = "terms"

    @property
    def signature(self) -> Any:
        return (Terms, self.dtype)  # the number is no part of a plan

    def numpy(self, *arrays: Any) -> Any:
        return np.full((1,) * len(self.lengths), self.value)

    def label(self) -> str:
        return "number of terms"


@on_block.register(Terms)
def _(op: Terms, out: Part, ins: Sequence[Part]) -> Op:
    here = [lengths[low] if lengths else 1 for lengths, (low, _) in zip(op.lengths, out.box, strict=True)]
    return replace(op, value=op.dtype.type(op.others * prod(here)))


@dataclass(frozen=True)
class Pack(Op):
    """The contribution of a block, from its count, mean, and the sums of deviations and squared deviations from it.

    The deviations would add up to zero if the mean were not rounded: what they add up to says by how much it is off.
    """

    of: Moments
    name = "contribution"

    def numpy(self, *arrays: Any) -> Any:
        number, *parts = arrays
        dtype = parts[0].dtype
        mean, rest, squares = (x.astype(np.float64, copy=False) for x in parts)
        out = np.zeros(mean.shape, BY.kind(dtype))
        if out.size and number.flat[0]:
            with np.errstate(all="ignore"):
                off = rest / number
                high, low = two_sum(mean, off)
                if not (sure := np.isfinite(high)).all():
                    high, low = np.where(sure, high, mean), np.where(sure, low, 0)
                out["count"], out["mean"], out["low"] = number, high, low
                out["squares"] = about_mean(squares, rest * off, dtype)
        return out if self.of.keepdims else out.squeeze(self.of.axes)

    def label(self) -> str:
        return "moments of blocks"


def about_mean(squares: ND, corrections: ND, dtype: np.dtype[Any]) -> ND:
    """Squares about a mean, from those about a number close to it; zero where only rounding is left."""
    left = np.asarray(squares - corrections)
    if (noise := left <= NOISE * np.finfo(dtype).eps * squares).any():
        left[noise] = 0
    if (over := np.isinf(squares)).any():
        left[over] = np.inf  # what overflows stays so, whatever is taken away
    return left


@dataclass(frozen=True)
class Component(Op):
    """The mean, or the squared deviations from it, of combined contributions, as two passes would round and overflow.

    The axes that `of` reduces are kept or not as that is asked for here.
    """

    of: Moments
    field: str
    keepdims: bool
    dtype: np.dtype[Any]
    name = "component"

    def numpy(self, *arrays: Any) -> Any:
        (x,) = arrays
        with np.errstate(all="ignore"):
            total = (x["mean"] * x["count"]).astype(self.dtype, copy=False)
            found = x[self.field]
            if (large := np.isinf(total)).any():
                over = np.isfinite(x["mean"]) & large
                found = np.where(over, total if self.field == "mean" else np.inf, found)
            found = found.astype(self.dtype)
        if self.of.keepdims and not self.keepdims:
            return found.squeeze(self.of.axes)
        return np.expand_dims(found, self.of.axes) if self.keepdims and not self.of.keepdims else found

    def label(self) -> str:
        return f"{self.field} of moments"


def moments(x: Node, axes: tuple[int, ...], keepdims: bool) -> Node:
    """The contributions of a value, reduced over axes."""
    return intern(Moments(axes, keepdims), (x,), reduced_shape(x.shape, axes, keepdims), BY.kind(x.dtype))


def component(made: Node, field: str, like: Node, keepdims: bool) -> Node:
    """A component of contributions, in place of a node that has this shape."""
    assert isinstance(made.op, Moments)
    return intern(Component(made.op, field, keepdims, like.dtype), (made,), like.shape, like.dtype, like.order)


# -- on a mesh -----------------------------------------------------------------------------------------------------


@specific.register(Moments)
def _(op: Moments, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    term, out = _letters(node.inputs[0].ndim, op.axes, op.keepdims)
    yield from by_letters([term], out, node, have, mesh, BY.name)


@specific.register(Component)
def _(op: Component, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    rank = node.ndim if op.keepdims else node.ndim + len(op.of.axes)
    _, made = _letters(rank, op.of.axes, op.of.keepdims)
    _, out = _letters(rank, op.of.axes, op.keepdims)
    yield from by_letters([made], out, node, have, mesh)


def _letters(rank: int, axes: tuple[int, ...], keepdims: bool) -> tuple[str, str]:
    """Letters of a value of so many axes, and of what is left of it."""
    term = LETTERS[:rank]
    return term, "".join(c if i not in axes else c.swapcase() if keepdims else "" for i, c in enumerate(term))


def one_per_block(layout: Layout, axes: tuple[int, ...]) -> Layout:
    """The layout of what blocks have one of each, where a value is cut along these axes."""
    parts = [
        Shard(p.axis, tuple(range(len(lengths_of(p)) + 1))) if isinstance(p, Cutting) and p.axis in axes else p
        for p in placements(layout)
    ]
    return parts[0] if len(parts) == 1 else grid_layout(*parts)


def terms(x: Node, layout: Layout, axes: tuple[int, ...]) -> Node:
    """The number of elements that each block of a value reduces."""
    cut = {s.axis: lengths_of(s) for s in shards(layout) if s.axis in axes}
    lengths = tuple(cut.get(a, ()) for a in range(x.ndim))
    others = prod(x.dims[a] for a in axes if a not in cut)
    return intern(Terms(lengths, others, x.dtype), (), tuple(len(n) or 1 for n in lengths), x.dtype)
