"""Copies of numbers written down where they are read. In: a program. Out: the program with fewer variables.

Lowering keeps subscripts and bounds in variables of its own (`$...`), as names may change while a statement is
evaluated. Where they do not, the name itself says more: that it is the variable of a loop, for example.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, cast

from tilewise.kernel.program import ir
from tilewise.kernel.program.walk import BLOCKS, expressions, mapped, names_read, names_set, statements


def inline(program: ir.Program) -> ir.Program:
    """All copies, and sums of a name and a number."""
    every = list(statements(program.body))
    sets = Counter(s.name for s in every if isinstance(s, ir.Set | ir.For))
    return replace(program, body=_Inliner(sets, _reads(every)).block(program.body, {}))


def _reads(stmts: list[ir.Stmt]) -> Counter[str]:
    return Counter(e.name for s in stmts for e in expressions(s) if isinstance(e, ir.Var))


class _Inliner:
    def __init__(self, sets: Counter[str], reads: Counter[str]) -> None:
        self.sets, self.reads = sets, reads

    def block(self, block: ir.Block, known: dict[str, ir.Expr]) -> ir.Block:
        out: list[ir.Stmt] = []
        known = dict(known)
        for at, s in enumerate(block):
            inner = {n: self.block(getattr(s, n), known) for n in BLOCKS.get(type(s), ())}
            s = self._itself(s, known)
            s = replace(cast(Any, s), **inner) if inner else s
            if isinstance(s, ir.Set) and self._copies(s, block[at + 1 :]):
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

    def _copies(self, s: ir.Set, rest: ir.Block) -> bool:
        """Whether all who read a variable, in the statements that follow, could read what it is made of."""
        if not s.name.startswith("$") or self.sets[s.name] != 1 or not _plain(s.value):
            return False
        inside = list(statements(rest))
        if _reads(inside)[s.name] != self.reads[s.name]:
            return False
        return not names_read(s) & names_set(rest)


def _plain(e: ir.Expr) -> bool:
    if isinstance(e, ir.Op):
        return e.fn in ("add", "subtract") and e.exact and e.fault < 0 and all(map(_leaf, e.args))
    return isinstance(e, ir.Var) and e.dtype == ir.INT


def _leaf(e: ir.Expr) -> bool:
    return isinstance(e, ir.Const | ir.Var)
