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
from tilewise.stage.steps import Call, View, members


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
    """Every plan that evaluations run meanwhile, with the names of its nodes (to hold nodes changes what is kept)."""
    found: list[Any] = []
    prepare = compiler.prepare
    last: tuple[int, ...] = ()

    def noting(at: Any, *args: Any) -> Any:
        nonlocal last
        plan = prepare(at, *args)
        same, last = last, tuple(id(n) for n in at)
        if found and last == same:  # planned again, with more results
            found.pop()
        found.append((plan, [n.op.label() + ("" if n.shape else " (scalar)") for n in at]))
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
    for plan, names in plans:
        for step in plan.steps:
            if isinstance(step, Call) and names[step.pos] == "empty":  # memory, nothing to compute
                continue
            if not isinstance(step, View):
                share.nodes += len(members(step))
            if isinstance(step, Call):
                share.calls[names[step.pos]] += 1
    for warning in told:
        if issubclass(warning.category, tw.FallbackWarning):
            share.nodes += 1
            share.calls[f"{str(warning.message).split(' ')[0]} (whole)"] += 1
    return share
