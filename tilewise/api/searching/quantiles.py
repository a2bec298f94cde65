"""Order statistics. In: NumPy's arguments. Out: Arrays, recorded.

Of all elements, where workers hold them or memory is limited, parts of the sorted vector are selected, not sorted
(ops/order/select.py): at which positions NumPy says, from how many elements there are. Along an axis, and elsewhere,
NumPy's function does each line (ops/lines.py). Elements that are not numbers are counted first where they do not count:
positions depend on it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib import _function_base_impl as formulas
from numpy.lib.array_utils import normalize_axis_tuple

from tilewise.api import compose  # noqa: F401  (median is recorded there)
from tilewise.api.dispatch import RECORDERS, implements, public
from tilewise.array import record as rec
from tilewise.array.handle import Array
from tilewise.array.session import on_workers, unlimited_memory
from tilewise.ops.lines import lines
from tilewise.ops.order.select import select
from tilewise.ops.order.sort import sort
from tilewise.ops.quantile_formula import is_valid, of_one, shares_of
from tilewise.ops.reduce import reduce

MOST = 64  # quantiles at once
_median = RECORDERS[np.median]


class Ordered:
    """All elements of an array in order (NaNs last), of which only what is asked for is worked out.

    With `skip`, NaNs are not among them.
    """

    def __init__(self, a: Any, skip: bool) -> None:
        flat = a.reshape(-1)
        self.node = rec.as_node(flat)
        self.nans = self.node.dtype.kind == "f" and not skip
        self.length = self.node.dims[0]
        if skip and self.node.dtype.kind == "f":
            self.length = int((flat == flat).sum())

    def __getitem__(self, part: slice) -> Any:
        start, stop, _ = part.indices(self.length)
        return rec.record(select(self.node, start, stop - start))

    def at(self, position: int) -> Any:
        """One element."""
        k = position % self.length
        return self[k : k + 1].reshape(())

    def or_nan(self, result: Any) -> Any:
        """The result, or NaN if an element is: then so is the greatest."""
        if not self.nans:
            return result
        last = rec.record(reduce(self.node, "maximum", (0,), False, self.node.dtype))
        return public(np.where)(last != last, last, result)


def _ordered(a: Any, skip: bool = False) -> Ordered | None:
    """Elements on workers, or more than fit into memory; None for others, and where NumPy has more to say."""
    if type(a) is not Array or not a.size or a.dtype.kind not in "iuf":
        return None
    if not on_workers() and (unlimited_memory() or a._cell.node is None):
        return None
    found = Ordered(a, skip)
    return found if found.length else None


def _number(x: Any) -> Any:
    if type(x) is Array:
        x._fixed = x.ndim == 0
    return x


def _whole(a: Any, axis: Any) -> bool:
    return axis is None or (axis in (0, -1) and np.ndim(a) == 1)


@implements(np.median)
def median(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False) -> Any:
    """The middle of all elements."""
    ordered = _ordered(a) if _whole(a, axis) and out is None and not overwrite_input and not keepdims else None
    if ordered is not None:
        return _middle(ordered)
    here = type(a) is Array and a.size and a.dtype.kind in "iuf" and not on_workers() and unlimited_memory()
    if here and out is None and not overwrite_input:
        return _by_lines("median", a, axis, keepdims, {})
    return _median(a, axis, out, overwrite_input, keepdims)  # which sorts: that can be cut


def _middle(ordered: Ordered) -> Any:
    n = ordered.length
    return _number(ordered.or_nan(ordered[(n - 1) // 2 : n // 2 + 1].mean()))


@implements(np.nanmedian)
def nanmedian(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: Any = np._NoValue
) -> Any:
    """The middle of all elements that are numbers."""
    if type(a) is not Array or not a.size or out is not None or overwrite_input:
        return NotImplemented
    ordered = _ordered(a, skip=True) if _whole(a, axis) and keepdims in (False, np._NoValue) else None
    return _middle(ordered) if ordered is not None else _by_lines("nanmedian", a, axis, keepdims, {})


def _by_lines(fn: str, a: Array, axis: Any, keepdims: Any, options: dict[str, Any]) -> Any:
    """A function of each line along an axis, or of several axes as one."""
    axes = tuple(range(a.ndim)) if axis is None else normalize_axis_tuple(axis, a.ndim)
    rest = tuple(k for k in range(a.ndim) if k not in axes)
    x: Any = a
    if len(axes) != 1:
        x = public(np.transpose)(a, (*rest, *axes)).reshape(*(a.shape[k] for k in rest), -1)
    made: Any = rec.record(lines(rec.as_node(x), fn, axes[0] if len(axes) == 1 else len(rest), **options))
    if keepdims not in (False, np._NoValue):
        new = made.shape[: made.ndim - len(rest)]
        made = made.reshape(*new, *(1 if k in axes else n for k, n in enumerate(a.shape)))
    return _number(made)


def _quantiles(
    fn: str, a: Any, q: Any, axis: Any, out: Any, overwrite: bool, method: str, keepdims: Any, weights: Any
) -> Any:
    """Quantiles by the function of this name; NotImplemented where NumPy must do it, or say what is wrong."""
    if type(a) is not Array or not a.size or a.dtype.kind not in "iuf" or out is not None or overwrite:
        return NotImplemented
    if weights is not None:
        return NotImplemented
    given = rec.unwrap(q)
    parts = np.asarray(given)
    if parts.dtype.kind not in "iuf" or parts.ndim > 1:
        return NotImplemented
    q, one = given if type(given) in (int, float) else parts, None
    shares, weak = shares_of(fn, q)
    if not fn.startswith("nan") and is_valid(shares, method):
        one = of_one(a.dtype, shares, method, weak)
    else:
        getattr(np, fn)(np.zeros(1, a.dtype), given, method=method)  # NumPy's complaint
    if _whole(a, axis) and keepdims in (False, np._NoValue) and 0 < parts.size <= MOST:
        ordered = _ordered(a, skip=fn.startswith("nan"))
        if ordered is not None:
            shares = parts if fn.endswith("quantile") else np.true_divide(parts, 100)
            return _selected(ordered, np.asarray(shares), method, weak)
    return _by_lines(fn, a, axis, keepdims, {"q": q, "method": method, "of_one": one})


def _selected(ordered: Ordered, shares: Any, method: str, weak: bool) -> Any:
    """Quantiles of all elements: NumPy's formulas say between which, and how far."""
    n, way = ordered.length, formulas._QuantileMethods[method]  # type: ignore[attr-defined]
    places = np.asanyarray(way["get_virtual_index"](n, shares))
    if way["fix_gamma"] is None or (method == "linear" and places.dtype.kind in "iu"):
        found = [ordered.at(int(k)) for k in places.reshape(-1)]
    else:
        low, high = formulas._get_indexes(np.empty(0, ordered.node.dtype), places, n)  # type: ignore[attr-defined]
        far = formulas._get_gamma(places, low, way)  # type: ignore[attr-defined]
        ends = zip(low.reshape(-1).tolist(), high.reshape(-1).tolist(), far.reshape(-1), strict=True)
        found = [_between(ordered, a, b, float(t) if weak else t) for a, b, t in ends]
    result = found[0] if shares.ndim == 0 else public(np.stack)(found)
    return _number(ordered.or_nan(result))


