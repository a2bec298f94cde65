"""A loop plans and compiles in its first turns only: scalars, slice bounds and buffers are no part of a plan's key.

(The scalars 0, 1, -1 and 2 are: the compiler simplifies with them. These loops avoid them.)
"""

import gc
import weakref
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tilewise import compiler
from tilewise.array.handle import from_node
from tilewise.array.pending import PENDING
from tilewise.array.record import record
from tilewise.array.schedule import loop_flush as loops
from tilewise.array.schedule import sites
from tilewise.backend import llvm
from tilewise.ir.node import numbered
from tilewise.ops.const import Const, const

pytestmark = pytest.mark.usefixtures("no_plans")
TURNS = 12
Loop = Callable[[Any, int, Any], Any]


@pytest.fixture(autouse=True)
def nothing_before() -> None:
    """What other tests have left pending would be evaluated with a loop, and shift where its chunks begin."""
    gc.collect()
    PENDING.clear()
    sites._spots.clear()
    loops.forget_places()


def scale(np: Any, k: int, x: Any) -> Any:
    return x * (0.905 + k / 100) + (0.3 + k / 7.1)


def three(np: Any, k: int, x: Any) -> Any:
    y = x * (1.5 + k)
    z = y - x / (2.5 + k)
    return z * 0.25 + y * 0.1


def shrinking(np: Any, k: int, A: Any) -> Any:
    """The updates of an LU factorisation."""
    A[k + 1 :, k] /= A[k, k]
    A[k + 1 :, k + 1 :] -= A[k + 1 :, k : k + 1] * A[k : k + 1, k + 1 :]
    return A


def window(np: Any, k: int, x: Any) -> Any:
    """A window that slides."""
    x[k : k + 8] = x[k + 1 : k + 9] * 0.5 + 0.25
    return x


def alternate(np: Any, k: int, pair: Any) -> Any:
    """Two arrays that take turns."""
    A, B = pair
    B[1:-1, 1:-1] = 0.25 * (A[1:-1, :-2] + A[1:-1, 2:] + A[:-2, 1:-1] + A[2:, 1:-1])
    return B, A


def sweep(np: Any, k: int, A: Any) -> Any:
    """Updates of a part that share their tiles."""
    A[1:-1, 1:-1] = (0.25 - k / 1000) * (A[1:-1, :-2] + A[1:-1, 2:] + A[:-2, 1:-1] + A[2:, 1:-1])
    return A


def masked(np: Any, k: int, x: Any) -> Any:
    x[x > 3.0 + k / 10] = 0.5 + k
    return np.where(x < 0.3 + k / 50, x * 1.1, x)


def reduced(np: Any, k: int, x: Any) -> Any:
    return x / (x.sum() + (3.5 + k)) + x.max() * (0.3 + k)


def rows(np: Any, k: int, A: Any) -> Any:
    A[k] = A[k + 1] * (0.2 + k) + A[k]
    return A


def matrix(n: int = 40) -> Any:
    return np.random.default_rng(0).random((n, n)) + n * np.eye(n)


def vector(n: int = 100) -> Any:
    return np.random.default_rng(1).random(n) * 5


IMAGE = vector(1000)


def gathered(np: Any, k: int, acc: Any) -> Any:
    """A sum of windows of a known array."""
    image = tw.array(IMAGE) if np is tw else IMAGE
    return acc + image[k + 1 : k + 101] * (0.3 + k / 7.1)


def gathered_in_place(np: Any, k: int, acc: Any) -> Any:
    image = tw.array(IMAGE) if np is tw else IMAGE
    acc += image[k + 1 : k + 101] * (0.3 + k / 7.1)
    return acc


def chosen(np: Any, k: int, pair: Any) -> Any:
    """Two arrays that hang on each other, with a cast."""
    x, count = pair
    going = x < 4.5
    return np.where(going, x * (1.01 + k / 1000), x), count + going


ELEMENTWISE: list[tuple[Loop, Callable[[], Any]]] = [
    (scale, vector),
    (three, vector),
    (gathered, vector),
    (gathered_in_place, vector),
    (chosen, lambda: (vector(), vector())),
    (sweep, matrix),
    (alternate, lambda: (matrix(), matrix())),
]
LOOPS: list[tuple[Loop, Callable[[], Any]]] = [
    (shrinking, matrix),
    (window, vector),
    (masked, vector),
    (reduced, vector),
    (rows, matrix),
]


def plain(value: Any) -> Any:
    return [np.array(v) for v in value] if isinstance(value, tuple) else [np.array(value)]


@pytest.mark.parametrize("forced", [False, True], ids=["flushed", "forced"])
@pytest.mark.parametrize(("turn", "start"), LOOPS, ids=[loop.__name__ for loop, _ in LOOPS])
def test_a_loop_plans_and_compiles_in_its_first_turns_only(turn: Loop, start: Callable[[], Any], forced: bool) -> None:
    counts = []
    with tw.config(eager_bytes=0, fallback="silent"):
        made = start()
        state: Any = tuple(tw.array(a) for a in made) if isinstance(made, tuple) else tw.array(made)
        expected = tuple(a.copy() for a in made) if isinstance(made, tuple) else made.copy()
        for k in range(TURNS):
            state = turn(tw, k, state)
            expected = turn(np, k, expected)
            if forced:
                tw.evaluate(*(state if isinstance(state, tuple) else (state,)))
            counts.append((compiler.planned_count, llvm.compiled_count()))
        # Without a force, a turn is evaluated when the next repeats it.
        assert len(set(counts[1 if forced else 2 :])) == 1, counts
        for got, want in zip(plain(state), plain(expected), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12)


