"""Running steps on whole arrays (one worker, or one block of one). In: steps, nodes, values. Out: values filled in.

`nodes` gives the sizes of this run (a cached plan serves graphs of any size); `values` holds an array per position.
"""

from __future__ import annotations

import importlib
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np

from tilewise import events
from tilewise.compiler import overwritten
from tilewise.config import current
from tilewise.engine.boxes import around
from tilewise.engine.buffers import fresh, walked
from tilewise.engine.tiled import Group, run_tiled
from tilewise.ir.node import Leaf, Length, Node
from tilewise.ir.order import strides_of
from tilewise.kernel import interpret
from tilewise.kernel.loops import Kernel, operations
from tilewise.ops.contract import Contract
from tilewise.ops.create import Empty, Full
from tilewise.ops.elementwise import Map
from tilewise.ops.index import Compress, Update
from tilewise.ops.index import Write as WriteOp
from tilewise.ops.join import Copy
from tilewise.ops.views import Window, explain, same_strides
from tilewise.plan.liveness import ALIASES
from tilewise.plan.steps import Call, Pass, Step, Tiled, Turns, View, Write, makes, members, passes, reads
from tilewise.plan.ways import drops_axes, single, space_of
from tilewise.store import pool
from tilewise.target import threads

Values = list[Any]
Kernels = Callable[[Kernel], Callable[..., None]]

SELECT_LEAST = 1 << 14  # elements of a mask; below, NumPy has ended before native code begins
PARALLEL_BYTES = 1 << 20  # below, handing tiles to threads costs more than it gives
LOOKED_AT = 100  # of the ways in which two views could have memory in common


def compiled(kernel: Kernel) -> Callable[..., None]:
    """Machine code for a kernel (loads LLVM the first time: `import tilewise` must stay quick)."""
    return importlib.import_module("tilewise.target.llvm").compile(kernel)  # type: ignore[no-any-return]


def interpreted(kernel: Kernel) -> Callable[..., None]:
    """The kernel on NumPy, tile by tile."""

    def call(shape: Any, inputs: Any, params: Any, outs: Any) -> None:
        interpret.run(kernel, shape, inputs, params, outs)

    return call


def bound(step: Step, kernels: Kernels) -> Any:
    """What runs a step: the kernel of a pass, or a group of them."""
    if isinstance(step, Tiled):
        return Group(step, [bound(s, kernels) for s in step.steps])
    return kernels(step.kernel) if isinstance(step, Pass) else None


class Runner:
    """A list of steps bound to the kernels that run its passes."""

    def __init__(self, steps: Sequence[Step], kernels: Kernels) -> None:
        self.steps = [(s, bound(s, kernels), overwritten(s)) for s in steps]  # with what each may overwrite

    def run(self, nodes: Sequence[Any], values: Values, free: bool = True) -> set[Node]:
        """Fill `values` (and let go of those that die, unless a caller keeps count itself).

        Once a leaf is overwritten, every value so far is noted on its node: if a later step fails, the graph can still
        be evaluated from there. Gives the nodes with notes; the caller takes these back when it has the results.
        """
        noted: set[Node] = set()
        activity, listeners = events.activity, events.listeners
        activity.total = len(self.steps)
        activity.done = done = 0
        guard: _Guard | None = None  # once a leaf is overwritten
        for step, kernel, bases in self.steps:
            began = time.perf_counter() if listeners else 0.0
            try:
                if guard is None and not (bases and _loose(bases, nodes)):
                    run_step(step, kernel, nodes, values, noted)
                else:
                    guard = guard or _Guard(nodes, values, noted)
                    if bases:
                        with to_the_end():
                            guard.run(step, kernel, nodes, values, noted)
                    else:
                        run_step(step, kernel, nodes, values, noted)
                        guard.keep(step)
            except Exception as error:
                note_site(error, nodes, step)
                raise
            if listeners:
                report(step, nodes, values, began)
            if free:
                for x in step.frees:
                    values[x] = None
            activity.done = done = done + 1
        return noted


class _Guard:
    """Runs steps that overwrite leaves: once one did, every value is noted on its node as it is made."""

    def __init__(self, nodes: Sequence[Any], values: Values, noted: set[Node]) -> None:
        self._nodes, self._values, self._noted = nodes, values, noted
        self.keeping = False

    def run(self, step: Step, kernel: Any, nodes: Sequence[Any], values: Values, noted: set[Node]) -> None:
        """A step; those that share tiles and run one by one are guarded each."""
        if isinstance(step, Tiled):
            run_tiled(step, kernel, nodes, values, noted, self.run)
        else:
            run_step(step, kernel, nodes, values, noted)
        self.keep(step)

    def keep(self, step: Step) -> None:
        """Note what a step made (all so far, if it is the first)."""
        _keep_progress(step, self._nodes, self._values, self._noted, self.keeping)
        self.keeping = True


