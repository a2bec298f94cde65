"""Calls of NumPy's functions that are read as Python (written.py). In: arguments. Out: the function, and its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewise.python.build import Array, Lazy, Scalar, Static, Value
from tilewise.python.scalars import arithmetic
from tilewise.python.standard import written


def bincount_of(args: list[Value], options: dict[str, Value]) -> tuple[Any, list[Value]] | None:
    """np.bincount(x, weights=None, minlength=0) of integers, and of weights that are real numbers."""
    given = dict(zip(("x", "weights", "minlength"), args, strict=False))
    if len(args) > 3 or given.keys() & options.keys() or not {*given, *options} <= {"x", "weights", "minlength"}:
        return None
    given |= options
    x, weights, least = given.get("x"), given.get("weights"), given.get("minlength", arithmetic.constant(0))
    if not _vector(x, "bi") or not (isinstance(least, Scalar) and least.t.dtype == "int64"):
        return None
    assert x is not None
    if weights is None or (isinstance(weights, Static) and weights.value is None):
        return written.bincount, [x, least]
    return (written.weighted_bincount, [x, weights, least]) if _vector(weights, "f") else None


def _vector(v: Value | None, kinds: str) -> bool:
    return isinstance(v, Array | Lazy) and v.t.rank == 1 and np.dtype(v.t.dtype).kind in kinds
