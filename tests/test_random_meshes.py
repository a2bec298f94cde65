"""Counter-based numbers depend on seed and position only: the same on every mesh, and made where they lie."""

import numpy as np
import pytest

import tilewise as tw

DRAWS = {
    "random": lambda g: g.random((33, 5)),
    "normal": lambda g: g.normal(2.0, 3.0, 101),
    "integers": lambda g: g.integers(-4, 9, (7, 3, 2)),
}


@pytest.mark.parametrize("name", DRAWS)
def test_same_numbers_on_every_mesh(name: str) -> None:
    def draw() -> np.ndarray:
        return np.asarray(DRAWS[name](tw.random.Generator(tw.random.Counter(42))))

    with tw.config(eager_bytes=0):
        want = draw()
        for workers in (1, 2, 3, 7):
            for blocks in (1, 3):
                with tw.config(blocks=blocks), tw.session(engine="virtual", workers=workers):
                    np.testing.assert_array_equal(draw(), want)


def test_nothing_is_scattered() -> None:
    with tw.config(eager_bytes=0):
        total = tw.random.Generator(tw.random.Counter(1)).random(10_000).sum()
        plan = tw.explain(total, workers=4)
    assert all(e.kind not in ("scatter", "broadcast") or e.bytes < 100 for e in plan.exchanges)
    assert plan.network_bytes < 200
