"""Functions that call themselves or each other. In: a call's tree and values. Out: a call of a program's function.

Other functions are lowered at the place of each call; one that is met inside of itself cannot be. Then lowering begins
anew (`Recursive`), and every call of it becomes an `Invoke` of a function that is lowered once for each types of its
arguments. The types of its results, and whether it writes arrays of its callers, are found by a fixed point: at first
it returns and writes nothing, which is what the calls inside of it see.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tilewise.kernel.program import ir
from tilewise.kernel.program.ir import INT, RERUN, Expr, Fail, Var
from tilewise.kernel.program.walk import statements
from tilewise.python.build import Array, Builder, Choice, Dict, Lazy, List, Scalar, Static, Tuple, Value
from tilewise.python.functions.nodes import walk
from tilewise.python.refuse import Refused
from tilewise.python.scope import Dead, Scope
from tilewise.python.types import PY_BOOL, PY_INT, Arr, Mixed, Num

if TYPE_CHECKING:
    from tilewise.python.statements import Statements
from tilewise.python import order, values
from tilewise.python.containers import pools
from tilewise.python.finish import finished
from tilewise.python.functions import calls

MOST_LOOKS = 12  # at a function, before its results count as unstable
MOST_FUNCTIONS = 64


class Recursive(Exception):
    """A function is called inside of itself: it must become a function of the program."""

    def __init__(self, tree: ast.AST) -> None:
        super().__init__()
        self.tree = tree


@dataclass
class Function:
    """A function of the program, for some types."""

    index: int
    program: ir.Program | None = None
    results: list[Any] = field(default_factory=list)  # structures
    writes: bool = False  # arrays that are not its own, as far as is known
    open: bool = True  # it is being lowered


@dataclass
class Functions:
    """What all parts of a program share."""

    recursive: set[ast.AST] = field(default_factory=set)
    inside: list[ast.AST] = field(default_factory=list)  # functions that are being lowered, the outermost first
    known: dict[Any, Function] = field(default_factory=dict)
    written: dict[Any, ast.AST] = field(default_factory=dict)  # functions of the library that are called
    places: dict[Any, dict[Any, int]] = field(default_factory=dict)  # of their calls, numbered as they were met
    pools: pools.Shared = field(default_factory=lambda: pools.Shared())  # lists that are known by number
    mixed: dict[str, Mixed] = field(default_factory=dict)  # lists of several types, by the places where they are made

    @property
    def programs(self) -> list[ir.Program]:
        found = sorted(self.known.values(), key=lambda f: f.index)
        assert all(f.program is not None for f in found)
        return [f.program for f in found if f.program is not None]


def invoked(
    lo: Statements, tree: Any, f: Any, parent: Scope | None, name: str, given: dict[str, Value], node: Any, local: Any
) -> Value:
    """A call of a function of the program."""
    line = node.lineno
    given = dict(given)
    if parent is not None:
        given |= _free(lo, tree, parent, local, name, line)
    leaves: list[Expr | str] = []
    shapes = {k: _shape(lo, v, leaves, line) for k, v in given.items()}
    # A closure is its tree: it may be made again at each look at a loop.
    key = (tree, tuple(shapes.items()))
    known = lo.functions.known.get(key)
    if known is None:
        if len(lo.functions.known) >= MOST_FUNCTIONS:
            raise Refused(f"{name}, which calls itself with ever other types", line)
        known = lo.functions.known[key] = Function(len(lo.functions.known))
        _lower(lo, known, tree, f, parent, name, shapes, local, line)
    b = lo.b
    roots = frozenset([f"{lo.scope.prefix}{line}"]).union(*(b.roots[v] for v in leaves if isinstance(v, str)))
    which = b.fresh("r")
    b.names[which] = INT
    found: list[Value] = []
    names: list[tuple[str, ...]] = []
    for structure in known.results:
        some: list[str] = []
        found.append(_result(b, structure, some, roots, line))
        names.append(tuple(some))
    b.dense |= _dense(known.program, names)
    deep = b.fault("RecursionError", "maximum recursion depth exceeded", line)
    stack = b.fault(RERUN, "a recursion deeper than compiled code has room for", line)
    b.emit(ir.Invoke(known.index, tuple(leaves), which, tuple(names), deep, stack))
    if not found:  # it does not return, as far as is known
        b.emit(Fail(deep))
        lo.env = None
        raise Dead
    if len(found) == 1:
        return found[0]
    return one_of(lo, Choice(tuple(found), which), f"a call of {name}, which gives", node)


def _dense(p: ir.Program | None, names: list[tuple[str, ...]]) -> set[str]:
    """Which arrays of the results of a function are in C order, whichever way it returns."""
    if p is None:  # it is being lowered
        return set()
    strided = {
        n for s in statements(p.body) if isinstance(s, ir.Return)
        for n, v in zip(names[s.which], s.values, strict=True) if isinstance(v, str) and not p.arrays[v].dense
    }  # fmt: skip
    return {n for some in names for n in some} - strided


def one_of(lo: Statements, found: Choice, what: str, node: Any, start: int | None = None) -> Value:
    """One of several values, where an expression stands: the statement must be emitted for each of their types.

    start: where in the block that begins which the expression does.
    """
    full = f"{calls.prefix_of(lo, node)}{getattr(node, 'end_col_offset', '')}.return"
    lo.choose(full, found, node.lineno)
    assert lo.env is not None
    alts = lo.env[full]
    if len(alts) > 1:
        made = lo.b.block[start:] if start is not None else ()
        raise calls.Several(node, f"{what} {' or '.join(map(str, alts))}", node.lineno, full, made)
    return lo.fetch(full, alts[0])


def _free(lo: Statements, tree: Any, parent: Scope, local: frozenset[str], name: str, line: int) -> dict[str, Value]:
    """The variables of enclosing functions that a function reads, as more arguments of it."""
    found: dict[str, Value] = {}
    for n in walk(tree):
        if not isinstance(n, ast.Name) or n.id in local or n.id in found:
            continue
        scope: Scope | None = parent
        while scope is not None and n.id not in scope.locals:
            scope = scope.parent
        if scope is None:
            continue
        assert lo.env is not None
        alts = lo.env.get(scope.prefix + n.id, ())
        if len(alts) != 1:
            raise Refused(f"{n.id}, which a function that calls itself reads", line, "Give it as an argument")
        found[n.id] = lo.fetch(scope.prefix + n.id, alts[0])
    return found


def _shape(lo: Statements, v: Value, leaves: list[Expr | str], line: int) -> Any:
    """The type of an argument; its numbers and arrays are appended to leaves."""
    if isinstance(v, Lazy):
        v = lo.settled(v, line)
    if isinstance(v, Scalar):
        leaves.append(lo.b.keep(v.e))
        return ("py" if v.t.py else "np", v.t.dtype)
    if isinstance(v, Array):
        leaves.append(v.name)
        return ("array", v.t.kind, v.t.dtype, v.t.rank)
    if isinstance(v, Tuple) and not v.listed:
        return ("tuple", *(_shape(lo, item, leaves, line) for item in v.items))
    if isinstance(v, Static):
        if isinstance(v.value, values.Closure):
            known = ((d, _Same(k.value) if isinstance(k, Static) else k) for d, k in v.value.known.items())
            return ("closure", v.value.node, v.value.name, tuple(known))
        return ("object", _Same(v.value))
    if isinstance(v, List | Dict) or (isinstance(v, Tuple) and v.listed):
        kind = "dict or set" if isinstance(v, Dict) else "list"
        cure = "Give it an array, or write a loop with a list of what is to be done"
        raise Refused(f"a {kind} as an argument of a function that calls itself", line, cure)
    raise Refused("an argument of a function that calls itself", line)


@dataclass(frozen=True, eq=False)
class _Same:
    """An object, equal to itself alone."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def _number(shape: Any) -> Num:
    py, dtype = shape[0] == "py", shape[1]
    return PY_INT if py and dtype == INT else PY_BOOL if py and dtype == "bool" else Num(py, dtype)


