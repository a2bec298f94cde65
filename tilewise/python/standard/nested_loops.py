"""Loops over `itertools.product`, `combinations`, `np.ndindex`, `np.ndenumerate`. In: a tree. Out: a nest of loops.

Each of these says in one word what several loops inside of each other do, and is read as if these were written.
"""

from __future__ import annotations

import ast
import itertools
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tilewise.kernel.program.ir import Const
from tilewise.python.build import Array, Lazy, Scalar, Sequence_, Static, Tuple, Value
from tilewise.python.refuse import Refused

if TYPE_CHECKING:
    from tilewise.python.statements import Statements
from tilewise.python import values
from tilewise.python.functions import calls

MOST = 4  # items of a combination


def written_out(lo: Statements, node: ast.For) -> list[ast.stmt] | None:
    """The loops that a loop stands for; None: it is one loop."""
    call = node.iter
    if not isinstance(call, ast.Call) or call.keywords or any(map(lo.is_local, ("range", "len", "ValueError"))):
        return None
    name = call.func.value if isinstance(call.func, ast.Attribute) else call.func
    if not isinstance(name, ast.Name) or lo.is_local(name.id):
        return None
    found = values.value(lo, name)
    if isinstance(call.func, ast.Attribute):
        module = isinstance(found, Static) and isinstance(found.value, ModuleType)
        found = values.value(lo, call.func) if module else found
    f = found.value if isinstance(found, Static) else None
    known = (f.kind, f.name) if isinstance(f, calls.Library) else None
    maker = _Nest(lo, node)
    if f is itertools.product and call.args:
        made = maker.product(call.args)
    elif f is itertools.combinations and len(call.args) == 2:
        made = maker.combinations(*call.args)
    elif known in (("numpy", "ndindex"), ("tilewise", "ndindex")) and call.args:
        made = maker.ndindex(call.args)
    elif known in (("numpy", "ndenumerate"), ("tilewise", "ndenumerate")) and len(call.args) == 1:
        made = maker.ndenumerate(call.args[0])
    else:
        return None
    if made is not None and (node.orelse or _left(node.body)):
        raise Refused("break or else in a loop over several counters", node.lineno, "Write loops inside of each other")
    return made


