"""How long a step takes. In: a step, types and layouts of values, a machine. Out: seconds on the busiest worker.

A pass moves bytes while it computes: it takes as long as the longer of the two. Passes that share tiles read what they
share once, and compute one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from tilewise.backend import host_backend
from tilewise.config import current
from tilewise.cost.model import Rates, op_seconds, short_rows
from tilewise.ir.scalar import EXPENSIVE
from tilewise.kernel.loops import Kernel
from tilewise.layout import Layout, Mesh, local_dims
from tilewise.ops.contract import Contract
from tilewise.ops.traits.work import work
from tilewise.ops.views import Arrange, Cut, Window
from tilewise.plan.blocks import Spec
from tilewise.stage.steps import Exchange, Pass, Step, Tiled, View, makes, passes, reads
from tilewise.stage.tiles import overlap_bytes
from tilewise.stage.variance import read_once

DIVISIONS = frozenset(("divide", "sqrt", "reciprocal"))


def seen_bytes(
    step: Step, specs: Sequence[Spec], size: Callable[[int], int], nodes: Sequence[Any] | None = None
) -> tuple[int, int]:
    """Bytes that a step reads and writes; what it sees through several views comes once.

    `nodes` are the values as the largest block has them (None: all of them).

    Passes that share tiles read what chunks of tiles have in common once for each; those that do not, all they need.
    """
    again = 0
    if isinstance(step, Tiled):
        cut = host_backend(current().native).tiling(step, specs if nodes is None else nodes)
        if cut is None:
            each = [seen_bytes(s, specs, size, nodes) for s in step.steps if not isinstance(s, View)]
            return sum(r for r, _ in each), sum(w for _, w in each)
        again = (cut.chunks - 1) * overlap_bytes(step, cut, specs if nodes is None else nodes)
    seen: dict[int, int] = {}
    for x in dict.fromkeys(arrays_read(step)):
        base = x
        while isinstance(specs[base].op, Window | Cut | Arrange) and specs[base].inputs:
            base = specs[base].inputs[0]
        seen[base] = min(seen.get(base, 0) + size(x), max(size(base), size(x)))
    return sum(seen.values()) + again, sum(size(x) for x in makes(step))


def arrays_read(step: Step) -> tuple[int, ...]:
    """What a step reads that is not a number it is given."""
    if isinstance(step, Pass):
        return step.inputs
    if isinstance(step, Tiled):
        walked = {x for p in passes(step) for x in p.inputs}
        return tuple(x for x in step.inputs if x in walked)
    return reads(step)


def step_seconds(
    step: Step,
    specs: Sequence[Spec],
    layouts: Sequence[Layout] | None,
    mesh: Mesh,
    machine: Rates,
    nodes: Sequence[Any] | None = None,
) -> float:
    """A step that is no exchange: bytes moved or arithmetic, and what any step costs (`nodes` as in seen_bytes)."""
    if isinstance(step, View | Exchange):
        return 0.0

    def dims(pos: int) -> tuple[int, ...]:
        shape = specs[pos].shape
        return shape if layouts is None else local_dims(layouts[pos], shape, mesh)

    def size(pos: int) -> int:
        return prod(dims(pos)) * specs[pos].dtype.itemsize

    read, written = seen_bytes(step, specs, size, nodes)
    moved = read / machine.memory_rate + written / machine.store_rate
    if isinstance(step, Pass | Tiled):
        nearest = _only_for_positions(step)
        run = [each for each in passes(step) if each.outs not in _known_after(step)]
        computed = sum(_pass_seconds(each, nearest, specs, dims, machine) for each in run)
        if isinstance(step, Tiled):
            near = sum(size(x) for each in run if not each.blas for x in (*each.inputs, *each.outs))
            computed += near / machine.cache_rate
        return machine.step_seconds + max(moved, computed)
    op, shapes = specs[step.pos].op, [dims(x) for x in specs[step.pos].inputs]
    computed = op_seconds(op, shapes, prod(dims(step.pos)), machine)
    if isinstance(op, Contract):
        return machine.step_seconds + max(moved, computed)
    return machine.step_seconds + (read + written) / machine.numpy_rate + computed


def _known_after(step: Step) -> list[tuple[int, ...]]:
    """What the passes of a group make that do not run: sums that follow from those about pivots (one-pass variance)."""
    if not isinstance(step, Tiled):
        return []
    found = (read_once(s, step) for s in passes(step) if s.centre is not None)
    return [once[1] for once in found if once is not None]


def _only_for_positions(step: Step) -> set[int]:
    """The products in a group of which only argmin or argmax is asked for, and the positions of that."""
    found: set[int] = set()
    for each in passes(step) if isinstance(step, Tiled) else ():
        users = [p for p in passes(step) if each.outs[0] in reads(p)]
        if each.blas and each.outs[0] not in makes(step) and len(users) == 1:
            (user,) = users
            if all(o.is_arg for o in user.kernel.outputs):
                found |= {*each.outs, *user.outs}
    return found


def _pass_seconds(
    each: Pass, nearest: set[int], specs: Sequence[Spec], dims: Callable[[int], tuple[int, ...]], machine: Rates
) -> float:
    """The arithmetic of a pass."""
    if each.blas:
        done = work(specs[each.space].op, [dims(x) for x in specs[each.space].inputs], prod(dims(each.space)))
        return done.flops / (machine.nearest_flop_rate if each.outs[0] in nearest else machine.flop_rate)
    if each.outs[0] in nearest:  # done with the product
        return 0.0
    if each.letters is not None:  # an operand that is read once is what such a sum of products takes
        return 0.0
    space = dims(each.space)
    repeated = {k for k, x in enumerate(each.inputs) if prod(dims(x)) < prod(space)}
    ends = _row_ends(each, len(repeated), space, specs[each.space]) * machine.row_seconds
    return ends + prod(space) * _point_seconds(each.kernel, repeated, machine)


def _row_ends(each: Pass, repeated: int, space: tuple[int, ...], spec: Spec) -> int:
    """How often a pass comes to the end of a short row: for each input that repeats, and where rows are reduced."""
    reduced = each.kernel.reduced
    along = bool(space) and reduced[spec.order[-1] if spec.order else -1] and not all(reduced)
    return (repeated + along) * short_rows(space, spec.dtype.itemsize, spec.order)


def _point_seconds(kernel: Kernel, repeated: set[int], machine: Rates) -> float:
    """The arithmetic of a kernel at one point of its space; some inputs repeat along it."""
    seconds = sum(o.reduce is not None for o in kernel.outputs) / machine.simple_rate
    for i in kernel.body:
        if i.fn.startswith("const:"):
            continue
        rate = machine.simple_rate
        if i.fn in EXPENSIVE:
            rate = machine.function_rate
        elif i.fn in DIVISIONS:
            rate = machine.row_divide_rate if i.args[-1] in repeated else machine.divide_rate
        seconds += max(np.dtype(i.dtype).itemsize, 4) / 8 / rate  # vectors have twice as many float32
    return seconds
