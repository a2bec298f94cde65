"""Sources as leaves of programs: who reads what, on one worker and on several, and what explain says of it before."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.store.toys import Grown, elements
from tilewise.array.handle import from_source
from tilewise.compiler import mesh as mesh_compiler
from tilewise.engine.virtual import Virtual
from tilewise.errors import MemoryBudgetError
from tilewise.layout import Mesh, box_size
from tilewise.store.arrays import ArraySource

SHAPE, CHUNKS = (40, 30), (16, 30)
NAMES = count(1)
MESHES: list[Any] = [None, 1, 4, (2, 2)]


@pytest.fixture(autouse=True)
def everything_recorded(same_settings_after_each_test: None) -> None:
    tw.config(eager_bytes=0, fallback="silent", objective="bytes")  # by time, small arrays would be replicated


@pytest.fixture(params=MESHES, ids=str)
def session(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param is None:
        yield None
        return
    with tw.session(engine="virtual", mesh=request.param) as made:
        yield made


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda np, x: x.sum(),
    "map": lambda np, x: np.exp(x * 0.01) + 1,
    "standardise": lambda np, x: (x - x.mean(0)) / x.std(0),
    "gram": lambda np, x: x.T @ x,
    "stencil": lambda np, x: x[1:-1] + x[:-2] + x[2:],
    "view": lambda np, x: x[3:7, ::2].T,
    "mask": lambda np, x: x[x[:, 0] > 50].sum(0),
    "sort": lambda np, x: np.sort(x, axis=0),
    "itself": lambda np, x: x,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_on_a_source(session: Any, name: str) -> None:
    source = Grown(SHAPE, CHUNKS, name=next(NAMES))
    x, want = from_source(source), PROGRAMS[name](np, elements(SHAPE, "f8"))
    got = np.asarray(PROGRAMS[name](tw, x))
    assert got.dtype == want.dtype and got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-12)
    if session is not None:
        counters = session.cluster.counters
        assert counters.network_bytes <= counters.predicted_bytes + counters.bounded_bytes


@pytest.mark.parametrize("chunks", [(16, 30), (7, 8), (1, 30), (40, 5)], ids=str)
def test_a_worker_reads_its_part_and_only_that(session: Any, chunks: tuple[int, int]) -> None:
    source = Grown(SHAPE, chunks, name=next(NAMES))
    y = (from_source(source) * 2).sum(1)
    plan = tw.explain(y)
    np.testing.assert_array_equal(np.asarray(y), elements(SHAPE, "f8").sum(1) * 2)
    assert sum(map(box_size, source.boxes)) * 8 == plan.read_bytes == 40 * 30 * 8  # each element once
    assert len(source.boxes) >= -(-40 // chunks[0]) * -(-30 // chunks[1])
    read = [row for row in plan.exchanges if row.kind == "read"]
    assert len(read) == 1 and read[0].bytes == 0 and read[0].source == "in a store"
    assert "9,600 are read from sources" in str(plan)
    if session is not None:
        counters = session.cluster.counters
        assert counters.read_bytes == plan.read_bytes
        assert counters.network_bytes == counters.predicted_bytes == plan.network_bytes  # of the result alone
        assert plan.network_bytes <= 40 * 8
        assert plan.to_svg().startswith("<svg ")


def test_ghosts_are_read_with_the_block() -> None:
    with tw.session(engine="virtual", workers=4) as session:
        source = Grown((400,), (400,))
        x, want = from_source(source), elements((400,), "f8")
        np.testing.assert_array_equal(np.asarray(x[:-1] + x[1:]), want[:-1] + want[1:])
        assert len(source.boxes) == 4
        assert session.cluster.counters.read_bytes == sum(map(box_size, source.boxes)) * 8 <= (400 + 2 * 3) * 8


def test_equal_sources_are_read_once(session: Any) -> None:
    name = next(NAMES)
    first, second = Grown(SHAPE, CHUNKS, seed=11, name=name), Grown(SHAPE, CHUNKS, seed=11, name=name)
    x, y = from_source(first), from_source(second)
    np.testing.assert_array_equal(np.asarray(x * y), elements(SHAPE, "f8", 11) ** 2)
    assert first.boxes and not second.boxes
    assert np.asarray(x - from_source(Grown(SHAPE, CHUNKS, seed=12))).any()  # another one is another leaf


def test_workers_keep_what_they_have_read() -> None:
    with tw.session(engine="virtual", workers=4) as session:
        source = Grown(SHAPE, CHUNKS, name=next(NAMES))
        x = from_source(source)
        for k in range(3):
            assert float((x * k).sum()) == k * elements(SHAPE, "f8").sum()
        assert session.cluster.counters.read_bytes == source.nbytes
        assert tw.explain((x + 1).sum()).read_bytes == 0
        session.cluster.drop_copies()
        assert tw.explain((x + 1).sum()).read_bytes == source.nbytes
        assert float((x + 1).sum()) == elements(SHAPE, "f8").sum() + 1200


def test_writing_to_an_array_leaves_its_source_alone(session: Any) -> None:
    source = Grown(SHAPE, CHUNKS, name=next(NAMES))
    x, same, want = from_source(source), from_source(source), elements(SHAPE, "f8")
    x[2:5] = 1.5
    x += 1
    changed = want.copy()
    changed[2:5] = 1.5
    np.testing.assert_array_equal(np.asarray(x), changed + 1)
    np.testing.assert_array_equal(np.asarray(same), want)


def test_an_array_of_a_source_is_pickled_with_it(session: Any) -> None:
    x = from_source(Grown((400, 300), (16, 300)))
    for y, want in ((x, elements((400, 300), "f8")), (x[::2] * 2, elements((400, 300), "f8")[::2] * 2)):
        data = pickle.dumps(y)
        assert len(data) < 5000
        np.testing.assert_array_equal(np.asarray(pickle.loads(data)), want)


def test_a_source_that_workers_do_not_open_comes_through_the_driver() -> None:
    data = elements(SHAPE, "f8")
    with tw.session(engine="virtual", workers=4) as session:
        x = from_source(ArraySource(data))
        plan = tw.explain((x + 1).sum(0))
        np.testing.assert_array_equal(np.asarray((x + 1).sum(0)), (data + 1).sum(0))
        assert plan.read_bytes == 0 and plan.network_bytes == session.cluster.counters.network_bytes > 0


def test_profiles_count_what_is_read(session: Any) -> None:
    with tw.profile() as profile:
        np.asarray(from_source(Grown(SHAPE, CHUNKS, name=next(NAMES))) + 1)
    assert profile.read_bytes == 9600
    assert profile.worker_peak_bytes == 0 if session is None else 0 < profile.worker_peak_bytes <= profile.peak_bytes


@pytest.mark.parametrize("mesh", [None, 4])
def test_what_does_not_fit_is_not_read(mesh: Any) -> None:
    options = {} if mesh is None else {"engine": "virtual", "mesh": mesh}
    with tw.session(memory=20, **options):
        source = Grown(SHAPE, CHUNKS, name=next(NAMES))
        with pytest.raises(MemoryBudgetError):
            np.asarray(from_source(source) + 1)
        assert not source.boxes


# -- a worker's blocks ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("mesh", [1, 4, (2, 2)], ids=str)
def test_blocks_take_up_no_more_than_was_predicted(mesh: Any, blocks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    peaks: list[tuple[int, int]] = []
    run = Virtual.run

    def watched(self: Virtual, plan: Any, leaves: Any, consts: Any, *others_given: Any) -> Any:
        read = {id(x) for x in leaves}
        others = sum(x.held_bytes for x in self.living() if id(x) not in read)
        results = run(self, plan, leaves, consts, *others_given)
        peaks.append((self.counters.peak_bytes, mesh_compiler.mesh_peak(plan) + others))
        return results

    monkeypatch.setattr(Virtual, "run", watched)
    data = elements((60, 50), "f8")
    with tw.config(blocks=blocks), tw.session(engine="virtual", mesh=mesh) as session:
        for program in PROGRAMS.values():
            for x in (tw.asarray(data), from_source(Grown((60, 50), (16, 30)))):
                np.asarray(program(tw, x))
        a, b = tw.asarray(data), tw.asarray(data)
        for _ in range(3):
            b[1:-1] = 0.5 * (a[:-2] + a[2:])
            a[1:-1] = 0.5 * (b[:-2] + b[2:])
            tw.evaluate(a, b)
        assert peaks and all(peak <= predicted for peak, predicted in peaks)
        assert sum(peak == predicted for peak, predicted in peaks) > len(peaks) // 2
        del a, b, x
        gc.collect()
        session.cluster.drop_copies()
        session.cluster.sweep()
        assert all(w.blocks.reserved_bytes == 0 and len(w.blocks) == 0 for w in session.cluster.host.workers.values())


def test_workers_refuse_what_the_plan_did_not() -> None:
    with tw.session(engine="virtual", workers=2) as session:  # no budget: the planner refuses nothing
        session.cluster = cluster = Virtual(Mesh(2), memory=30_000)
        kept = tw.evaluate(tw.arange(1000.0) + 1)
        stores = [w.blocks for w in cluster.host.workers.values()]
        before = [s.reserved_bytes for s in stores]
        what = r"no room for value \d+ \((block \d+|once)\) in worker \d, got .* bytes with .* of 30,000 in use"
        with pytest.raises(MemoryBudgetError, match=what):
            tw.evaluate(kept * 2 + tw.ones((30, 1000)))
        assert [w.blocks.reserved_bytes for w in cluster.host.workers.values()] == before and sum(before) in (
            8000,
            16000,
        )
        np.testing.assert_array_equal(np.asarray(kept), np.arange(1000.0) + 1)


def test_selected_rows_are_read_as_often_as_announced() -> None:
    """Masks are counted first; rows are put one behind the other, in no exchange that would read them again."""
    source = Grown((4000, 10), (100, 10), name=77)
    want = elements((4000, 10), "f8")
    with tw.session(memory=64 << 10):
        x = from_source(source)
        for select in (lambda a: a[a[:, 0] > 50], lambda a: a[(a * a).sum(1) > 30000], lambda a: np.sort(a[:, 1])):
            y = select(x)
            announced = tw.explain(y).read_bytes
            source.boxes.clear()
            with tw.profile() as profile:
                tw.evaluate(y)
            assert announced == profile.read_bytes > 0
            np.testing.assert_array_equal(np.asarray(y), select(want))
