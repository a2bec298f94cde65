"""Profiles. In: events while a block of code runs. Out: bytes, seconds, kernels, a timeline."""

from __future__ import annotations

import time
from dataclasses import field
from typing import Any

from tilewise import events
from tilewise.config import current
from tilewise.cost.stored import load
from tilewise.events import Event
from tilewise.records import dataclass
from tilewise.store import pool

EXCHANGES_SHOWN = 10
TIMED = ("pass", "call", "write", "exchange", "gather", "read", "spill", "store", "stolen")  # what a worker does


@dataclass
class KernelRow:
    """All runs of one kernel (or operator)."""

    name: str
    calls: int = 0
    seconds: float = 0.0
    bytes: int = 0
    flops: float = 0.0

    @property
    def flop_rate(self) -> float:
        """Operations on numbers per second."""
        return self.flops / self.seconds if self.seconds else 0.0

    @property
    def rate(self) -> float:
        """Bytes per second."""
        return self.bytes / self.seconds if self.seconds else 0.0


@dataclass
class ExchangeRow:
    """All runs of one exchange: what it is called, the line that caused it, how often workers got something by it."""

    name: str
    where: str
    pieces: int = 0
    bytes: int = 0


@dataclass
class WorkerRow:
    """What one worker did: seconds of work, of exchanges and files, and with nothing to do; bytes that came or went."""

    worker: int
    busy_seconds: float = 0.0
    exchange_seconds: float = 0.0
    disk_seconds: float = 0.0
    idle_seconds: float = 0.0
    network_bytes: int = 0  # that came from other workers
    read_bytes: int = 0
    spilled_bytes: int = 0
    stolen_bytes: int = 0  # of blocks that others computed for it, both ways


