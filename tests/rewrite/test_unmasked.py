"""Selections that are only reduced: NumPy's results and complaints, no mask counted on the way, bytes as announced."""

from __future__ import annotations

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
    for program in EXTREMES.values():
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
