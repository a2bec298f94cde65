"""Forcing: pending cells become known. In: cells. Out: the same cells, with buffers.

Nothing changes until a whole evaluation has succeeded, except that values a plan has overwritten in place are noted on
their nodes: whatever happens, every array keeps its value.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tilewise.array.cell import LOCK, ND, Cell, Outside
from tilewise.array.evaluation.commit import commit, commit_one, conform
from tilewise.array.handle import Array, from_node, meta, node_of, set_resolver
from tilewise.array.interop import empty_slices
from tilewise.array.lengths.unsized import Turned, become_view, is_turned
from tilewise.array.lengths.unsized import shown as turned_around
from tilewise.array.parts import asked_cells, keep_shown, part_of, shared_with_mask
from tilewise.array.pending import PENDING, pending_cells, waiting
from tilewise.array.schedule import co_results
from tilewise.array.schedule.deferred import run_calls
from tilewise.array.schedule.sites import composing
from tilewise.array.session import cluster_here, current_session, session_here
from tilewise.backend import ahead, chosen, named
from tilewise.config import Settings, current, name_passes_by
from tilewise.engine.remote import Remote
from tilewise.errors import MemoryBudgetError
from tilewise.events import activity
from tilewise.interrupts import to_the_end
from tilewise.ir.node import Length, Node, become_leaf, known_leaf, walk
from tilewise.later import later
from tilewise.observe import progress
from tilewise.ops.const import Const
from tilewise.ops.reduce import reduce
from tilewise.store.base import Source

if TYPE_CHECKING:
    from tilewise import compiler
    from tilewise.array.evaluation import here, rewritten, workers
    from tilewise.array.evaluation import in_turns as streaming
    from tilewise.array.schedule import repeat
    from tilewise.array.session import Session
    from tilewise.engine.cluster import Cluster
    from tilewise.plan.exchanges import Exchanges
else:
    compiler = later("tilewise.compiler")
    here, rewritten = later("tilewise.array.evaluation.here"), later("tilewise.array.evaluation.rewritten")
    repeat = later("tilewise.array.schedule.repeat")
    streaming = later("tilewise.array.evaluation.in_turns")
    workers = later("tilewise.array.evaluation.workers")


_loaded = False  # whether what makes plans is loaded


def _load_planning() -> None:
    """Load what makes plans and runs them."""
    global _loaded
    _loaded = True
    compiler.PASSES, rewritten.rewrite, here.run  # noqa: B018  (asking loads them)


ahead.also(_load_planning)
name_passes_by(_load_planning)

# While a user's function runs on stand-ins: the cells of which it has views in another shape, or asks for an order.
tracing: ContextVar[set[Cell] | None] = ContextVar("tilewise tracing", default=None)


class ValueAsked(BaseException):
    """A function being traced asked for a value. (Not an Exception: nothing on the way takes it.)"""


class TraceTooLong(BaseException):
    """A function being traced goes through a loop again and again: it would take longer to trace than to run."""


def evaluate(cells: Iterable[Cell]) -> None:
    """Make cells known where their engine holds them, all together; shared work is done once."""
    with LOCK:
        _make_known(cells)


def evaluate_arrays(arrays: Sequence[Array]) -> list[Cell]:
    """Make known what arrays show, all together; of a view that workers hold, a cell of its own has it.

    Gives for each array the cell that has its elements, or those that it is a view of.
    """
    with LOCK:
        if len(arrays) == 1 and arrays[0]._nd is None and not is_turned(arrays[0]):  # all of its cell
            own = [arrays[0]._cell]
            _make_known(own)
            return own
        for x in arrays:
            if is_turned(x):
                meta(x)
        settings = current()
        views = any(part_of(x) is not None for x in arrays) and tracing.get() is None
        if not views or settings.engine == "numpy" or settings.compare or not cluster_here(settings.blocks)[1]:
            cells = [x._cell for x in arrays]
            _make_known(cells)
            return cells
        needed, own, apart = asked_cells(arrays)
        before = _apart.copy()
        _apart.update(apart)
        try:
            _make_known(needed)
        finally:
            _apart.clear()
            _apart.update(before)
        del needed, apart  # which would be other holders of the cells
        for x, cell in zip(arrays, own, strict=True):
            keep_shown(x, cell)
        return own


_apart: set[Cell] = set()  # not computed though they are on the way: nobody can ask for more than a view of them


def _make_known(cells: Iterable[Cell]) -> None:
    """The same for who holds the lock."""
    outputs = [c for c in cells if waiting(c)]
    traced = tracing.get() is not None
    if not traced:
        outputs = run_calls(outputs)
    if not outputs:
        return
    if co_results.ANY:
        outputs = [*[c for c in co_results.taken(outputs) if waiting(c)], *outputs]
    if len(outputs) > 1:
        outputs = list(dict.fromkeys(outputs))
    if traced:
        raise ValueAsked
    settings = current()
    by_node = settings.engine == "numpy" or settings.compare
    cluster, stays = cluster_here(settings.blocks)
    graph, counted = None, empty_slices.NONE
    if cluster is not None:
        cluster = None if by_node else cluster
        graph = _on_workers(outputs, cluster) if cluster is not None and stays else None
        if graph is not None and workers.run_again(graph, settings):
            return
    if not _loaded and cluster is None and settings.engine != "numpy":
        named(chosen(settings))  # its compiler's process gets ready while plans are loaded and made
        _load_planning()
    at, values, structure = compiler.graph_of([c.node for c in outputs])  # type: ignore[misc]
    asked = len(outputs)
    if empty_slices.ANY and cluster is None and (counted := empty_slices.counts(at)):
        outputs = list(dict.fromkeys([*outputs, *(c for c, *_ in counted)]))
        at, values, structure = compiler.graph_of([c.node for c in outputs])  # type: ignore[misc]
    replaced: list[tuple[Cell, Node]] = []
    if structure.rewritable:
        graph = None  # which would be another holder of nodes
        if not by_node:
            replaced = rewritten.rewrite(outputs, structure, settings)
            at, values, structure = compiler.graph_of([c.node for c in outputs])  # type: ignore[misc]
            replaced = rewritten.still_read(replaced)
    if len(PENDING) > len(outputs):
        rewritten.add_living(outputs, at, _apart)
    if structure.stored and settings.rewrite and not by_node:
        files = any([isinstance(v, Source) and not v.on_workers for v in values])
        narrowed = rewritten.read_less(outputs) if files else []
        if narrowed:
            at, values, structure = compiler.graph_of([c.node for c in outputs])  # type: ignore[misc]
            replaced += rewritten.still_read(narrowed)
    shows = settings.progress and not activity.began
    try:
        if shows:
            progress.begin()
        if cluster is None:
            made_by = None
            _run_here(at, values, structure, outputs, settings, asked)
        else:
            made_by = _run_mesh(list(at), outputs, settings, cluster, stays, asked)
    finally:
        if shows:
            progress.end()
    if graph is not None and made_by is not None:
        repeat.keep(graph, made_by, list(at), settings)
    for cell, old in replaced:
        if cell.buf is not None and (cell.leaf is None or cell.leaf() is None) and type(old.op) is not Const:
            if cell.exports is None:
                cell.exports = Outside()
            cell.exports.holder = weakref.ref(cell)
            cell.leaf = weakref.ref(old)  # first: whoever writes to the cell must see that it is read
            become_leaf(old, cell.buf, cell.exports)
        else:
            _also_held(cell, old)
    if counted:
        empty_slices.warn(counted)


def _on_workers(outputs: list[Cell], cluster: Cluster) -> repeat.Graph | None:
    """The graph of cells, and of others that are computed with them, if workers may have a plan for it."""
    graph = repeat.graph_on(outputs, cluster)
    if graph is not None and len(PENDING) > len(outputs):
        rewritten.add_living(graph.outputs, graph.at, _apart)
    return graph


def _also_held(cell: Cell, old: Node) -> None:
    """Work that refers to the node that a cell had before finds the value that workers hold of it."""
    node = cell.node
    if node is not None and isinstance(node.value, Remote):
        workers.note_held(old, node.value)


def _run_here(
    at: dict[Node, int],
    values: list[Any],
    structure: compiler.Structure,
    outputs: list[Cell],
    settings: Settings,
    asked: int,
) -> None:
    """Run a graph in this process, and give outputs their values.

    Where memory is short, only the first ones, which were asked for: the others stay pending.
    """
    nodes = list(at)
    session = session_here()
    if session is not None and here.too_small(nodes, at, structure, outputs, settings, session):
        _run_streamed(outputs[:asked], settings, session)
        return
    values, noted, shared = here.run(nodes, at, values, structure, outputs, settings)
    if len(outputs) == 1 and not noted and not shared:
        commit_one(outputs[0], at, values)
        return
    with to_the_end():  # Ctrl-C finds all cells as they were, or all with their values
        for n in noted:
            n.value = None
        # Another thread may have read a result's node meanwhile. Its leaf is overwritten: it needs the value.
        kept = sorted({*shared, *(at[c.node] for c in outputs if c.node is not None)}) if noted else shared
        commit(outputs, at, values, kept)


def _run_streamed(outputs: Sequence[Cell], settings: Settings, session: Session) -> None:
    """Run block by block, within memory."""
    roots = [c.node for c in outputs if c.node is not None]
    new = compiler.selected(roots, settings)
    for c, node in zip(outputs, new, strict=True):
        c.node = node
    lent: list[Node] = []
    if _count_masks(walk(new), outputs, False, lent):
        outputs = [c for c in outputs if waiting(c)]
    if outputs:
        streaming.run_streamed(outputs, settings, session, conform)


def _given(n: Node) -> Any:
    """A node's value if it has one before the run: leaves (brought here if they are elsewhere) and constants."""
    if n.value is None:
        return n.op.value if type(n.op) is Const else None
    return _whole(n.value) if isinstance(n.value, Source) else n.value


