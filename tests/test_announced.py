"""What explain announces is what evaluating does: bytes that cross, equal or at most, and no more memory of a worker.

A collection of programs (announced/programs.py), each on lines and grids of workers with one and several blocks, with
everything recorded and with settings as they are.
"""

import numpy as np
import pytest

import tilewise as tw
from tests.announced.programs import PROGRAMS, RNG, V, X

MESHES = (2, 4, 7, (2, 2))
BLOCKS = (1, 3)
EAGER = {"recorded": {"eager_bytes": 0}, "default": {}}
SPREAD = {"here": False, "on workers": True}


def listed(result):
    return list(result) if isinstance(result, (list, tuple)) else [result]


def placed(arrays):
    return listed(tw.evaluate(*[x.relayout(0) for x in arrays]))


def announced_and_counted(program, args, mesh, blocks, settings, spread):
    """The plan of a program's results, and the profile of computing them; what comes out is NumPy's."""
    with tw.config(blocks=blocks, fallback="silent", **settings), tw.session(engine="virtual", mesh=mesh):
        given = [tw.asarray(x) for x in args]
        results = listed(program(tw, *(placed(given) if spread else given)))
        plan = tw.explain(*results)
        with tw.profile() as ran:
            found = listed(tw.compute(*results))
    for got, want in zip(found, listed(program(np, *args)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)
    return plan, ran


def check(program, mesh, blocks, settings, spread):
    plan, ran = announced_and_counted(program, PROGRAMS[program], mesh, blocks, settings, spread)
    exact = sum(e.bytes for e in plan.exchanges if not e.bound)
    if exact == plan.network_bytes:
        assert ran.network_bytes == plan.network_bytes
    else:
        assert exact <= ran.network_bytes <= plan.network_bytes
    assert ran.worker_peak_bytes <= plan.memory_bytes


ALL = [(m, b, e, s) for m in MESHES for b in BLOCKS for e in EAGER for s in SPREAD]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_announced_bytes_are_those_counted(program):
    """Each program in two of the thirty-two ways, others for others."""
    turn = list(PROGRAMS).index(program)
    for mesh, blocks, settings, spread in ALL[turn % 16 :: 16]:
        check(program, mesh, blocks, EAGER[settings], SPREAD[spread])


@pytest.mark.soak
@pytest.mark.parametrize("way", ALL, ids=str)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_announced_bytes_are_those_counted_in_every_way(program, way):
    mesh, blocks, settings, spread = way
    check(program, mesh, blocks, EAGER[settings], SPREAD[spread])


def test_lines_that_need_values_while_recording_are_named():
    with tw.config(eager_bytes=0), tw.session(engine="virtual", workers=4):
        (v,) = placed([tw.asarray(V)])
        with tw.profile() as ran:
            counts = tw.histogram(v * 2, bins=7)[0]
            kept = v[v > 0.3]
            part = kept / len(kept)
        plan = tw.explain(counts, part)
        lines = {where.rsplit(":", 1)[1]: moved for where, moved in ran.needed.items()}
        assert len(lines) == 2 and sum(lines.values()) == ran.network_bytes > 0
        assert plan.moved_before == {(__file__, int(line)): moved for line, moved in lines.items()}
        (text,) = [line for line in str(plan).splitlines() if "have crossed already" in line]
        assert text.startswith(f"{ran.network_bytes:,} bytes") and all(f"test_announced.py:{n}" in text for n in lines)
        tw.compute(counts)
        assert not tw.explain(part * 2).moved_before


def test_a_view_is_computed_once_and_alone_where_nothing_else_has_its_base():
    with tw.config(eager_bytes=0), tw.session(engine="virtual", workers=4):
        (x,) = placed([tw.asarray(X)])
        part = tw.exp(x)[:, 3]
        with tw.profile() as first:
            np.testing.assert_allclose(tw.compute(part), np.exp(X)[:, 3])
        assert first.worker_peak_bytes < 1.5 * X.nbytes / 4 + part.nbytes
        with tw.profile() as second:
            np.testing.assert_allclose(tw.compute(part + 1), np.exp(X)[:, 3] + 1)
        assert "exp" not in str(second)
        part[0] = 7  # the rest of the column is what it was
        np.testing.assert_allclose(tw.compute(part)[:2], [7, np.exp(X)[1, 3]])


def test_a_view_beside_its_base_is_in_the_same_plan():
    with tw.config(eager_bytes=0), tw.session(engine="virtual", workers=4):
        (x,) = placed([tw.asarray(X)])
        base = tw.exp(x)
        part = base[:, 3]
        plan = tw.explain(part)
        with tw.profile() as ran:
            np.testing.assert_allclose(tw.compute(part), np.exp(X)[:, 3])
        assert ran.network_bytes == plan.network_bytes
        with tw.profile() as ran:
            tw.evaluate(base)
        assert not ran.kernels  # it is there
        part[:] = 0
        np.testing.assert_allclose(tw.compute(base)[:, 2:5:2], np.exp(X)[:, 2:5:2])
        assert not tw.compute(base)[:, 3].any()


SELECTIONS = {
    "half of the rows": lambda np, x, k: x[x[:, 0] > 0] * 2,
    "few rows": lambda np, x, k: x[x[:, 0] > 2] + 1,
    "rows of a key": lambda np, x, k: x[k == 2] * 3,
    "their largest": lambda np, x, k: x[k == 1].max(0),
    "their products": lambda np, x, k: x[k == 3].T @ x[k == 3],
    "sorted": lambda np, x, k: np.sort(x[:, 0][k == 3]),
    "elements": lambda np, x, k: x[x > 1].mean() + x[k == 1].std(0),
    "two masks": lambda np, x, k: x[k == 3][:50].sum() + x[k == 4] * 2,
}


@pytest.mark.parametrize("blocks", BLOCKS)
@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_bounds_hold_where_masks_lie_on_workers(mesh, blocks):
    """What a mask keeps is not known then; what it kept the last time, at this very line, was something else."""
    x, k = RNG.normal(size=(5000, 6)), RNG.integers(0, 5, 5000)
    with tw.config(blocks=blocks), tw.session(engine="virtual", mesh=mesh):
        given = placed([tw.asarray(x), tw.asarray(k)])
        for program in [*SELECTIONS.values(), *reversed(SELECTIONS.values())]:
            made = program(tw, *given)
            plan = tw.explain(made)
            with tw.profile() as ran:
                found = tw.compute(made)
            np.testing.assert_allclose(found, program(np, x, k))
            exact = sum(e.bytes for e in plan.exchanges if not e.bound)
            assert exact <= ran.network_bytes <= plan.network_bytes
            assert ran.worker_peak_bytes <= plan.memory_bytes
            if plan.guessed:
                assert plan.expected_bytes <= plan.network_bytes and "at most" in str(plan)


VIEWS = {
    "a row": lambda x: x[7],
    "a column": lambda x: x[:, 2],
    "every second": lambda x: x[::2],
    "flipped": lambda x: x[::-1],
    "raveled": lambda x: x.ravel(),
    "all but one": lambda x: x[1:],
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_of_what_workers_hold(name: str) -> None:
    """Its base is there already: nothing is announced for it."""
    with tw.config(eager_bytes=0), tw.session(engine="virtual", workers=4):
        x = tw.evaluate(tw.array(np.ones((400, 6))).relayout(0))
        y = VIEWS[name](x)
        announced = tw.explain(y).network_bytes
        with tw.profile() as ran:
            y.compute()
    assert announced == ran.network_bytes <= 3 * 400 * 6 * 8


@pytest.mark.parametrize("rows", [100, 9_000], ids=["small", "large"])
@pytest.mark.parametrize("name", VIEWS)
def test_a_base_of_views(name: str, rows: int) -> None:
    """Whatever copies a view has left on the workers, what is announced for the base is what comes."""
    with tw.config(eager_bytes=0), tw.session(engine="virtual", workers=4):
        x = tw.evaluate(tw.array(np.ones((rows, 6))).relayout(0))
        VIEWS[name](x).compute()
        announced = tw.explain(x).network_bytes
        with tw.profile() as ran:
            x.compute()
    assert announced == ran.network_bytes


@pytest.mark.parametrize("ask", [tw.evaluate, tw.compute, np.asarray, str, lambda x: x.compute(), lambda x: x.tolist()])
def test_a_part_of_what_nobody_else_has_moves_alone(ask):
    with tw.config(eager_bytes=0), tw.session(engine="virtual", workers=3):
        part = (tw.asarray(np.arange(303.0 * 37).reshape(303, 37)) * 2)[-1]
        announced = tw.explain(part).network_bytes
        with tw.profile() as ran:
            ask(part)
    assert ran.network_bytes == announced < 1000
