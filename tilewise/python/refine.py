"""What a test says of integers. In: what is known, a test, whether it holds. Out: more that is known."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from tilewise.python.types import Env, Num

if TYPE_CHECKING:
    from tilewise.python.statements import Statements

_SWAPPED = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE, ast.Eq: ast.Eq, ast.NotEq: ast.NotEq}
_OPPOSITE = {ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}


def by(lo: Statements, env: Env | None, test: ast.expr, holds: bool) -> Env | None:
    """env where a test holds, or does not."""
    if env is None:
        return None
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return by(lo, env, test.operand, not holds)
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) == holds:
        for part in test.values:
            env = by(lo, env, part, holds)
        return env
    if not isinstance(test, ast.Compare) or (len(test.ops) > 1 and not holds):
        return env
    left: ast.expr = test.left
    for op, right in zip(test.ops, test.comparators, strict=True):
        kind = type(op) if holds else _OPPOSITE.get(type(op))
        if kind in _SWAPPED:
            _bound(lo, env, left, kind, right)
            _bound(lo, env, right, _SWAPPED[kind], left)
        left = right
    return env


def _bound(lo: Statements, env: Env, node: ast.expr, kind: type[ast.cmpop], other: ast.expr) -> None:
    """Narrow a name by another expression."""
    if not isinstance(node, ast.Name) or not lo.is_local(node.id):
        return
    full = lo.owner(node.id).prefix + node.id
    alts = env.get(full, ())
    limit = _interval(lo, env, other)
    if limit is None or len(alts) != 1 or not isinstance(alts[0], Num) or not alts[0].py or alts[0].dtype != "int64":
        return
    t = alts[0]
    if kind in (ast.Lt, ast.LtE, ast.Eq):
        t = replace(t, hi=min(t.hi, limit[1] - (kind is ast.Lt)))
    if kind in (ast.Gt, ast.GtE, ast.Eq):
        t = replace(t, lo=max(t.lo, limit[0] + (kind is ast.Gt)))
    if t.lo <= t.hi:
        env[full] = (t,)


def _interval(lo: Statements, env: Env, node: ast.expr) -> tuple[int, int] | None:
    """Where a small expression of integers is."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value, node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _interval(lo, env, node.operand)
        return None if inner is None else (-inner[1], -inner[0])
    if isinstance(node, ast.Name) and lo.is_local(node.id):
        alts = env.get(lo.owner(node.id).prefix + node.id, ())
        if len(alts) == 1 and isinstance(alts[0], Num) and alts[0].py and alts[0].dtype == "int64":
            return alts[0].lo, alts[0].hi
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        a, b = _interval(lo, env, node.left), _interval(lo, env, node.right)
        if a is not None and b is not None:
            return (a[0] + b[0], a[1] + b[1]) if isinstance(node.op, ast.Add) else (a[0] - b[1], a[1] - b[0])
    return None
