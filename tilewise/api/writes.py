"""Functions that write into an argument. In: NumPy's arguments. Out: nothing; the argument has a new value.

Each is a write at a key, or an elementwise choice between old and new values.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewise.api import create
from tilewise.api.compose import recomposed
from tilewise.api.dispatch import implements, public
from tilewise.array import record as rec
from tilewise.array.handle import Array, meta
from tilewise.array.indexing import ends_of

where: Any = public(np.where)


def _plain(a: Any) -> bool:
    """Whether an array can be written to by recording."""
    return type(a) is Array and not a._fixed and a.ndim > 0 and a.size > 0 and meta(a).flags.writeable and _recorded(a)


def _recorded(a: Array) -> bool:
    return rec.numeric(a.dtype)


def _given(v: Any, a: Array, cast: str = "same_kind") -> Any:
    """Values of the array's dtype; None where NumPy would have to convert them in a way of its own."""
    x: Any = v if type(v) is Array else np.asarray(rec.unwrap(v))
    # Of lists and numbers NumPy converts each, and complains of those that do not fit.
    rule = cast if isinstance(v, np.ndarray) or (type(v) is Array and not v._fixed) else "safe"
    safe = rec.numeric(x.dtype) and (x.dtype == a.dtype or np.can_cast(x.dtype, a.dtype, rule))  # type: ignore[arg-type]
    return x.astype(a.dtype) if safe and x.size else None


@implements(np.put)
def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> Any:
    """Values at positions in the array as one line."""
    index: Any = ind if type(ind) is Array else np.asarray(rec.unwrap(ind))
    whole = index.dtype.kind in "iu" and np.can_cast(index.dtype, np.intp)
    if not _plain(a) or not whole or not index.size or mode != "raise":
        return NotImplemented
    ends: Any = ends_of(index) if type(index) is Array else index
    values = _given(v, a)
    if values is None or ends.min() < -a.size or ends.max() >= a.size or not meta(a).flags.c_contiguous:
        return NotImplemented
    values, index = values.reshape(-1), index.reshape(-1)
    if values.size > 1 and values.size != index.size:
        values = public(np.resize)(values, index.size)
    a.reshape(-1)[index] = values[0] if values.size == 1 else values
    return None


@implements(np.putmask)
def putmask(a: Any, /, mask: Any, values: Any) -> Any:
    """Values where a mask holds: of the same place, or again and again."""
    given = _given(values, a, "safe") if _plain(a) else None
    if given is None or np.shape(mask) != a.shape or (given.size > 1 and given.shape != a.shape):
        return NotImplemented
    keep: Any = mask if type(mask) is Array else np.asarray(mask)
    a[...] = where(keep.astype(bool), given if given.size > 1 else given.reshape(()), a)
    return None


@implements(np.place)
def place(arr: Any, mask: Any, vals: Any) -> Any:
    """Values where a mask holds, one after the other, again and again."""
    given = _given(vals, arr, "safe") if _plain(arr) else None
    if given is None or np.size(mask) != arr.size or type(mask) is not Array:
        return NotImplemented
    keep: Any = mask
    keep = keep.astype(bool).reshape(-1)
    given = given.reshape(-1)
    which = (keep.cumsum() - 1) % given.size
    table: Any = create.asarray(given)
    new = table[which] if given.size > 1 else given[0]
    arr[...] = where(keep.reshape(arr.shape), new.reshape(arr.shape) if given.size > 1 else new, arr)
    return None


@implements(np.fill_diagonal)
def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> Any:
    """Values where all indices are equal."""
    given = _given(val, a) if _plain(a) and a.ndim > 1 else None
    if given is None or wrap or (a.ndim > 2 and len(set(a.shape)) > 1):
        return NotImplemented
    count = min(a.shape)
    lines: list[Any] = []
    for axis, n in enumerate(a.shape):
        line: Any = create.arange(n)
        lines.append(line.reshape([-1 if k == axis else 1 for k in range(a.ndim)]))
    same = lines[0] == lines[1]
    for line in lines[2:]:
        same = same & (lines[0] == line)
    if given.size == 1:
        new = given.reshape(())
    else:
        by_row = public(np.resize)(given.reshape(-1), count)
        new = public(np.pad)(by_row, (0, a.shape[0] - count)).reshape(lines[0].shape)
    a[...] = where(same, new, a)
    return None


_along_axis = recomposed(np.put_along_axis)


@implements(np.put_along_axis)
def put_along_axis(arr: Any, indices: Any, values: Any, axis: Any) -> Any:
    """Values at indices into one axis."""
    if not _plain(arr) or axis is None or _given(values, arr) is None:
        return NotImplemented
    _along_axis(arr, indices, values, axis)
    return None
