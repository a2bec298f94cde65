"""Large calls of tw.jit: they run their own plan where results are asked for as they are, else they are recorded."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.engine.test_halos import thrice
from tilewise.array.pending import PENDING
from tilewise.array.schedule.deferred import Call
from tilewise.backend.llvm.tiles.group import Group
from tilewise.backend.llvm.tiles.tuning import Trials, Turn
from tilewise.backend.llvm.tiles.tuning_records import FACTORS

pytestmark = pytest.mark.usefixtures("no_plans")
N = 400_000  # more than eager_bytes


def scaled(x: Any, y: Any) -> Any:
    return (2.0 * x + y).reshape(400, 1000).T


def given() -> tuple[tw.Array, tw.Array]:
    return tw.asarray(np.linspace(-1, 1, N)), tw.asarray(np.linspace(3, 4, N))


def recorded(x: Any) -> bool:
    return x._cell.node is not None


def asked(f: Callable[..., Any], times: int) -> None:
    """Calls whose results are asked for alone."""
    for _ in range(times):
        tw.evaluate(f(*given()))


def deferred(x: Any) -> bool:
    return recorded(x) and type(x._cell.node.op) is Call


def test_results_that_are_asked_for_alone_are_never_recorded() -> None:
    f = tw.jit(scaled)
    pair = given()
    want = scaled(*map(np.asarray, pair))
    for _ in range(5):
        result = f(*pair)
        assert deferred(result)
        np.testing.assert_array_equal(np.asarray(result), want)
        assert np.asarray(result).strides == want.strides and not recorded(result)
        assert id(result._cell) not in PENDING


def test_results_have_memory_of_their_own() -> None:
    f = tw.jit(scaled)
    pair = given()
    one, two = f(*pair), f(*pair)
    assert deferred(one) and deferred(two)
    one[0] = 7.0
    pair[0][:] = 0.0
    np.testing.assert_array_equal(np.asarray(two), scaled(np.linspace(-1, 1, N), np.asarray(pair[1])))
    assert (np.asarray(one)[0] == 7.0).all() and (np.asarray(one)[1:] == np.asarray(two)[1:]).all()


def test_results_that_others_read_are_recorded() -> None:
    f = tw.jit(scaled)
    pair = given()
    for _ in range(5):
        result = f(*pair)
        assert deferred(result)
        total = (result * 3.0).sum()
        assert recorded(result) and not deferred(result)
        float(total)


def test_what_is_done_with_results_hangs_on_no_call_before() -> None:
    """A sum over what a call gives shares its pass, however often results were asked for as they are."""
    f = tw.jit(lambda x, y: np.exp(x) * y)
    pair = given()
    first = float(f(*pair).sum())
    asked(f, 4)
    assert float(f(*pair).sum()) == first


def test_arrays_that_are_views_of_results() -> None:
    f = tw.jit(scaled)
    pair = given()
    want = scaled(*map(np.asarray, pair))
    result = f(*pair)
    part = result[3:5]
    assert deferred(result)
    np.testing.assert_array_equal(np.asarray(part + 1.0), want[3:5] + 1.0)
    np.testing.assert_array_equal(np.asarray(result), want)


def test_results_of_nobody() -> None:
    f = tw.jit(scaled)
    f(*given())
    gc.collect()
    np.testing.assert_array_equal(np.asarray(f(*given())), scaled(*map(np.asarray, given())))


def test_part_of_the_results_is_not_all_of_them() -> None:
    f = tw.jit(lambda x, y: (x * 2.0, np.sin(y)))
    pair = given()
    for _ in range(5):
        first, second = f(*pair)
        assert recorded(first) and recorded(second)
        np.testing.assert_array_equal(np.asarray(first), 2.0 * np.asarray(pair[0]))


def test_several_results_asked_for_together() -> None:
    f = tw.jit(lambda x, y: {"a": x * 2.0, "b": (y * y).sum()})
    pair = given()
    for _ in range(5):
        made = f(*pair)
        assert deferred(made["a"])
        tw.evaluate(made["a"], made["b"])
        np.testing.assert_array_equal(np.asarray(made["a"]), 2.0 * np.asarray(pair[0]))
        assert float(made["b"]) == pytest.approx(float((np.asarray(pair[1]) ** 2).sum()), rel=1e-13)


def test_floats_and_pending_arguments() -> None:
    f = tw.jit(lambda x, rate: x - rate * (x - 3.0))
    x = given()[0]
    for k in range(5):
        made = f(x, 0.5 + k)
        np.testing.assert_allclose(np.asarray(made), np.asarray(x) - (0.5 + k) * (np.asarray(x) - 3.0), rtol=1e-14)
    later = f(x + 1.0, 0.5)  # its argument is not known
    assert recorded(later)
    np.testing.assert_allclose(np.asarray(later), np.asarray(x) + 1 - 0.5 * (np.asarray(x) - 2.0), rtol=1e-13)


def test_nothing_at_once_where_that_was_asked_for() -> None:
    f = tw.jit(scaled)
    with tw.config(eager_bytes=0):
        asked(f, 4)
        assert recorded(f(*given()))


def test_listeners_hear_of_calls() -> None:
    f = tw.jit(scaled)
    asked(f, 3)
    with tw.profile() as seen:
        np.asarray(f(*given()))
    assert "multiply" in str(seen) or "add" in str(seen)


def test_errors_leave_arguments_as_they_are() -> None:
    f = tw.jit(lambda x, i: np.take(x * 2.0, i))
    x, good, bad = given()[0], tw.asarray(np.arange(N)), tw.asarray(np.full(N, N))
    asked_good = [np.asarray(f(x, good)) for _ in range(4)]
    np.testing.assert_array_equal(asked_good[-1], 2.0 * np.asarray(x))
    with pytest.raises(IndexError):
        np.asarray(f(x, bad))
    np.testing.assert_array_equal(np.asarray(x), np.linspace(-1, 1, N))
    np.testing.assert_array_equal(np.asarray(f(x, good)), 2.0 * np.asarray(x))


def test_a_write_after_the_call() -> None:
    f = tw.jit(lambda x: x * 2.0)
    for _ in range(4):
        x = tw.asarray(np.ones(N))
        made = f(x)
        x += 1.0
        np.testing.assert_array_equal(np.asarray(made), np.full(N, 2.0))
        np.testing.assert_array_equal(np.asarray(x), np.full(N, 2.0))


def test_small_arguments_that_another_thread_writes_to_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at the arguments and the run, an argument may become pending."""
    f = tw.jit(lambda x: x * 2.0)
    x = tw.asarray(np.ones(1000))
    for _ in range(4):
        tw.evaluate(f(x))
    plan = f._previous
    assert plan is not None
    look = type(plan).small

    def late(self: Any, inputs: Any) -> bool:
        found = look(self, inputs)
        with tw.config(eager_bytes=0):
            x.__iadd__(1.0)
        return found

    monkeypatch.setattr(type(plan), "small", late)
    f._latest = None
    np.testing.assert_array_equal(np.asarray(f(x)), np.full(1000, 4.0))


