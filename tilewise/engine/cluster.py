"""Driving workers through a plan. In: a plan and its leaves. Out: handles on results that stay where they are.

An engine of this kind says how to call a worker (`call`) and how to wait (`wait`); everything else is here: rounds, the
count of bytes that changed owner, and the log from which lost workers are brought back.
"""

from __future__ import annotations

import itertools
import math
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from tilewise.engine.rounds import Move, Round, rounds
from tilewise.engine.worker import Failure, Start
from tilewise.errors import SessionClosedError, TilewiseError, message
from tilewise.ir.order import Order
from tilewise.layout import Layout, Mesh, OnDriver, local_dims, moves
from tilewise.plan.mesh import MeshPlan
from tilewise.store import pool

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


class Remote:
    """A value that workers hold. Dropping the last reference frees it there."""

    away = True

    def __init__(
        self, cluster: Cluster, key: int, shape: tuple[int, ...], dtype: Any, order: Order, layout: Layout
    ) -> None:
        self.cluster = cluster
        self.key = key
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self.order = order
        self.layout = layout
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

    def gather(self) -> ND:
        """The whole array on the driver."""
        return self.cluster.gather(self)


@dataclass(eq=False)
class Entry:
    """One plan that ran: enough to run it again."""

    number: int
    leaves: tuple[Any, ...]  # a key, or the array itself
    consts: tuple[Any, ...]
    keys: tuple[int, ...]
    native: bool
    uses: int = 0  # results still alive, and later entries that read one


class Cluster:
    """The driver's side of an engine with several workers."""

    mortal = True  # whether workers can be lost: otherwise nothing is logged

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self.counters = Counters()
        self.closed = False
        self.plans: dict[int, MeshPlan] = {}
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

    def run(self, plan: MeshPlan, leaves: Sequence[Any], consts: Sequence[Any], native: bool) -> list[Remote]:
        """Run a plan. Leaves are ndarrays or Remotes of this cluster."""
        self._check_open()
        keys = tuple(next(self.counter) for _ in plan.wanted)
        given = tuple(x.key if isinstance(x, Remote) else self.log.keep(x) if self.mortal else x for x in leaves)
        entry = Entry(self._number_of(plan), given, tuple(consts), keys, native)
        try:
            self.counters.network_bytes += self._surely(lambda: self._run(entry, self._take_dead()))
        except BaseException:
            self.dead.extend(keys)  # some workers may have come to the end
            raise
        self.counters.predicted_bytes += plan.network_bytes - plan.bounded_bytes
        self.counters.bounded_bytes += plan.bounded_bytes
        self.counters.exchanges += sum(len(r) for r in plan.routes)
        if self.mortal:
            self.log.add(entry)
        return [
            Remote(self, k, plan.specs[p].shape, plan.specs[p].dtype, plan.specs[p].order, plan.layouts[p])
            for k, p in zip(keys, plan.wanted, strict=True)
        ]

    def _number_of(self, plan: MeshPlan) -> int:
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
            replace(self.plans[number], choice=None, _local={})
        )  # what this side has worked out stays here
        futures = [f for w in range(self.mesh.workers) for f in self.call(w, "learn", number, plan)]
        self.taught.add(number)
        return futures

    def _run(self, entry: Entry, gone: list[int]) -> int:
        """Submit all rounds, then wait; the bytes that crossed. Nothing here waits for a result on the way.

        Workers first let go of the values that are `gone`.
        """
        plan, p = self.plans[entry.number], self.mesh.workers
        futures = self._teach(entry.number)
        here = {pos: x for pos, x in zip(plan.leaves, entry.leaves, strict=True) if not isinstance(x, int)}
        remote = tuple(x if isinstance(x, int) else None for x in entry.leaves)
        begun = False
        pieces: dict[tuple[int, int], Any] = {}
        answers: list[Any] = []
        try:
            for k, this in enumerate(self.rounds[entry.number]):
                start = None if k else Start(entry.number, remote, entry.consts, entry.keys, entry.native, tuple(gone))
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
        return sum(results)

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

    def gather(self, x: Remote) -> ND:
        """A stored value as an array of the driver's."""
        self._check_open()
        return self._surely(lambda: self._gather(x))

    def _gather(self, x: Remote) -> ND:
        self.sweep()
        out: ND = pool.empty(x.shape, x.dtype, x.order)
        e = moves(x.layout, OnDriver(), x.shape, self.mesh)
        senders = sorted({p.src_worker for p in e.pieces})
        got = self.wait([f for w in senders for f in self.call(w, "cut_stored", x.key, e)])
        queues: dict[int, list[ND]] = {w: list(g) for w, g in zip(senders, got, strict=True)}
        count = 0
        for piece in e.pieces:
            data = queues[piece.src_worker].pop(0)
            out[_key(piece.box)] = data
            count += data.nbytes if piece.crosses else 0
        self.counters.network_bytes += count
        self.counters.predicted_bytes += e.bytes(x.dtype.itemsize)
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
            self.counters.replayed_bytes += self._run(entry, gone)
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


