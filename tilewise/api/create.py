"""Making arrays. In: shapes, values, data. Out: Arrays; large constant ones are recorded, not filled."""

from __future__ import annotations

import math
import operator
import sys
from typing import Any

import numpy as np

from tilewise.api.dispatch import call
from tilewise.api.views import copy_of
from tilewise.array import force as forcing
from tilewise.array import record as rec
from tilewise.array.arithmetic import few
from tilewise.array.handle import Array, from_buffer, meta, node_of, on_memory
from tilewise.array.indexing import OBJECT
from tilewise.array.interop.array_like import given
from tilewise.array.interop.foreign import broadcast_copy, broadcasts
from tilewise.array.interop.opened import opened
from tilewise.array.schedule import policy
from tilewise.array.session import on_workers, unlimited_memory
from tilewise.backend import threads
from tilewise.config import LEAST
from tilewise.ir.order import Order, by_strides, fortran
from tilewise.ops.const import const
from tilewise.ops.create import arange as arange_node
from tilewise.ops.create import full as full_node
from tilewise.store import pool

FEW = 1 << 14  # elements of an array that is made before anything is asked
PLAIN = frozenset((np.ndarray, list, tuple, int, float, bool, complex, range))  # types that lie in no file
MOST_PARTS = 4096  # pending arrays that become one: planning takes a few microseconds for each


def _shape(shape: Any) -> tuple[int, ...]:
    if type(shape) is int and shape >= 0:
        return (shape,)
    if type(shape) is tuple:
        for d in shape:
            if type(d) is not int or d < 0:
                break
        else:
            return shape
    shape = rec.unwrap(shape)
    if isinstance(shape, int | np.integer) or (isinstance(shape, np.ndarray) and shape.ndim == 0):
        shape = (shape,)
    out = tuple(operator.index(d) for d in shape)
    if any(d < 0 for d in out):
        raise ValueError("negative dimensions are not allowed")
    return out


