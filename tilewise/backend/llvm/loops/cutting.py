"""Nests to parts for threads. In: a `Nest`, how long it takes. Out: the words of geom for every part."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import pairwise

from tilewise.backend import threads
from tilewise.backend.llvm.loops.geometry import Cut, Nest
from tilewise.tuning import tuned


def parts_of(nest: Nest, operands: int, total_ns: float) -> tuple[bytes, ...]:
    """The words of every part: the whole nest, or its best dim or range of chunks cut into pieces."""
    count = 1
    if threads.get_threads() > 1 and total_ns > tuned().split_at_ns:
        count = min(threads.get_threads() * tuned().parts_per_thread, max(2, int(total_ns / tuned().part_ns)))
    # The outermost cut that gives every thread enough pieces, else the one with the most.
    wanted = 4 * count
    cut = next((c for c in nest.cuts if c.extent // c.grain >= wanted), None)
    cut = cut or max(nest.cuts, key=lambda c: c.extent // c.grain)
    units = -(-cut.extent // cut.grain)
    count = units if nest.panels else max(1, min(count, units))
    return pieces(nest, operands, cut, [min(cut.extent, units * i // count * cut.grain) for i in range(count + 1)])


def pieces(nest: Nest, operands: int, cut: Cut, edges: Sequence[int]) -> tuple[bytes, ...]:
    """The words of the parts between edges of a cut."""
    return tuple(_words(nest, operands, cut, low, high) for low, high in pairwise(edges))


def _words(nest: Nest, operands: int, cut: Cut, low: int, high: int) -> bytes:
    sizes, extras = [d.size for d in nest.dims], list(nest.extras)
    offsets = [0] * operands
    if cut.dim is not None:
        sizes[cut.dim] = high - low
        offsets = [low * s for s in nest.dims[cut.dim].strides]
    elif cut.extra is not None:
        extras[cut.extra], extras[cut.extra + 1] = low, high
    words = [*offsets, *sizes, *(d.strides[k] for k in range(operands) for d in nest.dims), *extras]
    return struct.pack(f"<{len(words)}q", *words)
