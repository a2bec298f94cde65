"""Integers that loops add up. In: a loop of a program. Out: names to which iterations only add.

Sums of integers are the same in every order, so threads can have a part each. A part that overflows says nothing of the
whole, and is treated as a failure: the loop is run again, in order (restarts.py). Where no part overflows, nor their
sum, the sum is exact, whatever it was on the way.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any, cast

from tilewise.kernel.program import ir
from tilewise.kernel.program.walk import expressions, mapped, statements


def added(program: ir.Program, loop: ir.For) -> tuple[str, ...]:
    """The integers of the program's that a loop adds to, and does not look at otherwise."""
    body = list(statements(loop.body))
    found = {s.name for s in body if isinstance(s, ir.Set) and _adds(program, s)}
    found -= {s.name for s in body if isinstance(s, ir.For) or (isinstance(s, ir.Set) and not _adds(program, s))}
    for s in body:
        reads = [e.name for e in expressions(s) if isinstance(e, ir.Var)]
        if isinstance(s, ir.Set) and s.name in found:
            reads.remove(s.name)
        found -= set(reads)
    return tuple(sorted(found))


def in_parts(block: ir.Block, sums: Collection[str]) -> ir.Block:
    """The statements, where a part of a sum may be what the sum is known not to be: too large."""

    def change(node: Any) -> Any:
        if isinstance(node, ir.Set) and node.name in sums and isinstance(node.value, ir.Op):
            return replace(node, value=replace(node.value, exact=False))
        return node

    return cast(ir.Block, mapped(block, change)) if sums else block


def _adds(program: ir.Program, s: ir.Set) -> bool:
    """Whether a statement adds to a name, or takes from it."""
    e = s.value
    if not isinstance(e, ir.Op) or e.dtype != ir.INT or e.fn not in ("add", "subtract"):
        return False
    if e.fault >= 0 and program.faults[e.fault].error != ir.RERUN:
        return False
    itself = ir.Var(s.name, ir.INT)
    return e.args[0] == itself or (e.fn == "add" and e.args[1] == itself)
