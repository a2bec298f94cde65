"""A function for types of arguments. In: a function, its arguments' types. Out: a program, and how results are made.

All that the function refers to is looked up now; `watch` (the guards of api/functions) says later whether it still
holds. Arrays from outside become arguments.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import numpy as np

from tilewise.kernel.program import ir
from tilewise.python import values
from tilewise.python.build import Array, Builder, Scalar, Static, Tuple, Value
from tilewise.python.containers import columns, pools, reclaim
from tilewise.python.finish import finished, with_functions
from tilewise.python.functions import calls, recursion
from tilewise.python.functions.recursion import Functions, Recursive
from tilewise.python.functions.signatures import locals_of, matched
from tilewise.python.functions.source import tree_of
from tilewise.python.lower import Lower
from tilewise.python.refuse import Mixes, Pools, Refused
from tilewise.python.scalars import arithmetic
from tilewise.python.scope import Dead, Scope
from tilewise.python.types import PY_FLOAT, SMALL, Arr, Mixed, Num, ints

GENERATOR = 0x2A0  # flags of code: generators, coroutines
WIDEST = 16  # last axis that code is made for, of arrays of points and of colours
POINTS = 16  # such arrays have so many times as many points as coordinates


@dataclass(frozen=True)
class ArraySpec:
    """What of an array argument matters."""

    dtype: str
    rank: int
    dense: bool
    kind: str = "numpy"
    width: int = 0  # the length of the last axis, where code is made for it


def array_spec(found: Any, dtype: str, kind: str = "numpy") -> ArraySpec:
    """The type of an array."""
    rank, width = found.ndim, 0
    if rank > 1 and 1 < found.shape[-1] <= WIDEST and found.size >= POINTS * found.shape[-1] ** 2:
        width = found.shape[-1]
    return ArraySpec(dtype, rank, bool(found.flags.c_contiguous), kind, width)


@dataclass(frozen=True)
class OpaqueSpec:
    """An argument that only functions of Python's see."""

    kind: type
    sample: Any = field(compare=False)


@dataclass(frozen=True)
class Specialised:
    """A program, the structures of its results, and arrays from outside that follow the arguments."""

    program: ir.Program
    results: tuple[Any, ...]
    captured: tuple[Any, ...]
    types: dict[str, str]
    host: tuple[ir.Host, ...] = ()  # what the program's HostCalls call
    objects: int = 0  # places in the table of a call; those of arguments come first


FOLDED = (0.0, 0.5, 1.0, 2.0)  # numbers (and their opposites) that make other code


def lifted(found: Any) -> bool:
    """Whether a number from outside can be an argument, so that code serves all its values."""
    return type(found) is float and abs(found) not in FOLDED and found - found == 0.0


class Watch:
    """What lowering looks at outside of the function. `loose` guards: floats from outside become arguments, too."""

    def __init__(self, guards: Any, apart: bool) -> None:
        self.guards, self.apart = guards, apart
        self.arrays: list[Any] = []  # and floats
        self.seen: set[tuple[int, str]] = set()
        self.params: list[ir.Param] = []

    def name(self, where: Any, name: str) -> None:
        if (id(where), name) not in self.seen:
            self.seen.add((id(where), name))
            self.guards.name(where, name)

    def cell(self, cell: Any) -> None:
        self.guards.cell(cell)

    def function(self, f: FunctionType) -> None:
        self.guards.function(f)

    def number(self, lo: Lower, found: Any) -> Value | None:
        """A float from outside as one more argument."""
        if self.guards.loose is None or not lifted(found):
            return None
        at = next((k for k, known in enumerate(self.arrays) if known is found), len(self.arrays))
        slot = f"outer{at}"
        if at == len(self.arrays):
            self.arrays.append(found)
            lo.b.names[slot] = PY_FLOAT.dtype
            self.params.append(ir.Param(slot, PY_FLOAT.dtype))
        return Scalar(PY_FLOAT, ir.Var(slot, PY_FLOAT.dtype))

    def captured(self, lo: Lower, found: Any, name: str, line: int) -> Value:
        """An array from outside: one more argument."""
        if lo.inner:
            text = f"{name}, an array from outside, in a function that calls itself"
            raise Refused(text, line, "Give it as an argument")
        for k, known in enumerate(self.arrays):
            if known is found:
                return Array(Arr(found.dtype.name, found.ndim), f"outer{k}")
        self.guards.array(found)
        if (
            type(found) is not np.ndarray
            or found.dtype.name not in arithmetic.NATIVE_DTYPES
            or not found.dtype.isnative
        ):
            raise Refused(f"{name}, an array of {found.dtype}", line, "Give it as an argument")
        slot = f"outer{len(self.arrays)}"
        self.arrays.append(found)
        spec = array_spec(found, found.dtype.name)
        self.params.append(param_array(lo.b, slot, spec, self.apart))
        return Array(Arr(spec.dtype, spec.rank), slot)


def param_array(b: Builder, slot: str, spec: ArraySpec, apart: bool) -> ir.Param:
    b.arrays[slot] = (spec.dtype, spec.rank)
    roots = frozenset([slot]) if apart else frozenset([slot, "arguments"])
    b.root(slot, roots)
    array = ir.Array(spec.dtype, spec.rank, spec.dense, spec.dense, roots)
    return ir.Param(slot, spec.dtype, array, width=spec.width)


