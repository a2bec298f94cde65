"""How much arithmetic an operator is. In: an operator, shapes of its operands. Out: a Work (cost/model.py has rates).

Bytes are not counted here: they follow from the shapes. Operators register theirs beside their class.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

LAPACK_FLOPS = 4  # per element of an operand and column of a matrix


class Work(NamedTuple):
    """What an operator does besides moving its operands and result through memory."""

    flops: float = 0.0  # at the rate of a matrix product
    functions: float = 0.0  # exponentials and their like
    compared: float = 0.0  # elements that are sorted, times the logarithm of their number


@functools.singledispatch
def work(op: Any, shapes: Sequence[tuple[int, ...]], size: int) -> Work:
    """The arithmetic of an operator: shapes of its operands, elements of its result."""
    return NOTHING


NOTHING = Work()
