"""Views: a strided window onto a base. In: a base node and a window. Out: a node that costs nothing to evaluate.

Slices, transposes, new axes, diagonals, broadcasts, real parts and reinterpreted dtypes are all one thing: an offset,
a shape and strides into the base's memory. `axes_of` finds which base axis each window axis walks along, where it
does; what it cannot explain (reshapes of parts, diagonals) stays a plain window.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from tilewise.ir.node import Node, Op, intern
from tilewise.ir.order import Order, by_strides, strides_of
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
from tilewise.ops.diagonal import diagonal
from tilewise.ops.reshape import reshape
from tilewise.ops.traits.block import Part, on_block
from tilewise.ops.traits.ghosts import MANY, NO_GHOSTS, ghosts_made, ghosts_needed, window_has, window_needs
from tilewise.ops.traits.rule import LETTERS, WHOLE, Options, Rule, axis_cuts, by_letters, specific, still_partial
from tilewise.records import dataclass


@dataclass(frozen=True)
class Window(Op):
    """`base`'s memory seen through (byte offset, shape, byte strides, dtype)."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]
    base_shape: tuple[int, ...]
    base_order: Order
    base_dtype: np.dtype[Any]
    name = "view"

    def numpy(self, *arrays: Any) -> Any:
        return self.on(arrays[0])

    def on(self, base: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The view of an array that has the base's shape and order (its memory if it is laid out so, else a copy)."""
        want = self._base_strides
        if base.strides != want and not same_strides(base, want):
            fresh = np.ndarray(self.base_shape, self.base_dtype, strides=want)
            fresh[...] = base
            base = fresh
        return strided(base, self.offset, self.shape, self.strides, self.dtype)

    @cached_property
    def _base_strides(self) -> tuple[int, ...]:
        return strides_of(self.base_shape, self.base_dtype.itemsize, self.base_order)

    def label(self) -> str:
        axes = axes_of(self)
        if axes is None:
            return f"view{list(self.shape)}"
        parts = []
        for a in axes:
            if a.base is None:
                parts.append("new" if a.length == 1 else f"x{a.length}")
            elif a.step == 1 and a.start == 0 and a.length == self.base_shape[a.base]:
                parts.append(f"{a.base}")
            else:
                step = "" if a.step == 1 else f":{a.step}"
                parts.append(f"{a.base}[{a.start}:{a.start + a.step * a.length}{step}]")
        return f"view({', '.join(parts)})"


def same_strides(a: np.ndarray[Any, Any], want: tuple[int, ...]) -> bool:
    """Whether an array has these strides where they matter."""
    if a.strides == want:
        return True
    return all(s == w or d == 1 for s, w, d in zip(a.strides, want, a.shape, strict=True)) or a.size == 0


def strided(
    base: np.ndarray[Any, Any], offset: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]
) -> np.ndarray[Any, Any]:
    """A window onto a contiguous (in some order) array; bounds are checked by NumPy."""
    if base.size == 0 or 0 in shape:
        return np.empty(shape, dtype)
    view: np.ndarray[Any, Any] = np.ndarray(shape, dtype, memory(base), offset, strides)
    if not base.flags.writeable:
        view.flags.writeable = False
    return view


