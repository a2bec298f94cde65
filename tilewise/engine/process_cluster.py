"""A cluster of processes that the driver reaches over the links of the session. In: processes. Out: a Cluster.

An engine says how to start a process that serves a host (`spawn`, `places`), whether one is alive, and how to end it.
Workers are logical: when a process is lost and there is no place for another, the others take in its workers, so that
plans, bits and bytes stay what they were.
"""

from __future__ import annotations

import itertools
import secrets
import time
import warnings
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from tilewise import events
from tilewise.engine.cluster import Cluster
from tilewise.engine.hosts import WorkerLost
from tilewise.engine.network.frames import frame, plain_frame
from tilewise.engine.network.links import Address, Links
from tilewise.engine.network.transport import PeerLost
from tilewise.engine.network.wire import ANSWER, CALL, EPOCH, FAILED, REACHED, REPORTS
from tilewise.engine.recovery.worker_errors import Failure, PackedFailure
from tilewise.errors import PerformanceWarning, TilewiseError, message
from tilewise.interrupts import allowed, to_the_end
from tilewise.layout import DRIVER, Mesh

_made = tuple.__new__  # of a named tuple, without a call of Python's in between
BEAT_SECONDS = 5.0  # how often a wait looks whether the processes are still there


UNANSWERED: Any = object()


class Future(NamedTuple):
    """A call under way."""

    host: int
    number: int


class Lines(Links):
    """The driver's connections to all hosts."""

    def __init__(self, secret: bytes) -> None:
        super().__init__(DRIVER, secret)
        self.answers: dict[tuple[int, int], Any] = {}  # of calls that somebody waits for; UNANSWERED: not here yet
        self.reached: dict[int, tuple[int, int, int]] = {}  # by host: steps done, all steps, bytes that came

    def arrived(self, who: int, message: Any) -> None:
        """Keep the answers that somebody waits for."""
        kind, answers = message[0], self.answers
        if kind == REACHED:
            self.reached[who] = message[1:]
            done, total, _ = min(self.reached.values())
            events.activity.reach("step", done, total, sum(nbytes for *_, nbytes in self.reached.values()))
            return
        if self.reached:
            self.reached.pop(who, None)
        if kind == REPORTS:
            for number, words in message[1]:
                if (key := (who, number)) in answers:
                    answers[key] = words
            return
        assert kind == ANSWER, message
        if (key := (who, message[1])) in answers:
            answers[key] = message[2]


