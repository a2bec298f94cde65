"""Arrays as sets. In: NumPy's arguments. Out: Arrays.

Where workers hold the elements, `unique` is recorded (ops/order/distinct.py), and the set functions are NumPy's code
over it (compose.py). Without workers they are NumPy's own: there is nothing to gather, and shapes depend on values.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tilewise.api.dispatch import RECORDERS, implements, public
from tilewise.array import record as rec
from tilewise.array.handle import Array
from tilewise.array.session import on_workers
from tilewise.ops.index import compress
from tilewise.ops.order.distinct import KEPT, VALUE, distinct, row

INDEX = np.dtype(np.intp)


@implements(np.unique)
def unique(
    ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False, axis: Any = None,
    *, equal_nan: bool = True, sorted: bool = True,
) -> Any:  # fmt: skip
    """The different elements, in order."""
    flags = {"return_index": return_index, "return_inverse": return_inverse, "return_counts": return_counts}
    if not on_workers():
        return rec.at_once(np.unique, (ar,), {**flags, "axis": axis, "equal_nan": equal_nan, "sorted": sorted})
    if type(ar) is not Array or not ar.size or not (axis is None or (axis in (0, -1) and ar.ndim == 1)):
        return NotImplemented
    made = distinct(
        rec.as_node(ar.reshape(-1)),  # type: ignore[attr-defined]
        index=bool(return_index),
        counts=bool(return_counts),
        inverse=bool(return_inverse),
        equal_nan=bool(equal_nan) or ar.dtype.kind not in "fc",
    )
    kept = row(made, KEPT, np.dtype(bool))
    found = [compress(row(made, VALUE, ar.dtype), kept)]
    last = VALUE
    for wanted in (return_index, return_counts):
        if wanted:
            last += 1
            found.append(compress(row(made, last, INDEX), kept))
    results: list[Any] = [rec.record(x) for x in found]
    if return_inverse:
        number: Any = rec.record(row(made, last + 1, INDEX))
        results.insert(1 + bool(return_index), number.reshape(ar.shape))
    return results[0] if len(results) == 1 else tuple(results)


@implements(np.setdiff1d)
def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    """The different elements that others are not among."""
    if type(ar1) is not Array or not ar1.size:
        return NotImplemented
    given: Any = ar1.reshape(-1) if assume_unique else public(np.unique)(ar1)  # type: ignore[attr-defined]
    return given[public(np.isin)(given, ar2, invert=True)]


def _where_workers_are(func: Any) -> None:
    """NumPy's code over ours where there are workers, and as it is otherwise."""
    composed = RECORDERS[func]

    @implements(func)
    @functools.wraps(func, updated=())
    def set_function(*args: Any, **kwargs: Any) -> Any:
        return composed(*args, **kwargs) if on_workers() else rec.at_once(func, args, kwargs)


for _f in (
    np.unique_all, np.unique_counts, np.unique_inverse, np.unique_values,
    np.intersect1d, np.setdiff1d, np.setxor1d, np.union1d,
):  # fmt: skip
    _where_workers_are(_f)