def _run_mesh(
    nodes: list[Node], outputs: Sequence[Cell], settings: Settings, cluster: Cluster, stays: bool, asked: int
) -> Exchanges | None:
    """Run on a cluster; results stay there, or come back at once. Gives the plan, if it is one of these very nodes."""
    plan, counted = None, False
    surely = set(outputs[:asked])
    lent: list[Node] = []
    roots = [c.node for c in outputs if c.node is not None]
    if spare := compiler.never_selected(roots, roots[:asked], settings):
        outputs = [c for c in outputs if c.node not in spare]
        roots = [n for n in roots if n not in spare]
        nodes = walk(roots)
    new = compiler.selected(roots, settings, nodes)
    other = []
    if new is not roots:
        other = list(zip(outputs, roots, strict=True))
        for c, node in zip(outputs, new, strict=True):
            c.node = node
        nodes = walk(new)
    try:
        if _count_masks(nodes, outputs, stays, lent):
            outputs = [c for c in outputs if waiting(c)]
            nodes = walk([c.node for c in outputs if c.node is not None])
            counted = True
        if outputs:
            plan = _run_counted(nodes, outputs, settings, cluster, stays, surely)
        for c, node in other:
            _also_held(c, node)
    finally:
        for n in lent:
            n.value = None
    return plan if new is roots and not counted else None


