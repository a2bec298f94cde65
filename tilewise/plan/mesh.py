"""Plans for several workers. In: a placed graph. Out: stages of steps and exchanges with exact bytes, ready to ship.

Every worker runs the same steps on its own blocks. `local(pos, block)` is a node as one block sees it: its own sizes,
and an operator adapted to where the block lies.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from tilewise.ir.node import Node, Op
from tilewise.ir.order import Order, strides_of
from tilewise.layout import Box, Layout, Mesh, Shard, Tariff, blocked, held_box, owned_box, route, shards
from tilewise.layout import Exchange as Move
from tilewise.ops.const import Const
from tilewise.ops.contract import Contract
from tilewise.ops.create import Arange, Full
from tilewise.ops.index import Unchanged, Update
from tilewise.ops.join import Broadcast, Reshape
from tilewise.ops.qr import BlockQr
from tilewise.ops.random import Random
from tilewise.ops.regroup import Operand, Regroup, Traffic, traffic
from tilewise.ops.views import Arrange, Axis, Cut, Window, explain
from tilewise.plan.steps import Call, Exchange, Pass, Step, Tiled, View, Write, makes, passes
from tilewise.solver.place import Choice


@dataclass(frozen=True)
class Spec:
    """A node in a plan that travels: its operator and type, without the graph behind it."""

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


@dataclass(frozen=True)
class LocalNode:
    """A node as one block sees it; what engine/run.py needs to know of a node."""

    op: Op
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
    def nbytes(self) -> int:
        n = self.dtype.itemsize
        for d in self.dims:
            n *= d
        return n


@dataclass(frozen=True)
class MeshPlan:
    """What every worker does, and what moves between them."""

    mesh: Mesh
    specs: tuple[Spec, ...]
    layouts: tuple[Layout, ...]
    steps: tuple[Step, ...]
    routes: tuple[tuple[Move, ...], ...]  # per step; () for steps that are no exchange, and where blocks talk
    leaves: tuple[int, ...]
    wanted: tuple[int, ...]  # results, then the inputs' copies named in `homes`
    homes: tuple[int, ...]  # which leaf each of the last `wanted` is a copy of: it stays for later plans
    consts: tuple[int, ...]
    choice: Choice | None = field(default=None, compare=False, repr=False)  # not sent to workers
    told: tuple[Any, ...] = field(default=(), compare=False, repr=False)  # the lines and numbers it was made from
    _local: dict[tuple[int, int], LocalNode] = field(default_factory=dict, compare=False, repr=False)

    @property
    def network_bytes(self) -> int:
        """Bytes that cross between workers, summed; exact, but for a bound where it depends on data."""
        return sum(self.step_bytes(i) for i in range(len(self.steps)))

    @property
    def bounded_bytes(self) -> int:
        """The part of `network_bytes` that is only a bound."""
        return sum(self.step_bytes(i) for i, s in enumerate(self.steps) if (t := self.traffic(s)) and not t.exact)

    def step_bytes(self, index: int) -> int:
        """Bytes that cross in one step."""
        step = self.steps[index]
        said = self.traffic(step)
        itemsize = self.specs[_pos(step)].dtype.itemsize
        return said.bytes if said is not None else sum(e.bytes(itemsize) for e in self.routes[index])

    def traffic(self, step: Step) -> Traffic | None:
        """What workers say to each other in a step; None where they do not talk."""
        op = self.specs[_pos(step)].op
        if not isinstance(step, Exchange) or not isinstance(op, Regroup):
            return None
        return traffic(op.op, [self.operand(x) for x in (step.input, *step.more)], self.operand(step.pos), self.mesh)

    def operand(self, pos: int) -> Operand:
        """The type of a value, and where it lies."""
        return Operand(self.specs[pos].shape, self.specs[pos].dtype, self.layouts[pos])

    def stages(self) -> list[tuple[int, int]]:
        """Ranges of steps between exchanges."""
        out, start = [], 0
        for i, s in enumerate(self.steps):
            if isinstance(s, Exchange):
                if i > start:
                    out.append((start, i))
                out.append((i, i + 1))
                start = i + 1
        if start < len(self.steps):
            out.append((start, len(self.steps)))
        return out

    def blockwise(self, step: Step) -> bool:
        """Whether a worker runs a step once per block (else once)."""
        if isinstance(step, Pass | Tiled):
            seen = tuple(x for p in passes(step) for x in (*p.inputs, *p.outs, p.space))
        elif isinstance(step, Call | Write):
            seen = (step.pos, *(step.inputs if isinstance(step, Call) else (step.base, *step.inputs)))
        else:
            assert isinstance(step, View | Exchange)
            seen = (step.pos, step.input)
        return any(blocked(self.layouts[p]) for p in seen)

    def box(self, pos: int, block: int) -> Box:
        """What of the value at `pos` is in memory at `block`, in the value's own coordinates."""
        shape = self.specs[pos].shape
        if not shards(self.layouts[pos]):
            return tuple((0, n) for n in shape)
        return held_box(self.layouts[pos], shape, self.mesh, block=block)

    def local(self, pos: int, block: int) -> LocalNode:
        """The node at `pos` as `block` sees it."""
        found = self._local.get((pos, block))
        if found is None:
            found = self._local[(pos, block)] = _localise(self, pos, block)
        return found


def _pos(step: Step) -> int:
    return makes(step)[0]