class WiredCluster(Cluster):
    """Hosts by number; a process that is lost never gets its number back."""

    copies_blocks = True
    start_seconds = 120.0  # for the first processes to find a place
    quiet_seconds = 10.0  # for others in the place of lost ones, before the user hears of it
    place_seconds = 60.0  # for a place to become free, before `on_loss` says what happens
    look_seconds = 5.0  # between two looks whether there is a place again for a worker that shares a process

    def __init__(
        self, mesh: Mesh, memory: int | None = None, on_loss: str = "shrink", least: int | None = None
    ) -> None:
        super().__init__(mesh, memory)
        self.on_loss = on_loss
        self.least = least or mesh.workers  # processes to begin with; workers without one share, until there is a place
        self.secret = secrets.token_bytes(32)
        self.lines = Lines(self.secret)
        self.addresses: dict[int, Address] = {}
        self._processes = itertools.count()
        self._numbers = itertools.count(1)
        self._told = False  # the user knows that a process is missing
        self.pending: set[int] = set()  # processes that are to start and have not found a place
        self._looked = 0.0  # when somebody last asked for them

    # -- what an engine provides ----------------------------------------------------------------------------------

    def spawn(self, hosts: Collection[int]) -> None:
        """Start processes."""
        raise NotImplementedError

    def places(self, hosts: Collection[int], seconds: float) -> dict[int, Address]:
        """Wait until they listen, at most so long; where those listen that do. A failure to start is raised."""
        raise NotImplementedError

    def alive(self, host: int) -> bool:
        """Whether a process is there, as far as anyone can tell."""
        raise NotImplementedError

    def end(self, host: int) -> None:
        """End a process, or one that is to start."""
        raise NotImplementedError

    # -- calls ----------------------------------------------------------------------------------------------------

    def call(self, host: int, method: str, *args: Any) -> Future:
        """Send a call; the answer comes later."""
        number = next(self._numbers)
        self.lines.answers[host, number] = UNANSWERED
        self._post(host, frame((CALL, self.epoch, number, method, args)))
        return Future(host, number)

    def call_all(self, method: str, *args: Any) -> list[Future]:
        """The same message to all, made once."""
        number, lines = next(self._numbers), self.lines
        buffers = frame((CALL, self.epoch, number, method, args))
        futures = [Future(host, number) for host in self.hosts]
        for future in futures:
            lines.answers[future] = UNANSWERED
            self._post(future.host, buffers)
        return futures

    def begin_all(self, words: tuple[Any, ...]) -> list[Future]:
        """The same for a run that gets no arrays of the driver's: the message is one buffer."""
        number, lines, futures = next(self._numbers), self.lines, list[Future]()
        data = plain_frame((CALL, self.epoch, number, "run", (words, {})))
        for host in self.hosts:
            future = _made(Future, (host, number))
            lines.answers[future] = UNANSWERED
            futures.append(future)
            try:
                lines.queue_bytes(host, data)
            except PeerLost as error:
                raise WorkerLost(self._epitaph(host)) from error
        return futures

    def tell(self, host: int, method: str, *args: Any) -> None:
        """Send a call that has no answer."""
        self._post(host, frame((CALL, self.epoch, 0, method, args)))

    def _post(self, host: int, buffers: list[Any]) -> None:
        try:
            self.lines.queue_frame(host, buffers)
        except PeerLost as error:
            raise WorkerLost(self._epitaph(host)) from error

    def flush(self) -> None:
        """Calls go out, and with them arrays of the driver's. (Who is gone will be missed when somebody waits.)"""
        self.lines.flush()

    def wait(self, futures: Sequence[Any], together: bool = False) -> list[Any]:
        """Results, once all are there. Looks now and then whether processes are alive that say nothing.

        `together`: those that answer wait for each other, and nobody tells them if one is gone.
        """
        answers = self.lines.answers
        for future in futures:
            if answers[future] is UNANSWERED:
                self._wait_for(future, self.hosts if together else (future.host,))
        got = [*map(answers.pop, futures)]
        if PackedFailure in map(type, got):
            return [a.unpacked() if type(a) is PackedFailure else a for a in got]
        return got

    def _wait_for(self, future: Future, needed: Collection[int]) -> None:
        """Wait until an answer is there, for which some hosts are needed."""
        lines, beat = self.lines, time.monotonic() + BEAT_SECONDS
        while lines.answers[future] is UNANSWERED:
            gone = [h for h in needed if h not in lines.links]
            if gone:
                raise WorkerLost(self._epitaph(gone[0]))
            lines.progress(BEAT_SECONDS)
            if time.monotonic() > beat:
                self._check_alive()
                beat = time.monotonic() + BEAT_SECONDS

    def disregard(self, futures: Sequence[Any]) -> None:
        """Drop answers that nobody waits for."""
        for future in futures:
            self.lines.answers.pop(future, None)

    def give_up(self, run: int) -> None:
        """Hosts stop in the middle of a run."""
        for host in self.hosts:
            with suppress(PeerLost):
                self.lines.queue_frame(host, frame((FAILED, self.epoch, run)))

    def _check_alive(self) -> None:
        for host in list(self.hosts):
            if not self.alive(host):
                self.lines.drop(host)
                raise WorkerLost(self._epitaph(host))

    def _epitaph(self, host: int) -> str:
        names = ", ".join(map(str, self.hosts.get(host, ())))
        return f"the process of worker {names} is gone"

    # -- beginning an epoch ---------------------------------------------------------------------------------------

    def open(self) -> None:
        """Start a process for each worker, and let them know of each other; all of them, or none is left."""
        try:
            with to_the_end():
                self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        began, count = time.monotonic(), self.mesh.workers
        self._ask_for(count)
        while len(found := self._newcomers()) < count:
            taken = time.monotonic() - began
            if taken > self.start_seconds or (len(found) >= self.least and taken > self.quiet_seconds):
                break
            self._look(min(1.0, self.start_seconds))
        late = count - len(found)
        if len(found) < self.least:
            raise TilewiseError(
                message(
                    f"{late} workers of {self.mesh.workers} found no place in the cluster",
                    got=f"none in {self.start_seconds:.0f} s",
                    cure="Use fewer workers, or free CPUs there",
                )
            )
        cuts = [k * count // len(found) for k in range(len(found) + 1)]
        self.hosts = {h: tuple(range(cuts[k], cuts[k + 1])) for k, h in enumerate(sorted(found))}
        self._meet()

    def restart(self) -> None:
        """Begin another epoch: survivors forget everything, lost processes get successors where there is a place."""
        self.epoch += 1
        known = (*self.hosts, *self._newcomers())
        for host in known:
            self._void(host)
        for host in known:
            self._survives(host)
        orphans = {h: self.hosts.pop(h) for h in list(self.hosts) if h not in self.lines.links}
        for host in [h for h in self.addresses if h not in self.hosts and h not in self.lines.links]:
            del self.addresses[host]
            self.end(host)
        if orphans:
            try:
                self._house([*orphans.values()])
            except BaseException:  # the next use looks for places again
                housed = {w for workers in self.hosts.values() for w in workers}
                self.hosts.update({h: workers for h, workers in orphans.items() if housed.isdisjoint(workers)})
                raise
        self._spread()
        self._meet()

    def _void(self, host: int) -> None:
        """Let a host give up what it is doing."""
        try:
            if not self.alive(host):
                self.lines.drop(host)
            self.lines.queue_frame(host, frame((EPOCH, self.epoch)))
        except PeerLost:
            self.lines.drop(host)

    def _survives(self, host: int) -> None:
        """Wait until a host has given up what it was doing; its link is gone after this if it is."""
        try:
            ready = self.call(host, "ready")
        except WorkerLost:
            self.lines.drop(host)
        while host in self.lines.links:
            try:
                self.wait([ready])
                return
            except WorkerLost:
                continue  # perhaps another one: that is no reason to lose this one
            except BaseException:
                self.disregard([ready])
                raise

    def _house(self, orphans: list[tuple[int, ...]]) -> None:
        """Processes for workers that have none: new ones, or (on_loss="shrink") those that are left.

        All the time since the loss was noticed counts, whatever was tried in it: nobody waits longer than was said.
        """
        began, looked = self.lost_at or time.monotonic(), False
        while len(found := self._newcomers()) < len(orphans):
            self._ask_for(self.mesh.workers - len(self.hosts) - len(found))
            left = began + self.quiet_seconds - time.monotonic()
            if left <= 0:
                self._say(len(orphans) - len(found))
                left = 1.0 if self.on_loss == "wait" else left + self.place_seconds
                if left <= 0 and (looked or self.hosts):
                    break
            self._look(min(1.0, max(0.05, left)))
            looked = True
        self.hosts.update(zip(found, orphans, strict=False))
        homeless = orphans[len(found) :]
        if not homeless:
            return
        count = sum(map(len, homeless))
        if self.on_loss == "fail" or not self.hosts:
            self._give_up_pending()
            raise TilewiseError(
                message(
                    f"{count} workers of {self.mesh.workers} were lost, and there is no place for others",
                    got=f"none in {self.quiet_seconds + self.place_seconds:.0f} s",
                    cure='Bring nodes back and use the session again, or open it with on_loss="shrink"',
                )
            )
        for w in itertools.chain.from_iterable(homeless):
            least = min(self.hosts, key=lambda h: (len(self.hosts[h]), h))
            self.hosts[least] = tuple(sorted((*self.hosts[least], w)))

    # -- growing back -------------------------------------------------------------------------------------------------

    def look_for_places(self) -> None:
        """Processes that found no place stay in the queue. Once they have one, workers move there, by way of a copy."""
        if not self.pending or time.monotonic() < self._looked + self.look_seconds:
            return
        self._look(0.0)
        if self._newcomers():
            self.settle()
            self._surely(self._start_copy)
            self.settle()
            self.broken = True  # all begin another epoch, with other homes

    def _ask_for(self, count: int) -> None:
        """Have so many processes wait for a place."""
        born = [next(self._processes) for _ in range(len(self.pending), count)]
        self.spawn(born)
        self.pending.update(born)

    def _look(self, seconds: float) -> None:
        """Connect to processes that have found a place."""
        with allowed():
            found = self.places(self.pending, seconds)
        self._looked = time.monotonic()
        for host, address in found.items():
            self._connect(host, address)
            self.pending.discard(host)

    def _newcomers(self) -> list[int]:
        """Processes that have a place and no workers yet."""
        return [h for h in self.addresses if h not in self.hosts and h in self.lines.links]

    def _spread(self) -> None:
        """Let newcomers take over workers from processes that have several."""
        for host in self._newcomers():
            most = max(self.hosts, key=lambda h: len(self.hosts[h]))
            if len(self.hosts[most]) < 2:
                break
            half = len(self.hosts[most]) // 2
            self.hosts[host], self.hosts[most] = self.hosts[most][half:], self.hosts[most][:half]
        if all(len(workers) == 1 for workers in self.hosts.values()):
            self._told = False
            self._give_up_pending()

    def _give_up_pending(self) -> None:
        """End processes that are not needed."""
        for host in (*self.pending, *self._newcomers()):
            self.addresses.pop(host, None)
            self.end(host)
        self.pending.clear()

    def _say(self, count: int) -> None:
        """Tell the user, once, that there is no place, and what will happen."""
        if self._told:
            return
        self._told = True
        then = {
            "shrink": f"Waiting {self.place_seconds:.0f} s more, then the others take over their work",
            "fail": f"Waiting {self.place_seconds:.0f} s more, then giving up",
            "wait": "Waiting until there is one",
        }[self.on_loss]
        warnings.warn(
            message(f"no place in the cluster for others instead of {count} processes that were lost", cure=then),
            PerformanceWarning,
            stacklevel=2,
        )

    def _connect(self, host: int, address: Address) -> None:
        try:
            self.lines.connect(host, address, self.epoch)
            self.lines.queue_frame(host, frame((EPOCH, self.epoch)))
            self.addresses[host] = address
        except PeerLost:
            self.end(host)  # it died at once

    def _meet(self) -> None:
        """Tell all hosts which workers are where."""
        homes = [0] * self.mesh.workers
        for host, workers in self.hosts.items():
            for w in workers:
                homes[w] = host
        addresses = {h: self.addresses[h] for h in self.hosts}
        futures = [self.call(h, "meet", self.epoch, ws, addresses, homes) for h, ws in self.hosts.items()]
        for answer in self.wait(futures, together=True):
            if isinstance(answer, Failure):
                raise answer.error or WorkerLost(answer.lost)

    def close(self) -> None:
        """End all processes."""
        with to_the_end():
            super().close()
            self._give_up_pending()
            for host in list(self.addresses):
                self.end(host)
            self.addresses.clear()
            self.hosts.clear()
            self.lines.close()
