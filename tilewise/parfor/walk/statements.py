"""Statements. In: syntax trees. Out: events of the whole body (record.py), and the parfor loops in it.

Loops are followed until the values of names at their head do not change any more; branches are joined. What is not
understood orders the iterations.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilewise.kernel.dependence.expr import Index, var
from tilewise.parfor.walk import library
from tilewise.parfor.walk.accumulate import Accumulation, accumulation
from tilewise.parfor.walk.calls import Calls
from tilewise.parfor.walk.exprs import Iteration, Scope
from tilewise.parfor.walk.knowns import fixed_key
from tilewise.parfor.walk.memory import Memory
from tilewise.parfor.walk.record import endless
from tilewise.parfor.walk.subscripts import positive_length, subscript_view
from tilewise.parfor.walk.values import ANYTHING, NUMBER, Function, Val, join, may_be_anything, objects, same

ROUNDS = 4  # through a loop, until names at its head do not change
NUMERIC = "buifc"
Names = dict[str, Val]


@dataclass(frozen=True)
class ParLoop:
    """A parfor that was found: its index, the loops around it, and its element."""

    index: Index
    node: ast.For
    around: tuple[Index, ...]
    element: Val


class Statements(Calls):
    """Follows statements."""

    def __init__(self, memory: Memory, file: str, names: dict[str, Any], functions: Any = None) -> None:
        super().__init__(memory, file)
        self.scope = Scope({}, None, names)
        self._functions = functions
        self.found: list[ParLoop] = []
        self.exits: list[tuple[list[Names], list[Names], Index]] = []  # names at `continue`, at `break`, per loop

    def space(self) -> Any:
        """Names among which functions of the program were defined."""
        return self._functions

    def block(self, body: Sequence[ast.stmt]) -> bool:  # type: ignore[override]
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

    # -- simple statements ----------------------------------------------------------------------------------------

    def _do_pass(self, node: ast.Pass) -> None:
        pass

    def _do_expr(self, node: ast.Expr) -> None:
        self.ev(node.value)

    def _do_import(self, node: ast.Import) -> None:
        for alias in node.names:
            name = alias.asname or alias.name.split(".")[0]
            try:
                module = __import__(alias.name, fromlist=["x"] if alias.asname else [])
            except ImportError:
                module = None
            self.scope.names[name] = self.value_of(module, name)

    def _do_importfrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            try:
                module = __import__(node.module or "", fromlist=[alias.name])
                value = self.value_of(getattr(module, alias.name), alias.name)
            except (ImportError, AttributeError, ValueError):
                value = ANYTHING
            self.scope.names[alias.asname or alias.name] = value

    def _do_global(self, node: ast.Global | ast.Nonlocal) -> None:
        self.scope.shared |= set(node.names)

    _do_nonlocal = _do_global

    def _do_functiondef(self, node: ast.FunctionDef) -> None:
        if node.decorator_list or any(isinstance(n, ast.Yield | ast.YieldFrom | ast.Await) for n in ast.walk(node)):
            self.scope.names[node.name] = ANYTHING
            return
        self.scope.names[node.name] = Val(function=Function(node, self.scope, node.name, self.file), scalar=True)

    def _do_delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.name_use(target.id, "write", frozenset())
                self.scope.names[target.id] = Val()
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
            self.scope.returned = join(self.scope.returned, value) if self.scope.returned is not None else value
        else:
            self.use(value)
            self.hazard("return", "control", "a return ends the loop, and iterations after it")
        return True

    def _do_break(self, node: ast.Break) -> bool:
        self.exits[-1][1].append(dict(self.scope.names))
        if self.exits[-1][2] in self.parallel:
            self.hazard("break", "control", "a break ends the loop, and iterations after it")
        return True

    def _do_continue(self, node: ast.Continue) -> bool:
        self.exits[-1][0].append(dict(self.scope.names))
        return True

    # -- assignment -----------------------------------------------------------------------------------------------

    def _do_assign(self, node: ast.Assign) -> None:
        found = accumulation(node)
        if found is not None and self._accumulates(found):
            return
        value = self.ev(node.value)
        for target in node.targets:
            self.bind(target, value)

    def _do_annassign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.bind(node.target, self.ev(node.value))

    def _do_augassign(self, node: ast.AugAssign) -> None:
        found = accumulation(node)
        if found is not None and self._accumulates(found):
            return
        if isinstance(node.target, ast.Name):
            left = self.look_up(node.target.id)
            right = self.use(self.ev(node.value))
            if not left.scalar and (left.view is not None or left.objs):
                self.use(left)
                self._write(left, right)
                return
            self.bind(node.target, self.operate(node.op, self.use(left), right))
            return
        right = self.use(self.ev(node.value))
        if isinstance(node.target, ast.Subscript):
            base, parts = self.ev(node.target.value), self.parts_of(node.target.slice)
            old = self.load(base, parts)
            self.use(old)
            if not old.scalar and old.view is None and (old.objs or old.anything):
                self._write(old, right)
            self._put(base, parts, right)
        else:
            self.use(self.ev(_loaded(node.target)))
            self.bind(node.target, right)

    def bind(self, target: ast.expr, value: Val) -> None:
        """Assign to a target."""
        if isinstance(target, ast.Name):
            self._bind_name(target.id, value)
        elif isinstance(target, ast.Tuple | ast.List):
            self._unpack(target.elts, value)
        elif isinstance(target, ast.Starred):
            self.bind(target.value, self.made([value], array=False))
        elif isinstance(target, ast.Subscript):
            self.use(value)
            self._put(self.ev(target.value), self.parts_of(target.slice), value)
        elif isinstance(target, ast.Attribute):
            self.use(value)
            base = self.ev(target.value)
            if base.view is not None or not (base.objs or base.anything):
                self.hazard(ast.unparse(target), "attribute", "an attribute is assigned")
                return
            for obj in base.objs:
                obj.content |= objects(value)
                obj.anything |= may_be_anything(value)
            self.touch_cells(base, fixed_key(target.attr), write=True)
        else:
            self.hazard(ast.unparse(target), "syntax", "this target is not followed")

    def _bind_name(self, name: str, value: Val) -> None:
        scope = self.scope
        if name in scope.shared:
            self.hazard(name, "scalar", "a function assigns to a name outside of it")
            outer = scope.outer
            while outer is not None:
                outer.names[name] = join(outer.names.get(name), replace(value, expr=None, known=Val().known))
                outer = outer.outer
            return
        scope.names[name] = replace(value, carried=frozenset())
        if not scope.called and scope.outer is None:
            self.name_use(name, "write", frozenset())

    def _unpack(self, targets: Sequence[ast.expr], value: Val) -> None:
        plain = not any(isinstance(t, ast.Starred) for t in targets)
        if value.items is not None and plain and len(value.items) == len(targets):
            for target, item in zip(targets, value.items, strict=True):
                self.bind(target, item)
            return
        for n, target in enumerate(targets):
            if value.view is not None and plain:
                self.bind(target, self.load(value, [self.value_of(n, "an index")]))
            elif value.scalar:
                self.bind(target, Val(scalar=True, kind=value.kind))
            else:
                self.bind(target, self.contents(self.use(value)))

    def _put(self, base: Val, parts: list[Any], value: Val, op: str | None = None) -> None:
        """`base[parts] = value`."""
        if base.view is not None:
            self.touch_value(self.region(base, parts), write=True, op=op)
            return
        if base.items is not None or base.scalar or self.own_subscripts(base):
            return  # an error at run time, or recorded
        for obj in base.objs:
            if not obj.array:
                obj.content |= objects(value)
                obj.anything |= may_be_anything(value)
        self.touch_cells(base, self.key_of(parts, base), write=True, op=op)

    def region(self, base: Val, parts: list[Any]) -> Val:
        """The region of an array that a subscript is."""
        assert base.view is not None
        if base.is_known and len(parts) == 1 and isinstance(parts[0], Val) and isinstance(parts[0].known, str):
            with contextlib.suppress(Exception):
                return self.value_of(base.known[parts[0].known], base.view.obj.name)
        found = subscript_view(base.view, parts, self)
        if found is None:
            return self.within(base)
        return Val(view=found[0], kind=base.kind)

    def _write(self, target: Val, value: Val) -> None:
        """Write to all that a value may be, in place."""
        for obj in objects(target):
            if not obj.array:
                obj.content |= objects(value)
                obj.anything |= may_be_anything(value)
        self.touch_value(target, write=True)

    # -- accumulations --------------------------------------------------------------------------------------------

    def _accumulates(self, found: Accumulation) -> bool:
        """Record an accumulation; False if the statement is to be followed as any other."""
        target = found.target
        if isinstance(target, ast.Name):
            return self._accumulate_name(target.id, found)
        if not isinstance(target, ast.Subscript):
            return False
        base = self.ev(target.value)
        parts = self.parts_of(target.slice)
        operands = [self.use(self.ev(o)) for o in found.operands]
        if base.view is not None:
            self.accumulate(self.region(base, parts), found.op, operands)
            return True
        if self.own_subscripts(base):
            return True
        held = self._found(base, parts, self.key_of(parts, base)) if base.objs else ANYTHING
        if not held.scalar and isinstance(self.at, ast.AugAssign):  # what is in the cell may be changed in place
            for value in operands:
                self.use(held)
                self._write(held, value)
        kind = held.kind if held.scalar else None
        op = found.op if kind is not None and kind in NUMERIC and all(_number(o) for o in operands) else None
        key = self.key_of(parts, base)
        self.touch_cells(base, key, write=False, op=op)
        if base.items is None and not base.scalar:
            self.touch_cells(base, key, write=True, op=op)
            for obj in base.objs:
                for value in operands:
                    obj.content |= objects(value)
        return True

    def _accumulate_name(self, name: str, found: Accumulation) -> bool:
        if name in self.scope.shared or (name not in self.scope.names and self.scope.called):
            return False
        scope = self.scope
        value = scope.names.get(name) or self._quiet(name)
        array = value.view is not None or (bool(value.objs) and all(o.array for o in value.objs))
        if array and isinstance(self.at, ast.AugAssign):  # in place
            if value.carried & self.parallel:
                return False
            operands = [self.use(self.ev(o)) for o in found.operands]
            self.accumulate(value, found.op, operands)
            return True
        if not (value.carried & self.parallel & set(self.loops)):
            return False
        numeric = (value.kind or "?") in NUMERIC and (value.scalar or value.view is not None)
        if not numeric:
            return False
        for operand in found.operands:
            self.use(self.ev(operand))
        self.name_use(name, found.op, value.carried)
        scope.names[name] = Val(scalar=value.scalar, kind=value.kind, objs=objects(value), carried=value.carried)
        return True

    def _quiet(self, name: str) -> Val:
        self.silent += 1
        value = self.look_up(name)
        self.silent -= 1
        return value

    def accumulate(self, target: Val, op: str | None, operands: Sequence[Val]) -> None:
        """Record that all of a region is combined with operands."""
        kind = target.kind
        if kind is None or kind not in NUMERIC:
            op = None
        elif kind in "bui" and any(o.kind is None or o.kind not in "bui" for o in operands):
            op = None  # each step would be rounded to an integer
        self.touch_value(target, write=False, op=op)
        self.touch_value(target, write=True, op=op)

    # -- branches -------------------------------------------------------------------------------------------------

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
        self.scope.names = no if ended else yes if other_ended else joined(yes, no)
        if ended or other_ended:  # what follows runs on one side only
            self.add_guard(test, other_ended)
        return False

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
                self.scope.names[handler.name] = Val(scalar=True)
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
            made_here = isinstance(call, ast.Call) and self.ev(call.func).known in library.EFFECT_FREE_CONTEXTS
            if not made_here:
                self.use(value)
                self.hazard(ast.unparse(call), "call", "what the context does is not known")
            if item.optional_vars is not None:
                self.bind(item.optional_vars, ANYTHING)
        return self.block(node.body)

    def _do_match(self, node: ast.Match) -> bool:
        self.use(self.ev(node.subject))
        before = dict(self.scope.names)
        ends = [before]
        self.unsure += 1
        for case in node.cases:
            self.scope.names = dict(before)
            for part in ast.walk(case.pattern):
                name = getattr(part, "name", None) or getattr(part, "rest", None)
                if isinstance(name, str):
                    self._bind_name(name, ANYTHING)
            if case.guard is not None:
                self.use(self.ev(case.guard))
            if not self.block(case.body):
                ends.append(self.scope.names)
        self.unsure -= 1
        self.scope.names = ends[0]
        for other in ends[1:]:
            self.scope.names = joined(self.scope.names, other)
        return False

    # -- loops ----------------------------------------------------------------------------------------------------

    def _do_for(self, node: ast.For) -> bool:
        parallel = is_parfor(node.iter)
        if parallel:
            assert isinstance(node.iter, ast.Call)
            walk = self._parfor_range(node.iter)
            private = _generator_name(node.iter)
        else:
            walk = self.iterate(node.iter)
            private = None
        index = Index("loop", walk.extent)

        def begin() -> None:
            if private is not None:
                self.scope.names[private] = self.made([], array=False, name="a generator")
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
        head = dict(before)
        for name in changed:
            old = before.get(name) or self._entry(name)
            head[name] = _anew(replace(old, carried=old.carried | {index}))
        self.silent += 1
        for turn in range(ROUNDS):
            end = self._once(index, begin, body, head)[0]
            newer = {
                n: _anew(_stale(join(head[n], replace(end.get(n, Val()), carried=frozenset())), index)) for n in changed
            }
            newer = {n: replace(v, carried=v.carried | {index}) for n, v in newer.items()}
            moving = [n for n in changed if not same(_outer(newer[n], index), _outer(head[n], index))]
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
        for other in breaks:
            after = joined(after, other)
        self.scope.names = after

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
            n.target.id for n in _inner(body) if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)
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


def _number(value: Val) -> bool:
    return value.scalar and value.kind is not None and value.kind in NUMERIC


def _anew(value: Val) -> Val:
    """A value that is not what it was at entry."""
    return (
        replace(value, known=Val().known, expr=None, items=None, function=None, method=None)
        if value.view is None
        else replace(value, known=Val().known)
    )


def _stale(value: Val, index: Index) -> Val:
    """A value left from an earlier iteration of a loop: regions that depend on its index may be any."""
    if value.view is None:
        return value
    view = value.view
    used = [view.ident, *view.dims, *(a.length for a in view.axes if a.length is not None)]
    if not any(index in e.indices for e in used):
        return value
    return Val(objs=objects(value), kind=value.kind, carried=value.carried)


def _outer(value: Val, index: Index) -> Val:
    """A value without objects made in the iterations of a loop: each time through there are others."""
    return replace(value, objs=frozenset(o for o in value.objs if index not in o.born))


def joined(a: Names, b: Names) -> Names:
    """Names after two ways through a program; those that only one has may be left from before."""
    out = {n: join(a[n], b[n]) for n in a.keys() & b.keys()}
    for name in a.keys() ^ b.keys():
        out[name] = a.get(name) or b[name]
    return out


def _inner(body: Sequence[ast.stmt]) -> list[ast.AST]:
    """All nodes of statements that run in the same scope."""
    found: list[ast.AST] = []
    queue: list[ast.AST] = list(body)
    while queue:
        node = queue.pop()
        found.append(node)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            queue.extend(ast.iter_child_nodes(node))
    return found


def assigned(body: Sequence[ast.stmt], in_place: set[str] | frozenset[str] = frozenset()) -> set[str]:
    """Names that statements assign to."""
    found: set[str] = set()
    nodes = _inner(body)
    skipped = {
        id(n.target)
        for n in nodes
        if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name) and n.target.id in in_place
    }
    inner = {
        id(t) for n in nodes if isinstance(n, ast.comprehension) for t in ast.walk(n.target) if isinstance(t, ast.Name)
    }
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del) and id(node) not in skipped | inner:
            found.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef | ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
            found |= {node.name} if node.name else set()
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {a.asname or a.name.split(".")[0] for a in node.names}
    return found


def is_parfor(node: ast.expr) -> bool:
    """Whether an iterable is `parfor(...)`, by whatever module."""
    if not isinstance(node, ast.Call):
        return False
    return getattr(node.func, "id", getattr(node.func, "attr", None)) == "parfor"


def _generator_name(call: ast.Call) -> str | None:
    """The name of the generator that each iteration gets a stream of."""
    for keyword in call.keywords:
        if keyword.arg == "rng" and isinstance(keyword.value, ast.Name):
            return keyword.value.id
    return None


def _loaded(target: ast.expr) -> ast.expr:
    out = ast.parse(ast.unparse(target), mode="eval").body
    return ast.copy_location(out, target)
