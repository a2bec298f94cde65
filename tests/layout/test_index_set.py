"""Sets of indices against Python's own sets, and exchanges between layouts in pieces against a count of elements."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from tilewise.layout import (
    Grid,
    Layout,
    Mesh,
    OnDriver,
    Partial,
    Piecewise,
    Replicate,
    Shard,
    divided,
    even_cuts,
    even_shard,
    flipped_cuts,
    held_box,
    length,
    moves,
    position,
    runs,
    union,
    volume,
)
from tilewise.layout.index_set import common, shared

SHAPE = (12, 5)
TWO = Piecewise(0, ((6, 12), (0, 6)))
FOUR = Piecewise(0, (union([(0, 2), (8, 9)]), union([(2, 4), (9, 11)]), (4, 8), (11, 12)))


def members(s: object) -> list[int]:
    return [i for low, high in runs(s) for i in range(low, high)]  # type: ignore[arg-type]


def test_sets_are_like_sets() -> None:
    chance = random.Random(0)
    for _ in range(300):
        cuts = sorted(chance.sample(range(40), 8))
        chosen = [(cuts[k], cuts[k + 1]) for k in range(7) if chance.random() < 0.5]
        s = union(chance.sample(chosen, len(chosen)))
        mine = [i for low, high in chosen for i in range(low, high)]
        assert members(s) == mine and length(s) == len(mine)
        part = tuple(sorted(chance.sample(range(40), 2)))
        both = [i for i in mine if part[0] <= i < part[1]]
        found = list(common(s, part))
        assert [i for run in found for i in range(*run)] == both
        assert shared((s,), (part,)) == len(both)
        for run in found:
            assert mine[position(s, run)] == list(range(*run))


def test_neighbours_are_one_interval() -> None:
    assert union([(3, 5), (0, 3)]) == (0, 5)
    assert union([]) == union([(4, 4)]) == (0, 0)
    assert divided(1, [(0, 3), (0, 0), (3, 5)]) == Shard(1, (0, 3, 3, 5))
    assert divided(1, [(3, 5), (0, 3)]) == Piecewise(1, ((3, 5), (0, 3)))


@pytest.mark.parametrize("start, step, count", [(11, -1, 12), (10, -3, 4), (7, -2, 2), (0, -1, 1)])
def test_flipped_cuts(start: int, step: int, count: int) -> None:
    cuts = (0, 1, 6, 6, 12)
    for block, (low, high) in enumerate(flipped_cuts(pairwise(cuts), start, step, count)):
        mine = [k for k in range(count) if cuts[block] <= start + k * step < cuts[block + 1]]
        assert list(range(low, high)) == mine


def every(mesh: Mesh) -> list[Layout]:
    plain: list[Layout] = [even_shard(0, SHAPE, mesh), even_shard(1, SHAPE, mesh), Replicate(), OnDriver()]
    if mesh.total_blocks == 2:
        return [*plain, TWO, Shard(0, (0, 5, 12), (1, 2))]
    found = [*plain, FOUR, Piecewise(0, FOUR.sets[::-1]), Shard(0, even_cuts(12, 4), (1, 1))]
    return [*found, Grid(TWO, Replicate()), Grid(TWO, even_shard(1, SHAPE, mesh.across))] if mesh.grid else found


@pytest.mark.parametrize("mesh", [Mesh(2), Mesh(4), Mesh(2, 2), Mesh(4, 1, 2)], ids=str)
def test_exchanges_of_pieces(mesh: Mesh) -> None:
    """Every element that a place needs comes once, from someone who has it; what crosses is counted without pieces."""
    for src in (*every(mesh), Partial("add")):
        for dst in every(mesh):
            e = moves(src, dst, SHAPE, mesh)
            crossing = sum(p.size for p in e.pieces if p.crosses)
            assert crossing == e.network_elements == volume(src, dst, SHAPE, mesh)[0], (src, dst)
            assert sum(map(e.sent, range(mesh.workers))) == crossing
            copies = mesh.workers if isinstance(src, Partial) else 1
            got: dict[tuple[int, int | None], list[tuple[int, int]]] = {}
            for p in e.pieces:
                where = [(i, j) for i in range(*p.box[0]) for j in range(*p.box[1])]
                got.setdefault((p.dst_worker, p.dst_block), []).extend(where)
                if p.src_block is not None:
                    has = held_box(src, SHAPE, mesh, block=p.src_block)
                    assert all(i in members(has[0]) and j in members(has[1]) for i, j in where)
            for (worker, block), found in got.items():
                place = {"worker": worker} if block is None else {"block": block}
                rows, columns = held_box(dst, SHAPE, mesh, **place)  # type: ignore[arg-type]
                want = [(i, j) for i in members(rows) for j in members(columns)] * copies
                assert sorted(found) == sorted(want), (src, dst, worker, block)
