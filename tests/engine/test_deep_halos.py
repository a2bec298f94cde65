"""Halos that are left out because an earlier, deeper one moves as few bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.conftest import Some
from tilewise import rounding

MESHES = [(4, 1), (3, 2)]  # workers, blocks of each


def jacobi(np: Any, u: Any, sweeps: int) -> Any:
    """Written in place."""
    u = u.copy()
    for _ in range(sweeps):
        u[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
    return u


def shrinking(np: Any, x: Any, sweeps: int) -> Any:
    """Each result is two rows shorter than the one before."""
    for _ in range(sweeps):
        x = x[1:-1] * 0.5 + 0.25 * (x[:-2] + x[2:])
    return x


def boundaries(np: Any, u: Any, sweeps: int) -> Any:
    """Rows at the ends are written between sweeps."""
    for i in range(sweeps):
        v = u * 1.0
        v[1:-1] = u[1:-1] + 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
        v[0], v[-1] = i, v[-2]
        u = v
    return u


def wave(np: Any, u: Any, sweeps: int) -> Any:
    """Two steps back: deeper halos would be needed of two values, and move more."""
    before, now = u.copy(), u * 2
    for _ in range(sweeps):
        after = now.copy()
        after[1:-1] = 2 * now[1:-1] - before[1:-1] + 0.1 * (now[2:] - 2 * now[1:-1] + now[:-2])
        before, now = now, after
    return now + before


def transposed(np: Any, u: Any, sweeps: int) -> Any:
    """Windows of transposed values, and one side only."""
    for _ in range(sweeps):
        u = u[1:] - u[:-1]
        u = (u.T[2:] + u.T[:-2]).T
    return u


def with_sums(np: Any, u: Any, sweeps: int) -> Any:
    """Values that others than stencils read."""
    total, u = 0.0, u.copy()
    for _ in range(sweeps):
        u[2:-2] = (u[:-4] + u[1:-3] + u[3:-1] + u[4:]) / 4
        total = total + (u * u).sum(0)
    return total


def with_made_values(np: Any, u: Any, sweeps: int) -> Any:
    """Arrays made from a rule, and rows repeated along the axis that is cut."""
    x = np.arange(u.shape[0]) * 0.01
    for k in range(sweeps):
        u = u + x[:, None] * np.ones(u.shape) + k
        u[1:-1] = u[1:-1] - 0.1 * u[:-2]
    return u


def insulated(np: Any, u: Any, sweeps: int) -> Any:
    """Rows at the ends follow their neighbours, written by an index and as slices of one row and of two."""
    u = u.copy()
    for _ in range(sweeps):
        u[1:-1] = 0.5 * (u[:-2] + u[2:])
        u[0] = u[1]
        u[1:-1] = 0.5 * (u[:-2] + u[2:])
        u[-1:] = u[-2:-1]
        u[:2] = u[2:4]
    return u


PROGRAMS = [insulated, jacobi, shrinking, boundaries, wave, transposed, with_sums, with_made_values]


@pytest.mark.parametrize("rows", [1, 16])  # of a block per row that is computed again: much, or little
@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_equal_to_numpy_and_bytes_as_predicted(
    program: Callable[..., Any],
    mesh: tuple[int, int],
    rows: int,
    monkeypatch: pytest.MonkeyPatch,
    no_plans: None,
    some: Some,
) -> None:
    monkeypatch.setattr(rounding, "DEEP_HALO_ROWS", rows)
    monkeypatch.setattr(rounding, "DEEP_HALO_BYTES", 8.0 if rows == 1 else 1 / 32)
    workers, blocks = mesh
    for shape in some([(203, 37), (33, 5)]):
        x = np.random.default_rng(0).normal(size=shape)
        for sweeps in (1, 4):
            want = program(np, x.copy(), sweeps)
            for seed in (None, 1) if sweeps == 1 else (None,):
                config = tw.config(eager_bytes=0, blocks=blocks, layout_seed=seed)
                with config, tw.session(engine="virtual", workers=workers) as session:
                    a = tw.evaluate(tw.asarray(x).relayout(0)) if seed is None else tw.asarray(x)
                    for _ in range(2):  # the second time from copies on workers
                        np.testing.assert_allclose(program(tw, a, sweeps).compute(), want, rtol=1e-12, atol=1e-12)
                    assert session.cluster.counters.network_bytes == session.cluster.counters.predicted_bytes
                    assert np.array_equal(a, x)


def exchanges(x: Any) -> list[str]:
    return [line for line in tw.explain(x, detail="steps").steps_text().splitlines() if " exchange " in line]


def test_sweeps_share_one_exchange_of_as_many_bytes() -> None:
    x = np.random.default_rng(0).normal(size=(800, 50))
    with tw.config(eager_bytes=0), tw.session(engine="virtual", workers=4) as session:
        a = tw.evaluate(tw.asarray(x).relayout(0))
        deep = exchanges(jacobi(tw, a, 5))
        assert len(deep) == 1 and "with ghosts 5+5" in deep[0] and f"{5 * 2 * 3 * 50 * 8:,} bytes" in deep[0]
        before = session.cluster.counters.network_bytes
        got = tw.evaluate(jacobi(tw, a, 5))
        assert session.cluster.counters.network_bytes - before == 5 * 2 * 3 * 50 * 8
        with tw.config(without="halo"):
            each = exchanges(jacobi(tw, a, 5))
            plain = jacobi(tw, a, 5).compute()
        assert len(each) == 5 and all("with ghosts 1+1" in line for line in each)
        assert got.compute().tobytes() == plain.tobytes()


def test_halos_stay_where_blocks_are_small_and_begin_again_where_they_get_too_deep() -> None:
    x = np.random.default_rng(0).normal(size=(400, 50))  # blocks of 100 rows: three before and three after
    with tw.config(eager_bytes=0), tw.session(engine="virtual", workers=4):
        a = tw.evaluate(tw.asarray(x).relayout(0))
        assert len(exchanges(jacobi(tw, a, 7))) == 3
        b = tw.evaluate(tw.asarray(np.tile(x[:80], (1, 200))).relayout(0))
        assert len(exchanges(jacobi(tw, b, 3))) == 3


def test_no_halo_is_left_out_where_more_would_move() -> None:
    x = np.random.default_rng(0).normal(size=(800, 50))
    with tw.config(eager_bytes=0), tw.session(engine="virtual", workers=4):
        a = tw.evaluate(tw.asarray(x).relayout(0))
        with tw.config(without="halo"):
            plain = tw.explain(wave(tw, a, 4)).network_bytes
        assert tw.explain(wave(tw, a, 4)).network_bytes <= plain * (1 + rounding.DEEP_HALO_BYTES)


def test_an_input_that_came_with_ghosts_stays_on_the_workers() -> None:
    x = np.random.default_rng(0).normal(size=(400, 400))
    with tw.config(eager_bytes=0), tw.session(engine="virtual", workers=4) as session:
        a = tw.asarray(x)
        tw.evaluate(shrinking(tw, a, 1))
        before = session.cluster.counters.network_bytes
        tw.evaluate(shrinking(tw, a, 1))
        assert session.cluster.counters.network_bytes - before <= 2 * 3 * 400 * 8


def test_an_input_that_came_with_several_ghosts_is_kept_once() -> None:
    data = np.arange(12.0) ** 2
    for workers in (2, 3, 5):
        with tw.config(eager_bytes=0), tw.session(engine="virtual", workers=workers):
            u, b = tw.array(data), tw.evaluate(tw.array(data).relayout(0))
            b[1:-1] = u[2:] - u[:-2]
            u[1:-1] = b[2:]
            total = u.sum()
            want = data.copy()
            want[1:-2] = (data[2:] - data[:-2])[1:]
            want[-2] = data[-1]
            np.testing.assert_array_equal(u.compute(), want)
            assert float(total) == want.sum()


def by_index(u: Any) -> None:
    u[0] = u[1]


def by_slice(u: Any) -> None:
    u[:1] = u[1:2]


@pytest.mark.parametrize("boundary", [by_index, by_slice])
def test_boundary_rows_that_only_one_block_has_are_exchanged(boundary: Callable[[Any], None]) -> None:
    def sweeps(u: Any) -> Any:
        for _ in range(2):
            for _ in range(2):
                u[1:-1] = 0.5 * (u[:-2] + u[2:])
                boundary(u)
        return u

    data = np.random.default_rng(0).normal(size=(1000, 700))
    for workers in (2, 4):
        with tw.session(engine="virtual", workers=workers), tw.config(flush=False):
            got = sweeps(tw.evaluate(tw.array(data).relayout(0))).compute()
        np.testing.assert_allclose(got, sweeps(data.copy()), rtol=1e-13, atol=1e-13)
