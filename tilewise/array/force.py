"""Forcing: pending cells become known. In: cells. Out: the same cells, with buffers.

Nothing changes until a whole evaluation has succeeded, except that values a plan has overwritten in place are noted on
their nodes: whatever happens, every array keeps its value.
"""

from __future__ import annotations

import sys
import time
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tilewise import compiler, events
from tilewise.array.cell import LOCK, ND, Cell
from tilewise.array.handle import Array, from_node, meta, node_of, set_resolver
from tilewise.array.session import cluster_here, current_session, session_here
from tilewise.config import Settings, current
from tilewise.cost.model import FIXED, Machine
from tilewise.engine.cluster import Cluster, Remote
from tilewise.engine.run import Runner, compiled, interpreted, to_the_end
from tilewise.errors import MemoryBudgetError, TilewiseError, message
from tilewise.ir.node import Leaf, Length, Node, intern, known_leaf, walk
from tilewise.ir.order import strides_of
from tilewise.layout import Layout, Mesh, OnDriver
from tilewise.observe.progress import watch
from tilewise.ops.const import Const
from tilewise.ops.create import Arange, Full
from tilewise.ops.reduce import reduce
from tilewise.ops.views import Window
from tilewise.plan.fuse import fuse
from tilewise.plan.memory import peak_bytes
from tilewise.plan.mesh import MeshPlan, Spec
from tilewise.store import pool

PENDING: dict[int, weakref.ref[Cell]] = {}  # every pending cell, by id

_CHEAP = (Full, Arange, Window)  # not kept when they are on the way: computing them again costs no more than storing


class _Pending(weakref.ref):  # type: ignore[type-arg]
    """An entry that removes itself when its cell dies."""

    __slots__ = ("key",)

    key: int


def _forget(entry: _Pending) -> None:
    PENDING.pop(entry.key, None)


def register(cell: Cell) -> None:
    """Note a cell that became pending."""
    entry = _Pending(cell, _forget)
    entry.key = id(cell)
    PENDING[entry.key] = entry
    cell.owner = session_here()


def pending_cells() -> list[Cell]:
    """All cells that must still be computed."""
    found = [ref() for ref in list(PENDING.values())]
    return [c for c in found if c is not None and waiting(c)]


def waiting(c: Cell) -> bool:
    """Whether a cell must be evaluated (a node may have the value that a failed evaluation got to)."""
    return c.node is not None and not isinstance(c.node.value, Remote)


def evaluate(cells: Iterable[Cell]) -> None:
    """Make cells known where their engine holds them, all together; shared work is done once."""
    with LOCK:
        targets = [c for c in cells if waiting(c)]
        if not targets:
            return
        settings = current()
        nodes = walk([c.node for c in targets if c.node is not None])
        at = {n: i for i, n in enumerate(nodes)}
        chosen: dict[int, Cell] = {id(c): c for c in targets}
        if len(PENDING) > len(targets):
            for c in pending_cells():
                if c.node in at and c.node is not None and not isinstance(c.node.op, _CHEAP):
                    chosen[id(c)] = c
        outputs = list(chosen.values())
        if settings.progress and not events.activity.began:
            watch()
            events.activity.began = time.perf_counter()
            try:
                _evaluate(nodes, at, outputs, settings)
            finally:
                events.activity.began = 0.0
        else:
            _evaluate(nodes, at, outputs, settings)


def _evaluate(nodes: list[Node], at: dict[Node, int], outputs: list[Cell], settings: Settings) -> None:
    """Run nodes on the engine of the session, and give outputs their values."""
    cluster, stays = cluster_here(settings.blocks)
    if cluster is not None and settings.engine != "numpy" and not settings.compare:
        _run_mesh(nodes, outputs, settings, cluster, stays)
    else:
        values, noted = _run(nodes, at, outputs, settings)
        if len(outputs) == 1 and not noted:
            _commit(outputs, at, values)
            return
        with to_the_end():  # Ctrl-C finds all cells as they were, or all with their values
            for n in noted:
                n.value = None
            _commit(outputs, at, values)


