"""What may not change places in a statement. In: its tree, statements of a program. Out: whether one sees the other."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tilewise.kernel.program.ir import Alloc, HostCall, Invoke, Product, Stmt, Store
from tilewise.kernel.program.walk import arrays_used, statements
from tilewise.python.functions.nodes import walk

if TYPE_CHECKING:
    from tilewise.python.statements import Statements


def written(lo: Statements, block: Sequence[Stmt]) -> frozenset[str]:
    """The memory that statements write, but for what they allocate."""
    found, own = set[str](), set[str]()
    writing = {f.index for f in lo.functions.known.values() if f.writes}
    for s in statements(tuple(block)):
        if isinstance(s, Alloc):
            own |= lo.b.roots[s.array]
        elif isinstance(s, Store | Product):
            found |= lo.b.roots[s.array]
        elif isinstance(s, HostCall | Invoke):
            names = s.writes if isinstance(s, HostCall) else s.inputs if s.function in writing else ()
            found = found.union(*(lo.b.roots.get(n, ()) for n in names if isinstance(n, str)))
    return frozenset(found - own)


def read(lo: Statements, block: Sequence[Stmt]) -> frozenset[str]:
    """The memory that statements look at, by whatever names."""
    used = {name for s in statements(tuple(block)) for name in arrays_used(s)}
    return frozenset().union(*(lo.b.roots.get(name, ()) for name in used))


def names_meet(node: ast.AST, part: ast.AST) -> bool:
    """Whether a part of a statement sets (by :=) names that are read before it there, or the other way round."""
    earlier = _earlier(node, part)
    inside = walk(part)
    return bool(_named(earlier) & _read(inside) or _named(inside) & _read(earlier))


def memory_meets(lo: Statements, node: ast.AST, part: ast.AST, before: list[Stmt], after: list[Stmt]) -> bool:
    """Whether a part of a statement writes arrays that are read before it there, or the other way round.

    before, after: what the statement does before the part, and what the part does.
    """
    earlier = _memory(lo, _read(_earlier(node, part))) | read(lo, before)
    return bool(
        earlier & written(lo, after) or (_memory(lo, _read(walk(part))) | read(lo, after)) & written(lo, before)
    )


def operands_before(node: ast.AST, part: ast.AST) -> list[ast.expr]:
    """The largest parts of a statement that are evaluated before another one, and may fail or do something."""
    found: list[ast.expr] = []

    def reached(n: ast.AST) -> bool:
        if n is part:
            return True
        known = len(found)
        if isinstance(n, ast.Lambda | ast.GeneratorExp | ast.ListComp | ast.SetComp | ast.DictComp):
            return False
        if any(map(reached, inside(n))):
            return True
        if isinstance(n, ast.BinOp | ast.UnaryOp | ast.Compare | ast.BoolOp | ast.IfExp | ast.Call | ast.Subscript):
            del found[known:]
            found.append(n)
        return False

    reached(node)
    return found


def acts(block: Sequence[Stmt]) -> bool:
    """Whether statements do what others see, other than writing arrays."""
    return any(
        isinstance(s, Invoke) or (isinstance(s, HostCall) and bool(s.effect or s.draw))
        for s in statements(tuple(block))
    )


def inside(n: ast.AST) -> list[ast.AST]:
    """The parts of a statement, or of a part of a statement, in the order in which they are evaluated."""
    found: list[ast.AST] = []
    for name in ("value", "targets") if isinstance(n, ast.Assign) else n._fields:
        inner: Any = getattr(n, name, None)
        found += [x for x in (inner if isinstance(inner, list) else [inner]) if isinstance(x, ast.AST)]
    return found


def _earlier(node: ast.AST, part: ast.AST) -> list[ast.AST]:
    """What is evaluated before a part of a statement."""
    found: list[ast.AST] = []

    def reached(n: ast.AST) -> bool:
        if n is part:
            return True
        if any(map(reached, inside(n))):
            return True
        found.append(n)
        return False

    reached(node)
    return found


def _named(nodes: Iterable[ast.AST]) -> set[str]:
    return {n.target.id for n in nodes if isinstance(n, ast.NamedExpr)}


def _read(nodes: Iterable[ast.AST]) -> set[str]:
    return {n.id for n in nodes if isinstance(n, ast.Name)}


def _memory(lo: Statements, names: set[str]) -> set[str]:
    """What the arrays of these names may show."""
    starts = tuple(f"{lo.owner(n).prefix}{n}{end}" for n in names if lo.is_local(n) for end in ":.")
    return {r for name, roots in lo.b.roots.items() if starts and name.startswith(starts) for r in roots}
