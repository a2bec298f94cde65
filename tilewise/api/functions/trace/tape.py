"""A scalar function as straight-line code. In: a tape of scalar_tracer.py. Out: nodes, or arrays at once.

`fits` answers for Python's whole numbers, which have no size: are they the same in 64 bits?
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewise.ir.node import Node
from tilewise.ir.scalar import scalar
from tilewise.ops.const import const
from tilewise.ops.elementwise import apply, cast
from tilewise.records import dataclass

DTypes = tuple[np.dtype[Any], ...]
Interval = tuple[int, int]
WIDE: Interval = (-(2**63), 2**63 - 1)
EXACT = 2**53  # up to here, whole numbers are exact as float64


@dataclass(frozen=True)
class Input:
    """An argument, as a value of `dtype`; `whole`: a Python int."""

    which: int
    dtype: np.dtype[Any]
    whole: bool


@dataclass(frozen=True)
class Literal:
    """A number."""

    value: Any


@dataclass(frozen=True)
class Step:
    """A scalar function of earlier values. `whole`: of Python ints, giving one; `narrow`: its ints become floats."""

    fn: str
    args: tuple[int, ...]
    loop: DTypes  # of the arguments, then the result
    whole: bool = False
    narrow: bool = False


@dataclass(frozen=True)
class Tape:
    """Values in order, and which of them are the results."""

    entries: tuple[Input | Literal | Step, ...]
    results: tuple[int, ...]
    several: bool  # the function gives a tuple

    @property
    def dtypes(self) -> DTypes:
        """The dtypes of the results."""
        return tuple(_dtype(self.entries[r]) for r in self.results)

    @property
    def asks(self) -> frozenset[int]:
        """The arguments whose least and greatest values matter."""
        return frozenset(e.which for e in self.entries if isinstance(e, Input) and e.whole)

    def nodes(self, inputs: Sequence[Node]) -> list[Node]:
        """The results as nodes of the graph."""
        made: list[Node] = []
        for e in self.entries:
            match e:
                case Input():
                    made.append(cast(inputs[e.which], e.dtype))
                case Literal():
                    made.append(const(e.value))
                case Step(fn="cast"):
                    made.append(cast(made[e.args[0]], e.loop[-1]))
                case Step():
                    args = tuple(cast(made[a], d) for a, d in zip(e.args, e.loop, strict=False))
                    made.append(apply(e.fn, args, e.loop))
        return [made[r] for r in self.results]

    def arrays(self, inputs: Sequence[Any]) -> list[Any]:
        """The results of ndarrays, by NumPy."""
        made: list[Any] = []
        with np.errstate(all="ignore"):
            for e in self.entries:
                match e:
                    case Input():
                        made.append(np.asarray(inputs[e.which]).astype(e.dtype, copy=False))
                    case Literal():
                        made.append(np.asarray(e.value))
                    case Step(fn="cast"):
                        made.append(np.asarray(made[e.args[0]]).astype(e.loop[-1]))
                    case Step():
                        args = [np.asarray(made[a]).astype(d, copy=False) for a, d in zip(e.args, e.loop, strict=False)]
                        call = _power if e.fn == "power" else scalar(e.fn).call
                        made.append(np.asarray(call(*args)).astype(e.loop[-1], copy=False))
        return [made[r] for r in self.results]

    def fits(self, bounds: Sequence[Interval | None], targets: DTypes) -> bool:
        """Whether whole numbers stay within 64 bits, exact where they become floats, and fit `targets` as results."""
        known: list[Interval | None] = []
        for e in self.entries:
            match e:
                case Input():
                    found = bounds[e.which] if e.whole else limits(e.dtype)
                    if e.whole and (found is None or not _inside(found, WIDE)):
                        return False
                case Literal():
                    v = e.value
                    found = (int(v), int(v)) if v.dtype.kind in "iub" else None
                case Step():
                    args = [known[a] for a in e.args]
                    if e.narrow and any(a is not None and not _inside(a, (-EXACT, EXACT)) for a in args):
                        return False
                    found = limits(e.loop[-1])
                    if e.whole:
                        found = _span(e.fn, args)
                        if found is None or not _inside(found, WIDE):
                            return False
            known.append(found)
        for r, d in zip(self.results, targets, strict=True):
            span, room = known[r], limits(d)
            if span is not None and room is not None and not _inside(span, room):
                return False
        return True


def _power(a: Any, b: Any) -> Any:
    """a ** b of each element: for one exponent of 0.5 NumPy takes roots, which are others of -0.0 and -inf."""
    if b.ndim or b != 0.5:
        return np.power(a, b)
    return np.power(a.reshape(-1), np.full(a.size, b)).reshape(a.shape)


def _dtype(e: Input | Literal | Step) -> np.dtype[Any]:
    if isinstance(e, Step):
        return e.loop[-1]
    return e.dtype if isinstance(e, Input) else e.value.dtype


def limits(dtype: np.dtype[Any]) -> Interval | None:
    """The least and greatest number of a dtype; None if it is not whole."""
    if dtype.kind == "b":
        return 0, 1
    if dtype.kind not in "iu":
        return None
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def _inside(a: Interval, b: Interval) -> bool:
    return b[0] <= a[0] and a[1] <= b[1]


def _span(fn: str, args: Sequence[Interval | None]) -> Interval | None:
    """Where a result lies, given where the arguments do; None if that is not known (or dividing by zero)."""
    if any(a is None for a in args[-2:]):
        return None
    spans = [a for a in args if a is not None]
    match fn:
        case "where":
            (a, b), (c, d) = spans[-2:]
            return min(a, c), max(b, d)
        case "negative":
            return -spans[0][1], -spans[0][0]
        case "positive" | "cast":
            return spans[0]
        case "absolute":
            a, b = spans[0]
            return (0 if a <= 0 <= b else min(abs(a), abs(b))), max(abs(a), abs(b))
        case "invert":
            return ~spans[0][1], ~spans[0][0]
    (a, b), (c, d) = spans
    match fn:
        case "add":
            return a + c, b + d
        case "subtract":
            return a - d, b - c
        case "multiply":
            return _corners(lambda x, y: x * y, a, b, c, d)
        case "floor_divide" if not c <= 0 <= d:
            return _corners(lambda x, y: x // y, a, b, c, d)
        case "remainder" if not c <= 0 <= d:
            return (0, d - 1) if c > 0 else (c + 1, 0)
        case "left_shift" if c >= 0 and d < 64:
            return _corners(lambda x, y: x << y, a, b, c, d)
        case "right_shift" if c >= 0 and d < 64:
            return _corners(lambda x, y: x >> y, a, b, c, d)
        case "bitwise_and" | "bitwise_or" | "bitwise_xor":
            bits = max(v.bit_length() for v in (a, b, c, d))
            return (-(1 << bits) if min(a, c) < 0 else 0), (1 << bits) - 1
    return None


def _corners(f: Any, a: int, b: int, c: int, d: int) -> Interval:
    found = [f(x, y) for x in (a, b) for y in (c, d)]
    return min(found), max(found)


@functools.lru_cache(maxsize=64)
def whole_limits(dtypes: DTypes) -> tuple[Interval | None, ...]:
    """The bounds of arguments of these dtypes, as far as dtypes tell."""
    return tuple(limits(d) for d in dtypes)
