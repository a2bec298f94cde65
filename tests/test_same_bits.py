"""The same program on the same data gives the same bits: again and again, in new processes, with one and two threads.

`python -m tests.bits --kernels` does the same for the programs of benchmarks/kernels, `python -m tests.fuzz.bits` for
random ones.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.bits.programs import PROGRAMS
from tests.fuzz.bits import digests
from tilewise.array.schedule.exact import COMPLEX, REAL, exact

N = 4_000


@pytest.fixture(scope="module")
def seen() -> dict[str, list[str]]:
    """Digests of two runs with one thread, and two with two, in the other order."""
    started = []
    for threads, more in (("1", []), ("2", ["--backwards"])):
        row = [sys.executable, "-m", "tests.bits", "--runs", "2", *more]
        environment = {**os.environ, "TILEWISE_THREADS": threads}
        started.append(subprocess.Popen(row, stdout=subprocess.PIPE, text=True, env=environment))
    answers = [json.loads(child.communicate()[0]) for child in started]
    return {name: [text for answer in answers for text in answer[name]] for name in PROGRAMS}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_give_the_same_bits(name: str, seen: dict[str, list[str]]) -> None:
    assert len(seen[name]) == 4 and len(set(seen[name])) == 1, seen[name]


@pytest.mark.parametrize("case", [0, 2, 5, 11])
def test_random_programs_give_the_same_bits(case: int) -> None:
    assert len(set(digests(case, 4))) == 1


def _values(dtype: str, seed: int) -> Any:
    rng, kind = np.random.default_rng(seed), np.dtype(dtype)
    if kind.kind == "b":
        return rng.integers(0, 2, N).astype(bool)
    if kind.kind in "iu":
        ends = np.iinfo(kind)
        return rng.integers(ends.min, ends.max, N, dtype=kind, endpoint=True)
    values = (rng.standard_normal(N) * 10.0 ** rng.integers(-3, 4, N)).astype(kind)
    if kind.kind == "c":
        return (values + 1j * rng.standard_normal(N)).astype(kind)
    values[:6] = np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-310
    return rng.permutation(values)


@pytest.mark.quick_code
@pytest.mark.parametrize("dtype", "bool int8 uint8 int32 int64 uint64 float32 float64 complex64 complex128".split())
def test_exact_ufuncs_give_numpys_bits(dtype: str) -> None:
    """What may be promoted: native code gives NumPy's bits, so that it does not matter which of them runs."""
    a, b = _values(dtype, 0), _values(dtype, 1)
    for ufunc in sorted(REAL, key=lambda f: f.__name__):
        if not exact(ufunc, [a.dtype]):
            assert a.dtype.kind == "c" and ufunc not in COMPLEX
            continue
        args = (a, b)[: ufunc.nin]
        if ufunc.__name__.endswith("shift") and a.dtype.kind in "iu":
            args = (a, (b % 7).astype(dtype))
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                want = ufunc(*args)
            except TypeError:
                continue
            with tw.config(eager_bytes=0, fallback="silent"):
                got = np.asarray(getattr(tw, ufunc.__name__)(*map(tw.asarray, args)))
        assert got.dtype == want.dtype and got.tobytes() == want.tobytes(), ufunc
