"""The table of nodes: equal operators on the same inputs are one node, in all threads."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest

from tilewise.ir import node
from tilewise.ops.const import const


def test_threads_may_sweep_the_table_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "_sweep_at", 1)
    monkeypatch.setattr(node, "_SWEEP_LEAST", 1)
    failed: list[BaseException] = []
    kept = [const(np.float64(0.5)), const(np.float64(0.25))]

    def work(thread: int) -> None:
        try:
            for i in range(4000):
                const(np.float64(thread * 1e6 + i))
        except BaseException as error:
            failed.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert not failed
    assert const(np.float64(0.5)) is kept[0] and const(np.float64(0.25)) is kept[1]
