"""Operators that are several steps on a mesh. In: a node, its operand in a layout. Out: the steps, placed.

Their layouts follow from the operand's: there is nothing to choose (see ops/linalg/qr.py, ops/linalg/cholesky.py).
"""

from __future__ import annotations

from typing import Protocol

from tilewise.ir.node import Node, Op, intern, twin
from tilewise.ir.order import strides_of
from tilewise.layout import Grid, Layout, Mesh, Partial, Replicate, reduction
from tilewise.ops.contract import Contract
from tilewise.ops.elementwise import map_op
from tilewise.ops.index import Update
from tilewise.ops.linalg.cholesky import Blank, Cholesky, Panel, by_columns, by_rows, flipped, part, turns
from tilewise.ops.linalg.qr import Apply, BlockQr, Heads, StackQr, Tall
from tilewise.ops.moments import Moments, Pack, one_per_block, terms
from tilewise.ops.once import Once
from tilewise.ops.reduce import contribution, lowered, reduce_op
from tilewise.ops.reshape import Apart
from tilewise.ops.traits.rule import Rule
from tilewise.ops.views import Arrange, Cut, Window


class Site(Protocol):
    """Where steps are placed (solver/model/place.py)."""

    nodes: list[Node]
    layouts: list[Layout]

    def add(self, node: Node, layout: Layout) -> int:
        """A node, in a layout."""

    def move(self, i: int, layout: Layout) -> int:
        """A value in another layout (itself, if it is in that one)."""


class Steps:
    """Places the steps of one operator."""

    def __init__(self, site: Site, node: Node) -> None:
        self.site = site
        self.node = node

    def op(self, op: Op, ins: list[int], dims: tuple[int, ...], layout: Layout) -> int:
        """One step."""
        node = intern(op, tuple(self.site.nodes[i] for i in ins), dims, self.node.dtype)
        node.site = node.site or self.node.site
        return self.site.add(node, layout)

    def cut(self, i: int, starts: tuple[int, int], lengths: tuple[int, int], layout: Layout) -> int:
        """A part of a matrix."""
        return self.op(Cut(starts, (1, 1), lengths), [i], lengths, layout)

    def write(self, i: int, value: int, starts: tuple[int, int], layout: Layout) -> int:
        """A matrix in that layout with a part replaced."""
        base, dims = self.site.nodes[i], self.site.nodes[value].dims
        strides = strides_of(base.dims, base.dtype.itemsize, None)
        offset = starts[0] * strides[0] + starts[1] * strides[1]
        window = Window(offset, dims, strides, base.dtype, base.dims, None, base.dtype)
        moved = self.site.move(value, part(layout, starts, (dims[0], dims[1])))
        return self.op(Update(window), [i, moved], base.dims, layout)


def counted_once(site: Site, n: Node, ins: list[int], rule: Rule) -> list[int]:
    """Operands as contributions: those that are whole count on one worker."""
    by = reduction(rule.out)
    assert by is not None
    out = []
    for i, layout in zip(ins, rule.ins, strict=True):
        x = site.nodes[i]
        if reduction(layout) is None:
            once = intern(Once(by), (x,), x.shape, x.dtype, x.order)
            once.site = once.site or n.site
            i = site.add(once, rule.out)
        out.append(i)
    return out


def apart(site: Site, n: Node, i: int, layout: Layout) -> int:
    """A reshape that makes contributions: blocks within whole rows, then reshaped."""
    x, old = site.nodes[i], site.layouts[i]
    assert isinstance(old, Grid) and isinstance(layout, Grid)
    parts = layout.across if isinstance(layout.across, Partial) else layout.down
    wide = Grid(old.down, parts) if parts is layout.across else Grid(parts, old.across)
    steps = Steps(site, n)
    return steps.op(n.op, [steps.op(Apart(x.dims, (0,) * x.ndim), [i], x.dims, wide)], n.dims, layout)


def by_contributions(site: Site, n: Node, ins: list[int], partial: Layout, layout: Layout) -> int:
    """What each block contributes, one exchange in which that is combined, and what it comes to."""
    by = reduction(partial)
    assert by is not None
    kind = by.kind(n.inputs[0].dtype)
    made = intern(contribution(n.op, n), tuple(site.nodes[i] for i in ins), n.dims, kind)
    made.site = made.site or n.site
    whole = site.move(site.add(made, partial), layout)
    result = intern(lowered(n.op, by), (site.nodes[whole],), n.dims, n.dtype)
    result.site = result.site or n.site
    return site.add(result, layout)


