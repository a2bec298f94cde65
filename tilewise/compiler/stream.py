"""From a graph to a plan whose blocks take turns. In: nodes, which are wanted, bytes of memory. Out: streams.

The graph is planned as for a mesh with one worker per block, by the bytes that cross between them: here, these are
bytes through files. There are as many blocks as it takes to stay within memory; where several workers share them
(plan/shares.py), a multiple of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

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
from tilewise.records import dataclass
from tilewise.solver.model.replicas import Held
from tilewise.store.base import Source

FEW_BLOCKS, MOST_BLOCKS = 8, 2048  # few: reading is to overlap with computing
FEW_EACH = 4  # the same for each of several workers
HOPELESS = 3  # ways that are looked at to say how much would do, where arrays that are given take more than there is
GRIDS = (2, 3, 4, 6, 8, 12, 16)  # blocks along each direction


@dataclass(frozen=True)
class Try:
    """A way to plan: how many blocks, in a line or a grid, and how."""

    mesh: Mesh
    ahead: bool = True  # blocks are read before they are needed
    aligned: bool = True  # no chunk of a source is read for two blocks
    tight: bool = False  # layouts are chosen so that a block's values fit, not only for the fewest bytes


def prepare_streams(
    nodes: Sequence[Node],
    wanted: Sequence[int],
    settings: Settings,
    memory: int,
    held: Mapping[Node, Layout] | None = None,
    workers: int = 1,
) -> Streams:
    """The plan with the fewest blocks that stays within memory; an error that says how much would do if none does.

    `held` are leaves that workers hold, and how they lie there.
    """
    held = held or {}
    key = "blocks", tuple(nodes), tuple(wanted), settings, memory, tuple(held.items()), workers
    known: Try | None = mesh_plans.get(key)
    if known is not None:
        return _planned(nodes, wanted, settings, memory, known, held)
    least: Streams | None = None
    given = sum(n.nbytes for n in nodes if n.value is not None and n not in held and not isinstance(n.value, Source))
    aim = memory if given <= memory else given + given // 8
    ways = _ways(nodes, wanted, settings, aim, held, workers)
    for way in ways if given <= memory else islice(ways, HOPELESS):
        found = _planned(nodes, wanted, settings, aim, way, held)
        if found.peak_bytes <= memory:
            remember(mesh_plans, key, way)
            return found
        least = found if least is None or found.peak_bytes < least.peak_bytes else least
        if least.peak_bytes <= aim:
            break
    assert least is not None
    raise MemoryBudgetError(
        message(
            f"no plan needs less than {least.peak_bytes:,} bytes, and memory= allows {memory:,}",
            got=f"the least of all that were looked at, with {least.blocks:,} blocks",
            cure=f"Set memory={least.peak_bytes}, or evaluate in smaller parts",
        )
    )


def _ways(
    nodes: Sequence[Node],
    wanted: Sequence[int],
    settings: Settings,
    memory: int,
    held: Mapping[Node, Layout],
    workers: int,
) -> Iterator[Try]:
    """More and more blocks in a line, grids where a value that no block has a part of is too large, then the rest."""
    longest = max((d for n in nodes for d in n.dims), default=1)
    most = min(MOST_BLOCKS, max(longest, 2))
    line: list[Try] = []
    for aligned, tight in ((True, False), (True, True), (False, False)):
        blocks, before = min(max(FEW_BLOCKS, workers * FEW_EACH), most), (0, 0)
        while True:
            line.append(Try(Mesh(blocks), aligned=aligned, tight=tight))
            yield line[-1]
            found = _planned(nodes, wanted, settings, memory, line[-1], held)
            fixed, moving = max((found.loop_bytes(k) for k in range(len(found.loops))), key=sum, default=(0, 0))
            needed = _enough(memory - fixed, (blocks, moving), before)
            if needed is None or blocks >= most:
                break
            needed = max(needed + needed // 16, blocks * 3 // 2)
            blocks, before = min(-(-needed // workers) * workers, most), (blocks, moving)
    grids = [Try(Mesh(n * n, 1, n), aligned=False, tight=True) for n in GRIDS if n <= longest]
    yield from grids
    for way in (*reversed(line), *grids):
        yield replace(way, ahead=False)


def _enough(room: int, now: tuple[int, int], before: tuple[int, int]) -> int | None:
    """How many blocks need so much memory, by what two numbers of them need (0: not known yet); None if none do."""
    (blocks, nbytes), (fewer, more) = now, before
    shrinks = (more - nbytes) * blocks * fewer // (blocks - fewer) if fewer else blocks * nbytes
    stays = nbytes - shrinks // blocks
    return None if shrinks <= 0 or stays >= room else -(-shrinks // (room - stays))


def lies(source: Source, mesh: Mesh, aligned: bool = True) -> Layout:
    """How a source is best cut for blocks: along its chunks, of which no two blocks then read the same.

    Another way to cut it costs as much as an exchange: its chunks are read in parts.
    """
    if not source.shape:
        return Stored()
    blocks, lengths = mesh.total_blocks, source.chunks if source.whole_chunks and aligned else [1] * len(source.shape)
    counts = [-(-n // c) for n, c in zip(source.shape, lengths, strict=True)]
    axes = source.order or tuple(range(len(counts)))
    axis = next((a for a in axes if counts[a] >= blocks), max(axes, key=lambda a: counts[a]))
    cuts = even_cuts(counts[axis], blocks)
    return Shard(axis, tuple(min(c * lengths[axis], source.shape[axis]) for c in cuts))


def _leaf(n: Node, way: Try, held: Mapping[Node, Layout]) -> Layout:
    where = held.get(n)
    if isinstance(where, Shard):
        return Shard(where.axis, even_cuts(n.dims[where.axis], way.mesh.total_blocks))
    if where is not None or not isinstance(n.value, Source):
        return OnDriver()
    return lies(n.value, way.mesh, way.aligned)


def _planned(
    nodes: Sequence[Node],
    wanted: Sequence[int],
    settings: Settings,
    memory: int,
    way: Try,
    held: Mapping[Node, Layout],
) -> Streams:
    leaves: dict[Node, Held] = {n: (_leaf(n, way, held),) for n in nodes if n.value is not None}
    machine = replace(machine_for(settings), objective="bytes")
    share = memory // (3 if way.ahead else 2) if way.tight else None
    plan = prepare_mesh(nodes, wanted, leaves, way.mesh, settings, machine, share, one_pass=True)
    on_workers = [k for k, n in enumerate(leaves) if isinstance(held.get(n), Shard)]
    key = "streams", id(plan), len(wanted), memory, way.ahead, tuple(on_workers)
    known: tuple[object, Streams] | None = mesh_plans.get(key)
    if known is not None and known[0] is plan:
        return known[1]
    here = [pos for pos, where in zip(plan.leaves, leaves.values(), strict=True) if isinstance(where[0], OnDriver)]
    made = streams(plan, plan.wanted[: len(wanted)], here, memory, way.ahead)
    made = replace(made, held=frozenset(plan.leaves[k] for k in on_workers))
    remember(mesh_plans, key, (plan, made))
    return made
