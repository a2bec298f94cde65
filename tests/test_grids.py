"""Operators whose layouts need both directions of a grid of workers: values as NumPy's, bytes as announced."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.conftest import Some
from tests.effort import SOME_OR_ALL

MESHES = ((2, 2), (3, 2), (2, 3))

PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "ravel": lambda np, a: a.ravel() + 1,
    "ravel and back": lambda np, a: (a.ravel() * 2).reshape(a.shape) + a,
    "ravel of a transpose": lambda np, a: a.T.ravel() * 2,
    "rows of two": lambda np, a: a.reshape(-1, 2).sum(1),
    "sum of other rows": lambda np, a: a.reshape(a.shape[1], a.shape[0]).sum(0),
    "mean of other rows": lambda np, a: a.reshape(a.shape[1], a.shape[0]).mean(0),
    "split both": lambda np, a: a.reshape(2, -1, 2, a.shape[1] // 2).sum((0, 2)),
    "diagonal": lambda np, a: a.diagonal() * 2,
    "diagonal above": lambda np, a: a.diagonal(3) * 2,
    "diagonal below": lambda np, a: a.diagonal(-5).sum(),
    "diagonal of a part": lambda np, a: a[2:9, 1:7].diagonal() + 1,
    "diagonals of a stack": lambda np, a: a.reshape(2, -1, a.shape[1]).diagonal(1, 0, 2) + 1,
    "trace": lambda np, a: np.trace(a),
    "sort of columns": lambda np, a: np.sort(a, axis=0),
    "sort of rows": lambda np, a: np.argsort(a, axis=1, kind="stable"),
    "transform of columns": lambda np, a: np.fft.fft(a, axis=0).real,
    "rows by index": lambda np, a: a[np.asarray([1, 0, 3, 3, 2])] * 2,
    "column sums": lambda np, a: a[::-1].sum(0) * 2,
    "row sums": lambda np, a: np.concatenate([a, a]).sum(1),
    "positions": lambda np, a: a.real.argmax(1),
    "positions of columns": lambda np, a: a.real.argmin(0) + 1,
    "position of all": lambda np, a: a.real.argmax(),
    "picked": lambda np, a: a.real[np.arange(a.shape[0]), a.real.argmax(1)],
    "picked of columns": lambda np, a: a.real[a.real.argmin(0), np.arange(a.shape[1])] * 2,
    "picked, and where": lambda np, a: a.real[np.arange(a.shape[0]), a.real.argmax(1)] + a.real.argmax(1),
    "border rows": lambda np, a: np.gradient(a, axis=0),
    "border columns": lambda np, a: np.gradient(a, axis=1),
    "a row": lambda np, a: a[3] * 2 + a[5],
    "a column": lambda np, a: (a[:, 3] - a[:, 1]).sum(),
    "outer of sums": lambda np, a: a.sum(0)[:, None] * a.sum(1),
}


def _data(dtype: str, shape: tuple[int, int]) -> np.ndarray:
    rng = np.random.default_rng(3)
    return (rng.normal(size=shape) * 50).astype(dtype)


def _run(
    program: Callable[[Any, Any], Any], data: np.ndarray, mesh: tuple[int, int], blocks: int, **options: Any
) -> Any:
    with (
        tw.config(eager_bytes=0, objective="bytes", blocks=blocks, **options),
        tw.session(engine="virtual", mesh=mesh) as s,
    ):
        a = tw.asarray(data).relayout(0, 1)
        tw.evaluate(a)
        counters = s.cluster.counters
        before = counters.network_bytes, counters.predicted_bytes, counters.bounded_bytes
        made = program(tw, a)
        tw.evaluate(made)
        if counters.bounded_bytes == before[2]:
            assert counters.network_bytes - before[0] == counters.predicted_bytes - before[1]
        return counters.network_bytes - before[0], np.asarray(made)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("mesh", MESHES, ids=lambda m: f"{m[0]}x{m[1]}")
@pytest.mark.parametrize("whole", SOME_OR_ALL)
def test_as_numpy(name: str, mesh: tuple[int, int], whole: bool, some: Some) -> None:
    rows = [("f8", (12, 20), 1), ("i4", (14, 22), 3), ("f4", (10, 10), 1), ("c16", (16, 8), 2)]
    first = MESHES.index(mesh)
    for dtype, shape, blocks in rows if whole else some((rows[first], rows[-1 - first])):
        data = _data(dtype, shape)
        want = np.asarray(PROGRAMS[name](np, data))
        _, got = _run(PROGRAMS[name], data, mesh, blocks)
        assert got.dtype == want.dtype and got.shape == want.shape
        np.testing.assert_allclose(
            got, want, rtol=1e-5 if dtype == "f4" else 1e-12, atol=1e-3 if dtype == "f4" else 1e-9
        )


@pytest.mark.parametrize("name", PROGRAMS)
def test_any_layout(name: str, some: Some) -> None:
    data = _data("i8", (12, 20))
    want = np.asarray(PROGRAMS[name](np, data))
    for seed in some(range(6)):
        _, got = _run(PROGRAMS[name], data, MESHES[seed % 3], 1 + seed % 2, layout_seed=seed)
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-9)


NOTHING = ("ravel", "ravel and back", "ravel of a transpose", "diagonal", "diagonal of a part")


@pytest.mark.parametrize("name", NOTHING)
@pytest.mark.parametrize("blocks", [1, 3])
def test_nothing_moves(name: str, blocks: int) -> None:
    moved, _ = _run(PROGRAMS[name], _data("f8", (120, 100)), (2, 2), blocks)
    assert moved == 0


def test_signs_of_zeros_stay() -> None:
    data = np.full((8, 6), -0.0)
    _, got = _run(PROGRAMS["sum of other rows"], data, (2, 2), 1)
    assert np.signbit(got).all() == np.signbit(data.reshape(6, 8).sum(0)).all()


@pytest.mark.parametrize("function", [np.negative, lambda x: x * -2.0])
def test_functions_that_change_signs_wait_until_parts_are_put_together(function: Callable[[Any], Any]) -> None:
    data = np.where(np.arange(48).reshape(8, 6) % 3, -0.0, 0.0)
    want = function(data.reshape(6, 8))
    for seed in range(48):
        _, got = _run(lambda np, a: function(a.reshape(6, 8)), data, (2, 2), 1, layout_seed=seed)
        assert got.tobytes() == want.tobytes()


def test_extremes_are_numpys() -> None:
    """Of equal elements the first, a NaN before all; what is picked has its own sign."""
    data = np.zeros((9, 8))
    data[0, 5], data[1, 6], data[1, 2], data[2], data[3, 0], data[4, 3:5] = np.nan, np.nan, np.nan, -0.0, -0.0, np.inf
    for name in ("positions", "picked", "positions of columns", "picked of columns", "picked, and where"):
        _, got = _run(PROGRAMS[name], data, (2, 2), 1)
        want = np.asarray(PROGRAMS[name](np, data))
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(np.signbit(got[~np.isnan(got)]), np.signbit(want[~np.isnan(want)]))


def test_what_is_picked_comes_with_its_position() -> None:
    data = _data("f8", (200, 60))
    both, _ = _run(lambda np, a: a.argmax(1), data, (2, 2), 1)
    moved, _ = _run(PROGRAMS["picked"], data, (2, 2), 1)
    assert moved == both == 200 * 16


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (1, 1), (1, 6), (2, 3), (3, 1)])
def test_small(shape: tuple[int, int]) -> None:
    data = _data("f8", shape)
    for name in ("ravel", "ravel of a transpose", "diagonal", "trace", "sort of columns", "column sums"):
        want = PROGRAMS[name](np, data)
        _, got = _run(PROGRAMS[name], data, (2, 2), 2)
        np.testing.assert_allclose(got, want, rtol=1e-12)
