"""Linear algebra. In: NumPy's arguments of the functions in np.linalg. Out: Arrays.

On one worker what has several results is done at once, by NumPy: it is one call, and there is nothing to plan.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tilewise.api.dispatch import implements
from tilewise.array import record as rec
from tilewise.array.session import cluster_here
from tilewise.config import current
from tilewise.ops import qr as tall


def _alone() -> bool:
    """Whether there are no other workers."""
    return cluster_here(current().blocks)[0] is None


@functools.cache
def _dtype(name: str, *dtypes: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of a result, shown by NumPy on one number; or its complaint."""
    made = getattr(np.linalg, name)(*(np.ones((1, 1), d) for d in dtypes))
    return (made if isinstance(made, np.ndarray | np.generic) else made[-1]).dtype  # type: ignore[no-any-return]


QrResult: Any = type(np.linalg.qr(np.ones((1, 1))))


@implements(np.linalg.qr)
def _qr(a: Any, mode: Any = "reduced") -> Any:
    if _alone():
        return rec.at_once(np.linalg.qr, (a, mode), {})
    if a.ndim < 2 or a.shape[-2] < a.shape[-1] or mode not in ("reduced", "r"):
        return NotImplemented
    n = a.shape[-1]
    made = rec.record(tall.qr(rec.as_node(a), mode == "r", _dtype("qr", a.dtype)))
    return made if mode == "r" else QrResult(made[..., n:, :], made[..., :n, :])  # type: ignore[index]
