"""Selections that are only reduced: NumPy's results and complaints, no mask counted on the way, bytes as announced."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import pytest

import tilewise as tw
from tests.rewrite.support import same

MESHES: tuple[dict[str, Any], ...] = ({"workers": 2}, {"workers": 4}, {"workers": 7}, {"mesh": (2, 2)})
Program = Callable[..., Any]


class Ran(NamedTuple):
    result: Any
    recording: int  # plans that ran before the result was asked for
    plans: int  # all
    counted: int  # bytes
    exact: int  # bytes announced as such
    bounds: int  # and as bounds


@contextmanager
def workers(mesh: dict[str, Any], blocks: int = 1, **settings: Any) -> Iterator[tuple[Any, list[int]]]:
    """A cluster, and a list whose length is the number of plans that it has run."""
    settings = {"eager_bytes": 0, "fallback": "silent", "objective": "bytes", **settings}
    with tw.config(blocks=blocks, **settings), tw.session(engine="virtual", **mesh) as session:
        cluster: Any = session.cluster
        run, ran = cluster.run, [0]

        def count(*args: Any, **kwargs: Any) -> Any:
            ran[0] += 1
            return run(*args, **kwargs)

        cluster.run = count
        yield cluster, ran


def ran(program: Program, given: tuple[Any, ...], mesh: dict[str, Any], blocks: int = 1, **settings: Any) -> Ran:
    """What a program does on a mesh, with its arrays there already."""
    with workers(mesh, blocks, **settings) as (cluster, plans):
        arrays = [tw.asarray(a).relayout(0) for a in given]
        tw.evaluate(*arrays)
        counters = cluster.counters
        before, first = (counters.network_bytes, counters.predicted_bytes, counters.bounded_bytes), plans[0]
        found = program(tw, *arrays)
        recording = plans[0] - first
        tw.evaluate(found)
        moved = counters.network_bytes, counters.predicted_bytes, counters.bounded_bytes
        told = [b - a for a, b in zip(before, moved, strict=True)]
        return Ran(np.asarray(found), recording, plans[0] - first, *told)


def check(program: Program, given: tuple[Any, ...], mesh: dict[str, Any], blocks: int = 1, **settings: Any) -> Ran:
    """NumPy's result, as many bytes as announced, nothing evaluated while recording, one plan in all."""
    with np.errstate(all="ignore"):
        want = program(np, *given)
    done = ran(program, given, mesh, blocks, **settings)
    same(done.result, want)
    assert (done.recording, done.plans) == (0, 1)
    assert done.counted == done.exact and done.bounds == 0
    return done


EXTREMES: dict[str, Program] = {
    "max": lambda np, A, y, m: A[m].max(),
    "min of columns": lambda np, A, y, m: A[m].min(axis=0),
    "max of vector": lambda np, A, y, m: y[m].max(),
    "keepdims": lambda np, A, y, m: A[m].max(axis=0, keepdims=True),
    "all axes, keepdims": lambda np, A, y, m: A[m].min(keepdims=True),
    "mask of all axes": lambda np, A, y, m: A[A == A].max(),
    "mask of all axes, keepdims": lambda np, A, y, m: A[A == A].min(keepdims=True),
    "computed mask": lambda np, A, y, m: A[(A[:, 0] != 3) & m].max(axis=0),
    "elementwise before": lambda np, A, y, m: (A[m] * 2 + A[m]).max(),
    "by rows, then": lambda np, A, y, m: A[m].sum(axis=1).max(),
    "ufunc": lambda np, A, y, m: np.maximum.reduce(y[m]),
    "position": lambda np, A, y, m: y[m].argmax(),
    "position in all": lambda np, A, y, m: A[m].argmin(),
    "positions of columns": lambda np, A, y, m: A[m].argmax(axis=0),
    "positions, keepdims": lambda np, A, y, m: A[m].argmin(axis=0, keepdims=True),
    "position in all, keepdims": lambda np, A, y, m: A[m].argmax(keepdims=True),
    "position, mask of all axes": lambda np, A, y, m: A[A == A].argmax(),
}
PRODUCTS: dict[str, Program] = {
    "matrix and vector": lambda np, A, y, m: A[m].T @ y[m],
    "Gram": lambda np, A, y, m: A[m].T @ A[m],
    "vectors": lambda np, A, y, m: y[m] @ y[m],
    "dot": lambda np, A, y, m: np.dot(y[m], A[m]),
    "tensordot": lambda np, A, y, m: np.tensordot(A[m], A[m] + 1, axes=(0, 0)),
    "einsum": lambda np, A, y, m: np.einsum("ij,i->j", A[m], y[m]),
    "einsum of one": lambda np, A, y, m: np.einsum("ij->j", A[m]),
    "vdot": lambda np, A, y, m: np.vdot(y[m], y[m] * 2),
    "mask of all axes": lambda np, A, y, m: A[A == A] @ A[A == A],
    "rows, then columns": lambda np, A, y, m: A[m].T @ (y[m] - A[m] @ A[0]),
    "rows, then a sum": lambda np, A, y, m: (A[m] @ A[0]).sum(),
    "elementwise before": lambda np, A, y, m: (A[m] * 2 + A[m]).T @ (y[m] + y[m]),
    "weights": lambda np, A, y, m: (A[m] * y[m][:, None]).sum(axis=0),
    "transposed": lambda np, A, y, m: (A[m].T * y[m]).sum(axis=1),
    "moved axes": lambda np, A, y, m: np.moveaxis(A[m], 0, 1).max(axis=1),
    "new axis first": lambda np, A, y, m: (A[m][None] + y[m][:, None]).min(axis=(0, 1)),
    "positions along the last": lambda np, A, y, m: A[m].T.argmax(axis=1),
    "positions, keepdims, along the last": lambda np, A, y, m: A[m].T.argmin(axis=-1, keepdims=True),
    "computed mask": lambda np, A, y, m: A[(A[:, 0] != 3) & m].T @ y[(A[:, 0] != 3) & m],
    "the selection has a name": lambda np, A, y, m: (lambda S, z: S.T @ z)(A[m], y[m]),
}
DTYPES = ("f8", "f4", "i8", "i2", "u1", "?", "c16")


