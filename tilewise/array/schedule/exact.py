"""Ufuncs whose native code gives NumPy's bits. In: a ufunc and the kinds of its operands. Out: whether it is one.

These may be computed by NumPy or by native code, as the policy of when work runs likes (docs/scheduling.md): the
result is the same. Of all others, sizes and the graph alone decide who computes them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_COMPARISONS = "equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor logical_not"
_COMPLEX = f"add subtract multiply divide negative positive square conjugate {_COMPARISONS} isnan isinf isfinite"
_REAL = (
    f"{_COMPLEX} minimum maximum fmin fmax floor_divide remainder fmod absolute fabs sqrt reciprocal sign rint floor "
    "ceil trunc copysign signbit bitwise_and bitwise_or bitwise_xor invert left_shift right_shift"
)
REAL: frozenset[np.ufunc] = frozenset(getattr(np, name) for name in _REAL.split())
COMPLEX: frozenset[np.ufunc] = frozenset(getattr(np, name) for name in _COMPLEX.split())


def exact(ufunc: np.ufunc, kinds: Any) -> bool:
    """Whether NumPy's and native code give the same bits for operands of these dtypes (or Python's number types)."""
    if ufunc not in REAL:
        return False
    for kind in kinds:
        if kind is complex or (type(kind) is not type and kind.kind == "c"):
            return ufunc in COMPLEX
        if type(kind) is not type and kind.char == "g":
            return False  # has no native code: NumPy, in pieces
    return True
