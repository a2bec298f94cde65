"""A plan in the making. In: a graph. Out: `Draft`, which every pass of the compiler takes and gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewise.layout import Layout
from tilewise.records import dataclass
from tilewise.stage.steps import Step


@dataclass(frozen=True)
class Draft:
    """A graph, what is wanted of it, and the steps so far. On a mesh, the nodes are those of the largest block."""

    nodes: Sequence[Any]
    wanted: Sequence[bool]
    fusion: bool  # operators share passes
    merge: bool  # sums may round differently than as written, within NumPy's bounds
    layouts: Sequence[Layout] | None = None  # on a mesh: layouts of values
    rolls: bool = True  # bodies that repeat themselves will be rolled: they may be long before
    steps: tuple[Step, ...] = ()
