"""Statements. In: a function's syntax tree, types of its arguments. Out: a program, with every name's types known.

The tree is interpreted on types while statements are emitted: a loop is lowered again until the types at its head stay
the same. Where a name has several types (or perhaps none), a statement that reads it is emitted for each of them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from tilewise.kernel.program.ir import (
    INT,
    Const,
    Fail,
    For,
    If,
    Leave,
    Loop,
    Named,
    Set,
    Stmt,
    Var,
)
from tilewise.python import iteration, refine, values
from tilewise.python.build import ONE, ZERO, List, Scalar, Tuple, Value, add, compare, negate
from tilewise.python.containers import lists, pools, watched
from tilewise.python.functions.nodes import names_in, walk
from tilewise.python.refuse import Pools, Refused
from tilewise.python.scope import Dead, LoopFrame
from tilewise.python.standard import nested_loops
from tilewise.python.statements import Statements
from tilewise.python.types import LENGTH, Env, Lst, Num, Type, ints, join, key, patient, widen

MOST_LOOKS = 40  # at a loop, before its types count as unstable


class Lower(Statements):
    """All statements."""

    def while_(self, node: ast.While) -> None:
        def once() -> Env | None:
            """One iteration; what is known where the test fails."""
            try:
                with self.evaluating():
                    test = self.condition(node.test)
            except Dead:
                self.env = None
                return None
            if isinstance(test, Const) and test.value:
                self.block(node.body)
                return None
            assert self.env is not None
            out = refine.by(self, dict(self.env), node.test, False)
            self.b.emit(If(negate(test), (Leave(frame.label + ".over"),)))
            self.env = refine.by(self, self.env, node.test, True)
            self.block(node.body)
            return out

        frame = LoopFrame(self.b.fresh("w"))
        body, _, ends = self.fixed_point(node, frame, once)
        self.finish(node, frame, [Named(frame.label + ".over", (Loop(body, node.lineno),))], ends)

    def for_(self, node: ast.For) -> None:
        if self.torn(node.iter) is not None:
            node = self._calm(node)
        if (nest := nested_loops.written_out(self, node)) is not None:
            self.block(nest)
            return
        with self.evaluating():
            found = values.value(self, node.iter)
            self.held_by_loop(node, found)
        if lists.changes(self, found, node.body):
            if isinstance(found, List):
                raise Pools((found.t.place,))  # whose loops ask for the length in each iteration
            raise Refused("a loop over a list that it changes", node.lineno, "Loop over a range")
        if not lists.calm(self, found, node.body):
            if not isinstance(found, List):
                raise Refused("a loop over parts of lists that may change", node.lineno, "Loop over a range")
            self.over_list(node, found)
            return
        iterated = iteration.iterated(self, found, node.iter.lineno)
        if isinstance(iterated, Tuple):
            self.unrolled(node, iterated)
            return
        start, stop, step, item = iterated
        if isinstance(step.e, Const):
            down = step.e.value < 0
        else:
            down = step.t.hi < 0
            zero = self.b.fault("ValueError", "range() arg 3 must not be zero", node.iter.lineno)
            step = Scalar(step.t, self.b.keep(step.e))
            self.b.emit(If(compare("equal", step.e, Const(INT, 0)), (Fail(zero),)))
        lo, hi = start.t.lo, stop.t.hi - 1
        if down:
            lo, hi = stop.t.lo + 1, start.t.hi
        elif not isinstance(step.e, Const) and step.t.lo <= 0:
            lo, hi = min(start.t.lo, stop.t.lo + 1), max(start.t.hi, stop.t.hi - 1)
        t = ints(min(lo, hi), hi)
        runs = not down and stop.t.lo > start.t.hi and isinstance(step.e, Const)
        direct = item is None and isinstance(node.target, ast.Name) and not _assigns(node.body, node.target.id)
        if isinstance(node.target, ast.Name) and not self.is_local(node.target.id):
            raise Refused(f"assignment to {node.target.id}, which is outside of the function", node.lineno)
        counter = self.b.slot(self.scope.prefix + node.target.id, t) if direct else self.b.fresh("i")  # type: ignore[attr-defined]
        self.b.names[counter] = INT
        at = Scalar(t, Var(counter, INT))
        writes = any(isinstance(n, ast.Subscript) for n in walk(node.target))  # between the parts of an item

        def once() -> Env | None:
            assert self.env is not None
            out = dict(self.env)
            found = at if item is None else item(at)
            self.assign_to(node.target, self.settled(found, node.lineno) if writes else found, node.lineno)
            self.block(node.body)
            return out

        frame = LoopFrame(self.b.fresh("f"))
        over = iteration.places(found)
        alone = getattr(found, "kind", "keys") in ("keys", "values", "items")
        seen = [watched.Watched(self, p, alone=alone) for p in over]
        over_lists = lists.of_lists(found)
        self.b.iterated += over + over_lists
        body, back, ends = self.fixed_point(node, frame, once)
        del self.b.iterated[len(self.b.iterated) - len(over + over_lists) :]
        checks = [c for w in seen for c in w.checks(self, node.iter.lineno)]
        loop = For(counter, start.e, stop.e, step.e, (*checks, *body), node.lineno, self.b.rare)
        self.finish(node, frame, [loop, *checks], back if runs and back is not None and not frame.breaks else ends)

    def held_by_loop(self, node: ast.For, found: Value) -> None:
        """Names for the lists of pools that a loop goes over, so that they stay."""
        for k, part in enumerate(pools.numbered(found)):
            self.bind(
                f"{self.scope.prefix}held@{node.iter.lineno}.{node.iter.col_offset}.{k}", part, node.lineno, full=True
            )

    def over_list(self, node: ast.For, found: List) -> None:
        """A loop over a list of a pool that may change meanwhile: each iteration asks how long it is."""
        name = f"{self.scope.prefix}over@{node.iter.lineno}.{node.iter.col_offset}"
        self.bind(name, found, node.lineno, full=True)
        counter = f"{name}#at"
        self.b.names[counter] = INT
        self.b.emit(Set(counter, ZERO))

        def once() -> Env | None:
            assert self.env is not None
            out = dict(self.env)
            here = self.fetch(name, self.env[name][0])
            assert isinstance(here, List)
            more = compare("less", Var(counter, INT), lists.length(self, here).e)
            self.b.emit(If(negate(more), (Leave(frame.label + ".over"),)))
            at = Scalar(ints(0, LENGTH), self.b.keep(Var(counter, INT)))
            self.b.emit(Set(counter, add(at.e, ONE)))
            if here.t.item is not None:
                self.assign_to(node.target, lists.item(self, here, (at,), node.lineno), node.lineno)
            self.block(node.body)
            return out

        frame = LoopFrame(self.b.fresh("w"))
        body, _, ends = self.fixed_point(node, frame, once)
        self.finish(node, frame, [Named(frame.label + ".over", (Loop(body, node.lineno),))], ends)

    def _calm(self, node: ast.For) -> ast.For:
        """The same loop over a range of names that have one type each."""
        torn = self.torn(node.iter)
        alts = (self.env or {}).get(torn or "", ())
        if all(isinstance(t, Lst) for t in alts):
            raise Pools(tuple(t.place for t in alts if isinstance(t, Lst)))
        if isinstance(node.iter, ast.Name):
            raise Refused("a loop over something of several types", node.lineno)
        if not isinstance(node.iter, ast.Call):
            return self._over_name(node)
        args: list[ast.expr] = []
        for k, arg in enumerate(node.iter.args):
            full = self.torn(arg)
            if full is None:
                args.append(arg)
                continue
            name = f"range{k}@{node.lineno}"
            self.scope.locals = self.scope.locals | {name}
            self.statement(ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], arg), arg))
            if self.env is None:
                raise Dead
            args.append(ast.copy_location(ast.Name(name, ast.Load()), arg))
        call = ast.copy_location(ast.Call(node.iter.func, args, []), node.iter)
        made = ast.copy_location(ast.For(node.target, call, node.body, node.orelse), node)
        if (torn := self.torn(call)) is not None:
            raise Refused(f"a loop over {torn}, which has several types", node.lineno)
        return made

    def _over_name(self, node: ast.For) -> ast.For:
        """The same loop over a name: a subscript of it may have several types, and what is there only one."""
        name = f"iter@{node.iter.lineno}.{node.iter.col_offset}"
        self.scope.locals = self.scope.locals | {name}
        self.statement(ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], node.iter), node.iter))
        if self.env is None:
            raise Dead
        read = ast.copy_location(ast.Name(name, ast.Load()), node.iter)
        made = ast.copy_location(ast.For(node.target, read, node.body, node.orelse), node)
        return made if self.torn(read) is None else self._calm(made)

    def fixed_point(
        self, node: ast.stmt, frame: LoopFrame, once: Callable[[], Env | None]
    ) -> tuple[tuple[Stmt, ...], Env | None, Env | None]:
        """The body of a loop; what is known after an iteration, and where the loop ends."""
        assert self.env is not None
        at = (self.scope.prefix, node.lineno, node.col_offset, frame.label[:2])
        known = self.heads.get(at)
        head = dict(self.env)
        if known is not None:
            head = {n: _keeping(known.get(n), alts) for n, alts in head.items()}
        for look in range(MOST_LOOKS):
            frame.breaks.clear()
            frame.continues.clear()
            self.env, grown = dict(head), self.b.grown
            self.loops.append(frame)
            with self.b.inside() as body:
                try:
                    out = once()
                except Dead:
                    self.env, out = None, None
            self.loops.pop()
            back = self.env
            for env in frame.continues:
                back = join(back, env)
            after = join(dict(head), back)
            assert after is not None
            after = patient(head, after)
            if after == head and grown == self.b.grown:
                self.heads[at] = head
                inner: tuple[Stmt, ...] = tuple(body)
                if frame.continues:
                    inner = (Named(frame.label + ".next", inner),)
                return inner, back, out
            head = widen(head, after) if look else after
        raise Refused("types that change in a loop", node.lineno, "Give each name one type")

    def finish(self, node: ast.For | ast.While, frame: LoopFrame, loop: list[Stmt], ends: Env | None) -> None:
        """What follows a loop that ended by itself, and one that was left."""
        self.env = ends
        with self.b.inside() as other:
            self.b.block.extend(loop)
            if node.orelse:
                self.block(node.orelse)
        for env in frame.breaks:
            self.env = join(self.env, env)
        self.b.emit(Named(frame.label + ".end", tuple(other))) if frame.breaks else self.b.block.extend(other)

    def unrolled(self, node: ast.For, items: Tuple) -> None:
        """A loop over a tuple: its items may have types of their own."""
        if len(items.items) > 64:
            raise Refused("a loop over a long tuple", node.lineno)
        frame = LoopFrame(self.b.fresh("u"))
        with self.b.inside() as whole:
            for item in items.items:
                if self.env is None:
                    break
                frame.continues.clear()
                self.loops.append(frame)
                with self.b.inside() as body:
                    self.assign_to(node.target, item, node.lineno)
                    self.block(node.body)
                self.loops.pop()
                for env in frame.continues:
                    self.env = join(self.env, env)
                self.b.block.extend([Named(frame.label + ".next", tuple(body))] if frame.continues else body)
            if self.env is not None and node.orelse:
                self.block(node.orelse)
        for env in frame.breaks:
            self.env = join(self.env, env)
        self.b.block.extend([Named(frame.label + ".end", tuple(whole))] if frame.breaks else whole)


def _keeping(known: Any, alts: Any) -> Any:
    """What is known of a name at the head of a loop from an earlier look, if it is more."""
    if known is None:
        return alts
    merged = {key(t): t for t in known}
    return tuple(merged.get(key(t), t) if _inside(t, merged.get(key(t))) else t for t in alts)


def _inside(t: Type, other: Type | None) -> bool:
    return isinstance(t, Num) and isinstance(other, Num) and other.lo <= t.lo and t.hi <= other.hi


def _assigns(body: list[ast.stmt], name: str) -> bool:
    return any(name in names_in(s, read=False) for s in body)


Lower.LOWERED = {
    ast.Expr: Lower.expression,
    ast.Assign: Lower.assign,
    ast.AnnAssign: Lower.ann_assign,
    ast.AugAssign: Lower.aug_assign,
    ast.If: Lower.if_,
    ast.While: Lower.while_,
    ast.For: Lower.for_,
    ast.Return: Lower.return_,
    ast.Raise: Lower.raise_,
    ast.Assert: Lower.assert_,
    ast.Pass: Lower.pass_,
    ast.Break: Lower.break_,
    ast.Continue: Lower.continue_,
    ast.FunctionDef: Lower.define,
    ast.Delete: Lower.delete,
}
