"""Passes that share their tiles: the same results as NumPy's, whatever the tile and the threads; which passes share."""

import numpy as np
import pytest

import tilewise as tw
from tilewise.array.program import program_of
from tilewise.backend.llvm.tiles.lengths import tiling
from tilewise.stage.steps import Call, Pass, Tiled, passes

PROGRAMS = {
    "softmax": lambda np, X: np.exp(X - X.max(1, keepdims=True)) / np.exp(X - X.max(1, keepdims=True)).sum(1)[:, None],
    "layer norm": lambda np, X: (X - X.mean(-1, keepdims=True)) / np.sqrt(X.var(-1, keepdims=True) + 1e-5),
    "standardise": lambda np, X: (X - X.mean(0)) / (X.std(0) + 1),
    "sums along both axes": lambda np, X: (X.sum(0), X.sum(1), (X * X).sum()),
    "there and back": lambda np, X: X.T @ (X @ np.arange(X.shape[1], dtype=X.dtype)),
    "transposed": lambda np, X: (X.T * 2).sum(0) + 1,
    "least of rows, then greatest of columns": lambda np, X: (X - X.min(1)[:, None]).max(0),
    "dot products": lambda np, X: (X[:, 0] @ X[:, -1], X[:, 0] @ X[:, 0], (X[:, 1] - X[:, 0]).sum()),
    "backwards": lambda np, X: (X[::-1].sum(1)[:, None] * X[::-1]).sum(0),
    "distances": lambda np, X: ((X[:, None, :] - X[:5]) ** 2).sum(-1).min(1),
    "nearest": lambda np, X: ((X[:, None, :] - X[:5]) ** 2).sum(-1).argmin(1),
    "layers": lambda np, X: np.maximum(np.maximum(X @ X[:3].T, 0) @ X[:3], 0).sum(1),
    "gram and sums": lambda np, X: (X.T @ X, X.sum(0)),
    "project": lambda np, X: (X @ X[:2].T - (X * X).sum(1)[:, None]).argmin(1),
    "by columns": lambda np, X: ((X.T[:3] @ X) * 2, X.T.sum(1)),
    "stretched rows": lambda np, X: np.einsum("ij,jk->ik", X + 1, X[:1] * 2),
    "stretched columns": lambda np, X: np.einsum("ij,kj->ik", X + 1, X[:3, -1:] * 2),
    "stretched first": lambda np, X: np.einsum("ij,jk->ik", X[:, :1] + 1, X[:4] * 2),
    "any and all": lambda np, X: ((X > 0).any(1).sum(), (X > 0).all(0)),
    "wanted on the way": lambda np, X: (lambda s: (s, np.exp(-abs(s)) + 1, (s * s).sum()))(X.sum(1)),
}
SHAPES = [(1000, 50), (37, 3), (5000, 7), (3, 2), (64, 64), (1, 4)]


def run(program, X):
    made = program(tw, tw.asarray(X))
    return tw.compute(*made) if isinstance(made, tuple) else (made.compute(),)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("dtype", ["f8", "f4", "i4"])
def test_every_tile_gives_numpys_values(name, dtype, some):
    rng = np.random.default_rng(1)
    for shape in some(SHAPES):
        X = rng.integers(-8, 9, size=shape).astype(dtype)
        want = PROGRAMS[name](np, X)
        want = want if isinstance(want, tuple) else (want,)
        tolerance = 2e-5 if dtype == "f4" else 1e-12
        for tile in (1, 7, 64, None):
            with tw.config(eager_bytes=0, tile=tile):
                found = run(PROGRAMS[name], X)
            for a, b in zip(want, found, strict=True):
                assert np.asarray(a).dtype == b.dtype and np.shape(a) == b.shape
                np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance, err_msg=f"{shape} tile {tile}")


def test_tiles_of_copies_in_one_order_are_not_those_of_another():
    X = np.arange(96.0).reshape(8, 12)
    with tw.config(eager_bytes=0, tile=7):
        for order in "FCFC":
            kept = tw.asarray(X)[:4, :4].copy(order)  # held, so that it is made beside what reads it
            assert np.array_equal((kept * 2).compute(), X[:4, :4] * 2)
            assert np.array_equal(kept.compute(), X[:4, :4])


@pytest.mark.parametrize("name", PROGRAMS)
def test_threads_change_no_bit(name):
    X = np.random.default_rng(2).normal(size=(20_000, 13))
    results = []
    for threads in (1, 2, 5):
        with tw.config(eager_bytes=0, threads=threads):
            results.append(run(PROGRAMS[name], X))
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            assert a.tobytes() == b.tobytes()


def steps(program, X):
    """The kinds of steps that a program takes."""
    with tw.config(eager_bytes=0):
        made = program(tw, tw.asarray(X))
        plan, *_ = program_of(list(made) if isinstance(made, tuple) else [made]).plan(None)
    return [s for s in plan.steps if isinstance(s, Pass | Tiled | Call)]


def test_a_matrix_used_from_both_sides_is_read_once():
    def gradient(np, X):
        w, y = np.asarray([0.5] * 50), np.asarray([1.0, 0.0] * 1500)
        return X.T @ (1 / (1 + np.exp(-(X @ w))) - y)

    (step,) = steps(gradient, np.ones((3000, 50)))
    assert isinstance(step, Tiled) and len(passes(step)) == 3 and len(step.outs) == 1


