"""np.linalg on meshes and here: NumPy's values, dtypes and complaints, and what moves."""

from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.conftest import Some

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


def test_a_tall_qr_of_dependent_columns() -> None:
    column = RNG.standard_normal((400, 1))
    for a in (np.zeros((400, 3)), np.ones((400, 4)), column @ np.ones((1, 5)), np.eye(400, 6)):
        with tw.config(eager_bytes=0, objective="bytes"), session(4):
            q, r = tw.linalg.qr(tw.array(a).relayout(0))
            assert "qr of blocks" in str(tw.explain(q))
            near(q @ r, a)
            near(q.T @ q, np.eye(a.shape[1]))


def test_factors_can_be_written() -> None:
    a = RNG.standard_normal((40, 3))
    with tw.config(eager_bytes=0), session(2):
        q, r = tw.linalg.qr(tw.array(a))
        r[:] = 0
        q *= 2
        near(q, 2 * np.linalg.qr(a).Q)
        assert not r.any()


# -- the others ----------------------------------------------------------------------------------------------------

SQUARE = RNG.standard_normal((6, 6))
STACK = RNG.standard_normal((5, 3, 4, 4))
CALLS = {
    "inv": lambda m, a: m.linalg.inv(a),
    "det": lambda m, a: m.linalg.det(a),
    "slogdet": lambda m, a: m.linalg.slogdet(a),
    "pinv": lambda m, a: m.linalg.pinv(a[..., 1:, :]),
    "cholesky": lambda m, a: m.linalg.cholesky(a @ m.swapaxes(a, -1, -2).conj()),
    "upper": lambda m, a: m.linalg.cholesky(a @ m.swapaxes(a, -1, -2).conj(), upper=True),
    "eigvalsh": lambda m, a: m.linalg.eigvalsh(a, "U"),
    "eigh": lambda m, a: m.linalg.eigh(a),
    "svd": lambda m, a: m.linalg.svd(a[..., 2:]),
    "thin svd": lambda m, a: m.linalg.svd(a[..., 2:], full_matrices=False),
    "svdvals": lambda m, a: m.linalg.svdvals(a[..., 2:]),
    "hermitian svd": lambda m, a: m.linalg.svd(a + m.swapaxes(a, -1, -2).conj(), hermitian=True),
    "wide qr": lambda m, a: m.linalg.qr(a[..., 2:, :]),
    "wide r": lambda m, a: m.linalg.qr(a[..., 2:, :], "r"),
    "complete qr": lambda m, a: m.linalg.qr(a[..., 2:], "complete"),
    "solve": lambda m, a: m.linalg.solve(a, a[..., 1:]),
    "solve one": lambda m, a: m.linalg.solve(a, a[(0,) * (a.ndim - 1)]),
    "solve many": lambda m, a: m.linalg.solve(a, m.ones((a.shape[-1], 100))),
}


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("name", CALLS)
def test_functions_of_matrices(mesh: Any, name: str, some: Some) -> None:
    for a in (SQUARE, STACK, SQUARE.astype(np.float32), (9 * SQUARE).astype(int), STACK[1] + 1j * STACK[0]):
        want = CALLS[name](np, a)
        for seed in some((None, a.ndim)):
            with tw.config(eager_bytes=0, fallback="error"), session(mesh), tw.testing.random_layouts(seed):
                got = CALLS[name](tw, tw.array(a) * 1)
                if isinstance(want, tuple):
                    assert type(got) is type(want)
                    for g, w in zip(got, want, strict=True):
                        near(g, w, 100)
                else:
                    near(got, want, 100)


@pytest.mark.parametrize("mesh", MESHES)
def test_what_is_wrong_is_said_at_the_call(mesh: Any) -> None:
    wrong = {
        "inv": [(2, 3), (3,), ()], "det": [(2, 3)], "cholesky": [(2, 3), (4,)], "eigh": [(3, 2)], "svd": [(3,)],
        "qr": [(3,)], "slogdet": [(1, 2)],
    }  # fmt: skip
    with tw.config(eager_bytes=0, fallback="silent"), session(mesh):
        for name, shapes in wrong.items():
            for shape in shapes:
                with pytest.raises(np.linalg.LinAlgError) as want:
                    getattr(np.linalg, name)(np.ones(shape))
                with pytest.raises(np.linalg.LinAlgError) as got:
                    getattr(tw.linalg, name)(tw.ones(shape))
                assert str(got.value) == str(want.value)
        x = tw.array(SQUARE)
        for call, error in [
            (lambda: tw.linalg.solve(x, tw.ones(5)), ValueError),
            (lambda: tw.linalg.qr(x, "some"), ValueError),
            (lambda: tw.linalg.eigh(x, "M"), ValueError),
            (lambda: tw.linalg.inv(x.astype("e")), TypeError),
        ]:
            with pytest.raises(error):
                call()


