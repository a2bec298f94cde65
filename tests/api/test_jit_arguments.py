"""tw.jit: what arguments are. Floats are parameters, containers keep their structure, classes are seen as they are."""

from __future__ import annotations

import math
import warnings
import weakref
from typing import Any

import numpy as np
import pytest

import tilewise as tw


def test_lists_and_dicts_that_the_function_changes(mode: str) -> None:
    def put(state: Any) -> Any:
        state["x"] = state["x"] * 2
        return state

    def add(seen: Any, x: Any) -> Any:
        seen.append(x * 2)
        return x + 1

    f, g, same = tw.jit(put), tw.jit(add), tw.jit(lambda s: s)
    for _ in range(3):
        state, seen = {"x": tw.ones(2)}, [tw.zeros(1)]
        assert f(state) is state and state["x"].tolist() == [2, 2]
        assert g(seen, tw.ones(2)).tolist() == [2, 2] and seen[1].tolist() == [2, 2]
        assert same(seen) is seen


def test_which_arguments_are_the_same(mode: str) -> None:
    f = tw.jit(lambda x, y: x * 0 if x is y else x + y)
    x, y = tw.ones(3), tw.full(3, 2.0)
    for _ in range(3):
        assert f(x, y).tolist() == [3, 3, 3] and f(x, x).tolist() == [0, 0, 0]


def test_how_arrays_lie_is_not_traced(mode: str) -> None:
    for get in (lambda x: x * x.strides[0], lambda x: x * x.flags.c_contiguous):
        f = tw.jit(get)
        for view in (slice(None, None, 2), slice(None, None, -1), slice(None)):
            for _ in range(3):
                x = np.arange(16.0)[view]
                assert f(tw.arange(16.0)[view]).tolist() == get(x).tolist()


def test_values_that_are_repeated_have_no_say_in_the_order_of_results(mode: str) -> None:
    def f(x: Any, y: Any) -> Any:
        made = x * 2 + y, x + y, x.T * 2 + 1
        for m in made:
            m.reshape(-1)[::3] = 0.0  # of a view, or of a copy
        return made

    g = tw.jit(f)
    row = np.arange(3.0)
    for order in ("C", "F", "F", "F"):
        y = np.asarray(np.ones((4, 3)), order=order)  # type: ignore[call-overload]  # a str of any kind
        want = f(np.broadcast_to(row, (4, 3)), y)
        for x in (tw.broadcast_to(tw.asarray(row), (4, 3)), np.broadcast_to(row, (4, 3))):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", tw.PerformanceWarning)
                got = g(x, tw.asarray(y))
            assert [m.tolist() for m in got] == [m.tolist() for m in want]


def test_windows_leave_the_order_of_axes_open(mode: str) -> None:
    def f(x: Any) -> Any:
        made = x.T * 2
        made.reshape(-1)[:3] = -1.0  # of a view: the transposed lies in C order, too
        return made

    g, windows = tw.jit(f), np.lib.stride_tricks.sliding_window_view
    want = f(windows(np.arange(6.0), 3)).tolist()
    for _ in range(3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tw.PerformanceWarning)
            assert g(windows(tw.arange(6.0), 3)).tolist() == want  # type: ignore[call-overload]  # an Array
            assert g(windows(np.arange(6.0), 3)).tolist() == want


def test_a_float_beside_an_array_that_is_given_twice() -> None:
    f = tw.jit(lambda a, b, k: a * k + b)
    x, y = tw.ones(3), tw.ones(3)
    for given, k in (((x, y), 0.5), ((x, x), 0.5), ((x, x), -0.25), ((x, y), 2.0)):
        assert np.asarray(f(*given, k)).tolist() == [1 + k] * 3


def test_rules_do_not_see_floats_that_are_parameters() -> None:
    x = np.random.default_rng(0).random((40, 6))
    f = tw.jit(lambda x, a, b: ((x * a + b) @ x.T, (x * b).sum()))
    for a, b in ((1.0, 0.0), (3.0, 1.0), (0.0, 0.5), (2.0, -1.0), (-1.0, 2.0)):
        for got, want in zip(f(tw.array(x), a, b), ((x * a + b) @ x.T, (x * b).sum()), strict=True):
            np.testing.assert_allclose(np.asarray(got), want)
    assert f.traces == 1


