"""Bodies as machine code and as array expressions: the plain loop's results, and how it was decided."""

from __future__ import annotations

import _thread
import importlib
import math
import threading
import time
from typing import Any

import numpy as np
import pytest

import tilewise as tw

choose = importlib.import_module("tilewise.parfor.bodies.choose")
trace = importlib.import_module("tilewise.parfor.bodies.arrays.trace")
OUTER = np.arange(7.0)


@pytest.fixture(autouse=True)
def worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if all loops were long."""
    monkeypatch.setattr(choose, "WORTH_SECONDS", 0.0)


def same(found: Any, expected: Any, exact: bool) -> None:
    for a, b in zip(found, expected, strict=True):
        assert type(a) is type(b), (type(a), type(b))
        if isinstance(a, np.ndarray) and not exact:
            assert a.dtype == b.dtype and np.allclose(a, b, rtol=1e-10, atol=1e-12, equal_nan=True)
        elif isinstance(a, np.ndarray):
            assert a.dtype == b.dtype and a.tobytes() == b.tobytes()
        else:
            assert a == b or (a != a and b != b) or (not exact and math.isclose(a, b, rel_tol=1e-12))


# -- machine code ----------------------------------------------------------------------------------------------------


def escape(mode: Any, workers: int, x: Any) -> Any:
    """Everything that machine code has: guards, nests, scalars of all kinds, sums in names and arrays."""
    n = len(x)
    out, seen, old = np.zeros((n, 3)), np.full(n, np.nan), np.ones(n, np.int32)
    total, best, count, odd, bins = 0, -1.0, 3, False, np.array([1, 2, 3])
    back = old[::-1]
    for i in tw.parfor(range(n), mode=mode, workers=workers):
        z = x[i]
        for j in tw.parfor(range(3)):
            y = z
            while y < j:
                y = abs(y) + 1
            out[i, j] = y - OUTER[j]
        if z != z:
            continue
        seen[i] = out[i, 0] / 3
        back[i] = -i
        total += int(z)
        best = max(best, z)
        count += i % 2
        odd ^= i % 3 == 0
        bins[i % 3] += i
    return out, seen, old, total, best, count, odd, bins, i


def over_array(mode: Any, workers: int, x: Any) -> Any:
    out = np.zeros(5, np.float32)
    s = 0
    for v in tw.parfor(x.astype(np.float32), mode=mode, workers=workers):
        k = int(abs(v) * 100) % 5
        out[k] += v
        s += v
    return out, s


@pytest.mark.parametrize("f", [escape, over_array])
def test_machine_code(f: Any) -> None:
    x = np.round(np.random.default_rng(3).normal(size=23) + 1, 3)
    if f is over_array:
        x = np.round(x * 4)  # sums without rounding
    else:
        x[5] = np.nan
    expected = f(None, 1, x)
    for workers in (1, 2, 3, 7, 23, 24):
        parallel = tw.parallel(f)
        same(parallel("threads", workers, x), expected, exact=True)
        (report,) = parallel.report
        assert (report.body, report.mode) == ("native", "threads"), report.why
        assert sum(report.tasks) == 23


@pytest.mark.parametrize(
    ("partition", "size"), [("naive", None), ("fixed", 5), ("static", None), ("factoring", None), ("factoring_cmax", 2)]
)
def test_partitions_of_machine_code(partition: str, size: int | None) -> None:
    @tw.parallel
    def fill(n: int) -> Any:
        a, s = np.zeros(60), 1
        for i in tw.parfor(range(50, 50 - 3 * n, -3), mode="threads", partition=partition, task_size=size, workers=3):
            k = 0
            while k < i:
                k += 7
            a[i] = k
            s += k
        return a, s, i

    same(fill(17), fill.__wrapped__(17), exact=True)
    assert fill.report[0].body == "native" and fill.report[0].partition == partition


def test_a_failing_iteration_of_machine_code() -> None:
    @tw.parallel
    def divide(x: Any, out: Any, bins: Any) -> Any:
        s = 0.0
        for i in tw.parfor(range(len(x)), mode="threads", workers=3):
            out[i] += 1
            bins[i % 3] += 1.0
            s += 1 / int(x[i]) if i < 150 else x[i + 10**6]
        return s

    x = np.ones(200)
    x[77] = x[131] = 0
    out, bins = np.zeros(200), np.zeros(3)
    with pytest.raises(ZeroDivisionError) as caught:
        divide(x, out, bins)
    line = divide.__wrapped__.__code__.co_firstlineno + 6
    (note,) = caught.value.__notes__
    assert "iteration i = 77 of the parfor" in note and note.endswith(f"line {line}")
    assert divide.report[0].body == "native" and not out.any() and not bins.any()  # nothing is merged
    x[:] = 1
    with pytest.raises(IndexError) as caught:
        divide(x, out, bins)
    assert "iteration i = 150 " in caught.value.__notes__[0]


def _nest(out: Any, n: int) -> None:
    for i in tw.parfor(range(2), mode="threads", workers=2):
        total = 0.0
        for j in range(n):
            for k in range(1000):
                total += (i * j + k) % 7
        out[i] = total


def _line(out: Any, n: int) -> None:
    for i in tw.parfor(range(2), mode="threads", workers=2):
        total = 0.0
        for k in range(n * 1000):
            total += (i * 3 + k) % 7
        out[i] = total


def _until(out: Any, n: int) -> None:
    for i in tw.parfor(range(2), mode="threads", workers=2):
        k = 0
        while k < n * 1000:
            k += i + 1
        out[i] = k


def _flat(out: Any, n: int) -> Any:
    total = 0.0
    for i in tw.parfor(range(n * 1000), mode="threads", workers=2):
        total += i % 7 + out[0]
    return total


@pytest.mark.parametrize("long", [_nest, _line, _until, _flat])
def test_machine_code_is_interrupted_inside_of_an_iteration(long: Any) -> None:
    function = tw.parallel(long)
    out = np.zeros(2)
    function(out, 5_000)
    assert function.report[0].body == "native"
    out[:] = 7
    before = threading.active_count()
    timer = threading.Timer(0.3, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        function(out, 10_000_000_000)  # some hours
    timer.join()
    deadline = time.monotonic() + 60
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() == before and (out == 7).all()


def test_integers_beyond_64_bits_are_left_to_python() -> None:
    @tw.parallel
    def powers(n: int, out: Any) -> Any:
        for i in tw.parfor(range(n), mode="threads", workers=2):
            out[i] = i
            p = 1
            for _ in range(i):
                p = p * 3
            out[i] = p % 1000
        return out

    assert powers(60, np.zeros(60)).tolist() == [float(3**i % 1000) for i in range(60)]


def test_why_not_machine_code() -> None:
    @tw.parallel
    def into_list(n: int) -> Any:
        cells = [0] * n
        for i in tw.parfor(range(n), mode="threads", workers=2):
            cells[i] = i
        return cells

    @tw.parallel
    def by_text(n: int) -> Any:
        out = np.zeros(n)
        for i in tw.parfor(range(n), mode="threads", workers=2):
            out[i] = len(str(i))
        return out

    assert into_list(9) == list(range(9))
    assert "not native: lists, dicts or objects as results" in into_list.report[0].why
    assert by_text(11).sum() == 12
    line = by_text.__wrapped__.__code__.co_firstlineno + 4
    assert f"(line {line})" in by_text.report[0].why and "body: python (" in str(by_text.report[0])


def tables(X: Any, y: Any, values: int, kinds: int) -> Any:
    out = np.zeros((X.shape[1], kinds, values))
    for j in tw.parfor(range(X.shape[1]), workers=2):
        out[j] = np.bincount(y * values + X[:, j], minlength=kinds * values).reshape(kinds, values)
    return out


def test_counts_are_machine_code_where_threads_wait_for_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """np.bincount holds it for a part of its time; the shape of the result needs Python only where it does not fit."""
    rng = np.random.default_rng(4)
    X, y = np.asfortranarray(rng.integers(0, 5, (20_000, 40))), rng.integers(0, 3, 20_000)
    monkeypatch.setattr(choose, "WORTH_SECONDS", 0.001)
    f = tw.parallel(tables)
    assert f(X, y, 5, 3).tobytes() == tables(X, y, 5, 3).tobytes()
    assert f.report[0].body == "native", f.report[0].why
    X[7, 30] = 50
    with pytest.raises(ValueError, match="cannot reshape") as error:
        f(X, y, 5, 3)
    assert "in iteration j = 30" in error.value.__notes__[0]


def test_all_iterations_run_where_machine_code_gives_up_on_one_worker() -> None:
    """It had them in several tasks, of which the interpreter is to run all."""

    @tw.parallel
    def powers(n: int) -> Any:
        out = np.full(n, -9.0)
        for i in tw.parfor(n, workers=1):
            out[i] = 2**-i
        return out

    assert powers(12).tolist() == [2.0**-i for i in range(12)]


def test_short_loops_are_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "WORTH_SECONDS", 0.2)

    @tw.parallel
    def fill(n: int) -> Any:
        out = np.zeros(n)
        for i in tw.parfor(range(n), mode="threads"):
            out[i] = i
        return out

    fill(100)
    assert fill.report[0].body == "python" and "less than compiling" in fill.report[0].why


# -- array expressions -----------------------------------------------------------------------------------------------


def corr(x: Any, y: Any) -> Any:
    return ((x - x.mean()) * (y - y.mean())).mean() / (x.std() * y.std())


def all_pairs(X: Any) -> Any:
    n = X.shape[1]
    R = np.eye(n)
    for i in tw.parfor(range(n)):
        a = X[:, i] - X[:, i].mean()
        for j in range(i + 1, n):
            b = X[:, j] - X[:, j].mean()
            r = a @ b / np.sqrt((a @ a) * (b @ b))
            R[i, j] = r
            R[j, i] = r
    return (R,)


def by_function(X: Any) -> Any:
    n = X.shape[1]
    R = np.zeros((n, n))
    for i in tw.parfor(range(n)):
        for j in tw.parfor(range(n)):
            R[i, j] = corr(X[:, i], X[:, j])
    return (R,)


def by_corrcoef(X: Any) -> Any:
    n = X.shape[1]
    R, C = np.zeros((n, n)), np.zeros((n, n), np.float32)
    for i in tw.parfor(range(n)):
        for j in range(i):
            R[i, j] = np.corrcoef(X[:, i], X[:, j])[0, 1]
            C[j, i] = np.cov(X[:, i], X[:, j])[1, 0]
    return R, C


def rows(X: Any) -> Any:
    n = X.shape[0]
    entropy, Y, total, first = np.zeros(n), np.ones((n, X.shape[1] + 1)), 0.5, 0
    for i in tw.parfor(range(n)):
        t = np.exp(X[i] - X[i].max())
        t /= t.sum()
        Y[i, :-1] = t
        entropy[i] = -(t * np.log(t)).sum()
        total += entropy[i - i] if False else t[0]
        first += X[i, 0] > 0
    return entropy, Y, total, first, i


def windows(X: Any) -> Any:
    x, w = X.ravel(), 4
    n = len(x) // 2 - w
    out, back, blocks = np.zeros(n), np.zeros((n, w)), np.zeros(2 * n + 1, np.int64)
    for i in tw.parfor(range(n)):
        out[i] = x[i : i + w].max() - x[2 * i : 2 * i + w].min() * i
        back[n - 1 - i] = x[n - i : n - i + w]
        blocks[2 * i : 2 * i + 2] = np.nan_to_num(x[i]) * 10
    return out, back, blocks


def steps(X: Any) -> Any:
    t = np.arange(X.shape[0])[::-1] // 2
    W, out = X[:5].T, np.full((X.shape[0] + 40, 5), -0.0)
    low = np.zeros((X.shape[0], 3, X.shape[1]), np.float32)
    for i in tw.parfor(range(X.shape[0] - 1, 2, -2)):
        out[i - 1] = X[i] @ W + X[t[i]] @ W
        for k in range(3):
            low[i, k] = np.where(X[i - k] > 0, X[i - k], X[-1, 0]).astype(np.float32) * 2
    return out, low, i


def distances(X: Any) -> Any:
    n = X.shape[0]
    D, s = np.full((n, n), np.inf), 0.0
    for i in tw.parfor(range(n)):
        for j in range(i, n):
            D[i, j] = np.abs(X[i] - X[j]).sum() / (i + 1 if False else 2)
            s += X[i, 0] * X[j, 1]
    return D, s


VECTORS = [all_pairs, by_function, by_corrcoef, rows, windows, steps, distances]


@pytest.mark.parametrize("f", VECTORS)
@pytest.mark.parametrize("pieces", [1, 3])
def test_array_expressions(f: Any, pieces: int, monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(1).normal(size=(20, 6))
    if pieces > 1:
        monkeypatch.setattr(trace, "MEMORY_SHARE", 1 << 30)
    monkeypatch.setattr(choose, "FASTER", 0.0)
    parallel = tw.parallel(f)
    same(parallel(X), f(X), exact=False)
    assert parallel.report[0].body == "arrays", parallel.report[0].why
    for odd in (np.asfortranarray(X), X[::-1], np.where(X > 1, np.nan, X), tw.asarray(X)):
        same(parallel(odd), f(np.asarray(odd)), exact=False)


def test_all_pairs_are_one_product_of_matrices() -> None:
    found: list[Any] = []
    kept = trace.Expression.run

    def run(self: Any, before: Any) -> Any:
        found.append(self)
        return kept(self, before)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace.Expression, "run", run)
        for f in (all_pairs, by_function, by_corrcoef):
            tw.parallel(f)(np.random.default_rng(0).normal(size=(3000, 20)))
    assert len(found) == 3
    for one in found:
        largest = max(n.elements for n in one.trace.nodes if not n.shown and n.factors is None)
        assert largest == 3000 * 20  # nothing of pairs times rows


def own_sum(X: Any) -> Any:
    out = np.zeros(len(X))
    for i in tw.parfor(range(len(X))):
        acc = 0.0
        for k in range(X.shape[1]):
            acc += X[i, k]
        out[i] = acc
    return (out,)


def branch(X: Any) -> Any:
    out = np.zeros(len(X))
    for i in tw.parfor(range(len(X))):
        out[i] = X[i].sum() if X[i, 0] > 0 else 1
    return (out,)


def reads_result(X: Any) -> Any:
    out = np.zeros((len(X), 2))
    for i in tw.parfor(range(len(X))):
        out[i, 0] = X[i, 0]
        out[i, 1] = out[i, 0] * 2
    return (out,)


def reads_view_of_result(X: Any) -> Any:
    out = np.zeros((len(X), 2))
    second = out[:, 0]
    for i in tw.parfor(range(len(X))):
        out[i, 0] = X[i, 0]
        out[i, 1] = second[i] * 2
    return (out,)


def weak(X: Any) -> Any:
    small = X.astype(np.float32)
    out = np.zeros(X.shape)
    for i in tw.parfor(range(len(X))):
        out[i] = small[i] * i
    return (out,)


def in_place_on_view(X: Any) -> Any:
    Y, out = X.copy(), np.zeros(len(X))
    for i in tw.parfor(range(len(X))):
        row = Y[i]
        row *= 2
        out[i] = row.sum()
    return Y, out


def ragged(X: Any) -> Any:
    out = np.zeros(len(X))
    for i in tw.parfor(range(1, len(X))):
        out[i] = X[:i].sum()
    return (out,)


@pytest.mark.parametrize("f", [own_sum, branch, reads_result, reads_view_of_result, weak, in_place_on_view, ragged])
def test_what_is_no_array_expression(f: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "FASTER", 0.0)
    X = np.round(np.random.default_rng(2).normal(size=(12, 4)) * 8)
    parallel = tw.parallel(f)
    same(parallel(X), f(X), exact=True)
    assert "no array expression: " in parallel.report[0].why


def test_errors_of_array_expressions_are_those_of_the_loop() -> None:
    @tw.parallel
    def shifted(X: Any, out: Any) -> None:
        for i in tw.parfor(range(len(X))):
            out[i] = X[i + 1].sum()

    out = np.zeros(6)
    with pytest.raises(IndexError) as caught:
        shifted(np.ones((6, 2)), out)
    assert "iteration i = 5 " in caught.value.__notes__[0] and not out.any()
