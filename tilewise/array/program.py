"""What evaluating arrays would compute, to plan it. In: Arrays. Out: plans, with or without the arrays' data."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from typing import Any

import numpy as np

from tilewise import compiler
from tilewise.array.cell import LOCK
from tilewise.array.evaluation.workers import cutting_whole, elsewhere, layout_on, nearest
from tilewise.array.handle import NUMBER, Array, node_of
from tilewise.array.parts import only_handle, part_of, shared_with_mask
from tilewise.array.pending import CHEAP, pending_cells, waiting
from tilewise.array.session import cluster_here
from tilewise.array.slices import sliced_inputs, sliced_sources
from tilewise.compiler import mesh as mesh_compiler
from tilewise.config import Settings, current
from tilewise.cost.model import FIXED, Rates
from tilewise.engine.cluster import Cluster
from tilewise.ir.node import Length, Node, freeze, thaw_all, walk
from tilewise.layout import Layout, Mesh, OnDriver, Stored
from tilewise.ops.const import Const
from tilewise.ops.reduce import reduce
from tilewise.ops.views import Cut
from tilewise.plan.exchanges import Exchanges
from tilewise.plan.memory import held_bytes
from tilewise.records import dataclass
from tilewise.store.base import Source


@dataclass(frozen=True)
class Absent:
    """Stands for a value in a program apart from its data: its type, and where it lay on a mesh (None: on any)."""

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
    copies: dict[Node, list[Layout]] = field(default_factory=dict)  # inputs that will lie on a mesh already
    brought: dict[Node, int] = field(default_factory=dict)  # inputs that counting masks brings there: bytes per worker
    dropped: list[int] = field(default_factory=list)  # bytes that go before a plan runs, of what it does not read
    cuts: list[Exchanges] = field(default_factory=list)  # plans that make inputs smaller before
    passes: tuple[tuple[str, float], ...] = ()  # of the compiler so far: names and seconds

    def plan(
        self, mesh: Mesh | None, machine: Rates = FIXED, memory: int | None = None
    ) -> tuple[Any, list[Node], list[int]]:
        """The plan on a mesh (None: here), its nodes and the wanted positions; lengths must be known or expected."""
        at, _, structure = compiler.graph_of(self.roots)
        nodes = list(at)
        if mesh is None or not nodes:
            wanted = sorted(at[r] for r in self.roots)
            return compiler.prepare(at, wanted, self.settings, structure), nodes, wanted
        roots = compiler.narrowed(self.roots, self.settings)
        if self.settings.rewrite:
            roots = sliced_inputs(roots, lambda n: self._on_driver(n, mesh), _absent_part)
        if roots is not self.roots:
            nodes = walk(roots)
            at = {n: i for i, n in enumerate(nodes)}
        wanted = [at[r] for r in roots]

        def made(memory: int | None) -> Exchanges:
            given = [n for n in nodes if n.value is not None]
            where = {n: tuple(self.copies.get(n, ())) or _layouts(n, mesh, self.settings) for n in given}
            return mesh_compiler.prepare_mesh(nodes, wanted, where, mesh, self.settings, machine, memory, to_show=True)

        plan = made(memory)
        if (
            memory is not None
            and mesh_compiler.mesh_peak(plan) > memory
            and (cluster := self._workers(mesh)) is not None
        ):
            freed = self._drop_copies(nodes, cluster)
            plan = made(memory + freed)
            if mesh_compiler.mesh_peak(plan) > memory + freed:
                freed += self._cut_whole_ones(nodes, cluster)
                plan = made(memory + freed)
            self.dropped.append(freed)
        return plan, nodes, [plan.wanted[k] for k in self.asked]

    def _workers(self, mesh: Mesh) -> Cluster | None:
        """The session's workers, if this is their mesh."""
        cluster, stays = cluster_here(self.settings.blocks)
        return cluster if cluster is not None and stays and cluster.mesh == mesh else None

    def _drop_copies(self, nodes: Sequence[Node], cluster: Cluster) -> int:
        """Plan as if copies that may be dropped had been: how many bytes that are not read they take."""
        given = [n for n in nodes if n.value is not None and not isinstance(n.value, Absent)]
        read = [v for n in given for v in nearest(n, cluster)]
        for n in given:
            self.copies[n] = [layout_on(v, cluster) for v in nearest(n, cluster, spare=False)]
        return elsewhere(cluster, read) - elsewhere(cluster, read, spare=False)

    def _cut_whole_ones(self, nodes: Sequence[Node], cluster: Cluster) -> int:
        """Plan as if workers kept only parts of what they hold all of: the bytes it gives of what is not read."""
        leaves = {id(n.value): n for n in nodes if n.value is not None}
        freed = 0
        for v in cluster.living():
            plan = None if v.spare else cutting_whole(v, self.settings)
            if plan is None:
                continue
            self.cuts.append(plan)
            pos = plan.wanted[0]
            if id(v) in leaves:
                self.copies[leaves[id(v)]] = [plan.layouts[pos]]
            else:
                freed += v.held_bytes - held_bytes(plan.specs[pos], plan.layouts[pos], plan.mesh)
        return freed

    def on_mesh(self) -> Program:
        """What workers are given to compute: reductions of what masks select are done where it lies."""
        asked = [self.roots[k] for k in self.asked]
        spare = compiler.never_selected(self.roots, asked, self.settings)
        before = tuple(n for n in self.roots if n not in spare)
        roots = compiler.selected(before, self.settings)
        if roots is before and not spare:
            return self
        new = {**self.new, **dict(zip(before, roots, strict=True))}
        return replace(self, roots=tuple(roots), asked=tuple(map(before.index, asked)), new=new, copies={})

    def _on_driver(self, n: Node, mesh: Mesh) -> bool:
        """Whether a leaf is an array of this process that a mesh has no copy of."""
        if n in self.copies or isinstance(n.value, Source):
            return False
        return _layouts(n, mesh, self.settings) == (OnDriver(),)

    @contextmanager
    def counted(
        self, lengths: Sequence[Length], mesh: Mesh, machine: Rates, memory: int | None
    ) -> Iterator[list[tuple[Exchanges, int]]]:
        """The plans that count masks on a mesh before the rest is planned, with the positions of the counts.

        What they compute, and what they bring there, is on the mesh as long as the block lasts.
        """
        plans: list[tuple[Exchanges, int]] = []
        lent: list[Node] = []
        try:
            for length in lengths:
                mask = length.mask
                count = reduce(mask, "add", tuple(range(mask.ndim)), False, np.dtype(np.intp))
                before = set(walk([count]))
                shared = shared_with_mask(mask, walk(self.roots))
                made = [n for n in dict.fromkeys([mask, *shared, *self.roots]) if n in before and n.value is None]
                made = [n for n in made if not isinstance(n.op, (*CHEAP, Const))]
                first = Program((count, *made), (0,), self.settings, copies=self.copies)
                plan, nodes, (pos,) = first.plan(mesh, machine, memory)
                plans.append((plan, pos))
                ends = [plan.layouts[at] for at in plan.wanted]
                given = [n for n in nodes if n.value is not None]
                for leaf, where, layout in zip(
                    plan.homes, plan.wanted[1 + len(made) :], ends[1 + len(made) :], strict=True
                ):
                    at = given[leaf]
                    self.brought[at] = held_bytes(plan.specs[where], plan.layouts[where], plan.mesh)
                    here: list[Layout] = [x for x in _layouts(at, mesh, self.settings) if not isinstance(x, OnDriver)]
                    self.copies.setdefault(at, here).append(layout)
                for n, layout in zip(made, ends[1:], strict=False):
                    n.value = Absent(n.dims, n.dtype, (layout,), mesh)
                    lent.append(n)
            yield plans
        finally:
            self.copies.clear()
            self.brought.clear()
            for n in lent:
                n.value = None

    def beside_bytes(self) -> int:
        """Bytes per worker of values that the current session's workers hold and the program does not read."""
        cluster, stays = cluster_here(self.settings.blocks)
        if cluster is None or not stays:
            return 0
        read = [v for n in walk(self.roots) if n.value is not None for v in nearest(n, cluster)]
        return elsewhere(cluster, read)

    def outline(self) -> Callable[[], Program]:
        """A way to have the program again that holds none of its data, nor keeps anything pending."""
        cluster, _ = cluster_here(self.settings.blocks)
        mesh = None if cluster is None else cluster.mesh
        masks = _masks_besides(self.roots)
        (rows, ends), asked, settings = freeze((*masks, *self.roots)), self.asked, self.settings
        for i, n in enumerate(walk((*masks, *self.roots))):
            if n.value is not None:
                rows[i] = (_absent(n, mesh, self.settings), *rows[i][1:])
        return lambda: Program(tuple(thaw_all((rows, ends))[len(masks) :]), asked, settings)


