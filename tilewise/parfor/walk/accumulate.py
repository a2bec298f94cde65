"""Accumulations: statements that combine a place with something else. In: a statement.

Out: the place, the operator, the rest.

`s += x`, `d[k] = d.get(k, 0) + x`, `s = max(s, x, y)`, `s = np.minimum(x, s)`, `if x > s: s = x`, `s = s + x`, the same
with `A[k]` or `o.s` for `s`, `A[:] = A + x`, and `np.add(A, x, out=A)`.
Whether the place is used elsewhere in the loop is for the verdict to see.
"""

from __future__ import annotations

import ast
from typing import NamedTuple, TypeGuard

from tilewise.parfor.walk.kept import text_of

AUGMENTED: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "+",
    ast.Mult: "*",
    ast.BitOr: "|",
    ast.BitAnd: "&",
    ast.BitXor: "^",
}
UFUNCS = {
    "add": "+",
    "subtract": "+",
    "multiply": "*",
    "maximum": "max",
    "minimum": "min",
    "fmax": "fmax",
    "fmin": "fmin",
}
FUNCTIONS = {"max": "max", "min": "min", **UFUNCS}


class Accumulation(NamedTuple):
    """`target = target op operand`."""

    target: ast.expr
    op: str
    operands: list[ast.expr]
    function: ast.expr | None = None  # which is taken to be Python's or NumPy's
    whole: bool = False  # only for integers: with NaN the order of the iterations counts
    default: bool = False  # the target need not be there: `d.get(k, 0)`
    late: bool = False  # for others the later of two that cannot be compared stands: `min(x, target)`
    into: bool = False  # the target is an array that is written to: `out=target`


def _same(a: ast.expr, b: ast.expr) -> bool:
    if type(a) is not type(b):
        return False
    return a.id == b.id if isinstance(a, ast.Name) and isinstance(b, ast.Name) else text_of(a) == text_of(b)


def _is_place(node: ast.expr, target: ast.expr) -> bool:
    """Whether an expression is what a target stands for: also `A` for the target `A[:]`."""
    return _same(node, target) or (_is_whole(target) and _same(node, target.value))


def _is_whole(target: ast.expr) -> TypeGuard[ast.Subscript]:
    """Whether a target is all of an array, `A[:]` or `A[...]`."""
    return isinstance(target, ast.Subscript) and text_of(target.slice) in (":", "...")


def _inside(target: ast.expr, where: ast.expr) -> bool:
    return any(isinstance(n, ast.expr) and _same(n, target) for n in ast.walk(where))


def accumulation(node: ast.stmt) -> Accumulation | None:
    """What a statement accumulates, if it does.

    >>> found = accumulation(ast.parse("s = x + s + y").body[0])
    >>> found.op, [ast.unparse(o) for o in found.operands]
    ('+', ['x', 'y'])
    >>> accumulation(ast.parse("s = 2 * s + x").body[0]) is None
    True
    """
    if isinstance(node, ast.AugAssign):
        op = AUGMENTED.get(type(node.op))
        if op is None or _inside(node.target, node.value):
            return None
        return Accumulation(node.target, op, [node.value])
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        return _with_default(node.targets[0], node.value) or _assigned(node.targets[0], node.value)
    if isinstance(node, ast.If) and not node.orelse and len(node.body) == 1:
        return _conditional(node)
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return _into(node.value)
    return None


