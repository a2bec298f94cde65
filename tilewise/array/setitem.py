"""Writing at a key: `x[key] = value`. In: a key as NumPy takes it, a value. Out: nothing; the cell has a new value.

At once if little is touched and all is known; else a recorded update (basic keys), `where` (a mask and a number) or Put
(index arrays). Reading at a key is in indexing.py.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from tilewise.array import force as forcing
from tilewise.array import record as rec
from tilewise.array.assign import assign, check_writable, fits, store, value_shown
from tilewise.array.cell import LOCK, ND
from tilewise.array.chains.chain import chain_of, chains, settle, settle_stored
from tilewise.array.chains.chain import put as put_chain
from tilewise.array.handle import NUMBER, Array, from_buffer, meta, node_of, on_cell, window_of
from tilewise.array.indexing import (
    BASIC_TYPES,
    OBJECT,
    bad,
    check_bounds,
    ends_of,
    gather_shape,
    in_base,
    index_at_hand,
    index_node,
    indices_at_hand,
    is_basic,
    is_mask,
    plain_key,
    show,
    touches_little,
)
from tilewise.array.interop.array_like import given
from tilewise.array.interop.float_warnings import real_part
from tilewise.array.pending import register
from tilewise.array.reuse import TEMPORARY
from tilewise.array.schedule import policy, sites
from tilewise.config import LEAST, current
from tilewise.ir.node import Node, intern
from tilewise.ops.const import const
from tilewise.ops.elementwise import apply, cast
from tilewise.ops.index import Put, counted
from tilewise.ops.views import Window


def setitem(self: Array, key: Any, value: Any, depth: int = 1) -> None:
    """self[key] = value. `depth`: how many frames up the statement is."""
    cell = self._cell
    if cell.node is None and self._gen == cell.gen and not self._fixed:
        t = type(key)
        if t is tuple:
            if len(key) == 2:  # most keys of most programs: a loop costs more
                i, j = key
                if (type(i) is int or type(i) in BASIC_TYPES) and (type(j) is int or type(j) in BASIC_TYPES):
                    t = int
            else:
                for k in key:
                    if type(k) not in BASIC_TYPES:
                        break
                else:
                    t = int
        if t is int or t is slice:
            v = value
            t = type(v)
            if t is Array:
                c = value._cell
                if c is NUMBER:
                    v = value._nd
                elif chain_of(value) is not None:
                    alone = sys.getrefcount(value) < TEMPORARY + 1 + depth  # `v`, and each frame
                    try:
                        r = self._nd[key]  # type: ignore[index]
                    except IndexError:
                        settle(value)  # it may have something to tell, too
                        raise
                    alone = alone and type(r) is np.ndarray
                    if not (alone and put_chain(on_cell(cell, r), value, sys._getframe(depth))):
                        settle_stored(value)
                        setitem(self, key, value)
                    return
                elif c.node is not None or self._nd.dtype is OBJECT:  # type: ignore[union-attr]
                    v = None
                else:
                    v = value._nd if value._gen == c.gen else meta(value)
                    if chains.unproved is not None:
                        chains.prove(sys._getframe(depth))
                    if v.dtype is not self._nd.dtype:  # type: ignore[union-attr]
                        v = real_part(v, self._nd.dtype)  # type: ignore[union-attr]
                    if value._fixed:
                        v = v[()]  # NumPy's conversion of a number, and its complaint
            elif t is list or t is tuple:  # may hold Arrays
                v = None
            if v is not None and ((cell.leaf is None and cell.exports is None) or cell.free_to_write()):
                nd: ND = self._nd  # type: ignore[assignment]
                if nd.nbytes < LEAST.eager_bytes or _few(nd, key):
                    try:
                        nd[key] = v
                    except ValueError as refusal:
                        nd[key] = forcing.fetch(*given(refusal, (value,)))
                    return
        elif t is Array or t is tuple:
            index = index_at_hand(self._nd, key) if t is Array else indices_at_hand(self._nd, key)
            v = policy.known(value) if type(value) is Array else value if np.isscalar(value) else None
            if index is not None and v is not None and cell.free_to_write():
                self._nd[index] = v  # type: ignore[index]
                return
    check_writable(self)
    settle_stored(value)
    settle(self)
    key = plain_key(key)
    if not rec.numeric(self.dtype):
        _put_now(self, key, value)  # what becomes of lists and arrays in an element is NumPy's to say
        return
    if is_basic(key):
        shown = meta(self)
        r = show(shown, key)
        if r is None:
            r = _point(shown, key)
            if isinstance(value, list | tuple | np.ndarray):
                one = np.zeros(1, shown.dtype)
                one[0] = rec.unwrap(value)  # NumPy's conversion, and its complaint
                value = one[0]
            elif type(value) is Array and value.ndim and shown.dtype.kind != "b":
                error = TypeError if shown.dtype.kind == "c" else ValueError
                raise error("setting an array element with a sequence.")
        if isinstance(value, list | tuple):
            value = np.asarray(rec.unwrap(value), shown.dtype)
        assign(on_cell(self._cell, r), value)
        return
    put(self, key, value)


Array.__setitem__ = setitem


def _few(nd: ND, key: Any) -> bool:
    """Whether a basic key names few bytes."""
    limit = current().eager_bytes
    return nd.nbytes < limit or getattr(nd[key], "nbytes", 0) < limit  # an object may have none


def _point(shown: ND, key: Any) -> ND:
    """A 0-d view of one element."""
    parts = key if type(key) is tuple else (key,)
    if len(parts) != shown.ndim or any(not -n <= k < n for k, n in zip(parts, shown.shape, strict=True)):
        bad(shown, key)
    return shown[(*parts, Ellipsis)]


def put(x: Array, key: Any, value: Any) -> None:
    """x[key] = value with index arrays or masks."""
    arrays: list[Array] = [x]
    rec.find_arrays(key if type(key) is tuple else (key,), arrays)
    if type(value) is Array:
        arrays.append(value)
    now = all(policy.known(a) is not None for a in arrays) and touches_little(x, key)
    odd = type(value) is not Array and not rec.numeric(np.asarray(rec.unwrap(value)).dtype)  # None, huge integers, …
    if now or odd:
        _put_now(x, key, value)
        return
    if policy.settle(x):
        put(x, key, value)
        return
    if is_mask(key) and _fill_where(x, key, value):
        return
    _put_recorded(x, key, value)


def _put_now(x: Array, key: Any, value: Any) -> None:
    with LOCK:
        v = rec.elements(value, True) if x.dtype == OBJECT else rec.unwrap(value)
        k = rec.unwrap(key)
        forcing.force(x)
        x._cell.own()
        meta(x)[k] = v


def _fill_where(x: Array, mask: Any, value: Any) -> bool:
    """x[mask] = scalar is elementwise: where(mask, scalar, x)."""
    if np.ndim(value) != 0 if type(value) is not Array else value.ndim != 0:
        return False
    m = mask if type(mask) is Array else rec.record_const(mask)
    if meta(m).shape != meta(x).shape or not meta(m).shape:
        return False
    node = rec.as_node(value)
    if type(value) is not Array and rec.numeric(node.dtype) and (node.dtype.kind != "c" or x.dtype.kind == "c"):
        one = np.zeros(1, x.dtype)
        one[np.ones(1, bool)] = value  # NumPy's conversion of a number, and its complaint
        node = const(one[0])
    if not rec.numeric(node.dtype) or (node.dtype.kind == "c" and x.dtype.kind != "c"):
        return False
    d = x.dtype
    store(x, apply("where", (node_of(m), cast(node, d), node_of(x)), (np.dtype(bool), d, d, d)))
    return True


def _put_recorded(x: Array, key: Any, value: Any) -> None:
    parts = key if type(key) is tuple else (key,)
    spec: list[Any] = []
    arrays: list[Node] = []
    bounds: list[tuple[Any, int]] = []  # index arrays, and the axes they index
    shown = meta(x)
    axis = 0
    used = sum(1 for k in parts if k is not None and k is not Ellipsis)
    for k in parts:
        if isinstance(k, bool):  # a mask without axes
            _put_now(x, key, value)
            return
        if k is None or k is Ellipsis or isinstance(k, int | np.integer):
            spec.append(int(k) if isinstance(k, int | np.integer) else k)
            axis += 0 if k is None else shown.ndim - used if k is Ellipsis else 1
        elif isinstance(k, slice):
            spec.append(("s", k.start, k.stop, k.step))
            axis += 1
        else:
            mask = is_mask(k) or (type(k) is not Array and np.asarray(rec.unwrap(k)).dtype == np.bool_)
            look: Any = k
            if type(k) is Array and not mask:
                look = ends_of(k)  # its bounds are looked at now: a write that fails must leave x as it is
                if k._cell is x._cell:  # of places that are named twice, the last in C order counts: NumPy copies it
                    forcing.force(k)
                    k = from_buffer(np.array(meta(k), order="C"))
            node = rec.as_node(k) if mask else index_node(k)
            if node is None or (mask and node.shape == ()):
                _put_now(x, key, value)
                return
            if not mask:
                bounds.append((look, axis))
            spec.append(("a", len(arrays)))
            arrays.append(node)
            axis += len(node.shape) if mask else 1
    source = rec.as_node(value)
    if not rec.numeric(source.dtype) or (source.dtype.kind == "c" and x.dtype.kind != "c"):
        _put_now(x, key, value)
        return
    if source.shape == () and type(value) is not Array:
        one = np.zeros(1, x.dtype)
        one[[0]] = value  # NumPy's conversion of a number, and its complaint
        source = const(one[0])
    try:
        _check_put(shown, spec, arrays, source)
    except _Undecided:
        _put_now(x, key, value)
        return
    if bounds and 0 in np.broadcast_shapes(*(a.dims for a in arrays)):
        bounds = []  # NumPy does not look at indices that select nothing
    for k, axis in bounds:
        check_bounds(np.asarray(rec.unwrap(k)), shown, axis)
    with LOCK:
        window: Window | None
        shifted = in_base(x, spec, arrays)
        shown_value = value_shown(x) if shifted is None else None
        if shown_value is not None:
            v = shown_value
            store(x, intern(Put(tuple(spec), None), (v, source, *arrays), v.shape, v.dtype, v.order))
            return
        window = window_of(x) if shifted is None else None
        spec, arrays = (spec, arrays) if shifted is None else (list(shifted[0]), shifted[1])
        base = x._cell.read()
        new = intern(Put(tuple(spec), window), (base, source, *arrays), base.shape, base.dtype, base.order)
        sites.note_site(new)
        x._cell.record(new)
        register(x._cell)


class _Undecided(Exception):
    """Whether the value fits depends on data."""


def _check_put(shown: ND, spec: list[Any], arrays: list[Node], source: Node) -> None:
    """Raise NumPy's error now if the value cannot fit, where that can be known now."""
    if any(a.dtype == np.bool_ for a in arrays) or not source.known or not all(a.known for a in arrays):
        first = source.shape[0] if source.shape else None
        if (
            len(arrays) == 1 == len(spec)
            and getattr(first, "mask", None) is arrays[0]
            and source.shape[1:] == shown.shape[arrays[0].ndim :]
        ):
            return
        known = counted(arrays[0]) if len(arrays) == 1 == len(spec) else None
        if known is not None and source.known and source.dims == (known, *shown.shape[arrays[0].ndim :]):
            return
        raise _Undecided
    probe = [
        slice(*p[1:])
        if isinstance(p, tuple) and p[0] == "s"
        else np.zeros((1,) * arrays[p[1]].ndim, np.intp)
        if isinstance(p, tuple)
        else p
        for p in spec
    ]
    shape = gather_shape(shown.shape, probe, [a.shape for a in arrays])
    if not fits(source.shape, shape):
        raise _Undecided  # NumPy complains, or finds that nothing is written
