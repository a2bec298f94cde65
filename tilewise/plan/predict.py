"""How long a step takes. In: a step, types and layouts of values, a machine. Out: seconds on the busiest worker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from tilewise.backend import host_backend
from tilewise.config import current
from tilewise.cost.model import Rates, op_seconds
from tilewise.ir.scalar import EXPENSIVE
from tilewise.layout import Layout, Mesh, local_dims
from tilewise.ops.contract import Contract
from tilewise.ops.views import Arrange, Cut, Window
from tilewise.plan.blocks import Spec
from tilewise.stage.steps import Call, Exchange, Pass, Step, Tiled, View, makes, passes, reads
from tilewise.stage.tiles import overlap_bytes


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
    """A step that is no exchange: bytes in and out, arithmetic, and what any step costs (`nodes` as in seen_bytes)."""
    if isinstance(step, View | Exchange):
        return 0.0

    def dims(pos: int) -> tuple[int, ...]:
        shape = specs[pos].shape
        return shape if layouts is None else local_dims(layouts[pos], shape, mesh)

    read, written = seen_bytes(step, specs, lambda x: prod(dims(x)) * specs[x].dtype.itemsize, nodes)
    alone = isinstance(step, Call) and not isinstance(specs[step.pos].op, Contract)
    moved = read / machine.memory_rate + written / machine.store_rate
    seconds = machine.step_seconds + ((read + written) / machine.numpy_rate if alone else moved)
    if isinstance(step, Pass | Tiled):
        for each in passes(step):
            functions = sum(i.fn in EXPENSIVE for i in each.kernel.body)
            seconds += functions * prod(dims(each.space)) / machine.function_rate
            if each.blas:
                shapes = [dims(x) for x in specs[each.space].inputs]
                seconds += op_seconds(specs[each.space].op, shapes, prod(dims(each.space)), machine)
        return seconds
    return seconds + op_seconds(
        specs[step.pos].op, [dims(x) for x in specs[step.pos].inputs], prod(dims(step.pos)), machine
    )
