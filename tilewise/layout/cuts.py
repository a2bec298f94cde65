"""Where an axis is divided, and how views inherit that. In and out: tuples of positions. Workers are in placement.py.

W + 1 cuts make W blocks; block j is [cuts[j], cuts[j+1]). Blocks may be empty and of any sizes; the first cut is 0,
the last the length.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

Cuts = tuple[int, ...]


def even_cuts(length: int, blocks: int) -> Cuts:
    """Cut as numpy.array_split does: the first `length % blocks` blocks are one longer."""
    assert length >= 0 and blocks >= 1, (length, blocks)
    size, longer = divmod(length, blocks)
    return tuple(j * size + min(j, longer) for j in range(blocks + 1))


def all_at(block: int, length: int, blocks: int) -> Cuts:
    """One block has the whole axis."""
    return (0,) * (block + 1) + (length,) * (blocks - block)


def slice_cuts(cuts: Cuts, start: int, step: int, length: int) -> Cuts:
    """Cuts of x[start::step][:length] when every element stays in the block of x that owns it."""
    assert start >= 0 and step > 0 and length >= 0, (start, step, length)
    assert length == 0 or start + (length - 1) * step < cuts[-1], (cuts[-1], start, step, length)
    return tuple(_slice_position(c, start, step, length) for c in cuts)


def flipped_cuts(owned: Iterable[tuple[int, int]], start: int, step: int, length: int) -> list[tuple[int, int]]:
    """What blocks that own intervals have of x[start::step][:length] for a negative step: intervals, too."""
    assert step < 0 and length >= 1 and start + (length - 1) * step >= 0, (start, step, length)
    out = []
    for low, high in owned:
        first = max(-((high - 1 - start) // -step), 0)  # the least k with start + k * step < high
        last = min((start - low) // -step + 1, length)
        out.append((first, max(first, last)))
    return out


def local_slice(cuts: Cuts, block: int, start: int, step: int, length: int) -> tuple[int, int, int]:
    """(first, step, count) such that x_block[first::step][:count] is this block's part of x[start::step][:length].

    x_block is what the block owns; in a block that also holds low ghosts, `first` moves up by their number.
    """
    assert start >= 0 and step > 0 and length >= 0, (start, step, length)
    low = _slice_position(cuts[block], start, step, length)
    high = _slice_position(cuts[block + 1], start, step, length)
    if low == high:
        return 0, step, 0
    return start + low * step - cuts[block], step, high - low


def concat_cuts(cuts: Cuts, lengths: tuple[int, ...]) -> list[Cuts]:
    """Cuts for each operand of a concatenation, so that the result with these cuts needs no exchange."""
    assert sum(lengths) == cuts[-1], (lengths, cuts[-1])
    offsets = accumulate(lengths, initial=0)
    return [
        tuple(min(max(c - offset, 0), length) for c in cuts) for offset, length in zip(offsets, lengths, strict=False)
    ]


def merge_cuts(cuts: Cuts, inner: int) -> Cuts:
    """Cuts of the axis made by merging this one with following axes of `inner` elements in all."""
    assert inner >= 0, inner
    return tuple(c * inner for c in cuts)


def split_cuts(cuts: Cuts, inner: int) -> Cuts | None:
    """Cuts of the outer axis when this one is split into (outer, inner); None if a cut falls inside an inner row."""
    assert inner >= 0, inner
    # inner == 0: the axis is empty and says nothing about how long the outer one is.
    if inner == 0 or any(c % inner for c in cuts):
        return None
    return tuple(c // inner for c in cuts)


def _slice_position(cut: int, start: int, step: int, length: int) -> int:
    """How many elements of the slice lie before position `cut`: ceil((cut - start) / step), within 0..length."""
    return min(max(-((start - cut) // step), 0), length)
