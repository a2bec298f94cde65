"""Sums along a long dim with few lanes beside it: inputs are copied so that the lanes go along the sum."""

from __future__ import annotations

import numpy as np
import pytest

import tilewise as tw
from tests.conftest import Some
from tests.kernel.guards import guarded
from tests.kernel.support import RUNNABLE, call, meaning
from tilewise.backend.llvm.call import prepare
from tilewise.backend.llvm.compile.cpu import host_machine
from tilewise.kernel.loops import Instr, Kernel, Output

DTYPES = ["float64", "float32", "int64", "int8", "complex128", "bool"]
SHAPES = [(1, 1, 1), (1, 40, 3), (4, 31, 3), (5, 32, 3), (9, 100, 2), (4, 2000, 1), (7, 1025, 3), (40, 64, 2)]


def weighted(dtype: str) -> Kernel:
    """The sums and products along the middle dim of w[i, j] * p[j, k]."""
    body = (Instr("logical_and" if dtype == "bool" else "multiply", (0, 1), dtype),)
    last = "logical_or" if dtype == "bool" else "multiply"
    first = "logical_and" if dtype == "bool" else "add"
    return Kernel((dtype, dtype), (), body, (Output(2, first), Output(2, last)), (False, True, False))


@pytest.mark.quick_code
@pytest.mark.parametrize("width", RUNNABLE)
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_the_kernel_means(dtype: str, width: int | None, some: Some) -> None:
    rng = np.random.default_rng(2)
    for rows, length, few in some(SHAPES):
        for side in ("end", "start"):
            given = []
            for dims in ((rows, length, 1), (1, length, few)):
                size = np.dtype(dtype).itemsize
                strides = tuple(int(np.prod(dims[i + 1 :])) * size for i in range(3))
                array = guarded(dims, dtype, strides, side)
                array[...] = rng.choice([1, 0] if dtype == "bool" else [1, -1], dims).astype(dtype)
                given.append(array)
            got = call(weighted(dtype), (rows, length, few), given, width=width)
            for a, b in zip(got, meaning(weighted(dtype), (rows, length, few), given), strict=True):
                assert np.array_equal(a, b), (rows, length, few)


def test_few_lanes_beside_a_long_sum_are_turned() -> None:
    w, p = np.ones((8, 500, 1)), np.ones((1, 500, 3))
    made = prepare.Preparer(weighted("float64"), host_machine()).prepare((8, 500, 3), [w, p, *np.empty((2, 8, 3))])
    assert [pack.operand for pack in made.packs] == [1] and made.tree is not None and made.tree[0] == "short"


def test_what_is_used_once_is_not_copied() -> None:
    x = np.ones((500, 3))
    kernel = Kernel(("float64",), (), (), (Output(0, "add"),), (True, False))
    assert not prepare.Preparer(kernel, host_machine()).prepare((500, 3), [x, np.empty(3)]).packs


@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_forces(dtype: str) -> None:
    """In tiles, on threads: against NumPy, and the same bits."""

    def forces(np, pos, mass):
        d = pos[None, :, :] - pos[:, None, :]
        r2 = (d * d).sum(-1) + 1
        return (d * (mass / (r2 * np.sqrt(r2)))[:, :, None]).sum(1)

    rng = np.random.default_rng(3)
    for n in (1, 5, 33, 401):
        pos, mass = rng.random((n, 3)).astype(dtype), rng.random(n).astype(dtype)
        want = forces(np, pos.astype("f8"), mass.astype("f8"))
        for tile in (None, 1, 7):
            found = []
            for threads in (1, 2, 5):
                with tw.config(eager_bytes=0, tile=tile, threads=threads):
                    found.append(forces(tw, tw.asarray(pos), tw.asarray(mass)).compute())
            assert all(f.tobytes() == found[0].tobytes() for f in found) and found[0].dtype == dtype
            np.testing.assert_allclose(
                found[0], want, rtol=1e-3 if dtype == "f4" else 1e-9, atol=1e-3 * (dtype == "f4") + 1e-11
            )
