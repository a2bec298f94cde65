"""Evaluating on workers. In: nodes whose lengths are known, cells. Out: the cells, with values held there or here.

Finds the layouts that leaves have already, keeps copies of inputs for later, sees that plans fit into memory.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from types import FrameType
from typing import Any

import numpy as np

from tilewise import compiler, events
from tilewise.array.cell import Cell
from tilewise.array.pending import PENDING
from tilewise.array.schedule.repeat import Graph, plan_of
from tilewise.array.schedule.sites import outside
from tilewise.array.session import current_session, no_session, session_here
from tilewise.array.slices import part_here, sliced_inputs
from tilewise.backend import chosen
from tilewise.compiler import mesh as mesh_compiler
from tilewise.config import Settings, config, current
from tilewise.engine.cluster import Cluster
from tilewise.engine.remote import Remote
from tilewise.errors import MemoryBudgetError, message
from tilewise.interrupts import to_the_end
from tilewise.ir.node import Length, Node, known_leaf, walk
from tilewise.layout import Layout, Mesh, OnDriver, Outside, Replicate, moves
from tilewise.observe import progress
from tilewise.observe.progress import showing
from tilewise.ops.const import Const
from tilewise.ops.move import pin
from tilewise.plan.blocks import Spec
from tilewise.plan.exchanges import Exchanges
from tilewise.plan.memory import peak_bytes
from tilewise.plan.shares import Shares
from tilewise.stage.steps import Step
from tilewise.store.base import Source


def run_counted(
    nodes: list[Node], outputs: Sequence[Cell], settings: Settings, cluster: Cluster, stays: bool
) -> Exchanges | None:
    """Run nodes whose lengths are all known: the plan, if it is one of these very nodes that leaves no copies."""
    roots = [c.node for c in outputs if c.node is not None]
    narrow: Sequence[Node] = compiler.narrowed(roots, settings, nodes)
    if settings.rewrite and any([isinstance(n.value, np.ndarray) for n in nodes]):
        narrow = sliced_inputs(narrow, lambda n: on_driver(n, cluster), part_here)
    same = narrow is roots
    if not same:
        nodes, roots = walk(narrow), list(narrow)
    plan, leaves, consts = plan_mesh(nodes, roots, settings, cluster)
    with moving(cluster, plan.network_bytes):
        results = run(plan, leaves, consts, settings, cluster)
    given = [n for n in nodes if n.value is not None]
    for leaf, remote in zip(plan.homes, results[len(outputs) :], strict=True):
        if stays:
            _keep_copy(given[leaf], remote)
    _give(outputs, results, stays)
    return plan if same and not plan.homes else None


def run_again(graph: Graph, settings: Settings) -> bool:
    """Run a graph by the plan of an equal one; whether there is such."""
    plan = plan_of(graph, settings)
    if plan is None:
        return False
    cluster, announced = graph.cluster, plan.network_bytes
    began, before = _counted(cluster)
    with to_the_end():  # both of the blocks inside: to begin and to end one takes as long as to send a message
        begun = settings.progress and progress.begin()  # not before: Ctrl-C may be raised where the block begins
        try:
            if cluster.in_process:
                results = run(plan, graph.leaves, graph.consts, settings, cluster)
            else:
                results = cluster.run_to_the_end(plan, graph.leaves, graph.consts, chosen(settings))
        finally:
            if begun:
                progress.end()
        _note_moved(cluster, announced, began, before, sys._getframe(0))
        here = session_here()
        for c, remote in zip(graph.outputs, results, strict=False):
            _take(c, remote, None if c.owner is here else whole(remote))
    return True


def _give(outputs: Sequence[Cell], results: Sequence[Remote], stays: bool) -> None:
    """Cells get their values: where workers hold them, or here."""
    here = session_here()
    for c, remote in zip(outputs, results, strict=False):
        found = None if stays and c.owner is here else whole(remote)
        with to_the_end():
            _take(c, remote, found)


def _take(c: Cell, remote: Remote, found: np.ndarray[Any, Any] | None) -> None:
    """A cell gets its value: what has been brought here, if it is to be here."""
    PENDING.pop(id(c), None)
    if found is not None:
        c.become(found)
        return
    if c.node is not None:
        note_held(c.node, remote)
    c.place(known_leaf(remote, remote.order))


def note_held(node: Node, remote: Remote) -> None:
    """Note a value that workers hold on its node: work that is pending finds it there.

    After the session it is computed again, if somebody else recorded the same. Where memory is limited, too, so that
    no more is held than handles ask for.
    """
    session = session_here()
    if session is None or session.memory is not None:
        return
    if node.value is None and type(node.op) is not Const:
        node.value, node.trail = remote, 0
        session.noted.add(node)


@contextmanager
def moving(cluster: Cluster, announced: int) -> Iterator[None]:
    """What moves meanwhile is put down to the user's line that needs it: as counted if someone listens."""
    began, before = _counted(cluster)
    yield
    _note_moved(cluster, announced, began, before, sys._getframe(2))


