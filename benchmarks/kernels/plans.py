"""How much of a program runs as NumPy calls. In: a program. Out: counts of plan nodes and the names of the calls."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import tilewise as tw
from benchmarks.kernels.registry import Inputs, Program
from benchmarks.kernels.systems import evaluated, tilewise_inputs
from tilewise import compiler
from tilewise.plan.steps import Call, Pass, View, makes


@dataclass
class Share:
    """Nodes that plans compute, and those of them that are NumPy calls (by operator, or by function handed over)."""

    nodes: int = 0
    calls: Counter[str] = field(default_factory=Counter)

    @property
    def share(self) -> float:
        return sum(self.calls.values()) / max(self.nodes, 1)

    @property
    def names(self) -> list[str]:
        return [name if n == 1 else f"{name} x{n}" for name, n in self.calls.most_common()]


@contextmanager
def planned() -> Iterator[list[Any]]:
    """Every plan that evaluations run meanwhile, with its nodes."""
    found: list[Any] = []
    prepare = compiler.prepare

    def noting(at: Any, *args: Any) -> Any:
        plan = prepare(at, *args)
        nodes = list(at)
        if found and found[-1][1] == nodes:  # planned again, with more results
            found.pop()
        found.append((plan, nodes))
        return plan

    compiler.prepare = noting
    try:
        yield found
    finally:
        compiler.prepare = prepare


def numpy_share(program: Program, inputs: Inputs) -> Share:
    """Run once with everything recorded, and count."""
    given = tilewise_inputs(inputs)
    share = Share()
    with tw.config(eager_bytes=0, fallback="warn"), warnings.catch_warnings(record=True) as told, planned() as plans:
        warnings.simplefilter("always")
        evaluated(program.source(tw, *given))
    for plan, nodes in plans:
        for step in plan.steps:
            if isinstance(step, Pass):
                share.nodes += len({*step.members, *step.outs})
            elif not isinstance(step, View):
                share.nodes += len(makes(step))
            if isinstance(step, Call):
                node = nodes[step.pos]
                share.calls[node.op.label() + ("" if node.shape else " (scalar)")] += 1
    for warning in told:
        if issubclass(warning.category, tw.FallbackWarning):
            share.nodes += 1
            share.calls[f"{str(warning.message).split(' ')[0]} (whole)"] += 1
    return share
