"""Kinds of numbers that functions see. In: results of lowering, dtypes. Out: kinds: Python's classes, or dtypes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tilewise.python.refuse import Refused
from tilewise.python.scalars.arithmetic import NATIVE_DTYPES

Kind = type | np.dtype[Any]  # bool, int, float, complex: Python's numbers; a dtype: NumPy's
DTYPES: dict[type, np.dtype[Any]] = {k: np.dtype(k) for k in (bool, int, float, complex)}
RANK = {bool: 0, int: 1, float: 2, complex: 3}
WEAK: dict[Any, Any] = {int: 0, float: 0.0, complex: 0j}  # Python's numbers in NumPy's promotion
PYTHON = {"b": bool, "i": int, "u": int, "f": float, "c": complex}  # what NumPy gives functions, by a dtype's kind


def stored(kind: Kind) -> np.dtype[Any]:
    """The dtype that a number of a kind is kept in."""
    found = DTYPES[kind] if isinstance(kind, type) else kind
    if found.name not in NATIVE_DTYPES:
        raise Refused(f"numbers of dtype {found}")
    return found


def spec(kind: Kind) -> Any:
    """The same for the front end."""
    if kind is int:
        return "wide"
    return kind if isinstance(kind, type) else stored(kind).type


def converted(kind: Kind, text: str) -> str:
    """A number as one of a kind, as text."""
    if isinstance(kind, type):
        return f"{kind.__name__}({text})"
    return f"np.{'bool_' if kind.kind == 'b' else kind.name}({text})"


def loaded(kind: Kind, text: str) -> str:
    """An element of an array that holds numbers of a kind, as text."""
    return converted(kind, text) if isinstance(kind, type) else text


def of_result(structure: Any) -> Kind:
    """The kind of a number that a function gives."""
    if structure[0] == "py":
        return PYTHON[np.dtype(structure[1]).kind]
    if structure[0] == "np":
        dtype: np.dtype[Any] = np.dtype(structure[1])
        return dtype
    raise Refused("a result that is no number")


def joined(kinds: Iterable[Kind]) -> Kind:
    """The kind that holds numbers of all of these: Python's are weak beside NumPy's."""
    found = set(kinds)
    ours = [k for k in found if isinstance(k, type)]
    if len(ours) == len(found):
        return max(ours, key=lambda k: RANK[k])
    whole: np.dtype[Any] = np.result_type(
        *(k for k in found if not isinstance(k, type)), *(WEAK.get(k, np.bool_) for k in ours)
    )
    return whole