def _result(b: Builder, shape: Any, names: list[str], roots: frozenset[str], line: int) -> Value:
    """A value that a function gives, in new variables."""
    kind = shape[0]
    if kind == "tuple":
        return Tuple(tuple(_result(b, s, names, roots, line) for s in shape[1:]))
    if kind == "object":
        return Static(shape[1].value)
    if kind == "array":
        name = f"$a{line}.{b.fresh('')[1:]}"
        b.arrays[name] = shape[2:4]
        b.root(name, roots)
        names.append(name)
        return Array(Arr(shape[2], shape[3], shape[1]), name)
    t = _number(shape)
    name = b.fresh("r")
    b.names[name] = t.dtype
    names.append(name)
    return Scalar(t, Var(name, t.dtype))


def _lower(
    lo: Statements, known: Function, tree: Any, f: Any, parent: Scope | None, name: str, shapes: dict[str, Any],
    local: frozenset[str], line: int,
) -> None:  # fmt: skip
    """The program of a function, which is looked at until its results, and whether it writes arrays, stay the same."""
    place = lo.scope if parent is None else parent
    while f is None and place is not None:
        f, place = place.function, place.parent  # type: ignore[assignment]
    for _ in range(MOST_LOOKS):
        for k in [k for k, other in lo.functions.known.items() if other.index > known.index]:
            del lo.functions.known[k]
        b = Builder(faults=lo.b.faults, host=lo.b.host, objects=lo.b.objects, generators=lo.b.generators)
        b.rare, b.sure = lo.b.rare, lo.b.sure
        inner = type(lo)(b, lo.watch, lo.functions)
        inner.inner = True
        inner.scope = Scope(f, "", local | set(shapes), name=name)
        b.place = inner.scope.place
        params: list[ir.Param] = []
        lo.functions.inside.append(tree)
        try:
            for k, shape in shapes.items():
                inner.bind(k, _param(inner, shape, params, tree, name), line)
            body(inner, tree, line)
        except Refused as error:
            error.file = error.file or inner.scope.place[0]
            raise
        finally:
            lo.functions.inside.pop()
        writes = known.writes or bool(order.written(inner, b.block))
        if (inner.results, writes) == (known.results, known.writes):
            known.program = finished(name, b, tuple(b.block), params, inner.result_dtypes, False, main=False)
            known.open = False
            return
        known.results, known.writes = list(inner.results), writes
    raise Refused(f"{name}, whose results have ever other types", line)


