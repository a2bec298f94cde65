"""Reading at a key. In: a key as NumPy takes it. Out: views, selections, scalars. Writing at a key is in setitem.py.

Basic keys (integers, slices, new axes, an ellipsis) make views, by letting NumPy index the array or its meta array.
Keys with index arrays or masks select; a single mask makes an axis of unknown length.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewise.array import force as forcing
from tilewise.array import record as rec
from tilewise.array.cell import ND
from tilewise.array.handle import Array, from_buffer, meta, node_of, on_cell, window_of
from tilewise.array.interop.array_like import as_given
from tilewise.array.lengths.unsized import turned
from tilewise.array.schedule import policy
from tilewise.array.session import on_workers
from tilewise.config import LEAST, current
from tilewise.ir.node import Node, intern
from tilewise.ir.order import Order, by_strides
from tilewise.ops.create import arange
from tilewise.ops.elementwise import small
from tilewise.ops.index import Gather, KeyInBase, compress, counts_through, key_in_base, picked, together
from tilewise.ops.join import copy as copy_node
from tilewise.ops.views import view

_PLAIN = (int, type(None))
_BASIC = (int, slice, type(None), type(Ellipsis), np.integer)
BASIC_TYPES = frozenset((int, slice, type(None), type(Ellipsis), *(np.dtype(c).type for c in "bhilqBHILQ")))
OBJECT, UINT64 = np.dtype(object), np.dtype(np.uint64)
_new = object.__new__
_NDARRAY, _VOID = np.ndarray, np.void  # one look-up less


def is_basic(key: Any) -> bool:
    """Whether a key makes a view (no index arrays, masks or lists)."""
    if type(key) is tuple:
        for k in key:  # noqa: SIM110 (a loop is much quicker than a generator here, on the path of every index)
            if type(k) not in BASIC_TYPES and (type(k) is bool or not isinstance(k, _BASIC)):
                return False
        return True
    return type(key) in BASIC_TYPES or (isinstance(key, _BASIC) and type(key) is not bool)


def plain_key(key: Any) -> Any:
    """The key with 0-d integer Arrays as integers; a tuple of any class (a namedtuple, too) becomes a plain one."""
    if isinstance(key, tuple):
        return tuple(plain_part(k) for k in key)
    return plain_part(key)


def plain_part(k: Any) -> Any:
    """One part of a key: 0-d integer Arrays become integers, also inside slices."""
    t = type(k)
    if t is slice and type(k.start) in _PLAIN and type(k.stop) in _PLAIN and type(k.step) in _PLAIN:
        return k
    if t is Array and k.ndim == 0 and k.dtype.kind in "iu":
        return int(forcing.force(k))
    if t is slice and (type(k.start) is Array or type(k.stop) is Array or type(k.step) is Array):
        return slice(*(None if p is None else p.__index__() for p in (k.start, k.stop, k.step)))
    return as_given(k)


def index_at_hand(nd: Any, key: Array) -> Any:
    """A mask or index array for a selection that is done at once: known, and little is touched; else None."""
    cell = key._cell
    if cell.node is not None or key._gen != cell.gen:
        return None
    index: Any = key._nd
    limit = LEAST.eager_bytes
    if nd.nbytes >= limit:
        limit = current().eager_bytes
    if index.ndim == 0 or nd.ndim == 0 or nd.nbytes >= limit or index.nbytes >= limit:
        return None
    if index.dtype.kind != "b" and index.size * (nd.nbytes // (nd.shape[0] or 1)) >= limit:
        return None
    return index


def masked_row(nd: Any, i: int, mask: Array) -> Any:
    """nd[i, mask] of a small known matrix as nd[i][mask], which takes NumPy half as long; None of anything else."""
    if nd.ndim != 2 or mask._nd is None or mask._nd.shape != nd.shape[1:]:
        return None
    row = nd[i]
    index = index_at_hand(row, mask)
    return row[index] if index is not None and index.dtype.kind == "b" else None


def indices_at_hand(nd: Any, key: tuple[Any, ...]) -> Any:
    """The same for a tuple with masks or index arrays in it."""
    parts = []
    most = 0
    for k in key:
        if type(k) is Array:
            cell = k._cell
            if cell.node is not None or k._gen != cell.gen:
                return None
            index: Any = k._nd
            if index.ndim == 0 or index.dtype.kind not in "biu":
                return None
            if index.size > most:
                most = index.size
            parts.append(index)
        elif type(k) is int or type(k) in BASIC_TYPES:
            parts.append(k)
        else:
            return None
    size = nd.nbytes
    limit = LEAST.eager_bytes if most * size < LEAST.eager_bytes else current().eager_bytes
    if size >= limit or nd.ndim == 0:
        return None
    if most * (size // (nd.shape[0] or 1) + 8) >= limit and selected_bytes(nd, parts) >= limit:
        return None
    return tuple(parts)


def selected_bytes(nd: Any, parts: Sequence[Any]) -> int:
    """What a selection reads at most: its elements, and the index arrays."""
    most = 1
    rest = nd.nbytes
    axis = 0
    for k in parts:
        if isinstance(k, slice):
            axis += 1
        elif k is None or k is Ellipsis:  # what follows may be of any axis
            axis = nd.ndim
        else:
            size, axes = np.size(k), np.ndim(k) if is_mask(k) else 1
            most = max(most, size)
            for n in nd.shape[axis : axis + axes]:
                rest //= n or 1
            axis += axes
    return int(most * (max(rest, nd.itemsize) + 8))


def getitem(self: Array, key: Any) -> Any:
    """self[key]."""
    cell = self._cell
    gen = cell.gen  # a view is of this one, whatever other threads and ends of slices with an `__index__` do meanwhile
    if cell.node is None and self._gen == gen:
        t = type(key)
        if t is tuple:
            if len(key) == 2:  # most keys of most programs: a loop costs more
                i, j = key
                if (type(i) is int or type(i) in BASIC_TYPES) and (type(j) is int or type(j) in BASIC_TYPES):
                    t = int
                elif type(j) is Array and type(i) is int and not self._fixed:
                    r = masked_row(self._nd, i, j)
                    if r is not None:
                        return from_buffer(r)
            else:
                for k in key:
                    if type(k) not in BASIC_TYPES:
                        break
                else:
                    t = int
        if t is int or t is slice:
            r = self._nd[key]  # type: ignore[index]
            if type(r) is _NDARRAY:
                if self._fixed:
                    return from_buffer(r.copy())
                if self._nd.dtype is OBJECT and _names_one(self._nd, key):  # type: ignore[union-attr]  # known: it has one
                    return r  # an object like any other, no view
                x = _new(Array)  # on_cell(cell, r), written out
                x._cell = cell
                x._nd = r
                x._gen = gen
                x._fixed = False
                return x
            if type(r) is not _VOID or self._fixed:
                return r
        elif t is Array and not self._fixed:
            index = index_at_hand(self._nd, key)
            if index is not None:
                r = picked(self._nd, index)
                return from_buffer(r) if type(r) is _NDARRAY and r.base is None else rec.wrap(r)
        elif t is tuple and not self._fixed:
            index = indices_at_hand(self._nd, key)
            if index is not None:
                r = self._nd[index]  # type: ignore[index]
                return from_buffer(r) if type(r) is _NDARRAY and r.base is None else rec.wrap(r)
    whole = key
    key = plain_key(key)
    if is_basic(key):
        if self._nd is None and _adds_axes(key) and (wide := turned(self, lambda nd: nd[key])) is not None:
            return wide
        shown = meta(self)
        r = show(shown, key)
        if r is None:
            return _element(self, shown, key)
        # A number shows its memory to nobody: what is made of it is new, as with NumPy's scalars.
        if self._fixed:
            return getitem(thawed(self), key)
        part = on_cell(self._cell, r)  # which may be another by now: that of what it is a view of
        return part if key is whole or not _has_array(whole) else _copied(part)
    return select(self, key)


def _adds_axes(key: Any) -> bool:
    """Whether a basic key takes all of every axis, and adds some."""
    parts = key if type(key) is tuple else (key,)
    return None in parts and all(k is None or k is Ellipsis or k == slice(None) for k in parts)


def _names_one(nd: Any, key: Any) -> bool:
    """Whether a basic key is a whole number for every axis."""
    parts = key if type(key) is tuple else (key,)
    return len(parts) == nd.ndim and not any(k is None or k is Ellipsis or type(k) is slice for k in parts)


def _has_array(key: Any) -> bool:
    """Whether an index is an array without axes, and no number: NumPy then gives a copy."""
    parts = key if isinstance(key, tuple) else (key,)
    return any(type(k) is Array and not k._fixed for k in parts)


def _copied(x: Array) -> Array:
    """A new array with x's elements, in memory order."""
    shown = meta(x)
    if x._cell.node is None and shown.nbytes < policy.eager_limit():
        return from_buffer(shown.copy(order="K"))
    return rec.record(copy_node(node_of(x), by_strides(shown.shape, shown.strides)))


