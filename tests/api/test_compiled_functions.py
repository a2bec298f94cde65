"""Functions with branches and loops inside of operators: compiled, on every mesh, with Python's values and exceptions.

Plain Python loops are the oracle. Bytes that cross between workers must be those that were announced.
"""

from __future__ import annotations

import itertools
import math
import pickle
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tilewise as tw

rng = np.random.default_rng(23)
A = rng.standard_normal((23, 4))
B = rng.standard_normal((5, 4))
V = rng.standard_normal(2500)
I = rng.integers(-9, 9, (7, 5))
TABLE = np.array([0.5, 1.5, -2.5])


def escape(re: Any, im: Any) -> int:
    x = y = 0.0
    n = 0
    while n < 30 and x * x + y * y < 4.0:
        x, y = x * x - y * y + re, 2.0 * x * y + im
        n += 1
    return n


def collatz(n: Any) -> Any:
    steps = 0
    while n > 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def signed(x: Any) -> Any:
    if x > 0:
        return x, 1
    return -x, -1


def looked_up(x: Any) -> Any:
    total = 0.0
    for k in range(3):
        if x > TABLE[k]:
            total += TABLE[k]
    return total


def clamped(x: Any, low: Any, high: Any) -> Any:
    if x < low:
        return low
    return high if x > high else x


def weighted(p: Any, q: Any) -> Any:
    s = 0.0
    for k in range(len(p)):
        d = p[k] - q[k]
        s += d * d if d > 0 else -3 * d
    return s


def ordered(t: Any) -> Any:
    out = t.copy()
    for r in range(t.shape[0]):
        for i in range(1, t.shape[1]):
            k = i
            while k > 0 and out[r, k] < out[r, k - 1]:
                out[r, k], out[r, k - 1] = out[r, k - 1], out[r, k]
                k -= 1
    return out


def ordered_columns(t: Any) -> Any:
    out = t.copy()
    for c in range(t.shape[1]):
        for i in range(1, t.shape[0]):
            k = i
            while k > 0 and out[k, c] < out[k - 1, c]:
                out[k, c], out[k - 1, c] = out[k - 1, c], out[k, c]
                k -= 1
    return out


def counted(t: Any) -> Any:
    out = np.zeros(20, np.int64)
    for i in range(t.shape[0]):
        for j in range(t.shape[1]):
            out[t[i, j] + 9] += 1
    return out


def positive(s: Any, v: Any) -> Any:
    return s + v if v > 0 else s


def spread(s: Any, v: Any) -> Any:
    n, mean, squares = s
    d = v - mean
    mean = mean + d / (n + 1)
    return n + 1, mean, squares + d * (v - mean)


def pooled(a: Any, b: Any) -> Any:
    n = a[0] + b[0]
    d = b[1] - a[1]
    return n, a[1] + d * (b[0] / n), a[2] + b[2] + d * d * (a[0] * b[0] / n)


def larger(a: Any, b: Any) -> Any:
    if abs(a) > abs(b):
        return a
    return b


def along(f: Any, x: Any, axis: int, start: Any, *, emit: Any = None, scans: bool = False) -> Any:
    """State after state, by Python."""
    lines = np.moveaxis(np.asarray(x), axis, -1)
    made = []
    for at in np.ndindex(lines.shape[:-1]):
        states = list(itertools.accumulate([start, *lines[at]], f))[1:]
        made.append([emit(s) if emit else s for s in states] if scans else states[-1])
    found = np.array(made).reshape(lines.shape if scans else lines.shape[:-1])
    return np.moveaxis(found, -1, axis) if scans else found


def a(x: Any) -> Any:
    return tw.asarray(x)


