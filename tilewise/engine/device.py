"""Running steps on a device whose memory is its own. In: steps, nodes, arrays. Out: arrays filled in.

Steps that follow one another are one stage: what it is given is copied in, its results are copied out, everything
between stays there.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, Protocol

import numpy as np

from tilewise import events
from tilewise.backend import REFERENCE, named
from tilewise.backend.base import Backend, Geometry, HostBackend, Replays
from tilewise.engine.run import Runner
from tilewise.ir.buffer import HOST, Buffer
from tilewise.ir.node import Leaf, Node
from tilewise.ops.const import Const
from tilewise.stage.steps import Stage, Step, makes, passes, reads

KEPT = 16  # bindings of a plan, each for other sizes


def runner(steps: Sequence[Step], backend: str) -> StepRunner:
    """What runs steps on a backend, by its name; steps that it does not support run here."""
    found = named(backend)
    if found.device == HOST:
        return Runner(steps, found)
    parts = [(there, list(part)) for there, part in groupby(steps, lambda s: _supported(found, s))]
    made = [DeviceRunner(part, found) if there else Runner(part, named(REFERENCE)) for there, part in parts]
    return made[0] if len(made) == 1 else InTurn(made)


def _supported(backend: Backend, step: Step) -> bool:
    return all(backend.supports(p.kernel) for p in passes(step))


def replays(
    backend: str, bound: StepRunner, nodes: Sequence[Any], given: Iterable[int], wanted: Sequence[int]
) -> Replays:
    """Runs of a plan that is bound to a backend, repeated as quickly as it can."""
    found = named(backend)
    host: HostBackend = found if found.device == HOST else named(REFERENCE)  # which just runs it
    return host.replays(bound, nodes, given, wanted)


class StepRunner(Protocol):
    """Steps that are bound to a backend."""

    def run(self, nodes: Sequence[Any], values: list[Any], free: bool = True) -> set[Node]:
        """Fill `values`; gives the nodes on which values are noted (see `Runner`)."""


class InTurn:
    """Parts of a list of steps, one after the other."""

    def __init__(self, parts: Sequence[StepRunner]) -> None:
        self._parts = parts

    def run(self, nodes: Sequence[Any], values: list[Any], free: bool = True) -> set[Node]:
        """Fill `values`."""
        return {n for part in self._parts for n in part.run(nodes, values, free)}


class DeviceRunner:
    """A list of steps as a stage of a device, bound once for each geometry."""

    def __init__(self, steps: Sequence[Step], backend: Backend) -> None:
        self._steps, self._backend = tuple(steps), backend
        made = dict.fromkeys(x for s in steps for x in makes(s))
        self._given = tuple(dict.fromkeys(x for s in steps for x in reads(s) if x not in made))
        self._made = tuple(made)
        self._last = tuple(x for x in made if not any(x in s.frees for s in steps))
        self._centred = any(p.centre is not None for s in steps for p in passes(s))
        self._bindings: dict[Any, Any] = {}

    def run(self, nodes: Sequence[Any], values: list[Any], free: bool = True) -> set[Node]:
        """Fill `values` with the results (all that steps make, unless those that die are let go of).

        Nothing that is given is overwritten, so no value has to be noted on its node.
        """
        began = time.perf_counter()
        backend, results = self._backend, self._last if free else self._made
        given = {x: backend.copy_in(np.asarray(values[x])) for x in self._given}
        made: dict[int, Buffer] = backend.run(self._binding(nodes, results), given)
        for x in results:
            values[x] = backend.copy_out(made[x])
        if events.listeners:
            moved = sum(np.asarray(values[x]).nbytes for x in (*self._given, *results))
            name = f"stage of {len(self._steps)} steps on {backend.device}"
            events.emit(events.Event("pass", name, began, time.perf_counter(), moved, events.activity.worker))
        return set()

    def _binding(self, nodes: Sequence[Any], results: tuple[int, ...]) -> Any:
        """The stage with the sizes, offsets and types at hand (and numbers, where steps look at them)."""
        key = (results, *((self._told(n), n.dims if n.known else n.shape, n.dtype, n.order) for n in nodes))
        found = self._bindings.get(key)
        if found is None:
            while len(self._bindings) >= KEPT:
                del self._bindings[next(iter(self._bindings))]
            stage = Stage(self._steps, self._given, results)
            found = self._bindings[key] = self._backend.bind(stage, Geometry(nodes))
        return found

    def _told(self, node: Any) -> Any:
        """What a binding knows of an operator."""
        return None if isinstance(node.op, Leaf) or (type(node.op) is Const and not self._centred) else node.op
