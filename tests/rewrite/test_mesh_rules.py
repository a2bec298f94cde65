"""Rules for meshes: slices before elementwise operators and scatters, reductions of what masks select where it lies."""

import numpy as np
import pytest

import tilewise as tw

RNG = np.random.default_rng(5)
D = RNG.normal(size=(60, 301))


def run(program, *arrays, workers=4, spread=True, **settings):
    """A program's plan, its result and what it moved, with everything recorded."""
    with tw.config(eager_bytes=0, **settings), tw.session(engine="virtual", workers=workers):
        given = [tw.asarray(x) for x in arrays]
        if spread:
            given = [tw.evaluate(x.relayout(0)) for x in given]
        with tw.profile() as recorded:
            made = program(tw, *given)
        plan = tw.explain(made)
        with tw.profile() as ran:
            found = tw.compute(made)
    assert recorded.network_bytes == 0
    assert ran.network_bytes == plan.network_bytes
    np.testing.assert_allclose(found, program(np, *arrays), rtol=1e-12)
    assert found.dtype == program(np, *arrays).dtype
    return plan


SLICES = [
    lambda np, d: (d * 2)[:, :5],
    lambda np, d: np.sqrt(np.abs(d) + 1)[7],
    lambda np, d: np.exp(d * 2)[-3:, ::-2].sum(1),
    lambda np, d: (d.T * 2)[3:9],
    lambda np, d: (d * 2 + d[:1])[4:6, 200:],
    lambda np, d: (d + 1)[5:5],
    lambda np, d: (d * 2)[:, :5][1::3] + 1,
]


@pytest.mark.parametrize("program", SLICES)
@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize("workers", [2, 7])
def test_a_slice_is_taken_before_what_is_done_to_elements(program, spread, workers):
    narrow = run(program, D, workers=workers, spread=spread)
    wide = run(program, D, workers=workers, spread=spread, without=("slices",))
    assert narrow.totals.read <= wide.totals.read


def test_only_the_columns_that_are_shown_are_sent_and_computed():
    plan = run(lambda np, d: (d * 2)[:, :5], D, spread=False)
    assert plan.network_bytes <= 3 * 60 * 5 * 8
    assert not any("301" in line for line in plan.steps_text().splitlines())


@pytest.mark.parametrize(
    "program",
    [
        lambda np, d: (d * 2)[1:] + (d * 2)[:-1],  # shifted slices of a stencil
        lambda np, d: (d > 0)[:5],  # the operand is wider
    ],
)
def test_what_might_move_more_is_left_alone(program):
    texts = [run(program, D, without=w).steps_text() for w in ((), ("slices",))]
    assert texts[0] == texts[1]


def test_slices_of_one_array_are_sent_until_all_of_it_is():
    with tw.config(eager_bytes=0), tw.session(engine="virtual", workers=4):
        x = tw.asarray(D)
        sent = []
        for i in [*range(0, 60, 6)] * 3:
            with tw.profile() as ran:
                np.testing.assert_allclose(tw.compute((x[i : i + 6] * 2).sum(1)), (D[i : i + 6] * 2).sum(1))
            sent.append(ran.network_bytes)
    assert sum(sent) < 3 * 1.6 * D.nbytes and sum(sent[10:]) < 0.1 * sum(sent)


VALUES = {
    "float64": D,
    "special": np.where(RNG.random(D.shape) < 0.05, np.nan, np.where(RNG.random(D.shape) < 0.05, np.inf, D)),
    "float32": D.astype(np.float32),
    "int16": (D * 100).astype(np.int16),
    "bool": D > 0,
    "complex": D[:, :150] + 1j * D[:, 150:300],
    "one": D[:1, :1],
    "empty": D[:0],
    "3-d": D[:, :300].reshape(60, 30, 10),
}
MASKS = {"some": lambda x: np.arange(len(x)) % 3 == 1, "none": lambda x: np.zeros(len(x), bool)}
REDUCTIONS = [
    lambda np, x, m: x[m].sum(0),
    lambda np, x, m: x[m].sum(),
    lambda np, x, m: (x[m] * 2).sum(0, keepdims=True),
    lambda np, x, m: x[m].prod(0),
    lambda np, x, m: x[m].any(0),
    lambda np, x, m: x[m].all(),
    lambda np, x, m: (x[m] * x[m] + 1).sum(tuple(range(x.ndim))),
]


