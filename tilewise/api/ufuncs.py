"""Ufuncs as objects: calling, reduce, accumulate, outer, at, reduceat. In: NumPy's ufunc. Out: ours, for Arrays."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from tilewise.api.dispatch import signature_of
from tilewise.api.reductions import reduce_ufunc, scan_ufunc, segment_ufunc
from tilewise.api.scatter import add_at
from tilewise.array import force as forcing
from tilewise.array import record as rec
from tilewise.array.arithmetic import (
    ND,
    NUMBERS,
    PLAIN,
    CannotRecord,
    binary,
    few,
    strict_errors,
    ufunc_node,
)
from tilewise.array.assign import store
from tilewise.array.cell import LOCK
from tilewise.array.elementwise_call import ElementwiseCall
from tilewise.array.fallback import fallback
from tilewise.array.handle import NUMBER, Array, from_buffer, from_number, meta, node_of
from tilewise.array.interop.float_warnings import users_frame, warn_at
from tilewise.array.operators import BACKWARD, MOST_BYTES
from tilewise.array.schedule import policy
from tilewise.config import LEAST, current
from tilewise.ir.node import Node
from tilewise.ir.scalar import scalar
from tilewise.ops.const import const
from tilewise.ops.elementwise import UnknownLength, apply, broadcast, cast


class _Ufuncs(type):
    """NumPy's own ufuncs, and those of libraries, are ufuncs to programs that ask."""

    def __instancecheck__(cls, thing: Any) -> bool:
        return isinstance(thing, np.ufunc) or type.__instancecheck__(cls, thing)


