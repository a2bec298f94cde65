"""Driving workers through a plan. In: a plan and its leaves. Out: handles on results that stay where they are.

A plan is one call of each host of workers, which runs it to its end; the driver goes on meanwhile, unless the plan may
fail for reasons that lie in the data. An engine says how to call a host (`call`) and how to wait (`wait`); everything
else is here: runs under way, the count of bytes that changed owner, and the log from which lost workers are brought
back.
"""

from __future__ import annotations

import itertools
import math
import time
import weakref
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from tilewise import events
from tilewise.backend import NATIVE
from tilewise.engine.ahead import never_fails
from tilewise.engine.host import Copied, Report, on_the_drivers_clock
from tilewise.engine.recovery.copies import Copies, packed, unpacked
from tilewise.engine.recovery.copying import LEAST_PLANS, REMEMBERED_BYTES, Copying, keepers
from tilewise.engine.recovery.replay_log import Entry, Log
from tilewise.engine.recovery.worker_errors import Failure, again
from tilewise.engine.remote import Remote
from tilewise.engine.rounds import Move, rounds
from tilewise.engine.worker import Start
from tilewise.errors import SessionClosedError, TilewiseError, message
from tilewise.layout import Box, Mesh, OnDriver, box_size, local_dims, moves, overlap
from tilewise.plan.exchanges import Exchanges
from tilewise.records import dataclass
from tilewise.store.base import Sink, Source, within

ND = np.ndarray[Any, Any]
T = TypeVar("T")

REVIVALS = 3  # a plan that workers do not survive so many times would kill them again
RUNS_AHEAD = 32  # runs under way: the driver waits before it starts more
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
    copies: int = 0  # of what workers held at a moment
    copied_bytes: int = 0  # to neighbours
    read_bytes: int = 0  # by workers, from sources
    written_bytes: int = 0  # to sinks, by workers and by the driver for them
    peak_bytes: int = 0  # the most that a worker's blocks took up in the last plan


@dataclass(frozen=True, eq=False)
class Taught:
    """A plan that workers know or may get to know, and what the driver needs of it for each run."""

    plan: Exchanges
    scatters: tuple[Move, ...]
    predicted_bytes: int
    bounded_bytes: int
    exchanges: int
    never_fails: bool
    sizes: tuple[int, ...]  # bytes that its results take up on the worker with the most


@dataclass(frozen=True, eq=False)
class Mark:
    """A copy under way: of which values, and which plans had run by then."""

    keys: tuple[int, ...]
    before: frozenset[Entry]


