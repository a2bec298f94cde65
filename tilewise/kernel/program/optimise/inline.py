"""Copies of numbers written down where they are read. In: a program. Out: the program with fewer variables.

Lowering keeps subscripts and bounds in variables of its own (`$...`), as names may change while a statement is
evaluated. Where they do not, the name itself says more: that it is the variable of a loop, for example.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from tilewise.kernel.program import ir
from tilewise.kernel.program.walk import BLOCKS, inner_blocks, mapped, names_read


def inline(program: ir.Program) -> ir.Program:
    """All copies, and sums of a name and a number."""
    return replace(program, body=_Inliner(program.body).block(program.body, {}))


class _Inliner:
    """Statements are numbered in the order of the text: what follows in a block is an interval."""

    def __init__(self, body: ir.Block) -> None:
        self.sets: dict[str, list[int]] = {}
        self.reads: dict[str, list[int]] = {}
        self.ends: list[int] = []  # of the block that a statement is in
        self._number(body)
        self.at = 0

    def _number(self, block: ir.Block) -> None:
        first, mine = len(self.ends), []
        for s in block:
            here = len(self.ends)
            mine.append(here)
            self.ends.append(first)
            if isinstance(s, ir.Set | ir.For):
                self.sets.setdefault(s.name, []).append(here)
            for name in names_read(s):
                self.reads.setdefault(name, []).append(here)
            for inner in inner_blocks(s):
                self._number(inner)
        for here in mine:
            self.ends[here] = len(self.ends)

    def block(self, block: ir.Block, known: dict[str, ir.Expr]) -> ir.Block:
        out: list[ir.Stmt] = []
        known = dict(known)
        for s in block:
            here = self.at
            self.at += 1
            inner = {n: self.block(getattr(s, n), known) for n in BLOCKS.get(type(s), ())}
            s = self._itself(s, known)
            s = replace(cast(Any, s), **inner) if inner else s
            if isinstance(s, ir.Set) and self._copies(s, here):
                known[s.name] = s.value
            else:
                out.append(s)
        return tuple(out)

    def _itself(self, s: ir.Stmt, known: dict[str, ir.Expr]) -> ir.Stmt:
        """A statement, with what is known in its own expressions."""

        def change(node: Any) -> Any:
            return known.get(node.name, node) if isinstance(node, ir.Var) else node

        if not names_read(s) & known.keys():
            return s
        kept = {n: () for n in BLOCKS.get(type(s), ())}
        return cast(ir.Stmt, mapped(replace(cast(Any, s), **kept) if kept else s, change))

    def _copies(self, s: ir.Set, here: int) -> bool:
        """Whether all who read a variable, in the statements that follow, could read what it is made of."""
        if not s.name.startswith("$") or len(self.sets[s.name]) != 1 or not _plain(s.value):
            return False
        end = self.ends[here]
        if any(not here < at < end for at in self.reads.get(s.name, ())):
            return False
        return not any(here < at < end for n in names_read(s) for at in self.sets.get(n, ()))


def _plain(e: ir.Expr) -> bool:
    if isinstance(e, ir.Op):
        return e.fn in ("add", "subtract") and e.exact and e.fault < 0 and all(map(_leaf, e.args))
    return isinstance(e, ir.Var) and e.dtype == ir.INT


def _leaf(e: ir.Expr) -> bool:
    return isinstance(e, ir.Const | ir.Var)
