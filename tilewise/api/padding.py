"""np.pad, recorded. In: an Array, widths, a mode. Out: a new array whose parts are written one by one.

Borders that repeat elements are boxes: along every axis the left border, the array and the right border, each a slice
of the array (or several, where a border is wider than the array).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from math import prod
from typing import Any

import numpy as np

from tilewise.api.dispatch import implements, public
from tilewise.array import record as rec
from tilewise.array.handle import Array, from_node, meta, node_of, window_of
from tilewise.ir.node import Node, intern
from tilewise.ir.order import Order, fortran, same_order
from tilewise.ops.const import const
from tilewise.ops.create import empty
from tilewise.ops.index import Update
from tilewise.ops.join import copy as copy_node

MOST_BOXES = 27  # of three axes; more are gathered axis by axis
Slices = tuple[slice, slice]  # of the result, of the array


@implements(np.pad)
def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Any:
    """Borders: constant ones, and those that repeat elements of the array (other modes are NumPy's)."""
    if type(array) is not Array or isinstance(pad_width, dict) or (kwargs and mode != "constant") or array.ndim == 0:
        return NotImplemented
    widths = np.broadcast_to(np.asarray(rec.unwrap(pad_width)), (array.ndim, 2))
    if widths.dtype.kind not in "iu" or (widths < 0).any() or set(kwargs) - {"constant_values"}:
        return NotImplemented  # NumPy's complaint
    if mode not in ("constant", "edge", "reflect", "symmetric", "wrap"):
        return NotImplemented
    sides = widths.tolist()
    if not widths.any():
        return array.copy(order="A")
    order = fortran(array.ndim) if meta(array).flags.fnc else None
    shape = tuple(b + n + a for n, (b, a) in zip(array.shape, sides, strict=True))
    if mode == "constant":
        given = np.asarray(rec.unwrap(kwargs.get("constant_values", 0)))
        if not np.can_cast(given.dtype, array.dtype, "same_kind") and given.dtype.kind not in "biu":
            return NotImplemented  # NumPy says whether the numbers fit
        fills = np.broadcast_to(given, widths.shape).astype(array.dtype)
        if (
            given.dtype.kind in "biu"
            and array.dtype.kind in "biu"
            and not np.array_equal(given, given.astype(array.dtype))
        ):
            return NotImplemented
        puts = [(_inner(array.shape, sides), array), *_bands(array.shape, sides, fills)]
        return rec.record(_written(empty(shape, array.dtype, order), puts))
    pieces = [_pieces(n, pair, mode) for n, pair in zip(array.shape, sides, strict=True)]
    if prod(map(len, pieces)) > MOST_BOXES:
        return _gathered(array, sides, mode, order)
    boxes = [tuple(zip(*box, strict=True)) for box in itertools.product(*pieces)]
    # The array itself first: where its blocks are, those of the result are made.
    boxes.sort(key=lambda box: box[1] != (slice(None),) * array.ndim)
    puts = [(to, array[source]) for to, source in boxes]
    return rec.record(_written(empty(shape, array.dtype, order), puts))


def _inner(shape: tuple[int, ...], sides: list[list[int]]) -> tuple[slice, ...]:
    return tuple(slice(b, b + n) for n, (b, _) in zip(shape, sides, strict=True))


def _bands(shape: tuple[int, ...], sides: list[list[int]], fills: Any) -> Iterable[tuple[tuple[slice, ...], Any]]:
    """The constant borders; what lies in two of them belongs to the later axis."""
    inner = _inner(shape, sides)
    for axis, (n, (before, after)) in enumerate(zip(shape, sides, strict=True)):
        ends = (slice(0, before), slice(before + n, before + n + after))
        for width, where, fill in zip((before, after), ends, fills[axis], strict=True):
            if width:
                yield (*(slice(None),) * axis, where, *inner[axis + 1 :]), fill


def _pieces(n: int, sides: list[int], mode: Any) -> list[Slices]:
    """An axis of the result as slices of the array."""
    before, _ = sides
    at = np.pad(np.arange(n), sides, mode)
    ends = _runs(at[:before], 0), _runs(at[before + n :], before + n)
    return [*ends[0], (slice(before, before + n), slice(None)), *ends[1]]


def _runs(at: np.ndarray[Any, Any], start: int) -> list[Slices]:
    """Positions as slices with steps of -1, 0 or 1; `start` is where the first goes."""
    found: list[Slices] = []
    low = 0
    while low < len(at):
        step = int(at[low + 1] - at[low]) if low + 1 < len(at) else 1
        step = step if step in (-1, 0, 1) else 1
        high = low + 1
        while high < len(at) and at[high] - at[high - 1] == step:
            high += 1
        first, last = int(at[low]), int(at[high - 1])
        stop = last + (step or 1)
        source = slice(first, None if stop < 0 else stop, step or 1)
        found.append((slice(start + low, start + high), source))
        low = high
    return found


def _written(base: Node, puts: Iterable[tuple[tuple[slice, ...], Any]]) -> Node:
    """The base with values written at slices, one after another."""
    whole = from_node(base)
    for key, value in puts:
        window = window_of(whole[key])
        given = node_of(value) if type(value) is Array else const(value)
        assert window is not None
        if 0 not in window.shape:
            base = intern(Update(window), (base, given), base.shape, base.dtype, base.order)
    return base


def _gathered(x: Array, sides: list[list[int]], mode: Any, order: Order) -> Array:
    """Axis by axis, by index arrays."""
    for axis, pair in enumerate(sides):
        if any(pair):
            x = public(np.take)(x, np.pad(np.arange(x.shape[axis]), pair, mode), axis)
    node = node_of(x)
    return x if same_order(node.shape, node.order, order) else rec.record(copy_node(node, order))
