"""Deep graphs: 10,000 operators (`make soak`: 30,000) are forced, pickled, copied and printed, 100,000 dropped."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.effort import SOME_OR_ALL

DEEP, DEEPER, DROPPED = 10_000, 30_000, 100_000


@pytest.fixture(autouse=True)
def recorded() -> Iterator[None]:
    with tw.config(eager_bytes=0, flush=False, native=False, fallback="silent"):
        yield


def chain(n: int = DEEP) -> Any:
    x = tw.array(np.zeros(2))
    for _ in range(n):
        x = x + 1.0
    return x


USES: dict[str, Callable[[Any], Any]] = {
    "force": lambda x: x.compute(),
    "pickle": lambda x: pickle.loads(pickle.dumps(x)).compute(),
    "deepcopy": lambda x: copy.deepcopy(x).compute(),
    "repr": lambda x: np.array([float(repr(x).split("[")[1].split(".")[0])] * 2),
    "view": lambda x: np.repeat(x[::-1][1:].compute(), 2),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("whole", SOME_OR_ALL)
def test_a_deep_chain(use: str, whole: bool) -> None:
    n = DEEPER if whole else DEEP
    assert np.array_equal(USES[use](chain(n)), [n, n])


def test_dropping_a_deep_chain() -> None:
    x = chain(DROPPED)
    del x
    gc.collect()


@pytest.mark.parametrize("whole", SOME_OR_ALL)
def test_deep_updates(whole: bool) -> None:
    n = 3_000 if whole else 1_000
    x = tw.array(np.zeros(4))
    for i in range(n):
        x[i % 4] += 1.0
        x[1:3] *= 1.0
    assert np.array_equal(x.compute(), [n / 4] * 4)


def test_deep_diamonds() -> None:
    x = tw.array(np.ones(3))
    for _ in range(60):  # a tree of 2**60 leaves
        x = x * 0.5 + x * 0.5
    assert np.array_equal(x.compute(), np.ones(3))


def test_many_threads_record_and_force_one_graph() -> None:
    base = tw.array(np.arange(50.0))
    shared = [base * float(k) for k in range(10)]
    found: list[float] = []

    def work(k: int) -> None:
        with tw.config(eager_bytes=0, native=False, fallback="silent"):
            for i in range(30):
                y = shared[(k + i) % 10] + shared[(k * i) % 10]
                if i % 3 == 0:
                    y.compute()
            found.append(float(sum(s.sum() for s in shared)))

    workers = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert found == [np.arange(50.0).sum() * 45.0] * 8
