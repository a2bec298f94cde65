"""The reference backend: every kernel by its NumPy meaning, pass after pass. Slow, and the oracle of the others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tilewise.backend.base import Each, Facts, HostBackend, Listing, Outcome, Replay, TileReport
from tilewise.backend.chains import Arrived, Expression
from tilewise.backend.entry import Places
from tilewise.backend.handles import Offsets
from tilewise.backend.host.backend import OnHost
from tilewise.backend.host.facts import host_facts
from tilewise.kernel import interpret, show
from tilewise.kernel.loops import Kernel
from tilewise.kernel.program.interpret import run
from tilewise.kernel.program.ir import Host, Program
from tilewise.records import dataclass
from tilewise.stage.steps import Pass, Step, Tiled, dead_after
from tilewise.stage.tiles import Formed, Tiling

WORD = 8  # bytes: it has no vectors of its own


class Reference(OnHost):
    """NumPy runs everything."""

    name = "reference"

    @cached_property
    def facts(self) -> Facts:
        """Those of this machine, so that plans are the same as for machine code."""
        return host_facts(WORD)

    def supports(self, kernel: Kernel) -> bool:
        """There is nothing that NumPy does not run."""
        return True

    def bound(self, step: Step) -> Any:
        """What runs a step."""
        if isinstance(step, Tiled):
            return OneByOne(step, [self.bound(s) for s in step.steps])
        return interpreted(step.kernel) if isinstance(step, Pass) else None

    def select(self, values: np.ndarray[Any, Any], mask: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """values[mask]."""
        found: np.ndarray[Any, Any] = values[mask]
        return found

    def tiling(self, group: Tiled, nodes: Sequence[Any], forced: int | None = None) -> Tiling | None:
        """Passes run one by one."""
        return None

    def formed(self, group: Tiled, nodes: Sequence[Any]) -> Formed | None:
        """Passes run one by one."""
        return None

    def operators(self, at: Offsets, state: int) -> dict[str, int]:
        """Python's own."""
        return {}

    def entry(self, at: Places) -> int:
        """None."""
        return 0

    def chain(self, expression: Expression, arrived: Arrived) -> None:
        """NumPy's own operators."""

    def report(self, group: Tiled, nodes: Sequence[Any]) -> TileReport | None:
        """Passes run one by one."""
        return None

    def replays(self, runner: Any, nodes: Sequence[Any], given: Iterable[int], wanted: Sequence[int]) -> AsEver:
        """There is nothing quicker than to run the plan."""
        return AsEver(runner, nodes)

    def listing(self, kernel: Kernel, shape: tuple[int, ...]) -> Listing:
        """The loops; there are no instructions."""
        return Listing(show.text(kernel), "")

    def program(self, program: Program, host: Sequence[Host] = ()) -> Callable[[list[Any]], Outcome]:
        """A program with loops, one step after the other."""

        def call(args: list[Any]) -> Outcome:
            return Outcome(2, 0, False, (), ()) if _misses(program, args) else Outcome(*run(program, args, host))

        return call

    def passed(
        self, program: Program, without: Collection[str], passes: Callable[[Program, Collection[str]], Program]
    ) -> Program:
        """A program after passes."""
        return passes(program, without)

    def vector_loops(self, program: Program) -> int:
        """None: it goes step by step."""
        return 0


def _misses(program: Program, args: list[Any]) -> bool:
    """Whether arrays do not lie as a program was made for."""
    arrays = [(p, a) for p, a in zip(program.params, args, strict=True) if p.array is not None]
    for k, (p, a) in enumerate(arrays):
        if (p.written and not a.flags.writeable) or (
            p.array is not None and p.array.dense and not a.flags.c_contiguous
        ):
            return True
        shared = (np.may_share_memory(a, b) for q, b in arrays[k + 1 :] if p.written or q.written)
        if program.apart and any(shared):
            return True
    return False


def open() -> HostBackend:
    """The backend."""
    return Reference()


def interpreted(kernel: Kernel) -> Callable[..., None]:
    """A kernel on NumPy, over whole arrays."""

    def call(shape: Any, inputs: Any, params: Any, outs: Any) -> None:
        interpret.run(kernel, shape, inputs, params, outs)

    return call


class OneByOne:
    """Passes that could share tiles, one after the other."""

    def __init__(self, step: Tiled, kernels: list[Any]) -> None:
        self.step, self.kernels, self._dead = step, kernels, dead_after(step)

    def run(self, nodes: Sequence[Any], values: list[Any], noted: set[Any], each: Each) -> None:
        """Fill in what they make."""
        for inner, kernel, dead in zip(self.step.steps, self.kernels, self._dead, strict=True):
            each(inner, kernel, nodes, values, noted)
            for x in dead:
                values[x] = None


@dataclass(frozen=True)
class AsEver:
    """Runs a plan each time it is asked for."""

    runner: Any
    nodes: Sequence[Any]
    lean = False

    def found(self, values: list[Any]) -> Replay | None:
        """There is none."""
        return None

    def run(self, values: list[Any]) -> None:
        """Fill in the results."""
        self.runner.run(self.nodes, values)
