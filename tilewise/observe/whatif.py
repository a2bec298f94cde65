"""The same program on other meshes. In: a way to plan it again, sizes. Out: one table. Runs nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tilewise.layout import Layout, Mesh, Outside, bare, describe
from tilewise.observe.rows import bytes_text, time_text
from tilewise.records import dataclass

HEAD = ("workers", "time", "exchanges", "speed-up", "bytes that cross", "bytes/worker", "memory/worker", "proof")
NOTED = 0.05  # of all bytes: a layout that has less is not named
NAMED = 2  # layouts


class Planned(Protocol):
    """What a row needs of a plan."""

    mesh: Mesh
    memory_bytes: int

    @property
    def seconds(self) -> float: ...
    @property
    def exchange_seconds(self) -> float: ...
    @property
    def network_bytes(self) -> int: ...
    @property
    def optimal(self) -> bool: ...
    @property
    def cost(self) -> float | None: ...
    @property
    def bound(self) -> float | None: ...
    @property
    def main_layouts(self) -> str: ...


Again = Callable[[Any], Planned]  # from a number of workers, or the lengths of a grid


@dataclass(frozen=True)
class WhatIfRow:
    """The program on one mesh. `speedup` is over one worker; `fits` says that it keeps to the memory asked for."""

    plan: Planned
    speedup: float
    fits: bool

    @property
    def mesh(self) -> Mesh:
        return self.plan.mesh

    @property
    def seconds(self) -> float:
        return self.plan.seconds

    @property
    def network_bytes(self) -> int:
        return self.plan.network_bytes

    @property
    def worker_bytes(self) -> float:
        """Bytes that cross, per worker."""
        return self.plan.network_bytes / self.plan.mesh.workers

    @property
    def memory_bytes(self) -> int:
        return self.plan.memory_bytes

    def cells(self) -> tuple[str, ...]:
        """The row under HEAD."""
        p = self.plan
        return (
            str(p.mesh),
            time_text(p.seconds),
            time_text(p.exchange_seconds),
            f"{self.speedup:,.2f}",
            f"{p.network_bytes:,}",
            f"{self.worker_bytes:,.0f}",
            bytes_text(p.memory_bytes),
            self.proof,
        )

    @property
    def proof(self) -> str:
        """Whether no choice of layouts is cheaper; else by how much one may be."""
        if self.plan.optimal:
            return "proved"
        if not self.plan.cost or self.plan.bound is None:
            return "none"
        return f"gap {100 * (1 - self.plan.bound / self.plan.cost):.2g} %"

    def words(self) -> str:
        """Layouts, and what else is to be said."""
        return self.plan.main_layouts + ("" if self.fits else "; more than memory=")


@dataclass(frozen=True)
class WhatIf:
    """One program over several meshes; `str` is a table."""

    rows: tuple[WhatIfRow, ...]

    def __str__(self) -> str:
        table = [HEAD, *(row.cells() for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        words = ["main layouts", *(row.words() for row in self.rows)]
        lines = [
            "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True)) + "  " + word
            for cells, word in zip(table, words, strict=True)
        ]
        lines.append("Bringing inputs from the driver to workers, and results back, is included.")
        return "\n".join(lines)

    __repr__ = __str__


def what_if(again: Again, sizes: Sequence[Any], memory: int | None = None) -> WhatIf:
    """Plan the program on each size."""
    plans = [again(size) for size in sizes]
    alone = next((p for p in plans if p.mesh.workers == 1), None) or again(1)
    rows = []
    for p in plans:
        speedup = alone.seconds / p.seconds if p.seconds else 1.0
        rows.append(WhatIfRow(p, speedup, memory is None or p.memory_bytes <= memory))
    return WhatIf(tuple(rows))


def main_layouts(values: Sequence[tuple[Layout, int]]) -> str:
    """The layouts that most bytes are in, as words. In: layout and bytes of every value.

    >>> from tilewise.layout import Replicate, Shard
    >>> main_layouts([(Shard(0, (0, 5, 10)), 80), (Replicate(), 8)])
    'rows 91 %, replicated 9 %'
    """
    share: dict[str, int] = {}
    for layout, size in values:
        if not isinstance(layout, Outside):
            name = re.sub(r"/\d+( uneven)?", "", describe(bare(layout)))
            share[name] = share.get(name, 0) + size
    total = sum(share.values()) or 1
    most = sorted(share.items(), key=lambda pair: -pair[1])[:NAMED]
    return ", ".join(f"{name} {100 * n / total:.0f} %" for name, n in most if n >= NOTED * total)
