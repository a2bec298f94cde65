"""Variances in one pass over memory: as exact as NumPy's or more, the same for all threads, and where they apply."""

import warnings
from fractions import Fraction

import numpy as np
import pytest

import tilewise as tw
from tilewise import rounding
from tilewise.array.program import program_of
from tilewise.backend.llvm.tiles import group
from tilewise.backend.llvm.tiles.lengths import tiling
from tilewise.stage.steps import Call, Pass, Tiled
from tilewise.stage.tiles import as_run

N = 50_003
LARGE = rounding.MERGED_AT_BYTES // 8  # float64 from which on tiles are merged without being told to
RNG = np.random.default_rng(3)
BASE = RNG.normal(size=N)
HARD = {
    "normal": BASE,
    "far from zero": BASE + 1e9,
    "farther": BASE * 1e-5 + 1e9,
    "some units in the last place": BASE * 3e-7 + 1e9,
    "sorted": np.sort(BASE),
    "sorted and far": np.sort(BASE) + 1e6,
    "outliers": np.where(RNG.random(N) < 1e-3, 1e8, BASE),
    "an outlier at first": np.r_[1e12, BASE[1:]],
    "steep": np.exp(5 * BASE),
    "a line": 1e9 + np.arange(N) * 1e-3,
    "all but one": np.r_[np.full(N - 1, 0.1), 0.2],
    "tiny": BASE * 1e-140,
    "huge": BASE * 1e140,
    "steps": np.repeat([1e6, -1e6, 3.0], N // 3),
}
PROGRAMS = {
    "var": lambda np, X: X.var(0),
    "std": lambda np, X: X.std(0, ddof=1),
    "of all": lambda np, X: X.var(),
    "of both axes": lambda np, X: X.var((0, 1), keepdims=True),
    "of rows": lambda np, X: X.var(1),
    "kept": lambda np, X: X.std(0, keepdims=True),
    "in double": lambda np, X: X.var(0, dtype="f8"),
    "with its mean": lambda np, X: (X.mean(0), X.std(0)),
    "standardise": lambda np, X: (X - X.mean(0)) / (X.std(0) + 1),
    "by hand": lambda np, X: ((X - X.mean(0)) ** 2).sum(0),
    "by hand, turned": lambda np, X: np.square(X.sum() / X.size - X).mean(),
    "by hand, product": lambda np, X: (lambda m: ((X - m) * (X - m)).mean(0))(X.mean(0)),
    "of a function": lambda np, X: np.var(X * X + 1, 0),
    "of columns and of all": lambda np, X: (X.var(0), X.var(), X.mean()),
    "and others": lambda np, X: (X.std(0), X.min(0), X.sum(1), (X * X).sum()),
    "the mean's own square": lambda np, X: (lambda m: (m, m * m, ((X - m) ** 2).sum(0)))(X.mean(0)),
    "where": lambda np, X: X.var(0, where=X > 0),
}


def exact(a: np.ndarray) -> Fraction:
    """The variance, without rounding."""
    ratios = [Fraction(v) for v in a.astype(float).tolist()]
    scale = max(r.denominator for r in ratios)
    whole = [r.numerator * (scale // r.denominator) for r in ratios]
    return Fraction(sum(i * i for i in whole) * len(whole) - sum(whole) ** 2, (len(whole) * scale) ** 2)


def run(program, X, **settings):
    with tw.config(eager_bytes=0, **settings):
        made = program(tw, tw.asarray(X))
        return tw.compute(*made) if isinstance(made, tuple) else (made.compute(),)


def many(x):
    return x if isinstance(x, tuple) else (x,)


def plan_of(program, X, **settings):
    """The steps that go over data, as they run; what they read."""
    with tw.config(eager_bytes=0, **settings):
        program_ = program_of(many(program(tw, tw.asarray(X))))
        plan, nodes, _ = program_.plan(None)
    return [s for s in as_run(plan.steps, nodes, tiling) if isinstance(s, Pass | Tiled | Call) and 0 in s.inputs]


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_hard_cases_come_out_no_worse_than_numpys(name, dtype, some):
    scale = {"huge": 1e-125, "tiny": 1e125}.get(name, 1.0) if dtype == "f4" else 1.0  # in the dtype's range
    a = (HARD[name] * scale).astype(dtype)
    want, numpys = exact(a), a.var()
    error = lambda v: abs(Fraction(float(v)) - want) / want if want else Fraction(float(v))  # noqa: E731
    for tile in some((600, 4096, N)):
        (found,) = run(lambda np, x: x.var(), a, tile=tile)
        assert found.dtype == numpys.dtype
        assert error(found) <= max(error(numpys), 8 * Fraction(float(np.finfo(dtype).eps))), tile


@pytest.mark.parametrize("value", [0.1, 1 / 3, -7.3e15, 3.0, 0.0, -0.0, 1e-30])
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_what_is_constant_has_no_variance(value, dtype):
    a = np.full(N, value, dtype)
    for tile in (1000, 4096):
        assert run(lambda np, x: x.var(), a, tile=tile)[0] == 0
        found = run(lambda np, x: (x.mean(0), x.std(0)), np.stack([a, BASE.astype(dtype)], 1), tile=tile)
        assert found[1][0] == 0
        np.testing.assert_allclose(found[0][0], a[0], rtol=4 * np.finfo(dtype).eps)


@pytest.mark.parametrize("wild", [np.nan, np.inf, -np.inf, 1e200, 1e308, -1e308])
@pytest.mark.parametrize("share", [0.0, 1e-4, 0.5, 1.0])
def test_what_is_not_finite(wild, share):
    a = BASE.copy()
    a[np.random.default_rng(5).random(N) < share] = wild
    a[17] = wild
    a[0] = 1.0  # squares of rounding errors overflow or not, as they fall
    X = np.stack([a, BASE], 1)
    with np.errstate(all="ignore"):
        want = (a.var(), a.mean(), *X.std(0), *X.mean(0))
    for tile in (1000, 20_000):
        first = run(lambda np, x: (x.var(), x.mean()), a, tile=tile)
        found = (*first, *(v for pair in run(lambda np, x: (x.std(0), x.mean(0)), X, tile=tile) for v in pair))
        np.testing.assert_allclose(found, want, rtol=1e-12, atol=1e-15)


FEW = 3
LONG = LARGE // FEW + 1
MEANS = {
    "rows": ((FEW, LONG), lambda np, X: (X.mean(1), X.std(1), X.sum(1))),
    "rows, kept": ((FEW, LONG), lambda np, X: (X - X.mean(1, keepdims=True)) / X.std(1, keepdims=True)),
    "columns": ((LONG, FEW), lambda np, X: (X.mean(0), X.var(0))),
    "all but the first": ((FEW, LONG // 50 + 1, 50), lambda np, X: (X.mean((1, 2)), X.std((1, 2)))),
    "all but the last": ((50, LONG // 50 + 1, FEW), lambda np, X: (X.mean((0, 1)), X.std((0, 1)))),
    "the middle": ((FEW, LONG // 2 + 1, 2), lambda np, X: (X.mean(1), X.var(1))),
    "the first and the last": ((30, FEW, LONG // 30 + 1), lambda np, X: (X.mean((0, 2)), X.var((0, 2)))),
}


@pytest.mark.parametrize("name", MEANS)
@pytest.mark.parametrize("order", ["C", "F"])
def test_each_mean_is_of_its_own_numbers(name, order):
    """Rows that are not far from each other: what is guessed for one would be good enough for another."""
    shape, program = MEANS[name]
    X = np.random.default_rng(6).normal(size=shape)
    X += 0.7 * np.arange(FEW).reshape([FEW if n == FEW else 1 for n in shape])
    X = np.asarray(X, order=order)
    for a, b in zip(many(program(np, X)), run(program, X), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i4", "?", "c16"])
def test_every_tile_gives_numpys_values(name, dtype, some):
    tolerance = {"f4": 2e-5, "f2": 1e-2}.get(dtype, 1e-11)
    for shape in some([(1000, 50), (37, 3), (1, 4), (3, 700), (1, 1)]):
        X = np.random.default_rng(5).integers(0, 9, size=shape).astype(dtype)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # fewer elements than degrees of freedom
            want = many(PROGRAMS[name](np, X))
        for tile in some((1, 64, None)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = run(PROGRAMS[name], X, tile=tile)
            for a, b in zip(want, found, strict=True):
                assert np.asarray(a).dtype == b.dtype and np.shape(a) == b.shape
                np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", PROGRAMS)
def test_threads_change_no_bit(name):
    X = np.random.default_rng(5).normal(size=(20_011, 13))
    for tile in (333, 5000):
        first, *others = [run(PROGRAMS[name], X, threads=t, tile=tile) for t in (1, 2, 5)]
        for other in others:
            assert all(a.tobytes() == b.tobytes() for a, b in zip(first, other, strict=True))


@pytest.fixture
def runs(monkeypatch):
    """Whether each run over tiles was about guesses, and whether these were good."""
    seen, real = [], group._run

    def noted(plan, *rest):
        done = real(plan, *rest)
        seen.append((bool(plan.pivots), done))
        return done

    monkeypatch.setattr(group, "_run", noted)
    return seen


def test_guesses_are_good_for_most_data_and_others_are_read_again(runs):
    X = np.random.default_rng(5).normal(size=(20_011, 13)) + 10
    for name in ("var", "of all", "with its mean", "standardise", "by hand"):
        runs.clear()
        found, want = run(PROGRAMS[name], X, tile=600), many(PROGRAMS[name](np, X))
        assert runs == [(True, True)], name
        for a, b in zip(want, found, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-9)
    x = np.r_[np.full(20_000, 1e6), np.ones(20_000)]  # every second number that is looked at is far from the mean
    x[np.linspace(0, len(x) - 1, 15, dtype=int)] = 1e12
    runs.clear()
    (found,) = run(lambda np, x: x.var(), x, tile=600)
    assert runs == [(True, False), (False, True)]
    np.testing.assert_allclose(found, x.var(), rtol=1e-12)


def test_sums_that_overflow_and_a_nan(runs):
    for x, good in ((np.full(40_000, 1e308), False), (np.full(40_000, 3e38, "f4"), False), (BASE.copy(), True)):
        x[17] = np.nan if good else x[0]
        runs.clear()
        with np.errstate(all="ignore"):
            want = x.var(), x.mean()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = run(lambda np, x: (x.var(), x.mean()), x, tile=600)
        np.testing.assert_array_equal(found, want)
        assert runs == ([(True, True)] if good else [(True, False), (False, True)])


def test_a_guess_that_fails_where_tiles_have_no_room_for_means():
    X = np.random.default_rng(1).normal(size=(8000, 64))
    X[3, 5] = np.inf

    def program(np, X):
        u = np.exp(X)
        return u / u.sum(1, keepdims=True), X.var(0)

    with np.errstate(all="ignore"):
        want = program(np, X)
    for tile in range(2960, 3080, 4):
        for a, b in zip(want, run(program, X, tile=tile), strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-9)


def test_sums_of_whole_numbers_are_exact_beside_their_variance(runs):
    X = np.random.default_rng(5).integers(-1000, 1000, size=(20_011, 13)).astype(float)
    programs = [
        lambda np, X: (X.sum(0), X.var(0), X.mean(0)),
        lambda np, X: (X.sum(), X.var(), X.mean()),
        lambda np, X: (X.sum(0, keepdims=True), X.var(0, keepdims=True), X.mean(0)),
    ]
    for program in programs:
        total, _, mean = run(program, X, tile=600)
        want, _, wanted = program(np, X)
        assert np.array_equal(total, want) and np.array_equal(mean, wanted)
    assert runs == [(True, True)] * 3


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_deviations_add_up_to_what_the_mean_was_rounded_by(name, dtype, some):
    scale = {"huge": 1e-125, "tiny": 1e125}.get(name, 1.0) if dtype == "f4" else 1.0
    a = (HARD[name] * scale).astype(dtype)[::7]

    def program(np, x):
        m = x.mean()
        d = x - m
        return m, (d * d).sum(), d.sum()

    for tile in some((600, 4096)):
        mean, squares, rest = run(program, a, tile=tile)
        off = [Fraction(v) - Fraction(float(mean)) for v in a.astype(float).tolist()]
        bound = 16 * Fraction(float(np.finfo(dtype).eps))
        assert abs(Fraction(float(rest)) - sum(off)) <= bound * sum(map(abs, off))
        want = sum(x * x for x in off)
        assert abs(Fraction(float(squares)) - want) <= 4 * bound * want
    x = np.full(N, 1e308)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(run(program, x, tile=600), program(np, x))


def test_large_data_is_read_once():
    x, X = np.ones(LARGE), np.ones((LARGE // 8, 8))
    for name in ("of all", "with its mean", "by hand"):
        (step,) = plan_of(PROGRAMS[name], x)
        assert isinstance(step, Tiled)
    assert len(plan_of(PROGRAMS["standardise"], X)) == 2  # and once more for the result
    with tw.config(eager_bytes=0):
        assert tw.explain(tw.asarray(x).var()).totals.read == x.nbytes + 16


def test_other_data_is_read_as_written():
    x, X = np.ones(LARGE), np.ones((LARGE // 8, 8))
    var = lambda np, x: x.var()  # noqa: E731
    assert len(plan_of(var, x, exact=True)) == len(plan_of(var, x, rewrite=False)) == 2
    assert len(plan_of(var, x[: LARGE // 2])) == 2  # the caches have it
    assert len(plan_of(lambda np, x: ((x - x.sum() / (LARGE - 1)) ** 2).sum(), x)) == 2  # not the mean
    assert len(plan_of(lambda np, x: ((x - x.mean()) ** 3).sum(), x)) == 2
    assert len(plan_of(lambda np, X: ((X - X.mean(0)) ** 2).sum(1), X)) == 2  # over another axis
    assert len(plan_of(lambda np, X: X.var(0), np.ones((LARGE // 1000, 1000)))) == 2  # tiles of a few rows each


def test_a_square_matrix_minus_the_means_of_its_rows():
    """The means lie along the wrong axis: what is summed are no deviations from a mean."""
    X = np.random.default_rng(5).normal(size=(300, 300))
    for axis in (0, 1):
        program = lambda np, X: ((X - X.mean(axis)) ** 2).sum(axis)  # noqa: B023, E731
        np.testing.assert_allclose(run(program, X, tile=32)[0], program(np, X), rtol=1e-12)
        program = lambda np, X: (((X + X.T) - (X + X.T).mean(axis)) ** 2).sum(axis)  # noqa: B023, E731
        np.testing.assert_allclose(run(program, X, tile=32)[0], program(np, X), rtol=1e-12)


def test_a_plan_serves_what_is_and_what_is_not_a_mean():
    """Plans know no sizes: whether a sum is divided by the number of its terms is seen at each run."""
    x = BASE + 5
    for terms in (N, N - 1, N, 7):
        program = lambda np, x: ((x - x.sum() / terms) ** 2).sum()  # noqa: B023, E731
        np.testing.assert_allclose(run(program, x, tile=512)[0], program(np, x), rtol=1e-12)


def test_a_function_traced_once_is_told_the_number_of_terms():
    x = tw.asarray(BASE[:900] + 5)
    traced = tw.jit(lambda x, terms: ((x - x.sum() / terms) ** 2).sum())
    for eager in (1 << 20, 0):
        for terms in (900.0, 7.0, 900.0):
            with tw.config(tile=64, eager_bytes=eager):
                found = float(traced(x, terms))
            want = ((BASE[:900] + 5 - (BASE[:900] + 5).sum() / terms) ** 2).sum()
            np.testing.assert_allclose(found, want, rtol=1e-12)


def test_sizes_and_orders_share_a_plan():
    for shape in ((5000, 6), (90, 4), (6, 5000), (600, 600)):
        X = np.random.default_rng(5).normal(size=shape)
        for given in (X, np.asfortranarray(X), X[::-1], X[::2, 1:]):
            for axis in (0, 1, None):
                (found,) = run(lambda np, X: X.std(axis), given, tile=64)  # noqa: B023
                np.testing.assert_allclose(found, given.std(axis), rtol=1e-12)


def test_nothing_has_no_variance():
    with pytest.warns(RuntimeWarning):
        (found,) = run(lambda np, X: X.var(0), np.ones((0, 3)))
    assert np.isnan(found).all() and found.shape == (3,)
    assert run(lambda np, X: X.var(1), np.ones((0, 3)))[0].shape == (0,)


@pytest.mark.parametrize("mesh", [2, 3, (2, 2)])
def test_meshes_have_plans_of_their_own(mesh):
    X = np.random.default_rng(5).normal(size=(4000, 6)) + 3
    for program in PROGRAMS.values():
        with tw.session(engine="virtual", mesh=mesh):
            found = run(program, X)
        for a, b in zip(many(program(np, X)), found, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("scale", [1e150, 1e151, 1e152, 1e154, 1e160, 1e300])
def test_what_overflows_is_infinite(scale):
    x = np.random.default_rng(0).normal(size=3_000_000) * scale
    with np.errstate(all="ignore"):
        for view, axis in ((x, None), (x.reshape(-1, 3), 0), (x.reshape(3, -1), 1)):
            want, found = view.var(axis), np.asarray(tw.asarray(view).var(axis=axis))
            assert np.array_equal(np.isinf(found), np.isinf(want))
            np.testing.assert_allclose(found, want, rtol=1e-12)


def test_no_tiles_of_a_few_columns_of_a_large_matrix():
    """Each would read a line here and a line there: one pass after the other reads memory in order."""
    with tw.config(eager_bytes=0):
        assert "tiles of" not in str(tw.explain(tw.asarray(np.ones((3000, 3000))).std(0)))
        assert "tiles of" in str(tw.explain(tw.asarray(np.ones((100, 90_000))).std(0)))


def test_where_scratch_has_no_room_for_the_mean_of_a_tile_passes_run_one_by_one(monkeypatch, no_plans):
    monkeypatch.setattr(rounding, "SCRATCH_BYTES", 200)
    X = np.random.default_rng(5).integers(0, 9, size=(33, 40))
    (found,) = run(PROGRAMS["standardise"], X, tile=8)
    np.testing.assert_allclose(found, PROGRAMS["standardise"](np, X), rtol=1e-12, atol=1e-12)
