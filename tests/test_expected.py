"""What masks are expected to keep: looked at in places, as the last time, or at most; and how explain announces it."""

import numpy as np
import pytest

import tilewise as tw
from tilewise.array.handle import node_of
from tilewise.array.lengths.expected import different


def kept(plan) -> list[str]:
    return [line for line in str(plan).splitlines() if line.startswith("A mask keeps")]


def rows(np, X):
    y = X * 2
    return y[y[:, 0] > 1.0] + 1


def test_small_masks_are_counted_and_large_ones_sampled():
    rng = np.random.default_rng(0)
    with tw.config(eager_bytes=0):
        small, large = rng.normal(size=(300, 3)), rng.normal(size=(100_000, 3))
        for X in (small, large):
            (text,) = kept(tw.explain(rows(tw, tw.asarray(X))))
            number = int(text.split(" of ")[0].split()[-1].replace(",", ""))
            want = np.count_nonzero(X[:, 0] > 0.5)
            assert ("sampled" in text) == (X is large)
            assert number == want if X is small else abs(number - want) < 0.1 * want
            assert f" of {len(X):,}" in text


@pytest.mark.parametrize(
    "mask",
    [
        lambda x: x > 0,
        lambda x: x[::-1] > 0.25,
        lambda x: (x.T[:1] < x.T).T,
        lambda x: tw.full(x.shape, 3.0) > x + 2.5,
        lambda x: tw.broadcast_to(x[:, :1], x.shape) > 0,
        lambda x: x[2:3] > 10,
    ],
)
def test_views_and_broadcasts_are_seen_through(mask):
    x = np.random.default_rng(1).normal(size=(40, 6))
    with tw.config(eager_bytes=0):
        m = mask(tw.asarray(x))
        want = np.count_nonzero(np.asarray(mask(tw.asarray(x))))
        picked = tw.asarray(np.arange(float(m.size)).reshape(m.shape))[m]
        (text,) = kept(tw.explain(picked * 2))
    assert text.startswith(f"A mask keeps {want:,} of {m.size:,}")


def test_what_cannot_be_looked_at_is_as_the_last_time():
    x = np.random.default_rng(2).random(1000)

    def picked():
        a = tw.asarray(x)
        return a[a > a.mean()] * 2

    with tw.config(eager_bytes=0):
        first = picked()
        assert kept(tw.explain(first)) == ["A mask keeps at most 1,000 of 1,000."]
        count = first.compute().size
        (text,) = kept(tw.explain(picked()))
    assert text == f"A mask keeps about {count:,} of 1,000 (as last time)."


@pytest.mark.parametrize("workers", [2, 3, 4, 7])
def test_the_count_is_announced_and_the_plan_is_the_one_that_runs(workers):
    X = np.random.default_rng(3).normal(size=(120, 4))
    with tw.config(eager_bytes=0), tw.session(engine="virtual", workers=workers) as session:
        made = rows(tw, tw.asarray(X))
        plan = tw.explain(made)
        assert "counted first" in kept(plan)[0]
        with tw.profile() as ran:
            found = made.compute()
        counters = session.cluster.counters
    np.testing.assert_array_equal(found, rows(np, X))
    exact = sum(e.bytes for e in plan.exchanges if not e.bound)
    assert exact == counters.predicted_bytes > 0
    assert exact <= ran.network_bytes <= plan.network_bytes


def test_several_masks_and_other_sizes():
    X = np.random.default_rng(4).normal(size=(90, 4))

    def both(np, X):
        return X[X[:, 0] > 0] * 2, X[X[:, 1] > 0.5] * 3

    with tw.config(eager_bytes=0), tw.session(engine="virtual", workers=3):
        made = both(tw, tw.asarray(X))
        plan = tw.explain(*made)
        assert len(kept(plan)) == 2
        again = {r.mesh.workers: r for r in plan.what_if([1, 3]).rows}
        assert set(again) == {1, 3} and again[3].network_bytes > 0
        for a, b in zip(tw.compute(*made), both(np, X), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("workers", "most"), [(2, (170_000, 240_000)), (4, (250_000, 600_000))])
def test_samples_decide_how_different_elements_meet(workers, most):
    """By bytes: few keys go by range; if all differ, each would go with all that is known of it."""
    few = np.random.default_rng(5).integers(0, 40, 20_000)
    apart = np.random.default_rng(6).permutation(20_000)
    asked = {"return_index": True, "return_inverse": True, "return_counts": True}
    found = {}
    for order in ((0, 1), (1, 0)):  # whichever came before
        with tw.config(eager_bytes=0, objective="bytes"), tw.session(engine="virtual", workers=workers) as session:
            for k in order:
                keys = (few, apart)[k]
                made = tw.unique(tw.asarray(keys), **asked)
                by_range = "different elements" in str(tw.explain(*made))
                assert by_range == (keys is few)
                before = session.cluster.counters.network_bytes
                for a, b in zip(tw.compute(*made), np.unique(keys, **asked), strict=True):
                    np.testing.assert_array_equal(a, b)
                counted = session.cluster.counters.network_bytes - before
                assert found.setdefault(k, counted) == counted <= most[k]


@pytest.mark.parametrize("size", [1, 50, 4096, 60_000])
def test_different_elements_are_estimated_within_a_factor(size):
    for kinds in (1, 30, 1000, size):
        x = np.random.default_rng(7).integers(0, min(kinds, size), size)
        number = different(node_of(tw.asarray(x)))
        assert number & (number - 1) == 0
        assert np.unique(x).size / 2 <= number <= 4 * np.unique(x).size
    with tw.config(eager_bytes=0):
        assert different(node_of(tw.asarray(np.arange(9.0)) % 3 + 1)) == 4
        assert different(node_of(tw.cumsum(tw.asarray(np.arange(9.0))))) == 0  # more than elementwise work


LOOKUPS = {
    "isin": lambda np, x, table: np.isin(x, table % 60),
    "searchsorted": lambda np, x, table: np.searchsorted(table, x),
    "interp": lambda np, x, table: np.interp(x, table, table * 0.5),
}


@pytest.mark.parametrize(("name", "workers"), list(zip(LOOKUPS, (2, 4, 3), strict=True)))
def test_samples_decide_whether_a_table_goes_to_all(name, workers):
    """Few different elements: they go to where the table has their range. Many of them: the table goes to all."""
    table = np.arange(3000.0)
    with tw.config(eager_bytes=0, objective="bytes"), tw.session(engine="virtual", workers=workers) as session:
        for different_ones in (20, 20_000):
            x = (np.arange(20_000.0) * 7919) % different_ones
            counters = session.cluster.counters
            before = counters.network_bytes, counters.predicted_bytes + counters.bounded_bytes
            made = LOOKUPS[name](tw, tw.asarray(x), tw.asarray(table))
            by_range = "values by range" in str(tw.explain(made))
            assert by_range == (different_ones == 20), (different_ones, tw.explain(made))
            np.testing.assert_array_equal(np.asarray(made), LOOKUPS[name](np, x, table))
            counters = session.cluster.counters
            assert counters.network_bytes - before[0] <= counters.predicted_bytes + counters.bounded_bytes - before[1]
