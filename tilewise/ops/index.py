"""Indexing with arrays, and writing. In: a base, index arrays, values. Out: the selection, or the base after the write.

Writing is functional here: an Update is a new value of the whole base. Plans write in place where nobody can tell.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewise.ir.node import Length, Node, Op, intern
from tilewise.ir.scalar import UFUNCS
from tilewise.ops.views import Window

# A key is a tuple of: None, Ellipsis, int, slice as ("s", start, stop, step), or ("a", k): index array number k.
Key = tuple[Any, ...]


def rebuild(key: Key, arrays: tuple[Any, ...]) -> tuple[Any, ...]:
    """The index NumPy understands."""
    out: list[Any] = []
    for part in key:
        if isinstance(part, tuple):
            out.append(slice(*part[1:]) if part[0] == "s" else np.asarray(arrays[part[1]]))
        else:
            out.append(part)
    return tuple(out)


def one_array(key: Key) -> int | None:
    """The axis that a key with one index array, and nothing else, indexes; None for other keys."""
    arrays = [k for k, p in enumerate(key) if isinstance(p, tuple) and p[0] == "a"]
    plain = all(p == ("s", None, None, None) for k, p in enumerate(key) if k not in arrays)
    return arrays[0] if len(arrays) == 1 and plain else None


def picked(base: Any, index: Any) -> Any:
    """base[index] for a mask or one index array. NumPy compresses and takes rows much quicker than it indexes them."""
    if base.ndim > 1 and index.ndim == 1 and base.size and base.flags.c_contiguous:
        kind = index.dtype.kind
        if kind == "i":
            return base.take(index, 0)
        if kind == "b" and index.size == base.shape[0]:
            return base.compress(index, 0)
    return base[index]


@dataclass(frozen=True)
class Gather(Op):
    """base[key] with index arrays. `take`: whole axes, then one index array, and the result in C order (np.take)."""

    key: Key
    take: bool = False
    name = "gather"

    def numpy(self, *arrays: Any) -> Any:
        if self.take:
            return np.take(arrays[0], arrays[1], len(self.key) - 1)
        if len(self.key) == 1 and self.key[0] == ("a", 0):
            return picked(arrays[0], np.asarray(arrays[1]))
        return arrays[0][rebuild(self.key, arrays[1:])]


@dataclass(frozen=True)
class Compress(Op):
    """base[mask]: the elements (or rows) where the mask over the leading axes holds."""

    name = "compress"

    def numpy(self, *arrays: Any) -> Any:
        return picked(arrays[0], np.asarray(arrays[1]))


class Write(Op):
    """A new value of the whole base in which a part is replaced. `into` writes into a buffer that holds the base."""

    __slots__ = ()

    def into(self, buffer: np.ndarray[Any, Any], *arrays: Any) -> None:
        raise NotImplementedError

    def numpy(self, *arrays: Any) -> Any:
        out = arrays[0].copy(order="K")
        self.into(out, *arrays[1:])
        return out


@dataclass(frozen=True)
class Update(Write):
    """base with a window of it replaced by a value (broadcast to the window's shape)."""

    window: Window
    name = "update"

    def into(self, buffer: np.ndarray[Any, Any], *arrays: Any) -> None:
        self.window.on(buffer)[...] = arrays[0]


@dataclass(frozen=True)
class Unchanged(Write):
    """An update that does not touch this block."""

    name = "update"

    def into(self, buffer: np.ndarray[Any, Any], *arrays: Any) -> None:
        return None


@dataclass(frozen=True)
class Put(Write):
    """view[key] = value, where view is a window of the base (None: all of it) and key holds index arrays."""

    key: Key
    window: Window | None
    name = "put"

    def into(self, buffer: np.ndarray[Any, Any], *arrays: Any) -> None:
        target = buffer if self.window is None else self.window.on(buffer)
        target[rebuild(self.key, arrays[1:])] = arrays[0]


@dataclass(frozen=True)
class At(Write):
    """ufunc.at(view, key, value)."""

    fn: str
    key: Key
    window: Window | None
    name = "at"

    def into(self, buffer: np.ndarray[Any, Any], *arrays: Any) -> None:
        target = buffer if self.window is None else self.window.on(buffer)
        ufunc = UFUNCS[self.fn]
        if ufunc.nin == 1:
            ufunc.at(target, rebuild(self.key, arrays))
        else:
            ufunc.at(target, rebuild(self.key, arrays[1:]), arrays[0])

    def label(self) -> str:
        return f"{self.fn}.at"


def compress(base: Node, mask: Node) -> Node:
    """base[mask]. The new axis has the mask's length, unknown until someone asks."""
    op = Compress()
    # The node's type names a Length; interning makes the same (base, mask) the same node and so the same Length.
    length = _length_of(mask)
    order = None  # as in NumPy: what is selected comes first, the other axes as they lie in the base
    if base.order is not None:
        order = (0, *(a - mask.ndim + 1 for a in base.order if a >= mask.ndim))
        order = None if order == tuple(range(len(order))) else order
    return intern(op, (base, mask), (length, *base.shape[mask.ndim :]), base.dtype, order)


_lengths: weakref.WeakKeyDictionary[Node, weakref.ref[Length]] = weakref.WeakKeyDictionary()


def _length_of(mask: Node) -> Length:
    """The one Length named by a mask, as long as anything has it."""
    ref = _lengths.get(mask)
    length = None if ref is None else ref()
    if length is None:
        length = Length(mask)
        _lengths[mask] = weakref.ref(length)
    return length