def test_floats_that_raise(mode: str) -> None:
    """The function raises itself: after what it has written, at its own line, also for what nothing uses."""

    def used(x: Any, v: float) -> Any:
        x += 1
        return x * (1.0 / v)

    def unused(x: Any, v: float) -> Any:
        x += 1
        half = 2.0**v / 2  # noqa: F841  # which may raise
        return x + v

    def complicated(x: Any, v: float) -> Any:
        x += 1
        return x * (v**0.5 // 2)

    rows = ((used, 0.0, ZeroDivisionError), (unused, 2000.0, OverflowError), (complicated, -1.0, TypeError))
    for f, v, error in rows:
        g = tw.jit(f)
        for k in range(4):
            x = tw.arange(3.0)
            assert g(x, 0.5 + k).tolist() == f(np.arange(3.0), 0.5 + k).tolist()
            with pytest.raises(error) as caught:
                g(x, v)
            assert caught.traceback[-1].name == f.__name__ and x.tolist() == [2, 3, 4]


def test_floats_that_are_used_over_and_over() -> None:
    def root(x: Any, v: float) -> Any:
        r = v
        for _ in range(100):  # 2**100 operations, if each were made from the start
            r = 0.5 * (r + v / r)
        return x * r

    f = tw.jit(root)
    with tw.config(without="source"):
        for v in (2.0, 3.0, 5.0):
            assert f(tw.ones(2), v).tolist() == root(np.ones(2), v).tolist()
    assert f.traces == 1


def test_floats_are_floats(mode: str) -> None:
    def kind(v: Any) -> str:
        match v:
            case float():
                return "float"
        return "other"

    programs = (
        lambda x, v: x * v if isinstance(v, int | float) else x,
        lambda x, v: x * v if np.isscalar(v) else x,
        lambda x, v: x * v if kind(v) == "float" else x,
    )
    for f in map(tw.jit, programs):
        for v in (0.5, 2.0, 3.0):
            assert f(tw.ones(2), v).tolist() == [v, v]
        assert f.traces == (0 if mode == "numpy" else 1)


def test_the_class_of_arguments(mode: str) -> None:
    f = tw.jit(lambda x: x * 2 if isinstance(x, np.ndarray) else x * 3)
    for _ in range(3):
        assert f(np.ones(2)).tolist() == [2, 2] and f(tw.ones(2)).tolist() == [3, 3]
    f = tw.jit(lambda x: x * 2 if isinstance(x, tw.Array) else x * 3)
    for _ in range(3):
        assert f(np.ones(2)).tolist() == [3, 3] and f(tw.ones(2)).tolist() == [2, 2]
    f = tw.jit(lambda x, kind: x * 2 if isinstance(x, kind) else x * 3)
    g = tw.jit(lambda x, look: x * 2 if look(x) else x * 3)
    for _ in range(3):
        assert f(np.ones(2), np.ndarray).tolist() == [2, 2] and f(np.ones(2), tw.Array).tolist() == [3, 3]
        assert g(np.ones(2), lambda x: isinstance(x, np.ndarray)).tolist() == [2, 2]


def test_arguments_of_functions_that_are_not_traced_are_let_go(mode: str) -> None:
    f = tw.jit(lambda x: x * 2 if x.sum() > 0 else x)
    with tw.config(fallback="silent"):
        for _ in range(3):
            x = tw.ones(2)
            f(x)
            gone = weakref.ref(x)
            del x
            assert gone() is None


def test_keys_of_dicts(mode: str) -> None:
    class Part:
        weight = 1.0

    part = Part()
    names = tw.jit(lambda d: {k: v + 1 for k, v in d.items()})
    total = tw.jit(lambda d: sum(v * k.weight for k, v in d.items()))
    for k in (1, True, 1.0, "a", (1, 2.0), (True, 2), np.int64(1)):
        (made,) = names({k: tw.ones(2)})
        assert made == k and repr(made) == repr(k)
    for part.weight in (1.0, 4.0, 2.0):
        assert total({part: tw.ones(2)}).tolist() == [part.weight] * 2


def test_floats_are_parameters_unless_the_function_looks_at_them(mode: str) -> None:
    lifted = tw.jit(lambda x, rate: x - (2 * rate + 1) * x / 3)
    looked = tw.jit(lambda x, rate: x * rate if rate > 0.3 else -x)
    used = tw.jit(lambda x, rate: x * math.sqrt(rate))
    for rate in (0.1, 0.5, 0.9, 0.1):
        x = np.arange(4.0, dtype="f4")
        for f in (lifted, looked, used):
            got, want = f(tw.asarray(x), rate), f.__wrapped__(x, rate)
            assert got.dtype == want.dtype == np.float32
            np.testing.assert_array_equal(got, want)
    if mode != "numpy":
        assert lifted.traces == 1 and looked.traces == 4


def test_values_that_are_in_the_key_are_told_of_when_there_are_many() -> None:
    f = tw.jit(lambda x, k: x + k)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for k in range(140):
            assert f(tw.zeros(2), k).tolist() == [k, k]
    assert len(caught) == 1 and "jit has traced <lambda> 64 times" in str(caught[0].message)


def test_loops_over_ndarrays_that_run_as_plain_python_are_told_of() -> None:
    def digits(x: Any) -> str:
        out = ""
        for k in range(len(x)):
            out += str(k)
        return out

    def doubled(x: Any) -> Any:
        total = 0.0
        for v in (q * 2 for q in x):
            total += v
        return total

    for f, construct in ((digits, "a call of str"), (doubled, "a generator")):
        g = tw.jit(f)
        with pytest.warns(tw.PerformanceWarning, match=rf"{f.__name__}: it has {construct}.*plain Python"):
            assert g(np.arange(4.0)) == f(np.arange(4.0))
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # it is said once
            g(np.arange(4.0))