def data(dtype: str, n: int = 43, k: int = 5, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    made = rng.integers(0, 7, (n, k)).astype(dtype)
    if made.dtype.kind in "fc":
        made = (made - 3).astype(dtype) / 4
    if made.dtype.kind == "c":
        made = made + 1j * rng.integers(0, 3, (n, k))
    return made, made[:, 1].copy()


@pytest.mark.parametrize("mesh", MESHES, ids=str)
@pytest.mark.parametrize("name", EXTREMES)
def test_extremes(name: str, mesh: dict[str, Any]) -> None:
    for dtype in DTYPES:
        A, y = data(dtype)
        masks = (np.arange(43) % 3 == 1, np.arange(43) == 40, np.ones(43, bool))
        for m in masks if dtype == "f8" else masks[:1]:
            check(EXTREMES[name], (A, y, m), mesh)
    check(EXTREMES[name], (A, y, m), mesh, blocks=3)


@pytest.mark.parametrize("mesh", [{"workers": 4}, {"mesh": (2, 2)}], ids=str)
@pytest.mark.parametrize("name", EXTREMES)
def test_what_is_left_out_does_no_harm(name: str, mesh: dict[str, Any]) -> None:
    """NaN and infinity outside of the mask are not seen, those inside are; least elements are found at their place."""
    A, y = data("f8")
    m = np.arange(43) % 3 == 1
    for value in (np.nan, np.inf, -np.inf):
        for where in (~m, m, np.arange(43) == 4, np.ones(43, bool)):
            B, z = A.copy(), y.copy()
            B[where], z[where] = value, value
            if "mask of all axes" in name and np.isnan(B).all():
                continue
            check(EXTREMES[name], (B, z, m), mesh)


@pytest.mark.parametrize("mesh", MESHES, ids=str)
@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name: str, mesh: dict[str, Any]) -> None:
    for dtype in DTYPES:
        A, y = data(dtype)
        if dtype == "?" and name in ("rows, then columns", "elementwise before"):
            continue  # NumPy subtracts no truth values
        masks = (np.arange(43) % 3 == 1, np.arange(43) < 0, np.ones(43, bool), np.arange(43) == 40)
        for m in masks if dtype == "f8" else masks[:1]:
            if m.any() or not any(x in name for x in ("position", "moved", "first")):
                check(PRODUCTS[name], (A, y, m), mesh)
    check(PRODUCTS[name], (A, y, m), mesh, blocks=3)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("name", PRODUCTS)
def test_what_is_left_out_takes_no_part_in_products(name: str, value: float) -> None:
    A, y = data("f8")
    m = np.arange(43) % 3 == 1
    for where in (~m, np.arange(43) == 4):
        B, z = A.copy(), y.copy()
        B[where], z[where] = value, value
        check(PRODUCTS[name], (B, z, m), {"workers": 4})
        check(PRODUCTS[name], (A, z, m), {"mesh": (2, 2)})


