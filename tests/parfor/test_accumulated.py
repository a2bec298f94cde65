"""Accumulations into cells of containers and minima that the later value decides, run: the plain loop's results."""

from __future__ import annotations

import collections
import importlib
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.parfor.test_run import same
from tilewise.parfor.reductions.late import combine_late


class Tally:
    def __init__(self) -> None:
        self.total, self.count, self.scale = 1.5, 3, 2.0

    def add(self, value: float) -> None:
        self.total += value


def containers(x: Any, n: int, workers: int) -> Any:
    table, missing, counted = dict.fromkeys("abc", 2), collections.defaultdict(float), collections.Counter({7: 1})
    fresh: Any = collections.Counter(old=3)
    numbers, cells, tally, sums = {9: 5.0}, [1.0, 2.5, -0.0], Tally(), np.zeros(4)
    grown: list[list[float]] = [[] for _ in range(n)]
    for i in tw.parfor(range(n), mode="processes", workers=workers):
        table["abc"[i % 3]] += i
        missing[(n - i) % 5] += x[i]
        counted[i % 4] += 1
        fresh["new"] += 2
        numbers[i % 3] = numbers.get(i % 3, 0) + x[i]
        cells[i % 2] *= 2.0
        tally.count += 1
        tally.add(x[i] * tally.scale)
        np.add.at(sums, [i % 4, 0], 2.0)
        grown[i].append(x[i])
    found = [list(d.items()) for d in (table, missing, counted, fresh, numbers)]  # new keys in the order of the loop
    return found, [str(c) for c in cells], list(vars(tally).items()), sums, grown


def test_containers() -> None:
    x = np.arange(40.0) - 7
    for n, workers in ((0, 2), (1, 2), (2, 7), (13, 1), (13, 2), (13, 3)):
        same(tw.parallel(containers)(x, n, workers), containers(x, n, workers))


def test_nothing_is_accumulated_if_an_iteration_fails() -> None:
    def count(keys: list[int], table: dict[int, int], mode: Any) -> None:
        for i in tw.parfor(range(len(keys)), mode=mode):
            table[keys[i]] += 1

    for mode in (None, "processes"):
        table = {0: 5}
        with pytest.raises(KeyError):
            tw.parallel(count)([0, 0, 0, 1], table, mode)
        assert table == {0: 5}
    with pytest.raises(tw.ParforError, match="cells of lists, dicts or objects"):
        tw.parallel(count)([0, 0], {0: 1}, "threads")


def smallest(x: Any, m: Any, mode: Any, workers: Any) -> Any:
    for i in tw.parfor(range(len(x)), mode=mode, workers=workers):
        m = min(x[i], m)
    return m


def some_largest(x: Any, m: Any, mode: Any, workers: Any) -> Any:
    for i in tw.parfor(range(2), mode=mode, workers=workers):
        for j in tw.parfor(range(len(x) // 2)):
            if j != 1:
                m = m if m > x[i * (len(x) // 2) + j] else x[i * (len(x) // 2) + j]
    return m


@pytest.mark.parametrize(("mode", "workers"), [("threads", 3), ("processes", 2), (None, None)])
@pytest.mark.parametrize("f", [smallest, some_largest])
def test_the_later_value_decides(f: Any, mode: Any, workers: Any) -> None:
    rng = np.random.default_rng(0)
    parallel = tw.parallel(f)
    for m in (2.5, float("nan"), 7, float("inf"), -9):
        for _ in range(3 if mode == "processes" else 12):
            x = rng.choice([1.0, 2.0, 3.0, np.nan, np.inf, -0.0, 0.0, -5.0], size=rng.integers(4, 14))
            assert str(parallel(x, m, mode, workers)) == str(f(x, m, mode, workers)), (x, m)


def test_the_later_value_decides_in_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("tilewise.parfor.bodies.choose"), "WORTH_SECONDS", 0.0)
    parallel = tw.parallel(smallest)
    for values in ([3.0, np.nan, 7.0, 5.0, 9.0], [np.nan, np.nan], [4.0, 2.0, 6.0, np.nan], [3.0, 1.0, 2.0]):
        x = np.array(values)
        assert str(parallel(x, 2.5, None, 2)) == str(smallest(x, 2.5, None, 2))
    assert parallel.report[0].body == "native"


def test_what_a_task_has_found() -> None:
    assert combine_late("late min", 3.0, 5.0, nan=True, ran=True) == 5.0
    assert combine_late("late max", 3.0, -np.inf, nan=False, ran=False) == 3.0
    assert str(combine_late("late min", -0.0, 0.0, nan=False, ran=True)) == "0.0"


def whole(x: Any, s: Any, mode: str | None, workers: int) -> Any:
    same_one, part, product = s, s[1:], 1.0
    for i in tw.parfor(range(len(x)), mode=mode, workers=workers):
        s += x[i]
        product *= i + 1
    s[0] = -7.0
    return s is same_one, np.asarray(s).tolist(), np.asarray(part).tolist(), product


def by_view(x: Any, s: Any, mode: str | None, workers: int) -> Any:
    part = s[1:]
    for i in tw.parfor(range(len(x)), mode=mode, workers=workers):
        part += x[i, 1:]
    return (np.asarray(part).tolist(),)


@pytest.mark.parametrize("function", [whole, by_view])
@pytest.mark.parametrize("mode", [None, "processes", "threads", "mesh"])
def test_whole_arrays_are_written_in_place(function: Any, mode: str | None) -> None:
    """Whoever has the array sees the sum, and the name is that array afterwards."""
    x = np.arange(12.0).reshape(4, 3)
    with tw.session(engine="virtual", workers=2), tw.config(eager_bytes=0):
        for make in (np.ones, tw.ones):
            if function is by_view and make is np.ones and mode in ("threads", "mesh"):
                with pytest.raises(tw.errors.ParforError, match="cannot keep apart"):
                    tw.parallel(function)(x, make(3), mode, 2)
                continue
            expected, found = make(3), make(3)
            wanted = function(x, expected, None, 1)
            assert tw.parallel(function)(x, found, mode, 2) == wanted
            assert np.asarray(found).tolist() == np.asarray(expected).tolist()


def test_threads_have_no_arrays_of_their_own_where_there_are_views() -> None:
    """Machine code on threads would write to the one array at the same time."""
    seen = np.zeros(8)

    def count(k: int) -> None:
        seen[k] += 1

    def views(x: Any, h: Any) -> Any:
        part = h[1:]
        for i in tw.parfor(range(len(x)), workers=2):
            for _ in range(1000):
                part[x[i]] += 1
        return (part,)

    def called(x: Any, h: Any) -> Any:
        for i in tw.parfor(range(len(x)), workers=2):
            for _ in range(1000):
                h[x[i]] += 1
                count(x[i])
        return (h,)

    def plain(x: Any, h: Any) -> Any:
        for i in tw.parfor(range(len(x)), workers=2):
            for _ in range(1000):
                h[x[i]] += 1
        return (h,)

    x = np.arange(400) % 7
    for function, body in ((views, "python"), (called, "python"), (plain, "native")):
        explained = tw.explain(tw.parallel(function), np.tile(x, 20), seen)
        assert f"body: {body}" in str(explained), function.__name__
    seen[:] = 0
    tw.parallel(views)(x[:40], seen)
    assert seen.tolist() == [0, *(1000 * np.bincount(x[:40])).tolist()]
