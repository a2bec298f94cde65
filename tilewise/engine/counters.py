"""What plans that run block by block have moved to and from disk. In: the stream that runs. Out: numbers to look at."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class DiskCounters:
    """Bytes that streams have read from sources, written to spill files and read from these; and what was announced."""

    read_bytes: int = 0
    spilled_bytes: int = 0
    restored_bytes: int = 0
    written_bytes: int = 0  # to sinks, by the loop that made them
    peak_bytes: int = 0  # that were set aside at once in the last stream
    predicted_read_bytes: int = 0
    predicted_spilled_bytes: int = 0  # at most, where it depends on data
    predicted_restored_bytes: int = 0
    blocks: int = 0  # of the last stream
