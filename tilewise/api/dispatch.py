"""How a NumPy function reaches Tilewise. In: NumPy's function and, where there is one, our recorder. Out: our function.

A recorder has NumPy's signature and returns an Array, or NotImplemented to let NumPy do it (with a FallbackWarning).
Small known operands never reach it: NumPy does them at once. `out=` is taken care of here for every function.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewise.array import force as forcing
from tilewise.array import record as rec
from tilewise.array.arithmetic import assign, check_writable
from tilewise.array.cell import LOCK
from tilewise.array.handle import Array, meta

Recorder = Callable[..., Any]
RECORDERS: dict[Any, Recorder] = {}  # NumPy's function -> ours
VIEWS: set[Any] = set()  # NumPy functions that only look at shapes: recorders that cost nothing, whatever the size
MUTATORS: dict[Any, int] = {}  # NumPy functions that write into an argument -> which one
# NumPy functions that only call the method of this name, with the same arguments: the detour is saved.
METHODS: dict[Any, Callable[..., Any]] = {
    getattr(np, n): getattr(np.ndarray, n)
    for n in "sum prod max min mean any all argmax argmin cumsum cumprod std var take repeat transpose swapaxes nonzero".split()
}
PUBLIC: dict[Any, Callable[..., Any]] = {}  # NumPy's function -> our public one


def implements(*functions: Any, view: bool = False) -> Callable[[Recorder], Recorder]:
    """Register a recorder for NumPy functions."""

    def register(recorder: Recorder) -> Recorder:
        for f in functions:
            RECORDERS[f] = recorder
            if view:
                VIEWS.add(f)
        return recorder

    return register


def call(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a NumPy function on arguments that may hold Arrays."""
    if func in MUTATORS:
        return mutate(func, MUTATORS[func], args, kwargs)
    arrays: list[Array] = []
    foreign: list[Any] = []
    plain: list[Any] = []
    touched = rec.look(args, plain, arrays, foreign)
    if not kwargs:
        if touched < rec.eager_limit():  # most calls of most programs
            quick = METHODS.get(func)
            if quick is not None and plain and type(plain[0]) is np.ndarray:
                return rec.wrap(quick(*plain), arrays, foreign)
            return rec.wrap(func(*plain), arrays, foreign)
    else:
        out = kwargs.get("out")
        if out is not None:
            return into(func, args, kwargs, out)
        more: list[Any] = []
        touched += rec.look(kwargs.values(), more, arrays, foreign)
        if touched < rec.eager_limit():
            return rec.wrap(func(*plain, **dict(zip(kwargs, more, strict=True))), arrays, foreign)
    recorder = RECORDERS.get(func)
    if recorder is not None and arrays:
        if func in VIEWS:
            result = recorder(*args, **kwargs)
            if result is not NotImplemented:
                return result
        elif not rec.small(arrays) and all(rec.numeric(x.dtype) for x in arrays):
            result = recorder(*args, **kwargs)
            if result is not NotImplemented:
                return result
    elif recorder is None or not arrays:
        return rec.fallback(func, args, kwargs) if arrays else rec.at_once(func, args, kwargs)
    if rec.small(arrays):
        return rec.at_once(func, args, kwargs)
    return rec.fallback(func, args, kwargs)


def into(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
    """A function with out=: compute, then write."""
    kwargs = {k: v for k, v in kwargs.items() if k != "out"}
    if type(out) is tuple and len(out) == 1:
        out = out[0]
    if type(out) is not Array:  # a foreign array is written now
        result = func(*rec.unwrap(args), **rec.unwrap(kwargs), out=out)
        return out if result is out else rec.wrap(result)
    check_writable(out)
    arrays: list[Array] = [out]
    rec.find_arrays(args, arrays)
    rec.find_arrays(kwargs.values(), arrays)
    if rec.small(arrays) or func not in RECORDERS:
        with LOCK:
            plain, more = rec.unwrap(args), rec.unwrap(kwargs)
            forcing.force(out)
            out._cell.own()
            func(*_again(args, plain), **more, out=meta(out))
        return out
    if "dtype" not in kwargs and func in _TYPED_BY_OUT:
        kwargs["dtype"] = out.dtype
    result = call(func, args, kwargs)
    if np.shape(result) != out.shape:
        raise ValueError(f"output parameter for {func.__name__} has the wrong shape: {out.shape}, not {np.shape(result)}")
    if not np.can_cast(result.dtype, out.dtype, "same_kind"):
        raise TypeError(f"Cannot cast array data from {result.dtype!r} to {out.dtype!r} according to the rule 'same_kind'")
    assign(out, result)
    return out


_TYPED_BY_OUT = {np.sum, np.prod, np.cumsum, np.cumprod}


def _again(args: tuple[Any, ...], plain: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments after the output's buffer may have moved."""
    return tuple(meta(a) if type(a) is Array else p for a, p in zip(args, plain, strict=True))


def mutate(func: Any, which: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A function that writes into an argument: the buffer is made private first."""
    target = args[which] if len(args) > which else None
    if type(target) is not Array:
        return rec.wrap(func(*rec.unwrap(args), **rec.unwrap(kwargs)))
    check_writable(target)
    with LOCK:
        rec.unwrap(args)
        more = rec.unwrap(kwargs)
        forcing.force(target)
        target._cell.own()
        plain = tuple(meta(a) if type(a) is Array else rec.unwrap(a) for a in args)
        return rec.wrap(func(*plain, **more), [target])


def public(func: Any, name: str | None = None) -> Callable[..., Any]:
    """Our function for NumPy's."""
    found = PUBLIC.get(func)
    if found is not None:
        return found

    @functools.wraps(func, assigned=("__name__", "__doc__", "__qualname__"), updated=())
    def function(*args: Any, **kwargs: Any) -> Any:
        return call(func, args, kwargs)

    function.__module__ = "tilewise"
    function.__dict__.pop("__wrapped__", None)
    PUBLIC[func] = function
    return function


def array_function(self: Array, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """NEP 18: NumPy's own functions on Arrays."""
    return call(func, tuple(args), dict(kwargs))


Array.__array_function__ = array_function  # type: ignore[attr-defined]
