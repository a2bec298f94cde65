"""Which length of tiles is the quickest, found out while programs run. In: how long runs took. Out: a factor.

Lengths are factors of the estimate (`lengths.fitted`). Every geometry has `Trials`: of runs that are long enough to
be measured, some take another length, each followed by one that does not, so that both see the same load. What
trials cost beyond the best run known stays below a share of the time of all runs; a length that is far slower is not
tried again. The first geometry of a class that is through with its trials settles the record (tuning_records.py), and
nothing is tried again. Results do not depend on any of this: only lengths that give the same bits are taken (group.py).
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import field
from math import inf
from typing import NamedTuple

from tilewise.backend.llvm.tiles.tuning_records import FACTORS, USUAL, Record
from tilewise.records import dataclass
from tilewise.tuning import Tuning, tuned

clock = time.perf_counter
_lock = threading.RLock()
_running = 0  # runs that have begun and not ended
_begun = 0  # runs so far


class Turn(NamedTuple):
    """One run: the length it takes, its number, and whether its time may count."""

    factor: float
    number: int
    timed: bool


@dataclass
class _Seen:
    best: float = inf
    count: int = 0


@dataclass
class Trials:
    """The runs of one geometry, and what the next one is for."""

    record: Record
    offered: list[float]  # lengths still of interest
    build_s: float  # what another plan is expected to cost
    total: float = 0.0  # seconds of all runs
    spent: float = 0.0  # of these, what trials cost beyond the best
    last: float = USUAL  # the length of the last run
    before: float = inf  # seconds of the last run as usual
    figures: Tuning = field(default_factory=tuned)
    built: set[float] = field(default_factory=lambda: {USUAL})  # lengths that some run took
    seen: dict[float, _Seen] = field(default_factory=lambda: {f: _Seen() for f in (USUAL, *FACTORS)})

    @property
    def over(self) -> float | None:
        """The length that all further runs take; None while there is something to find out."""
        usual = self.seen[USUAL]
        short = usual.count >= self.figures.trial_first and usual.best < self.figures.trial_least_s
        return USUAL if short and self.record.factor is None else self.record.factor

    def begin(self) -> Turn:
        """The length that the next run takes; `end` must follow."""
        global _running, _begun
        with _lock:
            alone = _running == 0
            _running += 1
            _begun += 1
            known = self.record.factor
            if known is not None:
                return Turn(known, _begun, timed=False)
            return Turn(self._next() if alone else USUAL, _begun, alone)

    def end(self, turn: Turn, seconds: float | None, build_s: float = 0.0) -> None:
        """A run is over: how long it took, and making its plan before; None if it failed."""
        global _running
        with _lock:
            _running = max(0, _running - 1)
            if self.record.factor is not None or seconds is None:
                return
            best = self.seen[USUAL].best
            self.total += seconds + build_s
            self.spent += build_s
            self.built.add(turn.factor)
            if turn.factor != USUAL:
                self.spent += max(0.0, seconds - best)
            self.last = turn.factor
            if not turn.timed or turn.number != _begun:  # others ran meanwhile
                return
            mine = self.seen[turn.factor]
            mine.best, mine.count = min(mine.best, seconds), mine.count + 1
            if turn.factor == USUAL:
                self.before = seconds
            elif mine.best > self.figures.trial_too_slow * self.before:
                self._drop(turn.factor)
            winner = self._winner() if len(self.built) > 1 else None
        if winner is not None:
            self.record.settle(winner)

    def refuse(self, turn: Turn, build_s: float) -> Turn:
        """A length is not possible, or would give other bits; the run takes the usual length."""
        with _lock:
            self.total += build_s
            self.spent += build_s
            self._drop(turn.factor)
        return Turn(USUAL, turn.number, turn.timed)

    def _drop(self, factor: float) -> None:
        """Neither this length nor one that is farther from the estimate on the same side."""
        self.offered = [f for f in self.offered if (f < USUAL) != (factor < USUAL) or abs(f - 1) < abs(factor - 1)]

    def _next(self) -> float:
        usual = self.seen[USUAL]
        if self.last != USUAL or usual.count < self.figures.trial_first or usual.best < self.figures.trial_least_s:
            return USUAL
        wanted = self._open() or [self._best()]
        return next((f for f in wanted if self._affordable(f)), USUAL)

    def _open(self) -> list[float]:
        """Lengths that have not been tried often enough, those tried least first."""
        tries = self.figures.trial_tries
        return sorted((f for f in self.offered if self.seen[f].count < tries), key=lambda f: self.seen[f].count)

    def _best(self) -> float:
        return min([USUAL, *self.offered], key=lambda f: self.seen[f].best)

    def _affordable(self, factor: float) -> bool:
        """Whether a run may take a length: if it is not known, it may take twice as long, and its plan time to make."""
        usual, mine = self.seen[USUAL].best, self.seen[factor]
        more = max(0.0, mine.best - usual) if mine.count else usual
        more += 0.0 if factor in self.built else self.build_s
        return self.spent + more <= self.figures.trial_share * (self.total + usual + more)

    def _winner(self) -> float | None:
        """The length to keep; None while that is open."""
        usual, best = self.seen[USUAL], self._best()
        if self._open():
            return None
        if self.seen[best].best > (1 - self.figures.trial_gain) * usual.best:
            return USUAL
        return best if self.seen[best].count >= self.figures.trial_sure else None


def _after_fork() -> None:
    """A thread that held the lock, or was in a run, does not exist in the child."""
    global _running
    _lock._at_fork_reinit()  # type: ignore[attr-defined]
    _running = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
