"""From a graph to something that runs, planned once per structure. In: nodes, which are wanted. Out: a Runner.

The key of a plan leaves out everything that only changes numbers: sizes, offsets, scalar values, which buffers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewise.config import Settings
from tilewise.engine.run import Runner, compiled, interpreted
from tilewise.ir.node import Node
from tilewise.ops.elementwise import Map
from tilewise.ops.index import Update
from tilewise.plan.fuse import fuse

MAX_PLANS = 2048  # plans kept; a program that makes more structures than this is not a loop

planned_count = 0  # plans made so far (tests assert that loops stop making them)
_plans: dict[Any, Runner] = {}


def key_of(nodes: Sequence[Node], wanted: Sequence[int]) -> tuple[Any, ...]:
    """The structure of a graph."""
    at: dict[Node, int] = {}
    parts: list[Any] = []
    for i, n in enumerate(nodes):
        at[n] = i
        if n.value is not None:
            parts.append((n.dtype, len(n.shape)))
            continue
        op = n.op
        inputs = n.inputs
        if type(op) is Map:
            shape = n.shape
            parts.append((op, *[(at[x], x.shape == shape) for x in inputs], len(shape)))
        elif type(op) is Update:
            fits = inputs[1].shape == op.window.shape and inputs[1].dtype == n.dtype
            parts.append((Update, at[inputs[0]], at[inputs[1]], fits, len(op.window.shape)))
        else:
            parts.append((op.signature, *[at[x] for x in inputs], len(n.shape), n.dtype))
    return (*parts, *wanted)


def prepare(nodes: Sequence[Node], wanted: Sequence[int], settings: Settings) -> Runner:
    """The runner for a graph: from the cache, or planned now."""
    global planned_count
    key = (key_of(nodes, wanted), settings.fusion, settings.native)
    runner = _plans.get(key)
    if runner is None:
        planned_count += 1
        flags = [False] * len(nodes)
        for i in wanted:
            flags[i] = True
        steps = fuse(nodes, flags, settings.fusion)
        runner = Runner(steps, compiled if settings.native else interpreted)
        if len(_plans) >= MAX_PLANS:
            _plans.clear()
        _plans[key] = runner
    return runner