def _between(ordered: Ordered, low: int, high: int, far: Any) -> Any:
    """What lies between two neighbours, as NumPy computes it."""
    n = ordered.length
    start = low % n
    both = ordered[start : high % n + 1]
    a, b = both[0].reshape(()), both[-1].reshape(())
    apart = b - a
    return b - apart * (1 - far) if far >= 0.5 else a + apart * far


@implements(np.quantile)
def quantile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear",
    keepdims: Any = False, *, weights: Any = None,
) -> Any:  # fmt: skip
    """Elements below which a share of all lies."""
    return _quantiles("quantile", a, q, axis, out, overwrite_input, method, keepdims, weights)


@implements(np.percentile)
def percentile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear",
    keepdims: Any = False, *, weights: Any = None,
) -> Any:  # fmt: skip
    """The same, in hundredths."""
    return _quantiles("percentile", a, q, axis, out, overwrite_input, method, keepdims, weights)


@implements(np.nanquantile)
def nanquantile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear",
    keepdims: Any = np._NoValue, *, weights: Any = None,
) -> Any:  # fmt: skip
    """The same of elements that are numbers."""
    return _quantiles("nanquantile", a, q, axis, out, overwrite_input, method, keepdims, weights)


@implements(np.nanpercentile)
def nanpercentile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear",
    keepdims: Any = np._NoValue, *, weights: Any = None,
) -> Any:  # fmt: skip
    """The same of elements that are numbers, in hundredths."""
    return _quantiles("nanpercentile", a, q, axis, out, overwrite_input, method, keepdims, weights)


@implements(np.partition)
def partition(a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None) -> Any:
    """A sorted vector is partitioned, whatever kth is."""
    n = a.shape[0] if type(a) is Array and a.ndim == 1 else 0
    at = np.asarray(kth) if type(kth) is not Array else None
    if axis not in (-1, 0) or order is not None or at is None or at.dtype.kind not in "iu" or not at.size or not n:
        return NotImplemented
    if at.min() < -n or at.max() >= n or _ordered(a) is None:
        return NotImplemented  # NumPy's complaint, or nothing to gain
    return rec.record(sort(rec.as_node(a), 0, None))
