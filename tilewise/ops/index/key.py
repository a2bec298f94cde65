"""Keys of an index: what is between the brackets. In: a key as a plan keeps it, index arrays. Out: NumPy's index."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

# A key is a tuple of: None, Ellipsis, int, slice as ("s", start, stop, step), or ("a", k): index array number k.
Key = tuple[Any, ...]
FULL_AXIS = ("s", None, None, None)  # a slice that is all of an axis


def rebuild(key: Key, arrays: tuple[Any, ...]) -> tuple[Any, ...]:
    """The index NumPy understands."""
    out: list[Any] = []
    for part in key:
        if isinstance(part, tuple):
            out.append(slice(*part[1:]) if part[0] == "s" else np.asarray(arrays[part[1]]))
        else:
            out.append(part)
    return tuple(out)


class Together(NamedTuple):
    """A key of index arrays, and integers, side by side, with whole axes around them."""

    first: int  # the axis that the first of them indexes
    parts: Key  # of these axes: ("a", k), or an integer

    @property
    def axes(self) -> range:
        """The axes that are indexed."""
        return range(self.first, self.first + len(self.parts))


def together(key: Key, ndim: int) -> Together | None:
    """How a key of an array with so many axes indexes axes that are neighbours; None for other keys."""
    used = sum(p is not Ellipsis for p in key)
    parts: list[Any] = []
    for p in key:
        parts.extend([FULL_AXIS] * (ndim - used) if p is Ellipsis else [p])
    parts.extend([FULL_AXIS] * (ndim - len(parts)))
    named = [k for k, p in enumerate(parts) if p != FULL_AXIS]
    plain = all(isinstance(p, int) or (isinstance(p, tuple) and p[0] == "a") for p in (parts[k] for k in named))
    if len(parts) != ndim or not named or not plain or named[-1] - named[0] + 1 != len(named):
        return None
    if used == ndim and Ellipsis in key and named[0] < key.index(Ellipsis) <= named[-1]:
        return None  # of no axes, and yet what is on both of its sides is no neighbour
    return Together(named[0], tuple(parts[named[0] : named[-1] + 1]))


def picked(base: Any, index: Any) -> Any:
    """base[index] for a mask or one index array. NumPy compresses and takes rows much quicker than it indexes them."""
    if base.ndim > 1 and index.ndim == 1 and base.size and base.flags.c_contiguous:
        kind = index.dtype.kind
        if kind == "i":
            return base.take(index, 0)
        if kind == "b" and index.size == base.shape[0]:
            return base.compress(index, 0)
    return base[index]