def moments(site: Site, n: Node, i: int, layout: Layout) -> int:
    """Each block's mean, what its deviations from that add up to, and their squares: a contribution to `moments`.

    What blocks have one of each is cut along the axes that they reduce, one element long.
    """
    assert isinstance(n.op, Moments)
    x, each, d = site.nodes[i], one_per_block(site.layouts[i], n.op.axes), site.nodes[i].dtype
    minus, square, divide = (map_op(name, d) for name in ("subtract", "square", "divide"))
    number = terms(x, site.layouts[i], n.op.axes)
    dims = tuple(number.dims[a] if a in n.op.axes else size for a, size in enumerate(x.dims))
    over = reduce_op("add", n.op.axes, True, d)

    def place(op: Op, inputs: tuple[Node, ...], dims: tuple[int, ...], layout: Layout) -> Node:
        made = twin(n, inputs)  # not interned: its shape does not follow from the operator
        made.op, made.shape, made.dtype, made.order = op, dims, d, x.order
        return site.nodes[site.add(made, layout)]

    site.add(number, each)
    mean = place(divide, (place(over, (x,), dims, each), number), dims, each)
    off = place(minus, (x, mean), x.dims, site.layouts[i])
    squares = place(over, (place(square, (off,), x.dims, site.layouts[i]),), dims, each)
    rest = place(over, (off,), dims, each)
    packed = intern(Pack(n.op), (number, mean, rest, squares), n.dims, n.dtype)
    packed.site = packed.site or n.site
    return site.add(packed, layout)


def tall_qr(site: Site, n: Node, i: int, t: Tall) -> int:
    """Factor every block, then the Rs of all in the first, and take what that says back to the blocks."""
    s = Steps(site, n)

    def rows(i: int, start: int, stop: int) -> int:
        return s.cut(i, (start, 0), (stop - start, t.n), t.together(stop - start))

    blocks = s.op(BlockQr(0), [i], (t.factors.cuts[-1], t.n), t.factors)
    heads = site.move(s.op(Heads(), [blocks], (t.stacked, t.n), t.apart), t.together(t.stacked))
    height = t.head + t.stacked
    whole = s.op(StackQr(t.op), [heads, rows(blocks, t.n, 2 * t.n)], (height, t.n), t.together(height))
    head = rows(whole, 0, t.head)
    if t.only_r:
        return head
    q = site.move(rows(whole, t.head, height), t.apart)
    return s.op(Apply(), [blocks, head, q], n.dims, t.out)


def cholesky(site: Site, n: Node, i: int, mesh: Mesh) -> int:
    """Block by block of columns; the matrix stays in its layout."""
    s = Steps(site, n)
    whole, size = site.layouts[i], n.dims[0]
    out, rest = s.op(Blank(), [i], n.dims, whole), i
    for t in turns(size, whole, mesh):
        corner = (t.width, t.width)
        square = site.move(s.cut(rest, (0, 0), corner, t.diagonal), Replicate())
        diagonal = s.op(Cholesky(t.width), [square], corner, Replicate())
        out = s.write(out, diagonal, (t.low, t.low), whole)
        if not t.left:
            break
        shape, left = (t.left, t.width), (t.left, t.left)
        below = site.move(s.cut(rest, (t.width, 0), shape, t.below), by_rows(t.below))
        panel = s.op(Panel(), [diagonal, below], shape, by_rows(t.below))
        out = s.write(out, panel, (t.high, t.low), whole)
        other = site.move(panel, by_columns(t.rest))
        if n.dtype.kind == "c":
            other = s.op(map_op("conjugate", n.dtype), [other], shape, by_columns(t.rest))
        turned = s.op(Arrange((1, 0), shape[::-1]), [other], shape[::-1], flipped(by_columns(t.rest)))
        product = s.op(Contract("ac,cb->ab", "matmul"), [panel, turned], left, t.rest)
        corner_left = s.cut(rest, corner, left, t.rest)
        rest = s.op(map_op("subtract", n.dtype), [corner_left, product], left, t.rest)
    return out
