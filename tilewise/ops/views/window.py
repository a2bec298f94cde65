"""A strided window onto a base. In: a base node and a window. Out: a node that costs nothing to evaluate.

`axes_of` finds which base axis each window axis walks along, where it does; what it cannot explain (reshapes of parts,
diagonals) stays a plain window.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from tilewise.ir.node import Node, Op, intern
from tilewise.ir.order import Order, by_strides, strides_of
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

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(
            (self.offset, self.shape, self.strides, self.dtype, self.base_shape, self.base_order, self.base_dtype)
        )

    def __getstate__(self) -> dict[str, Any]:  # another process has other hashes
        return {name: value for name, value in self.__dict__.items() if name != "_hash"}

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


shared_window = lru_cache(maxsize=4096, typed=True)(Window)  # the same object for the same window: loops compare few


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
        return np.ndarray(shape, dtype, np.empty(0, dtype), 0, strides)
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


def window(
    dims: tuple[int, ...], order: Order, dtype: np.dtype[Any], axes: Sequence[Axis], starts: Sequence[int]
) -> Window:
    """The window of a contiguous array that walks along `axes`."""
    strides = strides_of(dims, dtype.itemsize, order)
    offset = sum(s * t for s, t in zip(starts, strides, strict=True))
    shape = tuple(a.length for a in axes)
    steps = tuple(0 if a.base is None else a.step * strides[a.base] for a in axes)
    return Window(offset if 0 not in shape else 0, shape, steps, dtype, dims, order, dtype)


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
    op = shared_window(offset, shape, strides, dtype, base.shape, base.order, base.dtype)
    return intern(op, (base,), shape, dtype, by_strides(shape, strides))