def thawed(number: Array) -> Array:
    """A 0-d array with a number's value."""
    if number._cell.node is None:
        return from_buffer(meta(number).copy())
    return rec.record(copy_node(node_of(number), None))


Array.__getitem__ = getitem


def show(shown: ND, key: Any) -> ND | None:
    """The view for a basic key, or None if it names one element (a meta array must not be read)."""
    if type(key) is slice:
        return shown[key]
    parts = key if type(key) is tuple else (key,)
    ints = sum([isinstance(k, int | np.integer) for k in parts])
    if ints == shown.ndim == len(parts):
        return None
    if parts == ():
        return None if shown.ndim == 0 else shown[...]
    return shown[key]  # type: ignore[no-any-return]


def _element(x: Array, shown: ND, key: Any) -> Any:
    """x[i, j, …] of one element: a NumPy scalar of known data, a pending number otherwise."""
    if x._cell.node is None:
        return shown[key]
    parts = key if type(key) is tuple else (key,)
    one = (
        shown[
            tuple(
                slice(k, k + 1 or None) if k >= -n else bad(shown, key) for k, n in zip(parts, shown.shape, strict=True)
            )
        ]
        if parts
        else shown
    )
    if one.size != 1:
        bad(shown, key)
    point = on_cell(x._cell, one)
    from_base = node_of(point)
    base = from_base.inputs[0] if from_base.op.name == "view" else from_base
    offset = getattr(from_base.op, "offset", 0)
    return rec.record(view(base, offset, (), (), x.dtype), fixed=True)


