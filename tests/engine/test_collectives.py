"""Operators along the axis that is cut, on every mesh: NumPy's values, and never more bytes than announced."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy
import pytest
from hypothesis import settings

import tilewise as tw
from tilewise.layout import Kind

pytestmark = pytest.mark.sampled  # `everywhere`
MESHES = (1, 2, 3, 4, 7, (2, 2), (2, 4))
Program = Callable[[Any, Any], Any]


def rng(seed: int) -> numpy.random.Generator:
    return numpy.random.default_rng(seed)


def same(got: Any, want: Any) -> None:
    got, want = numpy.asarray(got), numpy.asarray(want)
    assert got.dtype == want.dtype and got.shape == want.shape
    if want.dtype.kind in "fc":
        numpy.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-10)
    else:
        numpy.testing.assert_array_equal(got, want)


def check(program: Program, data: numpy.ndarray, mesh: Any, blocks: int, seed: int | None) -> None:
    """A program of an array gives what it gives in NumPy, and moves what its plans announce."""
    want = program(numpy, data.copy())
    with (
        tw.config(eager_bytes=0, blocks=blocks, objective="bytes", layout_seed=seed, fallback="silent"),
        tw.session(engine="virtual", mesh=mesh) as session,
    ):
        x = tw.array(data) * 1  # made where it is wanted, not on the driver
        tw.evaluate(x)
        same(program(tw, x), want)
        assert session.cluster is not None
        now = session.cluster.counters
        assert 0 <= now.network_bytes - now.predicted_bytes <= now.bounded_bytes


def everywhere(program: Program, data: numpy.ndarray, meshes: tuple[Any, ...] = MESHES) -> None:
    """With one block and with three, as planned and by chance, each on another mesh; the next program takes the meshes
    between; every way on every mesh in `make soak`."""
    turn, whole = program.__code__.co_firstlineno, settings.get_current_profile_name() == "soak"
    for k, mesh in enumerate(meshes):
        ways = [(1, None), (3, 10 * k + 3), (3, None), (1, 10 * k + 1)]
        if not whole:
            ways = [ways[(k // 2 + turn // 2) % 4]] if len(meshes) < 4 or (k + turn) % 2 == 0 else []
        for blocks, seed in ways:
            check(program, data, mesh, blocks, seed)


def collective(program: Program, data: numpy.ndarray, *, workers: int = 4) -> Any:
    """The one row of a plan that is a collective; that there is one is part of the test."""
    with tw.config(eager_bytes=0, objective="bytes"), tw.session(engine="virtual", workers=workers):
        x = tw.array(data) * 1
        tw.evaluate(x)
        y = program(tw, x)
        plan = tw.explain(y)
        with tw.profile() as ran:
            tw.evaluate(y)
        rows = [e for e in plan.exchanges if e.kind not in {str(k) for k in Kind}]
        assert len(rows) == 1, str(plan)
        bound = sum(e.bytes for e in plan.exchanges if e.kind != "gather")
        assert ran.network_bytes <= bound
        if not rows[0].bound:
            assert ran.network_bytes == bound
        return rows[0]


SHAPES: dict[str, Program] = {
    "scan of a row repeated": lambda np, x: np.cumsum(np.broadcast_to(x[0], (9, x.shape[1])), axis=0),
    "scan backwards": lambda np, x: np.cumsum(x[::-1], axis=0)[::-1],
    "rows of none": lambda np, x: x[:, :0][np.arange(5) * 2],
    "scan of none": lambda np, x: np.cumsum(x[:, :0], axis=0),
    "mask of none": lambda np, x: x[:, :0][x[:, 0] > 0.5],
    "rows of a transpose": lambda np, x: x.T[np.arange(3)[::-1]],
    "rows of what is repeated": lambda np, x: np.broadcast_to(x[0], (9, x.shape[1]))[np.arange(0, 9, 2)],
    "least of a transpose": lambda np, x: np.argmin(x.T, axis=1),
    "least of what is repeated": lambda np, x: np.argmax(np.broadcast_to(x[0], (9, x.shape[1])), axis=0),
    "mask of a transpose": lambda np, x: x.T[x[0] > 0.5],
    "written to a copy in another order": lambda np, x: put(of([3, -1]), of([5.0]))(np, np.asfortranarray(x + 1)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_views_and_empties(name: str) -> None:
    everywhere(SHAPES[name], rng(0).random((17, 4)))


# -- scans ------------------------------------------------------------------------------------------------------------

SCANS: dict[str, tuple[Program, numpy.ndarray]] = {
    "sum": (lambda np, x: np.cumsum(x), rng(1).standard_normal(101)),
    "whole numbers": (lambda np, x: np.cumsum(x, dtype=numpy.int8), rng(2).integers(-99, 99, 40)),
    "product": (lambda np, x: np.cumprod(x), rng(3).uniform(0.5, 1.5, 57)),
    "rows": (lambda np, x: np.cumsum(x, axis=0), rng(4).standard_normal((23, 3))),
    "columns": (lambda np, x: np.cumsum(x, axis=1) + 1, rng(5).standard_normal((2, 23))),
    "across": (lambda np, x: np.cumsum(x.T, axis=0), rng(6).integers(0, 9, (3, 19))),
    "greatest": (
        lambda np, x: np.maximum.accumulate(x),
        numpy.where(rng(7).random(60) < 0.05, numpy.nan, rng(8).random(60)),
    ),
    "least": (lambda np, x: np.minimum.accumulate(x), rng(9).integers(-50, 50, 35)),
    "any": (lambda np, x: np.logical_or.accumulate(x > 0.9), rng(10).random(33)),
    "few": (lambda np, x: np.cumsum(x), rng(11).random(3)),
    "one": (lambda np, x: np.cumsum(x), rng(12).random(1)),
    "none": (lambda np, x: np.cumsum(x), rng(13).random(0)),
    "complex": (lambda np, x: np.cumsum(x * 1j), rng(14).random(20)),
}


@pytest.mark.parametrize("name", SCANS)
def test_scans(name: str) -> None:
    everywhere(*SCANS[name])


def test_a_scan_sends_totals_and_nothing_else() -> None:
    row = collective(lambda np, x: np.cumsum(x), rng(0).random(5000))
    assert (row.kind, row.bytes, row.bound) == ("totals of a scan", 6 * 8, False)


# -- selection by index arrays ----------------------------------------------------------------------------------------


def at(length: int, n: int, seed: int) -> numpy.ndarray:
    """Indices from both ends, many of them several times."""
    return rng(seed).integers(-length, length, n)


GATHERS: dict[str, tuple[Program, numpy.ndarray]] = {
    "elements": (lambda np, x: x[np.array(at(50, 80, 1)) * 1], rng(1).random(50)),
    "few": (lambda np, x: x[np.array([4, -1])] * 2, rng(2).random(50)),
    "one": (lambda np, x: x[np.array([-7])], rng(3).random(50)),
    "none": (lambda np, x: x[np.array([], dtype=int)], rng(4).random(50)),
    "rows": (lambda np, x: x[np.array(at(31, 17, 5)) * 1], rng(5).random((31, 3))),
    "columns": (lambda np, x: np.take(x, at(29, 40, 6), axis=1), rng(6).random((2, 29))),
    "a table": (lambda np, x: x[np.array(at(23, 24, 7)).reshape(4, 6)], rng(7).random((23, 2))),
    "small numbers": (lambda np, x: x[np.array(at(9, 30, 8), dtype=numpy.int8)], rng(8).integers(0, 9, 9)),
    "through an index": (lambda np, x: x[x[x]], rng(9).permutation(41)),
    "reversed": (lambda np, x: x[np.arange(len(x) - 1, -1, -1)], rng(10).random(37)),
    "then written": (lambda np, x: assigned(x[np.array(at(31, 17, 5))]), rng(5).random((31, 3))),
}


TAKEN: dict[str, Callable[[Any], Any]] = {
    "whole": lambda x: x[...],
    "rows": lambda x: x[1:3],
    "columns": lambda x: x[:, 2:],
    "backwards": lambda x: x[:, ::-1],
    "transposed": lambda x: x.T[1:, ::2],
    "one": lambda x: x[1],
    "last": lambda x: x[..., 1],
}


@pytest.mark.parametrize("mesh", [(1,), (3,), (2, 2)], ids=str)
@pytest.mark.parametrize("name", TAKEN)
def test_taken_from_views(name: str, mesh: tuple[int, ...]) -> None:
    """`np.take` of a view asks the view's base, by a key with other parts; its result is in C order."""
    view, given = TAKEN[name], rng(0).random((4, 6, 5))
    with tw.config(eager_bytes=0), tw.session(engine="virtual", mesh=mesh):
        for a in given, numpy.asfortranarray(given):
            for index in numpy.array([0, -1]), numpy.array([[1, 0, 1]], dtype="u8"), numpy.array(0):
                for axis in range(view(a).ndim):
                    got = tw.take(view(tw.asarray(a) * 1), tw.asarray(index) * 1, axis)
                    want = numpy.take(view(a), index, axis)
                    assert got.strides == want.strides and numpy.array_equal(got.compute(), want)


