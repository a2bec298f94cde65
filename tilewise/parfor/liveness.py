"""Names that are used after a loop. In: a program and one of its loops. Out: the names live where the loop ends."""

from __future__ import annotations

import ast
from collections.abc import Sequence

Names = frozenset[str]


def _loads(node: ast.AST | None) -> set[str]:
    if node is None:
        return set()
    known: set[str] | None = node.__dict__.get("_tw_loads")
    if known is None:
        found = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load | ast.Del)}
        known = node.__dict__["_tw_loads"] = found
    return set(known)


def _stores(target: ast.expr) -> set[str]:
    return {n.id for n in ast.walk(target) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


class Liveness:
    """One pass backwards; loops are passed until nothing changes."""

    def __init__(self, wanted: ast.stmt) -> None:
        self.wanted = wanted
        self.after: set[str] = set()

    def block(self, body: Sequence[ast.stmt], live: Names) -> Names:
        """Names live before statements."""
        for node in reversed(body):
            if node is self.wanted:
                self.after |= live
            live = self.statement(node, live)
        return live

    def statement(self, node: ast.stmt, live: Names) -> Names:
        """Names live before a statement."""
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name | ast.Tuple | ast.List):
                    live = live - _stores(target)
            used = set().union(*(_loads(t) for t in targets))
            return live | used | _loads(node.value)
        if isinstance(node, ast.AugAssign):
            own = {node.target.id} if isinstance(node.target, ast.Name) else set()
            return live | own | _loads(node.target) | _loads(node.value)
        if isinstance(node, ast.If):
            return self.block(node.body, live) | self.block(node.orelse, live) | _loads(node.test)
        if isinstance(node, ast.For | ast.While):
            return self._loop(node, live)
        if isinstance(node, ast.With):
            inner = self.block(node.body, live)
            return inner | set().union(*(_loads(i.context_expr) for i in node.items))
        if isinstance(node, ast.Try):
            rest = self.block(node.finalbody, live)
            handlers = frozenset().union(*(self.block(h.body, rest) for h in node.handlers))
            inner = self.block(node.body, self.block(node.orelse, rest) | handlers)
            return inner | handlers | rest
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return (live - {node.name}) | _loads(node)
        if isinstance(node, ast.Return | ast.Raise):
            return frozenset(_loads(node))
        if isinstance(node, ast.Match):
            return live | _loads(node) | frozenset().union(*(self.block(c.body, live) for c in node.cases))
        return live | _loads(node)

    def _loop(self, node: ast.For | ast.While, live: Names) -> Names:
        out = self.block(node.orelse, live) | live
        head: Names = frozenset()
        while True:
            at_end = out | head
            if isinstance(node, ast.For):
                before = self.block(node.body, at_end) - _stores(node.target)
            else:
                before = self.block(node.body, at_end) | _loads(node.test)
            if before <= head:
                break
            head = head | before
        first = _loads(node.iter) if isinstance(node, ast.For) else _loads(node.test)
        return head | out | first


def live_after(program: Sequence[ast.stmt], loop: ast.stmt, at_end: Names = frozenset()) -> set[str]:
    """Names that may be read after a loop before they are assigned again.

    >>> tree = ast.parse("for i in x:\\n    t = i\\n    u = i\\nu = 0\\nprint(t, u)")
    >>> sorted(live_after(tree.body, tree.body[0]))
    ['print', 't']
    """
    found = Liveness(loop)
    found.block(program, at_end)
    held = {id(n) for n in ast.walk(loop)}
    for node in (n for statement in program for n in ast.walk(statement)):  # functions may be called at any time
        if isinstance(node, ast.FunctionDef | ast.Lambda) and id(node) not in held:
            found.after |= _loads(node)
    return found.after
