"""The table of nodes: equal operators on the same inputs are one node, in all threads."""

from __future__ import annotations

import math
import pickle
import sys
import threading

import numpy as np
import pytest

from tilewise.ir import node
from tilewise.ops.const import MAX_NUMBERS, const, number
from tilewise.ops.reduce import reduce_op


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


def test_numbers_of_python_are_constants_of_a_dtype() -> None:
    F, I = np.dtype(np.float64), np.dtype(np.int8)
    assert number(0.5, F) is number(0.5, F) is const(np.float64(0.5))
    assert number(1, F) is number(1.0, F) is not number(1, I)
    signs = [math.copysign(1, number(zero, F).op.value) for zero in (0.0, -0.0, 0.0, -0.0)]  # type: ignore[attr-defined]
    assert signs == [1, -1, 1, -1]
    with pytest.raises(OverflowError):
        number(1000, I)
    for k in range(2 * MAX_NUMBERS):
        assert number(k + 0.5, F).op.value == k + 0.5  # type: ignore[attr-defined]


def test_what_belongs_to_the_key_of_a_plan_is_found_once() -> None:
    for value, scales in (
        (np.float64(2.5), True),
        (np.float64(0), False),
        (np.float64(np.inf), False),
        (np.int8(3), False),
    ):
        op = const(value).op
        assert op.part == (op.signature, scales) and op.part is op.part  # type: ignore[attr-defined]


def test_there_is_one_reduction_of_each_kind() -> None:
    one = reduce_op("add", (0, 1), False, np.dtype(np.float32))
    assert one is reduce_op("add", (0, 1), False, np.dtype("f4")) is pickle.loads(pickle.dumps(one))
    assert one is not reduce_op("add", (0, 1), True, np.dtype(np.float32))
