"""np.unique with an axis: different rows meet by ranges, as different elements do."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tilewise as tw

rng = np.random.default_rng(0)
MATRICES = {
    "whole numbers": rng.integers(0, 3, (40, 3)),
    "floats": rng.integers(0, 3, (41, 2)) * 1.0,
    "not a number": np.where(rng.random((30, 2)) < 0.3, np.nan, 1.0),
    "truth": rng.random((25, 2)) < 0.5,
    "boxes": rng.integers(0, 2, (9, 4, 2)),
    "complex": rng.integers(0, 2, (20, 2)) + 0j,
    "one row": np.ones((1, 3)),
    "bytes": rng.integers(0, 3, (300, 2)).astype(np.uint8),
}
FLAGS = ("return_index", "return_inverse", "return_counts")


@pytest.mark.parametrize(("mesh", "blocks"), [((2,), 1), ((4,), 3), ((7,), 1), ((2, 2), 1)])
@pytest.mark.parametrize("name", MATRICES)
def test_against_numpy(name: str, mesh: tuple[int, ...], blocks: int) -> None:
    data = MATRICES[name]
    grid: dict[str, Any] = {"mesh": mesh} if len(mesh) > 1 else {"workers": mesh[0]}
    with tw.config(eager_bytes=0, blocks=blocks, objective="bytes"), tw.session(engine="virtual", **grid) as session:
        x = tw.asarray(data).relayout(0)
        tw.evaluate(x)
        counters = session.cluster.counters
        for axis, flags in itertools.product((0, -1), ((False,) * 3, (True,) * 3, (False, True, False))):
            options = {"axis": axis, **dict(zip(FLAGS, flags, strict=True))}
            before = counters.network_bytes, counters.predicted_bytes + counters.bounded_bytes
            found, want = _several(tw.unique(x, **options)), _several(np.unique(data, **options))
            tw.evaluate(*found)
            announced = counters.predicted_bytes + counters.bounded_bytes - before[1]
            assert counters.network_bytes - before[0] <= announced
            for a, b in zip(found, want, strict=True):
                assert (a.shape, a.dtype) == (b.shape, b.dtype)
                np.testing.assert_array_equal(np.asarray(a), b)


def _several(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


def test_what_moves() -> None:
    data = rng.integers(0, 4, (8000, 3))
    with tw.config(eager_bytes=0, objective="bytes"), tw.session(engine="virtual", workers=4) as session:
        x = tw.asarray(data).relayout(0)
        tw.evaluate(x)
        before = session.cluster.counters.network_bytes
        tw.evaluate(tw.unique(x, axis=0))
        assert session.cluster.counters.network_bytes - before < 64 * 24 * 3 * 2  # of 64 different rows each worker's


def test_wrong_axes_are_numpys() -> None:
    with tw.config(eager_bytes=0), tw.session(engine="virtual", workers=2):
        x = tw.ones((4, 3)).relayout(0)
        with pytest.raises(np.exceptions.AxisError):
            tw.unique(x, axis=2)
