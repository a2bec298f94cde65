"""Driving workers through a plan. In: a plan and its leaves. Out: handles on results that stay where they are.

A plan is one call of each host of workers, which runs it to its end; the driver goes on meanwhile, unless the plan may
fail for reasons that lie in the data. Runs under way and the count of bytes that changed owner are here; how an engine
speaks to its hosts is in hosts.py, how lost workers are brought back in recovery/revive.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from tilewise import events
from tilewise.backend import NATIVE
from tilewise.engine.ahead import never_fails
from tilewise.engine.counters import Counters
from tilewise.engine.host import Copied
from tilewise.engine.hosts import Mark, Taught, WorkerLost
from tilewise.engine.messages import TOLD_BYTES, Report, Start, few_words, on_the_drivers_clock
from tilewise.engine.network.frames import unflat
from tilewise.engine.network.sending import packed_plan
from tilewise.engine.pieces import Cut, cuts_of
from tilewise.engine.recovery.replay_log import Entry
from tilewise.engine.recovery.revive import RUNS_AHEAD, RUNS_LEFT, Recovery
from tilewise.engine.recovery.worker_errors import Failure, again
from tilewise.engine.remote import Remote
from tilewise.engine.rounds import Move, rounds
from tilewise.engine.stream.on_driver import count_disk, results_of, scattering
from tilewise.errors import SessionClosedError, message
from tilewise.interrupts import to_the_end
from tilewise.layout import Box, Layout, box_size, local_dims
from tilewise.plan.blocks import Spec
from tilewise.plan.exchanges import Exchanges
from tilewise.plan.shares import Shares
from tilewise.store.base import Sink, Source, within

ND = np.ndarray[Any, Any]
T = TypeVar("T")

PLANS_KEPT = 1024  # plans that workers know; those not needed to replay go first


class Cluster(Recovery):
    """The driver's side of an engine with several workers."""

    # -- running --------------------------------------------------------------------------------------------------

    @property
    def counters(self) -> Counters:
        """What has been moved by all that was started so far."""
        self.settle()
        return self._counters

    def run(
        self,
        plan: Exchanges | Shares,
        leaves: Sequence[Any],
        consts: Sequence[Any],
        backend: str,
        sinks: Sequence[bytes | None] = (),
    ) -> list[Remote]:
        """Run a plan. Leaves are ndarrays, Remotes of this cluster, or sources that workers open.

        `sinks` says by result where loops over blocks write it (packed; None: it is kept).

        Returns when the plan has run if it can fail or if someone listens to events; else it may still be under way.
        """
        with to_the_end():
            return self.run_to_the_end(plan, leaves, consts, backend, sinks)

    def run_to_the_end(
        self,
        plan: Exchanges | Shares,
        leaves: Sequence[Any],
        consts: Sequence[Any],
        backend: str,
        sinks: Sequence[bytes | None] = (),
    ) -> list[Remote]:
        """The same for who is in a block `to_the_end` already."""
        self._check_open()
        self.look_for_places()
        number = self.numbers.get(id(plan)) or self._learned(plan)
        taught = self.plans[number]
        certain = taught.never_fails and backend == NATIVE
        fails = not certain or self.memory is not None  # a worker may refuse it
        waits = fails or self.in_process or bool(events.listeners)
        if waits:
            self.settle()
        self._copy_if_due()
        if self.saved is not None:
            self._save_if_due()
        results = taught.results
        keys = (next(self.counter),) if len(results) == 1 else tuple([next(self.counter) for _ in results])
        given = tuple([self._given(x) for x in leaves])
        entry = Entry(number, given, tuple(consts), keys, backend, self._rooted(given, taught), tuple(sinks))
        try:
            self._surely(lambda: self._start(entry, self._take_dead()))
            if self.mortal:
                self.log.add(entry, taught.sizes)
            if waits:
                self._surely(lambda: self._settle(0))
            elif len(self.under_way) > RUNS_AHEAD:
                self._surely(lambda: self._settle(RUNS_LEFT))
        except BaseException:
            if entry in self.under_way:
                self.give_up(entry.run)
            self._forget(entry)  # some workers may have come to the end
            for key in keys:
                self.failed.pop(key, None)
            raise
        told = entry.told
        return [Remote(self, key, *kept, told) for key, kept in zip(keys, results)]  # noqa: B905  (a key for each)

    def settle(self) -> None:
        """Wait for all runs under way; raises what went wrong in the first that failed."""
        if self.under_way and not self.closed:
            with to_the_end():
                self._surely(lambda: self._settle(0))

    def _given(self, leaf: Any) -> Any:
        """A leaf as the log and workers know it."""
        if isinstance(leaf, Remote):
            assert leaf.cluster is self, "a value of another cluster comes through the driver"
            if self.failed:
                self._check_made(leaf.key)
            return leaf.key
        if isinstance(leaf, Source):
            assert leaf.opened_by_workers, "what workers do not open comes through the driver"
            return leaf
        return self.log.keep(leaf) if self.mortal else leaf

    def _rooted(self, given: Sequence[Any], taught: Taught) -> bool:
        """Whether a plan reads nothing but files, and about as much as it makes: its results need no copies."""
        for x in given:
            if type(x) is int or isinstance(x, np.ndarray):
                return False
        if isinstance(taught.plan, Shares):
            return True  # copies of what lies on disk would not fit
        read: int = sum(math.prod(x.shape) * x.dtype.itemsize for x in given)
        return read <= 2 * self.mesh.workers * sum(taught.sizes)

    def _learned(self, plan: Exchanges | Shares) -> int:
        """A number under which workers will know a plan."""
        if len(self.plans) >= PLANS_KEPT:
            self._forget_plans()
        number = next(self.counter)
        bounded = plan.bounded_bytes
        if isinstance(plan, Shares):
            scatters, count, certain = scattering(plan), len(plan.streams.loops), False
        else:
            scatters = tuple(m for r in rounds(plan) for m in r.scatters)
            count, certain = sum(len(r) for r in plan.routes), never_fails(plan)
        results = results_of(plan)
        sizes = tuple(self._held_bytes(*kept) for kept in results)
        exact = plan.network_bytes - bounded
        kinds = tuple((spec.shape, spec.dtype, spec.order, layout, on_disk) for spec, layout, on_disk in results)
        self.plans[number] = Taught(plan, scatters, exact, bounded, count, certain, sizes, kinds)
        self.numbers[id(plan)] = number
        return number

    def _held_bytes(self, spec: Spec, layout: Layout, on_disk: bool) -> int:
        return 0 if on_disk else math.prod(local_dims(layout, spec.shape, self.mesh)) * spec.dtype.itemsize

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
        if self.failed:
            for x in entry.leaves:
                if isinstance(x, int):
                    self._check_made(x)  # it may have been lost meanwhile
        there = tuple([x if type(x) is int else self.pack(x) if isinstance(x, Source) else None for x in entry.leaves])
        traced = bool(events.listeners) and not self.in_process
        run = entry.run = next(self.counter)
        start = Start.words(
            self.epoch,
            run,
            entry.number,
            there,
            entry.consts,
            entry.keys,
            entry.backend,
            tuple(gone),
            traced,
            entry.sinks,
        )
        futures: list[Any] = []
        began = False
        try:
            if entry.number not in self.taught:
                futures.extend(self.call_all("learn", entry.number, packed_plan(taught.plan, self.pack)))
                self.taught.add(entry.number)
            began = True
            if taught.scatters:
                sent = self._scatter(taught.scatters, dict(zip(taught.plan.leaves, entry.leaves, strict=True)))
                for h, workers in self.hosts.items():
                    futures.append(self.call(h, "run", start, {w: sent[w] for w in workers if sent[w]}))
            else:
                futures += self.begin_all(start)
            began = False
            self.under_way[entry] = futures
            self.flush()
        except BaseException:
            self.broken = self.broken or (
                began and self.mortal
            )  # perhaps some have it and wait for those that have not
            self.dead.extend(gone)
            raise

    def _scatter(self, scatters: Sequence[Move], here: dict[int, Any]) -> list[list[Any]]:
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
            failures = [a for a in answers if type(a) is Failure] if Failure in map(type, answers) else ()
            if failures and (lost := next((f.lost for f in failures if f.lost), None)):
                raise WorkerLost(lost)
            del self.under_way[entry]
            if isinstance(entry, Mark):
                self._copied(entry, [a for a in answers if isinstance(a, Copied)])
            elif failures:
                error = self._reason(entry, failures)
                self._give_up([entry], error)
                first = first or error
            else:
                self._count(entry, answers if None not in answers else [a for a in answers if a is not None])
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

    def _count(self, entry: Entry, answers: Sequence[tuple[Any, ...]]) -> None:
        """Note what hosts report of a run, each as a Report or in plain words."""
        counters, said, report = self._counters, few_words(answers), None
        if said is None:
            report = self._heard(entry, [Report.unpacked(a) for a in answers])
            said = report[:3]
        network, read, peak = said
        if entry.counted:
            counters.replayed_bytes += network
            return
        entry.counted = True
        taught = self.plans[entry.number]
        counters.network_bytes += network
        counters.read_bytes += read
        counters.peak_bytes = peak
        counters.predicted_bytes += taught.predicted_bytes
        counters.bounded_bytes += taught.bounded_bytes
        counters.exchanges += taught.exchanges
        if report is not None:
            counters.written_bytes += report.disk[2]
        if isinstance(taught.plan, Shares):
            sinks = [s for s in entry.sinks if s is not None]
            count_disk(self.disk, taught.plan, report or Report(*said), sinks)

    def _heard(self, entry: Entry, reports: Sequence[Report]) -> Report:
        """What hosts report of a run beside the three numbers that all have."""
        report, counters = Report.all_of(reports), self._counters
        for one in reports:
            if one.events:
                for event in on_the_drivers_clock(one):
                    events.emit(event)
            for k, flattened in one.told:
                entry.told[entry.keys[k]] = flattened
        counters.stolen_blocks += report.stolen_blocks
        counters.stolen_bytes += report.stolen_bytes
        return report

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
        with to_the_end():
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
        with to_the_end():
            self._check_open()
            self._check_made(x.key)
            return self._surely(lambda: self._fetch_now(x, box))

    def _fetch_now(self, x: Remote, box: Box) -> list[tuple[Box, ND]]:
        cuts = cuts_of(x.layout, x.shape, self.mesh, box)
        counters, out = self._counters, []
        queues = self._from_report(x, cuts) or self._from_holders(x, cuts)
        for cut in cuts:
            data = next(queues[cut.worker])
            out.append((cut.box, data))
            if cut.crosses:
                counters.network_bytes += data.nbytes
                counters.predicted_bytes += box_size(cut.box) * x.dtype.itemsize
        counters.exchanges += 1
        return out

    def _from_report(self, x: Remote, cuts: Sequence[Cut]) -> dict[int, Iterator[ND]] | None:
        """Parts of a small value that came with the report of its run."""
        if len(cuts) != 1 or cuts[0].worker or cuts[0].block >= 0 or math.prod(x.shape) * x.dtype.itemsize > TOLD_BYTES:
            return None
        self._settle(0)
        found = x.told.get(x.key)
        return None if found is None else {0: iter([unflat([found])[0][cuts[0].at]])}

    def _from_holders(self, x: Remote, cuts: Sequence[Cut]) -> dict[int, Iterator[ND]]:
        """Parts of a value, from those who hold it."""
        wanted: dict[int, list[tuple[int, Any]]] = {}
        for cut in cuts:
            wanted.setdefault(cut.worker, []).append((cut.block, cut.at))
        got = self._ask_holders(x, {*wanted}, "cut_stored", x.key, wanted)
        return {w: iter(unflat(parts)) for g in got for w, parts in g.items()}

    # -- freeing --------------------------------------------------------------------------------------------------

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
        with to_the_end():
            gone = self._take_dead()
            try:
                for h in self.hosts:
                    self.tell(h, "drop", gone)
                self.flush()
            except BaseException:
                self.dead.extend(gone)  # dropping twice does no harm
                raise

    def _take_dead(self) -> list[int]:
        gone, self.dead = self.dead, []
        self.log.release(gone)
        return gone

    def _check_made(self, key: int) -> None:
        if key in self.failed:
            raise again(self.failed[key])

    def _check_open(self) -> None:
        if self.inherited:
            text = "the workers of this session are of the process that this one is a fork of"
            raise SessionClosedError(message(text, cure="compute() before the fork, or open a session in the fork"))
        if self.closed:
            raise SessionClosedError(
                message("this array lives on the workers of a closed session", cure="compute() it inside the session")
            )


def _key(box: Any) -> tuple[Any, ...]:
    """The index of a box; a view also of an array without axes."""
    return (*(slice(lo, hi) for lo, hi in box), ...)
