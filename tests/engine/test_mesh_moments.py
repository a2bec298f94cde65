"""Variances along cut axes: one exchange, as exact as NumPy's or more, whatever the blocks; where they apply."""

import re
import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.conftest import Some
from tests.engine.test_moments import HARD, exact

MESHES: list[Any] = [3, 4, (2, 2)]
RNG = np.random.default_rng(7)
N = 12_007
PROGRAMS = {
    "var": lambda np, X: X.var(0),
    "std": lambda np, X: X.std(0, ddof=1),
    "of all": lambda np, X: X.var(),
    "of both axes": lambda np, X: X.var((0, 1), keepdims=True),
    "of rows": lambda np, X: X.var(1),
    "of rows, kept": lambda np, X: X.std(1, keepdims=True),
    "kept": lambda np, X: X.std(0, keepdims=True),
    "in double": lambda np, X: X.var(0, dtype="f8"),
    "with its mean": lambda np, X: (X.mean(0), X.std(0)),
    "with its sum": lambda np, X: (X.sum(0), X.var(0), X.mean(0, keepdims=True)),
    "standardise": lambda np, X: (X - X.mean(0)) / (X.std(0) + 1),
    "gram": lambda np, X: (lambda Z: Z.T @ Z)((X - X.mean(0)) / (X.std(0) + 1)),
    "layer norm and standardise": lambda np, X: (X - X.mean(1, keepdims=True)) / (X.std(1, keepdims=True) + X.std(0)),
    "by hand": lambda np, X: ((X - X.mean(0)) ** 2).sum(0),
    "by hand, turned": lambda np, X: np.square(X.sum() / X.size - X).mean(),
    "of a function": lambda np, X: np.var(X * X + 1, 0),
    "of a variance": lambda np, X: (X / (X.std(0) + 1)).var(),
    "of columns and of all": lambda np, X: (X.var(0), X.var(), X.mean()),
    "where": lambda np, X: X.var(0, where=X > 0),
}


def many(x: Any) -> tuple[Any, ...]:
    return x if isinstance(x, tuple) else (x,)


def on_mesh(program: Any, data: Any, mesh: Any, axis: int | None = 0, **settings: Any) -> tuple[Any, ...]:
    """What a program gives where its input is cut along an axis; it moves what its plans announce."""
    with tw.config(eager_bytes=0, **settings), tw.session(engine="virtual", mesh=mesh) as session:
        x = tw.asarray(data)
        if axis is not None:
            x = tw.evaluate(x.relayout(axis))
        found = tw.compute(*many(program(tw, x)))
        assert session.cluster is not None
        assert session.cluster.counters.network_bytes == session.cluster.counters.predicted_bytes
        return tuple(found) if isinstance(found, tuple | list) else (found,)


def exchanges(program: Any, shape: tuple[int, ...], workers: int = 4, **settings: Any) -> list[str]:
    """What contributions that are exchanged are reduced by, where rows are cut."""
    with tw.config(eager_bytes=0, **settings), tw.session(engine="virtual", workers=workers):
        x = tw.evaluate(tw.asarray(np.ones(shape)).relayout(0))
        text = tw.explain(*many(program(tw, x))).steps_text()
    return re.findall(r" exchange .* partial (\w+) ->", text)


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_hard_cases_come_out_no_worse_than_numpys(name: str, dtype: str, some: Some) -> None:
    scale = {"huge": 1e-125, "tiny": 1e125}.get(name, 1.0) if dtype == "f4" else 1.0
    a = (HARD[name] * scale).astype(dtype)
    want, numpys = exact(a), a.var()
    error = lambda v: abs(Fraction(float(v)) - want) / want if want else Fraction(float(v))  # noqa: E731
    for mesh, tile, blocks in some([(4, None, 1), (3, 600, 1), (2, None, 3)]):  # passes one by one, tiles that merge
        found, mean = on_mesh(lambda np, x: (x.var(), x.mean()), a, mesh, tile=tile, blocks=blocks)
        assert found.dtype == numpys.dtype
        assert error(found) <= max(error(numpys), 8 * Fraction(float(np.finfo(dtype).eps))), mesh
        bound = 8 * np.finfo(dtype).eps * np.abs(a).mean(dtype="f8")
        np.testing.assert_allclose(mean, a.mean(dtype="f8"), rtol=0, atol=bound)


