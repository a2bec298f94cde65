"""Ufuncs as objects: calling, reduce, accumulate, outer, at, reduceat. In: NumPy's ufunc. Out: ours, for Arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewise.api.reductions import reduce_ufunc, scan_ufunc
from tilewise.array import force as forcing
from tilewise.array import record as rec
from tilewise.array.arithmetic import (
    CannotRecord,
    apply_ufunc,
    binary,
    check_writable,
    store,
    ufunc_node,
    unary,
    update,
)
from tilewise.array.cell import LOCK
from tilewise.array.handle import Array, meta, node_of
from tilewise.ops.elementwise import apply, cast


class ufunc:  # noqa: N801 (NumPy's name for it)
    """An elementwise function with NumPy's options.

    >>> import tilewise as tw
    >>> tw.add.reduce(tw.arange(5))
    Array(10)
    >>> tw.multiply.outer(tw.arange(3), tw.arange(2))
    Array([[0, 0],
           [0, 1],
           [0, 2]])
    """

    def __init__(self, numpy: np.ufunc) -> None:
        self.numpy = numpy
        self._plain = numpy.nin if numpy.nout == 1 and numpy.nin < 3 else -1  # operands of a call without options
        self.__name__ = numpy.__name__
        self.__doc__ = numpy.__doc__

    def __repr__(self) -> str:
        return f"<ufunc '{self.__name__}'>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.numpy, name)  # nin, nout, nargs, types, identity, signature

    def __reduce__(self) -> Any:
        return (wrapped, (self.__name__,))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        f = self.numpy
        if not kwargs and len(args) == self._plain:
            if len(args) == 1:
                return unary(f, args[0])
            a, b = args
            if type(a) is Array or type(b) is Array:
                return binary(f, a, b)
            return rec.at_once(f, args, {})
        return general(f, args, kwargs)

    def reduce(self, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False,
               initial: Any = np._NoValue, where: Any = True) -> Any:
        """Reduce axes with this function."""
        return reduce_ufunc(self.numpy, array, axis, dtype, out, keepdims, initial, where)

    def accumulate(self, array: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        """Running reduction along an axis."""
        return scan_ufunc(self.numpy, array, axis, dtype, out)

    def outer(self, a: Any, b: Any, /, **kwargs: Any) -> Any:
        """The function on all pairs."""
        x = a if type(a) is Array else rec.record_const(a)
        y = b if type(b) is Array else rec.record_const(b)
        if x._fixed or y._fixed or kwargs or rec.small((x, y), x.size * y.size * 8):
            return rec.at_once(self.numpy.outer, (a, b), kwargs)
        return self(x[(..., *([None] * y.ndim))], y)

    def at(self, a: Any, indices: Any, b: Any = None, /) -> None:
        """Unbuffered in-place operation at index arrays (repeated indices count each time)."""
        if type(a) is not Array:
            self.numpy.at(*rec.unwrap((a, indices) if b is None else (a, indices, b)))
            return
        check_writable(a)
        with LOCK:
            plain = rec.unwrap((indices,) if b is None else (indices, b))
            forcing.force(a)
            a._cell.own()
            self.numpy.at(meta(a), *plain)

    def reduceat(self, array: Any, indices: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        """Reduce slices that indices name."""
        return general_method(self.numpy.reduceat, (array, indices, axis, dtype), out)


def general_method(method: Any, args: tuple[Any, ...], out: Any) -> Any:
    """A ufunc method by NumPy, with its output in an Array if one is given."""
    if out is None:
        return rec.fallback(method, args, {})
    result = rec.unwrap(rec.fallback(method, args, {}))
    if type(out) is Array:
        out[...] = result
    else:
        out[...] = result
    return out


def general(f: np.ufunc, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A ufunc call with any of NumPy's options."""
    ins, outs = args[: f.nin], list(args[f.nin :])
    if len(ins) < f.nin or len(args) > f.nin + f.nout:
        return f(*rec.unwrap(args), **rec.unwrap(kwargs))  # NumPy's own complaint
    given = kwargs.pop("out", None)
    if given is not None:
        if outs:
            raise TypeError("cannot specify 'out' as both a positional and keyword argument")
        outs = list(given) if type(given) is tuple else [given]
    if any(o is Ellipsis for o in outs):
        outs = [None if o is Ellipsis else o for o in outs]
    outs += [None] * (f.nout - len(outs))
    where = kwargs.get("where", True)
    arrays: list[Array] = []
    rec.find_arrays((*ins, *outs, where), arrays)
    hard = set(kwargs) - {"dtype", "where", "casting"} or kwargs.get("casting", "same_kind") != "same_kind"
    if rec.small(arrays) or hard or not all(rec.numeric(x.dtype) for x in arrays) or f.signature is not None:
        return _now(f, ins, outs, kwargs)
    if all(o is None for o in outs) and where is True:
        return apply_ufunc(f, ins, kwargs.get("dtype"))
    if any(o is not None and type(o) is not Array for o in outs) or f.nout > 1 or (where is not True and outs[0] is None):
        return _now(f, ins, outs, kwargs)
    out = outs[0]
    if where is not True:
        return _where(f, ins, out, where, kwargs.get("dtype"))
    if kwargs.get("dtype") is not None:
        return _now(f, ins, outs, kwargs)
    _check_out(out)
    update(out, f, ins)
    return out


