"""np.linalg on meshes and here: NumPy's values, dtypes and complaints, and what moves."""

from typing import Any

import numpy as np
import pytest

import tilewise as tw

MESHES: tuple[Any, ...] = (None, 2, 4, 7, (2, 2))
RNG = np.random.default_rng(3)
KINDS = {
    "d": lambda a: a,
    "f": lambda a: a.astype(np.float32),
    "D": lambda a: a + 1j * RNG.standard_normal(a.shape),
    "i": lambda a: (5 * a).astype(int),
}


def session(mesh: Any) -> Any:
    return tw.session(engine="local") if mesh is None else tw.session(engine="virtual", mesh=mesh)


def near(got: Any, want: Any, scale: float = 1.0) -> None:
    """As NumPy's, to rounding."""
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    eps = np.finfo(want.dtype).eps
    np.testing.assert_allclose(
        np.asarray(got), want, rtol=0, atol=scale * 500 * eps * max(np.abs(want).max(initial=0), 1)
    )


def moved(here: Any, *arrays: tw.Array) -> int:
    """The bytes that computing arrays moves between workers: as many as were announced."""
    counters = here.cluster.counters
    before = counters.network_bytes, counters.predicted_bytes
    tw.evaluate(*arrays)
    crossed, said = counters.network_bytes - before[0], counters.predicted_bytes - before[1]
    assert crossed == said
    return int(crossed)


# -- QR ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("kind", KINDS)
def test_qr_is_numpys_also_in_signs(mesh: Any, kind: str) -> None:
    for shape in ((600, 9), (50, 6), (13, 13), (9, 1), (1, 1), (20, 0), (5, 8, 3)):
        a = KINDS[kind](RNG.standard_normal(shape))
        want = np.linalg.qr(a)
        for seed in (None, len(shape) + shape[0]):
            with tw.config(eager_bytes=0, fallback="error"), session(mesh), tw.testing.random_layouts(seed):
                made = tw.linalg.qr(tw.array(a) * 1)
                assert type(made) is type(want)
                near(made.Q, want.Q)
                near(made.R, want.R)
                near(tw.linalg.qr(tw.array(a) * 1, mode="r"), want.R)


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("workers", [2, 4, 7])
def test_a_tall_qr_moves_only_small_pieces(workers: int, blocks: int) -> None:
    n = 12
    a = RNG.standard_normal((20_000, n))
    with tw.config(eager_bytes=0, blocks=blocks), session(workers) as here:
        x = tw.evaluate(tw.array(a).relayout(0))
        one_way = (workers - 1) * blocks * n * n * 8
        q, r = tw.linalg.qr(x)
        assert "qr of blocks" in str(tw.explain(q))
        assert moved(here, q, r) == 2 * one_way
        r_only = tw.linalg.qr(x, "r")
        assert moved(here, r_only) == one_way
        assert moved(here, q.T @ x) <= workers * (workers - 1) * n * n * 8  # Q is cut as x is: only sums move
        near(q, np.linalg.qr(a).Q)
        near(q.T @ q, np.eye(n))
        near(q @ r, a)
        near(r_only, np.linalg.qr(a).R)


def test_a_tall_qr_of_uneven_blocks() -> None:
    a = RNG.standard_normal((900, 7))
    for skip in (1, 40, 300):
        with tw.config(eager_bytes=0), session(4) as here:
            x = tw.evaluate(tw.array(a).relayout(0))
            q, r = tw.linalg.qr(x[skip:] * 2)
            moved(here, q, r)
            near(q, np.linalg.qr(a[skip:]).Q)
            near(r, np.linalg.qr(a[skip:] * 2).R)


def test_factors_can_be_written() -> None:
    a = RNG.standard_normal((40, 3))
    with tw.config(eager_bytes=0), session(2):
        q, r = tw.linalg.qr(tw.array(a))
        r[:] = 0
        q *= 2
        near(q, 2 * np.linalg.qr(a).Q)
        assert not r.any()
