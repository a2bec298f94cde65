"""Thresholds of large data, made small. In: a seed. Out: a context in which small arrays go the ways of large ones.

A random `Tuning`, on which no bit hangs, and other values of constants on which only rounding hangs (most of them in
tilewise/rounding.py). What is planned or compiled under one setting is not kept for another. Left out are numbers on
which correctness hangs (`sums.STEPS`, `argmin_f32.BOUND`, `pivots.FAR`: rounding; `maps.MOST_KEPT`: room for as much),
those that only bound what is remembered of Python's side, and those of the search for layouts
(`config(layout_seed=...)`).
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib import import_module
from typing import Any
from unittest.mock import patch

import tilewise
from tilewise import backend
from tilewise.backend.host.facts import host_facts
from tilewise.backend.llvm.call import compiled, tile_walk
from tilewise.backend.llvm.compile import build
from tilewise.backend.llvm.tiles import tuning_records
from tilewise.tuning import Tuning, tuned, using

HUGE = 1 << 40
BYTES = (0, 1, 64, 300, 1000, 4000, HUGE)
ARRAYS = (64, 300, 1000, HUGE)  # more than a number has
ROOM = (64, 200, 700, 3000, 20_000)  # bytes of a tile or a block
FEW = (1, 2, 3, 8)
NS = (0, 1, 100, 1e4, 1e12)


@dataclass(frozen=True)
class Threshold:
    """A number of a module, as others may have imported it, and what it may be set to."""

    module: str
    name: str
    values: Sequence[Any]
    also: tuple[str, ...] = ()


def _rows(module: str, values: Sequence[Any], *names: str, also: tuple[str, ...] = ()) -> list[Threshold]:
    return [Threshold(module, name, values, also) for name in names]


THRESHOLDS = (
    # Tiles that passes share.
    *_rows("rounding", (0, 1, 300), "TILED_AT_BYTES", "SUMMED_AT_BYTES", "MERGED_AT_BYTES"),
    *_rows("rounding", BYTES, "WHOLE_BYTES", "NEAR_BYTES", "FAR_BYTES", "SHRED_BYTES"),
    *_rows("rounding", ROOM, "TILE_BYTES", "SUM_INPUTS"),
    *_rows("rounding", (64, 700, 3000, 20_000, 1472 << 10), "HALO_BYTES"),
    *_rows("rounding", (64, 700, 3000, 20_000, 3 << 19), "SCRATCH_BYTES"),
    *_rows("rounding", ((64, 300), (200, 3000), (1, 1)), "SUM_TILES"),
    *_rows("rounding", (1, 2, 7, 32), "TILE_ROWS", "TILE_CHUNKS", "SUM_SHARE"),
    *_rows("rounding", FEW, "MERGED_SHARE", "HALO_SHARE", "HALO_TILES", "PRODUCT_ROWS", "TALL_TILES", "STRIPS"),
    *_rows("rounding", (2, 3, 8), "SIMILAR"),
    *_rows("rounding", (2, 3, 5, 24), "MOST_STEPS"),
    *_rows("rounding", (1, 2, 4, 16), "DEEP_HALO_ROWS"),
    *_rows("rounding", (0.0, 0.5, 8.0), "DEEP_HALO_BYTES"),
    # Long programs.
    *_rows("rounding", (1, 3, 8, 160), "MAX_BODY", "MAX_MORE", "MAX_OUTS"),
    *_rows("rounding", (1, 2, 8, 96), "RECOMPUTED_OUTS", "RECOMPUTED_BODY"),
    *_rows("array.schedule.loop_flush", (4, 8, 64), "LONGEST", "ROLLED"),
    *_rows("array.schedule.loop_flush", (0, 300, 4000, HUGE), "HELD_BYTES", "WALK_BYTES", "WALK_BYTES_ROLLED"),
    *_rows("array.schedule.loop_flush", FEW, "LOOK_EACH"),
    *_rows("array.schedule.promote", BYTES, "LEAST_BYTES", also=("array.operators", "array.slots.takeover")),
    *_rows("array.schedule.promote", (2, 5, 512), "LONG"),
    *_rows("array.operators", BYTES, "REUSE_BYTES"),
    *_rows("array.cell", BYTES, "COPY_BYTES"),
    *_rows("array.lengths.expected", (1, 4, 4096), "SAMPLE"),
    # Loops of kernels.
    *_rows("rounding", (8193, HUGE), "SCAN_IN_CHUNKS"),  # more than one chunk of any dtype
    *_rows("rounding", (1, 3, HUGE), "FUSED_AT"),
    *_rows("rounding", (0, 1, 3, 16), "SHORT_ROW"),
    *_rows("rounding", ROOM, "COLUMN_CHUNK_BYTES"),
    *_rows("rounding", (1, 2, 32), "COLUMN_CHUNK_BLOCKS"),
    *_rows("rounding", (1, 5, 50), "BUCKET_CHUNK_POINTS"),
    *_rows("rounding", (1, 3, 64), "BUCKET_CHUNKS", "POINTS_PER_BUCKET", "PAIR_POINTS_PER_BUCKET"),
    *_rows("rounding", (1, 5, 1024), "BUCKET_TABLES_UP_TO"),
    *_rows("rounding", (4, 8, 32), "TURN_AT"),
    *_rows("rounding", (1, 2, 4, 16), "TURN_USES"),
    *_rows("rounding", (0, 4, 128), "PANEL_MOST_VECTORS"),
    *_rows("rounding", (4, 16, 256), "GRAM_MOST_COLUMNS"),
    *_rows("rounding", (1, 300, 24 << 10), "GRAM_BLOCK_BYTES"),
    *_rows("rounding", ((1, 1), (1, 16), (3, 3), (16, 128)), "GRAM_BLOCK_ROWS"),
    # What graphs become.
    *_rows("rounding", (2, 4), "REROLL_MIN_SIBLINGS"),
    *_rows("rounding", BYTES, "REROLL_MAX_BYTES", "LOOK_KEYS_BYTES"),
    *_rows("rounding", (0, 100, 1 << 20), "CHAIN_MIN_FLOPS"),
    *_rows("rounding", (1, 16, 1 << 16), "BUCKET_NUMPY_CHUNK"),
    *_rows("rounding", (1, 2, 32), "CHOLESKY_MIN_BLOCK"),
    *_rows("api.create", (0, 4, 1 << 14), "FEW"),
    *_rows("api.padding", (1, 3, 27), "MOST_BOXES"),
    *_rows("api.functions.tiles", (1, 100, 1 << 20), "TILE_BYTES"),
)

# Of these no result depends in any bit (tests/test_tuning_bits.py).
FIGURES: dict[str, Sequence[Any]] = {
    **dict.fromkeys(("tile_l1_share", "tile_l2_share"), (1, 8, 1 << 10, 1 << 13, 1 << 20)),
    **dict.fromkeys(("tile_most_bytes", "tile_chunk_bytes"), ROOM),
    **dict.fromkeys(("tile_geometries", "kernel_geometries", "replays_kept"), FEW),
    "merge_in_place_bytes": ARRAYS,
    "walk_brief_s": (0.0, 0.1),
    **dict.fromkeys(("trial_least_s", "trial_build_s"), (0.0,)),
    **dict.fromkeys(("trial_first", "trial_tries", "trial_sure"), (1,)),
    "trial_gain": (-1e9, 1e9),
    **dict.fromkeys(("trial_share", "trial_too_slow"), (1e9,)),
    "plans_kept": (1, 5, 2048),
    "roll_least_body": (2, 6, 24),
    "margin_rows": FEW,
    "margin_bytes": ARRAYS,
    "solver_tables_kept": (0, 5, 1 << 15),
    **dict.fromkeys(("solver_at_once", "solver_sum_at_once", "solver_intern_from"), (1, 100, 1 << 15)),
    "pooled_at_bytes": ARRAYS,
    "idle_limit_bytes": (0, 1 << 16, 1 << 30),
    "copy_part_bytes": (1, 64, 1000),
    "padded_row_bytes": (1, 64, 200),
    "split_at_ns": NS,
    "part_ns": (0.1, 1, 100, 1e4),
    "parts_per_thread": FEW,
    **dict.fromkeys(("short_ns", "brief_ns", "abreast_at_ns", "abreast_long_at_ns", "nearly_good_at_ns"), NS),
    "near_bytes": BYTES,
    "loop_share_units": (-1, 1000, 150_000),
    **dict.fromkeys(("map_parallel_bytes", "select_least"), ARRAYS),
    "interpret_tile": (1, 30, 1000),
    "random_block": (1, 7, 1 << 15),
    "draw_part": (1000, 1 << 18),
    "replay_most_bytes": (0, 300, 4000, 8 << 20),
    **dict.fromkeys(("replay_share_ns", "replay_phase_ns", "replay_most_ns"), NS),
    "stream_at_bytes": BYTES[1:],  # not 0: that much has memory of which nothing is said
    **dict.fromkeys(("stream_row", "reciprocal_row", "abreast_turns", "combine_columns"), (1, 8, 64)),
    "inverse_least_rows": FEW,
    "abreast_long_rows": (((4, 4), (2, 2)), ((2, 1),), ((4, 64), (2, 8))),
    **dict.fromkeys(("fetch_at_bytes", "fetch_helped_bytes", "scan_part_bytes"), BYTES),
    "fetch_helped_streams": (0, 1, 3),
    "panel_columns": (1, 4, 8, 256),
    "panel_far_bytes": (8, 64, 512),
    "strip_least_rows": FEW,
    **dict.fromkeys(("strip_least_row_bytes", "strip_near_bytes", "strip_panel_row_bytes"), BYTES),
    "pack_at": (1, 2, 4, 16),
    "pack_block_bytes": (1, 300, 256 << 10),
    "argmin_least_ns": (0.0, 5e6),
    "argmin_least_lanes": (1, 4, 8),
    "argmin_table_bytes": (64, 2000, 128 << 10),
    "select_part": (1, 7, 64),
    "select_unsure": (1000, 16),
}
assert FIGURES.keys() == {each.name for each in fields(Tuning)}, "say what each figure may be set to"

# These are in the text of code, which is kept without them: all are small, or all are as they are.
OF_CODE = (
    *_rows("backend.llvm.loops.strips", (64,), "STRIP_BYTES"),
    *_rows("backend.llvm.patterns.scans", (8,), "COLUMN_TILE"),
    *_rows("backend.llvm.products.nested", (64,), "FAR_BYTES"),
    *_rows("backend.llvm.patterns.argmin_f32", (1,), "LEAST_ROWS", "SPARED"),
    *_rows(
        "backend.llvm.emit.bodies",
        (4,),
        "LIGHT_BODY",
        also=("backend.llvm.products.panels", "backend.llvm.call.prepare"),
    ),
    *_rows("backend.llvm.patterns.buckets", (0,), "PLAIN_BODY"),
)

_codes: dict[Any, Any] = {}  # in memory, under small numbers of code


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """What is kept on disk: tuned lengths, and code under small numbers."""
    return tempfile.TemporaryDirectory(prefix="tilewise-thresholds-")


def chosen(seed: int, share: float | None = None) -> dict[Threshold, Any]:
    """Numbers of a seed on which bits hang: some of all, or most of them."""
    rng = random.Random(seed)
    share = rng.choice((0.2, 0.6, 0.95)) if share is None else share
    return {t: rng.choice(t.values) for t in THRESHOLDS if rng.random() < share}


def tuning(seed: int, share: float | None = None) -> Tuning:
    """Figures of a seed: some of all, or most of them."""
    rng = random.Random(-1 - seed)
    share = rng.choice((0.2, 0.6, 0.95)) if share is None else share
    return replace(tuned(), **{name: rng.choice(values) for name, values in FIGURES.items() if rng.random() < share})


@contextmanager
def thresholds(seed: int, code: bool = False) -> Iterator[dict[Threshold, Any]]:
    """Small numbers, and nothing that was made under others."""
    values = chosen(seed)
    if code:
        values |= {t: t.values[0] for t in OF_CODE}
    with applied(values, tuning(seed)):
        yield values


@contextmanager
def applied(values: dict[Threshold, Any], figures: Tuning | None = None) -> Iterator[None]:
    """These numbers, and nothing that was made under others."""
    code = any(t in values for t in OF_CODE)
    with ExitStack() as stack:
        for t, value in values.items():
            for module in (t.module, *t.also):
                stack.enter_context(patch.object(import_module(f"tilewise.{module}"), t.name, value))
        llvm = backend.named(backend.NATIVE)
        stack.enter_context(patch.dict(vars(llvm), facts=host_facts(llvm.facts.vector_bytes)))
        stack.enter_context(using(figures or tuned()))
        stack.enter_context(patch.object(tuning_records, "_records", {}))
        stack.enter_context(patch.object(tile_walk, "_spaces", []))
        folder = f"{_folder().name}/{'small' if code else 'usual'}"
        stack.enter_context(tilewise.config(cache_dir=folder))
        if code:
            stack.enter_context(patch.object(build, "_cache", _codes))
        causes = stack.enter_context(patch.object(compiled, "_causes", set()))
        yield
        assert not causes, f"a kernel could not be compiled: {causes}"
