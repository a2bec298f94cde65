"""Calls. In: a call's tree. Out: the value: of a builtin, of NumPy's and ours, of math, of the user's own function.

Functions of the user are lowered at the place of the call, for the types that they are given there.
"""

from __future__ import annotations

import ast
import builtins
import cmath
import copy
import functools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise.kernel.program.ir import BOOL, INT, Const, Leave, Named, Op, Set, Stmt
from tilewise.python.build import (
    ZERO,
    Array,
    Dict,
    Lazy,
    List,
    Opaque,
    Scalar,
    Sequence_,
    Static,
    Tuple,
    Value,
)
from tilewise.python.functions.source import tree_of
from tilewise.python.refuse import Refused
from tilewise.python.scope import Dead, Scope
from tilewise.python.types import MOST, Num, Obj, Tup, Type, ints, join

if TYPE_CHECKING:
    from tilewise.python.statements import Statements
from tilewise.python import raising, splitting, values
from tilewise.python.arrays import functions
from tilewise.python.containers import dicts, lists
from tilewise.python.functions import recursion, signatures
from tilewise.python.host import calling, python_random, state
from tilewise.python.host import library as host_library
from tilewise.python.scalars import arithmetic
from tilewise.python.standard import (
    builtin_functions,
    math_functions,
    numpy_functions,
    sequences,
    written,
    written_dicts,
    written_lists,
)

DEEPEST = 12  # calls inside of each other
NAMESPACES = {"numpy": "numpy", "tilewise": "tilewise"}


@dataclass(frozen=True)
class Library:
    """A function of NumPy ("numpy"), of ours ("tilewise"), of "math" or of "builtins"."""

    kind: str
    name: str

    @property
    def python(self) -> Any:
        """What it is in Python; ours have NumPy's meaning."""
        if self.kind in ("builtins", "math"):
            return getattr(builtins if self.kind == "builtins" else math, self.name)
        return functools.reduce(getattr, self.name.split("."), np)


class Gone:
    """A function whose names have other values by now: the call that made it was made again."""

    def __init__(self, name: str) -> None:
        self.__name__ = f"{name}, which was made by a call that was made again"


class Several(Refused):
    """A call that gives one of several types: the statement must be emitted for each."""

    def __init__(self, node: ast.expr, construct: str, line: int, source: str = "", made: Sequence[Stmt] = ()) -> None:
        super().__init__(construct, line, "Give it one type")
        self.node: Any = node
        self.source = source  # the name that has the value
        self.made = made  # what it does itself, if that was emitted

    def others(self, block: list[Stmt]) -> list[Stmt]:
        """What other parts of a statement do."""
        own = set(map(id, self.made))
        return [s for s in block if id(s) not in own]


def member(lo: Statements, module: ModuleType, name: str, found: Any, line: int) -> Value:
    """An attribute of a module."""
    root = module.__name__.split(".")[0]
    if (
        root in ("numpy", "tilewise", "math", "cmath")
        and (callable(found) or isinstance(found, np.dtype))
        and not isinstance(found, ModuleType)
        and library(found) is not None  # else a program has put a function of its own there
    ):
        space = module.__name__.rpartition(".")[2]
        prefix = f"{space}." if space in ("linalg", "fft", "random") else ""
        return Static(Library(root, prefix + name))
    return values.given(lo, found, name, line)


def library(found: Any) -> Library | None:
    """What a function that came without its module is."""
    if isinstance(found, Library):
        return found
    name = getattr(found, "__name__", "")
    if isinstance(found, np.ufunc):
        return Library("numpy", name)
    if found is builtins.print:  # which others replace, as Ray does in its drivers
        return Library("builtins", "print")
    module = (getattr(found, "__module__", None) or type(found).__module__ or "").split(".")[0]
    if isinstance(found, FunctionType) and found.__code__.co_filename.startswith("<"):  # in a doctest of ours
        return None
    if isinstance(found, type) and issubclass(found, np.generic):
        return Library("numpy", name)
    if module == "builtins" or found in (len, abs, min, max, range, sum, float, int, bool, complex):
        return Library("builtins", name)
    return Library(module, name) if module in ("numpy", "tilewise", "math", "cmath") else None


