"""Scalars that write down what is done to them. In: a Python function of numbers. Out: a `Tape`.

A tracer has a kind: `bool`, `int`, `float`, `complex` for Python's numbers, or a dtype for NumPy's scalars; operators
give what those would (NEP 50). What depends on the value itself (a branch, `int(x)`) raises `Untraceable`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tilewise.api.functions.purity import Untraceable
from tilewise.api.functions.trace.tape import Input, Literal, Step, Tape
from tilewise.ir.scalar import UFUNCS

Kind = Any  # bool, int, float, complex, or a dtype
RANK = {bool: 0, int: 1, float: 2, complex: 3}
DTYPES: dict[Any, np.dtype[Any]] = {t: np.dtype(t) for t in RANK}
SAMPLES: dict[Any, Any] = {bool: np.bool_(True), int: 1, float: 1.0, complex: 1j}
BOOL = np.dtype(bool)
COMPARISONS = frozenset("equal not_equal less less_equal greater greater_equal".split())
WHOLE = frozenset("bitwise_and bitwise_or bitwise_xor left_shift right_shift".split())
PACKAGE = str(Path(__file__).parents[3]) + os.sep
MAX_STEPS = 4096  # a longer trace is a loop that had better stay one


def dtype_of(kind: Kind) -> np.dtype[Any]:
    """The dtype that holds a kind."""
    return DTYPES.get(kind) or kind


def user_line() -> str:
    """The innermost line outside of this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def cannot(construct: str) -> Untraceable:
    """The exception for a construct at the line being traced."""
    return Untraceable(construct, user_line())


class Recorder:
    """The tape while it is written. `unsure`: the kind of a result depends on values (`max(x, 0)`)."""

    def __init__(self) -> None:
        self.entries: list[Input | Literal | Step] = []
        self.unsure = False
        self.literals: dict[Any, int] = {}

    def input(self, which: int, kind: Kind) -> Tracer:
        """A tracer for an argument."""
        dtype = dtype_of(kind)
        return Tracer(self, self._add(Input(which, dtype, kind is int)), kind)

    def literal(self, value: Any, dtype: np.dtype[Any]) -> int:
        """The position of a number."""
        try:
            made = dtype.type(value)
        except OverflowError:
            raise cannot(f"the number {value}, which does not fit {dtype},") from None
        key = (dtype.char, made.tobytes())
        if key not in self.literals:
            self.literals[key] = self._add(Literal(made))
        return self.literals[key]

    def step(self, fn: str, args: tuple[Any, ...], loop: tuple[Any, ...], kind: Kind, narrow: bool = False) -> Tracer:
        """A tracer for a function of tracers and numbers."""
        at = tuple(a.at if isinstance(a, Tracer) else self.literal(a, d) for a, d in zip(args, loop, strict=False))
        return Tracer(self, self._add(Step(fn, at, loop, kind is int, narrow)), kind)

    def _add(self, entry: Input | Literal | Step) -> int:
        if len(self.entries) >= MAX_STEPS:
            raise cannot(f"a function of more than {MAX_STEPS} operations")
        self.entries.append(entry)
        return len(self.entries) - 1

    def finish(self, results: Any) -> tuple[Tape, list[Kind]]:
        """The tape of what the function returned, and the kinds of its results."""
        several = isinstance(results, tuple)
        at, kinds = [], []
        for r in results if several else (results,):
            kind = kind_of(r)
            at.append(r.at if isinstance(r, Tracer) else self.literal(r, dtype_of(kind)))
            kinds.append(kind)
        return Tape(tuple(self.entries), tuple(at), several), kinds


def kind_of(x: Any) -> Kind:
    """The kind of a tracer or number."""
    if isinstance(x, Tracer):
        return x.kind
    if type(x) in RANK:
        return type(x)
    if isinstance(x, np.generic) and x.dtype.kind in "biufc":
        return x.dtype
    if isinstance(x, np.ndarray) and x.ndim == 0 and x.dtype.kind in "biufc":
        return x.dtype
    raise cannot(f"a {type(x).__name__} where numbers are expected")


def recorder_of(*args: Any) -> Recorder:
    return next(a.recorder for a in args if isinstance(a, Tracer))


