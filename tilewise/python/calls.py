"""Calls. In: a call's tree. Out: the value: of a builtin, of NumPy's and ours, of math, of the user's own function.

Functions of the user are lowered at the place of the call, for the types that they are given there.
"""

from __future__ import annotations

import ast
import builtins
import functools
import math
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tilewise.kernel.program.ir import BOOL, CALL, INT, Const, Leave, Named, Op, Set
from tilewise.python.build import (
    ZERO,
    Array,
    Lazy,
    List,
    Opaque,
    Scalar,
    Sequence_,
    Static,
    Tuple,
    Value,
    add,
    compare,
    pick,
    sub,
)
from tilewise.python.refuse import Refused
from tilewise.python.scope import Dead, Scope
from tilewise.python.source import tree_of
from tilewise.python.types import MOST, PY_BOOL, PY_COMPLEX, PY_FLOAT, Num, ints, join

if TYPE_CHECKING:
    from tilewise.python.statements import Statements
from tilewise.python import arithmetic, conditions, lists, math_functions, recursion, sequences, signatures, values
from tilewise.python.arrays import elementwise, functions
from tilewise.python.host import library as host_library
from tilewise.python.host import state

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


class Several(Refused):
    """A call that gives one of several types: the statement must be emitted for each."""

    def __init__(self, node: ast.expr, construct: str, line: int, source: str = "") -> None:
        super().__init__(construct, line, "Give it one type")
        self.node: Any = node
        self.source = source  # the name that has the value


