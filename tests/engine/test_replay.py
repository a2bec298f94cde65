"""Plans that workers run again by script: the same bits, bytes, peaks and errors as the first time."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy
import pytest

import tilewise as tw
from tests.engine.threads import Threads
from tilewise import engine, events
from tilewise.backend.host import again as host_again
from tilewise.backend.host.arrays import widened
from tilewise.engine import pieces as engine_pieces
from tilewise.engine import worker
from tilewise.engine.host import ServedHost
from tilewise.engine.prepared import replay, straight
from tilewise.ir.node import Node, intern, known_leaf
from tilewise.ops.elementwise import map_op
from tilewise.stage.steps import Call
from tilewise.store.blocks import MemoryBlocks
from tilewise.tuning import tuned, using

Step = Callable[[dict[str, Any]], None]  # changes arrays by name


def halo(a: dict[str, Any]) -> None:
    a["x"][1:-1] = 0.5 * (a["x"][:-2] + a["x"][2:])


def wide(a: dict[str, Any]) -> None:
    a["x"][5:-5] = 0.5 * (a["x"][:-10] + a["x"][10:])


def far(a: dict[str, Any]) -> None:
    n = a["x"].shape[0] // 4
    a["x"][n:-n] = 0.5 * (a["x"][: -2 * n] + a["x"][2 * n :])


def all_reduce(a: dict[str, Any]) -> None:
    a["x"] = a["x"] - 0.5 * a["x"].mean()


def columns(a: dict[str, Any]) -> None:
    a["A"] = a["A"] / (1 + abs(a["A"]).max(0)) + a["A"].sum(1)[:, None] * 1e-3


def stencil(a: dict[str, Any]) -> None:
    x = a["A"]
    x[1:-1, 1:-1] = 0.25 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])


def gradient(a: dict[str, Any]) -> None:
    a["w"] = a["w"] - 1e-3 * (a["A"].T @ (a["A"] @ a["w"] - a["x"][: a["A"].shape[0]]))


def pieces(a: dict[str, Any]) -> None:
    half = a["x"][3:]
    a["y"] = half * 2
    a["x"][:4] = a["x"][-4:] + half[0]


def swapped(a: dict[str, Any]) -> None:
    a["x"], a["y"] = a["y"] + 1.5, a["x"]


def minimum(a: dict[str, Any]) -> None:
    a["x"] = numpy.minimum(a["x"], a["x"].min() + 5) + (a["x"] > 3)


def signs(a: dict[str, Any]) -> None:
    a["x"] = -a["x"] * a["x"].sum()


def numbers(a: dict[str, Any]) -> None:
    total, most = a["y"].sum(), a["w"].max()
    a["y"] = numpy.where(total > most, a["y"] * (total / most) ** 0.5, numpy.floor_divide(a["y"], -most))
    a["x"] = a["x"] + (numpy.sqrt(total) + numpy.hypot(total, 2) + total**3 / 0.0 + (total < 3))


STEPS: list[Step] = [halo, wide, far, all_reduce, columns, stencil, gradient, pieces, swapped, minimum, signs, numbers]


def arrays(rows: int) -> dict[str, Any]:
    rng = numpy.random.default_rng(7)
    x = rng.normal(size=rows + 20)
    x[3], x[4] = -0.0, numpy.inf
    return {"x": x, "y": x[::-1].copy(), "A": rng.normal(size=(rows, 6)), "w": rng.normal(size=6)}


def course(step: Step, rows: int, on: str = "virtual", **mesh: Any) -> list[Any]:
    """What can be seen after each of some steps."""
    seen: list[Any] = []
    with tw.config(eager_bytes=0, objective="bytes"), tw.session(engine=on, **mesh) as session:
        a: dict[str, Any] = {k: tw.evaluate(tw.asarray(v).relayout(0)) for k, v in arrays(rows).items()}
        for _ in range(5):
            step(a)
            tw.evaluate(*a.values())
            c = session.cluster
            assert c is not None
            seen.append((c.counters.network_bytes, c.counters.predicted_bytes, c.counters.peak_bytes))
        seen.append({k: numpy.asarray(v).tobytes() for k, v in a.items()})
    return seen


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The plans of which a worker had a script, each time one was run."""
    found: list[Any] = []
    real = replay.again

    def noted(*args: Any) -> Any:
        made = real(*args)
        found.append(made)
        return made

    monkeypatch.setattr(worker, "again", noted)
    return found