def bad(shown: ND, key: Any) -> Any:
    """Raise NumPy's IndexError, without reading."""
    parts = key if type(key) is tuple else (key,)
    for axis, (k, n) in enumerate(zip(parts, shown.shape, strict=False)):
        if not -n <= k < n:
            raise IndexError(f"index {k} is out of bounds for axis {axis} with size {n}")
    raise IndexError(f"too many indices for array: array is {shown.ndim}-dimensional, but {len(parts)} were indexed")


# -- selections ----------------------------------------------------------------------------------------------------


def is_mask(k: Any) -> bool:
    if type(k) is Array:
        return k.dtype == np.bool_
    return isinstance(k, bool | np.bool_) or (isinstance(k, np.ndarray) and k.dtype == np.bool_)


def select(x: Array, key: Any) -> Any:
    """x[key] with index arrays or masks."""
    arrays: list[Array] = [x]
    rec.find_arrays(key if type(key) is tuple else (key,), arrays)
    if not rec.numeric(x.dtype) or (all(policy.known(a) is not None for a in arrays) and touches_little(x, key)):
        return _select_now(x, key)
    if is_mask(key):
        return _select_mask(x, key)
    parts = key if type(key) is tuple else (key,)
    if any(is_mask(k) or (isinstance(k, list) and np.asarray(rec.unwrap(k)).dtype == np.bool_) for k in parts):
        return _select_now(x, key)
    try:
        recorded = _gather(x, parts)
    except (IndexError, TypeError, ValueError):  # NumPy says what is wrong
        recorded = None
    return recorded if recorded is not None else _select_now(x, key)


def touches_little(x: Array, key: Any) -> bool:
    """Whether a selection from known data reads few bytes."""
    parts = [k if isinstance(k, _BASIC) else rec.unwrap(k) for k in (key if type(key) is tuple else (key,))]
    if any(is_mask(k) for k in parts):
        index = max((np.size(k) for k in parts if not isinstance(k, _BASIC)), default=1)
        return bool(meta(x).nbytes + index < policy.eager_limit())
    return selected_bytes(meta(x), parts) < policy.eager_limit()


