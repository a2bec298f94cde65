"""Pieces of blocks in an exchange. In: blocks, boxes in a value's own coordinates. Out: views of the blocks.

A halo is received where a block already lies: blocks cut along their slowest axis have rows to spare for ghosts
(`backend/host/arrays.py`), so that only ghosts are copied.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from tilewise.backend.host.arrays import widened
from tilewise.layout import (
    Box,
    Exchange,
    Held,
    Layout,
    Mesh,
    OnDriver,
    Piece,
    Shard,
    box_size,
    held_box,
    moves,
    overlap,
    place,
    shards,
)
from tilewise.ops.traits.collectives import Parts
from tilewise.store.base import within

ND = np.ndarray[Any, Any]


def halo_blocks(source: Parts, exchange: Exchange, blocks: Iterable[int]) -> Parts | None:
    """Blocks that only get or lose ghosts: the same memory, seen wider (where there is room) or narrower."""
    src, dst = exchange.src, exchange.dst
    if not (isinstance(src, Shard) and isinstance(dst, Shard)) or (src.axis, src.cuts) != (dst.axis, dst.cuts):
        return None
    out: Parts = {}
    for block in blocks:
        x = source[block]
        low = src.held(block)[0] - dst.held(block)[0]
        high = dst.held(block)[1] - src.held(block)[1]
        if low <= 0 and high <= 0:
            out[block] = x[(slice(None),) * src.axis + (slice(-low, x.shape[src.axis] + high),)]
            continue
        wide = widened(x, low, high) if src.axis == 0 and src.ghosts == (0, 0) else None
        if wide is None:
            return None
        out[block] = wide
    return out


class Cut(NamedTuple):
    """A part of a stored value, on its way to the driver."""

    worker: int
    block: int  # -1: the worker has it once
    at: tuple[Any, ...]  # in the block
    box: Box  # in the value's own coordinates
    crosses: bool


@lru_cache(maxsize=256)
def cuts_of(layout: Layout, shape: tuple[int, ...], mesh: Mesh, box: Box) -> tuple[Cut, ...]:
    """The parts of which a box of a stored value is put together on the driver."""
    found = []
    for p in moves(layout, OnDriver(), shape, mesh).pieces:
        both = overlap(p.box, box)
        if box_size(both):
            block = -1 if p.src_block is None else p.src_block
            held = held_at(layout, shape, mesh, place(p.src_worker), block)
            found.append(Cut(p.src_worker, block, within(both, held), both, p.crosses))
    return tuple(found)


def piece_of(parts: Parts, exchange: Exchange, mesh: Mesh, piece: Piece) -> ND:
    """The part of a sender's block that a piece names."""
    block = -1 if piece.src_block is None else piece.src_block
    held = held_at(exchange.src, exchange.shape, mesh, place(piece.src_worker), block)
    return part_at(parts[block], held, piece.box)


def held_at(layout: Layout, shape: tuple[int, ...], mesh: Mesh, worker: int, block: int) -> Held:
    """What is in memory at a block, or (-1) once at the worker."""
    if not shards(layout):
        return tuple((0, n) for n in shape)
    return held_box(layout, shape, mesh, block=block if block >= 0 else mesh.blocks_of(worker)[0])


def part_at(x: ND, held: Held, box: Box) -> ND:
    """The part of a block that a box in global coordinates names."""
    return x[within(box, held)]  # type: ignore[no-any-return]
