"""How long a step takes. In: a step, types and layouts of values, a machine. Out: seconds on the busiest worker."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tilewise.cost.model import Machine, op_seconds
from tilewise.ir.scalar import EXPENSIVE
from tilewise.layout import Layout, Mesh, local_dims
from tilewise.ops.contract import Contract
from tilewise.plan.mesh import Spec
from tilewise.plan.steps import Call, Exchange, Pass, Step, Tiled, View, makes, passes, reads


def step_seconds(
    step: Step, specs: Sequence[Spec], layouts: Sequence[Layout] | None, mesh: Mesh, machine: Machine
) -> float:
    """A step that is no exchange: bytes in and out, arithmetic, and what any step costs."""
    if isinstance(step, View | Exchange):
        return 0.0

    def dims(pos: int) -> tuple[int, ...]:
        shape = specs[pos].shape
        return shape if layouts is None else local_dims(layouts[pos], shape, mesh)

    touched = sum(prod(dims(x)) * specs[x].dtype.itemsize for x in {*reads(step), *makes(step)})
    alone = isinstance(step, Call) and not isinstance(specs[step.pos].op, Contract)
    seconds = machine.step_seconds + touched / (machine.numpy_rate if alone else machine.memory_rate)
    if isinstance(step, Pass | Tiled):
        for each in passes(step):
            functions = sum(i.fn in EXPENSIVE for i in each.kernel.body)
            seconds += functions * prod(dims(each.space)) / machine.function_rate
        return seconds
    return seconds + op_seconds(
        specs[step.pos].op, [dims(x) for x in specs[step.pos].inputs], prod(dims(step.pos)), machine
    )
