"""A process that hosts workers. In: calls of the driver. Out: answers. Runs whole plans, asking nobody on the way.

Most hosts have one worker. A virtual cluster is one host of all; when a process is lost and none is free, the others
take in its workers. The workers of a host take turns, round by round: what goes between them stays here.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from itertools import count
from typing import Any, NamedTuple, TypeVar

import numpy as np

from tilewise import events
from tilewise.engine.footprint import Footprint, resident_bytes
from tilewise.engine.held import Held
from tilewise.engine.messages import TOLD_BYTES, Report, Start
from tilewise.engine.network.frames import flat
from tilewise.engine.network.links import Address
from tilewise.engine.network.transport import ND, Cancelled, PeerFailed, PeerLost, Tag, Transport
from tilewise.engine.network.wire import Wire
from tilewise.engine.prepared import straight
from tilewise.engine.prepared.plan import Prepared
from tilewise.engine.recovery.copies import Copies, packed, unpacked
from tilewise.engine.recovery.saved import read_blocks, write_blocks
from tilewise.engine.recovery.worker_errors import Failure, pack
from tilewise.engine.rounds import rounds
from tilewise.engine.stealing import Sharing
from tilewise.engine.stream.on_worker import run_share
from tilewise.engine.worker import Worker
from tilewise.interrupts import allowed
from tilewise.layout import DRIVER, Exchange, Mesh
from tilewise.ops.traits.collectives import Parts
from tilewise.plan.exchanges import Exchanges
from tilewise.plan.shares import Shares
from tilewise.store import pool
from tilewise.store.base import Sink
from tilewise.store.spill import in_file

T = TypeVar("T")

TOLD_SECONDS = 0.5  # between two words to the driver about a run
FILED_BYTES = 4096  # of a value that is restored to a file, at least


class Copied(NamedTuple):
    """What a host has copied."""

    seconds: float
    nbytes: int  # of the worker with the most
    for_driver: dict[int, list[ND]]  # by worker, packed, where no other process is there to keep them


class Host:
    """Workers of one process, the plans they know, and the copies that are kept here."""

    footprint: Footprint | None = None  # if the process is for workers alone

    def __init__(self, workers: Sequence[int], mesh: Mesh, memory: int | None, transport: Transport) -> None:
        self.mesh = mesh
        self.memory = memory
        self.transport = transport
        self.workers: dict[int, Worker] = {}
        self.copies = Copies(in_files=memory is not None)
        self.reset(workers)

    def reset(self, workers: Sequence[int]) -> None:
        """Host these workers, which hold nothing and know no plans."""
        self.workers = {w: Worker(w, self.mesh, self.memory) for w in workers}

    def learn(self, number: int, plan: Exchanges | Shares | bytes) -> None:
        """Keep a plan under a number."""
        found: Exchanges | Shares = pickle.loads(plan) if isinstance(plan, bytes) else plan
        its = () if isinstance(found, Shares) else rounds(found)
        for w in self.workers.values():
            w.plans[number] = found if isinstance(found, Shares) else Prepared(found, its, w.index)

    def forget(self, numbers: Sequence[int]) -> None:
        """Let go of plans."""
        for w in self.workers.values():
            for n in numbers:
                w.plans.pop(n, None)

    def drop(self, keys: Sequence[int]) -> None:
        """Let go of stored values."""
        for w in self.workers.values():
            w.drop(keys)

    def stored(self) -> dict[int, list[int]]:
        """By worker: the keys of stored values."""
        return {i: sorted(w.store) for i, w in self.workers.items()}

    def cut_stored(self, key: int, cuts: Mapping[int, Sequence[tuple[int, Any]]]) -> dict[int, list[Any]]:
        """By worker: parts of a stored value for the driver, of the blocks and at the places that `cuts` has."""
        return {i: w.cut_stored(key, cuts[i]) for i, w in self.workers.items() if i in cuts}

    def write_stored(self, key: int, exchange: Exchange, sink: bytes) -> int:
        """Write what workers hold of a value to a sink: how many elements."""
        into: Sink = pickle.loads(sink)
        return sum(w.write_stored(key, exchange, into) for w in self.workers.values())

    def answer(self, method: str, args: Sequence[Any]) -> Any:
        """Do what the driver asks for: the result, or a failure."""
        try:
            return getattr(self, method)(*args)
        except Cancelled:
            raise
        except Exception as error:
            return Failure(error)

    def run(self, words: tuple[Any, ...], scattered: Mapping[int, list[list[ND]]]) -> Report | Failure:
        """Run a plan on all workers here, as a packed Start says it.

        `scattered`: by worker, what it gets of each array of the driver's; used up.

        If one fails, nobody here goes on, and those that wait for pieces from here stop as well. What a worker has
        stored by then, the driver lets it drop.
        """
        epoch, run, *_ = words
        try:
            self.transport.begin(run)
            for w in self.workers.values():
                w.fresh.enter()
            start, tag = Start.unpacked(words), Tag(epoch, run, 0)
            return self._traced(start, tag, scattered) if start.traced else self._run(start, tag, scattered)
        except Exception as error:
            return self._failure(Tag(epoch, run, 0), error)
        finally:
            events.activity.worker = 0
            for w in self.workers.values():
                if w.now is not None:
                    w.stop()

    def _together(self, tag: Tag, do: Callable[[], T]) -> T | Failure:
        """Do something in which hosts need each other. If it fails here, the others hear of it, and stop as well."""
        try:
            self.transport.begin(tag.run)
            return do()
        except Exception as error:
            return self._failure(tag, error)

    def _failure(self, tag: Tag, error: Exception) -> Failure:
        """What the driver hears of an error, and the others, who wait for this host."""
        if isinstance(error, Cancelled):
            raise error
        if isinstance(error, PeerLost):
            return Failure(lost=str(error))
        self.transport.fail(tag)
        return Failure() if isinstance(error, PeerFailed) else Failure(error)

    def _traced(self, start: Start, tag: Tag, scattered: Mapping[int, list[list[ND]]]) -> Report:
        """The same, with its events, which the driver cannot hear itself."""
        heard: list[events.Event] = []
        events.listeners.append(heard.append)
        try:
            made = self._run(start, tag, scattered)
        finally:
            events.listeners.remove(heard.append)
        return made._replace(events=tuple(heard), clock=time.perf_counter())

    def _run(self, start: Start, tag: Tag, scattered: Mapping[int, list[list[ND]]]) -> Report:
        workers = [*self.workers.values()]
        plan = workers[0].plans[start.number]
        if isinstance(plan, Shares):
            reports = self._in_turns(plan, start, tag, scattered)
        else:
            for w in workers:
                w.begin(start, scattered.get(w.index, []))
            for k in range(len(plan.rounds)):
                after = Tag(start.epoch, start.run, k + 1)
                for w in workers:
                    self._advance(w, k, tag, after)
                tag = after
            reports = [Report(*w.finish()) for w in workers]
        if self.footprint is not None and events.listeners:
            now, nbytes = time.perf_counter(), resident_bytes()
            for w in workers:
                events.emit(events.Event("process", "process of a worker", now, now, nbytes, w.index))
        return reports[0] if len(reports) == 1 else Report.all_of(reports)

    def _in_turns(
        self, shares: Shares, start: Start, tag: Tag, scattered: Mapping[int, list[list[ND]]]
    ) -> list[Report]:
        """Workers whose blocks take turns: each runs to where it needs the others, then all of them get their mail."""
        talks = {i: run_share(w, shares, start, scattered.get(i, [])) for i, w in self.workers.items()}
        inboxes: dict[int, Any] = dict.fromkeys(talks)
        done: list[Report] = []
        with pool.bounded(next(iter(self.workers.values())).memory), ExitStack() as stack:
            for talk in talks.values():
                stack.callback(talk.close)
            for step in count():
                now = tag._replace(round=step)
                for i, talk in list(talks.items()):
                    events.activity.worker = i
                    try:
                        with allowed():
                            outbox = talk.send(inboxes.pop(i))
                    except StopIteration as end:
                        done.append(Report(*end.value))
                        del talks[i]
                        continue
                    for v, pieces in enumerate(outbox):
                        if v != i:
                            self.transport.send(i, v, now, pieces)
                    del outbox
                if not talks:
                    return done
                others = range(self.mesh.workers)
                inboxes = {i: [self.transport.receive(v, i, now) if v != i else [] for v in others] for i in talks}
        raise AssertionError("never comes here")

    def _advance(self, w: Worker, k: int, now: Tag, after: Tag) -> None:
        """One round of one worker."""
        me, transport = w.index, self.transport
        events.activity.worker = me
        arrived = {v: transport.receive(v, me, now) for v in senders} if (senders := w.senders(k)) else {}
        for v, pieces in w.advance(k, arrived):
            transport.send(me, v, after, pieces)

    # -- copies -------------------------------------------------------------------------------------------------------

    def copy(self, epoch: int, run: int, keys: Sequence[int], keepers: Mapping[int, int]) -> Copied | Failure:
        """Keep what workers hold under these keys, here and with those who keep their copies."""
        tag = Tag(epoch, run, 0)
        return self._together(tag, lambda: self._copy(tag, keys, keepers))

    def _copy(self, tag: Tag, keys: Sequence[int], keepers: Mapping[int, int]) -> Copied:
        began, nbytes = time.perf_counter(), 0
        for_driver: dict[int, list[ND]] = {}
        for w in self.workers.values():
            mine = {k: w.store[k] for k in keys if k in w.store}  # not there: the run that should have made it failed
            self.copies.put(w.index, mine)
            pieces, keeper = packed(mine), keepers[w.index]
            nbytes = max(nbytes, sum(p.nbytes for p in pieces[1:]))
            if keeper == DRIVER:
                for_driver[w.index] = pieces
            else:
                self.transport.send(w.index, keeper, tag, pieces)
        for other, keeper in keepers.items():
            if keeper in self.workers:
                self.copies.put(other, unpacked(self.transport.receive(other, keeper, tag)))
        return Copied(time.perf_counter() - began, nbytes, for_driver)

    def save(self, keys: Sequence[int], paths: Mapping[int, str]) -> int:
        """Write what workers hold under these keys to files, and keep it here as well: how many bytes."""
        written = 0
        for w in self.workers.values():
            mine = {k: w.store[k] for k in keys if k in w.store}
            written += write_blocks(paths[w.index], mine)
            if not self.copies.in_files:  # who is not lost need not read it again
                self.copies.put(w.index, mine)
        return written

    def holds(self) -> list[tuple[int, int]]:
        """The copies that are here: workers and keys."""
        return list(self.copies)

    def drop_copies(self, keys: Sequence[int]) -> None:
        """Let go of copies."""
        self.copies.drop(keys)

    def restore(
        self,
        epoch: int,
        run: int,
        keys: Sequence[int],
        handed: Mapping[tuple[int, int], Sequence[int]],
        given: Mapping[int, list[ND]],
        filed: Mapping[int, Mapping[str, Sequence[int]]],
    ) -> Failure | None:
        """Workers hold what was copied under these keys.

        `handed`: by the worker that gets them, and one of the process that has them: keys whose copies go over.
        `given`: by worker, what the driver had. `filed`: by worker, files of the checkpoint and keys in them.
        """
        tag = Tag(epoch, run, 0)
        return self._together(tag, lambda: self._restore(tag, {*keys}, handed, given, filed))

    def _restore(
        self,
        tag: Tag,
        keys: set[int],
        handed: Mapping[tuple[int, int], Sequence[int]],
        given: Mapping[int, list[ND]],
        filed: Mapping[int, Mapping[str, Sequence[int]]],
    ) -> None:
        self.copies.keep_only(keys)
        for (w, giver), theirs in handed.items():
            if giver in self.workers:
                self.transport.send(giver, w, tag, packed(self.copies.get(w, theirs)))
        for w, pieces in given.items():
            self.copies.put(w, unpacked(pieces))
        for w, paths in filed.items():
            for path, key in ((path, key) for path, its in paths.items() for key in its):
                self.copies.put(w, read_blocks(path, [key]))
        for w, giver in handed:
            if w in self.workers:
                self.copies.put(w, unpacked(self.transport.receive(giver, w, tag)))
        for w, key in list(self.copies):
            if w in self.workers:
                self._hold_again(self.workers[w].store, key, self.copies.get(w, [key])[key])

    def _hold_again(self, store: Held, key: int, parts: Parts) -> None:
        """A worker holds a value again: within a limit of memory in a file, as it may have lain in one before."""
        if self.memory is None or sum(x.nbytes for x in parts.values()) < FILED_BYTES:
            store.put(key, parts)
        else:
            store.put_file(key, {block: in_file(x) for block, x in parts.items()})


class ServedHost(Host):
    """A host in a process of its own, which answers the driver's calls over a wire."""

    transport: Wire

    def __init__(self, workers: Sequence[int], mesh: Mesh, memory: int | None, transport: Wire) -> None:
        self.known: dict[int, Exchanges] = {}
        self._told = 0.0  # when the driver last heard how far a run is
        self._under_way = 0, 0  # the epoch and the number of that run
        # Under a limit of memory, only where blocks take turns has anybody room for blocks of others.
        shares = mesh.workers > 1 if memory is not None else mesh.blocks > 1
        self.sharing = Sharing(transport, self.known if memory is None else None) if shares else None
        if memory is not None:
            transport.shared = None  # which no limit counts
        super().__init__(workers, mesh, memory, transport)

    def reset(self, workers: Sequence[int]) -> None:
        """Host these workers, which may share work with those of other processes."""
        super().reset(workers)
        self.known.clear()
        alone = len(self.workers) == 1 and self.sharing is None and self.memory is None
        self._only = next(iter(self.workers.values())) if alone else None  # who may run scripts straight on
        for w in self.workers.values():
            w.reached = self._reached
            if self.memory is None:
                w.sharing = self.sharing
            else:
                w.lends = self.sharing

    def _reached(self, done: int, total: int, nbytes: int) -> None:
        """Tell the driver now and then how far a long run is; which ends if nobody waits for it any more."""
        now = time.monotonic()
        if now > self._told + TOLD_SECONDS:
            self._told = now
            self.transport.look(*self._under_way)
            self.transport.reached(done, total, nbytes)

    def learn(self, number: int, plan: Exchanges | Shares | bytes) -> None:
        """Keep a plan, for blocks of others as well."""
        super().learn(number, plan)
        if self.sharing is not None and self.memory is None:
            known = next(iter(self.workers.values())).plans[number]
            assert not isinstance(known, Shares), "blocks take turns under a limit of memory only"
            self.known[number] = known.plan

    def forget(self, numbers: Sequence[int]) -> None:
        """Let go of plans."""
        super().forget(numbers)
        if self.sharing is not None:
            self.sharing.forget(numbers)
            for n in numbers:
                self.known.pop(n, None)

    def _run(self, start: Start, tag: Tag, scattered: Mapping[int, list[list[ND]]]) -> Report:
        self._told, self._under_way = time.monotonic(), (start.epoch, start.run)
        if self.sharing is None:
            made = super()._run(start, tag, scattered)
            told = self._small(start.keys) if 0 in self.workers else ()
            return made._replace(told=told) if told else made
        self.sharing.begin()
        try:
            made = super()._run(start, tag, scattered)
        finally:
            if self.memory is not None:
                self.sharing.close()
        return made._replace(stolen_blocks=self.sharing.blocks, stolen_bytes=self.sharing.bytes)

    def run(self, words: tuple[Any, ...], scattered: Mapping[int, list[list[ND]]]) -> Any:
        """The same; of the only worker by script, if it can be: then the report is in plain words already."""
        w = self._only
        if w is not None:
            try:
                made = self._repeated(w, words)
                if made is not None:
                    return made
            except Exception as error:
                return self._failure(Tag(words[0], words[1], 0), error)
        return super().run(words, scattered)

    def _repeated(self, w: Worker, words: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """A run by script (`_run` in the fewest words); None where it is another kind of run."""
        epoch, run, number, leaves, consts, keys, backend, gone, traced, _ = words
        if traced or events.listeners:
            return None
        self.transport.begin(run)
        fresh, learned = w.fresh, w.plans[number]
        fresh.drop(gone)
        given = fresh.given(learned, backend, leaves, consts) if type(learned) is Prepared else None
        if given is None:
            return None
        by, values, peak = given
        peak += w.blocks.reserved_bytes + fresh.nbytes
        if not by.brief:
            self._told, self._under_way = time.monotonic(), (epoch, run)
        came = straight.run(by, values, self.transport, w.index, epoch, run, self._reached)
        fresh.keep(by, keys, values, leaves)
        if w.index or not by.tells:
            return came, 0, peak
        fresh.enter()
        told = self._small(keys)
        return (came, 0, peak, told) if told else (came, 0, peak)

    def _small(self, keys: Sequence[int]) -> tuple[tuple[int, Any], ...]:
        """Results that worker 0 has once and that are no longer than a message about them."""
        store, found = self.workers[0].store, []
        for k, key in enumerate(keys):
            x = store.get(key, {}).get(-1)
            if x is not None and x.nbytes <= TOLD_BYTES and x.dtype.kind in "biufc":
                found.append((k, flat([x])[0]))
        return tuple(found)

    def answer(self, method: str, args: Sequence[Any]) -> Any:
        """The same; whatever is no run finds all values in their store."""
        if method == "run":
            return self.run(*args)
        for w in self.workers.values():
            w.fresh.enter()
        return super().answer(method, args)

    def cut_stored(self, key: int, cuts: Mapping[int, Sequence[tuple[int, Any]]]) -> dict[int, list[Any]]:
        """The same, in the fewest words."""
        return {i: flat(cut) for i, cut in super().cut_stored(key, cuts).items()}

    def ready(self) -> None:
        """Whatever was under way has ended."""

    def meet(
        self, epoch: int, workers: Sequence[int], addresses: Mapping[int, Address], homes: Sequence[int]
    ) -> Failure | None:
        """Begin an epoch: host these workers, which hold nothing yet, and know where the others are. Copies stay."""
        self.reset(workers)
        try:
            self.transport.meet(epoch, addresses, homes)
        except PeerLost as lost:
            return Failure(lost=str(lost))
        return None

    def serve(self, dumps: Any) -> None:
        """Answer calls until the driver is gone."""
        try:
            with np.errstate(all="ignore"):  # recorded work raises no warnings; here once, as it takes 2 us
                self._serve(dumps)
        finally:
            self.transport.close()  # whatever ended this: the others see it
            self.reset(())
            self.copies.keep_only(())

    def _serve(self, dumps: Any) -> None:
        transport = self.transport
        while (call := transport.next_call()) is not None:
            try:
                answer = self.answer(call.method, call.args)
            except Cancelled:
                continue
            if type(answer) is tuple:  # a report in plain words
                transport.report(call, answer)
            elif type(answer) is Report:
                transport.report(call, answer.packed())
            elif isinstance(answer, Failure):
                transport.answer(call, pack(answer, f"worker {', '.join(map(str, self.workers))}", dumps))
            else:
                transport.answer(call, answer)
            del call, answer  # arrays that came and went are not kept until the next call
            if self.footprint is not None:
                self.footprint.trim()
