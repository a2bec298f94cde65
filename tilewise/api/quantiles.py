"""Order statistics of all elements, where workers hold them. In: NumPy's arguments. Out: Arrays, recorded.

Parts of a sorted vector are selected, not sorted (ops/select.py). Without workers, and along an axis, these functions
are NumPy's own or its code over ours (compose.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewise.api import compose  # noqa: F401  (median is recorded there)
from tilewise.api.dispatch import RECORDERS, implements, public
from tilewise.array import record as rec
from tilewise.array.handle import Array
from tilewise.array.session import on_workers
from tilewise.ops.select import select
from tilewise.ops.sort import sort

MOST = 64  # quantiles at once
FLOAT = np.dtype(float)
_median = RECORDERS[np.median]


class Ordered:
    """All elements of an array in order, of which only what is asked for is worked out."""

    def __init__(self, a: Any) -> None:
        self.node = rec.as_node(a.reshape(-1))
        self.length = self.node.dims[0]

    def __getitem__(self, part: slice) -> Any:
        start, stop, _ = part.indices(self.length)
        return rec.record(select(self.node, start, stop - start))

    def or_nan(self, result: Any) -> Any:
        """The result, or NaN if an element is: NaNs are the last in order."""
        if self.node.dtype.kind != "f":
            return result
        last = self[self.length - 1 : self.length].reshape(())
        return public(np.where)(last != last, last, result)


def _ordered(a: Any) -> Ordered | None:
    """Elements on workers; None where there are none, or NumPy has more to say."""
    if type(a) is not Array or not a.size or a.dtype.kind not in "iuf" or not on_workers():
        return None
    return Ordered(a)


@implements(np.median)
def median(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False) -> Any:
    """The middle of all elements."""
    whole = axis is None or (axis == 0 and np.ndim(a) == 1)
    ordered = _ordered(a) if whole and out is None and not overwrite_input and not keepdims else None
    if ordered is None:
        return _median(a, axis, out, overwrite_input, keepdims)
    n = ordered.length
    return _number(ordered.or_nan(ordered[(n - 1) // 2 : n // 2 + 1].mean()))


def _number(x: Any) -> Any:
    if type(x) is Array:
        x._fixed = x.ndim == 0
    return x


@implements(np.quantile)
def quantile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear",
    keepdims: bool = False, *, weights: Any = None, interpolation: Any = None,
) -> Any:  # fmt: skip
    """Quantiles of all elements, between neighbours by their distance."""
    whole = axis is None or (axis == 0 and np.ndim(a) == 1)
    plain = out is None and not overwrite_input and not keepdims and weights is None and interpolation is None
    if type(q) is Array or not whole or not plain or method != "linear":
        return NotImplemented
    given = np.asarray(q)
    wide = type(a) is Array and (a.dtype == FLOAT or a.dtype.kind in "iu")
    if given.dtype.kind not in "iuf" or given.ndim > 1 or not 0 < given.size <= MOST or not wide:
        return NotImplemented
    if not (given >= 0).all() or not (given <= 1).all():
        return NotImplemented  # NumPy's complaint
    ordered = _ordered(a)
    if ordered is None:
        return NotImplemented
    found = [_at(ordered, float(v)) for v in given.reshape(-1)]
    result = found[0] if given.ndim == 0 else public(np.stack)(found)
    return _number(ordered.or_nan(result))


def _at(ordered: Ordered, q: float) -> Any:
    """One quantile, as NumPy computes it."""
    n = ordered.length
    place = (n - 1) * q
    low = int(np.floor(place))
    part = place - low
    both = ordered[low : min(low + 2, n)]
    a, b = both[0].reshape(()), both[-1].reshape(())
    apart = b - a
    return b - apart * (1 - part) if part >= 0.5 else a + apart * part


@implements(np.percentile)
def percentile(a: Any, q: Any, *args: Any, **kwargs: Any) -> Any:
    """Quantiles, in hundredths."""
    if type(q) is Array:
        return NotImplemented
    return quantile(a, np.true_divide(q, 100), *args, **kwargs)


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
