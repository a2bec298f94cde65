"""What a worker's stage does where blocks differ from the largest one, on which it was planned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tilewise import compiler
from tilewise.plan.structure import placed_structure

ROWS = 400


def extremes(np: Any, x: Any) -> Any:
    """Of all rows, and of the last ones: most blocks have rows for the first pass and none for the second."""
    return x.max(0), x[ROWS - 110 :].max(0), (x[ROWS - 110 :] + 1).min(0)


@pytest.mark.parametrize("blocks", [1, 3])
def test_a_block_that_is_empty_for_one_pass_of_a_group_still_counts_for_the_others(blocks: int) -> None:
    x = np.arange(ROWS * 300.0).reshape(ROWS, 300)[::-1].copy()  # the greatest are in the first rows
    with tw.config(blocks=blocks, eager_bytes=0), tw.session(engine="virtual", workers=4):
        made = extremes(tw, tw.evaluate(tw.asarray(x).relayout(0)))
        plan = tw.explain(*made, detail="steps").steps_text()
        got = tw.compute(*made)
    assert "tiled" in plan and "partial max" in plan
    for a, b in zip(got, extremes(np, x), strict=True):
        assert np.array_equal(a, b)


@pytest.mark.parametrize("seed", [2, 25, 32, 36])
def test_what_counts_on_one_worker_counts_for_one_of_its_blocks(seed: int) -> None:
    """A pass that sums a constant, block by block, reads nothing; what is added to the sum shares no tiles with it."""
    with (
        tw.config(blocks=3, eager_bytes=0),
        tw.session(engine="virtual", workers=4),
        tw.testing.random_layouts(seed),
    ):
        made = tw.ones((5, 3), "bool", order="F").sum(0, initial=2)
        assert "on one worker" in str(tw.explain(made))
        assert made.compute().tolist() == [7, 7, 7]


def squares(np: Any, x: Any, count: float) -> Any:
    """About a mean, if the count is that of the rows."""
    return ((x - x.sum(0) / count) ** 2).sum(0)


@pytest.mark.parametrize("workers", [1, 4])
def test_a_plan_that_is_found_again_looks_at_the_numbers_of_this_run(workers: int) -> None:
    """Plans are kept without scalars: deviations are from a mean in one run, and from something else in the next."""
    x = np.random.default_rng(0).random((400, 8)) + 3
    with tw.session(engine="virtual", workers=workers), tw.config(eager_bytes=0, tile=32):
        a = tw.evaluate(tw.asarray(x).relayout(1))
        for count in (400.0, 399.0, 300.0, 400.0):
            np.testing.assert_allclose(squares(tw, a, count).compute(), squares(np, x, count), rtol=1e-12)


def test_stages_are_shared_between_sizes_and_not_between_layouts(
    no_plans: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []

    def counted(*args: Any) -> Any:
        made.append(args)
        return compile_stages(*args)

    compile_stages = compiler.compile_stages
    monkeypatch.setattr(compiler, "compile_stages", counted)
    with tw.session(engine="virtual", workers=4), tw.config(eager_bytes=0):
        for rows in (400, 404, 412):
            x = np.random.default_rng(rows).random((rows, 40))
            a = tw.evaluate(tw.asarray(x).relayout(0))
            made.clear()
            np.testing.assert_allclose((a * 2 + a.sum(1)[:, None]).compute(), x * 2 + x.sum(1)[:, None], rtol=1e-12)
            assert len(made) == (rows == 400), "exchanges are planned anew, stages are not"


def test_the_key_of_stages_tells_layouts_apart() -> None:
    nodes: list[Any] = []
    first = placed_structure(nodes, [(0, 0, (0,), True)])
    assert placed_structure(nodes, [(0, 0, (0,), True)]) is first
    assert placed_structure(nodes, [(0, 0, (0, 1), True)]) is not first