def _run(
    nodes: list[Node], at: dict[Node, int], outputs: Sequence[Cell], settings: Settings
) -> tuple[list[Any], set[Node]]:
    """The values of all nodes, and the nodes on which they are noted."""
    wanted = sorted({at[c.node] for c in outputs if c.node is not None})
    values = [n.value if type(n.value) is np.ndarray else _given(n) for n in nodes]
    if settings.engine == "numpy":
        return reference(nodes, values), set()
    plan = compiler.prepare(nodes, wanted, settings)
    if plan.bound is None:
        plan.bound = Runner(plan.steps, compiled if settings.native else interpreted)
    if settings.compare:
        return compare(nodes, values, settings), set()
    session = current_session()
    if session is not None and session.memory is not None:
        within(peak_bytes(plan.steps, specs_of(nodes), None, Mesh(1), wanted), session.memory)
    if plan.bases:
        _loosen(nodes, plan.bases, outputs)
    try:
        noted = plan.bound.run(nodes, values)
    finally:
        for b in plan.bases:
            op = nodes[b].op
            if isinstance(op, Leaf):
                op.loose = False
    return values, noted


def _given(n: Node) -> Any:
    """A node's value if it has one before the run: leaves (brought here if they lie elsewhere) and constants."""
    if n.value is None:
        return n.op.value if type(n.op) is Const else None
    return gathered(n.value) if isinstance(n.value, Remote) else n.value


def _run_mesh(nodes: list[Node], outputs: Sequence[Cell], settings: Settings, cluster: Cluster, stays: bool) -> None:
    """Run on a cluster; results stay there, or come back at once."""
    lent: list[Node] = []
    try:
        if _count_masks(nodes, outputs, stays, lent):
            outputs = [c for c in outputs if waiting(c)]
            nodes = walk([c.node for c in outputs if c.node is not None])
        if outputs:
            _run_counted(nodes, outputs, settings, cluster, stays)
    finally:
        for n in lent:
            n.value = None


def _run_counted(nodes: list[Node], outputs: Sequence[Cell], settings: Settings, cluster: Cluster, stays: bool) -> None:
    """Run nodes whose lengths are all known."""
    plan, leaves, consts = plan_mesh(nodes, [c.node for c in outputs if c.node is not None], settings, cluster)
    check_budget(plan)
    before, began = cluster.counters.network_bytes, time.perf_counter()
    results = cluster.run(plan, leaves, consts, settings.native)
    if events.listeners:
        moved = cluster.counters.network_bytes - before
        events.emit(events.Event("exchange", "plan on workers", began, time.perf_counter(), moved))
    given = [n for n in nodes if n.value is not None]
    for leaf, remote in zip(plan.homes, results[len(outputs) :], strict=True):
        if stays:
            _keep_copy(given[leaf], remote)
    for c, remote in zip(outputs, results, strict=False):
        PENDING.pop(id(c), None)
        if stays:
            c.place(known_leaf(remote, remote.order))
        else:
            c.become(gathered(remote))


def _keep_copy(n: Node, remote: Remote) -> None:
    """Note a copy of an input that workers hold: it serves as long as the input is what it is."""
    if isinstance(n.value, Remote):
        n.value.copies.append(remote)
    else:
        outside = getattr(n.op, "exports", None)
        if outside is not None:
            outside.homes.setdefault(id(remote.cluster), []).append(remote)  # as long as the cell keeps this buffer


def check_budget(plan: MeshPlan) -> None:
    """Refuse a plan that needs more memory per worker than the session allows."""
    session = current_session()
    if session is not None and session.memory is not None:
        need = peak_bytes(plan.steps, plan.specs, plan.layouts, plan.mesh, plan.wanted)
        within(need, session.memory)


