"""The handle: `Array`, a cell and a window onto it. This file holds what every handle can do without computing.

Arithmetic is in arithmetic.py, indexing in indexing.py; the NumPy methods are attached by api/.
"""

from __future__ import annotations

import math
from abc import ABCMeta
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np

from tilewise.array.cell import LOCK, ND, NOWHERE, Cell, Outside, address, root
from tilewise.array.number import GIVEN, set_array
from tilewise.ir.node import Node, known_leaf
from tilewise.ops.elementwise import part
from tilewise.ops.views import Window, shared_window, strided, view
from tilewise.store.base import Source


class Derived(np.ndarray):
    """What classes derived from `Array` are derived from: NumPy's class, for which `Array` means NumPy's."""

    def view(self, dtype: Any = None, type: Any = None) -> Any:
        """As NumPy's."""
        given = [np.ndarray if x is Array else x for x in (dtype, type)]
        if given[1] is None:
            return super().view() if given[0] is None else super().view(given[0])
        return super().view(type=given[1]) if given[0] is None else super().view(given[0], given[1])


class ArrayClass(ABCMeta):
    """The class of `Array`. What a program derives from it is NumPy's class, computed at once, and an array as well."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any], **options: Any) -> Any:
        """A class; of NumPy's ndarray, if it is derived from ours."""
        if any(isinstance(b, ArrayClass) for b in bases):
            return type(name, tuple(Derived if isinstance(b, ArrayClass) else b for b in bases), body, **options)
        return super().__new__(cls, name, bases, body, **options)

    def __instancecheck__(cls, x: Any) -> bool:
        return type(x) is cls or cls.__subclasscheck__(type(x))

    def __subclasscheck__(cls, other: type) -> bool:
        return other is cls or issubclass(other, Derived)


class Array(metaclass=ArrayClass):
    """An n-dimensional array: NumPy's behaviour over a lazily evaluated graph.

    Made by the functions of `tilewise`, not by calling the class with data (as `numpy.ndarray`, the class itself takes
    a shape and gives uninitialised memory).

    >>> import tilewise as tw
    >>> x = tw.arange(6.0).reshape(2, 3)
    >>> y = x[:, 1]          # a view
    >>> y[:] = 0.0           # writes through
    >>> x.sum()
    np.float64(10.0)
    """

    __slots__ = ("__weakref__", "_cell", "_fixed", "_gen", "_nd")

    _cell: Cell
    # Shows the cell's memory (or a meta array) if _gen is the cell's; None: the whole cell, not looked at yet. Of a
    # number on the cell NUMBER it is NumPy's scalar.
    _nd: ND | None
    _gen: int
    _fixed: bool  # a number, as NumPy would return a scalar: immutable

    if TYPE_CHECKING:  # what other modules give it (array/operators.py, indexing.py, interop/; api/methods.py)
        __add__: Any
        __array_function__: Any
        __array_interface__: Any
        __array_priority__: Any
        __array_struct__: Any
        __array_ufunc__: Any
        __divmod__: Any
        __getitem__: Any
        __imatmul__: Any
        __matmul__: Any
        __pow__: Any
        __rdivmod__: Any
        __rmatmul__: Any
        __setitem__: Any
        _repr_html_: Any
        _typ: Any
        astype: Any
        base: Any
        compute: Any
        copy: Any
        ctypes: Any
        data: Any
        flat: Any
        imag: Any
        layout: Any
        max: Any
        min: Any
        mT: Any
        real: Any
        relayout: Any
        reshape: Any
        store: Any
        sum: Any
        swapaxes: Any
        T: Any
        to_numpy: Any
        view: Any

    def __new__(
        cls,
        shape: Any,
        dtype: Any = float,
        buffer: Any = None,
        offset: int = 0,
        strides: Any = None,
        order: Any = None,
    ) -> Array:
        """Uninitialised memory, as `numpy.ndarray(shape, dtype)`, or memory that others share: NumPy's class."""
        if cls is not Array:  # `np.ndarray.__new__(cls, ...)` of a class that a program derived
            return np.ndarray.__new__(cls, shape, dtype, buffer, offset, strides, order)  # type: ignore[type-var]
        nd: ND = np.ndarray(shape, dtype, buffer, offset, strides, order)
        if buffer is None:
            return from_buffer(nd)
        if type(buffer) is Array and strides is None and not nd.dtype.hasobject and nd.size:
            part: Any = buffer.reshape(-1).view(np.uint8)[offset : offset + nd.nbytes].view(nd.dtype)
            return part.reshape(nd.shape[::-1]).T if nd.flags.fnc else part.reshape(nd.shape)  # type: ignore[no-any-return]
        made: Array = on_memory(nd)
        return made

    # -- metadata: never computes, except where a mask decides a length --------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes (asking for one that a mask decides evaluates the mask)."""
        nd = self._nd
        return nd.shape if nd is not None else counted(self) or meta(self).shape

    @shape.setter
    def shape(self, new: Any) -> None:
        try:
            nd = np.reshape(meta(self), new, copy=False)
        except ValueError as error:
            if "copy" not in str(error):
                raise
            text = (
                "Incompatible shape for in-place modification. Use `.reshape()` to make a copy with the desired shape."
            )
            raise AttributeError(text) from None
        self._nd = nd

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements."""
        nd = self._nd
        if nd is not None:
            return nd.dtype  # type: ignore[no-any-return]
        cell = self._cell
        return cell.node.dtype if cell.node is not None else cell.meta().dtype

    @dtype.setter
    def dtype(self, new: Any) -> None:
        if self._fixed:
            raise AttributeError("attribute 'dtype' of 'numpy.generic' objects is not writable")
        self._nd = meta(self).view(new)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        nd = self._nd
        if nd is not None:
            return nd.ndim
        node = self._cell.node
        return len(node.shape) if node is not None else self._cell.meta().ndim

    @property
    def size(self) -> int:
        """The number of elements."""
        dims = counted(self) if self._nd is None else None
        return meta(self).size if dims is None else math.prod(dims)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        dims = counted(self) if self._nd is None else None
        return meta(self).nbytes if dims is None else math.prod(dims) * self.itemsize

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next along each axis, as NumPy would lay the array out."""
        return meta(self).strides

    @property
    def flags(self) -> Any:
        """Contiguity and whether writing is allowed, as NumPy's flags object has them."""
        return Flags(self)

    @property
    def device(self) -> str:
        """Where the array API says it is."""
        return "cpu"

    def __len__(self) -> int:
        nd = self._nd
        shape = nd.shape if nd is not None else counted(self) or meta(self).shape
        if not shape:
            raise TypeError("len() of unsized object")
        return shape[0]


