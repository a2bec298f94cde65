"""Tags that nobody asks for. In: statements. Out: the same without them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from tilewise.kernel.program.ir import Block, Const, If, Set, Stmt, Var
from tilewise.kernel.program.walk import BLOCKS, names_read, statements


def without_idle(body: Block) -> Block:
    """Without what only says which type a name has, where nobody reads it."""
    return _without(body, {n for s in statements(body) for n in names_read(s)})


def _without(body: Block, read: set[str]) -> Block:
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, Set) and s.name.endswith("?") and s.name not in read:
            continue
        if (inner := BLOCKS.get(type(s))) is not None:
            s = replace(cast(Any, s), **{n: _without(getattr(s, n), read) for n in inner})
            if isinstance(s, If) and not s.then and not s.other and isinstance(s.test, Const | Var):
                continue
        out.append(s)
    return tuple(out)
