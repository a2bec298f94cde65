"""Parts of a value and its axes in a new order: what of a view a mesh has to think about. In: a node. Out: a node.

Below the operators: the layouts in which a mesh can compute them, and the ghosts that they need.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tilewise.ir.node import Node, Op, intern
from tilewise.ir.order import by_strides, strides_of
from tilewise.layout import (
    Cutting,
    Ghosts,
    Layout,
    Mesh,
    Piecewise,
    Shard,
    Union,
    divided,
    even_cuts,
    flipped_cuts,
    slice_cuts,
)
from tilewise.ops.traits.block import Part, on_block
from tilewise.ops.traits.ghosts import MANY, NO_GHOSTS, ghosts_made, ghosts_needed, window_has, window_needs
from tilewise.ops.traits.rule import LETTERS, WHOLE, Options, Rule, axis_cuts, by_letters, specific, still_partial
from tilewise.records import dataclass


@dataclass(frozen=True)
class Cut(Op):
    """x[start::step][:length] along every axis: what of a view a mesh has to think about."""

    starts: tuple[int, ...]
    steps: tuple[int, ...]
    lengths: tuple[int, ...]
    name = "cut"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of what it shows."""
        return self.lengths

    def numpy(self, *arrays: Any) -> Any:
        return arrays[0][self.key()]

    def label(self) -> str:
        parts = []
        for start, step, length in zip(self.starts, self.steps, self.lengths, strict=True):
            parts.append(f"{start}:{start + step * length}" + ("" if step == 1 else f":{step}"))
        return f"cut [{', '.join(parts)}]"

    def key(self) -> tuple[slice, ...]:
        """The index."""
        out = []
        for start, step, length in zip(self.starts, self.steps, self.lengths, strict=True):
            stop = start + step * length
            out.append(slice(start, stop if stop >= 0 else None, step) if length else slice(0, 0))
        return tuple(out)


@on_block.register(Cut)
def _(op: Cut, out: Part, ins: Sequence[Part]) -> Op:
    starts: list[int] = []
    for start, step, shown, base in zip(op.starts, op.steps, out.held, ins[0].held, strict=True):
        if isinstance(shown, Union) or isinstance(base, Union):  # the rules take all of such an axis
            starts.append(0)
        else:
            starts.append(start + shown[0] * step - base[0] if shown[0] < shown[1] else 0)
    return Cut(tuple(starts), op.steps, out.dims)


@dataclass(frozen=True)
class Arrange(Op):
    """Axes in a new order; axes of length one dropped, new ones (None) added or repeated to a length."""

    axes: tuple[int | None, ...]
    lengths: tuple[int, ...]  # of new axes, where `axes` is None; the others have that of their axis
    name = "arrange"

    def label(self) -> str:
        return f"arrange ({', '.join('new' if a is None else str(a) for a in self.axes)})"

    def numpy(self, *arrays: Any) -> Any:
        x = arrays[0]
        kept = [a for a in self.axes if a is not None]
        dropped = [a for a in range(x.ndim) if a not in kept]
        x = x.transpose([*dropped, *kept])[(0,) * len(dropped)] if dropped else x.transpose(kept)
        x = x[tuple(None if a is None else slice(None) for a in self.axes)]
        shape = tuple(n if a is None else d for a, n, d in zip(self.axes, self.lengths, x.shape, strict=True))
        return x if shape == x.shape else np.broadcast_to(x, shape)


@on_block.register(Arrange)
def _(op: Arrange, out: Part, ins: Sequence[Part]) -> Op:
    return replace(op, lengths=out.dims)


def arrange(x: Node, op: Arrange) -> Node:
    """The node of a value with its axes arranged; its memory order is the one that its strides have."""
    strides = strides_of(x.dims, x.dtype.itemsize, x.order)
    shape = tuple(n if a is None else x.dims[a] for a, n in zip(op.axes, op.lengths, strict=True))
    order = by_strides(shape, [0 if a is None else strides[a] for a in op.axes])
    return intern(op, (x,), shape, x.dtype, order)


@dataclass(frozen=True)
class ComplexPart(Op):
    """The real (or imaginary) parts of complex numbers, as values of their own."""

    imaginary: bool
    name = "complex part"

    def numpy(self, *arrays: Any) -> Any:
        return (arrays[0].imag if self.imaginary else arrays[0].real).copy(order="K")


def all_of(x: Node) -> Node:
    """A cut of everything: on a mesh, the same value with fewer ghosts."""
    cut = intern(Cut((0,) * x.ndim, (1,) * x.ndim, x.dims), (x,), x.shape, x.dtype, x.order)
    cut.site = cut.site or x.site
    return cut


# -- on a mesh -----------------------------------------------------------------------------------------------------


