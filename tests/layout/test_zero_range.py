"""The range of zeros with both signs: NumPy's is never -0.0, whatever the order in which it meets them; parts are."""

import numpy as np
import pytest

import tilewise as tw


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("native", [True, False])
def test_the_range_of_zeros_is_no_negative_zero(workers: int, native: bool) -> None:
    rng = np.random.default_rng(7)
    for seed in range(6):
        with (
            tw.config(eager_bytes=0, blocks=3, native=native),
            tw.session(engine="virtual", workers=workers),
            tw.testing.random_layouts(seed),
        ):
            for axis in (None, 0, 1):
                for dtype in ("float64", "float32", "complex128"):
                    x = np.where(rng.random((2, 9)) < 0.5, 0.0, -0.0).astype(dtype)
                    want, got = np.ptp(x, axis=axis), np.asarray(tw.ptp(tw.asarray(x) * 1, axis=axis))
                    assert got.dtype == want.dtype and got.tobytes() == want.tobytes()


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_parts_of_a_complex_range_may_be_negative_zeros(workers: int, native: bool, dtype: str) -> None:
    x = np.array([[complex(4.0, -0.0), complex(-4.0, 0.0)], [complex(1.0, 2.0), complex(1.0, 2.0)]], dtype)
    with tw.config(eager_bytes=0, blocks=3, native=native), tw.session(engine="virtual", workers=workers):
        for axis in (None, 0, 1):
            want, got = np.ptp(x, axis=axis), np.asarray(tw.ptp(tw.asarray(x), axis=axis))
            assert got.dtype == want.dtype and got.tobytes() == want.tobytes()
