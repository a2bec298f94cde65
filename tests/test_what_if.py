"""The same program on other meshes: each row is the plan that explain gives there, and nothing else happens."""

import gc
import time
import weakref

import numpy as np
import pytest

import tilewise as tw
from tilewise.array.pending import pending_cells
from tilewise.backend import llvm


@pytest.fixture(autouse=True)
def recorded():
    with tw.config(eager_bytes=0):
        yield


def gradient(n: int = 20_000) -> tw.Array:
    x, y, w = tw.array(np.ones((n, 16))), tw.array(np.ones(n)), tw.array(np.ones(16))
    p = 1 / (1 + tw.exp(-(x @ w)))
    return x.T @ (p - y) / n


SIZES = (1, 3, 4, (2, 2), (4, 4), 64)


def test_rows_are_the_plans_that_explain_gives() -> None:
    g = gradient()
    table = tw.explain(g).what_if(workers=SIZES)
    for size, row in zip(SIZES, table.rows, strict=True):
        plan = tw.explain(g, mesh=size)
        assert str(row.plan) == str(plan)
        assert (row.seconds, row.network_bytes) == (plan.seconds, plan.network_bytes)
        assert (row.memory_bytes, row.mesh, row.plan.optimal) == (plan.memory_bytes, plan.mesh, plan.optimal)
        assert row.worker_bytes == plan.network_bytes / plan.mesh.workers
        assert row.speedup == pytest.approx(table.rows[0].seconds / plan.seconds)


def test_the_table_has_the_rows_numbers() -> None:
    table = tw.explain(gradient()).what_if(workers=SIZES)
    head, *lines = str(table).splitlines()
    assert head.split()[:3] == ["workers", "time", "exchanges"] and "main layouts" in head
    for row, line in zip(table.rows, lines, strict=False):
        assert line.split()[0] == str(row.mesh)
        assert f"{row.seconds * 1e3:,.3f} ms" in line and f" {row.network_bytes:,} " in line
        assert f" {row.speedup:,.2f} " in line and " proved " in line and row.plan.main_layouts in line
        assert line.index(" proved ") == lines[0].index(" proved ")
    assert lines[0].endswith("whole") and "rows" in lines[2]
    assert max(map(len, lines)) <= 140


def test_settings_and_options_are_those_of_the_first_plan() -> None:
    a, b = tw.array(np.ones((300, 200))), tw.array(np.ones((200, 100)))
    with tw.config(objective="bytes"):
        first = tw.explain(a @ b, workers=2, network="1Gbit")
        alike = tw.explain(a @ b, workers=8, network="1Gbit")
    (row,) = first.what_if(workers=8).rows
    assert row.seconds == alike.seconds and row.plan.proof == alike.proof
    assert "by bytes" in row.plan.proof


def test_nothing_runs_and_nothing_is_kept() -> None:
    compiled = llvm.compiled_count()
    source = tw.array(np.ones((400, 30)))
    y = tw.exp(source * 3).sum(axis=0)
    pending = {id(c) for c in pending_cells()}
    plan = tw.explain(y, workers=4)
    table = plan.what_if()
    assert len(table.rows) == 6 and {id(c) for c in pending_cells()} <= pending  # others' may have gone meanwhile
    assert y._cell.node is not None and y._cell.node.value is None
    assert llvm.compiled_count() == compiled
    cell = weakref.ref(source._cell)
    node = weakref.ref(y._cell.node)
    del source, y
    gc.collect()
    assert cell() is None and node() is None  # a plan holds no data
    assert str(plan.what_if()) == str(table)


def test_the_session_and_what_it_holds_are_left_alone() -> None:
    with tw.session(engine="virtual", workers=4) as session:
        x = tw.evaluate(tw.arange(4000.0).reshape(400, 10) * 2)
        plan = tw.explain((x + 1).sum(axis=0))
        rows = plan.what_if(workers=(4, 8)).rows
        assert session.cluster is not None and session.cluster.counters.network_bytes == 0
        assert rows[0].network_bytes == plan.network_bytes  # x lies on these four
        assert any(e.kind == "scatter" for e in rows[1].plan.exchanges)  # and would have to go to eight


def test_a_selection_by_a_mask_is_planned_at_its_longest() -> None:
    x = tw.array(np.arange(1000.0))
    y = x[x > 10.0].sum()
    plan = tw.explain(y, workers=2)
    (row,) = plan.what_if(workers=2).rows
    assert row.network_bytes == plan.network_bytes
    assert float(y.compute()) == np.arange(1000.0)[11:].sum()
    assert str(plan.what_if(workers=2).rows[0].plan) == str(row.plan)  # though the length is known by now


def test_memory_that_is_too_small_is_said() -> None:
    x = tw.array(np.ones((1000, 100)))
    plan = tw.explain(x + 1, workers=16, memory="200kB")
    table = plan.what_if(workers=(4, 16))
    assert [row.fits for row in table.rows] == [False, True]
    four, sixteen = str(table).splitlines()[1:3]
    assert "more than memory=" in four and "more than" not in sixteen


def test_main_layouts_by_shape() -> None:
    tall = tw.explain(tw.array(np.ones((200_000, 8))).sum(axis=1)).what_if(workers=(4,)).rows[0]
    assert tall.plan.main_layouts.startswith("rows 100 %")
    square = tw.array(np.ones((1000, 1000)))
    grid = tw.explain(square @ square).what_if(workers=[(8, 8)]).rows[0]
    assert grid.plan.main_layouts == "rows x replicated 33 %, replicated x columns 33 %"  # and the result in blocks


@pytest.mark.parametrize("workers", [0, -1, (0,), ((2, 0),), (1.5,), ((2, 2, 2),)])
def test_bad_sizes(workers: object) -> None:
    with pytest.raises(tw.TilewiseError):
        tw.explain(tw.ones(30) + 1).what_if(workers=workers)


def test_a_thousand_workers_take_no_longer_than_a_moment() -> None:
    plan = tw.explain(gradient(1_000_000))
    start = time.perf_counter()
    plan.what_if(workers=(1024, (32, 32)))
    assert time.perf_counter() - start < 10  # about 0.4 s alone; other work may go on beside a test
