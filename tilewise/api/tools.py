"""Our own names: compute, evaluate, session. In: Arrays. Out: ndarrays, Arrays, sessions."""

from __future__ import annotations

from typing import Any

from tilewise.array import force as forcing
from tilewise.array.cell import ND
from tilewise.array.handle import Array
from tilewise.array.session import Session


def evaluate(*arrays: Array) -> Any:
    """Evaluate, and keep the results as Arrays where they are; shared work is done once.

    >>> import tilewise as tw
    >>> x, y = tw.evaluate(tw.arange(3) + 1, tw.arange(3) * 2)
    >>> x
    Array([1, 2, 3])
    """
    forcing.evaluate([x._cell for x in arrays if isinstance(x, Array)])
    return arrays[0] if len(arrays) == 1 else arrays


def compute(*arrays: Any) -> Any:
    """Evaluate, and give ndarrays that the caller owns; shared work is done once.

    >>> import tilewise as tw
    >>> tw.compute(tw.arange(3) + 1, tw.arange(3).sum())
    (array([1, 2, 3]), array(3))
    """
    forcing.evaluate([x._cell for x in arrays if isinstance(x, Array)])
    results: tuple[ND, ...] = tuple(x.compute() if isinstance(x, Array) else x for x in arrays)  # type: ignore[attr-defined]
    return results[0] if len(results) == 1 else results


session = Session
