"""Rows taken, arrays joined, rims added, in memory of the pool. In: an operator, arrays. Out: a result.

NumPy's `take` and `concatenate` give the same elements, by one thread and in fresh memory, which the system must hand
over page by page while idle memory of the pool lies beside it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewise.backend import threads
from tilewise.backend.host.arrays import fresh
from tilewise.ir.node import Node
from tilewise.ops.index.gather import Gather
from tilewise.ops.join import Concat
from tilewise.ops.periodic import Rim

BY_PARTS = (Concat, Gather, Rim)
THREADS_BYTES = 32 << 20  # of a join: below, one thread copies as fast as it would rouse another
PARTS = 4  # per thread: threads that are held up hand over the rest


def by_parts(node: Node, inputs: list[Any]) -> Any:
    """The result of taking rows, of joining or of a rim; None for whatever is not as simple as that."""
    op = node.op
    if not node.known or not all(type(x) is np.ndarray for x in inputs):
        return None
    if type(op) is Concat and all(x.dtype == node.dtype for x in inputs):
        return _joined(node, inputs, op.axis)
    if type(op) is Rim:
        return _rimmed(op, node, inputs[0])
    if type(op) is Gather and op.counting is None and (op.take or len(op.key) == 1) and len(inputs) == 2:
        return _rows(node, *inputs) if op.key[0] == ("a", 0) and node.order is None else None
    return None


def _joined(node: Node, arrays: list[Any], axis: int) -> Any:
    out = fresh(node)
    if node.nbytes < THREADS_BYTES:
        np.concatenate(arrays, axis, out=out)
        return out
    start, key = 0, (slice(None),) * axis
    for x in arrays:
        stop = start + x.shape[axis]
        threads.parallel_copy(out[(*key, slice(start, stop))], x)
        start = stop
    return out


def _rimmed(op: Rim, node: Node, array: Any) -> Any:
    out = fresh(node)
    rows = len(array)
    if node.nbytes < THREADS_BYTES:
        op.fill(out, array, 0, rows)
    else:
        count = min(PARTS * threads.get_threads(), rows)
        ranges = [(rows * i // count, rows * (i + 1) // count) for i in range(count)]
        threads.parallel_for(lambda low, high: op.fill(out, array, low, high), ranges)
    op.close(out)
    return out


def _rows(node: Node, base: Any, index: Any) -> Any:
    """base[index] along the first axis. Indices that are not in it are left to NumPy, which says so."""
    length = base.shape[0]
    if base.ndim < 2 or index.ndim != 1 or index.dtype.kind != "i" or not base.flags.c_contiguous or not index.size:
        return None
    if base.dtype != node.dtype or not -length <= index.min() <= index.max() < length:
        return None
    out = fresh(node)
    if not out.flags.c_contiguous:
        return None

    def part(low: int, high: int) -> None:
        np.take(base, index[low:high], 0, out=out[low:high], mode="wrap")  # "raise" would copy once more

    count = min(PARTS * threads.get_threads(), index.size)
    threads.parallel_for(part, [(index.size * i // count, index.size * (i + 1) // count) for i in range(count)])
    return out