@pytest.mark.parametrize("mesh", MESHES)
def test_empty_matrices(mesh: Any) -> None:
    for shape in ((0, 0), (0, 3, 3), (2, 0, 0)):
        a = np.zeros(shape)
        for name in "inv det cholesky slogdet eigh qr".split():
            want = getattr(np.linalg, name)(a)
            with tw.config(eager_bytes=0, fallback="error"), session(mesh):
                got = getattr(tw.linalg, name)(tw.array(a) * 1)
                for g, w in zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]:
                    near(g, w)


@pytest.mark.parametrize("mesh", [2, 4, (2, 2)])
def test_a_matrix_that_has_no_factor_fails_where_the_value_is_asked_for(mesh: Any) -> None:
    bad = np.eye(200)
    bad[150, 150] = -1
    with tw.config(eager_bytes=0), session(mesh):
        for name, matrix in (("cholesky", bad), ("inv", np.zeros((3, 3))), ("cholesky", -np.eye(3))):
            pending = getattr(tw.linalg, name)(tw.array(matrix))
            with pytest.raises(np.linalg.LinAlgError) as found:
                (pending + 1).compute()
            assert "test_linear.py" in found.value.__notes__[0] and name in found.value.__notes__[0]


def test_here_it_fails_at_the_call() -> None:
    with tw.config(eager_bytes=0), pytest.raises(np.linalg.LinAlgError):
        tw.linalg.cholesky(-tw.eye(3))


# -- Cholesky in blocks --------------------------------------------------------------------------------------------


def positive(n: int, kind: str) -> np.ndarray[Any, Any]:
    b = KINDS[kind](RNG.standard_normal((n, n)))
    made: np.ndarray[Any, Any] = (b @ b.conj().T + 40 * n * np.eye(n)).astype(b.dtype)
    return made


@pytest.mark.parametrize("mesh", [2, 7, (2, 2), (3, 2)])
@pytest.mark.parametrize("kind", ["d", "f", "D"])
def test_cholesky_in_blocks(mesh: Any, kind: str) -> None:
    for n in (63, 110):
        a = positive(n, kind)
        want = np.linalg.cholesky(a)
        for seed in (None, 1, 2):
            with tw.config(eager_bytes=0, fallback="error"), session(mesh) as here, tw.testing.random_layouts(seed):
                y = tw.linalg.cholesky(tw.array(a) * 1)
                moved(here, y)
                near(y, want)


def test_cholesky_with_several_blocks_on_a_worker() -> None:
    a = positive(200, "d")
    for mesh in (1, 3, (2, 2)):
        with tw.config(eager_bytes=0, blocks=3, objective="bytes"), session(mesh) as here:
            y = tw.linalg.cholesky(tw.array(a).relayout(0))
            moved(here, y)
            near(y, np.linalg.cholesky(a))


def test_cholesky_reads_only_the_lower_triangle() -> None:
    a = positive(150, "d")
    a[np.triu_indices(150, 1)] = np.nan
    with tw.config(eager_bytes=0), session(4):
        near(tw.linalg.cholesky(tw.array(a).relayout(0)), np.linalg.cholesky(a))


def test_cholesky_leaves_the_matrix_where_it_is() -> None:
    n, p = 600, 4
    a = positive(n, "d")
    with tw.config(eager_bytes=0), session(p) as here:
        x = tw.evaluate(tw.array(a).relayout(0))
        y = tw.linalg.cholesky(x)
        assert moved(here, y) < (p - 1) * 0.7 * a.nbytes  # not (p - 1) times all of it
        assert y.layout == x.layout
    with tw.config(eager_bytes=0, objective="bytes"), session((2, 2)) as here:
        x = tw.evaluate(tw.array(a).relayout(0, 1))
        y = tw.linalg.cholesky(x)
        assert moved(here, y) < (p - 1) * 0.6 * a.nbytes
        assert y.layout == x.layout  # in blocks
        near(y, np.linalg.cholesky(a))


def test_right_hand_sides_stay_where_they_are() -> None:
    b = RNG.standard_normal((6, 5000))
    with tw.config(eager_bytes=0), session(4) as here:
        a, x = tw.array(SQUARE), tw.evaluate(tw.array(b).relayout(1))
        y = tw.linalg.solve(a, x)
        assert moved(here, y) == 3 * SQUARE.nbytes
        near(y, np.linalg.solve(SQUARE, b), 100)
