"""Plans whose blocks take turns, for people. In: streams. Out: a `Plan` with what is read, spilled and held at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tilewise.cost.model import Rates
from tilewise.layout import Layout, describe
from tilewise.observe import table
from tilewise.observe.explain import Plan
from tilewise.observe.picture import Drawn
from tilewise.observe.rows import ExchangeRow, Part, Stage, StepRow, bytes_text, count_text, time_text
from tilewise.observe.whatif import Again
from tilewise.plan.shares import Shares
from tilewise.plan.streams import Loop, Streams

FILE, SPILL = "in a store", "in a spill file"


class InTurns(Plan):
    """A plan that stays within memory by taking blocks in turn, here or on workers; `str(plan)` is a table.

    >>> import tilewise as tw
    >>> with tw.config(eager_bytes=0), tw.session(memory="1MiB"):
    ...     plan = tw.explain(tw.random.Generator(tw.random.Counter(1)).normal(size=10**6).sum())
    >>> plan.memory_bytes <= 1 << 20, plan.blocks > 1, plan.spilled_bytes
    (True, True, 0)
    """

    def __init__(
        self,
        streams: Streams,
        machine: Rates,
        again: Again | None,
        budget: int | None,
        masks: Sequence[str],
        counting_bytes: int = 0,
        shares: Shares | None = None,
    ) -> None:
        plan = streams.plan
        super().__init__(
            plan.steps,
            plan.specs,
            plan.mesh,
            plan.layouts,
            plan,
            streams.wanted,
            machine,
            None,
            again,
            budget,
            (),
            masks,
        )
        self._streams, self._counting_bytes = streams, counting_bytes
        self._shares = shares or Shares(streams, 1, 0)
        self._direct: set[int] = set()  # results that loops write to a store
        self._to_driver = 0  # bytes of others, of chunks that it writes
        self._apart = tuple(self.parts)  # as if blocks were workers
        self.parts = [part for loop in streams.loops for part in self._loop(loop)]
        self.memory_bytes = streams.peak_bytes

    @property
    def blocks(self) -> int:
        """How many blocks take turns."""
        return self._streams.blocks

    @property
    def network_bytes(self) -> int:
        """Bytes that cross between workers (at most, where it depends on data): none on one."""
        if self._shares.workers == 1:
            return 0
        return self._shares.network_bytes + self._to_driver

    @property
    def read_bytes(self) -> int:
        """Bytes read from sources, in all passes over them, those that count masks included."""
        return self._counting_bytes + self._shares.read_bytes

    @property
    def spilled_bytes(self) -> int:
        """Bytes written to spill files (at most, where it depends on data)."""
        return self._moved.spilled_bytes - sum(self._specs[x].nbytes for x in self._direct)

    @property
    def restored_bytes(self) -> int:
        """Bytes read from spill files."""
        return self._moved.restored_bytes

    @property
    def _moved(self) -> Streams | Shares:
        return self._shares if self._shares.workers > 1 else self._streams

    @property
    def main_layouts(self) -> str:
        """All of it is here, if not at once."""
        return "whole"

    def write_by_loops(self, possible: Callable[[Streams, int, tuple[int, ...], Any, bool], bool]) -> None:
        """Results are written to a store, by the loops that make them where that is possible."""
        streams, far = self._streams, self._shares.workers > 1
        for pos in streams.wanted:
            if possible(streams, pos, self._specs[pos].shape, self._specs[pos].dtype, far):
                self._direct.add(pos)
        self.parts = [part for loop in streams.loops for part in self._loop(loop)]

    def write_results(self, crossing: Callable[[Layout, tuple[int, ...], Any], int]) -> None:
        """As `Plan.write_results`."""
        super().write_results(crossing)
        self._to_driver = sum(row.bytes for _, row in self.gathered)

    def _stored_from(self, pos: int) -> Layout | None:
        here = pos in self._direct or self._shares.workers == 1
        return None if here else self._shares.result(self._streams.origin[pos])

    def _loop(self, loop: Loop) -> list[Part]:
        streams, parts = self._streams, list[Part]()
        for x in (*loop.takes, *streams.read_once(loop)):
            if streams.in_file(x) and (nbytes := streams.taken_bytes(loop, x)):
                spilled = streams.origin[x] in streams.on_disk
                parts.append(self._file("restore" if spilled else "read", x, SPILL if spilled else FILE, "", nbytes))
        rows = [self._make.step(s) for s in (*loop.once, *loop.steps)]
        if rows:
            parts.append(Stage(tuple(self._in_all(r, k < len(loop.once)) for k, r in enumerate(rows))))
        for step in loop.after:
            traffic = streams.plan.traffic(step)
            assert traffic is not None
            row = self._make.collective(step.pos, streams.plan.layouts[step.input], traffic)
            parts.append(replace(row, source="from file to file"))
        for x in (*loop.gives, *(s.pos for s in loop.after)):
            if x in streams.on_disk and x not in self._direct:
                parts.append(self._file("spill", x, "", SPILL, streams.plan.specs[x].nbytes))
        return parts

    def _file(self, kind: str, pos: int, source: str, target: str, nbytes: int) -> ExchangeRow:
        layout = describe(self._streams.plan.layouts[pos])
        seconds = nbytes / self._machine.network_rate
        where = self._make.where(pos)
        return ExchangeRow(
            kind, self._make.value(pos), source or layout, target or layout, 0, seconds, where, read=nbytes
        )

    def _in_all(self, row: StepRow, once: bool) -> StepRow:
        """A step of one block, counted for all of them."""
        n = 1 if once else self.blocks
        return replace(row, bytes_read=row.bytes_read * n, bytes_written=row.bytes_written * n, seconds=row.seconds * n)

    def _drawn(self) -> Drawn:
        return replace(super()._drawn(), parts=self._apart)

    @property
    def totals(self) -> Any:
        """As `Plan.totals`; what is sent goes between workers, not between blocks."""
        return replace(super().totals, sent=self.network_bytes)

    def _head(self) -> list[str]:
        passes = sum(len(s.passes) for s in self.stages)
        spilled = (
            f"{self.spilled_bytes:,} are spilled and {self.restored_bytes:,} read again, " if self.spilled_bytes else ""
        )
        workers, sent = self._shares.workers, self.network_bytes
        written = f"{self.written_bytes:,} are written to a store, " if self.written_bytes else ""
        crosses = f"{sent:,} cross between workers, " if workers > 1 else ""
        return [
            f"Plan for {count_text(workers, 'worker')}, {self.blocks:,} blocks in turn: "
            f"{count_text(len(self._streams.loops), 'loop')} over them, {count_text(passes, 'pass')}",
            f"{self.read_bytes:,} bytes are read from sources, {written}{spilled}{crosses}"
            f"peak {bytes_text(self.memory_bytes)}, "
            f"predicted {time_text(self.seconds)} (files {time_text(self.exchange_seconds)})",
            table.sum_text(self.totals.read, self.totals.written, self.totals.allocated, sent),
            *[f"A mask keeps {m}; it is counted first, and the rest is planned by what it keeps." for m in self._masks],
        ]