@dataclass
class Profile:
    """What ran inside a `with tw.profile() as p:` block; read it afterwards.

    >>> import tilewise as tw
    >>> with tw.config(eager_bytes=0), tw.profile() as p:
    ...     total = float(tw.arange(10.0).sum())
    >>> p.network_bytes
    0
    """

    seconds: float = 0.0
    network_bytes: int = 0
    read_bytes: int = 0  # from sources
    written_bytes: int = 0  # to files and other sinks
    peak_bytes: int = 0  # of pooled memory in this process, or of one worker's blocks elsewhere if these were more
    worker_peak_bytes: int = 0  # the most that the blocks of one worker took up
    timeline: list[Event] = field(default_factory=list)
    planning: list[Event] = field(default_factory=list)  # passes of the compiler
    _start: float = 0.0

    def __enter__(self) -> Profile:
        self._start = time.perf_counter()
        pool.reset_peak()
        events.listeners.append(self._hear)
        return self

    def __exit__(self, *error: Any) -> None:
        events.listeners.remove(self._hear)
        self.seconds = time.perf_counter() - self._start
        self.peak_bytes = max(pool.peak_bytes(), self.worker_peak_bytes)

    def _hear(self, event: Event) -> None:
        if event.kind == "compile":
            self.planning.append(event)
            return
        self.timeline.append(event)
        if event.kind in ("exchange", "gather"):
            self.network_bytes += event.bytes
        elif event.kind == "read":
            self.read_bytes += event.bytes
        elif event.kind == "store":
            self.written_bytes += event.bytes
        elif event.kind == "memory":
            self.worker_peak_bytes = max(self.worker_peak_bytes, event.bytes)

    @property
    def kernels(self) -> list[KernelRow]:
        """Passes and operators, the slowest first."""
        rows: dict[str, KernelRow] = {}
        for e in self.timeline:
            if e.kind in ("pass", "call", "write"):
                row = rows.setdefault(e.name, KernelRow(e.name))
                row.calls += 1
                row.seconds += e.end - e.start
                row.bytes += e.bytes
                row.flops += e.flops
        return sorted(rows.values(), key=lambda r: -r.seconds)

    @property
    def workers(self) -> list[WorkerRow]:
        """By worker, what the timeline says of it.

        >>> import tilewise as tw
        >>> with tw.config(eager_bytes=0), tw.session(engine="virtual", workers=2), tw.profile() as p:
        ...     total = float(tw.asarray([1.0, 2.0, 3.0, 4.0]).sum())
        >>> [row.worker for row in p.workers], sum(row.network_bytes for row in p.workers) == p.network_bytes
        ([0, 1], True)
        """
        rows: dict[int, WorkerRow] = {}
        ends: dict[int, float] = {}
        for e in sorted(self.timeline, key=lambda e: e.start):
            if e.kind not in TIMED:
                continue
            row = rows.setdefault(e.worker, WorkerRow(e.worker))
            seconds = e.end - e.start
            if e.kind in ("pass", "call", "write"):
                row.busy_seconds += seconds
            elif e.kind in ("read", "spill", "store"):
                row.disk_seconds += seconds
            elif e.kind != "stolen":
                row.exchange_seconds += seconds
            row.network_bytes += e.bytes if e.kind in ("exchange", "gather") else 0
            row.read_bytes += e.bytes if e.kind == "read" else 0
            row.spilled_bytes += e.bytes if e.kind == "spill" else 0
            row.stolen_bytes += e.bytes if e.kind == "stolen" else 0
            row.idle_seconds += max(0.0, e.start - ends.get(e.worker, self._start))
            ends[e.worker] = max(e.end, ends.get(e.worker, self._start))
        for worker, row in rows.items():
            row.idle_seconds += max(0.0, self._start + self.seconds - ends[worker])
        return [rows[w] for w in sorted(rows)]

    @property
    def stolen_bytes(self) -> int:
        """Bytes that moved because idle workers computed blocks of busy ones; no part of `network_bytes`."""
        return sum(e.bytes for e in self.timeline if e.kind == "stolen")

    @property
    def retries(self) -> int:
        """How often workers were lost and brought back."""
        return sum(e.kind == "retry" for e in self.timeline)

    @property
    def exchanges(self) -> list[ExchangeRow]:
        """What workers sent to each other, by kind and line, the most bytes first."""
        rows: dict[tuple[str, str], ExchangeRow] = {}
        for e in self.timeline:
            if e.kind in ("exchange", "gather") and e.bytes:
                row = rows.setdefault((e.name, e.where), ExchangeRow(e.name, e.where))
                row.pieces += 1
                row.bytes += e.bytes
        return sorted(rows.values(), key=lambda r: -r.bytes)

    @property
    def needed(self) -> dict[str, int]:
        """By the line that needed values (`float(x)`, a mask's length, the end of a loop's body): bytes that moved.

        >>> import tilewise as tw
        >>> with tw.config(eager_bytes=0), tw.session(engine="virtual", workers=2), tw.profile() as p:
        ...     total = float(tw.asarray([1.0, 2.0, 3.0, 4.0]).sum())
        >>> sum(p.needed.values()) == p.network_bytes > 0
        True
        """
        found: dict[str, int] = {}
        for e in self.timeline:
            if e.kind == "needed" and e.bytes:
                found[e.where] = found.get(e.where, 0) + e.bytes
        return dict(sorted(found.items(), key=lambda row: -row[1]))

    @property
    def worker_peaks(self) -> dict[int, int]:
        """By worker: the most bytes that its blocks took up."""
        peaks: dict[int, int] = {}
        for e in self.timeline:
            if e.kind == "memory":
                peaks[e.worker] = max(e.bytes, peaks.get(e.worker, 0))
        return peaks

    @property
    def worker_processes(self) -> dict[int, int]:
        """By worker that has a process of its own: the most bytes that it took up after a plan, all included."""
        sizes: dict[int, int] = {}
        for e in self.timeline:
            if e.kind == "process":
                sizes[e.worker] = max(e.bytes, sizes.get(e.worker, 0))
        return sizes

    def of_worker(self, worker: int) -> list[Event]:
        """The timeline of one worker."""
        return [e for e in self.timeline if e.worker == worker]

    @property
    def passes(self) -> dict[str, float]:
        """Seconds in each pass of the compiler, by name; a plan that is found again takes none.

        >>> import tilewise as tw
        >>> with tw.config(eager_bytes=0), tw.profile() as p:
        ...     total = float((tw.arange(11.0) * 3 + 1).prod())
        >>> set(p.passes) <= {"rewrite", "solve", "fuse", "roll", "tile", "schedule", "liveness"}
        True
        """
        found: dict[str, float] = {}
        for e in self.planning:
            found[e.name] = found.get(e.name, 0.0) + e.end - e.start
        return found

    @property
    def fallbacks(self) -> list[Event]:
        """Functions that were handed to NumPy."""
        return [e for e in self.timeline if e.kind == "fallback"]

    def __str__(self) -> str:
        lines = [
            f"{self.seconds * 1e3:,.1f} ms, {self.network_bytes:,} bytes between workers, "
            f"{len(self.fallbacks)} fallbacks",
            f"{'calls':>6} {'ms':>10} {'GB/s':>7} {'GFLOP/s':>8}  what",
        ]
        for r in self.kernels:
            rates = f"{r.rate / 1e9:>7.1f} {r.flop_rate / 1e9:>8.1f}"
            lines.append(f"{r.calls:>6} {r.seconds * 1e3:>10.2f} {rates}  {r.name[:90]}")
        for x in self.exchanges[:EXCHANGES_SHOWN]:
            lines.append(f"{x.bytes:>26,} bytes  {x.name} {x.where}".rstrip())
        for where, moved in list(self.needed.items())[:EXCHANGES_SHOWN]:
            lines.append(f"{moved:>26,} bytes  needed by {where}")
        if len(workers := self.workers) > 1:
            lines.append(
                f"{'worker':>8} {'busy ms':>9} {'exchange':>9} {'disk':>7} {'idle':>8} {'bytes':>13} {'stolen':>11}"
            )
            for w in workers:
                times = (w.busy_seconds, w.exchange_seconds, w.disk_seconds, w.idle_seconds)
                busy, moving, disk, idle = (1e3 * t for t in times)
                lines.append(
                    f"{w.worker:>8} {busy:>9.1f} {moving:>9.1f} {disk:>7.1f} {idle:>8.1f} {w.network_bytes:>13,} "
                    f"{w.stolen_bytes:>11,}"
                )
        if self.retries:
            lines.append(f"lost workers were brought back {self.retries} times")
        if len(peaks := self.worker_peaks) > 1:
            each = ", ".join(f"{peaks[w]:,}" for w in sorted(peaks))
            lines.append(f"peak bytes of workers: {each}")
        if sizes := self.worker_processes:
            each = ", ".join(f"{sizes[w]:,}" for w in sorted(sizes))
            lines.append(f"bytes of their processes: {each}")
        if self.passes:
            each = ", ".join(f"{name} {s * 1e3:.2f}" for name, s in self.passes.items())
            lines.append(f"planning {sum(self.passes.values()) * 1e3:.2f} ms: {each}")
        machine = load(current().cache_dir)
        if machine is not None:
            limits = f"{machine.memory_rate / 1e9:>7.1f} {machine.flop_rate / 1e9:>8.1f}"
            lines.append(f"{'':>17} {limits}  this machine's memory, and BLAS (tilewise calibrate)")
        return "\n".join(lines)
