"""Arrays that nobody keeps. In: a program. Out: the program; allocations that may use their memory again are marked.

An array that is made in a loop gets new memory each time, as a name may still show that of the last time. Where all
variables that may show it are dead at that place, and it is never handed out, the place has memory of its own, which
nobody counts: `y + h * slope(y)` of small arrays then costs what its loop costs.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, cast

from tilewise.kernel.program import ir
from tilewise.kernel.program.optimise.liveness import NONE, Names, follow_back
from tilewise.kernel.program.walk import BLOCKS, expressions, statements


def private(program: ir.Program) -> ir.Program:
    """Mark allocations, each by the variable that it sets."""
    every = list(statements(program.body))
    made = Counter(s.array for s in every if isinstance(s, ir.Alloc | ir.View))
    for s in every:
        if isinstance(s, ir.HostCall | ir.Invoke):
            made.update(ir.results_of(s))
    places = {s.array for s in every if isinstance(s, ir.Alloc) and made[s.array] == 1}
    shown = _shown(every, places)
    out = {n for s in every for n in _handed_out(s)}
    places -= {p for n in out for p in shown.get(n, ())}
    if not places:
        return program
    for place, live in _live_after_allocations(program).items():
        if any(place in shown.get(n, ()) for n in live - {place}):
            places.discard(place)
    return replace(program, body=_marked(program.body, places, False))


def _shown(every: list[ir.Stmt], places: set[str]) -> dict[str, set[str]]:
    """By array variables: whose memory they may show."""
    found: dict[str, set[str]] = {p: {p} for p in places}
    changed = True
    while changed:
        changed = False
        for s in every:
            pairs = [(s.array, s.source)] if isinstance(s, ir.View) else []
            if isinstance(s, ir.HostCall | ir.Invoke):
                pairs = [(n, v) for n in ir.results_of(s) for v in s.inputs if isinstance(v, str)]
            for target, source in pairs:
                more = found.get(source, set()) - found.setdefault(target, set())
                found[target] |= more
                changed = changed or bool(more)
    return found


def _handed_out(s: ir.Stmt) -> list[str]:
    """Arrays that others get to see."""
    if isinstance(s, ir.Return):
        return [v for v in s.values if isinstance(v, str)]
    return [v for v in s.inputs if isinstance(v, str)] if isinstance(s, ir.HostCall | ir.Invoke) else []


def _used(s: ir.Stmt) -> Names:
    """Arrays whose elements a statement looks at or writes, or which it gives another name."""
    found = {e.array for e in expressions(s) if isinstance(e, ir.Load)}
    for e in expressions(s):
        if isinstance(e, ir.Apart):
            found |= {e.first, e.second}
    if isinstance(s, ir.Store):
        found.add(s.array)
    elif isinstance(s, ir.View):
        found.add(s.source)
    elif isinstance(s, ir.Product):
        found |= {s.array, s.left, s.right}
    return frozenset(found).union(_handed_out(s))


def _live_after_allocations(program: ir.Program) -> dict[str, Names]:
    """By arrays that are allocated: which ones are looked at later."""
    found: dict[str, Names] = {}

    def note(s: ir.Stmt, after: Names) -> None:
        if isinstance(s, ir.Alloc):
            found[s.array] = found.get(s.array, NONE) | after

    follow_back(program, _used, _sets, note)
    return found


def _sets(s: ir.Stmt) -> Names:
    return frozenset([s.array]) if isinstance(s, ir.Alloc | ir.View) else NONE


def _marked(block: ir.Block, places: set[str], inside: bool) -> ir.Block:
    """Only inside of loops: elsewhere nothing is gained, and the order in which memory goes back would be another."""
    out: list[ir.Stmt] = []
    for s in block:
        deeper = inside or isinstance(s, ir.For | ir.Loop)
        inner = {n: _marked(getattr(s, n), places, deeper) for n in BLOCKS.get(type(s), ())}
        s = replace(cast(Any, s), **inner) if inner else s
        out.append(replace(s, private=True) if inside and isinstance(s, ir.Alloc) and s.array in places else s)
    return tuple(out)
