"""Memory order: which axis is slowest, which fastest, as NumPy would keep it. In: shapes, strides. Out: permutations.

An order is a permutation of the axes from slowest to fastest; None stands for C order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Order = tuple[int, ...] | None


def normal(order: Sequence[int]) -> Order:
    """None if the permutation is the identity."""
    order = tuple(order)
    return None if all(i == a for i, a in enumerate(order)) else order


def fortran(ndim: int) -> Order:
    """First axis fastest."""
    return normal(tuple(range(ndim - 1, -1, -1)))


def by_strides(shape: Sequence[Any], strides: Sequence[int]) -> Order:
    """The order NumPy's "K" takes from strides: larger strides are slower; ties and unit axes keep C order."""
    n = len(shape)
    if n < 2:
        return None
    long = [a for a in range(n) if shape[a] != 1]
    axes = sorted(long, key=lambda a: -abs(strides[a]))  # stable, as NumPy's
    if axes == long:
        return None
    return normal([*(a for a in range(n) if shape[a] == 1), *axes])


def strides_of(shape: Sequence[int], itemsize: int, order: Order) -> tuple[int, ...]:
    """Strides of a contiguous array in that order; NumPy gives new memory without elements none."""
    n = len(shape)
    if n == 1:
        return (itemsize,) if shape[0] else (0,)
    out = [0] * n
    if 0 in shape:
        return tuple(out)
    step = itemsize
    for axis in reversed(order or range(n)):
        out[axis] = step
        step *= shape[axis]
    return tuple(out)


def gapless(nd: Any) -> bool:
    """Whether an ndarray's elements lie in one piece of memory, in some order of its axes.

    >>> import numpy as np
    >>> x = np.zeros((2, 3, 4))
    >>> gapless(x.transpose(1, 0, 2)), gapless(x[:, :2]), gapless(x[::-1])
    (True, False, False)
    """
    if nd.flags.forc:
        return True
    order = by_strides(nd.shape, nd.strides)
    return bool(order is not None and nd.transpose(order).flags.c_contiguous)


def same_order(shape: Sequence[Any], a: Order, b: Order) -> bool:
    """Whether two orders are the same memory (where an axis of length one stands does not matter)."""
    if a == b:
        return True
    n = range(len(shape))
    return [i for i in a or n if shape[i] != 1] == [i for i in b or n if shape[i] != 1]


def broadcast_order(ndim: int, operands: Sequence[tuple[Sequence[Any], Order]]) -> Order:
    """The order of an elementwise result, from the shapes and orders of its operands.

    NumPy's iterator sorts axes by the operands' strides, first operand first; broadcast axes say nothing.
    """
    if ndim < 2 or all(order is None for _, order in operands):
        return None
    ranks: list[list[int]] = []
    for shape, order in operands:
        pad = ndim - len(shape)
        rank = [-1] * ndim  # -1: this operand has no opinion on the axis
        for pos, axis in enumerate(order or range(len(shape))):
            if shape[axis] != 1:
                rank[axis + pad] = pos
        ranks.append(rank)
    axes = list(range(ndim - 1, -1, -1))  # fastest first, as NumPy's iterator counts them
    for i in range(1, ndim):
        here = i
        for j in range(i - 1, -1, -1):
            swap, sure = _compare(axes[i], axes[j], ranks)
            if not sure:
                continue  # ambiguous pairs are stepped over
            if not swap:
                break
            here = j
        if here != i:
            axes.insert(here, axes.pop(i))
    axes.reverse()
    return normal(axes)


def joined_order(ndim: int, operands: Sequence[tuple[Sequence[Any], Order]]) -> Order:
    """The order of a concatenation: NumPy sorts the axes by all strides, slowest first; for conflicts C order wins."""
    if ndim < 2 or all(order is None for _, order in operands):
        return None
    places = [(shape, tuple(order or range(ndim))) for shape, order in operands]
    ranks = [[-1 if shape[a] == 1 else order.index(a) for a in range(ndim)] for shape, order in places]
    axes = list(range(ndim))
    for i in range(1, ndim):
        here, axis = i, axes[i]
        for j in range(i - 1, -1, -1):
            swap, sure = _compare(axes[j], axis, ranks)
            if not sure:
                continue
            if not swap:
                break
            here = j
        axes.insert(here, axes.pop(i))
    return normal(axes)


def _compare(slow: int, fast: int, ranks: Sequence[Sequence[int]]) -> tuple[bool, bool]:
    """Whether `slow` should become faster than `fast`, and whether any operand has a say."""
    swap, sure = False, False
    for rank in ranks:
        a, b = rank[slow], rank[fast]
        if a < 0 or b < 0:
            continue
        if a < b:
            return False, True  # one operand wants them as they are: that decides
        swap, sure = True, True
    return swap, sure