EDGES = np.array([0.0, -0.0, 1.5, -2.0, np.nan, np.inf, -np.inf])
doubled: Callable[[Any], Any] = lambda s: s * 2 if s > 1 else s - 1  # noqa: E731
ROWS: dict[str, tuple[Any, Any]] = {
    "while": (lambda: tw.outer_map(escape, a(A[:, 0]), a(B[:, 0])), np.vectorize(escape)(A[:, :1], B[:, 0])),
    "collatz": (lambda: tw.vectorize(collatz)(a(np.arange(1, 300))), np.vectorize(collatz)(np.arange(1, 300))),
    "broadcast": (
        lambda: tw.vectorize(clamped)(a(A), -0.5, a(A[:1].T[:4, 0])),
        np.vectorize(clamped)(A, -0.5, A[:1].T[:4, 0]),
    ),
    "table": (lambda: tw.vectorize(looked_up)(a(A.T)), np.vectorize(looked_up)(A.T)),
    "otypes": (
        lambda: tw.vectorize(collatz, otypes=["f4"])(a(np.arange(1, 9, dtype="u2"))),
        np.vectorize(collatz, otypes=["f4"])(np.arange(1, 9, dtype="u2")),
    ),
    "empty": (lambda: tw.vectorize(collatz, otypes=["i4"])(a(np.zeros((0, 3)))), np.zeros((0, 3), "i4")),
    "no axes": (lambda: tw.vectorize(collatz)(a(np.array(27))), np.vectorize(collatz)(np.array(27))),
    "edges": (
        lambda: tw.vectorize(clamped)(a(EDGES), a(EDGES[::-1]), 1.0),
        np.array([clamped(x, y, 1.0) for x, y in zip(EDGES.tolist(), EDGES[::-1].tolist(), strict=True)]),
    ),
    "filter": (lambda: tw.filter(lambda v: collatz(int(v * 9)) > 3, a(V)), V[[collatz(int(v * 9)) > 3 for v in V]]),
    "pairs": (lambda: tw.allpairs(weighted, a(A), a(B)), np.array([[weighted(p, q) for q in B] for p in A])),
    "tiles": (lambda: tw.map_tiles(ordered, a(A)), np.sort(A, 1)),
    "tiles, axis 1": (lambda: tw.map_tiles(ordered_columns, a(B), axis=1), np.sort(B, 0)),
    "join": (lambda: tw.join_update(counted, (a(I),), (0,), (20,)), np.bincount(I.ravel() + 9, minlength=20)),
    "fold": (lambda: tw.fold(larger, a(V)), V[np.argmax(abs(V))]),
    "fold, axis": (lambda: tw.fold(larger, a(I), axis=1), np.array([along(larger, r[1:], 0, r[0]) for r in I])),
    "scan": (lambda: tw.scan(larger, a(A), axis=1), np.array([list(itertools.accumulate(r, larger)) for r in A])),
    "reduce": (lambda: tw.reduce(positive, a(A), init=0.0), along(positive, A, 0, 0.0)),
    "reduce, ints": (lambda: tw.reduce(positive, a(I), init=1, axis=1), along(positive, I, 1, 1)),
    "reduce, no init": (lambda: tw.reduce(larger, a(V[:50])), V[np.argmax(abs(V[:50]))]),
    "reduce, none": (lambda: tw.reduce(positive, a(np.zeros((0, 3))), init=4.0), np.full(3, 4.0)),
    "reduce, two": (
        lambda: tw.reduce(lambda s, v, w: s + v * w if w > 0 else s, a(A), a(B[:1]), init=0.0, axis=1),
        np.array([sum((v * w for v, w in zip(row, B[0], strict=True) if w > 0), 0.0) for row in A]),
    ),
    "reduce, longest": (
        lambda: tw.reduce(collatz, a(np.arange(1, 300)), combine=lambda p, q: p if p > q else q, init=7),
        max(map(collatz, range(1, 300))),
    ),
    "scan, emit": (
        lambda: tw.scan(positive, a(A), init=0.5, emit=doubled),
        along(positive, A, 0, 0.5, emit=doubled, scans=True),
    ),
    "scan, combine": (
        lambda: tw.scan(lambda v: v * v, a(A), 1, combine=lambda p, q: p + q, init=1.0),
        along(lambda s, v: s + v * v, A, 1, 1.0, scans=True),
    ),
}  # fmt: skip


SESSIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "at once": ({"engine": "local"}, {}),
    "recorded": ({"engine": "local"}, {"eager_bytes": 0, "threads": 3}),
    "by python": ({"engine": "local"}, {"eager_bytes": 0, "native": False}),
    "virtual 2": ({"engine": "virtual", "workers": 2}, {"eager_bytes": 0, "objective": "bytes"}),
    "virtual 4": ({"engine": "virtual", "workers": 4}, {"eager_bytes": 0}),
    "grid": ({"engine": "virtual", "mesh": (2, 2)}, {"eager_bytes": 0, "objective": "bytes"}),
}


@pytest.fixture(params=SESSIONS)
def where(request: Any) -> Iterator[str]:
    session, settings = SESSIONS[request.param]
    with tw.session(**session), tw.config(**settings), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of NumPy, where it compares NaNs
        warnings.simplefilter("error", tw.PerformanceWarning)  # what is not compiled says so
        yield request.param


def test_values_dtypes_and_announced_bytes(where: str) -> None:
    wrong = []
    for name, (ours, want) in ROWS.items():
        made = ours()
        plan = tw.explain(made) if "virtual" in where or where == "grid" else None
        with tw.profile() as ran:
            got = np.asarray(tw.compute(made))
        want = np.asarray(want)
        if (got.dtype, got.shape) != (want.dtype, want.shape) or not np.array_equal(
            got, want, equal_nan=want.dtype.kind == "f"
        ):
            wrong.append(f"{name}: {got.dtype}{got.shape} {got}, not {want.dtype}{want.shape} {want}")
        if plan is not None and name != "filter" and plan.network_bytes != ran.network_bytes:
            wrong.append(f"{name}: {ran.network_bytes} bytes, {plan.network_bytes} announced")
    assert not wrong, "\n".join(wrong)


def test_several_results(where: str) -> None:
    for x in (A, I):
        for got, want in zip(tw.vectorize(signed)(a(x)), np.vectorize(signed)(x), strict=True):
            assert got.dtype == want.dtype and np.array_equal(got, want)
        for axis in (0, 1):
            for made in (
                tw.reduce(spread, a(x), init=(0, 0.0, 0.0), axis=axis),
                tw.reduce(lambda v: (1, v, 0.0), a(x * 1.0), combine=pooled, axis=axis),
            ):
                count, mean, squares = made
                assert count.dtype == np.int64 and np.asarray(count).tolist() == [x.shape[axis]] * x.shape[1 - axis]
                assert np.allclose(mean, x.mean(axis)) and np.allclose(np.asarray(squares) / x.shape[axis], x.var(axis))


@pytest.mark.parametrize("dtype", "?bhilBHIfdFD")
def test_kinds_of_numbers(dtype: str) -> None:
    """Elements of vectorised functions are Python's numbers, those of reductions NumPy's."""
    x = (np.arange(6) * 3 % 7 - 2).astype(dtype)
    functions: list[Any] = [
        lambda v: v + 1 if v == 1 else v * 2,
        lambda v: (1.5 if v == 0 else v) / (3 if v == 1 else 2),
    ]
    for f in functions:
        with warnings.catch_warnings(), tw.config(eager_bytes=0):
            warnings.simplefilter("ignore")
            try:
                want = np.vectorize(f)(x)
            except Exception as error:
                with pytest.raises(type(error)):
                    tw.vectorize(f)(a(x)).compute()
                continue
            got = tw.vectorize(f)(a(x)).compute()
        assert got.dtype == want.dtype and got.tolist() == want.tolist()
    if dtype in "FD":
        return
    with np.errstate(all="ignore"), tw.config(eager_bytes=0):
        got = tw.reduce(lambda s, v: s + v if v != 1 else s * v, a(x), init=x.dtype.type(3))
        want = along(lambda s, v: s + v if v != 1 else s * v, x, 0, x.dtype.type(3))
    assert got.dtype == want.dtype and got == want


