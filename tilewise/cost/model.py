"""What things cost. In: a node, a rule, a mesh, a machine. Out: whole numbers to compare plans by.

Time is counted in nanoseconds, volume in bytes: sums of whole numbers are exact, so that equal plans are equal and a
proof is a proof.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

from tilewise.ir.node import Node, Op
from tilewise.ir.order import Order
from tilewise.layout import Layout, Mesh, Replicate, Tariff, local_dims, priced_route, reduction, step_cost
from tilewise.ops.elementwise import Map
from tilewise.ops.reduce import Reduce
from tilewise.ops.reshape import Reshape
from tilewise.ops.traits.collectives import Operand, Traffic, traffic
from tilewise.ops.traits.rule import Rule, inner_exchanges, makes_contributions
from tilewise.ops.traits.work import work
from tilewise.ops.views import Arrange, Cut, Window
from tilewise.records import dataclass

TICKS = 10**9  # per second
ONCE_S = 10e-6  # a step on contributions that could as well be one on the whole
SHORT_ROW_BYTES = 256  # of a row: ends of loops and vectors cost nothing measurable in longer ones
BYTE_UNITS = 1 << 6  # by volume, a byte counts as much as 64 exchanges: of almost equal plans the one with fewer
VIEWS = (Arrange, Cut, Reshape, Window)


@dataclass(frozen=True)
class Rates:
    """Rates of one worker and of the network between workers."""

    memory_rate: float = 8e9  # bytes/s a worker reads
    store_rate: float = 8e9  # bytes/s it writes, beside what it reads
    cache_rate: float = 1e11  # bytes/s that passes on one tile move within the caches
    numpy_rate: float = 4e9  # bytes/s where NumPy does an operator on one core
    flop_rate: float = 2e10  # flop/s of a matrix product on a worker
    nearest_flop_rate: float = 4e10  # the same where only positions of extremes are looked for (0014-loop-forms.md)
    simple_rate: float = 1e10  # additions, products, comparisons of float64 in a pass, per second
    divide_rate: float = 1e9  # quotients and square roots
    row_divide_rate: float = 2e9  # quotients by rows of divisors, whose inverses are kept
    function_rate: float = 1e9  # exponentials and their like, per second
    row_seconds: float = 3e-9  # s for each short row that a pass walks by itself, beside its bytes
    sort_rate: float = 5e9  # elements a second of a sort, times the logarithm of their number
    step_seconds: float = 1e-5  # s per step of a plan, however small
    network_rate: float = 1.25e9  # bytes/s into one worker: 10 Gbit/s
    latency: float = 5e-5  # s per exchange
    small_bytes: int = 1 << 16  # results below are expected to be read by the driver
    objective: str = "time"  # or "bytes": all that matters is what crosses between workers

    @cached_property
    def tariff(self) -> Tariff:
        """The prices of exchanges."""
        return Tariff(1, BYTE_UNITS) if self.objective == "bytes" else self.timed

    @cached_property
    def timed(self) -> Tariff:
        """The prices of exchanges in time."""
        rate = int(float(f"{self.network_rate:.3g}"))  # three digits: the product with a size must not overflow
        common = math.gcd(TICKS, rate)
        return Tariff(round(self.latency * TICKS), TICKS // common, rate // common, all_bytes=False)


FIXED = Rates()  # plans do not depend on the machine they are made on, until one is measured


def exchange_seconds(src: Layout, dst: Layout, shape: tuple[int, ...], mesh: Mesh, itemsize: int, m: Rates) -> float:
    """Predicted time of one exchange."""
    return step_cost(src, dst, shape, mesh, itemsize, m.timed) / TICKS


def collective_cost(traffic: Traffic, mesh: Mesh, tariff: Tariff) -> int:
    """The price of a collective; the busiest worker is taken to receive its share."""
    count = traffic.bytes if traffic.expected is None else traffic.expected
    share = count if tariff.all_bytes else -(-count // mesh.workers)
    return (len(traffic.widths) - 1) * tariff.step + int(tariff.cost(share))


class _Parts(dict[Layout, tuple[int, ...]]):
    """By its layout: the most that one worker holds of a value, along each axis."""

    def __init__(self, dims: tuple[int, ...], mesh: Mesh) -> None:
        self._dims, self._mesh = dims, mesh

    def __missing__(self, layout: Layout) -> tuple[int, ...]:
        found = self[layout] = local_dims(layout, self._dims, self._mesh)
        return found


def work_costs(n: Node, rules: Sequence[Rule], mesh: Mesh, machine: Rates) -> list[int]:
    """What one worker computes by each rule: bytes touched, and arithmetic; of the worker that has most.

    In the machine's units. What moves within an operator, collectives included, is part of it.
    An elementwise operand of an elementwise operator is not read again: the two are fused.
    """
    if not n.known:
        return [0] * len(rules)
    op, itemsize, elementwise = n.op, n.dtype.itemsize, isinstance(n.op, Map)
    view, by_bytes = isinstance(op, VIEWS), machine.objective == "bytes"
    made = 0  # by bytes, copies of a large new array are not for free: as if it had been made in one place and sent
    if by_bytes and not any([x.ndim for x in n.inputs]) and n.nbytes > machine.small_bytes:
        made = n.nbytes * (mesh.workers - 1) * BYTE_UNITS
    whole = _Parts(n.dims, mesh)
    parts = [_Parts(x.dims, mesh) for x in n.inputs]
    read = [0 if elementwise and isinstance(x.op, Map) else x.dtype.itemsize for x in n.inputs]
    costs = []
    for rule in rules:
        if view and not rule.collective and not makes_contributions(rule):
            costs.append(0)
            continue
        moved = _collective(n, rule, mesh, machine) if rule.collective else _within(n, rule, mesh, machine)
        if by_bytes:
            costs.append(moved + (made if made and rule.out == Replicate() else 0))
            continue
        out = whole[rule.out]
        shapes = [part[layout] for part, layout in zip(parts, rule.ins, strict=True)]
        size = math.prod(out)
        touched = size * itemsize + sum([math.prod(x) * k for x, k in zip(shapes, read, strict=True) if k])
        seconds = touched / machine.memory_rate + op_seconds(op, shapes, size, machine)
        costs.append(moved + round((seconds + _rows_walked(n, out, shapes) * machine.row_seconds) * TICKS))
    return costs


def _collective(n: Node, rule: Rule, mesh: Mesh, machine: Rates) -> int:
    """What workers exchange in a collective."""
    ins = [Operand(x.dims, x.dtype, layout) for x, layout in zip(n.inputs, rule.ins, strict=True)]
    announced = traffic(n.op, ins, Operand(n.dims, n.dtype, rule.out), mesh)
    return collective_cost(announced, mesh, machine.tariff)


def _within(n: Node, rule: Rule, mesh: Mesh, machine: Rates) -> int:
    """The exchanges that are part of an operator in steps."""
    if rule.partial is not None:
        by = reduction(rule.partial)
        assert by is not None
        itemsize = by.kind(n.inputs[0].dtype).itemsize
        return priced_route(rule.partial, rule.out, n.dims, mesh, itemsize, machine.tariff).cost
    if isinstance(n.op, Map):
        once = 1 if machine.objective == "bytes" else round(ONCE_S * TICKS)
        return once if on_contributions(n, rule) else 0
    ways = inner_exchanges(n.op, n, rule, mesh)
    return sum([step_cost(a, b, shape, mesh, n.dtype.itemsize, machine.tariff) for a, b, shape in ways])


def on_contributions(n: Node, rule: Rule) -> bool:
    """Whether contributions are scaled, or something is added to one of them.

    Where nothing else speaks for it, that is done with the whole: it rounds once, and a mean of ones is one.
    """
    if not isinstance(n.op, Map) or reduction(rule.out) is None or n.dtype.kind not in "fc":
        return False
    return any(reduction(x) is None for x in rule.ins)


def op_seconds(op: Op, shapes: Sequence[tuple[int, ...]], size: int, machine: Rates) -> float:
    """The arithmetic of an operator on one worker: shapes of its operands there, elements of its result."""
    done = work(op, shapes, size)
    return done.flops / machine.flop_rate + done.functions / machine.function_rate + done.compared / machine.sort_rate


def short_rows(dims: tuple[int, ...], itemsize: int, order: Order = None) -> int:
    """How many rows a block has, if they are short.

    >>> short_rows((1000, 12), 8), short_rows((1000, 50), 8), short_rows((12, 1000), 8, (1, 0))
    (1000, 0, 1000)
    """
    row = dims[order[-1] if order else -1] if dims else 0
    return math.prod(dims) // row if len(dims) > 1 and 0 < row * itemsize < SHORT_ROW_BYTES else 0


def _rows_walked(n: Node, out: tuple[int, ...], shapes: Sequence[tuple[int, ...]]) -> int:
    """Short rows that are walked one by one, by a worker with a part so large of the result and of operands.

    A row's end counts where an operand repeats from row to row or along them, and where the row itself is reduced.
    """
    if isinstance(n.op, Map):
        times = sum([x.dims != n.dims for x in n.inputs if x.ndim])
        return times and times * short_rows(out, n.dtype.itemsize, n.order)
    if isinstance(n.op, Reduce) and len(n.op.axes) < n.inputs[0].ndim:
        x = n.inputs[0]
        if (x.order[-1] if x.order else x.ndim - 1) in n.op.axes:
            return short_rows(shapes[0], x.dtype.itemsize, x.order)
    return 0
