"""Programs as bytes, and programs after passes that are taken from disk."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tilewise.api.functions import source_call
from tilewise.api.functions.source_call import SourceFunction
from tilewise.kernel.program.encode import Odd, decoded, encoded
from tilewise.kernel.program.ir import Const, Program, Set
from tilewise.kernel.program.show import text

X = np.arange(400.0).reshape(20, 20) / 7


def slices(u, v):
    for _ in range(3):
        v[1:-1, 1:-1] = u[1:-1, 1:-1] + 0.5 * (u[2:, 1:-1] + u[:-2, 1:-1]) - u[1:-1, 2:]
        u[1:-1, 1:-1] = v[1:-1, 1:-1] * np.inf


def numbers(u, v):
    s, z = 0.0, 1j
    for i in range(len(u)):
        for j in range(i):
            if u[i, j] > 3 and i % 3:
                s = min(s, u[i, j] / (i + 1))
                z = z * 1j
    v[0, 0] = s
    return np.sort(u[0]), z, s


def inner(u, k):
    if k < 1:
        return 1.0
    return u[k, 0] + inner(u, k - 1)


def calls(u, v):
    for i in range(len(u)):
        v[i, 0] = inner(u, i)
    return [1, 2]


ROWS = (slices, numbers, calls)


def program_of(f: Callable[..., Any]) -> Program:
    return SourceFunction(f).code_for((X.copy(), X.copy()), {}).made.program  # type: ignore[arg-type]


@pytest.mark.parametrize("f", ROWS, ids=lambda f: f.__name__)
def test_bytes_of_programs(f: Callable[..., Any]) -> None:
    """A program comes back as it was, and has the same bytes whenever it is made."""
    program = program_of(f)
    data = encoded(program)
    back = decoded(data)
    assert back == program and text(back) == text(program)
    assert [f.file for f in back.faults] == [f.file for f in program.faults]
    assert encoded(program_of(f)) == data == encoded(back)


def test_what_has_no_bytes() -> None:
    """A number of NumPy would come back as something else."""
    program = program_of(slices)
    odd = replace(program, body=(Set("x", Const("float64", np.float64(2.0))),))
    with pytest.raises(Odd):
        encoded(odd)


@pytest.mark.parametrize("f", ROWS[:1], ids=lambda f: f.__name__)
def test_passes_run_once(f: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What passes have made is read from disk, for the same settings only."""
    runs: list[Any] = []
    passes = source_call.optimised

    def counted(program: Program, without: Any = ()) -> Program:
        runs.append(without)
        return passes(program, without)

    monkeypatch.setattr(source_call, "optimised", counted)
    with tw.config(cache_dir=tmp_path):
        first = program_of(f)
        assert runs
        count = len(runs)
        assert program_of(f) == first and len(runs) == count
        with tw.config(without={"loop_threads"}):
            assert program_of(f) != first
        assert len(runs) == 2 * count
        want, got = (X.copy(), X.copy()), (X.copy(), X.copy())
        with np.errstate(all="ignore"):
            f(*want)
            tw.jit(f, strict=True)(*got)
        assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(want, got, strict=True))