@pytest.mark.parametrize("value", [0.1, 1 / 3, -7.3e15, 3.0, 0.0, -0.0, 1e-30])
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_what_is_constant_has_no_variance(value: float, dtype: str) -> None:
    a = np.full(N, value, dtype)
    for tile in (None, 1000):
        found = on_mesh(lambda np, x: (x.mean(0), x.std(0)), np.stack([a, a + 1], 1), 4, tile=tile)
        assert (found[1] == 0).all()
        np.testing.assert_allclose(found[0][0], a[0], rtol=4 * np.finfo(dtype).eps)


@pytest.mark.parametrize("wild", [np.nan, np.inf, -np.inf, 1e200, 1e308, -1e308])
@pytest.mark.parametrize("share", [0.0, 1e-3, 0.5, 1.0])
def test_what_is_not_finite(wild: float, share: float) -> None:
    a = RNG.normal(size=N)
    a[RNG.random(N) < share] = wild
    a[17] = wild
    X = np.stack([a, RNG.normal(size=N)], 1)
    X[0] = 1.0
    with np.errstate(all="ignore"):
        want = X.std(0), X.mean(0)
    for mesh, tile in ((4, None), (3, 1000)):
        found = on_mesh(lambda np, x: (x.std(0), x.mean(0)), X, mesh, tile=tile)
        for got, numpys in zip(found, want, strict=True):
            assert np.array_equal(np.isnan(got), np.isnan(numpys)) and np.array_equal(np.isinf(got), np.isinf(numpys))
            np.testing.assert_allclose(got, numpys, rtol=1e-9, atol=1e-9)


def test_infinities_of_both_signs_on_different_workers() -> None:
    x = np.zeros((8, 3))
    x[0], x[7, 1], x[7, 2] = np.inf, -np.inf, np.nan
    with np.errstate(all="ignore"):
        want = x.mean(0), x.var(0)
    for got, numpys in zip(on_mesh(lambda np, x: (x.mean(0), x.var(0)), x, 4), want, strict=True):
        np.testing.assert_array_equal(got, numpys)


@pytest.mark.parametrize(("dtype", "large"), [("f8", 1e307), ("f4", 2e37)])
def test_what_overflows_only_as_a_whole(dtype: str, large: float) -> None:
    """Blocks have finite sums; NumPy's sum of all is infinite, and so are the mean and the deviations from it."""
    x = np.full((32, 1000), large, dtype)
    x[:, 1] *= -1
    x[:, 2] = 1
    assert exchanges(PROGRAMS["with its mean"], x.shape) == ["moments"]
    with np.errstate(all="ignore"):
        want = x.mean(0), x.std(0)
    assert np.isinf(want[0][:2]).all() and np.isinf(want[1][:2]).all()
    for got, numpys in zip(on_mesh(PROGRAMS["with its mean"], x, 4), want, strict=True):
        np.testing.assert_array_equal(got, numpys)


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_numpys_values_on_all_meshes(name: str, mesh: Any, some: Some) -> None:
    program = PROGRAMS[name]
    for shape, dtype in some([((600, 50), "f8"), ((37, 3), "f4"), ((5, 4), "i4")]):
        X = np.random.default_rng(5).integers(0, 9, size=shape).astype(dtype)
        want = many(program(np, X))
        tolerance = {"f4": 2e-5}.get(dtype, 1e-11)
        for axis, seed, blocks in some([(0, None, 1), (1, None, 2), (0, 3, 2), (0, 5, 1)], 3):
            found = on_mesh(program, X, mesh, axis, layout_seed=seed, blocks=blocks)
            for a, b in zip(want, found, strict=True):
                assert np.asarray(a).dtype == b.dtype and np.shape(a) == b.shape
                np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 7])
def test_more_blocks_than_rows(rows: int) -> None:
    X = RNG.normal(size=(rows, 6)) * 3 + 1e6
    for mesh, blocks in ((4, 1), (4, 2), (3, 3)):
        for program in (PROGRAMS["with its mean"], PROGRAMS["of all"], PROGRAMS["standardise"]):
            for a, b in zip(many(program(np, X)), on_mesh(program, X, mesh, blocks=blocks), strict=True):
                np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-9)


def test_nothing_and_numbers() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert np.isnan(on_mesh(lambda np, X: X.var(0), np.ones((0, 3)), 4, None)[0]).all()
        assert on_mesh(lambda np, X: X.var(0), np.ones((9, 0)), 4)[0].shape == (0,)
        assert on_mesh(lambda np, X: X.var(), np.ones(()), 4, None)[0] == 0
        assert np.isnan(on_mesh(lambda np, X: X.var(0, ddof=9), np.ones((9, 2)), 4)[0]).all()


