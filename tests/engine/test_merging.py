"""Sums of chunks put together: one order, whatever their size."""

from __future__ import annotations

import numpy as np
import pytest

from tilewise.backend.llvm.tiles import merging
from tilewise.tuning import tuned


@pytest.mark.parametrize("op", ["add", "multiply", "maximum"])
@pytest.mark.parametrize("dtype", ["f8", "f4", "c16"])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 7, 8, 31, 32, 33])
def test_large_parts_are_combined_as_small_ones_are(op: str, dtype: str, count: int) -> None:
    width = tuned().merge_in_place_bytes // np.dtype(dtype).itemsize
    parts = np.random.default_rng(count).normal(size=(count, width)).astype(dtype)
    small = [merging.added(parts[:, i : i + 8].copy(), op) for i in range(0, width, 8)]
    assert merging.added(parts, op).tobytes() == np.concatenate(small).tobytes()
