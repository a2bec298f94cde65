"""tw.parfor.analyse: whether loops may run in parallel, without running them. In: source and values. Out: verdicts.

The values before the loop are used: sizes, strides, tables of indices, views that share memory. If a loop writes to
something whose values were used, it is walked again without them.
"""

from __future__ import annotations

import ast
import dis
import inspect
import itertools
import linecache
import textwrap
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tilewise.errors import ParforError, message
from tilewise.parfor.liveness import live_after
from tilewise.parfor.verdict import Judge, Verdict
from tilewise.parfor.walk.loops import ParLoop, Statements
from tilewise.parfor.walk.names import is_parfor
from tilewise.parfor.walk.places.memory import Memory

_numbers = itertools.count(1)
# What the walk of a body that is not understood may raise: such a loop is taken to be dependent.
FAILURES = (RecursionError, AttributeError, TypeError, ValueError, LookupError, ArithmeticError, AssertionError)


def named(text: str, what: str) -> str:
    """A file name under which Python finds the source of what is executed."""
    name = f"<{what} {next(_numbers)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    return name


def analyse(source: str | Callable[..., Any], setup: str | Mapping[str, Any] | None = None) -> list[Verdict]:
    """Whether each parfor of a program may run in parallel: one verdict per loop, outermost first, in order.

    `source` has the loop, written `for i in parfor(...)`; names that are used after it are live. `setup` runs before,
    so that its values are known; statements of `source` before the first loop run as well, the loops do not. Instead
    of texts, a function and the values of its names may be given.

    >>> import tilewise as tw
    >>> loop = '''
    ... for i in parfor(100):
    ...     A[2 * i] = A[2 * i + 1]
    ... '''
    >>> tw.parfor.analyse(loop, "import numpy as np; A = np.zeros(200)")[0].test
    'GCD'
    >>> found = tw.parfor.analyse(loop.replace("2 * i + 1", "i"), "import numpy as np; A = np.zeros(200)")[0]
    >>> found.independent, found.variable, found.pair
    (False, 'A', (1, 2))
    """
    if not isinstance(source, str):
        return analyse_function(source, setup if isinstance(setup, Mapping) else {})
    source = textwrap.dedent(source)
    names: dict[str, Any] = {"__name__": "__main__", "parfor": range}
    if isinstance(setup, Mapping):
        names |= setup
    elif setup is not None:
        setup = textwrap.dedent(setup)
        exec(compile(setup, named(setup, "setup"), "exec"), names)
    tree = ast.parse(source)
    ahead = list(itertools.takewhile(lambda node: not has_parfor(node), tree.body))
    if len(ahead) == len(tree.body):
        raise ParforError(
            message("analyse looks at loops over parfor(...)", got="none", cure="Write for i in parfor(range(n))")
        )
    exec(compile(ast.Module(ahead, []), named(source, "source"), "exec"), names)
    own = [v for v in names.values() if isinstance(v, types.FunctionType) and v.__globals__ is names]
    called = {name for value in own for name in _globals_read(value.__code__)}
    return judge(tree.body[len(ahead) :], names, names, called)


def _globals_read(code: types.CodeType) -> Iterator[str]:
    """Names from outside that a function reads, functions inside of it included."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield instruction.argval
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _globals_read(inner)


def analyse_function(function: Callable[..., Any], names: Mapping[str, Any]) -> list[Verdict]:
    """The same for a function: `names` are the values of its arguments and local names before the loop."""
    function = inspect.unwrap(function)
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    node = tree.body[0]
    assert isinstance(node, ast.FunctionDef)
    known = {**function.__globals__, **inspect.getclosurevars(function).nonlocals, **names}
    body = [n for n in node.body if has_parfor(n) or not _only_known(n, names)]
    return judge(body, known, None, set())


def _only_known(node: ast.stmt, names: Mapping[str, Any]) -> bool:
    """Whether a statement only gives values to names that are given."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True
    if isinstance(node, ast.Assign):
        targets = {n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)}
        return all(isinstance(t, ast.Name | ast.Tuple) for t in node.targets) and targets <= names.keys()
    return False


def has_parfor(node: ast.AST) -> bool:
    """Whether a loop over parfor is in it."""
    return any(isinstance(n, ast.For) and is_parfor(n.iter) for n in ast.walk(node))


def walked(body: Sequence[ast.stmt], names: dict[str, Any], functions: Any) -> Statements:
    """Walk statements, again where something that was taken for a constant is written."""
    changing: frozenset[Any] = frozenset()
    while True:
        memory = Memory(changing)
        walk = Statements(memory, "source", names, functions)
        walk.block(body)
        again: set[Any] = {o.key for o in memory.known.values() if o.read_as_data and (o.written or o.maybe_written)}
        for o in memory.known.values():
            whole = o.written_elsewhere or o.maybe_written
            again |= {(o.key, at) for at in (o.read_at if whole else o.read_at & o.written_at)} - changing
        grown = (o.key for o in memory.known.values() if o.length_used and (o.resized or o.maybe_written))
        again |= {("length", key) for key in grown} - changing
        if not again:
            return walk
        changing |= again


def judge(body: Sequence[ast.stmt], names: dict[str, Any], functions: Any, at_end: set[str]) -> list[Verdict]:
    """Verdicts for all loops in statements, whose names have values."""
    calls = any(isinstance(n, ast.Call) for statement in body for n in ast.walk(statement))
    try:
        walk = walked(body, names, functions)
        found: dict[ast.For, Verdict] = {}
        for loop in walk.found:  # once for each call of the function that it is in
            if loop.node not in found or found[loop.node].independent:
                found[loop.node] = verdict_of(walk, loop, body, at_end if calls else set())
        why = ""
    except FAILURES as error:
        found = {}
        why = f"the walk failed: {type(error).__name__}: {error}"
    loops = [n for s in body for n in _in_order(s) if isinstance(n, ast.For) and is_parfor(n.iter)]
    hidden = {n for s in body for n in _not_followed(s)}
    calls_missing = "it is in a function or statement that is not followed"
    return [found.get(n) or _not_walked(n, why or (calls_missing if n in hidden else "")) for n in loops]


def _not_followed(node: ast.AST) -> Iterator[ast.AST]:
    """What is in statements that the walk may pass by without an account of what they do."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.TryStar | ast.AsyncWith):
        yield from ast.walk(node)
    else:
        for child in ast.iter_child_nodes(node):
            yield from _not_followed(child)


def _in_order(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes, those of a loop before those inside of it."""
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _in_order(child)


def _not_walked(node: ast.For, why: str) -> Verdict:
    """The verdict for a loop that was not met: it is not reached, or `why` says why that is not sure."""
    if why:
        return Verdict(False, "?", (0, 1), "not followed", node.lineno, ((node.lineno, ast.unparse(node.iter)),), why)
    return Verdict(True, None, None, "trip count", node.lineno)


def verdict_of(walk: Statements, loop: ParLoop, body: Sequence[ast.stmt], at_end: set[str]) -> Verdict:
    """The verdict for one loop of a walk."""
    return Judge(walk, loop, live_after(body, loop.node) | at_end).verdict()
