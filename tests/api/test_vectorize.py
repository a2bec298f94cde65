"""tw.vectorize: NumPy's results and dtypes, whether the function is traced or not; and what is said if it is not."""

from __future__ import annotations

import math
import random
import re
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.conftest import Some
from tilewise import compiler

MODES = {"default": {"eager_bytes": 1 << 21}, "recorded": {"eager_bytes": 0}}
FACTOR = 3


def helper(x: Any) -> Any:
    return math.sqrt(abs(x)) + FACTOR


FUNCTIONS: list[Callable[..., Any]] = [
    lambda x: x * 2,
    lambda x: x + 1.5,
    lambda x: 2 - x,
    lambda x: -x,
    lambda x: abs(x),
    lambda x: x > 2,
    lambda x: (x > 1) + (x > 2),
    lambda x: (x > 1) & (x < 4),
    lambda x: ~(x > 1),
    lambda x: x / 3,
    lambda x: 7 // (x + 5),
    lambda x: x % 3,
    lambda x: divmod(x, 3),
    lambda x: x**2,
    lambda x: x**3,
    lambda x: 2.0 ** (x % 9),
    lambda x: max(x, 0),
    lambda x: max(x, 0.5) * 2.0,
    lambda x: min(x, 3, 2),
    lambda x: np.sqrt(x),
    lambda x: np.maximum(x, 2) + 1,
    lambda x: np.where(x > 1, x, 0.5),
    lambda x: np.clip(x, 0, 2),
    lambda x: math.sin(x),
    lambda x: math.atan2(x, 2) * x,
    lambda x: math.log(x + 7, 2),
    lambda x: math.isnan(x),
    lambda x: math.pi,
    lambda x: 3,
    lambda x: x,
    lambda x: (x, x * 2),
    lambda x: helper(x) * x,
    lambda x: sum([x, x, 1]),
    lambda x: [x * k for k in range(3)][2],
    lambda x: x if x > 1 else 2 * x,
    lambda x: int(x) + 1,
    lambda x: float(x),
    lambda x: round(x),
    lambda x: math.floor(x / 2),
    lambda x: 1 if 0 < x < 3 else 0,
    lambda x: {0: 5, 1: 6}.get(int(x), x),
    lambda x: complex(x, 1) * x,
    lambda x: x >> 1 if isinstance(x, int) else x,
]


