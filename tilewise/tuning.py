"""Thresholds and cost figures. In: a `Tuning`. Out: the one in force, for those who make plans, kernels and bindings.

No figure here decides a bit of a result (those are in tilewise/rounding.py); tests/test_tuning_bits.py shows it. They
are read when something is made that is then run often, never per operation: who needs one on a hot path keeps it in
the object that is made, or follows (`follow`). Each field says its unit and who measured it.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import Any

from tilewise.records import dataclass

X86 = platform.machine().lower() in ("x86_64", "amd64")
KERNELS = "benchmarks/kernels"
OVERHEADS = "benchmarks/overheads.py"
COMPILE = "benchmarks/compile.py"
TRIALS = "benchmarks/tuning.py"
SOLVER = "benchmarks/solver.py"
PASSES = "docs/design/0002-passes.md"
MESHES = "docs/design/0005-meshes.md"
TILES = "docs/design/0013-tiles.md"
LOOPS = "docs/design/0014-loop-forms.md"
REPLAYS = "docs/design/0015-lines.md"
HELPERS = "docs/design/0016-helpers.md"


def _figure(value: Any, unit: str, measured_by: str) -> Any:
    return field(default=value, metadata={"unit": unit, "measured_by": measured_by})


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """All figures, as measured. `fields(Tuning)` has their units and sources (`metadata`)."""

    # --- lengths of tiles over which nothing is summed
    tile_l1_share: int = _figure(1, "parts of a core's L1 cache", TILES)  # a tile has at least one: the lower bound
    # Scratch, code's own copies and what is streamed by need room, too. One part is where trials start.
    tile_l2_share: int = _figure(8, "parts of a core's L2 cache", TILES)
    tile_most_bytes: int = _figure(512 << 10, "bytes", TILES)  # there, at most: more may not fit in a thread's scratch
    tile_chunk_bytes: int = _figure(256 << 10, "bytes", TILES)  # of a chunk of tiles, at least: some 25 us of work
    tile_geometries: int = _figure(64, "geometries", TILES)  # remembered per group
    merge_in_place_bytes: int = _figure(4096, "bytes", TILES)  # of a part: calls of NumPy cost less than new memory
    walk_brief_s: float = _figure(0.1, "seconds", HELPERS)  # a run over tiles that need not be interrupted

    # --- trials of other lengths (backend/llvm/tiles/tuning.py)
    trial_least_s: float = _figure(1e-3, "seconds", TRIALS)  # shorter runs are neither worth it nor measured well
    trial_first: int = _figure(3, "runs", TRIALS)  # as usual, before anything is tried
    trial_tries: int = _figure(3, "runs", TRIALS)  # of each length; the best counts
    trial_sure: int = _figure(8, "runs", TRIALS)  # of a length before it is preferred, and as many as usual between
    trial_gain: float = _figure(0.05, "share of a run", TRIALS)  # by which it must be quicker: less is noise
    trial_too_slow: float = _figure(1.5, "usual runs", TRIALS)  # a length that takes longer is not tried again
    trial_share: float = _figure(0.05, "share of all runs", TRIALS)  # that trials may cost, at most
    trial_build_s: float = _figure(5e-3, "seconds", TRIALS)  # for a plan whose code is there: code is rarely another

    # --- plans
    plans_kept: int = _figure(2048, "plans", OVERHEADS)  # a program that makes more structures is not a loop
    roll_least_body: int = _figure(24, "instructions", COMPILE)  # simple ones; a shorter body stays as it is
    margin_rows: int = _figure(16, "rows", MESHES)  # blocks with fewer have no margin
    margin_bytes: int = _figure(256 << 10, "bytes", "benchmarks/steps.py")  # of a block with one for wide ghosts

    # --- the solver (solver/): none of these changes which layouts it finds
    solver_tables_kept: int = _figure(1 << 15, "tables", SOLVER)  # of costs, and choices, between problems
    solver_at_once: int = _figure(1 << 13, "entries", SOLVER)  # of differences: larger ones are made column by column
    solver_sum_at_once: int = _figure(1 << 18, "entries", SOLVER)  # of sums: larger ones leave a core's cache
    solver_intern_from: int = _figure(100, "variables", SOLVER)  # fewer are not worth looking for equal tables

    # --- memory and copies
    pooled_at_bytes: int = _figure(256 << 10, "bytes", OVERHEADS)  # of an array whose memory is used again
    idle_limit_bytes: int = _figure(1 << 30, "bytes", OVERHEADS)  # (or half of the most in use); more goes back
    copy_part_bytes: int = _figure(1 << 20, "bytes", KERNELS)  # below, a copy is not worth a second thread
    padded_row_bytes: int = _figure(1024, "bytes", TILES)  # of a row that begins at a line of its own

    # --- threads
    split_at_ns: float = _figure(50_000, "ns", KERNELS)  # work below this is done by one thread
    part_ns: float = _figure(12_500, "ns", KERNELS)  # the least work of a part
    parts_per_thread: int = _figure(16, "parts", KERNELS)  # handed out as threads ask: a slow core takes fewer
    short_ns: float = _figure(100e3, "ns", HELPERS)  # of a launch that is not worth waking a thread
    brief_ns: float = _figure(50e6, "ns", HELPERS)  # a launch that need not be interrupted
    near_bytes: int = _figure(1 << 20, "bytes", KERNELS)  # that are read as if they lay in a core's L2 cache
    loop_share_units: int = _figure(150_000, "operations", HELPERS)  # of a compiled loop, to have several threads
    map_parallel_bytes: int = _figure(1 << 20, "bytes", KERNELS)  # of an elementwise call of NumPy on all cores
    interpret_tile: int = _figure(32_768, "elements", KERNELS)  # of a tile that NumPy runs: it stays in the L2 cache
    draw_part: int = _figure(1 << 18, "elements", KERNELS)  # that a thread draws at a time, of NumPy's streams
    random_block: int = _figure(1 << 15, "elements", KERNELS)  # drawn at a time: some arrays stay in the L2 cache

    # --- replays of plans
    replay_most_bytes: int = _figure(8 << 20, "bytes", REPLAYS)  # of memory that a replay keeps
    # Of calls in a row that threads could share, for them to do so: waking one takes up to 50 us. What is 60 us by
    # estimate takes 150 on ARM.
    replay_share_ns: float = _figure(100e3 if X86 else 60e3, "ns", HELPERS)
    replay_phase_ns: float = _figure(20_000, "ns", HELPERS)  # of a pass or a copy: threads wait for each other after it
    replay_most_ns: float = _figure(200_000, "ns", REPLAYS)  # of a pass: longer ones are handed to threads
    replays_kept: int = _figure(16, "replays", REPLAYS)  # of a plan

    # --- forms of loops
    kernel_geometries: int = _figure(256, "geometries", OVERHEADS)  # remembered per kernel
    stream_at_bytes: int = _figure(16 << 20, "bytes", KERNELS)  # outputs this large do not stay in the caches
    stream_row: int = _figure(64, "elements", KERNELS)  # of a row, so that whole cache lines outnumber its ends
    reciprocal_row: int = _figure(64, "elements", LOOPS)  # of a row that are worth a reciprocal
    inverse_least_rows: int = _figure(16, "rows", LOOPS)  # for which the inverses of a row's divisors are kept
    abreast_at_ns: float = _figure(5e6, "ns", COMPILE)  # worth compiling a long body for several vectors at once
    nearly_good_at_ns: float = _figure(5e6, "ns", COMPILE)  # work in registers that is worth waiting for better code
    abreast_turns: int = _figure(16, "turns", LOOPS)  # of a row by several vectors at once, at least
    abreast_long_at_ns: float = _figure(10_000, "ns", LOOPS)  # the same for a long body of simple operations, on ARM
    # Vectors at once for it, and of a row at least: what is left of it is done one by one.
    abreast_long_rows: tuple[tuple[int, int], ...] = _figure(((4, 64), (2, 8)), "vectors", LOOPS)
    fetch_at_bytes: int = _figure(4 << 20, "bytes", LOOPS)  # of an input that the caches do not hold
    fetch_helped_bytes: int = _figure(64 << 20, "bytes", LOOPS)  # where the hardware fetches, but not from memory
    fetch_helped_streams: int = _figure(3, "streams", LOOPS)  # and too late for so many
    panel_columns: int = _figure(256, "elements", LOOPS)  # of a panel, where an operand is walked across its rows
    panel_far_bytes: int = _figure(512, "bytes", LOOPS)  # between neighbours along the rows of such an operand
    combine_columns: int = _figure(1 << 16, "elements", KERNELS)  # of partial results that a thread merges
    scan_part_bytes: int = _figure(1 << 20, "bytes", KERNELS)  # of a scan: read again from the L2 cache
    strip_least_rows: int = _figure(24, "rows", LOOPS)  # what is less high, registers sum better
    strip_least_row_bytes: int = _figure(160, "bytes", LOOPS)  # and what has shorter rows
    strip_near_bytes: int = _figure(448 << 10, "bytes", LOOPS)  # of the L2 cache, to be read a line here and there
    strip_panel_row_bytes: int = _figure(1024, "bytes", LOOPS)  # of narrow rows: a block of them is in the L1 cache

    # --- products and selections
    pack_at: int = _figure(16, "points", KERNELS)  # that use a packed operand, at least
    pack_block_bytes: int = _figure(256 << 10, "bytes", KERNELS)  # of operands kept in the L2 cache over all panels
    argmin_least_ns: float = _figure(5e6, "ns", COMPILE)  # worth compiling a table: some 90 ms, once
    argmin_least_lanes: int = _figure(8, "lanes", KERNELS)  # that are worth a table
    argmin_table_bytes: int = _figure(128 << 10, "bytes", KERNELS)  # beside others in the L2 cache, at most
    select_least: int = _figure(1 << 14, "elements", KERNELS)  # of a mask; below, NumPy has ended before code begins
    select_part: int = _figure(1 << 16, "elements", KERNELS)  # of a mask, for a thread
    select_unsure: int = _figure(16, "elements", KERNELS)  # if fewer than one in so many count, NumPy's loop is better


_tuning = Tuning()
_followers: list[Callable[[Tuning], object]] = []


def tuned() -> Tuning:
    """The figures in force.

    >>> tuned().parts_per_thread
    16
    """
    return _tuning


def follow(adopt: Callable[[Tuning], object]) -> None:
    """Call `adopt` with the figures in force, now and whenever others are: to keep some, or to forget what was made."""
    _followers.append(adopt)
    adopt(_tuning)


@contextmanager
def using(tuning: Tuning) -> Iterator[Tuning]:
    """Other figures, in the whole process: plans, kernels and bindings made under others are forgotten."""
    before = _tuning
    _put_in_force(tuning)
    try:
        yield tuning
    finally:
        _put_in_force(before)


def _put_in_force(tuning: Tuning) -> None:
    global _tuning
    _tuning = tuning
    for adopt in _followers:
        adopt(tuning)
