"""Shape work. In: an Array. Out: views of its cell where NumPy gives views, copies where NumPy copies.

View functions run NumPy's own function on the array's memory or on its meta array, so shapes, errors and aliasing are
NumPy's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewise.api.dispatch import implements
from tilewise.array import force as forcing
from tilewise.array import record as rec
from tilewise.array.cell import ND, address, root
from tilewise.array.handle import Array, from_buffer, meta, node_of, on_cell
from tilewise.array.indexing import thawed
from tilewise.array.lengths.unsized import turned
from tilewise.array.schedule import policy
from tilewise.ir.order import Order, by_strides, fortran
from tilewise.ops.join import copy as copy_node
from tilewise.ops.reshape import reshape as reshape_node
from tilewise.ops.views import strided


def shown(x: Array, nd: ND) -> Array:
    """A handle on x's cell for a view NumPy made of its memory or meta array."""
    if nd is x._nd or (x._fixed and nd.ndim == 0 and nd.dtype == x.dtype):
        return x
    if x._fixed and nd.ndim:  # what NumPy makes of a scalar is an array of its own
        x = thawed(x)
        seen = strided(meta(x), 0, nd.shape, nd.strides, nd.dtype)
        seen.flags.writeable = nd.flags.writeable
        nd = seen
    y = on_cell(x._cell, nd)
    y._fixed = x._fixed and nd.ndim == 0  # the real part of a number is one
    return y


def arranged(x: Array, view: Callable[[ND], ND]) -> Array:
    """A view with all axes in another order, or with new ones: also of what a mask selects, before that is counted."""
    made = turned(x, view)
    return shown(x, view(meta(x))) if made is None else made


_ARRANGING = frozenset((
    np.transpose, np.permute_dims, np.swapaxes, np.moveaxis, np.rollaxis, np.expand_dims, np.matrix_transpose,
    np.linalg.matrix_transpose,
))  # fmt: skip


def _view(func: Any) -> Any:
    """A recorder that lets NumPy make the view (a tuple or list of them)."""

    @functools.wraps(func)
    def recorder(a: Any, *args: Any, **kwargs: Any) -> Any:
        if type(a) is not Array or (a.ndim == 0 and func is np.flip):
            return NotImplemented  # flip reads an array without axes, which a meta array must not be
        if func in _ARRANGING:
            return arranged(a, lambda nd: func(nd, *rec.unwrap(args), **rec.unwrap(kwargs)))
        made = func(meta(a), *rec.unwrap(args), **rec.unwrap(kwargs))
        if isinstance(made, list | tuple):
            return type(made)(shown(a, m) for m in made)
        return shown(a, made)

    return recorder


for _f in (
    np.transpose, np.permute_dims, np.swapaxes, np.moveaxis, np.rollaxis, np.squeeze, np.expand_dims, np.broadcast_to,
    np.flip, np.fliplr, np.flipud, np.rot90, np.diagonal, np.split, np.array_split, np.hsplit, np.vsplit, np.dsplit,
    np.matrix_transpose, np.linalg.matrix_transpose, np.linalg.diagonal, np.unstack,
):  # fmt: skip
    implements(_f, view=True)(_view(_f))


def _on_metadata(func: Any) -> Any:
    """A recorder for a function that looks at shapes and dtypes only."""

    def recorder(*args: Any, **kwargs: Any) -> Any:
        return func(*(meta(a) if type(a) is Array else a for a in args), **kwargs)

    return recorder


_metadata: tuple[Any, ...] = (
    np.result_type, np.can_cast, np.common_type, np.iscomplexobj, np.isrealobj, np.shape, np.size, np.isfortran,
)  # fmt: skip
for _m in _metadata:
    implements(_m, view=True)(_on_metadata(_m))
implements(np.ndim, view=True)(lambda a: a.ndim if type(a) is Array else _on_metadata(np.ndim)(a))
implements(np.isscalar, view=True)(lambda element: element._fixed)
implements(np.iterable, view=True)(lambda y: y.ndim > 0)


def _atleast(func: Any) -> Any:
    def recorder(*arys: Any) -> Any:
        made = tuple(shown(a, func(meta(a))) if type(a) is Array else rec.at_once(func, (a,), {}) for a in arys)
        return made[0] if len(made) == 1 else made

    return recorder


for _f in (np.atleast_1d, np.atleast_2d, np.atleast_3d):
    implements(_f, view=True)(_atleast(_f))


@implements(np.broadcast_arrays, view=True)
def broadcast_arrays(*args: Any, subok: bool = False) -> Any:
    """The operands in their common shape: views, or themselves where they have it."""
    arrays = [a if type(a) is Array else rec.record_const(a) for a in args]
    shape = np.broadcast_shapes(*(a.shape for a in arrays))
    if shape == ():  # of numbers, too, arrays of no axes
        return tuple(from_buffer(forcing.force(a).copy()) if a._fixed else a for a in arrays)
    return tuple(a if a.shape == shape else shown(a, np.broadcast_to(meta(a), shape)) for a in arrays)