def _masks_besides(roots: Sequence[Node]) -> list[Node]:
    """Masks that say how long axes are, and that nothing else needs any more; those that others need come first."""
    found: list[Node] = []
    while True:
        nodes = dict.fromkeys(walk((*found, *roots)))
        more = [d.mask for n in nodes for d in n.shape if type(d) is Length and d.value is None and d.mask not in nodes]
        if not more:
            return found
        found = [*dict.fromkeys(more), *found]


def program_of(arrays: Sequence[Array], on_mesh: bool = False) -> Program:
    """What evaluating arrays now would compute: of a view also all that it is a view of; of what is here nothing."""
    with LOCK:
        settings = current()
        away = [x for x in arrays if x._cell is not NUMBER and not isinstance(x._cell.read().value, np.ndarray)]
        held = cluster_here(settings.blocks)[1]  # workers compute what a view shows, and not what only it has
        recorded: list[Node] = []
        apart: set[Node] = set()
        for x in away:
            view = held and part_of(x) is not None
            if view and only_handle(x):
                apart.add(x._cell.read())
            elif waiting(x._cell):
                recorded.append(x._cell.read())
            recorded.append(node_of(x))
        recorded = list(dict.fromkeys(recorded))
        began = time.perf_counter()
        new = compiler.rewritten(recorded, compiler.graph_of(recorded)[2], settings, on_mesh) or {}
        passes = (("rewrite", time.perf_counter() - began),)
        asked = [new.get(n, n) for n in recorded]
        at = set(walk(asked))
        kept = [new.get(c.node, c.node) for c in pending_cells() if c.node is not None and c.node not in apart]
        roots = tuple(dict.fromkeys([*asked, *(n for n in kept if n in at and not isinstance(n.op, CHEAP))]))
        shown = [node_of(x) for x in away]
        if settings.rewrite:
            least = tuple(sliced_sources(roots))
            new = {**new, **{n: least[roots.index(new.get(n, n))] for n in recorded}}
            roots = least
        return Program(roots, tuple(roots.index(new.get(n, n)) for n in shown), settings, new, passes=passes)


def _absent_part(n: Node, cut: Cut) -> Absent:
    """What stands for a slice of a leaf that is sent from the driver."""
    return Absent(cut.lengths, n.dtype, (OnDriver(),), None)


def _absent(n: Node, mesh: Mesh | None, settings: Settings) -> Absent:
    """What stands for a leaf."""
    if isinstance(n.value, Source) and n.value.opened_by_workers:
        return Absent(n.dims, n.dtype, (Stored(),), None)
    layouts = (OnDriver(),) if mesh is None else _layouts(n, mesh, settings)
    return Absent(n.dims, n.dtype, layouts, mesh)


def _layouts(n: Node, mesh: Mesh, settings: Settings) -> tuple[Layout, ...]:
    """The layout of a leaf, for a plan on a mesh."""
    if isinstance(n.value, Absent):
        return n.value.layouts if n.value.mesh in (mesh, None) else (OnDriver(),)
    cluster, _ = cluster_here(settings.blocks)
    if cluster is None or cluster.mesh != mesh:
        return (n.value.layout_on(None) if isinstance(n.value, Source) else OnDriver(),)
    return tuple(layout_on(v, cluster) for v in nearest(n, cluster))
