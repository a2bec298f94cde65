"""Leaving the graph: numbers, ndarrays, text, pickles. In: an Array. Out: what NumPy, Python and files take."""

from __future__ import annotations

import importlib
import sys
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from tilewise.array import force as forcing
from tilewise.array import record as rec
from tilewise.array.cell import LOCK, ND, Outside, private_copy
from tilewise.array.handle import NUMBER, Array, from_buffer, from_node, from_source, meta, node_of, on_cell
from tilewise.array.interop import elsewhere
from tilewise.array.interop.buffers import FORMAT, WRITABLE, fill_buffer_slot, raise_again, refused
from tilewise.array.pending import register
from tilewise.array.session import begin_anew
from tilewise.ir.node import Node, freeze, thaw, walk
from tilewise.ops.join import copy as copy_node
from tilewise.store.base import Source


def export(x: Array) -> ND:
    """A read-only ndarray on x's memory; later writes to x go elsewhere."""
    return np.asarray(lend(x))


def lend(x: Array) -> Any:
    """The same for who asks for a buffer, and holds on to what gave it."""
    with LOCK:
        nd = forcing.fetched(x)
        return _outside(x, nd) if _shared(x, nd) else _apart(x, nd)


def _shared(x: Array, nd: ND) -> bool:
    """Whether others may read the very memory of an array."""
    dtype = nd.dtype
    return x._cell.node is None and dtype.char in rec.NATIVE_KINDS and dtype.isnative and nd.size > 0


def _apart(x: Array, nd: ND) -> ND:
    """A read-only copy of an array's elements (what workers hold came as one)."""
    out = nd if x._cell.node is not None else nd.copy()
    out.flags.writeable = False
    return out


def _outside(x: Array, nd: ND) -> memoryview:
    """What others read an array's memory through, remembered until the last of them lets go of it.

    A memoryview of another, and NumPy's array of one, hold on to the object that was first asked for its buffer, and
    to no memoryview between: that object is made for this, and it is the one that is remembered.
    """
    asked = nd.view()
    cell = x._cell
    if cell.exports is None:
        cell.exports = Outside()
    elif cell.exports:
        cell.exports[:] = [e for e in cell.exports if e() is not None]
    cell.exports.append(weakref.ref(asked))
    return memoryview(asked).toreadonly()  # type: ignore[arg-type]


def to_array(self: Array, dtype: Any = None, copy: bool | None = None) -> ND:
    """For `numpy.asarray(x)`: read-only and shared; a writable copy if asked for one, or for another dtype."""
    raise_again(self)
    if dtype is not None and rec.dtype_of(dtype) != self.dtype:
        if copy is False:
            raise ValueError("Unable to avoid copy while creating an array as requested.")
        return forcing.fetch(self).astype(dtype)
    if copy:
        return private_copy(forcing.fetch(self))
    return export(self)


def compute(self: Array) -> ND:
    """Evaluate, and give the result as an ndarray that the caller owns.

    >>> import tilewise as tw
    >>> (tw.arange(4) * 2).compute()
    array([0, 2, 4, 6])
    """
    temporary = sys.getrefcount(self) <= _TEMPORARY  # nobody has the array but the expression that asks
    nd = forcing.fetch(self)
    begin_anew()
    cell = self._cell
    if temporary and nd is cell.buf and sys.getrefcount(cell) <= _ALONE and cell.free_to_write() and not self._fixed:
        return nd  # its own buffer, which nobody else will see
    return private_copy(nd)


class _Probe:
    """Measures how many references a method sees to an object that only the expression has, and to one with a name."""

    __slots__ = ()

    def count(self) -> int:
        return sys.getrefcount(self)


_named = _Probe()
# Where the two counts are equal (interpreters that borrow references), nothing is known to be temporary.
_TEMPORARY = _Probe().count() if _Probe().count() < _named.count() else 0
_ALONE = 3  # the handle, the local name, getrefcount's argument


def raw(self: Array) -> bytes:
    """bytes(x): the elements' memory, as NumPy gives it."""
    return forcing.fetch(self).tobytes()


def buffer(self: Array, flags: int) -> memoryview:
    """The buffer protocol (Python 3.12 and later): read-only, as everything that is handed out."""
    return memoryview(answer(self, flags))


