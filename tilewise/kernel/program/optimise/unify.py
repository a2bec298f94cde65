"""One variable for the alternatives of a name. In: a program. Out: the program with fewer branches.

A name that is a float of Python's before a loop and NumPy's in it has two variables and a tag that says which one
counts. As only one of them counts at any time, they can share a variable if their bits mean the same; where both sides
of a branch on the tag are then equal, it is no branch any more, and a tag that nobody asks for goes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from tilewise.kernel.program import ir
from tilewise.kernel.program.walk import BLOCKS, expressions, mapped, names_read, names_set, statements


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

    body = _joined(cast(ir.Block, mapped(program.body, change)))
    read = {n for s in statements(body) for n in names_read(s)}
    body = _without_tags(body, read)
    used = names_set(body) | {n for s in statements(body) for n in names_read(s)}
    return replace(program, body=body, names={n: t for n, t in program.names.items() if n in used})


def _joined(block: ir.Block) -> ir.Block:
    out: list[ir.Stmt] = []
    for s in block:
        inner = {n: _joined(getattr(s, n)) for n in BLOCKS.get(type(s), ())}
        s = replace(cast(Any, s), **inner) if inner else s
        if isinstance(s, ir.If) and s.then == s.other and _idle(s):
            out += s.then
        else:
            out.append(s)
    return tuple(out)


def _idle(s: ir.If) -> bool:
    """Whether a test can be left out: it cannot fail."""
    return all(isinstance(e, ir.Const | ir.Var) or (isinstance(e, ir.Op) and e.fault < 0) for e in expressions(s))


def _without_tags(block: ir.Block, read: set[str]) -> ir.Block:
    out: list[ir.Stmt] = []
    for s in block:
        if isinstance(s, ir.Set) and s.name.endswith("?") and s.name not in read:
            continue
        inner = {n: _without_tags(getattr(s, n), read) for n in BLOCKS.get(type(s), ())}
        out.append(replace(cast(Any, s), **inner) if inner else s)
    return tuple(out)