def _run_counted(
    nodes: list[Node],
    outputs: Sequence[Cell],
    settings: Settings,
    cluster: Cluster,
    stays: bool,
    surely: Collection[Cell],
) -> Exchanges | None:
    """Run on a cluster; what does not fit into its workers' memory runs block by block, there or, if need be, here.

    Then only those that were asked for: the others stay pending.
    """
    try:
        return workers.run_counted(nodes, outputs, settings, cluster, stays)
    except MemoryBudgetError:
        session = session_here()
        if session is None or session.memory is None:
            raise
        outputs = [c for c in outputs if c in surely]
        if streaming.run_shared(outputs, settings, session, cluster, stays):
            return None
        if not workers.reads_files_only(nodes):
            raise
        streaming.run_streamed(outputs, settings, session, conform)
        return None


def _count_masks(nodes: Sequence[Node], outputs: Sequence[Cell], stays: bool, lent: list[Node]) -> bool:
    """Masks are counted before what they select is planned: their lengths decide everything after them.

    A mask is counted where it lies, and stays there for the selection, as does what had to be computed for it: such
    nodes have a value as long as the evaluation lasts (`lent`).
    """
    unknown = dict.fromkeys(d for n in nodes for d in n.shape if type(d) is Length and d.value is None)
    before = [(c, c.node) for c in outputs if c.node is not None]
    for length in unknown:
        mask, count = length.mask, _count_of(length)
        kept = from_node(mask)._cell
        shared: list[tuple[Cell, Node]] = []
        if stays and mask.value is None and type(mask.op) is not Const:
            shared = [(kept, mask), *((from_node(n)._cell, n) for n in shared_with_mask(mask, nodes))]
        for c, _ in shared:
            c.owner = session_here()
        evaluate([count, *(c for c, _ in shared)])
        length.settle(int(fetch_cell(count)))
        for c, node in (*shared, *before):
            if c.node is not None and c.node is not node and node.value is None:
                node.value = c.node.value
                lent.append(node)
    return bool(unknown)


