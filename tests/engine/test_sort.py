"""Sample sort: any data, mesh and number of blocks; never more bytes than announced."""

import numpy as np
import pytest

import tilewise as tw

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
