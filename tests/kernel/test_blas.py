"""SciPy's BLAS for native code: addresses that work, and one thread while tiles run."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading

import numpy as np
import pytest

from tilewise.backend import blas

TYPES = {"d": np.float64, "s": np.float32, "z": np.complex128, "c": np.complex64}


def as_int(value: int) -> ctypes._Pointer[ctypes.c_int]:
    return ctypes.pointer(ctypes.c_int(value))


def function(name: str, arguments: int) -> ctypes._CFunctionType:
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * arguments)(blas.address(name))


def pointer(value: object) -> ctypes.c_void_p:
    if isinstance(value, np.ndarray):
        return ctypes.c_void_p(value.ctypes.data)
    return ctypes.cast(value, ctypes.c_void_p)  # type: ignore[arg-type]


@pytest.mark.parametrize("letter", TYPES)
def test_products_through_addresses(letter: str) -> None:
    rng = np.random.default_rng(0)
    m, n, k = 5, 7, 9

    def matrix(*shape: int) -> np.ndarray:
        values = rng.normal(size=shape) + (1j * rng.normal(size=shape) if letter in "zc" else 0)
        return np.asfortranarray(values.astype(TYPES[letter]))

    a, b, c = matrix(m, k), matrix(k, n), matrix(m, n)
    alpha, beta = np.array(2, c.dtype), np.array(1, c.dtype)
    want = 2 * (a @ b) + c
    plain = ctypes.create_string_buffer(b"N")
    sizes = [as_int(v) for v in (m, n, k, m, k, m)]
    arguments = [plain, plain, *sizes[:3], alpha, a, sizes[3], b, sizes[4], beta, c, sizes[5]]
    function(f"{letter}gemm", 13)(*map(pointer, arguments))
    np.testing.assert_allclose(c, want, rtol=1e-4 if letter in "sc" else 1e-12)

    x, y = matrix(k), matrix(m)
    want = 2 * (a @ x) + y
    one = as_int(1)
    arguments = [plain, sizes[0], sizes[2], alpha, a, sizes[3], x, one, beta, y, one]
    function(f"{letter}gemv", 11)(*map(pointer, arguments))
    np.testing.assert_allclose(y, want, rtol=1e-4 if letter in "sc" else 1e-12)


def test_the_table_is_all_there() -> None:
    assert len({blas.address(name) for name in blas.ROUTINES}) == len(blas.ROUTINES)
    with pytest.raises(KeyError):
        blas.address("no such routine")


@pytest.fixture
def two() -> None:
    controls = blas._controls()
    if controls is None:
        pytest.skip("this BLAS has no threads to limit")
    controls[0](2)


def test_one_thread_and_back(two: None) -> None:
    assert blas.threads() == 2
    with blas.one_thread():
        assert blas.threads() == 1
        with blas.one_thread():
            assert blas.threads() == 1
        assert blas.threads() == 1
    assert blas.threads() == 2
    with pytest.raises(ValueError, match="inside"), blas.one_thread():
        raise ValueError("inside")
    assert blas.threads() == 2


def test_blocks_of_several_threads_overlap(two: None) -> None:
    """The first to leave does not take the limit from the other."""
    entered, leave = threading.Event(), threading.Event()

    def other() -> None:
        with blas.one_thread():
            entered.set()
            leave.wait()

    with blas.one_thread():
        user = threading.Thread(target=other)
        user.start()
        entered.wait()
    assert blas.threads() == 1
    leave.set()
    user.join()
    assert blas.threads() == 2


def test_a_blas_without_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas, "_controls", lambda: None)
    with blas.one_thread():
        assert blas.threads() == 1


def test_it_does_not_load_scipy() -> None:
    ask = "import sys, importlib; blas = importlib.import_module('tilewise.backend.blas'); blas.threads()"
    program = f"{ask}; assert all(map(blas.address, blas.ROUTINES)); assert 'scipy' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)
