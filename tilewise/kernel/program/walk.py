"""Parts of programs. In: blocks, statements. Out: what is inside of them, what they set and read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast

from tilewise.kernel.program.ir import (
    Alloc,
    Apart,
    Block,
    Const,
    Dim,
    Fail,
    For,
    HostCall,
    If,
    Invoke,
    Leave,
    Load,
    Loop,
    Named,
    Op,
    Pick,
    Product,
    Return,
    Set,
    Span,
    Stmt,
    Store,
    Var,
    View,
    results_of,
)

BLOCKS: dict[type, tuple[str, ...]] = {
    If: ("then", "other"),
    For: ("body", "proved"),
    Loop: ("body",),
    Named: ("body",),
}
# The fields of statements and expressions that hold expressions, or tuples of them.
EXPRESSIONS: dict[type, tuple[str, ...]] = {
    Const: (), Var: (), Dim: (), Apart: (), Op: ("args",), Load: ("index",), Pick: ("test", "yes", "no"),
    Span: ("start", "length", "step"), Set: ("value",), Store: ("index", "value"), If: ("test",),
    For: ("start", "stop", "step"), Loop: (), Named: (), Leave: (), Return: ("values",), Fail: ("values",),
    Alloc: ("shape",), View: ("at", "spans"), Product: (), HostCall: ("inputs",), Invoke: ("inputs",),
}  # fmt: skip


def inner_blocks(s: Stmt) -> list[Block]:
    """The blocks of a statement."""
    return [getattr(s, name) for name in BLOCKS.get(type(s), ())]


def statements(block: Block) -> Iterator[Stmt]:
    """All statements, those inside of others too."""
    todo = [*reversed(block)]
    while todo:
        s = todo.pop()
        yield s
        for name in reversed(BLOCKS.get(type(s), ())):
            todo += reversed(getattr(s, name))


def size(block: Block) -> int:
    """How many statements there are, inside of others too."""
    return sum(1 for _ in statements(block))


def expressions(node: Any) -> Iterator[Any]:
    """All expressions of a statement (spans included), without those of blocks inside."""
    todo = [getattr(node, n) for n in EXPRESSIONS[type(node)]]
    while todo:
        e = todo.pop()
        if type(e) is tuple:
            todo += e
        elif (parts := EXPRESSIONS.get(type(e))) is not None:
            yield e
            for n in parts:
                todo.append(getattr(e, n))


def names_set(block: Block) -> set[str]:
    """Numbers that statements of a block set (of host functions, also the arrays)."""
    found = {s.name for s in statements(block) if isinstance(s, Set | For)}
    return found.union(*(results_of(s) for s in statements(block) if isinstance(s, HostCall | Invoke)))


def arrays_set(block: Block) -> set[str]:
    """Array variables that statements of a block set (of host functions, also the numbers)."""
    found = {s.array for s in statements(block) if isinstance(s, Alloc | View)}
    return found.union(*(results_of(s) for s in statements(block) if isinstance(s, HostCall | Invoke)))


def names_read(s: Stmt) -> set[str]:
    """Numbers that a statement itself reads."""
    return {e.name for e in expressions(s) if isinstance(e, Var)}


def arrays_used(s: Stmt) -> set[str]:
    """Array variables that a statement itself looks at, or writes elements of."""
    found: set[str] = set()
    for e in expressions(s):
        if isinstance(e, Load | Dim):
            found.add(e.array)
        elif isinstance(e, Apart):
            found |= {e.first, e.second}
    if isinstance(s, Store):
        found.add(s.array)
    elif isinstance(s, View):
        found.add(s.source)
    elif isinstance(s, Product):
        found |= {s.array, s.left, s.right}
    elif isinstance(s, HostCall | Invoke):
        found |= {v for v in s.inputs if isinstance(v, str)}
    elif isinstance(s, Return):
        found |= {v for v in s.values if isinstance(v, str)}
    return found


def mapped(node: Any, change: Callable[[Any], Any]) -> Any:
    """A statement or expression with `change` applied to all of its parts, the innermost first.

    What has blocks inside is a new object always: some passes know statements by their identity.
    """
    if type(node) is tuple:
        several = [mapped(x, change) for x in node]
        return tuple(several) if any(a is not b for a, b in zip(several, node, strict=True)) else node
    parts = EXPRESSIONS.get(type(node))
    if parts is None:
        return node
    blocks = BLOCKS.get(type(node), ())
    made = {n: mapped(getattr(node, n), change) for n in (*parts, *blocks)}
    if blocks or any(made[n] is not getattr(node, n) for n in made):
        node = replace(cast(Any, node), **made)
    return change(node)
