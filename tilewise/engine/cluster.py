"""Driving workers through a plan. In: a plan and its leaves. Out: handles on results that stay where they are.

An engine of this kind says how to call a worker (`call`) and how to wait (`wait`); everything else is here: rounds, the
count of bytes that changed owner, and the log from which lost workers are brought back.
"""

from __future__ import annotations

import itertools
import math
import time
import weakref
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from tilewise import events
from tilewise.engine.log import Entry, Log
from tilewise.engine.rounds import Move, Round, rounds
from tilewise.engine.worker import Failure, Report, Start
from tilewise.errors import SessionClosedError, TilewiseError, message
from tilewise.ir.order import Order
from tilewise.layout import Box, Layout, Mesh, OnDriver, box_size, local_dims, moves, overlap
from tilewise.plan.exchanges import Exchanges
from tilewise.store.arrays import ArraySink
from tilewise.store.base import Sink, Source, check_box, within

ND = np.ndarray[Any, Any]
T = TypeVar("T")

REVIVALS = 3  # a plan that workers do not survive so many times would kill them again
PLANS_KEPT = 1024  # plans that workers know; those not needed to replay go first


@dataclass
class Counters:
    """What an engine has moved so far. What was moved again because a worker was lost is counted apart."""

    network_bytes: int = 0  # counted where they arrive
    predicted_bytes: int = 0  # what the plans said of exchanges that do not depend on data
    bounded_bytes: int = 0  # the most they said of those that do
    exchanges: int = 0
    replays: int = 0
    replayed_bytes: int = 0
    read_bytes: int = 0  # by workers, from sources
    peak_bytes: int = 0  # the most that a worker's blocks took up in the last plan


class Remote(Source):
    """A value that workers hold. Dropping the last reference frees it there."""

    opened_by_workers = False  # by none but those that have it

    def __init__(
        self, cluster: Cluster, key: int, shape: tuple[int, ...], dtype: Any, order: Order, layout: Layout
    ) -> None:
        self.cluster = cluster
        self.key = key
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self.order = order
        self.layout = layout
        self.chunks = tuple(max(n, 1) for n in local_dims(layout, shape, cluster.mesh))
        self.copies: list[Remote] = []  # of the same value, in other layouts
        self.spare = False  # a copy of something that can be had again
        self.dropped = False  # a spare copy that had to go
        cluster.values.add(self)
        weakref.finalize(self, cluster.release, key).atexit = False

    def as_copy(self) -> Remote:
        """The same, known as one that may be dropped."""
        self.spare = True
        return self

    @property
    def held_bytes(self) -> int:
        """Bytes of it on the worker that holds most."""
        return math.prod(local_dims(self.layout, self.shape, self.cluster.mesh)) * int(self.dtype.itemsize)

    def fingerprint(self) -> Hashable:
        """Which value of which cluster: it has no other name."""
        return "value on workers", id(self.cluster), self.key

    def layout_on(self, cluster: object) -> Layout:
        """Its layout on its own cluster; for others it comes from the driver."""
        return self.layout if cluster is self.cluster else OnDriver()

    def copies_on(self, cluster: object) -> list[Any] | None:
        """Its copies in other layouts."""
        return self.copies if cluster is self.cluster else None

    def read(self, box: Box, out: ND | None = None) -> ND:
        """A part of it on the driver."""
        check_box(box, self.shape, self.dtype, out)
        return self.cluster.read(self, box, out)

    def whole(self) -> ND:
        """All of it on the driver."""
        before, began = self.cluster.counters.network_bytes, time.perf_counter()
        nd: ND = self.cluster.gather(self, ArraySink(self.shape, self.dtype, self.order))
        if events.listeners:
            moved = self.cluster.counters.network_bytes - before
            events.emit(events.Event("gather", "result", began, time.perf_counter(), moved))
        return nd


