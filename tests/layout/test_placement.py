"""Meshes, boxes and descriptions."""

import pytest

from tilewise.layout import (
    DRIVER,
    Grid,
    Layout,
    Mesh,
    OnDriver,
    Partial,
    Replicate,
    Shard,
    check,
    describe,
    even_shard,
    held_box,
    owned_box,
)


def test_blocks_belong_to_workers_in_order() -> None:
    mesh = Mesh(3, 2)
    assert [mesh.worker_of(j) for j in range(mesh.total_blocks)] == [0, 0, 1, 1, 2, 2]
    assert list(mesh.blocks_of(1)) == [2, 3]


def test_boxes_of_a_shard() -> None:
    mesh, shape = Mesh(2, 2), (3, 10)
    layout = Shard(1, (0, 4, 4, 9, 10), ghosts=(2, 1))
    assert [owned_box(layout, shape, mesh, block=j)[1] for j in range(4)] == [(0, 4), (4, 4), (4, 9), (9, 10)]
    assert [held_box(layout, shape, mesh, block=j)[1] for j in range(4)] == [(0, 5), (4, 4), (2, 10), (7, 10)]
    assert owned_box(layout, shape, mesh, worker=0) == ((0, 3), (0, 4))
    assert held_box(layout, shape, mesh, worker=1) == ((0, 3), (2, 10))


def test_boxes_of_whole_arrays() -> None:
    mesh = Mesh(2)
    assert owned_box(Replicate(), (3,), mesh, worker=1) == ((0, 3),)
    assert owned_box(Partial("add"), (), mesh, worker=1) == ()
    assert held_box(OnDriver(), (3, 0), mesh, worker=DRIVER) == ((0, 3), (0, 0))


@pytest.mark.parametrize("cuts", [(0,), (1, 2), (0, 3, 2)])
def test_cuts_go_from_zero_upwards(cuts: tuple[int, ...]) -> None:
    with pytest.raises(AssertionError):
        Shard(0, cuts)


def test_a_shard_must_fit_array_and_mesh() -> None:
    for layout in (Shard(1, (0, 2, 4)), Shard(0, (0, 2, 5)), Shard(0, (0, 4))):
        with pytest.raises(AssertionError):
            check(layout, (4,), Mesh(2))


def test_layouts_are_values() -> None:
    a, b = even_shard(0, (5,), Mesh(2)), Shard(0, (0, 3, 5))
    assert a == b and hash(a) == hash(b) and len({a, b, Replicate(), Replicate(), OnDriver()}) == 3


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        (Shard(0, (0, 2, 4, 6, 8)), "rows/4"),
        (Shard(1, (0, 3, 5)), "columns/2"),
        (Shard(2, (0, 1, 2)), "axis 2/2"),
        (Shard(1, (0, 1, 1, 1, 1, 1, 1, 9)), "columns/7 uneven"),
        (Shard(0, (0, 3, 6), ghosts=(1, 2)), "rows/2 with ghosts 1+2"),
        (Replicate(), "replicated"),
        (Partial("add"), "partial sum"),
        (Partial("logical_or"), "partial any"),
        (Partial("bitwise_or"), "partial bitwise_or"),
        (OnDriver(), "on the driver"),
        (Grid(Shard(0, (0, 3, 6)), Partial("add")), "rows/2 x partial sum"),
        (Grid(Shard(0, (0, 3, 6), (1, 1)), Shard(1, (0, 2, 4), (0, 1))), "rows/2 x columns/2 with ghosts 1+1 x 0+1"),
    ],
)
def test_describe(layout: Layout, text: str) -> None:
    assert describe(layout) == text
