"""Plans before they run: what they say is what then happens, and asking runs nothing."""

import re
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import tilewise as tw
from tilewise.backend import llvm
from tilewise.cost.model import FIXED


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


def test_sums_that_a_third_one_connects_are_one_pass() -> None:
    x, y = (tw.array(np.random.default_rng(k).random(1000)) for k in range(2))
    plan = tw.explain(x.sum(), y.sum(), (x * y).sum(), (x * x).sum())
    (step,) = [s for stage in plan.stages for s in stage.steps]
    assert step.kind == "pass" and step.bytes_read == x.nbytes + y.nbytes
    assert len([s for stage in tw.explain(x.sum(), y.sum()).stages for s in stage.passes]) == 2


def test_standardising_columns_ends_a_pass_where_a_sum_is_needed() -> None:
    x = tw.array(np.random.default_rng(0).random((100, 5)))
    plan = tw.explain((x - x.mean(0)) / x.std(0))
    over_x = [s for stage in plan.stages for s in stage.passes if s.shape == (100, 5)]
    assert len(over_x) == 3  # means; squared differences; the result


def test_an_update_is_written_by_the_pass_that_computes_it() -> None:
    plan = tw.explain(jacobi())
    (step,) = plan.stages[0].passes
    assert step.operators[0] == "copy" and step.operators[-1] == "update"


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


def numbers(text: str, head: str, column: str) -> list[int]:
    """What stands in a column of the plan's table, by where its head ends."""
    lines = text.splitlines()
    (top,) = [i for i, line in enumerate(lines) if line.startswith(head) and column in line]
    end = lines[top].index(column) + len(column)
    found = []
    for line in lines[top + 1 :]:
        kind = line.split()[0]
        part = "exchange" if kind == "exchange" else "stage" if kind == "stage" else None
        head = part or head.split()[0]
        if part is None and line.startswith("  ") and lines[top].startswith(head):
            words = line[:end].split()
            if words[-1].replace(",", "").isdigit():
                found.append(int(words[-1].replace(",", "")))
    return found


@pytest.mark.parametrize("mesh", [4, (2, 2)])
def test_the_table_has_the_plans_numbers(mesh: object) -> None:
    with tw.config(objective="time"):
        a, b = tw.array(np.ones((400, 300))), tw.array(np.ones((300, 200)))
        plan = tw.explain(tw.exp(a @ b).sum(axis=0), mesh=mesh)
    text = str(plan)
    assert f"{plan.network_bytes:,} bytes cross" in text
    assert f"predicted {plan.seconds * 1e3:,.3f} ms" in text
    crossing = numbers(text, "exchange", "bytes")
    assert crossing == [e.bytes for e in plan.exchanges] and sum(crossing) == plan.network_bytes
    steps = [s for stage in plan.stages for s in stage.steps if s.kind != "view"]
    assert numbers(text, "stage 1", "reads") == [s.bytes_read for s in steps]
    assert numbers(text, "stage 1", "writes") == [s.bytes_written for s in steps]
    assert plan.seconds == pytest.approx(sum(s.seconds for s in steps) + plan.exchange_seconds)
    for s in steps:
        assert any(f"  {s.kind} " in line and s.value in line and s.layout[:15] in line for line in text.splitlines())


@pytest.mark.parametrize("mesh", [1, 4, (2, 2)])
def test_columns_line_up_and_lines_are_short(mesh: object) -> None:
    a = tw.array(np.ones((64, 64)))
    for _ in range(6):
        a = (tw.sqrt(tw.exp(a) + a.T @ a) * 2 + tw.cos(a) - tw.sin(a) / 3).T
    lines = str(tw.explain(a, mesh=mesh)).splitlines()
    assert max(map(len, lines)) <= 130
    (head,) = [line for line in lines if line.startswith("stage 1 ")]
    shape, layout = head.index("shape"), head.index("layout")
    for line in lines:
        if re.match(r"  (pass|numpy|view|write) ", line):
            assert line[shape - 2 : shape] == "  " and re.match(r"\d+x\d+ |scalar ", line[shape:])
            assert line[layout - 2 : layout] == "  " and line[layout] != " "


def test_a_loop_is_shown_once() -> None:
    with tw.config(flush=False):
        text = str(tw.explain(jacobi(turns=12), workers=4))
    assert "… the 2 parts above" in text and "more times" in text
    assert len(text.splitlines()) < 50


def test_a_matrix_product_counts_its_arithmetic() -> None:
    a, b = tw.array(np.ones((400, 300))), tw.array(np.ones((300, 200)))
    with tw.config(objective="time"):
        plan = tw.explain(a @ b)
    assert plan.seconds == pytest.approx(FIXED.step_seconds + 2 * 400 * 300 * 200 / FIXED.flop_rate)


