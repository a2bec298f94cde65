"""Running steps on whole arrays (one worker, or one block of one). In: steps, nodes, values. Out: values filled in.

What a step does is in backend/host/steps.py; here is what goes with it: events, liveness, what is kept if one fails.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from tilewise import events
from tilewise.backend.base import HostBackend
from tilewise.backend.host.steps import Values, run_step
from tilewise.interrupts import to_the_end
from tilewise.ir.node import Leaf, Node
from tilewise.kernel.loops import operations
from tilewise.ops.contract import Contract
from tilewise.plan.stages import overwritten
from tilewise.stage.cut_axis import space_of
from tilewise.stage.steps import Call, Pass, Step, Tiled, View, Write, makes, members, passes, reads


class Runner:
    """A list of steps bound by a backend."""

    def __init__(self, steps: Sequence[Step], backend: HostBackend) -> None:
        self.steps = [(s, backend.bound(s), overwritten(s)) for s in steps]  # with what each may overwrite
        self._backend = backend
        self._asks = True  # until that was done

    def asks(self, nodes: Sequence[Any], values: Values, least: int = 1) -> Iterator[None]:
        """Get ready what a run on such arrays will need, in pieces."""
        return self._backend.ask_ahead([(step, kernel) for step, kernel, _ in self.steps], nodes, values, least)

    def run(self, nodes: Sequence[Any], values: Values, free: bool = True) -> set[Node]:
        """Fill `values` (and let go of those that die, unless a caller keeps count itself).

        Once a leaf is overwritten, every value so far is noted on its node: if a later step fails, the graph can still
        be evaluated from there. Gives the nodes with notes; the caller takes these back when it has the results.
        """
        noted: set[Node] = set()
        if self._asks:
            for _ in self.asks(nodes, values, least=2):  # a single one would be waited for at once
                pass
            self._asks = False
        activity, listeners = events.activity, events.listeners
        activity.total = len(self.steps)
        activity.done = done = 0
        guard: _Guard | None = None  # once a leaf is overwritten
        for step, kernel, bases in self.steps:
            began = time.perf_counter() if listeners else 0.0
            try:
                if guard is None and not (bases and any_unshared(bases, nodes)):
                    run_step(step, kernel, nodes, values, noted)
                else:
                    guard = guard or _Guard(nodes, values, noted)
                    if bases:
                        with to_the_end():  # what overwrites a buffer must also note that it did
                            guard.run(step, kernel, nodes, values, noted)
                    else:
                        run_step(step, kernel, nodes, values, noted)
                        guard.keep(step)
            except Exception as error:
                note_site(error, nodes, step)
                raise
            if listeners:
                report(step, nodes, values, began)
            if free:
                for x in step.frees:
                    values[x] = None
            activity.done = done = done + 1
        return noted


class _Guard:
    """Runs steps that overwrite leaves: once one did, every value is noted on its node as it is made."""

    def __init__(self, nodes: Sequence[Any], values: Values, noted: set[Node]) -> None:
        self._nodes, self._values, self._noted = nodes, values, noted
        self.keeping = False

    def run(self, step: Step, kernel: Any, nodes: Sequence[Any], values: Values, noted: set[Node]) -> None:
        """A step; those that share tiles and run one by one are guarded each."""
        if isinstance(step, Tiled):
            kernel.run(nodes, values, noted, self.run)
        else:
            run_step(step, kernel, nodes, values, noted)
        self.keep(step)

    def keep(self, step: Step) -> None:
        """Note what a step made (all so far, if it is the first)."""
        _keep_progress(step, self._nodes, self._values, self._noted, self.keeping)
        self.keeping = True


def any_unshared(bases: Sequence[int], nodes: Sequence[Node]) -> bool:
    """Whether some of these are leaves that nothing but this evaluation knows."""
    return any(isinstance(op := nodes[b].op, Leaf) and op.unshared for b in bases)


def _keep_progress(step: Step, nodes: Sequence[Node], values: Values, noted: set[Node], keeping: bool) -> None:
    """Note what the step made (all so far, if it is the first that overwrites a leaf)."""
    for x in makes(step) if keeping else range(len(nodes)):
        if isinstance(values[x], np.ndarray) and nodes[x].value is None:
            nodes[x].value = values[x]
            noted.add(nodes[x])
    for b in overwritten(step):  # its value is gone, and whoever else has the node computes it again
        if nodes[b] in noted:
            noted.discard(nodes[b])
            nodes[b].value = None


def report(step: Step, nodes: Sequence[Any], values: Values, began: float) -> None:
    """Tell listeners what a step did; working that out is not its time."""
    ended = time.perf_counter()
    if isinstance(step, View):
        return
    made = makes(step)
    name = ", ".join(nodes[m].op.label() for m in members(step))
    touched = sum(v.nbytes for x in {*reads(step), *made} if isinstance(v := values[x], np.ndarray))
    flops: float = sum(
        operations(p.kernel, 1 if p.iterations is None else p.iterations.count) * prod(space_of(p, nodes))
        for p in passes(step)
    )
    if isinstance(step, Call) and isinstance(op := nodes[step.pos].op, Contract):
        flops = 2.0 * prod(op.sizes([values[x].shape for x in step.inputs]).values())
    kind = {Pass: "pass", Tiled: "pass", Call: "call", Write: "write"}[type(step)]
    site = nodes[made[0]].site
    where = "" if site is None else f"{site[0]}:{site[1]}"
    who = events.activity.worker
    events.emit(events.Event(kind, name, began, ended, touched, who, where, flops))


def note_site(error: Exception, nodes: Sequence[Node], step: Step) -> None:
    """Tell where the failing operator was recorded."""
    for m in members(step):
        site = nodes[m].site
        if site is not None:
            error.add_note(f"in {nodes[m].op.label()}, recorded at {site[0]}:{site[1]}")
            return
