"""The LLVM backend: machine code on all cores. In: stages, kernels. Out: what base.py asks for."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise.backend import threads
from tilewise.backend.base import Facts, HostBackend, Listing, Outcome, TileReport
from tilewise.backend.host.backend import OnHost
from tilewise.backend.host.facts import host_facts
from tilewise.backend.llvm.call import compiled, parallel_for
from tilewise.backend.llvm.call.listing import listing
from tilewise.backend.llvm.compile import helper
from tilewise.backend.llvm.compile.build import CompileError, asking
from tilewise.backend.llvm.compile.cpu import host_machine
from tilewise.backend.llvm.patterns.select import select
from tilewise.backend.llvm.tiles import lengths
from tilewise.backend.llvm.tiles.ask_ahead import ask_ahead
from tilewise.backend.llvm.tiles.group import Group
from tilewise.backend.llvm.tiles.recompute import formed
from tilewise.backend.llvm.tiles.tuning_records import USUAL, class_of, record_of
from tilewise.config import current
from tilewise.kernel.loops import Kernel
from tilewise.later import later
from tilewise.stage.cut_axis import MEAN, centred
from tilewise.stage.steps import Pass, Step, Tiled, passes
from tilewise.stage.tiles import Formed, Tiling
from tilewise.stage.variance import read_once

if TYPE_CHECKING:
    from tilewise.backend.chains import Arrived, Expression
    from tilewise.backend.entry import Places
    from tilewise.backend.handles import Offsets
    from tilewise.backend.llvm.chains import code as chains
    from tilewise.backend.llvm.entry import code as entry
    from tilewise.backend.llvm.handles import code as handles
    from tilewise.backend.llvm.program import call as programs
    from tilewise.backend.llvm.program import kept
    from tilewise.backend.llvm.replay import calls
    from tilewise.kernel.program.ir import Host, Program
else:
    calls = later("tilewise.backend.llvm.replay.calls")  # for traced functions
    chains = later("tilewise.backend.llvm.chains.code")
    entry = later("tilewise.backend.llvm.entry.code")  # for functions that are called often
    handles = later("tilewise.backend.llvm.handles.code")  # for long programs on small arrays
    programs = later("tilewise.backend.llvm.program.call")  # for functions with loops
    kept = later("tilewise.backend.llvm.program.kept")


class Llvm(OnHost):
    """Kernels become machine code for this CPU; passes share tiles where that pays."""

    name = "llvm"

    @cached_property
    def facts(self) -> Facts:
        """This machine's caches and vectors."""
        return host_facts(host_machine().vector_bytes)

    def warm_up(self) -> None:
        """Read what the machine has, and get the code that all launches need."""
        self.facts.tile_length(1)
        if threads.get_threads() < 2:
            return
        with contextlib.suppress(CompileError):  # then launches do without
            if helper.running():
                with asking():  # who waits for answers holds up all others who ask
                    parallel_for.ask()
            else:
                parallel_for.taking()

    def supports(self, kernel: Kernel) -> bool:
        """Whether there is code for all that a kernel does (else it runs on NumPy)."""
        return compiled.is_native(kernel)

    def ask_ahead(
        self, steps: Sequence[tuple[Step, Any]], nodes: Sequence[Any], values: Sequence[Any], least: int
    ) -> Iterator[None]:
        """Ask for all code before any of it is needed."""
        return ask_ahead(steps, nodes, values, least)

    def bound(self, step: Step) -> Any:
        """What runs a step."""
        if isinstance(step, Tiled):
            return Group(step, [self.bound(s) for s in step.steps])
        return compiled.compile(step.kernel) if isinstance(step, Pass) else None

    def select(self, values: np.ndarray[Any, Any], mask: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """values[mask], on all cores where both are contiguous."""
        found = select(values, mask)
        return values[mask] if found is None else found

    def tiling(self, group: Tiled, nodes: Sequence[Any], forced: int | None = None) -> Tiling | None:
        """The tiles of a group with the sizes at hand."""
        return lengths.tiling(group, nodes, forced)

    def formed(self, group: Tiled, nodes: Sequence[Any]) -> Formed | None:
        """A group as it runs, whatever length of tiles the settings ask for."""
        return formed(group, nodes)

    def report(self, group: Tiled, nodes: Sequence[Any]) -> TileReport | None:
        """How a group runs under the settings here, its length of tiles tuned if that is known."""
        settings = current()
        form = formed(group, nodes, settings.tile)
        if form is None:
            return None
        group, cut, tuned = form.group, form.cut, False
        late = {x for s in centred(group, cut.way) if (once := read_once(s, group)) is not None for x in once[1]}
        late |= {x for x, at in cut.way.at.items() if at == MEAN} if late else set()  # known after all tiles
        if cut.any_length:
            found = record_of(class_of(settings.cache_dir, group, cut)).factor if settings.tune else None
            tuned = found not in (None, USUAL)
            cut = lengths.fitted(cut, found or USUAL)
        return TileReport(sum(not late.intersection(p.outs) for p in passes(group)), cut.tiles, cut.tile, tuned)

    def replays(self, runner: Any, nodes: Sequence[Any], given: Iterable[int], wanted: Sequence[int]) -> calls.Lines:
        """Runs of small plans as few native calls."""
        return calls.Lines(runner, nodes, given, wanted)

    def program(self, program: Program, host: Sequence[Host] = ()) -> Callable[[list[Any]], Outcome]:
        """A program with loops as machine code."""
        return programs.Native(program, host)

    def passed(
        self, program: Program, without: Collection[str], passes: Callable[[Program, Collection[str]], Program]
    ) -> Program:
        """A program after passes, from disk if they are known from before."""
        return kept.kept(program, without, passes)

    def vector_loops(self, program: Program) -> int:
        """How many loops LLVM has made vectors of."""
        return programs.vector_loops(program)

    def operators(self, at: Offsets, state: int) -> dict[str, int]:
        """Addresses of machine code for the operators of handles."""
        return handles.addresses(at, state)

    def entry(self, at: Places) -> int:
        """The address of machine code that takes calls of compiled functions."""
        return entry.address(at)

    def chain(self, expression: Expression, arrived: Arrived) -> None:
        """One loop for an expression of arrays."""
        chains.fetch(expression, arrived)

    def listing(self, kernel: Kernel, shape: tuple[int, ...]) -> Listing:
        """LLVM's language and this machine's assembly."""
        return Listing(*listing(kernel, shape))


def open() -> HostBackend:
    """The backend."""
    return Llvm()
