"""Functions of rows and tiles, compiled. In: a function of arrays, their types. Out: loops over pairs and tiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewise.api.functions.native.kinds import of_result, spec, stored
from tilewise.api.functions.native.loop import RETURNED, Loop, array, compiled, cuts, in_parts, result_types
from tilewise.api.functions.purity import plain
from tilewise.api.functions.source_results import builder
from tilewise.config import current
from tilewise.python.policy import loops_of
from tilewise.records import dataclass
from tilewise.store import pool

LEAST_PAIRS = 1 << 8  # of a thread's part: rows are longer than numbers
ND = np.ndarray[Any, Any]


def by_element(f: Any) -> bool:
    """Whether a function goes through arrays element by element: a trace would have every turn of its loops."""
    found = plain(f)
    return found is not None and loops_of(found) == "elements" and current().engine != "numpy"


def pairs_dtype(f: Any, dtypes: Sequence[np.dtype[Any]], ranks: Sequence[int]) -> np.dtype[Any] | None:
    """The dtype of what f gives for two rows; None if values decide. Raises Refused."""
    rows = [array(d, r - 1) if r > 1 else spec(d) for d, r in zip(dtypes, ranks, strict=True)]
    found = {stored(of_result(s)) for s in result_types(f, rows)}
    return found.pop() if len(found) == 1 else None


def pairs_loop(f: Any, dtypes: Sequence[np.dtype[Any]], ranks: Sequence[int], out: np.dtype[Any]) -> Loop:
    """The loop over all pairs of rows. Raises Refused."""
    text = """def pairs(f, o0, x0, x1):
    for i in range(o0.shape[0]):
        for j in range(o0.shape[1]):
            o0[i, j] = f(x0[i], x1[j])
"""
    return compiled(text, {"f": f}, [array(out, 2), *map(array, dtypes, ranks)], 1)


@dataclass(frozen=True)
class NativePairs:
    """A compiled function of all pairs of rows of blocks; arrays that it refers to come last."""

    loop: Loop
    dtype: np.dtype[Any]
    native = True

    def __call__(self, a: Any, b: Any, *captured: Any) -> Any:
        x, y, rest = np.ascontiguousarray(a), np.ascontiguousarray(b), self.loop.given(captured)
        made = pool.empty((len(x), len(y)), self.dtype)
        if made.size == 0:
            return made
        parts = cuts(len(x), math.ceil(LEAST_PAIRS / len(y)))
        in_parts(self.loop, len(parts), lambda k: [made[slice(*parts[k])], x[slice(*parts[k])], y, *rest])
        return made


def tile_loop(f: Any, dtypes: Sequence[np.dtype[Any]], ranks: Sequence[int], out: np.dtype[Any], rank: int) -> Loop:
    """What writes a function of tiles into a tile of the result. Raises Refused."""
    given = ", ".join(f"x{k}" for k in range(len(dtypes)))
    text = f"def tile(f, o0, {given}):\n    o0[:] = f({given})\n"
    return compiled(text, {"f": f}, [array(out, rank), *map(array, dtypes, ranks)], 1)


def call_loop(f: Any, dtypes: Sequence[np.dtype[Any]], ranks: Sequence[int]) -> Loop:
    """A function of tiles, as it is. Raises Refused."""
    given = ", ".join(f"x{k}" for k in range(len(dtypes)))
    return compiled(f"def update(f, {given}):\n    return f({given})\n", {"f": f}, list(map(array, dtypes, ranks)), 0)


def called(loop: Loop, args: Sequence[Any]) -> Any:
    """What a function gives for tiles; by Python, where its code cannot do it."""
    given = [np.ascontiguousarray(a) if isinstance(a, np.ndarray) else a for a in args]
    if current().native:
        end = loop(given)
        if end.status == RETURNED:
            return builder(loop.code.results[end.which])(end.values, given)
        loop.raised(end)
    return loop.python(given)