def _select_now(x: Array, key: Any) -> Any:
    r = forcing.force(x)[rec.unwrap(key)]
    if type(r) is np.ndarray:
        return rec.wrap_array(r, (x,))
    return r


def _select_mask(x: Array, mask: Any) -> Any:
    m = mask if type(mask) is Array else rec.record_const(mask)
    shape, of = meta(x).shape, meta(m).shape
    if not of:
        return _select_now(x, mask)
    if shape[: len(of)] != of:
        return _select_now(x, mask)  # NumPy's own complaint
    return rec.record(compress(node_of(x), node_of(m)))


def _gather(x: Array, parts: tuple[Any, ...]) -> Array | None:
    """Record a selection by index arrays; None where NumPy must say what happens."""
    shown = meta(x)
    spec: list[Any] = []
    arrays: list[Node] = []
    bounds: list[tuple[ND | None, int]] = []  # index arrays that are known, and the axes they index
    shapes: list[tuple[Any, ...]] = []
    probe: list[Any] = []
    axis = 0
    used = sum(1 for k in parts if k is not None and k is not Ellipsis)
    for k in parts:
        if k is None or k is Ellipsis:
            spec.append(k)
            probe.append(k)
            axis += 0 if k is None else shown.ndim - used
            continue
        if isinstance(k, slice):
            spec.append(("s", k.start, k.stop, k.step))
            probe.append(k)
        elif isinstance(k, int | np.integer):
            spec.append(int(k))
            probe.append(int(k))
        else:
            node = index_node(k)
            if node is None or not node.known:
                return None
            bounds.append((policy.known(k) if type(k) is Array else np.asarray(k), axis))
            spec.append(("a", len(arrays)))
            arrays.append(node)
            shapes.append(node.shape)
            probe.append(np.zeros((1,) * len(node.shape), np.intp))
        axis += 1
    if axis > shown.ndim:
        raise IndexError(f"too many indices for array: array is {shown.ndim}-dimensional, but {axis} were indexed")
    shape = gather_shape(shown.shape, probe, shapes)
    if 0 not in np.broadcast_shapes(*shapes):  # NumPy does not look at indices that select nothing
        for found, axis in bounds:
            if found is not None:
                check_bounds(found, shown, axis)
    base = node_of(x)
    order = _gather_order(base, probe, arrays) if len(shape) > 1 and 0 not in shape else None
    shifted = in_base(x, spec, arrays)
    if shifted is not None:
        base, (key_of_base, arrays) = x._cell.read(), shifted
        spec = list(key_of_base)
    op = Gather(tuple(spec))
    key = together(op.key, len(base.shape)) if base.known else None
    if key is not None:
        lengths = {p[1]: base.dims[a] for a, p in zip(key.axes, key.parts, strict=True) if isinstance(p, tuple)}
        counting = next((k for k, n in lengths.items() if counts_through(arrays[k], n)), None)
        op = op if counting is None else Gather(op.key, counting=counting)
    node = intern(op, (base, *arrays), shape, x.dtype, order)
    return rec.record(node)


def in_base(x: Array, spec: Sequence[Any], arrays: Sequence[Node]) -> KeyInBase | None:
    """A key into a view as one into its cell, for workers; None of what is no view, or is another kind of view."""
    window = window_of(x) if on_workers() else None
    return None if window is None else key_in_base(window, spec, arrays)


def _gather_order(base: Node, probe: list[Any], arrays: list[Node]) -> Order:
    """The memory order of a selection (NumPy walks index axes first, and the rest as it lies)."""
    key: list[Any] = []
    axis = 0
    for p in probe:
        if isinstance(p, slice):
            key.append(min(len(range(*p.indices(base.shape[axis]))), 2))
        else:
            key.append(p if p is None or p is Ellipsis else "a" if isinstance(p, np.ndarray) else "i")
        used = len(probe) - sum(q is None or q is Ellipsis for q in probe)
        axis += base.ndim - used if p is Ellipsis else p is not None
    return _small_order(tuple(key), tuple(small(n) for n in (base, *arrays)))


@functools.lru_cache(maxsize=1024)
def _small_order(key: tuple[Any, ...], kinds: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]) -> Order:
    """The same for axes of at most two elements: NumPy shows it."""
    base, *index = [np.ndarray(shape, np.int64, np.zeros(2 ** len(shape)), 0, strides) for shape, strides in kinds]
    rest = iter(index)
    parts = [slice(0, p) if isinstance(p, int) else next(rest) if p == "a" else 0 if p == "i" else p for p in key]
    made = base[tuple(parts)]
    return by_strides(made.shape, made.strides)