@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_empty_selections(mesh: dict[str, Any]) -> None:
    """NumPy's exception, when the result is asked for."""
    A, y = data("f8")
    nothing = np.zeros(43, bool)
    for name, program in EXTREMES.items():
        if "mask of all axes" in name:
            continue
        with pytest.raises(ValueError, match=r".") as wanted:
            program(np, A, y, nothing)
        with workers(mesh) as (_, _):
            arrays = [tw.asarray(a).relayout(0) for a in (A, y, nothing)]
            result = program(tw, *arrays)
            with pytest.raises(ValueError, match=r".") as got:
                np.asarray(result)
            assert str(got.value).splitlines()[0] == str(wanted.value), name
            same(arrays[0].sum(axis=0), A.sum(axis=0))  # and workers go on
    same(ran(lambda np, a, m: a[m].max(axis=0), (np.empty((43, 0)), nothing), mesh).result, np.empty(0))


@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_lengths_count_the_mask_alone(mesh: dict[str, Any]) -> None:
    A, y = data("f8", 400, 9)
    m = y > 0
    with workers(mesh) as (cluster, plans):
        a, mask = tw.asarray(A).relayout(0), tw.asarray(m).relayout(0)
        tw.evaluate(a, mask)
        first, before = plans[0], cluster.counters.network_bytes
        s = a[mask]
        assert s.ndim == 2 and s.dtype == A.dtype and plans[0] == first
        assert len(s) == m.sum()
        assert plans[0] == first + 1 and cluster.counters.network_bytes - before < 16 * cluster.mesh.workers
        assert s.shape == A[m].shape and s.size == A[m].size and s.nbytes == A[m].nbytes
        assert plans[0] == first + 1
        same(s.sum(axis=0) / len(s), A[m].mean(axis=0))
        same(s, A[m])
        same(s + a[mask][::-1], A[m] + A[m][::-1])
        assert s[0].shape == (9,) and s.reshape(-1).shape == (A[m].size,)


@pytest.mark.parametrize("mesh", [{"workers": 3}, {"mesh": (2, 2)}], ids=str)
def test_without_rules(mesh: dict[str, Any]) -> None:
    """Masks are counted then: the same results."""
    A, y = data("f8")
    m = y > 0
    for program in (*EXTREMES.values(), *PRODUCTS.values()):
        same(ran(program, (A, y, m), mesh, rewrite=False).result, program(np, A, y, m))


def test_functions_that_need_lengths_are_still_recorded() -> None:
    A, y = data("f8", 400, 9)
    with workers({"workers": 4}, fallback="error") as (_, _):
        a, z = tw.asarray(A).relayout(0), tw.asarray(y).relayout(0)
        m = z > 0
        same(a[m].argmax(axis=1), A[y > 0].argmax(axis=1))
        same(np.sort(z[m]), np.sort(y[y > 0]))
        same(np.concatenate([z[m], z[~m]]), np.concatenate([y[y > 0], y[y <= 0]]))
        same(np.where(z[m] > 0.4, z[m], a[m][:, 1]), np.where(y[y > 0] > 0.4, y[y > 0], A[y > 0][:, 1]))
        same(z[m] + z[m].copy()[::-1], y[y > 0] + y[y > 0][::-1])
        same(a[m].T @ z[m], A[y > 0].T @ y[y > 0])
        z[m] *= 2.0
        same(z, np.where(y > 0, y * 2, y))


def _views(np: Any, A: Any, y: Any, m: Any) -> Iterator[Any]:
    """What is read and written through views of selections, before and after their lengths are known."""
    S = A[m]
    T, U = S.T, S[:, None]
    V = T[None].swapaxes(0, 1)
    yield T @ y[m]
    S[0] = 7.0
    yield from (T.copy(), U.sum(axis=0), T @ y[m])
    assert V.shape == (5, 1, len(S)) and T.ndim == 2 and T.dtype == A.dtype
    T[1] = 3.0
    yield from (S.copy(), U.max(), T[0].copy())
    S *= 2
    yield from (T.copy(), S.sum(), V.copy())
    P = A[m]
    Q = P.T
    Q += 1
    yield P.sum(axis=0)
    Q[...] = 0
    yield from (P, Q)
    R = A[m].T
    assert R.T.T.shape == R.shape and R.flags.f_contiguous
    yield from (R, R.T + 1)
    W = A[m]
    Z = W.T
    np.add(W, 1, out=W)
    yield from (Z @ y[m], Z.copy())
    W.fill(2)
    yield from (Z.sum(axis=1), Z)
    K = A[m]
    L = K.T
    K.sort(axis=0)
    yield L
    M = A[m]
    N = np.transpose(M)
    M += 1.0
    yield from ((N * 2).sum(axis=1), N @ y[m])


@pytest.mark.parametrize("mesh", [{"workers": 4}, {"mesh": (2, 2)}], ids=str)
def test_views_of_selections(mesh: dict[str, Any]) -> None:
    A, y = np.random.default_rng(0).normal(size=(43, 5)), np.random.default_rng(1).normal(size=43)
    with workers(mesh) as (_, _):
        given = [tw.asarray(a).relayout(0) for a in (A, y, y > 0)]
        ours, theirs = list(_views(tw, *given)), list(_views(np, A, y, y > 0))
        for got, want in zip(ours, theirs, strict=True):
            same(got, want)


