"""Driving workers through a plan. In: a plan and its leaves. Out: handles on results that stay where they are.

An engine of this kind says how to call a worker (`call`) and how to wait (`wait`); everything else is here: stages, exchanges, the
count of bytes that changed owner, and the log from which a lost worker is brought back.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewise.errors import SessionClosedError, message
from tilewise.ir.order import Order
from tilewise.ir.scalar import UFUNCS
from tilewise.layout import Exchange, Layout, Mesh, OnDriver, Partial, route
from tilewise.plan.mesh import MeshPlan
from tilewise.plan.steps import Exchange as ExchangeStep
from tilewise.store import pool

ND = np.ndarray[Any, Any]


@dataclass
class Counters:
    """What an engine has moved so far."""

    network_bytes: int = 0
    exchanges: int = 0
    replays: int = 0


class Remote:
    """A value that workers hold. Dropping the last reference frees it there."""

    def __init__(self, cluster: Cluster, key: int, shape: tuple[int, ...], dtype: Any, order: Order, layout: Layout) -> None:
        self.cluster = cluster
        self.key = key
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self.order = order
        self.layout = layout
        weakref.finalize(self, cluster.release, key)

    def gather(self) -> ND:
        """The whole array on the driver."""
        return self.cluster.gather(self)


@dataclass
class Entry:
    """One plan that ran: enough to run it again."""

    number: int
    leaves: tuple[Any, ...]  # a key, or the array itself
    consts: tuple[Any, ...]
    keys: tuple[int, ...]
    native: bool


class Cluster:
    """The driver's side of an engine with several workers."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self.counters = Counters()
        self.closed = False
        self.plans: dict[int, MeshPlan] = {}
        self.numbers: dict[int, int] = {}
        self.keys = itertools.count(1)
        self.dead: list[int] = []
        self.log: list[Entry] = []
        self.live: set[int] = set()

    # -- what an engine provides ----------------------------------------------------------------------------------

    def call(self, worker: int, method: str, *args: Any, returns: int = 1) -> Any:
        """Start a method of a worker; a future, or `returns` of them."""
        raise NotImplementedError

    def wait(self, futures: Sequence[Any]) -> list[Any]:
        """Results of futures; raises WorkerLost if a worker is gone."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of the workers."""
        self.closed = True

    # -- running --------------------------------------------------------------------------------------------------

    def number_of(self, plan: MeshPlan) -> int:
        """The number under which workers know a plan; teaches it to them first."""
        known = self.numbers.get(id(plan))
        if known is None:
            known = self.numbers[id(plan)] = len(self.plans) + 1
            self.plans[known] = plan
            self.wait([self.call(w, "learn", known, plan) for w in range(self.mesh.workers)])
        return known

    def run(self, plan: MeshPlan, leaves: Sequence[Any], consts: Sequence[Any], native: bool) -> list[Remote]:
        """Run a plan. Leaves are ndarrays or Remotes of this cluster."""
        self._check_open()
        self._sweep()
        keys = tuple(next(self.keys) for _ in plan.wanted)
        entry = Entry(self.number_of(plan), tuple(x.key if isinstance(x, Remote) else x for x in leaves), tuple(consts), keys, native)
        try:
            self._run(entry)
        except WorkerLost:
            self.revive()
            self._run(entry)
        self.log.append(entry)
        self.live.update(keys)
        self._trim_log()
        return [
            Remote(self, k, plan.specs[p].shape, plan.specs[p].dtype, plan.specs[p].order, plan.layouts[p])
            for k, p in zip(keys, plan.wanted, strict=True)
        ]

    def _run(self, entry: Entry) -> None:
        plan = self.plans[entry.number]
        remote = [x if isinstance(x, int) else None for x in entry.leaves]
        here = {p: x for p, x in zip(plan.leaves, entry.leaves, strict=True) if not isinstance(x, int)}
        workers = range(self.mesh.workers)
        self.wait([self.call(w, "begin", entry.number, remote, entry.consts, entry.native) for w in workers])
        for first, last in plan.stages():
            step = plan.steps[first]
            if isinstance(step, ExchangeStep):
                self._exchange(plan, first, step, here)
            else:
                self.wait([self.call(w, "run", first, last) for w in workers])
        self.wait([self.call(w, "finish", entry.keys) for w in workers])

    def _exchange(self, plan: MeshPlan, index: int, step: ExchangeStep, here: dict[int, ND]) -> None:
        spec = plan.specs[step.pos]
        pos = step.input
        for n, e in enumerate(plan.routes[index]):
            last = n == len(plan.routes[index]) - 1
            target = step.pos if last else -1 - n
            self.one_exchange(e, pos, target, spec.dtype, spec.order, here)
            pos = target
        if not plan.routes[index]:
            raise AssertionError("an exchange that moves nothing")

    def one_exchange(self, e: Exchange, pos: int, target: int, dtype: Any, order: Order, here: dict[int, ND]) -> None:
        """Cut at the senders, join at the receivers."""
        p = self.mesh.workers
        self.counters.exchanges += 1
        if isinstance(e.src, OnDriver):
            sent = _cut_here(here[pos], e, p)
            futures = [
                self.call(w, "join", pos, e, target, dtype, order, [[] for _ in range(p)] + [sent[w]]) for w in range(p)
            ]
            self.counters.network_bytes += sum(self.wait(futures))
            return
        cut = [self.call(w, "cut", pos, e, None, returns=p + 1) for w in range(p)]
        if isinstance(e.dst, OnDriver):
            arrived = self.wait([c[p] for c in cut])
            here[target], count = _join_here(arrived, e, dtype, order)
            self.counters.network_bytes += count
            return
        futures = [self.call(w, "join", pos, e, target, dtype, order, [cut[v][w] for v in range(p)] + [[]]) for w in range(p)]
        self.counters.network_bytes += sum(self.wait(futures))

    def gather(self, x: Remote) -> ND:
        """A stored value as an array of the driver's."""
        self._check_open()
        try:
            return self._gather(x)
        except WorkerLost:
            self.revive()
            return self._gather(x)

    def _gather(self, x: Remote) -> ND:
        out: ND = pool.empty(x.shape, x.dtype, x.order)
        (e,) = route(x.layout, OnDriver(), x.shape, self.mesh)
        senders = sorted({p.src_worker for p in e.pieces})
        got = self.wait([self.call(w, "cut_stored", x.key, e) for w in senders])
        queues = {w: list(g) for w, g in zip(senders, got, strict=True)}
        for piece in e.pieces:
            data = queues[piece.src_worker].pop(0)
            out[_key(piece.box)] = data
            if piece.crosses:
                self.counters.network_bytes += data.nbytes
        return out

    # -- freeing, and bringing back -------------------------------------------------------------------------------

    def release(self, key: int) -> None:
        """A Remote is gone (called at any moment: only notes it)."""
        self.dead.append(key)

    def _sweep(self) -> None:
        if self.dead and not self.closed:
            gone, self.dead = self.dead, []
            self.live.difference_update(gone)
            self.wait([self.call(w, "drop", gone) for w in range(self.mesh.workers)])

    def _trim_log(self) -> None:
        """Keep only what the values still alive were made from."""
        needed = set(self.live)
        kept: list[Entry] = []
        for entry in reversed(self.log):
            if needed & set(entry.keys):
                kept.append(entry)
                needed.update(x for x in entry.leaves if isinstance(x, int))
        self.log = kept[::-1]

    def revive(self) -> None:
        """Replace lost workers and run the log again: plans are deterministic."""
        self.restart()
        for number, plan in self.plans.items():
            self.wait([self.call(w, "learn", number, plan) for w in range(self.mesh.workers)])
        before = self.counters.network_bytes
        for entry in self.log:
            self._run(entry)
        self.counters.replays += 1
        self.counters.network_bytes = before  # retries are reported apart

    def restart(self) -> None:
        """Fresh workers in all places."""
        raise NotImplementedError

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


def _cut_here(x: ND, e: Exchange, workers: int) -> list[list[ND]]:
    out: list[list[ND]] = [[] for _ in range(workers)]
    for piece in e.pieces:
        out[piece.dst_worker].append(x[_key(piece.box)])
    return out


def _join_here(arrived: Sequence[list[ND]], e: Exchange, dtype: Any, order: Order) -> tuple[ND, int]:
    out: ND = pool.empty(e.shape, dtype, order)
    queues = [list(a) for a in arrived]
    count = 0
    reduce = UFUNCS[e.src.op] if isinstance(e.src, Partial) else None
    begun: set[Any] = set()
    for piece in e.pieces:
        data = queues[piece.src_worker].pop(0)
        count += data.nbytes if piece.crosses else 0
        view = out[_key(piece.box)]
        if reduce is not None and piece.box in begun:
            reduce(view, data, out=view)
        else:
            view[...] = data
            begun.add(piece.box)
    return out, count