def call(lo: Statements, node: ast.Call) -> Value:
    """f(...)"""
    line = node.lineno
    if isinstance(node.func, ast.Attribute):
        base = values.value(lo, node.func.value)
        if isinstance(base, Array | Lazy | Scalar):
            block, at = lo.b.block, len(lo.b.block)
            args, options = arguments(lo, node)
            base = values.spilled(lo, base, block, at, line)
            return functions.method(lo, base, node.func.attr, args, options, line)
        if isinstance(base, Static) and isinstance(base.value, (Opaque, *state.GENERATORS)):
            made = of_generator(lo, base, node.func.attr, node)
            if made is not None:
                return made
        if isinstance(base, List):
            return of_list(lo, base, node, node.func)
        if isinstance(base, Dict):
            if node.func.attr == "copy" and not node.args and not node.keywords and not base.t.members:
                return dicts.comprehended(lo, sequences.as_dict(node.func.value))
            args, options = arguments(lo, node)
            if node.func.attr in ("keys", "values", "items") and not args and not base.t.members:
                return Sequence_(node.func.attr, (base,))
            if not options:
                return dicts.method(lo, base, node.func.attr, args, node)
        if isinstance(base, Static) and base.value is None:
            lo.fail("AttributeError", f"'NoneType' object has no attribute '{node.func.attr}'", line)
        if isinstance(base, Tuple):
            raise Refused(f"the method {node.func.attr} of a list or tuple", line, "Use an array")
    found = values.value(lo, node.func)
    if not isinstance(found, Static):
        raise Refused("a call of something that is no function", line)
    f = found.value
    if isinstance(f, values.Closure):
        args, options = arguments(lo, node)
        a = f.node.args
        defaults = tuple(values.default(lo, f, d) for d in a.defaults)
        pairs = zip(a.kwonlyargs, a.kw_defaults, strict=True)
        named = {k.arg: values.default(lo, f, d) for k, d in pairs if d is not None}
        return inlined(lo, f.node, None, f.scope, f.name, args, options, node, defaults, named)
    if isinstance(f, FunctionType) and f.__module__ == written_lists.__name__:  # one that calls another
        return of_written(lo, f, *arguments(lo, node), node)
    if id(f) in written_lists.LIBRARY:
        return of_written(lo, written_lists.LIBRARY[id(f)], *arguments(lo, node), node)
    if f is random.Random:
        return host_library.generator(lo, f, *arguments(lo, node), line)
    if isinstance(owner := getattr(f, "__self__", None), random.Random):  # random.random, and its like
        made = of_generator(lo, Static(owner), f.__name__, node)
        if made is not None:
            return made
    known = library(f)
    if known is None:
        f = plain(f)
        if f is None:
            raise Refused(f"a call of {getattr(found.value, '__name__', type(found.value).__name__)}", line)
        lo.watch.function(f)
        args, options = arguments(lo, node)
        return of_function(lo, f, args, options, node)
    if (
        known.kind == "builtins"
        and known.name in ("sum", "min", "max", "any", "all")
        and len(node.args) == 1
        and isinstance(node.args[0], ast.GeneratorExp | ast.ListComp)
    ):
        made = sequences.comprehended(lo, known.name, node.args[0], node)
        return (
            made
            if made is not None
            else of_written(
                lo, written.BUILTINS[known.name], [lists.comprehended(lo, sequences.as_list(node.args[0]))], {}, node
            )
        )
    if known.kind == "builtins" and known.name == "list" and len(node.args) == 1 and not node.keywords:
        return lists.comprehended(lo, sequences.as_list(node.args[0]))
    if known.kind == "builtins" and known.name == "sorted" and len(node.args) == 1:
        copied = lists.comprehended(lo, sequences.as_list(node.args[0]))
        named = {k.arg or "": values.value(lo, k.value) for k in node.keywords}
        if not isinstance(copied, List) or named.keys() - {"reverse"}:
            raise Refused("sorted with a key", line)
        lists.sort(lo, copied, named.get("reverse"), line)
        return copied
    if known.kind == "builtins" and known.name in ("dict", "set") and not node.args and not node.keywords:
        name = f"{lo.scope.prefix}dict{node.col_offset}"
        return dicts.made(lo, [], name, line, members=known.name == "set")
    if known.kind == "builtins" and known.name == "set" and len(node.args) == 1 and not node.keywords:
        return dicts.comprehended(lo, sequences.as_set(node.args[0]))
    if known.kind == "builtins" and known.name in ("min", "max") and (of := _by_value(node)) is not None:
        base = values.value(lo, of)
        if isinstance(base, Dict) and not base.t.members:
            return of_written(lo, written_dicts.BY_VALUE[known.name], [base], {}, node)
    if known.kind == "builtins" and known.name == "print" and (said := raising.printed(lo, node)) is not None:
        return said
    at, env = len(lo.b.block), dict(lo.env or {})
    args, options = arguments(lo, node)
    folds = known.kind == "builtins" and known.name in written.BUILTINS and not options
    if folds and len(args) == 1 and isinstance(args[0], Sequence_):  # of what a loop goes over: a list is made first
        del lo.b.block[at:]
        lo.b.kept, lo.b.steadily, lo.env = {}, {}, env
        items = lists.comprehended(lo, sequences.as_list(node.args[0]))
        return of_written(lo, written.BUILTINS[known.name], [items], {}, node)
    if known.kind == "builtins":
        return builtin_functions.call(lo, known.name, args, options, node)
    if known.kind == "math":
        return math_functions.call(lo, known.name, args, options, node)
    if known.kind == "cmath":
        return calling.called(lo, getattr(cmath, known.name), args, options, line, name=f"cmath.{known.name}")
    if known.kind in ("numpy", "tilewise"):
        if known.name == "bincount" and (given := numpy_functions.bincount_of(args, options)) is not None:
            return of_written(lo, *given, {}, node)
        return functions.of_numpy(lo, known.name, known.kind, args, options, line)
    raise Refused(f"a call of {known.name}", line)


