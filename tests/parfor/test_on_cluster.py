"""mode="cluster": the plain loop's results on workers of Ray; what is sent, what is lost, what cannot be sent."""

from __future__ import annotations

import _thread
import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.parfor.test_run import same, work

pytest.importorskip("ray")
from tilewise.engine import ray_tasks
from tilewise.parfor.cluster import driver
from tilewise.parfor.cluster.pieces import placed, taken

# Ray may leave processes that are still ending when it is shut down.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
parallel_work = tw.parallel(work)
TABLE = [1.0]  # changed below: workers see what it is now


@pytest.fixture(scope="module", autouse=True)
def workers() -> Iterator[None]:
    yield
    ray_tasks.close()


@pytest.mark.parametrize("count", [1, 2, pytest.param(4, marks=pytest.mark.soak)])
@pytest.mark.parametrize("merge", ["memory", "file", "cluster"])
def test_workers_and_merges(count: int, merge: str) -> None:
    def one(n: int) -> Any:
        X = np.arange(40.0).reshape(10, 4) + 1
        R, old, L, table = np.zeros((n, 4)), np.full((n, 3), np.nan), [None] * n, {}
        total, sums, tops = 0.5, np.array([1, 2, 3]), np.array([30.0, 2.0, np.nan])
        view = old[::-1]
        for i in tw.parfor(range(n), mode="cluster", workers=count, merge=merge):
            R[i] = X[i % 10] * i
            view[i, 1:] = 0.0
            L[i] = (i, "text")
            table[i] = R[i].copy()
            total += float(i)
            sums[i % 3] += i
            tops[i % 3] = max(tops[i % 3], X[i % 10, 2])
        return R, old, L, total, sums, tops, i, [(k, v.tolist()) for k, v in table.items()]

    function = tw.parallel(one)
    same(function(13), one(13))
    (report,) = function.report
    assert report.mode == "cluster" and report.workers == count and report.plan is not None
    assert report.plan.merge == merge


@pytest.mark.parametrize("partition", ["naive", "fixed", "static", "factoring", "factoring_cmin", "factoring_cmax"])
def test_partitioners(partition: str) -> None:
    same(parallel_work("cluster", 2, partition, None, 17), work("cluster", 2, partition, None, 17))


def scaled(x: float) -> float:
    return x * TABLE[0]


class Model:
    def __init__(self) -> None:
        self.weights = np.zeros((4, 3))
        self.rows = [self.weights[k] for k in range(4)]  # views of the same memory
        self.last: Any = None

    @tw.parallel
    def fit(self, X: Any) -> Any:
        for i in tw.parfor(range(4), mode="cluster", workers=2):
            self.weights[i, 0] = X[i].sum()
            self.rows[i][1] = self.weights[i, 0] * 2  # reads what was just written, under another name
        return self


def test_functions_objects_and_shared_memory() -> None:
    power = 3

    def local(x: float) -> float:
        return x**power if x < 4 else local(x - 4)

    @tw.parallel
    def run(x: Any) -> Any:
        out = np.zeros(len(x))
        for i in tw.parfor(range(len(x)), mode="cluster", workers=2):
            out[i] = scaled(x[i]) + local(x[i])
        return out

    TABLE[0] = 10.0
    try:
        assert run(np.arange(6.0)).tolist() == [10 * x + (x if x < 4 else x - 4) ** 3 for x in range(6)]
    finally:
        TABLE[0] = 1.0
    X = np.arange(8.0).reshape(4, 2)
    model = Model().fit(X)
    assert model.weights.tolist() == [[s, 2 * s, 0] for s in X.sum(1)]
    assert model.rows[2] is not None and model.rows[2].base is model.weights


@tw.parallel
def by_columns(X: Any, out: Any) -> Any:
    for i in tw.parfor(range(X.shape[1]), mode="cluster", workers=2):
        c = X[:, i] - X[:, i].mean()
        out[i] = c @ X[:, i] + X[:, i] @ X[:, i]
    return out


@tw.parallel
def by_blocks(X: Any, out: Any) -> Any:
    for i in tw.parfor(range(10), mode="cluster", workers=2):
        B = X[40 * i : 40 * i + 40, 3 * i : 3 * i + 3]
        out[i] = B.sum() + (B @ B.T)[3, 7] + X.shape[0]
    return out


