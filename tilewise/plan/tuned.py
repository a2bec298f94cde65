"""Lengths of tiles that turned out to be the best. In: a group, how it is cut. Out: a factor of the estimate, if known.

Geometries of one class (the same kernels, sizes up to a power of two) share a `Record`. Records are found out by
engine/tuning.py and kept on disk, beside compiled code.
"""

from __future__ import annotations

import importlib
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewise.machine import machine
from tilewise.plan.steps import Tiled, passes
from tilewise.plan.tiling import Tiling
from tilewise.target.threads import get_threads

USUAL = 1.0
FACTORS = (2.0, 0.5, 4.0, 0.25)  # in the order they are tried
RECORDS = 4096  # remembered

Class = tuple[Path, Hashable]


def class_of(folder: Path, step: Tiled, cut: Tiling) -> Class:
    """What geometries have in common that one record serves, in plain values; and where the record is kept."""
    kernels = tuple((p.kernel, p.letters, cut.way.dims[p.outs[0]]) for p in passes(step))
    sizes = cut.way.length.bit_length(), cut.each.bit_length()
    return folder, ("tiles 1", kernels, sizes, get_threads(), machine().l2_bytes)


@dataclass
class Record:
    """The best length of a class; None: not known yet."""

    where: Class
    factor: float | None

    def settle(self, factor: float) -> None:
        """Know the best length, here and in other processes."""
        self.factor = factor
        _llvm().keep(*self.where, {"factor": factor})


_records: dict[Class, Record] = {}  # setdefault is atomic


def record_of(where: Class) -> Record:
    """The record of a class: what this process found out, else what is on disk."""
    found = _records.get(where)
    if found is None:
        fact = _llvm().recall(*where)
        factor = fact.get("factor") if isinstance(fact, dict) else None
        known = isinstance(factor, float) and factor in (USUAL, *FACTORS)
        if len(_records) >= RECORDS:
            _records.clear()
        found = _records.setdefault(where, Record(where, factor if known else None))
    return found


def forget() -> None:
    """Know only what is on disk, as a new process does."""
    _records.clear()


def _llvm() -> Any:
    return importlib.import_module("tilewise.target.llvm")
