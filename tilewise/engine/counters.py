"""What has been moved: between workers, to and from disk. In: plans that run. Out: numbers to look at."""

from __future__ import annotations

from tilewise.records import dataclass


@dataclass
class DiskCounters:
    """Bytes that streams have read from sources, written to spill files and read from these; and what was announced."""

    read_bytes: int = 0
    spilled_bytes: int = 0
    restored_bytes: int = 0
    written_bytes: int = 0  # to sinks, by the loop that made them
    again_bytes: int = 0  # read or written once more because another worker took a block: no part of the others
    peak_bytes: int = 0  # that were set aside at once in the last stream
    predicted_read_bytes: int = 0
    predicted_spilled_bytes: int = 0  # at most, where it depends on data
    predicted_restored_bytes: int = 0
    blocks: int = 0  # of the last stream


@dataclass
class Counters:
    """What an engine has moved so far. What was moved again because a worker was lost is counted apart."""

    network_bytes: int = 0  # counted where they arrive
    predicted_bytes: int = 0  # what the plans said of exchanges that do not depend on data
    bounded_bytes: int = 0  # the most they said of those that do
    exchanges: int = 0
    replays: int = 0
    replayed_bytes: int = 0
    copies: int = 0  # of what workers held at a moment
    copied_bytes: int = 0  # to neighbours
    stolen_blocks: int = 0  # that idle workers computed for busy ones
    stolen_bytes: int = 0  # operands and results of those, and what was read once more for them
    saves: int = 0  # of what workers held, to the session's checkpoint
    saved_bytes: int = 0  # to its files
    read_bytes: int = 0  # by workers, from sources
    written_bytes: int = 0  # to sinks, by workers and by the driver for them
    peak_bytes: int = 0  # the most that a worker's blocks took up in the last plan
