"""Chains of tests as one expression. In: a program. Out: the program with fewer variables of its own.

`0 <= a < n and 0 <= b < m` is lowered to branches that set a bool, which is asked for next. As one conditional
expression it says where it holds that a and b are subscripts of something (intervals.py).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, cast

from tilewise.kernel.program import ir
from tilewise.kernel.program.walk import BLOCKS, expressions, statements


def conditions(program: ir.Program) -> ir.Program:
    """All bools that lowering has made (`$c...`), each asked for once, by the statement that follows."""
    every = list(statements(program.body))
    if not any(isinstance(s, ir.Set) and s.name.startswith("$c") for s in every):
        return program
    read = Counter(e.name for s in every for e in expressions(s) if isinstance(e, ir.Var))
    return replace(program, body=_block(program.body, {n for n, c in read.items() if n.startswith("$c") and c == 1}))


def _block(block: ir.Block, once: set[str]) -> ir.Block:
    out: list[ir.Stmt] = []
    for s in block:
        inner = {n: _block(getattr(s, n), once) for n in BLOCKS.get(type(s), ())}
        s = replace(cast(Any, s), **inner) if inner else s
        last = out[-1] if out else None
        if isinstance(last, ir.Set) and last.name in once and (made := _with(s, last)) is not None:
            out[-1] = made
            s = made
        else:
            out.append(s)
        if isinstance(s, ir.If) and (chosen := _choice(s)) is not None:
            out[-1] = chosen
    return tuple(out)


def _choice(s: ir.If) -> ir.Set | None:
    """`if test: c = a else: c = b` as an assignment."""
    if len(s.then) == len(s.other) == 1:
        a, b = s.then[0], s.other[0]
        if isinstance(a, ir.Set) and isinstance(b, ir.Set) and a.name == b.name and a.name.startswith("$c"):
            return ir.Set(a.name, ir.Pick(s.test, a.value, b.value, a.value.dtype))
    return None


def _with(s: ir.Stmt, given: ir.Set) -> ir.Stmt | None:
    """A statement with the value of a variable in place of it, if that is what it evaluates first."""
    if isinstance(s, ir.If):
        test = _first(s.test, given)
        return None if test is None else replace(s, test=test)
    if isinstance(s, ir.Set):
        value = _first(s.value, given)
        return None if value is None else replace(s, value=value)
    return None


def _first(e: ir.Expr, given: ir.Set) -> ir.Expr | None:
    if isinstance(e, ir.Var):
        return given.value if e.name == given.name else None
    if isinstance(e, ir.Pick):
        test = _first(e.test, given)
        return None if test is None else replace(e, test=test)
    if isinstance(e, ir.Op) and e.args:
        first = _first(e.args[0], given)
        return None if first is None else replace(e, args=(first, *e.args[1:]))
    return None
