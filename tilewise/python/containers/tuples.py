"""Comparisons of tuples. In: tuples of numbers. Out: bools; the first items that differ decide."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewise.kernel.program.ir import Expr
from tilewise.python.build import Scalar, Tuple, Value, negate, pick
from tilewise.python.refuse import Refused
from tilewise.python.types import PY_BOOL

if TYPE_CHECKING:
    from tilewise.python.statements import Statements
from tilewise.python import values
from tilewise.python.scalars import arithmetic

COMPARISONS = frozenset(("==", "!=", "<", "<=", ">", ">="))


def compared(lo: Statements, op: str, x: Tuple, y: Tuple, line: int) -> Scalar:
    """x op y"""
    if x.listed or y.listed:
        raise Refused(f"{op} of lists", line, "Compare tuples, or items one by one")
    if op in ("==", "!="):
        same = _same(lo, x, y, line)
        return Scalar(PY_BOOL, same if op == "==" else negate(same))
    x, y = _held(lo, x, line), _held(lo, y, line)
    n, m = len(x.items), len(y.items)
    found = arithmetic.truth(arithmetic.constant({"<": n < m, "<=": n <= m, ">": n > m, ">=": n >= m}[op]))
    for a, b in list(zip(x.items, y.items, strict=False))[::-1]:
        found = pick(_same(lo, a, b, line), found, _truth(lo, op, a, b, line))
    return Scalar(PY_BOOL, found)


def _held(lo: Statements, x: Tuple, line: int) -> Tuple:
    """The items, which may be written down twice."""
    items: list[Value] = []
    for v in x.items:
        if isinstance(v, Tuple):
            items.append(_held(lo, v, line))
            continue
        s = values.scalar(lo, v, line)
        items.append(Scalar(s.t, lo.b.held(s.e)))
    return Tuple(tuple(items), x.listed)


def _same(lo: Statements, a: Value, b: Value, line: int) -> Expr:
    if not (isinstance(a, Tuple) and isinstance(b, Tuple)):
        return _truth(lo, "==", a, b, line)
    found = arithmetic.truth(arithmetic.constant(len(a.items) == len(b.items)))
    for p, q in list(zip(a.items, b.items, strict=False))[::-1]:
        found = pick(_same(lo, p, q, line), found, arithmetic.truth(arithmetic.constant(False)))
    return found


def _truth(lo: Statements, op: str, a: Value, b: Value, line: int) -> Expr:
    if isinstance(a, Tuple) and isinstance(b, Tuple):
        return compared(lo, op, a, b, line).e
    p, q = values.scalar(lo, a, line), values.scalar(lo, b, line)
    return arithmetic.truth(arithmetic.binary(lo.b, op, p, q, line))