def _check_out(out: Array) -> None:
    if out._fixed:
        raise TypeError("return arrays must be of ArrayType")


def _where(f: np.ufunc, ins: tuple[Any, ...], out: Array, where: Any, dtype: Any) -> Array:
    """out[...] = where(mask, f(ins), out)."""
    _check_out(out)
    try:
        value = ufunc_node(f, ins, dtype=dtype)
    except CannotRecord:
        return _now(f, ins, [out], {"where": where})  # type: ignore[no-any-return]
    if not np.can_cast(value.dtype, out.dtype, "same_kind"):
        return _now(f, ins, [out], {"where": where})  # type: ignore[no-any-return]
    mask = rec.as_node(where)
    d = out.dtype
    node = apply("where", (cast(mask, np.dtype(bool)), cast(value, d), node_of(out)), (np.dtype(bool), d, d, d))
    if node.shape != out.shape:
        raise ValueError("non-broadcastable output operand")
    store(out, node)
    return out


def _now(f: np.ufunc, ins: tuple[Any, ...], outs: list[Any], kwargs: dict[str, Any]) -> Any:
    """At once, by NumPy, outputs made private first."""
    with LOCK:
        plain = rec.unwrap(tuple(ins))
        more = rec.unwrap(kwargs)
        for o in outs:
            if type(o) is Array:
                _check_out(o)
                forcing.force(o)
                if meta(o).flags.writeable:
                    o._cell.own()
        real = tuple(meta(o) if type(o) is Array else o for o in outs)
        plain = tuple(meta(a) if type(a) is Array else p for a, p in zip(ins, plain, strict=True))
        if any(o is not None for o in outs):
            more["out"] = real if f.nout > 1 else real[0]
        sources: list[Array] = []
        rec.find_arrays(ins, sources)
        result = f(*plain, **more)
    if all(o is None for o in outs):
        return rec.wrap(result, sources)
    results = result if type(result) is tuple else (result,)
    shown = tuple(o if o is not None else rec.wrap(r) for o, r in zip(outs, results, strict=True))
    return shown if f.nout > 1 else shown[0]


_wrapped: dict[str, ufunc] = {}


def wrapped(name: str) -> ufunc:
    """Our ufunc object for a NumPy ufunc's name."""
    found = _wrapped.get(name)
    if found is None:
        found = _wrapped.setdefault(name, ufunc(getattr(np, name)))
    return found


_BINARY = {f for f in vars(np).values() if isinstance(f, np.ufunc) and f.signature is None and (f.nin, f.nout) == (2, 1)}


def array_ufunc(self: Array, f: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """NEP 13: NumPy's own ufuncs on Arrays."""
    if not kwargs and method == "__call__" and len(inputs) == 2 and f in _BINARY:
        return binary(f, *inputs)
    if f.signature is not None or getattr(np, f.__name__, None) is not f:
        return _gufunc(f, method, inputs, kwargs)
    ours = wrapped(f.__name__)
    if method == "__call__":
        return ours(*inputs, **kwargs)
    out = kwargs.get("out")
    if type(out) is tuple:
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
    return rec.fallback(getattr(f, method), inputs, kwargs)


Array.__array_ufunc__ = array_ufunc  # type: ignore[attr-defined]
