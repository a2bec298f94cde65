"""Sample sort: any data, mesh and number of blocks; never more bytes than announced."""

import numpy as np
import pytest

import tilewise as tw
from tilewise.layout import Mesh, Shard
from tilewise.ops.order.sort import Sort, equal_ranges, samples, strayed
from tilewise.ops.traits.collectives import Collective, CollectiveCall, Operand, traffic

DATA = {
    "uniform": lambda rng, n: rng.random(n),
    "nan": lambda rng, n: np.where(rng.random(n) < 0.2, np.nan, rng.random(n)),
    "constant": lambda rng, n: np.ones(n),
    "few values": lambda rng, n: rng.integers(0, 5, n),
    "sorted": lambda rng, n: np.arange(n, dtype=np.float32),
    "reversed": lambda rng, n: -np.arange(n),
    "complex": lambda rng, n: rng.random(n) + 1j * rng.integers(0, 3, n),
}


@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize("workers", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("blocks", [1, 3])
def test_sort(kind: str, workers: int, blocks: int) -> None:
    for n in (0, 1, 2, 5, 20, 3000):
        a = DATA[kind](np.random.default_rng(n), n)
        with (
            tw.config(eager_bytes=0, blocks=blocks),
            tw.session(engine="virtual", workers=workers),
        ):
            y = tw.sort(tw.array(a))
            plan = tw.explain(y)
            with tw.profile() as ran:
                got = y.compute()
            np.testing.assert_array_equal(got, np.sort(a))
            assert ran.network_bytes <= plan.network_bytes
            np.testing.assert_array_equal((y * 2)[1:-1].compute(), (np.sort(a) * 2)[1:-1])


def test_a_sort_moves_about_what_it_must() -> None:
    a = np.random.default_rng(0).random(100_000)
    with tw.config(eager_bytes=0), tw.session(engine="virtual", workers=4):
        y = tw.sort(tw.array(a))
        text = str(tw.explain(y))
        assert "sample sort" in text and "at most" in text
        tw.evaluate(y)
        with tw.profile() as ran:
            tw.evaluate(tw.sort(y))  # sorted already: hardly anything has to move
        assert ran.network_bytes < a.nbytes / 4


def test_trimming_ghosts_is_not_a_halo() -> None:
    a = np.random.default_rng(1).random((70, 6))
    want = a.copy()
    want[1:-1] = 0.5 * (a[:-2] + a[2:]) - a.mean(0)
    for workers in (1, 2, 3):
        with tw.config(eager_bytes=0), tw.session(engine="virtual", workers=workers):
            x = tw.array(a)
            x[1:-1] = 0.5 * (x[:-2] + x[2:]) - x.mean(0)
            np.testing.assert_allclose(x.compute(), want, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("seed", range(200))
def test_ranges_have_equally_many_elements(seed: int) -> None:
    """Whatever the elements are, and however unevenly workers have them: cuts are off by no more than announced."""
    dice = np.random.default_rng(seed)
    p = int(dice.integers(2, 8))
    sizes = dice.integers(0, (5, 200, 3000)[seed % 3], p)
    if seed % 2:
        sizes[dice.integers(0, p)] = 0
        sizes[dice.integers(0, p)] *= 10
    made = {
        0: lambda n, w: dice.normal(size=n),
        1: lambda n, w: dice.integers(0, 3, n) * 1.0,
        2: lambda n, w: np.zeros(n),
        3: lambda n, w: dice.normal(size=n) + 100 * w,
        4: lambda n, w: np.where(dice.random(n) < 0.5, np.nan, dice.normal(size=n)),
    }[seed % 5]
    values = [np.sort(made(n, w)) for w, n in enumerate(sizes.tolist())]
    mesh, total = Mesh(p), int(sizes.sum())
    layout = Shard(0, tuple(np.concatenate([[0], np.cumsum(sizes)]).tolist()))
    operand = Operand((total,), np.dtype(float), layout)
    call = CollectiveCall(Collective(Sort(0, None), layout, layout), (operand,), operand, mesh, None)
    every = [samples(x, mesh) for x in values]
    edges = np.array([equal_ranges(x, w, every, call) for w, x in enumerate(values)])
    ends = edges.sum(axis=0)
    assert (np.diff(edges, axis=1) >= 0).all() and ends[-1] == total
    assert np.abs(ends - total * np.arange(p + 1) / p).max() <= strayed(sizes.tolist(), mesh)
    arriving = traffic(Sort(0, None), [operand], operand, mesh).arriving
    assert arriving is not None and np.diff(ends).max() * 8 <= arriving + 8
    found = np.concatenate(
        [np.sort(np.concatenate([x[e[w] : e[w + 1]] for x, e in zip(values, edges, strict=True)])) for w in range(p)]
    )
    np.testing.assert_array_equal(found, np.sort(np.concatenate(values)))


def test_equal_elements_are_shared_out() -> None:
    """All elements equal: no worker gets more than its share."""
    with tw.config(eager_bytes=0, objective="bytes"), tw.session(engine="virtual", workers=4) as session:
        x = tw.asarray(np.zeros(40_000)).relayout(0)
        tw.evaluate(x)
        before = session.cluster.counters.network_bytes
        tw.evaluate(tw.sort(x))
        assert session.cluster.counters.network_bytes - before < 40_000


def test_pieces_under_way_are_announced() -> None:
    with tw.config(eager_bytes=0, objective="bytes"), tw.session(engine="virtual", workers=4):
        x = tw.asarray(np.random.default_rng(0).normal(size=40_000)).relayout(0)
        tw.evaluate(x)
        share = 10_000 * 8
        assert tw.explain(tw.sort(x)).memory_bytes >= 5 * share  # given, sorted, as it came, joined, the result