def _by_value(node: ast.Call) -> ast.Name | None:
    """The d of max(d, key=d.get)."""
    key = node.keywords[0] if len(node.keywords) == len(node.args) == 1 else None
    d = node.args[0] if node.args else None
    if key is None or key.arg != "key" or not isinstance(d, ast.Name) or not isinstance(key.value, ast.Attribute):
        return None
    of = key.value.value
    return d if key.value.attr == "get" and isinstance(of, ast.Name) and of.id == d.id else None


def of_list(lo: Statements, found: List, node: ast.Call, func: ast.Attribute) -> Value:
    """A method of a list."""
    if func.attr == "copy" and not node.args and not node.keywords:
        return lists.comprehended(lo, sequences.as_list(func.value))
    args, options = arguments(lo, node)
    if func.attr == "sort" and not args and not options.keys() - {"reverse"}:
        return lists.sort(lo, found, options.get("reverse"), node.lineno)
    if options:
        raise Refused(f"the method {func.attr} of a list with options", node.lineno)
    if func.attr == "extend" and len(args) == 1 and isinstance(args[0], Tuple):
        for v in args[0].items:
            found = lists.now(lo, found)
            lists.method(lo, found, "append", [v], node.lineno)
        return Static(None)
    if func.attr in written_lists.METHODS and args:
        return of_written(lo, written_lists.METHODS[func.attr], [found, *args], options, node)
    if func.attr == "reverse" and not args:
        return of_written(lo, written_lists.reverse, [found], options, node)
    return lists.method(lo, found, func.attr, args, node.lineno)


def of_generator(lo: Statements, generator: Static, name: str, node: ast.Call) -> Value | None:
    """A method of a generator of random numbers."""
    args, options = arguments(lo, node)
    found = generator.value.sample if isinstance(generator.value, Opaque) else generator.value
    if type(found) is random.Random and name in python_random.WRITTEN:
        return of_written(lo, python_random.WRITTEN[name], [generator, *args], options, node)
    return host_library.of_object(lo, generator.value, name, args, options, node.lineno)


def extreme_before(lo: Statements, node: ast.Call, full: str) -> None:
    """min or max of numbers of several types: a name gets the one that it is."""
    f = values.value(lo, node.func)
    known = library(f.value) if isinstance(f, Static) else None
    assert known is not None and known.name in ("min", "max")
    less = known.name == "min"
    found = arguments(lo, node)[0]
    if len(found) == 1 and isinstance(found[0], Tuple):
        found = list(found[0].items)
    args = [values.scalar(lo, a, node.lineno) for a in found]
    args = [Scalar(a.t, lo.b.keep(a.e)) for a in args]
    lo.bind(full, args[0], node.lineno, full=True)
    for a in args[1:]:
        lo.better(full, a, less, node.lineno)


def plain(f: Any) -> FunctionType | None:
    """The Python function that something is, or that a `tw.jit` is made of."""
    if type(f).__name__ == "jit" and type(f).__module__.startswith("tilewise."):
        f = f.__wrapped__
    return f if isinstance(f, FunctionType) else None


