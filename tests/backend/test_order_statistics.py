"""Quantiles of long vectors: NumPy's bytes, whatever the elements are like."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tilewise.backend.host import order_statistics
from tilewise.backend.host.order_statistics import LEAST, elements
from tilewise.ops.quantile_formula import is_valid, of_one, shares_of

N = LEAST + 4321
SHARES: list[Any] = [0.5, [0.0, 0.05, 0.5, 0.95, 1.0], [0.999, 0.25, 0.25001, 0.25], 1]
METHODS = (
    "inverted_cdf averaged_inverted_cdf closest_observation interpolated_inverted_cdf hazen weibull linear "
    "median_unbiased normal_unbiased lower higher midpoint nearest"
).split()


def _given() -> dict[str, Any]:
    rng = np.random.default_rng(7)
    normal = rng.normal(size=N)
    steps = np.tile(np.arange(64.0), N // 64 + 1)[:N]  # as long as a stride of samples may be
    spoiled, signed = normal.copy(), np.where(rng.random(N) < 0.7, 0.0, normal)
    spoiled[N // 3] = np.nan
    signed[::3] *= -1.0
    return {
        "normal": normal,
        "float32": normal.astype(np.float32),
        "float16": normal.astype(np.float16),
        "few integers": rng.integers(0, 5, N),
        "bytes": rng.integers(0, 256, N).astype(np.uint8),
        "large integers": rng.integers(-(2**62), 2**62, N),
        "one value": np.full(N, 2.5),
        "ascending": np.sort(normal),
        "descending": np.sort(normal)[::-1],
        "periodic": steps,
        "infinite": np.where(np.abs(normal) > 1.0, np.sign(normal) * np.inf, normal),
        "one NaN": spoiled,
        "half NaN": np.where(normal > 0.0, np.nan, normal),
        "positive zeros": np.maximum(normal, 0.0),
        "zeros of both signs": signed,
        "strided": np.repeat(normal, 3)[::3],
        "two sizes": np.concatenate([normal[: N // 2], 1e300 * normal[N // 2 :]]),
    }


GIVEN = _given()


def _same(made: Any, expected: Any) -> bool:
    made, expected = np.asarray(made), np.asarray(expected)
    same = made.dtype == expected.dtype and made.shape == expected.shape
    return bool(same) and made.tobytes() == expected.tobytes()


@pytest.mark.filterwarnings("ignore:invalid value encountered")  # infinite elements, in NumPy's formula
@pytest.mark.parametrize("kind", GIVEN)
def test_quantiles_have_numpys_bytes(kind: str) -> None:
    x = GIVEN[kind]
    given = tw.asarray(x)
    for q in SHARES:
        assert _same(tw.quantile(given, q), np.quantile(x, q)), q
        assert _same(tw.percentile(given, 100.0 * np.asarray(q)), np.percentile(x, 100.0 * np.asarray(q))), q
        assert _same(tw.nanquantile(given, q), np.nanquantile(x, q)), q
    assert _same(tw.median(given), np.median(x))
    assert _same(tw.nanmedian(given), np.nanmedian(x))
    assert _same(tw.median(given[:-1]), np.median(x[:-1]))


@pytest.mark.parametrize("method", METHODS)
def test_all_methods_have_numpys_bytes(method: Any) -> None:
    for kind in ("normal", "float32", "few integers", "bytes"):
        x = GIVEN[kind]
        for q in SHARES:
            assert _same(tw.quantile(tw.asarray(x), q, method=method), np.quantile(x, q, method=method)), (kind, q)


def test_elements_are_those_of_the_sorted_vector() -> None:
    x = GIVEN["normal"]
    expected = np.sort(x)
    found = elements(x, [0, 1, 17, N // 2, N - 2, -1])
    assert found is not None
    assert found == {k: expected[k] for k in (0, 1, 17, N // 2, N - 2, N - 1)}


def test_a_sample_that_misleads_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    x = GIVEN["normal"]
    monkeypatch.setattr(order_statistics, "SPREAD", 0)
    for k in range(0, N, N // 50):
        found = elements(x, [k])
        assert found is None or found[k] == np.sort(x)[k]
    given = tw.asarray(x)
    assert _same(tw.percentile(given, [1, 50, 99]), np.percentile(x, [1, 50, 99]))


def test_given_elements_stay() -> None:
    x = GIVEN["normal"].copy()
    before = x.tobytes()
    for q in SHARES:
        tw.evaluate(tw.quantile(tw.asarray(x), q))
    assert x.tobytes() == before


def test_medians_along_an_axis_are_numpys() -> None:
    x = GIVEN["normal"][: 300 * 400].reshape(300, 400)
    given = tw.asarray(x)
    for axis in (0, 1, (0, 1), None):
        for keepdims in (False, True):
            assert _same(tw.median(given, axis=axis, keepdims=keepdims), np.median(x, axis=axis, keepdims=keepdims))
    assert _same(tw.median(given * 2.0, axis=1) + 1.0, np.median(x * 2.0, axis=1) + 1.0)


def test_one_thread_and_many_give_the_same() -> None:
    x = tw.asarray(GIVEN["normal"])
    with tw.config(threads=1):
        one = np.asarray(tw.percentile(x, [5, 50, 95]))
    assert _same(tw.percentile(x, [5, 50, 95]), one)


def test_types_come_from_the_formula() -> None:
    """Shape, dtype and elements of NumPy's results, without its function, which loads numpy.ma."""
    for dtype in (np.float16, np.float32, np.float64, np.int8, np.uint64):
        for q in (50, 50.0, np.float32(50), [0, 50, 100], np.array([25.0, 75.0], np.float32), np.array([1, 99])):
            for method in METHODS:
                one = np.asarray(np.percentile(np.ones(1, dtype), q, method=method))  # type: ignore[call-overload]
                parts = q if type(q) in (int, float) else np.asarray(q)
                shares, weak = shares_of("percentile", parts)
                assert is_valid(shares, method)
                found = np.asarray(of_one(np.dtype(dtype), shares, method, weak))
                assert (found.shape, found.dtype) == (one.shape, one.dtype), (dtype, q, method)
    assert not is_valid(np.asarray(1.5), "linear") and not is_valid(np.asarray(0.5), "other")


def test_percentiles_do_not_load_masked_arrays() -> None:
    program = "import sys, tilewise as np; np.percentile(np.arange(1e6) * 2, [5.0, 50.0]).sum(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "numpy.ma" not in done.stdout.split()
