"""Statements without loops. In: trees. Out: statements of a program, one for each type that a name may have."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar

from tilewise.kernel.program.ir import (
    BOOL,
    INT,
    Const,
    Expr,
    If,
    Leave,
    Return,
    Set,
    Var,
)
from tilewise.python import conditions, iteration, raising, refine, splitting, values
from tilewise.python.arrays import assign, elementwise, reshaped, subscripts
from tilewise.python.build import Array, Choice, Dict, Lazy, List, Scalar, Static, Tuple, Value
from tilewise.python.containers import columns, dicts, lists, pools, reclaim
from tilewise.python.functions import calls
from tilewise.python.names import Names, what
from tilewise.python.refuse import Refused
from tilewise.python.scope import Dead
from tilewise.python.standard import written_lists
from tilewise.python.types import PY_FLOAT, Arr, Env, Obj, join

Result = TypeVar("Result")


class Statements(Names):
    """What statements do."""

    LOWERED: ClassVar[dict[type[ast.stmt], Any]] = {}

    def condition(self, node: ast.expr) -> Expr:
        """A test, as a bool."""
        torn = self.torn(node)
        if torn is None:
            at, env = len(self.b.block), dict(self.env or {})
            try:
                with self.rebinding(node):
                    return conditions.test(self, node)
            except calls.Several as error:
                done = error.others(self.b.block[at:])
                del self.b.block[at:]
                self.env = env
                return self.condition(splitting.call_before(self, node, error, done))
        if (apart := splitting.named_first(self, node)) is not None:
            found = self.condition(apart[0])
            splitting.forget(self, apart)
            return found
        slot = self.b.fresh("c")
        self.b.names[slot] = BOOL
        self.each_type(torn, node.lineno, lambda: self.b.emit(Set(slot, self.condition(node))))
        if self.env is None:
            raise Dead
        return Var(slot, BOOL)

    def native_or(self, native: Callable[[], Result], python: Callable[[], Result | None]) -> Result:
        """What has no native form is done through Python, where its types are known (None: they are not)."""
        at, env = len(self.b.block), dict(self.env or {})
        try:
            return native()
        except calls.Several:
            raise
        except Refused as error:
            del self.b.block[at:]
            self.env = env
            made = python()
            if made is None:
                raise error from None
            return made

    def block(self, body: list[ast.stmt]) -> None:
        for node in body:
            if self.env is None:
                return
            try:
                if isinstance(node, ast.If | ast.For | ast.While):
                    self.statement(node)
                else:
                    with self.evaluating():
                        self.statement(node)
            except Dead:
                self.env = None
            except Refused as error:
                error.line = error.line or node.lineno
                raise

    def statement(self, node: ast.stmt) -> None:
        self.b.kept, self.b.steadily = {}, {}
        how = self.LOWERED.get(type(node))
        if how is None:
            what_it_is, cure = _CONSTRUCTS.get(type(node), (type(node).__name__.lower(), ""))
            raise Refused(what_it_is, node.lineno, cure)
        if type(node) in _SIMPLE and (torn := self.torn(node)) is not None:
            if (apart := splitting.named_first(self, node)) is not None:
                self.block(apart)
                splitting.forget(self, apart)
            elif isinstance(node, ast.Return) and (every := splitting.choices(self, node)) is not None:
                self.return_value(every, node.lineno)
            else:
                self.each_type(torn, node.lineno, lambda: self.statement(node))
            return
        if isinstance(node, ast.If | ast.For | ast.While):
            how(self, node)
            return
        at, env = len(self.b.block), dict(self.env or {})
        try:
            with self.rebinding(node):
                how(self, node)
        except calls.Several as error:
            done = error.others(self.b.block[at:])
            del self.b.block[at:]
            self.env = env
            self.statement(splitting.call_before(self, node, error, done))

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Inside, lists may be known to nobody but the statement, the test or the like that is under way."""
        block, at = self.b.block, len(self.b.block)
        outermost = not self.under_way and not self.scope.depth and not self.inner
        if outermost:
            self.made_lists.clear()
        self.under_way += 1
        try:
            yield
        finally:
            self.under_way -= 1
            if outermost and self.loops:  # elsewhere, a statement makes its lists once
                block[at:at] = [reclaim.mark(pool) for pool in sorted(self.made_lists)]

    def expression(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return
        found = values.value(self, node.value)
        if isinstance(found, Scalar):
            self.b.keep(found.e)

    def assign(self, node: ast.Assign) -> None:
        # An element has the array's type, whichever a number has.
        careless = all(isinstance(t, ast.Subscript) and self._of_array(t) for t in node.targets)
        self.stored_as = self._element_of(node.targets[0]) if careless and len(node.targets) == 1 else ""
        target = node.targets[0]
        if len(node.targets) == 1 and isinstance(target, ast.Name) and _makes_container(node.value):
            self.assigned = self.scope.prefix + target.id
        try:
            found = conditions.last(self, node.value, careless)
        finally:
            self.assigned = ""
        if len(node.targets) > 1 or isinstance(node.targets[0], ast.Tuple | ast.List):
            found = self.settled(found, node.lineno)
        if len(node.targets) > 1 and isinstance(found, Tuple) and found.listed:
            found = lists.made(self, found.items, f"{self.scope.prefix}list", node.lineno)
        for target in node.targets:
            self.assign_to(target, found, node.lineno)

    def _of_array(self, target: ast.Subscript) -> bool:
        """Whether a subscript is one of an array, as far as can be seen: items of lists and dicts keep their types."""
        base: ast.expr = target
        while isinstance(base, ast.Subscript):
            base = base.value
        if not isinstance(base, ast.Name) or self.env is None:
            return False
        if not self.is_local(base.id):
            return True  # others from outside are not written to
        return all(isinstance(t, Arr) for t in self.env.get(self.owner(base.id).prefix + base.id, ()))

    def _element_of(self, target: ast.expr) -> str:
        """The dtype of what an element is stored in; empty if it is not known yet."""
        base = target.value if isinstance(target, ast.Subscript) else target
        if not isinstance(base, ast.Name) or not self.is_local(base.id) or self.env is None:
            return ""
        alts = self.env.get(self.owner(base.id).prefix + base.id, ())
        return alts[0].dtype if len(alts) == 1 and isinstance(alts[0], Arr) else ""

    def ann_assign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.assign_to(node.target, values.value(self, node.value), node.lineno)

    def settled(self, value: Value, line: int) -> Value:
        """A value that later assignments cannot change."""
        if isinstance(value, Tuple):
            each = {id(v): self.settled(v, line) for v in value.items}  # what is there twice stays one
            return Tuple(tuple(each[id(v)] for v in value.items), value.listed)
        if isinstance(value, List) and value.at is not None:
            return List(value.t, self.b.keep(value.at))
        if isinstance(value, Scalar):
            return Scalar(value.t, self.b.keep(value.e))
        if isinstance(value, Lazy):
            return elementwise.materialised(self, value, line)
        if isinstance(value, Array):  # owned, unlike temporary views: the name that owns it may get another
            name = "=" + self.b.fresh()
            self.b.arrays[name] = self.b.arrays[value.name]
            self.b.rename(name, value.name)
            return Array(value.t, name)
        return value

    def assign_to(self, target: ast.expr, value: Value, line: int) -> None:
        if isinstance(target, ast.Name):
            if not self.is_local(target.id) or target.id not in self.scope.locals:
                raise Refused(f"assignment to {target.id}, which is outside of the function", line)
            self.bind(target.id, value, line)
        elif isinstance(target, ast.Tuple | ast.List):
            if isinstance(value, Array | Lazy):
                value = iteration.unpacked(self, value, len(target.elts), line)
            if isinstance(value, Choice):
                name = ast.copy_location(ast.Name(f"unpacked@{line}.{target.col_offset}", ast.Load()), target)
                self.scope.locals = self.scope.locals | {name.id}
                self.bind(name.id, value, line)
                self.statement(ast.copy_location(ast.Assign([target], name), target))
                return
            if not isinstance(value, Tuple) or any(isinstance(t, ast.Starred) for t in target.elts):
                raise Refused(f"unpacking of {what(value)}", line)
            if len(value.items) != len(target.elts):
                n, m = len(target.elts), len(value.items)
                text = (
                    f"too many values to unpack (expected {n})"
                    if m > n
                    else f"not enough values to unpack (expected {n}, got {m})"
                )
                self.fail("ValueError", text, line)
            for t, v in zip(target.elts, value.items, strict=True):
                self.assign_to(t, v, line)
        elif isinstance(target, ast.Subscript):
            block, at = self.b.block, len(self.b.block)
            base = values.value(self, target.value)
            index = values.index_of(self, target.slice)
            subscripts.set_item(self, base, index, values.spilled(self, value, block, at, line), target.lineno)
        elif isinstance(target, ast.Attribute) and target.attr == "shape" and isinstance(target.value, ast.Name):
            reshaped.set_shape(self, target.value, value, line)
        else:
            raise Refused("assignment to an attribute", line)

    def aug_assign(self, node: ast.AugAssign) -> None:
        op, line = values.OPERATORS[type(node.op)], node.lineno
        if isinstance(node.target, ast.Name):
            now = values.value(self, ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target))
            now, other = values.after(self, now, lambda: values.value(self, node.value), line)
            if isinstance(now, Array):
                assign.update(self, now, op, other, line)
                if self.scope.prefix + node.target.id in self.rebound:
                    self.assign_to(node.target, now, line)
                return
            if isinstance(now, List) and op == "+":
                calls.of_written(self, written_lists.extend, [now, other], {}, node)
                return
            if (isinstance(now, Scalar) and isinstance(other, Array | Lazy)) or isinstance(now, Scalar | Tuple):
                self.assign_to(node.target, values.binary(self, op, now, other, line, node), line)
                return
            raise Refused(f"{op}= of {what(now)}", line)
        if not isinstance(node.target, ast.Subscript):
            raise Refused("assignment to an attribute", line)
        start, env = len(self.b.block), dict(self.env or {})
        base = values.value(self, node.target.value)
        index = subscripts.fixed(self, values.index_of(self, node.target.slice))
        old = subscripts.get_item(self, base, index, line)
        if isinstance(old, Choice):
            del self.b.block[start:]
            self.b.kept, self.b.steadily, self.env = {}, {}, env
            self.statement(splitting.element_first(self, node))
        elif isinstance(old, Scalar):
            old = Scalar(old.t, self.b.keep(old.e))
            new = values.binary(self, op, old, values.value(self, node.value), line, node)
            subscripts.set_item(self, base, index, new, line)
        elif isinstance(old, Array) and not any(isinstance(i, Array | Lazy) for i in index):
            assign.update(self, old, op, values.value(self, node.value), line)
        elif isinstance(old, Array | Lazy):  # a copy, which is changed in place
            changed = elementwise.materialised(self, old, line)
            block, at = self.b.block, len(self.b.block)
            other = values.value(self, node.value)
            index = tuple(values.all_spilled(self, index, block, at, line))
            assign.update(self, changed, op, other, line)
            subscripts.set_item(self, base, index, changed, line)
        else:
            raise Refused(f"{op}= of {what(old)}", line)

    def if_(self, node: ast.If) -> None:
        with self.evaluating():
            test = self.condition(node.test)
        if isinstance(test, Const):
            self.block(node.body if test.value else node.orelse)
            return
        before = self.env
        assert before is not None
        self.env = refine.by(self, dict(before), node.test, True)
        with self.b.inside() as then:
            self.block(node.body)
        one = self.env
        self.env = refine.by(self, dict(before), node.test, False)
        with self.b.inside() as other:
            self.block(node.orelse)
        self.env = join(one, self.env)
        self.b.emit(If(test, tuple(then), tuple(other)))

    def return_(self, node: ast.Return) -> None:
        found = Static(None) if node.value is None else conditions.last(self, node.value, self.scope.careless)
        self.return_value(found, node.lineno)

    def return_value(self, found: Value, line: int) -> None:
        if self.scope.returns is not None:
            self.scope.returns(found, line)
            return
        leaves: list[Expr | str] = []
        structure = self._structure(found, leaves, line)
        shapes = self.b.arrays
        dtypes = tuple(f"array {shapes[v][0]} {shapes[v][1]}" if isinstance(v, str) else v.dtype for v in leaves)
        if structure not in self.results:
            self.results.append(structure)
            self.result_dtypes.append(dtypes)
        self.b.emit(Return(self.results.index(structure), tuple(leaves)))
        self.env = None

    def _structure(self, value: Value, leaves: list[Expr | str], line: int) -> Any:
        if isinstance(value, Lazy):
            value = elementwise.materialised(self, value, line)
        if isinstance(value, Scalar):
            leaves.append(value.e)
            return ("py" if value.t.py else "np", value.t.dtype)
        if isinstance(value, Array):
            leaves.append(value.name)
            return ("array", value.t.kind, value.t.dtype, value.t.rank)
        if isinstance(value, Tuple) and not value.listed:
            return ("tuple", *(self._structure(v, leaves, line) for v in value.items))
        if isinstance(value, Choice):
            leaves.append(Var(value.which, INT))
            return ("choice", *(self._structure(v, leaves, line) for v in value.items))
        if isinstance(value, Tuple) and value.listed:
            value = lists.made(self, value.items, "", line)
        if isinstance(value, List):
            value = lists.now(self, value)
            if self.scope.returns is None and self.inner:
                raise Refused("a list from a function that calls itself", line, "Return an array")
            if value.at is not None:
                leaves += [self.b.keep(value.at), *pools.of_pool(self, value.t)]
                return ("one", columns.structure(value.t))
            shown = iter([shown.name for shown in lists.shown_in(self, value, line)])
            leaves += pools.leaves(self, value.t.item or PY_FLOAT, shown)
            return ("list", columns.structure(value.t.item or PY_FLOAT))
        if isinstance(value, Dict):
            return self._dict_structure(value, leaves, line)
        if isinstance(value, Static):
            if isinstance(value.value, values.Closure):  # whose names would be gone
                raise Refused("a result that is a function", line)
            return ("object", Obj(value.value))
        raise Refused(f"a result that is {what(value)}", line)

    def _dict_structure(self, value: Dict, leaves: list[Expr | str], line: int) -> Any:
        if self.scope.returns is None and self.inner:
            raise Refused("a dict from a function that calls itself", line, "Return an array")
        t = dicts.now(self, value).t
        kind = "set" if t.members else "dict"
        if t.key is None:
            return ("made", kind)
        for part in ("k", "v"):
            if (item := t.key if part == "k" else t.value) is not None:
                shown = iter([a.name for a in dicts.shown_in(self, value, part, line)])
                leaves += pools.leaves(self, item, shown)
        return (kind, *(columns.structure(i) for i in (t.key, t.value) if i is not None))

    def delete(self, node: ast.Delete) -> None:
        """del d[k]"""
        for target in node.targets:
            base = values.value(self, target.value) if isinstance(target, ast.Subscript) else None
            if not isinstance(base, Dict) or base.t.members:
                raise Refused("del", node.lineno, "Leave it out")
            dicts.delete(self, base, values.value(self, target.slice), node.lineno)  # type: ignore[attr-defined]

    def raise_(self, node: ast.Raise) -> None:
        raising.raise_(self, node)

    def assert_(self, node: ast.Assert) -> None:
        raising.assert_(self, node)

    def pass_(self, node: ast.stmt) -> None:
        pass

    def break_(self, node: ast.Break) -> None:
        self._leave(self.loops[-1].breaks, self.loops[-1].label + ".end")

    def continue_(self, node: ast.Continue) -> None:
        self._leave(self.loops[-1].continues, self.loops[-1].label + ".next")

    def _leave(self, envs: list[Env], label: str) -> None:
        assert self.env is not None
        envs.append(self.env)
        self.b.emit(Leave(label))
        self.env = None

    def define(self, node: ast.FunctionDef) -> None:
        if node.decorator_list:
            raise Refused("a decorator inside", node.lineno)
        self.bind(node.name, values.closure(self, node, node.name), node.lineno)


def _makes_container(node: ast.expr) -> bool:
    """Whether an expression is nothing but a new dict or set, or a list of one item, repeated."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return isinstance(node.left, ast.List)
    empty = isinstance(node, ast.Call) and not node.args and isinstance(node.func, ast.Name)
    return isinstance(node, ast.Dict | ast.Set) or (empty and node.func.id in ("dict", "set"))  # type: ignore[attr-defined]


_SIMPLE = (ast.Delete, ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Raise, ast.Assert)
_CONSTRUCTS: dict[type[ast.stmt], tuple[str, str]] = {
    ast.Try: ("try", "Test for what may go wrong, or call the loop from a function with the try"),
    ast.With: ("with", "Call the loop from inside of the with"),
    ast.Global: ("global", "Return the value"),
    ast.Nonlocal: ("nonlocal", "Return the value"),
    ast.ClassDef: ("a class inside", "Define it outside"),
    ast.Import: ("an import inside", "Import at the top of the file"),
    ast.ImportFrom: ("an import inside", "Import at the top of the file"),
    ast.Match: ("match", "Use if and elif"),
}
