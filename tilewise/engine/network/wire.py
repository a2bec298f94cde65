"""The transport between processes, as one of them has it. In: pieces and tags. Out: pieces; the driver's calls.

Pieces go straight from one process to the other over the links of the session (links.py). The driver's calls come the
same way and are answered in order. A wait ends when the pieces are there, or when it is certain that they will not
come: the other process failed in this run, its connection has ended, or the driver has begun another epoch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from tilewise.engine.network.frames import IN_BAND_BYTES, flat, frame, name_of, plain_frame, unflat
from tilewise.engine.network.links import Address, Links
from tilewise.engine.network.shared_memory import SHARED_BYTES, Offer, SharedMemory
from tilewise.engine.network.transport import ND, Cancelled, PeerFailed, PeerLost, Tag
from tilewise.layout import DRIVER

# What a message is: its first element. (Plain numbers: members of an Enum are pickled with their class.)
PIECES = 0  # (sender, receiver, *tag), pieces
FAILED = 1  # epoch, run: the process that sends this sends nothing more in the run; the driver: nobody waits for it
CALL = 2  # what makes a Call
ANSWER = 3  # number of the call, result
EPOCH = 4  # epoch, from the driver: everything older is void
IDLE = 5  # epoch, purpose: the process that sends this has nothing to do, and can do work of this kind; None: it has
JOB = 6  # epoch, ticket, run, what to compute for the sender, pieces
DONE = 7  # epoch, ticket, pieces
REACHED = 8  # steps done, all steps, bytes that came: to the driver
PART = 9  # epoch, ticket, where it belongs, one piece: of what a job makes, before it is done
OFFER = 10  # what makes an Offer: memory for large pieces from the process that sends this
TAKEN = 11  # number of an offer, whether it will be used
REPORTS = 12  # several answers: numbers of calls, and results in which there are no arrays
MOST_REPORTS = 8  # that are sent at once: the driver goes on when it has some
IDLE_SECONDS = 3e-3  # of waiting, before others are asked for work
_EPOCH, _RUN = 2, 3  # in the key of pieces


class Call(NamedTuple):
    """Something the driver wants done."""

    epoch: int
    number: int  # 0: the driver wants no answer
    method: str
    args: tuple[Any, ...]


_made = tuple.__new__  # of a named tuple, without a call of Python's in between


class Wire(Links):
    """The links of one process that hosts workers."""

    def __init__(self, me: int, secret: bytes, listen_at: str) -> None:
        super().__init__(me, secret, listen_at)
        self.epoch = 0
        self._run = 0
        self._homes: Sequence[int] = ()  # by worker: the number of its process
        self._pieces: dict[tuple[int, ...], list[ND]] = {}  # by sender, receiver and tag
        self._failed: set[tuple[int, int]] = set()  # (process, run)
        self._calls: deque[Call] = deque()
        self._reports: list[tuple[int, Any]] = []  # that go to the driver when there is nothing else to do
        self._over = False  # the driver is gone
        self.helps: Callable[..., None] | None = None  # does a job for another process, if they share work at all
        self.results: dict[tuple[int, int], list[ND] | None] = {}  # of jobs, by process and ticket; None: under way
        self._jobs: deque[tuple[Any, ...]] = deque()
        self.purpose: object = True  # which jobs this process could do now; others ask for those of their own
        self.keeps: Callable[..., None] | None = None  # puts a part of what another process makes where it belongs
        self._idle: dict[int, object] = {}  # processes that have nothing to do, and what they could do
        self._said = False  # that this one has nothing to do
        self.shared: SharedMemory | None = SharedMemory()  # for large pieces; None: all go over the links

    # -- the transport ------------------------------------------------------------------------------------------------

    def meet(self, epoch: int, addresses: Mapping[int, Address], homes: Sequence[int]) -> None:
        """Connect to all other processes, each of which connects to those of lower numbers."""
        self._homes = homes
        for who in [w for w, link in self.links.items() if w != DRIVER and link.epoch < epoch]:
            self.drop(who)
        for who, address in addresses.items():
            if who < self.me:
                self.connect(who, address, epoch)
        others = [who for who in addresses if who != self.me]
        while not all(who in self.links and self.links[who].epoch == epoch for who in others):
            self._check(epoch)
            self.progress()

    def begin(self, run: int) -> None:
        """What earlier runs left behind goes, now and when it comes."""
        self._run = run
        if self._pieces:
            self._pieces = {key: x for key, x in self._pieces.items() if key[_RUN] >= run}
        if self._failed:
            self._failed = {f for f in self._failed if f[1] >= run}

    def send(self, sender: int, receiver: int, tag: tuple[int, int, int], pieces: Sequence[ND]) -> None:
        """Give pieces to a worker, perhaps one of this process."""
        home = self._homes[receiver]
        if home == self.me:
            self._pieces[sender, receiver, *tag] = [p.copy() for p in pieces]
            return
        small: list[tuple[Any, ...]] = []
        for p in pieces:
            dtype = p.dtype
            if p.nbytes >= IN_BAND_BYTES or dtype.kind not in "biufc":
                self.post(home, (PIECES, (sender, receiver, *tag), self._packed(home, pieces)))
                return
            small.append((name_of(dtype), p.shape, p.tobytes()))
        self.post_bytes(home, plain_frame((PIECES, (sender, receiver, *tag), small)))

    def _packed(self, home: int, pieces: Sequence[ND]) -> list[Any]:
        """Pieces in few words: of large ones where they lie, if both processes have memory for them."""
        shared = self.shared
        if shared is None or home not in self.links or all(p.nbytes < SHARED_BYTES for p in pieces):
            return flat(pieces)
        packed: list[Any] = []
        for p in pieces:
            turned = p.flags.f_contiguous and not p.flags.c_contiguous
            large = p.nbytes >= SHARED_BYTES and p.dtype.kind in "biufc"
            lent = shared.put(home, p.T if turned else p) if large else None
            if isinstance(lent, Offer):
                try:
                    self.post(home, (OFFER, *lent))
                except PeerLost:
                    shared.ended(home)  # the link may have ended before there was this segment
                    raise
                lent = None
            packed += flat([p]) if lent is None else [(p.dtype.str, p.shape, lent, turned)]
        return packed

    def _unpacked(self, who: int, packed: Sequence[Any]) -> list[ND] | None:
        """What `_packed` was given, to read; None if a link that has ended had it: nobody waits for it."""
        found: list[ND] = []
        for p in packed:
            if type(p) is not tuple:
                found.append(p)
            elif len(p) == 3:
                found.append(np.ndarray(p[1], p[0], p[2]))
            else:
                dtype, shape, lent, turned = p
                x = None if self.shared is None else self.shared.get(who, lent, dtype, shape[::-1] if turned else shape)
                if x is None:
                    return None
                found.append(x.T if turned else x)
        return found

    def receive(self, sender: int, receiver: int, tag: tuple[int, int, int]) -> list[ND]:
        """Wait for pieces."""
        key = sender, receiver, *tag
        found = self._pieces.pop(key, None)
        while found is None:
            epoch, run, _ = tag
            self._check(epoch)
            home = self._homes[sender]
            if self._failed and ((home, run) in self._failed or (DRIVER, run) in self._failed):
                raise PeerFailed
            if home not in self.links:
                raise PeerLost(f"worker {sender} is gone")
            if self.helps is None:
                self.progress()
            else:
                self._rest()
            found = self._pieces.pop(key, None)
        if self._said:
            self._say_idle(False)
        return found

    def fail(self, tag: Tag) -> None:
        """Tell all others; those that are gone need not know."""
        for who in [w for w in self.links if w != DRIVER]:
            try:
                self.post(who, (FAILED, tag.epoch, tag.run))
            except PeerLost:
                continue

    # -- work of others -----------------------------------------------------------------------------------------------

    def _rest(self) -> None:
        """Wait until something comes; after a while, ask others for work, and do what they give."""
        if self.helps is None:
            self.progress()
        elif self.do_jobs():
            return
        elif self._said:
            self.progress()
        elif not self.progress(IDLE_SECONDS):
            self._say_idle(True)

    def rest_no_more(self) -> None:
        """This process takes no jobs from now on."""
        self.helps = None
        self._busy()

    def _busy(self) -> None:
        """There is something to do again."""
        if self._said:
            self._say_idle(False)

    def _say_idle(self, idle: bool) -> None:
        self._said = idle
        for who in [w for w in self.links if w != DRIVER]:
            with suppress(PeerLost):
                self.post(who, (IDLE, self.epoch, self.purpose if idle else None))

    def idle(self, purpose: object = True) -> list[int]:
        """Processes that ask for such work now; each is named once, until it has asked again."""
        while self.progress(0.0):
            continue
        found = sorted(who for who, what in self._idle.items() if what == purpose)
        for who in found:
            del self._idle[who]
        return found

    def do_jobs(self) -> bool:
        """Compute what others have handed to this process, and ask for more; whether there was anything."""
        if self.helps is None:
            return False
        found = bool(self._jobs)
        while self._jobs:
            self.helps(*self._jobs.popleft())
            if self._said and not self._jobs:
                self._say_idle(True)
        return found

    def waits_for(self, process: int, epoch: int, run: int) -> bool:
        """Whether results of another process may still come."""
        self._check(epoch)
        if process not in self.links:
            raise PeerLost(f"process {process} is gone")
        return (process, run) not in self._failed and (DRIVER, run) not in self._failed

    def _check(self, epoch: int) -> None:
        if self._over or epoch < self.epoch:
            raise Cancelled

    # -- the driver's calls -------------------------------------------------------------------------------------------

    def next_call(self) -> Call | None:
        """Wait for a call; None when the driver is gone."""
        while not self._calls:
            if self._reports:
                self._say()
            if self._over:
                return None
            self._rest()
        if self._said:
            self._say_idle(False)
        return self._calls.popleft()

    def answer(self, call: Call, result: Any) -> None:
        """Send a call's result; nobody waits for those of an epoch that is over."""
        if call.number and call.epoch == self.epoch and not self._over:
            self._say(frame((ANSWER, call.number, result)))

    def report(self, call: Call, words: tuple[Any, ...]) -> None:
        """The same for a report of a run: it has no arrays in it.

        It goes together with those of the calls that are here already, as the driver waits for the last one, if at all.
        """
        epoch, number, _, _ = call
        if number and epoch == self.epoch and not self._over:
            reports = self._reports
            reports.append((number, words))
            if len(reports) >= MOST_REPORTS:
                self._say()

    def _say(self, answer: Sequence[Any] = ()) -> None:
        """Send what is held back, then an answer."""
        reports, self._reports = self._reports, []
        try:
            self.post_frame(DRIVER, [plain_frame((REPORTS, reports)), *answer] if reports else [*answer])
        except PeerLost:
            self._over = True

    def look(self, epoch: int, run: int) -> None:
        """Read what has come; raises if the epoch is over, the driver gone, or the run given up."""
        self.progress(0.0)
        self._check(epoch)
        if any(failed == run for _, failed in self._failed):
            raise PeerFailed

    def reached(self, done: int, total: int, nbytes: int) -> None:
        """Tell the driver how far this process is."""
        if not self._over:
            with suppress(PeerLost):
                self.post(DRIVER, (REACHED, done, total, nbytes))

    def arrived(self, who: int, message: Any) -> None:
        """Sort what comes."""
        kind = message[0]
        if kind == PIECES:
            _, key, packed = message
            if len(packed) == 1 and type(only := packed[0]) is tuple and len(only) == 3:  # most often
                pieces: list[ND] | None = [np.ndarray(only[1], only[0], only[2])]
            else:
                pieces = self._unpacked(who, packed)
            if key[_EPOCH] == self.epoch and key[_RUN] >= self._run and pieces is not None:
                self._pieces[key] = pieces
        elif kind == CALL:
            self._calls.append(_made(Call, message[1:]))
        elif kind == FAILED:
            if message[1] == self.epoch:
                self._failed.add((who, message[2]))
        elif kind == IDLE:
            if message[1] == self.epoch:
                self._idle[who] = message[2]
        elif kind == JOB:
            if message[1] == self.epoch:
                self._jobs.append((who, *message[1:]))
        elif kind == PART:
            if message[1] == self.epoch and self.keeps is not None:
                self.keeps((who, message[2]), message[3], unflat(message[4])[0])
        elif kind == DONE:
            if message[1] == self.epoch and (who, message[2]) in self.results:
                self.results[who, message[2]] = message[3]
        elif kind == OFFER:
            offer = Offer(*message[1:])
            taken = self.shared is not None and self.shared.offered(who, offer)
            with suppress(PeerLost):
                self.queue_frame(who, frame((TAKEN, offer.number, taken)))
        elif kind == TAKEN:
            assert self.shared is not None
            self.shared.answered(who, *message[1:])
        else:
            assert kind == EPOCH, message
            self.epoch = message[1]
            self._run = 0
            self._pieces.clear()
            self._failed.clear()
            self._calls.clear()
            self._reports.clear()
            self._jobs.clear()
            self._idle.clear()
            self.results.clear()
            self._said = False

    def ended(self, who: int) -> None:
        """Without a driver there is nothing left to do."""
        if who == DRIVER:
            self._over = True
        elif self.shared is not None:
            self.shared.ended(who)
