"""The update of k-means, however it is written, is sums by key: the same graph, and NumPy's values."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.rewrite.support import everywhere, names, recorded, roots

K = 6
Program = Callable[[Any, Any, Any], Any]


def one_hot(np: Any, X: Any, labels: Any) -> Any:
    hot = labels[:, None] == np.arange(K)
    return hot.T @ X, hot.sum(0)


def one_hot_floats(np: Any, X: Any, labels: Any) -> Any:
    hot = (labels[:, None] == np.arange(K)).astype(float)
    return hot.T.dot(X), hot.sum(0)


def outer(np: Any, X: Any, labels: Any) -> Any:
    hot = np.equal.outer(labels, np.arange(K))
    return np.einsum("ik,ij->kj", hot.astype(float), X), np.count_nonzero(hot, axis=0)


def wide(np: Any, X: Any, labels: Any) -> Any:
    hot = np.arange(K)[:, None] == labels
    return hot @ X, hot.sum(1)


def eye(np: Any, X: Any, labels: Any) -> Any:
    with tw.config(eager_bytes=10_000):
        identity = np.eye(K)
    hot = identity[labels]
    return hot.T @ X, hot.sum(0)


def at(np: Any, X: Any, labels: Any) -> Any:
    sums, counts = np.zeros((K, X.shape[1])), np.zeros(K, dtype=np.int64)
    np.add.at(sums, labels, X)
    np.add.at(counts, labels, 1)
    return sums, counts


def weights(np: Any, X: Any, labels: Any) -> Any:
    sums = [np.bincount(labels, weights=X[:, j], minlength=K) for j in range(X.shape[1])]
    return np.stack(sums, axis=1), np.bincount(labels, minlength=K)


def masks(np: Any, X: Any, labels: Any) -> Any:
    sums = np.stack([X[labels == j].sum(axis=0) for j in range(K)])
    return sums, np.array([(labels == j).sum() for j in range(K)])


WAYS: list[Program] = [one_hot, one_hot_floats, outer, wide, eye, at, weights, masks]
PRODUCTS = [one_hot, one_hot_floats, outer, wide, eye]


def points(rows: int = 90) -> Any:
    return np.random.default_rng(4).standard_normal((rows, 4))


def step(np: Any, X: Any, way: Program) -> Any:
    """One turn of k-means."""
    c = X[:K]
    labels = ((X[:, None, :] - c) ** 2).sum(axis=2).argmin(axis=1)
    sums, counts = way(np, X, labels)
    return sums / np.maximum(counts, 1)[:, None]


@pytest.mark.parametrize("way", WAYS)
def test_the_same_graph(way: Program) -> None:
    with recorded():
        X, labels = tw.array(points()), tw.array(np.arange(90) % K)
        sums, counts = roots(*way(tw, X, labels))
        want_sums, want_counts = roots(*at(tw, X, labels))
        assert counts is want_counts or (counts.op, counts.inputs[1]) == (want_counts.op, want_counts.inputs[1])
        if way in PRODUCTS:  # and what zeros times elements that are not finite add
            assert [x.op.label() for x in (sums, *sums.inputs)] == ["add", "add by key", "elsewhere"]
            sums = sums.inputs[0]
        assert sums is want_sums


@pytest.mark.parametrize("way", WAYS)
def test_a_step_is_distances_positions_sums_and_a_division(way: Program) -> None:
    with recorded():
        made = [x for x in names(step(tw, tw.array(points()), way)) if x not in ("0", "1", "1.0", "elsewhere")]
    assert made[:4] == ["subtract", "square", "add.reduce[2]", "argmin"]
    assert [x for x in made if "by key" in x] == ["add by key", "add by key"] and made[-1] == "divide"
    assert not {"matmul", "dot", "gather", "at", "concatenate", "compress", "equal"} & {x.split(" ")[0] for x in made}


@pytest.mark.parametrize("way", WAYS)
def test_values(way: Program) -> None:
    everywhere(lambda np, X: step(np, X, way), points())


WILD = points(40)
WILD[3, 0], WILD[5, 1], WILD[6, 1], WILD[7, 2], WILD[8:20, 3] = np.nan, np.inf, -np.inf, -np.inf, -0.0


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("labels", [np.arange(40) % K, np.full(40, 2), np.arange(40) % 3], ids=["all", "one", "some"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_what_is_not_finite_empty_or_a_negative_zero(way: Program, labels: Any, dtype: Any) -> None:
    for k in (0, 1):
        everywhere(lambda np, X, labels, k=k: way(np, X, labels)[k], WILD.astype(dtype), labels)


@pytest.mark.parametrize("way", [one_hot, wide, masks])
def test_labels_of_no_bucket(way: Program) -> None:
    """Rows that no bucket takes are in no sum; but a zero of a one-hot product meets them as well."""
    labels = np.arange(40) % (K + 3) - 2
    for k in (0, 1):
        everywhere(lambda np, X, labels, k=k: way(np, X, labels)[k], WILD, labels)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", "bhilBHIL")
def test_integers(way: Program, dtype: str) -> None:
    X = (np.arange(120).reshape(40, 3) * 37 % 251).astype(dtype)
    labels = (np.arange(40) * 7 % K).astype("BHILbhil"["bhilBHIL".index(dtype)])
    for k in (0, 1):
        everywhere(lambda np, X, labels, k=k: way(np, X, labels)[k], X, labels, meshes=(None, 3))


@pytest.mark.parametrize("way", [w for w in WAYS if w is not weights])  # NumPy's bincount of nothing is its own affair
def test_no_rows(way: Program) -> None:
    everywhere(lambda np, X, labels: way(np, X, labels)[0], np.ones((0, 3)), np.zeros(0, int), meshes=(None, 2))


@pytest.mark.parametrize("way", WAYS)
def test_exact(way: Program) -> None:
    """Sums of floats stay as they were written; counts are exact anyway, unless many siblings stand for one."""
    with recorded(exact=True):
        X, labels = tw.array(points()), tw.array(np.arange(90) % K)
        sums, _ = way(tw, X, labels)
        assert "add by key" not in names(sums) or way is weights


def test_what_a_name_holds_on_the_way_is_not_computed() -> None:
    """The matrix has a name, but nobody asks for it: after rewriting, nothing hangs on it."""
    with recorded():
        X, labels = tw.array(points()), tw.array(np.arange(90) % K)
        hot = labels[:, None] == tw.arange(K)
        sums = hot.T @ X
        tw.evaluate(sums)
        assert hot._cell.node is not None and sums._cell.node is None
        assert np.array_equal(np.asarray(hot), (np.arange(90) % K)[:, None] == np.arange(K))
