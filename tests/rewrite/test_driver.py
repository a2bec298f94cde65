"""The driver: one walk, however deep; nodes that no rule touches stay; nothing is lost, nothing planned twice."""

import time
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.rewrite.support import names, recorded, same
from tilewise import compiler
from tilewise.array.handle import node_of
from tilewise.ir.node import numbered, walk
from tilewise.rewrite import PASSES, may_fire, rewrite


def test_a_deep_graph() -> None:
    with recorded(flush=False):
        x = tw.ones(3, dtype=int)
        y = x
        for _ in range(15_000):
            y = np.negative(np.negative(y))
        start = time.process_time()  # others may have the cores
        new = rewrite([node_of(y)], exact=False)
        assert time.process_time() - start < 6
        assert new[node_of(y)] is node_of(x)
        same(y, np.ones(3, int))


def test_what_no_rule_touches_stays() -> None:
    with recorded():
        a = tw.array(np.arange(4.0))
        y = a * 3.0 + 1.0
        z = np.negative(np.negative(y))
        new = rewrite([node_of(z)], exact=False)
        assert new[node_of(y)] is node_of(y) and new[node_of(z)] is node_of(y)
        assert not may_fire(numbered([node_of(y)]))


def test_every_rule_says_what_it_does() -> None:
    for rules in PASSES:
        for rule in rules:
            assert "=>" in (rule.make.__doc__ or ""), rule.name


def test_the_switch() -> None:
    with recorded():
        x = tw.array(np.arange(3.0))
        assert names(np.negative(np.negative(x))) == ["copy"]
        with tw.config(rewrite=False):
            assert names(np.negative(np.negative(x))) == ["negative", "negative"]


def test_work_that_others_wait_for_is_kept() -> None:
    """What is pending beside the result hangs on the node that was recorded, and finds its value there."""
    with recorded():
        x = tw.array(np.arange(6.0).reshape(2, 3))
        y = np.negative(np.negative(x @ x.T))
        z = y + 1
        tw.evaluate(y)
        assert all(n.value is not None for n in walk([node_of(z)]) if n.op.name == "contract")
        y[0, 0] = 7.0  # is not seen by what was recorded before
        same(z, np.arange(6.0).reshape(2, 3) @ np.arange(6.0).reshape(2, 3).T + 1)
        assert y[0, 0] == 7.0


def test_an_evaluation_that_fails_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewise.backend.host import steps

    def broken(*_: Any) -> None:
        raise RuntimeError("broken")

    with recorded():
        x = tw.array(np.arange(4.0))
        y = np.negative(np.negative(x * 3.0)) + 1.0
        with monkeypatch.context() as patch:
            patch.setattr(steps, "run_pass", broken)
            with pytest.raises(RuntimeError):
                tw.evaluate(y)
        same(y, np.arange(4.0) * 3 + 1)


def test_loops_plan_once() -> None:
    with recorded():
        x = tw.array(np.arange(4.0))
        for turn in range(6):
            x = np.negative(np.negative(x)) * 0.3 + (0.1 + turn)
            tw.evaluate(x)
            if turn == 1:
                before = compiler.planned_count
        assert compiler.planned_count == before


def test_sizes_may_differ_from_call_to_call() -> None:
    with recorded():
        for n in (3, 5, 0, 4):
            x = np.arange(float(n))
            same(np.negative(np.negative(tw.array(x))) * 1 - 0, x)
