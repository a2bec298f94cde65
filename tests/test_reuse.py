"""Intermediate results of an expression are reused, as NumPy does; nothing that anyone can see ever is."""

import functools
import itertools
import operator
import sys
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.fuzz.__main__ import check
from tilewise.array import operators, reuse, stack


@pytest.fixture(autouse=True)
def reuse_all(monkeypatch: pytest.MonkeyPatch, same_settings_after_each_test: None) -> None:
    monkeypatch.setattr(operators, "REUSE_BYTES", 0)
    tw.config(without="chains")  # which take temporaries of such sizes first, once they have begun


@pytest.fixture
def reused(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    seen: list[bool] = []

    def spy(*args: object, right: bool = False) -> bool:
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


def test_either_side_where_the_order_does_not_matter(reused: list[bool]) -> None:
    x, y = tw.arange(1.0, 7.0), tw.arange(1.0, 7.0)
    named = x + y
    x - (x + y), x / (x + y), x + named, x * named, x**2, named**2, (x + y) ** 3, (x + y) ** 0.5
    assert not reused
    x + (x + y), x * (x + y), (x + y) ** 2, (x + y) ** 2.0
    assert len(reused) == 4


def test_values_of_either_side() -> None:
    x = tw.arange(1.0, 7.0)
    a = np.arange(1.0, 7.0)
    assert (x + x * 2).compute().tolist() == (a + a * 2).tolist()
    assert (x * (x - 3)).compute().tolist() == (a * (a - 3)).tolist()
    assert ((x + 1) * (x - 3) + x * (x + 2)).compute().tolist() == ((a + 1) * (a - 3) + a * (a + 2)).tolist()
    assert ((x - 4) ** 2 + (x - 2) ** 2.0).compute().tolist() == ((a - 4) ** 2 + (a - 2) ** 2).tolist()
    row, square = tw.arange(3.0), tw.ones((3, 3))
    assert (square + row * 2).compute().tolist() == (np.ones((3, 3)) + np.arange(3.0) * 2).tolist()
    assert (row + square * 2).compute().tolist() == (np.arange(3.0) + np.ones((3, 3)) * 2).tolist()
    assert (x.astype("f4") + x * 2).compute().dtype == np.float64
    assert (x + (x.astype("f4") * 2)).compute().tolist() == (a + a * 2).tolist()
    assert x.compute().tolist() == a.tolist()


def test_sums_of_arrays(reused: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    x = tw.arange(1.0, 7.0)
    places = {place[:2] for place, (_, what) in reuse._places.items() if what == reuse._SUM}
    monkeypatch.setattr(operators, "reusable", reuse.reusable)
    sum(x * k for k in range(3)), sum(map(operator.mul, [x], [2.0])), sum([x * k for k in range(3)], x)
    new = {place[:2] for place, (_, what) in reuse._places.items() if what == reuse._SUM} - places
    assert len(new) == 1


def test_what_arrays_of_objects_hold_is_not_temporary() -> None:
    """NumPy's loop over them stands at the same operator, and has the only references, too."""
    boxes = np.empty(2, object)
    boxes[:] = [tw.arange(6.0), tw.arange(6.0)]
    again = [boxes]
    for _ in range(3):
        boxes + 1.0, 2.0 * boxes, boxes * boxes, boxes - 2.0, 1.0 - boxes, boxes**2, boxes + (boxes + boxes)
        again[0] + 1.0, again.copy()[0] * 2.0, sum(b for b in again), (lambda: boxes)() + 1.0
        assert [b.compute().tolist() for b in boxes] == [[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]] * 2


def test_elements_that_are_taken_twice_are_not_temporary() -> None:
    """Broadcasting takes elements of an intermediate result several times, each with one reference."""
    for without in ("chains", ""):
        with tw.config(without=without):
            row = np.empty((1, 2), object)
            row[0, 0], row[0, 1] = tw.arange(40_000.0), tw.arange(40_000.0) + 2
            column = row.reshape(2, 1)
            for _ in range(300):
                found = (row + 1.0) * (column + 2.0) - 1.0
            got = [[float(x[1]) for x in line] for line in found]
            want = [[(1 + a) * (2 + b) - 1 for a in (1.0, 3.0)] for b in (1.0, 3.0)]
            assert got == want, without


def test_where_operands_lie() -> None:
    x, y = tw.arange(1.0, 7.0), tw.arange(1.0, 7.0)
    seen: list[bool] = []

    def spy(*args: Any, right: bool = False) -> bool:
        seen.append(reuse.is_operand(sys._getframe(2), args[4], 0 if right else 1))
        return False

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operators, "reusable", spy)
        for k in range(2):
            [k, (tw.exp(x) + 1.0, 2.0 * tw.maximum(x, y - 1.0)), {"a": x.copy() - y}, -x * 2.0, 3.0 - (x + y)]
        boxes = np.empty(1, object)
        boxes[0] = tw.arange(6.0)
        boxes + 1.0, 2.0 * boxes
    assert (sys.version_info[:2] == (3, 11)) == stack.SURE
    assert seen == [stack.SURE] * 10 + [False] * 2


def test_values_of_sums() -> None:
    x, a = tw.arange(1.0, 7.0), np.arange(1.0, 7.0)
    parts, plain = [x * k for k in range(4)], [a * k for k in range(4)]
    for _ in range(3):
        assert sum(parts).compute().tolist() == sum(plain).tolist()
        assert sum(parts, x).compute().tolist() == sum(plain, a).tolist()
        assert sum(parts, x * 2).compute().tolist() == sum(plain, a * 2).tolist()
        assert sum((p * 2 for p in parts), 1.0).compute().tolist() == sum((p * 2 for p in plain), 1.0).tolist()
    kept = []
    assert sum(kept.append(p * 3) or kept[-1] for p in parts).compute().tolist() == sum(p * 3 for p in plain).tolist()
    assert [k.compute().tolist() for k in kept] == [(p * 3).tolist() for p in plain]
    assert [p.compute().tolist() for p in parts] == [p.tolist() for p in plain]
    objects = np.array([*[x * 1 for _ in range(3)], None], dtype=object)[:3]
    assert sum(objects[k] for k in range(3)).compute().tolist() == (a * 3).tolist()
    assert np.add.reduce(objects).compute().tolist() == (a * 3).tolist()
    assert sum(map(np.add, [objects], [objects]))[0].compute().tolist() == (a * 2).tolist()
    assert all(o.compute().tolist() == a.tolist() for o in objects)


def test_another_sum_is_not_pythons(monkeypatch: pytest.MonkeyPatch, reused: list[bool]) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(operators, "REUSE_BYTES", 0)
    x = tw.arange(1.0, 7.0)
    want = [(np.arange(1.0, 7.0) * k).tolist() for k in range(3)]
    code = "def f(parts):\n    return sum(p for p in parts)\n"
    names: dict[str, Any] = {}
    exec(code, names)
    for found in (None, lambda parts: list(itertools.accumulate(parts)), None):
        names.pop("sum", None)
        if found is not None:
            names["sum"] = found
        parts = [x * k for k in range(3)]
        names["f"](parts)
        assert [p.compute().tolist() for p in parts] == want


def test_the_right_operand_with_a_name_stays() -> None:
    x = tw.arange(6.0)
    want = (np.arange(6.0) * 2).tolist()
    t = x * 2
    kept = [x * 2]
    x + t, x * kept[0], x + (walrus := x * 2)
    view = (x * 2)[1:]
    x[1:] + view
    shown = np.asarray(t)
    x + t
    operator.add(x, x * 2), functools.reduce(operator.add, [x, t])
    for known in (t, kept[0], walrus):
        assert known.compute().tolist() == want
    assert view.compute().tolist() == want[1:] and shown.tolist() == want


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
    for case in range(500_000 + part, 500_060, 4):
        bad = check(case, native=0.0, without="workers")
        assert bad is None, (case, bad)
