"""One variable for the alternatives of a name. In: a program. Out: the program with fewer branches.

A name that is a float of Python's before a loop and NumPy's in it has two variables and a tag that says which one
counts. As only one of them counts at any time, they can share a variable if their bits mean the same. Where both sides
of all branches on a tag then compute the same (`min(best, x)` gives the lesser of both families), these are no branches
any more, and the tag goes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, cast

from tilewise.kernel.program import ir
from tilewise.kernel.program.walk import BLOCKS, arrays_used, expressions, mapped, names_read, names_set, statements

LONGEST = 12  # statements of a side that is compared by what it computes
Reads = Counter[str]


def unify(program: ir.Program) -> ir.Program:
    """Share variables, join branches, drop tags."""
    groups: dict[tuple[str, str], list[str]] = {}
    for name, dtype in program.names.items():
        base, colon, _ = name.rpartition(":")
        if colon:
            groups.setdefault((base, dtype), []).append(name)
    same = {n: names[-1] for names in groups.values() if len(names) > 1 for n in names[:-1]}
    if not same:
        return program

    def change(node: Any) -> Any:
        if isinstance(node, ir.Var | ir.Set | ir.For) and node.name in same:
            return replace(node, name=same[node.name])
        return node

    body = _without_tags(program, cast(ir.Block, mapped(program.body, change)))
    used = names_set(body) | {n for s in statements(body) for n in names_read(s)}
    return replace(program, body=body, names={n: t for n, t in program.names.items() if n in used})


def _without_tags(program: ir.Program, body: ir.Block) -> ir.Block:
    """Without the tags whose branches can all be joined, if they go together: the others stay as they are."""
    reads = _reads(body)
    gone = {n for n in names_set(body) if n.endswith("?")}
    while True:
        joiner = _Joiner(program, gone, reads)
        made = joiner.block(body)
        needed = {n for s in statements(made) for n in names_read(s)} & gone
        if not needed:
            return made
        gone -= needed


def _reads(block: ir.Block) -> Reads:
    return Counter(e.name for s in statements(block) for e in expressions(s) if isinstance(e, ir.Var))


class _Joiner:
    """Joins branches, as if nobody asked for the tags in `gone`."""

    def __init__(self, program: ir.Program, gone: set[str], reads: Reads) -> None:
        self.program, self.gone, self.reads = program, gone, reads

    def block(self, block: ir.Block) -> ir.Block:
        out: list[ir.Stmt] = []
        for s in block:
            if isinstance(s, ir.Set) and s.name in self.gone and isinstance(s.value, ir.Const | ir.Var):
                continue
            inner = {n: self.block(getattr(s, n)) for n in BLOCKS.get(type(s), ())}
            old, s = s, replace(cast(Any, s), **inner) if inner else s
            if isinstance(s, ir.If) and _idle(s) and (s.then == s.other or self._alike(s, old)):
                out += s.then if len(s.then) <= len(s.other) else s.other
            else:
                out.append(s)
        return tuple(out)

    def _alike(self, s: ir.If, old: ir.Stmt) -> bool:
        """Whether both sides of a branch on a tag compute the same, for what is read elsewhere."""
        if not names_read(s) & self.gone or max(len(s.then), len(s.other)) > LONGEST:
            return False
        inside = _reads((old,))
        results = []
        for side in (s.then, s.other):
            values: dict[str, ir.Expr] = {}
            may_fail: list[ir.Expr] = []
            if not self._run(side, values, may_fail):
                return False
            kept = {n: e for n, e in values.items() if self.reads[n] > inside[n]}
            # What nobody reads is computed, too: only of arrays that are there on both sides.
            looked_at = {a for x in statements(side) for a in arrays_used(x)}
            results.append((kept, may_fail, looked_at))
        return results[0] == results[1]

    def _run(self, block: ir.Block, values: dict[str, ir.Expr], may_fail: list[ir.Expr]) -> bool:
        """What a block computes, by names, and what could fail, in order; False: it does something else."""

        def known(node: Any) -> Any:
            return values.get(node.name, node) if isinstance(node, ir.Var) else node

        for s in block:
            if isinstance(s, ir.Set):
                value = mapped(s.value, known)
                if _may_fail(s.value):
                    may_fail.append(value)
                values[s.name] = value
            elif isinstance(s, ir.If):
                test = mapped(s.test, known)
                sides: list[dict[str, ir.Expr]] = []
                for side in (s.then, s.other):
                    sides.append(dict(values))
                    inside: list[ir.Expr] = []
                    if not self._run(side, sides[-1], inside) or inside or _may_fail(s.test):
                        return False
                for n in sides[0].keys() | sides[1].keys():
                    old = ir.Var(n, self.program.names[n])
                    a, b = (side.get(n, old) for side in sides)
                    values[n] = a if a == b else ir.Pick(test, a, b, old.dtype)
            else:
                return False
        return True


def _may_fail(e: ir.Expr) -> bool:
    every = expressions(ir.Set("", e))
    return any(
        (isinstance(x, ir.Op) and x.fault >= 0) or (isinstance(x, ir.Load) and any(f >= 0 for f in x.faults))
        for x in every
    )


def _idle(s: ir.If) -> bool:
    """Whether a test can be left out: it cannot fail."""
    return all(isinstance(e, ir.Const | ir.Var) or (isinstance(e, ir.Op) and e.fault < 0) for e in expressions(s))