class Log:
    """The plans that the values still alive were made by, in order.

    An array that the driver sent may be written to afterwards, so the log has a copy of its own: one, however often the
    same contents are sent, and only as long as an entry needs it. (The log itself grows with the number of plans behind
    a live value until there are checkpoints.)
    """

    def __init__(self) -> None:
        self.entries: dict[Entry, None] = {}
        self.maker: dict[int, Entry] = {}
        self.live: set[int] = set()
        self.copies: weakref.WeakValueDictionary[Any, ND] = weakref.WeakValueDictionary()

    def __iter__(self) -> Any:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def keep(self, x: ND) -> ND:
        """A private copy of an array."""
        where = (x.__array_interface__["data"][0], x.shape, x.strides, x.dtype)
        kept = self.copies.get(where)
        if kept is None or not _same_bits(kept, x):
            kept = self.copies[where] = x.copy(order="K")
        return kept

    def add(self, entry: Entry) -> None:
        """Note a plan that ran; its results have handles."""
        self.entries[entry] = None
        self.live.update(entry.keys)
        entry.uses = len(entry.keys)
        for key in entry.keys:
            self.maker[key] = entry
        for maker in self._makers(entry):
            maker.uses += 1

    def release(self, keys: Sequence[int]) -> None:
        """Handles are gone: forget plans whose results nothing hangs on."""
        gone = [self.maker[k] for k in keys if k in self.live]
        self.live.difference_update(keys)
        while gone:
            entry = gone.pop()
            entry.uses -= 1
            if not entry.uses:
                gone.extend(self._makers(entry))
                del self.entries[entry]
                for key in entry.keys:
                    del self.maker[key]

    def _makers(self, entry: Entry) -> list[Entry]:
        return [self.maker[x] for x in entry.leaves if isinstance(x, int)]

    def replay(self) -> list[tuple[Entry, list[int]]]:
        """Entries in order, with the keys that nobody needs after each."""
        last: dict[int, Entry] = {}
        for entry in self.entries:
            for key in (*entry.keys, *(x for x in entry.leaves if isinstance(x, int))):
                last[key] = entry
        ends: dict[Entry, list[int]] = {}
        for key, entry in last.items():
            if key not in self.live:
                ends.setdefault(entry, []).append(key)
        return [(entry, ends.get(entry, [])) for entry in self.entries]


def _same_bits(a: ND, b: ND) -> bool:
    """Whether two arrays of one shape and dtype hold the same bytes (NaN is NaN, -0 is not 0)."""
    if a.dtype.hasobject:
        return False
    x, y = (v.ravel(order="K").view(np.uint8) for v in (a, b))
    wide = np.uint64 if x.size % 8 == 0 else np.uint8
    return bool(np.array_equal(x.view(wide), y.view(wide)))


def _key(box: Any) -> tuple[Any, ...]:
    """The index of a box; a view also of an array without axes."""
    return (*(slice(lo, hi) for lo, hi in box), ...)