def _counted(cluster: Cluster) -> tuple[float, int]:
    """The time, and what has moved so far, if someone listens."""
    return time.perf_counter(), cluster.counters.network_bytes if events.listeners else 0


def _note_moved(cluster: Cluster, announced: int, began: float, before: int, frame: FrameType) -> None:
    """Put what has moved since then down to the user's line."""
    if not announced and not events.listeners:
        return
    session = current_session()
    where = outside(frame)
    if events.listeners:
        announced = cluster.counters.network_bytes - before
        events.emit(
            events.Event("needed", "values", began, time.perf_counter(), announced, where="{}:{}".format(*where))
        )
    if session is not None and announced:
        session.moved[where] = session.moved.get(where, 0) + announced


def whole(remote: Remote) -> np.ndarray[Any, Any]:
    """A value that workers hold, brought here: of its copies, the one of which least has to cross."""

    def crossing(x: Remote) -> int:
        return moves(x.layout, OnDriver(), x.shape, x.cluster.mesh).bytes(x.dtype.itemsize)

    copies = [x for x in remote.copies if not x.dropped]
    near = min((remote, *copies), key=crossing) if copies else remote
    with showing(current().progress), moving(remote.cluster, crossing(near)):
        return near.whole()


def run(
    plan: Exchanges | Shares,
    leaves: Sequence[Any],
    consts: Sequence[Any],
    settings: Settings,
    cluster: Cluster,
    sinks: Sequence[bytes | None] = (),
) -> list[Remote]:
    """Run a plan that is made already."""
    if not cluster.in_process:
        return cluster.run(plan, leaves, consts, chosen(settings), sinks)
    # A user's function on a worker may compute as well: there, not by workers.
    with no_session(), config(blocks=1) if settings.blocks > 1 else nullcontext():
        return cluster.run(plan, leaves, consts, chosen(settings), sinks)


def _keep_copy(n: Node, remote: Remote) -> None:
    """Note a copy of an input that workers hold: it serves as long as the input is what it is."""
    kept = _copies(n, remote.cluster)
    if kept is not None:
        kept.append(remote.as_copy())


def _copies(n: Node, cluster: Cluster) -> list[Remote] | None:
    """The copies of an input that a cluster holds, to be added to; None where nobody would find them again."""
    if isinstance(n.value, Source) and (own := n.value.copies_on(cluster)) is not None:
        return own
    outside = getattr(n.op, "exports", None)
    if outside is None:
        return None
    if outside.homes is None:
        outside.homes = {}
    found: list[Remote] = outside.homes.setdefault(id(cluster), [])  # as long as the cell keeps this buffer
    return found


def within(need: int, allowed: int) -> None:
    """Raise if a plan needs more than is allowed."""
    if need > allowed:
        raise MemoryBudgetError(
            message(
                f"a worker would need {need:,} bytes and may use {allowed:,} (no plan looked at needs less)",
                cure="Use more workers, evaluate in smaller parts, or raise memory=",
            )
        )


def reads_files_only(nodes: Sequence[Node]) -> bool:
    """Whether a graph reads files, and nothing that workers hold: it can as well run here."""
    sources = [n.value for n in nodes if isinstance(n.value, Source)]
    return bool(sources) and not any(isinstance(v, Remote) for v in sources)


def needed_here(steps: Sequence[Step], nodes: Sequence[Node], wanted: Sequence[int]) -> int:
    """Bytes that a plan of this process needs."""
    return peak_bytes(steps, specs_of(nodes), None, Mesh(1), wanted)


def specs_of(nodes: Sequence[Node]) -> list[Spec]:
    """The types of a graph's nodes; lengths that masks decide at the most they can be."""
    at = {n: i for i, n in enumerate(nodes)}
    out = []
    for n in nodes:
        inputs = () if n.value is not None else tuple(at[x] for x in n.inputs)
        out.append(Spec(n.op, inputs, _most(n), n.dtype, n.order, n.site, n.value is not None))
    return out


