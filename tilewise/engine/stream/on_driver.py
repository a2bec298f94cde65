"""Blocks in turn on workers, as the driver sees them. In: shares of a plan. Out: what is sent, kept and counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilewise.engine.counters import DiskCounters
from tilewise.engine.rounds import Move
from tilewise.layout import Layout, OnDriver, Replicate, moves
from tilewise.plan.blocks import Spec
from tilewise.plan.exchanges import Exchanges
from tilewise.plan.shares import Shares

if TYPE_CHECKING:
    from tilewise.engine.messages import Report


def results_of(plan: Exchanges | Shares) -> list[tuple[Spec, Layout, bool]]:
    """The results of a plan: their types, how they lie on workers, and whether in files."""
    if isinstance(plan, Exchanges):
        return [(plan.specs[p], plan.layouts[p], False) for p in plan.wanted]
    found = []
    for p in plan.wanted:
        origin = plan.streams.origin[p]
        layout = plan.result(origin)
        assert layout is not None, "workers were asked whether they can share it"
        found.append((plan.streams.plan.specs[p], layout, origin in plan.streams.on_disk))
    return found


def scattering(shares: Shares) -> tuple[Move, ...]:
    """The driver's arrays, of which every worker gets all."""
    specs = shares.streams.plan.specs
    return tuple(
        Move(
            moves(OnDriver(), Replicate(), specs[x].shape, shares.mesh),
            x,
            x,
            specs[x].dtype,
            specs[x].order,
            True,
            (),
            specs[x].site,
        )
        for x in shares.scattered
    )


def count_disk(disk: DiskCounters, shares: Shares, report: Report, sinks: Sequence[bytes]) -> None:
    """Count what the loops of all workers did, beside what was announced."""
    spilled, restored, written = report.disk
    disk.blocks = shares.streams.blocks
    disk.read_bytes += report.read_bytes
    disk.spilled_bytes += spilled
    disk.restored_bytes += restored
    disk.written_bytes += written
    disk.peak_bytes = report.peak_bytes
    disk.predicted_read_bytes += shares.read_bytes
    disk.predicted_spilled_bytes += shares.spilled_bytes - (written if sinks else 0)
    disk.predicted_restored_bytes += shares.restored_bytes
