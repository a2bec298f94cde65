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
from typing import Any, NamedTuple

from tilewise.engine.cluster import Cluster, WorkerLost
from tilewise.engine.failures import Failure, PackedFailure
from tilewise.engine.frames import frame
from tilewise.engine.links import Address, Links
from tilewise.engine.transport import PeerLost
from tilewise.engine.wire import ANSWER, CALL, EPOCH
from tilewise.errors import PerformanceWarning, TilewiseError, message
from tilewise.layout import DRIVER, Mesh

BEAT_SECONDS = 5.0  # how often a wait looks whether the processes are still there


class Future(NamedTuple):
    """A call under way."""

    host: int
    number: int


class Lines(Links):
    """The driver's connections to all hosts."""

    def __init__(self, secret: bytes) -> None:
        super().__init__(DRIVER, secret)
        self.answers: dict[tuple[int, int], Any] = {}
        self.awaited: set[tuple[int, int]] = set()

    def arrived(self, who: int, message: Any) -> None:
        """Keep the answers that somebody waits for."""
        kind, number, answer = message
        assert kind == ANSWER, message
        if (who, number) in self.awaited:
            self.answers[who, number] = answer


class WiredCluster(Cluster):
    """Hosts by number; a process that is lost never gets its number back."""

    copies_blocks = True
    start_seconds = 120.0  # for the first processes to find a place
    quiet_seconds = 10.0  # for others in the place of lost ones, before the user hears of it
    place_seconds = 60.0  # for a place to become free, before `on_loss` says what happens

    def __init__(self, mesh: Mesh, memory: int | None = None, on_loss: str = "shrink") -> None:
        super().__init__(mesh, memory)
        self.on_loss = on_loss
        self.secret = secrets.token_bytes(32)
        self.lines = Lines(self.secret)
        self.addresses: dict[int, Address] = {}
        self._processes = itertools.count()
        self._numbers = itertools.count(1)
        self._told = False  # the user knows that a process is missing

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
        self.lines.awaited.add((host, number))
        self._post(host, frame((CALL, self.epoch, number, method, args)))
        return Future(host, number)

    def call_all(self, method: str, *args: Any) -> list[Future]:
        """The same message to all, made once."""
        number = next(self._numbers)
        buffers = frame((CALL, self.epoch, number, method, args))
        futures = []
        for host in self.hosts:
            self.lines.awaited.add((host, number))
            self._post(host, buffers)
            futures.append(Future(host, number))
        return futures

    def tell(self, host: int, method: str, *args: Any) -> None:
        """Send a call that has no answer."""
        self._post(host, frame((CALL, self.epoch, 0, method, args)))

    def _post(self, host: int, buffers: list[Any]) -> None:
        try:
            self.lines.post_frame(host, buffers)
        except PeerLost as error:
            raise WorkerLost(self._epitaph(host)) from error

    def wait(self, futures: Sequence[Any]) -> list[Any]:
        """Results, once all are there. Looks now and then whether processes are alive that say nothing."""
        lines, beat = self.lines, time.monotonic() + BEAT_SECONDS
        for future in futures:
            while future not in lines.answers:
                if future.host not in lines.links:
                    raise WorkerLost(self._epitaph(future.host))
                lines.progress(BEAT_SECONDS)
                if time.monotonic() > beat:
                    self._check_alive()
                    beat = time.monotonic() + BEAT_SECONDS
        lines.awaited.difference_update(futures)
        got = [lines.answers.pop(f) for f in futures]
        return [a.unpacked() if isinstance(a, PackedFailure) else a for a in got]

    def disregard(self, futures: Sequence[Any]) -> None:
        """Drop answers that nobody waits for."""
        for future in futures:
            self.lines.awaited.discard(future)
            self.lines.answers.pop(future, None)

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
        """Start a process for each worker, and let them know of each other."""
        workers = [(w,) for w in range(self.mesh.workers)]
        born = [next(self._processes) for _ in workers]
        self.spawn(born)
        self._connect(self.places(born, self.start_seconds))
        late = [h for h in born if h not in self.addresses]
        if late:
            for h in late:
                self.end(h)
            raise TilewiseError(
                message(
                    f"{len(late)} workers of {self.mesh.workers} found no place in the cluster",
                    got=f"none in {self.start_seconds:.0f} s",
                    cure="Use fewer workers, or free CPUs there",
                )
            )
        self.hosts = dict(zip(born, workers, strict=True))
        self._meet()

    def restart(self) -> None:
        """Begin another epoch: survivors forget everything, lost processes get successors where there is a place."""
        self.epoch += 1
        for host in list(self.hosts):
            self._survives(host)
        orphans = [self.hosts.pop(h) for h in list(self.hosts) if h not in self.lines.links]
        for host in [h for h in self.addresses if h not in self.hosts]:
            del self.addresses[host]
            self.end(host)
        if orphans:
            self._house(orphans)
        self._meet()

    def _survives(self, host: int) -> None:
        """Void what a host is doing, and wait until it has ended; its link is gone after this if it is."""
        try:
            if not self.alive(host):
                self.lines.drop(host)
            self.lines.post(host, (EPOCH, self.epoch))
            self.wait([self.call(host, "ready")])
        except (PeerLost, WorkerLost):
            self.lines.drop(host)

    def _house(self, orphans: list[tuple[int, ...]]) -> None:
        """Processes for workers that have none: new ones, or (on_loss="shrink") those that are left."""
        born = [next(self._processes) for _ in orphans]
        self.spawn(born)
        waiting = set(born)
        began, said = time.monotonic(), False
        try:
            while waiting:
                passed = time.monotonic() - began
                if passed >= self.quiet_seconds and not said:
                    self._say(len(waiting))
                    said = True
                if said and self.on_loss != "wait" and passed >= self.quiet_seconds + self.place_seconds:
                    break
                found = self.places(waiting, 1.0 if said else self.quiet_seconds)
                self._connect(found)
                waiting.difference_update(found)
        finally:
            for h in waiting:
                self.end(h)
        self.hosts.update((h, ws) for h, ws in zip(born, orphans, strict=True) if h not in waiting)
        left = [w for h, ws in zip(born, orphans, strict=True) if h in waiting for w in ws]
        if not left:
            self._told = False
            return
        if self.on_loss == "fail" or not self.hosts:
            self.hosts.update((h, ws) for h, ws in zip(born, orphans, strict=True) if h in waiting)  # to be tried again
            raise TilewiseError(
                message(
                    f"{len(left)} workers of {self.mesh.workers} were lost, and there is no place for others",
                    got=f"none in {self.quiet_seconds + self.place_seconds:.0f} s",
                    cure='Bring nodes back and use the session again, or open it with on_loss="shrink"',
                )
            )
        for w in left:
            least = min(self.hosts, key=lambda h: (len(self.hosts[h]), h))
            self.hosts[least] = tuple(sorted((*self.hosts[least], w)))

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

    def _connect(self, found: dict[int, Address]) -> None:
        for host, address in found.items():
            try:
                self.lines.connect(host, address, self.epoch)
                self.lines.post(host, (EPOCH, self.epoch))
            except PeerLost:
                continue  # it died at once: noticed when it is called
            finally:
                self.addresses[host] = address

    def _meet(self) -> None:
        """Tell all hosts which workers are where."""
        homes = [0] * self.mesh.workers
        for host, workers in self.hosts.items():
            for w in workers:
                homes[w] = host
        addresses = {h: self.addresses[h] for h in self.hosts}
        futures = [self.call(h, "meet", self.epoch, ws, addresses, homes) for h, ws in self.hosts.items()]
        for answer in self.wait(futures):
            if isinstance(answer, Failure):
                raise answer.error or WorkerLost(answer.lost)

    def close(self) -> None:
        """End all processes."""
        super().close()
        for host in list(self.addresses):
            self.end(host)
        self.addresses.clear()
        self.hosts.clear()
        self.lines.close()
