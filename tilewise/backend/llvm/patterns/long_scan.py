"""Running a long scan. In: a `Launch` with `Totals`. Out: the outputs, filled; the same bits for any number of threads.

Every part reduces its chunks, in its turn adds what came before, then scans its chunks, which are still in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewise.backend import threads
from tilewise.backend.llvm.call.launch import Launch, Totals
from tilewise.backend.llvm.call.packing import objs_packer
from tilewise.backend.llvm.loops.reducers import first_value
from tilewise.store import pool

ND = np.ndarray[Any, Any]


def run(
    launch: Launch, totals: Totals, pack: Callable[..., bytes], operands: Sequence[ND], params: Sequence[Any]
) -> None:
    """Run both kernels part by part."""
    edges, inputs = totals.edges, operands[: len(totals.kernel.inputs)]
    dtypes = [np.dtype(t) for t in totals.kernel.out_dtypes]
    chunks = [pool.empty((edges[-1],), t) for t in dtypes]
    before = [pool.empty((edges[-1] + 1,), t) for t in dtypes]  # each chunk, and after the last
    ufuncs = [getattr(np, str(o.reduce)) for o in totals.kernel.outputs]
    for start, dtype, output in zip(before, dtypes, totals.kernel.outputs, strict=True):
        start[0] = first_value(str(output.reduce), dtype.name, keep_sign=True)
    first = objs_packer(totals.kernel)(*map(id, inputs), *map(id, chunks), *params)
    second = pack(*map(id, operands), *map(id, before), *params)

    def turn(part: int) -> None:
        low, high = edges[part], edges[part + 1]
        with np.errstate(all="ignore"):
            for ufunc, running, new in zip(ufuncs, before, chunks, strict=True):
                line = np.concatenate((running[low : low + 1], new[low:high]))
                ufunc.accumulate(line, dtype=line.dtype, out=running[low : high + 1])

    threads.run_in_turn(
        lambda part: totals.code(first, totals.parts[part]),
        turn,
        lambda part: launch.code(second, launch.parts[part]),
        len(launch.parts),
    )
