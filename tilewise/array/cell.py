"""Cells: the only mutable thing. In: buffers and nodes. Out: what a handle reads, and leave to write at once.

A cell is either *known* (a buffer, no node) or *pending* (a node, no buffer). Handles keep an ndarray that shows the
cell's memory; `gen` counts buffers, so a handle sees that its ndarray is stale. The ndarray of a handle on a pending
cell is a *meta array*: right shape, strides and dtype, no memory behind it; only its metadata is ever used.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from typing import Any

import numpy as np

from tilewise.array.session import unlimited_memory
from tilewise.backend import threads
from tilewise.ir.node import Leaf, Node, known_leaf
from tilewise.ir.order import by_strides, strides_of
from tilewise.store import pool

ND = np.ndarray[Any, Any]

COPY_BYTES = 1 << 20  # below, one core copies as fast
LOCK = threading.RLock()  # guards every change of a cell's state, and evaluation
if hasattr(os, "register_at_fork"):
    # A thread that held it is not in the child.
    os.register_at_fork(after_in_child=LOCK._at_fork_reinit)  # type: ignore[attr-defined]


_expander: Any = None  # array/deferred.py: records a call before others build upon it


def set_expander(expand: Any) -> None:
    """deferred.py says how calls are recorded."""
    global _expander
    _expander = expand


class Outside(list[Any]):
    """What there is of a buffer outside its cell: weak references to exports, copies that workers hold (`homes`)."""

    # No __init__: one is made for every array that is handed out, and few of them have either.
    homes: dict[int, list[Any]] | None = None  # id of a cluster -> the copies there
    holder: weakref.ref[Cell] | None = None  # a cell whose buffer a leaf of others is, too
    sent: int = 0  # bytes of its slices that were sent to workers
    source: Node | None = None  # the leaf of a file that the buffer was read from, as long as nobody writes to it
    writer: weakref.ref[ND] | None = None  # the last view through which an iterator writes, whenever it likes

    def held(self, buffer: ND) -> bool:
        """Whether the holder still has the buffer."""
        cell = None if self.holder is None else self.holder()
        return cell is not None and cell.buf is buffer

    def written(self) -> bool:
        """Whether there is an iterator that may write to the buffer at any time."""
        return self.writer is not None and self.writer() is not None


class Cell:
    """A mutable value: a buffer, or the node that will become one."""

    __slots__ = ("__weakref__", "buf", "exports", "gen", "leaf", "meta_nd", "node", "owner")

    # No __init__, which costs more than all of them: handle.py fills these.
    buf: ND | None
    node: Node | None
    gen: int
    meta_nd: ND | None
    leaf: Any  # weak reference to the leaf node of the current buffer: alive means recorded readers
    exports: Outside | None  # what was handed out of the buffer, or copied to workers
    owner: Any  # the session in which it became pending

    def meta(self) -> ND:
        """An array with the cell's shape, strides and dtype: the buffer, or a meta array."""
        if self.buf is not None:
            return self.buf
        if self.meta_nd is None:
            assert self.node is not None
            self.meta_nd = meta_array(self.node)
        return self.meta_nd

    def read(self) -> Node:
        """The node that stands for the current value."""
        node = self.node
        if node is not None:
            return node if node.inputs or type(node.op) is Leaf else _expander(self, node)
        leaf = self.leaf
        found = None if leaf is None else leaf()
        if found is None:
            with LOCK:
                buf = self.buf
                if buf is None:  # recorded to meanwhile
                    assert self.node is not None
                    return self.node
                if self.exports is None:
                    self.exports = Outside()
                order = None if buf.flags.c_contiguous else by_strides(buf.shape, buf.strides)
                if self.exports.written():
                    return known_leaf(private_copy(buf), order)
                if self.exports.source is not None and not unlimited_memory():
                    return self.exports.source  # in the buffer's place, which counts as memory
                found = known_leaf(buf, order, self.exports)
                self.leaf = weakref.ref(found)
        return found

    def free_to_write(self) -> bool:
        """Whether the buffer may be written at once: nobody else reads it."""
        if self.leaf is None and self.exports is None:
            return True
        if self.leaf is not None and self.leaf() is not None:
            return False
        with LOCK:
            if self.exports:
                for e in self.exports:
                    if e() is not None:
                        return False
            self.leaf = None  # whoever read it is gone
            if self.exports is not None and not self.exports.written():
                self.exports = None
        return True

    def own(self) -> ND:
        """The buffer, made private first if anyone else reads it (copy on write)."""
        with LOCK:
            assert self.buf is not None
            if not self.free_to_write():
                self.become(private_copy(self.buf))
            return self.buf

    def become(self, buf: ND, reader: Node | None = None, exports: Outside | None = None) -> None:
        """Take a new buffer as the value. The node goes last: interrupted before, the cell is pending as it was.

        `reader` is a leaf that has the buffer as its value: while it lives, nobody writes here. It has `exports`, too.
        """
        with LOCK:
            self.take(buf, reader, exports)

    def take(self, buf: ND, reader: Node | None = None, exports: Outside | None = None) -> None:
        """The same for who holds the lock."""
        self.gen += 1
        self.meta_nd = None
        self.leaf = None if reader is None else weakref.ref(reader)
        self.exports = exports
        self.buf = buf
        self.node = None

    def place(self, node: Node) -> None:
        """Take a leaf whose value an engine holds: known, but not here."""
        with LOCK:
            self.node = node
            self.buf = None
            self.leaf = None
            self.exports = None

    def record(self, node: Node) -> None:
        """Take a pending node as the value."""
        with LOCK:
            self.node = node
            self.buf = None
            self.meta_nd = None
            self.leaf = None
            self.exports = None
            self.gen += 1


NOWHERE = 1 << 20
_MEMORY = (ctypes.c_char * 1).from_address(NOWHERE)  # says that it can be written: flags.writeable may be set to True


class _Nowhere:
    """Describes an array without memory. Its address is never read."""

    __slots__ = ("__array_interface__",)

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], strides: tuple[int, ...]) -> None:
        self.__array_interface__ = {
            "shape": shape,
            "typestr": dtype.str,
            "strides": strides,
            "data": _MEMORY,
            "version": 3,
        }


def meta_array(node: Node) -> ND:
    """An array with the node's type, and nothing behind it."""
    strides = strides_of(node.shape, node.dtype.itemsize, node.order)
    made = np.asarray(_Nowhere(node.shape, node.dtype, strides))
    return made if node.dtype.names is None else made.view(node.dtype)  # the interface has no names of fields


def private_copy(nd: ND) -> ND:
    """A writable copy in the same order of axes; large ones by all cores, into memory that has been used before."""
    if nd.nbytes < COPY_BYTES or nd.dtype.hasobject:
        return nd.copy(order="K")
    out = pool.empty(nd.shape, nd.dtype, by_strides(nd.shape, nd.strides))
    threads.parallel_copy(out, nd)
    return out


def root(nd: ND) -> ND:
    """The array that a view was taken of (itself, if it is no view)."""
    base = nd.base
    return base if isinstance(base, np.ndarray) else nd


def address(nd: ND) -> int:
    """Where the first element is."""
    return int(nd.__array_interface__["data"][0])