def by_ufunc(f: np.ufunc, args: tuple[Any, ...]) -> Any:
    """A NumPy function of tracers and numbers, by NumPy's rules."""
    args = tuple(a[()] if isinstance(a, np.ndarray) and a.ndim == 0 else a for a in args)
    kinds = tuple(BOOL if k is bool else k for k in map(kind_of, args))
    if f.signature is not None or UFUNCS.get(f.__name__) is not f:
        raise cannot(f"{f.__name__}")
    negative = f is np.power and isinstance(args[1], int | np.integer) and args[1] < 0
    if negative and dtype_of(kinds[0]).kind in "iub":
        raise cannot("a whole number to a negative power")
    _no_mixed(f.__name__, args)
    loop = f.resolve_dtypes((*kinds, *([None] * f.nout)))
    if any(d.kind not in "biufc" for d in loop):
        raise cannot(f.__name__)
    for a, k, d in zip(args, kinds, loop, strict=False):
        if k is int and isinstance(a, Tracer) and d.kind in "iu" and d != DTYPES[int]:
            raise cannot(f"a whole number of any size as {d}")
    rec = recorder_of(*args)
    if f is np.divmod:
        return by_ufunc(np.floor_divide, args), by_ufunc(np.remainder, args)
    if f.nout > 1:
        raise cannot(f.__name__)
    return rec.step(f.__name__, args, loop, loop[-1])


def _no_mixed(name: str, args: tuple[Any, ...]) -> None:
    """min and max of an int and a float may be either: only with another float they act alike."""
    mixed = any(isinstance(a, Tracer) and a.mixed for a in args)
    floats = any(not (isinstance(a, Tracer) and a.mixed) and dtype_of(kind_of(a)).kind in "fc" for a in args)
    if mixed and not floats and name not in COMPARISONS:
        raise cannot(f"{name} of what may be a whole number or a float (from min or max)")


def binary(name: str, a: Any, b: Any) -> Any:
    """Python's operator on tracers and numbers."""
    try:
        ka, kb = kind_of(a), kind_of(b)
    except Untraceable:
        return NotImplemented
    f = UFUNCS[name]
    if not (ka in RANK and kb in RANK):
        return by_ufunc(f, (a, b))
    _no_mixed(name, (a, b))
    rec = recorder_of(a, b)
    kind = max((ka, kb), key=RANK.__getitem__)
    narrow = {ka, kb} & {int, bool} != set() and kind is float
    if name in COMPARISONS:
        if kind is complex and name not in ("equal", "not_equal"):
            raise cannot("an order of complex numbers")
        d = DTYPES[kind]
        return rec.step(name, (a, b), (d, d, BOOL), bool, narrow or kind is complex)
    if name in WHOLE:
        if kind not in (bool, int):
            raise cannot(f"{name} of {ka.__name__} and {kb.__name__}")
        kind = bool if kind is bool and "shift" not in name else int
    elif name == "divide":
        if kind is complex:
            raise cannot("division of complex numbers")
        narrow = kind is not float
        kind = float
    elif name == "power":
        return _power(rec, a, b, ka, kb)
    elif kind is complex and name in ("floor_divide", "remainder"):
        raise cannot(f"{name} of complex numbers")
    else:
        kind = int if kind is bool else kind
        narrow = False
    d = DTYPES[kind]
    return rec.step(name, (a, b), (d, d, d), kind, narrow if name == "divide" else False)


def _power(rec: Recorder, a: Any, b: Any, ka: Kind, kb: Kind) -> Any:
    """a ** b of Python's numbers."""
    if complex in (ka, kb):
        raise cannot("a power of complex numbers")
    if float not in (ka, kb):
        if isinstance(b, Tracer) or b < 0:
            raise cannot("a whole number to a power that may be negative")
        return _product(a, int(b)) if b else 1
    if not isinstance(b, Tracer) and b == 2 and ka is float:
        return rec.step("square", (a,), (DTYPES[float],) * 2, float)
    return rec.step("power", (a, b), (DTYPES[float],) * 3, float)


