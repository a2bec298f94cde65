"""tw.jit: what the function would give, from one trace per structure; plainly called where that cannot be known."""

from __future__ import annotations

import math
import types
import warnings
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy import geterr

import tilewise as tw
from tests.api.alongside import alongside
from tilewise import compiler
from tilewise.array.schedule import policy

SHIFT = 1.0
WEIGHTS = tw.asarray(np.arange(3.0))


class Pair(NamedTuple):
    left: Any
    right: Any


def nested(state: Any, *, scale: float = 2.0) -> Any:
    a, (b, c) = state["a"], state["rest"]
    return {"sum": a + b * scale, "parts": [c - 1, (a * c, Pair(b, a.sum()))], "same": c, "n": 3}


def test_nested_arguments_and_results(mode: str) -> None:
    f = tw.jit(nested)
    for k in range(3):
        a, b, c = (tw.asarray(np.arange(4.0) + i + k) for i in range(3))
        got = f({"a": a, "rest": (b, c)}, scale=1.5 + k)
        want = nested(
            {"a": np.arange(4.0) + k, "rest": (np.arange(4.0) + 1 + k, np.arange(4.0) + 2 + k)}, scale=1.5 + k
        )
        assert got["same"] is c and got["n"] == 3 and isinstance(got["parts"][1][1], Pair)
        assert got["parts"][1][1].left is b
        np.testing.assert_array_equal(got["sum"], want["sum"])
        np.testing.assert_array_equal(got["parts"][0], want["parts"][0])
        np.testing.assert_array_equal(got["parts"][1][0], want["parts"][1][0])
        assert float(got["parts"][1][1].right) == float(want["parts"][1][1].right)
    assert f.traces == (0 if mode == "numpy" else 1)


def test_it_is_traced_again_where_structure_changes(mode: str) -> None:
    calls = []
    f = tw.jit(lambda x, n, how="sum": getattr_free(x, n, how))
    for x, n, how in ((3, 1, "sum"), (3, 1, "sum"), (4, 1, "sum"), (4, 2, "sum"), (4, 2, "max"), (3, 1, "sum")):
        got = f(tw.arange(float(x)), n, how=how)
        calls.append(float(got) == float(getattr_free(np.arange(float(x)), n, how)))
    assert all(calls)
    assert f.traces == (0 if mode == "numpy" else 4)
    assert f(tw.arange(3), 1).dtype == np.int64


def getattr_free(x: Any, n: int, how: str) -> Any:
    y = x * n + 2
    return y.sum() if how == "sum" else y.max()


def test_closures_globals_and_defaults_may_change(mode: str) -> None:
    global SHIFT, WEIGHTS
    k, before = 1.0, (SHIFT, WEIGHTS)

    @tw.jit
    def f(x: Any, by: float = 0.5) -> Any:
        return x * k + SHIFT + WEIGHTS * by

    def want() -> Any:
        return np.ones(3) * k + SHIFT + np.asarray(WEIGHTS) * 0.5

    try:
        x = tw.ones(3)
        np.testing.assert_array_equal(f(x), want())
        k = 7.0
        np.testing.assert_array_equal(f(x), want())
        SHIFT = -3.0
        np.testing.assert_array_equal(f(x), want())
        WEIGHTS[0] = 9.0  # the array itself, not only the name
        np.testing.assert_array_equal(f(x), want())
        WEIGHTS = tw.asarray(np.arange(9.0))[3:6]
        np.testing.assert_array_equal(f(x), want())
        WEIGHTS = tw.asarray(np.full(3, 0.25))
        np.testing.assert_array_equal(f(x), want())
    finally:
        SHIFT, WEIGHTS = before


def test_functions_that_look_at_values_are_called_each_time() -> None:
    @tw.jit
    def signed(x: Any) -> Any:
        return x * 2 if x.sum() > 0 else -x

    with tw.config(eager_bytes=0), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            assert signed(tw.ones(3)).tolist() == [2, 2, 2]
            assert signed(-tw.ones(3)).tolist() == [1, 1, 1]
        texts = {str(w.message) for w in caught}
    assert len(texts) == 1 and signed.traces == 1
    line = signed.__wrapped__.__code__.co_firstlineno + 2
    assert "jit cannot trace signed and calls it every time: it has a use of a value" in next(iter(texts))
    assert f"{__file__}:{line}" in next(iter(texts))


