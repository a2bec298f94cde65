"""Every operation on every dtype it claims, bit for bit against NumPy, at every vector width."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from tests.conftest import Some
from tests.kernel.support import WIDTHS, awkward, call, one_op, pairs, same_bits
from tilewise.backend import llvm
from tilewise.backend.llvm.math.table import MATH
from tilewise.kernel import interpret
from tilewise.kernel import native_support as native
from tilewise.kernel.loops import Instr, Kernel, Output

ROWS = sorted(native._SUPPORTED)
NOT_EXACT = [("absolute", (t,)) for t in native.COMPLEX]
# Of a complex number's absolute value only 2 ulp are promised (below).
EXACT = [
    row
    for row in ROWS
    if row[:2] not in NOT_EXACT and (row[0] not in MATH or row[1][0] in native.INTS) and row[0] != "cast"
]
CASTS = [row for row in ROWS if row[0] == "cast"]


def _zero_sign_is_free(fn: str) -> bool:
    # NumPy's own fmin and fmax differ between their vector and scalar loops in which zero they return.
    return fn in ("fmin", "fmax")


@pytest.mark.quick_code
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("fn", sorted({row[0] for row in EXACT}))
def test_like_numpy(fn: str, width: int | None, some: Some) -> None:
    for _, ins, out in some(row for row in EXACT if row[0] == fn):
        if fn in ("where", "rarely"):
            a, b = pairs(out)
            args = [np.arange(a.size) % 3 == 0, a, b]
        else:
            args = list(pairs(*ins)) if len(ins) == 2 else [awkward(ins[0])]
        kernel = one_op(fn, ins, out)
        (got,) = call(kernel, args[0].shape, args, width=width)
        (want,) = (np.empty(args[0].shape, out),)
        interpret.run(kernel, args[0].shape, args, (), [want])
        if _zero_sign_is_free(fn) and out.startswith("float"):
            got, want = got + 0.0, want + 0.0
        assert same_bits(got, want), (
            fn,
            ins,
            [a[got != want][:5] for a in args],
            got[got != want][:5],
            want[got != want][:5],
        )


@pytest.mark.quick_code
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("source", "target"), [(row[1][0], row[2]) for row in CASTS])
def test_cast(source: str, target: str, width: int | None) -> None:
    a = awkward(source)
    kernel, want = one_op("cast", (source,), target), np.empty(a.shape, target)
    interpret.run(kernel, a.shape, [a], (), [want])
    (got,) = call(kernel, a.shape, [a], width=width)
    assert same_bits(got, want)


@pytest.mark.parametrize("dtype", native.DTYPES)
def test_constants_and_params(dtype: str) -> None:
    values = awkward(dtype)
    kernel = Kernel((dtype,), (dtype,), (Instr("const:1", (), dtype), Instr("add", (0, 1), dtype),
                    Instr("multiply", (3, 2), dtype)), (Output(4), Output(1)), (False,))  # fmt: skip
    for p in values[:5]:
        with np.errstate(all="ignore"):
            want = (values + p) * np.ones((), dtype)
        total, param = call(kernel, values.shape, [values], [p])
        assert same_bits(total, want)
        assert same_bits(param, np.full(values.shape, p, dtype))


def test_what_is_not_claimed_is_interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = one_op("arctan2", ("float64", "float64"), "float64")
    monkeypatch.setattr(native, "_SUPPORTED", native._SUPPORTED - {("arctan2", ("float64",) * 2, "float64")})
    llvm.compile.cache_clear()
    for n in (0, 1, 50, 100_000):
        a, b = np.random.default_rng(0).normal(size=(2, n))
        assert same_bits(call(kernel, (n,), [a, b])[0], np.arctan2(a, b))
    kernel = Kernel(("float64", "float64"), (), (Instr("arctan2", (0, 1), "float64"),),
                    (Output(2, "add"), Output(2)), (False, True))  # fmt: skip
    a = np.random.default_rng(0).normal(size=(4000, 30))
    total, angles = call(kernel, a.shape, [a, a[:1]])
    assert same_bits(angles, np.arctan2(a, a[:1]))
    np.testing.assert_allclose(total, angles.sum(1), atol=1e-12)


def test_asking_does_not_load_llvm() -> None:
    program = """
import sys, tilewise.kernel.native_support, tilewise.kernel.interpret, tilewise.store.pool, tilewise.backend.threads
sys.exit("llvmlite" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_division_by_a_known_power_of_two(dtype: str) -> None:
    limits = np.iinfo(dtype)
    x = np.array([limits.min, limits.min + 1, limits.max, limits.max - 1, 0, 1, 2, 3, 5, 100], dtype)
    for divisor in (1, 2, 8, 64):
        body = (Instr(f"const:{divisor}", (), dtype), *(Instr(f, (0, 1), dtype) for f in ("floor_divide", "remainder")))
        kernel = Kernel((dtype,), (), body, (Output(2), Output(3)), (False,))
        got = [np.empty_like(x), np.empty_like(x)]
        llvm.compile(kernel)(x.shape, [x], [], got)
        np.testing.assert_array_equal(got[0], x // np.array(divisor, dtype))
        np.testing.assert_array_equal(got[1], x % np.array(divisor, dtype))