def test_writes_that_name_places_of_nothing() -> None:
    """What is written has no elements, and lies in blocks like any other value."""
    given = numpy.zeros((0, 2, 3))
    with tw.config(eager_bytes=0, native=False, objective="bytes"), tw.session(engine="virtual", mesh=(2, 4)):
        x = tw.asarray(given) * 1
        x[:, [0], [0, 0, 0, 0]] += tw.asarray(numpy.zeros((0, 4), "f4"))
        assert x.compute().shape == given.shape


def test_a_first_plan_for_workers() -> None:
    """Nothing was evaluated in this process before, so no backend is open."""
    lines = (
        "import numpy, tilewise as tw, tilewise.backend.host",
        "tw.config(eager_bytes=0, native=False)",
        "with tw.session(engine='virtual', workers=2):",
        "    x = tw.asarray(numpy.ones((40, 3))) * 2",
        "    print(((x - x.mean(0)) + x.max(1)[:, None]).sum(), end='')",
    )
    row = [sys.executable, "-c", "\n".join(lines)]
    assert subprocess.run(row, capture_output=True, text=True, check=True).stdout == "240.0"


def assigned(x: Any) -> Any:
    x[1:-1, 1] = 7
    return x


@pytest.mark.parametrize("name", GATHERS)
def test_selections(name: str) -> None:
    everywhere(*GATHERS[name])