def test_side_effects_and_objects_are_not_replayed(mode: str) -> None:
    seen: list[int] = []
    model = {"w": 2.0}

    @tw.jit
    def noisy(x: Any) -> Any:
        seen.append(1)
        return x * model["w"]

    class Fixed:
        w = 2.0

    by_class = tw.jit(lambda x: x * Fixed.w)
    draw = tw.jit(lambda x: x + tw.random.random(3))
    x = tw.ones(3)
    assert noisy(x).tolist() == [2, 2, 2]
    assert by_class(x).tolist() == [2, 2, 2]
    model["w"] = Fixed.w = 5.0
    assert by_class(x).tolist() == [5, 5, 5]
    assert noisy(x).tolist() == [5, 5, 5] and len(seen) == 2
    assert draw(x).tolist() != draw(x).tolist()


def test_methods_and_functions_in_functions(mode: str) -> None:
    inner = tw.jit(lambda x: x * 3)
    outer = tw.jit(lambda x: inner(x) + 1)
    wave = tw.vectorize(lambda a: math.sin(a) * 2)
    whole = tw.jit(lambda x: wave(x).sum())
    assert outer(tw.ones(2)).tolist() == [4, 4] and inner(tw.ones(2)).tolist() == [3, 3]
    assert float(whole(tw.arange(3.0))) == pytest.approx(2 * np.sin(np.arange(3.0)).sum())

    class Model:
        def __init__(self) -> None:
            self.w = 2.0

        @tw.jit
        def step(self, x: Any) -> Any:
            return x * self.w

    m = Model()
    assert m.step(tw.ones(2)).tolist() == [2, 2]
    m.w = 3.0
    assert m.step(tw.ones(2)).tolist() == [3, 3]
    with pytest.raises(TypeError, match=r"tw\.jit takes a function, got int"):
        tw.jit(3)  # type: ignore[arg-type]


def test_exceptions_are_the_functions_own(mode: str) -> None:
    f = tw.jit(lambda x, y: x + y)
    with pytest.raises(ValueError, match="broadcast"):
        f(tw.ones(2), tw.ones(3))
    g = tw.jit(lambda x: undefined_name + x)  # type: ignore[name-defined]  # noqa: F821
    with pytest.raises(NameError, match="undefined_name"):
        g(tw.ones(2))
    with tw.config(fallback="warn"), warnings.catch_warnings():  # nothing but the exception is told
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(ValueError, match="broadcast"):
                f(tw.ones(400_000), tw.ones(3))


def test_dtypes_orders_empty_and_numbers(mode: str) -> None:
    f = tw.jit(lambda x: (x * 2 + 1, x.sum(axis=0)))
    cases = [np.zeros((0, 3)), np.ones((2, 3), "f4"), np.arange(6).reshape(2, 3), np.asfortranarray(np.ones((3, 2)))]
    cases += [np.arange(12.0).reshape(3, 4)[::2, 1:], np.ones((1,), "c8"), np.array([True, False])]
    for x in cases:
        for got, want in zip(f(tw.asarray(x)), f.__wrapped__(x), strict=True):
            assert (got.dtype, got.shape, got.strides) == (want.dtype, want.shape, want.strides) or want.size < 2
            np.testing.assert_array_equal(got, want)
    s = tw.jit(lambda a: a * 2.0)(tw.ones(3).sum())
    assert float(s) == 6.0 and s.shape == ()
    assert tw.jit(lambda x: x + 1)(np.arange(3)).tolist() == [1, 2, 3]
    assert tw.jit(lambda n: n + 1)(2) == 3


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_on_workers(workers: int) -> None:
    f = tw.jit(lambda x, w, rate: ((x - rate * w) ** 2).sum(axis=0))
    x, w = np.arange(20.0).reshape(10, 2), np.array([1.0, 2.0])
    with tw.session(engine="virtual", workers=workers), tw.config(eager_bytes=0):
        for rate in (0.1, 0.3):
            got = f(tw.asarray(x), tw.asarray(w), rate)
            np.testing.assert_allclose(got, ((x - rate * w) ** 2).sum(axis=0))
    assert f.traces == 1