_new = object.__new__
_asarray = np.asarray


def new_cell(buf: ND | None, gen: int = 0) -> Cell:
    """A known cell."""
    cell = Cell()
    cell.buf = buf
    cell.node = None
    cell.gen = gen
    cell.meta_nd = None
    cell.leaf = None
    cell.exports = None
    cell.owner = None
    return cell


def on_memory(nd: ND) -> Any:
    """Memory of others as an array: a snapshot of what cannot be written, else NumPy's class, which writes to it."""
    if nd.flags.writeable:
        return nd.view(Derived)
    snapshot = nd.copy(order="K")
    snapshot.flags.writeable = False
    return from_buffer(snapshot)


def from_buffer(nd: ND, fixed: bool = False) -> Array:
    """A known array that owns `nd` (no other cell and no user has it)."""
    cell = Cell()  # new_cell, written out: this is on the path of every small operation
    cell.buf = nd
    cell.node = None
    cell.gen = 0
    cell.meta_nd = None
    cell.leaf = None
    cell.exports = None
    cell.owner = None
    x = _new(Array)
    x._cell = cell
    x._nd = nd
    x._gen = 0
    x._fixed = fixed
    return x


# Stands for the cell of a known number, which nobody writes to and seldom anybody looks at as memory: it gets one of
# its own when that happens (`refresh`). Its generation is no handle's: all who ask find such a handle stale.
UNMADE = -1
NUMBER = new_cell(None, UNMADE - 1)


def from_number(value: Any) -> Any:
    """A known number, for a NumPy scalar: one of NumPy's classes, too, or an Array if there is no such class."""
    kind = GIVEN.get(type(value))
    return _without_axes(value) if kind is None else kind(value)


def _without_axes(value: Any) -> Array:
    x = _new(Array)
    x._cell = NUMBER
    x._nd = value
    x._gen = UNMADE
    x._fixed = True
    return x


set_array(Array, _without_axes, from_buffer)


def from_node(node: Node, fixed: bool = False) -> Array:
    """A pending array."""
    cell = Cell()
    cell.buf = None
    cell.node = node
    cell.gen = 0
    cell.meta_nd = None
    cell.leaf = None
    cell.exports = None
    cell.owner = None
    x = _new(Array)
    x._cell = cell
    x._nd = None
    x._gen = 0
    x._fixed = fixed
    return x


_source_leaves: WeakValueDictionary[Hashable, Node] = WeakValueDictionary()


def from_source(source: Source) -> Array:
    """An array whose elements are read from a source when a plan needs them, by whoever needs them.

    Sources with the same elements (equal fingerprints) are one leaf of a graph: no plan reads them twice.
    """
    key = _source_key(source)
    with LOCK:
        leaf = _source_leaves.get(key)
        if leaf is None:
            leaf = _source_leaves[key] = known_leaf(source, source.order, Outside())
    return from_node(leaf)


def _source_key(source: Source) -> Hashable:
    return source.fingerprint(), source.shape, source.dtype, source.order


