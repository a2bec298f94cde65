"""What a backend and the expressions of arrays agree on: an expression as text, and how its code is called.

An expression is text in postfix order: `a` is the next array, `n` the next number, `+ - * /` take two values, `m` is
minus and `q` the square of one. So `0.5 * (x + y)` is `naa+*`.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewise.records import dataclass

CONTIGUOUS, BROADCAST, STRIDED = "cbs"  # how an array lies along the innermost axis
DATA = 16  # NumPy: PyArrayObject_fields, where an ndarray has its address
MOST_OUTER = 3  # loops around the innermost one


@dataclass(frozen=True)
class Expression:
    """What code is made for."""

    text: str
    kind: str  # of all elements: NumPy's letter
    ways: str  # how the result and the arrays lie, a letter each
    outer: int  # loops around the innermost one


# Takes two blocks. The first: ids of the result and of the arrays, then the numbers, all 8 bytes wide. The second: the
# lengths of the loops from the outermost on, then for the result and each array its strides in the same order.
# Gives whether a value was divided by zero, was too large, or has no meaning.
Code = Callable[[bytes, bytes], int]
Arrived = Callable[[Code], None]
