"""Scalar functions: the table of what an elementwise operator may compute. In: a name. Out: its row.

Every NumPy ufunc is a row, plus `where`, `cast`, the parts of complex numbers and the words of a float. `rarely` is a
`where` whose condition hardly ever holds. The laws say under which reduction an argument may stay partial (Kasen):
F(R(a, b)) = R(F(a), F(b)).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Scalar:
    """One scalar function: its name, number of arguments and results, and its NumPy meaning."""

    name: str
    nin: int
    nout: int
    call: Callable[..., Any]

    def __reduce__(self) -> tuple[Any, ...]:
        return (scalar, (self.name,))


def _ufuncs() -> dict[str, np.ufunc]:
    found = {n: f for n, f in vars(np).items() if isinstance(f, np.ufunc)}  # dir(np) would load f2py and more
    return {f.__name__: f for f in found.values() if f.signature is None}


def _power(a: Any, b: Any, **options: Any) -> Any:
    """np.power; of two numbers as NumPy's scalars have it: (-inf) ** 0.5 is inf, not the nan of arrays."""
    return a[()] ** b[()] if a.ndim == b.ndim == 0 and not options else np.power(a, b, **options)


def _word(shift: int) -> Callable[..., Any]:
    """32 of the bits of a float64."""
    return lambda a: (np.asarray(a).view(np.uint64) >> np.uint64(shift)).astype(np.uint32)


UFUNCS: dict[str, np.ufunc] = _ufuncs()
TABLE: dict[str, Scalar] = {n: Scalar(n, f.nin, f.nout, f) for n, f in UFUNCS.items()}
TABLE["power"] = Scalar("power", 2, 1, _power)
TABLE["where"] = Scalar("where", 3, 1, np.where)
TABLE["rarely"] = Scalar("rarely", 3, 1, np.where)
TABLE["cast"] = Scalar("cast", 1, 1, lambda a: a)
TABLE["real"] = Scalar("real", 1, 1, np.real)
TABLE["imag"] = Scalar("imag", 1, 1, np.imag)
TABLE["low_word"] = Scalar("low_word", 1, 1, _word(0))
TABLE["high_word"] = Scalar("high_word", 1, 1, _word(32))
TABLE["clip"] = Scalar("clip", 3, 1, lambda x, lo, hi: np.minimum(np.maximum(x, lo), hi))


def scalar(name: str) -> Scalar:
    """The row of a scalar function: NumPy's, or one of SciPy's special functions (made when first asked for).

    >>> scalar("hypot").nin
    2
    """
    found = TABLE.get(name)
    if found is None:
        f = getattr(importlib.import_module("scipy.special"), name)
        found = TABLE.setdefault(name, Scalar(name, f.nin, f.nout, f))
    return found


@cache
def dtype_name(dtype: np.dtype[Any]) -> str:
    """NumPy's name of a dtype, which takes it longer to find than planning an operator does."""
    return dtype.name


# An argument of these may stay Partial(op): function -> op -> which arguments may be partial, all together.
# "together": all arguments partial at once (linear in the tuple); "one": exactly one partial, the others whole.
LAWS: dict[str, dict[str, str]] = {
    "add": {"add": "together"},
    "subtract": {"add": "together"},
    "negative": {"add": "together"},
    "positive": {"add": "together", "multiply": "together", "minimum": "together", "maximum": "together"},
    "multiply": {"add": "one", "multiply": "together"},
    "minimum": {"minimum": "together"},
    "maximum": {"maximum": "together"},
    "logical_or": {"logical_or": "together"},
    "logical_and": {"logical_and": "together"},
    "bitwise_or": {"bitwise_or": "together"},
    "bitwise_and": {"bitwise_and": "together"},
    "bitwise_xor": {"bitwise_xor": "together"},
}

# Functions that cost far more than moving their argument: a shared one is stored, not computed twice.
EXPENSIVE = frozenset(
    "exp exp2 expm1 log log2 log10 log1p power float_power sin cos tan arcsin arccos arctan arctan2 sinh cosh tanh "
    "arcsinh arccosh arctanh cbrt erf erfc ndtr expit logit gamma gammaln xlogy divmod hypot logaddexp logaddexp2 "
    "gcd lcm fmod remainder floor_divide".split()
)