def _count_of(length: Length) -> Cell:
    mask = length.mask
    return from_node(reduce(mask, "add", tuple(range(mask.ndim)), False, np.dtype(np.intp)))._cell


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
    assert cell.node is not None
    if isinstance(op := cell.node.op, Turned):
        return turned_around(fetch_cell(op.cell), op.axes)
    assert isinstance(cell.node.value, Source)
    return _whole(cell.node.value)


def _whole(source: Source) -> ND:
    return workers.whole(source) if isinstance(source, Remote) else source.whole()


def force(x: Array) -> ND:
    """The ndarray that shows x's memory here; computes it if it is pending, brings it here if it is elsewhere."""
    if is_turned(x):
        meta(x)
    cell = x._cell
    if cell.node is not None:
        with LOCK:
            _make_known([cell])
            if cell.node is not None:
                cell.become(fetch_cell(cell), exports=_read_from(cell.node))
    return meta(x)


def _read_from(node: Node) -> Outside | None:
    """What is known of a buffer that was read from a file: where."""
    if not isinstance(node.value, Source) or node.value.on_workers:
        return None
    outside = Outside()
    outside.source = node
    return outside


def fetch(x: Array) -> ND:
    """x's elements, to read; what is on workers stays there."""
    if x._cell.node is None:
        return meta(x)
    with LOCK:
        return fetched(x)


def fetched(x: Array) -> ND:
    """The same for who holds the lock. (Names for the cell would be holders of it, which `only_handle` counts.)"""
    if is_turned(x):
        meta(x)
    if x._cell.node is None:
        return meta(x)
    if x._nd is None:  # all of its cell
        _make_known([x._cell])
        return shown(x, x._cell)
    (own,) = evaluate_arrays([x])
    return shown(x, own)


def shown(x: Array, own: Cell) -> ND:
    """x's elements, of which a cell that `evaluate_arrays` gave has the value."""
    cell = x._cell
    if x._nd is not None and not (nd := meta(x)).size:
        return as_strided(np.empty(1, nd.dtype), nd.shape, nd.strides)
    if cell is own and cell.node is None:
        return meta(x)
    node = node_of(x)
    if cell is own and node is not cell.node:
        return conform(fetch_node(node), node, private=True)
    return fetch_cell(own) if cell is own else conform(fetch_cell(own), node, private=True)


_sick: weakref.WeakSet[Cell] = weakref.WeakSet()  # could not be evaluated by a flush; whoever asks gets the error


def flush(but: Collection[Cell] = ()) -> None:
    """Evaluate everything of this session that is pending and still has a handle (but those about to be used).

    What cannot be evaluated stays pending: its error belongs to whoever asks for it, not to the line that flushes.
    """
    session = current_session()
    cells = [c for c in pending_cells() if c.owner is session and c not in but and c not in _sick]
    cells.sort(key=_place_in_body)
    try:
        evaluate(cells)
    except Exception:
        for c in cells:
            try:
                evaluate([c])
            except Exception:
                _sick.add(c)


def _place_in_body(cell: Cell) -> int:
    """Sorts cells by where they were recorded: PENDING has them as ids happened to be free, and a plan has an order."""
    node = cell.node
    return 0 if node is None else node.trail  # another thread may have evaluated it


def _resolve(x: Array) -> None:
    with LOCK:
        if is_turned(x):
            become_view(x)
            return
        cell = x._cell
        evaluate([cell])
        node = cell.node
        if node is not None and not node.known and isinstance(node.value, Source):  # held under an equal mask's length
            cell.node = known_leaf(node.value, node.order)


def _count(node: Node) -> bool:
    """Have workers count the masks that decide a node's lengths, and select nothing; whether they did.

    Not for functions of ours: these go on to record operators that take numbers.
    """
    settings = current()
    if composing.get() is not None or tracing.get() is not None or not cluster_here(settings.blocks)[1]:
        return False
    if settings.engine == "numpy" or settings.compare:
        return False
    for length in dict.fromkeys(d for d in node.shape if type(d) is Length and d.value is None):
        with LOCK:
            count = _count_of(length)
            evaluate([count])
            length.settle(int(fetch_cell(count)))
    return True


set_resolver(_resolve, _count)