def memory(base: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A contiguous array in C order over the same memory."""
    if base.flags.c_contiguous:
        return base
    if base.flags.f_contiguous:
        return base.T
    order = by_strides(base.shape, base.strides)
    return base.transpose(order if order is not None else range(base.ndim))


@dataclass(frozen=True)
class Axis:
    """A window axis: base axis (None: new or broadcast), start, step and length along it."""

    base: int | None
    start: int
    step: int
    length: int


def axes_of(w: Window) -> tuple[Axis, ...] | None:
    """Which base axis each window axis walks along, or None if it is not a plain box of the base."""
    found = explain(w)
    return None if found is None else found[0]


@lru_cache(maxsize=4096)
def explain(w: Window) -> tuple[tuple[Axis, ...], tuple[int, ...]] | None:
    """The window's axes, and the index at which each base axis starts (for axes that were dropped: their index)."""
    if w.dtype != w.base_dtype or 0 in w.base_shape or 0 in w.shape:
        return None
    base = strides_of(w.base_shape, w.base_dtype.itemsize, w.base_order)
    order = w.base_order or tuple(range(len(base)))
    rest, starts = w.offset, [0] * len(base)
    for a in order:
        if w.base_shape[a] > 1:
            starts[a], rest = divmod(rest, base[a])
            if starts[a] >= w.base_shape[a]:
                return None
    if rest:
        return None
    used: set[int] = set()
    axes: list[Axis] = []
    for length, stride in zip(w.shape, w.strides, strict=True):
        if length == 1 or stride == 0:
            axes.append(Axis(None, 0, 0, length))
            continue
        for a in reversed(order):
            step, odd = divmod(stride, base[a])
            last = starts[a] + step * (length - 1)
            if not odd and a not in used and w.base_shape[a] > 1 and 0 <= last < w.base_shape[a]:
                used.add(a)
                axes.append(Axis(a, starts[a], step, length))
                break
        else:
            return None
    return tuple(axes), tuple(starts)


@lru_cache(maxsize=4096)
def walks(w: Window) -> tuple[tuple[Axis, ...], tuple[int, ...]] | None:
    """As `explain`, with axes of length one taken for the base axes of their strides: `A[0:1]` has a row of A."""
    found = explain(w)
    if found is None:
        return None
    axes, starts = found
    base = strides_of(w.base_shape, w.base_dtype.itemsize, w.base_order)
    free = [a for a, n in enumerate(w.base_shape) if n > 1 and all(x.base != a for x in axes)]
    kept = list(axes)
    for k, (axis, stride) in enumerate(zip(axes, w.strides, strict=True)):
        a = next((a for a in free if axis.base is None and axis.length == 1 and stride == base[a]), None)
        if a is not None:
            kept[k] = Axis(a, starts[a], 1, 1)
            free.remove(a)
    return tuple(kept), starts


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


def apart(node: Node) -> Node:
    """A view of the parts of complex numbers as a view of an array of these; any other view as it is."""
    w = node.op
    assert isinstance(w, Window)
    half = w.dtype.itemsize
    if w.base_dtype.kind != "c" or w.dtype.kind != "f" or 2 * half != w.base_dtype.itemsize or 0 in w.shape:
        return node
    if w.offset % half or any(s % (2 * half) for n, s in zip(w.shape, w.strides, strict=True) if n > 1):
        return node
    base, imaginary = node.inputs[0], w.offset // half % 2
    parts = intern(ComplexPart(bool(imaginary)), (base,), base.shape, w.dtype, base.order)
    return view(parts, (w.offset - imaginary * half) // 2, w.shape, tuple(s // 2 for s in w.strides), w.dtype)


def unfold(node: Node) -> Node:
    """A view node as a Cut and an Arrange of its base, or of its base reshaped; itself if it is none of these."""
    op = node.op
    assert isinstance(op, Window)
    base = node.inputs[0]
    found = _cut_out(op, base.order)
    if found is None:
        return _tied(op, node) or _refolded(op, node)
    cut, arranged, order = found
    part = intern(cut, (base,), cut.lengths, node.dtype, base.order)
    return part if arranged is None else intern(arranged, (part,), arranged.lengths, node.dtype, order)


@lru_cache(maxsize=4096)
def _cut_out(w: Window, order: Order) -> tuple[Cut, Arrange | None, Order] | None:
    """A view as a cut of a base in some memory order, its axes arranged (None: as they are), and the order then."""
    found = walks(w)
    if found is None:
        return None
    axes, starts = found
    ndim = len(w.base_shape)
    steps, lengths = [1] * ndim, [1] * ndim
    for a in axes:
        if a.base is not None:
            steps[a.base], lengths[a.base] = a.step, a.length
    cut = Cut(starts, tuple(steps), tuple(lengths))
    places, shape = tuple([a.base for a in axes]), tuple([a.length for a in axes])
    if places == tuple(range(ndim)):
        return cut, None, order
    strides = strides_of(cut.lengths, w.dtype.itemsize, order)
    return cut, Arrange(places, shape), by_strides(shape, [0 if a is None else strides[a] for a in places])


def _tied(w: Window, node: Node) -> Node | None:
    """A view that walks along two axes of its base at once, and perhaps along others: a diagonal."""
    base = node.inputs[0]
    strides = strides_of(w.base_shape, w.base_dtype.itemsize, w.base_order)
    for k, a, b in itertools.product(range(len(w.shape)), range(base.ndim), range(base.ndim)):
        if a < b and w.shape[k] > 1 and w.strides[k] == strides[a] + strides[b]:
            rest = [n for n in range(len(w.shape)) if n != k]
            shape, steps = (tuple(x[n] for n in rest) for x in (w.shape, w.strides))
            found = walks(replace(w, shape=shape, strides=steps))
            if found is None or any(x.base in (a, b) for x in found[0]):
                continue
            axes, starts = found
            if max(starts[a] + w.shape[k] - w.base_shape[a], starts[b] + w.shape[k] - w.base_shape[b]) > 0:
                continue
            kept = [n for n in range(base.ndim) if n not in (a, b)]
            walk = {x.base: x for x in axes if x.base is not None}
            lengths = [n if d in (a, b) else walk[d].length if d in walk else 1 for d, n in enumerate(w.base_shape)]
            first = [0 if d in (a, b) else starts[d] for d in range(base.ndim)]
            part = _part(base, first, lengths, [walk[d].step if d in walk else 1 for d in range(base.ndim)])
            line = diagonal(part, (a, b), (starts[a], starts[b]), w.shape[k])
            order: list[int | None] = [None if x.base is None else kept.index(x.base) for x in axes]
            order.insert(k, line.ndim - 1)
            return line if order == list(range(line.ndim)) else arrange(line, Arrange(tuple(order), w.shape))
    return None


def _refolded(w: Window, node: Node) -> Node:
    """A view whose strides nest: the base's memory in one line, folded into rows of these strides, and a part of that.

    `x.reshape(-1, 2)[:, 0]` is every second element of the line.
    """
    if w.dtype != w.base_dtype or 0 in w.base_shape or 0 in w.shape:
        return node
    item, base = w.dtype.itemsize, node.inputs[0]
    total = math.prod(w.base_shape)
    walks = sorted(
        ((abs(s), k) for k, (n, s) in enumerate(zip(w.shape, w.strides, strict=True)) if n > 1 and s), reverse=True
    )
    if not walks or w.offset % item or any(s % item for s, _ in walks):
        return node
    first = sum(s * (n - 1) for n, s in zip(w.shape, w.strides, strict=True) if s < 0)  # the lowest address
    offset, steps = (w.offset + first) // item, [s // item for s, _ in walks]
    if any(a == b or a % b for a, b in itertools.pairwise(steps)):
        return node
    if base.order is not None:
        base = arrange(base, Arrange(base.order, tuple(w.base_shape[a] for a in base.order)))
    low, span = 0, total
    if total % steps[0]:  # the last row is not whole: only the rows that are shown
        low, span = offset // steps[0] * steps[0], w.shape[walks[0][1]] * steps[0]
    if len(steps) == 1:
        rows = _part(_folded(base, (total,)), [offset], [w.shape[walks[0][1]]], [steps[0]])
    else:
        if low + span > total:
            return node
        line = _folded(base, (total,)) if span < total else base
        if span < total:
            line, offset = _part(line, [low], [span], [1]), offset - low
        shape, starts, lengths = [span // steps[0]], [offset // steps[0]], [w.shape[walks[0][1]]]
        for (step, (_, k)), before in zip(list(zip(steps, walks, strict=True))[1:], steps, strict=False):
            shape.append(before // step)
            starts.append(offset % before // step)
            lengths.append(w.shape[k])
        if steps[-1] > 1:
            shape.append(steps[-1])
            starts.append(offset % steps[-1])
            lengths.append(1)
        if any(a + n > d for a, n, d in zip(starts, lengths, shape, strict=True)):
            return node
        rows = _part(_folded(line, tuple(shape)), starts, lengths, [1] * len(shape))
    back = [k for _, k in walks]
    turned = [w.strides[k] < 0 for k in back] + [False] * (rows.ndim - len(back))
    if any(turned):
        starts = [n - 1 if t else 0 for n, t in zip(rows.dims, turned, strict=True)]
        rows = _part(rows, starts, list(rows.dims), [-1 if t else 1 for t in turned])
    order = tuple(back.index(k) if k in back else None for k in range(len(w.shape)))
    return rows if order == tuple(range(rows.ndim)) else arrange(rows, Arrange(order, w.shape))


def _folded(x: Node, shape: tuple[int, ...]) -> Node:
    return x if x.dims == shape else reshape(x, shape, "C")


def _part(x: Node, starts: Sequence[int], lengths: Sequence[int], steps: Sequence[int]) -> Node:
    """x[start::step][:length] along every axis; x itself if that is all of it."""
    if tuple(lengths) == x.dims and min(steps) > 0:
        return x
    op = Cut(tuple(starts), tuple(steps), tuple(lengths))
    return intern(op, (x,), op.lengths, x.dtype, x.order)


def window(
    dims: tuple[int, ...], order: Order, dtype: np.dtype[Any], axes: Sequence[Axis], starts: Sequence[int]
) -> Window:
    """The window of a contiguous array that walks along `axes`."""
    strides = strides_of(dims, dtype.itemsize, order)
    offset = sum(s * t for s, t in zip(starts, strides, strict=True))
    shape = tuple(a.length for a in axes)
    steps = tuple(0 if a.base is None else a.step * strides[a.base] for a in axes)
    return Window(offset if 0 not in shape else 0, shape, steps, dtype, dims, order, dtype)


def all_of(x: Node) -> Node:
    """A cut of everything: on a mesh, the same value with fewer ghosts."""
    cut = intern(Cut((0,) * x.ndim, (1,) * x.ndim, x.dims), (x,), x.shape, x.dtype, x.order)
    cut.site = cut.site or x.site
    return cut


def view(base: Node, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]) -> Node:
    """The node of a window; the base itself if the window is all of it."""
    if (
        offset == 0
        and shape == base.shape
        and dtype == base.dtype
        and all(
            s == w or d == 1
            for s, w, d in zip(strides, strides_of(shape, dtype.itemsize, base.order), shape, strict=True)
        )
    ):
        return base
    op = Window(offset, shape, strides, dtype, base.shape, base.order, base.dtype)
    return intern(op, (base,), shape, dtype, by_strides(shape, strides))


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
