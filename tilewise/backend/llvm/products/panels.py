"""Register tiles of contractions. In: a kernel, its dims, the lanes of a vector. Out: a "contract" `Nest`, or None.

A contraction has a reduced dim and two kept dims such that some input lacks the one and some input lacks the other. The
lanes go along the kept dim in which the outputs are contiguous; inputs that change along the lanes but not along the
other dim are packed into panels, unless few points would use them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tilewise import rounding
from tilewise.backend.llvm.emit.bodies import LIGHT_BODY
from tilewise.backend.llvm.emit.spec import VectorUnit
from tilewise.backend.llvm.loops.geometry import Cut, Dim, Nest, Pack, reach, with_partials
from tilewise.backend.llvm.math.table import COSTLY
from tilewise.kernel.loops import REDUCTIONS, Kernel
from tilewise.tuning import tuned

SCALAR_ACCUMULATORS = 4
MAX_HIGH = 8
MIN_LANES = 4  # a shorter dim leaves most lanes empty
MOST_STEPS = 512  # of sums one after the other


def contraction(
    kernel: Kernel, dims: Sequence[Dim], itemsizes: Sequence[int], machine: VectorUnit, lanes: int
) -> Nest | None:
    """The register tiles of a kernel, if it is a contraction."""
    if not all(o.reduce in REDUCTIONS and not o.scan and o.key is None for o in kernel.outputs):
        return None
    if len(kernel.body) > LIGHT_BODY or any(i.fn in COSTLY for i in kernel.body) or kernel.loop_body is not None:
        return None
    chosen = _dims(kernel, dims, itemsizes)
    if chosen is None:
        return None
    unrolled, step, across = chosen
    n = len(kernel.inputs)
    outer = [d for d in dims if not any(d is t for t in chosen)]
    outer = [d for d in outer if not d.reduced] + [d for d in outer if d.reduced]
    held = machine.registers // 2 if machine.vector_bytes else SCALAR_ACCUMULATORS
    registers = held // len(kernel.outputs)
    vectors = _panel_vectors(-(-across.size // lanes), registers) if lanes > 1 else 1  # one lane has no mask
    high = max(1, min(MAX_HIGH, unrolled.size, registers // vectors))
    width = vectors * lanes
    count = -(-across.size // width)
    packs = []
    for k in range(n):
        if across.strides[k] and not unrolled.strides[k] and step.strides[k]:
            direct = across.strides[k] == itemsizes[k] and machine.masked
            if not direct or unrolled.size >= tuned().pack_at:
                packs.append(_pack(k, outer, step, across, (count, width)))
    row_bytes = sum(step.size * w for s, w in zip(unrolled.strides[:n], itemsizes, strict=False) if s)
    block = max(1, tuned().pack_block_bytes // row_bytes // high) * high
    packed = {p.operand: p for p in packs}
    loops = tuple(_repacked(d, packed, outer, chosen, itemsizes) for d in (*outer, *chosen))
    at = len(outer)
    cuts = [Cut(d.size, 1, dim=i) for i, d in enumerate(outer)]
    cuts += [Cut(unrolled.size, 4 * high, dim=at), Cut(count, 1, extra=0)]
    nest = Nest("contract", loops, (0, count, block), tuple(cuts), packs=tuple(packs), tile=(vectors, high))
    return with_partials(kernel, nest, at, (unrolled.size, 1, across.size), itemsizes)


def _panel_vectors(count: int, registers: int) -> int:
    """The vectors of a panel: four, or all of them where the last of two panels would be half empty."""
    return count if count <= 4 or (count % 4 and 2 * count <= registers) else 4


def turned(kernel: Kernel, dims: Sequence[Dim], itemsizes: Sequence[int]) -> tuple[list[Dim], tuple[Pack, ...]]:
    """The dims of a reduction whose innermost dim is kept and has few lanes: along the longest reduced one instead.

    Inputs that are not contiguous along it are copied so that they are, if each element is used some times; else, and
    for all other kernels, the dims stay as they are.
    """
    n, kept = len(kernel.inputs), list(dims)
    along = max((d for d in dims if d.reduced), key=lambda d: d.size, default=None)
    reduces = all(o.reduce in REDUCTIONS and not o.scan and o.key is None for o in kernel.outputs)
    if along is None or dims[-1].reduced or dims[-1].size >= MIN_LANES or along.size < rounding.TURN_AT or not reduces:
        return kept, ()
    packs = []
    for k in range(n):
        if along.strides[k] not in (0, itemsizes[k]):
            if prod(d.size for d in dims if not d.strides[k]) < rounding.TURN_USES:
                return kept, ()
            others = [d for d in dims if d is not along and d.strides[k]]
            shape = (*(d.size for d in others), 1, 1, along.size)
            strides = (*(d.strides[k] for d in others), 0, 0, along.strides[k])
            packs.append(Pack(k, shape, strides, along.size))
    packed = {p.operand: p for p in packs}
    found = [_turned(d, packed, [o for o in dims if o is not along], along, itemsizes) for d in dims]
    return sorted(found, key=lambda d: -reach(d, n + len(kernel.outputs))), tuple(packs)


def _turned(dim: Dim, packed: dict[int, Pack], others: Sequence[Dim], along: Dim, itemsizes: Sequence[int]) -> Dim:
    """A dim with the strides of copies that are contiguous along another."""
    strides = list(dim.strides)
    for k in packed:
        sizes = [d for d in others if d.strides[k]]
        at = next((i for i, d in enumerate(sizes) if d is dim), None)
        if at is not None:
            strides[k] = prod(d.size for d in sizes[at + 1 :]) * along.size * itemsizes[k]
        elif dim is along:
            strides[k] = itemsizes[k]
    return Dim(dim.size, dim.reduced, tuple(strides))


def nested_tile(kernel: Kernel, steps: int, across: int, machine: VectorUnit, lanes: int) -> tuple[int, int] | None:
    """Vectors and rows of a tile of a kernel with a reduction inside; None where its lanes do not fit."""
    # What goes on with its sums leaves more registers to them: few other values are alive, but for steps read at once.
    registers = (2 if machine.by_lane else 3) * machine.registers // 4 if machine.vector_bytes else 0
    vectors = -(-across // lanes)
    heavy = len(kernel.body) > LIGHT_BODY or any(i.fn in COSTLY for i in kernel.body)
    ragged = across % lanes and not machine.masked
    if heavy or ragged or not registers or across < MIN_LANES or not 0 < steps <= MOST_STEPS:
        return None
    if vectors <= registers // 2:
        return vectors, min(MAX_HIGH, registers // vectors)
    if machine.masked or not machine.fuses or vectors > rounding.PANEL_MOST_VECTORS:
        return None
    high = 4 if machine.by_lane else 6
    return registers // high, high


def last_vectors(nest: Nest, lanes: int) -> int:
    """The vectors of the last of several panels of a kernel with a reduction inside; 0 where there is one panel."""
    vectors = -(-nest.dims[-1].size // lanes)
    return 0 if vectors == nest.tile[0] else (vectors - 1) % nest.tile[0] + 1


def nested(
    kernel: Kernel, dims: tuple[Dim, Dim, Dim], itemsizes: Sequence[int], tile: tuple[int, int], lanes: int
) -> Nest:
    """The loops of a kernel with a reduction inside, over rows, lanes and steps."""
    rows, across, steps = dims
    width = tile[0] * lanes
    packs = []
    for k in range(len(kernel.inputs)):
        if across.strides[k] and steps.strides[k] and not rows.strides[k]:
            packs.append(_pack(k, (), steps, across, (-(-across.size // width), width)))
    packed = {p.operand: p for p in packs}
    chosen = (rows, steps, across)
    loops = tuple(_repacked(d, packed, (), chosen, itemsizes) for d in chosen)
    return Nest("nested", loops, cuts=(Cut(rows.size, tile[1], dim=0),), packs=tuple(packs), tile=tile)


def along(kernel: Kernel, nest: Nest, itemsizes: Sequence[int]) -> tuple[int, ...]:
    """Inputs of contractions of which products take a lane, and that lie in order along the steps."""
    if nest.form not in ("contract", "nested"):
        return ()
    rows, steps, across = nest.dims[-3:]
    inputs = enumerate(zip(kernel.inputs, itemsizes, strict=False))
    ordered = [k for k, (t, w) in inputs if t in ("float64", "float32") and steps.strides[k] == w]
    return tuple(k for k in ordered if rows.strides[k] and not across.strides[k])


def _dims(kernel: Kernel, dims: Sequence[Dim], itemsizes: Sequence[int]) -> tuple[Dim, Dim, Dim] | None:
    """The dims for unrolling, steps and lanes."""
    n = len(kernel.inputs)
    kept, reduced = [d for d in dims if not d.reduced], [d for d in dims if d.reduced]
    if len(kept) < 2 or not reduced:
        return None
    across = min(kept, key=lambda d: abs(d.strides[n]))
    if across.size < MIN_LANES:
        return None

    def foreign(d: Dim) -> bool:
        pairs = list(zip(across.strides[:n], d.strides[:n], strict=True))
        both = [a == w for (a, u), w in zip(pairs, itemsizes, strict=False) if a and u]
        return any(a and not u for a, u in pairs) and any(u and not a for a, u in pairs) and all(both)

    others = [d for d in kept if d is not across and foreign(d)]
    if not others:
        return None
    return max(others, key=lambda d: d.size), max(reduced, key=lambda d: d.size), across


def _pack(k: int, outer: Sequence[Dim], step: Dim, across: Dim, panels: tuple[int, int]) -> Pack:
    count, width = panels
    further = [d for d in outer if d.strides[k]]
    shape = (*(d.size for d in further), count, step.size, width)
    lane = across.strides[k]
    return Pack(k, shape, (*(d.strides[k] for d in further), width * lane, step.strides[k], lane), across.size)


def _repacked(
    dim: Dim, packed: dict[int, Pack], outer: Sequence[Dim], tile: tuple[Dim, Dim, Dim], itemsizes: Sequence[int]
) -> Dim:
    """A dim with the strides of the packed copies."""
    strides = list(dim.strides)
    for k, pack in packed.items():
        further = [d for d in outer if d.strides[k]]
        axis = {id(tile[1]): -2, id(tile[2]): -1, **{id(d): i for i, d in enumerate(further)}}.get(id(dim))
        strides[k] = 0 if axis is None else prod(pack.shape[axis:][1:]) * itemsizes[k]
    return Dim(dim.size, dim.reduced, tuple(strides))
