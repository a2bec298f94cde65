"""Which values die where. In: steps in order, which values are wanted. Out: the same steps, which say what they free.

A value dies with its last reader, a view keeps what it shows, and a value without later readers may be overwritten.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tilewise.layout import Shard
from tilewise.ops.traits.collectives import Collective
from tilewise.plan.draft import Draft
from tilewise.stage.steps import ALIASES, Call, Exchange, Pass, Step, Tiled, View, Write, makes, reads


def liveness(draft: Draft) -> Draft:
    """A pass of the compiler: say at each step what dies there, and which written bases nobody reads any more."""
    return replace(draft, steps=tuple(_settled(draft.steps, draft.nodes, draft.wanted, draft.layouts)))


def _settled(
    steps: Sequence[Step], nodes: Sequence[Any], wanted: Sequence[bool], layouts: Sequence[Any] | None
) -> list[Step]:
    single: list[tuple[int, Step]] = []  # steps of a group one by one, as they run without tiles
    for s, step in enumerate(steps):
        single += [(s, inner) for inner in step.steps] if isinstance(step, Tiled) else [(s, step)]
    last: dict[int, int] = {}  # the step that reads a value last
    latest: dict[int, int] = {}  # the same, of the single ones
    root = list(range(len(nodes)))  # a view keeps its base
    for t, (s, step) in enumerate(single):
        if isinstance(step, View) or (isinstance(step, Exchange) and _in_margins(step, nodes, layouts)):
            root[step.pos] = root[step.input]
        elif isinstance(step, Call) and type(nodes[step.pos].op) in ALIASES:
            root[step.pos] = root[step.inputs[0]]
        for x in reads(step):
            last[x] = last[root[x]] = s
            latest[x] = latest[root[x]] = t
    kept = {root[x] for x, asked in enumerate(wanted) if asked}  # also by views that are wanted
    done: list[list[Step]] = [[] for _ in steps]
    for t, (s, step) in enumerate(single):
        if isinstance(step, Write):
            step = replace(step, last_use=latest[step.base] == t and root[step.base] not in kept)
        elif isinstance(step, Pass) and any(w is not None for w in step.writes):
            once = [w for w in step.writes if step.writes.count(w) == 1]  # two updates of one base: two buffers
            uses = tuple(w in once and w is not None and latest[w] == t and root[w] not in kept for w in step.writes)
            step = replace(step, last_uses=uses)
        done[s].append(step)
    out: list[Step] = []
    made = {x for step in steps for x in makes(step)}
    for s, step in enumerate(steps):
        dead = {x for y in reads(step) for x in (y, root[y]) if last[x] == s and not wanted[x]}
        dead |= {x for x in makes(step) if x not in last and not wanted[x]}
        dead -= kept
        frees = tuple(sorted(x for x in dead if x in made or nodes[x].value is not None))
        if isinstance(step, Tiled):
            inner = tuple(i for i in done[s] if isinstance(i, Pass | View | Call))
            out.append(replace(step, steps=inner, frees=frees))
        else:
            out.append(replace(done[s][0], frees=frees))
    return out


def _in_margins(step: Exchange, nodes: Sequence[Any], layouts: Sequence[Any] | None) -> bool:
    """Whether an exchange keeps the value's memory (ghosts are received into the margins)."""
    if layouts is None or isinstance(nodes[step.pos].op, Collective):
        return False
    a, b = layouts[step.input], layouts[step.pos]
    return isinstance(a, Shard) and isinstance(b, Shard) and (a.axis, a.cuts) == (b.axis, b.cuts)
