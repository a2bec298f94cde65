"""The steps from one layout to another that move the least. In: two layouts, shape, mesh. Out: exchanges, in order."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import prod

from tilewise.layout.moves import Exchange, moves
from tilewise.layout.placement import Layout, Mesh, OnDriver, Partial, Replicate, Shard, even_shard

Route = tuple[Exchange, ...]

ROUTES_KEPT = 4096  # a route is a few small values; its pieces are made only when asked for


@lru_cache(maxsize=ROUTES_KEPT)
def route(src: Layout, dst: Layout, shape: tuple[int, ...], mesh: Mesh) -> Route:
    """No step where nothing changes, one where that moves least, else two."""
    if src == dst:
        return ()
    straight = (moves(src, dst, shape, mesh),)
    match src, dst:
        case Partial(), Replicate():
            return _all_reduce(straight, src, shape, mesh)
        case _, Shard(ghosts=(low, high)) if low or high:
            # Ghosts straight from the source come once per block and contribution; from the new owner, often for less.
            bare = replace(dst, ghosts=(0, 0))
            return _least(straight, (*route(src, bare, shape, mesh), moves(bare, dst, shape, mesh)))
    return straight


def _all_reduce(straight: Route, src: Partial, shape: tuple[int, ...], mesh: Mesh) -> Route:
    """Reduce-scatter, then all-gather; few elements are not worth cutting and are reduced in one place, or in each."""
    if mesh.workers == 1 or prod(shape) < mesh.workers:
        return _least(straight, _via(src, OnDriver(), Replicate(), shape, mesh))
    longest = max(range(len(shape)), key=lambda axis: shape[axis])
    return _via(src, even_shard(longest, shape, mesh), Replicate(), shape, mesh)


def _via(src: Layout, between: Layout, dst: Layout, shape: tuple[int, ...], mesh: Mesh) -> Route:
    return moves(src, between, shape, mesh), moves(between, dst, shape, mesh)


def _least(*routes: Route) -> Route:
    """The route that moves least; the one with fewer steps if equal."""
    return min(routes, key=lambda steps: (sum(step.network_elements for step in steps), len(steps)))
