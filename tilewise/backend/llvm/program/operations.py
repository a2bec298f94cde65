"""Operations on numbers. In: an emitter, operations. Out: values; IR that fails where the result is not Python's."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, cast

from tilewise.backend.llvm.emit.text import Val
from tilewise.backend.llvm.math import scalar, trig
from tilewise.backend.llvm.program import scalars
from tilewise.kernel.program.ir import INT, RERUN, Const, Expr, If, Op, Program, Set, Var
from tilewise.kernel.program.walk import expressions, statements

if TYPE_CHECKING:
    from tilewise.backend.llvm.program.emit import Emitter


def operation(em: Emitter, x: Op) -> Val:
    """The value of an operation."""
    if x.fn in scalars.OVERFLOW and x.dtype == INT and x.fault >= 0 and em.faults[x.fault].error == RERUN:
        found = scalars.multiple(x)
        if found is not None:
            return _scaled(em, x, *found)
    args = [em.e(a) for a in x.args]
    if x.exact and x.fn in scalars.PLAIN:
        return args[0].op(scalars.PLAIN[x.fn], args[1])
    if x.fn == "exact_float" and x.fault >= 0:
        unusual = (args[0] + scalars.EXACT).cmp("ugt", 2 * scalars.EXACT)
        em.fail_rarely(unusual, lambda: _computed(em, x, args)[1], x.fault, tuple(args))
        return args[0].convert("sitofp", "double")
    if x.fn == "whole:int64" and x.fault >= 0 and args[0].ty == "double":
        unusual = args[0].bits().op("shl", 1).cmp("uge", scalars.BEYOND_INT64)
        em.fail_rarely(unusual, lambda: _computed(em, x, args)[1], x.fault, (args[0].bits(),))
        return args[0].convert("fptosi", "i64")
    if x.fn in ("floor_divide", "remainder") and x.dtype == INT and not isinstance(x.args[1], Const):
        if x.fault >= 0:
            em.fail_if(args[1].cmp("eq", 0), x.fault, tuple(args))
        return scalars.branching_division(em.scopes.unlikely, x.fn, args[0], args[1], x.fault >= 0)
    if x.fn == "logical_and" and all(a.dtype == "bool" for a in x.args):
        return args[0] & args[1]
    if x.fn == "logical_or" and all(a.dtype == "bool" for a in x.args):
        return args[0] | args[1]
    made, bad = _computed(em, x, args)
    if x.fault >= 0 and bad is not None:
        values = tuple(a.bits() if a.ty == "double" else a for a in args if a.ty in ("i64", "double"))
        em.fail_if(bad, x.fault, values)
    return made


def turned(program: Program) -> set[Expr]:
    """Angles of which a program takes the sine and the cosine: they share what both are made of."""
    every = [e for s in statements(program.body) for e in expressions(s) if isinstance(e, Op) and e.dtype == "float64"]
    return {e.args[0] for e in every if e.fn == "sin"} & {e.args[0] for e in every if e.fn == "cos"}


def _scaled(em: Emitter, x: Op, of: Expr, times: int, more: int) -> Val:
    """times * of + more, with one comparison for all that can overflow."""
    made, bad = _product(em, of, times, more)
    em.fail_if(bad, x.fault)
    return made


def _product(em: Emitter, of: Expr, times: int, more: int) -> tuple[Val, Val]:
    """times * of + more, and whether that overflows."""
    v = em.e(of)
    ends = sorted(((scalars.LEAST - more) / Fraction(times), (scalars.MOST - more) / Fraction(times)))
    low, high = max(math.ceil(ends[0]), scalars.LEAST), min(math.floor(ends[1]), scalars.MOST)
    return v * times + more, (v - low).cmp("ugt", high - low)


def _computed(em: Emitter, x: Op, args: list[Val]) -> tuple[Val, Val | None]:
    """The value of an operation, and whether it has none."""
    fn, ins = x.fn, tuple(a.dtype for a in x.args)
    if x.dtype == INT and fn in scalars.OVERFLOW:
        if x.fault >= 0:
            return scalars.overflowing(fn, *args)
        if x.exact:
            opcode = {"add": "add", "subtract": "sub", "multiply": "mul"}[fn]
            return args[0].make(f"{opcode} nsw {args[0].text}, {args[1].name}"), None
    if fn in scalars.ALWAYS or (x.fault >= 0 and fn in scalars.SPECIAL):
        return scalars.SPECIAL[fn](*args)
    if fn == "power" and x.dtype == "float64" and isinstance(x.args[1], Const) and x.args[1].value == 3.0:
        return args[0] * args[0] * args[0], None  # within the error of a power
    if fn == "absolute" and x.fault >= 0:
        return scalar.apply(fn, ins, x.dtype, args), args[0].cmp("eq", scalars.LEAST)
    if fn == "sin" and x.args[0] in em.turned:
        return trig.sin_beside_cos(args[0]), None
    if fn.startswith("libm:"):
        return scalars.libm(fn[5:], args)
    if fn.startswith("fit:"):
        return scalars.fitted(x.dtype, args[0])
    if fn.startswith("whole:"):
        return scalars.whole(x.dtype, args[0], x.fault >= 0)
    if fn == "wrapping_power":
        return scalars.wrapping_power(args[0], args[1], x.dtype[0] == "i")
    if x.loose and x.dtype in ("float64", "float32"):
        return args[0].make(f"{'fadd' if fn == 'add' else 'fmul'} reassoc {args[0].text}, {args[1].name}"), None
    if fn in ("minimum", "maximum") and x.dtype == INT:
        name = "smin" if fn == "minimum" else "smax"
        return args[0].intrinsic(name, args[1]), None
    return scalar.apply(fn, ins, x.dtype, args), None


def both_ways(em: Emitter, s: If, test: Val) -> bool:
    """A choice of two numbers of which one may overflow, without a branch that is hard to predict; or False."""
    sides = [b[0] for b in (s.then, s.other) if len(b) == 1]
    if len(sides) < 2 or not all(isinstance(x, Set) for x in sides):
        return False
    one, other = cast(list[Set], sides)
    found = [scalars.multiple(x.value) if isinstance(x.value, Op) else None for x in (one, other)]
    if one.name != other.name or (found[0] is None) == (found[1] is None):
        return False
    risky, plain = (one, other) if found[0] is not None else (other, one)
    of, times, more = cast(tuple[Expr, int, int], found[0] or found[1])
    x = cast(Op, risky.value)
    if em.faults[x.fault].error != RERUN or not isinstance(of, Var) or not em.cheap(plain.value):
        return False
    made, bad = _product(em, of, times, more)
    em.fail_if(bad & (test if risky is one else ~test), x.fault)
    value = em.e(plain.value)
    em.put(em.names[one.name], test.select(*((made, value) if risky is one else (value, made))))
    return True
