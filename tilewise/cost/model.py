"""The cost of a step, in seconds. In: a node, a rule, a mesh, a machine. Out: numbers to compare plans by."""

from __future__ import annotations

from dataclasses import dataclass

from tilewise.ir.node import Node
from tilewise.layout import Layout, Mesh, Shard
from tilewise.ops.contract import Contract
from tilewise.ops.rules import Rule


@dataclass(frozen=True)
class Machine:
    """Rates of one worker and of the network between workers."""

    memory_rate: float = 8e9  # bytes/s a worker streams
    flop_rate: float = 2e10  # flop/s of a matrix product on a worker
    network_rate: float = 1.25e9  # bytes/s into one worker: 10 Gbit/s
    latency: float = 5e-5  # s per exchange
    small_bytes: int = 1 << 16  # results below are kept whole on every worker


FIXED = Machine()  # plans do not depend on the machine they are made on, until one is measured


def exchange_seconds(total_bytes: int, mesh: Mesh, machine: Machine) -> float:
    """Time of an exchange in which `total_bytes` cross in all."""
    if total_bytes == 0:
        return 0.0
    return machine.latency + total_bytes / mesh.workers / machine.network_rate


def share(layout: Layout, mesh: Mesh) -> float:
    """The part of an array that one worker works on."""
    return 1.0 / mesh.workers if isinstance(layout, Shard) else 1.0


def work_seconds(n: Node, rule: Rule, mesh: Mesh, machine: Machine) -> float:
    """Time one worker computes: bytes touched, and flops of a product."""
    moved = n.nbytes * share(rule.out, mesh)
    for x, layout in zip(n.inputs, rule.ins, strict=True):
        moved += x.nbytes * share(layout, mesh)
    seconds = moved / machine.memory_rate
    if isinstance(n.op, Contract):
        ins, _ = n.op.letters.split("->")
        sizes = {c: d for t, x in zip(ins.split(","), n.inputs, strict=True) for c, d in zip(t, x.shape, strict=True)}
        flops = 2.0
        for d in sizes.values():
            flops *= d
        cut = any(isinstance(layout, Shard) for layout in rule.ins)
        seconds += flops / machine.flop_rate / (mesh.workers if cut else 1)
    return seconds
