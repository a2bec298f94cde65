"""Evaluating within memory=, block by block. In: nodes whose lengths are known, cells. Out: the cells, with values.

Used by the local engine where a plan on whole arrays does not fit. Results that do not fit either stay in spill files:
they are sources then, which plans read by boxes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewise import compiler
from tilewise.array.cell import ND, Cell
from tilewise.array.pending import PENDING
from tilewise.array.session import Session, no_session
from tilewise.backend import chosen
from tilewise.compiler.stream import prepare_streams
from tilewise.config import Settings
from tilewise.engine.stream.run import run_streams
from tilewise.ir.node import Node, known_leaf, walk
from tilewise.layout import owned_box
from tilewise.ops.const import Const
from tilewise.plan.streams import Streams
from tilewise.store.base import Sink, Source


def plan_streams(
    roots: Sequence[Node], settings: Settings, memory: int
) -> tuple[Streams, list[Node], list[Any], list[Any]]:
    """The plan for roots, with its nodes, leaves and constants in order."""
    narrow = compiler.narrowed(roots, settings)
    nodes = walk(narrow)
    at = {n: i for i, n in enumerate(nodes)}
    plan = prepare_streams(nodes, [at[r] for r in narrow], settings, memory)
    leaves = [n.value for n in nodes if n.value is not None]
    consts = [n.op.value for n in nodes if type(n.op) is Const and n.value is None]
    return plan, nodes, leaves, consts


writing: dict[Cell, Sink] = {}  # results that are to be written, by whoever evaluates them


def _sinks(plan: Streams, outputs: Sequence[Cell]) -> dict[int, Sink]:
    """By position: the sinks of results that loops can write to, and the cells' entries used up.

    Not of results that are kept in memory, nor where chunks must be written as a whole and blocks end within them.
    """
    found: dict[int, Sink] = {}
    read = {plan.origin[x] for loop in plan.loops for x in loop.takes}
    for c, pos in zip(outputs, plan.wanted, strict=True):
        sink, shape = writing.get(c), plan.plan.specs[pos].shape
        fits = sink is not None and plan.origin[pos] == pos and pos in plan.on_disk and pos not in read
        if (
            sink is None
            or not fits
            or plan.wanted.count(pos) > 1
            or (sink.shape, sink.dtype) != (shape, c.meta().dtype)
        ):
            continue
        own = [owned_box(plan.plan.layouts[pos], shape, plan.plan.mesh, block=b) for b in range(plan.blocks)]
        boxes = [box for box in own if all(isinstance(s, tuple) for s in box)]
        whole = all(part == sink.chunk_box(part) for box in boxes for part in sink.parts(box))  # type: ignore[arg-type]
        if len(boxes) == len(own) and (whole or not sink.whole_chunks):
            found[pos] = writing.pop(c)
    return found


def run_streamed(
    outputs: Sequence[Cell], settings: Settings, session: Session, conform: Callable[[Any, Node, bool], ND]
) -> None:
    """Make cells known whose lengths are."""
    assert session.memory is not None
    roots = [c.node for c in outputs if c.node is not None]
    plan, _, leaves, consts = plan_streams(roots, settings, session.memory)
    with no_session():  # a user's function may compute as well: it has no plan of its own within ours
        sinks = _sinks(plan, outputs)
        results = run_streams(plan, leaves, consts, chosen(settings), session.memory, session.disk, sinks)
    taken = {id(x) for x in leaves}
    for c, value in zip(outputs, results, strict=True):
        node = c.node
        assert node is not None
        if isinstance(value, Sink):
            continue  # it is written, and computed again for whoever asks
        if isinstance(value, Source):
            c.place(known_leaf(value, value.order))
        else:
            c.become(conform(np.asarray(value), node, id(value) not in taken))
            taken.add(id(value))
        PENDING.pop(id(c), None)
