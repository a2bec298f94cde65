"""Functions that are formulas over others, where NumPy has loops in C. In: NumPy's arguments. Out: Arrays, recorded.

Each is written once, of operators that know how to be cut. Where a formula does not hold (options, objects, mistakes),
NumPy does it.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.lib import _function_base_impl as functions

from tilewise.api import create
from tilewise.api.compose import recomposed
from tilewise.api.dispatch import implements, public
from tilewise.array import record as rec
from tilewise.array.handle import Array
from tilewise.array.indexing import ends_of
from tilewise.array.interop.elsewhere import in_blocks
from tilewise.ir.node import intern
from tilewise.ops.elementwise import apply, cast
from tilewise.ops.index import Put, compress
from tilewise.ops.order import lexsort as ops

INDEX = np.dtype(np.intp)
MOST = 32  # terms of a formula
where: Any = public(np.where)


def _within(index: Array, length: int) -> bool:
    """Whether all indices are below a length, and none negative: known before anything is recorded."""
    ends = ends_of(index)
    return bool(ends.min() >= 0 and ends.max() < length)


@implements(np.require)
def require(a: Any, dtype: Any = None, requirements: Any = None, *, like: Any = None) -> Any:
    """An array in an order of memory."""
    wanted = {str(r).upper() for r in ([requirements] if isinstance(requirements, str) else requirements or ())}
    if type(a) is not Array or not a.ndim or like is not None or len(wanted) > 1:
        return NotImplemented
    if not wanted <= {"C", "C_CONTIGUOUS", "CONTIGUOUS", "F", "F_CONTIGUOUS", "FORTRAN"}:
        return NotImplemented
    if not wanted:
        return create.asanyarray(a, dtype)
    return (create.asfortranarray if min(wanted)[0] == "F" else create.ascontiguousarray)(a, dtype)


# -- choosing ------------------------------------------------------------------------------------------------------


@implements(np.choose)
def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    """Elements of the array that an index names."""
    if type(a) is not Array or a.dtype.kind not in "iub" or type(choices) is Array or out is not None:
        return NotImplemented
    given: list[Any] = [c if type(c) is Array else np.asarray(rec.unwrap(c)) for c in choices]
    index: Any = a
    if mode != "raise" or not 0 < len(given) <= MOST or not a.size or not _within(a, len(given)):
        return NotImplemented
    kind = np.result_type(*(c.dtype for c in given))
    shape = np.broadcast_shapes(a.shape, *(c.shape for c in given))
    made: Any = public(np.broadcast_to)(given[0], shape)
    made = made.astype(kind)
    for k, c in enumerate(given[1:], 1):
        made = where(index == k, c if c.dtype == kind else c.astype(kind), made)
    return made if shape else made[()]


@implements(np.piecewise)
def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Any:
    """Functions of the elements that conditions select."""
    if type(x) is not Array or type(condlist) is not list or not condlist or type(condlist[0]) is not Array:
        return NotImplemented
    given: list[Any] = [c if c.dtype == bool else c.astype(bool) for c in condlist]
    if any(c.shape != x.shape for c in given):
        return NotImplemented
    if len(given) == len(funclist) - 1:
        rest = given[0]
        for c in given[1:]:
            rest = rest | c
        given.append(~rest)
    if len(given) != len(funclist):
        return NotImplemented  # NumPy's complaint
    nodes = [rec.as_node(c) for c in given]  # the same ones for reading and for writing
    base = rec.as_node(x)
    made = rec.as_node(create.zeros_like(x))
    for condition, func in zip(nodes, funclist, strict=True):
        values: Any = rec.record(compress(base, condition))
        if callable(func) and not values.size:
            continue
        new: Any = func(values, *args, **kw) if callable(func) else func
        source = cast(rec.as_node(new), x.dtype)
        if source.shape == ():
            made = apply("where", (condition, source, made), (np.dtype(bool), x.dtype, x.dtype, x.dtype))
        elif source.known and source.dims == values.shape:
            made = intern(Put((("a", 0),), None), (made, source, condition), base.shape, base.dtype, made.order)
        else:
            return NotImplemented  # NumPy's complaint
    return rec.record(made)


@implements(np.i0)
def i0(x: Any) -> Any:
    """The modified Bessel function of order 0: one of two series."""
    if type(x) is not Array or x.dtype.kind not in "iuf":
        return NotImplemented
    a: Any = x
    a = abs(a if a.dtype.kind == "f" else a.astype(float))
    near, far = (recomposed(getattr(functions, name)) for name in ("_i0_1", "_i0_2"))
    return where(a <= 8.0, near(a), far(a))


# -- order ---------------------------------------------------------------------------------------------------------


@implements(np.lexsort)
def lexsort(keys: Any, axis: Any = -1) -> Any:
    """Positions that sort by several keys, the last one first."""
    given = list(keys) if type(keys) in (tuple, list) else []
    plain = given and all(type(k) is Array and k.ndim == 1 and k.dtype.kind in "biuf" for k in given)
    if not plain or axis not in (-1, 0) or not given[0].size or len({k.shape for k in given}) > 1:
        return NotImplemented
    if not in_blocks(*given):
        return rec.at_once(np.lexsort, (keys, axis), {})
    return rec.record(ops.lexsort([rec.as_node(k) for k in given]))


@implements(np.argpartition)
def argpartition(a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None) -> Any:
    """Positions that sort a vector also part it, whatever kth is."""
    at = np.asarray(rec.unwrap(kth))
    n = a.size if type(a) is Array and a.ndim == 1 else 0
    if not n or not in_blocks(a) or axis not in (-1, 0) or order is not None:
        return NotImplemented
    if at.dtype.kind not in "iu" or not at.size or at.min() < -n or at.max() >= n or kind != "introselect":
        return NotImplemented  # NumPy's complaint
    return public(np.argsort)(a, kind="stable")


@implements(np.histogram_bin_edges)
def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    """Edges of equal bins: only the least and the greatest matter."""
    if type(a) is not Array or not isinstance(bins, int) or weights is not None or not a.size or a.dtype.kind == "b":
        return NotImplemented
    if range is None:
        ends: Any = public(np.stack)([a.min(), a.max()])
        return rec.at_once(np.histogram_bin_edges, (ends, bins), {})
    return rec.at_once(np.histogram_bin_edges, (np.zeros(1, a.dtype), bins, range), {})


# -- indices as numbers --------------------------------------------------------------------------------------------


@implements(np.unravel_index)
def unravel_index(indices: Any, shape: Any, order: str = "C") -> Any:
    """Indices into the axes of an array, for positions in it as one line."""
    dims = (shape,) if isinstance(shape, int) else tuple(shape)
    if type(indices) is not Array or indices.dtype.kind not in "iu" or not indices.size or order not in ("C", "F"):
        return NotImplemented
    if not dims or not all(isinstance(d, int) for d in dims) or not _within(indices, prod(dims)):
        return NotImplemented
    left: Any = indices.astype(INDEX)
    found: list[Any] = []
    for d in reversed(dims) if order == "C" else dims:
        found.append(left % d)
        left = left // d
    return tuple(reversed(found) if order == "C" else found)


@implements(np.ravel_multi_index)
def ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C") -> Any:
    """Positions in an array as one line, for indices into its axes."""
    given = list(multi_index) if type(multi_index) is tuple else []
    lengths = (dims,) if isinstance(dims, int) else tuple(dims)
    if not given or len(given) != len(lengths) or mode != "raise" or order not in ("C", "F"):
        return NotImplemented
    if not all(type(i) is Array and i.dtype.kind in "iu" and i.size for i in given):
        return NotImplemented
    if not all(_within(i, n) for i, n in zip(given, lengths, strict=True)):
        return NotImplemented
    pairs = list(zip(given, lengths, strict=True))
    made: Any = None
    for i, n in pairs if order == "C" else reversed(pairs):
        made = i.astype(INDEX) if made is None else made * n + i.astype(INDEX)
    return made


# -- bits ----------------------------------------------------------------------------------------------------------


@implements(np.packbits)
def packbits(a: Any, /, axis: Any = None, bitorder: str = "big") -> Any:
    """Eight truth values a byte."""
    line = type(a) is Array and (axis is None or (a.ndim == 1 and axis in (0, -1)))
    if not line or not a.size or a.dtype.kind not in "biu" or bitorder not in ("big", "little"):
        return NotImplemented
    flat = a.reshape(-1)
    bits = (flat if a.dtype.kind == "b" else flat != 0).astype(np.uint8)
    if left := -bits.size % 8:
        bits = public(np.pad)(bits, (0, left))
    worth = 1 << np.arange(8, dtype=np.uint8)
    return (bits.reshape(-1, 8) * (worth[::-1] if bitorder == "big" else worth)).sum(1, dtype=np.uint8)


@implements(np.unpackbits)
def unpackbits(a: Any, /, axis: Any = None, count: Any = None, bitorder: str = "big") -> Any:
    """The bits of bytes."""
    flat = type(a) is Array and (axis is None or (a.ndim == 1 and axis in (0, -1)))
    if not flat or not a.size or a.dtype != np.uint8 or count is not None or bitorder not in ("big", "little"):
        return NotImplemented
    places = np.arange(8, dtype=np.uint8)
    found: Any = (a.reshape(-1)[:, None] >> (places[::-1] if bitorder == "big" else places)) & np.uint8(1)
    return found.reshape(-1)


# -- polynomials ---------------------------------------------------------------------------------------------------


@implements(np.vander)
def vander(x: Any, N: Any = None, increasing: bool = False) -> Any:
    """Powers of elements, each the one before times the element."""
    count = x.size if N is None else N
    if type(x) is not Array or x.ndim != 1 or not 0 < count <= MOST or not x.size:
        return NotImplemented
    kind = np.promote_types(x.dtype, int)
    one: Any = x.astype(kind)
    powers = [create.ones_like(one), one][:count]
    while len(powers) < count:
        powers.append(powers[-1] * one)
    return public(np.stack)(powers if increasing else powers[::-1], axis=1)


@implements(np.correlate)
def correlate(a: Any, v: Any, mode: Any = "valid") -> Any:
    """A convolution with the filter turned round."""
    taps = None if type(v) is Array else np.asarray(v)
    if type(a) is not Array or a.ndim != 1 or taps is None or taps.ndim != 1 or not 0 < taps.size <= min(a.size, MOST):
        return NotImplemented
    return public(np.convolve)(a, taps[::-1].conj(), mode)


# -- matrices ------------------------------------------------------------------------------------------------------


@implements(np.diagflat)
def diagflat(v: Any, k: int = 0) -> Any:
    """A matrix with the elements on a diagonal."""
    if type(v) is not Array or not v.size:
        return NotImplemented
    return on_diagonal(v.reshape(-1), k)


def on_diagonal(v: Any, k: int) -> Any:
    """A matrix with a vector on its k-th diagonal."""
    n = v.size + abs(k)
    full = public(np.pad)(v, (max(-k, 0), max(k, 0))) if k else v  # by rows
    line: Any = create.arange(n)
    return where(line[:, None] + k == line, full[:, None], np.zeros((), v.dtype))