def run_step(step: Step, kernel: Any, nodes: Sequence[Any], values: Values, noted: set[Node]) -> None:
    """One step, by its kind."""
    if type(step) is Pass:  # most are
        run_pass(step, kernel, nodes, values, noted)
        return
    match step:
        case Tiled():
            run_tiled(step, kernel, nodes, values, noted, run_step)
        case View():
            values[step.pos] = nodes[step.pos].op.numpy(values[step.input])
        case Call():
            values[step.pos] = call(nodes[step.pos], [values[x] for x in step.inputs])
        case Write():
            run_write(step, nodes, values, noted)
        case _:
            raise AssertionError(f"{type(step).__name__} is not for one worker")


@contextmanager
def to_the_end() -> Iterator[None]:
    """Ctrl-C waits until the block has ended: what overwrites a buffer must also note that it did."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    pressed: list[tuple[Any, ...]] = []
    signal.signal(signal.SIGINT, lambda *args: pressed.append(args))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if pressed:
            before(*pressed[0])


def _loose(bases: Sequence[int], nodes: Sequence[Node]) -> bool:
    """Whether some of these are leaves that nothing but this evaluation knows."""
    return any(isinstance(op := nodes[b].op, Leaf) and op.loose for b in bases)


def _keep_progress(step: Step, nodes: Sequence[Node], values: Values, noted: set[Node], keeping: bool) -> None:
    """Note what the step made (all so far, if it is the first that overwrites a leaf)."""
    for x in makes(step) if keeping else range(len(nodes)):
        if isinstance(values[x], np.ndarray) and nodes[x].value is None:
            nodes[x].value = values[x]
            noted.add(nodes[x])
    for b in overwritten(step):  # its value is gone, and whoever else has the node computes it again
        if nodes[b] in noted:
            noted.discard(nodes[b])
            nodes[b].value = None


def report(step: Step, nodes: Sequence[Any], values: Values, began: float) -> None:
    """Tell listeners what a step did."""
    if isinstance(step, View):
        return
    made = makes(step)
    name = ", ".join(nodes[m].op.label() for m in members(step))
    touched = sum(v.nbytes for x in {*reads(step), *made} if isinstance(v := values[x], np.ndarray))
    flops: float = sum(
        operations(p.kernel, 1 if p.turns is None else p.turns.count) * prod(space_of(p, nodes)) for p in passes(step)
    )
    if isinstance(step, Call) and isinstance(op := nodes[step.pos].op, Contract):
        flops = 2.0 * prod(op.sizes([values[x].shape for x in step.inputs]).values())
    kind = {Pass: "pass", Tiled: "pass", Call: "call", Write: "write"}[type(step)]
    site = nodes[made[0]].site
    where = "" if site is None else f"{site[0]}:{site[1]}"
    events.emit(events.Event(kind, name, began, time.perf_counter(), touched, where=where, flops=flops))


def note_site(error: Exception, nodes: Sequence[Node], step: Step) -> None:
    """Tell where the failing operator was recorded."""
    for m in members(step):
        site = nodes[m].site
        if site is not None:
            error.add_note(f"in {nodes[m].op.label()}, recorded at {site[0]}:{site[1]}")
            return


def call(node: Node, inputs: list[Any]) -> Any:
    """One operator on NumPy; large elementwise ones on all cores."""
    op = node.op
    if type(op) is Map and node.known and node.nbytes >= PARALLEL_BYTES and op.fn.nout == 1:
        return _map_tiles(node, op, inputs)
    if type(op) is Empty:
        return fresh(node)
    if type(op) is Full or type(op) is Copy:
        out = fresh(node)
        threads.parallel_copy(out, inputs[0])
        return out
    with np.errstate(all="ignore"):  # recorded work raises no warnings
        result = _selected(*inputs) if type(op) is Compress else op.numpy(*inputs)
    if type(op) is Compress:
        length = node.shape[0]
        if isinstance(length, Length):  # on a mesh, it has been counted before
            length.settle(result.shape[0])
    made = np.asarray(result)
    if made.base is not None and type(op) not in ALIASES and any(np.may_share_memory(made, x) for x in inputs):
        return made.copy(order="K")  # an update of the input must not be seen
    return made


def _selected(values: Any, mask: Any) -> Any:
    """values[mask]."""
    native = current().native and mask.size >= SELECT_LEAST
    found = importlib.import_module("tilewise.target.llvm").select(values, mask) if native else None
    return values[mask] if found is None else found


def _map_tiles(node: Node, op: Map, inputs: list[Any]) -> Any:
    out = fresh(node)
    axis = node.order[0] if node.order else 0
    whole = [np.broadcast_to(x, node.shape) for x in inputs]
    index: list[Any] = [slice(None)] * node.ndim

    def part(lo: int, hi: int) -> None:
        key = tuple([*index[:axis], slice(lo, hi), *index[axis + 1 :]])
        if isinstance(op.fn.call, np.ufunc):
            op.fn.call(*(x[key] for x in whole), out=out[key])
        else:
            out[key] = op.numpy(*(x[key] for x in whole))

    # NumPy's error state belongs to the thread that asks, not to the helpers: recorded work raises no warnings.
    def quiet(lo: int, hi: int) -> None:
        with np.errstate(all="ignore"):
            part(lo, hi)

    threads.parallel_for(quiet, _ranges(node.shape[axis]))
    return out


def _ranges(n: int) -> list[tuple[int, int]]:
    """A few parts per thread: threads that are held up hand over the rest."""
    parts = min(4 * threads.get_threads(), max(n, 1))
    return [(n * i // parts, n * (i + 1) // parts) for i in range(parts)]


def run_pass(step: Pass, kernel: Callable[..., None], nodes: Sequence[Node], values: Values, noted: set[Node]) -> None:
    """Allocate what the pass makes, then run its kernel."""
    inputs = [values[x] for x in step.inputs]
    params = [values[x] for x in step.params]
    made = outs = []
    if step.plain:
        dims = nodes[step.space].dims
        for pos in step.outs:
            node = nodes[pos]
            made.append(pool.empty(dims, node.dtype, node.order) if type(node) is Node else fresh(node))
    else:
        if step.blas or (step.letters is not None and single(step, nodes)):
            values[step.outs[0]] = call(nodes[step.outs[0]], inputs)
            return
        made = [_made(step, k, nodes, values, inputs, noted) for k in range(len(step.outs))]
        outs = [_seen(out, step, k, nodes[pos]) for k, (pos, out) in enumerate(zip(step.outs, made, strict=True))]
        if step.turns is not None:
            params = _by_turn(step.turns, step.kernel, params)
        dims = space_of(step, nodes)
        if step.letters is not None:
            inputs = [walked(x, along, len(dims)) for x, along in zip(inputs, step.letters, strict=True)]
    if 0 in dims:
        _check_empty(step.kernel, dims)
    kernel(dims, inputs, params, outs)
    for k, pos in enumerate(step.outs):
        values[pos] = made[k]


def _made(step: Pass, k: int, nodes: Sequence[Node], values: Values, inputs: list[Any], noted: set[Node]) -> Any:
    """The array that output k becomes: a new one, or that of the base it is written into."""
    base, node = step.writes[k], nodes[step.outs[k]]
    if base is None:
        return fresh(node)
    op = node.op
    assert isinstance(op, Update)
    ours = step.last_uses[k] and owned(values[base], nodes[base], noted)
    return _target(values[base], node, ours, op.window, inputs)


def _seen(out: np.ndarray[Any, Any], step: Pass, k: int, node: Node) -> np.ndarray[Any, Any]:
    """The part of it that the kernel fills."""
    if step.writes[k] is None:
        return kept_axes(out, node, step, k)
    assert isinstance(node.op, Update)
    return node.op.window.on(out)


def _by_turn(turns: Turns, kernel: Kernel, given: list[Any]) -> list[Any]:
    """The params of a kernel with turns: numbers, how many turns, tables."""
    tables = [np.array([given[k] for k in row], dtype) for row, dtype in zip(turns.tables, kernel.tables, strict=True)]
    return [*(given[k] for k in turns.numbers), turns.count, *tables]


def _check_empty(kernel: Kernel, dims: tuple[int, ...]) -> None:
    """Raise NumPy's error where the least or greatest of nothing is asked for."""
    gone = any(d == 0 for d, r in zip(dims, kernel.reduced, strict=True) if r)
    left = all(d > 0 for d, r in zip(dims, kernel.reduced, strict=True) if not r)
    for out in kernel.outputs:
        if out.reduce in ("minimum", "maximum") and not out.scan and out.key is None and gone and left:
            raise ValueError(f"zero-size array to reduction operation {out.reduce} which has no identity")


