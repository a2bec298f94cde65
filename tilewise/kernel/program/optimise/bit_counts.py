"""Loops that count ones, as one operation. In: a program. Out: the program with fewer loops.

    while v: v &= v - 1; n += 1        =>    n += the ones of v; v = 0

LLVM sees this, too, but only after the loop around has been taken for one with a loop inside, whose iterations ask
whether Ctrl-C was pressed; and it keeps a branch for v = 0.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from tilewise.kernel.program import ir
from tilewise.kernel.program.walk import BLOCKS, statements


def bit_counts(program: ir.Program) -> ir.Program:
    """All such loops."""
    if not any(isinstance(s, ir.Loop) for s in statements(program.body)):
        return program
    return replace(program, body=_block(program.body))


def _block(block: ir.Block) -> ir.Block:
    out: list[ir.Stmt] = []
    for s in block:
        if isinstance(s, ir.Named) and (made := _counted(s)) is not None:
            out += made
            continue
        inner = {n: _block(getattr(s, n)) for n in BLOCKS.get(type(s), ())}
        out.append(replace(cast(Any, s), **inner) if inner else s)
    return tuple(out)


def _counted(s: ir.Named) -> list[ir.Stmt] | None:
    """What a loop does that is left where v is zero; None: it is another loop."""
    if len(s.body) != 1 or not isinstance(s.body[0], ir.Loop):
        return None
    match s.body[0].body:
        case (ir.If(test, (ir.Leave(label),), ()), *steps) if label == s.label and 1 <= len(steps) <= 2:
            pass
        case _:
            return None
    match test:
        case ir.Op("logical_not", _, (ir.Op("not_equal" | "greater" as how, _, (ir.Var() as v, ir.Const(_, 0))),)):
            pass
        case _:
            return None
    sets = {t.name: t.value for t in steps if isinstance(t, ir.Set)}
    cleared = sets.pop(v.name, None)
    if len(sets) != len(steps) - 1 or not _clears_lowest(cleared, v, how == "greater"):
        return None
    zero = ir.Const(v.dtype, 0)
    ones = v if how == "not_equal" else ir.Pick(ir.Op("greater", ir.BOOL, (v, zero)), v, zero, v.dtype)
    out: list[ir.Stmt] = []
    for name, value in sets.items():
        match value:
            case ir.Op("add", ir.INT, (ir.Var(n), ir.Const(_, 1)), fault) if n == name:
                out.append(ir.Set(name, ir.Op("add", ir.INT, (value.args[0], _ones(ones)), fault)))
            case _:
                return None
    rest = zero if how == "not_equal" else ir.Op("minimum", v.dtype, (v, zero))
    return [*out, ir.Set(v.name, rest)]


def _ones(v: ir.Expr) -> ir.Expr:
    return ir.Op("ones", ir.INT, (v,))


def _clears_lowest(e: ir.Expr | None, v: ir.Var, positive: bool) -> bool:
    """Whether it is v & (v - 1), which is an integer for all v that the loop meets."""
    match e:
        case ir.Op("bitwise_and", _, (ir.Var(a), ir.Op("subtract", _, (ir.Var(b), ir.Const(_, 1)), fault))):
            return a == b == v.name and (fault < 0 or positive) and v.dtype[:3] in ("int", "uin")
    return False