def test_a_selection_asks_for_each_row_once() -> None:
    row = collective(lambda np, x: x[np.arange(4000) % 7], rng(0).random(4000))
    assert row.kind == "rows by index" and row.bound
    assert row.bytes == 4 * 1000 * 16
    with tw.config(eager_bytes=0, objective="bytes"), tw.session(engine="virtual", workers=4):
        x, k = tw.array(rng(0).random(4000)) * 1, tw.arange(4000) % 7
        tw.evaluate(x, k)
        with tw.profile() as ran:
            tw.evaluate(x[k])
    assert ran.network_bytes == 3 * 7 * 16


@pytest.mark.parametrize("bad", [50, -51])
def test_indices_out_of_range(bad: int) -> None:
    with tw.config(eager_bytes=0, objective="bytes"), tw.session(engine="virtual", workers=3):
        x = tw.arange(50.0) + 1
        k = tw.arange(50) * 1
        tw.evaluate(x)
        y = x[tw.where(k == 20, bad, k)]
        with pytest.raises(IndexError, match=f"index {bad} is out of bounds for axis 0 with size 50") as caught:
            y.compute()
        assert any("recorded at" in note for note in caught.value.__notes__)
        same(x[k], numpy.arange(50.0) + 1)


# -- writing at index arrays ------------------------------------------------------------------------------------------


def put(index: Any, value: Any) -> Program:
    """x[index] = value; numbers of an array are made where they are used."""

    def program(np: Any, x: Any) -> Any:
        x[index(np)] = value(np)
        return x

    return program


def of(array: Any) -> Any:
    return lambda np: np.array(array) * 1


