"""Products, reductions along axes and writes inside of compiled functions, beside NumPy's."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tilewise as tw


def product(a, b):
    for _ in range(1):
        c = a @ b
    return c


def operands(m: int, k: int, n: int) -> Iterator[tuple[Any, Any]]:
    r = np.random.default_rng(m * 100 + k * 10 + n)
    a, b = r.random((m, k)), r.random((k, n))
    yield a, b
    yield a.T.copy().T, b.T.copy().T
    yield np.repeat(a, 2, 1)[:, ::2], b[::-1]
    yield a, b[:, 0] if n else b
    yield a[0] if m else a, b
    yield (a.T.copy().T, b[:, ::-1][:, 0]) if n else (a, b)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "complex128"])
def test_products_of_all_sizes_and_orders(dtype: str) -> None:
    f = tw.jit(product, strict=True)
    for sizes in ((3, 4, 5), (40, 30, 20), (1, 700, 1), (30, 1, 40), (0, 3, 4), (3, 0, 4), (50, 40, 1), (1, 60, 50)):
        for a, b in operands(*sizes):
            a, b = ((x * 9).astype(dtype) for x in (a, b))
            got, want = f(a, b), a @ b
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
            np.testing.assert_allclose(got, want, rtol=1e-4 if dtype == "float32" else 1e-12)


def axis_sums(x):
    for _ in range(1):
        rows = np.sum(x, axis=(1, 2)), x.max(axis=0), np.mean(x, axis=-1, keepdims=True), x.min(axis=(0, 2))
        more = np.std(x, axis=0), np.var(x), np.any(x > 0.5, axis=1), np.prod(x * 2, axis=(0, 1), keepdims=True)
    return rows + more + (np.flip(x), np.flip(x, 1), np.sum(x, axis=None, keepdims=True))


@pytest.mark.parametrize("shape", [(4, 3, 5), (1, 6, 2), (7, 1, 1)])
@pytest.mark.parametrize("dtype", ["float64", "int32"])
def test_reductions_along_axes(shape: tuple[int, ...], dtype: str) -> None:
    x = (np.random.default_rng(1).random(shape) * 3).astype(dtype)
    for got, want in zip(tw.jit(axis_sums, strict=True)(x), axis_sums(x), strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_reductions_of_nothing_and_of_nan() -> None:
    def largest(x):
        for _ in range(1):
            m = x.max(axis=0)
        return m

    f = tw.jit(largest, strict=True)
    with pytest.raises(ValueError, match="zero-size array to reduction operation maximum"):
        f(np.zeros((0, 3)))
    assert f(np.zeros((3, 0))).shape == (0,)
    assert np.isnan(f(np.array([[1.0, np.nan], [2.0, 0.0]]))).tolist() == [False, True]


def windows(image, weights):
    k = weights.shape[0]
    out = np.empty((image.shape[0] - k + 1, weights.shape[2]))
    for i in range(out.shape[0]):
        out[i, :] = np.sum(image[i : i + k, :, np.newaxis] * weights, axis=(0, 1))
    return out


def test_broadcast_products_are_summed_without_memory_for_them() -> None:
    r = np.random.default_rng(2)
    image, weights = r.random((9, 4)), r.random((3, 4, 5))
    np.testing.assert_allclose(tw.jit(windows, strict=True)(image, weights), windows(image, weights), rtol=1e-12)
    one = weights[:, :1]  # repeated along an axis, which is seen when it runs
    np.testing.assert_allclose(tw.jit(windows, strict=True)(image, one), windows(image, one), rtol=1e-12)


def scaled(alpha: float, A: Any, x: Any) -> None:
    A[1:, :] = alpha * A[:-1, :] + np.outer(x[1:], x)
    x += A @ x


def test_functions_without_loops_that_write_to_ndarrays_are_compiled() -> None:
    A, x = np.arange(16.0).reshape(4, 4), np.ones(4)
    want_A, want_x = A.copy(), x.copy()
    scaled(0.5, want_A, want_x)
    with tw.config(fallback="error"):
        tw.jit(scaled)(0.5, A, x)
    np.testing.assert_array_equal(A, want_A)
    np.testing.assert_allclose(x, want_x, rtol=1e-14)


def test_parts_of_arrays_that_are_returned_share_their_memory() -> None:
    @tw.jit
    def part(x):
        for _ in range(2):
            x[1:] = x[1:] + 1
        return x[1:]

    @tw.jit
    def whole(x):
        for _ in range(2):
            x[1:] = x[1:] + 1
        return x

    x = tw.zeros(3)
    part(x)[0] = 9.0
    assert x.tolist() == [0, 9, 2] and part.traces == 1
    assert whole(x) is x and whole.traces == 0


def columns(A):
    for j in range(1, A.shape[1]):
        A[1:, j] = A[:-1, j - 1] * 2 - A[:-1, j]
    return A


def shifted(A, i, j):
    for _ in range(2):
        A[i, 1:] = A[j, :-1]
    return A


@pytest.mark.parametrize("f, rest", [(columns, ()), (shifted, (2, 2)), (shifted, (2, 1)), (shifted, (2, -2))])
def test_rows_and_columns_of_one_array(f: Callable[..., Any], rest: tuple[int, ...]) -> None:
    A = np.arange(20.0).reshape(4, 5)
    assert tw.jit(f, strict=True)(A.copy(), *rest).tolist() == f(A.copy(), *rest).tolist()
