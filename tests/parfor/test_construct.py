"""tw.parfor and tw.parallel: options, what is refused and how, the plain loop outside of decorated functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewise as tw


def test_the_plain_loop() -> None:
    assert list(tw.parfor(range(2, 9, 3))) == [2, 5, 8]
    assert list(tw.parfor(3)) == [0, 1, 2] and list(tw.parfor(5, 2, -1)) == [5, 4, 3]
    assert list(tw.parfor(enumerate("ab"))) == [(0, "a"), (1, "b")]
    assert [row.tolist() for row in tw.parfor(np.eye(2))] == [[1.0, 0.0], [0.0, 1.0]]
    assert list(tw.parfor({"a": 1})) == ["a"] and len(tw.parfor(range(7))) == 7
    done = []
    for i in tw.parfor(range(9)):
        if i == 3:
            break
        done.append(i)
    assert done == [0, 1, 2]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"worker": 2}, "no option 'worker'"),
        ({"workers": 0}, "workers is a whole number of at least 1"),
        ({"workers": 2.5}, "workers is a whole number"),
        ({"tasks": True}, "tasks is a whole number"),
        ({"mode": "gpu"}, "mode is one of threads, processes, cluster"),
        ({"mode": "threads", "merge": "cluster"}, 'Use mode="cluster"'),
        ({"memory": "plenty"}, "memory is a number of bytes"),
        ({"partition": "dynamic"}, "partition is one of naive"),
        ({"partition": "static", "task_size": 3}, "has no size of tasks"),
        ({"tasks": 3, "partition": "naive"}, "stands without partition"),
        ({"check": 0}, "check is True or False"),
        ({"rng": np.random.RandomState(0)}, "default_rng"),
    ],
)
def test_options(options: dict[str, Any], text: str) -> None:
    with pytest.raises(tw.ParforError, match=text.replace("(", r"\(")):
        tw.parfor(range(3), **options)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (((k for k in range(3)),), "got generator"),
        ((0, 10, 0), "is no range"),
        ((2.5,), "got float"),
        ((), "got nothing"),
        ((np.float64(3),), "got float64"),
        ((np.zeros(()),), "no dimension"),
        ((iter([1]),), "got list_iterator"),
    ],
)
def test_ranges(given: tuple[Any, ...], text: str) -> None:
    with pytest.raises(tw.ParforError, match=text):
        tw.parfor(*given)


def test_the_error_of_a_dependent_loop() -> None:
    @tw.parallel
    def chain(a: Any) -> None:
        for i in tw.parfor(range(1, 9)):
            b = a[i - 1]
            a[i] = b * 2

    a = np.ones(9)
    with pytest.raises(tw.ParforError) as caught:
        chain(a)
    text = str(caught.value)
    first = chain.__wrapped__.__code__.co_firstlineno
    assert "iterations 1 and 2" in text and ": a, " in text
    assert f"line {first + 4}: a[i] = b * 2" in text and f"line {first + 3}: b = a[i - 1]" in text
    assert f"{__file__}:{first + 2}" in text and "check=False" in text
    assert (a == 1).all()


def test_values_at_entry_decide() -> None:
    @tw.parallel
    def shift(a: Any, by: int) -> Any:
        for i in tw.parfor(range(10), workers=2):
            a[i] = a[i + by]
        return a

    assert (shift(np.arange(20.0), 10)[:10] == np.arange(10.0, 20.0)).all()
    with pytest.raises(tw.ParforError, match="iterations"):
        shift(np.arange(20.0), 3)


def refused(function: Any, text: str) -> None:
    with pytest.raises(tw.ParforError, match=text):
        tw.parallel(function)


def test_bodies_that_are_refused() -> None:
    def breaks(a: Any) -> None:
        for i in tw.parfor(range(3)):
            if a[i]:
                break

    def returns(a: Any) -> Any:
        for i in tw.parfor(range(3)):
            return i

    def rebinds(a: Any) -> None:
        for i in tw.parfor(range(3)):
            i = 2
            a[i] = 1

    def yields(a: Any) -> Any:
        for i in tw.parfor(range(3)):
            a[i] = yield i

    refused(breaks, "no break .line")
    refused(returns, "no return")
    refused(rebinds, "assigns to the loop's variable i")
    refused(yields, "no yield")
    refused(3, "got int")
    names: dict[str, Any] = {}
    exec("def f(): pass", names)
    refused(names["f"], "source of f is not available")


def test_inner_breaks_and_functions_are_fine() -> None:
    @tw.parallel
    def search(x: Any) -> Any:
        found = np.zeros(len(x), dtype=int)
        for i in tw.parfor(range(len(x)), workers=2):
            for k in range(5):
                if x[i, k] > 2:
                    break

            def double(v: int) -> int:
                return 2 * v

            found[i] = double(k)
        return found

    x = np.arange(20.0).reshape(4, 5)
    assert search(x).tolist() == [6, 0, 0, 0]


def test_threads_say_what_they_cannot_do() -> None:
    @tw.parallel
    def table(n: int) -> Any:
        out: dict[int, int] = {}
        for i in tw.parfor(range(n), mode="threads", workers=2):
            out[i] = i
        return out

    with pytest.raises(tw.ParforError, match='Use mode="processes"'):
        table(5)


def test_defaults_closures_and_methods() -> None:
    offset = 10

    @tw.parallel
    def add(x: Any, by: int = 2, *, scale: int = 3) -> Any:
        """Adds."""
        out = np.zeros(len(x))
        for i in tw.parfor(range(len(x)), workers=2):
            out[i] = x[i] * scale + by + offset
        return out

    assert add(np.ones(2)).tolist() == [15.0, 15.0]
    offset = 0
    assert add(np.ones(2), 1, scale=1).tolist() == [2.0, 2.0]
    assert add.__doc__ == "Adds." and add.__name__ == "add"


def test_a_result_without_a_name() -> None:
    class Slots:
        __slots__ = ("x",)

    holder = Slots()
    holder.x = 0  # type: ignore[misc]

    @tw.parallel
    def write() -> None:
        for i in tw.parfor(range(3), workers=2, check=False):
            holder.x = i

    with pytest.raises(tw.ParforError, match="as a result"):
        write()


def test_a_class_in_the_function() -> None:
    @tw.parallel
    def squares(n: int) -> list[float]:
        class Square:
            side = 2

            def area(self, k: int) -> int:
                return k * k * self.side

        out = [0.0] * n
        square = Square()
        for i in tw.parfor(range(n)):
            out[i] = square.area(i)
        return out

    assert squares(5) == [0, 2, 8, 18, 32]
