"""Keys of an index: what is between the brackets. In: a key as a plan keeps it, index arrays. Out: NumPy's index."""

from __future__ import annotations

from typing import Any

import numpy as np

# A key is a tuple of: None, Ellipsis, int, slice as ("s", start, stop, step), or ("a", k): index array number k.
Key = tuple[Any, ...]


def rebuild(key: Key, arrays: tuple[Any, ...]) -> tuple[Any, ...]:
    """The index NumPy understands."""
    out: list[Any] = []
    for part in key:
        if isinstance(part, tuple):
            out.append(slice(*part[1:]) if part[0] == "s" else np.asarray(arrays[part[1]]))
        else:
            out.append(part)
    return tuple(out)


def one_array(key: Key) -> int | None:
    """The axis that a key with one index array, and nothing else, indexes; None for other keys."""
    arrays = [k for k, p in enumerate(key) if isinstance(p, tuple) and p[0] == "a"]
    plain = all(p == ("s", None, None, None) for k, p in enumerate(key) if k not in arrays)
    return arrays[0] if len(arrays) == 1 and plain else None


def picked(base: Any, index: Any) -> Any:
    """base[index] for a mask or one index array. NumPy compresses and takes rows much quicker than it indexes them."""
    if base.ndim > 1 and index.ndim == 1 and base.size and base.flags.c_contiguous:
        kind = index.dtype.kind
        if kind == "i":
            return base.take(index, 0)
        if kind == "b" and index.size == base.shape[0]:
            return base.compress(index, 0)
    return base[index]
