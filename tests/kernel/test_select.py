"""Elements where a mask holds: NumPy's, for any dtype, share and number of threads."""

from collections.abc import Iterator

import numpy as np
import pytest

import tilewise as tw
from tilewise.backend import llvm, threads


@pytest.fixture(autouse=True)
def same_threads_after() -> Iterator[None]:
    before = threads.get_threads()
    yield
    threads.set_threads(before)


@pytest.mark.parametrize("dtype", list("?bBhHiIqQefdF"))
@pytest.mark.parametrize("count", [1, 2, 5])
def test_numpys_elements(dtype: str, count: int) -> None:
    threads.set_threads(count)
    rng = np.random.default_rng(0)
    for shape in ((2,), (100,), (70_000,), (3, 70_001)):
        for share in (0.1, 0.5, 0.9):
            x, mask = (100 * rng.random(shape)).astype(dtype), rng.random(shape) < share
            got = llvm.select(x, mask)
            assert got is None or (got.dtype == x.dtype and np.array_equal(got, x[mask]))
            assert got is not None or x.size < 1000


def test_what_it_leaves_to_numpy() -> None:
    x, mask = np.arange(100.0), np.arange(100) % 2 == 0
    assert llvm.select(x, mask) is not None
    assert llvm.select(x[::2], mask[::2]) is None
    assert llvm.select(x.reshape(10, 10), mask[:10]) is None
    assert llvm.select(x + 0j, mask) is None
    assert llvm.select(x, x < 3) is None  # few
    assert llvm.select(x, x > 3) is None  # nearly all


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("mesh", [None, 3])
def test_masks_of_large_arrays(native: bool, mesh: int | None) -> None:
    x = np.random.default_rng(1).normal(size=50_000)
    session = tw.session(engine="local") if mesh is None else tw.session(engine="virtual", workers=mesh)
    with tw.config(eager_bytes=0, native=native, fallback="error"), session:
        X = tw.asarray(x)
        assert np.array_equal(X[X > 0].compute(), x[x > 0])
        assert np.array_equal(tw.compress(X < 1, X).compute(), np.compress(x < 1, x))