WRITES: dict[str, tuple[Program, numpy.ndarray]] = {
    "the last one stays": (put(of(at(20, 90, 1)), of(numpy.arange(90.0))), rng(1).random(20)),
    "a number": (put(of(at(40, 9, 2)), lambda np: 5), rng(2).random(40)),
    "one": (put(of([-3]), of([8.0])), rng(3).random(40)),
    "none": (put(of(numpy.zeros(0, int)), of(numpy.zeros(0))), rng(4).random(40)),
    "rows": (put(of(at(19, 30, 5)), of(rng(5).random((30, 3)))), rng(6).random((19, 3))),
    "a row for all": (put(of(at(19, 8, 7)), of([1.0, 2.0, 3.0])), rng(7).random((19, 3))),
    "a number per row": (put(of(at(19, 30, 8)), of(rng(8).random((30, 1)))), rng(8).random((19, 3))),
    "columns": (
        put(lambda np: (slice(None), np.array(at(17, 25, 9))), of(rng(9).random((2, 25)))),
        rng(9).random((2, 17)),
    ),
    "other types": (put(of(at(30, 30, 10)), of(rng(10).random(30) * 9)), rng(10).integers(0, 9, 30)),
    "where a mask holds": (lambda np, x: put(lambda np: x > 0.5, lambda np: -1.0)(np, x), rng(11).random((13, 4))),
    "columns where a mask holds": (
        lambda np, x: put(lambda np: (slice(None), x[0] > 0.5), lambda np: 2.0)(np, x),
        rng(13).random((4, 13)),
    ),
    "rows where a mask holds": (
        lambda np, x: put(lambda np: x[:, 0] > 0.5, of([1.0, 2.0, 3.0, 4.0]))(np, x),
        rng(12).random((13, 4)),
    ),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes(name: str) -> None:
    everywhere(*WRITES[name])


def total(fn: str, index: Any, *value: Any) -> Program:
    """ufunc.at(x, index, value)."""

    def program(np: Any, x: Any) -> Any:
        getattr(np, fn).at(x, index(np), *(v(np) for v in value))
        return x

    return program


ATS: dict[str, tuple[Program, numpy.ndarray]] = {
    "sums": (total("add", of(at(12, 100, 1)), of(rng(1).random(100))), rng(2).random(12)),
    "counts": (total("add", of(at(12, 100, 3)), lambda np: 1), rng(3).integers(0, 9, 12)),
    "greatest": (total("maximum", of(at(15, 60, 4)), of(rng(4).random(60))), rng(5).random(15)),
    "rows": (total("add", of(at(11, 40, 6)), of(rng(6).random((40, 3)))), rng(6).random((11, 3))),
    "not associative": (total("subtract", of(at(12, 50, 7)), of(rng(7).integers(0, 9, 50))), rng(7).integers(0, 9, 12)),
    "of one operand": (total("negative", of(at(13, 40, 8))), rng(8).random(13)),
}


@pytest.mark.parametrize("name", ATS)
def test_ufunc_at(name: str) -> None:
    everywhere(*ATS[name])


def test_writes_go_to_owners() -> None:
    index = rng(0).integers(0, 4000, 1000)
    row = collective(put(of(index), of(numpy.arange(1000.0))), rng(0).random(4000))
    assert (row.kind, row.bytes, row.bound) == ("values by index", 1000 * 16, True)
    assert collective(put(of(index), lambda np: 1.0), rng(0).random(4000)).bytes == 1000 * 8
    assert collective(total("add", of(index), of(numpy.arange(1000.0))), rng(0).random(4000)).bytes == 1000 * 16


# -- selection by masks -----------------------------------------------------------------------------------------------


def masked_twice(np: Any, x: Any) -> Any:
    y = x[x > 0.2]
    return y[y < 0.6] * 2


def compared(np: Any, x: Any) -> Any:
    m = x > 0.5
    return x[m] + np.sqrt(x)[m]


def changed(np: Any, x: Any, where: Any) -> Any:
    m = where(x)
    x[m] = x[m] * 2 + 1
    return x


SELECTIONS: dict[str, tuple[Program, numpy.ndarray]] = {
    "elements": (lambda np, x: x[x > 0.5], rng(1).random(60)),
    "all": (lambda np, x: x[x > -1] + 1, rng(2).random(31)),
    "none": (lambda np, x: x[x > 2], rng(3).random(31)),
    "at one end": (lambda np, x: x[x > 40], numpy.arange(50)),
    "rows": (lambda np, x: x[x[:, 0] > 0.3], rng(4).random((29, 3))),
    "of a table": (lambda np, x: x[x > 0.3], rng(5).random((13, 4))),
    "planes": (lambda np, x: x[x[:, :, 0] > 0.3] * 2, rng(6).random((7, 4, 2))),
    "twice": (masked_twice, rng(7).random(80)),
    "two by one mask": (compared, rng(8).random(45)),
    "a sum": (lambda np, x: x[x > 0.5].sum(), rng(9).random(50)),
    "sorted": (lambda np, x: np.sort(x[x > 0.5]), rng(10).random(50)),
    "scanned": (lambda np, x: np.cumsum(x[x > 0.5]), rng(11).random(50)),
    "wide": (lambda np, x: x[:, 1:][x[:, 0] > 0.5].sum(0), rng(12).random((5, 40))),
    "written": (lambda np, x: changed(np, x, lambda x: x > 0.5), rng(13).random(30)),
    "rows written": (lambda np, x: changed(np, x, lambda x: x[:, 1] > 0.5), rng(14).random((30, 3))),
    "of a table written": (lambda np, x: changed(np, x, lambda x: x > 0.5), rng(15).random((11, 3))),
    "columns of rows written": (lambda np, x: changed(np, x, lambda x: x[:, 1] > 0.5), rng(16).random((3, 30))),
    "nothing written": (lambda np, x: changed(np, x, lambda x: x > 2), rng(17).random(30)),
}


@pytest.mark.parametrize("name", SELECTIONS)
def test_masks(name: str) -> None:
    everywhere(*SELECTIONS[name])


def test_a_selection_by_a_mask_stays_on_the_workers() -> None:
    data = rng(0).random(40_000)
    with tw.config(eager_bytes=0, objective="bytes"), tw.session(engine="virtual", workers=4):
        x = tw.array(data) * 1
        tw.evaluate(x)
        y = x[x > 0.5]
        plan = tw.explain(y)
        (row,) = [e for e in plan.exchanges if e.kind not in {str(k) for k in Kind}]
        assert (row.kind, row.bound) == ("selected rows", True)
        assert data.nbytes / 2 < row.bytes < data.nbytes * 0.6  # whatever the mask keeps, and wherever that is
        with tw.profile() as ran:
            tw.evaluate(y)
        assert ran.network_bytes < data.nbytes / 50  # counts, and rows near the cuts
        with tw.profile() as ran:
            total = float(y.sum())
        assert ran.network_bytes < 100
    assert total == pytest.approx(data[data > 0.5].sum())


def test_a_change_where_a_mask_holds_stays_on_the_workers() -> None:
    data = rng(0).random(40_000)
    with tw.config(eager_bytes=0, objective="bytes"), tw.session(engine="virtual", workers=4):
        x = tw.array(data) * 1
        tw.evaluate(x)
        with tw.profile() as ran:
            tw.evaluate(changed(tw, x, lambda x: x > 0.5))
        assert ran.network_bytes < data.nbytes / 25  # there and back


def test_what_a_mask_hangs_on_is_computed_once() -> None:
    with tw.config(eager_bytes=0), tw.session(engine="virtual", workers=3) as session:
        x = tw.array(rng(0).random(300)) * 1
        y = tw.sort(x)
        z = y[y > 0.5]
        tw.evaluate(z)
        assert session.cluster is not None
        plans = list(session.cluster.plans.values())
        sorts = sum(s.op.name == "sort" for p in plans for s in p.plan.specs)
        assert sorts == 1
        want = numpy.sort(rng(0).random(300))
        same(z, want[want > 0.5])


def test_masks_from_outside_and_after_a_session() -> None:
    data, mask = rng(0).random(30), rng(1).random(30) < 0.5
    with tw.config(eager_bytes=0):
        x, m = tw.array(data), tw.array(mask)
        late = (x * 2)[x > 0.5]
        with tw.session(engine="virtual", workers=3):
            same(x[m] + x[mask], data[mask] * 2)
            same((x + 1)[x > 0.5], data[data > 0.5] + 1)
        same(late, data[data > 0.5] * 2)
        same(x[m], data[mask])


# -- positions --------------------------------------------------------------------------------------------------------


def holes(seed: int, *shape: int) -> numpy.ndarray:
    return numpy.where(rng(seed).random(shape) < 0.1, numpy.nan, rng(seed + 1).random(shape))


POSITIONS: dict[str, tuple[Program, numpy.ndarray]] = {
    "least": (lambda np, x: np.argmin(x), rng(1).random(50)),
    "greatest": (lambda np, x: np.argmax(x), rng(2).random(50)),
    "first of equals": (lambda np, x: np.argmax(x), rng(3).integers(0, 3, 60)),
    "first of equals in a table": (lambda np, x: np.argmin(x), rng(4).integers(0, 4, (7, 9))),
    "not a number": (lambda np, x: np.argmin(x), holes(5, 40)),
    "not a number in a table": (lambda np, x: np.argmax(x), holes(6, 7, 9)),
    "down": (lambda np, x: np.argmin(x, axis=0), rng(7).integers(0, 5, (31, 6))),
    "across": (lambda np, x: np.argmax(x, axis=1), holes(8, 5, 31)),
    "kept": (lambda np, x: np.argmax(x, axis=0, keepdims=True), rng(9).integers(0, 5, (31, 6))),
    "all kept": (lambda np, x: np.argmax(x, keepdims=True), rng(10).integers(0, 5, (31, 6))),
    "middle": (lambda np, x: np.argmin(x, axis=1) + 1, rng(11).integers(0, 5, (2, 23, 3))),
    "complex": (lambda np, x: np.argmax(x + 1j * x[::-1]), rng(12).integers(0, 3, 40)),
    "truth": (lambda np, x: np.argmax(x > 0.9), rng(13).random(40)),
    "few": (lambda np, x: np.argmin(x), rng(14).random(2)),
    "sorted": (lambda np, x: np.argsort(x, kind="stable"), rng(15).integers(0, 6, 90)),
    "sorted numbers": (lambda np, x: np.argsort(x, kind="stable"), holes(16, 90)),
    "sorted few": (lambda np, x: np.argsort(x, kind="stable"), rng(17).random(2)),
    "ordered by another": (lambda np, x: x[np.argsort(-x, kind="stable")], rng(18).integers(0, 9, 55)),
    "sorted somehow": (lambda np, x: x[np.argsort(x)], rng(19).random(55)),
}


@pytest.mark.parametrize("name", POSITIONS)
def test_positions(name: str) -> None:
    everywhere(*POSITIONS[name])


def test_positions_of_extremes_send_pairs() -> None:
    with tw.config(eager_bytes=0, objective="bytes"), tw.session(engine="virtual", workers=4):
        x = tw.array(rng(0).random(5000)) * 1
        tw.evaluate(x)
        y = tw.argmin(x)
        plan = tw.explain(y)
        with tw.profile() as ran:
            tw.evaluate(y)
        assert int(y) == int(numpy.argmin(numpy.asarray(x)))
    # The best value and where it is: from all to one, and from there to all.
    assert [(e.kind, e.bytes, e.bound) for e in plan.exchanges if e.bytes] == [
        (Kind.REDUCE, 3 * 16, False),
        (Kind.BROADCAST, 3 * 16, False),
    ]
    assert ran.network_bytes == plan.network_bytes


def test_argsort_moves_elements_once_and_few_positions_twice() -> None:
    row = collective(lambda np, x: np.argsort(x, kind="stable"), rng(0).random(50_000), workers=7)
    assert row.kind == "sample sort" and row.bound
    moved = row.bytes - 7 * 6 * (16 * 7 * 8 + 8)
    assert 50_000 * 16 <= moved <= 50_000 * 18


def test_a_scan_keeps_the_sign_of_zero() -> None:
    with tw.config(eager_bytes=0), tw.session(engine="virtual", workers=3):
        got = numpy.asarray(tw.cumsum(tw.asarray(numpy.full(6, -0.0)).relayout(0)).relayout(0))
    assert numpy.signbit(got).all()


@pytest.mark.parametrize("seed", range(4))
def test_of_two_writes_to_one_place_the_last_in_memory_order_stays(seed: int) -> None:
    numbers = rng(3)
    index, values = numpy.asfortranarray(numbers.integers(0, 5, (6, 4))), numbers.normal(size=(4, 6)).T
    want = numpy.zeros(9)
    want[index] = values
    with tw.session(engine="virtual", workers=3), tw.config(eager_bytes=0), tw.testing.random_layouts(seed):
        x, where = tw.evaluate(tw.zeros(9)), tw.evaluate(tw.asarray(index))
        x[where] = values
        numpy.testing.assert_array_equal(x.compute(), want)
