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


@pytest.mark.parametrize("eager_bytes", [0, 1 << 20])
@pytest.mark.parametrize(
    "shaped",
    [
        lambda np, v: v.reshape(-1, 1),
        lambda np, v: np.atleast_2d(v),
        lambda np, v: np.expand_dims(v, 0),
        lambda np, v: v.ravel(),
        lambda np, v: np.lib.stride_tricks.as_strided(v, (2,), (0,)),
    ],
)
def test_what_is_made_of_a_number_is_an_array_of_its_own(eager_bytes: int, shaped: Any) -> None:
    with tw.config(eager_bytes=eager_bytes):
        for module in (np, tw):
            v: Any = module.asarray(2.0)
            number = v[...] * v
            made = shaped(module, number)
            made[...] = 7.0
            assert (float(number), np.asarray(made).max()) == (4.0, 7.0)