def divided(n: Any) -> Any:
    total = 0
    for k in range(3):
        total += 100 // (n - k)
    return total


def picked(n: Any) -> Any:
    if n < 0:
        raise ValueError("negative")
    return TABLE[n]


def test_exceptions_are_pythons_at_the_users_line(where: str) -> None:
    n = np.arange(3, 3000)
    n[[1500, 2900]] = 2, 1
    lines = divided.__code__.co_firstlineno
    with pytest.raises(ZeroDivisionError, match="integer division or modulo by zero") as caught:
        tw.vectorize(divided)(a(n)).compute()
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert any((f.name, f.lineno) == ("divided", lines + 3) for f in frames)
    with pytest.raises(IndexError, match="index 3 is out of bounds for axis 0 with size 3"):
        tw.vectorize(picked)(a(np.array([0, 3, -1]))).compute()
    n = np.zeros(3000, int)
    n[[100, 2900]] = -1, 3  # the first one counts, whichever thread comes first
    if "virtual" not in where and where != "grid":
        with pytest.raises(ValueError, match="negative"):
            tw.vectorize(picked)(a(n)).compute()
    with pytest.raises(ZeroDivisionError):
        tw.reduce(lambda s, v: s + 6 // int(v) if v < 5 else s, a(np.arange(3)), init=0).compute()


def test_integers_of_any_size(where: str) -> None:
    x = np.array([3, 2**40, -(2**62), 5])
    squared = lambda v: (v * v) % 1_000_003 if v else 1  # noqa: E731
    got = tw.vectorize(squared)(a(x))
    assert got.tolist() == [squared(int(v)) for v in x]
    with pytest.raises(OverflowError):
        tw.vectorize(lambda v: v * v if v else 1)(a(x)).compute()
    big = np.array([2**64 - 1, 5], "u8")
    assert tw.vectorize(lambda v: v // 3 if v else v)(a(big)).tolist() == [(2**64 - 1) // 3, 1]


def test_the_same_bits_with_any_threads() -> None:
    x = rng.standard_normal((3, 40_000)) * 1e3
    total = lambda p, q: p + q if p > q else q + p * 0.999  # noqa: E731
    found = set()
    for threads in (1, 2, 3):
        with tw.config(threads=threads, eager_bytes=0):
            folded = tw.fold(total, a(x), axis=1), tw.reduce(lambda v: v * 0.1, a(x), combine=total, axis=1)
            found.add(pickle.dumps([f.compute().tobytes() for f in folded]))
    assert len(found) == 1
    pieces = x[0, : 2 * 1024]
    halves = [list(itertools.accumulate(part, total))[-1] for part in pieces.reshape(2, 1024)]
    with tw.config(eager_bytes=0):
        assert tw.fold(total, a(pieces)) == total(*halves)


def test_branches_are_selections_that_share_a_pass() -> None:
    def bent(x: Any) -> Any:
        if x > 1.0:
            y = x * 2.0
            if y > 5:
                return y
            x = x - 1
        elif x < 0:
            return 0.0
        return x + 3.0

    functions: list[Any] = [
        bent,
        lambda t: 1 if 0 < t < 3 else 0,
        lambda t: t if (t > 0 and t < 2) or t == -2 else -t,
        lambda t: min(t, 1.0) if t == t else 0.5,
    ]
    x = np.concatenate([EDGES, np.linspace(-3, 4, 29)])
    with tw.config(eager_bytes=0):
        for f in functions:
            y = tw.vectorize(f)(a(x) * 1.0) * 2 + 1
            assert [s.kind for g in tw.explain(y).stages for s in g.steps] == ["pass"]
            want = np.array([f(v) for v in x.tolist()]) * 2 + 1
            assert y.dtype == want.dtype and np.array_equal(y, want, equal_nan=True)
        assert "pass" not in [s.kind for g in tw.explain(tw.vectorize(collatz)(a(I) * 1)).stages for s in g.steps][1:]


def test_a_mesh_reduces_where_the_data_is() -> None:
    with tw.session(engine="virtual", workers=4), tw.config(eager_bytes=0, objective="bytes"):
        x = tw.evaluate(a(np.arange(1.0, 4001.0)).relayout(0))
        made = tw.reduce(lambda v: v * v if v > 2 else v, x, combine=lambda p, q: p if p > q else q)
        plan = tw.explain(made)
        assert plan.network_bytes <= 4 * 16 and "compiled" in str(plan)
        with tw.profile() as ran:
            assert made == 16e6
        assert ran.network_bytes == plan.network_bytes


def sorted_by_numpy(s: Any, v: Any) -> Any:
    return s + np.sort(np.array([v, s]))[0]


def test_what_cannot_be_compiled_is_said_once_and_runs() -> None:
    line = f"{__file__}:{sorted_by_numpy.__code__.co_firstlineno + 1}"
    with tw.config(eager_bytes=0), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            assert np.array_equal(tw.reduce(sorted_by_numpy, a(A), init=1.0), along(sorted_by_numpy, A, 0, 1.0))
            got = tw.scan(sorted_by_numpy, a(A), 1, init=1.0, emit=lambda s: -s)
            assert np.array_equal(got, along(sorted_by_numpy, A, 1, 1.0, emit=lambda s: -s, scans=True))
    texts = [str(w.message) for w in caught]
    assert len(texts) == 2 and all("np.sort" in t and line in t and "plain Python" in t for t in texts), texts
    with tw.config(eager_bytes=0, fallback="error"), pytest.raises(tw.FallbackError, match="it has a call of np"):
        tw.reduce(sorted_by_numpy, a(A), init=1.0)


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda: tw.reduce(positive, a(np.zeros((0, 3)))), ValueError, "no identity. Give init="),
        (lambda: tw.reduce(positive, a(A), a(A)), TypeError, "Give init="),
        (lambda: tw.reduce(positive, a(A), init="x"), TypeError, "init is a number, or a tuple of numbers, got str"),
        (lambda: tw.reduce(positive, a(np.array(1.0)), init=0), ValueError, "needs an axis"),
        (lambda: tw.reduce(positive, a(A), init=0, axis=3), np.exceptions.AxisError, "axis 3"),
        (lambda: tw.reduce(positive, a(np.array(["a"])), init=0), TypeError, "takes numbers, got dtype <U1"),
        (lambda: tw.scan(positive, (a(A), a(B)), init=0), ValueError, "broadcast"),
    ],
)
def test_wrong_arguments(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


def test_what_functions_refer_to_may_change() -> None:
    scale, table = 2, np.array([1.0, 2.0])

    def scaled(n: Any) -> Any:
        total = 0.0
        for k in range(2):
            total += scale * table[k] * n
        return total

    with tw.config(eager_bytes=0):
        x = tw.evaluate(a(np.arange(4)))
        before = tw.vectorize(scaled)(x)
        table[0] = 5.0
        after = tw.vectorize(scaled)(x)
        scale = 3
        assert (before.tolist(), after.tolist()) == ([0, 6, 12, 18], [0, 14, 28, 42])
        assert tw.vectorize(scaled)(x).tolist() == [0, 21, 42, 63]


def test_math_is_pythons() -> None:
    """Branches with functions that may raise are compiled, and raise."""
    safe = lambda x: math.log(x) if x > 0 else -math.inf  # noqa: E731
    with tw.config(eager_bytes=0):
        x = np.array([0.5, 0.0, -3.0, 8.0])
        assert tw.vectorize(safe)(a(x)).tolist() == [safe(float(v)) for v in x]
        with pytest.raises(ValueError, match="math domain error"):
            tw.vectorize(lambda x: math.log(x) if x < 1 else 0.0)(a(x)).compute()
