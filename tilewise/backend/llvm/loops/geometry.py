"""Shapes and strides to loops. In: a kernel, the space, strides of every operand. Out: a `Nest`: few dims, best order.

Dims of size one go, the rest are ordered so that the innermost is the most contiguous, and neighbours that every
operand walks as one are merged. An F-ordered problem becomes the C-ordered one. Pure arithmetic; no code, no data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from math import prod

from tilewise import rounding
from tilewise.backend.llvm.emit.bodies import has_positions, widest
from tilewise.backend.llvm.emit.spec import STRIDED, UNIT, ZERO
from tilewise.backend.llvm.loops.sums import BLOCKS, CHUNK_ROWS, MOST_BLOCKS, STEPS
from tilewise.kernel.loops import Kernel
from tilewise.records import dataclass
from tilewise.tuning import tuned

NARROW = 16  # bytes of the vectors of machines that have shorter sums for short rows

Strides = tuple[int, ...]


@dataclass(frozen=True)
class Dim:
    """One loop: its size, whether it is reduced, the byte stride of every operand (reduced outputs: 0 if reduced)."""

    size: int
    reduced: bool
    strides: Strides


@dataclass(frozen=True)
class Cut:
    """Something that can be divided among threads: a dim of the nest, or a range of chunks (by extra word)."""

    extent: int
    grain: int
    dim: int | None = None
    extra: int | None = None


@dataclass(frozen=True)
class Pack:
    """An input to be copied into panels: [further dims, panels, steps, lanes of a panel], zeros after the last lane."""

    operand: int
    shape: tuple[int, ...]
    strides: Strides  # of the source, for the dims of `shape`
    lanes: int  # in all panels


@dataclass(frozen=True)
class Partials:
    """Partial results of an output: (kept items, partials of each, columns of each); kept dims in loop order."""

    shape: tuple[int, int, int]
    kept: tuple[Dim, ...]
    buckets: int | None = None  # before the kept dims; the partials have one more


@dataclass(frozen=True)
class Nest:
    """Loops in order, the words the form adds, partial results by output (none: straight into the outputs)."""

    form: str
    dims: tuple[Dim, ...]
    extras: tuple[int, ...] = ()
    cuts: tuple[Cut, ...] = ()
    partials: dict[int, Partials] = field(default_factory=dict)
    panels: bool = False  # cut at every grain, also for one thread
    packs: tuple[Pack, ...] = ()
    tile: tuple[int, int] = (1, 1)  # "contract": vectors and unrolled points of a tile
    chunked: int = 0  # "buckets": the dim that is cut into chunks


def aligned_strides(shape: tuple[int, ...], own: tuple[int, ...], strides: Strides) -> Strides:
    """The strides of an operand over the whole space: 0 where it is broadcast."""
    lead = len(shape) - len(own)
    assert lead >= 0, f"operand of shape {own} does not broadcast to {shape}"
    assert all(a in (1, n) for a, n in zip(own, shape[lead:], strict=True)), f"operand {own} in the space {shape}"
    return (0,) * lead + tuple(0 if a == 1 else s for a, s in zip(own, strides, strict=True))


def simplified(shape: tuple[int, ...], reduced: Sequence[bool], strides: Sequence[Strides], arrays: int) -> list[Dim]:
    """Dims without those of size one, outermost first (by the strides of the first operands), neighbours merged."""
    dims = [
        Dim(n, r, tuple(s[d] for s in strides)) for d, (n, r) in enumerate(zip(shape, reduced, strict=True)) if n != 1
    ]
    # A stable sort: dims that tie stay in the user's order.
    dims.sort(key=lambda dim: -reach(dim, arrays))
    merged: list[Dim] = []
    for dim in dims:
        last = merged[-1] if merged else None
        if (
            last is not None
            and last.reduced == dim.reduced
            and all(a == b * dim.size for a, b in zip(last.strides, dim.strides, strict=True))
        ):
            merged[-1] = Dim(last.size * dim.size, dim.reduced, dim.strides)
        else:
            merged.append(dim)
    return merged


def reach(dim: Dim, arrays: int) -> int:
    """How far operands move along a dim."""
    return sum(abs(s) for s in dim.strides[:arrays])


def stride_class(stride: int, itemsize: int) -> str:
    """How code reaches the next element."""
    return UNIT if stride == itemsize else ZERO if stride == 0 else STRIDED


def _crosses_rows(dims: list[Dim]) -> bool:
    """Whether some operand jumps far from column to column, over long rows."""
    if len(dims) < 2 or dims[-1].size < 4 * tuned().panel_columns:
        return False
    steps = zip(dims[-1].strides, dims[-2].strides, strict=True)
    return any(abs(far) >= tuned().panel_far_bytes and near != 0 for far, near in steps)


def map_nest(dims: list[Dim], itemsizes: Sequence[int]) -> Nest:
    """The loops of a kernel that only stores."""
    dims = dims or [Dim(1, False, tuple(itemsizes))]
    last = len(dims) - 1
    if _crosses_rows(dims):
        return Nest("map", tuple(dims), cuts=(Cut(dims[-1].size, tuned().panel_columns, dim=last),), panels=True)
    cuts = [Cut(dim.size, 1, dim=d) for d, dim in enumerate(dims[:-1])]
    cuts.append(Cut(dims[-1].size, 512, dim=last))
    return Nest("map", tuple(dims), cuts=tuple(cuts))


def reduce_nest(
    kernel: Kernel, dims: list[Dim], itemsizes: Sequence[int], tree_lanes: int, *, short_chunks: bool = False
) -> Nest:
    """The loops of a kernel with reductions (`short_chunks`: of a row, however long it is)."""
    none = (0,) * len(itemsizes)
    arrays = len(kernel.inputs) + len(kernel.outputs)
    inner = dims[-1] if dims else Dim(1, True, none)
    if inner.reduced and inner.size <= rounding.SHORT_ROW:
        wide = [d for d in dims if not d.reduced and d.size >= 4 * inner.size]
        inner = min(wide, key=lambda d: reach(d, arrays), default=inner)
    outer = [d for d in dims if d is not inner]
    rows = [d for d in outer if d.reduced]
    # Down the longest of the other reduced dims; each further one has partials of its own.
    row = max(rows, key=lambda d: d.size, default=Dim(1, True, none))
    outer = [d for d in outer if d is not row]
    outer = [d for d in outer if not d.reduced] + [d for d in outer if d.reduced]
    if inner.reduced:
        return _rows(kernel, outer, row, inner, itemsizes, tree_lanes, BLOCKS if short_chunks else MOST_BLOCKS)
    return _columns(kernel, outer, row, inner, itemsizes)


def few_lanes(kernel: Kernel, nest: Nest, most: int) -> int:
    """The lanes of the sum of a short row where vectors are narrow: no more than keep it as shallow; 0: as usual."""
    row = nest.dims[-1].size if nest.dims else 1
    alone = nest.form == "short" or (nest.form == "rows" and nest.dims[-2].size == 1)
    if not alone or row > STEPS * most:
        return 0
    return min(most, max(2 * NARROW // widest(kernel), 1 << (-(-row // STEPS) - 1).bit_length()))


def scan_nest(kernel: Kernel, dims: list[Dim], itemsizes: Sequence[int], chunk: int | None) -> Nest:
    """The loops of a kernel with scans (chunk: points after which what came before is known from elsewhere)."""
    none = (0,) * len(itemsizes)
    arrays = len(kernel.inputs) + len(kernel.outputs)
    along = next((d for d in dims if d.reduced), Dim(1, True, none))
    kept = [d for d in dims if not d.reduced]
    wide = [d for d in kept if d.size > rounding.SHORT_ROW and reach(d, arrays) <= reach(along, arrays)]
    if wide:
        inner = min(wide, key=lambda d: reach(d, arrays))
        loops = (*(d for d in kept if d is not inner), along, inner)
        cuts = [Cut(d.size, 1, dim=i) for i, d in enumerate(loops[:-2])]
        return Nest("scan_columns", loops, cuts=(*cuts, Cut(inner.size, 64, dim=len(loops) - 1)))
    length = chunk or along.size
    chunks = -(-along.size // length)
    cuts = [Cut(d.size, 1, dim=i) for i, d in enumerate(kept)]
    return Nest("scan", (*kept, along), (length, 0, chunks), (*cuts, Cut(chunks, 1, extra=1)))


def _blocks(count: int, most: int) -> int:
    """The blocks of a chunk, of so many in all: more where chunks are many, for partial results are merged by one."""
    blocks = BLOCKS
    while blocks < most and count >= 2 * blocks * rounding.ROW_CHUNKS:
        blocks *= 2
    return blocks


def _rows(
    kernel: Kernel, outer: list[Dim], row: Dim, inner: Dim, itemsizes: Sequence[int], lanes: int, most: int
) -> Nest:
    far = STEPS * lanes
    if row.size == 1 and inner.size <= far and outer and not any(d.reduced for d in outer):
        return Nest("short", (*outer, inner), cuts=tuple(Cut(d.size, 1, dim=i) for i, d in enumerate(outer)))
    if row.size == 1 or inner.size > far // 2:
        chunk, block, step = (1, _blocks(inner.size // far, most) * far), (1, far), (0, far)
    else:
        high = max(1, STEPS // -(-inner.size // lanes))
        blocks = _blocks(row.size // high, most)
        chunk, block, step = (blocks * high, inner.size), (high, inner.size), (high, 0)
    grid = (-(-row.size // chunk[0]), -(-inner.size // chunk[1]))
    extras: tuple[int, ...]
    extras = (*chunk, *block, *step, 0, grid[0], 0, grid[1])
    for i, size in enumerate((row.size, inner.size)):
        last = size - (grid[i] - 1) * chunk[i]
        extras += (grid[i], -(-chunk[i] // block[i]), -(-last // block[i]))
    cuts = [Cut(d.size, 1, dim=i) for i, d in enumerate(outer)]
    cuts += [Cut(grid[0], 1, extra=6), Cut(grid[1], 1, extra=8)]
    nest = Nest("rows", (*outer, row, inner), extras, tuple(cuts))
    return with_partials(kernel, nest, len(outer), grid, itemsizes)


def _columns(kernel: Kernel, outer: list[Dim], row: Dim, inner: Dim, itemsizes: Sequence[int]) -> Nest:
    n = len(kernel.inputs)
    wide = max((inner.size * abs(w) for w, s in zip(itemsizes[:n], inner.strides, strict=False) if s), default=1)
    blocks = max(1, min(rounding.COLUMN_CHUNK_BLOCKS, rounding.COLUMN_CHUNK_BYTES // (CHUNK_ROWS * wide)))
    grid = -(-row.size // (blocks * CHUNK_ROWS))
    at = len(outer)
    cuts = [Cut(d.size, 1, dim=i) for i, d in enumerate(outer)]
    cuts += [Cut(grid, 1, extra=1), Cut(inner.size, 64, dim=at + 1)]
    nest = Nest("columns", (*outer, row, inner), (blocks, 0, grid), tuple(cuts))
    return with_partials(kernel, nest, at, (grid, inner.size), itemsizes)


def with_partials(kernel: Kernel, nest: Nest, at: int, grid: tuple[int, ...], itemsizes: Sequence[int]) -> Nest:
    """The nest with strides of the reduced outputs: the outputs' own, or those of partial results.

    Partials lie as [kept outer dims, reduced outer dims, grid]; the first `at` dims are the outer ones. The grid has a
    number per dim after them: of results (kept dims), or of chunks (reduced dims).
    """
    inner = nest.dims[at : at + len(grid)]
    per_item = prod(d.size for d in nest.dims[:at] if d.reduced)
    per_item *= prod(n for n, d in zip(grid, inner, strict=True) if d.reduced)
    if per_item == 1:
        return nest
    sizes = [*(d.size for d in nest.dims[:at]), *grid]
    dims = list(nest.dims)
    reduced = [len(kernel.inputs) + j for j, o in enumerate(kernel.outputs) if not o.stored]
    reduced += range(len(kernel.inputs) + len(kernel.outputs), len(itemsizes) - has_positions(kernel))
    for i in range(len(sizes)):
        strides = list(dims[i].strides)
        for k in reduced:
            strides[k] = prod(sizes[i + 1 :]) * itemsizes[k]
        dims[i] = replace(dims[i], strides=tuple(strides))
    kept = tuple(d for d in (*nest.dims[:at], *inner) if not d.reduced)
    items = prod(d.size for d in nest.dims[:at] if not d.reduced)
    columns = prod(n for n, d in zip(grid, inner, strict=True) if not d.reduced)
    partials = Partials((items, per_item, columns), kept)
    outputs = [j for j, o in enumerate(kernel.outputs) if o.reduce is not None]
    return replace(nest, dims=tuple(dims), partials=dict.fromkeys(outputs, partials))