def _most(n: Node) -> tuple[int, ...]:
    return tuple((d.mask.size if d.value is None else d.value) if isinstance(d, Length) else d for d in n.shape)


def plan_mesh(
    nodes: Sequence[Node], roots: Sequence[Node], settings: Settings, cluster: Cluster
) -> tuple[Exchanges, list[Any], list[Any]]:
    """The plan for roots on a cluster, with its leaves and constants in order."""
    at = {n: i for i, n in enumerate(nodes)}
    where: dict[Node, tuple[Layout, ...]] = {}
    found: list[Any] = []
    for n in nodes:
        if n.value is not None:
            values = nearest(n, cluster)
            where[n] = tuple(layout_on(v, cluster) for v in values)
            found.extend(values)
    consts = [n.op.value for n in nodes if type(n.op) is Const and n.value is None]
    session = current_session()
    memory = None if session is None or session.memory is None else session.memory - elsewhere(cluster, found)
    plan = mesh_compiler.prepare_mesh(nodes, [at[r] for r in roots], where, cluster.mesh, settings, memory=memory)
    if memory is not None and mesh_compiler.mesh_peak(plan) > memory:
        if cluster.drop_copies():  # inputs come from where they are, and converted copies again
            return plan_mesh(nodes, roots, settings, cluster)
        if _cut_whole_ones(settings, cluster):
            return plan_mesh(nodes, roots, settings, cluster)
        within(mesh_compiler.mesh_peak(plan), memory)
    return plan, [_sent(v, cluster) for v in found], consts


def cutting_whole(v: Remote, settings: Settings) -> Exchanges | None:
    """The plan that cuts a value which every worker holds all of, along its longest axis; None for others.

    An earlier plan left it so, as there was room; it would have fitted into less.
    """
    cluster = v.cluster
    if not isinstance(v.layout, Replicate) or max(v.shape, default=0) < 2 or cluster.mesh.workers < 2:
        return None
    leaf = known_leaf(v, v.order)
    cut = pin(leaf, (v.shape.index(max(v.shape)),), (None,))
    plan = mesh_compiler.prepare_mesh([leaf, cut], [1], {leaf: (v.layout,)}, cluster.mesh, settings)
    fits = cluster.memory is None or mesh_compiler.mesh_peak(plan) + elsewhere(cluster, [v]) <= cluster.memory
    return plan if fits else None


def _cut_whole_ones(settings: Settings, cluster: Cluster) -> bool:
    """Let workers keep their parts only of what they hold all of; whether there was anything."""
    found = False
    for v in cluster.living():
        plan = cutting_whole(v, settings)
        if plan is not None:
            v.become(run(plan, [v], (), settings, cluster)[0])
            found = True
    return found


def elsewhere(cluster: Cluster, leaves: Sequence[Any], spare: bool = True) -> int:
    """Bytes per worker of values that a plan does not read (without `spare`, of those that cannot be dropped)."""
    read = {x.key for x in leaves if isinstance(x, Remote)}
    return sum(x.held_bytes for x in cluster.living() if x.key not in read and (spare or not x.spare))


def nearest(n: Node, cluster: Cluster, spare: bool = True) -> list[Any]:
    """A leaf's value for a cluster: what it holds already (perhaps in several layouts), or where it comes from.

    Without `spare`, as if copies that may be dropped had been.
    """
    alive = [x for x in _copies(n, cluster) or () if x.cluster is cluster and not x.dropped and (spare or not x.spare)]
    held = alive if isinstance(layout_on(n.value, cluster), Outside) else [n.value, *alive]
    found: dict[Layout, Any] = {}
    for x in held:
        found.setdefault(layout_on(x, cluster), x)  # one of each layout will do
    return list(found.values()) or [n.value]


def on_driver(n: Node, cluster: Cluster) -> bool:
    """Whether a leaf is an array of this process that a cluster has no copy of."""
    return isinstance(n.value, np.ndarray) and all(v is n.value for v in nearest(n, cluster))


def layout_on(value: Any, cluster: Cluster) -> Layout:
    """The layouts of a leaf's value on a cluster."""
    return value.layout_on(cluster) if isinstance(value, Source) else OnDriver()


def _sent(value: Any, cluster: Cluster) -> Any:
    """A leaf as a cluster takes it: what neither it nor its workers can open is read here."""
    if isinstance(value, Source) and isinstance(value.layout_on(cluster), OnDriver):
        return value.whole()
    return value
