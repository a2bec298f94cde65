"""Python's sum, min, max, any, all of arrays and generators. In: values, trees. Out: values, by loops."""

from __future__ import annotations

import ast
import copy
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tilewise.kernel.program.ir import Const, Var
from tilewise.python.build import ONE, ZERO, Array, Choice, Lazy, Scalar, Value, compare, pick
from tilewise.python.refuse import Refused
from tilewise.python.scope import Dead
from tilewise.python.types import UNBOUND, Num

if TYPE_CHECKING:
    from tilewise.python.statements import Statements
from tilewise.python import values
from tilewise.python.arrays import elementwise
from tilewise.python.functions import calls, recursion
from tilewise.python.scalars import arithmetic


def added_up(lo: Statements, found: Value, start: Value, node: ast.Call) -> Value:
    """sum(array): Python's, element by element; of none, the start, whose type may be another."""
    line = node.lineno
    if not isinstance(found, Array | Lazy) or found.t.rank != 1 or not isinstance(start, Scalar):
        raise Refused("sum of this", line, "Use np.sum")
    v = elementwise.lazy(found)
    first = values.scalar(lo, start, line)
    t = arithmetic.binary(lo.b, "+", first, Scalar(Num(False, v.t.dtype), Var("$probe", v.t.dtype)), line).t
    acc = elementwise.accumulated(
        lo, t.dtype, arithmetic.weak(lo.b, first, t.dtype, line), v.shape,
        lambda acc, at: arithmetic.binary(lo.b, "+", Scalar(t, acc), v.element(at, False), line).e, line,
    )  # fmt: skip
    if isinstance(v.shape[0], Const) and v.shape[0].value > 0:
        return Scalar(t, acc)
    some = lo.b.keep(pick(compare("equal", v.shape[0], ZERO), ZERO, ONE))
    if isinstance(some, Const):
        return first
    return recursion.one_of(lo, Choice((first, Scalar(t, acc)), some.name), "sum of an array, which gives", node)


def comprehended(lo: Statements, name: str, node: ast.GeneratorExp | ast.ListComp, call: ast.Call) -> Value | None:
    """sum, any, all of a generator: a loop; None: of others, a list must be made."""
    line = call.lineno
    if len(node.generators) != 1 or name in ("min", "max"):
        return None
    gen = node.generators[0]
    target = f"{name}@{line}.{node.col_offset}"
    body: list[ast.stmt]
    at: Any = lambda n: ast.copy_location(n, node)  # noqa: E731
    result = ast.Name(target, ast.Load())
    store = ast.Name(target, ast.Store())
    if name == "sum":
        first: Any = 0
        body = [ast.AugAssign(store, ast.Add(), node.elt)]
    else:
        first = name == "all"
        test = ast.UnaryOp(ast.Not(), node.elt) if first else node.elt
        body = [ast.If(test, [ast.Assign([store], ast.Constant(not first)), ast.Break()], [])]
    for test in reversed(gen.ifs):
        body = [ast.If(test, body, [])]
    tree = [ast.Assign([store], ast.Constant(first)), ast.For(gen.target, gen.iter, body, [])]
    with written_out(lo, tree, [gen], target, call, f"{name}, which gives"):
        return values.value(lo, at(result))


def as_list(node: ast.expr) -> ast.ListComp:
    """The list of what a generator gives, or anything else that a loop can go over."""
    if isinstance(node, ast.GeneratorExp | ast.ListComp):
        return ast.copy_location(ast.ListComp(node.elt, node.generators), node)
    name = f"item@{node.lineno}.{node.col_offset}"
    over = ast.comprehension(ast.Name(name, ast.Store()), node, [], 0)
    return ast.copy_location(ast.ListComp(ast.Name(name, ast.Load()), [over]), node)


def as_set(node: ast.expr) -> ast.SetComp:
    """set(...)"""
    made = as_list(node)
    return ast.copy_location(ast.SetComp(made.elt, made.generators), node)


def as_dict(node: ast.expr) -> ast.DictComp:
    """A copy of a dict."""
    key, item = (f"{part}@{node.lineno}.{node.col_offset}" for part in ("key", "item"))
    both = ast.Tuple([ast.Name(key, ast.Store()), ast.Name(item, ast.Store())], ast.Store())
    entries = ast.Call(ast.Attribute(node, "items", ast.Load()), [], [])
    over = ast.comprehension(both, entries, [], 0)
    return ast.copy_location(ast.DictComp(ast.Name(key, ast.Load()), ast.Name(item, ast.Load()), [over]), node)


@contextmanager
def written_out(
    lo: Statements, tree: Sequence[Any], generators: Sequence[ast.comprehension], target: str, node: Any, what: str
) -> Iterator[str]:
    """Lower statements in the place of an expression, whose generators have names of their own; where `target` is."""
    names = {n.id for gen in generators for n in ast.walk(gen.target) if isinstance(n, ast.Name)}
    if taken := {n for n in names if lo.is_local(n)}:
        own = {n: f"{n}@{node.lineno}.{node.col_offset}" for n in taken}
        tree, names = _with_names(tree, generators[0].iter, own, node), names - taken | set(own.values())
    for t in tree:
        ast.fix_missing_locations(ast.copy_location(t, node))
    kept, free = lo.scope.locals, lo.scope.free
    lo.scope.locals, lo.scope.free = kept | names | {target}, free | _free(lo, tree, generators)
    try:
        lo.block(list(tree))
        if lo.env is None:
            raise Dead
        full = lo.scope.prefix + target
        alts = lo.env[full]
        if len(alts) > 1:
            raise calls.Several(node, f"{what} {' or '.join(map(str, alts))}", node.lineno, full)
        yield full
    finally:
        lo.scope.locals, lo.scope.free = kept, free


def _with_names(tree: Sequence[Any], first: ast.expr, own: dict[str, str], node: Any) -> list[Any]:
    """Statements in which the names of generators are others than the function's: all but what is gone over first."""
    made = copy.deepcopy(list(tree), {id(first): first})
    outside = {id(n) for n in ast.walk(first)}
    for n in (n for t in made for n in ast.walk(t)):
        if isinstance(n, ast.arg) and n.arg in own:
            raise Refused("a generator whose name is one of the function's", node.lineno, "Give it a name of its own")
        if isinstance(n, ast.Name) and id(n) not in outside:
            n.id = own.get(n.id, n.id)
    return made


def _free(lo: Statements, tree: Sequence[Any], generators: Sequence[ast.comprehension]) -> frozenset[str]:
    """Names without a value that are read where Python before 3.12 has a function: all but what is gone over first."""
    if sys.version_info >= (3, 12) or lo.env is None:
        return frozenset()
    first = {id(n) for n in ast.walk(generators[0].iter)}
    read = {n.id for t in tree for n in ast.walk(t) if isinstance(n, ast.Name) and id(n) not in first}
    return frozenset(
        n for n in read if n in lo.scope.locals and lo.env.get(lo.scope.prefix + n, (UNBOUND,)) == (UNBOUND,)
    )