def gather_shape(shape: tuple[int, ...], probe: list[Any], index: list[tuple[Any, ...]]) -> tuple[int, ...]:
    """The shape of a selection: NumPy's rules, tried on an array without memory."""
    try:
        both = np.broadcast_shapes(*index)
    except ValueError:
        text = " ".join(str(s).replace(" ", "") for s in index)
        raise IndexError(
            f"shape mismatch: indexing arrays could not be broadcast together with shapes {text}"
        ) from None
    dims = list(shape)
    axis, used = 0, sum(p is not None and p is not Ellipsis for p in probe)
    for p in probe:
        if isinstance(p, np.ndarray) and axis < len(dims):
            dims[axis] = max(dims[axis], 1)  # bounds are not looked at here
        axis += len(shape) - used if p is Ellipsis else p is not None
    tiny = np.broadcast_to(np.zeros((), bool), dims)
    full = [np.broadcast_to(p, both) if isinstance(p, np.ndarray) else p for p in probe]
    cut = [np.zeros((0, *both[1:]), np.intp) if isinstance(p, np.ndarray) and both else p for p in full]
    if not both or 0 in both:
        return tuple(tiny[tuple(full)].shape)
    # An empty leading index axis costs nothing; put its true length back.
    marked = tiny[tuple(cut)].shape
    at = _index_position(probe, len(shape))
    return (*marked[:at], both[0], *marked[at + 1 :])


def _index_position(probe: list[Any], ndim: int) -> int:
    """Where the index arrays' axes stand in the result."""
    positions = [i for i, p in enumerate(probe) if isinstance(p, np.ndarray | int)]
    if positions[-1] - positions[0] + 1 != len(positions):
        return 0
    used = sum(1 for p in probe if p is not None and p is not Ellipsis)
    at = 0
    for p in probe[: positions[0]]:
        at += ndim - used if p is Ellipsis else 1
    return at


def index_node(k: Any) -> Node | None:
    if type(k) is not Array:
        nd = np.asarray(rec.unwrap(k) if isinstance(k, list | tuple) else k)
        if nd.size == 0 and nd.dtype == np.float64:
            nd = nd.astype(np.intp)
        if nd.dtype.kind not in "iu":
            raise IndexError("arrays used as indices must be of integer (or boolean) type")
        nd = nd.astype(np.intp)
        return _counting(nd) or rec.as_node(nd) if nd.ndim else None
    if k.dtype.kind not in "iu":
        raise IndexError("arrays used as indices must be of integer (or boolean) type")
    return node_of(k.astype(np.intp) if k.dtype == UINT64 else k)  # as NumPy takes them: large ones are negative


def _counting(index: ND) -> Node | None:
    """Indices 0, 1, 2, ... as workers can make them for themselves; None for others, and where there are no workers."""
    n = index.size
    if n < 2 or max(index.shape) != n or not on_workers():
        return None
    flat = index.reshape(-1)
    if flat[0] != 0 or flat[-1] != n - 1 or not np.array_equal(flat, np.arange(n)):
        return None
    count = arange(0, 1, n, index.dtype)
    return view(count, 0, index.shape, np.empty(index.shape, index.dtype).strides, index.dtype)


def ends_of(k: Array) -> ND:
    """An index array's least and greatest: enough to check it by, so that it may stay where it is."""
    if not on_workers() or not k.size:
        forcing.force(k)
        return meta(k)
    signed = k.astype(np.intp) if k.dtype == UINT64 else k
    low, high = signed.min(), signed.max()
    forcing.evaluate([x._cell for x in (k, low, high)])
    return np.array([int(low), int(high)])


def check_bounds(index: ND, shown: ND, axis: int) -> None:
    if axis >= shown.ndim or index.size == 0:
        return
    n = shown.shape[axis]
    if index.dtype == UINT64:
        index = index.astype(np.intp)
    lo, hi = int(index.min()), int(index.max())
    if lo < -n or hi >= n:
        raise IndexError(f"index {hi if hi >= n else lo} is out of bounds for axis {axis} with size {n}")
