"""The settings a program is run under. In: a case's number. Out: named contexts, cheap ones more often."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import tilewise
from tests.fuzz.program import Setting
from tests.fuzz.thresholds import thresholds
from tilewise.array.evaluation import here
from tilewise.array.evaluation import in_turns as evaluate
from tilewise.array.evaluation import workers as on
from tilewise.backend.host import steps
from tilewise.compiler import stream
from tilewise.layout import Mesh

MUCH = 1 << 40  # bytes
TURNS: tuple[tuple[Any, ...], ...] = (  # blocks, whether all that is kept is spilled, workers
    (Mesh(3), True),
    (Mesh(8), False, 3),
    (Mesh(4, 1, 2), True),
    (Mesh(7), True, 2),
    (Mesh(8), False),
    (Mesh(4, 1, 2), True, 2),
    (Mesh(7), True),
)
MESHES = (1, 2, 3, 4, 7, (2, 2), 8, (2, 4), 16)


class Fault(Exception):
    """Injected: an evaluation that fails at some step."""


@contextmanager
def faults(every: int) -> Iterator[None]:
    """Every so many steps of plans (and ever more, so that programs end), one fails before it does its work."""
    count, next_one, gap = 0, every, every
    saved = {name: getattr(steps, name) for name in ("run_pass", "call", "run_write")}

    def failing(real: Any) -> Any:
        def step(*args: Any, **kwargs: Any) -> Any:
            nonlocal count, next_one, gap
            count += 1
            if count >= next_one:
                gap += 3
                next_one += gap
                raise Fault(f"injected at step {count}")
            return real(*args, **kwargs)

        return step

    for name, real in saved.items():
        setattr(steps, name, failing(real))
    try:
        yield
    finally:
        for name, real in saved.items():
            setattr(steps, name, real)


@contextmanager
def counted(mesh: Any) -> Iterator[None]:
    """A virtual session in which no more and no less moves than plans say (what depends on data has a bound)."""
    with tilewise.session(engine="virtual", mesh=mesh) as session:  # type: ignore[attr-defined]
        yield
        now = session.cluster.counters
        more = now.network_bytes - now.predicted_bytes
        assert 0 <= more <= now.bounded_bytes, f"{more} bytes moved more than plans said: {now}"


@contextmanager
def in_turns(blocks: Mesh, spills: bool, workers: int = 1) -> Iterator[None]:
    """Every plan runs block by block, whatever its size; what loops keep is in spill files, or all of it in memory.

    With several workers, on these, where they can share the plan; messages between them are small.
    """

    def planned(nodes: Any, wanted: Any, settings: Any, memory: int, way: stream.Try, held: Any) -> Any:
        return real(nodes, wanted, settings, 0 if spills else memory, stream.Try(blocks), held)

    def on_workers(nodes: Any, outputs: Any, settings: Any, cluster: Any, stays: bool) -> None:
        if not evaluate.run_shared(outputs, settings, session, cluster, stays):
            run(nodes, outputs, settings, cluster, stays)

    real, fits, run, share, least = stream._planned, here._fits, on.run_counted, evaluate.SHARE, evaluate.LEAST_BYTES
    stream._planned, here._fits, on.run_counted = planned, lambda *args: False, on_workers  # type: ignore[assignment]
    evaluate.SHARE, evaluate.LEAST_BYTES = MUCH, 64
    where = {"engine": "virtual", "workers": workers} if workers > 1 else {}
    try:
        with tilewise.session(memory=MUCH, **where) as session:  # type: ignore[attr-defined]
            yield
            disk = session.disk
            if session.cluster is not None:
                now = session.cluster.counters
                assert 0 <= now.network_bytes - now.predicted_bytes <= now.bounded_bytes, now
            assert disk.read_bytes == disk.predicted_read_bytes, disk
            assert disk.spilled_bytes <= disk.predicted_spilled_bytes, disk
            assert disk.restored_bytes <= disk.predicted_restored_bytes, disk
    finally:
        stream._planned, here._fits, on.run_counted = real, fits, run
        evaluate.SHARE, evaluate.LEAST_BYTES = share, least


def context(**settings: Any) -> Setting:
    """Settings of one run; `workers` (or a mesh) opens a virtual session, `turns` runs plans block by block, `every`
    injects faults, `small` is the seed of small thresholds (negative: also of those in the text of code).
    """
    workers = settings.pop("workers", None)
    turns = settings.pop("turns", None)
    every = settings.pop("every", None)
    layouts = settings.pop("layouts", None)
    small = settings.pop("small", None)

    def enter() -> AbstractContextManager[Any]:
        stack = ExitStack()
        stack.enter_context(tilewise.config(fallback="silent", **settings))
        if small is not None:
            stack.enter_context(thresholds(abs(small), code=small < 0))
        if workers is not None:
            stack.enter_context(counted(workers))
        if turns is not None:
            stack.enter_context(in_turns(*turns))
        if layouts is not None:
            stack.enter_context(tilewise.testing.random_layouts(layouts))  # type: ignore[attr-defined]
        if every is not None:
            stack.enter_context(faults(every))
        return stack

    return enter


def settings_of(case: int, native: float = 0.125) -> dict[str, Setting]:
    """The settings for one case, by name: all the cheap ones, and in turn one of the costly ones."""
    rows: list[dict[str, Any]] = [
        {},
        {"eager_bytes": 0, "native": False},
        {"eager_bytes": (64, 200, 1000)[case % 3], "native": False},
    ]
    if case % 3 == 0:
        rows.append({"eager_bytes": 0, "fusion": False})
    if case % 4 == 1:
        rows.append({"eager_bytes": 0, "native": False, **({"rewrite": False}, {"exact": True})[case // 4 % 2]})
    if case % 3 == 1:
        rows.append({"eager_bytes": 0, "flush": False, "native": False})
    if case % 3 == 2:
        rows.append({"eager_bytes": (0, 100)[case % 2], "native": False, "every": 2 + case % 5})
    if native and case % round(1 / native) == 0:
        turn = case * round(native * 1000) // 1000
        rows.append({"eager_bytes": 0, "tile": (None, 1, 7)[turn % 3], "threads": (None, 1, 5)[turn // 3 % 3]})
    if hasattr(tilewise, "session"):
        more = {"workers": MESHES[case % len(MESHES)], "blocks": (1, 3)[case // len(MESHES) % 2]}
        # Where only bytes count, contributions to a mean may be divided before they are added, which rounds more often;
        # block by block, too.
        by_bytes = {"objective": "bytes", "exact": True} if case // 18 % 2 else {"objective": "time"}
        rows.append({"eager_bytes": 0, "native": False, **by_bytes, **more})
        if hasattr(getattr(tilewise, "testing", None), "random_layouts"):
            rows.append({"eager_bytes": 0, "native": False, "layouts": case, **more})
    if case % 12 == 5:
        rows.append({"eager_bytes": 0, "native": False, "exact": True, "turns": TURNS[case // 12 % len(TURNS)]})
    return _named(rows)


def small_settings_of(case: int) -> dict[str, Setting]:
    """Settings under small thresholds: machine code, NumPy, and in turn faults or a mesh."""
    native = {"eager_bytes": 0, "threads": (None, 5, 1)[case % 3]}
    rows: list[dict[str, Any]] = [
        {**native, "small": -case if case % 4 == 3 else case},
        {"eager_bytes": (0, 100, 1000)[case % 3], "native": False, "small": case + 1},
    ]
    more = {"workers": MESHES[case % len(MESHES)], "blocks": (1, 3)[case // len(MESHES) % 2]}
    rows.append(({**native, **more}, {**native, "every": 2 + case % 5}, {})[case % 3] | {"small": case + 2})
    return _named(rows)


def _named(rows: list[dict[str, Any]]) -> dict[str, Setting]:
    return {", ".join(f"{k}={v}" for k, v in row.items()) or "default": context(**row) for row in rows}