def _into(call: ast.Call) -> Accumulation | None:
    """`np.add(A, x, out=A)`, or with `A` as the third argument."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in UFUNCS:
        return None
    out = [k.value for k in call.keywords if k.arg == "out"] + call.args[2:]
    if len(call.args) + len(call.keywords) != 3 or len(out) != 1 or len(call.args) < 2:
        return None
    if not isinstance(out[0], ast.Name | ast.Attribute):
        return None
    found = _called(out[0], ast.Call(call.func, call.args[:2], []))
    return None if found is None else found._replace(into=True)


def _with_default(target: ast.expr, value: ast.expr) -> Accumulation | None:
    """`d[k] = d.get(k, 0) + x`: what is not there yet counts as nothing."""
    if not isinstance(target, ast.Subscript) or not isinstance(value, ast.BinOp):
        return None
    found, neutral = value.left, {ast.Add: 0, ast.Mult: 1}.get(type(value.op))
    if neutral is None or not isinstance(found, ast.Call) or found.keywords or len(found.args) != 2:
        return None
    default = found.args[1].value if isinstance(found.args[1], ast.Constant) else None
    if not isinstance(found.func, ast.Attribute) or found.func.attr != "get" or type(default) not in (int, float):
        return None
    if not _same(found.func.value, target.value) or not _same(found.args[0], target.slice) or default != neutral:
        return None
    if any(_inside(part, value.right) for part in (target, target.value)):
        return None
    return Accumulation(target, AUGMENTED[type(value.op)], [value.right], default=True)


def _assigned(target: ast.expr, value: ast.expr) -> Accumulation | None:
    if not isinstance(target, ast.Name | ast.Subscript | ast.Attribute):
        return None
    if isinstance(value, ast.BinOp) and (isinstance(target, ast.Name) or _is_whole(target)):
        return _chain(target, value)
    if isinstance(value, ast.Call):
        return _called(target, value)
    if isinstance(value, ast.IfExp):
        op = _order(value.test, value.body, target) if _same(value.orelse, target) else None
        if op is not None:
            return Accumulation(target, op, [value.body])
        op = _order(value.test, value.orelse, target) if _same(value.body, target) else None
        if op is not None:
            strict = isinstance(value.test, ast.Compare) and isinstance(value.test.ops[0], ast.Lt | ast.Gt)
            return Accumulation(target, "min" if op == "max" else "max", [value.orelse], None, True, late=strict)
    return None


def _called(target: ast.expr, value: ast.Call) -> Accumulation | None:
    """`max(target, x, y)`, or a function of NumPy's with two arguments."""
    name = value.func.id if isinstance(value.func, ast.Name) else getattr(value.func, "attr", "")
    rest = [a for a in value.args if not _is_place(a, target)]
    if name not in FUNCTIONS or value.keywords or not rest or len(value.args) != len(rest) + 1:
        return None
    if any(_inside(target, a) or isinstance(a, ast.Starred) for a in rest) or (name in UFUNCS and len(rest) != 1):
        return None
    last = not _is_place(value.args[0], target)
    if last and name == "subtract":
        return None
    swapped = last and name in ("max", "min")
    late = swapped and isinstance(value.func, ast.Name) and len(rest) == 1
    return Accumulation(target, FUNCTIONS[name], rest, value.func, swapped, late=late)


def _chain(target: ast.expr, value: ast.BinOp) -> Accumulation | None:
    """Sums and products in which the target stands once."""
    sums = isinstance(value.op, ast.Add | ast.Sub)
    if not sums and not isinstance(value.op, ast.Mult | ast.BitOr | ast.BitAnd | ast.BitXor):
        return None
    family: tuple[type[ast.operator], ...] = (ast.Add, ast.Sub) if sums else (type(value.op),)
    operands: list[ast.expr] = []
    found = 0

    def _holds(node: ast.expr) -> bool:
        return any(isinstance(n, ast.expr) and _is_place(n, target) for n in ast.walk(node))

    def take(node: ast.expr, negative: bool) -> None:
        nonlocal found
        if _is_place(node, target):
            found += 1 if not negative else 100
        elif isinstance(node, ast.BinOp) and isinstance(node.op, family) and _holds(node):
            take(node.left, negative)
            take(node.right, negative != isinstance(node.op, ast.Sub))
        else:
            operands.append(node)

    take(value, False)
    if found != 1 or any(_inside(target, o) for o in operands):
        return None
    return Accumulation(target, AUGMENTED[type(value.op)], operands)


def _order(test: ast.expr, value: ast.expr, target: ast.expr) -> str | None:
    """Whether a test says that the value is greater ("max") or less ("min") than the target."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or _inside(target, value):
        return None
    left, right, sign = test.left, test.comparators[0], test.ops[0]
    if _same(left, value) and _same(right, target):
        greater = isinstance(sign, ast.Gt | ast.GtE)
    elif _same(left, target) and _same(right, value):
        greater = isinstance(sign, ast.Lt | ast.LtE)
    else:
        return None
    return ("max" if greater else "min") if isinstance(sign, ast.Gt | ast.GtE | ast.Lt | ast.LtE) else None


def _conditional(node: ast.If) -> Accumulation | None:
    (only,) = node.body
    if not isinstance(only, ast.Assign) or len(only.targets) != 1:
        return None
    target = only.targets[0]
    if not isinstance(target, ast.Name | ast.Subscript):
        return None
    op = _order(node.test, only.value, target)
    return Accumulation(target, op, [only.value]) if op is not None else None
