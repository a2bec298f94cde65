"""The tilings that people find by thinking come out of the solver, with the fixed machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tilewise.array.handle import from_node
from tilewise.ir.node import known_leaf
from tilewise.layout import Grid, Layout, Partial, Replicate, Shard
from tilewise.observe.explain import ExchangeRow, Plan
from tilewise.solver.model.graph import Stub


@pytest.fixture(autouse=True)
def recorded() -> Any:
    with tw.config(eager_bytes=0, flush=False):
        yield


def given(*shape: int) -> Any:
    """An input that the driver has: only its type."""
    return from_node(known_leaf(Stub(shape, np.dtype(np.float64)), None))


def moves_of(plan: Plan, shape: tuple[int, ...]) -> list[ExchangeRow]:
    """The exchanges of values of a shape."""
    text = "x".join(map(str, shape)) + " float64"
    return [e for e in plan.exchanges if e.value == text]


def layouts_of(plan: Plan, name: str) -> list[Layout]:
    return [layout for label, layout in plan.layouts if label.startswith(name)]


def cut(layout: Layout) -> int | None:
    return layout.axis if isinstance(layout, Shard) else None


def test_regression_on_tall_data_cuts_rows() -> None:
    x, y, w = given(1_000_000, 20), given(1_000_000), given(20)
    for _ in range(3):
        w = w - 0.1 * (x.T @ (x @ w - y))
    plan = tw.explain(w, workers=8)
    assert [(e.kind, e.target) for e in moves_of(plan, (1_000_000, 20))] == [("scatter", "rows/8")]
    assert [e.kind for e in moves_of(plan, (1_000_000,))] == ["scatter"]
    assert [isinstance(x, Partial) for x in layouts_of(plan, "matmul")] == [False, True] * 3
    assert plan.optimal


@pytest.mark.parametrize(
    ("m", "k", "n", "expected"),
    [(200_000, 100, 100, ("rows", "whole")), (100, 100, 200_000, ("whole", "columns")), (100, 200_000, 100, "inner")],
)
def test_the_ways_of_a_product_by_shape(m: int, k: int, n: int, expected: Any) -> None:
    plan = tw.explain(given(m, k) @ given(k, n), workers=8)
    (out,) = layouts_of(plan, "matmul")
    if expected == "inner":
        assert isinstance(out, Partial)
    else:
        assert cut(out) == (0 if expected[0] == "rows" else 1)
    assert plan.optimal


def test_als_holds_the_ratings_in_both_layouts_and_moves_them_once() -> None:
    r, u, v = given(6000, 4000), given(6000, 20), given(4000, 20)

    def squares(x: Any) -> Any:
        """What the normal equations of the other side are made of."""
        return (x[:, :, None] * x[:, None, :]).reshape(len(x), 400)

    for _ in range(10):
        u = (r @ v) / (r @ squares(v)).max(1)[:, None]
        v = (r.T @ u) / (r.T @ squares(u)).max(1)[:, None]
    plan = tw.explain(u, v, workers=8)
    ratings = moves_of(plan, (6000, 4000))
    assert sorted(e.target for e in ratings) == ["columns/8", "rows/8"]
    assert {cut(x) for x in layouts_of(plan, "matmul")} == {0}
    assert plan.optimal


def test_als_in_separate_evaluations_moves_the_ratings_in_the_first_only() -> None:
    data = np.random.default_rng(0).random((4000, 3000))
    with tw.session(engine="virtual", workers=4) as session:
        r, u, v = tw.asarray(data), tw.ones((4000, 8)), tw.ones((3000, 8))
        moved = []
        for _ in range(3):
            before = session.cluster.counters.network_bytes
            u = (r @ v) * 1e-3
            v = (r.T @ u) * 1e-3
            tw.evaluate(u, v)
            moved.append(session.cluster.counters.network_bytes - before)
        assert moved[0] > data.nbytes / 2 and max(moved[1:]) < data.nbytes / 20
        want_u, want_v = np.ones((4000, 8)), np.ones((3000, 8))
        for _ in range(3):
            want_u = (data @ want_v) * 1e-3
            want_v = (data.T @ want_u) * 1e-3
        np.testing.assert_allclose(np.asarray(v), want_v)


def test_pagerank_gathers_the_ranks_and_leaves_the_matrix() -> None:
    m, r = given(20_000, 20_000), given(20_000)
    for _ in range(4):
        r = 0.85 * (m @ r) + 0.15 / 20_000
    plan = tw.explain(r, workers=8)
    assert [e.kind for e in moves_of(plan, (20_000, 20_000))] == ["scatter"]
    assert plan.network_bytes < 1.01 * 20_000 * 20_000 * 8
    assert plan.optimal


def test_pca_and_ssvd_read_tall_data_by_rows_through_transposes() -> None:
    x, omega = given(500_000, 50), given(50, 10)
    centred = x - x.mean(0)
    covariance = centred.T @ centred
    plan = tw.explain(covariance, workers=8)
    assert [(e.kind, e.target) for e in moves_of(plan, (500_000, 50))] == [("scatter", "rows/8")]
    y = x @ omega
    for _ in range(2):
        y = x @ (x.T @ y)
    plan = tw.explain(y, workers=8)
    assert [(e.kind, e.target) for e in moves_of(plan, (500_000, 50))] == [("scatter", "rows/8")]
    assert not moves_of(plan, (500_000, 10))[:-1]  # but for the result
    assert plan.optimal


def test_square_products_are_cut_into_blocks_on_a_grid() -> None:
    a, b = (tw.random.Generator(tw.random.Counter(seed)).random((8000, 8000)) for seed in (1, 2))
    flat, grid = tw.explain(a @ b, workers=16), tw.explain(a @ b, mesh=(4, 4))
    (out,) = layouts_of(grid, "matmul")
    assert isinstance(out, Grid) and isinstance(out.down, Shard) and isinstance(out.across, Shard)
    assert {out.down.axis, out.across.axis} == {0, 1}
    assert grid.memory_bytes < flat.memory_bytes
    assert grid.optimal and flat.optimal


def test_a_jacobi_step_pays_one_halo() -> None:
    a = given(8000, 8000)
    for _ in range(3):
        b = a.copy()
        b[1:-1, 1:-1] = 0.25 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])
        a = b
    plan = tw.explain(a, workers=8)
    kinds = [e.kind for e in plan.exchanges]
    assert kinds.count("halo") == 3 and kinds.count("scatter") == 1
    assert all(e.bytes == 2 * 7 * 8000 * 8 for e in plan.exchanges if e.kind == "halo")
    assert set(kinds) <= {"halo", "scatter", "gather", "trim ghosts"}


def test_a_jacobi_step_on_a_grid_of_workers_pays_less_for_its_halos() -> None:
    a = given(8000, 8000)
    for _ in range(3):
        b = a.copy()
        b[1:-1, 1:-1] = 0.25 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])
        a = b
    flat, grid = tw.explain(a, workers=16, objective="bytes"), tw.explain(a, mesh=(4, 4), objective="bytes")
    halos = [sum(e.bytes for e in plan.exchanges if e.kind == "halo") for plan in (flat, grid)]
    assert 0 < halos[1] < halos[0]
    assert grid.optimal and flat.optimal


def test_a_sum_of_a_product_is_synchronised_late() -> None:
    """Kasen's Reduce(MxV): contributions of the vector are summed before they are reduced, so a number moves."""
    m, v = given(100_000, 1000), given(1000)
    with tw.session(engine="virtual", workers=8):
        m, v = m.relayout(1), v.relayout(0)
        plan = tw.explain((m @ v).sum())
    assert isinstance(layouts_of(plan, "matmul")[0], Partial)
    assert isinstance(layouts_of(plan, "add.reduce")[0], Partial)
    assert all(e.bytes <= 8 * 8 * 8 for e in plan.exchanges if e.kind not in ("scatter", "gather"))


def test_a_direction_of_lbfgs_is_synchronised_early() -> None:
    """Vectors that many products read are reduced once, not in every product."""
    x, g = given(200_000, 4000), given(4000)
    history = [(given(4000), given(4000)) for _ in range(5)]
    g = x.T @ (x @ g)
    q = g
    for s, y in history:
        q = q - (s @ q) / (y @ s) * y
    plan = tw.explain(q, workers=8)
    assert isinstance(layouts_of(plan, "matmul ac,c->a")[1], Partial)
    kinds = [e.kind for e in moves_of(plan, (4000,)) if e.kind not in ("scatter", "gather")]
    assert kinds == ["all-gather", "reduce-scatter"]  # the first direction whole, the gradient once
    assert plan.optimal


def test_replicating_work_is_not_free() -> None:
    a = tw.ones((3000, 3000))
    plan = tw.explain(a @ a, workers=4)
    assert not isinstance(layouts_of(plan, "matmul")[0], Replicate)