def answer(x: Array, flags: int) -> Any:
    """What is lent to who asks for a buffer.

    `numpy.ndarray(shape, dtype, buffer=x)` asks for memory to write to, then for any, gives both back and holds on to
    the handle only: what it was lent lives as long.
    """
    shown = lend(x)
    if type(shown) is np.ndarray and shown.dtype.kind == "V" and flags & FORMAT and not _described(shown):
        raise BufferError("buffers cannot describe this dtype")  # NumPy then asks for `__array__`
    if not flags & (WRITABLE | FORMAT) and refused.array == id(x):
        if id(x) not in _held:
            weakref.finalize(x, _held.pop, id(x), None).atexit = False
        _held.setdefault(id(x), []).append(shown)
    refused.array = id(x) if flags & WRITABLE else None
    return shown


def _described(nd: ND) -> bool:
    """Whether the text that a buffer has for a structure tells all of it (alignment next to objects, say)."""
    try:
        read, dtype = np.asarray(memoryview(nd)).dtype, nd.dtype  # type: ignore[arg-type]
    except (RuntimeError, ValueError):
        return False
    return (read, read.names, read.isalignedstruct) == (dtype, dtype.names, dtype.isalignedstruct)


_held: dict[int, list[Any]] = {}  # by handle: what was lent to arrays that hold on to the handle


def release(self: Array, view: memoryview) -> None:
    """There is nothing to do: what was lent is known by a weak reference.

    That there is such a method tells `numpy.frombuffer` to hold on to a view, not to the array.
    """


def interface(self: Array) -> dict[str, Any]:
    """Where the elements lie, for libraries that ask for `__array_interface__`: read-only memory."""
    return _shown_by(self, "__array_interface__").__array_interface__


def struct_interface(self: Array) -> Any:
    """The same for those that ask for `__array_struct__`."""
    return _shown_by(self, "__array_struct__").__array_struct__


def _shown_by(self: Array, attribute: str) -> ND:
    """What is shown of an Array's memory, which lives as long as its handle: who asked holds on to that only."""
    raise_again(self)
    if not rec.numeric(self.dtype):
        raise AttributeError(attribute)  # NumPy then asks for `__array__`
    kept = _shown.get(id(self))
    gen = self._cell.gen
    if kept is None or kept[0] != gen or self._cell.node is not None:
        if kept is None:
            weakref.finalize(self, _shown.pop, id(self), None).atexit = False
        shown = export(self)
        kept = _shown[id(self)] = self._cell.gen, shown
    return kept[1]


_shown: dict[int, tuple[int, ND]] = {}  # by handle: the generation of its cell, and what was shown of it


def token(self: Array) -> Any:
    """For Dask's names of tasks: that of the elements."""
    return "tilewise", export(self)


def to_jax(self: Array) -> Any:
    """For `jax.numpy`, whose operators take Arrays as they take NumPy's arrays: on its device, in its dtype."""
    from jax.numpy import asarray

    return asarray(export(self))


def to_numpy(self: Array, dtype: Any = None, copy: bool = False, na_value: Any = None) -> ND:
    """For pandas, as its own arrays have it: `numpy.asarray(x)`, or a copy that can be written to.

    >>> import tilewise as tw
    >>> tw.arange(3).to_numpy()
    array([0, 1, 2])
    """
    return to_array(self, dtype, copy or None)


def factorize(self: Array, use_na_sentinel: bool = True) -> Any:
    """For `pandas.factorize`, which asks arrays that are not NumPy's to do it: what it does for those."""
    return importlib.import_module("pandas").factorize(export(self), use_na_sentinel=use_na_sentinel)


def item(self: Array, *args: Any) -> Any:
    """One element as a Python number."""
    return forcing.fetch(self).item(*args)


def number(kind: Any) -> Any:
    """int(x), float(x), …: of one element."""

    def method(self: Array) -> Any:
        cell = self._cell
        if cell is NUMBER:
            return kind(self._nd)
        nd: Any = self._nd if cell.node is None and self._gen == cell.gen else forcing.fetch(self)
        return kind(nd[()] if self._fixed else nd)

    return method


def index(self: Array) -> int:
    """For slices and range: an integer array of no axes."""
    return forcing.fetch(self).__index__()


def rows(self: Array) -> Iterator[Any]:
    """Iterate over the first axis, as NumPy does: views, or scalars of a vector."""
    if self.ndim == 0:
        raise TypeError("iteration over a 0-d array")
    return _rows(self)


def _rows(self: Array) -> Iterator[Any]:
    if elsewhere.stays_elsewhere(self):
        yield from elsewhere.rows_of(self)
        return
    nd = forcing.force(self)
    cell = self._cell
    gen = cell.gen
    for i in range(nd.shape[0]):
        if cell.gen != gen:  # written to since, perhaps elsewhere
            yield self[i]
        else:
            r = nd[i]
            yield on_cell(cell, r) if type(r) is np.ndarray and nd.ndim > 1 else r


