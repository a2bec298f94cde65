"""From a graph to a plan, made once per structure. In: nodes, which are wanted, where leaves lie. Out: plans.

`PASSES` is the recipe. A plan is up to three values: stages (what a worker does; keyed by structure), exchanges (what
moves between the workers of a mesh; keyed with sizes and offsets, as layouts depend on them; scalars are left out), and
what an engine binds the stages to for the sizes at hand. Plans on a mesh are made in mesh.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tilewise import events
from tilewise.config import Settings, name_passes
from tilewise.ir.node import Node, walk
from tilewise.kernel.program.optimise import NAMES as LOOP_PASSES
from tilewise.later import later
from tilewise.ops.const import Const
from tilewise.ops.create import Arange, Full
from tilewise.ops.elementwise import Map
from tilewise.ops.join import Broadcast
from tilewise.ops.reshape import Reshape
from tilewise.ops.views import Arrange, Cut, Window
from tilewise.plan.draft import Draft
from tilewise.plan.fuse import fuse
from tilewise.plan.liveness import liveness
from tilewise.plan.roll import roll
from tilewise.plan.schedule import schedule
from tilewise.plan.stages import Stages
from tilewise.plan.structure import Structure, forget_structures, graph_of, remember
from tilewise.plan.tile import tile
from tilewise.records import dataclass
from tilewise.rewrite import LOCAL, RULE_NAMES, rewrite
from tilewise.rewrite.selected import select
from tilewise.tuning import follow

if TYPE_CHECKING:
    from tilewise.plan import verify
    from tilewise.rewrite import slices
else:
    slices = later("tilewise.rewrite.slices")  # for arrays in files
    verify = later("tilewise.plan.verify")  # for tests

__all__ = ["PASSES", "Structure", "graph_of", "narrowed", "prepare", "rewritten", "selected"]

planned_count = 0  # plans made so far (tests assert that loops stop making them)
checked = False  # whether every pass is verified (tests turn it on)


@dataclass(frozen=True)
class CompilerPass:
    """A step of the recipe: a function from one draft of a plan to the next; optional ones can be left out by name."""

    name: str
    run: Callable[[Draft], Draft]
    optional: bool = True


# Rules (rewrite/) change the graph before, and on a mesh the solver chooses layouts; both look at whole graphs.
PASSES = (
    CompilerPass("fuse", fuse, optional=False),
    CompilerPass("roll", roll),
    CompilerPass("tile", tile),
    CompilerPass("schedule", schedule),
    CompilerPass("liveness", liveness, optional=False),
)
name_passes(*RULE_NAMES, "select", "slices", "halo", "source", "entry", *LOOP_PASSES)
name_passes(*(p.name for p in PASSES if p.optional))


def count_plan() -> None:
    """A plan is made."""
    global planned_count
    planned_count += 1


def compile_stages(draft: Draft, left_out: frozenset[str]) -> tuple[Draft, list[tuple[str, float]]]:
    """Run the recipe; how long each pass took."""
    seconds: list[tuple[str, float]] = []
    for each in PASSES:
        if each.name in left_out:
            continue
        began = time.perf_counter()
        draft = each.run(draft)
        ended = time.perf_counter()
        seconds.append((each.name, ended - began))
        if events.listeners:
            events.emit(events.Event("compile", each.name, began, ended, 0))
        if checked:
            verify.verify(draft, each.name)
    return draft, seconds


def rewritten(
    roots: Sequence[Node], structure: Structure, settings: Settings, on_mesh: bool
) -> dict[Node, Node] | None:
    """For the nodes of a graph of this structure, equal ones that cost less; None if there are no such."""
    if not structure.rewritable or not settings.rewrite:
        return None
    began = time.perf_counter() if events.listeners else 0.0
    new = rewrite(roots, settings.exact, settings.without.union(LOCAL) if on_mesh else settings.without)
    if events.listeners:
        events.emit(events.Event("compile", "rewrite", began, time.perf_counter(), 0))
    return None if all(n is m for n, m in new.items()) else new


def narrowed(roots: Sequence[Node], settings: Settings, nodes: Sequence[Node] | None = None) -> Sequence[Node]:
    """The roots of a graph for a mesh, with slices taken before elementwise operators; themselves if there are none."""
    return roots if not settings.rewrite or "slices" in settings.without else slices.narrow(roots, nodes)


def selected(roots: Sequence[Node], settings: Settings, nodes: Sequence[Node] | None = None) -> Sequence[Node]:
    """The roots of a graph for a mesh, with reductions of what masks select done where it lies."""
    return roots if not settings.rewrite or "select" in settings.without else select(roots, settings.exact, nodes)


def never_selected(roots: Sequence[Node], asked: Sequence[Node], settings: Settings) -> set[Node]:
    """The roots whose length a mask decides, that nobody asked for, and that reductions of them do not need selected.

    They have a handle: they would be computed only because somebody may ask for them.
    """
    unknown = {n for n in roots if not n.known and n not in asked}
    return unknown and unknown.difference(walk(selected([n for n in roots if n not in unknown], settings)))


def prepare(at: dict[Node, int], wanted: Sequence[int], settings: Settings, structure: Structure) -> Stages:
    """The plan for a graph of a structure on one worker: from the cache, or made now."""
    merge = settings.rewrite and not settings.exact
    key = (*wanted, settings.fusion, settings.native, settings.backend, merge, settings.without)
    plan = structure.plans.get(key)
    if plan is None:
        nodes = list(at)
        plan = stages_of(Draft(nodes, flags(nodes, wanted), settings.fusion, merge), settings, _shared(at, wanted))
        remember(structure.plans, key, plan)
    return plan


def stages_of(draft: Draft, settings: Settings, shared: tuple[Sequence[int], Sequence[tuple[int, int]]]) -> Stages:
    """The steps of a plan, made from its first draft."""
    count_plan()
    draft, seconds = compile_stages(replace(draft, rolls="roll" not in settings.without), settings.without)
    return Stages(draft.steps, *shared, seconds)


_LIGHT = (Map, Full, Arange, Const)  # computing them again costs little more than reading them
_VIEWS = (Window, Cut, Arrange, Reshape, Broadcast)


def _shared(at: dict[Node, int], wanted: Sequence[int]) -> tuple[list[int], list[tuple[int, int]]]:
    """What `Stages` says about values that work outside of the graph may need: `uses` and `costly`."""
    uses = [0] * len(at)
    keep: list[int | None] = [None] * len(at)  # where a value is costly, the position that holds it
    for n, i in at.items():
        if n.value is None:
            for x in n.inputs:
                uses[at[x]] += 1
            if isinstance(n.op, _VIEWS):
                keep[i] = keep[at[n.inputs[0]]]
            elif not isinstance(n.op, _LIGHT) or any(keep[at[x]] is not None for x in n.inputs):
                keep[i] = i
    return uses, [(i, k) for i, k in enumerate(keep) if k is not None and k not in wanted]


def flags(nodes: Sequence[Any], wanted: Sequence[int]) -> list[bool]:
    """Which nodes are wanted."""
    found = [False] * len(nodes)
    for i in wanted:
        found[i] = True
    return found


mesh_plans: dict[Any, Any] = {}  # those of mesh.py
repeats: dict[Any, Any] = {}  # those of array/schedule/repeat.py


def forget_plans() -> None:
    """Make all plans anew: those that are kept were made for other thresholds, say."""
    forget_structures()
    mesh_plans.clear()
    repeats.clear()


follow(lambda _: forget_plans())