@pytest.mark.parametrize("how", ["session", "compare", "memory"])
def test_asked_for_elsewhere(how: str) -> None:
    """A call whose results are asked for under other settings, or in a session, is recorded there."""
    f, pair = tw.jit(scaled), given()
    result, want = f(*pair), scaled(*map(np.asarray, pair))
    if how == "compare":
        with tw.config(compare=True):
            np.testing.assert_array_equal(np.asarray(result), want)
    elif how == "memory":
        with tw.session(memory=256 << 20):
            np.testing.assert_array_equal(np.asarray(result), want)
    else:
        with tw.session(engine="virtual", workers=2):
            np.testing.assert_array_equal(np.asarray(result + 0.0), want)


def test_without_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with tw.config(eager_bytes=0):
        np.asarray(tw.ones(5) + 1)
        monkeypatch.setattr("sys.stderr", None)
        np.testing.assert_array_equal(np.asarray(tw.ones(5) + 1), np.full(5, 2.0))


def test_tiles_are_laid_out_again_while_calls_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call like the last one may be the first to try tiles of another length."""

    x = np.random.default_rng(0).random((700, 800))
    f, given = tw.jit(lambda x: thrice(np, x)), tw.asarray(x)
    for _ in range(6):
        tw.evaluate(f(given))
    assert f._latest is not None and f._previous is not None and f._previous.bound is not None
    groups = [kernel for _, kernel, _ in f._previous.bound[1].bound.steps if isinstance(kernel, Group)]
    choices = [choice for group in groups for choice in group.plans.values() if choice is not None]
    assert choices and all(choice.trials is not None for choice in choices)
    for choice in choices:
        choice.others.clear()
    monkeypatch.setattr(Trials, "over", None)
    monkeypatch.setattr(Trials, "begin", lambda _: Turn(FACTORS[0], 0, timed=False))
    np.testing.assert_allclose(np.asarray(f(given)), thrice(np, x), rtol=1e-9, atol=1e-12)
    assert all(FACTORS[0] in choice.others for choice in choices)


def moments(x: Any) -> Any:
    return x.sum(), {"squares": (x * x).reshape(400, -1).sum(1), "doubled": x * 2}


def test_results_of_a_call_are_computed_together() -> None:
    f, (x, _) = tw.jit(moments), given()
    total, rest = f(x)
    assert recorded(total) and all(map(recorded, rest.values()))
    assert float(total) == pytest.approx(0, abs=1e-6)
    assert not recorded(rest["squares"]) and recorded(rest["doubled"])  # which is large
    total, rest = f(x)
    np.asarray(rest["doubled"])
    assert not recorded(total) and not recorded(rest["squares"])


def test_large_results_that_share_most_of_their_work_are_computed_together() -> None:
    def both(x: Any) -> Any:
        wave = np.exp(np.sin(x) * np.log(x + 3))
        return wave - x, wave * 2, np.cos(wave)

    f, (x, _) = tw.jit(both), given()
    first, second, third = f(x)
    found = np.asarray(second)
    assert not recorded(first) and recorded(third)  # which takes a function more
    want = both(np.asarray(x))
    np.testing.assert_allclose(found, want[1], rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(first, want[0], rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(third, want[2], rtol=1e-14, atol=1e-14)


def test_fields_that_a_loop_updates_are_computed_together() -> None:
    def steps(e: Any, h: Any) -> Any:
        e, h = e.copy(), h.copy()
        for _ in range(6):
            e[1:] -= 0.5 * (h[1:] - h[:-1])
            h[:-1] -= 0.5 * (e[1:] - e[:-1])
        return e, h

    f, (x, y) = tw.jit(steps), given()
    want = steps(np.asarray(x), np.asarray(y))
    for asked_first in (1, 0, 1):
        found = f(x, y)
        np.testing.assert_array_equal(found[asked_first], want[asked_first])
        assert not recorded(found[1 - asked_first])
        np.testing.assert_array_equal(found[1 - asked_first], want[1 - asked_first])


def test_results_that_changed_since_the_call_are_left_alone() -> None:
    f, (x, _) = tw.jit(moments), given()
    total, rest = f(x)
    before = float(rest["squares"][1])
    total, rest = f(x)
    rest["squares"][0] = 7
    float(total)
    assert recorded(rest["squares"]) and rest["squares"][:2].tolist() == [7, before]


def test_results_that_nobody_has_are_not_computed() -> None:
    f, (x, _) = tw.jit(moments), given()
    total = f(x)[0]
    with tw.profile() as seen:
        float(total)
    assert "multiply" not in str(seen)


def test_results_that_take_long_or_much_memory_are_not_computed_beside_others() -> None:
    def costly(x: Any) -> Any:
        square = x.reshape(200, 2000)
        return x.sum(), (square @ square.T).sum(), (x[:2000, None] * x[None, :2000]).sum(0)[:3]

    f, (x, _) = tw.jit(costly), given()
    total, product, outer = f(x)
    float(total)
    assert recorded(product) and recorded(outer)
    with tw.session(memory=64 << 20):
        total, rest = tw.jit(moments)(tw.asarray(np.linspace(-1, 1, N)))
        float(total)
        assert recorded(rest["squares"])