def spec_of_number(v: Any) -> Any:
    """What of a number matters: its type, and whether it is a small integer."""
    if type(v) is int:
        return "int" if -SMALL <= v < SMALL else "wide"
    return type(v)


def type_of(spec: Any) -> Num:
    if spec == "int":
        return ints(-SMALL, SMALL)
    if spec == "wide":
        return ints(-(1 << 63), (1 << 63) - 1)
    if spec in (float, complex, bool):
        return Num(True, np.dtype(spec).name, 0, 1) if spec is bool else Num(True, np.dtype(spec).name)
    name = np.dtype(spec).name
    if name not in arithmetic.NATIVE_DTYPES:
        raise Refused(f"an argument of dtype {name}")
    return Num(False, name)


def specialise(f: FunctionType, args: list[Any], options: dict[str, Any], guards: Any, apart: bool) -> Specialised:
    """args: ArraySpec, specs of numbers, tuples of these, or Static objects. Raises Refused."""
    recursive: set[Any] = set()
    mixed: dict[str, Mixed] = {}
    shared = pools.Shared()
    try:
        while True:
            try:
                functions = Functions(set(recursive), mixed=mixed, pools=shared)
                return _specialise(f, args, options, guards, apart, functions)
            except Recursive as found:
                recursive.add(found.tree)
            except Pools as found:
                shared.learn(found)
            except Mixes as found:
                if (places := pools.first_apart(found.types)) is not None:
                    shared.learn(Pools(places))
                    continue
                mixed[found.place] = columns.mixed(found.types, mixed.get(found.place))
    except Refused as error:
        error.file = error.file or f.__code__.co_filename
        raise
    except RecursionError:
        raise Refused("expressions nested too deeply") from None


def _specialise(
    f: FunctionType, args: list[Any], options: dict[str, Any], guards: Any, apart: bool, functions: Functions
) -> Specialised:
    tree = tree_of(f)
    if f.__code__.co_flags & GENERATOR:
        raise Refused("yield or await", tree.lineno)
    b, watch = Builder(), Watch(guards, apart)
    guards.function(f)
    lo = Lower(b, watch, functions)
    params: list[ir.Param] = []
    count = 0

    def given(spec: Any) -> Value:
        nonlocal count
        if isinstance(spec, tuple):
            return Tuple(tuple(given(s) for s in spec))
        if isinstance(spec, OpaqueSpec):
            return Static(b.object(len(b.objects), spec.sample))
        if isinstance(spec, Static):
            return spec
        slot = f"argument{count}"
        count += 1
        if isinstance(spec, ArraySpec):
            params.append(param_array(b, slot, spec, apart))
            return Array(Arr(spec.dtype, spec.rank, spec.kind), slot)
        t = type_of(spec)
        b.names[slot] = t.dtype
        params.append(ir.Param(slot, t.dtype, low=t.lo, high=t.hi))
        return Scalar(t, ir.Var(slot, t.dtype))

    values_ = [given(s) for s in args]
    named = {k: given(s) for k, s in options.items()}
    scope = Scope(f, "", locals_of(tree))
    lo.scope = scope
    defaults = tuple(values.given(lo, v, "a default", tree.lineno) for v in f.__defaults__ or ())
    more = {k: values.given(lo, v, "a default", tree.lineno) for k, v in (f.__kwdefaults__ or {}).items()}
    bound = matched(lo, tree, f.__name__, values_, named, defaults, more, tree.lineno)
    if tree in functions.recursive:
        _call_itself(lo, tree, f, bound)
    else:
        functions.inside.append(tree)
        for k, v in bound.items():
            lo.bind(k, v, tree.lineno)
        recursion.body(lo, tree, tree.lineno)
    if any(n.endswith("#limit") or n.endswith("#used") for n in b.names):
        lo.env, lo.scope = {}, scope
        b.block = list(reclaim.resolved(lo, tuple(b.block), tree.lineno))
    program = finished(f.__name__, b, tuple(b.block), [*params, *watch.params], lo.result_dtypes, apart)
    if functions.known:
        program = with_functions(program, functions.programs)
    types = {n: " or ".join(map(str, alts)) for n, alts in (lo.last or {}).items()}
    widths = {p.name: p.width for p in params if p.width}
    for n, v in bound.items():
        if isinstance(v, Array) and v.name in widths and " or " not in types.get(n, " or "):
            types[n] = types[n].replace(":]", f"{widths[v.name]}]")
    return Specialised(program, tuple(lo.results), tuple(watch.arrays), types, tuple(b.host), len(b.objects))


def _call_itself(lo: Lower, tree: Any, f: FunctionType, bound: dict[str, Value]) -> None:
    """A function that calls itself: the program calls it, and returns what it gives."""
    try:
        lo.return_value(recursion.invoked(lo, tree, f, None, f.__name__, bound, tree, locals_of(tree)), tree.lineno)
    except calls.Several as several:
        if several.node is not tree:  # within it
            raise
        source = several.source

        def act() -> None:
            assert lo.env is not None
            lo.return_value(lo.fetch(source, lo.env[source][0]), tree.lineno)

        lo.each_type(source, tree.lineno, act)
    except Dead:
        pass
