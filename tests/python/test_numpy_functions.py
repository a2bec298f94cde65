"""Functions of NumPy that are read as Python: values, dtypes and errors are NumPy's, and no call leaves the code."""

import re

import numpy as np
import pytest

import tilewise as tw


@tw.jit(strict=True)
def counted(x, least):
    for _ in range(1):
        made = np.bincount(x, minlength=least)
    return made


@tw.jit(strict=True)
def weighed(x, weights):
    for _ in range(1):
        made = np.bincount(x, weights)
    return made


@tw.jit(strict=True)
def of_expressions(x, y, n):
    best = np.zeros(3)
    for k in range(3):
        made = np.bincount(x * n + y, weights=y + 0.5, minlength=k)
        best[k] = made.max()
    return best


X = np.array([3, 0, 3, 2, 0, 3])
KEYS = [X, X[::-2], X[:0], X[:1], X.astype("i1"), X.astype("u2"), X > 0, np.asfortranarray(X)]


@pytest.mark.parametrize("x", KEYS, ids=lambda x: f"{x.dtype}{x.shape}{x.strides}")
@pytest.mark.parametrize("least", [0, 2, 9])
def test_counts(x, least):
    found, want = counted(x, least), np.bincount(x, minlength=least)
    assert found.dtype == want.dtype
    np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "?"])
def test_weights(dtype):
    weights = np.array([0.5, -1, np.inf, 3, -0.0, 2.5])
    weights = weights.astype(dtype) if dtype[0] == "f" else (weights > 0).astype(dtype)
    found, want = weighed(X, weights), np.bincount(X, weights)
    assert found.dtype == want.dtype
    np.testing.assert_array_equal(found, want)


def test_of_expressions():
    y = np.array([1, 0, 2, 2, 1, 0])
    want = [np.bincount(X * 3 + y, y + 0.5, k).max() for k in range(3)]
    np.testing.assert_array_equal(of_expressions(X, y, 3), want)
    assert re.search(r"for [\d.]+k: 2 subscripts", str(tw.explain(of_expressions, X, y, 3)))  # the loop that counts


@pytest.mark.parametrize("call", [(X - 1, 0), (X, -1), (X - 5, -1)])
def test_errors_are_numpys(call):
    x, least = call
    with pytest.raises(ValueError) as want:
        np.bincount(x, minlength=least)
    with pytest.raises(ValueError) as found:
        counted(x, least)
    assert str(found.value) == str(want.value)


def test_weights_of_another_length():
    with pytest.raises(ValueError, match="same length"):
        weighed(X, np.ones(3))


@tw.jit(strict=True)
def chosen(a, n, x):
    for _ in range(1):
        made = np.where(a > 1, a, n), np.where(a > 1, 300, a), np.where(a > 1, -1, x), np.where(a > 1, n, 2)
    return made


@pytest.mark.parametrize("dtype", ["u1", "i1", "i8", "u8", "f4", "?"])
@pytest.mark.parametrize("n", [-3, 300, 1])
def test_where_converts_numbers_of_python_as_elements(dtype, n):
    a = np.array([0, 1, 2, 3], dtype)
    for found, want in zip(chosen(a, n, a[0]), chosen.__wrapped__(a, n, a[0]), strict=True):
        assert found.dtype == want.dtype
        np.testing.assert_array_equal(found, want)


def assigned(a, b, n):
    for _ in range(1):
        b[0:4] = a + n + 0
    return b


def nothing_added(a, b, n):
    for _ in range(1):
        made = (a[:0] + n).shape[0] + np.minimum(a[:0], n)[:2].shape[0]
    return made


def added_in_place(a, b, n):
    for _ in range(1):
        a[:0] += n
        a *= n
    return a


@pytest.mark.parametrize("f", [assigned, nothing_added, added_in_place])
@pytest.mark.parametrize("n", [-2, 3, 300])
def test_numbers_of_python_are_converted_before_anything_else(agree, f, n):
    agree(f, np.array([3, 0], np.uint8), np.array([-1.0]), n)
    agree(f, np.array([3, 0], np.uint8), np.array([-1.0, 2.0]), n)