def member(lo: Statements, module: ModuleType, name: str, found: Any, line: int) -> Value:
    """An attribute of a module."""
    root = module.__name__.split(".")[0]
    if (
        root in ("numpy", "tilewise", "math", "cmath")
        and (callable(found) or isinstance(found, np.dtype))
        and not isinstance(found, ModuleType)
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
    module = (getattr(found, "__module__", None) or type(found).__module__ or "").split(".")[0]
    if isinstance(found, FunctionType) and found.__code__.co_filename.startswith("<"):  # in a doctest of ours
        return None
    if isinstance(found, type) and issubclass(found, np.generic):
        return Library("numpy", name)
    if module == "builtins" or found in (len, abs, min, max, range, sum, float, int, bool, complex):
        return Library("builtins", name)
    return Library(module, name) if module in ("numpy", "tilewise", "math") else None


def call(lo: Statements, node: ast.Call) -> Value:
    """f(...)"""
    line = node.lineno
    if isinstance(node.func, ast.Attribute):
        base = values.value(lo, node.func.value)
        if isinstance(base, Array | Lazy | Scalar):
            args, options = arguments(lo, node)
            return functions.method(lo, base, node.func.attr, args, options, line)
        if isinstance(base, Static) and isinstance(base.value, (Opaque, *state.GENERATORS)):
            args, options = arguments(lo, node)
            made = host_library.of_object(lo, base.value, node.func.attr, args, options, line)
            if made is not None:
                return made
        if isinstance(base, List):
            args, options = arguments(lo, node)
            if not options:
                return lists.method(lo, base, node.func.attr, args, line)
        if isinstance(base, Tuple):
            raise Refused(f"the method {node.func.attr} of a list or tuple", line, "Use an array")
    found = values.value(lo, node.func)
    if not isinstance(found, Static):
        raise Refused("a call of something that is no function", line)
    f = found.value
    if isinstance(f, values.Closure):
        args, options = arguments(lo, node)
        return inlined(lo, f.node, None, f.scope, f.name, args, options, node, (), {})
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
        return sequences.comprehended(lo, known.name, node.args[0], node)
    args, options = arguments(lo, node)
    if known.kind == "builtins" and known.name in ("min", "max") and not options:
        return _BUILTINS[known.name](lo, args, line, node)  # type: ignore[no-any-return]
    return of_library(lo, known, args, options, line)


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
    args: list[Value] = []
    block = lo.b.block
    for a in (*node.args, *(k.value for k in node.keywords)):
        if isinstance(a, ast.Starred):
            raise Refused("* before an argument", node.lineno)
        at = len(block)
        found = values.value(lo, a)
        if len(block) > at:
            for k in reversed(range(len(args))):
                args[k] = values.spilled(lo, args[k], block, at)
        args.append(found)
    names = [k.arg for k in node.keywords]
    if None in names:
        raise Refused("** before an argument", node.lineno)
    n = len(node.args)
    return args[:n], dict(zip(names, args[n:], strict=True))  # type: ignore[arg-type]


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


def prefix_of(lo: Statements, node: Any) -> str:
    """What the names of a function that is called here begin with."""
    return f"{lo.scope.prefix}{node.lineno}.{node.col_offset}."


def inlined(
    lo: Statements, tree: Any, f: Any, parent: Any, name: str, args: list[Value], options: dict[str, Value], node: Any,
    defaults: tuple[Value, ...], named: dict[str, Value], local: frozenset[str] | None = None,
) -> Value:  # fmt: skip
    """The body of a function at the place of its call."""
    line = node.lineno
    if lo.scope.depth >= DEEPEST:
        raise Refused("calls nested too deeply", line)
    prefix = prefix_of(lo, node)
    if local is None:
        local = signatures.locals_of(tree)
        if tree.args.defaults or tree.args.kw_defaults:
            defaults = tuple(values.value(lo, d) for d in tree.args.defaults)
            named = {
                a.arg: values.value(lo, d)
                for a, d in zip(tree.args.kwonlyargs, tree.args.kw_defaults, strict=True)
                if d is not None
            }
    given = signatures.matched(lo, tree, name, args, options, defaults, named, line)
    if tree in lo.functions.recursive:
        return recursion.invoked(lo, tree, f, parent, name, given, node, local)
    if tree in lo.functions.inside:
        raise recursion.Recursive(tree)
    assert lo.env is not None
    for stale in [n for n in lo.env if n.startswith(prefix)]:
        del lo.env[stale]
        lo.b.emit(Set(lo.b.tag_name(stale), ZERO))
    label = lo.b.fresh("call")
    result = f"{prefix}return"
    ends: list[Any] = []

    def returns(found: Value, at: int) -> None:
        lo.bind(result, found, at, full=True)
        ends.append(lo.env)
        lo.b.emit(Leave(label))
        lo.env = None

    scope = Scope(f, prefix, local, parent, returns, lo.scope.depth + 1, f.__code__.co_name if f is not None else name)
    values_ = {k: lo.settled(v, line) if isinstance(v, Lazy) else v for k, v in given.items()}
    lo.functions.inside.append(tree)
    with lo.b.inside() as body:
        for k, v in values_.items():
            lo.bind(prefix + k, v, line, full=True)
        with lo.within(scope):
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
    lo.b.emit(Named(label, tuple(body)))
    env = None
    for e in ends:
        env = join(env, e)
    lo.env = env
    if env is None:
        raise Dead
    alts = env[result]
    if len(alts) > 1:
        raise Several(node, f"a call of {name}, which gives {' or '.join(map(str, alts))}", line, result)
    return lo.fetch(result, alts[0])


def of_library(lo: Statements, f: Library, args: list[Value], options: dict[str, Value], line: int) -> Value:
    if f.kind == "builtins":
        strict = options.get("strict") if f.name == "zip" else None
        if isinstance(strict, Scalar) and strict.e == Const(BOOL, False):
            options = {}
        if f.name == "print":
            return host_library.printed(lo, args, options, line)
        if f.name == "list" and not args:
            return Tuple((), listed=True)
        how = _BUILTINS.get(f.name)
        if how is None or options:
            raise Refused(f"a call of {f.name}", line)
        return how(lo, args, line)  # type: ignore[no-any-return]
    if f.kind == "math":
        return math_functions.of_math(lo, f.name, args, line)
    if f.kind in ("numpy", "tilewise"):
        return functions.of_numpy(lo, f.name, f.kind, args, options, line)
    raise Refused(f"a call of {f.name}", line)


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


def _range(lo: Statements, args: list[Value], line: int) -> Value:
    parts = [whole(lo, a, line) for a in args]
    if len(parts) == 1:
        parts = [arithmetic.constant(0), parts[0]]
    if len(parts) == 2:
        parts.append(arithmetic.constant(1))
    if isinstance(parts[2].e, Const) and parts[2].e.value == 0:
        raise Refused("a range with a step of zero", line)
    return Sequence_("range", tuple(parts))


def range_length(lo: Statements, start: Scalar, stop: Scalar, step: Scalar, line: int) -> Scalar:
    """len(range(...))"""
    if not isinstance(step.e, Const):
        raise Refused("the length of a range with a computed step", line)
    k = step.e.value
    first, last, k = (start, stop, k) if k > 0 else (stop, start, -k)
    span = sub(last.e, first.e)
    count = span if k == 1 else Op("floor_divide", INT, (add(span, Const(INT, k - 1)), Const(INT, k)))
    most = max(0, -(-(last.t.hi - first.t.lo) // k))
    if last.t.hi - first.t.lo > MOST:
        raise Refused("a range that may be too long", line)
    count = lo.b.held(count)
    if last.t.lo >= first.t.hi:
        return Scalar(ints(0, most), count)
    return Scalar(ints(0, most), pick(compare("less", count, ZERO), ZERO, count))


def _len(lo: Statements, args: list[Value], line: int) -> Value:
    x = args[0]
    if isinstance(x, List):
        return lists.length(x)
    if isinstance(x, Tuple):
        return arithmetic.constant(len(x.items))
    if isinstance(x, Array | Lazy) and x.t.rank:
        return elementwise.length(x, 0)
    if isinstance(x, Sequence_) and x.kind == "range":
        start, stop, step = cast(tuple[Scalar, Scalar, Scalar], x.parts)
        return range_length(lo, start, stop, step, line)
    raise Refused("len of something else than an array", line)


def _abs(lo: Statements, args: list[Value], line: int) -> Value:
    if isinstance(args[0], Array | Lazy):
        return functions.of_numpy(lo, "absolute", args[0].t.kind, args, {}, line)
    return arithmetic.absolute(lo.b, number(lo, args, 0, line), line)


def _extreme(less: bool) -> Any:
    def act(lo: Statements, args: list[Value], line: int, node: ast.expr | None = None) -> Value:
        if len(args) == 1:
            if isinstance(args[0], Tuple):
                args = list(args[0].items)
            elif isinstance(args[0], Array | Lazy) and args[0].t.rank == 1:
                return sequences.ordered(lo, args[0], less, line)
        if not args:
            raise Refused("min or max of nothing", line)
        best = values.scalar(lo, args[0], line)
        for a in args[1:]:
            s = values.scalar(lo, a, line)
            best, s = (Scalar(v.t, lo.b.held(v.e)) for v in (best, s))
            better = arithmetic.truth(arithmetic.binary(lo.b, "<" if less else ">", s, best, line))
            old, new = best, s
            made = conditions.chosen(lo, better, lambda new=new: new, lambda old=old: old, line, node)  # type: ignore[misc]
            assert isinstance(made, Scalar)
            t = made.t
            if t.py and t.dtype == INT:
                low, high = (old.t, new.t)
                t = (
                    ints(min(low.lo, high.lo), min(low.hi, high.hi))
                    if less
                    else ints(max(low.lo, high.lo), max(low.hi, high.hi))
                )
            best = Scalar(t, made.e)
        return best

    return act


def _float(lo: Statements, args: list[Value], line: int) -> Value:
    if not args:
        return arithmetic.constant(0.0)
    if isinstance(args[0], Static) and isinstance(args[0].value, str):
        return arithmetic.constant(float(args[0].value))
    s = number(lo, args, 0, line)
    if s.t.dtype[0] == "c":
        raise Refused("float of a complex number", line)
    return Scalar(PY_FLOAT, arithmetic.plain_float(lo.b, s, line) if s.t.py else arithmetic.cast(s.e, "float64"))


def _int(lo: Statements, args: list[Value], line: int) -> Value:
    if not args:
        return arithmetic.constant(0)
    s = number(lo, args, 0, line)
    if s.t.dtype == BOOL or s.t.whole:
        if s.t.dtype == BOOL:
            return Scalar(ints(0, 1), arithmetic.cast(s.e, INT))
        return whole(lo, s, line)
    if s.t.dtype[0] == "c":
        raise Refused("int of a complex number", line)
    if isinstance(s.e, Const) and math.isfinite(s.e.value):
        return arithmetic.constant(int(s.e.value), line)
    fault = lo.b.fault(CALL + "int", "", line)
    return Scalar(ints(-(1 << 63), MOST), Op("whole:int64", INT, (arithmetic.cast(s.e, "float64"),), fault))


def _bool(lo: Statements, args: list[Value], line: int) -> Value:
    return Scalar(PY_BOOL, values.truth_of(lo, args[0], line)) if args else arithmetic.constant(False)


def _complex(lo: Statements, args: list[Value], line: int) -> Value:
    parts = [number(lo, args, k, line) for k in range(len(args))]
    if len(parts) == 1:
        return Scalar(PY_COMPLEX, arithmetic.cast(parts[0].e, "complex128"))
    if len(parts) != 2 or any(p.t.dtype[0] == "c" for p in parts):
        raise Refused("complex of these", line)
    both = tuple(arithmetic.cast(p.e, "float64") for p in parts)
    return Scalar(PY_COMPLEX, Op("complex", "complex128", both))


def _round(lo: Statements, args: list[Value], line: int) -> Value:
    s = number(lo, args, 0, line)
    if len(args) > 1:
        raise Refused("round to digits", line)
    if s.t.whole:
        return s if s.t.py else whole(lo, s, line)
    if s.t.dtype[0] != "f":
        raise Refused(f"round of {s.t}", line)
    near = Op("rint", "float64", (arithmetic.cast(s.e, "float64"),))
    return Scalar(ints(-(1 << 63), MOST), Op("whole:int64", INT, (near,), lo.b.fault(CALL + "int", "", line)))


def _divmod(lo: Statements, args: list[Value], line: int) -> Value:
    x, y = (Scalar(s.t, lo.b.held(s.e)) for s in (number(lo, args, 0, line), number(lo, args, 1, line)))
    first = arithmetic.binary(lo.b, "//", x, y, line)
    return Tuple((Scalar(first.t, lo.b.keep(first.e)), arithmetic.binary(lo.b, "%", x, y, line)))


def _pow(lo: Statements, args: list[Value], line: int) -> Value:
    if len(args) == 2:
        return values.binary(lo, "**", args[0], args[1], line)
    raise Refused("pow with a modulus", line)


def _sum(lo: Statements, args: list[Value], line: int) -> Value:
    start: Value = args[1] if len(args) > 1 else arithmetic.constant(0)
    if isinstance(args[0], Tuple):
        for item in args[0].items:
            start = values.binary(lo, "+", start, item, line)
        return start
    if isinstance(args[0], List):
        raise Refused("sum of a list", line, "Add its items up in a loop")
    return sequences.added_up(lo, args[0], start, line)


def _sequence(kind: str) -> Any:
    def act(lo: Statements, args: list[Value], line: int) -> Value:
        if kind != "zip" and len(args) != 1:
            raise Refused(f"{kind} with several arguments", line)
        return Sequence_(kind, tuple(args))

    return act


def _tuple(lo: Statements, args: list[Value], line: int) -> Value:
    if len(args) == 1 and isinstance(args[0], Tuple):
        return Tuple(args[0].items)
    raise Refused("tuple of something of unknown length", line)


def part(lo: Statements, s: Scalar, name: str, line: int) -> Value:
    """x.real, x.imag"""
    if s.t.dtype[0] == "c":
        out = "float64" if s.t.dtype == "complex128" else "float32"
        return Scalar(Num(s.t.py, out), Op(name, out, (s.e,)))
    if name == "real":
        return arithmetic.as_int(s)
    kind = s.t.dtype
    return Scalar(Num(s.t.py, kind, 0, 0), Const(kind, 0.0 if kind[0] == "f" else 0))


_BUILTINS: dict[str, Any] = {
    "range": _range, "len": _len, "abs": _abs, "min": _extreme(True), "max": _extreme(False), "float": _float,
    "int": _int, "bool": _bool, "complex": _complex, "round": _round, "divmod": _divmod, "pow": _pow, "sum": _sum,
    "enumerate": _sequence("enumerate"), "zip": _sequence("zip"), "reversed": _sequence("reversed"), "tuple": _tuple,
}  # fmt: skip
