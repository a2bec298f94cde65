"""Plans before they run: what they say is what then happens, and asking runs nothing."""

import numpy as np
import pytest

import tilewise as tw
from tilewise.target import llvm


@pytest.fixture(autouse=True)
def recorded():
    with tw.config(eager_bytes=0, objective="bytes"):  # by time, arrays as small as these would be replicated
        yield


def jacobi(n: int = 64, m: int = 20, turns: int = 1):
    a = tw.array(np.arange(float(n * m)).reshape(n, m))
    for _ in range(turns):
        b = a.copy()
        b[1:-1, 1:-1] = 0.2 * (a[1:-1, 1:-1] + a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])
        a = b
    return b


def test_a_chain_is_one_pass() -> None:
    a, b, c = (tw.array(np.ones(1000)) for _ in range(3))
    plan = tw.explain(2 * a * b + c - a / 3 + b * c)
    assert len(plan.stages) == 1
    (step,) = plan.stages[0].steps
    assert step.kind == "pass" and len(step.operators) == 7
    assert (step.bytes_read, step.bytes_written) == (3 * 8000, 8000)


def test_a_map_and_its_sum_are_one_pass() -> None:
    a, b, c = (tw.array(np.ones(1000)) for _ in range(3))
    plan = tw.explain(((a - b) ** 2 * c).sum())
    assert [s.kind for stage in plan.stages for s in stage.steps] == ["pass"]


def test_standardising_columns_ends_a_pass_where_a_sum_is_needed() -> None:
    x = tw.array(np.random.default_rng(0).random((100, 5)))
    plan = tw.explain((x - x.mean(0)) / x.std(0))
    over_x = [s for stage in plan.stages for s in stage.passes if s.shape == (100, 5)]
    assert len(over_x) == 3  # means; squared differences; the result


def test_an_update_is_written_by_the_pass_that_computes_it() -> None:
    plan = tw.explain(jacobi())
    (step,) = plan.stages[0].passes
    assert step.operators[-1] == "update"


def test_a_stencil_step_pays_one_halo() -> None:
    with tw.config(flush=False):
        plan = tw.explain(jacobi(turns=2), workers=4)  # the first step's ghosts come with the rows
    kinds = [e.kind for e in plan.exchanges]
    assert kinds.count("halo") == 1 and "all-to-all" not in kinds and "all-gather" not in kinds
    (halo,) = [e for e in plan.exchanges if e.kind == "halo"]
    assert halo.bytes == 2 * 3 * 20 * 8  # two rows over each of three boundaries


def test_nothing_runs() -> None:
    x = tw.arange(10.0)
    y = (x * 3 + 1).sum()
    before = llvm.compiled_count()
    str(tw.explain(y)), str(tw.explain(y, workers=3))
    assert y._cell.node is not None and y._cell.node.value is None
    assert llvm.compiled_count() == before


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("blocks", [1, 3])
def test_predicted_bytes_are_the_counted_ones(workers: int, blocks: int) -> None:
    with tw.config(blocks=blocks), tw.session(engine="virtual", workers=workers):
        y = jacobi(60, 11)
        plan = tw.explain(y)
        with tw.profile() as profile:
            y.compute()
        assert plan.network_bytes == profile.network_bytes
        assert (plan.network_bytes > 0) == (workers > 1)


def test_text_names_the_users_line_and_the_bytes() -> None:
    x = tw.array(np.ones((40, 6)))
    text = str(tw.explain(x.sum(axis=0), workers=2))
    assert "test_explain.py:" in text
    assert "bytes cross between workers" in text
    assert "exchange" in text and "stage 1" in text


def test_html_is_escaped() -> None:
    html = tw.explain(tw.ones(4) + 1)._repr_html_()
    assert html.startswith("<pre>") and "->" not in html


def test_memory_is_known_before() -> None:
    x = tw.array(np.ones(1000))
    assert tw.explain(x + 1).memory_bytes == 16_000
    assert tw.explain(x + 1, workers=4).memory_bytes == 2 * 2000


@pytest.mark.parametrize("workers", [0, -1, 1.5])
def test_bad_sizes(workers: object) -> None:
    with pytest.raises(tw.TilewiseError):
        tw.explain(tw.ones(3) + 1, workers=workers)


def test_explain_takes_arrays() -> None:
    with pytest.raises(TypeError):
        tw.explain(3)