def arguments(lo: Statements, node: ast.Call) -> tuple[list[Value], dict[str, Value]]:
    names = [k.arg for k in node.keywords]
    if None in names:
        raise Refused("** before an argument", node.lineno)
    given = _unpacked(lo, node) if any(isinstance(a, ast.Starred) for a in node.args) else node.args
    with lo.caring():
        args = values.in_order(lo, [*given, *(k.value for k in node.keywords)], node.lineno)
    n = len(given)
    return args[:n], dict(zip(names, args[n:], strict=True))  # type: ignore[arg-type]


def _unpacked(lo: Statements, node: ast.Call) -> list[ast.expr]:
    """The arguments of a call in which tuples are unpacked (*t)."""
    out: list[ast.expr] = []
    for a in node.args:
        if not isinstance(a, ast.Starred):
            out.append(a)
            continue
        found = values.value(lo, a.value)
        late = not isinstance(getattr(a.value, "value", a.value), ast.Name)  # not t, and not x.shape
        if not isinstance(found, Tuple) or (late and not all(isinstance(b, ast.Name | ast.Constant) for b in out)):
            raise Refused("* before an argument", node.lineno, "Give each by itself")
        name = splitting.named(lo, a.value, found)
        items = [ast.Subscript(name, ast.Constant(k), ast.Load()) for k in range(len(found.items))]
        out += [ast.fix_missing_locations(ast.copy_location(item, a)) for item in items]
    return out


def of_function(lo: Statements, f: FunctionType, args: list[Value], options: dict[str, Value], node: ast.AST) -> Value:
    """A call of a function of the user."""
    tree = tree_of(f)
    code = f.__code__
    if code.co_flags & 0x2A0:  # generators, coroutines
        raise Refused(f"a call of {f.__name__}, a generator", node.lineno)  # type: ignore[attr-defined]
    scope = signatures.scope_of(f, tree)
    defaults = tuple(values.given(lo, v, "a default", node.lineno) for v in f.__defaults__ or ())  # type: ignore[attr-defined]
    named = {k: values.given(lo, v, "a default", node.lineno) for k, v in (f.__kwdefaults__ or {}).items()}  # type: ignore[attr-defined]
    return inlined(lo, tree, f, None, f.__name__, args, options, node, defaults, named, scope)


def of_written(lo: Statements, f: Any, args: list[Value], options: dict[str, Value], node: Any) -> Value:
    """A call of a function of the library that is written in Python (written.py): a part of the line that calls it."""
    tree = _at_line(tree_of(f), node)
    defaults = tuple(map(arithmetic.constant, f.__defaults__ or ()))
    named: dict[str, Value] = {k: arithmetic.constant(v) for k, v in (f.__kwdefaults__ or {}).items()}
    scope = signatures.scope_of(f, tree)
    place = lo.scope.place
    return inlined(lo, tree, f, None, f.__name__, args, options, node, defaults, named, scope, place)


def of_shared(lo: Statements, f: Any, args: list[Value], node: Any) -> Value:
    """The same, but the function is one of the program's, which is there once for all calls of the same types."""
    known = lo.functions.written
    if f not in known:
        known[f] = _at_line(tree_of(f), node)
    tree = known[f]
    given = dict(zip([a.arg for a in tree.args.args], args, strict=True))
    return recursion.invoked(lo, tree, f, None, f.__name__, given, node, signatures.scope_of(f, tree))


def _at_line(tree: Any, node: Any) -> Any:
    """The tree of a function as a part of another line."""
    tree = copy.deepcopy(tree)
    for n in ast.walk(tree):
        if isinstance(n, ast.expr | ast.stmt):  # places still tell calls apart
            n.col_offset += (n.lineno << 8) + (node.col_offset << 20)
            n.end_col_offset = (n.end_col_offset or 0) + ((n.end_lineno or 0) << 8) + (node.col_offset << 20)
            n.lineno = n.end_lineno = node.lineno
    return tree


def prefix_of(lo: Statements, node: Any) -> str:
    """What the names of a function that is called here begin with: in f(x)(y), both calls are at one place."""
    at, calls = getattr(node, "func", None), ""
    while isinstance(at, ast.Call):
        at, calls = at.func, calls + "()"
    return f"{lo.scope.prefix}{node.lineno}.{node.col_offset}{calls}."