class Cluster:
    """The driver's side of an engine with several workers."""

    mortal = True  # whether workers can be lost: otherwise nothing is logged

    def __init__(self, mesh: Mesh, memory: int | None = None) -> None:
        self.mesh = mesh
        self.memory = memory  # bytes that the blocks of a worker may take up
        self.counters = Counters()
        self.closed = False
        self.plans: dict[int, Exchanges] = {}
        self.rounds: dict[int, tuple[Round, ...]] = {}
        self.numbers: dict[int, int] = {}  # by the plan's id; self.plans keeps it from being another's
        self.counter = itertools.count(1)
        self.taught: set[int] = set()
        self.dead: list[int] = []  # keys nobody has a handle on; workers still store them
        self.log = Log()
        self.values: weakref.WeakSet[Remote] = weakref.WeakSet()
        self.broken = False  # workers were lost and are not back

    # -- what an engine provides ----------------------------------------------------------------------------------

    def call(self, worker: int, method: str, *args: Any, returns: int = 1) -> list[Any]:
        """Start a method of a worker: as many futures as it returns values. A worker does its calls in order."""
        raise NotImplementedError

    def wait(self, futures: Sequence[Any]) -> list[Any]:
        """Results of futures, once all calls are done; raises WorkerLost if a worker is gone."""
        raise NotImplementedError

    def share(self, value: Any) -> Any:
        """Something that several calls may take as an argument in the place of a value."""
        return value

    def restart(self) -> None:
        """Workers in all places that know nothing."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of the workers."""
        self.closed = True
        self.log = Log()

    # -- running --------------------------------------------------------------------------------------------------

    def run(self, plan: Exchanges, leaves: Sequence[Any], consts: Sequence[Any], native: bool) -> list[Remote]:
        """Run a plan. Leaves are ndarrays, Remotes of this cluster, or sources that workers open."""
        self._check_open()
        keys = tuple(next(self.counter) for _ in plan.wanted)
        given = tuple(self._given(x) for x in leaves)
        entry = Entry(self._number_of(plan), given, tuple(consts), keys, native)
        try:
            report = self._surely(lambda: self._run(entry, self._take_dead()))
        except BaseException:
            self.dead.extend(keys)  # some workers may have come to the end
            raise
        self.counters.network_bytes += report.network_bytes
        self.counters.read_bytes += report.read_bytes
        self.counters.peak_bytes = report.peak_bytes
        self.counters.predicted_bytes += plan.network_bytes - plan.bounded_bytes
        self.counters.bounded_bytes += plan.bounded_bytes
        self.counters.exchanges += sum(len(r) for r in plan.routes)
        if self.mortal:
            self.log.add(entry)
        return [
            Remote(self, k, plan.specs[p].shape, plan.specs[p].dtype, plan.specs[p].order, plan.layouts[p])
            for k, p in zip(keys, plan.wanted, strict=True)
        ]

    def _given(self, leaf: Any) -> Any:
        """A leaf as the log and workers know it."""
        if isinstance(leaf, Remote):
            assert leaf.cluster is self, "a value of another cluster comes through the driver"
            return leaf.key
        if isinstance(leaf, Source):
            assert leaf.opened_by_workers, "what workers do not open comes through the driver"
            return leaf
        return self.log.keep(leaf) if self.mortal else leaf

    def _number_of(self, plan: Exchanges) -> int:
        """The number under which workers know a plan."""
        known = self.numbers.get(id(plan))
        if known is None:
            if len(self.plans) >= PLANS_KEPT:
                self._forget_plans()
            known = next(self.counter)
            self.plans[known], self.rounds[known] = plan, rounds(plan)
            self.numbers[id(plan)] = known
        return known

    def _forget_plans(self) -> None:
        needed = {entry.number for entry in self.log}
        gone = [n for n in self.plans if n not in needed]
        for n in gone:
            del self.numbers[id(self.plans.pop(n))], self.rounds[n]
        self.taught.difference_update(gone)
        for w in range(self.mesh.workers):
            self.call(w, "forget", gone)

    def _teach(self, number: int) -> list[Any]:
        if number in self.taught:
            return []
        plan = self.share(
            replace(self.plans[number], choice=None, told=(), _blocks={})
        )  # what this side has worked out stays here
        futures = [f for w in range(self.mesh.workers) for f in self.call(w, "learn", number, plan)]
        self.taught.add(number)
        return futures

    def _run(self, entry: Entry, gone: list[int]) -> Report:
        """Submit all rounds, then wait; what workers report. Nothing here waits for a result on the way.

        Workers first let go of the values that are `gone`.
        """
        plan, p = self.plans[entry.number], self.mesh.workers
        futures = self._teach(entry.number)
        here = {pos: x for pos, x in zip(plan.leaves, entry.leaves, strict=True) if not isinstance(x, int | Source)}
        there = tuple(x if isinstance(x, int | Source) else None for x in entry.leaves)
        begun = False
        pieces: dict[tuple[int, int], Any] = {}
        answers: list[Any] = []
        try:
            for k, this in enumerate(self.rounds[entry.number]):
                start = None if k else Start(entry.number, there, entry.consts, entry.keys, entry.native, tuple(gone))
                sent = self._scatter(this.scatters, here)
                cut: dict[tuple[int, int], Any] = {}
                for w in range(p):
                    receivers = this.receivers(w, p)
                    arrived = [*sent[w], *(pieces[v, w] for v in this.senders(w, p))]
                    got = self.call(w, "advance", k, len(receivers), start, *arrived, returns=1 + len(receivers))
                    answers.append(got[0])
                    cut.update(((w, v), f) for v, f in zip(receivers, got[1:], strict=True))
                pieces, begun = cut, True
        finally:
            if not begun:
                self.dead.extend(gone)
        try:
            results = self.wait([*futures, *answers])[len(futures) :]
        except BaseException:
            if futures:
                self.taught.discard(entry.number)  # perhaps somebody did not get it
            raise
        failures = [r for r in results if isinstance(r, Failure)]
        if failures:
            errors = [f.error for f in failures if f.error is not None]
            raise errors[0] if errors else AssertionError("a plan failed without an error")
        return Report.all_of(results)

    def _scatter(self, scatters: Sequence[Move], here: dict[int, ND]) -> list[list[Any]]:
        """Per worker: what it gets of the driver's arrays. What several workers get is shared, not sent again."""
        out: list[list[Any]] = [[] for _ in range(self.mesh.workers)]
        for move in scatters:
            shared: dict[Any, Any] = {}
            for w, mine in enumerate(out):
                boxes = tuple(p.box for p in move.arriving(w))
                if boxes and boxes not in shared:
                    shared[boxes] = self.share([here[move.pos][_key(b)] for b in boxes])
                if boxes:
                    mine.append(shared[boxes])
        return out

    def gather(self, x: Remote, sink: Sink) -> Any:
        """Write a stored value to a sink, box by box; what the sink makes of it."""
        with sink:
            for box, data in self._fetch(x, tuple((0, n) for n in x.shape)):
                sink.write(box, data)
            return sink.commit()

    def read(self, x: Remote, box: Box, out: ND | None = None) -> ND:
        """A part of a stored value on the driver."""
        got: ND = np.empty([hi - lo for lo, hi in box], x.dtype) if out is None else out
        for part, data in self._fetch(x, box):
            got[within(part, box)] = data
        return got

    def _fetch(self, x: Remote, box: Box) -> list[tuple[Box, ND]]:
        """The pieces of a box of a stored value, with where they belong."""
        self._check_open()
        return self._surely(lambda: self._fetch_now(x, box))

    def _fetch_now(self, x: Remote, box: Box) -> list[tuple[Box, ND]]:
        self.sweep()
        e = moves(x.layout, OnDriver(), x.shape, self.mesh)
        pieces = [(p, both) for p in e.pieces if box_size(both := overlap(p.box, box))]
        senders = sorted({p.src_worker for p, _ in pieces})
        got = self.wait([f for w in senders for f in self.call(w, "cut_stored", x.key, e, box)])
        queues: dict[int, list[ND]] = {w: list(g) for w, g in zip(senders, got, strict=True)}
        out = [(both, queues[p.src_worker].pop(0)) for p, both in pieces]
        self.counters.network_bytes += sum(d.nbytes for (p, _), (_, d) in zip(pieces, out, strict=True) if p.crosses)
        self.counters.predicted_bytes += sum(box_size(both) for p, both in pieces if p.crosses) * x.dtype.itemsize
        self.counters.exchanges += 1
        return out

    # -- freeing, and bringing back -------------------------------------------------------------------------------

    def living(self) -> list[Remote]:
        """The values that workers hold."""
        return [x for x in self.values if not x.dropped]

    def drop_copies(self) -> bool:
        """Let go of copies that can be had again; whether there were any."""
        spare = [x for x in self.living() if x.spare]
        for x in spare:
            x.dropped = True
            self.release(x.key)
        return bool(spare)

    def release(self, key: int) -> None:
        """A Remote is gone (called at any moment, by whatever thread: only notes it)."""
        self.dead.append(key)

    def sweep(self) -> None:
        """Tell workers what nobody needs any more (a plan that starts does so, too)."""
        if self.closed or not self.dead:
            return
        gone = self._take_dead()
        try:
            for w in range(self.mesh.workers):
                self.call(w, "drop", gone)
        except BaseException:
            self.dead.extend(gone)  # dropping twice does no harm
            raise

    def _take_dead(self) -> list[int]:
        gone, self.dead = self.dead, []
        self.log.release(gone)
        return gone

    def _surely(self, do: Callable[[], T]) -> T:
        """Do something with workers, and bring them back if they are lost in it."""
        for _ in range(REVIVALS + 1):
            try:
                if self.broken:
                    self._revive()
                return do()
            except WorkerLost as lost:
                self.broken, why = True, str(lost)
        raise TilewiseError(
            message(
                f"workers were lost {REVIVALS + 1} times in a row; the last time: {why}",
                cure="Look for what ends them (often memory: use more workers, or smaller arrays)",
            )
        )

    def _revive(self) -> None:
        """Replace lost workers and run the log again (plans are deterministic)."""
        self.restart()
        self.taught = set()
        self._take_dead()
        self.counters.replays += 1
        gone: list[int] = []
        for entry, unneeded in self.log.replay():
            # Handles that die meanwhile wait: entries to come may still read what they were on.
            self.counters.replayed_bytes += self._run(entry, gone).network_bytes
            gone = unneeded
        self.dead.extend(gone)
        self.broken = False

    def _check_open(self) -> None:
        if self.closed:
            raise SessionClosedError(
                message("this array lives on the workers of a closed session", cure="compute() it inside the session")
            )


class WorkerLost(Exception):
    """A worker died; its blocks are gone."""


def _key(box: Any) -> tuple[Any, ...]:
    """The index of a box; a view also of an array without axes."""
    return (*(slice(lo, hi) for lo, hi in box), ...)
