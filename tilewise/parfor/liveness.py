"""Names that are used after a loop. In: a program and one of its loops. Out: the names live where the loop ends."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tilewise.parfor.free_names import free_names, stored_names

Names = frozenset[str]
NONE: Names = frozenset()
READ_ALL = {"locals", "vars", "eval", "exec", "dir"}  # functions that may read every name


class Liveness:
    """One pass backwards; loops are passed until nothing changes.

    What is live where `break`, `continue` and exceptions lead to is known while the statements that they may leave
    are passed.
    """

    def __init__(self, wanted: ast.stmt) -> None:
        self.wanted = wanted
        self.after: set[str] = set()
        self.at_break = self.at_continue = self.at_raise = NONE

    @contextmanager
    def _leaving(self, **names: Names) -> Iterator[None]:
        before = {k: getattr(self, k) for k in names}
        self.__dict__.update(names)
        try:
            yield
        finally:
            self.__dict__.update(before)

    def block(self, body: Sequence[ast.stmt], live: Names) -> Names:
        """Names live before statements."""
        for node in reversed(body):
            live = live | self.at_raise
            if node is self.wanted:
                self.after |= live
            live = self.statement(node, live) | self.at_raise
        return live

    def statement(self, node: ast.stmt, live: Names) -> Names:
        """Names live before a statement."""
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if node.value is not None:
                for target in targets:
                    live = live - stored_names(target)
            return live.union(*(free_names(t) for t in targets)) | free_names(node.value)
        if isinstance(node, ast.If):
            return self.block(node.body, live) | self.block(node.orelse, live) | free_names(node.test)
        if isinstance(node, ast.For | ast.AsyncFor | ast.While):
            return self._loop(node, live)
        if isinstance(node, ast.With | ast.AsyncWith):
            with self._leaving(at_raise=self.at_raise | live):  # it may suppress exceptions
                inner = self.block(node.body, live)
            for item in reversed(node.items):
                if item.optional_vars is not None:
                    inner = (inner - stored_names(item.optional_vars)) | free_names(item.optional_vars)
                inner |= free_names(item.context_expr)
            return inner
        if isinstance(node, ast.Try | ast.TryStar):
            return self._try(node, live)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return (live - {node.name}) | free_names(node)
        if isinstance(node, ast.Return | ast.Raise):
            return self.at_raise | free_names(node)
        if isinstance(node, ast.Break):
            return self.at_break
        if isinstance(node, ast.Continue):
            return self.at_continue
        if isinstance(node, ast.Match):
            cases = (self._case(c, live) for c in node.cases)
            return live.union(free_names(node.subject), *cases)
        return live | free_names(node)

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, live: Names) -> Names:
        out = self.block(node.orelse, live) | live
        head: Names = NONE
        while True:
            at_end = out | head
            with self._leaving(at_break=live, at_continue=at_end):
                before = self.block(node.body, at_end)
            if isinstance(node, ast.While):
                before = before | free_names(node.test)
            else:
                before = (before - stored_names(node.target)) | free_names(node.target)
            if before <= head:
                break
            head = head | before
        return head | out | free_names(node.test if isinstance(node, ast.While) else node.iter)

    def _try(self, node: ast.Try | ast.TryStar, live: Names) -> Names:
        rest = self.block(node.finalbody, live | self.at_raise if node.finalbody else live)
        leave = {"at_raise": self.at_raise | rest} if node.finalbody else {}
        if node.finalbody:
            leave |= {"at_break": rest | self.at_break, "at_continue": rest | self.at_continue}
        with self._leaving(**leave):
            handlers: Names = NONE
            for handler in node.handlers:
                inner = self.block(handler.body, rest)
                handlers |= (inner - {handler.name} if handler.name else inner) | free_names(handler.type)
            orelse = self.block(node.orelse, rest)
        with self._leaving(**(leave | {"at_raise": leave.get("at_raise", self.at_raise) | handlers})):
            return self.block(node.body, orelse) | handlers | rest

    def _case(self, case: ast.match_case, live: Names) -> Names:
        inner = self.block(case.body, live) | free_names(case.guard)
        return (inner - stored_names(case.pattern)) | free_names(case.pattern)


def live_after(program: Sequence[ast.stmt], loop: ast.stmt, at_end: Names = NONE) -> set[str]:
    """Names that may be read after a loop before they are assigned again.

    >>> tree = ast.parse("for i in x:\\n    t = i\\n    u = i\\nu = 0\\nprint(t, u)")
    >>> sorted(live_after(tree.body, tree.body[0]))
    ['print', 't']
    """
    program = _function_around(program, loop)
    found = Liveness(loop)
    found.block(program, at_end)
    held = {id(n) for n in ast.walk(loop)}
    for node in (n for statement in program for n in ast.walk(statement)):  # functions may be called at any time
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and id(node) not in held:
            found.after |= free_names(node)
        if isinstance(node, ast.Global | ast.Nonlocal):  # these live longer than the function
            found.after |= set(node.names)
    if found.after & READ_ALL:
        found.after |= stored_names(loop)
    return found.after


def _function_around(program: Sequence[ast.stmt], loop: ast.stmt) -> Sequence[ast.stmt]:
    """The statements of the innermost function that has the loop, or all of them."""
    for node in (n for statement in program for n in ast.walk(statement)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and any(n is loop for n in ast.walk(node)):
            return _function_around(node.body, loop)
    return program
