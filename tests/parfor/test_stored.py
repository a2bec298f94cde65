"""What a loop stores: values and identities are the plain loop's in each mode, or the loop is dependent."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tilewise as tw

N = 6
MODES = (None, "threads", "processes")
SETUP = f"""
import functools
import numpy as np
N = {N}
x = np.arange(1.0, N + 1)
found, cells, rows, best = np.zeros(3), [None] * N, np.zeros((N, 3)), 0.0
lists, tables = [[] for _ in range(N)], [{{}} for _ in range(N)]
class Box: pass
boxes = [Box() for _ in range(N)]
def put(k, v): cells[k] = [v]
def later(v): return lambda: v
def plus(v): return v + best
"""

DEPENDENT = """
cells[i] = [found]; found += x[i]
found += x[i]; cells[i] = {"a": (found,)}
t = (found,); u = [t]; found += x[i]; cells[i] = u
found[i % 3] += x[i]; cells[i] = [found.reshape(3, 1)]
found[i % 3] = max(found[i % 3], x[i]); cells[i] = [found[1:]]
found += x[i]; cells[i] = found.sum
found += x[i]; cells[i] = lambda: found
found[0] += x[i]; cells[i] = lambda: found
found += x[i]; cells[i] = later(found)
found += x[i]; put(i, found)
found += x[i]; lists[i].append([found])
found += x[i]; tables[i].update(a=[found])
found += x[i]; boxes[i].kept = [found]
best += x[i]; cells[i] = [best]
best += x[i]; cells[i] = lambda: best
t = x[i]; cells[i] = lambda: t
t = x[i]; cells[i] = [lambda v: v + t]
t = x[i]; cells[i] = map(lambda v: v + t, rows)
t = x[i]; cells[i] = (v + t for v in range(3))
cells[i] = lambda: i
t = list(map(lambda v: found, range(1))); t[0][0] = i
best += x[i]; cells[i] = plus(1)
"""

INDEPENDENT = """
r = np.full(3, x[i]); found += r; cells[i] = [r]
t = [found]; found += x[i]; cells[i] = i
found += rows[i]; cells[i] = [rows[i], i]
cells[i] = [rows]; rows[i] = x[i]
t = x[i]; f = lambda v: v + t; cells[i] = [f(1)]
t = x[i]; cells[i] = sorted(range(4), key=lambda v: -v * t)
t = x[i]; cells[i] = [max(v * t for v in range(3)), sum(v * t for v in range(3)), list(map(lambda v: v * t, [1, 2]))]
t = x[i]; cells[i] = np.apply_along_axis(lambda v: v * t, 0, rows)
t = x[i]; lists[i].extend(v * t for v in range(3))
cells[i] = lambda v=x[i]: v
cells[i] = later(x[i])
cells[i] = lambda: N
s = np.zeros(2); s += x[i]; cells[i] = [s]
best += x[i]; boxes[i].kept = [x[i]]
"""


def _loop(text: str) -> str:
    return f"for i in parfor(N): {text}"


@pytest.mark.parametrize("text", DEPENDENT.strip().split("\n"))
def test_dependent(text: str) -> None:
    (verdict,) = tw.parfor.analyse(_loop(text), SETUP)
    assert not verdict.independent and verdict.variable is not None


@pytest.mark.parametrize("text", INDEPENDENT.strip().split("\n"))
def test_independent(text: str) -> None:
    (verdict,) = tw.parfor.analyse(_loop(text), SETUP)
    assert verdict.independent, str(verdict)


def test_the_error_says_where() -> None:
    verdict = tw.parfor.analyse("for i in parfor(N):\n  found += x[i]\n  cells[i] = [found]", SETUP)[0]
    assert (verdict.variable, verdict.test, verdict.why) == ("found", "stored", "it is accumulated, and stored")
    assert verdict.accesses == ((2, "found += x[i]"), (3, "cells[i] = [found]"))
    verdict = tw.parfor.analyse("for i in parfor(N):\n  t = x[i]\n  cells[i] = lambda: t", SETUP)[0]
    assert (verdict.variable, verdict.test) == ("t", "stored") and "a function that is stored" in verdict.why


def test_functions_around_the_loop_read_what_it_accumulates() -> None:
    def outer(x: Any) -> Any:
        total, out = 0.0, np.zeros(len(x))

        def so_far() -> float:
            return total

        def twice() -> float:
            return 2 * so_far()

        for i in tw.parfor(range(len(x)), workers=2):
            out[i] = twice()
            total += x[i]
        return out

    with pytest.raises(tw.ParforError, match="so_far reads it, and the loop assigns to it"):
        tw.parallel(outer)(np.ones(4))


# -- identities --------------------------------------------------------------------------------------------------------

HELD = [np.ones(3)]


def _held() -> Any:
    return HELD


class Model:
    def __init__(self, weights: Any) -> None:
        self.weights = weights


def of_results(x: Any, mode: Any) -> Any:
    cells: list[Any] = [None] * N
    rows = np.zeros((N, 3))
    for i in tw.parfor(range(N), mode=mode, workers=2):
        rows[i] = x[i]
        cells[i] = [rows, rows[i], rows.T, rows[::-1, 1:], rows[:0]]
    return cells, rows


def in_fortran_order(x: Any, mode: Any) -> Any:
    cells: list[Any] = [None] * N
    rows = np.zeros((N, 3), order="F")
    for i in tw.parfor(range(N), mode=mode, workers=2):
        rows[i] = x[i]
        cells[i] = [rows[i], rows[:, 0], rows[i:, ::2]]
    return cells, rows


def of_inputs(x: Any, mode: Any) -> Any:
    cells: list[Any] = [None] * N
    part, model = x[::-1], Model(x[1:])
    for i in tw.parfor(range(N), mode=mode, workers=2):
        cells[i] = (x[i:], part[i:], x[i, ...], model, model.weights[:2], _held(), _held()[0][1:])
    return cells, x, part, model, HELD


def of_new_arrays(x: Any, mode: Any) -> Any:
    cells: list[Any] = [None] * N
    others: list[Any] = [None] * N
    table = {}
    for i in tw.parfor(range(N), mode=mode, workers=2):
        t = np.full((2, 4), x[i])
        cells[i] = t
        others[i] = [t[0], t.T[1:], t]
        table[i] = np.arange(5.0)[1:3]
    return cells, others, table


def of_other_kinds(x: Any, mode: Any) -> Any:
    things = np.array([[None, [1]]] * N, dtype=object)
    pairs = np.zeros(N, dtype=[("a", "f8"), ("b", "i4")])
    matrix, when = np.ones((N, 2)).view(np.matrix), np.arange(N).astype("M8[s]")
    raw = np.frombuffer(bytearray(8 * N))
    fixed = np.arange(float(N))
    fixed.flags.writeable = False
    cells: list[Any] = [None] * N
    for i in tw.parfor(range(N), mode=mode, workers=2):
        cells[i] = [things[i], pairs["b"][i:], matrix[i], when[i:], raw[i:], fixed[i:]]
    return cells, things, pairs, matrix, when, raw, fixed


def of_lists_of_arrays(x: Any, mode: Any) -> Any:
    cells: list[Any] = [None] * N
    rows = [np.ones(2) for _ in range(N)]
    for i in tw.parfor(range(N), mode=mode, workers=2):
        rows[i][:] = x[i]
        cells[i] = rows[i][:1]
    return cells, rows


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """What can be reached, by its path; arrays of objects as what they are and what they hold."""
    yield path, value
    if isinstance(value, list | tuple):
        inner: Any = enumerate(value)
    elif isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, Model):
        inner = vars(value).items()
    else:
        inner = enumerate(value.ravel().tolist()) if isinstance(value, np.ndarray) and value.dtype.hasobject else ()
    for key, x in inner:
        yield from _leaves(x, (*path, key))


def _seen(value: Any) -> Any:
    """Values, and which paths lead to the same object or memory."""
    leaves = [(p, x) for p, x in _leaves(value) if not isinstance(x, int | float | str | type(None))]
    shown = [(p, type(x).__name__, x.tolist() if isinstance(x, np.ndarray) else 0) for p, x in leaves]
    flags = [(p, x.dtype, x.flags.writeable) for p, x in leaves if isinstance(x, np.ndarray)]
    same = {(p, q) for p, x in leaves for q, y in leaves if x is y}
    arrays = [(p, x) for p, x in leaves if isinstance(x, np.ndarray)]
    return shown, flags, same, {(p, q) for p, x in arrays for q, y in arrays if np.shares_memory(x, y)}


PROGRAMS: list[Callable[..., Any]] = [
    of_results,
    in_fortran_order,
    of_inputs,
    of_new_arrays,
    of_other_kinds,
    of_lists_of_arrays,
]


@functools.cache
def _expected(program: Callable[..., Any]) -> Any:
    return _seen(program(np.arange(1.0, N + 1), None))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_identities(program: Callable[..., Any], mode: str | None) -> None:
    if program is of_new_arrays and mode == "threads":
        with pytest.raises(tw.ParforError, match="a dict as a result"):
            tw.parallel(program)(np.arange(1.0, N + 1), mode)
        return
    found = _seen(tw.parallel(program)(np.arange(1.0, N + 1), mode))
    for got, wanted in zip(found, _expected(program), strict=True):
        assert got == wanted


SLICES = """
import numpy as np
A, B = np.arange(100.0), np.zeros(100)
E, LL, QL, LT, N, M = [A], [[0], [1]], [[0] for _ in range(50)], [(A, B)] * 20, [1, 2, 3, 4, 5], [[1, 2], [3, 4]]
D, S = {"a": [[0], [1]]}, "hello"
"""


@pytest.mark.parametrize(
    "body",
    [
        "x = E[:]; x[0][0] = i",
        "E[:][0][0] = i",
        "x = E[slice(0, 1)]; x[0][0] = i",
        "for x in E[::-1]: x[0] = i",
        "x = LL[:]; x[0].append(i)",
        "for x in LL[1:]: x[0] = i",
        "for x in QL[i:i + 2]: x.append(i)",
        "x = QL[i:i + 2]; x[1][0] = i",
        "x = LT[i:i + 1]; x[0][0][i] = A[i + 1]",
        "x = D['a'][:]; x[0][0] = i",
        "x, y = D['a'][:2]; x[0] = i",
        "x = [y for y in LL[:]]; x[0][0] = i",
        "N[1:3] = [i, i]",
    ],
)
def test_slices_of_lists_hold_what_the_lists_hold(body: str) -> None:
    assert not tw.parfor.analyse(f"for i in parfor(20):\n    {body}", SLICES)[0].independent


@pytest.mark.parametrize(
    "body",
    [
        "B[i] = sum(N[1:3])",
        "x = N[:]; x[0] = i; B[i] = x[0]",
        "B[i] = N[1:][0]",
        "x = M[:]; B[i] = x[0][1]",
        "B[i] = len(S[1:i])",
        "for v in N[1:]: B[i] += v",
        "x = list(N[1:]); x.append(i); B[i] = x[-1]",
        "a, b = N[:2]; B[i] = a + b",
        "B[i] = np.array(N[:3]).sum()",
    ],
)
def test_slices_of_lists_are_new_lists(body: str) -> None:
    assert tw.parfor.analyse(f"for i in parfor(20):\n    {body}", SLICES)[0].independent


def of_two_results(x: Any, mode: Any) -> Any:
    cells: list[Any] = [None] * N
    others: list[Any] = [None] * N
    table: dict[int, Any] = {}
    apart: list[Any] = [None] * N
    for i in tw.parfor(range(N), mode=mode, workers=2):
        view, made, held = x[i:], np.full(2, i), [i]
        cells[i] = [view, made, made[:1], held]
        others[i] = list(cells[i])
        table[i] = list(cells[i])
        apart[i] = x[i:]
    return cells, others, table, apart


def test_two_results_hold_the_same_objects() -> None:
    x = np.arange(1.0, N + 1)
    for mode in (None, "processes"):
        cells, others, table, apart = tw.parallel(of_two_results)(x, mode)
        for i in range(N):
            assert all(a is b is c for a, b, c in zip(cells[i], others[i], table[i], strict=True))
            assert cells[i][0].base is x and apart[i] is not cells[i][0] and np.shares_memory(apart[i], x)