def within(need: int, allowed: int) -> None:
    """Raise if a plan needs more than is allowed."""
    if need > allowed:
        raise MemoryBudgetError(
            message(
                f"a worker would need {need:,} bytes and may use {allowed:,}",
                cure="Use more workers, evaluate in smaller parts, or raise memory=",
            )
        )


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
) -> tuple[MeshPlan, list[Any], list[Any]]:
    """The plan for roots on a cluster, with its leaves and constants in order."""
    at = {n: i for i, n in enumerate(nodes)}
    where: dict[Node, tuple[Layout, ...]] = {}
    leaves: list[Any] = []
    for n in nodes:
        if n.value is not None:
            values = _nearest(n, cluster)
            where[n] = tuple(v.layout if isinstance(v, Remote) else OnDriver() for v in values)
            leaves.extend(values)
    consts = [n.op.value for n in nodes if type(n.op) is Const and n.value is None]
    plan = compiler.prepare_mesh(nodes, [at[r] for r in roots], where, cluster.mesh, settings)
    return plan, leaves, consts


def _nearest(n: Node, cluster: Cluster) -> list[Any]:
    """A leaf's value for a cluster: what it holds already (perhaps in several layouts), or an array of the driver's."""
    if isinstance(n.value, Remote):
        return [n.value, *n.value.copies] if n.value.cluster is cluster else [gathered(n.value)]
    outside = getattr(n.op, "exports", None)
    homes = [] if outside is None else outside.homes.get(id(cluster), [])
    return [x for x in homes if x.cluster is cluster] or [n.value]


def _count_masks(nodes: Sequence[Node], outputs: Sequence[Cell], stays: bool, lent: list[Node]) -> bool:
    """Masks are counted before what they select is planned: their lengths decide everything after them.

    A mask is counted where it lies, and stays there for the selection, as does what had to be computed for it: such
    nodes have a value as long as the evaluation lasts (`lent`).
    """
    unknown = dict.fromkeys(d for n in nodes for d in n.shape if type(d) is Length and d.value is None)
    before = [(c, c.node) for c in outputs if c.node is not None]
    for length in unknown:
        mask = length.mask
        count = from_node(reduce(mask, "add", tuple(range(mask.ndim)), False, np.dtype(np.intp)))._cell
        kept = from_node(mask)._cell
        evaluate([count, kept] if stays and mask.value is None and type(mask.op) is not Const else [count])
        length.value = int(fetch_cell(count))
        for c, node in ((kept, mask), *before):
            if c.node is not None and c.node is not node and node.value is None:
                node.value = c.node.value
                lent.append(node)
    return bool(unknown)


def fetch_node(node: Node) -> ND:
    """A node's value on the driver."""
    if node.value is not None or type(node.op) is Const:
        return np.asarray(_given(node))
    cell = from_node(node)._cell
    evaluate([cell])
    return fetch_cell(cell)


def fetch_cell(cell: Cell) -> ND:
    """The whole value of an evaluated cell, on the driver."""
    if cell.buf is not None:
        return cell.buf
    assert cell.node is not None and isinstance(cell.node.value, Remote)
    return gathered(cell.node.value)


def gathered(remote: Remote) -> ND:
    """A value that workers hold, brought here."""
    before, began = remote.cluster.counters.network_bytes, time.perf_counter()
    nd = remote.gather()
    if events.listeners:
        moved = remote.cluster.counters.network_bytes - before
        events.emit(events.Event("gather", "result", began, time.perf_counter(), moved))
    return nd


def compare(nodes: Sequence[Node], values: list[Any], settings: Settings) -> list[Any]:
    """Run node by node, natively and by NumPy, and name the first that differs."""
    at = {n: i for i, n in enumerate(nodes)}
    exact = reference(nodes, list(values))
    for i, n in enumerate(nodes):
        if values[i] is not None:
            continue
        stubs = [known_leaf(np.asarray(exact[at[x]]), None) for x in n.inputs]
        one = intern(n.op, tuple(stubs), n.shape, n.dtype, n.order)
        graph = [*dict.fromkeys(stubs), one]
        plan = compiler.LocalPlan(fuse(graph, [g is one for g in graph], settings.fusion))
        slots = [g.value for g in graph]
        Runner(plan.steps, compiled if settings.native else interpreted).run(graph, slots)
        check_same(n, np.asarray(slots[-1]), np.asarray(exact[i]))
        values[i] = exact[i]
    return values


