"""np.repeat and np.tile: NumPy's values and errors, in memory of their own, once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tilewise.store import pool

REPEATS: list[Any] = [0, 1, 3, np.int64(2), np.uint8(4), True, [2], np.array(2), -1, 1.5, None, "a"]


def outcome(repeat: Any, x: Any, repeats: Any, axis: Any) -> Any:
    try:
        return repeat(x, repeats, axis)
    except (ValueError, TypeError) as error:
        return type(error)


@pytest.mark.parametrize("eager", [0, "2MiB"])
@pytest.mark.parametrize("dtype", ["f8", "i2", "?", "c16", "U3"])
def test_repeat(dtype: str, eager: Any) -> None:
    with tw.config(eager_bytes=eager, fallback="silent"):
        for shape in ((5,), (0,), (2, 3), (4, 0, 3), (2, 3, 4)):
            x = np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)
            for seen in (x, x.T, x[::-1]):
                for repeats in REPEATS:
                    for axis in (None, *range(len(shape))):
                        want = outcome(np.repeat, seen, repeats, axis)
                        found = outcome(tw.repeat, tw.asarray(seen), repeats, axis)
                        if isinstance(want, type):
                            assert found is want, (repeats, axis)
                        else:
                            got = np.asarray(found)
                            assert got.dtype == want.dtype and got.shape == want.shape and np.array_equal(got, want)


def test_it_is_written_without_its_source() -> None:
    x = np.arange(6.0).reshape(2, 3)
    for times in (1, 2):
        with tw.config(eager_bytes=0):
            given = tw.asarray(x)
            made = tw.repeat(given, times, 1)
            made[:] = 7
            assert (np.asarray(made) == 7).all() and np.array_equal(np.asarray(given), x)


@pytest.mark.parametrize("program", [lambda x: tw.repeat(x, 10), lambda x: tw.tile(x, 10)])
def test_memory_is_taken_once(program: Any) -> None:
    x = tw.asarray(np.arange(100_000.0))
    for f in (program, tw.jit(program)):
        for _ in range(3):
            pool.trim()
            pool.reset_peak()
            start = pool.peak_bytes()
            with tw.config(eager_bytes=0):
                got = tw.evaluate(f(x))
            assert pool.peak_bytes() - start < 12 * x.nbytes
            del got