def kept_axes(out: np.ndarray[Any, Any], node: Node, step: Pass, k: int) -> np.ndarray[Any, Any]:
    """The output as the kernel wants it: reductions without the axes they keep with length one."""
    if not drops_axes(step, k, node):
        return out
    return out[(*(0 if r else slice(None) for r in step.kernel.reduced), Ellipsis)]


def _target(base: Any, node: Node, ours: bool, window: Window, inputs: list[Any]) -> np.ndarray[Any, Any]:
    """The buffer an update goes to: the base's own, if nobody can tell; else a new one with the rest copied."""
    if ours and all(_aligned(x, base, window) for x in inputs):
        return base  # type: ignore[no-any-return]
    out = fresh(node)
    copy_around(out, base, window)
    return out


def _aligned(x: np.ndarray[Any, Any], base: np.ndarray[Any, Any], window: Window) -> bool:
    """Whether reading x while writing the window is safe: other elements (a row before, say), or the very same."""
    if _apart(x, base, window):
        return True
    target = window.on(base)
    same = x.__array_interface__["data"][0] == target.__array_interface__["data"][0]
    return same and x.shape == target.shape and x.strides == target.strides


def _apart(x: np.ndarray[Any, Any], base: np.ndarray[Any, Any], window: Window) -> bool:
    """Whether x and the window have no memory in common."""
    return not np.may_share_memory(x, base) or apart(x, window.on(base))