@pytest.mark.parametrize("program", REDUCTIONS)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("values", VALUES)
def test_reductions_of_selections_are_numpys(program, mask, values):
    x = VALUES[values]
    m = MASKS[mask](x)
    with np.errstate(all="ignore"):
        want = program(np, x, m)
        with tw.config(eager_bytes=0), tw.session(engine="virtual", workers=4):
            given = (tw.evaluate(tw.asarray(x).relayout(0)), tw.evaluate(tw.asarray(m).relayout(0)))
            made = program(tw, *given)
            plan = tw.explain(made)
            found = tw.compute(made)
    assert found.dtype == want.dtype and found.shape == want.shape
    near = {"rtol": 1e-5, "atol": 1e-5} if found.dtype == np.float32 else {"rtol": 1e-10}
    np.testing.assert_allclose(found, want, **near)
    assert "compress" not in plan.steps_text()


SELECTED = [
    lambda np, x, m: x[m].sum(),
    lambda np, x, m: x[m].sum(0),
    lambda np, x, m: (x[m] * 2 + x[m]).prod(0),
    lambda np, x, m: (x[m] != 0).any(),
    lambda np, x, m: x[m].all(),
    lambda np, x, m: x[m].std(0),
    lambda np, x, m: np.var(x[m], ddof=1),
    lambda np, x, m: (x * x.dtype.type(2))[m].sum(-1).sum() if x.ndim == m.ndim else x[m].sum(tuple(range(x.ndim - 1))),
]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of nothing
@pytest.mark.parametrize("program", SELECTED)
@pytest.mark.parametrize("values", ["special", "int16", "empty", "3-d"])
def test_masks_may_have_several_axes(program, values):
    """The elements that x[mask] has in one axis lie in all axes of the mask."""
    x = VALUES[values]
    masks = {
        "some": np.arange(x.shape[0] * x.shape[1]).reshape(x.shape[:2]) % 3 == 1,
        "none": np.zeros(x.shape[:2], bool),
    }
    masks["turned"] = np.asfortranarray(masks["some"])
    for m in (*masks.values(), *[x == x] * (x.ndim > 2)):
        with np.errstate(all="ignore"):
            want = program(np, x, m)
            with tw.config(eager_bytes=0), tw.session(engine="virtual", workers=4):
                made = program(tw, tw.evaluate(tw.asarray(x).relayout(0)), tw.evaluate(tw.asarray(m).relayout(0)))
                plan = tw.explain(made)
                found = tw.compute(made)
        assert found.dtype == want.dtype and found.shape == want.shape
        near = {"rtol": 1e-5, "atol": 1e-5} if found.dtype == np.float32 else {"rtol": 1e-10}
        np.testing.assert_allclose(found, want, **near)
        assert "compress" not in plan.steps_text()


def test_a_mean_of_selected_rows_moves_no_rows():
    X = RNG.normal(size=(900, 50))
    plan = run(lambda np, x: x[x[:, 0] > 0].mean(0), X)
    assert plan.network_bytes == 4 * 3 * (50 + 1) * 8  # sums and a count, from each worker to each other
    var = run(lambda np, x: x[x[:, 0] > 0].std(0), X)
    assert var.network_bytes == 4 * 3 * (50 + 1 + 50) * 8  # and squares
    var = run(lambda np, x: x[x[:, 0] > 0].std(0), X, objective="bytes")
    assert var.network_bytes < 20 * 50 * 8
    every = run(lambda np, x: x[x > 0].mean(), X)
    assert every.network_bytes == 2 * 4 * 3 * 8  # a sum and a count


@pytest.mark.parametrize("program", [lambda np, x: np.sort(x[x[:, 0] > 0], 0), lambda np, x: x[x[:, 0] > 0] * 2])
def test_what_needs_the_selection_counts_it(program):
    with tw.config(eager_bytes=0), tw.session(engine="virtual", workers=4):
        made = program(tw, tw.asarray(D))
        assert "compress" in tw.explain(made).steps_text() or "selected rows" in str(tw.explain(made))
        np.testing.assert_array_equal(tw.compute(made), program(np, D))


def test_sums_keep_their_bits_where_that_is_asked_for():
    with tw.config(eager_bytes=0, exact=True), tw.session(engine="virtual", workers=4):
        x = tw.asarray(D)
        made = x[x[:, 0] > 0].sum(0)
        assert "where" not in tw.explain(made).steps_text()