def test_a_matrix_is_not_cut_along_rows_and_columns_in_one_group():
    def descent(np, A):
        x = np.asarray([0.5] * 1200)
        r = x - A @ x
        return (r @ r) / (r @ (A @ r))  # A @ r needs all of r, or columns of A where A @ x has taken rows

    assert [len(passes(s)) for s in steps(descent, np.ones((1200, 1200))) if isinstance(s, Tiled)] == [3, 2]


def test_what_hangs_on_nothing_comes_before_the_group_that_needs_it():
    def nearest(np, X):
        C = np.asarray([[0.5, 1.0, 2.0]] * 4)
        return ((X * X).sum(1)[:, None] - 2 * (X @ C.T) + (C * C).sum(1)).argmin(1)

    found = steps(nearest, np.ones((60_000, 3)))
    assert [len(passes(s)) for s in found] == [1, 3] and isinstance(found[1], Tiled)


def test_large_inputs_are_cut_as_they_lie():
    rank = lambda np, X: (0.85 * X.T) @ np.asarray([0.5] * 1000) + 1  # noqa: E731
    found = steps(rank, np.ones((1000, 1000)))  # the sum could join only if X were cut into strips
    assert [len(passes(s)) for s in found] == [2, 1]
    assert [len(passes(s)) for s in steps(lambda np, X: rank(np, X.T), np.ones((1000, 1000)))] == [3]


def test_a_sum_over_tiles_ends_a_pass():
    centred = lambda np, X: np.abs(X - X.mean(0)).sum(0)  # noqa: E731
    over = [s for s in steps(centred, np.ones((3000, 50))) if 0 in s.inputs]
    assert len(over) == 2  # the mean, the deviation from it


def test_tall_products_are_tiled_and_others_are_numpys():
    gram = lambda np, X: X.T @ X  # noqa: E731
    assert isinstance(steps(gram, np.ones((60, 50)))[-1], Call)  # a plan that tall products must not take over
    assert isinstance(steps(gram, np.ones((20_000, 50)))[-1], Tiled)
    assert isinstance(steps(gram, np.ones((600, 700)))[-1], Call)
    X = np.random.default_rng(3).normal(size=(20_000, 50))
    with tw.config(eager_bytes=0):
        np.testing.assert_allclose(gram(tw, tw.asarray(X)).compute(), X.T @ X, rtol=1e-12, atol=1e-9)


def test_large_sums_are_not_kept_several_times():
    """X.T @ X of a wide matrix: one result, not one per chunk of tiles."""
    X = np.arange(12.0).reshape(3, 4).repeat(400, 1)
    with tw.config(eager_bytes=0):
        a = tw.asarray(X)
        found = ((a * 2).sum(0) + (a + 1).sum(0)).compute()
    np.testing.assert_array_equal(found, (X * 2).sum(0) + (X + 1).sum(0))


def test_products_that_conjugate_have_plans_of_their_own():
    c = np.array([1 + 2j, 3 - 1j])
    with tw.config(eager_bytes=0):
        x = tw.asarray(c)
        for name in ("inner", "vdot", "inner"):
            assert complex(getattr(tw, name)(x, x)) == getattr(np, name)(c, c)


def test_pairs_are_cut_along_rows_though_the_other_side_is_longer():
    """Both sides of all pairs are small: rows of the pairs are contiguous, and nothing is summed over tiles."""
    rng = np.random.default_rng(5)
    p, q = rng.normal(size=(300, 3)), rng.normal(size=(550, 3))
    pairs = lambda p, q: (1 / np.sqrt(((p[:, None, :] - q) ** 2).sum(-1) + 1)).sum(1)  # noqa: E731
    with tw.config(eager_bytes=0):
        made = pairs(tw.asarray(p), tw.asarray(q))
        plan, nodes, *_ = program_of([made]).plan(None)
        (step,) = [s for s in plan.steps if isinstance(s, Tiled)]
        cut = tiling(step, nodes)
        assert cut is not None and cut.way.length == len(p) and set(cut.way.at.values()) == {0}
        assert cut.any_length and cut.chunks > 1
        np.testing.assert_allclose(made.compute(), pairs(p, q), rtol=1e-12)


def test_no_tiles_of_a_few_columns_of_a_large_result():
    """Each would write a line here and a line there, to save reading a row again that the caches hold anyway."""
    with tw.config(eager_bytes=0):
        a, b = tw.asarray(np.ones((2, 1000)))
        pairs = (a[:, None] - b) * 2 + a * b
        assert "2 kernels, one after the other" in str(tw.explain(pairs))


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("reduce", ["max", "argmin", "sum", "prod", "any", "var"])
def test_a_slice_reduced_on_the_blocks_that_have_it_beside_a_pass_on_all(native, reduce):
    """Other blocks have rows for the first pass and none for the second."""
    X = np.arange(8.0).reshape(2, 4)
    with tw.config(eager_bytes=0, native=native, objective="bytes"), tw.session(workers=4, engine="virtual"):
        a = tw.asarray(X)
        row = a[:1]
        np.place(a, a > 1, [1, 2])
        found = getattr(row, reduce)(axis=0).compute()
    want = X.copy()
    np.place(want, want > 1, [1, 2])
    np.testing.assert_array_equal(found, getattr(want[:1], reduce)(axis=0))
