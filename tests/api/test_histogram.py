"""Histograms: NumPy's counts for every input, recorded where bins are equal; on tiles, threads and meshes."""

import warnings
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.conftest import Some

RNG = np.random.default_rng(11)
N = 3000
EVEN = np.linspace(0, 1, N)
DATA = {
    "uniform": RNG.random(N),
    "normal": RNG.normal(size=N),
    "float32": RNG.random(N).astype("f4"),
    "int64": RNG.integers(-50, 50, N),
    "int8": RNG.integers(-128, 127, N).astype("i1"),
    "uint8": RNG.integers(0, 256, N).astype("u1"),
    "huge ints": RNG.integers(-(2**62), 2**62, N),
    "on edges": RNG.integers(0, 1001, N) / 1000.0,
    "above edges": np.nextafter(EVEN, 9),
    "below edges": np.nextafter(EVEN, -9),
    "float32 on edges": EVEN.astype("f4"),
    "few digits": 1e16 + 2.0 * RNG.integers(0, 64, N),
    "nan": np.where(RNG.random(N) < 0.1, np.nan, RNG.random(N)),
    "inf": np.where(RNG.random(N) < 0.1, np.inf, RNG.random(N)),
    "far below": np.where(RNG.random(N) < 0.1, RNG.choice([-np.inf, -1e300, -5e-324], N), RNG.random(N)),
    "columns first": np.asfortranarray(RNG.random((50, 60))),
    "one value": np.full(N, 3.5),
    "denormal": RNG.random(N) * 1e-310,
    "float16": RNG.random(N).astype("f2"),
    "empty": np.zeros(0),
}
RANGES: list[Any] = [
    None, (0, 1), (0.1, 0.7), (-3, 3), (0.0, 0.0), (np.float32(0.1), np.float32(0.9)), (5, 300), (1, 0),
]  # fmt: skip
BINS: list[Any] = [
    1, 7, 64, 1000, "auto", 0, np.linspace(0, 1, 7), np.arange(0, 257), np.arange(-2, 2, 0.1), [0, 1, 1, 2],
    [0, np.inf],
    [3, 1], [2], np.linspace(0, 1, 9).astype("f4"),
]  # fmt: skip
WEIGHTS: dict[str, Any] = {
    "halves": lambda n: RNG.integers(-9, 9, n) * 0.5,
    "ints": lambda n: RNG.integers(-9, 9, n),
    "small ints": lambda n: RNG.integers(-100, 100, n).astype("i1"),
    "complex": lambda n: RNG.integers(-9, 9, n) + 1j,
    "one too many": lambda n: np.ones(np.add(n, 1)),
}
RECORDED = [
    name for name in DATA if name not in ("few digits", "nan", "inf", "far below", "denormal", "float16", "empty")
]


