"""Loops. In: syntax trees. Out: events of whole bodies (record.py), and the parfor loops among them.

A loop is followed until the values of names at its head do not change any more.
"""

from __future__ import annotations

import ast
import builtins
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewise.kernel.dependence.expr import Expr, Index, constant, scale, var
from tilewise.parfor.walk.iterate import Iteration
from tilewise.parfor.walk.kept import inner_nodes, replace
from tilewise.parfor.walk.names import (
    Names,
    anew,
    assigned,
    generator_name,
    is_parfor,
    joined,
    stale,
    without_inner,
)
from tilewise.parfor.walk.places.memory import Memory
from tilewise.parfor.walk.places.subscripts import (
    positive_length,
)
from tilewise.parfor.walk.record import endless
from tilewise.parfor.walk.scope import Scope
from tilewise.parfor.walk.statements import Branches
from tilewise.parfor.walk.values import (
    ANYTHING,
    NUMBER,
    Val,
    is_exact,
    join,
    of_expr,
    same,
)

ROUNDS = 4  # through a loop, until names at its head do not change


@dataclass(frozen=True)
class ParLoop:
    """A parfor that was found: its index, the loops around it, and its element."""

    index: Index
    node: ast.For
    around: tuple[Index, ...]
    element: Val


class Statements(Branches):
    """Follows all statements."""

    def __init__(self, memory: Memory, file: str, names: dict[str, Any], functions: Any = None) -> None:
        super().__init__(memory, file)
        self.scope = self.root = Scope({}, None, names)
        self._functions = functions
        self.following, self.general = [], set()
        self.found: list[ParLoop] = []
        self.exits: list[tuple[list[Names], list[Names], Index]] = []  # names at `continue`, at `break`, per loop

    def space(self) -> Any:
        """Names among which functions of the program were defined."""
        return self._functions

    def _do_for(self, node: ast.For) -> bool:
        parallel = is_parfor(node.iter)
        if parallel:
            assert isinstance(node.iter, ast.Call)
            walk = self._parfor_range(node.iter)
            private = generator_name(node.iter)
        else:
            walk = self.iterate(node.iter)
            private = None
        index = Index("loop", walk.extent)

        def begin() -> None:
            if private is not None:
                made = self.made([], array=False, name="a generator")
                for obj in made.objs:
                    obj.cls = np.random.Generator
                self.scope.names[private] = made
            self.bind(node.target, walk.element(var(index)))

        if parallel:
            self.parallel.add(index)
            if not self.silent:
                self.silent += 1
                self.found.append(ParLoop(index, node, tuple(self.loops), walk.element(var(index))))
                self.silent -= 1
        self._loop(index, begin, node.body, node.target)
        return self.block(node.orelse)

    def _parfor_range(self, call: ast.Call) -> Iteration:
        """The loop of `parfor(...)`: over a range, given as one or as its numbers, or over what can be indexed."""
        if len(call.args) == 1:
            (given,) = call.args
            quiet = self._silently(given)
            if not (quiet.expr is not None and quiet.scalar):
                return self.iterate(given)
        found = self.iterate_call(range, call.args)
        assert found is not None
        return found

    def _silently(self, node: ast.expr) -> Val:
        self.silent += 1
        value = self.ev(node)
        self.silent -= 1
        return value

    def _do_while(self, node: ast.While) -> bool:
        index = Index("while", endless())

        def begin() -> None:
            self.unsure += 1
            self.use(self.ev(node.test))

        self._loop(index, begin, node.body, None)
        return self.block(node.orelse)

    def _loop(self, index: Index, begin: Callable[[], None], body: Sequence[ast.stmt], target: ast.expr | None) -> None:
        """Follow a loop: first without recording, until names at its head are what they are in any iteration."""
        before = dict(self.scope.names)
        changed = assigned(body, self._in_place(body))
        if target is not None:
            changed |= {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
        entry: Names = {}
        for name in changed:
            old = before.get(name) or self._entry(name)
            entry[name] = replace(old, carried=old.carried | {index})
        head = before | {name: anew(old) for name, old in entry.items()}
        self.silent += 1
        steps = self._steps(index, begin, body, head, entry)
        head |= {n: self._stepped(entry[n], step, var(index)) for n, step in steps.items()}
        for turn in range(ROUNDS):
            end = self._once(index, begin, body, head)[0]
            for n in [n for n, step in steps.items() if not _is_next(head[n], step, end.get(n))]:
                del steps[n]
            newer = {
                n: anew(stale(join(head[n], replace(end.get(n, Val()), carried=frozenset())), index))
                for n in changed - steps.keys()
            }
            newer = {n: replace(v, carried=v.carried | {index}) for n, v in newer.items()}
            moving = [n for n in newer if not same(without_inner(newer[n], index), without_inner(head[n], index))]
            if turn == ROUNDS - 1:
                newer |= {n: replace(ANYTHING, carried=newer[n].carried) for n in moving}
            head |= newer
            if not moving:
                break
        self.silent -= 1
        end, breaks = self._once(index, begin, body, head)
        after = end
        if not positive_length(index.extent):
            after = joined(before, end)
        if not breaks and index.extent.lo >= 0:
            after |= {n: self._stepped(entry[n], step, index.extent) for n, step in steps.items()}
        for other in breaks:
            after = joined(after, other)
        self.scope.names = after

    def _steps(
        self, index: Index, begin: Callable[[], None], body: Sequence[ast.stmt], head: Names, entry: Names
    ) -> dict[str, int]:
        """Integers that seem to grow by the same number in each iteration, and by how much."""
        if index in self.parallel or math.isinf(index.extent.hi):
            return {}
        exact = {n: replace(entry[n], known=Val().known) for n in _added_to(body) & entry.keys() if is_exact(entry[n])}
        if not exact:
            return {}
        end = self._once(index, begin, body, head | exact)[0]
        found: dict[str, int] = {}
        for name, value in exact.items():
            last = end.get(name, Val())
            by = last.expr - value.expr if last.expr is not None and value.expr is not None else None
            if by is not None and is_exact(last) and by.constant and by.const:
                found[name] = by.const
        return found

    @staticmethod
    def _stepped(entry: Val, step: int, times: Expr) -> Val:
        """An integer that has grown so many times."""
        assert entry.expr is not None
        return replace(of_expr(entry.expr + scale(times, step)), carried=entry.carried)

    def _once(
        self, index: Index, begin: Callable[[], None], body: Sequence[ast.stmt], head: Names
    ) -> tuple[Names, list[Names]]:
        self.scope.names = dict(head)
        self.exits.append(([], [], index))
        unsure = self.unsure
        with self.inside(index):
            begin()
            ended = self.block(body)
        self.unsure = unsure
        continues, breaks, _ = self.exits.pop()
        ends = continues if ended else [self.scope.names, *continues]
        end = ends[0] if ends else dict(self.scope.names)
        for other in ends[1:]:
            end = joined(end, other)
        return end, breaks

    def _entry(self, name: str) -> Val:
        """What a name is before the loop, if anything."""
        scope: Scope | None = self.scope
        while scope is not None:
            if name in scope.names or (scope.space is not None and name in scope.space):
                return replace(self._quiet(name), carried=frozenset())
            scope = scope.outer
        return Val(scalar=True)

    def _in_place(self, body: Sequence[ast.stmt]) -> set[str]:
        """Names that are only ever the target of operators in place on arrays and lists: these are not assigned."""
        found = set()
        for name in {
            n.target.id for n in inner_nodes(body) if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)
        }:
            value = self.scope.names.get(name) or self._quiet_or_none(name)
            if value is not None and (value.view is not None or value.objs) and not value.scalar:
                found.add(name)
        return found - assigned(body, found)

    def _quiet_or_none(self, name: str) -> Val | None:
        scope: Scope | None = self.scope
        while scope is not None:
            if name in scope.names or (scope.space is not None and name in scope.space):
                return self._quiet(name)
            scope = scope.outer
        return None if not hasattr(builtins, name) else NUMBER


def _is_next(head: Val, step: int, end: Val | None) -> bool:
    """Whether an iteration that begins with a number ends with the number of the next one."""
    if end is None or not is_exact(end) or head.expr is None or end.expr is None:
        return False
    return bool((head.expr + constant(step)).key() == end.expr.key())


def _added_to(body: Sequence[ast.stmt]) -> set[str]:
    """Names that something is added to."""
    found: set[str] = set()
    for node in inner_nodes(body):
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add | ast.Sub):
            found |= {node.target.id} if isinstance(node.target, ast.Name) else set()
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp):
            read = {n.id for n in ast.walk(node.value) if isinstance(n, ast.Name)}
            found |= {t.id for t in node.targets if isinstance(t, ast.Name)} & read
    return found
