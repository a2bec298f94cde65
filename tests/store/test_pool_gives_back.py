"""Idle memory of the pool: used for what is a little smaller, given back when a program has gone on to other sizes."""

import numpy as np

from tilewise.store.pool import HUGE_PAGE, MIB, NEAR, PATIENCE, Pool, _rung

BYTES = np.dtype(np.uint8)


def taken(pool: Pool, size: int) -> np.ndarray:
    return pool.empty((size,), BYTES, size, None)


def test_a_block_that_is_a_little_larger_is_used() -> None:
    pool = Pool()
    first = taken(pool, 50 * MIB)
    where = first.ctypes.data
    del first
    again = taken(pool, 42 * MIB)
    assert again.ctypes.data == where and pool.idle_bytes() == 0
    del again
    assert pool.idle_bytes() == _rung(50 * MIB)
    other = taken(pool, int(50 * MIB / NEAR) - HUGE_PAGE)  # too small for it
    assert other.ctypes.data != where and pool.idle_bytes() == _rung(50 * MIB)


def test_blocks_that_nobody_wants_go_when_others_are_needed() -> None:
    pool = Pool()
    first = taken(pool, 64 * MIB)
    del first
    for _ in range(PATIENCE):
        assert pool.idle_bytes() >= _rung(64 * MIB)
        taken(pool, 4 * MIB)  # of one size: nothing more is needed
    kept = [taken(pool, 8 * MIB)]
    assert pool.idle_bytes() == _rung(4 * MIB)
    assert kept


def test_sizes_of_one_round_stay() -> None:
    pool = Pool()
    sizes = [int(2 * MIB * 1.6**k) for k in range(PATIENCE + 3)]  # more than it has patience for
    places: list[set[int]] = []
    for _ in range(6):
        places.append({taken(pool, size).ctypes.data for size in sizes})
    assert pool.idle_bytes() == sum(map(_rung, sizes)), "in the end all of a round are kept"
    assert places[-1] == places[-2]
