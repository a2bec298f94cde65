"""Parts of programs. In: blocks, statements. Out: what is inside of them, what they set and read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, cast

from tilewise.kernel.program.ir import (
    Alloc,
    Apart,
    Block,
    Dim,
    For,
    HostCall,
    If,
    Invoke,
    Load,
    Loop,
    Named,
    Product,
    Return,
    Set,
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


def inner_blocks(s: Stmt) -> list[Block]:
    """The blocks of a statement."""
    return [getattr(s, name) for name in BLOCKS.get(type(s), ())]


def statements(block: Block) -> Iterator[Stmt]:
    """All statements, those inside of others too."""
    for s in block:
        yield s
        for inner in inner_blocks(s):
            yield from statements(inner)


def size(block: Block) -> int:
    """How many statements there are, inside of others too."""
    return sum(1 for _ in statements(block))


def expressions(node: Any) -> Iterator[Any]:
    """All expressions of a statement (spans included), without those of blocks inside."""
    skip = BLOCKS.get(type(node), ())
    todo = [getattr(node, n) for n in _parts(type(node)) if n not in skip]
    while todo:
        e = todo.pop()
        if type(e) is tuple:
            todo += e
        elif parts := _parts(type(e)):
            yield e
            todo += [getattr(e, n) for n in parts]


_FIELDS: dict[type, tuple[str, ...]] = {}


def _parts(kind: type) -> tuple[str, ...]:
    """The fields of a statement or an expression; nothing for others."""
    found = _FIELDS.get(kind)
    if found is None:
        found = _FIELDS[kind] = tuple(f.name for f in fields(kind)) if is_dataclass(kind) else ()
    return found


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
    """A statement or expression with `change` applied to all of its parts, the innermost first."""
    if isinstance(node, tuple):
        return tuple(mapped(x, change) for x in node)
    if not is_dataclass(node) or isinstance(node, type):
        return node
    parts = {f.name: getattr(node, f.name) for f in fields(node)}
    made = {n: mapped(v, change) for n, v in parts.items() if isinstance(v, tuple) or is_dataclass(v)}
    if any(made[n] is not parts[n] for n in made):
        node = replace(cast(Any, node), **made)
    return change(node)
