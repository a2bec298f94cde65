"""Our own names: compute, evaluate, session. In: Arrays. Out: ndarrays, Arrays, sessions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewise.array import force as forcing
from tilewise.array.cell import ND, Cell
from tilewise.array.handle import Array
from tilewise.array.session import Session, begin_anew


def evaluate(*arrays: Array) -> Any:
    """Evaluate, and keep the results as Arrays where they are; shared work is done once.

    >>> import tilewise as tw
    >>> x, y = tw.evaluate(tw.arange(3) + 1, tw.arange(3) * 2)
    >>> x
    Array([1, 2, 3])
    """
    if len(arrays) == 1 and type(arrays[0]) is Array:
        if arrays[0]._cell.node is not None:
            forcing.evaluate_arrays(arrays)
            begin_anew()
        return arrays[0]
    pending = [x for x in arrays if type(x) is Array and x._cell.node is not None]
    if pending:
        forcing.evaluate_arrays(pending)
        begin_anew()
    return arrays[0] if len(arrays) == 1 else arrays


def compute(*arrays: Any) -> Any:
    """Evaluate, and give ndarrays that the caller owns; shared work is done once.

    >>> import tilewise as tw
    >>> tw.compute(tw.arange(3) + 1, tw.arange(3).sum())
    (array([1, 2, 3]), array(3))
    """
    own = iter(forcing.evaluate_arrays([x for x in arrays if type(x) is Array]))
    results = tuple(
        _computed(x, next(own)) if type(x) is Array else np.array(x) if isinstance(x, np.generic) else x for x in arrays
    )
    begin_anew()
    return results[0] if len(results) == 1 else results


def _computed(x: Array, own: Cell) -> ND:
    """The elements of an evaluated array, for the caller to own."""
    if own is x._cell:
        found: ND = x.compute()
        return found
    return forcing.shown(x, own)


session = Session