def contains(self: Array, value: Any) -> bool:
    """`value in x`."""
    return rec.unwrap(value) in forcing.fetch(self)


def text(self: Array) -> str:
    """NumPy's text, under our name; numbers print as NumPy's do."""
    if self._fixed:
        return repr(forcing.fetch(self)[()])
    shown = repr(elsewhere.printed(self))
    return "Array" + shown.removeprefix("array").replace("\n     ", "\n     ") if shown.startswith("array") else shown


def plain(self: Array) -> str:
    """str(x)."""
    nd = elsewhere.printed(self)
    return str(nd[()] if self._fixed else nd)


def formatted(self: Array, spec: str) -> str:
    """f"{x:…}" of a number."""
    nd = forcing.fetch(self)
    return format(nd[()] if nd.ndim == 0 else nd, spec)


def hashed(self: Array) -> int:
    """Numbers hash; arrays do not."""
    if self._fixed:
        return hash(forcing.fetch(self)[()])
    raise TypeError("unhashable type: 'Array'")


def _rebuild_known(nd: ND, fixed: bool) -> Array:
    return from_buffer(nd if nd.flags.writeable else nd.copy(order="K"), fixed)


def _rebuild_pending(frozen: Any, fixed: bool) -> Array:
    node = thaw(frozen, 0)
    if isinstance(node.value, Source):
        return from_source(node.value)
    if node.value is not None:
        return _rebuild_known(np.array(node.value, copy=True, order="K"), fixed)
    x = from_node(node, fixed)
    register(x._cell)
    return x


def reduce(self: Array) -> Any:
    """Pickle: arrays as data, whether they are pending or not (so that equal ones have equal hashes).

    What is read from sources that others can open stays a graph: they may be large, and others may need little of them.
    """
    if self._cell.node is None:
        return (_rebuild_known, (meta(self).copy(order="A"), self._fixed))
    node: Node = node_of(self)
    sources = [n.value for n in walk([node]) if isinstance(n.value, Source)]
    if not sources or not all(s.opened_by_workers for s in sources):
        here = forcing.fetch(self)
        return (_rebuild_known, (here.copy(order="F" if meta(self).flags.fnc else "C"), self._fixed))
    if node.known and (node is not self._cell.node or not meta(self).flags.forc):
        node = copy_node(node, node.order if meta(self).flags.fnc else None)  # as NumPy's pickles: C or Fortran order
    return (_rebuild_pending, (freeze([node]), self._fixed))


def shallow_copy(self: Array) -> Array:
    """An independent array with the same value."""
    return self if self._fixed else from_buffer(private_copy(forcing.fetch(self)))


def deepcopy(self: Array, memo: Any = None) -> Array:
    """The same, of objects with copies of these."""
    return from_buffer(forcing.fetch(self).__deepcopy__(memo)) if self.dtype.hasobject else shallow_copy(self)


def wrapped(self: Array, array: ND, context: Any = None, return_scalar: bool = False) -> Any:
    """For code that gives results the class of its argument: an Array, or a number if that is asked for."""
    return rec.wrap(array[()] if return_scalar else array)


for _name, _method in {
    "__array__": to_array,
    "__array_wrap__": wrapped,
    "compute": compute,
    "factorize": factorize,
    "to_numpy": to_numpy,
    "item": item,
    "__bytes__": raw,
    "__buffer__": buffer,
    "__release_buffer__": release,
    "__jax_array__": to_jax,
    "__dask_tokenize__": token,
    "__bool__": number(bool),
    "__int__": number(int),
    "__float__": number(float),
    "__complex__": number(complex),
    "__index__": index,
    "__iter__": rows,
    "__contains__": contains,
    "__repr__": text,
    "__str__": plain,
    "__format__": formatted,
    "__hash__": hashed,
    "__reduce__": reduce,
    "__deepcopy__": deepcopy,
    "__copy__": shallow_copy,
}.items():
    setattr(Array, _name, _method)
Array.__array_interface__ = property(interface)
Array.__array_struct__ = property(struct_interface)
fill_buffer_slot(Array, answer)
Array.__array_priority__ = 1000.0
# By this name pandas knows its own wrapper of NumPy's arrays, and takes masks (`frame[mask]`) from no other class.
Array._typ = "npy_extension"
