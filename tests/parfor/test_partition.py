"""Tasks: exact cover, no empty task, and the sizes of the paper's partitioners."""

from __future__ import annotations

import pytest

from tilewise.parfor.partition import PARTITIONERS, partition


def waves(text: str) -> list[int]:
    """`13x4 7x2 1` as a list of sizes."""
    out: list[int] = []
    for part in text.split():
        size, _, times = part.partition("x")
        out += [int(size)] * int(times or 1)
    return out


@pytest.mark.parametrize(
    ("count", "workers", "name", "size", "expected"),
    [
        (101, 4, "naive", None, "1x101"),
        (101, 4, "fixed", 20, "20x5 1"),
        (101, 4, "static", None, "26 25x3"),
        (101, 4, "factoring", None, "13x4 7x4 3x4 2x4 1"),
        (101, 4, "factoring_cmin", 10, "13x4 10x4 9"),
        (101, 4, "factoring_cmax", 8, "8x8 5x4 3x4 1x5"),
        (101, 4, "factoring_cmax", 5, "5x16 3x4 2x4 1"),
        (100, 4, "factoring", None, "13x4 6x4 3x4 2x4 1x4"),
        (10, 4, "factoring", None, "2x4 1x2"),
        (3, 4, "static", None, "1x3"),
        (3, 4, "factoring", None, "1x3"),
        (1000, 16, "factoring", None, "32x16 16x16 8x16 4x16 2x16 1x8"),
        (0, 4, "factoring", None, ""),
        (0, 4, "static", None, ""),
        (7, 1, "static", None, "7"),
        (7, 1, "factoring", None, "4 2 1"),
    ],
)
def test_sizes(count: int, workers: int, name: str, size: int | None, expected: str) -> None:
    assert [len(task) for task in partition(count, workers, name, size)] == waves(expected)


def test_waves_of_a_large_loop() -> None:
    sizes = [len(task) for task in partition(10_000, 16)]
    assert sizes[::16] == [313, 156, 78, 39, 20, 10, 5, 2, 1, 1]
    assert len(sizes) == 160


@pytest.mark.parametrize("name", PARTITIONERS)
def test_exact_cover_in_order(name: str) -> None:
    for count in (0, 1, 2, 3, 7, 50, 101, 1000):
        for workers in (1, 2, 3, 7, 50, 51, 2000):
            for size in (None, 1, 3, 1000):
                tasks = partition(count, workers, name, size)
                assert [k for task in tasks for k in task] == list(range(count))
                assert all(tasks)
