"""Reductions by key as an operator: NumPy's values, and how a mesh cuts them."""

from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.rewrite.support import everywhere, names, recorded, same
from tilewise.array import force
from tilewise.ir.reductions import by_name
from tilewise.ops.bucket import Bucket

DTYPES = "bhilBHILefdgFD"


def slowly(fn: str, values: Any, keys: Any, buckets: int) -> Any:
    out = np.full((buckets, *values.shape[1:]), by_name(fn).identity(values.dtype))
    for v, k in zip(values, keys, strict=True):
        if 0 <= k < buckets:
            out[k] = getattr(np, fn)(out[k], v)
    return out


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(50,), (50, 3), (50, 2, 2), (0, 3), (50, 0)])
def test_sums(dtype: str, shape: tuple[int, ...]) -> None:
    values = (np.arange(np.prod(shape)) % 17).reshape(shape).astype(dtype)
    keys = np.arange(shape[0]) * 7 % 11 - 2
    for order in "CF":
        got = Bucket("add", 6).numpy(np.asarray(values, order=order), keys)
        assert got.dtype == values.dtype
        np.testing.assert_array_equal(got, slowly("add", values, keys, 6))


@pytest.mark.parametrize("fn", ["minimum", "maximum", "multiply", "bitwise_or", "bitwise_and", "bitwise_xor"])
@pytest.mark.parametrize("dtype", "bILf")
def test_other_reductions(fn: str, dtype: str) -> None:
    if dtype == "f" and fn.startswith("bitwise"):
        return
    values = (np.arange(60).reshape(20, 3) * 5 % 23).astype(dtype)
    keys = np.arange(20, dtype=np.uint8) % 4
    np.testing.assert_array_equal(Bucket(fn, 6).numpy(values, keys), slowly(fn, values, keys, 6))


def test_many_rows_are_summed_in_parts() -> None:
    rng = np.random.default_rng(0)
    values, keys = rng.standard_normal((30_000, 5)), rng.integers(0, 9, 30_000)
    want = np.stack([np.bincount(keys, values[:, j], 9) for j in range(5)], axis=1)
    np.testing.assert_allclose(Bucket("add", 9).numpy(values, keys), want, rtol=1e-12)


@pytest.mark.parametrize("dtype", "bilBHd")
@pytest.mark.parametrize("low", [0, -5])
def test_at_adds_to_what_is_there(dtype: str, low: int) -> None:
    values = (np.arange(120).reshape(40, 3) * 11 % 101).astype(dtype)
    keys = np.arange(40) * 7 % (5 - low) + low

    def program(np: Any, values: Any, keys: Any, base: Any) -> Any:
        out = base + 1
        np.add.at(out, keys, values)
        return out

    everywhere(program, values, keys, np.arange(15).reshape(5, 3).astype(dtype))


@pytest.mark.parametrize("fn", ["minimum", "maximum", "add"])
def test_at_of_other_functions_and_numbers(fn: str) -> None:
    def program(np: Any, keys: Any, base: Any) -> Any:
        out = base * 2
        getattr(np, fn).at(out, keys, 9)
        return out

    keys, base = np.arange(20) * 3 % 5, np.arange(5)
    everywhere(program, keys, base)
    everywhere(program, keys, base.astype(float))
    with recorded():
        assert f"{fn} by key" in names(program(tw, tw.array(keys), tw.array(base)))


def test_at_few_places_of_a_large_base_stays() -> None:
    with recorded():
        out = tw.zeros(1000)
        np.add.at(out, tw.array([3, 5, 3]), 1.5)
        assert names(out)[-1] == "add.at"


def test_at_keeps_a_negative_zero_where_nothing_is_added() -> None:
    def program(np: Any, x: Any, keys: Any, base: Any) -> Any:
        out = base.copy()
        np.add.at(out, keys, x)
        return out

    everywhere(program, np.ones(4), np.array([0, 0, 2, 2]), np.array([-0.0, -0.0, 1.0]))
    everywhere(program, np.full(4, -0.0), np.array([0, 0, 2, 2]), np.array([-0.0, -0.0, 1.0]))


@pytest.mark.parametrize(
    "base",
    [np.zeros((3, 4)), np.zeros((2, 4)).T],
    ids=["a window", "another order"],
)
def test_at_elsewhere(base: Any) -> None:
    """Into a part of an array, or an array in another memory order."""

    def program(np: Any, x: Any, keys: Any, base: Any) -> Any:
        out = base + 0
        np.add.at(out[:, 1:], keys, x[:, : base.shape[1] - 1])
        return out

    everywhere(program, np.ones((5, 4)), np.array([0, 1, 1, 2, 0]), base)


def test_an_index_out_of_range_is_numpys_error() -> None:
    with recorded():
        out = tw.zeros(3)
        with pytest.raises(IndexError):
            np.add.at(out, tw.array([0, 3]), 1.0)
        same(out, np.zeros(3))


def test_positions_of_extremes_are_not_evaluated_first() -> None:
    """They are below the length of the axis, whatever the data."""
    with recorded():
        labels = tw.array(np.arange(12.0).reshape(4, 3)).argmin(axis=1)
        counts = tw.bincount(labels, minlength=3)
        sums = tw.zeros(3)
        np.add.at(sums, labels, 1.5)
        assert labels._cell.node is not None
        same(counts, np.array([4, 0, 0]))
        same(sums, np.array([6.0, 0, 0]))
        assert tw.bincount(labels).shape == (1,)  # without a length, the largest key decides


@pytest.mark.parametrize("weights", [None, np.arange(12.0), np.arange(12)])
def test_pending_keys_are_looked_at_while_they_are_computed(weights: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    keys, evaluations = np.arange(12, dtype=np.int16) % 5, []
    plain = force._run_here
    with recorded():
        monkeypatch.setattr(force, "_run_here", lambda *given: (evaluations.append(1), plain(*given))[1])
        got = tw.bincount(tw.array(keys) * 1, weights, 3)
        assert len(evaluations) == 1
        same(got, np.bincount(keys, weights, 3))
        with pytest.raises(ValueError, match="negative"):
            tw.bincount(tw.array(keys) - 1, weights, 7)


def test_a_mesh_reduces_partial_sums() -> None:
    X, labels = np.random.default_rng(1).standard_normal((64, 5)), np.arange(64) % 6
    with recorded(), tw.session(engine="virtual", mesh=4):  # type: ignore[attr-defined]
        x = tw.array(X) * 1.5
        hot = tw.array(labels)[:, None] == tw.arange(6)
        sums = hot.T @ x
        plan = tw.explain(sums, workers=4)  # type: ignore[attr-defined]
        assert "by key" in str(plan) and "matmul" not in str(plan)
        same(sums, (labels[:, None] == np.arange(6)).T @ (X * 1.5))