class ufunc(ElementwiseCall, metaclass=_Ufuncs):
    """An elementwise function with NumPy's options.

    >>> import tilewise as tw
    >>> tw.add.reduce(tw.arange(5))
    np.int64(10)
    >>> tw.multiply.outer(tw.arange(3), tw.arange(2))
    Array([[0, 0],
           [0, 1],
           [0, 2]])
    """

    def __init__(self, numpy: np.ufunc) -> None:
        super().__init__(numpy)
        self.__name__ = numpy.__name__
        self.__doc__ = numpy.__doc__

    def __repr__(self) -> str:
        return f"<ufunc '{self.__name__}'>"

    def __getattr__(self, name: str) -> Any:
        if name == "__signature__" and (called := signature_of(self.numpy)) is not None:
            return called  # for `help` and editors
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.numpy, name)  # nin, nout, nargs, types, identity, signature

    def __eq__(self, other: object) -> bool:
        """A class's `__array_ufunc__` is handed NumPy's: the two are one to who compares them or looks them up."""
        return self is other or self.numpy is other

    def __hash__(self) -> int:
        return hash(self.numpy)

    def __reduce__(self) -> Any:
        return (wrapped, (self.__name__,))

    def _with_options(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return general(self.numpy, args, kwargs)

    def reduce(
        self,
        array: Any,
        axis: Any = 0,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = np._NoValue,
        where: Any = True,
    ) -> Any:
        """Reduce axes with this function."""
        return reduce_ufunc(self.numpy, array, axis, dtype, out, keepdims, initial, where)

    def accumulate(self, array: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        """Running reduction along an axis."""
        nd = few(array)
        if nd is not None and type(axis) is int and dtype is None and out is None:
            return from_buffer(self.numpy.accumulate(nd, axis))
        return scan_ufunc(self.numpy, array, axis, dtype, out)

    def outer(self, a: Any, b: Any, /, **kwargs: Any) -> Any:
        """The function on all pairs."""
        x, y = few(a), few(b)
        if x is not None and y is not None and not kwargs and x.nbytes * y.nbytes < LEAST.eager_bytes:
            return rec.wrap(self.numpy.outer(x, y))
        x, y = (v if type(v) is Array and not v._fixed else rec.as_array(rec.unwrap(v)) for v in (a, b))
        arrays: list[Array] = [v for v in (x, y) if type(v) is Array]
        rec.find_arrays(kwargs.values(), arrays)
        if (
            not arrays
            or rec.peculiar(a)
            or rec.peculiar(b)
            or self.numpy.nin != 2
            or self.numpy.nout != 1
            or (policy.small(arrays, x.size * y.size * 8) and "out" not in kwargs)
        ):
            return rec.at_once(self.numpy.outer, (a, b), kwargs)
        return self(x[(..., *([None] * y.ndim))], y, **kwargs)

    def at(self, a: Any, indices: Any, b: Any = None, /) -> None:
        """Unbuffered in-place operation at index arrays (repeated indices count each time)."""
        if type(a) is not Array:
            self.numpy.at(*rec.unwrap((a, indices) if b is None else (a, indices, b)))
        elif not add_at(self.numpy, a, indices, b):
            with LOCK:
                plain = rec.unwrap((indices,) if b is None else (indices, b))
                forcing.force(a)
                a._cell.own()  # also where writing is forbidden: NumPy's `at` does not look
                self.numpy.at(meta(a)[()] if a._fixed else meta(a), *plain)

    def reduceat(self, array: Any, indices: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        """Reduce slices that indices name."""
        return segment_ufunc(self.numpy, array, indices, axis, dtype, out)


def general(f: np.ufunc, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A ufunc call with any of NumPy's options."""
    ins, outs = args[: f.nin], list(args[f.nin :])
    kwargs = {k: v for k, v in kwargs.items() if v is not np._NoValue}
    said = "out" in kwargs  # None says that nobody minds what is where no result is
    given = kwargs.pop("out", None)
    each = given if type(given) is tuple else ()
    if len(ins) < f.nin or len(outs) > f.nout or (outs and given is not None) or _holds_ellipsis((*outs, *each)):
        more = {} if given is None else {"out": rec.unwrap(given)}
        return f(*rec.unwrap(args), **rec.unwrap(kwargs), **more)  # NumPy's own complaint
    keep = given is Ellipsis  # results are arrays, not numbers
    mask = kwargs.get("where", True)
    if mask is not True and not outs and not said and _WHERE_NEEDS_OUT and not any(map(_decides, (mask, *ins))):
        user = users_frame(sys._getframe())
        warn_at((user.f_code.co_filename, user.f_lineno), user.f_globals, _WHERE_NEEDS_OUT, UserWarning)
    if given is not None and not keep:
        if type(given) is not tuple and f.nout > 1:
            raise TypeError("'out' must be a tuple of arrays")
        outs = list(given) if type(given) is tuple else [given]
    if type(given) is not tuple:
        outs += [None] * (f.nout - len(outs))
    arrays: list[Array] = []
    rec.find_arrays((*ins, *outs, kwargs.get("where")), arrays)
    recordable = len(outs) == f.nout and all(o is None or (type(o) is Array and not o._fixed) for o in outs)
    recordable = recordable and not set(kwargs) - {"dtype", "where", "casting", "subok"} and not strict_errors()
    recordable = recordable and not _decides(mask) and not rec.peculiar(mask)
    if recordable and arrays and not policy.small(arrays) and all(rec.numeric(x.dtype) for x in arrays):
        try:
            return _record(f, ins, outs, keep, **kwargs)
        except (CannotRecord, UnknownLength, TypeError, ValueError, OverflowError):
            pass  # NumPy does it, or says what is wrong
    return _now(f, ins, outs, kwargs, keep)


_WHERE_NEEDS_OUT = (  # as NumPy says it
    "'where' used without 'out', expect unitialized memory in output. If this is intentional, use out=None."
    if np.lib.NumpyVersion(np.__version__) >= "2.4.0"
    else ""
)


def _decides(x: Any) -> bool:
    """Whether an object's class says what ufuncs do with it."""
    return type(x) is not Array and getattr(type(x), "__array_ufunc__", None) not in (None, np.ndarray.__array_ufunc__)


def _holds_ellipsis(outs: tuple[Any, ...]) -> bool:
    return any(o is Ellipsis for o in outs)


def _record(
    f: np.ufunc, ins: tuple[Any, ...], outs: list[Any], keep: bool, dtype: Any = None, where: Any = True,
    casting: Any = "same_kind", subok: bool = True,
) -> Any:  # fmt: skip
    for o in outs:
        if o is not None:
            policy.settle(o)
    values = [ufunc_node(f, ins, k, dtype, casting) for k in range(f.nout)]
    if isinstance(where, np.ndarray | Array) and where.dtype != BOOL:  # NumPy casts lists and numbers only
        raise CannotRecord
    mask = None if where is True else cast(rec.as_node(where), BOOL)
    nodes = [_fitting(v, o, mask, casting) for v, o in zip(values, outs, strict=True)]
    results = []
    for node, o in zip(nodes, outs, strict=True):
        if o is not None:
            store(o, node)
        results.append(rec.record(node, fixed=not node.shape and not keep) if o is None else o)
    return results[0] if f.nout == 1 else tuple(results)


BOOL = np.dtype(bool)


def _fitting(value: Node, out: Array | None, mask: Node | None, casting: Any) -> Node:
    """What an output becomes: the value, or where(mask, value, out). Raises where NumPy must say what is wrong."""
    if out is not None:
        shape, d = meta(out).shape, out.dtype
        parts = [value.shape, shape] if mask is None else [value.shape, shape, mask.shape]
        if not meta(out).flags.writeable or not value.known or broadcast(parts) != shape:
            raise CannotRecord
        if not np.can_cast(value.dtype, d, casting):
            raise CannotRecord
    if mask is None:
        return value
    d = value.dtype if out is None else out.dtype
    rest = const(d.type(0)) if out is None else node_of(out)  # without out, NumPy leaves what memory held
    return apply("where", (mask, cast(value, d), rest), (BOOL, d, d, d))


def _now(f: np.ufunc, ins: tuple[Any, ...], outs: list[Any], kwargs: dict[str, Any], keep: bool = False) -> Any:
    """At once, by NumPy, outputs made private first."""
    with LOCK:
        plain = rec.unwrap(tuple(ins))
        more = rec.unwrap(kwargs)
        for o in outs:
            if type(o) is Array:
                if o._fixed:
                    raise TypeError("return arrays must be of ArrayType")
                forcing.force(o)
                if meta(o).flags.writeable:
                    o._cell.own()
        real = tuple(meta(o) if type(o) is Array else o for o in outs)
        plain = tuple(meta(a) if type(a) is Array else p for a, p in zip(ins, plain, strict=True))
        if keep:
            more["out"] = ...
        elif any(o is not None for o in outs) or ("where" in more and isinstance(f, np.ufunc)):
            more["out"] = real if isinstance(f, np.ufunc) or len(real) > 1 else real[0]
        sources: list[Array] = []
        rec.find_arrays(ins, sources)
        result = f(*plain, **more)
    if all(o is None for o in outs):
        return rec.wrap(result, sources)
    if any(not isinstance(o, Array | np.ndarray | None) for o in outs):
        return result  # what a class with `__array_ufunc__` says
    results = result if type(result) is tuple else (result,)
    shown = tuple(o if o is not None else rec.wrap(r) for o, r in zip(outs, results, strict=True))
    return shown if f.nout > 1 else shown[0]


_wrapped: dict[str, ufunc] = {}


def wrapped(name: str) -> ufunc:
    """Our ufunc object for a NumPy ufunc's name."""
    found = _wrapped.get(name)
    if found is None:
        found = _wrapped.setdefault(name, ufunc(getattr(np, name) if hasattr(np, name) else scalar(name).call))  # type: ignore[arg-type]
    return found


def special_ufunc(f: np.ufunc) -> Any:
    """Our ufunc object for one of SciPy's (those with a signature of their own run on SciPy)."""
    if f.signature is not None:
        return lambda *args, **kwargs: _gufunc(f, "__call__", args, kwargs)
    return wrapped(f.__name__)


def _from_scipy(f: np.ufunc) -> bool:
    module = sys.modules.get("scipy.special")
    return module is not None and f.signature is None and getattr(module, f.__name__, None) is f


_BINARY = {
    f for f in vars(np).values() if isinstance(f, np.ufunc) and f.signature is None and (f.nin, f.nout) == (2, 1)
}


def array_ufunc(self: Array, f: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """NEP 13: NumPy's own ufuncs on Arrays."""
    if not kwargs and method == "__call__" and len(inputs) == 2:
        a, b = inputs
        if b is self:  # a NumPy scalar's operator does not ask for ours
            if type(a) is ND and a.ndim == 0 and self._fixed:
                a = a[()]  # what a scalar's comparison makes of it
            if type(a) in NUMBERS:
                if self._cell is NUMBER and (LEAST.eager_bytes > MOST_BYTES or current().eager_bytes > MOST_BYTES):
                    plain = PLAIN.get(f)
                    if plain is not None:
                        return from_number(plain(a, self._nd))
                nd = few(self)
                if nd is not None:
                    r = f(a, nd)
                    return from_buffer(r) if type(r) is ND else rec.wrap(r)
                operator = BACKWARD.get(f)
                if operator is not None:
                    return operator(self, a)
        if f in _BINARY:
            return binary(f, a, b)
    if f.signature is not None or (getattr(np, f.__name__, None) is not f and not _from_scipy(f)):
        return _gufunc(f, method, inputs, kwargs)
    ours = wrapped(f.__name__)
    if method == "__call__":
        return ours(*inputs, **kwargs)
    out = kwargs.get("out")
    if type(out) is tuple and len(out) == 1:
        kwargs["out"] = out[0]
    return getattr(ours, method)(*inputs, **kwargs)


_foreign_ufuncs: dict[str, Any] = {}  # ufuncs that are not NumPy's own but that we know (matmul, special functions)


def know(f: Any, ours: Any) -> None:
    """Let a foreign ufunc reach our function."""
    _foreign_ufuncs[f.__name__] = ours


def _gufunc(f: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    ours = _foreign_ufuncs.get(f.__name__)
    if ours is not None and method == "__call__":
        return ours(*inputs, **kwargs)
    out = kwargs.pop("out", None)
    outs = list(out) if type(out) is tuple else [None] * f.nout if out is None else [out]
    if method == "__call__":
        return _now(f, inputs, outs, kwargs)
    return fallback(getattr(f, method), inputs, kwargs)


Array.__array_ufunc__ = array_ufunc