def test_a_loop_traces_and_plans_once() -> None:
    for settings in ({"eager_bytes": 0}, {"eager_bytes": 1 << 21}):
        step = tw.jit(lambda x, rate: x - rate * (x * x - 2.0) / (2.5 * x))
        with tw.config(**settings):
            x = tw.full(1000, 3.0)
            counts = []
            for k in range(12):
                x = step(x, 0.9 + k / 1000)
                float(x[0])
                counts.append(compiler.planned_count)
        assert step.traces == 1 and counts[-1] == counts[3]
        assert float(x[0]) == pytest.approx(math.sqrt(2), abs=1e-3)


def test_results_of_a_call_are_not_those_of_the_next(mode: str) -> None:
    f = tw.jit(lambda x: (x + 1, tw.arange(3.0)))
    a, constant = f(tw.zeros(3))
    a[0] = 50.0
    constant[0] = 60.0
    b, again = f(tw.zeros(3))
    assert b.tolist() == [1, 1, 1] and a.tolist() == [50, 1, 1] and again.tolist() == [0, 1, 2]


def test_the_module_of_arrays_may_be_an_argument(mode: str) -> None:
    def mean(xp: Any, x: Any) -> Any:
        return sum(w * xp.roll(x, k) for k, w in enumerate((0.25, 0.5, 0.25)))

    f = tw.jit(mean)
    x = np.arange(5.0)
    for module in (tw, np, tw):
        np.testing.assert_array_equal(np.asarray(f(module, tw.asarray(x))), mean(np, x))
    assert f.traces == (0 if mode == "numpy" else 2)
    draw = tw.jit(lambda xp, x: x + xp.random.random(3))
    assert draw(tw, tw.ones(3)).tolist() != draw(tw, tw.ones(3)).tolist()


def test_results_that_change_when_used_are_made_each_time(mode: str) -> None:
    pairs = tw.jit(lambda x: zip((1, 2), (3, 4), strict=True))
    assert list(pairs(tw.ones(2))) == list(pairs(tw.ones(2))) == [(1, 3), (2, 4)]


TABLE = np.array([1.0, 2.0])
FACTOR = 2.0


def scaled(x: Any, by: float = 3.0) -> Any:
    return x * by