def inlined(
    lo: Statements, tree: Any, f: Any, parent: Any, name: str, args: list[Value], options: dict[str, Value], node: Any,
    defaults: tuple[Value, ...], named: dict[str, Value], local: frozenset[str] | None = None,
    place: tuple[str, str] | None = None,
) -> Value:  # fmt: skip
    """The body of a function at the place of its call."""
    line = node.lineno
    if lo.scope.depth >= DEEPEST:
        raise Refused("calls nested too deeply", line)
    prefix = prefix_of(lo, node)
    if local is None:
        local = signatures.locals_of(tree)
    given = signatures.matched(lo, tree, name, args, options, defaults, named, line)
    if tree in lo.functions.recursive:
        return recursion.invoked(lo, tree, f, parent, name, given, node, local)
    if tree in lo.functions.inside:
        raise recursion.Recursive(tree)
    assert lo.env is not None
    for stale in [n for n in lo.env if n.startswith(prefix)]:
        del lo.env[stale]
        lo.b.emit(Set(lo.b.tag_name(stale), ZERO))
    for full in [n for n, alts in lo.env.items() if any(_made_in(t, prefix) for t in alts)]:
        lo.bind(full, Static(Gone(full)), line, full=True)
    label = lo.b.fresh("call")
    result = f"{prefix}return"
    ends: list[Any] = []

    def returns(found: Value, at: int) -> None:
        lo.bind(result, found, at, full=True)
        ends.append(lo.env)
        lo.b.emit(Leave(label))
        lo.env = None

    called = f.__code__.co_name if f is not None else name
    scope = Scope(f, prefix, local, parent, returns, lo.scope.depth + 1, called, place, careless=lo.careless)
    values_ = {k: lo.settled(v, line) if isinstance(v, Lazy) else v for k, v in given.items()}
    lo.functions.inside.append(tree)
    lo.assigned = ""
    with lo.b.inside() as body:
        for k, v in values_.items():
            lo.bind(prefix + k, v, line, full=True)
        with lo.within(scope), lo.caring():
            try:
                if isinstance(tree, ast.Lambda):
                    lo.block([ast.copy_location(ast.Return(tree.body), tree.body)])
                else:
                    lo.block(tree.body)
                    if lo.env is not None:
                        lo.return_value(Static(None), line)
            except Several as error:  # of a statement of its own, which the caller's cannot be split for
                raise Refused(error.construct, error.line, error.cure) from None
    lo.functions.inside.pop()
    made = Named(label, tuple(body))
    lo.b.emit(made)
    env = None
    for e in ends:
        env = join(env, e)
    lo.env = env
    if env is None:
        raise Dead
    alts = env[result]
    if len(alts) > 1:
        raise Several(
            node,
            f"a call of {name}, which gives {' or '.join(map(str, alts))}",
            line,
            result,
            [made] if made is not None else [],
        )
    return lo.fetch(result, alts[0])


def _made_in(t: Type, prefix: str) -> bool:
    """Whether a function was made in a call whose names begin so."""
    if isinstance(t, Tup):
        return any(_made_in(item, prefix) for item in t.items)
    return isinstance(t, Obj) and isinstance(t.value, values.Closure) and t.value.scope.prefix.startswith(prefix)


def number(lo: Statements, args: list[Value], k: int, line: int) -> Scalar:
    if k >= len(args):
        raise Refused("a call with too few arguments", line)
    return values.scalar(lo, args[k], line)


def whole(lo: Statements, found: Value, line: int) -> Scalar:
    """An integer for range, subscripts and the like, as Python's."""
    s = values.scalar(lo, found, line)
    if s.t.py and s.t.dtype in (INT, BOOL):
        return arithmetic.as_int(s)
    if s.t.whole:
        if s.t.dtype == "uint64":
            return Scalar(ints(0, MOST), Op("fit:int64", INT, (s.e,), arithmetic.rerun(lo.b, line)))
        info = np.iinfo(s.t.dtype)
        return Scalar(ints(int(info.min), int(info.max)), arithmetic.cast(s.e, INT))
    raise Refused(f"{s.t} where an integer must be", line)


def part(lo: Statements, s: Scalar, name: str, line: int) -> Value:
    """x.real, x.imag"""
    if s.t.dtype[0] == "c":
        out = "float64" if s.t.dtype == "complex128" else "float32"
        return Scalar(Num(s.t.py, out), Op(name, out, (s.e,)))
    if name == "real":
        return arithmetic.as_int(s)
    kind = s.t.dtype
    return Scalar(Num(s.t.py, kind, 0, 0), Const(kind, {"f": 0.0, "b": False}.get(kind[0], 0)))
