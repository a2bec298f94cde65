"""What a program means. In: a program, arguments. Out: how it ended, and what it returned. NumPy, one step at a time.

This is the definition that compiled code is tested against; it is slow, and written to be read.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tilewise.kernel.program.effects import touches
from tilewise.kernel.program.ir import (
    Alloc,
    Apart,
    Block,
    Const,
    Dim,
    Expr,
    Fail,
    For,
    Host,
    HostCall,
    If,
    Invoke,
    Leave,
    Load,
    Loop,
    Named,
    Op,
    Pick,
    Product,
    Program,
    Return,
    Set,
    Stmt,
    Store,
    Var,
    View,
)

RETURNED, FAILED, MISSED = range(3)
MOST_DEPTH = 100  # of functions inside of each other: each takes several frames of Python
LEAST, MOST = -(1 << 63), (1 << 63) - 1
GARBAGE = 0xA5  # in memory that nobody is said to look at


class Ended(NamedTuple):
    """0 returned, 1 failed, 2 missed: it is not for such arguments; which result or fault; whether arguments were
    written to; numbers of a fault; values.
    """

    status: int
    which: int
    written: bool
    payload: list[int]
    values: tuple[Any, ...]


class _Left(Exception):
    def __init__(self, label: str) -> None:
        self.label = label


class _Over(Exception):
    def __init__(self, ended: Ended) -> None:
        self.ended = ended


def run(program: Program, args: Sequence[Any], host: Sequence[Host] = ()) -> Ended:
    """The program on ndarrays and numbers, in the order of its params."""
    if any(p.width and a.shape[-1] != p.width for p, a in zip(program.params, args, strict=True)):
        return Ended(MISSED, 0, False, [], ())
    machine = _Machine(program, args, host)
    with np.errstate(all="ignore"):
        try:
            machine.block(program.body)
        except _Over as over:
            return over.ended
    raise AssertionError("a program ends with return or fail")


class _Machine:
    def __init__(self, program: Program, args: Sequence[Any], host: Sequence[Host], caller: Any = None) -> None:
        self.program, self.host = program, host
        self.functions = program.functions if caller is None else caller.functions
        self.depth: int = 0 if caller is None else caller.depth + 1
        self.names: dict[str, Any] = {n: np.dtype(t).type(0) for n, t in program.names.items()}
        self.arrays: dict[str, Any] = {n: np.empty((0,) * a.rank, a.dtype) for n, a in program.arrays.items()}
        self.given: dict[int, int] = {}  # which argument an ndarray object is
        self.written = False
        self.last: dict[str, Any] = {}  # memory of each allocation
        self.params = {p.name for p in program.params}
        self.outside = {name for name, a in program.arrays.items() if a.memory & self.params}
        for k, (p, a) in enumerate(zip(program.params, args, strict=True)):
            if p.array is None:
                self.names[p.name] = np.dtype(p.dtype).type(a)
            else:
                self.arrays[p.name] = a
                self.given.setdefault(id(a), k)

    def fail(self, fault: int, values: Sequence[Any]) -> None:
        bits = [int(v) if not isinstance(v, float | np.floating) else _bits(float(v)) for v in values]
        raise _Over(Ended(FAILED, fault, self.written, bits, ()))

    # -- expressions -------------------------------------------------------------------------------------------------

    def e(self, x: Expr) -> Any:
        """The value of an expression, a NumPy number."""
        if isinstance(x, Const):
            return np.dtype(x.dtype).type(x.value)
        if isinstance(x, Var):
            return self.names[x.name]
        if isinstance(x, Dim):
            return np.int64(self.arrays[x.array].shape[x.axis])
        if isinstance(x, Load):
            return self.arrays[x.array][self.place(x.array, x.index, x.faults)]
        if isinstance(x, Pick):
            return self.e(x.yes if self.e(x.test) else x.no)
        if isinstance(x, Apart):
            return np.bool_(not np.may_share_memory(self.arrays[x.first], self.arrays[x.second]))
        return self.op(x, [self.e(a) for a in x.args])

    def op(self, x: Op, args: list[Any]) -> Any:
        assert not x.exact or _as_said(x, args), f"{x.fn} of {args} was said to be exact"
        special = _SPECIAL.get(x.fn.partition(":")[0])
        if special is not None and (x.fault >= 0 or x.fn not in _BOTH):
            made = special(x, args)
            if made is None:
                self.fail(x.fault, [a for a in args if a.dtype.name in ("int64", "uint64", "float64")])
            return np.dtype(x.dtype).type(made)
        if x.fn == "cast":
            return args[0].astype(x.dtype)
        if x.fn == "where":
            return args[1] if args[0] else args[2]
        if x.fn in ("real", "imag"):
            return getattr(args[0], x.fn)
        return np.dtype(x.dtype).type(getattr(np, x.fn)(*args))

    def place(self, array: str, index: tuple[Expr, ...], faults: tuple[int, ...]) -> tuple[int, ...]:
        """Subscripts from the start; one out of range fails."""
        shape, made = self.arrays[array].shape, []
        for axis, (i, fault) in enumerate(zip(index, faults, strict=True)):
            at = int(self.e(i))
            n = shape[axis]
            whole = at + n if at < 0 and fault >= 0 else at
            if not 0 <= whole < n:
                assert fault >= 0, "a subscript that was said to be in range"
                self.fail(fault, [at, n])
            made.append(whole)
        return tuple(made)

    # -- statements --------------------------------------------------------------------------------------------------

    def block(self, stmts: Block) -> None:
        for s in stmts:
            self.statement(s)

    def statement(self, s: Stmt) -> None:
        if isinstance(s, Set):
            self.names[s.name] = self.e(s.value)
        elif isinstance(s, Store):
            value = self.e(s.value)
            self.arrays[s.array][self.place(s.array, s.index, s.faults)] = value
            self.written |= s.array in self.outside
        elif isinstance(s, If):
            self.block(s.then if self.e(s.test) else s.other)
        elif isinstance(s, For):
            for i in range(int(self.e(s.start)), int(self.e(s.stop)), int(self.e(s.step))):
                self.names[s.name] = np.int64(i)
                self.block(s.body)
        elif isinstance(s, Loop):
            while True:
                self.block(s.body)
        elif isinstance(s, Named):
            try:
                self.block(s.body)
            except _Left as left:
                if left.label != s.label:
                    raise
        elif isinstance(s, Leave):
            raise _Left(s.label)
        elif isinstance(s, Fail):
            self.fail(s.fault, [self.e(v) for v in s.values])
        elif isinstance(s, Return):
            raise _Over(Ended(RETURNED, s.which, self.written, [], tuple(self.result(v) for v in s.values)))
        elif isinstance(s, Alloc):
            self.allocate(s)
        elif isinstance(s, View):
            self.arrays[s.array] = self.view(s)
        elif isinstance(s, Product):
            self.arrays[s.array][...] = self.arrays[s.left] @ self.arrays[s.right]
        elif isinstance(s, HostCall):
            self.host_call(s)
        elif isinstance(s, Invoke):
            self.invoke(s)

    def invoke(self, s: Invoke) -> None:
        if self.depth >= sys.getrecursionlimit():
            self.fail(s.deep, [])
        if self.depth >= MOST_DEPTH:
            self.fail(s.stack, [])
        inputs = [self.arrays[v] if isinstance(v, str) else self.e(v) for v in s.inputs]
        inner = _Machine(self.functions[s.function], inputs, self.host, self)
        try:
            inner.block(inner.program.body)
        except _Over as over:
            ended = over.ended
        self.written |= ended.written and touches(self.program, s, self.functions, self.params)
        if ended.status == FAILED:
            raise _Over(ended._replace(written=self.written))
        self.names[s.which] = np.int64(ended.which)
        for name, v in zip(s.results[ended.which], ended.values, strict=True):
            if name in self.program.arrays:
                self.arrays[name] = inputs[v[0]] if isinstance(v, tuple) else v
            else:
                self.names[name] = np.dtype(self.program.names[name]).type(v)

    def host_call(self, s: HostCall) -> None:
        inputs = [self.arrays[v] if isinstance(v, str) else self.e(v).item() for v in s.inputs]
        self.written |= s.effect or not self.outside.isdisjoint(s.writes)
        try:
            made = self.host[s.which](inputs)
        except Exception:  # kept by the host function itself
            self.fail(s.fault, [])
        for name, v in zip(s.results, made, strict=True):
            if name in self.program.arrays:
                self.arrays[name] = v if s.shown else np.array(v, order="C")
            else:
                self.names[name] = np.dtype(self.program.names[name]).type(v)

    def result(self, v: Expr | str) -> Any:
        """A number, an array, or (k,) for argument k itself."""
        if not isinstance(v, str):
            return self.e(v).item()
        found = self.arrays[v]
        return (self.given[id(found)],) if id(found) in self.given else found

    def allocate(self, s: Alloc) -> None:
        shape = [int(self.e(n)) for n in s.shape]
        if any(n < 0 for n in shape):
            self.fail(s.fault, [])
        make, dtype = np.zeros if s.zero else np.empty, np.dtype(self.program.arrays[s.array].dtype)
        if math.prod(shape) * dtype.itemsize > MOST:
            self.fail(s.huge, [])
        if s.private and s.array in self.last:
            self.last[s.array].view(np.uint8)[...] = GARBAGE
        try:
            self.arrays[s.array] = make(shape, dtype)
        except MemoryError:
            self.fail(s.full, [])
        self.last[s.array] = self.arrays[s.array].reshape(-1)

    def view(self, s: View) -> Any:
        source = self.arrays[s.source]
        index: list[Any] = [slice(None)] * source.ndim
        for axis, i in s.at:
            index[axis] = int(self.e(i))
        for x in s.spans:
            if x.axis >= 0:
                start, n, step = int(self.e(x.start)), int(self.e(x.length)), int(self.e(x.step))
                stop = start + n * step
                index[x.axis] = slice(start, stop if stop >= 0 else None, step) if n else slice(0, 0)
        if s.renamed:
            return source
        shown = source[(*index, ...)]  # with dots it shows the source, also where it has no axes
        kept = sorted(x.axis for x in s.spans if x.axis >= 0)
        shown = np.transpose(shown, [kept.index(x.axis) for x in s.spans if x.axis >= 0])
        return shown[tuple(np.newaxis if x.axis < 0 else slice(None) for x in s.spans)] if s.spans else shown


def _as_said(x: Op, args: list[Any]) -> bool:
    """Whether an operation is exact."""
    a, b = map(int, args)
    if x.fn in ("floor_divide", "remainder"):
        return a >= 0 and b > 0
    if x.fn in ("left_shift", "right_shift"):
        return 0 <= b <= 63 and (x.fn == "right_shift" or _fits(a << b) is not None)
    return _fits(getattr(operator, {"add": "add", "subtract": "sub", "multiply": "mul"}[x.fn])(a, b)) is not None


def _bits(v: float) -> int:
    return int(np.float64(v).view(np.int64))


def _fits(value: int) -> int | None:
    return value if LEAST <= value <= MOST else None


def _linear(f: Callable[[int, int], int]) -> Callable[[Op, list[Any]], Any]:
    def act(x: Op, args: list[Any]) -> Any:
        if args[0].dtype.kind not in "iu":
            return getattr(np, x.fn)(*args)
        return _fits(f(*map(int, args)))

    return act


def _divided(x: Op, args: list[Any]) -> Any:
    return None if args[1] == 0 else getattr(np, x.fn)(*args)


def _power(x: Op, args: list[Any]) -> Any:
    a, b = map(int, args)
    return None if b < 0 or (abs(a) > 1 and b > 64) else _fits(a**b)


def _libm(x: Op, args: list[Any]) -> Any:
    try:
        made = getattr(math, x.fn.partition(":")[2])(*map(float, args))
    except (ValueError, OverflowError):
        return None
    return None if not math.isfinite(made) and all(map(math.isfinite, args)) else made


def _whole(x: Op, args: list[Any]) -> Any:
    if not math.isfinite(args[0]):
        return None
    made, info = int(args[0]), np.iinfo(x.dtype)
    return made if int(info.min) <= made <= int(info.max) else None


def _fit(x: Op, args: list[Any]) -> Any:
    info = np.iinfo(x.dtype)
    return int(args[0]) if int(info.min) <= int(args[0]) <= int(info.max) else None


def _subscript(x: Op, args: list[Any]) -> Any:
    i, n = map(int, args)
    at = i + n if i < 0 else i
    return at if 0 <= at < n else None


def _square(x: Op, args: list[Any]) -> Any:
    made = args[0] * args[0]
    return None if np.isinf(made) and np.isfinite(args[0]) else made


def _complex_divide(x: Op, args: list[Any]) -> Any:
    return None if args[1] == 0 else complex(args[0]) / complex(args[1])


def _wrapping_power(x: Op, args: list[Any]) -> Any:
    return None if args[1] < 0 else np.power(*args)


_SPECIAL: dict[str, Callable[[Op, list[Any]], Any]] = {
    "add": _linear(lambda a, b: a + b),
    "subtract": _linear(lambda a, b: a - b),
    "multiply": _linear(lambda a, b: a * b),
    "absolute": lambda x, args: _fits(abs(int(args[0]))),
    "floor_divide": _divided,
    "remainder": _divided,
    "divide": _divided,
    "negatable_divide": lambda x, args: _fits(int(args[0]) // int(args[1])),
    "left_shift": lambda x, args: _fits(int(args[0]) << int(args[1])) if args[1] < 64 or not args[0] else None,
    "int_power": _power,
    "exact_float": lambda x, args: float(args[0]) if int(float(args[0])) == int(args[0]) else None,
    "beyond_float": lambda x, args: int(args[0]) - int(float(args[0])),
    "float_bits": lambda x, args: np.float64(args[0]).view(np.int64),
    "ones": lambda x, args: bin(int(args[0]) & ((1 << 8 * args[0].itemsize) - 1)).count("1"),
    "float_square": _square,
    "natural": lambda x, args: None if args[0] < 0 else args[0],
    "nonzero": lambda x, args: None if args[0] == 0 else args[0],
    "subscript": _subscript,
    "real_sqrt": lambda x, args: None if args[0] < 0 else np.sqrt(args[0]),
    "complex": lambda x, args: complex(args[0], args[1]),
    "complex_multiply": lambda x, args: complex(args[0]) * complex(args[1]),
    "complex_divide": _complex_divide,
    "complex_exp": lambda x, args: np.exp(args[0]),
    "wrapping_power": _wrapping_power,
    "libm": _libm,
    "whole": _whole,
    "fit": _fit,
}
_BOTH = frozenset(["add", "subtract", "multiply", "absolute", "floor_divide", "remainder", "divide", "left_shift"])
