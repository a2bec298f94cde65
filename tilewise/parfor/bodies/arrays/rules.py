"""NumPy's functions on traced values. In: a function and its arguments in one iteration. Out: the same for all.

Functions of elements need their operands aligned; those along an axis count it from the end; products of vectors that
depend on different loops are products of matrices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewise.parfor.bodies.arrays.axes import NotArrays, Position, merged
from tilewise.parfor.bodies.arrays.traced import (
    PRODUCT_SECONDS,
    ROUTES,
    Node,
    Recorder,
    Traced,
    Values,
    elementwise,
    node_of,
)

# Functions of an array along an axis (all of it, if none is given).
REDUCTIONS = (
    np.sum, np.mean, np.std, np.var, np.min, np.max, np.amin, np.amax, np.prod, np.any, np.all, np.argmax, np.argmin,
    np.median, np.nansum, np.nanmean, np.nanmin, np.nanmax, np.nanstd, np.nanvar, np.ptp, np.count_nonzero,
    np.linalg.norm, np.cumsum,
)  # fmt: skip
ALONG = (np.sort, np.argsort, np.diff)  # the last axis, if none is given
ELEMENTS = (np.where, np.clip, np.nan_to_num, np.round, np.real, np.imag, np.angle)
METHODS = ("sum", "mean", "std", "var", "min", "max", "prod", "any", "all", "argmax", "argmin", "cumsum")
OF_UFUNCS = {np.add: np.sum, np.multiply: np.prod, np.maximum: np.max, np.minimum: np.min}


def ufunc(recorder: Recorder, f: Any, method: str, inputs: Sequence[Any], options: dict[str, Any]) -> Any:
    """A ufunc of traced values."""
    if method == "reduce" and f in OF_UFUNCS:
        return along(recorder, OF_UFUNCS[f], inputs[0], (), {"axis": 0} | options)
    if method != "__call__" or options.keys() - {"dtype"}:
        raise NotArrays(f"np.{f.__name__} with {method} or {', '.join(options)}")
    if f is np.matmul:
        return product(recorder, inputs[0], inputs[1], np.matmul)
    if f.signature is not None or f.nout > 1:
        raise NotArrays(f"np.{f.__name__}")
    if any(isinstance(x, Position) for x in inputs):
        allowed = f in (np.add, np.subtract, np.multiply) or (f is np.divide and not isinstance(inputs[1], Position))
        if not allowed:
            raise NotArrays("arithmetic of loop variables beyond sums, products and fractions")
    return elementwise(recorder, f, inputs, options)


def function(recorder: Recorder, f: Any, args: Sequence[Any], options: dict[str, Any]) -> Any:
    """A function of NumPy."""
    if f in REDUCTIONS or f in ALONG:
        return along(recorder, f, args[0], args[1:], options)
    if f in (np.dot, np.inner, np.vdot) and not options:
        return product(recorder, args[0], args[1], f)
    if f in ELEMENTS:
        return elementwise(recorder, f, args, options)
    if f in (np.corrcoef, np.cov) and len(args) == 2 and not options:
        return Pairs(recorder, args[0], args[1], f)
    if f in (np.shape, np.ndim, np.size):
        return f(node_of(recorder, args[0]).sample, *args[1:], **options)
    if f in (np.zeros_like, np.ones_like, np.empty_like):
        raise NotArrays("an array that is made inside of the loop")
    raise NotArrays(f"np.{f.__name__}")


def along(recorder: Recorder, f: Any, value: Any, args: Sequence[Any], options: dict[str, Any]) -> Traced:
    """A function along an axis of a value."""
    if len(args) > 1 or (args and "axis" in options):
        raise NotArrays(f"np.{f.__name__} with several arguments")
    node, options = node_of(recorder, value), dict(options)
    axis = args[0] if args else options.pop("axis", -1 if f in ALONG else None)
    rank = np.ndim(node.sample)
    for part in options.values():
        if isinstance(part, Traced | Position):
            raise NotArrays(f"an option of np.{f.__name__} that depends on the loop")
    if options.keys() - {"keepdims", "ddof", "dtype", "n", "kind", "ord"}:
        raise NotArrays(f"np.{f.__name__} with {', '.join(options)}")
    sample = f(node.sample, axis=axis, **options)
    if axis is None and options.get("keepdims"):
        raise NotArrays("keepdims of all axes")
    if rank == 0:
        return elementwise(recorder, f, [value], {"axis": axis, **options})
    size = float(np.size(node.sample))
    if node.factors is not None and f in (np.sum, np.mean) and not options:
        made = dot(recorder, *node.factors, sample if f is np.sum else sample * size)
        return made if f is np.sum else elementwise(recorder, np.divide, [made, int(size)], {})
    lead = len(node.dims)

    def make(v: Values) -> Any:
        array = v.of(node)
        if axis is None and rank > 1:
            array = array.reshape(*array.shape[:lead], math.prod(array.shape[lead:]))
        last = -1 if axis is None else _from_end(axis, rank)
        return f(array, axis=last, **options)

    return recorder.add(Node(node.dims, sample, make), work=size)


def _from_end(axis: Any, rank: int) -> Any:
    if isinstance(axis, tuple):
        return tuple(_from_end(a, rank) for a in axis)
    return axis - rank if axis >= 0 else axis


def product(recorder: Recorder, left: Any, right: Any, f: Callable[..., Any]) -> Traced:
    """Products of vectors and matrices."""
    a, b = node_of(recorder, left), node_of(recorder, right)
    sample = f(a.sample, b.sample)
    ranks = np.ndim(a.sample), np.ndim(b.sample)
    if ranks == (1, 1):
        if f is np.vdot and np.asarray(a.sample).dtype.kind == "c":
            raise NotArrays("np.vdot of complex numbers")
        return dot(recorder, a, b, sample)
    if 0 in ranks:
        return elementwise(recorder, np.multiply, [left, right], {})
    if max(ranks) > 2 or f not in (np.matmul, np.dot):
        raise NotArrays("products of arrays of more than two axes")
    dims = merged(a.dims, b.dims)
    work = float(np.size(sample)) * np.shape(a.sample)[-1]

    def make(v: Values) -> Any:
        if ranks == (2, 1):
            if not a.dims:
                return v.of(b) @ v.of(a).T
            return (v.aligned(a, dims, 2) @ v.aligned(b, dims, 1)[..., None])[..., 0]
        if ranks == (1, 2):
            if not b.dims:
                return v.of(a) @ v.of(b)
            return (v.aligned(a, dims, 1)[..., None, :] @ v.aligned(b, dims, 2))[..., 0, :]
        return v.aligned(a, dims, 2) @ v.aligned(b, dims, 2)

    return recorder.add(Node(dims, sample, make), work, PRODUCT_SECONDS)


def dot(recorder: Recorder, a: Node, b: Node, sample: Any) -> Traced:
    """The product of two vectors; of all pairs, where they depend on different loops."""
    dims, length = merged(a.dims, b.dims), np.shape(a.sample)[0]
    apart = bool(a.dims and b.dims and not set(a.dims) & set(b.dims))

    def make(v: Values) -> Any:
        if not apart:
            if not b.dims:
                return v.of(a) @ v.of(b)
            if not a.dims:
                return v.of(b) @ v.of(a)
            return (v.aligned(a, dims, 1) * v.aligned(b, dims, 1)).sum(axis=-1)
        x, y = v.of(a), v.of(b)
        gram = x.reshape(-1, length) @ y.reshape(-1, length).T
        both = (*a.dims, *b.dims)
        gram = gram.reshape(*(v.ranges.length(axis) for axis in both))
        return gram.transpose(*(both.index(axis) for axis in dims)) if both != dims else gram

    return recorder.add(Node(dims, sample, make), float(length), PRODUCT_SECONDS if apart or not b.dims else 1e-9)


class Pairs:
    """np.corrcoef or np.cov of two vectors, of which one number between both is taken."""

    def __init__(self, recorder: Recorder, x: Any, y: Any, f: Any) -> None:
        if np.ndim(node_of(recorder, x).sample) != 1 or np.ndim(node_of(recorder, y).sample) != 1:
            raise NotArrays(f"np.{f.__name__} of matrices")
        self.x, self.y, self.f = x, y, f

    def __getitem__(self, key: Any) -> Any:
        if key not in ((0, 1), (1, 0)):
            raise NotArrays(f"np.{self.f.__name__} as a matrix")
        x, y = self.x - self.x.mean(), self.y - self.y.mean()
        if self.f is np.cov:
            return x @ y / (len(self.x) - 1)
        return np.clip(x @ y / (np.sqrt(x @ x) * np.sqrt(y @ y)), -1.0, 1.0)


def attribute(recorder: Recorder, value: Traced, name: str) -> Any:
    """Methods and other attributes of arrays."""
    if name in METHODS:
        f = getattr(np, name)
        return lambda *args, **options: along(recorder, f, value, args, options)
    if name == "dot":
        return lambda other: product(recorder, value, other, np.dot)
    if name == "astype":
        return lambda dtype: _cast(recorder, value, dtype)
    if name == "copy":
        return lambda: elementwise(recorder, np.positive, [value], {})
    if name == "T":
        return _transposed(recorder, value)
    if name == "item" and not value.ndim:
        raise NotArrays("a number of the data used as Python's")
    raise NotArrays(f"the attribute {name} of an array")


def _cast(recorder: Recorder, value: Traced, dtype: Any) -> Traced:
    node = node_of(recorder, value)
    return recorder.add(Node(node.dims, node.sample.astype(dtype), lambda v: v.of(node).astype(dtype)))


def _transposed(recorder: Recorder, value: Traced) -> Traced:
    node, rank, lead = node_of(recorder, value), value.ndim, len(value.node.dims)
    order = (*range(lead), *(lead + rank - 1 - n for n in range(rank)))
    made = recorder.add(Node(node.dims, node.sample.T, lambda v: v.of(node).transpose(*order), shown=node.shown), 0.0)
    value.viewed = made.viewed = True
    return made


ROUTES["ufunc"], ROUTES["function"], ROUTES["attribute"] = ufunc, function, attribute
