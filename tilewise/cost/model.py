"""What things cost. In: a node, a rule, a mesh, a machine. Out: whole numbers to compare plans by.

Time is counted in nanoseconds, volume in bytes: sums of whole numbers are exact, so that equal plans are equal and a
proof is a proof.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from tilewise.ir.node import Node, Op
from tilewise.ir.scalar import EXPENSIVE
from tilewise.layout import Layout, Mesh, Replicate, Tariff, local_dims, shards, step_cost
from tilewise.ops.cholesky import Cholesky, Panel, turns
from tilewise.ops.contract import Contract
from tilewise.ops.elementwise import Map
from tilewise.ops.fft import Fft
from tilewise.ops.linear import Linalg
from tilewise.ops.qr import BlockQr, Qr, StackQr, tall_qr
from tilewise.ops.random import Random
from tilewise.ops.regroup import Operand, Traffic, traffic
from tilewise.ops.rules import Rule
from tilewise.ops.sort import Argsort, Sort
from tilewise.ops.views import Arrange, Cut, Window

TICKS = 10**9  # per second
BYTE_UNITS = 1 << 6  # by volume, a byte counts as much as 64 exchanges: of almost equal plans the one with fewer
VIEWS = (Arrange, Cut, Window)
QR_FLOPS = 16  # per element and column: 4 for R and Q, at a quarter of the rate of a matrix product
LAPACK_FLOPS = 4  # per element of an operand and column of a matrix
FFT_FLOPS = 20  # one level of a transform, per element: 5, at a quarter of the rate of a matrix product


@dataclass(frozen=True)
class Machine:
    """Rates of one worker and of the network between workers."""

    memory_rate: float = 8e9  # bytes/s a worker reads
    store_rate: float = 8e9  # bytes/s it writes, beside what it reads
    numpy_rate: float = 4e9  # bytes/s where NumPy does an operator on one core
    flop_rate: float = 2e10  # flop/s of a matrix product on a worker
    function_rate: float = 1e9  # exponentials and their like, per second
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


FIXED = Machine()  # plans do not depend on the machine they are made on, until one is measured


def exchange_seconds(src: Layout, dst: Layout, shape: tuple[int, ...], mesh: Mesh, itemsize: int, m: Machine) -> float:
    """Predicted time of one exchange."""
    return step_cost(src, dst, shape, mesh, itemsize, m.timed) / TICKS


def talk_cost(said: Traffic, mesh: Mesh, tariff: Tariff) -> int:
    """The price of what workers say to each other; the busiest is taken to hear its share."""
    share = said.bytes if tariff.all_bytes else -(-said.bytes // mesh.workers)
    return (len(said.widths) - 1) * tariff.step + int(tariff.cost(share))


def work_cost(n: Node, rule: Rule, mesh: Mesh, machine: Machine) -> int:
    """What one worker computes: bytes touched, and arithmetic; of the worker that has most. In the machine's units.

    What moves within an operator, and what workers say where they talk, is part of it.
    An elementwise operand of an elementwise operator is not read again: the two are fused.
    """
    if isinstance(n.op, VIEWS) or not n.known:
        return 0
    talk = _within(n, rule, mesh, machine)
    if rule.talks:
        ins = [Operand(x.dims, x.dtype, layout) for x, layout in zip(n.inputs, rule.ins, strict=True)]
        said = traffic(n.op, ins, Operand(n.dims, n.dtype, rule.out), mesh)
        talk = talk_cost(said, mesh, machine.tariff)
    if machine.objective == "bytes":
        # Copies of a large new array are not for free: as if it had been made in one place and sent.
        new = not any(x.ndim for x in n.inputs) and n.nbytes > machine.small_bytes
        return talk + (n.nbytes * (mesh.workers - 1) * BYTE_UNITS if new and rule.out == Replicate() else 0)
    touched = _held(n, rule.out, mesh) * n.dtype.itemsize
    for x, layout in zip(n.inputs, rule.ins, strict=True):
        if not (isinstance(n.op, Map) and isinstance(x.op, Map)):
            touched += _held(x, layout, mesh) * x.dtype.itemsize
    shapes = [local_dims(layout, x.dims, mesh) for x, layout in zip(n.inputs, rule.ins, strict=True)]
    return talk + round(
        (touched / machine.memory_rate + op_seconds(n.op, shapes, _held(n, rule.out, mesh), machine)) * TICKS
    )


def _within(n: Node, rule: Rule, mesh: Mesh, machine: Machine) -> int:
    """The exchanges that are part of an operator in steps."""
    ways: list[tuple[Layout, Layout, tuple[int, int]]] = []
    tall = tall_qr(n, rule.ins)
    if tall is not None:
        apart, together, stack = tall.apart, tall.together(tall.stacked), (tall.stacked, tall.n)
        ways.append((apart, together, stack))
        if not tall.only_r:
            ways.append((together, apart, stack))
    elif isinstance(n.op, Cholesky) and shards(rule.out):
        ways = [way for turn in turns(n.dims[0], rule.out, mesh) for way in turn.exchanges()]
    return sum(step_cost(a, b, shape, mesh, n.dtype.itemsize, machine.tariff) for a, b, shape in ways)


def op_seconds(op: Op, shapes: Sequence[tuple[int, ...]], size: int, machine: Machine) -> float:
    """The arithmetic of an operator on one worker: shapes of its operands there, elements of its result."""
    if isinstance(op, Contract):
        local: dict[str, int] = {}
        for term, shape in zip(op.letters.split("->")[0].split(","), shapes, strict=True):
            for letter, n in zip(term, shape, strict=True):
                local[letter] = min(local.get(letter, n), n)
        return 2.0 * math.prod(local.values()) / machine.flop_rate
    if isinstance(op, Map):
        return size / machine.function_rate if op.fn.name in EXPENSIVE else 0.0
    if isinstance(op, Random):
        return size / machine.function_rate
    if isinstance(op, Sort | Argsort):
        return size * math.log2(max(shapes[0][op.axis], 2)) / machine.sort_rate
    if isinstance(op, Qr | BlockQr | StackQr):
        return QR_FLOPS * math.prod(shapes[0]) * shapes[0][-1] / machine.flop_rate
    if isinstance(op, Cholesky):
        return LAPACK_FLOPS * size * op.n / machine.flop_rate
    if isinstance(op, Linalg | Panel):
        return LAPACK_FLOPS * sum(map(math.prod, shapes)) * shapes[0][-1] / machine.flop_rate
    if isinstance(op, Fft):
        return FFT_FLOPS * size * math.log2(max(op.n, 2)) / machine.flop_rate
    return 0.0


def _held(x: Node, layout: Layout, mesh: Mesh) -> int:
    return math.prod(local_dims(layout, x.dims, mesh))
