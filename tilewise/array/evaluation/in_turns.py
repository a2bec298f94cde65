"""Evaluating within memory=, block by block. In: nodes whose lengths are known, cells. Out: the cells, with values.

Used where a plan on whole arrays, or on whole blocks of workers, does not fit. Results that do not fit either stay in
spill files: they are sources then, which plans read by boxes.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from tilewise import compiler
from tilewise.array.cell import ND, Cell
from tilewise.array.evaluation import workers
from tilewise.array.pending import PENDING
from tilewise.array.session import Session, no_session
from tilewise.backend import chosen
from tilewise.compiler.stream import prepare_streams
from tilewise.config import Settings
from tilewise.engine.cluster import Cluster
from tilewise.engine.remote import Remote
from tilewise.engine.stream.run import run_streams
from tilewise.ir.node import Node, known_leaf, walk
from tilewise.layout import Box, Replicate, Shard, box_size, owned_box
from tilewise.ops.const import Const
from tilewise.plan.shares import LEAST_BYTES, SHARE, Shares
from tilewise.plan.streams import Streams
from tilewise.plan.structure import remember
from tilewise.store.base import Sink, Source

SHORT_RUN = 4096  # bytes: writing as many takes about as long as the call


def plan_streams(
    roots: Sequence[Node], settings: Settings, memory: int
) -> tuple[Streams, list[Node], list[Any], list[Any]]:
    """The plan for roots, with its nodes, leaves and constants in order."""
    narrow = compiler.narrowed(roots, settings)
    nodes = walk(narrow)
    at = {n: i for i, n in enumerate(nodes)}
    plan = prepare_streams(nodes, [at[r] for r in narrow], settings, memory)
    return plan, nodes, *_given(nodes)


def _given(nodes: Sequence[Node]) -> tuple[list[Any], list[Any]]:
    leaves = [n.value for n in nodes if n.value is not None]
    consts = [n.op.value for n in nodes if type(n.op) is Const and n.value is None]
    return leaves, consts


def plan_shares(
    roots: Sequence[Node], settings: Settings, memory: int, cluster: Cluster
) -> tuple[Shares, list[Any], list[Any]] | None:
    """The plan for roots whose blocks take turns on the workers of a cluster, with its leaves and constants.

    None where these cannot share it: what only the driver or another cluster can read, what lies on a grid. Workers of
    a grid take turns as those of a line do, row by row.
    """
    narrow = compiler.narrowed(roots, settings)
    nodes, mesh = walk(narrow), cluster.mesh
    held = {n: n.value.layout for n in nodes if isinstance(n.value, Remote) and n.value.cluster is cluster}
    others = [n.value for n in nodes if isinstance(n.value, Source) and n not in held]
    lie = all(isinstance(x, Shard | Replicate) for x in held.values())
    if not lie or not all(x.opened_by_workers for x in others):
        return None
    at = {n: i for i, n in enumerate(nodes)}
    leaves, consts = _given(nodes)
    given = {id(x) for x in leaves if isinstance(x, Remote) and isinstance(x.layout, Replicate)}  # counted by the plan
    left = memory - sum(x.held_bytes for x in cluster.living() if id(x) not in given)
    messages = max(memory // SHARE, LEAST_BYTES)
    streams = prepare_streams(nodes, [at[r] for r in narrow], settings, left - messages, held, mesh.workers)
    by_leaf = [n for n in nodes if n.value is not None]
    lying = {p: held[n] for n, p in zip(by_leaf, streams.plan.leaves, strict=True) if n in held}
    key = "shares", id(streams), mesh, messages, tuple(lying.items())
    known: tuple[object, Shares] | None = compiler.mesh_plans.get(key)
    if known is None or known[0] is not streams:
        most = max(messages // (2 * mesh.workers), LEAST_BYTES)
        made = Shares(streams, mesh.workers, most, lying, mesh.blocks)
        known = streams, made
        remember(compiler.mesh_plans, key, known)
    return (known[1], leaves, consts) if known[1].possible else None


writing: dict[Cell, Sink] = {}  # results that are to be written, by whoever evaluates them


def _sinks(plan: Streams, outputs: Sequence[Cell], by_workers: bool = False) -> dict[int, Sink]:
    """By position: the sinks of results that loops can write to, and the cells' entries used up."""
    found: dict[int, Sink] = {}
    for c, pos in zip(outputs, plan.wanted, strict=True):
        sink = writing.get(c)
        if sink is not None and sink.dtype == c.meta().dtype and written_by_loops(plan, pos, sink, by_workers):
            found[pos] = writing.pop(c)
    return found


def written_by_loops(plan: Streams, pos: int, sink: Sink, by_workers: bool) -> bool:
    """Whether loops can write a result to a sink.

    Not one that is kept in memory, nor where chunks must be written as a whole and blocks end within them. Nor where
    blocks are many short runs of a file: it is less work to write them to a spill file, and longer runs from there.
    """
    shape, read = plan.plan.specs[pos].shape, {plan.origin[x] for loop in plan.loops for x in loop.takes}
    fits = plan.origin[pos] == pos and pos in plan.on_disk and pos not in read and plan.wanted.count(pos) == 1
    if not fits or (by_workers and not sink.opened_by_workers) or sink.shape != shape:
        return False
    own = [owned_box(plan.plan.layouts[pos], shape, plan.plan.mesh, block=b) for b in range(plan.blocks)]
    boxes = [box for box in own if all(isinstance(s, tuple) for s in box)]
    if len(boxes) < len(own):
        return False
    parts: list[Box] = [part for box in boxes for part in sink.parts(box)]  # type: ignore[arg-type]
    if not by_workers and any(sink.run_bytes(part) < min(SHORT_RUN, _nbytes(sink, part)) for part in parts):
        return False
    return not sink.whole_chunks or all(part == sink.chunk_box(part) for part in parts)


def _nbytes(sink: Sink, box: Box) -> int:
    return box_size(box) * sink.dtype.itemsize


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


def run_shared(outputs: Sequence[Cell], settings: Settings, session: Session, cluster: Cluster, stays: bool) -> bool:
    """The same on workers, each of which takes its share of the blocks in turn; whether they can."""
    assert session.memory is not None
    roots = [c.node for c in outputs if c.node is not None]
    found = plan_shares(roots, settings, session.memory, cluster)
    if found is None:
        return False
    shares, leaves, consts = found
    sinks = _sinks(shares.streams, outputs, by_workers=True)
    packed = [pickle.dumps(sinks[pos]) if pos in sinks else None for pos in shares.wanted]
    with workers.moving(cluster, shares.network_bytes):
        results = workers.run(shares, leaves, consts, settings, cluster, packed if sinks else ())
    for c, pos, remote in zip(outputs, shares.wanted, results, strict=True):
        if pos in sinks:
            sinks[pos].count(prod(sinks[pos].shape))  # loops have written all of it
            continue
        PENDING.pop(id(c), None)
        if stays and c.owner is session:
            c.place(known_leaf(remote, remote.order))
        else:
            c.become(workers.whole(remote))
    return True