def apart(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> bool:
    """Whether two views have no element in common, though they may lie between the same ends."""
    return not np.may_share_memory(x, y, max_work=LOOKED_AT)  # type: ignore[arg-type]  # any number


def copy_around(out: np.ndarray[Any, Any], base: np.ndarray[Any, Any], window: Window) -> None:
    """Copy what the window leaves out (only that, where the window is a plain box of unit steps)."""
    for key in box_around(out, window):
        threads.parallel_copy(out[key], base[key])


def box_around(out: np.ndarray[Any, Any], window: Window) -> Iterator[Any]:
    """Keys of the parts of an array that a window leaves out; of all of it, where the window is not a plain box."""
    found = explain(window)
    if found is None or any(a.base is not None and a.step != 1 for a in found[0]):
        yield ...
        return
    axes, starts = found
    box = [(s, s + 1) for s in starts]
    for a in axes:
        if a.base is not None:
            box[a.base] = (a.start, a.start + a.length)
    yield from around([slice(*ends) for ends in box], out.shape)


def owned(base: np.ndarray[Any, Any], node: Node, noted: set[Node]) -> bool:
    """Whether the array is ours to overwrite: made in this run, or a leaf that only this run still knows."""
    if node.value is None or node in noted:
        free = not isinstance(base.base, np.ndarray) or getattr(node, "margin", 0) > 0
        return free and base.flags.writeable and laid_out(base, node)
    return isinstance(node.op, Leaf) and node.op.loose


def laid_out(base: np.ndarray[Any, Any], node: Node) -> bool:
    """Whether the array lies in memory as the node says (NumPy's functions choose orders of their own)."""
    return same_strides(base, strides_of(base.shape, base.dtype.itemsize, node.order))


def run_write(step: Write, nodes: Sequence[Node], values: Values, noted: set[Node]) -> None:
    """A write that is not fused with the computation of its value."""
    node = nodes[step.pos]
    op = node.op
    assert isinstance(op, WriteOp)
    base = values[step.base]
    inputs = [values[x] for x in step.inputs]
    # Writing at index arrays can fail half-way (an index out of range): only an update is done in place.
    ours = step.last_use and owned(base, nodes[step.base], noted)
    if ours and isinstance(op, Update) and all(_apart(x, base, op.window) for x in inputs):
        out = base
    else:
        out = fresh(node)
        if isinstance(op, Update):
            copy_around(out, base, op.window)
        else:
            threads.parallel_copy(out, base)
    if isinstance(op, Update) and inputs[0].dtype == out.dtype:
        threads.parallel_copy(op.window.on(out), inputs[0])
    else:
        with np.errstate(all="ignore"):
            op.into(out, *inputs)
    values[step.pos] = out
