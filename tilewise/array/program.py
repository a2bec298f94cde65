"""What evaluating arrays would compute, to plan it. In: Arrays. Out: plans, with or without the arrays' data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewise import compiler
from tilewise.array.cell import LOCK
from tilewise.array.handle import NUMBER, Array, node_of
from tilewise.array.pending import CHEAP, pending_cells
from tilewise.array.session import cluster_here
from tilewise.array.workers import nearest
from tilewise.config import Settings, current
from tilewise.cost.model import FIXED, Machine
from tilewise.engine.cluster import Remote
from tilewise.ir.node import Length, Node, freeze, numbered, thaw_all, walk
from tilewise.layout import Layout, Mesh, OnDriver


@dataclass(frozen=True)
class Absent:
    """Stands for a value in a program apart from its data: its type, and where it lay on a mesh."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    layouts: tuple[Layout, ...]
    mesh: Mesh | None


@dataclass(frozen=True)
class Program:
    """What evaluating arrays would compute: nodes wanted (what has a handle included), and which were asked for."""

    roots: tuple[Node, ...]
    asked: tuple[int, ...]
    settings: Settings
    new: Mapping[Node, Node] = field(default_factory=dict)  # what was recorded, and what rules made of it: the roots

    def plan(
        self, mesh: Mesh | None, machine: Machine = FIXED, memory: int | None = None
    ) -> tuple[Any, list[Node], list[int]]:
        """The plan on a mesh (None: here), its nodes and the wanted positions."""
        with LOCK:
            at = numbered(self.roots)
            nodes = list(at)
            if mesh is None or not nodes:
                wanted = sorted(at[r] for r in self.roots)
                return compiler.prepare(at, wanted, self.settings, compiler.structure_of(at)), nodes, wanted
            where = {n: _layouts(n, mesh, self.settings) for n in nodes if n.value is not None}
            with _longest(nodes):
                wanted = [at[r] for r in self.roots]
                plan = compiler.prepare_mesh(nodes, wanted, where, mesh, self.settings, machine, memory, to_show=True)
            return plan, nodes, [plan.wanted[k] for k in self.asked]

    def outline(self) -> Callable[[], Program]:
        """A way to have the program again that holds none of its data, nor keeps anything pending."""
        cluster, _ = cluster_here(self.settings.blocks)
        mesh = None if cluster is None else cluster.mesh
        (rows, ends), asked, settings = freeze(self.roots), self.asked, self.settings
        for i, n in enumerate(walk(self.roots)):
            if n.value is not None:
                layouts = (OnDriver(),) if mesh is None else _layouts(n, mesh, self.settings)
                rows[i] = (Absent(n.dims, n.dtype, layouts, mesh), *rows[i][1:])
        return lambda: Program(tuple(thaw_all((rows, ends))), asked, settings)


def program_of(arrays: Sequence[Array]) -> Program:
    """What evaluating arrays now would compute: of a view also all that it is a view of; of what is here nothing."""
    with LOCK:
        settings = current()
        away = [x for x in arrays if x._cell is not NUMBER and not isinstance(x._cell.read().value, np.ndarray)]
        recorded = [*(x._cell.read() for x in away), *(node_of(x) for x in away)]
        new = compiler.rewritten(recorded, compiler.structure_of(numbered(recorded)), settings) or {}
        asked = [new.get(n, n) for n in recorded]
        at = set(walk(asked))
        kept = [new.get(c.node, c.node) for c in pending_cells() if c.node is not None]
        roots = tuple(dict.fromkeys([*asked, *(n for n in kept if n in at and not isinstance(n.op, CHEAP))]))
        return Program(roots, tuple(roots.index(n) for n in asked[len(away) :]), settings, new)


def _layouts(n: Node, mesh: Mesh, settings: Settings) -> tuple[Layout, ...]:
    """Where a leaf lies, for a plan on a mesh."""
    if isinstance(n.value, Absent):
        return n.value.layouts if n.value.mesh == mesh else (OnDriver(),)
    cluster, _ = cluster_here(settings.blocks)
    if cluster is None or cluster.mesh != mesh:
        return (OnDriver(),)
    return tuple(v.layout if isinstance(v, Remote) else OnDriver() for v in nearest(n, cluster))


@contextmanager
def _longest(nodes: Sequence[Node]) -> Iterator[None]:
    """Lengths that masks will decide stand at the most they can be."""
    unknown = [d for n in nodes for d in n.shape if type(d) is Length and d.value is None]
    for d in unknown:
        d.value = d.mask.size
    try:
        yield
    finally:
        for d in unknown:
            d.value = None
