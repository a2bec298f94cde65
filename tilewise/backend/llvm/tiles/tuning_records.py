"""Lengths of tiles that turned out to be the best. In: a group, how it is cut. Out: a factor of the estimate, if known.

Geometries of one class (the same kernels, sizes up to a power of two) share a `Record`. Records are found out by
tuning.py and kept on disk, beside compiled code.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path

from tilewise.backend.llvm.compile.notes import keep, recall
from tilewise.backend.threads import get_threads
from tilewise.machine import machine
from tilewise.stage.steps import Tiled, passes
from tilewise.stage.tiles import Tiling

USUAL = 1.0
FACTORS = (2.0, 0.5, 4.0, 0.25)  # in the order they are tried
RECORDS = 4096  # remembered

Class = tuple[Path, Hashable]


def class_of(folder: Path, step: Tiled, cut: Tiling) -> Class:
    """What geometries have in common that one record serves, in plain values; and where the record is kept."""
    kernels = tuple((p.kernel, p.letters, cut.way.dims[p.outs[0]]) for p in passes(step))
    sizes = cut.way.length.bit_length(), cut.each.bit_length()
    m = machine()
    return folder, ("tiles 2", kernels, sizes, get_threads(), m.l1_bytes, m.l2_bytes)


@dataclass
class Record:
    """The best length of a class; None: not known yet."""

    where: Class
    factor: float | None

    def settle(self, factor: float) -> None:
        """Know the best length, here and in other processes."""
        self.factor = factor
        keep(*self.where, {"factor": factor})


_records: dict[Class, Record] = {}  # setdefault is atomic


def record_of(where: Class) -> Record:
    """The record of a class: what this process found out, else what is on disk."""
    found = _records.get(where)
    if found is None:
        fact = recall(*where)
        factor = fact.get("factor") if isinstance(fact, dict) else None
        known = isinstance(factor, float) and factor in (USUAL, *FACTORS)
        if len(_records) >= RECORDS:
            _records.clear()
        found = _records.setdefault(where, Record(where, factor if known else None))
    return found


def forget() -> None:
    """Know only what is on disk, as a new process does."""
    _records.clear()


def known() -> list[Record]:
    """The records of all classes met, settled or not."""
    return list(_records.values())