@implements(np.reshape, view=True)
def reshape(
    a: Any, /, shape: Any = np._NoValue, order: str = "C", *, newshape: Any = np._NoValue, copy: bool | None = None
) -> Any:
    """The same elements in another shape: a view where strides allow it."""
    shape = newshape if shape is np._NoValue else shape
    if type(a) is not Array or shape is np._NoValue:
        return NotImplemented
    shape = rec.unwrap(shape)
    if order == "A":
        order = "F" if meta(a).flags.fnc else "C"
    nd = meta(a)
    try:
        if not copy:
            # Whatever shape and order are: NumPy raises its own errors.
            view = np.reshape(nd, shape, order=order, copy=False)  # type: ignore[call-overload]
            if (reshaped := forcing.tracing.get()) is not None:
                reshaped.add(a._cell)
            return shown(a, view)
    except ValueError as error:
        if copy is False or "copy" not in str(error):
            raise
    target = _target(nd, shape)
    if policy.small((a,)):
        return rec.at_once(np.reshape, (a, target), {"order": order, "copy": copy})
    return rec.record(reshape_node(node_of(a), target, order))


def _target(nd: ND, shape: Any) -> tuple[int, ...]:
    """The shape with -1 filled in; NumPy's error if it does not fit."""
    dims = (int(shape),) if np.ndim(shape) == 0 else tuple(int(d) for d in shape)
    unknown = dims.count(-1)
    rest = 1
    for d in dims:
        rest *= d if d != -1 else 1
    if unknown == 1 and rest and nd.size % rest == 0:
        dims = tuple(nd.size // rest if d == -1 else d for d in dims)
    elif unknown or rest != nd.size:
        raise ValueError(f"cannot reshape array of size {nd.size} into shape {str(dims).replace(' ', '')}")
    return dims


@implements(np.lib.stride_tricks.as_strided, view=True)
def as_strided(
    x: Any, shape: Any = None, strides: Any = None, subok: bool = False, writeable: bool = True
) -> Any:  # fmt: skip
    """A window with given strides onto x's memory; NumPy's own may leave the memory, this one raises ValueError."""
    if type(x) is not Array:
        return NotImplemented
    x = thawed(x) if x._fixed else x
    nd, base = meta(x), x._cell.meta()
    dims = nd.shape if shape is None else tuple(rec.unwrap(shape))
    steps = nd.strides if strides is None else tuple(rec.unwrap(strides))
    view = strided(base, address(nd) - address(base), dims, steps, nd.dtype)
    if not writeable:
        view.flags.writeable = False
    return on_cell(x._cell, view)


@implements(np.lib.stride_tricks.sliding_window_view, view=True)
def sliding_window_view(
    x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False
) -> Any:
    """Windows that slide along axes."""
    if type(x) is not Array:
        return NotImplemented
    seen = np.lib.stride_tricks.sliding_window_view(meta(x), rec.unwrap(window_shape), axis=axis)
    return as_strided(x, seen.shape, seen.strides, writeable=writeable)


@implements(np.ravel, view=True)
def ravel(a: Any, order: str = "C") -> Any:
    """One axis; a view where strides allow it."""
    if type(a) is not Array:
        return NotImplemented
    nd = meta(a)
    if order == "K":
        perm = by_strides(nd.shape, nd.strides)
        turned = a if perm is None else shown(a, nd.transpose(perm))
        return reshape(turned, -1, copy=None if meta(turned).flags.c_contiguous else True)
    if order == "A":
        order = "F" if nd.flags.fnc else "C"
    # NumPy's ravel gives contiguous memory: unlike reshape, no view with a step.
    return reshape(a, -1, order, copy=None if nd.flags["F_CONTIGUOUS" if order == "F" else "C_CONTIGUOUS"] else True)


def copy_order(x: Array, order: str) -> Order:
    """The memory order of a copy asked for as C, F, A or K."""
    nd = meta(x)
    if order == "C":
        return None
    if order == "F" or (order == "A" and nd.flags.fnc):
        return fortran(nd.ndim)
    return by_strides(nd.shape, nd.strides) if order == "K" else None


@implements(np.copy)
def copy(a: Any, order: str = "K", subok: bool = False) -> Any:
    """A copy with memory of its own."""
    if type(a) is not Array:
        return NotImplemented
    if order not in ("C", "F", "A", "K"):
        np.empty(0).copy(order=order)  # type: ignore[arg-type]  # raises as NumPy does
        order = order.upper() if isinstance(order, str) else order
    node = node_of(a)
    if not node.known:  # a mask decides how long it is: its order says how it will lie
        last = fortran(node.ndim)
        wanted = {"C": None, "F": last, "A": last if node.order == last else None}.get(order, node.order)
        return rec.record(copy_node(node, wanted))
    return rec.record(copy_node(node, copy_order(a, order)))


def flatten(self: Array, order: str = "C") -> Array:
    """A copy in one axis."""
    x = ravel(self, order)
    return copy_of(x) if root(meta(x)) is root(meta(self)) or x._cell is self._cell else x


def copy_of(x: Array, order: str = "C") -> Array:
    """x.copy()."""
    if policy.small((x,)) or not rec.numeric(x.dtype):
        return rec.wrap_array(forcing.fetch(x).copy(order=order), ())  # type: ignore[arg-type]
    return copy(x, order)  # type: ignore[no-any-return]