def test_mean_and_variance_cross_in_one_exchange() -> None:
    for name in ("var", "std", "of all", "kept", "with its mean", "standardise", "by hand", "of a function"):
        assert exchanges(PROGRAMS[name], (4000, 50)) == ["moments"], name
    assert exchanges(PROGRAMS["of rows"], (4000, 50)) == []
    assert exchanges(PROGRAMS["of columns and of all"], (4000, 50)) == ["moments", "moments"]


def test_two_exchanges_where_bits_or_bytes_count() -> None:
    for settings in ({"exact": True}, {"rewrite": False}, {"objective": "bytes"}):
        assert exchanges(PROGRAMS["with its mean"], (4000, 50), **settings) == ["sum", "sum"], settings


def test_contributions_of_a_few_wide_rows_are_not_worth_it() -> None:
    """Two rows per block cross in fewer bytes than 32 per column."""
    assert exchanges(PROGRAMS["var"], (8, 1_000_000)) == []
    assert exchanges(PROGRAMS["var"], (1000, 20_000)) == ["moments"]


def test_only_means_are_means() -> None:
    """Plans for a mesh are kept without the numbers in them: whether one is the number of terms is part of the key."""
    x = RNG.normal(size=4001) + 5
    for terms in (4001, 4000, 4001, 7):
        program = lambda np, x: ((x - x.sum() / terms) ** 2).sum()  # noqa: B023, E731
        np.testing.assert_allclose(on_mesh(program, x, 4)[0], program(np, x), rtol=1e-12)
        program = lambda np, x: ((x - x.sum(0) / terms) ** 2).sum(0)  # noqa: B023, E731
        assert len(exchanges(program, (4001, 100))) == (1 if terms == 4001 else 2)


def test_blocks_are_read_once() -> None:
    """Large blocks go by tiles: their means, and what is about these, by one look at memory."""
    with tw.config(eager_bytes=0), tw.session(engine="virtual", workers=4):
        x = tw.evaluate(tw.asarray(np.ones((400_000, 50))).relayout(0))
        assert tw.explain(x.std(0)).totals.read < 1.01 * x.nbytes
        with tw.config(exact=True):
            assert tw.explain(x.std(0)).totals.read > 1.99 * x.nbytes


@pytest.mark.parametrize(
    ("shape", "order", "layout"),
    [
        ((20_000, 50), "C", "rows/4"),  # 12 columns are walked at the cost of an exchange and more
        ((20_000, 1_000), "C", "columns/4"),  # rows of 250 numbers are as good as any: nothing need cross
        ((500, 50), "C", "columns/4"),  # an exchange costs more than a few ends of rows
        ((50, 20_000), "F", "columns/4"),  # short in memory: the columns
    ],
)
def test_short_rows_are_not_cut_shorter(shape: tuple[int, int], order: Any, layout: str) -> None:
    with tw.session(engine="virtual", workers=4), tw.config(eager_bytes=0):
        X = tw.asarray(np.ones(shape, order=order))
        axis = 0 if order == "C" else 1
        plan = tw.explain((X - X.mean(axis, keepdims=True)) / X.std(axis, keepdims=True))
        assert plan.steps_text().splitlines()[-1].split()[2].strip(",") == layout


def test_blocks_decide_the_bits_not_workers() -> None:
    x = RNG.normal(size=(20_011, 3)) * 1e3 + 1e8
    program = PROGRAMS["with its mean"]
    first, *others = [on_mesh(program, x, w, blocks=b) for w, b in ((8, 1), (4, 2), (2, 4))]
    again = on_mesh(program, x, 4, blocks=2)
    for other in (*others, again):
        assert all(a.tobytes() == b.tobytes() for a, b in zip(first, other, strict=True))


def test_little_memory_and_many_variances() -> None:
    X = RNG.normal(size=(4000, 20))
    program = PROGRAMS["gram"]
    with tw.session(engine="virtual", workers=4, memory=400_000), tw.config(eager_bytes=0):
        found = tw.compute(program(tw, tw.evaluate(tw.asarray(X).relayout(0))))
    np.testing.assert_allclose(found, program(np, X), rtol=1e-9, atol=1e-9)


def test_without_columns_in_any_layout() -> None:
    """Workers that have no part of any result may have no number of terms, either."""
    data = np.ones((2, 0, 2), np.int32)
    for seed in range(50_264, 50_272):
        with tw.testing.random_layouts(seed):
            (found,) = on_mesh(lambda np, X: ((X + X) * X).var(0), data, 8, axis=None, native=False, blocks=3)
        assert np.asarray(found).shape == (0, 2)
