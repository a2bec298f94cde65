"""Thresholds of large data, made small. In: a seed. Out: a context in which small arrays go the ways of large ones.

Every number here decides how something is computed, never what comes out, so programs must give the same under any of
its values. What is planned or compiled under one setting is not kept for another. Left out are numbers on which
correctness hangs (`sums.STEPS`, `guess.BOUND`, `pivots.FAR`: rounding; `maps.MOST_KEPT`: room for as much), those
that only bound what is remembered of Python's side, and those of the search for layouts (`config(layout_seed=...)`).
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any
from unittest.mock import patch

import tilewise
from tilewise import compiler
from tilewise.plan import tiling, tuned
from tilewise.target.llvm import build, launch, tiles

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
    *_rows("plan.tiling", (0, 1, 300), "LEAST_BYTES", "SUMMED_BYTES", "MERGED_BYTES"),
    *_rows("plan.tiling", BYTES, "WHOLE_BYTES", "FAR_BYTES", "SHRED_BYTES"),
    *_rows("plan.tiling", ROOM, "TILE_BYTES", "SUM_INPUTS", "CHUNK_BYTES", "LEAST_TILE", "MOST_TILE"),
    *_rows("plan.tiling", (64, 700, 3000, 20_000, 1472 << 10), "HALO_BYTES"),
    *_rows("plan.tiling", ((64, 300), (200, 3000), (1, 1)), "SUM_TILES"),
    *_rows("plan.tiling", (1, 2, 7, 32), "ROWS", "CHUNKS", "SUM_SHARE", "L2_SHARE"),
    *_rows("plan.tiling", FEW, "MERGED_SHARE", "HALO_TILES", "HALO_SHARE"),
    *_rows("plan.tiling", FEW, "PRODUCT_ROWS", also=("plan.tile",)),
    *_rows("plan.ways", (2, 3, 8), "SIMILAR", also=("plan.tiling",)),
    *_rows("plan.ways", BYTES, "NEAR_BYTES"),
    *_rows("plan.tile", FEW, "TALL_TILES", "STRIPS"),
    *_rows("plan.tile", (2, 3, 5, 24), "MOST_STEPS"),
    *_rows("engine.boxes", (1, 64, 200), "PADDED_ROW"),
    *_rows("engine.tiled", FEW, "GEOMETRIES"),
    *_rows("engine.merging", ARRAYS, "LARGE_BYTES"),
    *_rows("engine.tuning", (0.0,), "LEAST_S", "BUILD_S"),
    *_rows("engine.tuning", (-1e9, 1e9), "GAIN"),
    *_rows("engine.tuning", (1,), "FIRST", "TRIES", "SURE"),
    *_rows("engine.tuning", (1e9,), "SHARE", "TOO_SLOW"),
    *_rows("target.llvm.tiles", (64, 700, 3000, 20_000, 3 << 19), "SCRATCH_BYTES", also=("target.llvm",)),
    *_rows("target.llvm.tiles", (0.0, 0.1), "BRIEF_S"),
    # Long programs.
    *_rows("plan.fuse", (1, 3, 8, 160), "MAX_BODY", "AT_ONCE", "MAX_OUTS"),
    *_rows("plan.inline", (1, 2, 8, 96), "MOST_OUTS", "MOST_BODY"),
    *_rows("plan.roll", (2, 6, 24), "PAYS"),
    *_rows("plan.mesh", FEW, "MARGIN_ROWS"),
    *_rows("array.turns", (4, 8, 64), "LONGEST", "ROLLED"),
    *_rows("array.turns", (0, 300, 4000, HUGE), "HELD_BYTES", "WALK_BYTES", "WALK_BYTES_ROLLED"),
    *_rows("array.turns", FEW, "LOOK_EACH"),
    *_rows("array.streak", BYTES, "LEAST_BYTES", also=("array.operators",)),
    *_rows("array.streak", (2, 5, 512), "LONG"),
    # Memory, copies and threads.
    *_rows("array.operators", BYTES, "REUSE_BYTES"),
    *_rows("array.cell", BYTES, "COPY_BYTES"),
    *_rows("array.expected", (1, 4, 4096), "SAMPLE"),
    *_rows("store.pool", ARRAYS, "POOLED_AT_BYTES", also=("engine.straight",)),
    *_rows("store.pool", (0, 1 << 16, 1 << 30), "IDLE_LIMIT_BYTES"),
    *_rows("engine.run", ARRAYS, "SELECT_LEAST", "PARALLEL_BYTES"),
    *_rows("engine.laying", (0, 300, 4000, 8 << 20), "MOST_BYTES", also=("engine.straight",)),
    *_rows("engine.laying", NS, "SHARE_NS", "PHASE_NS", "MOST_NS"),
    *_rows("engine.straight", FEW, "MOST_LINES"),
    *_rows("target.threads", (1, 64, 1000), "COPY_PART_BYTES"),
    *_rows("target.llvm.cutting", NS, "SPLIT_AT_NS"),
    *_rows("target.llvm.cutting", (0.1, 1, 100, 1e4), "PART_NS"),
    *_rows("target.llvm.cutting", FEW, "PARTS_PER_THREAD"),
    # Loops of kernels.
    *_rows("target.llvm.prepare", BYTES, "STREAM_AT_BYTES", also=("target.llvm.tiles",)),
    *_rows("target.llvm.prepare", (1, 8, 64), "STREAM_ROW", "LONG_ROW", "TURNS", "COMBINE_COLUMNS"),
    *_rows("target.llvm.prepare", NS, "ABREAST_AT_NS", "LONG_AT_NS", "SHORT_NS", "BRIEF_NS"),
    *_rows("target.llvm.prepare", (((4, 4), (2, 2)), ((2, 1),), ((4, 64), (2, 8))), "LONG_ROWS"),
    *_rows("target.llvm.prepare", (8193, HUGE), "SCAN_IN_CHUNKS"),  # more than one chunk of any dtype
    *_rows("target.llvm.prepare", (1, 3, HUGE), "FUSED_AT"),
    *_rows("target.llvm.prepare", BYTES, "SCAN_PART_BYTES", "NEAR_BYTES"),
    *_rows("target.llvm.fetching", BYTES, "FETCH_AT_BYTES", also=("target.llvm.tiles",)),
    *_rows("target.llvm.fetching", BYTES, "HELPED_AT_BYTES"),
    *_rows("target.llvm.fetching", (0, 1, 3), "HELPED_STREAMS"),
    *_rows("target.llvm.geometry", (0, 1, 3, 16), "SHORT_ROW"),
    *_rows("target.llvm.geometry", (1, 4, 8, 256), "PANEL"),
    *_rows("target.llvm.geometry", (8, 64, 512), "FAR_BYTES"),
    *_rows("target.llvm.geometry", ROOM, "CHUNK_BYTES"),
    *_rows("target.llvm.geometry", (1, 2, 32), "CHUNK_BLOCKS"),
    *_rows("target.llvm.bucketing", (1, 5, 50), "CHUNK_POINTS"),
    *_rows("target.llvm.bucketing", (1, 3, 64), "CHUNKS", "POINTS_PER_BUCKET", "PAIR_POINTS_PER_BUCKET"),
    *_rows("target.llvm.bucketing", (1, 5, 1024), "FEW"),
    *_rows("target.llvm.panels", (4, 8, 32), "TURN_AT"),
    *_rows("target.llvm.panels", (1, 2, 4, 16), "TURN_USES", "PACK_AT"),
    *_rows("target.llvm.panels", (0, 4, 128), "MOST_VECTORS"),
    *_rows("target.llvm.panels", (1, 300, 256 << 10), "BLOCK_BYTES"),
    *_rows("target.llvm.gram", (4, 16, 256), "MOST_COLUMNS"),
    *_rows("target.llvm.gram", (1, 300, 24 << 10), "BLOCK_BYTES"),
    *_rows("target.llvm.gram", (1, 3, 16), "LEAST_BLOCK", "MOST_BLOCK"),
    *_rows("target.llvm.guess", (0.0, 5e6), "LEAST_NS"),
    *_rows("target.llvm.guess", (1, 4, 8), "LEAST_LANES"),
    *_rows("target.llvm.guess", (64, 2000, 128 << 10), "TABLE_BYTES"),
    *_rows("target.llvm.maps", FEW, "LEAST_ROWS"),
    *_rows("target.llvm.strips", FEW, "LEAST_ROWS"),
    *_rows("target.llvm.strips", BYTES, "LEAST_ROW_BYTES", "NEAR_BYTES", "PANEL_ROW_BYTES"),
    *_rows("target.llvm.select", (1, 7, 64), "PART"),
    *_rows("target.llvm.select", (1000, 16), "UNSURE"),
    *_rows("target.llvm.launch", (1, 30, 1000), "TILE_ELEMENTS"),
    *_rows("target.llvm.launch", FEW, "GEOMETRIES"),
    # What graphs become.
    *_rows("rewrite.reroll", (2, 4), "MIN_SIBLINGS"),
    *_rows("rewrite.reroll", BYTES, "MAX_BYTES"),
    *_rows("rewrite.chains", (0, 100, 1 << 20), "MIN_FLOPS"),
    *_rows("rewrite.keys", BYTES, "LOOK_KEYS_BYTES"),
    *_rows("ops.bucket", (1, 16, 1 << 16), "CHUNK"),
    *_rows("ops.cholesky", (1, 2, 32), "MIN_BLOCK"),
    *_rows("ops.random", (1, 7, 1 << 15), "BLOCK"),
    *_rows("api.create", (0, 4, 1 << 14), "FEW"),
    *_rows("api.padding", (1, 3, 27), "MOST_BOXES"),
    *_rows("api.functions.tiles", (1, 100, 1 << 20), "TILE_BYTES"),
    *_rows("compiler", (1, 5, 2048), "MAX_PLANS"),
)

# These are in the text of code, which is kept without them: all are small, or all are as they are.
OF_CODE = (
    *_rows("target.llvm.strips", (64,), "STRIP_BYTES"),
    *_rows("target.llvm.scans", (8,), "COLUMN_TILE"),
    *_rows("target.llvm.nested", (64,), "FAR_BYTES"),
    *_rows("target.llvm.guess", (1,), "LEAST_ROWS", "SPARED"),
    *_rows("target.llvm.bodies", (4,), "LIGHT_BODY", also=("target.llvm.panels", "target.llvm.prepare")),
    *_rows("target.llvm.buckets", (0,), "PLAIN_BODY"),
)

_codes: dict[Any, Any] = {}  # in memory, under small numbers of code


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """What is kept on disk: tuned lengths, and code under small numbers."""
    return tempfile.TemporaryDirectory(prefix="tilewise-thresholds-")


def chosen(seed: int, share: float | None = None) -> dict[Threshold, Any]:
    """The numbers of a seed: some of all, or most of them."""
    rng = random.Random(seed)
    share = rng.choice((0.2, 0.6, 0.95)) if share is None else share
    return {t: rng.choice(t.values) for t in THRESHOLDS if rng.random() < share}


@contextmanager
def thresholds(seed: int, code: bool = False) -> Iterator[dict[Threshold, Any]]:
    """Small numbers, and nothing that was made under others."""
    values = chosen(seed)
    if code:
        values |= {t: t.values[0] for t in OF_CODE}
    with applied(values):
        yield values


@contextmanager
def applied(values: dict[Threshold, Any]) -> Iterator[None]:
    """These numbers, and nothing that was made under others."""
    code = any(t in values for t in OF_CODE)
    with ExitStack() as stack:
        for t, value in values.items():
            for module in (t.module, *t.also):
                stack.enter_context(patch.object(import_module(f"tilewise.{module}"), t.name, value))
        stack.enter_context(patch.object(tiling.tile_length, "__defaults__", (tiling.TILE_BYTES,)))
        stack.enter_context(patch.object(tiling._most, "__defaults__", (tiling.HALO_BYTES,)))
        stack.enter_context(patch.object(compiler, "_structures", {}))
        stack.enter_context(patch.object(compiler, "_mesh_plans", {}))
        stack.enter_context(patch.object(tuned, "_records", {}))
        stack.enter_context(patch.object(tiles, "_spaces", []))
        folder = f"{_folder().name}/{'small' if code else 'usual'}"
        stack.enter_context(tilewise.config(cache_dir=folder))
        if code:
            stack.enter_context(patch.object(build, "_cache", _codes))
        causes = stack.enter_context(patch.object(launch, "_causes", set()))
        launch.compile.cache_clear()
        stack.callback(launch.compile.cache_clear)
        yield
        assert not causes, f"a kernel could not be compiled: {causes}"
