"""Parts of arrays, as operands of tiles. In: arrays, windows. Out: views, and where they begin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tilewise.ir.order import Order
from tilewise.ops.views import Arrange, Cut, Window, explain
from tilewise.tuning import tuned

ND = np.ndarray[Any, Any]

LINE, PAGE = 64, 4096  # bytes of a cache line; addresses so far apart share a place in the L1 cache


def address_of(array: ND) -> int:
    """Where the first element of an array is."""
    return int(array.__array_interface__["data"][0])


def slices(array: ND, axis: int, low: int, stop: int) -> ND:
    """A part of an array along an axis."""
    return array[(slice(None),) * axis + (slice(low, stop),)]


def padded(dims: tuple[int, ...], itemsize: int, order: Order) -> tuple[int, ...]:
    """Dims of scratch whose long rows all begin where a cache line does, and do not all fall on the same ones."""
    inner = order[-1] if order else len(dims) - 1
    if len(dims) < 2 or dims[inner] * itemsize < tuned().padded_row_bytes:
        return dims
    row = -(-dims[inner] * itemsize // LINE) * LINE
    row += LINE if row % PAGE == 0 else 0
    return (*dims[:inner], row // itemsize, *dims[inner + 1 :])


def taken(ref: Any, axis: int, low: int, stop: int) -> Any:
    """Some slices of an operand."""
    return ref.on(slices(ref.array, axis, low, stop), low * ref.array.strides[axis])


def boxed(ref: Any, key: Sequence[slice]) -> Any:
    """A box of an operand."""
    start = sum(k.indices(n)[0] * s for k, n, s in zip(key, ref.array.shape, ref.array.strides, strict=True))
    return ref.on(ref.array[tuple(key)], start)


def around(inner: Sequence[slice], shape: Sequence[int]) -> Iterator[tuple[slice, ...]]:
    """The parts of an array that a box leaves out."""
    before: list[slice] = []
    for axis, part in enumerate(inner):
        for some in (slice(0, part.start), slice(part.stop, shape[axis])):
            if some.start < some.stop:
                yield (*before, some, *(slice(None),) * (len(shape) - axis - 1))
        before.append(part)


def box(x: ND, op: Window | Cut, axis: int | None) -> ND:
    """What a window or a cut shows of an array (that has some slices only along one axis: all of them)."""
    if isinstance(op, Cut):
        part: ND = x[tuple(slice(None) if a == axis else k for a, k in enumerate(op.key()))]
        return part
    found = explain(op)
    assert found is not None
    axes, starts = found
    steps, lengths = [1] * len(starts), [1] * len(starts)
    for a in axes:
        if a.base is not None:
            steps[a.base], lengths[a.base] = a.step, a.length
    key = list(Cut(starts, tuple(steps), tuple(lengths)).key())
    if axis is not None:
        key[axis] = slice(None)
    arrange = Arrange(tuple(a.base for a in axes), tuple(a.length for a in axes))
    view: ND = arrange.numpy(x[tuple(key)])
    return view


def dropped(x: ND, reduced: tuple[bool, ...]) -> ND:
    """Without the axes that a reduction keeps with length one."""
    return x[(*(0 if r else slice(None) for r in reduced), Ellipsis)]
