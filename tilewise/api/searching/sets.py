"""Arrays as sets. In: NumPy's arguments. Out: Arrays.

Where workers hold the elements, `unique` is recorded (ops/order/distinct.py), and the set functions are NumPy's code
over it (compose.py). Without workers they are NumPy's own: there is nothing to gather, and shapes depend on values.
"""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from tilewise.api.dispatch import PUBLIC, QUICK, RECORDERS, implements, public
from tilewise.array import record as rec
from tilewise.array.handle import Array
from tilewise.array.interop.elsewhere import in_blocks
from tilewise.array.lengths.expected import different
from tilewise.ops.index import compress
from tilewise.ops.order.distinct import KEPT, Distinct, distinct, row, values

INDEX = np.dtype(np.intp)
MOST_COLUMNS = 1024  # of rows that are compared as one element each


@implements(np.unique)
def unique(
    ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False, axis: Any = None,
    *, equal_nan: bool = True, sorted: bool = True,
) -> Any:  # fmt: skip
    """The different elements, in order."""
    flags = {"return_index": return_index, "return_inverse": return_inverse, "return_counts": return_counts}
    if not in_blocks(ar):
        return rec.at_once(np.unique, (ar,), {**flags, "axis": axis, "equal_nan": equal_nan, "sorted": sorted})
    if type(ar) is not Array or not ar.size:
        return NotImplemented
    x: Any = ar
    rows = axis is not None and ar.ndim > 1
    at = normalize_axis_index(operator.index(axis), ar.ndim) if rows else 0
    if rows and ar.size // ar.shape[at] > MOST_COLUMNS:
        return NotImplemented
    moved: Any = public(np.moveaxis)(x, at, 0) if rows else x
    given = rec.as_node(moved.reshape(len(moved), -1) if rows else x.reshape(-1))
    made = distinct(
        given,
        index=bool(return_index),
        counts=bool(return_counts),
        inverse=bool(return_inverse),
        equal_nan=bool(equal_nan) or ar.dtype.kind not in "fc",
        likely=0 if rows else different(given),
    )
    kept = row(made, KEPT, np.dtype(bool))
    found = [compress(values(made, ar.dtype), kept)]
    assert isinstance(made.op, Distinct)
    after = made.op.after_values
    for wanted in (return_index, return_counts):
        if wanted:
            found.append(compress(row(made, after, INDEX), kept))
            after += 1
    results: list[Any] = [rec.record(x) for x in found]
    if rows:
        whole = results[0] if ar.ndim == 2 else results[0].reshape(-1, *moved.shape[1:])
        results[0] = public(np.moveaxis)(whole, 0, at)
    if return_inverse:
        number: Any = rec.record(row(made, after, INDEX))
        results.insert(1 + bool(return_index), number if rows else number.reshape(ar.shape))
    return results[0] if len(results) == 1 else tuple(results)


@implements(np.setdiff1d)
def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    """The different elements that others are not among."""
    if type(ar1) is not Array or not ar1.size:
        return NotImplemented
    given: Any = ar1.reshape(-1) if assume_unique else public(np.unique)(ar1)
    return given[public(np.isin)(given, ar2, invert=True)]


def _where_workers_are(func: Any) -> None:
    """NumPy's code over ours where there are workers, and as it is otherwise."""
    composed = RECORDERS[func]

    @implements(func)
    @functools.wraps(func, updated=())
    def set_function(*args: Any, **kwargs: Any) -> Any:
        return composed(*args, **kwargs) if in_blocks(*args) else rec.at_once(func, args, kwargs)


for _f in (
    np.unique_all, np.unique_counts, np.unique_inverse,
    np.intersect1d, np.setdiff1d, np.setxor1d, np.union1d,
):  # fmt: skip
    _where_workers_are(_f)


@implements(np.unique_values)
def unique_values(x: Any, /) -> Any:
    """The different elements of an array, in order.

    NumPy gives them in the order of a hash table; clients of the array API take them for sorted.

    >>> import tilewise as tw
    >>> tw.unique_values([3, 1, 2, 1])
    Array([1, 2, 3])
    """
    return public(np.unique)(x, equal_nan=False)


PUBLIC[np.unique_values] = unique_values
QUICK[np.unique_values] = functools.partial(np.unique, equal_nan=False)  # np.unique_values itself, of an Array