def body(inner: Statements, tree: Any, line: int) -> None:
    """All of a function."""
    try:
        if isinstance(tree, ast.Lambda):
            inner.block([ast.copy_location(ast.Return(tree.body), tree.body)])
            return
        inner.block(tree.body)
        if inner.env is not None:
            inner.return_value(Static(None), line)
    except Dead:
        pass


def _param(inner: Statements, shape: Any, params: list[ir.Param], tree: Any, name: str) -> Value:
    """An argument of the function, as a variable of its program."""
    b, kind = inner.b, shape[0]
    if kind == "tuple":
        return Tuple(tuple(_param(inner, s, params, tree, name) for s in shape[1:]))
    if kind == "closure":
        defaults = {d: Static(k.value) if isinstance(k, _Same) else k for d, k in shape[3]}
        return Static(values.Closure(shape[1], inner.scope, shape[2], defaults))
    if kind == "object":
        return Static(shape[1].value)
    slot = f"argument{len(params)}"
    if kind == "array":
        b.arrays[slot] = shape[2:4]
        roots = frozenset([slot, "arguments"])
        b.root(slot, roots)
        params.append(ir.Param(slot, shape[2], ir.Array(shape[2], shape[3], False, False, roots)))
        return Array(Arr(shape[2], shape[3], shape[1]), slot)
    t = _number(shape)
    b.names[slot] = t.dtype
    params.append(ir.Param(slot, t.dtype))
    return Scalar(t, Var(slot, t.dtype))
