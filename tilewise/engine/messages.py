"""What driver and hosts tell each other about a run. In: plain words, as they are sent. Out: named ones."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from tilewise import events
from tilewise.engine.network.frames import name_of
from tilewise.store.base import Source

TOLD_BYTES = 64  # of a result, at most, that goes with the report of a run


class Start(NamedTuple):
    """What begins a run of a plan."""

    epoch: int
    run: int  # its number in the epoch
    number: int  # of the plan
    leaves: tuple[int | Source | bytes | None, ...]  # keys; sources (packed) to read from; None: the driver has it
    consts: tuple[Any, ...]
    keys: tuple[int, ...]  # what its results are to be called
    backend: str
    gone: tuple[int, ...]  # keys that nobody needs any more
    traced: bool = False  # whether the driver wants the events
    sinks: tuple[bytes | None, ...] = ()  # where results are written (packed), if any are

    def packed(self) -> tuple[Any, ...]:
        """In plain words."""
        return Start.words(*self)

    @staticmethod
    def words(
        epoch: int, run: int, number: int, leaves: tuple[Any, ...], consts: Sequence[Any], *rest: Any
    ) -> tuple[Any, ...]:
        """In plain words: to pickle a class or a NumPy scalar takes as long as all the rest of a message."""
        plain = [(name_of(c.dtype), c.tobytes()) for c in consts] if consts else ()
        return (epoch, run, number, leaves, plain, *rest)

    @staticmethod
    def unpacked(words: tuple[Any, ...]) -> Start:
        """What `words` was given."""
        if not words[4]:
            return Start._make(words)
        consts = tuple([np.frombuffer(raw, dtype)[0] for dtype, raw in words[4]])
        return Start._make((*words[:4], consts, *words[5:]))


class Report(NamedTuple):
    """What the workers of a host did in a run, or those of all hosts."""

    network_bytes: int  # that came from other workers
    read_bytes: int  # from sources
    peak_bytes: int  # the most that the blocks of one worker took up at once
    disk: tuple[int, int, int] = (0, 0, 0)  # bytes to spill files, from them, to sinks
    stolen_blocks: int = 0  # that idle processes computed for this one
    stolen_bytes: int = 0  # that moved for that, both ways
    events: tuple[events.Event, ...] = ()  # if the driver asked for them
    clock: float = 0.0  # of this process, when it was made
    told: tuple[tuple[int, Any], ...] = ()  # small results of worker 0, by their number: the driver need not ask

    @staticmethod
    def all_of(reports: Sequence[Report]) -> Report:
        """What several did together; the peak is that of the one with the highest."""
        if len(reports) == 1:
            return reports[0]
        if all([r[3:-1] == _NOTHING_ELSE for r in reports]):  # most
            return Report(sum([r[0] for r in reports]), sum([r[1] for r in reports]), max([r[2] for r in reports]))
        network, read, peak, disk, blocks, stolen, *_ = zip(*reports, strict=True)
        spilled, restored, written = map(sum, zip(*disk, strict=True))
        return Report(sum(network), sum(read), max(peak), (spilled, restored, written), sum(blocks), sum(stolen))

    def packed(self) -> tuple[Any, ...]:
        """In plain words, as far as there is something to say: the driver gets one of these for every run."""
        if self[3:-1] != _NOTHING_ELSE:
            return tuple(self)
        return (*self[:3], self.told) if self.told else self[:3]

    @staticmethod
    def unpacked(words: tuple[Any, ...]) -> Report:
        """What `packed` was called on (or this itself)."""
        return Report(*words[:3], told=words[3]) if len(words) == 4 else Report(*words)


_NOTHING_ELSE = Report(0, 0, 0)[3:-1]


def few_words(reports: Sequence[tuple[Any, ...]]) -> tuple[int, int, int] | None:
    """What several did together, where they say nothing but the three numbers that each has; else None."""
    network = read = peak = 0
    for one in reports:
        if len(one) != 3:
            return None
        arrived, from_sources, most = one
        network += arrived
        read += from_sources
        if most > peak:
            peak = most
    return network, read, peak


def on_the_drivers_clock(report: Report) -> Iterator[events.Event]:
    """Events of a report that has just come. Clocks of one machine are the same; those of others may be far apart."""
    behind = time.perf_counter() - report.clock
    shift = behind if abs(behind) > 1.0 else 0.0
    return (replace(e, start=e.start + shift, end=e.end + shift) for e in report.events)
