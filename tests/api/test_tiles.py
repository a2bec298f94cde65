"""Functions on tiles, rows and elements: map_tiles, join_update, fold, scan, filter, allpairs, outer_map.

Every row runs here and on virtual workers, at once and recorded, and once on Ray; NumPy or plain Python is the oracle.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import traceback
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tilewise import compiler

rng = np.random.default_rng(7)
A = rng.standard_normal((23, 4))
B = rng.standard_normal((9, 4))
V = rng.standard_normal(31)
I = rng.integers(-9, 9, (7, 5))
T = rng.standard_normal((3, 8, 2))
W = tw.asarray(np.arange(4.0))

ROWS: dict[str, tuple[Any, Any]] = {
    # traced
    "tiles": (lambda: tw.map_tiles(lambda t: t / t.sum(axis=1, keepdims=True), a(A)), A / A.sum(1, keepdims=True)),
    "tiles, two arrays": (lambda: tw.map_tiles(lambda t, u: t + u * 2, a(A), a(A[::-1])), A + A[::-1] * 2),
    "tiles, one whole": (lambda: tw.map_tiles(lambda t, u: t * u, a(A), a(A[:1])), A * A[:1]),
    "tiles, axis 1": (lambda: tw.map_tiles(lambda t: t - t.mean(axis=0), a(A), axis=1), A - A.mean(0)),
    "tiles, product": (lambda: tw.map_tiles(lambda t: t @ B.T, a(A)), A @ B.T),
    "tiles, views": (lambda: tw.map_tiles(lambda t: np.sort(t, axis=1)[:, 1:3], a(A)), np.sort(A, 1)[:, 1:3]),
    "tiles, moved axis": (lambda: tw.map_tiles(lambda t: t.transpose(0, 2, 1) * 2, a(T)), T.transpose(0, 2, 1) * 2),
    "tiles, captured": (lambda: tw.map_tiles(lambda t: t * W, a(A)), A * np.arange(4.0)),
    "tiles, float32": (lambda: tw.map_tiles(lambda t: np.exp(t), a(A.astype("f4"))), np.exp(A.astype("f4"))),
    "pairs": (lambda: tw.allpairs(lambda p, q: ((p - q) ** 2).sum(), a(A), a(B)), ((A[:, None] - B) ** 2).sum(-1)),
    "pairs, itself": (lambda: tw.allpairs(lambda p, q: abs(p - q).max(), a(A)), abs(A[:, None] - A).max(-1)),
    "pairs, product": (lambda: tw.allpairs(lambda p, q: q @ p + 1, a(A), a(B)), A @ B.T + 1),
    "pairs, np.dot": (lambda: tw.allpairs(np.dot, a(A), a(B)), A @ B.T),
    "pairs, mixed": (
        lambda: tw.allpairs(lambda p, q: (p * p).sum() - 2 * (p @ q) + q.sum(), a(A), a(B)),
        (A * A).sum(1)[:, None] - 2 * (A @ B.T) + B.sum(1),
    ),
    "pairs, weighted": (
        lambda: tw.allpairs(lambda p, q: (p * W) @ q, a(A), a(B)),
        (A * np.arange(4.0)) @ B.T,
    ),
    "pairs, of one": (lambda: tw.allpairs(lambda p, q: p.sum(), a(A), a(B)), np.repeat(A.sum(1)[:, None], 9, 1)),
    "pairs, rows": (lambda: tw.allpairs(lambda p, q: p + q, a(A), a(B)), A[:, None] + B),
    "pairs, numbers": (lambda: tw.allpairs(lambda p, q: p * q + 1, a(V), a(V)), np.outer(V, V) + 1),
    "outer": (lambda: tw.outer_map(lambda p, q: p * q + math.sin(q), a(V), a(I)), V[:, None, None] * I + np.sin(I)),
    "fold": (lambda: tw.fold(lambda p, q: p + q, a(A)), A.sum(0)),
    "fold, axis": (lambda: tw.fold(lambda p, q: p + q, a(T), axis=-2), T.sum(-2)),
    "fold, all": (lambda: tw.fold(lambda p, q: p + q, a(A), axis=None), A.sum()),
    "fold, initial": (lambda: tw.fold(lambda p, q: p * q, a(A), initial=2.0), A.prod(0) * 2),
    "fold, general": (lambda: tw.fold(lambda p, q: p + q + p * q, a(A / 9)), np.prod(A / 9 + 1, 0) - 1),
    "fold, general initial": (
        lambda: tw.fold(lambda p, q: p + q + p * q, a(V / 9), initial=1.0),
        2 * np.prod(V / 9 + 1) - 1,
    ),
    "fold, order kept": (lambda: tw.fold(lambda p, q: q, a(A)), A[-1]),
    "fold, max": (lambda: tw.fold(lambda p, q: max(p, q), a(I), axis=1), I.max(1)),
    "fold, int8": (
        lambda: tw.fold(lambda p, q: p + q, a(np.full(5, 100, "i1"))),
        np.add.reduce(np.full(5, 100, "i1"), dtype="i1"),
    ),
    "fold, none": (lambda: tw.fold(lambda p, q: p + q + p * q, a(np.zeros((0, 3))), initial=4.0), np.full(3, 4.0)),
    "scan": (lambda: tw.scan(lambda p, q: p + q, a(A), axis=1), A.cumsum(1)),
    "scan, general": (lambda: tw.scan(lambda p, q: p + q + p * q, a(V / 9)), np.cumprod(V / 9 + 1) - 1),
    "scan, rows": (lambda: tw.scan(lambda p, q: p + q + p * q, a(A / 9)), np.cumprod(A / 9 + 1, 0) - 1),
    "scan, order kept": (lambda: tw.scan(lambda p, q: p, a(V)), np.full(31, V[0])),
    "scan, none": (lambda: tw.scan(lambda p, q: p + q + p * q, a(np.zeros(0))), np.zeros(0)),
    "filter": (lambda: tw.filter(lambda p: p * p > 1, a(V)), V[V * V > 1]),
    "filter, 2-d": (lambda: tw.filter(lambda p: p > 3, a(I)), I[I > 3]),
    "filter, mask": (lambda: tw.filter(A[:, 0] > 0, a(A)), A[A[:, 0] > 0]),
    "filter, then sums": (lambda: tw.filter(lambda p: p > 0, a(V)).sum(), V[V > 0].sum()),
}
OPAQUE: dict[str, tuple[Any, Any]] = {
    "tiles": (lambda: tw.map_tiles(lambda t: np.linalg.norm(np.asarray(t), axis=1), a(A)), np.linalg.norm(A, axis=1)),
    "tiles, axis 1": (lambda: tw.map_tiles(lambda t: np.asarray(t)[:2] * 2, a(A), axis=1), A[:2] * 2),
    "tiles, two": (lambda: tw.map_tiles(lambda t, u: np.asarray(t) * u, a(A), a(A[:1])), A * A[:1]),
    "tiles, a number": (lambda: tw.map_tiles(lambda t, u: np.asarray(t) * u, a(A), 2.0), A * 2),
    "tiles, given": (
        lambda: tw.map_tiles(lambda t: np.asarray(t).astype("f4"), a(A), dtype="f4", shape=A.shape),
        A.astype("f4"),
    ),
    "tiles, by value": (lambda: tw.map_tiles(positive, a(V)), np.where(V > 0, V, 0)),
    "tiles, none": (lambda: tw.map_tiles(lambda t: np.asarray(t) * 2, a(np.zeros((0, 3)))), np.zeros((0, 3))),
    "join, products": (lambda: tw.join_update(lambda s, t: s @ t, (a(A.T), a(A)), (1, 0), (4, 4)), A.T @ A),
    "join, whole": (
        lambda: tw.join_update(lambda s, t: ((0, 1), s.T @ s @ t), (a(A), a(np.eye(4))), (0, None), (4, 6)),
        np.pad(A.T @ A, ((0, 0), (1, 1))),
    ),
    "join, max": (
        lambda: tw.join_update(lambda s: ((1,), s.max(axis=0)), (a(A),), (0,), (5,), accum=np.maximum),
        np.concatenate([[-np.inf], A.max(0)]),
    ),
    "join, counts": (
        lambda: tw.join_update(lambda s: np.bincount(s.ravel() + 9, minlength=20), (a(I),), (0,), (20,)),
        np.bincount(I.ravel() + 9, minlength=20),
    ),
    "pairs": (
        lambda: tw.allpairs(lambda p, q: p[0] if p[1] > q[1] else q[0], a(A), a(B)),
        np.where(A[:, 1][:, None] > B[:, 1], A[:, :1], B[:, 0]),
    ),
    "pairs, sorted": (lambda: tw.allpairs(lambda p, q: np.sort(p) + q, a(A), a(B)), np.sort(A, 1)[:, None] + B),
    "outer": (lambda: tw.outer_map(lambda p, q: p if p > q else q, a(V), a(V)), np.maximum.outer(V, V)),
    "fold": (lambda: tw.fold(lambda p, q: p if p > q else q, a(A)), A.max(0)),
    "scan": (lambda: tw.scan(lambda p, q: p if p > q else q, a(V)), np.maximum.accumulate(V)),
    "filter": (lambda: tw.filter(lambda p: bool(p > 0), a(V)), V[V > 0]),
}

PRINT = print  # Ray puts another in its place, once it runs


def a(x: Any) -> tw.Array:
    return tw.asarray(x)


def gcd_by_hand(p: Any, q: Any) -> Any:
    while q:
        p, q = q, p % q
    return abs(p)


def positive(t: Any) -> Any:
    """Fails on what is not an ndarray."""
    out = np.zeros(t.shape)
    out[np.asarray(t) > 0] = np.asarray(t)[np.asarray(t) > 0]
    return out


SESSIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "at once": ({"engine": "local"}, {"eager_bytes": 1 << 21}),
    "recorded": ({"engine": "local"}, {"eager_bytes": 0}),
    "interpreted": ({"engine": "local"}, {"eager_bytes": 0, "native": False, "fusion": False}),
    **{f"virtual {w}": ({"engine": "virtual", "workers": w}, {"eager_bytes": 0}) for w in (1, 2, 3)},
    "grid": ({"engine": "virtual", "mesh": (2, 2)}, {"eager_bytes": 0}),
}


@pytest.fixture(params=SESSIONS)
def where(request: Any) -> Iterator[Any]:
    session, settings = SESSIONS[request.param]
    with tw.session(**session):
        yield settings


def check(rows: dict[str, tuple[Any, Any]]) -> None:
    wrong = []
    for name, (ours, want) in rows.items():
        got = ours()
        want = np.asarray(want)
        close = 1e-6 if want.dtype == np.float32 else 1e-12
        if (got.dtype, got.shape) != (want.dtype, want.shape) or not np.allclose(got, want, rtol=close):
            wrong.append(f"{name}: {got.dtype}{got.shape} {got}, not {want.dtype}{want.shape} {want}")
    assert not wrong, "\n".join(wrong)


def test_traced_functions(where: Any) -> None:
    with tw.config(**where), warnings.catch_warnings():
        warnings.simplefilter("error")
        check(ROWS)


def test_opaque_functions(where: Any) -> None:
    with tw.config(fallback="silent", **where):
        check(OPAQUE)


@pytest.mark.parametrize("seed", range(4))
def test_any_layout(seed: int) -> None:
    settings = tw.config(eager_bytes=0, fallback="silent")
    with tw.session(engine="virtual", workers=3), settings, tw.testing.random_layouts(seed):
        check(ROWS)
        check(OPAQUE)


def test_on_ray() -> None:
    pytest.importorskip("ray")
    with tw.session(engine="ray", workers=2), tw.config(eager_bytes=0, fallback="silent"):
        check({k: ROWS[k] for k in ("tiles", "pairs", "fold, general", "scan, general", "filter", "outer")})
        check({k: OPAQUE[k] for k in ("tiles", "tiles, by value", "join, products", "pairs", "fold", "outer")})
        check({"compiled": (lambda: tw.outer_map(gcd_by_hand, a(I), a(I[0])), np.gcd.outer(I, I[0]))})
        with pytest.raises(ZeroDivisionError, match="modulo by zero"):
            tw.vectorize(lambda n: 7 % n if n < 9 else 0)(a(I * 0)).compute()
        with pytest.raises(ZeroDivisionError):
            tw.map_tiles(
                lambda t: 1 // int(np.asarray(t).size - np.asarray(t).size), a(V), dtype=float, shape=(31,)
            ).compute()


def test_a_mesh_cuts_along_the_declared_axis() -> None:
    with tw.session(engine="virtual", workers=4), tw.config(eager_bytes=0, fallback="silent"):
        x = tw.evaluate(tw.asarray(np.ones((40, 3))).relayout(0))
        y = tw.map_tiles(lambda t: np.asarray(t) * 2, x)
        moved = [e for e in tw.explain(y).exchanges if e.kind != "gather"]
        assert not any(e.bytes for e in moved), str(tw.explain(y))
        total = tw.join_update(lambda s: s.sum(axis=0), (x,), (0,), (3,))
        assert tw.explain(total, objective="bytes").network_bytes < x.nbytes
        assert total.tolist() == [40, 40, 40]


def test_all_pairs_are_one_pass_without_an_array_of_differences() -> None:
    with tw.config(eager_bytes=0):
        x = tw.evaluate(tw.asarray(np.ones((50, 8))))
        steps = [s for g in tw.explain(tw.allpairs(lambda p, q: ((p - q) ** 2).sum(), x)).stages for s in g.steps]
        assert [s.kind for s in steps if s.kind != "view"] == ["pass"]
        assert all(s.result != (50, 50, 8) for s in steps)
        product = tw.explain(tw.allpairs(tw.dot, x))
        assert "matmul" in str(product) and "NumPy tiles" not in str(product)


def test_explain_names_what_runs_on_numpy_tiles() -> None:
    with tw.config(eager_bytes=0, fallback="silent"):
        plan = str(tw.explain(tw.map_tiles(positive, a(V)) + 1))
        assert "map_tiles with positive on NumPy tiles" in plan
        assert "fold with <lambda> on NumPy tiles" in str(tw.explain(tw.fold(lambda p, q: p + q + p * q, a(V))))
        assert "NumPy tiles" not in str(tw.explain(tw.map_tiles(lambda t: np.exp(t) + 1, a(V))))


@pytest.mark.parametrize(
    "f, construct",
    [
        (positive, "a use of a value"),
        (lambda t: t[::-1] * 2, "which may mix rows"),
        (lambda t: t - t.mean(axis=0) + t.sum(), "which may mix rows"),
        (lambda t: t + np.arange(len(t)), "as long as all rows"),
        (lambda t: t.cumsum(axis=0), "which may mix rows"),
        (lambda t: print(end="") or t, "print"),
    ],
)
def test_why_a_tile_function_is_not_traced(f: Any, construct: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("builtins.print", PRINT)
    with tw.config(eager_bytes=0), pytest.warns(tw.PerformanceWarning, match="map_tiles cannot trace") as caught:
        tw.map_tiles(f, a(V))
    text = str(caught[0].message)
    assert construct in text and "runs on NumPy tiles" in text and caught[0].filename == __file__


def test_functions_made_anew_are_not_planned_anew() -> None:
    for session in ({"engine": "local"}, {"engine": "virtual", "workers": 2}):
        with tw.session(**session), tw.config(eager_bytes=0, fallback="silent"):
            x, counts = tw.evaluate(a(A)), []
            for k in range(4):
                scale = np.array([1.5, 2.5])
                y = tw.map_tiles(lambda t: np.asarray(t) * scale[0] * 3.0, x)  # noqa: B023
                z = tw.fold(lambda p, q: p + q + p * q / 3.5, y + (0.25 + k))
                tw.compute(z)
                counts.append(compiler.planned_count)
            assert len(set(counts[1:])) == 1, counts


def test_a_closure_that_changes_is_seen() -> None:
    with tw.config(eager_bytes=0, fallback="silent"):
        x = tw.evaluate(a(V))
        for k in (2.0, 3.0, 2.0):
            assert np.allclose(tw.map_tiles(lambda t: np.asarray(t) * k, x), V * k)  # noqa: B023
            assert np.allclose(tw.fold(lambda p, q: p + q + p * q * k / 9, x / 9), folded(V / 9, k / 9))  # noqa: B023


def test_a_function_that_is_no_function_of_its_arguments_is_called_for_each_call() -> None:
    count = itertools.count()

    def numbered(t: Any) -> Any:
        return np.asarray(t) * 0 + next(count)

    for session in ({"engine": "local"}, {"engine": "virtual", "workers": 2}):
        with tw.session(**session), tw.config(eager_bytes=0, fallback="silent"):
            x = tw.evaluate(a(V))
            y, z = (tw.map_tiles(numbered, x, dtype=float, shape=V.shape) for _ in range(2))
            assert float(y[0]) != float(z[0])


def folded(x: Any, k: float) -> Any:
    return list(itertools.accumulate(x, lambda p, q: p + q + p * q * k))[-1]


def broken(t: Any) -> Any:
    raise KeyError("nothing here")


@pytest.mark.parametrize("name", ["at once", "recorded", "virtual 2"])
def test_exceptions_show_the_users_line(name: str) -> None:
    session, settings = SESSIONS[name]
    with tw.session(**session), tw.config(fallback="silent", **settings):
        for call in (
            lambda: tw.map_tiles(broken, a(V), dtype=float, shape=V.shape),
            lambda: tw.map_tiles(broken, a(V)),
            lambda: tw.fold(lambda p, q: broken(p), a(V)),
            lambda: tw.allpairs(lambda p, q: broken(p), a(A)),
            lambda: tw.join_update(broken, (a(A),), (0,), (3,)),
            lambda: tw.filter(broken, a(V)),
        ):
            with pytest.raises(KeyError, match="nothing here") as caught:
                call().compute()
            lines = traceback.extract_tb(caught.value.__traceback__)
            assert any(f.filename == __file__ and f.name == "broken" for f in lines)


@pytest.mark.parametrize(
    "call, error, text",
    [
        (
            lambda: tw.map_tiles(lambda t: t.sum(axis=0), a(A)),
            tw.FunctionError,
            r"as long as .* got shape \(4,\) for 2 rows\. Keep",
        ),
        (
            lambda: tw.map_tiles(lambda t: t, a(A), dtype=float, shape=(4,)),
            tw.FunctionError,
            r"as long as its arrays along axis 0, which are 23, got shape=\(4,\)\. Give",
        ),
        (lambda: tw.map_tiles(lambda t: t, a(V), dtype=float, shape=()), tw.FunctionError, r"got shape=\(\)"),
        (lambda: tw.map_tiles(lambda t, u: t, a(A), a(B)), ValueError, r"one length along axis 0, got \[9, 23\]"),
        (lambda: tw.map_tiles(lambda t: t, a(A), axis=2), np.exceptions.AxisError, "axis 2"),
        (lambda: tw.map_tiles(lambda t: t, 3.0), ValueError, "needs an array with axes"),
        (lambda: tw.map_tiles(lambda t: t.__setitem__(0, 1), a(A)), ValueError, "read-only"),
        (lambda: tw.fold(lambda p, q: p + q * p, a(np.zeros(0))), ValueError, "no identity. Give initial="),
        (lambda: tw.fold(lambda p, q: p, a(np.array(1.0))), ValueError, "needs an axis"),
        (lambda: tw.fold(lambda p, q: p, a(A), axis=5), np.exceptions.AxisError, "axis 5"),
        (lambda: tw.fold(lambda p, q: p, a(np.array(["a"]))), TypeError, "takes numbers, got dtype <U1"),
        (lambda: tw.filter(np.arange(4), a(np.arange(4))), TypeError, "booleans, got dtype int64"),
        (lambda: tw.join_update(lambda s: s, (a(A),), (0,), (2, 2)), tw.FunctionError, r"inside of shape \(2, 2\)"),
        (
            lambda: tw.join_update(lambda s: s, (a(A),), (0,), (2,), accum="divide"),
            ValueError,
            "associative ufunc, got divide",
        ),
        (lambda: tw.join_update(lambda s, t: s, (a(A), a(B)), (0, 0), (2,)), ValueError, "one length"),
        (lambda: tw.join_update(lambda s: s, (a(A),), (0, 1), (2,)), ValueError, "an axis for each"),
        (lambda: tw.allpairs(lambda p, q: p, a(np.array(1.0))), ValueError, "needs rows"),
    ],
)
@pytest.mark.parametrize("eager", [0, 1 << 21])
def test_mistakes_are_named(call: Any, error: type[Exception], text: str, eager: int) -> None:
    with tw.config(eager_bytes=eager, fallback="silent"), pytest.raises(error, match=text):
        call().compute()


def test_tiles_are_small_and_cover_all_rows() -> None:
    sizes = []

    def noted(t: Any) -> Any:
        sizes.append(t.shape)
        return np.asarray(t) * 2

    x = np.ones((300_000, 2))
    with tw.config(fallback="silent"):
        assert tw.map_tiles(noted, a(x)).sum() == 4 * 300_000
    assert sizes[0] == (2, 2) and sum(s[0] for s in sizes[1:]) == 300_000 and len(sizes) > 3


@pytest.mark.parametrize("eager", [0, 1 << 21])
def test_tiles_and_rows_are_ndarrays_to_those_who_ask(eager: int) -> None:
    with tw.config(eager_bytes=eager, fallback="silent"):
        assert tw.map_tiles(lambda t: t * isinstance(t, np.ndarray), a(A)).tolist() == A.tolist()
        want = [[float((p * q).sum()) for q in A[:3]] for p in A[:3]]
        got = tw.allpairs(lambda p, q: (p * q).sum() if isinstance(p, np.ndarray) else p.sum(), a(A[:3]))
        np.testing.assert_allclose(got, want)


@pytest.mark.parametrize("eager", [0, 1 << 21])
def test_numbers_that_a_function_refers_to(eager: int) -> None:
    total, view = tw.ones(3).sum(), tw.arange(8.0)[4:]
    with tw.config(eager_bytes=eager):
        np.testing.assert_array_equal(tw.map_tiles(lambda t: t * total + view, a(A)), A * 3 + np.arange(4.0, 8.0))
        got = tw.allpairs(lambda p, q: (p * q).sum() * total, a(A))
        np.testing.assert_allclose(got, (A[:, None] * A).sum(-1) * 3)
        got = tw.allpairs(lambda p, q: (p * q).sum() * tw.exp(total), a(A + 1j))  # made of what it refers to alone
        np.testing.assert_allclose(got, ((A[:, None] + 1j) * (A + 1j)).sum(-1) * np.exp(3))


@pytest.mark.parametrize("where", [{"workers": 3}, {"mesh": (2, 2)}, None])
def test_functions_on_workers_may_compute(where: Any) -> None:
    """What they evaluate is theirs: the workers are busy with the tiles."""
    weights = a(np.arange(4.0))

    def f(t: Any) -> Any:
        assert isinstance(t, np.ndarray)
        return np.asarray(tw.exp(a(t)) * weights + tw.map_tiles(lambda u: np.asarray(u) * 2, a(t)))

    with contextlib.ExitStack() as stack:
        stack.enter_context(tw.config(blocks=2) if where is None else tw.session(engine="virtual", **where))
        stack.enter_context(tw.config(eager_bytes=0, fallback="silent"))
        for _ in range(2):
            np.testing.assert_allclose(tw.map_tiles(f, a(A)), np.exp(A) * np.arange(4.0) + A * 2)