def outcome(f: Any, *args: Any, **options: Any) -> Any:
    """Arrays, or the complaint."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            counts, *edges = f(*args, **options)
        except Exception as error:
            return type(error), str(error)
    flat = edges[0] if isinstance(edges[0], list) else edges
    return [np.asarray(x) for x in (counts, *flat)]


def same(got: Any, want: Any) -> bool:
    if isinstance(want, tuple) or isinstance(got, tuple):
        return bool(got == want)
    return len(got) == len(want) and all(
        a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")
        for a, b in zip(got, want, strict=True)
    )


@pytest.mark.parametrize("name", DATA)
def test_numpys_counts_and_complaints(name: str, some: Some) -> None:
    x = DATA[name]
    for bins in BINS:
        for limits in some(RANGES):
            want = outcome(np.histogram, x, bins, limits)
            with tw.config(eager_bytes=0, fallback="silent"):
                assert same(outcome(tw.histogram, tw.asarray(x), bins, limits), want), (bins, limits)


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("kind", [*WEIGHTS, "density"])
def test_weights_and_density(name: str, kind: str) -> None:
    x = DATA[name]
    options: dict[str, Any] = {"density": True} if kind == "density" else {"weights": WEIGHTS[kind](x.shape)}
    for bins, limits in ((7, None), (64, (0, 1)), (np.linspace(0, 1, 7), None)):
        want = outcome(np.histogram, x, bins, limits, **options)
        with tw.config(eager_bytes=0, fallback="silent"):
            assert same(outcome(tw.histogram, tw.asarray(x), bins, limits, **options), want), (bins, limits)


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("width", [1.0, 1 / 3, 1e-9, 3e-300, 2e300, 1e-306])
@pytest.mark.parametrize("first", [0.0, -0.0, 0.1, -7.0, 1e9, -3e-300, 1e300])
def test_next_to_edges_and_far_outside(first: float, width: float, dtype: str) -> None:
    for bins in (1, 3, 64, 1000):
        last = first + bins * width
        if not first < last < np.inf:
            continue
        edges = np.linspace(first, last, bins + 1)
        near = [np.nextafter(edges, e) for e in (-np.inf, np.inf)]
        wild = [np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, 1.7e308, -1.7e308]
        with np.errstate(all="ignore"):
            far = first + np.array([-1.0, 1.0])[:, None] * width * 2.0 ** np.arange(0, 80, 7)
            x = np.concatenate([edges, *near, edges[:-1] + width / 2, far.ravel(), wild]).astype(dtype)
        x = np.tile(x, 1 + 500 // x.size)
        want = outcome(np.histogram, x, bins, (first, last))
        with tw.config(eager_bytes=0, fallback="silent"):
            assert same(outcome(tw.histogram, tw.asarray(x), bins, (first, last)), want), bins


def test_more_bins_than_fixed_point_numbers_have_room_for() -> None:
    x = RNG.random(4000) * 3
    with tw.config(eager_bytes=0, fallback="error"):
        for bins in ((1 << 20) - 1, 1 << 20, (1 << 20) + 7):
            assert same(outcome(tw.histogram, tw.asarray(x), bins, (1, 2)), outcome(np.histogram, x, bins, (1, 2)))


@pytest.mark.parametrize("name", RECORDED)
def test_equal_bins_are_recorded(name: str) -> None:
    with tw.config(eager_bytes=0, fallback="error"):
        x = tw.asarray(DATA[name])
        for bins in (1, 64, np.linspace(0, 1, 7), np.arange(5)):
            for limits in (None, (0, 1), (0.1, 0.7)):
                tw.histogram(x, bins, limits)


def test_unevenly_spaced_edges_are_numpys() -> None:
    with tw.config(eager_bytes=0, fallback="error"), pytest.raises(tw.FallbackError):
        tw.histogram(tw.asarray(DATA["uniform"]), [0, 0.1, 1])


def test_counts_are_one_pass_from_what_computes_the_values() -> None:
    with tw.config(eager_bytes=0):
        x = tw.asarray(DATA["normal"])
        assert "1 pass," in str(tw.explain(tw.histogram(tw.exp(x) * 2, 16, (0, 3))[0]))


@pytest.mark.parametrize("tile", [1, 7, None])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_tiles_and_threads_change_nothing(tile: int | None, threads: int) -> None:
    x = RNG.normal(size=70_000)
    w = RNG.integers(-9, 9, x.shape) * 0.5
    with tw.config(eager_bytes=0, tile=tile, threads=threads):
        X = tw.asarray(x)
        assert same(outcome(tw.histogram, X * 2 + 1, 50, (-2, 3)), outcome(np.histogram, x * 2 + 1, 50, (-2, 3)))
        assert same(outcome(tw.histogram, X, 50, weights=w), outcome(np.histogram, x, 50, weights=w))


@pytest.mark.parametrize("mesh", [2, 5, (2, 2)])
def test_on_meshes(mesh: Any) -> None:
    x, y = DATA["normal"], DATA["uniform"]
    w = RNG.integers(-9, 9, N) * 0.5
    with tw.config(eager_bytes=0), tw.session(engine="virtual", mesh=mesh):
        X, Y = tw.asarray(x), tw.asarray(y)
        assert same(outcome(tw.histogram, X, 20), outcome(np.histogram, x, 20))
        assert same(
            outcome(tw.histogram, X + Y, 20, (-1, 2), weights=w), outcome(np.histogram, x + y, 20, (-1, 2), weights=w)
        )
        assert same(outcome(tw.histogram2d, X, Y, (5, 8)), outcome(np.histogram2d, x, y, (5, 8)))


def test_float32_next_to_the_ends_of_a_grid() -> None:
    x = np.repeat(np.array([0.1, 0.3, 0.2, 0.7, 0.30000001, 0.0], "f4"), 50)
    for limits in ((0, 0.3), (0.1, 0.7), (0.3, 0.7), (0.0, 0.1)):
        want = outcome(np.histogram2d, x, x[::-1], 5, (limits, limits))
        with tw.config(eager_bytes=0, fallback="error"):
            X = tw.asarray(x)
            assert same(outcome(tw.histogram2d, X, X[::-1], 5, (limits, limits)), want), limits


@pytest.mark.parametrize("bins", [5, [3, 7], [[0, 0.5, 1], 3], 0])
@pytest.mark.parametrize("limits", [None, [(0, 1), (-1, 1)], [None, (0, 0.5)], [(0, 1)]])
def test_grids(bins: Any, limits: Any, some: Some) -> None:
    names = ("uniform", "int64", "float32", "nan")
    for options in ({}, {"density": True}, {"weights": RNG.integers(-9, 9, N) * 0.5}):
        for a in names:
            for b in some(names):
                x, y = DATA[a], DATA[b]
                with tw.config(eager_bytes=0, fallback="silent"):
                    X, Y = tw.asarray(x), tw.asarray(y)
                    for ours, theirs, given, plain in (
                        (tw.histogram2d, np.histogram2d, (X, Y), (x, y)),
                        (tw.histogramdd, np.histogramdd, ([X, Y],), ([x, y],)),
                        (tw.histogramdd, np.histogramdd, (tw.stack([X, Y], 1),), (np.stack([x, y], 1),)),
                    ):
                        got = outcome(ours, *given, bins, limits, **options)
                        assert same(got, outcome(theirs, *plain, bins, limits, **options)), (a, b, options)
