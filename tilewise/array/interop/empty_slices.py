"""Means and variances of what a mask selects, if that is too little. In: recorded nodes. Out: NumPy's warnings.

How many elements a mask selects is not known where the mean of them is recorded, and need not be to compute it. The
number is a node of the same graph: an evaluation here gives it beside its results, and then warns at the user's line.
(Workers keep such numbers to themselves: a mesh does not warn.)
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from tilewise.array.cell import Cell
from tilewise.array.handle import from_node
from tilewise.array.interop.float_warnings import geterr, users_frame, warn_at
from tilewise.ir.node import Node


class Slice(NamedTuple):
    """A result that needs more than `ddof` elements: how many there are, and what NumPy says where."""

    elements: Node
    ddof: int
    text: str
    divisions: tuple[str, ...]  # what NumPy divides if there are none at all
    places: dict[tuple[str, int], dict[str, Any]]  # lines that asked for it, with the globals of their modules


_slices: weakref.WeakKeyDictionary[Node, Slice] = weakref.WeakKeyDictionary()
Counted = tuple[Cell, Slice, weakref.ref[Node]]  # a number, what it is for, the result
NONE: Sequence[Counted] = ()
ANY = _slices.data  # type: ignore[attr-defined]  # asked for each evaluation: its length is no call of Python


def watch(result: Node, count: Node, text: str, divisions: tuple[str, ...], ddof: int = 0) -> None:
    """Warn when a result is computed of which masks decide how many elements it is made of."""
    user = users_frame(sys._getframe(1))
    told = divisions if geterr()["invalid"] == "warn" else ()
    slice_ = _slices.setdefault(result, Slice(count, ddof, text, told, {}))
    slice_.places[user.f_code.co_filename, user.f_lineno] = user.f_globals


def counts(nodes: Collection[Node]) -> Sequence[Counted]:
    """Cells of the numbers that an evaluation of nodes must give, too."""
    found = [(n, s) for n, s in list(_slices.items()) if n in nodes and n.value is None]
    return [(from_node(s.elements)._cell, s, weakref.ref(n)) for n, s in found]


def warn(counted: Sequence[Counted]) -> None:
    """Say which of them were too small. (An evaluation that fails is made again, and says so then.)"""
    for cell, s, result in counted:
        if (n := result()) is not None:
            _slices.pop(n, None)
        if cell.buf is None or (count := int(cell.buf)) > s.ddof:
            continue
        for place, names in s.places.items():
            warn_at(place, names, s.text, RuntimeWarning)
            for name in s.divisions if count == 0 else ():
                warn_at(place, names, f"invalid value encountered in {name}", RuntimeWarning)
