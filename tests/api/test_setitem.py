"""Writing through index arrays that the written array itself is, or shows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewise as tw


def by_itself(np: Any, x: Any, values: Any) -> None:
    x[x, 0] = values


def by_its_transpose(np: Any, x: Any, values: Any) -> None:
    x[x.T, 0] = values[:, None]


def by_a_part(np: Any, x: Any, values: Any) -> None:
    x[x[::2], 1] = values


def from_itself(np: Any, x: Any, values: Any) -> None:
    x[x, 0] = x.diagonal(0, 1, 0)


@pytest.mark.parametrize("write", [by_itself, by_its_transpose, by_a_part, from_itself])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("eager_bytes", [0, 1 << 20])
def test_the_last_of_equal_places_counts(write: Any, order: Any, eager_bytes: int) -> None:
    rng = np.random.default_rng(7)
    for _ in range(20):
        start = np.asarray(rng.integers(-5, 5, size=(6, 3)), order=order)
        values = rng.integers(10, 99, size=3)
        want = start.copy(order="K")
        write(np, want, values)
        with tw.config(eager_bytes=eager_bytes):
            x = tw.asarray(start)
            write(tw, x, values)
            np.testing.assert_array_equal(np.asarray(x), want)
