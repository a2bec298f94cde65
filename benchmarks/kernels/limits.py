"""What a program's time is judged by. In: measured rows. Out: the same rows with their limit, best peer and goals."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.kernels.native import library
from benchmarks.kernels.registry import Inputs, Program
from benchmarks.kernels.systems import PEERS, Call

OURS = ("tilewise", "tw.jit")  # the program as it is, and under `@tw.jit`, as Numba and JAX need it decorated
COPIED, SIDE = 20_000_000, 1_000  # elements of the copy, rows of the matrix product
Row = dict[str, Any]


def yardsticks(program: Program) -> dict[str, Call]:
    """Where there is no C: a copy, a sum, and a matrix product if arithmetic may be the limit. They take turns, too."""
    if program.c is not None or program.moved is None:
        return {}
    lib, source, target = library(), np.ones(COPIED), np.ones(COPIED)
    found: dict[str, Call] = {}
    found["copy"] = lib("copy", COPIED, source, out=target) if lib else lambda: np.copyto(target, source)
    found["read"] = lib("read_all", COPIED, source, out=np.empty(1)) if lib else source.sum
    if program.work is not None:
        square = np.ones((SIDE, SIDE))
        found["blas"] = lambda: square @ square
    return found


def judge(row: Row, program: Program, inputs: Inputs) -> None:
    """Add the limit, the best peer, and the goals."""
    ms = row["ms"]
    row["limit_by"], limit = _limit(program, inputs, ms)
    peers = {name: ms[name] for name in PEERS if name in ms}
    row["best_peer"] = min(peers, key=peers.__getitem__) if peers else None
    row["by"] = min((s for s in OURS if s in ms), key=ms.__getitem__, default="tilewise")
    ours = ms.get(row["by"])
    row["of_limit"] = limit / ours if ours and limit else None
    row["of_peer"] = peers[row["best_peer"]] / ours if ours and peers else None
    row["goal_of_limit"], row["goal_of_peer"] = program.of_limit, program.of_peer
    row["met"] = ours is not None and shortfall(row) >= 1


def shortfall(row: Row) -> float:
    """How far a row is from its goals: from 1 on it is there."""
    goals = (row["of_limit"], row["goal_of_limit"]), (row["of_peer"], row["goal_of_peer"])
    return min((found / goal for found, goal in goals if found is not None), default=0.0)


def _limit(program: Program, inputs: Inputs, ms: dict[str, float]) -> tuple[str, float | None]:
    """What sets the limit, and its milliseconds."""
    if program.median:  # BLAS itself, as NumPy calls it
        return "blas", ms.get("numpy")
    if "c" in ms:
        return "c", ms["c"]
    if "copy" not in ms or program.moved is None:
        return "", None
    result = program.source(np, *inputs)
    moved = program.moved(*inputs, result)
    # Some machines read no faster while they write nothing.
    least = max(moved / 2 * ms["copy"], (moved - result.nbytes) * ms["read"]) / (8 * COPIED)
    if program.work is not None:
        least = max(least, program.work(*inputs, result) / (2.0 * SIDE**3) * ms["blas"])
    return "roofline", least
