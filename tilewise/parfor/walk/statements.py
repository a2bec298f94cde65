"""Statements, but for loops. In: syntax trees. Out: events (record.py).

Branches are joined. What is not understood orders the iterations.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from tilewise.kernel.dependence.expr import Index, select, truth
from tilewise.parfor.walk.accumulate import accumulation
from tilewise.parfor.walk.assign import Assign
from tilewise.parfor.walk.calls import library
from tilewise.parfor.walk.kept import replace
from tilewise.parfor.walk.names import Names, assigned, joined
from tilewise.parfor.walk.values import (
    ANYTHING,
    Val,
    is_exact,
    join,
    objects,
    of_expr,
)


class Branches(Assign):
    """Follows statements, but for loops."""

    exits: list[tuple[list[Names], list[Names], Index]]  # names at `continue`, at `break`, per loop

    def block(self, body: Sequence[ast.stmt]) -> bool:
        """Follow statements; whether the end is never reached."""
        for node in body:
            self.at, self.line = node, getattr(node, "lineno", self.line)
            method: Callable[[Any], bool | None] | None = getattr(self, f"_do_{type(node).__name__.lower()}", None)
            if method is None:
                self.hazard(type(node).__name__.lower(), "syntax", f"{type(node).__name__} is not followed")
                for name in assigned([node]):
                    self.scope.names[name] = ANYTHING
                continue
            if method(node):
                return True
        return False

    def _do_pass(self, node: ast.Pass) -> None:
        pass

    def _do_expr(self, node: ast.Expr) -> None:
        found = accumulation(node)
        if found is None or not self._accumulates(found):
            self.ev(node.value)

    def _do_import(self, node: ast.Import) -> None:
        for alias in node.names:
            name = alias.asname or alias.name.split(".")[0]
            try:
                module = __import__(alias.name, fromlist=["x"] if alias.asname else [])
            except ImportError:
                module = None
            self._bind_name(name, self.value_of(module, name))

    def _do_importfrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            try:
                module = __import__(node.module or "", fromlist=[alias.name])
                value = self.value_of(getattr(module, alias.name), alias.name)
            except (ImportError, AttributeError, ValueError):
                value = ANYTHING
            self._bind_name(alias.asname or alias.name, value)

    def _do_global(self, node: ast.Global | ast.Nonlocal) -> None:
        self.scope.shared |= set(node.names)

    _do_nonlocal = _do_global

    def _do_functiondef(self, node: ast.FunctionDef) -> None:
        if node.decorator_list or any(isinstance(n, ast.Yield | ast.YieldFrom | ast.Await) for n in ast.walk(node)):
            self._bind_name(node.name, ANYTHING)
            return
        self._bind_name(node.name, Val(function=self.defined(node, node.name), scalar=True))

    def _do_delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.look_up(target.id)  # it has to be there
                self._bind_name(target.id, Val())
            elif isinstance(target, ast.Subscript):
                base = self.ev(target.value)
                self.parts_of(target.slice)
                for obj in objects(base):
                    self.touch_object(obj, write=True)
                if base.anything:
                    self.touch_value(base, write=True)
            else:
                self.hazard(ast.unparse(target), "attribute", "an attribute is deleted")

    def _do_assert(self, node: ast.Assert) -> None:
        self.use(self.ev(node.test))
        if node.msg is not None:
            self.use(self.ev(node.msg))

    def _do_raise(self, node: ast.Raise) -> bool:
        for part in (node.exc, node.cause):
            if part is not None:
                self.use(self.ev(part))
        return True

    def _do_return(self, node: ast.Return) -> bool:
        value = self.ev(node.value) if node.value is not None else Val(known=None, scalar=True)
        if self.scope.called:
            ended = [i for i in self.loops[self.scope.loops_outside :] if i in self.parallel]
            if ended:  # loops of the function that is being followed
                self.hazard("return", "control", "a return ends the loop, and iterations after it", ended)
            self.scope.returned = join(self.scope.returned, value) if self.scope.returned is not None else value
        else:
            self.use(value)
            self.hazard("return", "control", "a return ends the loop, and iterations after it")
        return True

    def _do_break(self, node: ast.Break) -> bool:
        self.exits[-1][1].append(dict(self.scope.names))
        if self.exits[-1][2] in self.parallel:
            why = "a break ends the loop, and iterations after it"
            self.hazard("break", "control", why, [self.exits[-1][2]])
        return True

    def _do_continue(self, node: ast.Continue) -> bool:
        self.exits[-1][0].append(dict(self.scope.names))
        return True

    def _do_if(self, node: ast.If) -> bool:
        found = accumulation(node)
        if found is not None and self._accumulates(found):
            return False
        test = self.use(self.ev(node.test))
        if test.expr is not None and test.expr.constant and test.expr.integer:
            return self.block(node.body if test.expr.const else node.orelse)
        if test.is_known and test.scalar and test.expr is None:
            return self.block(node.body if test.known else node.orelse)
        before = dict(self.scope.names)
        guards, unsure = len(self.guards), self.unsure
        self.add_guard(test, True)
        ended = self.block(node.body)
        yes = self.scope.names
        del self.guards[guards:]
        self.unsure = unsure
        self.scope.names = dict(before)
        self.add_guard(test, False)
        other_ended = self.block(node.orelse)
        no = self.scope.names
        del self.guards[guards:]
        self.unsure = unsure
        if ended and other_ended:
            return True
        self.scope.names = no if ended else yes if other_ended else self._either_way(test, yes, no)
        if ended or other_ended:  # what follows runs on one side only
            self.add_guard(test, other_ended)
        return False

    @staticmethod
    def _either_way(test: Val, yes: Names, no: Names) -> Names:
        """Names after both branches: integers depend on the condition, if that is known."""
        out = joined(yes, no)
        if test.expr is None or not test.expr.integer:
            return out
        for name in yes.keys() & no.keys():
            a, b = yes[name], no[name]
            if a is b or not (is_exact(a) and is_exact(b)) or a.expr is None or b.expr is None:
                continue
            if a.expr.affine or b.expr.affine:  # else they would double at each condition
                chosen = of_expr(select(truth(test.expr), a.expr, b.expr))
                out[name] = replace(chosen, carried=a.carried | b.carried)
        return out

    def _do_try(self, node: ast.Try) -> bool:
        before = dict(self.scope.names)
        self.unsure += 1
        ended = self.block([*node.body, *node.orelse])
        after = joined(before, self.scope.names)
        for name in assigned(node.body):
            if name in after and name in before:
                after[name] = join(before[name], after[name])
        ends = [] if ended else [self.scope.names]
        for handler in node.handlers:
            self.scope.names = dict(after)
            if handler.name:
                self._bind_name(handler.name, Val(scalar=True))
            if not self.block(handler.body):
                ends.append(self.scope.names)
        self.unsure -= 1
        self.scope.names = ends[0] if ends else after
        for other in ends[1:]:
            self.scope.names = joined(self.scope.names, other)
        return self.block(node.finalbody) or not ends

    def _do_with(self, node: ast.With) -> bool:
        for item in node.items:
            value = self.ev(item.context_expr)
            call = item.context_expr
            made_here = isinstance(call, ast.Call) and library.one_of(
                self.ev(call.func).known, library.EFFECT_FREE_CONTEXTS
            )
            if not made_here:
                self.use(value)
                self.hazard(ast.unparse(call), "call", "what the context does is not known")
            if item.optional_vars is not None:
                self.bind(item.optional_vars, ANYTHING)
        return self.block(node.body)

    def _do_match(self, node: ast.Match) -> bool:
        subject = self.use(self.ev(node.subject))
        self.use_held([subject])
        part = subject if subject.scalar else join(subject, self.reachable([subject]))
        before = dict(self.scope.names)
        ends = [before]
        self.unsure += 1
        for case in node.cases:
            self.scope.names = dict(before)
            if isinstance(case.pattern, ast.MatchSequence) and subject.items is not None:
                self._match_items(case.pattern, subject.items)
            else:
                for inner in ast.walk(case.pattern):
                    name = getattr(inner, "name", None) or getattr(inner, "rest", None)
                    if isinstance(name, str):
                        self._bind_name(name, Val(scalar=True) if part.scalar else replace(part, known=Val().known))
            if case.guard is not None:
                self.use(self.ev(case.guard))
            if not self.block(case.body):
                ends.append(self.scope.names)
        self.unsure -= 1
        self.scope.names = ends[0]
        for other in ends[1:]:
            self.scope.names = joined(self.scope.names, other)
        return False

    def _match_items(self, pattern: ast.MatchSequence, items: Sequence[Val]) -> None:
        """Names in a pattern of items that are known one by one."""
        plain = len(pattern.patterns) == len(items)
        for n, one in enumerate(pattern.patterns):
            for inner in ast.walk(one):
                name = getattr(inner, "name", None) or getattr(inner, "rest", None)
                if isinstance(name, str):
                    self._bind_name(name, items[n] if inner is one and plain and _captures(one) else ANYTHING)


def _captures(pattern: ast.pattern) -> bool:
    return isinstance(pattern, ast.MatchAs) and pattern.pattern is None