def test_all_that_a_function_refers_to_is_watched(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shift = 1.0

    def g(x: Any) -> Any:
        return scaled(x) * FACTOR + shift + TABLE[0] + tw.sum(TABLE)

    f, x = tw.jit(g), tw.ones(2)

    def check() -> None:
        for _ in range(2):
            np.testing.assert_array_equal(np.asarray(f(x)), np.asarray(g(x)))

    check()
    shift = 5.0
    check()
    monkeypatch.setitem(globals(), "FACTOR", -1.0)
    check()
    monkeypatch.setattr(scaled, "__defaults__", (7.0,))
    check()
    before = np.asarray(f(x))
    monkeypatch.setitem(globals(), "TABLE", TABLE.copy())
    TABLE[0] += 4  # the content of an array
    check()
    assert np.asarray(f(x))[0] != before[0]
    monkeypatch.setattr(scaled, "__code__", (lambda x, by=0.0: x + by).__code__)
    check()
    monkeypatch.setattr(tw, "sum", lambda x: 100.0)
    check()
    monkeypatch.setitem(globals(), "tw", type("Module", (), {"sum": staticmethod(lambda x: -8.0)}))
    check()


def test_what_others_record_as_well_and_evaluate_stays_in_the_trace(mode: str) -> None:
    f = tw.jit(lambda x: x * tw.arange(7) + tw.eye(5, 7))
    x = np.ones((5, 7))
    for _ in range(3):
        with tw.config(eager_bytes=0):
            np.asarray(x * tw.arange(7) + tw.eye(5, 7))
        np.testing.assert_array_equal(np.asarray(f(tw.asarray(x))), x * np.arange(7) + np.eye(5, 7))


def test_what_hangs_on_no_argument_stays_in_the_trace(mode: str) -> None:
    f = tw.jit(lambda x: (tw.arange(4), x + tw.arange(4)[1]))
    for turn in range(5):
        with tw.config(eager_bytes=0):
            pending = tw.full(3, float(turn)) * 1
        for x in (pending, tw.full((3, 2), float(turn))[:, 1]):
            steps, moved = f(x)
            assert steps.tolist() == [0, 1, 2, 3] and moved.tolist() == [turn + 1.0] * 3
            steps[0] = 9


@pytest.mark.parametrize("turns", [13, 30, 60])
def test_loops_that_roll(turns: int) -> None:
    def loop(x: Any, y: Any) -> Any:
        for i in range(turns):
            x = x * 0.5 + y * i
        return x

    f = tw.jit(loop)
    for seed in range(5):
        x, y = np.random.default_rng(seed).normal(size=(2, 50))
        np.testing.assert_array_equal(np.asarray(f(tw.asarray(x), tw.asarray(y))), loop(x, y))


def helper(x: Any) -> Any:
    return x


def test_attributes_of_functions_classes_and_records_may_change(mode: str) -> None:
    record = np.zeros(1, "f8,f8")[0]
    programs = (lambda x: x * helper.scale, lambda x: x * Pair.scale, lambda x: x * record["f0"])  # type: ignore[attr-defined]
    for f in map(tw.jit, programs):
        for scale in (2.0, 3.0):
            helper.scale = Pair.scale = record["f0"] = scale  # type: ignore[attr-defined]
            assert f(tw.ones(1)).tolist() == [scale]
    del helper.scale, Pair.scale  # type: ignore[attr-defined]


def test_results_that_are_read_only_and_floats_that_become_complex(mode: str) -> None:
    f = tw.jit(lambda x: tw.broadcast_to(x * 2, (3, 2)))
    root = tw.jit(lambda x, r: x * r**0.5)
    for _ in range(3):
        assert not f(tw.ones(2)).flags.writeable
        assert root(tw.ones(2), 4.0).tolist() == [2, 2]
        assert root(tw.ones(2), -4.0).tolist() == (np.ones(2) * (-4.0) ** 0.5).tolist()


@pytest.mark.parametrize("made", [["a", "bb"], np.zeros(2, [("x", "f8"), ("n", "i4")]), np.array([{}, None])])
def test_results_that_are_no_numbers_are_made_each_time(mode: str, made: Any) -> None:
    f = tw.jit(lambda x: (x + 1, tw.array(made)))
    for _ in range(4):
        number, other = f(tw.ones(2))
        assert number.tolist() == [2, 2]
        np.testing.assert_array_equal(np.asarray(other), np.asarray(made), strict=True)


@pytest.mark.parametrize("n", [40, 60_000])
def test_a_trace_is_what_rules_make_of_it(n: int) -> None:
    """Sums by key are one operator however they are written, also where masks would decide lengths on the way."""
    x = np.random.default_rng(5).normal(size=(n, 6))

    def masks(np: Any, x: Any) -> Any:
        keys = x.argmin(1)
        return np.stack([x[keys == k].mean(0) for k in range(6)])

    def columns(np: Any, x: Any) -> Any:
        keys = x.argmin(1)
        return np.stack([np.bincount(keys, weights=x[:, j], minlength=6) for j in range(6)], axis=1)

    for program in (masks, columns):
        f, want = tw.jit(program), program(np, x)
        for _ in range(4):
            np.testing.assert_allclose(np.asarray(f(tw, tw.asarray(x))), want)
        assert f.traces == 1 and len(next(iter(f._kept.values())).template.order) < 12
        with tw.config(rewrite=False), warnings.catch_warnings():
            warnings.simplefilter("ignore", tw.PerformanceWarning)  # masks decide lengths
            np.testing.assert_allclose(np.asarray(f(tw, tw.asarray(x))), want)
        assert f.traces == 2
        np.testing.assert_allclose(np.asarray(f(tw, tw.asarray(-x))), program(np, -x))


def test_results_of_a_length_that_masks_decide() -> None:
    f = tw.jit(lambda x: x[x > 0] * 2)
    for _ in range(3):
        assert f(tw.array([1.0, -1.0, 2.0])).tolist() == [2.0, 4.0]


def test_what_classes_in_functions_refer_to(mode: str) -> None:
    scale = 1.0

    def f(x: Any) -> Any:
        class Settings:
            factor = scale

        return x * Settings.factor

    g = tw.jit(f)
    for scale in (2.0, 3.0, 2.0):  # read by the class
        assert g(tw.ones(2)).tolist() == [scale, scale]


@pytest.mark.parametrize("look", [lambda: np.geterr()["divide"], lambda: geterr()["divide"]])
def test_what_numpy_says_of_itself_may_change(mode: str, look: Any) -> None:
    f = tw.jit(lambda x: x * (2 if look() == "ignore" else 3))
    for divide, want in (("ignore", 2), ("warn", 3), ("ignore", 2)):
        with np.errstate(divide=divide):  # type: ignore[call-overload]  # a str of any kind
            assert f(tw.ones(2)).tolist() == [want, want]


def test_attributes_that_a_function_sets(mode: str) -> None:
    def f(x: Any) -> Any:
        helper.last = x.shape  # type: ignore[attr-defined]  # mypy: functions have no such
        return x + 1

    g = tw.jit(f)
    for _ in range(4):
        helper.last = None  # type: ignore[attr-defined]
        assert g(tw.ones(2)).tolist() == [2, 2] and helper.last == (2,)  # type: ignore[attr-defined]
    del helper.last  # type: ignore[attr-defined]


def test_arrays_that_a_function_refers_to_stay_as_they_are_while_it_is_traced(mode: str) -> None:
    """Other threads may be reading them, and see no stand-ins."""
    table = tw.arange(6.0)
    total = tw.ones(3).sum()
    view = table[1:4]
    module = types.ModuleType("of_the_users")
    module.table, module.view = table, view  # type: ignore[attr-defined]  # an empty module
    seen: list[Any] = []

    def inner(x: Any, by: Any = view, *, more: Any = total) -> Any:
        return x * by + more + table[2:5] + module.view + module.table[3:]

    def reader() -> None:
        seen.append((np.asarray(table).tolist(), float(view[0]), float(total), np.asarray(view + 1.0).tolist()))

    with alongside(reader):
        for k in range(60):
            f = tw.jit(lambda x, k=k: inner(x) + view + k)
            want = np.arange(1.0, 4.0) + 3 + np.arange(2.0, 5.0) + np.arange(1.0, 4.0) * 2 + np.arange(3.0, 6.0) + k
            assert f(tw.ones(3)).tolist() == f(tw.ones(3)).tolist() == want.tolist()
    assert seen and all(s == ([0, 1, 2, 3, 4, 5], 1.0, 3.0, [2, 3, 4]) for s in seen)
    view[0] = 9.0
    assert f(tw.ones(3)).tolist() == (want + [24, 0, 0]).tolist()


def test_a_loop_without_source_is_not_unrolled_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy, "LONGEST_TRACE", 100)
    text = """
def solve(a):
    for i in range(len(a)):
        for j in range(len(a)):
            a[i] = a[i] + a[j] * 0.5
    return a
"""
    names: dict[str, Any] = {}
    exec(text, names)
    x = np.random.default_rng(0).uniform(size=12)
    with tw.config(eager_bytes=0), pytest.warns(tw.PerformanceWarning, match="loop of too many operations"):
        result = tw.jit(names["solve"])(tw.array(x))
        np.testing.assert_allclose(result, names["solve"](x.copy()), rtol=1e-12)
