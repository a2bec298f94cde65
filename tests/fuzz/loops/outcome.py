"""What a call leaves, and what differs between two. In: a function and arguments. Out: an Outcome; a difference or "".

Looked at: the result with its types and dtypes, the arguments afterwards, whether the result is an argument or shares
memory with one, and of an exception the class, the message and the line of the generated source.
"""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import numpy as np

import tilewise as tw

MOST_LINES = 20_000  # of a run: more is a runaway
MOST_BITS = 4_000  # of a Python int
LOOSE = 1e-9  # relative error of `r…` results, whose sums have no order, and of complex numbers


class Runaway(BaseException):
    """A function that runs too long, or makes numbers that are too large."""


@dataclass(frozen=True)
class Outcome:
    """Everything that can be seen after a call."""

    result: Any = None
    error: str = ""  # class and message
    line: int = 0
    args: tuple[Any, ...] = ()
    same: tuple[Any, ...] = field(
        default=()
    )  # for each part of the result, which argument it is, or shares memory with
    told: frozenset[str] = frozenset()  # what NumPy warned of

    def __str__(self) -> str:
        return f"{self.error} at line {self.line}" if self.error else repr(self.result)


def parts_of(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def known(value: Any) -> Any:
    """A value without Tilewise's classes: its arrays are NumPy's, its 0-d ones NumPy's numbers."""
    if isinstance(value, tuple):
        return tuple(map(known, value))
    if isinstance(value, list):
        return list(map(known, value))
    if isinstance(value, tw.ndarray) and not isinstance(value, np.ndarray):
        found = np.asarray(value)
        return found if found.ndim else found[()]
    if isinstance(value, np.generic) and type(value).__module__ != "numpy":
        return value.dtype.type(value)
    return value


def run(function: Callable[..., Any], args: Sequence[Any], traced: bool = False) -> Outcome:
    """Call a function; `traced`: end runaways (then it must be plain Python)."""
    with warnings.catch_warnings(record=True) as told, np.errstate(all="ignore", invalid="warn"):
        warnings.simplefilter("always")
        try:
            result = ended(function, args) if traced else function(*args)
        except Exception as error:
            frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith("<loops")]
            line = frames[-1].lineno or 0 if frames else 0
            return Outcome(None, f"{type(error).__name__}: {error}", line, _copies(args), (), _texts(told))
    same = tuple(_relation(part, args) for part in parts_of(result))
    kept = _copies([known(result)])[0]
    return Outcome(kept, "", 0, _copies(args), same, _texts(told))


def _texts(told: list[warnings.WarningMessage]) -> frozenset[str]:
    return frozenset(str(w.message) for w in told)


def _copies(values: Sequence[Any]) -> tuple[Any, ...]:
    def one(value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return type(value)(map(one, value))
        return value.copy() if isinstance(value, np.ndarray) else value

    return tuple(map(one, values))


def _relation(part: Any, args: Sequence[Any]) -> str:
    """Which argument this is, or whether it shares memory with one."""
    for k, arg in enumerate(args):
        if part is arg and isinstance(arg, np.ndarray):
            return f"argument {k}"
    shared = isinstance(part, np.ndarray) and any(isinstance(a, np.ndarray) and np.shares_memory(part, a) for a in args)
    return "shares memory" if shared else ""


def ended(function: Callable[..., Any], args: Sequence[Any]) -> Any:
    """Call plain Python; raises Runaway."""
    count = 0

    def watch(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if not frame.f_code.co_filename.startswith("<loops"):
            return None
        if event == "line":
            count += 1
            large = any(type(v) is int and v.bit_length() > MOST_BITS for v in frame.f_locals.values())
            if count > MOST_LINES or large:
                raise Runaway
        return watch

    before = sys.gettrace()
    sys.settrace(watch)
    try:
        return function(*args)
    finally:
        sys.settrace(before)


def same_value(got: Any, want: Any, loose: bool) -> str:
    """What differs between two values, in types, dtypes, shapes or bits."""
    if isinstance(want, (tuple, list)):
        if type(got) is not type(want) or len(got) != len(want):
            return f"{got!r}, not {want!r}"
        texts = (same_value(g, w, loose) for g, w in zip(got, want, strict=True))
        return next((text for text in texts if text), "")
    if type(got) is not type(want):
        return f"{type(got).__name__} {got!r}, not {type(want).__name__} {want!r}"
    if not isinstance(want, (np.ndarray, np.generic, float, complex)):
        return "" if got == want else f"{got!r}, not {want!r}"
    x, y = np.asarray(got), np.asarray(want)
    if (x.dtype, x.shape) != (y.dtype, y.shape):
        return f"{x.dtype}{x.shape}, not {y.dtype}{y.shape}"
    return "" if _near(x, y, loose).all() else f"{got!r}, not {want!r}"


def _near(x: Any, y: Any, loose: bool) -> Any:
    if y.dtype.kind == "c":  # NumPy itself rounds products in two ways, with and without fused multiply-add
        return np.isclose(x, y, rtol=LOOSE, atol=LOOSE) | (~np.isfinite(x) & ~np.isfinite(y))
    if y.dtype.kind != "f":
        return np.asarray(x == y)
    if loose:
        scale = LOOSE if y.dtype.itemsize == 8 else 1e-3
        return np.isclose(x, y, rtol=scale, atol=scale, equal_nan=True)
    return ((x == y) & (np.signbit(x) == np.signbit(y))) | (np.isnan(x) & np.isnan(y))


def difference(got: Outcome, want: Outcome, loose: bool = False) -> tuple[str, str]:
    """The kind of a difference and a text; two empty texts if there is none."""
    if got.error or want.error:
        if got.error != want.error:
            kind = "exception" if want.error and got.error else "raises" if got.error else "does not raise"
            return kind, f"{got}, not {want}"
        if got.line != want.line:
            return "line", f"{got.error} at line {got.line}, not {want.line}"
    else:
        if text := same_value(got.result, want.result, loose):
            return "result", text
        if got.same != want.same:
            return "memory", f"parts of the result are {got.same}, not {want.same}"
    for k, (x, y) in enumerate(zip(got.args, want.args, strict=True)):
        if text := same_value(x, y, loose):
            return "arguments", f"argument {k} is {text}" + (f" after {want.error}" if want.error else "")
    return "", ""