def forget_source(source: Source) -> None:
    """What is opened under the same name from now on is another leaf."""
    _source_leaves.pop(_source_key(source), None)


def source_leaves() -> list[Node]:
    """The leaves of sources that something still refers to."""
    return list(_source_leaves.values())


def on_cell(cell: Cell, nd: ND) -> Array:
    """A view: another handle on a cell. `nd` is a view of the cell's buffer or meta array."""
    x = _new(Array)
    x._cell = cell
    x._nd = nd
    x._gen = cell.gen
    x._fixed = False
    return x


_resolver: Any = None  # array/force.py: makes lengths known
_counter: Any = None  # and has them counted by workers


def set_resolver(resolve: Any, count: Any) -> None:
    """force.py says how unknown lengths become known, with the values that have them or without."""
    global _resolver, _counter
    _resolver, _counter = resolve, count


def counted(x: Array) -> tuple[int, ...] | None:
    """The shape of what workers are yet to select, when they have counted the mask; None of anything else."""
    node = x._cell.node
    return None if node is None or node.known or not _counter(node) else node.dims


def meta(x: Array) -> ND:
    """An up-to-date array showing x's memory or meta array; evaluates masks if a length depends on one."""
    cell = x._cell
    nd = x._nd
    if nd is not None:
        return nd if x._gen == cell.gen else refresh(x)
    node = cell.node
    if node is not None and not node.known:
        _resolver(x)
        return meta(x)
    return refresh(x)


def refresh(x: Array) -> ND:
    """Point x's ndarray at the cell's present buffer or meta array."""
    cell = x._cell
    if cell is NUMBER:
        with LOCK:
            if x._cell is NUMBER:
                x._cell = new_cell(_asarray(x._nd))
        cell = x._cell
    while True:
        gen = cell.gen
        base = cell.meta()
        nd = x._nd
        if nd is None or (_whole(nd) and nd.shape == base.shape and nd.dtype == base.dtype):
            fresh = base
        else:
            fresh = strided(base, address(nd) - address(root(nd)), nd.shape, nd.strides, nd.dtype)
            if not nd.flags.writeable:
                fresh.flags.writeable = False
        if gen == cell.gen:
            x._nd = fresh
            x._gen = gen
            return fresh


def own_view(x: Array) -> ND:
    """x's ndarray, one that no other handle and not the cell has: its flags may be set."""
    nd = meta(x)
    if nd is x._cell.buf or nd is x._cell.meta_nd:
        nd = nd[...]
        x._nd, x._gen = nd, x._cell.gen
    return nd


class Flags:
    """An Array's flags: NumPy's object, but what is set holds for this handle alone, as in NumPy."""

    __slots__ = ("_of",)

    def __init__(self, of: Array) -> None:
        object.__setattr__(self, "_of", of)

    def __getattr__(self, name: str) -> Any:
        return getattr(meta(self._of).flags, name)

    def __getitem__(self, name: str) -> Any:
        return meta(self._of).flags[name]  # type: ignore[index]  # any name: NumPy raises

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(own_view(self._of).flags, name, value)

    def __setitem__(self, name: str, value: Any) -> None:
        own_view(self._of).flags[name] = value  # type: ignore[index]  # any name: NumPy raises

    def __eq__(self, other: object) -> bool:
        return bool(meta(self._of).flags == (meta(other._of).flags if type(other) is Flags else other))

    __hash__ = None  # type: ignore[assignment]  # as NumPy's

    def __repr__(self) -> str:
        return repr(meta(self._of).flags)


def _whole(nd: ND) -> bool:
    return not isinstance(nd.base, np.ndarray)


def node_of(x: Array) -> Node:
    """The node that stands for x's value now."""
    if x._nd is None:
        return x._cell.read()
    nd = x._nd if x._gen == x._cell.gen else refresh(x)
    base = x._cell.read()
    if _whole(nd) and nd.shape == base.shape and nd.dtype == base.dtype:
        return base
    memory = root(nd)
    offset = address(nd) - (NOWHERE if memory is x._cell.meta_nd else address(memory))
    found = part(base, offset, nd.shape, nd.strides, nd.dtype) if nd.dtype != base.dtype else None
    return view(base, offset, nd.shape, nd.strides, nd.dtype) if found is None else found


def window_of(x: Array) -> Window | None:
    """The window of x onto its cell; None if it is the whole cell."""
    nd = meta(x)
    base = x._cell.read()
    if _whole(nd) and nd.shape == base.shape and nd.dtype == base.dtype:
        return None
    offset = address(nd) - address(root(nd))
    return shared_window(offset, nd.shape, nd.strides, nd.dtype, base.shape, base.order, base.dtype)


def same_window(x: Array, y: Array) -> bool:
    """Whether two handles on one cell show the same elements."""
    a, b = meta(x), meta(y)
    return a.shape == b.shape and a.strides == b.strides and a.dtype == b.dtype and address(a) == address(b)