def check_same(n: Node, got: ND, want: ND) -> None:
    """Raise if a node's value differs from NumPy's beyond what docs/semantics.md allows."""
    same = got.dtype == want.dtype and got.shape == want.shape
    if same and n.dtype.kind in "fc":
        loose = (
            0.0 if n.op.name not in ("map", "reduce", "scan", "contract") else 1e-6 if n.dtype.itemsize <= 4 else 1e-12
        )
        with np.errstate(all="ignore"):
            scale = np.nanmax(np.abs(np.where(np.isfinite(want), want, 0)), initial=0.0)
            same = bool(np.allclose(got, want, rtol=loose, atol=loose * float(scale), equal_nan=True))
    elif same:
        same = bool(np.array_equal(got, want))
    if not same:
        where = f"{n.site[0]}:{n.site[1]}" if n.site else None
        raise TilewiseError(message(f"{n.op.label()} differs from NumPy", got=f"{got!r}, not {want!r}", where=where))


def _loosen(nodes: Sequence[Node], bases: Sequence[int], outputs: Sequence[Cell]) -> None:
    """Mark the leaves that nothing but this evaluation knows: their buffers may be overwritten.

    A leaf is known elsewhere if anything but this evaluation refers to it, or to a node here that hangs on it.
    """
    leaves = [b for b in bases if isinstance(nodes[b].op, Leaf) and isinstance(nodes[b].value, np.ndarray)]
    if not leaves:
        return
    spare = _spare_references(nodes, outputs)
    for b in leaves:
        op = nodes[b].op
        assert isinstance(op, Leaf)
        hanging = {nodes[b]}
        for n in nodes:
            if n.value is None and any(x in hanging for x in n.inputs):
                hanging.add(n)
        exported = op.exports and any(e() is not None for e in op.exports)
        op.loose = not exported and all(spare[n] <= 0 for n in hanging)


def _spare_references(nodes: Sequence[Node], outputs: Sequence[Cell]) -> dict[Node, int]:
    """References to each node beyond those of this evaluation: other graphs, other threads at work."""
    ours = [_OWN_REFERENCES] * len(nodes)
    at = {n: i for i, n in enumerate(nodes)}
    for n in nodes:
        for x in n.inputs if n.value is None else ():
            ours[at[x]] += 1
    for c in outputs:
        if c.node is not None:
            ours[at[c.node]] += 1
    n = x = nodes[0]  # the loops' last values must not count
    del n, x
    seen = [sys.getrefcount(nodes[i]) for i in range(len(nodes))]
    return {n: seen[i] - ours[i] for n, i in at.items()}


# References that an evaluation itself holds: `nodes`, the keys of `at` here and in evaluate, getrefcount's argument.
# tests/test_inplace.py fails if this is too small (nothing in place) or too large (wrong values).
_OWN_REFERENCES = 4


def reference(nodes: Sequence[Node], values: list[Any]) -> list[Any]:
    """Every node by its NumPy meaning, one after another."""
    at = {n: i for i, n in enumerate(nodes)}
    for i, n in enumerate(nodes):
        if values[i] is None:
            with np.errstate(all="ignore"):
                values[i] = np.asarray(n.op.numpy(*[values[at[x]] for x in n.inputs]))
            if n.op.name == "compress" and isinstance(n.shape[0], Length):
                n.shape[0].value = values[i].shape[0]
    return values