def outcome(f: Callable[[], Any]) -> Any:
    """The arrays a call gives, or its exception."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            made = f()
            parts = made if isinstance(made, tuple) else (made,)
            return [p.compute() if type(p) is tw.Array else p for p in parts]
        except Exception as error:
            return error


def differ(expected: Any, got: Any) -> str | None:
    if isinstance(expected, Exception) or isinstance(got, Exception):
        return None if type(expected) is type(got) else f"{got!r}, not {expected!r}"
    for e, g in zip(expected, got, strict=True):
        if e.dtype != g.dtype or e.shape != g.shape:
            return f"{g.dtype}{g.shape}, not {e.dtype}{e.shape}"
        if e.dtype.kind not in "fc":
            same = e.tolist() == g.tolist()
        else:
            same = np.allclose(e, g, rtol=4 * float(np.finfo(e.dtype).eps), atol=0, equal_nan=True)
        if not same:
            return f"{g}, not {e}"
    return None


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", "?bhilBHILefdFD")
def test_numpys_results_and_dtypes(mode: str, dtype: str, some: Some) -> None:
    wrong = []
    for first in (-1, 2):
        x = (np.arange(6) * 3 % 7 + first).astype(dtype)
        for f in some(FUNCTIONS):
            expected = outcome(lambda f=f, x=x: np.vectorize(f)(x))  # type: ignore[misc]
            with tw.config(**MODES[mode]):
                got = outcome(lambda f=f, x=x: tw.vectorize(f)(tw.asarray(x)))  # type: ignore[misc]
            found = differ(expected, got)
            if found:
                wrong.append(f"line {f.__code__.co_firstlineno}: {found}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("mode", MODES)
def test_arguments_broadcast(mode: str) -> None:
    f = lambda a, b, c=2: a * b + c  # noqa: E731
    a, b = np.arange(3.0)[:, None], np.arange(4, dtype="i2")
    with tw.config(**MODES[mode]):
        for args in ((a, b), (a, 2), (2, 3), (a.T, [1, 2, 3]), (a, b, 0.5), (np.asfortranarray(a * b), b)):
            got = tw.vectorize(f)(*(tw.asarray(x) if isinstance(x, np.ndarray) else x for x in args))
            want = np.vectorize(f)(*args)
            assert (got.dtype, got.shape, type(got)) == (want.dtype, want.shape, tw.Array)
            assert got.flags.f_contiguous == want.flags.f_contiguous
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("mode", MODES)
def test_numpys_options(mode: str) -> None:
    x = np.arange(4.0)
    with tw.config(fallback="silent", **MODES[mode]):
        y = tw.asarray(x)
        assert tw.vectorize(lambda a: a + 1, otypes=["f4"])(y).dtype == np.float32
        assert tw.vectorize(lambda a: a + 1, otypes="i")(y).tolist() == [1, 2, 3, 4]
        assert tw.vectorize(lambda a: str(a), otypes=[str])(y).tolist() == ["0.0", "1.0", "2.0", "3.0"]
        assert tw.vectorize(lambda a, k: a * k, excluded=["k"])(y, k=3).tolist() == [0, 3, 6, 9]
        assert tw.vectorize(lambda r: r.sum(), signature="(n)->()")(y.reshape(2, 2)).tolist() == [1, 5]

        @tw.vectorize(otypes=[float])
        def doubled(a: Any) -> Any:
            "Twice."
            return 2 * a

        assert doubled(tw.arange(3)).dtype == np.float64 and doubled.__doc__ == "Twice."
        assert doubled(tw.zeros(0)).shape == (0,)
        with pytest.raises(ValueError, match="size 0"):
            tw.vectorize(lambda a: a)(tw.zeros(0))
        assert tw.vectorize(lambda a: a + 1)(tw.array(2.0)).shape == ()


def test_whole_numbers_of_any_size() -> None:
    """Python's ints do not overflow: a trace in 64 bits must not either."""
    x = np.array([1, 2**40, 2**62])
    scramble = lambda v: (v * 2654435761) % 2**32  # noqa: E731
    with tw.config(eager_bytes=0, fallback="silent"):
        assert tw.vectorize(scramble)(tw.asarray(x)).tolist() == np.vectorize(scramble)(x).tolist()
        big = np.array([2**64 - 1, 5], "u8")
        assert tw.vectorize(lambda v: v // 3)(tw.asarray(big)).tolist() == [(2**64 - 1) // 3, 1]
        with pytest.raises(OverflowError):
            tw.vectorize(lambda v: v * 2)(tw.asarray(np.array([1, 100], "i1"))).compute()
        with pytest.raises(ZeroDivisionError):
            tw.vectorize(lambda v: 6 // v)(tw.asarray(np.array([1, 0]))).compute()


@pytest.mark.parametrize("mode", MODES)
def test_functions_that_do_more_are_called_as_numpy_calls_them(mode: str) -> None:
    seen: list[Any] = []

    def noted(x: Any) -> Any:
        seen.append(type(x))
        return x * 2

    with tw.config(fallback="silent", **MODES[mode]):
        np.vectorize(noted)(np.arange(3.0))
        want = seen.copy()
        seen.clear()
        tw.vectorize(noted)(tw.arange(3.0))
        assert seen == want
        calls = np.zeros(1, int)

        def counted(x: Any) -> Any:
            calls[0] += 1
            return x * 2

        assert tw.vectorize(counted, otypes="d")(tw.arange(3.0)).tolist() == [0, 2, 4]
        assert calls.tolist() == [3]
        drawn = tw.vectorize(lambda x: x + random.random())(tw.zeros(50)).compute()
        assert len(set(drawn.tolist())) > 40
        drawn = tw.vectorize(lambda x: x + np.random.rand())(tw.zeros(50)).compute()
        assert len(set(drawn.tolist())) > 40

        def guarded(x: Any) -> Any:
            try:
                return 1.0 / x
            except ZeroDivisionError:
                return -1.0

        with np.errstate(divide="ignore"):  # of the first element, as a NumPy scalar
            assert tw.vectorize(guarded)(tw.arange(3.0)).tolist() == [-1.0, 1.0, 0.5]


def test_values_that_a_function_refers_to_may_change() -> None:
    global FACTOR
    k = 2.0

    def scaled(x: Any) -> Any:
        return x * k + FACTOR

    f = tw.vectorize(scaled)
    before = FACTOR
    with tw.config(eager_bytes=0):
        x = tw.arange(3.0)
        try:
            assert f(x).tolist() == [3, 5, 7]
            k = 10.0
            assert f(x).tolist() == [3, 13, 23]
            FACTOR = 5
            assert f(x).tolist() == [5, 15, 25]
        finally:
            FACTOR = before


def spelled(x: Any) -> Any:
    y = 2 * x
    z = y.hex()
    return float.fromhex(z)


def branching(x: Any) -> Any:
    y = x * 2
    if y > 1:
        return y
    return -y


@pytest.mark.parametrize(
    "f, construct, line",
    [
        (spelled, "the method hex of a number", spelled.__code__.co_firstlineno + 2),
        (lambda x: x + random.random(), "random", None),
        (lambda x: np.sort(x), r"a call of np\.sort", None),
        (lambda x: float(f"{x}"), "an f-string", None),
    ],
)
def test_what_cannot_be_compiled_is_said_with_its_line(f: Any, construct: str, line: int | None) -> None:
    line = line or f.__code__.co_firstlineno
    with tw.config(eager_bytes=0), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            tw.vectorize(f)(tw.arange(3.0))
        except Exception:
            assert f.__name__ == "<lambda>"  # NumPy fails as well: it has no such function of floats
    found = [w for w in caught if issubclass(w.category, tw.PerformanceWarning)]
    assert len(found) == 1 and found[0].filename == __file__
    text = str(found[0].message)
    assert "vectorize cannot compile" in text and "runs on NumPy tiles" in text
    assert f"{__file__}:{line}" in text
    assert re.search(construct, text), text


def test_small_work_and_silence() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tw.vectorize(branching)(tw.arange(3.0)).tolist() == [0, 2, 4]
        with tw.config(eager_bytes=0):
            assert tw.vectorize(branching)(tw.arange(3.0)).tolist() == [0, 2, 4]
        with tw.config(eager_bytes=0, fallback="silent"):
            assert tw.vectorize(spelled)(tw.arange(3.0)).tolist() == [0, 2, 4]
    with tw.config(eager_bytes=0, fallback="error"), pytest.raises(tw.FallbackError, match="hex"):
        tw.vectorize(spelled)(tw.arange(3.0))


def test_a_traced_function_shares_a_pass_and_another_is_shown_as_what_it_is() -> None:
    with tw.config(eager_bytes=0, fallback="silent"):
        x = tw.evaluate(tw.arange(1000.0))
        f = tw.vectorize(lambda a: math.exp(-a) * a + 1)
        plan = tw.explain((f(x) * 2 + x).sum())
        steps = [s for stage in plan.stages for s in stage.steps]
        assert [s.kind for s in steps] == ["pass"] and "exp" in steps[0].operators
        shown = tw.explain(tw.vectorize(branching)(x * 2) + 1)
        assert [s.kind for stage in shown.stages for s in stage.steps] == ["pass"]  # a branch is a selection
        assert "failing, compiled" in str(tw.explain(tw.vectorize(failing)(x * 2) + 1))
        assert "spelled on NumPy tiles" in str(tw.explain(tw.vectorize(spelled)(x * 2) + 1))


def test_a_function_made_anew_is_not_planned_anew() -> None:
    with tw.config(eager_bytes=0, fallback="silent"):
        x = tw.evaluate(tw.arange(100.0))
        counts = []
        for k in range(4):
            y = tw.vectorize(lambda a: a * 3.5 + math.sin(a))(x)
            z = tw.vectorize(lambda a, k=k + 2.5: a * k)(y)
            w = tw.vectorize(lambda a: a if a > 1 else -a)(z)
            tw.compute(w)
            counts.append(compiler.planned_count)
        assert len(set(counts[1:])) == 1


def failing(x: Any) -> Any:
    if x > 1:
        raise KeyError("too large")
    return x


@pytest.mark.parametrize("mode", MODES)
def test_an_exception_shows_the_users_line(mode: str) -> None:
    with tw.config(fallback="silent", **MODES[mode]), pytest.raises(KeyError, match="too large") as caught:
        tw.vectorize(failing)(tw.arange(5.0)).compute()
    lines = traceback.extract_tb(caught.value.__traceback__)
    assert any(f.filename == __file__ and f.name == "failing" for f in lines)
    if mode == "recorded":
        assert any("failing, compiled" in note and __file__ in note for note in caught.value.__notes__)


def test_pending_arguments_stay_pending() -> None:
    with tw.config(eager_bytes=0):
        calls = []
        x = tw.arange(5.0) * 2
        with tw.profile() as seen:
            calls.append(tw.vectorize(lambda a: a * 3 + 1)(x))
        assert not seen.kernels
        assert calls[0].tolist() == [1, 7, 13, 19, 25]


def test_where_python_would_raise_there_is_what_numpys_functions_give() -> None:
    """The one difference to NumPy's vectorize, and the same for all sizes (docs/user-functions.md)."""
    for settings in MODES.values():
        with tw.config(**settings):
            x = tw.asarray(np.array([0.0, -1.0, 4.0]))
            with np.errstate(all="ignore"):
                assert tw.vectorize(lambda a: 1 / a)(x).tolist() == [np.inf, -1.0, 0.25]
                np.testing.assert_array_equal(tw.vectorize(math.sqrt)(x), [0.0, np.nan, 2.0])
                assert tw.vectorize(lambda a: math.exp(a * 1000))(x).tolist() == [1.0, 0.0, np.inf]


def test_numpys_error_state_that_raises() -> None:
    with np.errstate(all="raise"), tw.config(eager_bytes=0, fallback="silent"), pytest.raises(FloatingPointError):
        tw.vectorize(lambda a: np.log(a))(tw.zeros(3))


@pytest.mark.parametrize("mode", MODES)
def test_functions_that_write_to_ndarrays_are_called_for_each_element(mode: str) -> None:
    calls = np.zeros(1)

    def counted(a: float) -> float:
        calls[0] += 1
        return a * 2

    with tw.config(fallback="silent", **MODES[mode]):
        made = tw.vectorize(counted)(tw.arange(5.0))
        assert calls[0] == 6  # now, one of them for the dtype, as NumPy does
        assert made.tolist() == [0, 2, 4, 6, 8]


@pytest.mark.parametrize("mode", MODES)
def test_roots_tuples_of_one_and_numbers_are_pythons(mode: str) -> None:
    with tw.config(fallback="silent", **MODES[mode]):
        for x in (np.array([-0.0, -np.inf, 4.0]), np.array(-np.inf)):
            got = np.asarray(tw.vectorize(lambda a: a**0.5)(tw.asarray(x)))
            np.testing.assert_array_equal(got, np.vectorize(lambda a: a**0.5)(x))
            assert not np.signbit(got).any()
        truth = np.array([False, True])
        one = np.vectorize(lambda a: (a,))(truth)  # the tuple is true
        np.testing.assert_array_equal(tw.vectorize(lambda a: (a,))(tw.asarray(truth)), one)
        number = np.vectorize(lambda a: ~(a > 0))(np.array(2.5))  # -2, as a boolean
        assert bool(tw.vectorize(lambda a: ~(a > 0))(tw.asarray(np.array(2.5)))) == bool(number)
