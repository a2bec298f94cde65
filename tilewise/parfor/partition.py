"""Tasks: how the iterations of a loop are handed out. In: how many there are, and workers.

Out: ranges of iteration numbers.

A task is a range of normalised iterations. All partitioners cover each iteration once, in order, without empty tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

DEFAULT_SIZE = 1  # of tasks of "fixed", and the bound of the constrained ones


def naive(count: int, workers: int, size: int) -> Iterator[int]:
    """Tasks of one iteration."""
    yield from (1 for _ in range(count))


def fixed(count: int, workers: int, size: int) -> Iterator[int]:
    """Tasks of a given size; the last one may be shorter."""
    while count > 0:
        yield min(size, count)
        count -= size


def static(count: int, workers: int, size: int) -> Iterator[int]:
    """One task per worker, as equal as possible."""
    share, more = divmod(count, workers)
    yield from (s for s in (share + (n < more) for n in range(workers)) if s)


def _waves(count: int, workers: int, bound: Callable[[int], int]) -> Iterator[int]:
    while count > 0:
        wave = max(1, bound(-(-count // (2 * workers))))
        for _ in range(workers):
            if count > 0:
                yield min(wave, count)
                count -= wave


def factoring(count: int, workers: int, size: int) -> Iterator[int]:
    """Waves of tasks that halve what is left: large ones first, small ones to balance at the end."""
    return _waves(count, workers, lambda half: half)


def factoring_cmin(count: int, workers: int, size: int) -> Iterator[int]:
    """Factoring with tasks of at least a given size."""
    return _waves(count, workers, lambda half: max(size, half))


def factoring_cmax(count: int, workers: int, size: int) -> Iterator[int]:
    """Factoring with tasks of at most a given size."""
    return _waves(count, workers, lambda half: min(size, half))


PARTITIONERS: Mapping[str, Callable[[int, int, int], Iterator[int]]] = {
    "naive": naive,
    "fixed": fixed,
    "static": static,
    "factoring": factoring,
    "factoring_cmin": factoring_cmin,
    "factoring_cmax": factoring_cmax,
}


def partition(count: int, workers: int, name: str = "factoring", size: int | None = None) -> list[range]:
    """The tasks of a loop of `count` iterations for `workers`.

    >>> [len(task) for task in partition(101, 4)]
    [13, 13, 13, 13, 7, 7, 7, 7, 3, 3, 3, 3, 2, 2, 2, 2, 1]
    >>> partition(5, 2, "static")
    [range(0, 3), range(3, 5)]
    """
    tasks, begin = [], 0
    for length in PARTITIONERS[name](count, workers, size or DEFAULT_SIZE):
        tasks.append(range(begin, begin + length))
        begin += length
    return tasks
