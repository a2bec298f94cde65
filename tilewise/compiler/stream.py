"""From a graph to a plan whose blocks take turns. In: nodes, which are wanted, bytes of memory. Out: streams.

The graph is planned as for a mesh with one worker per block, by the bytes that cross between them: here, these are
bytes through files. There are as many blocks as it takes to stay within memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tilewise.compiler import mesh_plans
from tilewise.compiler.mesh import prepare_mesh
from tilewise.config import Settings
from tilewise.cost.stored import machine_for
from tilewise.errors import MemoryBudgetError, message
from tilewise.ir.node import Node
from tilewise.layout import Layout, Mesh, OnDriver, Shard, Stored, even_cuts
from tilewise.plan.loops import streams
from tilewise.plan.streams import Streams
from tilewise.plan.structure import remember
from tilewise.solver.model.replicas import Held
from tilewise.store.base import Source

FEW_BLOCKS, MOST_BLOCKS = 8, 2048  # few: reading is to overlap with computing
GRIDS = ((2, 2), (4, 4), (8, 8), (16, 16), (32, 32))


def prepare_streams(nodes: Sequence[Node], wanted: Sequence[int], settings: Settings, memory: int) -> Streams:
    """The plan with the fewest blocks that stays within memory; an error that says how much would do if none does."""
    least: Streams | None = None
    for mesh, ahead in _meshes(nodes, wanted, settings, memory):
        found = _planned(nodes, wanted, settings, memory, mesh, ahead)
        if found.peak_bytes <= memory:
            return found
        least = found if least is None or found.peak_bytes < least.peak_bytes else least
    assert least is not None
    raise MemoryBudgetError(
        message(
            f"no plan needs less than {least.peak_bytes:,} bytes, and memory= allows {memory:,}",
            got=f"the least of all that were looked at, with {least.blocks:,} blocks",
            cure=f"Set memory={least.peak_bytes}, or evaluate in smaller parts",
        )
    )


def _meshes(
    nodes: Sequence[Node], wanted: Sequence[int], settings: Settings, memory: int
) -> Iterator[tuple[Mesh, bool]]:
    """Numbers of blocks to try: as many as should do by what fewer need, then grids, then without reading ahead."""
    longest = max((d for n in nodes for d in n.dims), default=1)
    most = min(MOST_BLOCKS, max(longest, 2))
    blocks = min(FEW_BLOCKS, most)
    while True:
        yield Mesh(blocks), True
        found = _planned(nodes, wanted, settings, memory, Mesh(blocks), True)
        fixed, moving = max((found.loop_bytes(k) for k in range(len(found.loops))), key=sum, default=(0, 0))
        if fixed >= memory or blocks >= most:
            break
        needed = -(-blocks * moving // (memory - fixed))
        blocks = min(max(needed + needed // 16, blocks + 1), most)
    for rows, columns in GRIDS:
        if rows <= longest:
            yield Mesh(rows * columns, 1, columns), True
    yield Mesh(blocks), False
    for rows, columns in GRIDS:
        if rows <= longest:
            yield Mesh(rows * columns, 1, columns), False


def lies(source: Source, mesh: Mesh) -> Layout:
    """How a source is best cut for blocks: along its chunks, of which no two blocks then read the same.

    Another way to cut it costs as much as an exchange: its chunks are read in parts.
    """
    if not source.shape:
        return Stored()
    blocks, lengths = mesh.total_blocks, source.chunks if source.whole_chunks else [1] * len(source.shape)
    counts = [-(-n // c) for n, c in zip(source.shape, lengths, strict=True)]
    axes = source.order or tuple(range(len(counts)))
    axis = next((a for a in axes if counts[a] >= blocks), max(axes, key=lambda a: counts[a]))
    cuts = even_cuts(counts[axis], blocks)
    return Shard(axis, tuple(min(c * lengths[axis], source.shape[axis]) for c in cuts))


def _planned(
    nodes: Sequence[Node], wanted: Sequence[int], settings: Settings, memory: int, mesh: Mesh, ahead: bool
) -> Streams:
    leaves: dict[Node, Held] = {}
    for n in nodes:
        if n.value is not None:
            leaves[n] = (lies(n.value, mesh) if isinstance(n.value, Source) else OnDriver(),)
    machine = replace(machine_for(settings), objective="bytes")
    plan = prepare_mesh(nodes, wanted, leaves, mesh, settings, machine, one_pass=True)
    key = "streams", id(plan), len(wanted), memory, ahead
    known: tuple[object, Streams] | None = mesh_plans.get(key)
    if known is not None and known[0] is plan:
        return known[1]
    here = [pos for pos, where in zip(plan.leaves, leaves.values(), strict=True) if isinstance(where[0], OnDriver)]
    made = streams(plan, plan.wanted[: len(wanted)], here, memory, ahead)
    remember(mesh_plans, key, (plan, made))
    return made