class _Nest:
    """Makes the loops, with names of their own."""

    def __init__(self, lo: Statements, node: ast.For) -> None:
        self.lo, self.node = lo, node
        self.before: list[ast.stmt] = []
        self.made = 0

    def name(self) -> str:
        self.made += 1
        name = f"nest@{self.node.lineno}.{self.node.col_offset}.{self.made}"
        self.lo.scope.locals = self.lo.scope.locals | {name}
        return name

    def kept(self, value: ast.expr) -> ast.expr:
        """An expression that is evaluated before the loops."""
        if isinstance(value, ast.Constant):
            return value
        name = self.name()
        self.before.append(ast.Assign([ast.Name(name, ast.Store())], value))
        return _load(name)

    def product(self, args: list[ast.expr]) -> list[ast.stmt] | None:
        """Loops over ranges."""
        ranges = [self.range_of(a) for a in args]
        if any(r is None for r in ranges):
            return None
        counters = [self.name() for _ in ranges]
        return self.nest([(c, r) for c, r in zip(counters, ranges, strict=True)], _tuple(map(_load, counters)))  # type: ignore[misc]

    def combinations(self, items: ast.expr, size: ast.expr) -> list[ast.stmt] | None:
        """Loops each of which begins behind the one around it."""
        count = size.value if isinstance(size, ast.Constant) else 0
        if type(count) is not int or not 0 < count <= MOST:
            return None
        found = self.type_of(items)
        counters = [self.name() for _ in range(count)]
        if isinstance(found, Sequence_) and found.kind == "range":
            step = found.parts[2]
            whole = self.range_of(items)
            if whole is None or not (isinstance(step, Scalar) and isinstance(step.e, Const) and step.e.value == 1):
                return None
            first, stop = whole.args[:2] if len(whole.args) > 1 else (ast.Constant(0), whole.args[0])
            each = _tuple(map(_load, counters))
        elif isinstance(found, Array | Lazy) and found.t.rank:
            pool = self.kept(ast.Call(ast.Attribute(items, "copy", ast.Load()), [], []))
            first, stop = ast.Constant(0), ast.Call(_load("len"), [pool], [])
            each = _tuple(ast.Subscript(pool, _load(c), ast.Load()) for c in counters)
        else:
            return None
        starts = [first, *(ast.BinOp(_load(c), ast.Add(), ast.Constant(1)) for c in counters[:-1])]
        loops = [(c, ast.Call(_load("range"), [s, stop], [])) for c, s in zip(counters, starts, strict=True)]
        return self.nest(loops, each)

    def ndindex(self, args: list[ast.expr]) -> list[ast.stmt] | None:
        """Loops over the lengths of axes, which are given one by one or as a tuple."""
        if len(args) == 1 and isinstance(args[0], ast.Starred):
            args = [args[0].value]
        found = self.type_of(args[0]) if len(args) == 1 else None
        if isinstance(found, Tuple):
            shape = self.kept(args[0])
            ends: list[ast.expr] = [ast.Subscript(shape, ast.Constant(k), ast.Load()) for k in range(len(found.items))]
        else:
            ends = [self.kept(a) for a in args]
        if not ends:
            return None
        for end in ends:
            negative = ast.Compare(end, [ast.Lt()], [ast.Constant(0)])
            text = ast.Constant("negative dimensions are not allowed")
            self.before.append(ast.If(negative, [ast.Raise(ast.Call(_load("ValueError"), [text], []))], []))
        counters = [self.name() for _ in ends]
        loops = [(c, ast.Call(_load("range"), [end], [])) for c, end in zip(counters, ends, strict=True)]
        return self.nest(loops, _tuple(map(_load, counters)))

    def ndenumerate(self, array: ast.expr) -> list[ast.stmt] | None:
        """Loops over all elements, with their subscripts."""
        found = self.type_of(array)
        if not isinstance(found, Array | Lazy) or not found.t.rank:
            return None
        held = self.kept(array)
        counters = [self.name() for _ in range(found.t.rank)]
        shape = ast.Attribute(held, "shape", ast.Load())
        loops = [
            (c, ast.Call(_load("range"), [ast.Subscript(shape, ast.Constant(k), ast.Load())], []))
            for k, c in enumerate(counters)
        ]
        at = _tuple(map(_load, counters))
        return self.nest(loops, _tuple([at, ast.Subscript(held, at, ast.Load())]))

    def nest(self, loops: list[tuple[str, ast.Call]], each: ast.expr) -> list[ast.stmt]:
        """What is evaluated before, and the loops; the innermost sets the targets."""
        body: list[ast.stmt] = [ast.Assign([self.node.target], each), *self.node.body]
        for counter, over in reversed(loops):
            body = [ast.For(ast.Name(counter, ast.Store()), over, body, [])]
        made = [*self.before, *body]
        for s in made:
            ast.fix_missing_locations(ast.copy_location(s, self.node))
        return made

    def range_of(self, node: ast.expr) -> ast.Call | None:
        """range(...) of what is evaluated before the loops."""
        found = self.type_of(node)
        if not (isinstance(found, Sequence_) and found.kind == "range" and isinstance(node, ast.Call)):
            return None
        return ast.Call(_load("range"), [self.kept(a) for a in node.args], [])

    def type_of(self, node: ast.expr) -> Value:
        """What an expression gives; nothing is emitted."""
        lo = self.lo
        at, env = len(lo.b.block), dict(lo.env or {})
        try:
            return values.value(lo, node)
        finally:
            del lo.b.block[at:]
            lo.env = env
            lo.b.kept, lo.b.steadily = {}, {}


def _load(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def _tuple(items: Any) -> ast.expr:
    return ast.Tuple(list(items), ast.Load())


def _left(body: list[ast.stmt]) -> bool:
    """Whether a loop of this body is left by break."""
    for s in body:
        if isinstance(s, ast.Break):
            return True
        inner = [getattr(s, n) for n in ("body", "orelse") if isinstance(s, ast.If)]
        if isinstance(s, ast.For | ast.While):
            inner = [s.orelse]
        if any(map(_left, inner)):
            return True
    return False
