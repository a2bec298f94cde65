"""Intermediate results of an expression are reused, as NumPy does; nothing that anyone can see ever is."""

import functools
import itertools
import operator

import numpy as np
import pytest

import tilewise as tw
from tests.fuzz.__main__ import check
from tilewise.array import operators


@pytest.fixture(autouse=True)
def reuse_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operators, "REUSE_BYTES", 0)


@pytest.fixture
def reused(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    seen: list[bool] = []

    def spy(*args: object) -> bool:
        seen.append(True)
        return False

    monkeypatch.setattr(operators, "reusable", spy)
    return seen


def test_a_temporary_is_asked_about_and_a_name_is_not(reused: list[bool]) -> None:
    x, y = tw.arange(6.0), tw.arange(6.0)
    x + y, 2 * x, x - 1
    assert not reused
    (x + y) * 2, 3 * (x + y)
    assert len(reused) == 2


def test_the_buffer_is_the_same() -> None:
    x = tw.arange(6.0)
    assert ((x + 1) * 2 - x).compute().tolist() == ((np.arange(6.0) + 1) * 2 - np.arange(6.0)).tolist()
    assert x.compute().tolist() == np.arange(6.0).tolist()


def test_what_has_a_name_stays() -> None:
    x, y = tw.arange(6.0), tw.arange(6.0) * 2
    total = np.arange(6.0) * 3
    t = x + y
    t * 2, 2 - t, t / 3
    kept = [x + y]
    kept[0] * 2
    holder = {"a": x + y}
    holder["a"] * 2
    (walrus := x + y) * 2
    view = (x + y)[::2]
    view * 2
    for known in (t, kept[0], holder["a"], walrus):
        assert known.compute().tolist() == total.tolist()
    assert view.compute().tolist() == total[::2].tolist()
    assert x.compute().tolist() == np.arange(6.0).tolist()


def test_functions_of_c_code() -> None:
    parts = [tw.arange(6.0), tw.arange(6.0) * 2, tw.arange(6.0)]
    want = (np.arange(6.0) * 4).tolist()
    assert sum(parts).compute().tolist() == want
    assert functools.reduce(operator.add, parts).compute().tolist() == want
    steps = list(itertools.accumulate(parts))
    assert [s.compute()[1] for s in steps] == [1.0, 3.0, 4.0]
    assert [p.compute()[1] for p in parts] == [1.0, 2.0, 1.0]


@pytest.mark.parametrize("part", range(4))
def test_random_programs(part: int) -> None:
    for case in range(500_000 + part, 500_120, 4):
        bad = check(case, native=0.0, without="workers")
        assert bad is None, (case, bad)