class Cluster:
    """The driver's side of an engine with several workers."""

    mortal = True  # whether workers can be lost: otherwise nothing is logged
    copies_blocks = False  # whether blocks are copied now and then, so that the log stays short
    in_process = False  # whether a call has run when it returns, and its events have been heard

    def __init__(self, mesh: Mesh, memory: int | None = None) -> None:
        self.mesh = mesh
        self.memory = memory  # bytes that the blocks of a worker may take up
        self.hosts: dict[int, tuple[int, ...]] = {}  # the workers of each process
        self.epoch = 0
        self.closed = False
        self.plans: dict[int, Taught] = {}
        self.numbers: dict[int, int] = {}  # by the plan's id; self.plans keeps it from being another's
        self.counter = itertools.count(1)
        self.taught: set[int] = set()
        self.dead: list[int] = []  # keys nobody has a handle on; workers still store them
        self.log = Log()
        self.copying = Copying()
        self.copies = Copies()  # what no worker but one could keep
        self.under_way: dict[Entry | Mark, list[Any]] = {}  # whose reports have not been looked at, in order
        self.failed: dict[int, Exception] = {}  # why there is no value under a key
        self.values: weakref.WeakSet[Remote] = weakref.WeakSet()
        self.broken = False  # workers were lost and are not back
        self.lost_at: float | None = None  # when that was noticed, in what is being done now
        self._counters = Counters()

    # -- what an engine provides ----------------------------------------------------------------------------------

    def call(self, host: int, method: str, *args: Any) -> Any:
        """Start a method of a host: a future. A host does its calls in order."""
        raise NotImplementedError

    def call_all(self, method: str, *args: Any) -> list[Any]:
        """Start the same method of all hosts: futures."""
        return [self.call(h, method, *args) for h in self.hosts]

    def tell(self, host: int, method: str, *args: Any) -> None:
        """Start a method whose result nobody waits for."""
        raise NotImplementedError

    def wait(self, futures: Sequence[Any]) -> list[Any]:
        """Results of futures; raises WorkerLost if a worker is gone."""
        raise NotImplementedError

    def disregard(self, futures: Sequence[Any]) -> None:
        """Nobody will wait for these."""

    def pack(self, value: Any) -> Any:
        """A plan or a source as it can be sent: it may hold functions and classes of the user's program."""
        return value

    def restart(self) -> None:
        """Workers in all places that hold nothing and know no plans."""
        raise NotImplementedError

    def look_for_places(self) -> None:
        """Called before each plan: let workers that share a process have their own again, where they can."""

    def node_of(self, host: int) -> Hashable:
        """What is lost together: the machine that a process runs on."""
        return host

    def close(self) -> None:
        """Let go of the workers."""
        self.closed = True
        self.log = Log()
        self.copies.keep_only(())

    # -- running --------------------------------------------------------------------------------------------------

    @property
    def counters(self) -> Counters:
        """What has been moved by all that was started so far."""
        self.settle()
        return self._counters

    def run(self, plan: Exchanges, leaves: Sequence[Any], consts: Sequence[Any], backend: str) -> list[Remote]:
        """Run a plan. Leaves are ndarrays, Remotes of this cluster, or sources that workers open.

        Returns when the plan has run if it can fail or if someone listens to events; else it may still be under way.
        """
        self._check_open()
        self.look_for_places()
        number = self._number_of(plan)
        certain = backend == NATIVE and self.plans[number].never_fails
        fails = not certain or self.memory is not None  # a worker may refuse it
        waits = fails or self.in_process or bool(events.listeners)
        if waits:
            self.settle()
        self._copy_if_due()
        keys = tuple(next(self.counter) for _ in plan.wanted)
        given = tuple(self._given(x) for x in leaves)
        entry = Entry(number, given, tuple(consts), keys, backend, self._rooted(given, self.plans[number]))
        try:
            self._surely(lambda: self._start(entry, self._take_dead()))
            if self.mortal:
                self.log.add(entry, self.plans[number].sizes)
            self._surely(lambda: self._settle(0 if waits else RUNS_AHEAD))
        except BaseException:
            self._forget(entry)  # some workers may have come to the end
            for key in keys:
                self.failed.pop(key, None)
            raise
        return [
            Remote(self, k, plan.specs[p].shape, plan.specs[p].dtype, plan.specs[p].order, plan.layouts[p])
            for k, p in zip(keys, plan.wanted, strict=True)
        ]

    def settle(self) -> None:
        """Wait for all runs under way; raises what went wrong in the first that failed."""
        if self.under_way and not self.closed:
            self._surely(lambda: self._settle(0))

    def _given(self, leaf: Any) -> Any:
        """A leaf as the log and workers know it."""
        if isinstance(leaf, Remote):
            assert leaf.cluster is self, "a value of another cluster comes through the driver"
            self._check_made(leaf.key)
            return leaf.key
        if isinstance(leaf, Source):
            assert leaf.opened_by_workers, "what workers do not open comes through the driver"
            return leaf
        return self.log.keep(leaf) if self.mortal else leaf

    def _rooted(self, given: Sequence[Any], taught: Taught) -> bool:
        """Whether a plan reads nothing but files, and about as much as it makes: its results need no copies."""
        if any(isinstance(x, int | np.ndarray) for x in given):
            return False
        read: int = sum(math.prod(x.shape) * x.dtype.itemsize for x in given)
        return read <= 2 * self.mesh.workers * sum(taught.sizes)

    def _number_of(self, plan: Exchanges) -> int:
        """The number under which workers know a plan."""
        known = self.numbers.get(id(plan))
        if known is None:
            if len(self.plans) >= PLANS_KEPT:
                self._forget_plans()
            known = next(self.counter)
            scatters = tuple(m for r in rounds(plan) for m in r.scatters)
            bounded, exchanges = plan.bounded_bytes, sum(len(r) for r in plan.routes)
            sizes = tuple(self._held_bytes(plan, p) for p in plan.wanted)
            self.plans[known] = Taught(
                plan, scatters, plan.network_bytes - bounded, bounded, exchanges, never_fails(plan), sizes
            )
            self.numbers[id(plan)] = known
        return known

    def _held_bytes(self, plan: Exchanges, pos: int) -> int:
        spec = plan.specs[pos]
        return math.prod(local_dims(plan.layouts[pos], spec.shape, self.mesh)) * spec.dtype.itemsize

    def _forget_plans(self) -> None:
        self.settle()
        needed = {entry.number for entry in self.log}
        gone = [n for n in self.plans if n not in needed]
        for n in gone:
            del self.numbers[id(self.plans.pop(n).plan)]
        self.taught.difference_update(gone)
        for h in self.hosts:
            self.tell(h, "forget", gone)

    def _start(self, entry: Entry, gone: list[int]) -> None:
        """Give a run to all hosts, whose workers first let go of the values that are `gone`. Waits for nothing."""
        taught = self.plans[entry.number]
        for x in entry.leaves:
            if isinstance(x, int):
                self._check_made(x)  # it may have been lost meanwhile
        here = {
            pos: x for pos, x in zip(taught.plan.leaves, entry.leaves, strict=True) if not isinstance(x, int | Source)
        }
        there = tuple(
            x if isinstance(x, int) else self.pack(x) if isinstance(x, Source) else None for x in entry.leaves
        )
        traced = bool(events.listeners) and not self.in_process
        run = next(self.counter)
        start = Start(
            self.epoch, run, entry.number, there, entry.consts, entry.keys, entry.backend, tuple(gone), traced
        )
        futures: list[Any] = []
        began = False
        try:
            if entry.number not in self.taught:
                plan = self.pack(replace(taught.plan, choice=None, told=(), _blocks={}))
                futures.extend(self.call_all("learn", entry.number, plan))
                self.taught.add(entry.number)
            began = True
            if taught.scatters:
                sent = self._scatter(taught.scatters, here)
                for h, workers in self.hosts.items():
                    futures.append(self.call(h, "run", start, {w: sent[w] for w in workers if sent[w]}))
            else:
                futures.extend(self.call_all("run", start, {}))
        except BaseException:
            self.broken = self.broken or (
                began and self.mortal
            )  # perhaps some have it and wait for those that have not
            self.dead.extend(gone)
            raise
        self.under_way[entry] = futures

    def _scatter(self, scatters: Sequence[Move], here: dict[int, ND]) -> list[list[Any]]:
        """Per worker: what it gets of the driver's arrays."""
        out: list[list[Any]] = [[] for _ in range(self.mesh.workers)]
        for move in scatters:
            for w, mine in enumerate(out):
                if pieces := move.arriving(w):
                    mine.append([here[move.pos][_key(p.box)] for p in pieces])
        return out

    def _settle(self, most: int) -> None:
        """Look at reports until at most so many runs are under way (all, if one has failed)."""
        first: Exception | None = None
        while len(self.under_way) > most or (first and self.under_way):
            entry, futures = next(iter(self.under_way.items()))
            answers = self.wait(futures)
            failures = [a for a in answers if isinstance(a, Failure)]
            lost = next((f.lost for f in failures if f.lost), None)
            if lost:
                raise WorkerLost(lost)
            del self.under_way[entry]
            if isinstance(entry, Mark):
                self._copied(entry, [a for a in answers if isinstance(a, Copied)])
            elif failures:
                error = self._reason(entry, failures)
                self._give_up([entry], error)
                first = first or error
            else:
                self._count(entry, [a for a in answers if isinstance(a, Report)])
        if first is not None:
            raise first

    def _give_up(self, entries: Sequence[Entry], error: Exception) -> None:
        """There will be no results of these plans."""
        for entry in entries:
            self.failed.update(dict.fromkeys(entry.keys, again(error)))
        for x in self.living():
            x.dropped = x.dropped or (x.spare and x.key in self.failed)  # a copy of an input that is still there
        for entry in entries:
            self._forget(entry)

    def _reason(self, entry: Entry, failures: Sequence[Failure]) -> Exception:
        """Why a run failed: what a worker said, or why it had nothing to read."""
        errors = [f.error for f in failures if f.error is not None]
        if errors:
            self.taught.discard(entry.number)  # perhaps somebody could not read it
            return errors[0]
        missing = [self.failed[x] for x in entry.leaves if isinstance(x, int) and x in self.failed]
        return again(missing[0]) if missing else AssertionError("a plan failed without an error")

    def _count(self, entry: Entry, reports: Sequence[Report]) -> None:
        report, counters = Report.all_of(reports), self._counters
        for one in reports:
            for event in on_the_drivers_clock(one):
                events.emit(event)
        if entry.counted:
            counters.replayed_bytes += report.network_bytes
            return
        entry.counted = True
        taught = self.plans[entry.number]
        counters.network_bytes += report.network_bytes
        counters.read_bytes += report.read_bytes
        counters.peak_bytes = report.peak_bytes
        counters.predicted_bytes += taught.predicted_bytes
        counters.bounded_bytes += taught.bounded_bytes
        counters.exchanges += taught.exchanges

    def _forget(self, entry: Entry) -> None:
        """A run whose results nobody gets."""
        self.disregard(self.under_way.pop(entry, ()))
        self.log.forget(entry)
        self.dead.extend(entry.keys)

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

    def ask_holders(self, x: Remote, holders: set[int], method: str, *args: Any) -> list[Any]:
        """What the hosts of some workers answer to a call about a stored value; asked again if workers are lost."""
        self._check_open()
        self._check_made(x.key)
        return self._surely(lambda: self._ask_holders(x, holders, method, *args))

    def _ask_holders(self, x: Remote, holders: set[int], method: str, *args: Any) -> list[Any]:
        self._check_made(x.key)  # it may have been lost meanwhile
        futures = [self.call(h, method, *args) for h, workers in self.hosts.items() if holders & {*workers}]
        try:
            self._settle(0)
            got = self.wait(futures)
        except BaseException:
            self.disregard(futures)
            raise
        failures = [a.error for a in got if isinstance(a, Failure) and a.error is not None]
        if failures:
            raise failures[0]
        return got

    def _fetch(self, x: Remote, box: Box) -> list[tuple[Box, ND]]:
        """The pieces of a box of a stored value, with where they belong."""
        self._check_open()
        self._check_made(x.key)
        return self._surely(lambda: self._fetch_now(x, box))

    def _fetch_now(self, x: Remote, box: Box) -> list[tuple[Box, ND]]:
        e = moves(x.layout, OnDriver(), x.shape, self.mesh)
        pieces = [(p, both) for p in e.pieces if box_size(both := overlap(p.box, box))]
        got = self._ask_holders(x, {p.src_worker for p, _ in pieces}, "cut_stored", x.key, e, box)
        queues: dict[int, list[ND]] = {w: list(cut) for g in got for w, cut in g.items()}
        out = [(both, queues[p.src_worker].pop(0)) for p, both in pieces]
        counters = self._counters
        counters.network_bytes += sum(d.nbytes for (p, _), (_, d) in zip(pieces, out, strict=True) if p.crosses)
        counters.predicted_bytes += sum(box_size(both) for p, both in pieces if p.crosses) * x.dtype.itemsize
        counters.exchanges += 1
        return out

    # -- copies ---------------------------------------------------------------------------------------------------

    def _copy_if_due(self) -> None:
        """Start a copy of what workers hold if it is time (before a plan, when what the last one read is gone)."""
        self.copying.plans += 1
        remembered = self.log.nbytes
        if not self.copies_blocks or (self.copying.plans < LEAST_PLANS and remembered <= REMEMBERED_BYTES):
            return
        self.log.release(list(self.dead))  # which workers hear of when the plan starts
        nbytes = self.log.fresh_bytes()
        if not any(isinstance(x, Mark) for x in self.under_way):
            if self.copying.due(nbytes, remembered):
                self._surely(self._start_copy)
        elif self.copying.crowded(nbytes, remembered // 2):
            self.settle()

    def _start_copy(self) -> None:
        """Let each host keep what its workers hold, and give it to a neighbour. Waits for nothing."""
        mark = Mark(tuple(sorted(self.log.fresh)), frozenset(self.log))
        self.copying.begun()
        try:
            where = keepers(self.hosts, self.node_of)
            futures = self.call_all("copy", self.epoch, next(self.counter), mark.keys, where)
        except BaseException:
            self.broken = True  # perhaps some wait for others
            raise
        self.under_way[mark] = futures

    def _copied(self, mark: Mark, reports: Sequence[Copied]) -> None:
        """A copy is made, if all hosts say so: plans that ran before it are not needed any more."""
        if len(reports) < len(self.hosts):
            self.copying.failed()
            return
        nbytes = max(r.nbytes for r in reports)
        self.copying.took(min(r.seconds for r in reports), nbytes)  # the others waited for the last one
        self._counters.copies += 1
        self._counters.copied_bytes += nbytes * self.mesh.workers
        for report in reports:
            for w, pieces in report.for_driver.items():
                self.copies.put(w, unpacked(pieces))
        self.log.copied(mark.before, mark.keys)
        gone, self.log.unneeded = self.log.unneeded, set()
        if gone:
            self.copies.drop(gone)
            for h in self.hosts:
                self.tell(h, "drop_copies", sorted(gone))

    def _restore(self) -> None:
        """Workers hold again what was copied, from wherever a copy is."""
        keys = self.log.kept()
        there = dict(zip(self.hosts, self._answers(self.call_all("holds")), strict=True))
        handed: dict[tuple[int, int], list[int]] = {}
        given: dict[int, list[int]] = {}
        lost: set[int] = set()
        for home, workers in self.hosts.items():
            for w, key in itertools.product(workers, keys):
                if (w, key) in there[home]:
                    continue
                giver = next((h for h, held in there.items() if (w, key) in held), None)
                if giver is not None:
                    handed.setdefault((w, self.hosts[giver][0]), []).append(key)
                elif (w, key) in self.copies:
                    given.setdefault(w, []).append(key)
                else:
                    lost.add(key)
        run = next(self.counter)
        known = {w: packed(self.copies.get(w, its)) for w, its in given.items()}
        left = [k for k in keys if k not in lost]
        self._answers(
            [
                self.call(h, "restore", self.epoch, run, left, handed, {w: known[w] for w in ws if w in known})
                for h, ws in self.hosts.items()
            ]
        )
        self.copies.keep_only(left)
        if lost:
            self._mourn(lost)

    def _answers(self, futures: Sequence[Any]) -> list[Any]:
        """What hosts say; a failure is raised."""
        answers = self.wait(futures)
        failures = [a for a in answers if isinstance(a, Failure)]
        if any(f.lost for f in failures):
            raise WorkerLost(next(f.lost for f in failures if f.lost))
        for failure in failures:
            if failure.error is not None:
                raise failure.error
        return answers

    def _mourn(self, lost: set[int]) -> None:
        """Values that can neither be restored nor made again, and all that was made of them."""
        entries = []
        for entry in self.log:
            if lost.intersection(entry.keys) or lost.intersection(x for x in entry.leaves if isinstance(x, int)):
                entries.append(entry)
                lost.update(entry.keys)
        self._give_up(
            entries,
            TilewiseError(
                message(
                    "the value was lost with the process that held it and the one that had its copy",
                    cure="Compute it again from its sources; what other values need is still there",
                )
            ),
        )

    # -- freeing, and bringing back -------------------------------------------------------------------------------

    def living(self) -> list[Remote]:
        """The values that workers hold."""
        return sorted((x for x in self.values if not x.dropped), key=lambda x: x.key)

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
        self.failed.pop(key, None)

    def sweep(self) -> None:
        """Tell workers what nobody needs any more (a plan that starts does so, too)."""
        if self.closed or not self.dead:
            return
        gone = self._take_dead()
        try:
            for h in self.hosts:
                self.tell(h, "drop", gone)
        except BaseException:
            self.dead.extend(gone)  # dropping twice does no harm
            raise

    def _take_dead(self) -> list[int]:
        gone, self.dead = self.dead, []
        self.log.release(gone)
        return gone

    def _surely(self, do: Callable[[], T]) -> T:
        """Do something with workers, and bring them back if they are lost in it."""
        why = "an earlier use found one gone"
        self.lost_at = None
        for _ in range(REVIVALS + 1):
            try:
                if self.broken:
                    self.lost_at = self.lost_at or time.monotonic()
                    self._revive()
                    self.lost_at = None
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
        """Replace lost workers, restore what was copied, and run again what came after (plans are deterministic)."""
        self.disregard([f for futures in self.under_way.values() for f in futures])
        self.under_way.clear()
        self.restart()
        self.taught = set()
        self._take_dead()
        self._counters.replays += 1
        gone: list[int] = []
        copied = len(self.log.kept()) > 0
        if self.copying.last:  # there may be copies
            self.log.without_copies()
            self._restore()
        self.broken = False
        for entry, unneeded in self.log.replay():
            # Handles that die meanwhile wait: entries to come may still read what they were on.
            self._start(entry, gone)
            gone = unneeded
            self._settle(RUNS_AHEAD)
        self.dead.extend(gone)
        if copied:
            self._start_copy()  # at once, so that there are two of everything again

    def _check_made(self, key: int) -> None:
        if key in self.failed:
            raise again(self.failed[key])

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
