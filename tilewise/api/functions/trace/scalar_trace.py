"""Tracing a Python function of numbers. In: the function, the kinds of its arguments. Out: a `Tape`, kept by key.

The function runs once on tracers, in a copy whose `math`, `min` and `max` know them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

from tilewise.api.functions.purity import Untraceable, function_key, library, plain
from tilewise.api.functions.trace.captured_arrays import Captured, line_of
from tilewise.api.functions.trace.scalar_tracer import (
    BOOL,
    DTYPES,
    Kind,
    Recorder,
    Tracer,
    cannot,
    dtype_of,
    extreme,
    kind_of,
    recorder_of,
)
from tilewise.api.functions.trace.tape import Tape
from tilewise.ir.scalar import scalar

MAX_TAPES = 1024

# math's functions, by the name of NumPy's (or SciPy's) that computes the same.
MATH = {
    n: n for n in "sin cos tan sinh cosh tanh exp exp2 expm1 log2 log10 log1p sqrt cbrt hypot copysign fmod".split()
}
MATH |= {f"a{n}": f"arc{n}" for n in "sin cos tan sinh cosh tanh".split()}
MATH |= {"atan2": "arctan2", "pow": "power", "fabs": "absolute", "degrees": "degrees", "radians": "radians"}
MATH |= {"erf": "erf", "erfc": "erfc", "log": "log"}
PREDICATES = frozenset(("isnan", "isinf", "isfinite"))
FLOAT = DTYPES[float]


def of_math(name: str) -> Callable[..., Any]:
    """A function of math's that also takes tracers."""
    real = getattr(math, name)

    def call(*args: Any, **options: Any) -> Any:
        if options or not any(isinstance(a, Tracer) for a in args):
            return real(*args, **options)
        row = name if name in PREDICATES else MATH.get(name)
        if row is None or any(dtype_of(kind_of(a)).kind not in "biuf" for a in args):
            raise cannot(f"math.{name}()")
        if name == "log" and len(args) == 2:
            return call(args[0]) / call(args[1])
        try:
            nin = scalar(row).nin
        except ImportError:
            raise cannot(f"math.{name}() without SciPy") from None
        if len(args) != nin:
            raise cannot(f"math.{name}() of {len(args)} arguments")
        out, kind = (BOOL, bool) if name in PREDICATES else (FLOAT, float)
        return recorder_of(*args).step(row, args, (FLOAT,) * nin + (out,), kind)

    return call


class Mathematics:
    """The module math, for tracers."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(math, name)
        return of_math(name) if callable(value) else value


def _extreme(larger: bool) -> Callable[..., Any]:
    real = max if larger else min

    def call(*args: Any, **options: Any) -> Any:
        values = args[0] if len(args) == 1 and isinstance(args[0], tuple | list) else args
        if not any(isinstance(v, Tracer) for v in values):
            return real(*args, **options)
        if options:
            raise cannot(f"{real.__name__}() with options")
        return extreme(larger, *values)

    return call


def _no_isinstance(*args: Any) -> Any:
    raise cannot("isinstance()")


STANDINS: dict[Any, Any] = {max: _extreme(True), min: _extreme(False), isinstance: _no_isinstance}


class Lifted(Captured):
    """What stands for values while a function of numbers is traced."""

    def of(self, value: Any) -> Any:
        """Of math, min and max what takes tracers."""
        if value is math:
            return Mathematics()
        if getattr(value, "__module__", None) == "math" and hasattr(math, value.__name__):
            return of_math(value.__name__)
        try:
            return STANDINS[value]
        except (KeyError, TypeError):
            return super().of(value)


class Traced(NamedTuple):
    """A tape, the kinds of its results, and whether those are sure (or depend on values)."""

    tape: Tape
    kinds: tuple[Kind, ...]
    sure: bool


_tapes: dict[Hashable, Traced | Untraceable] = {}


def key_of(f: Any) -> Hashable:
    """A key for any callable that may be traced: code and values, or the object itself. Raises Untraceable."""
    found = plain(f)
    if found is not None:
        return function_key(found)
    if library(f):
        return ("object", f)
    raise Untraceable(f"a {type(f).__name__} (not a plain function)", pure=False)


def own_key(f: Any, run: Any) -> Hashable:
    """A key of code and values; of a function that may depend on more, one for this call only (it keeps `run`)."""
    try:
        return key_of(f)
    except Untraceable:
        return ("only", id(run))


def traced(f: Any, kinds: Sequence[Kind], key: Hashable = None) -> Traced:
    """The tape of a function of numbers of these kinds. Raises Untraceable."""
    key = (key_of(f) if key is None else key, *kinds)
    found = _tapes.get(key)
    if found is None:
        try:
            found = _trace(f, kinds)
        except Untraceable as error:
            found = Untraceable(error.construct, error.where, error.pure)  # without the frames it came through
        if len(_tapes) >= MAX_TAPES:
            _tapes.clear()
        _tapes[key] = found
    if isinstance(found, Untraceable):
        raise Untraceable(found.construct, found.where, found.pure)
    return found


def _trace(f: Any, kinds: Sequence[Kind]) -> Traced:
    recorder, others = Recorder(), Lifted()
    args = [recorder.input(i, k) for i, k in enumerate(kinds)]
    try:
        with others.unwritten():
            tape, results = recorder.finish(others.of(f)(*args))
    except Untraceable:
        raise
    except Exception as error:
        where = line_of(error)
        raise Untraceable(f"what raises {type(error).__name__} ({error}) on a traced value", where) from None
    return Traced(tape, tuple(results), not recorder.unsure)