@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_selections_that_somebody_may_ask_for(mesh: dict[str, Any]) -> None:
    """A handle alone does not make workers select; where that is needed anyway, it is done once."""
    A, y = data("f8", 400, 9)
    m = y > 0
    with workers(mesh) as (cluster, plans):
        a, z, k = (tw.asarray(v).relayout(0) for v in (A, y, m))
        tw.evaluate(a, z, k)
        first = plans[0]
        S, w = a[k], z[k]
        r, s = S.T @ w, S.max(axis=0)
        assert tw.explain(r).network_bytes < A[m].nbytes
        same(r, A[m].T @ y[m])
        same(s, A[m].max(axis=0))
        assert plans[0] == first + 2
        both = S * 2
        tw.evaluate(both)
        done = plans[0], cluster.counters.network_bytes
        same(both, A[m] * 2)
        tw.evaluate(S)
        assert plans[0] == done[0]
        same(S, A[m])


@pytest.mark.parametrize("mesh", [{"workers": 3}, {"mesh": (2, 2)}], ids=str)
def test_masks_that_are_not_the_same(mesh: dict[str, Any]) -> None:
    """Lengths of different masks are counted, and shapes that do not fit are refused at the call."""
    A, y = data("f8")
    m, other = y > 0, y[::-1] > 0
    with workers(mesh) as (_, _):
        a, z = tw.asarray(A).relayout(0), tw.asarray(y).relayout(0)
        k, j = tw.asarray(m).relayout(0), tw.asarray(other).relayout(0)
        same(a[k].T @ z[j], A[m].T @ y[other])
        same(np.einsum("ij,i->j", a[k], z[j]), np.einsum("ij,i->j", A[m], y[other]))
        same(a[k].T @ z[: m.sum()], A[m].T @ y[: m.sum()])
        same(a[k] @ z[:5], A[m] @ y[:5])
        same(z[k] * z[j], y[m] * y[other])
        for wrong in (lambda: a[k].T @ z, lambda: a[k] @ a[k], lambda: tw.tensordot(a[k], z, 1)):
            with pytest.raises(ValueError, match=r"mismatch|not aligned"):
                wrong()


def random_program(rng: np.random.Generator) -> tuple[str, Program]:
    """A selection's elements, a way on, and what reduces them."""
    mask = str(rng.choice(["m", "y > 0", "(A[:, 0] > 0) | m", "A.sum(axis=1) > 0"]))
    S = str(rng.choice(["A[k]", "A[k] * 2 + y[k][:, None]", "abs(A[k])", "A[k] @ B", "A[k][:, None].max(axis=1)"]))
    z = str(rng.choice(["y[k]", "y[k] - A[k].sum(axis=1)", "A[k] @ B[0]"]))
    end = str(
        rng.choice(
            [
                "S.max()", "S.min(axis=0)", "S.argmax()", "S.argmin(axis=0)", "S.T @ z", "z @ z", "z.argmax()",
                "S.T @ S", "(S.T * z).sum(axis=1)", "np.einsum('ij,i->j', S, z)", "S.T.argmax(axis=1)",
                "S.max(axis=1).min()", "(S - z[:, None]).max(axis=0, keepdims=True)", "np.dot(z, S)", "S.std(axis=0)",
                "z.mean() + S.sum()",
            ]
        )
    )  # fmt: skip
    source = f"lambda np, A, y, m, B: (lambda k: (lambda S, z: {end})({S}, {z}))({mask})"
    return source, eval(source)


@pytest.mark.parametrize("seed", range(300))
def test_random_programs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    source, program = random_program(rng)
    n = int(rng.integers(1, 60))
    A, y, B = rng.normal(size=(n, 4)), rng.normal(size=n), rng.normal(size=(4, 4))
    A[rng.random((n, 4)) < 0.1 * (seed % 3 == 0)] = rng.choice([np.nan, np.inf, 0.0])
    m = rng.random(n) < rng.choice([0.0, 0.1, 0.5, 1.0])
    mesh, blocks = MESHES[seed % 4], 3 if seed % 5 == 0 else 1
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            want = program(np, A, y, m, B)
    except ValueError as error:
        with pytest.raises(ValueError, match=r".") as got:
            ran(program, (A, y, m, B), mesh, blocks)
        assert str(got.value).splitlines()[0] == str(error), source
        return
    done = ran(program, (A, y, m, B), mesh, blocks)
    same(done.result, want)
    assert done.recording == 0 and done.plans == 1, source
    assert done.counted == done.exact and done.bounds == 0, source