def _product(a: Any, n: int) -> Any:
    """a ** n by squaring."""
    if n == 1:
        return +a
    half = _product(a, n // 2)
    return half * half * a if n % 2 else half * half


def unary(name: str, x: Tracer) -> Any:
    """Python's operator on a tracer."""
    if x.kind not in RANK:
        return by_ufunc(UFUNCS[name], (x,))
    _no_mixed(name, (x,))
    kind = int if x.kind is bool else x.kind
    if name == "invert" and kind is not int:
        raise cannot(f"~ of a {kind.__name__}")
    d = DTYPES[kind]
    if name == "absolute" and kind is complex:
        return x.recorder.step(name, (x,), (d, DTYPES[float]), float)
    return x.recorder.step(name, (x,), (d, d), kind)


def where(condition: Any, a: Any, b: Any) -> Any:
    """np.where of scalars."""
    kinds = [kind_of(v) for v in (a, b)]
    _no_mixed("where", (a, b))
    dtype = np.result_type(*(SAMPLES.get(k, k) for k in kinds))
    return recorder_of(condition, a, b).step("where", (condition, a, b), (BOOL, dtype, dtype, dtype), dtype)


def extreme(larger: bool, *args: Any) -> Any:
    """Python's max or min, when tracers are among the arguments."""
    values = list(args[0]) if len(args) == 1 else list(args)
    best = values[0]
    for v in values[1:]:
        if not (isinstance(best, Tracer) or isinstance(v, Tracer)):
            best = (max if larger else min)(best, v)
            continue
        better = v > best if larger else v < best
        ka, kb = kind_of(best), kind_of(v)
        rec = recorder_of(best, v)
        kind = ka
        if ka != kb:
            rec.unsure = True
            kind = np.result_type(*(SAMPLES.get(k, k) for k in (ka, kb)))
            if kind != np.float64:
                raise cannot(f"{'max' if larger else 'min'} of a {_name(ka)} and a {_name(kb)}")
            kind = float if ka in RANK and kb in RANK else kind
        d = dtype_of(kind)
        best = rec.step("where", (better, v, best), (BOOL, d, d, d), kind, narrow=ka != kb)
        best.mixed = ka != kb
    return best


def _name(kind: Kind) -> str:
    return str(getattr(kind, "__name__", kind))


def clip(x: Any, low: Any = None, high: Any = None) -> Any:
    """np.clip of scalars."""
    x = x if low is None else by_ufunc(np.maximum, (x, low))
    return x if high is None else by_ufunc(np.minimum, (x, high))


class Tracer:
    """A number that is not known yet."""

    __slots__ = ("at", "kind", "mixed", "recorder")

    def __init__(self, recorder: Recorder, at: int, kind: Kind) -> None:
        self.recorder, self.at, self.kind, self.mixed = recorder, at, kind, False

    def __array_ufunc__(self, f: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__" or options:
            raise cannot(f"{f.__name__} with options")
        return by_ufunc(f, inputs)

    def __array_function__(self, f: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if f is np.where and len(args) == 3:
            return where(*args)
        if f is np.clip and not set(kwargs) - {"min", "max", "a_min", "a_max"}:
            low, high = kwargs.get("min", kwargs.get("a_min")), kwargs.get("max", kwargs.get("a_max"))
            return clip(*args) if len(args) > 1 else clip(args[0], low, high)
        raise cannot(f"np.{f.__name__}")

    def __neg__(self) -> Any:
        return unary("negative", self)

    def __pos__(self) -> Any:
        return unary("positive", self)

    def __abs__(self) -> Any:
        return unary("absolute", self)

    def __invert__(self) -> Any:
        return unary("invert", self)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self


def _binary(name: str, swapped: bool) -> Any:
    def method(self: Tracer, other: Any) -> Any:
        return binary(name, other, self) if swapped else binary(name, self, other)

    return method


def _refuses(construct: str) -> Any:
    def method(self: Tracer, *args: Any) -> Any:
        raise cannot(construct)

    return method


for _sign, _ufunc in {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "power", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "left_shift", "rshift": "right_shift",
}.items():  # fmt: skip
    setattr(Tracer, f"__{_sign}__", _binary(_ufunc, False))
    setattr(Tracer, f"__r{_sign}__", _binary(_ufunc, True))
for _sign, _ufunc in {
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
}.items():  # fmt: skip
    setattr(Tracer, f"__{_sign}__", _binary(_ufunc, False))
for _special, _construct in {
    "bool": "a branch on a value (if, while, and, or, not, in, chained comparison)",
    "int": "int()", "float": "float()", "complex": "complex()", "index": "use as an index or a count", "hash": "hash()",
    "round": "round()", "floor": "math.floor()", "ceil": "math.ceil()", "trunc": "math.trunc()",
    "str": "use as text", "repr": "use as text", "format": "use as text",
    "iter": "iteration over a number", "getitem": "indexing of a number", "len": "len() of a number",
}.items():  # fmt: skip
    setattr(Tracer, f"__{_special}__", _refuses(_construct))
