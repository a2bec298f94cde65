"""The processes of an engine with several workers. In: calls. Out: futures, and what they give.

An engine says how to call a host (`call`) and how to wait (`wait`).
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from tilewise.alive import Alive
from tilewise.engine.counters import Counters, DiskCounters
from tilewise.engine.recovery.copies import Copies
from tilewise.engine.recovery.copying import Copying
from tilewise.engine.recovery.replay_log import Entry, Log
from tilewise.engine.recovery.saved import Saved
from tilewise.engine.remote import Remote
from tilewise.engine.rounds import Move
from tilewise.ir.order import Order
from tilewise.layout import Layout, Mesh
from tilewise.plan.exchanges import Exchanges
from tilewise.plan.shares import Shares
from tilewise.records import dataclass


class WorkerLost(Exception):
    """A worker died; its blocks are gone."""


@dataclass(frozen=True, eq=False)
class Taught:
    """A plan that workers know or may get to know, and what the driver needs of it for each run."""

    plan: Exchanges | Shares
    scatters: tuple[Move, ...]
    predicted_bytes: int
    bounded_bytes: int
    exchanges: int
    never_fails: bool
    sizes: tuple[int, ...]  # bytes that its results take up on the worker with the most
    results: tuple[tuple[tuple[int, ...], np.dtype[Any], Order, Layout, bool], ...]  # what a Remote is made of


@dataclass(frozen=True, eq=False)
class Mark:
    """A copy under way: of which values, and which plans had run by then."""

    keys: tuple[int, ...]
    before: frozenset[Entry]


class Hosts:
    """What the driver knows of its hosts, and how it speaks to them."""

    mortal = True  # whether workers can be lost: otherwise nothing is logged
    copies_blocks = False  # whether blocks are copied now and then, so that the log stays short
    in_process = False  # whether a call has run when it returns, and its events have been heard

    def __init__(self, mesh: Mesh, memory: int | None = None) -> None:
        self.mesh = mesh
        self.memory = memory  # bytes that the blocks of a worker may take up
        self.hosts: dict[int, tuple[int, ...]] = {}  # the workers of each process
        self.epoch = 0
        self.closed = False
        self.inherited = False  # it was open in the process that this one is a fork of
        _opened.add(self)
        self.plans: dict[int, Taught] = {}
        self.numbers: dict[int, int] = {}  # by the plan's id; self.plans keeps it from being another's
        self.counter = itertools.count(1)
        self.taught: set[int] = set()
        self.dead: list[int] = []  # keys nobody has a handle on; workers still store them
        self.log = Log()
        self.copying = Copying()
        self.copies = Copies()  # what no worker but one could keep
        self.saved: Saved | None = None  # what is on disk as well, where the session has a checkpoint
        self.under_way: dict[Entry | Mark, list[Any]] = {}  # whose reports have not been looked at, in order
        self.failed: dict[int, Exception] = {}  # why there is no value under a key
        self.values = Alive[Remote]()
        self.broken = False  # workers were lost and are not back
        self.lost_at: float | None = None  # when that was noticed, in what is being done now
        self._counters = Counters()
        self.disk = DiskCounters()  # of plans whose blocks take turns

    # -- what an engine provides ----------------------------------------------------------------------------------

    def call(self, host: int, method: str, *args: Any) -> Any:
        """Start a method of a host: a future. A host does its calls in order."""
        raise NotImplementedError

    def call_all(self, method: str, *args: Any) -> list[Any]:
        """Start the same method of all hosts: futures."""
        return [self.call(h, method, *args) for h in self.hosts]

    def begin_all(self, words: tuple[Any, ...]) -> list[Any]:
        """Start a run, to which the driver gives no arrays, on all hosts: futures."""
        return self.call_all("run", words, {})

    def tell(self, host: int, method: str, *args: Any) -> None:
        """Start a method whose result nobody waits for."""
        raise NotImplementedError

    def flush(self) -> None:
        """Wait until what calls were given is on its way and may be overwritten."""

    def wait(self, futures: Sequence[Any]) -> list[Any]:
        """Results of futures; raises WorkerLost if a worker is gone."""
        raise NotImplementedError

    def disregard(self, futures: Sequence[Any]) -> None:
        """Nobody will wait for these."""

    def give_up(self, run: int) -> None:
        """Nobody waits for the results of a run: hosts stop in the middle of it."""

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
        if self.saved is not None:
            self.saved.drop(list(self.saved.keys))


_opened = Alive[Hosts]()


def _in_a_fork() -> None:
    """Processes of workers answer the process that has opened them: its fork lets go of them without a word."""
    for hosts in _opened:
        if not hosts.in_process and not hosts.closed:
            hosts.closed = hosts.inherited = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_a_fork)