@pytest.mark.parametrize("order", ["C", "F"])
def test_parts_of_inputs_go_to_the_tasks_that_read_them(order: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.asarray(np.random.default_rng(1).normal(size=(400, 30)), order=order)
    sent: list[int] = []
    put = ray_tasks.Pool.put

    def counted(self: Any, value: Any) -> Any:
        sent.append(getattr(value, "nbytes", 0))
        return put(self, value)

    monkeypatch.setattr(ray_tasks.Pool, "put", counted)
    for function in (by_columns, by_blocks):
        sent.clear()
        expected = function.__wrapped__(X, np.zeros(30))
        assert function(X, np.zeros(30)).tobytes() == expected.tobytes()  # to the last bit: strides are alike
        assert f"X: by {'columns' if function is by_columns else 'blocks'}" in "".join(function.report[0].plan.lines())
        assert X.nbytes <= sum(sent) < 1.2 * X.nbytes if function is by_columns else sum(sent) < 0.6 * X.nbytes
        for _ in range(5):  # workers keep their parts, and get the tasks that read them: soon nothing is sent
            sent.clear()
            assert function(X, np.zeros(30)).tobytes() == expected.tobytes()
            if not sum(sent):
                break
        assert not sum(sent)
        Y = X.copy(order="K")
        Y[0, :] += 1.0
        assert function(Y, np.zeros(30)).tobytes() == function.__wrapped__(Y, np.zeros(30)).tobytes()


def test_pieces() -> None:
    whole = np.arange(2 * 5 * 7.0).reshape(2, 5, 7)
    for array in (whole, np.asfortranarray(whole), whole[:, :, ::1].transpose(1, 0, 2).copy()):
        box = (range(0, array.shape[0]), range(1, 2), range(2, 6))
        got = placed(taken(array, box), box, array.shape)
        assert got.shape == array.shape and (got[:, 1, 2:6] == array[:, 1, 2:6]).all()
        assert np.argsort(got.strides).tolist() == np.argsort(array.strides).tolist()
        assert not got.flags.writeable


def test_a_lost_worker_changes_nothing_but_the_time(tmp_path: Any) -> None:
    flag = str(tmp_path / "once")

    @tw.parallel
    def run(out: Any, sums: Any) -> Any:
        total = 1.0
        for i in tw.parfor(range(12), mode="cluster", workers=2, check=False, partition="naive"):
            if i == 4 and not os.path.exists(flag):
                open(flag, "w").close()
                os.kill(os.getpid(), signal.SIGKILL)  # as the system does where memory is short
            out[i] += i + 1
            sums[i % 2] += i
            total += 1.0
        return total

    out, sums = np.ones(12), np.zeros(2)
    assert run(out, sums) == 13.0
    assert out.tolist() == list(range(2, 14)) and sums.tolist() == [30.0, 36.0] and os.path.exists(flag)


@pytest.mark.soak
def test_workers_that_are_always_lost() -> None:
    @tw.parallel
    def run(out: Any) -> None:
        for i in tw.parfor(range(4), mode="cluster", workers=1, check=False):
            out[i] = 1 if i < 3 else os._exit(1)

    out = np.zeros(4)
    with pytest.raises(tw.ParforError, match=r"were lost 3 times, and nothing was written.*Use fewer workers"):
        run(out)
    assert not out.any()


def test_a_failing_iteration() -> None:
    @tw.parallel
    def divide(out: Any) -> None:
        for i in tw.parfor(range(20), mode="cluster", workers=2, partition="naive"):
            out[i] = 1 / (5 - i) if i < 9 else [][i]

    out = np.ones(20)
    with pytest.raises(ZeroDivisionError) as caught:
        divide(out)
    assert "in iteration i = 5 of the parfor" in caught.value.__notes__[0] and (out == 1).all()
    before = list(ray_tasks.pool(2).processes)
    same(parallel_work("cluster", 2, None, None, 9), work("cluster", 2, None, None, 9))
    assert len(before) == 2 and ray_tasks.pool(2).processes == before  # those that were told to stop go on


def test_what_cannot_be_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    lock, ran = threading.Lock(), []
    monkeypatch.setattr(driver, "_Run", lambda *args: ran.append(args))

    @tw.parallel
    def locked(out: Any, guard: Any) -> None:
        for i in tw.parfor(range(3), mode="cluster", workers=2, check=False):
            with guard:
                out[i] = i

    @tw.parallel
    def closed(out: Any) -> None:
        for i in tw.parfor(range(3), mode="cluster", workers=2, check=False):
            out[i] = lock.locked()

    for function, args, name in ((locked, (lock,), "guard"), (closed, (), "lock")):
        with pytest.raises(tw.ParforError, match=rf'{name} \(lock\).*cannot be sent.*Use mode="processes"'):
            function(np.zeros(3), *args)
    assert not ran  # nothing was started


def test_streams() -> None:
    def draw(mode: Any, generator: Any) -> Any:
        out = np.zeros((5, 3))
        for i in tw.parfor(range(5), rng=generator, mode=mode, workers=2):
            out[i] = generator.normal(size=3)
        return out

    expected = draw(None, np.random.default_rng(4))
    assert tw.parallel(draw)("cluster", np.random.default_rng(4)).tobytes() == expected.tobytes()


def test_interrupt() -> None:
    @tw.parallel
    def slow(out: Any) -> None:
        for i in tw.parfor(range(4), mode="cluster", workers=2, check=False):
            out[i] = 1
            time.sleep(60)

    out = np.zeros(4)
    timer = threading.Timer(1.0, _thread.interrupt_main)
    timer.start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        slow(out)
    assert time.monotonic() - begin < 20 and not out.any()  # two seconds on a machine with nothing else to do


@pytest.mark.soak
def test_the_ray_of_a_session() -> None:
    with tw.session(engine="ray", workers=1):
        same(parallel_work("cluster", 2, None, None, 9), work("cluster", 2, None, None, 9))
        x = tw.arange(10.0)
        assert float((x * x).sum()) == 285.0
