"""A placed graph as one block sees it. In: types, layouts, a block. Out: nodes with the block's own sizes.

What a stage does is decided and run on these nodes, as it is for whole arrays on one worker: an operator is adapted to
the block's position (`on_block`); leaves and results of exchanges are given.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import gcd, prod
from typing import Any

import numpy as np

from tilewise.backend.host.arrays import MARGIN
from tilewise.ir.node import Node, Op
from tilewise.ir.order import Order
from tilewise.layout import Held, Layout, Mesh, Shard, dims, held_box, shards, size
from tilewise.ops.move import Move
from tilewise.ops.traits.block import Part, on_block, same_on_blocks
from tilewise.records import dataclass
from tilewise.tuning import tuned

LINE_BYTES = 64  # of the caches: kernels are quickest on blocks that begin with one


@dataclass(frozen=True)
class Spec:
    """A node of a plan that is sent to workers: its operator and type, without its inputs."""

    op: Op
    inputs: tuple[int, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    order: Order
    site: tuple[str, int] | None
    leaf: bool

    @property
    def dims(self) -> tuple[int, ...]:
        return self.shape

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * self.dtype.itemsize


def specs_of(nodes: Sequence[Node]) -> tuple[Spec, ...]:
    """The types of nodes whose lengths are known."""
    at = {n: i for i, n in enumerate(nodes)}
    return tuple(
        Spec(
            n.op,
            () if n.value is not None else tuple(at[x] for x in n.inputs),
            n.dims,
            n.dtype,
            n.order,
            n.site,
            n.value is not None,
        )
        for n in nodes
    )


@dataclass(frozen=True, eq=False)
class BlockNode:
    """A node as one block sees it: all that planning and running a step ask of a node."""

    op: Op
    inputs: tuple[BlockNode, ...]
    dims: tuple[int, ...]
    dtype: np.dtype[Any]
    order: Order
    site: tuple[str, int] | None
    value: Any  # not None: given, not computed here
    margin: int = 0  # rows to leave free before and after, for ghosts to come

    known = True

    @property
    def shape(self) -> tuple[int, ...]:
        return self.dims

    @property
    def ndim(self) -> int:
        return len(self.dims)

    @property
    def size(self) -> int:
        return prod(self.dims)

    @property
    def nbytes(self) -> int:
        return prod(self.dims) * self.dtype.itemsize


@dataclass(frozen=True)
class PlacedTypes:
    """The types and layouts of a placed graph's values."""

    specs: tuple[Spec, ...]
    layouts: tuple[Layout, ...]
    mesh: Mesh
    wanted: tuple[int, ...]
    roomy: bool = True  # whether blocks may have wide margins, which no limit of memory counts

    def box(self, pos: int, block: int) -> Held:
        """What of the value at `pos` is in memory at `block`, in the value's own coordinates."""
        shape = self.specs[pos].shape
        if not shards(self.layouts[pos]):
            return tuple((0, n) for n in shape)
        return held_box(self.layouts[pos], shape, self.mesh, block=block)

    def block(self, block: int) -> tuple[BlockNode, ...]:
        """All nodes as a block sees them."""
        boxes = [self.box(pos, block) for pos in range(len(self.specs))]
        nodes: list[BlockNode] = []
        for pos, spec in enumerate(self.specs):
            lengths = dims(boxes[pos])
            op = spec.op
            if not spec.leaf and not same_on_blocks(op):
                out, *ins = (self._part(x, boxes[x], block) for x in (pos, *spec.inputs))
                op = on_block(op, out, ins)
            inputs = tuple([nodes[x] for x in spec.inputs])
            value, margin = True if spec.leaf else None, self._margin(pos, lengths)
            nodes.append(BlockNode(op, inputs, lengths, spec.dtype, spec.order, spec.site, value, margin))
        return tuple(nodes)

    def _part(self, pos: int, box: Held, block: int) -> Part:
        spec = self.specs[pos]
        return Part(box, spec.shape, spec.dtype, spec.order, block)

    def _margin(self, pos: int, lengths: tuple[int, ...]) -> int:
        """Rows to leave free on both sides of a block: as many as its ghosts need, on whole lines of the caches."""
        layout, spec, figures = self.layouts[pos], self.specs[pos], tuned()
        if not isinstance(layout, Shard) or layout.axis or spec.order or lengths[0] < figures.margin_rows:
            return 0
        wide = self._get_ghosts.get(pos, -1)
        if wide < 0:
            return 0
        if len(lengths) > 1 and wide <= MARGIN:
            return MARGIN
        row = prod(lengths[1:]) * spec.dtype.itemsize
        lines = LINE_BYTES // gcd(row, LINE_BYTES) if row else 1
        margin = -(-wide // lines) * lines
        fits = self.roomy and 2 * margin <= lengths[0] and lengths[0] * row >= figures.margin_bytes
        return margin if fits and wide else MARGIN if len(lengths) > 1 else 0

    @cached_property
    def _get_ghosts(self) -> dict[int, int]:
        """The values that get ghosts, here or in a later plan, and how many: a step of a loop often is the next one."""
        found = dict.fromkeys(self.wanted, 0)
        widest: dict[Any, int] = {}
        for pos, spec in enumerate(self.specs):
            if type(spec.op) is Move:
                x = spec.inputs[0]
                a, b = self.layouts[x], self.layouts[pos]
                if isinstance(a, Shard) and isinstance(b, Shard) and (a.axis, a.cuts) == (b.axis, b.cuts):
                    alike = spec.shape, a
                    widest[alike] = max(widest.get(alike, 0), *b.ghosts)
                    found[x] = 0
        return {pos: widest.get((self.specs[pos].shape, self.layouts[pos]), 0) for pos in found}

    @cached_property
    def largest(self) -> int:
        """The largest block: decisions for all blocks are made on its sizes."""
        cut = {(layout, spec.shape) for layout, spec in zip(self.layouts, self.specs, strict=True) if shards(layout)}

        def elements(block: int) -> int:
            return sum(size(held_box(layout, shape, self.mesh, block=block)) for layout, shape in cut)

        return max(range(self.mesh.total_blocks), key=elements) if cut else 0