def _nbytes(dims: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    """The bytes of an array that is to be made."""
    nbytes = math.prod(dims) * dtype.itemsize
    if nbytes > sys.maxsize:
        np.empty(dims, dtype)  # NumPy's complaint
    return nbytes


def _filled(shape: Any, value: Any, dtype: np.dtype[Any], order: Any) -> Array:
    dims = _shape(shape)
    nbytes = _nbytes(dims, dtype)
    if type(value) is int and value == 0 and order == "C" and nbytes < policy.eager_limit():
        return from_buffer(np.zeros(dims, dtype))
    if nbytes < policy.eager_limit() or not rec.numeric(dtype) or not dims:
        if order in ("C", None) and type(value) is int and value == 0:
            return from_buffer(np.zeros(dims, dtype))
        if not rec.numeric(dtype):  # what 0 and 1 are of texts, dates and structures is NumPy's to say
            value = np.ones((), dtype) if value else np.zeros((), dtype)
        perm = _perm(order, len(dims))
        if dtype.hasobject or perm is None:
            return from_buffer(np.full(dims, value, dtype, order="C" if perm is None else "F"))
        out = pool.empty(dims, dtype, perm)
        out[...] = value
        return from_buffer(out)
    scalar = const(np.asarray(value).astype(dtype)[()])  # type: ignore[arg-type]
    return rec.record(full_node(dims, scalar, _perm(order, len(dims))))


def _perm(order: Any, ndim: int) -> Order:
    """A memory order from NumPy's letter, or as it is."""
    if isinstance(order, str):
        order = order.upper()
        if order not in ("C", "F", "A", "K"):
            raise ValueError(f"order must be one of 'C', 'F', 'A', or 'K' (got '{order}')")
    if order in ("C", "K", "A", None):
        return None
    return fortran(ndim) if order == "F" else order


def zeros(shape: Any, dtype: Any = None, order: str = "C", *, device: Any = None, like: Any = None) -> Array:
    """Zeros.

    >>> import tilewise as tw
    >>> tw.zeros(3)
    Array([0., 0., 0.])
    """
    if type(shape) is int and 0 <= shape < FEW and device is None:
        nd = np.zeros(shape, dtype, order)  # type: ignore[call-overload]
        if nd.nbytes < LEAST.eager_bytes:
            return from_buffer(nd)
    _device(device)
    return _filled(shape, 0, rec.dtype_of(dtype), order)


def ones(shape: Any, dtype: Any = None, order: str = "C", *, device: Any = None, like: Any = None) -> Array:
    """Ones.

    >>> import tilewise as tw
    >>> tw.ones(2, dtype="int32")
    Array([1, 1], dtype=int32)
    """
    _device(device)
    return _filled(shape, 1, rec.dtype_of(float if dtype is None else dtype), order)


def full(
    shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", *, device: Any = None, like: Any = None
) -> Array:
    """One value everywhere.

    >>> import tilewise as tw
    >>> tw.full((2, 2), 7)
    Array([[7, 7],
           [7, 7]])
    """
    _device(device)
    value = rec.unwrap(fill_value)
    d = rec.dtype_of(dtype) if dtype is not None else np.asarray(value).dtype
    if np.ndim(value) or not rec.numeric(d):
        return from_buffer(np.full(_shape(shape), value, dtype, order=order))  # type: ignore[call-overload]
    if d.kind in "iu" and isinstance(value, int):
        value = d.type(value)  # NumPy's OverflowError, at the call
    return _filled(shape, value, d, order)


def empty(shape: Any, dtype: Any = None, order: str = "C", *, device: Any = None, like: Any = None) -> Array:
    """Memory as it comes.

    >>> import tilewise as tw
    >>> tw.empty((2, 0)).shape
    (2, 0)
    """
    _device(device)
    dims, d = _shape(shape), rec.dtype_of(dtype)
    if d.hasobject or not d.itemsize:  # strings of no length have one character
        return from_buffer(np.empty(dims, d, "F" if order == "F" else "C"))
    if _nbytes(dims, d) >= policy.eager_limit() and (on_workers() or not unlimited_memory()):
        return _filled(dims, 0, d, order)  # where and when it is wanted, not here and as a whole
    return from_buffer(pool.empty(dims, d, _perm(order, len(dims))))


def _like(maker: Any) -> Any:
    quick = getattr(np, f"{maker.__name__}_like")

    def like(
        a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None
    ) -> Array:
        nd = few(a)
        if nd is not None and dtype is None and order == "K" and shape is None and device is None:
            return from_buffer(quick(nd))
        if subok and rec.peculiar(a):
            return rec.at_once(quick, (a, dtype, order, subok, shape), {"device": device})  # type: ignore[no-any-return]
        x = a if type(a) is Array else rec.record_const(a)
        d = x.dtype if dtype is None else rec.dtype_of(dtype)
        dims = x.shape if shape is None else _shape(shape)
        return maker(dims, d, _order_like(x, dims, order))  # type: ignore[no-any-return]

    like.__name__ = f"{maker.__name__}_like"
    like.__doc__ = f"""As `{maker.__name__}`, with another array's shape, dtype and memory order.

    >>> import tilewise as tw
    >>> tw.{maker.__name__}_like(tw.arange(3, dtype="int8")).dtype
    dtype('int8')
    """
    return like


def _order_like(x: Array, dims: tuple[int, ...], order: str) -> Any:
    """The memory order of an array made like x."""
    flags = meta(x).flags
    if order == "F" or (flags.fnc and (order == "A" or (order == "K" and len(dims) == x.ndim))):
        return "F"
    if order == "K" and len(dims) == x.ndim:
        return by_strides(x.shape, x.strides) or "C"
    return "C"


zeros_like = _like(zeros)
ones_like = _like(ones)
empty_like = _like(empty)


def full_like(
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    device: Any = None,
) -> Array:
    """One value, in another array's shape and dtype.

    >>> import tilewise as tw
    >>> tw.full_like(tw.arange(3), 5)
    Array([5, 5, 5])
    """
    if subok and rec.peculiar(a):
        like = (a, fill_value, dtype, order, subok, shape)
        return rec.at_once(np.full_like, like, {"device": device})  # type: ignore[no-any-return]
    x = a if type(a) is Array else rec.record_const(a)
    d = x.dtype if dtype is None else rec.dtype_of(dtype)
    value = rec.unwrap(fill_value)
    dims = x.shape if shape is None else _shape(shape)
    if np.ndim(value):
        return from_buffer(np.full(dims, value, d))
    return full(dims, value, d, _order_like(x, dims, order))


def arange(*args: Any, dtype: Any = None, device: Any = None, like: Any = None, **bounds: Any) -> Array:
    """Evenly spaced values from start to stop.

    >>> import tilewise as tw
    >>> tw.arange(2, 11, 3)
    Array([2, 5, 8])
    """
    alone = dtype is device is like is None and not bounds and len(args) == 1 and type(args[0]) is int
    if alone and (args[0] * 8 < LEAST.eager_bytes or args[0] * 8 < policy.eager_limit()):
        return from_buffer(np.arange(args[0]))  # most calls of most programs
    _device(device)
    plain = rec.unwrap(args)
    plain = tuple(p[()] if isinstance(p, np.ndarray) and p.ndim == 0 else p for p in plain)
    bounds = rec.unwrap(bounds)
    if len(plain) == 4 and dtype is None:
        *plain, dtype = plain
    if bounds or len(plain) not in (1, 2, 3):
        return from_buffer(np.arange(*plain, dtype=dtype, **bounds))
    start, stop, step = (0, plain[0], 1) if len(plain) == 1 else (*plain, 1) if len(plain) == 2 else plain
    parts = [np.asarray(p) for p in plain]
    if any(p.dtype.kind not in "biuf" for p in parts) or not step:  # dates, …
        return from_buffer(np.arange(*plain, dtype=dtype))
    kind = np.dtype(dtype) if dtype is not None else np.result_type(np.int_, *parts)
    if kind.char not in "bhilqdf":
        return from_buffer(np.arange(*plain, dtype=dtype))
    steps = (stop - start) / step
    if not math.isfinite(steps):
        return from_buffer(np.arange(*plain, dtype=dtype))  # NumPy's complaint
    length = max(math.ceil(steps), 0)
    if length * kind.itemsize < policy.eager_limit() or length < 2:
        return from_buffer(np.arange(*plain, dtype=dtype))
    first, second = kind.type(start), kind.type(start + step)
    if kind.kind == "i" and not isinstance(step, int | np.integer):
        return from_buffer(np.arange(*plain, dtype=dtype))
    return rec.record(arange_node(first.item(), second.item(), length, kind))


def array(
    object: Any,
    dtype: Any = None,
    *,
    copy: Any = True,
    order: str = "K",
    subok: bool = False,
    ndmin: int = 0,
    ndmax: int | None = None,
    like: Any = None,
) -> Array:
    """An array from data; always a copy of what it is given, unless that is an Array and copy is not asked for.

    >>> import tilewise as tw
    >>> tw.array([[1, 2], [3, 4]])
    Array([[1, 2],
           [3, 4]])
    """
    if copy is not True and copy is not None and copy is not False:
        copy = _copying(copy)
    if type(object) is Array and ndmax is None:
        x: Array = object
        if dtype is not None and rec.dtype_of(dtype) != x.dtype:
            if copy is False:
                raise ValueError("Unable to avoid copy while creating an array as requested.")
            x = x.astype(dtype, order=order)
        elif copy or x._fixed:
            x = copy_of(x, order)
            x = from_buffer(meta(x)) if x._fixed else x
        while x.ndim < ndmin:
            x = x[None]
        return x
    if type(object) not in PLAIN and (found := opened(object)) is not None:
        return array(found, dtype, copy=copy if dtype is not None else None, order=order, ndmin=ndmin)
    if dtype is None and copy and not ndmin and ndmax is None and order in ("K", "C") and _siblings(object):
        return call(np.stack, (object,), {})  # type: ignore[no-any-return]
    large = isinstance(object, np.ndarray) and not object.dtype.hasobject and object.nbytes >= policy.eager_limit() > 0
    if large and ndmax is None and (dtype is None or rec.dtype_of(dtype) == object.dtype):
        return _snapshot(object, order, ndmin)
    if copy is False and not isinstance(object, np.ndarray):
        raise ValueError("Unable to avoid copy while creating an array as requested.")
    plain = type(object) is np.ndarray
    data = object if plain else rec.elements(object, dtype is not None and rec.dtype_of(dtype) == OBJECT)
    more = {} if ndmax is None else {"ndmax": ndmax}  # before NumPy 2.4 there is none
    try:
        made = np.array(data, dtype, copy=True, order=order, ndmin=ndmin, **more)  # type: ignore[call-overload]  # any str
    except ValueError as error:
        (object,) = given(error, (object,))
        return array(object, dtype, copy=copy, order=order, ndmin=ndmin, ndmax=ndmax)
    return from_buffer(made)


def _copying(copy: Any) -> bool | None:
    """What NumPy takes for `copy=` besides True, False and None."""
    if isinstance(copy, str):
        raise ValueError("strings are not allowed for 'copy' keyword. Use True/False/None instead.")
    modes: Any = np._CopyMode
    if isinstance(copy, modes):
        return None if copy is modes.IF_NEEDED else copy is modes.ALWAYS
    return bool(copy)


def _siblings(parts: Any) -> bool:
    """Whether these are Arrays of one shape, some of them pending: together they are one recorded array."""
    if type(parts) not in (list, tuple) or not 1 < len(parts) <= MOST_PARTS:
        return False
    if not all(type(p) is Array for p in parts) or all(p._cell.node is None for p in parts):
        return False
    nodes = [node_of(p) for p in parts]
    return all(n.known and n.shape == nodes[0].shape and rec.numeric(n.dtype) for n in nodes)


def _snapshot(nd: Any, order: str, ndmin: int) -> Array:
    plain = np.asarray(nd)
    perm = None
    if order == "F" or (order in "KA" and plain.flags.fnc):
        perm = fortran(plain.ndim)
    elif order == "K" and not plain.flags.forc:
        return from_buffer(np.array(plain, order="K", ndmin=ndmin))
    out = pool.empty(plain.shape, plain.dtype, perm)
    threads.parallel_copy(out, plain)
    x = from_buffer(out)
    while x.ndim < ndmin:
        x = x[None]
    return x


def asarray(
    a: Any, dtype: Any = None, order: Any = None, *, device: Any = None, copy: Any = None, like: Any = None
) -> Array:
    """The Array itself, or a snapshot of other data (later changes of that data are not seen).

    >>> import tilewise as tw
    >>> tw.asarray([1.0, 2.0]) + 1
    Array([2., 3.])
    """
    _device(device)
    if type(a) is Array:
        if a._fixed:
            a = from_buffer(forcing.force(a).copy())
        if order in ("C", "F") and (laid := forcing.tracing.get()) is not None:
            laid.add(a._cell)
        if order in ("C", "F") and not (meta(a).flags.c_contiguous if order == "C" else meta(a).flags.f_contiguous):
            if copy is False:
                raise ValueError("Unable to avoid copy while creating an array as requested.")
            copy = True
        return array(a, dtype, copy=copy, order=order or "K")
    if type(a) is np.ndarray and not a.flags.writeable and broadcasts(a) and (dtype is None or dtype == a.dtype):
        return array(a, order=order or "K") if copy or order in ("C", "F") else broadcast_copy(a)
    return array(a, dtype, order=order or "K")


def asanyarray(
    a: Any, dtype: Any = None, order: Any = None, *, device: Any = None, copy: Any = None, like: Any = None
) -> Array:
    """As asarray.

    >>> import tilewise as tw
    >>> tw.asanyarray([1, 2])
    Array([1, 2])
    """
    return asarray(a, dtype, order, device=device, copy=copy)


def ascontiguousarray(a: Any, dtype: Any = None, *, like: Any = None) -> Array:
    """In C order, with at least one axis.

    >>> import tilewise as tw
    >>> tw.ascontiguousarray(tw.ones((2, 3)).T).flags.c_contiguous
    True
    """
    x = asarray(a, dtype, "C")
    return x if x.ndim else x[None]


def asfortranarray(a: Any, dtype: Any = None, *, like: Any = None) -> Array:
    """In Fortran order, with at least one axis.

    >>> import tilewise as tw
    >>> tw.asfortranarray(tw.ones((2, 3))).flags.f_contiguous
    True
    """
    x = asarray(a, dtype, "F")
    return x if x.ndim else x[None]


def eye(
    N: Any, M: Any = None, k: Any = 0, dtype: Any = float, order: str = "C", *, device: Any = None, like: Any = None
) -> Array:
    """Ones on a diagonal, zeros elsewhere.

    >>> import tilewise as tw
    >>> tw.eye(2, 3, k=1)
    Array([[0., 1., 0.],
           [0., 0., 1.]])
    """
    plain = type(N) is int is type(k) and M is device is like is None and k == 0 and dtype is float and order == "C"
    if plain and LEAST.eager_bytes > 8 * N * N:  # most calls of most programs
        made = np.zeros((N, N))
        made.reshape(-1)[:: N + 1] = 1.0
        return from_buffer(made)
    _device(device)
    N, M, k = (rec.unwrap(v) for v in (N, M, k))
    (n, m), d = _shape((operator.index(N), operator.index(N if M is None else M))), rec.dtype_of(dtype)
    if n * m * d.itemsize < policy.eager_limit() or not rec.numeric(d) or _perm(order, 2) is not None:
        return from_buffer(np.eye(n, m, k, d, order))  # type: ignore[call-overload]
    return (arange(n)[:, None] + operator.index(k) == arange(m)).astype(d)  # type: ignore[no-any-return]


def identity(n: Any, dtype: Any = None, *, like: Any = None) -> Array:
    """Ones on the diagonal of a square.

    >>> import tilewise as tw
    >>> tw.identity(2, dtype=int)
    Array([[1, 0],
           [0, 1]])
    """
    return eye(n, dtype=float if dtype is None else dtype)


def tri(N: Any, M: Any = None, k: Any = 0, dtype: Any = float, *, like: Any = None) -> Array:
    """Ones on and below a diagonal.

    >>> import tilewise as tw
    >>> tw.tri(2, 3, dtype=int)
    Array([[1, 0, 0],
           [1, 1, 0]])
    """
    N, M, k = (rec.unwrap(v) for v in (N, M, k))
    d = rec.dtype_of(dtype)
    shape = N, N if M is None else M
    if (
        not all(isinstance(v, int) for v in (*shape, k))
        or math.prod(shape) * d.itemsize < policy.eager_limit()
        or not rec.numeric(d)
    ):
        return from_buffer(np.tri(N, M, k, d))
    return (arange(shape[0])[:, None] + k >= arange(shape[1])).astype(d)  # type: ignore[no-any-return]


def from_dlpack(x: Any, /, *, device: Any = None, copy: Any = None) -> Array:
    """A snapshot of another library's array (later changes of that array are not seen).

    >>> import numpy, tilewise as tw
    >>> tw.from_dlpack(numpy.arange(3))
    Array([0, 1, 2])
    """
    return x if type(x) is Array and not copy else array(np.from_dlpack(x, device=device, copy=copy))


def frombuffer(buffer: Any, dtype: Any = float, count: int = -1, offset: int = 0, *, like: Any = None) -> Array:
    """A buffer's bytes as numbers: a view of an Array, a snapshot, or NumPy's array on memory that can be written.

    >>> import tilewise as tw
    >>> tw.frombuffer(b"abc", dtype="uint8")
    Array([97, 98, 99], dtype=uint8)
    """
    made = np.frombuffer(buffer, dtype, count, offset)
    if type(buffer) is Array and not made.dtype.hasobject:
        return Array(made.shape, made.dtype, buffer, offset)
    return on_memory(made)  # type: ignore[no-any-return]


def _device(device: Any) -> None:
    if device not in (None, "cpu"):
        raise ValueError(f'Device not understood. Only "cpu" is allowed, but received: {device}')
