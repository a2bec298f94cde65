"""Steps on arrays of this process. In: steps, what they are bound to, nodes, values. Out: values filled in.

`nodes` gives the sizes of this run (a cached plan serves graphs of any size); `values` holds an array per position.
What a pass or a group is bound to is the backend's (`HostBackend.bound`): everything else here is NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise.backend import host_backend, threads
from tilewise.backend.host.arrays import fresh, walked
from tilewise.backend.host.boxes import around
from tilewise.backend.host.parts import BY_PARTS, by_parts
from tilewise.config import current
from tilewise.ir.node import Leaf, Length, Node
from tilewise.ir.order import strides_of
from tilewise.ir.reductions import by_name
from tilewise.kernel.loops import Kernel
from tilewise.later import later
from tilewise.ops.create import Empty, Full
from tilewise.ops.elementwise import Map
from tilewise.ops.index import Compress, Update
from tilewise.ops.index import Write as WriteOp
from tilewise.ops.join import Copy
from tilewise.ops.lines import Lines
from tilewise.ops.views import Window, explain, same_strides
from tilewise.stage.cut_axis import drops_axes, single, space_of
from tilewise.stage.steps import ALIASES, Call, LoopParams, Pass, Step, Tiled, View, Write
from tilewise.store import pool
from tilewise.tuning import Tuning, follow

if TYPE_CHECKING:
    from tilewise.backend.host import order_statistics
else:
    order_statistics = later("tilewise.backend.host.order_statistics")

_map_parallel_bytes: int  # kept by `_adopt`
_select_least: int  # kept by `_adopt`

Values = list[Any]

LOOKED_AT = 100  # of the ways in which two views could have memory in common


def run_step(step: Step, kernel: Any, nodes: Sequence[Any], values: Values, noted: set[Node]) -> None:
    """One step, by its kind."""
    if type(step) is Pass:  # most are
        run_pass(step, kernel, nodes, values, noted)
        return
    match step:
        case Tiled():
            kernel.run(nodes, values, noted, run_step)
        case View():
            values[step.pos] = nodes[step.pos].op.numpy(values[step.input])
        case Call():
            values[step.pos] = call(nodes[step.pos], [values[x] for x in step.inputs])
        case Write():
            run_write(step, nodes, values, noted)
        case _:
            raise AssertionError(f"{type(step).__name__} is not for one worker")


def call(node: Node, inputs: list[Any]) -> Any:
    """One operator on NumPy; large elementwise ones on all cores."""
    with np.errstate(all="ignore"):  # recorded work raises no warnings
        return called(node, inputs)


def called(node: Node, inputs: list[Any]) -> Any:
    """The same for who sees to warnings."""
    op = node.op
    if type(op) is Map and node.known and node.nbytes >= _map_parallel_bytes and op.fn.nout == 1:
        return _map_tiles(node, op, inputs)
    if type(op) is Empty:
        return fresh(node)
    if type(op) is Full or type(op) is Copy:
        out = fresh(node)
        threads.parallel_copy(out, inputs[0])
        return out
    if type(op) in BY_PARTS and node.known and node.nbytes >= _map_parallel_bytes:
        parts = by_parts(node, inputs)
        if parts is not None:
            return parts
    result = order_statistics.quantiles(op, inputs[0]) if type(op) is Lines else None
    if result is None:
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
    return values[mask] if mask.size < _select_least else host_backend(current().native).select(values, mask)


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
        made = [made_by(step, k, nodes, values, inputs, noted) for k in range(len(step.outs))]
        outs = [_seen(out, step, k, nodes[pos]) for k, (pos, out) in enumerate(zip(step.outs, made, strict=True))]
        if step.iterations is not None:
            params = _loop_params(step.iterations, step.kernel, params)
        dims = space_of(step, nodes)
        if step.letters is not None:
            inputs = [walked(x, along, len(dims)) for x, along in zip(inputs, step.letters, strict=True)]
    if 0 in dims:
        _check_empty(step.kernel, dims)
    kernel(dims, inputs, params, outs)
    for k, pos in enumerate(step.outs):
        values[pos] = made[k]


def made_by(step: Pass, k: int, nodes: Sequence[Node], values: Values, inputs: list[Any], noted: set[Node]) -> Any:
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


def _loop_params(iterations: LoopParams, kernel: Kernel, given: list[Any]) -> list[Any]:
    """The params of a kernel with iterations: numbers, how many iterations, tables."""
    tables = [
        np.array([given[k] for k in row], dtype) for row, dtype in zip(iterations.tables, kernel.tables, strict=True)
    ]
    return [*(given[k] for k in iterations.numbers), iterations.count, *tables]


def _check_empty(kernel: Kernel, dims: tuple[int, ...]) -> None:
    """Raise NumPy's error where the least or greatest of nothing is asked for."""
    gone = any(d == 0 for d, r in zip(dims, kernel.reduced, strict=True) if r)
    left = all(d > 0 for d, r in zip(dims, kernel.reduced, strict=True) if not r)
    for out in kernel.outputs if gone and left else ():
        row = None if out.reduce is None or out.scan or out.key is not None else by_name(out.reduce)
        if row is not None and row.ufunc is not None and row.ufunc.identity is None:
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
    for key in box_around(window, out.shape):
        threads.parallel_copy(out[key], base[key])


@lru_cache(maxsize=1024)
def box_around(window: Window, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Keys of the parts of an array that a window leaves out; of all of it, where the window is not a plain box."""
    found = explain(window)
    if found is None or any(a.base is not None and a.step != 1 for a in found[0]):
        return (...,)
    axes, starts = found
    box = [(s, s + 1) for s in starts]
    for a in axes:
        if a.base is not None:
            box[a.base] = (a.start, a.start + a.length)
    return tuple(around([slice(*ends) for ends in box], shape))


def owned(base: np.ndarray[Any, Any], node: Node, noted: set[Node]) -> bool:
    """Whether the array is ours to overwrite: made in this run, or a leaf that only this run still knows."""
    if node.value is None or node in noted:
        free = not isinstance(base.base, np.ndarray) or getattr(node, "margin", 0) > 0
        return free and base.flags.writeable and laid_out(base, node)
    return isinstance(node.op, Leaf) and node.op.unshared


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


def _adopt(tuning: Tuning) -> None:
    """Keep the figures that are needed often."""
    global _map_parallel_bytes, _select_least
    _map_parallel_bytes = tuning.map_parallel_bytes
    _select_least = tuning.select_least


follow(_adopt)
