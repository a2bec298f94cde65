"""How much one exchange moves, without its pieces. In: two layouts, shape, mesh. Out: numbers of elements.

What moves.py works out need by need, for all needs at once: the solver asks this for every pair of layouts it weighs.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from tilewise.layout.index_set import Union, length, size
from tilewise.layout.moves import Exchange, contributions
from tilewise.layout.placement import (
    Cutting,
    Layout,
    Mesh,
    OnDriver,
    Outside,
    Piecewise,
    Replicate,
    Stored,
    blocked,
    held_box,
    lines,
    shards,
)

Bounds = np.ndarray[Any, np.dtype[np.int64]]

VOLUMES_KEPT = 1 << 16  # two numbers each


@lru_cache(maxsize=VOLUMES_KEPT)
def volume(src: Layout, dst: Layout, shape: tuple[int, ...], mesh: Mesh) -> tuple[int, int]:
    """Elements that cross in all, and the most that one worker has to take in (or the driver to give out).

    From a store: elements that are read, which take time though they do not cross between workers.
    """
    count = prod(shape)
    if isinstance(src, Stored):
        return Exchange(src, dst, shape, mesh).read_elements, prod(local_dims(dst, shape, mesh))
    if count == 0 or mesh.workers == 1 or src == dst or isinstance(src, Replicate):
        return 0, 0
    if isinstance(src, OnDriver):
        total = Exchange(src, dst, shape, mesh).network_elements
        return total, total
    if isinstance(dst, OnDriver):
        own = size(held_box(src, shape, mesh, worker=0))
        total = contributions(src, dst, mesh) * count - own
        return total, total
    if not (_plain(src, mesh) and _plain(dst, mesh)):
        one = Exchange(src, dst, shape, mesh)
        return one.network_elements, max(one.received(w) for w in range(mesh.workers))
    got = _received(src, dst, shape, mesh)
    return int(got.sum()), int(got.max())


def _plain(layout: Layout, mesh: Mesh) -> bool:
    """Whether a worker owns one interval of each axis."""
    pieces = [p for p in shards(layout) if isinstance(p, Piecewise)]
    return not pieces or (mesh.blocks == 1 and not any([isinstance(s, Union) for p in pieces for s in p.sets]))


def _received(src: Layout, dst: Layout, shape: tuple[int, ...], mesh: Mesh) -> Bounds:
    """What each worker takes in: all it needs, once per contribution, less what it holds."""
    per = mesh.blocks if blocked(dst) else 1
    need = _bounds(dst, mesh, per, joined=False)
    held = _bounds(src, mesh, per, joined=True)
    wanted: Any = 1
    at_hand: Any = 1
    rest = 1
    for axis, n in enumerate(shape):
        a, b = need.get(axis), held.get(axis)
        if a is None and b is None:
            rest *= n
            continue
        low, high = a if a is not None else (0, n)
        first, last = b if b is not None else (0, n)
        wanted = wanted * (high - low)
        at_hand = at_hand * np.maximum(np.minimum(high, last) - np.maximum(low, first), 0)
    copies = contributions(src, dst, mesh)
    got: Bounds = np.broadcast_to((wanted * copies - at_hand) * rest, (mesh.workers * per,))
    per_worker: Bounds = got.reshape(mesh.workers, per).sum(axis=1)
    return per_worker


@lru_cache(maxsize=VOLUMES_KEPT)
def local_dims(layout: Layout, shape: tuple[int, ...], mesh: Mesh) -> tuple[int, ...]:
    """The most that one worker holds, along each axis."""
    if isinstance(layout, Outside):
        return shape
    dims = list(shape)
    for part, line in lines(layout, mesh):
        if isinstance(part, Cutting):
            spans = (part.held(w * line.blocks, (w + 1) * line.blocks - 1) for w in range(line.workers))
            dims[part.axis] = max(map(length, spans))
    return tuple(dims)


@lru_cache(maxsize=VOLUMES_KEPT)
def most_held(layout: Layout, shape: tuple[int, ...], mesh: Mesh) -> int:
    """Elements on the worker that holds most, the ghosts of all its blocks included."""
    if isinstance(layout, Outside):
        return 0
    count = 1
    rest = list(shape)
    for part, line in lines(layout, mesh):
        if isinstance(part, Cutting):
            spans = [length(part.held(b)) for b in range(line.total_blocks)]
            count *= max(sum(spans[w * line.blocks : (w + 1) * line.blocks]) for w in range(line.workers))
            rest[part.axis] = 1
    return count * prod(rest)


@lru_cache(maxsize=VOLUMES_KEPT)
def total_held(layout: Layout, shape: tuple[int, ...], mesh: Mesh) -> int:
    """Elements that all workers hold together, copies and ghosts included."""
    if isinstance(layout, Outside):
        return 0
    count = 1
    rest = list(shape)
    for part, line in lines(layout, mesh):
        if isinstance(part, Cutting):
            count *= sum(length(part.held(b)) for b in range(line.total_blocks))
            rest[part.axis] = 1
        else:
            count *= line.workers
    return count * prod(rest)


@lru_cache(maxsize=4096)
def _bounds(layout: Layout, mesh: Mesh, per: int, joined: bool) -> dict[int, tuple[Bounds, Bounds]]:
    """Per axis that is cut: where what a place holds begins and ends. `per` places a worker: its blocks, or itself.

    Joined, every place of a worker holds what the worker does.
    """
    out: dict[int, tuple[Bounds, Bounds]] = {}
    workers = np.arange(mesh.workers * per) // per
    inner = np.arange(mesh.workers * per) % per
    for k, (part, line) in enumerate(lines(layout, mesh)):
        if not isinstance(part, Cutting):
            continue
        at = workers
        if len(lines(layout, mesh)) > 1:
            at = workers % mesh.columns if k else workers // mesh.columns
        if isinstance(part, Piecewise):  # of one block a worker
            low, high = np.array(part.sets, dtype=np.int64)[at].T
            out[part.axis] = low, high
            continue
        cuts = np.array(part.cuts, dtype=np.int64)
        if joined or per == 1 or line.blocks == 1:
            low, high = cuts[at * line.blocks], cuts[(at + 1) * line.blocks]
        else:
            low, high = cuts[at * line.blocks + inner], cuts[at * line.blocks + inner + 1]
        if part.ghosts != (0, 0):
            full = low < high
            low = np.where(full, np.maximum(low - part.ghosts[0], 0), low)
            high = np.where(full, np.minimum(high + part.ghosts[1], cuts[-1]), high)
        out[part.axis] = low, high
    return out
