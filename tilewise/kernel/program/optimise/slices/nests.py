"""Loops over the elements of arrays. In: a statement. Out: its loops, what they do, which elements they touch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewise.kernel.program import ir
from tilewise.kernel.program.optimise.slices.same_places import ONE, ZERO
from tilewise.kernel.program.walk import expressions, mapped


@dataclass(frozen=True)
class Touch:
    """An element that every iteration touches. The numbers of loops stand for their variables."""

    array: str
    index: tuple[ir.Expr, ...]
    write: bool


def element_nest(s: ir.Stmt) -> tuple[tuple[ir.For, ...], ir.Block] | None:
    """The loops of a nest from outside to inside, and its body; None: it is none, or something in it may fail."""
    loops: list[ir.For] = []
    block: ir.Block = (s,)
    while len(block) == 1 and isinstance(block[0], ir.For):
        inner = block[0]
        if inner.rare or not inner.independent or inner.proved or (inner.start, inner.step) != (ZERO, ONE):
            return None
        loops.append(inner)
        block = inner.body
    if not loops or not block or not all(isinstance(x, ir.Store | ir.Set) for x in block):
        return None
    if any(isinstance(x, ir.Set) and not x.name.startswith("$") for x in block):
        return None
    if any(isinstance(e, ir.Op) and e.fault >= 0 for x in block for e in expressions(x)):
        return None
    if any(max(t.faults, default=-1) >= 0 for x in block for t in (x, *expressions(x)) if _subscripted(t)):
        return None
    return tuple(loops), block


def touches(loops: tuple[ir.For, ...], block: ir.Block) -> tuple[Touch, ...]:
    """The elements that an iteration touches."""
    numbers = {s.name: ir.Var(f"#{k}", ir.INT) for k, s in enumerate(loops)}

    def numbered(e: Any) -> Any:
        return numbers.get(e.name, e) if isinstance(e, ir.Var) else e

    found = []
    for s in block:
        every: list[ir.Load | ir.Store] = [e for e in expressions(s) if isinstance(e, ir.Load)]
        for t in (*every, s) if isinstance(s, ir.Store) else every:
            found.append(Touch(t.array, mapped(t.index, numbered), t is s))
    return tuple(found)


def _subscripted(e: Any) -> bool:
    return isinstance(e, ir.Load | ir.Store)
