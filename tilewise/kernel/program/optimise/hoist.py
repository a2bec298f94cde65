"""Sizes and views computed once. In: a program. Out: the program; what a loop does not change stands before it.

Only variables that lowering has made (`$...`), each set at one place: nobody sees them where the loop does not run.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, cast

from tilewise.kernel.program import ir
from tilewise.kernel.program.walk import BLOCKS, arrays_set, arrays_used, expressions, names_read, names_set, statements

PURE = frozenset("add subtract multiply minimum maximum floor_divide equal not_equal less greater".split())


def hoist(program: ir.Program) -> ir.Program:
    """Every such statement before the outermost loop that does not change what it reads."""
    every = list(statements(program.body))
    counts = Counter(s.name for s in every if isinstance(s, ir.Set | ir.For))
    counts.update(f"array {s.array}" for s in every if isinstance(s, ir.Alloc | ir.View))
    for s in every:
        if isinstance(s, ir.HostCall | ir.Invoke):
            counts.update([name for n in ir.results_of(s) for name in (n, f"array {n}")])
    once = {n for n, c in counts.items() if c == 1}
    return replace(program, body=_block(program.body, once))


def _block(block: ir.Block, once: set[str]) -> ir.Block:
    out: list[ir.Stmt] = []
    for s in block:
        names = BLOCKS.get(type(s), ())
        inner = {n: _block(getattr(s, n), once) for n in names}
        s = replace(cast(Any, s), **inner) if inner else s
        if isinstance(s, ir.For | ir.Loop):
            moved, rest = _split(s, once)
            out += moved
            s = replace(s, body=rest)
        out.append(s)
    return tuple(out)


def _split(loop: ir.For | ir.Loop, once: set[str]) -> tuple[list[ir.Stmt], ir.Block]:
    names, arrays = names_set((loop,)), arrays_set(loop.body)
    moved: list[ir.Stmt] = []
    rest: list[ir.Stmt] = []
    for s in loop.body:
        if _movable(s, once) and not (names_read(s) & names or arrays_used(s) & arrays):
            moved.append(s)
            names -= {getattr(s, "name", "")}
            arrays -= {getattr(s, "array", "")}
        else:
            rest.append(s)
    return moved, tuple(rest)


def _movable(s: ir.Stmt, once: set[str]) -> bool:
    if isinstance(s, ir.Set):
        if not s.name.startswith("$") or s.name not in once:
            return False
    elif isinstance(s, ir.View):
        if not s.array.startswith("$v") or f"array {s.array}" not in once:
            return False
    else:
        return False
    return all(map(_part, expressions(s)))


def pure(e: ir.Expr) -> bool:
    """Whether an expression can be computed anywhere, any number of times."""
    return all(map(_part, expressions(ir.Set("", e))))


def _part(e: Any) -> bool:
    if isinstance(e, ir.Op):
        by_zero = e.fn == "floor_divide" and not (isinstance(e.args[1], ir.Const) and e.args[1].value)
        return e.fn in PURE and e.fault < 0 and e.dtype in (ir.INT, ir.BOOL) and not by_zero
    return isinstance(e, ir.Const | ir.Var | ir.Dim | ir.Span | ir.Pick)