MESHES: list[dict[str, Any]] = [{"workers": 2}, {"workers": 4}, {"mesh": (2, 2)}]


@pytest.mark.parametrize("k", range(len(STEPS)), ids=[s.__name__ for s in STEPS])
def test_the_same_as_without(k: int, scripted: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    step, mine = STEPS[k], arrays(40)
    with numpy.errstate(all="ignore"):
        for _ in range(5):
            step(mine)
    for rows, mesh in (40, {"workers": 3}), ((13, 2, 24)[k % 3], MESHES[k % 3]):
        with monkeypatch.context() as patch:
            patch.setattr(replay, "script", lambda *_: None)
            plain = course(step, rows, **mesh)
        assert not any(scripted)
        assert course(step, rows, **mesh) == plain
        assert any(scripted) or rows != 40
        scripted.clear()
        for name, raw in plain[-1].items() if rows == 40 else ():
            numpy.testing.assert_allclose(numpy.frombuffer(raw), mine[name].ravel(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("k", range(len(STEPS)), ids=[s.__name__ for s in STEPS])
def test_the_same_in_processes(k: int, monkeypatch: pytest.MonkeyPatch, same_settings_after_each_test: None) -> None:
    """A process with one worker repeats runs in fewer words (`ServedHost._repeated`): bits, bytes and peaks stay."""
    repeated: list[bool] = []
    real = ServedHost._repeated

    def noted(self: ServedHost, w: worker.Worker, words: tuple[Any, ...]) -> Any:
        made = real(self, w, words)
        repeated.append(made is not None)
        return made

    engine.register("threads", Threads)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(ServedHost, "_repeated", lambda *_: None)
            plain = course(STEPS[k], 40, on="threads", workers=2)
        monkeypatch.setattr(ServedHost, "_repeated", noted)
        assert course(STEPS[k], 40, on="threads", workers=2) == plain
    finally:
        engine.unregister("threads")
    assert any(repeated)


def test_a_number_that_changes_and_a_value_that_is_told(same_settings_after_each_test: None) -> None:
    engine.register("threads", Threads)
    try:
        with tw.config(eager_bytes=0, objective="bytes"), tw.session(engine="threads", workers=2):
            mine = numpy.arange(40.0)
            x = tw.evaluate(tw.asarray(mine).relayout(0))
            for k in range(6):
                x, mine = tw.evaluate(x * (1.0 + k)), mine * (1.0 + k)
                assert float((x * k).sum()) == (mine * k).sum()
    finally:
        engine.unregister("threads")


def recut_and_written(a: dict[str, Any]) -> None:
    n = a["x"].shape[0] // 4
    y = a["x"] * 2  # made here, so that what is written below may lie in the place of it
    z = y[: 2 * n] + y[2 * n :]
    y[1:-1] = 0.5
    a["x"] = y
    a["y"][n:-n] = z


@pytest.mark.parametrize(("step", "seen"), [(far, True), (recut_and_written, False), (wide, False)])
def test_pieces_that_only_passes_read_are_not_copied(step: Step, seen: bool) -> None:
    mine = {"x": numpy.arange(40_000.0), "y": numpy.ones(40_000)}  # few elements go to all workers
    with tw.config(eager_bytes=0, objective="bytes"), tw.session(engine="virtual", workers=2) as session:
        a: dict[str, Any] = {k: tw.evaluate(tw.asarray(v).relayout(0)) for k, v in mine.items()}
        for _ in range(4):
            step(a)
            tw.evaluate(*a.values())
            step(mine)
        cluster: Any = session.cluster
        plans = [p for w in cluster.host.workers.values() for p in w.plans.values()]
        scripts = [s for p in plans for s in p.scripts.values() if s is not None]
        for k, v in mine.items():
            numpy.testing.assert_array_equal(numpy.asarray(a[k]), v)
    mine_only = {j.pieces[0][1] < 0 for s in scripts for joins in s.joins for j in joins if j.seen}
    assert scripts and (mine_only == {False, True} if seen else True not in mine_only)


@pytest.mark.parametrize(("width", "memory"), [(1, None), (20, None), (100, None), (250, None), (20, "1MB")])
def test_blocks_of_a_loop_have_room_for_its_ghosts(width: int, memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    start, got = numpy.arange(1800.0) % 7, list[bool]()
    for module in (replay, engine_pieces):
        monkeypatch.setattr(
            module, "widened", lambda *given: (made := widened(*given), got.append(made is not None))[0]
        )
    with (
        using(replace(tuned(), margin_bytes=0)),
        tw.config(eager_bytes=0, objective="bytes"),
        tw.session(engine="virtual", workers=3, memory=memory),
    ):
        ours, theirs = tw.evaluate(tw.asarray(start).relayout(0)), start.copy()
        for _ in range(4):
            for x in (ours, theirs):
                x[width:-width] = 0.5 * (x[: -2 * width] + x[2 * width :]) + x[width:-width]
            tw.evaluate(ours)
        numpy.testing.assert_array_equal(numpy.asarray(ours), theirs)
    roomy = memory is None and width <= 100  # wider ones are no ghosts
    assert any(got) == roomy and not any(got[:3])  # what comes from the driver has none


def test_blocks_that_are_counted_alike_lie_alike() -> None:
    def lie(*arrays: Any, also: Any = None) -> list[Any]:
        blocks = MemoryBlocks()
        for k, x in enumerate((*arrays, *(() if also is None else (also,)))):
            blocks.put(k, x)
        return blocks.lie(arrays)

    def fresh() -> Any:
        return numpy.zeros((20, 3))

    whole, fixed = fresh(), fresh()
    fixed.flags.writeable = False
    same = [lie(whole, whole[2:]), lie((x := fresh()), x[2:])]
    assert same[0] == same[1]
    others = [
        lie(whole, fresh()[2:]), lie(whole, whole[1:-1]), lie(whole, whole[:-2]), lie(whole, whole[2::2]),
        lie(whole[2:], whole), lie(whole, whole[2:].copy()), lie(fixed, fixed[2:]), lie((x := fresh())[:5], x[2:]),
        lie((x := fresh())[:5], x[2:], also=x), lie(whole), lie(whole.T, whole.T[:, 2:]),
    ]  # fmt: skip
    for k, one in enumerate(others):
        assert one != same[0] and one not in others[:k]


def test_profiles_and_limits_see_every_step(scripted: list[Any]) -> None:
    heard: list[events.Event] = []
    with tw.config(eager_bytes=0, objective="bytes"), tw.session(engine="virtual", workers=2):
        x = tw.evaluate(tw.asarray(numpy.arange(40.0)).relayout(0))
        for k in range(8):
            if k == 6:
                assert any(scripted)
                scripted.clear()
                events.listeners.append(heard.append)
            x[1:-1] = 0.5 * (x[:-2] + x[2:])
            tw.evaluate(x)
        events.listeners.remove(heard.append)
    assert not scripted
    assert [e.kind for e in heard].count("exchange") == 4 and {e.worker for e in heard if e.kind == "pass"} == {0, 1}
    with tw.config(eager_bytes=0, objective="bytes"), tw.session(engine="virtual", workers=2, memory="100MB"):
        x = tw.evaluate(tw.asarray(numpy.arange(40.0)).relayout(0))
        for _ in range(5):
            x = tw.evaluate(x + x.sum())
    assert not scripted


def test_a_failure_names_its_line_and_leaves_nothing(scripted: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    with tw.config(eager_bytes=0, objective="bytes"), tw.session(engine="virtual", workers=2) as session:
        x = tw.evaluate(tw.asarray(numpy.arange(40.0)).relayout(0))
        workers = session.cluster.host.workers.values()  # type: ignore[union-attr]

        real, failing = host_again.maker, list[bool]()

        def made(node: Any) -> Any:
            new = real(node)
            return lambda: 1 / 0 if failing else new()

        monkeypatch.setattr(host_again, "maker", made)
        for _ in range(5):
            x = tw.evaluate(x * 2)
        assert any(scripted)
        held, before = [w.blocks.reserved_bytes for w in workers], numpy.asarray(x)
        failing.append(True)
        y = x * 2
        with pytest.raises(ZeroDivisionError) as caught:
            tw.evaluate(y)
        assert any("multiply, recorded at" in note for note in caught.value.__notes__)
        failing.clear()
        numpy.testing.assert_array_equal(numpy.asarray(y), before * 2)
        del y, caught
        gc.collect()  # the error knows its frames
        for _ in range(5):
            x = tw.evaluate(x * 2)
        assert [w.blocks.reserved_bytes for w in workers] == held


@pytest.mark.parametrize("held", [True, False])
def test_a_failure_of_a_process_names_its_line(
    held: bool, monkeypatch: pytest.MonkeyPatch, same_settings_after_each_test: None
) -> None:
    """Whether Ctrl-C waits there (as it may where processes are threads) or not."""
    engine.register("threads", Threads)
    real, failing = host_again.maker, list[bool]()

    def made(node: Any) -> Any:
        new = real(node)
        return lambda: 1 / 0 if failing else new()

    monkeypatch.setattr(host_again, "maker", made)
    monkeypatch.setattr(straight, "waits", lambda: held)
    try:
        with tw.config(eager_bytes=0, objective="bytes"), tw.session(engine="threads", workers=2):
            x = tw.evaluate(tw.asarray(numpy.arange(40.0)).relayout(0))
            for _ in range(5):
                x = tw.evaluate(x * 2)
            before = numpy.asarray(x)
            failing.append(True)
            with pytest.raises(ZeroDivisionError) as caught:
                numpy.asarray(tw.evaluate(x * 2))
            assert any("multiply, recorded at" in note for note in caught.value.__notes__)
            failing.clear()
            numpy.testing.assert_array_equal(numpy.asarray(x * 2), before * 2)
    finally:
        engine.unregister("threads")


def test_numbers_are_written_where_they_stay() -> None:
    """A ufunc that computes in the dtypes it is given writes into its result; others give a scalar first."""
    number = known_leaf(numpy.float64(2.5), None)
    whole = known_leaf(numpy.int64(3), None)
    F, B = numpy.dtype(float), numpy.dtype(bool)

    def bound(name: str, inputs: tuple[Node, ...], dtype: numpy.dtype[Any]) -> Any:
        nodes = [*inputs, intern(map_op(name, dtype), inputs, (), dtype)]
        return nodes, host_again._number(Call(len(inputs), tuple(range(len(inputs)))), nodes)

    rows = [("divide", (number, number), F), ("sqrt", (number,), F), ("less", (number, number), B)]
    for name, inputs, dtype in rows:
        nodes, call = bound(name, inputs, dtype)
        values: list[Any] = [numpy.asarray(n.value) for n in inputs] + [None]
        call(values)
        expected = getattr(numpy, name)(*(n.value for n in inputs))
        assert type(values[-1]) is numpy.ndarray and values[-1].dtype == dtype == nodes[-1].dtype
        assert values[-1].tobytes() == expected.tobytes()
    for name, inputs, dtype in (("power", (number, number), F), ("cast", (whole,), F), ("divide", (whole, whole), F)):
        assert bound(name, inputs, dtype)[1] is None


def test_results_that_show_the_memory_of_others(scripted: list[Any]) -> None:
    """A mask and the same in one row are both kept."""
    x = numpy.random.default_rng(1).integers(0, 3, (4, 8)).astype(numpy.uint8)
    with tw.config(eager_bytes=0, objective="bytes"), tw.session(engine="virtual", workers=4):
        mine, plain = tw.asarray(x.copy()), x
        for _ in range(4):
            found = tw.nonzero(mine == 0)
            assert all(map(numpy.array_equal, map(numpy.asarray, found), numpy.nonzero(plain == 0)))
            mine[:-1] = mine[1:]
            plain[:-1] = plain[1:]
        numpy.testing.assert_array_equal(numpy.asarray(mine), plain)
    assert any(scripted)
