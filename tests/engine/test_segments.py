"""ufunc.reduceat along a cut axis: parts of slices are reduced where they lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewise as tw

rng = np.random.default_rng(0)
SPECIAL = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -0.0, -0.0, 3.0, np.nan, 2.0])
VALUES = {
    "floats": rng.normal(size=97),
    "zeros with signs": np.full(23, -0.0),
    "special": SPECIAL,
    "whole numbers": rng.integers(-50, 50, 64),
    "single": rng.normal(size=40).astype(np.float32),
    "truth": rng.random(31) < 0.5,
    "complex": rng.normal(size=20) + 1j * rng.normal(size=20),
    "one": np.array([4.0]),
    "rows": rng.normal(size=(30, 5)),
    "boxes": rng.normal(size=(12, 3, 2)),
}
STARTS = {
    "in order": lambda n: np.unique(np.linspace(0, n - 1, 7).astype(int)),
    "every element": lambda n: np.arange(n),
    "one slice": lambda n: np.array([n // 2]),
    "backwards": lambda n: np.arange(n)[::-1],
    "overlapping": lambda n: np.array([0, n - 1, 0, n // 2, n // 3, 0]),
    "equal": lambda n: np.array([0, 0, n // 2, n // 2, n - 1]),
    "short": lambda n: np.array([0, n - 1], np.int8),
}


@pytest.mark.parametrize("mesh", [(2,), (4,), (7,), (2, 2)])
@pytest.mark.parametrize("values", VALUES)
def test_against_numpy(values: str, mesh: tuple[int, ...]) -> None:
    data = VALUES[values]
    grid: dict[str, Any] = {"mesh": mesh} if len(mesh) > 1 else {"workers": mesh[0]}
    for blocks in (3 if mesh == (4,) else 1,):
        with (
            tw.config(eager_bytes=0, blocks=blocks, objective="bytes"),
            tw.session(engine="virtual", **grid) as session,
        ):
            x = tw.asarray(data).relayout(0)
            tw.evaluate(x)
            for name, make in STARTS.items():
                for f in ("add", "maximum", "multiply"):
                    at = make(len(data))
                    before = session.cluster.counters.network_bytes, _announced(session)
                    found = getattr(tw, f).reduceat(x, at)
                    tw.evaluate(found)
                    assert session.cluster.counters.network_bytes - before[0] <= _announced(session) - before[1]
                    with np.errstate(all="ignore"):
                        want = getattr(np, f).reduceat(data, at)
                    assert found.dtype == want.dtype and found.shape == want.shape
                    np.testing.assert_allclose(np.asarray(found), want, rtol=1e-5 if data.itemsize == 4 else 1e-12)
                    if values == "zeros with signs" and f == "add":
                        np.testing.assert_array_equal(np.signbit(np.asarray(found)), np.signbit(want), err_msg=name)


def _announced(session: Any) -> int:
    counters = session.cluster.counters
    return int(counters.predicted_bytes + counters.bounded_bytes)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_axes(axis: int) -> None:
    data, at = rng.normal(size=(14, 9)), np.array([0, 3, 8])
    with tw.config(eager_bytes=0), tw.session(engine="virtual", workers=3):
        for cut in (0, 1):
            x = tw.asarray(data).relayout(cut)
            found = tw.add.reduceat(x, at, axis=axis)
            np.testing.assert_allclose(np.asarray(found), np.add.reduceat(data, at, axis=axis))


def test_what_moves() -> None:
    data, at = rng.normal(size=8000), np.arange(0, 8000, 10)
    with tw.config(eager_bytes=0, objective="bytes"), tw.session(engine="virtual", workers=4) as session:
        x, starts = tw.asarray(data).relayout(0), tw.asarray(at)
        tw.evaluate(x)
        before = session.cluster.counters.network_bytes
        tw.evaluate(tw.add.reduceat(x, starts))
        moved = session.cluster.counters.network_bytes - before
        assert moved <= 3 * at.nbytes + 3 * 8  # the starts to all; of slices, those that are cut


def test_starts_on_workers_out_of_range() -> None:
    with tw.config(eager_bytes=0, objective="bytes"), tw.session(engine="virtual", workers=3):
        x, at = tw.arange(30.0).relayout(0), tw.asarray(np.array([0, 30])).relayout(0)
        tw.evaluate(x, at)
        with pytest.raises(IndexError, match=r"index 30 out-of-bounds in add.reduceat \[0, 30\)"):
            np.asarray(tw.add.reduceat(x, at))


def test_functions_that_cannot_be_split_say_so() -> None:
    data = rng.normal(size=1 << 18)
    with tw.config(eager_bytes=0), tw.session(engine="virtual", workers=2):
        x = tw.asarray(data).relayout(0)
        with pytest.warns(tw.FallbackWarning, match="hypot.reduceat"):
            found = tw.hypot.reduceat(x, [0, 5, 90])
        np.testing.assert_allclose(np.asarray(found), np.hypot.reduceat(data, [0, 5, 90]))