@specific.register(ComplexPart)
def _(op: ComplexPart, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    yield from by_letters([LETTERS[: node.ndim]], LETTERS[: node.ndim], node, have, mesh, pieces=True)


@specific.register(Cut)
def _(op: Cut, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    yield from still_partial(have[0])
    base = node.inputs[0]
    for axis, (start, step, length) in enumerate(zip(op.starts, op.steps, node.shape, strict=True)):
        n = base.shape[axis]
        if n < 2:
            continue
        if (start, step, length) == (0, 1, n):
            yield from (Rule((p,), p) for p in have[0] if isinstance(p, Piecewise) and p.axis == axis)
        if step < 0:
            if length > 1:
                yield from _flipped(axis, op, have, n, mesh)
            continue
        for cuts in axis_cuts(have[0], axis, n, mesh):
            near = _centred(cuts, start, length, n) if step == 1 and length < n else None
            if near is not None:
                target, ghosts = near
                yield Rule((Shard(axis, cuts, ghosts),), Shard(axis, target))
            if near is None or cuts != even_cuts(n, mesh.total_blocks):  # a part of uneven blocks may be even
                yield Rule((Shard(axis, cuts),), Shard(axis, slice_cuts(cuts, start, step, length)))


def _flipped(axis: int, op: Cut, have: Options, n: int, mesh: Mesh) -> Iterator[Rule]:
    """Blocks show their own elements backwards; the result has them in another order."""
    found: list[Cutting] = [Shard(axis, cuts) for cuts in axis_cuts(have[0], axis, n, mesh)]
    found += [p for p in have[0] if isinstance(p, Piecewise) and p.axis == axis]
    for cut in found:
        owned = [cut.owned(b) for b in range(mesh.total_blocks)]
        plain = [s for s in owned if not isinstance(s, Union)]
        if len(plain) == len(owned):
            sets = flipped_cuts(plain, op.starts[axis], op.steps[axis], op.lengths[axis])
            yield Rule((cut,), divided(axis, sets))


def _centred(cuts: tuple[int, ...], start: int, length: int, n: int) -> tuple[tuple[int, ...], tuple[int, int]] | None:
    """Cuts that all windows of this length share, and the ghosts this one then needs; None if those are not few.

    Shifted windows of a stencil (`A[:-2]`, `A[1:-1]`, `A[2:]`) so get the same cuts and pay one halo.
    """
    target = slice_cuts(cuts, (n - length) // 2, 1, length)
    low = high = 0
    smallest = least = n
    for j in range(len(cuts) - 1):
        shown = target[j + 1] - target[j]
        if not shown:
            continue
        low = max(low, cuts[j] - (target[j] + start))
        high = max(high, target[j + 1] + start - cuts[j + 1])
        smallest, least = min(smallest, cuts[j + 1] - cuts[j]), min(least, shown)
    if max(low, high) * 4 > smallest or max(low, high) > least:  # to cut anew what is shown would move less
        return None
    return target, (low, high)


@specific.register(Arrange)
def _(op: Arrange, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    term = LETTERS[: node.inputs[0].ndim]
    out = "".join(term[a] if a is not None else LETTERS[-1 - k] for k, a in enumerate(op.axes))
    yield from by_letters([term], out, node, have, mesh, pieces=True)
    for k, (a, size) in enumerate(zip(op.axes, node.shape, strict=True)):
        if a is None and size >= 2:
            yield Rule((WHOLE,), Shard(k, even_cuts(size, mesh.total_blocks)))
    yield from still_partial(have[0])


@ghosts_needed.register(Cut)
def _(op: Cut, node: Node, out: Shard, ins: Sequence[Layout]) -> list[Ghosts] | None:
    (base,) = ins
    if not isinstance(base, Shard) or base.axis != out.axis or op.steps[out.axis] != 1:
        return None
    return [window_needs(base.cuts, out.cuts, op.starts[out.axis], out.ghosts)]


@ghosts_made.register(Cut)
def _(op: Cut, node: Node, out: Shard, ins: Sequence[Layout]) -> tuple[Ghosts, list[Ghosts]]:
    (base,) = ins
    assert isinstance(base, Shard)
    return window_has(base, out.cuts, op.starts[out.axis]), [base.ghosts]


@ghosts_needed.register(Arrange)
def _(op: Arrange, node: Node, out: Shard, ins: Sequence[Layout]) -> list[Ghosts] | None:
    return [NO_GHOSTS if op.axes[out.axis] is None else out.ghosts]


@ghosts_made.register(Arrange)
def _(op: Arrange, node: Node, out: Shard, ins: Sequence[Layout]) -> tuple[Ghosts, list[Ghosts]]:
    (base,) = ins
    if op.axes[out.axis] is None:
        return (MANY, MANY), [NO_GHOSTS]
    assert isinstance(base, Shard)
    return base.ghosts, [base.ghosts]
