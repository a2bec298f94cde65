"""Tests that stand before faster forms. In: statements that may fail. Out: what must hold for them not to."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from tilewise.kernel.program import ir
from tilewise.kernel.program.optimise.slices.same_places import ZERO
from tilewise.kernel.program.walk import expressions


def movable(e: ir.Expr) -> bool:
    """Whether an expression can be evaluated elsewhere: no element, no fault."""
    parts = (e, *expressions(ir.Set("", e)))
    return not any(isinstance(x, ir.Load | ir.Apart) or (isinstance(x, ir.Op) and x.fault >= 0) for x in parts)


def only_fails(s: ir.If) -> bool:
    """Whether a statement does nothing but fail if a test holds that can be made elsewhere."""
    return len(s.then) == 1 and isinstance(s.then[0], ir.Fail) and not s.other and movable(s.test)


def doubtful(s: ir.Set) -> bool:
    """Whether a number is a subscript that may be out of range, and nothing else can go wrong."""
    e = s.value
    return isinstance(e, ir.Op) and e.fn == "subscript" and e.fault >= 0 and all(map(movable, e.args))


def surely(s: ir.Set) -> ir.Set:
    """A subscript that is not checked."""
    i, n = cast(ir.Op, s.value).args
    from_end = ir.Op("add", ir.INT, (i, n), exact=True)
    return replace(s, value=ir.Pick(ir.Op("less", ir.BOOL, (i, ZERO)), from_end, i, ir.INT))


def in_range(s: ir.Set) -> list[ir.Expr]:
    """That a subscript is one."""
    at, n = ir.Var(s.name, ir.INT), cast(ir.Op, s.value).args[1]
    return [ir.Op("greater_equal", ir.BOOL, (at, ZERO)), ir.Op("less", ir.BOOL, (at, n))]


def opposite(test: ir.Expr) -> ir.Expr:
    if isinstance(test, ir.Op) and test.fn in ("not_equal", "equal") and all(a.dtype == ir.INT for a in test.args):
        return replace(test, fn="equal" if test.fn == "not_equal" else "not_equal")
    return ir.Op("logical_not", ir.BOOL, (test,))