def run(turn: Loop, made: Any, turns: int) -> tuple[Any, list[tuple[int, int, int]]]:
    """The state after a loop; where the last flush was, plans and kernels after each turn."""
    counts = []
    state: Any = tuple(tw.array(a) for a in made) if isinstance(made, tuple) else tw.array(made)
    for k in range(turns):
        state = turn(tw, k, state)
        counts.append((loops.pending.began, compiler.planned_count, llvm.compiled_count()))
    return state, counts


@pytest.mark.parametrize(("turn", "start"), ELEMENTWISE, ids=[loop.__name__ for loop, _ in ELEMENTWISE])
def test_an_elementwise_loop_goes_on_for_several_turns(
    turn: Loop, start: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = 150
    monkeypatch.setattr(loops, "ROLLED", loops.LONGEST)
    with tw.config(eager_bytes=0, fallback="silent"):
        made = start()
        expected = tuple(a.copy() for a in made) if isinstance(made, tuple) else made.copy()
        for k in range(turns):
            expected = turn(np, k, expected)
        got, counts = run(turn, made, turns)
        flushes = list(dict.fromkeys(c[0] for c in counts))[1:]
        assert 4 <= len(flushes) <= turns / 5, flushes
        lengths = {b - a for a, b in pairwise(flushes)}
        assert len(lengths) == 1 and lengths.pop() <= loops.LONGEST  # always at the same point of the body
        second = next(i for i, c in enumerate(counts) if c[0] == flushes[1])
        assert len({c[1:] for c in counts[second:]}) == 1, counts
        for g, want in zip(plain(got), plain(expected), strict=True):
            np.testing.assert_allclose(g, want, rtol=1e-12)
        before = compiler.planned_count, llvm.compiled_count()
        plain(run(turn, made, turns)[0])
        assert (compiler.planned_count, llvm.compiled_count()) == before


def test_loops_that_only_copy_come_to_an_end() -> None:
    with tw.config(eager_bytes=0, fallback="silent"):
        x, want, most = tw.array(vector()), vector(), 0
        for _ in range(300):
            x[1:] = x[:-1]
            want[1:] = want[:-1]
            node = x._cell.node
            most = max(most, 0 if node is None else len(numbered([node])))
            del node
        assert 3 < most < 100
        np.testing.assert_array_equal(np.asarray(x), want)


def test_a_loop_does_not_keep_large_inputs_alive() -> None:
    """What each turn reads and nobody else has is not held until the end of a long kernel."""
    size = loops.HELD_BYTES // 8 // 4
    gone: list[weakref.ref[Any]] = []
    alive = []
    with tw.config(fallback="silent"):
        acc = tw.zeros(size)
        for k in range(24):
            part = tw.array(np.full(size, 0.5 + k))
            gone.append(weakref.ref(part._cell.buf))
            acc = acc + part
            del part
            alive.append(sum(g() is not None for g in gone))
        assert max(alive) <= 7, alive
        assert acc[3] == sum(0.5 + k for k in range(24))


def test_a_short_loop_in_another_ends_planning() -> None:
    """Chunks that begin in ever other turns of an inner loop: after some tries, each turn is flushed."""
    with tw.config(eager_bytes=0, fallback="silent"):
        x = tw.array(vector())
        counts = []
        for outer in range(60):
            for k in range(13):
                x = x * (0.9 + k / 100) + 0.3
            x = np.sqrt(x) * (0.7 + outer)
            counts.append(compiler.planned_count)
        assert len(set(counts[40:])) == 1, counts


def test_reading_slots_of_an_array_stays_quick() -> None:
    """CPython reads slots of a class with __getattr__ four times slower: every small operation would feel it."""
    assert not {"__getattr__", "__getattribute__", "__setattr__"} & set(vars(tw.Array))


def test_selected_rows_are_planned_by_the_sizes_they_have() -> None:
    """A value whose length a mask named has a number there once it is known."""
    a = np.arange(-3, 6, dtype=np.int8).reshape(3, 3)

    def program(np: Any, x: Any) -> Any:
        total = x[(x > 0)[:, 0]].sum(0)
        return x[(x > 0)[:, 0]] * 2 + total[(x > 0)[:, 0]]

    with tw.config(eager_bytes=0):
        np.testing.assert_array_equal(program(tw, tw.asarray(a, order="F")), program(np, a))


def test_numbers_that_are_recorded_belong_to_no_loop():
    """A constant outlives the places that are known when it is recorded: it must not stand for others later."""
    with tw.config(eager_bytes=0):
        two = const(np.float64(2.0))
        made = [record(two) for _ in range(3)]
        assert two.trail == 0 and two.site is not None
        assert [float(x) for x in made] == [2.0] * 3


def test_constants_stay_constants() -> None:
    with tw.config(eager_bytes=0):
        x = tw.array([1.0, 2.0, 3.0])
        first = tw.explain(x * 2).steps_text()
        node = const(np.float64(2.0))
        held = [node, x * 2]
        assert float(from_node(node)) == 2.0  # others hang on it, but it is theirs as it is
        assert isinstance(node.op, Const) and tw.explain(x * 2).steps_text() == first and held