def build(
    nodes: tuple[Node, ...],
    layouts: tuple[Layout, ...],
    steps: list[Step],
    mesh: Mesh,
    leaves: tuple[int, ...],
    wanted: tuple[int, ...],
    homes: tuple[int, ...],
    tariff: Tariff,
    choice: Choice | None,
) -> MeshPlan:
    """Assemble a plan from fused steps."""
    at = {n: i for i, n in enumerate(nodes)}
    specs = tuple(
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
    routes = tuple(
        route(layouts[s.input], layouts[s.pos], nodes[s.pos].dims, mesh, nodes[s.pos].dtype.itemsize, tariff)
        if isinstance(s, Exchange) and type(nodes[s.pos].op) is not Regroup
        else ()
        for s in steps
    )
    consts = tuple(i for i, n in enumerate(nodes) if type(n.op) is Const)
    return MeshPlan(mesh, specs, layouts, tuple(steps), routes, leaves, wanted, homes, consts, choice)


MARGIN = 2  # rows kept free around a block that is cut along its slowest axis: most stencils reach no further
MARGIN_ROWS = 16  # blocks with fewer rows have no margin


def _localise(plan: MeshPlan, pos: int, block: int) -> LocalNode:
    spec, layout = plan.specs[pos], plan.layouts[pos]
    dims = tuple(hi - lo for lo, hi in plan.box(pos, block))
    op = spec.op
    if not spec.leaf:
        op = adapt(op, plan, pos, block, dims)
    margin = 0
    if isinstance(layout, Shard) and layout.axis == 0 and not spec.order and len(dims) > 1 and dims[0] >= MARGIN_ROWS:
        margin = MARGIN if pos in plan.wanted else 0
    return LocalNode(op, dims, spec.dtype, spec.order, spec.site, True if spec.leaf else None, margin)


@functools.singledispatch
def adapt(op: Op, plan: MeshPlan, pos: int, block: int, dims: tuple[int, ...]) -> Op:
    """The operator for one block; most are the same everywhere."""
    return op


@adapt.register
def _(op: Full, plan: MeshPlan, pos: int, block: int, dims: tuple[int, ...]) -> Op:
    return type(op)(dims, op.order)


@adapt.register
def _(op: Broadcast, plan: MeshPlan, pos: int, block: int, dims: tuple[int, ...]) -> Op:
    return Broadcast(dims)


@adapt.register
def _(op: Arrange, plan: MeshPlan, pos: int, block: int, dims: tuple[int, ...]) -> Op:
    return Arrange(op.axes, dims)


@adapt.register
def _(op: Reshape, plan: MeshPlan, pos: int, block: int, dims: tuple[int, ...]) -> Op:
    return Reshape(dims, op.order)


@adapt.register
def _(op: Arange, plan: MeshPlan, pos: int, block: int, dims: tuple[int, ...]) -> Op:
    return Arange(op.first, op.second, dims[0], op.dtype, plan.box(pos, block)[0][0])


@adapt.register
def _(op: Contract, plan: MeshPlan, pos: int, block: int, dims: tuple[int, ...]) -> Op:
    cut = any(shards(plan.layouts[p]) for p in plan.specs[pos].inputs)
    whole = all(math.prod(plan.specs[p].shape) == 1 for p in plan.specs[pos].inputs)
    return replace(op, part=True) if cut and not whole else op


@adapt.register
def _(op: BlockQr, plan: MeshPlan, pos: int, block: int, dims: tuple[int, ...]) -> Op:
    return BlockQr(dims[0] - dims[1])


@adapt.register
def _(op: Random, plan: MeshPlan, pos: int, block: int, dims: tuple[int, ...]) -> Op:
    return op.part(plan.box(pos, block))


@adapt.register
def _(op: Cut, plan: MeshPlan, pos: int, block: int, dims: tuple[int, ...]) -> Op:
    mine, source = plan.box(pos, block), plan.box(plan.specs[pos].inputs[0], block)
    starts = tuple(
        start + low * step - first if high > low else 0
        for start, step, (low, high), (first, _) in zip(op.starts, op.steps, mine, source, strict=True)
    )
    return Cut(starts, op.steps, dims)


@adapt.register
def _(op: Update, plan: MeshPlan, pos: int, block: int, dims: tuple[int, ...]) -> Op:
    layout, spec = plan.layouts[pos], plan.specs[pos]
    if not shards(layout):
        return op
    found = explain(op.window)
    assert found is not None, "an update cut into blocks is a plain box"
    axes, starts = list(found[0]), list(found[1])
    box = owned_box(layout, spec.shape, plan.mesh, block=block)
    for cut in shards(layout):
        low, high = box[cut.axis]
        where = [k for k, a in enumerate(axes) if a.base == cut.axis]
        if where:
            walk = axes[where[0]]
            first = max(-(-(low - walk.start) // walk.step), 0)
            last = min(-(-(high - walk.start) // walk.step), walk.length)
            count = max(last - first, 0)
            start = walk.start + first * walk.step - low if count else 0
            axes[where[0]] = Axis(cut.axis, start, walk.step, count)
            starts[cut.axis] = start
        else:
            at = starts[cut.axis]
            if not low <= at < high:
                return Unchanged()
            starts[cut.axis] = at - low
    return Update(window(dims, spec.order, spec.dtype, axes, starts))


def window(dims: tuple[int, ...], order: Order, dtype: np.dtype[Any], axes: list[Axis], starts: list[int]) -> Window:
    """The window of a contiguous array that walks along `axes`."""
    strides = strides_of(dims, dtype.itemsize, order)
    offset = sum(s * t for s, t in zip(starts, strides, strict=True))
    shape = tuple(a.length for a in axes)
    steps = tuple(0 if a.base is None else a.step * strides[a.base] for a in axes)
    return Window(offset if 0 not in shape else 0, shape, steps, dtype, dims, order, dtype)