def test_a_pass_takes_as_long_as_its_bytes_or_its_arithmetic() -> None:
    x = tw.array(np.ones((1000, 800)))
    points = x.size
    rows = {
        "bytes": (x + 1, 8 * points / FIXED.memory_rate + 8 * points / FIXED.store_rate),
        "sum": (((x * 2 + x) * x).sum(), 8 * points / FIXED.memory_rate),
        "quotients": ((1 / x / x / x).sum(), points * (3 / FIXED.divide_rate + 1 / FIXED.simple_rate)),
        "by rows": (
            (x / x[0] / x[1] / x[2] / x[3]).max(),
            points * (4 / FIXED.row_divide_rate + 1 / FIXED.simple_rate),
        ),
        "functions": (np.exp(np.sin(x)), points * 2 / FIXED.function_rate),
    }
    for name, (made, want) in rows.items():
        assert tw.explain(made).seconds == pytest.approx(FIXED.step_seconds + want, rel=1e-3), name


def test_vectors_have_twice_as_many_float32() -> None:
    half = tw.array(np.ones((1000, 800), "f4"))
    three = 3 * half.size / 2 / FIXED.function_rate
    plan = tw.explain(np.exp(np.exp(np.exp(half))))
    assert plan.seconds == pytest.approx(FIXED.step_seconds + three)


def test_passes_on_one_tile_read_memory_once_and_compute_one_after_the_other() -> None:
    X, C = tw.array(np.ones((100_000, 50))), tw.array(np.ones((50, 64)))
    flops = 2 * 100_000 * 50 * 64
    with tw.config(eager_bytes=0):
        nearest, all_of_it = tw.explain((X @ C).argmin(axis=1)).seconds, tw.explain(np.exp(X @ C).sum(axis=1)).seconds
        spread, mean = tw.explain(X.std(axis=0)).seconds, tw.explain(X.mean(axis=0)).seconds
    assert flops / FIXED.nearest_flop_rate < nearest < 1.1 * flops / FIXED.nearest_flop_rate
    assert all_of_it > flops / FIXED.flop_rate + 100_000 * 64 / FIXED.function_rate
    assert mean <= spread < 1.1 * (X.nbytes / FIXED.memory_rate) + 4 * FIXED.step_seconds


def test_totals() -> None:
    x = tw.array(np.ones((40, 12)))
    alone = tw.explain((x + 1).sum(axis=0)).totals
    assert (alone.read, alone.written, alone.allocated, alone.sent) == (3840, 96, 96, 0)
    plan = tw.explain(x + 1, workers=4)
    # Every worker has a quarter, reads it, and makes a quarter of the result.
    assert (plan.totals.read, plan.totals.written, plan.totals.allocated) == (3840, 3840, 7680)
    assert plan.totals.sent == plan.network_bytes == 2 * 3 * 960
    with tw.config(flush=False):
        ghosts = tw.explain(jacobi(60, 20), workers=4)
    assert ghosts.totals.allocated > ghosts.totals.written  # what was scattered, with two ghost rows at each boundary


def test_an_update_in_place_allocates_nothing() -> None:
    x = tw.arange(1000.0) * 2
    x[10:20] = 1.0
    plan = tw.explain(x)
    assert plan.totals.allocated < plan.totals.written


def test_lines_are_this_programs_lines() -> None:
    """A plan that is kept from an equal program on other lines is not shown for this one."""
    a = tw.array(np.ones((40, 30)))
    first = tw.explain(tw.exp(a * 3).sum(axis=0), workers=4)
    second = tw.explain(tw.exp(a * 4).sum(axis=0), workers=4)

    def lines(plan: Any) -> set[str]:
        return {s.where for stage in plan.stages for s in stage.steps}

    (one,), (two,) = lines(first), lines(second)
    assert int(two.split(":")[1]) == int(one.split(":")[1]) + 1
    assert "multiply(·, 3.0)" in first.to_svg() and "multiply(·, 4.0)" in second.to_svg()


def test_html_has_the_table_and_the_picture() -> None:
    a = tw.array(np.ones((40, 30)))
    plan = tw.explain(tw.exp(a).sum(axis=0), workers=4)
    html = plan._repr_html_()
    page = ElementTree.fromstring(html.replace("<br>", "<br/>").replace("<details open>", "<details>"))
    assert "script" not in html
    rows = [[cell.text or "" for cell in row] for row in page.iter("tr")]
    for e in plan.exchanges:
        assert any(row[0] == e.kind and f"{e.bytes:,}" in row and f"{e.source} -> {e.target}" in row for row in rows)
    assert page.find(".//{http://www.w3.org/2000/svg}svg") is not None


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


def test_what_is_known_needs_no_plan():
    known = tw.asarray(np.ones(3))
    plan = tw.explain(known, workers=4)
    assert "Plan for 4 workers: 0 stages" in str(plan) and "nothing to compute" in str(plan)
    assert [row.mesh.workers for row in plan.what_if([1, 4]).rows] == [1, 4]
    with pytest.raises(ValueError, match="the values are known"):
        plan.why(known)


def test_the_time_that_fewer_bytes_cost_is_said() -> None:
    """Only where sums do take such routes: else no choice is cheaper, and nothing was given."""
    with tw.config(eager_bytes=0, objective="time"):
        x = tw.asarray(np.ones((100_000, 20)))
        gram = x.T @ x
        said = tw.explain(gram @ gram, workers=4).proof
        plain = tw.explain(x * 2.0, workers=4).proof
    assert re.search(r"\nSums take routes with fewer bytes, for (0\.\d+|1|2) % more time\.$", said)
    assert plain.endswith("(proved; .certificate, .verify()).")