def _commit(outputs: Sequence[Cell], at: dict[Node, int], values: list[Any]) -> None:
    taken: set[int] = set()
    for c in outputs:
        assert c.node is not None
        i = at[c.node]
        value = values[i]
        private = c.node.value is None and id(value) not in taken and type(c.node.op) is not Const
        c.become(conform(value, c.node, private))
        taken.add(id(value))
        PENDING.pop(id(c), None)


def conform(value: Any, node: Node, private: bool) -> ND:
    """The value as a buffer of its own, laid out as the node says."""
    nd = np.asarray(value)
    if private and node.order is None and nd.base is None and nd.flags.carray:
        return nd
    want = strides_of(nd.shape, nd.dtype.itemsize, node.order)
    same = nd.strides == want or nd.size == 0
    same = same or all(s == w or d == 1 for s, w, d in zip(nd.strides, want, nd.shape, strict=True))
    if private and same and not isinstance(nd.base, np.ndarray) and nd.flags.writeable:
        return nd
    out = pool.empty(nd.shape, nd.dtype, node.order)
    out[...] = nd
    return out


def plan_of(arrays: Sequence[Array], mesh: Mesh | None, machine: Machine = FIXED) -> tuple[Any, list[Node], list[int]]:
    """The plan that evaluating arrays would run on a mesh (None: here), its nodes and the wanted positions."""
    with LOCK:
        settings = current()
        roots = list(dict.fromkeys(node_of(x) for x in arrays))
        nodes = walk(roots)
        at = {n: i for i, n in enumerate(nodes)}
        kept = [c.node for c in pending_cells() if c.node in at and not isinstance(c.node.op, _CHEAP)]
        roots = list(dict.fromkeys([*roots, *(n for n in kept if n is not None)]))
        if mesh is None:
            wanted = sorted(at[r] for r in roots)
            return compiler.prepare(nodes, wanted, settings), nodes, wanted
        cluster, _ = cluster_here(settings.blocks)
        where: dict[Node, tuple[Layout, ...]] = {}
        for n in nodes:
            if n.value is not None:
                here = cluster is not None and cluster.mesh == mesh
                values = [n.value] if cluster is None or not here else _nearest(n, cluster)
                where[n] = tuple(v.layout if here and isinstance(v, Remote) else OnDriver() for v in values)
        with _longest(nodes):
            plan = compiler.prepare_mesh(nodes, [at[r] for r in roots], where, mesh, settings, machine)
        return plan, nodes, [plan.wanted[roots.index(node_of(x))] for x in arrays]


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


def force(x: Array) -> ND:
    """The ndarray that shows x's memory here; computes it if it is pending, brings it here if it lies elsewhere."""
    cell = x._cell
    if cell.node is not None:
        with LOCK:
            evaluate([cell])
            if cell.node is not None:
                cell.become(fetch_cell(cell))
    return meta(x)


def fetch(x: Array) -> ND:
    """x's elements, to read; what lies on workers stays there."""
    cell = x._cell
    if cell.node is None:
        return meta(x)
    with LOCK:
        evaluate([cell])
        if cell.node is None:
            return meta(x)
        whole = x._nd is None or node_of(x) is cell.node
        if whole:
            return fetch_cell(cell)
        node = node_of(x)
        return conform(fetch_node(node), node, private=True)  # in the memory order that NumPy's view has


_sick: weakref.WeakSet[Cell] = weakref.WeakSet()  # could not be evaluated by a flush; whoever asks gets the error


def flush() -> None:
    """Evaluate everything of this session that is pending and still has a handle.

    What cannot be evaluated stays pending: its error belongs to whoever asks for it, not to the line that turns.
    """
    session = current_session()
    cells = [c for c in pending_cells() if c.owner is session and c not in _sick]
    try:
        evaluate(cells)
    except Exception:
        for c in cells:
            try:
                evaluate([c])
            except Exception:
                _sick.add(c)


def _resolve(x: Array) -> None:
    evaluate([x._cell])


set_resolver(_resolve)
