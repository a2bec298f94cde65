"""NumPy's formula of quantiles. In: shares, and who finds elements of the sorted vector. Out: what NumPy gives.

`np.quantile` itself loads `numpy.ma` (13 ms) to look for masks where there are none, so whoever has the elements at
hand, or wants to know the type of the result only, asks here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib import _function_base_impl as formulas

ND = np.ndarray[Any, Any]
Elements = Callable[[Sequence[int]], "dict[int, Any] | None"]  # by their positions modulo the length


def shares_of(fn: str, q: Any) -> tuple[ND, bool]:
    """What `quantile` or `percentile` is asked for: shares of all elements, and whether a number of Python says so."""
    return np.true_divide(q, 100, out=...) if fn == "percentile" else np.asanyarray(q), type(q) in (int, float)


def is_valid(shares: ND, method: str) -> bool:
    """Whether NumPy has nothing to complain about."""
    return method in formulas._QuantileMethods and bool(formulas._quantile_is_valid(shares))  # type: ignore[attr-defined]


def quantiles(dtype: np.dtype[Any], n: int, shares: ND, method: str, weak: bool, elements: Elements) -> Any:
    """Quantiles of a vector of n elements; None where its elements cannot be had."""
    way = formulas._QuantileMethods[method]  # type: ignore[attr-defined]
    places = np.asanyarray(way["get_virtual_index"](n, shares))
    if way["fix_gamma"] is None or (method == "linear" and places.dtype.kind in "iu"):
        found = elements(places.reshape(-1).tolist())
        return None if found is None else _taken(dtype, n, found, places)
    low, high = formulas._get_indexes(np.empty(0, dtype), places, n)  # type: ignore[attr-defined]
    found = elements([*low.reshape(-1).tolist(), *high.reshape(-1).tolist()])
    if found is None:
        return None
    far = formulas._get_gamma(places, low, way)  # type: ignore[attr-defined]
    ends = _taken(dtype, n, found, low), _taken(dtype, n, found, high)
    return formulas._lerp(*ends, float(far) if weak else far)  # type: ignore[attr-defined]


def of_one(dtype: np.dtype[Any], shares: ND, method: str, weak: bool) -> Any:
    """Quantiles of a vector with one element: they have the shape and the dtype of all."""
    one = np.ones((), dtype)[()]
    return quantiles(dtype, 1, shares, method, weak, lambda _: {0: one})


def _taken(dtype: np.dtype[Any], n: int, found: dict[int, Any], at: ND) -> Any:
    """Elements at positions, as NumPy's indexing gives them."""
    return np.array([found[k % n] for k in at.reshape(-1).tolist()], dtype).reshape(at.shape)[()]
