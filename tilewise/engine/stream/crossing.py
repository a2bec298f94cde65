"""What workers whose blocks take turns send each other. In: shares of a plan, what a worker keeps. Out: the rest of it.

Everything goes in steps that all workers take together: in each, a worker gives at most one message to every other and
gets one from every other. A message has a bounded size, so that no worker holds more than a few of them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TypeVar

import numpy as np

from tilewise.engine.stream.values import Values
from tilewise.ir.reductions import Combining, Reduction
from tilewise.layout import Box
from tilewise.plan.shares import Shares, in_parts
from tilewise.store import pool
from tilewise.store.base import ND

T = TypeVar("T")
P = TypeVar("P")
Messages = list[list[ND]]  # by worker
Talk = Generator[Messages, Messages, T]  # each yield is a step


def brought(shares: Shares, worker: int, loop: int, values: Values) -> Talk[None]:
    """Bring what a loop needs of what others keep."""
    specs, most = shares.streams.plan.specs, shares.message_bytes
    parts: dict[tuple[int, int], list[tuple[int, Box]]] = {}
    for c in shares.crossings[loop]:
        pieces = [(c.pos, box) for box in in_parts(c.box, specs[c.pos].dtype.itemsize, most)]
        parts.setdefault((c.sender, c.receiver), []).extend(pieces)
    yield from sent(
        shares.workers, worker, parts, lambda p: values.piece(*p), lambda p, array: values.put_piece(*p, array)
    )


def sent(
    workers: int,
    worker: int,
    parts: Mapping[tuple[int, int], Sequence[P]],
    take: Callable[[P], ND],
    put: Callable[[P, ND], None],
) -> Talk[None]:
    """Send parts by (sender, receiver), one of each in a step."""
    for k in range(max(map(len, parts.values()), default=0)):
        inbox = yield [
            [take(mine[k])] if v != worker and k < len(mine := parts.get((worker, v), ())) else []
            for v in range(workers)
        ]
        for v, pieces in enumerate(inbox):
            for piece in pieces:
                put(parts[v, worker][k], piece)


def all_summed(shares: Shares, worker: int, pos: int, by: Reduction, mine: ND | None) -> Talk[ND]:
    """What the contributions of all workers add up to: the first one adds them, in their order, and tells others."""
    spec, workers = shares.streams.plan.specs[pos], shares.workers
    nothing = mine is None
    own = np.full(spec.shape, by.identity(spec.dtype), spec.dtype) if mine is None else mine
    flat = np.ascontiguousarray(own).reshape(-1)
    out = pool.empty(spec.shape, spec.dtype, None)
    result, step = out.reshape(-1), max(shares.message_bytes // max(spec.dtype.itemsize, 1), 1)
    for at in range(0, flat.size, step):
        part = flat[at : at + step]
        marks = [part[:0]] if nothing else []  # of no bytes: there is nothing to add
        inbox = yield [[part, *marks] if worker and not v else [] for v in range(workers)]
        if worker == 0:
            tree = Combining(by)
            for pieces in ([part, *marks], *inbox[1:]):
                tree.add(pieces[0].copy() if len(pieces) == 1 else None)
            found = tree.result()
            result[at : at + step] = part if found is None else found
        told = result[at : at + step]
        inbox = yield [[told] if not worker and v else [] for v in range(workers)]
        if worker:
            result[at : at + step] = inbox[0][0]
    return out


def even_parts(
    shares: Shares, pos: int, axis: int, starts: Sequence[int]
) -> dict[tuple[int, int], list[tuple[Box, Box]]]:
    """By sender and receiver: parts of a value, where they are and where they belong.

    Each worker has a run of it that begins at its start, and lies at the beginning of a file of its own.
    """
    spec, owned = shares.streams.plan.specs[pos], shares.owned(pos)
    assert owned is not None
    full = tuple((0, n) for n in spec.shape)
    found: dict[tuple[int, int], list[tuple[Box, Box]]] = {}
    for s in range(shares.workers):
        for r, boxes in enumerate(owned):
            for box in boxes:
                low, high = max(box[axis][0], starts[s]), min(box[axis][1], starts[s + 1])
                if low < high:
                    both = (*full[:axis], (low, high), *full[axis + 1 :])
                    for part in in_parts(both, spec.dtype.itemsize, shares.message_bytes):
                        a, b = part[axis]
                        there = (*part[:axis], (a - starts[s], b - starts[s]), *part[axis + 1 :])
                        found.setdefault((s, r), []).append((there, part))
    return found
