"""Verdicts that are remembered: only where nothing that matters has changed."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import tilewise as tw

runner = importlib.import_module("tilewise.parfor.parallel")
TABLE = np.arange(10)
SHIFT = 0


def halves(A: Any, B: Any, n: int) -> Any:
    s = 0.0
    for i in tw.parfor(range(n), workers=2, mode="threads"):
        B[i] = A[i] + np.float64(i) * 2
        s += A[i]
    return B, s


def by_table(A: Any, p: Any) -> None:
    for i in tw.parfor(range(4), workers=2, mode="threads"):
        A[p[i]] = i


def shifted(A: Any) -> None:
    for i in tw.parfor(range(4), workers=2, mode="threads"):
        A[i] = A[i + SHIFT]


def place(i: int, by: int = 0) -> int:
    return i + SHIFT + by


def moved(A: Any, at: Any) -> None:
    for i in tw.parfor(range(4), workers=2, mode="threads"):
        A[i] = A[at(i)]


def placed_by(k: int, table: Any) -> Any:
    return lambda i: place(i) + k + table[0]


@pytest.fixture
def analyses(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry per analysis."""
    found: list[int] = []
    kept = runner._Run._analysed

    def counted(self: Any) -> Any:
        found.append(1)
        return kept(self)

    monkeypatch.setattr(runner._Run, "_analysed", counted)
    return found


def test_loops_that_start_alike(analyses: list[int]) -> None:
    run = tw.parallel(halves)
    for k in range(3):  # other arrays of the same kind
        A, B = np.arange(8.0) + k, np.zeros(8)
        got, s = run(A, B, 6)
        expected, total = halves(A, np.zeros(8), 6)
        assert got is B and got.tolist() == expected.tolist() and s == total
    assert len(analyses) == 1


@pytest.mark.parametrize(
    "other",
    [
        lambda A, B: (A, B, 5),  # another number
        lambda A, B: (A.astype(np.float32), B, 6),
        lambda A, B: (np.zeros(16)[::2], B, 6),  # another step
        lambda A, B: (A, np.zeros(9), 6),
        lambda A, B: (A, A[:], 6),  # the same memory
    ],
)
def test_loops_that_start_otherwise(analyses: list[int], other: Any) -> None:
    run = tw.parallel(halves)
    A, B = np.arange(8.0), np.zeros(8)
    run(A, B, 6)
    run(*other(A, B))
    assert len(analyses) == 2


def test_other_memory_is_another_answer() -> None:
    run = tw.parallel(halves)
    A = np.arange(9.0)
    run(A[:8], np.zeros(8), 6)
    run(A[:8], A[:8], 6)
    with pytest.raises(tw.ParforError):
        run(A[:8], A[1:], 6)


def test_values_that_were_looked_at_are_looked_at_again(analyses: list[int]) -> None:
    run, p = tw.parallel(by_table), np.arange(4)
    run(np.zeros(9), p)
    run(np.zeros(9), p.copy())
    assert len(analyses) == 1
    p[1] = 0
    with pytest.raises(tw.ParforError):
        run(np.zeros(9), p)


def test_globals_count(monkeypatch: pytest.MonkeyPatch) -> None:
    run = tw.parallel(shifted)
    run(np.zeros(9))
    monkeypatch.setitem(globals(), "SHIFT", 1)
    with pytest.raises(tw.ParforError):
        run(np.zeros(9))


def test_functions_are_remembered_with_their_names(analyses: list[int]) -> None:
    run, table = tw.parallel(moved), np.zeros(2, int)
    for _ in range(3):
        run(np.arange(9.0), place)
        run(np.arange(9.0), placed_by(0, table))
    assert len(analyses) == 2


@pytest.mark.parametrize("change", ["a global", "a default", "a closure", "a table", "a class"])
def test_functions_whose_names_change(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run, table, at = tw.parallel(moved), np.zeros(2, int), place
    if change in ("a closure", "a table"):
        at = placed_by(0, table)
    run(np.arange(9.0), at)
    if change == "a global":
        monkeypatch.setitem(globals(), "SHIFT", 1)
    elif change == "a default":
        monkeypatch.setattr(place, "__defaults__", (1,))
    elif change == "a closure":
        at = placed_by(1, table)
    elif change == "a table":
        table[0] = 1
    else:
        at = type("Place", (), {"__call__": lambda self, i: i + 1})()
    with pytest.raises(tw.ParforError):
        run(np.arange(9.0), at)
