"""@tw.parallel: the plain loop's results for modes, workers and partitioners; failures, streams, results."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from typing import Any

import numpy as np
import pytest

import tilewise as tw

MODES = ("threads", "processes")


def work(mode: str | None, workers: int, partition: str | None, size: int | None, n: int) -> Any:
    X = np.arange(40.0).reshape(10, 4) + 1
    R, T, L, old = np.zeros((n, 4)), np.full(n, np.nan), [None] * n, np.ones(n)
    total, best, count, hist = 0.5, -np.inf, 3, np.array([1, 2, 3])
    view, tops = old[::-1], np.array([30.0, 2.0, np.nan])
    for i in tw.parfor(range(n), mode=mode, workers=workers, partition=partition, task_size=size):
        t = X[i % 10]
        for j in range(4):
            R[i, j] = t[j] * i
        if i % 2:
            T[i] = t.sum()
        view[i] = 0.0
        L[i] = i * i
        total += float(t[0])
        best = max(best, t[1])
        if i % 3 == 0:
            count += 1
        hist[i % 3] += i
        tops[i % 3] = max(tops[i % 3], t[2])
    return R, T, L, old, total, best, count, hist, tops, i


parallel_work = tw.parallel(work)


def same(a: Any, b: Any) -> None:
    for x, y in zip(a, b, strict=True):
        if isinstance(x, np.ndarray):
            assert x.tobytes() == y.tobytes() and x.dtype == y.dtype
        else:
            assert x == y and type(x) is type(y)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("workers", [1, 2, 3, 7, 23, 24])
def test_workers(mode: str, workers: int) -> None:
    same(parallel_work(mode, workers, None, None, 23), work(mode, workers, None, None, 23))
    (report,) = parallel_work.report
    assert report.mode == ("here" if workers == 1 else mode) and sum(report.tasks) == 23


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("partition", "size"),
    [
        ("naive", None),
        ("fixed", 5),
        ("static", None),
        ("factoring", None),
        ("factoring_cmin", 3),
        ("factoring_cmax", 2),
    ],
)
def test_partitioners(mode: str, partition: str, size: int | None) -> None:
    same(parallel_work(mode, 3, partition, size, 17), work(mode, 3, partition, size, 17))
    assert parallel_work.report[0].partition == partition


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("workers", [2, 5])
def test_results_by_file(mode: str, workers: int) -> None:
    def fill(n: int) -> Any:
        R, old, cells, s = np.zeros((n, 5)), np.full((n, 2), np.nan, order="F"), [0] * n, 1.0
        odd = np.array([None] * n, dtype=object)
        for i in tw.parfor(range(n), mode=mode, workers=workers, merge="file"):
            R[i, i % 5] = i
            old[i] = 0.0
            cells[i] = i
            odd[i] = (i,)
            s += 1.0
        return R, old, cells, s, odd.tolist()

    function = tw.parallel(fill)
    same(function(11), fill(11))
    assert function.report[0].plan.merge == "file"

    def fail(out: Any) -> None:
        for i in tw.parfor(range(6), mode=mode, workers=workers, merge="file"):
            out[i] = 1 / (3 - i)

    out = np.full(6, 7.0)
    with pytest.raises(ZeroDivisionError):
        tw.parallel(fail)(out)
    assert (out == 7.0).all()


@pytest.mark.parametrize("mode", MODES)
def test_the_same_bits_on_every_run(mode: str) -> None:
    @tw.parallel
    def total(x: Any) -> Any:
        s = 0.1
        for i in tw.parfor(range(len(x)), mode=mode, workers=3):
            s += x[i]
        return s

    x = np.random.default_rng(0).normal(size=200) * 1e6
    found = {total(x).hex() for _ in range(6)}
    assert len(found) == 1
    assert np.isclose(float.fromhex(found.pop()), x.sum() + 0.1)


def test_no_iteration_and_one() -> None:
    @tw.parallel
    def small(n: int) -> Any:
        a, k = np.zeros(3), "before"
        for k in tw.parfor(range(n)):
            a[k] = a[k - 1] + 1  # one iteration meets nobody
        return a.tolist(), k

    assert small(0) == ([0.0, 0.0, 0.0], "before")
    assert small(1) == ([1.0, 0.0, 0.0], 0)


@pytest.mark.parametrize("span", [range(10, 0, -1), range(0, 20, 3), range(5, -9, -4), range(3, 4)])
def test_steps(span: range) -> None:
    @tw.parallel
    def fill(span: range) -> Any:
        a = np.zeros(40)
        for i in tw.parfor(span, workers=2):
            a[i] = i + 1
        return a, i

    expected = np.zeros(40)
    for i in span:
        expected[i] = i + 1
    a, last = fill(span)
    assert (a == expected).all() and last == span[-1]


def test_sequences() -> None:
    @tw.parallel
    def pairs(names: Any, x: Any) -> Any:
        out, lengths = {}, [0] * len(names)
        for k, (name, value) in tw.parfor(enumerate(zip(names, x, strict=True)), workers=2):
            out[name] = value * 2
            lengths[k] = len(name)
        return out, lengths

    out, lengths = pairs(["b", "a", "ccc", "d"], [1, 2, 3, 4])
    assert list(out.items()) == [("b", 2), ("a", 4), ("ccc", 6), ("d", 8)]  # in the order of iterations
    assert lengths == [1, 1, 3, 1]


def test_nested_loops_lists_of_arrays_and_attributes() -> None:
    class Model:
        def __init__(self) -> None:
            self.weights = np.zeros((6, 6))
            self.parts = [np.zeros(2) for _ in range(6)]

        @tw.parallel
        def fit(self) -> Any:
            for i in tw.parfor(range(6), workers=2):
                for j in tw.parfor(range(i)):
                    self.weights[i, j] = self.weights[j, i] + 10 * i + j
                self.parts[i][:] = i
            return self

    model = Model().fit()
    assert model.weights.tolist() == [[10 * i + j if j < i else 0 for j in range(6)] for i in range(6)]
    assert [p.tolist() for p in model.parts] == [[k, k] for k in range(6)]


def test_tilewise_arrays() -> None:
    @tw.parallel
    def scale(x: Any, out: Any) -> Any:
        for i in tw.parfor(range(4), workers=2):
            out[i] = x[i] * 2.0
        return out

    x, out = tw.arange(12.0).reshape(4, 3), tw.zeros((5, 3))
    got = scale(x, out)
    assert got is out
    assert np.asarray(out).tolist() == [*(np.arange(12.0).reshape(4, 3) * 2).tolist(), [0.0, 0.0, 0.0]]


@pytest.mark.parametrize("mode", MODES)
def test_a_failing_iteration(mode: str) -> None:
    @tw.parallel
    def divide(n: int, out: Any, seen: Any) -> Any:
        for i in tw.parfor(range(n), mode=mode, workers=3, partition="naive"):
            out[i] = 1 / (5 - i) if i < 9 else [][i]
            seen[i] = i
        return out

    out, seen = np.ones(20), [None] * 20
    with pytest.raises(ZeroDivisionError) as caught:  # the first one, as in the plain loop
        divide(20, out, seen)
    line = divide.__wrapped__.__code__.co_firstlineno + 3
    assert any(
        f"iteration i = 5 of the parfor at {__file__}:{line - 1}, line {line}" in n for n in caught.value.__notes__
    )
    assert (out == 1).all() and seen == [None] * 20  # nothing is merged


def test_an_exception_that_cannot_be_sent() -> None:
    class Odd(Exception):
        def __init__(self, a: int, b: int) -> None:
            super().__init__("odd")

    @tw.parallel
    def fail() -> None:
        out = np.zeros(4)
        for i in tw.parfor(range(4), mode="processes", workers=2):
            out[i] = 1
            if i == 2:
                raise Odd(1, 2)

    with pytest.raises(RuntimeError, match=r"Odd: odd .*iteration i = 2"):
        fail()


def test_a_lost_worker_changes_nothing_but_the_time(tmp_path: Any) -> None:
    flag = tmp_path / "once"

    @tw.parallel
    def run() -> Any:
        out = np.zeros(12)
        for i in tw.parfor(range(12), mode="processes", workers=3, check=False):
            if i == 4 and not os.path.exists(flag):
                open(flag, "w").close()
                os._exit(1)
            out[i] = i + 1
        return out

    assert run().tolist() == list(range(1, 13))


def test_workers_that_are_always_lost() -> None:
    @tw.parallel
    def run() -> None:
        out = np.zeros(4)
        for i in tw.parfor(range(4), mode="processes", workers=2, check=False):
            out[i] = os._exit(1)

    with pytest.raises(tw.ParforError, match="were lost 3 times"):
        run()


def test_streams_are_the_same_for_every_mode() -> None:
    def draw(mode: Any, workers: int, generator: Any) -> Any:
        out, filled, own, mixed = np.zeros((9, 3)), np.zeros((9, 3)), np.zeros((9, 3)), np.arange(27.0).reshape(9, 3)
        for i in tw.parfor(range(9), rng=generator, mode=mode, workers=workers):
            out[i] = generator.normal(size=3)
            generator.random(out=filled[i])
            generator.shuffle(mixed[i])
            np.random.default_rng(i).standard_normal(out=own[i])
        return np.stack([out, filled, mixed, own]), generator.normal()

    plain, after = draw(None, 1, np.random.default_rng(4))
    for mode, workers in (("threads", 3), ("processes", 2), ("processes", 7), (None, 1)):
        parallel = tw.parallel(draw)
        got, last = parallel(mode, workers, np.random.default_rng(4))
        assert got.tobytes() == plain.tobytes() and last == after
        assert parallel.report[0].mode == mode or mode is None
    assert [len(np.unique(x)) for x in plain] == [27] * 4


@pytest.mark.parametrize("mode", MODES)
def test_unchecked_loops(mode: str) -> None:
    @tw.parallel
    def halves(a: Any) -> Any:
        s, last = 0, None
        for i in tw.parfor(range(4), check=False, workers=2, mode=mode):
            a[i] = a[i + 4] + a[int(a[i + 4]) + 4]  # only the user knows that this stays in the upper half
            s += 1
            last = i
        return a, s, last

    a, s, last = halves(np.array([0.0, 0, 0, 0, 3, 2, 1, 0]))
    assert a.tolist() == [3.0, 3.0, 3.0, 3.0, 3.0, 2.0, 1.0, 0.0] and (s, last) == (4, 3)
    assert "not checked" in str(halves.report[0])


def test_loops_that_run_inside_of_workers() -> None:
    @tw.parallel
    def inner(row: Any) -> Any:
        out = np.zeros(len(row))
        for k in tw.parfor(range(len(row)), workers=2):
            out[k] = row[k] + 1
        return out

    @tw.parallel
    def outer(x: Any) -> Any:
        out = np.zeros(x.shape)
        for i in tw.parfor(range(len(x)), workers=2, check=False):
            out[i] = inner(x[i])
        return out

    x = np.arange(12.0).reshape(3, 4)
    assert (outer(x) == x + 1).all()


@pytest.mark.parametrize("mode", MODES)
def test_interrupt(mode: str, tmp_path: Any) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(f"""
        import time
        import numpy as np
        import tilewise as tw

        @tw.parallel
        def slow(out):
            for i in tw.parfor(range(6), mode="{mode}", workers=2, check=False):
                print("started", flush=True)
                for k in range(2000):
                    time.sleep(0.01)
                out[i] = 1

        out = np.zeros(6)
        try:
            slow(out)
        except KeyboardInterrupt:
            print("interrupted", out.sum(), flush=True)
        """)
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, text=True, env=env)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("started")  # two may print at once
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    try:
        rest = process.communicate(timeout=30)[0]
    finally:
        process.kill()
    assert "interrupted 0.0" in rest
    assert time.monotonic() - begin < 10  # two seconds on a machine with nothing else to do


def test_workers_end_when_their_parent_is_killed(tmp_path: Any) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            """
            import os
            import sys
            import time

            import numpy as np

            import tilewise as tw

            def note():
                with open(os.path.join(sys.argv[1], f"worker-{os.getpid()}"), "w"):
                    time.sleep(60)

            @tw.parallel
            def slow(A):
                for i in tw.parfor(range(4), mode="processes", workers=2, check=False):
                    note()
                    A[i] = i

            slow(np.zeros(4))
            """
        )
    )
    parent = subprocess.Popen([sys.executable, str(program), str(tmp_path)])
    try:
        _until(lambda: len(list(tmp_path.glob("worker-*"))) == 2)
    finally:
        parent.kill()
        parent.wait()
    workers = [int(path.name.split("-")[1]) for path in tmp_path.glob("worker-*")]
    assert len(workers) == 2
    if sys.platform == "linux":
        _until(lambda: not any(map(_runs, workers)))
        assert not any(map(_runs, workers))


def _until(holds: Any) -> None:
    end = time.monotonic() + 20
    while not holds() and time.monotonic() < end:
        time.sleep(0.05)


def _runs(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in ("Z", "X")
    except FileNotFoundError:
        return False


def _truths(mode: str, odd: bool, some: Any, B: Any) -> Any:
    for i in tw.parfor(range(9), mode=mode, workers=3):
        odd ^= True
        some += B[i]
    return odd, some


@pytest.mark.parametrize("mode", MODES)
def test_accumulators_keep_their_type(mode: str) -> None:
    B = np.arange(9) > 7
    for some in (np.False_, np.True_, np.uint8(3)):
        same(tw.parallel(_truths)(mode, False, some, B), _truths(mode, False, some, B))


@pytest.mark.parametrize("mode", MODES)
def test_objects_from_outside_stay_what_they_are(mode: str) -> None:
    class Model:
        pass

    def pick(models: Any, shared: Any, out: Any) -> Any:
        for i in tw.parfor(range(4), workers=2, mode=mode):
            out[i] = models[i % 2]
            out[i + 4] = [shared, i]
        return out

    models, shared = [Model(), Model()], np.zeros(3)
    out = tw.parallel(pick)(models, shared, [None] * 8)
    assert [x is models[i % 2] for i, x in enumerate(out[:4])] == [True] * 4
    assert all(x[0] is shared and x[1] == i for i, x in enumerate(out[4:]))
