"""Loops inside of loops: they use what is left of the machine, or are plain ones; recursive functions."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.effort import SOME_OR_ALL
from tilewise.parfor.plan import facts, optimise


@pytest.fixture
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "cores", lambda: 8)


def table(n: int, m: int, mode: str | None) -> Any:
    R, who, total = np.zeros((n, m)), np.zeros((n, m + 1)), 0.25
    for i in tw.parfor(range(n), mode=mode, check=False):
        row = 10.0 * i
        who[i, m] = threading.get_ident()
        for j in tw.parfor(range(m), mode="threads", check=False, partition="naive"):
            R[i, j] = row + j
            who[i, j] = threading.get_ident()
            total += 1.0
    return R, who, total, i, j


@pytest.mark.parametrize("mode", ["processes", "threads", None])
@pytest.mark.parametrize("n", [1, 2])
def test_loops_inside_use_what_is_left(mode: str | None, n: int, eight_cores: None) -> None:
    R, who, total, i, j = tw.parallel(table)(n, 20, mode)
    expected = table(n, 20, mode)
    assert (expected[0] == R).all() and total == expected[2]
    assert (i, j) == (n - 1, 19)
    assert all((row[:-1] != row[-1]).all() for row in who)  # by threads of the inner loop


def test_small_loops_inside_are_plain(monkeypatch: pytest.MonkeyPatch, eight_cores: None) -> None:
    monkeypatch.setattr(optimise, "INNER_SECONDS", 10.0)
    _, who, total, *_ = tw.parallel(table)(2, 20, "processes")
    assert all((row[:-1] == row[-1]).all() for row in who) and total == 40.25


def test_triangles_streams_and_names(eight_cores: None) -> None:
    def inner(X: Any, generator: Any) -> Any:
        n = X.shape[1]
        R, best = np.zeros((n, n)), -np.inf
        for i in tw.parfor(range(n), workers=2):
            scale = 2.0
            for j in tw.parfor(range(i, n)):
                scale = X[:, i] @ X[:, j]
                R[i, j] = scale
                best = max(best, scale)
        out = np.zeros(n)
        for i in tw.parfor(range(n), rng=generator, workers=2):
            out[i] = generator.normal()
        return R, best, out

    X = np.random.default_rng(0).normal(size=(50, 9))
    got = tw.parallel(inner)(X, np.random.default_rng(1))
    expected = inner(X, np.random.default_rng(1))
    assert got[0].tobytes() == expected[0].tobytes() and got[1] == expected[1] and (got[2] == expected[2]).all()


@tw.parallel
def halves(x: Any) -> Any:
    """A recursive function: the loop of the first call has workers, those below are plain ones or share threads."""
    if len(x) == 1:
        return x[0]
    parts, cut = np.zeros(2), len(x) // 2
    for k in tw.parfor(range(2), workers=2, mode="processes", check=False):
        parts[k] = halves(x[:cut] if k == 0 else x[cut:])
    return parts[0] + parts[1]


@pytest.mark.parametrize("whole", SOME_OR_ALL)
def test_recursive_functions(whole: bool) -> None:
    x = np.arange(16.0 if whole else 8.0)
    assert halves(x) == x.sum()


def test_an_exception_inside(eight_cores: None) -> None:
    @tw.parallel
    def fail(out: Any) -> None:
        for i in tw.parfor(range(2), mode="processes"):
            for j in tw.parfor(range(3)):
                out[i, j] = 1 / (i + j - 2)

    out = np.zeros((2, 3))
    with pytest.raises(ZeroDivisionError) as caught:
        fail(out)
    assert any("in iteration i = 0 of the parfor" in note for note in caught.value.__notes__) and not out.any()


@tw.parallel
def quarters(x: Any, depth: int) -> Any:
    """The same without `check=False`: what a function under @tw.parallel does is known from its source."""
    sums = np.zeros(4)
    for k in tw.parfor(range(4)):
        part = x[k * len(x) // 4 : (k + 1) * len(x) // 4]
        sums[k] = part.sum() if depth == 0 else quarters(part, depth - 1)
    return sums.sum()


@tw.jit
def total(x: Any) -> Any:
    found = 0.0
    for i in range(len(x)):
        found += x[i]
    return found


@tw.jit
def put_first(x: Any, value: Any) -> None:
    for i in range(1):
        x[i] = value


@pytest.mark.parametrize("mode", ["threads", "processes"])
def test_decorated_functions_are_followed(mode: str) -> None:
    def totals(X: Any) -> Any:
        out = np.zeros(len(X))
        for i in tw.parfor(range(len(X)), mode=mode, workers=2):
            out[i] = total(X[i]) + quarters(X[i], 1)
        return out

    X = np.arange(96.0).reshape(6, 16)
    assert (tw.parallel(totals)(X) == totals(X)).all() and (totals(X) == 2 * X.sum(axis=1)).all()
    assert quarters(np.arange(256.0), 2) == np.arange(256.0).sum()


def test_decorated_functions_that_write_to_what_all_have() -> None:
    setup = "import numpy as np\nfrom tests.parfor.test_nested import put_first\nx, X = np.zeros(4), np.zeros((4, 4))"
    (bad,) = tw.parfor.analyse("for i in parfor(range(4)):\n    put_first(x, i)", setup)
    (good,) = tw.parfor.analyse("for i in parfor(range(4)):\n    put_first(X[i], i)", setup)
    assert (bad.independent, bad.variable, good.independent) == (False, "x", True)
