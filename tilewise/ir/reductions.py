"""Reductions: the one table of what many values may be reduced by. In: a name. Out: its row, a `Reduction`.

What a part of the values comes to is a *contribution*; two contributions combine to one, and the last one is lowered to
the result. A sum's contributions are sums. A position has two components, the best value and where it is; the spread
about a mean has four. Several components are the fields of a structured dtype: shape and axes of a contribution are
then those of the result, and its itemsize says how many bytes it is.

The laws say which scalar functions may be applied to contributions (Kasen): F(R(a, b)) = R(F(a), F(b)).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import field, fields
from functools import lru_cache
from typing import Any

import numpy as np

from tilewise.ir.scalar import UFUNCS
from tilewise.records import dataclass

ND = np.ndarray[Any, Any]
Kind = np.dtype[Any]

TOGETHER = "together"  # all arguments are contributions at once (the function is linear in the tuple of them)
ONE = "one"  # one argument is contributions, the others are whole
FIRST = "first"  # the first argument is contributions, the others are whole

_IDEMPOTENT = frozenset(
    {np.maximum, np.minimum, np.fmax, np.fmin, np.logical_and, np.logical_or, np.bitwise_and, np.bitwise_or}
)
BRANCH_ROWS = 1 << 12  # lifted at once; a power of two: a branch of the tree of contributions


@dataclass(frozen=True, eq=False)
class Reduction:
    """One row. There is one object for each: identity is equality, and rows of the table are sent by name.

    A row that is not in the table is used and sent like the others (`tw.fold(row, x)`).
    """

    name: str
    symbol: str  # in plans and pictures
    kind: Callable[[Kind], Kind]  # the dtype of contributions, from the dtype of the values
    start: Callable[[Kind], Any]  # the identity, from the dtype of contributions
    lift: Callable[[ND, ND], ND]  # values and their positions, as contributions
    merge: Callable[[ND, ND], ND]  # two arrays of contributions as one
    lower: Callable[[ND], ND]  # contributions as results
    ufunc: np.ufunc | None = None  # NumPy's function of two values, where contributions are values
    associative: bool = True  # parts may be reduced by themselves
    commutative: bool = True  # NumPy reduces several axes at once
    laws: Mapping[str, str] = field(default_factory=dict)  # scalar function -> TOGETHER, ONE or FIRST
    key: Hashable = None  # what a user's reduction is known by; None: a row of the table

    def identity(self, kind: Any) -> Any:
        """The contribution that changes no other, as a NumPy scalar of the dtype `kind` of contributions.

        >>> by_name("bitwise_and").identity("uint8"), by_name("fmax").identity("int8")
        (np.uint8(255), np.int8(-128))
        """
        return _identity(self, np.dtype(kind))

    def neutral(self, kind: Any) -> Any:
        """The identity, where there are other contributions: with it, a sum of negative zeros is one.

        >>> by_name("add").identity("float64"), by_name("add").neutral("float64")
        (np.float64(0.0), np.float64(-0.0))
        """
        found = self.identity(kind)
        return -found if self.name == "add" and found.dtype.kind in "fc" else found

    @property
    def idempotent(self) -> bool:
        """Whether a contribution that counts twice changes nothing.

        >>> by_name("maximum").idempotent, by_name("add").idempotent
        (True, False)
        """
        return self.ufunc in _IDEMPOTENT

    def combine(self, a: ND, b: ND, out: ND | None = None) -> ND:
        """Two arrays of contributions, the first before the second, as one."""
        if self.ufunc is not None:
            return np.asarray(self.ufunc(a, b, out=out))
        made = self.merge(a, b)
        if out is None:
            return made
        out[...] = made
        return out

    def combined(self, parts: Iterable[ND | None], out: ND | None = None) -> ND | None:
        """All contributions as one, by the tree of `Combining`."""
        tree = Combining(self)
        for part in parts:
            tree.add(part)
        return tree.result(out)

    def reduced(self, values: ND, axis: int, start: int = 0) -> ND:
        """The contribution of values along an axis, whose first one is at position `start` of the whole."""
        rows = np.moveaxis(values, axis, 0)
        ahead = (slice(None), *[None] * (rows.ndim - 1))
        tree = Combining(self)
        for low in range(0, len(rows), BRANCH_ROWS):
            part = rows[low : low + BRANCH_ROWS]
            with np.errstate(all="ignore"):
                branch = self.lift(part, np.arange(start + low, start + low + len(part))[ahead])
                while len(branch) > 1:  # neighbours pairwise, as in the tree
                    even = len(branch) // 2 * 2
                    pairs = self.combine(branch[0:even:2], branch[1:even:2])
                    branch = pairs if even == len(branch) else np.concatenate([pairs, branch[even:]])
            tree.add(branch[0])
        found = tree.result()
        return np.full(rows.shape[1:], self.identity(self.kind(values.dtype))) if found is None else np.asarray(found)

    def result_dtype(self, dtype: Kind) -> Kind:
        """The dtype of results, from the dtype of the values."""
        with np.errstate(all="ignore"):
            return np.asarray(self.lower(np.full(1, self.identity(self.kind(dtype))))).dtype

    def __reduce__(self) -> tuple[Any, ...]:
        if self.key is None and _TABLE.get(self.name) is self:
            return (by_name, (self.name,))
        if self.key is None:
            return (Reduction, tuple(getattr(self, f.name) for f in fields(self)))
        assert isinstance(self.merge, _Present)
        return (user_reduction, (self.name, self.key, self.merge.of_values))


@lru_cache(maxsize=1024)
def _identity(row: Reduction, kind: Kind) -> Any:
    return np.asarray(row.start(kind), kind)[()]


class Combining:
    """Contributions that come one after the other, combined by a tree that depends only on their number.

    Neighbours combine pairwise. A run of 2, 4, 8 ... that begins at a multiple of its length is a branch of that tree:
    whoever combines it, and where, the bits are the same. Only as many are kept as the tree is high.
    """

    def __init__(self, by: Reduction) -> None:
        self.by = by
        self._branches: list[tuple[int, ND | None, bool]] = []  # height, contribution, whether it is our own memory

    def add(self, part: ND | None) -> None:
        """One more (None: nothing to contribute)."""
        height, own = 0, False
        while self._branches and self._branches[-1][0] == height:
            part, own = self._joined(part, own, None)
            height += 1
        self._branches.append((height, part, own))

    def result(self, out: ND | None = None) -> ND | None:
        """All of them as one, in `out` if that is given. None if there is nothing."""
        if not self._branches:
            return None
        _, part, own = self._branches.pop()
        while self._branches:
            part, own = self._joined(part, own, None if len(self._branches) > 1 else out)
        if part is not None and out is not None and part is not out:
            out[...] = part
            return out
        return part

    def _joined(self, part: ND | None, own: bool, out: ND | None) -> tuple[ND | None, bool]:
        """The last branch, and what comes after it."""
        _, before, ours = self._branches.pop()
        if before is None or part is None:
            return (part, own) if before is None else (before, ours)
        target = out if out is not None else before if ours else part if own else None
        with np.errstate(all="ignore"):  # recorded work raises no warnings
            return self.by.combine(before, part, target), True


# -- identities --------------------------------------------------------------------------------------------------------


def _number(value: int) -> Callable[[Kind], Any]:
    """A number; of times only 0, and of dates none."""
    return lambda kind: value if kind.kind in ("biufc" if value else "biufcm") else _missing(kind)


def _nothing(kind: Kind) -> Any:
    """What a sum with leaves every number as it is, its sign included."""
    return complex(-0.0, -0.0) if kind.kind == "c" else -0.0 if kind.kind == "f" else 0


def _bits(all_ones: bool) -> Callable[[Kind], Any]:
    """The same bit in all places."""
    return lambda kind: np.array(-all_ones).astype(kind) if kind.kind in "iub" else _missing(kind)


def _least(kind: Kind) -> Any:
    """What is below every value (or equal to it), so that it never is the greatest."""
    match kind.kind:
        case "f":
            return -np.inf
        case "c":
            return complex(-np.inf, -np.inf)  # by real, then by imaginary parts
        case "b":
            return False
        case "i" | "u":
            return np.iinfo(kind).min
        case "m" | "M":
            return np.array(np.iinfo(np.int64).min + 1).view(kind)  # the lowest number is NaT
    return _missing(kind)


def _greatest(kind: Kind) -> Any:
    """What is above every value (or equal to it)."""
    match kind.kind:
        case "f":
            return np.inf
        case "c":
            return complex(np.inf, np.inf)
        case "b":
            return True
        case "i" | "u":
            return np.iinfo(kind).max
        case "m" | "M":
            return np.array(np.iinfo(np.int64).max).view(kind)
    return _missing(kind)


def _skipped(other: Callable[[Kind], Any]) -> Callable[[Kind], Any]:
    """What fmin and fmax skip: NaN, where there is one. (Nothing but NaN must stay NaN, so infinity will not do.)"""

    def start(kind: Kind) -> Any:
        if kind.kind == "c":
            return complex(np.nan, np.nan)
        if kind.kind in "mM":
            return np.array("NaT", kind)
        return np.nan if kind.kind == "f" else other(kind)

    return start


def _missing(kind: Kind) -> Any:
    raise TypeError(f"the reduction has no identity among values of dtype {kind}")


# -- rows of one component: NumPy's functions of two values ------------------------------------------------------------


def _same(x: Any, *positions: Any) -> Any:
    return x


def _itself(kind: Kind) -> Kind:
    return kind


def _row(
    name: str, symbol: str, start: Callable[[Kind], Any], laws: Mapping[str, str] | None = None, **options: Any
) -> Reduction:
    ufunc = UFUNCS[name]
    return Reduction(name, symbol, _itself, start, _same, ufunc, _same, ufunc, laws=laws or {}, **options)


def _truth(name: str, symbol: str, start: int, laws: Mapping[str, str] | None = None) -> Reduction:
    """A row whose contributions are booleans, whatever the values."""
    ufunc = UFUNCS[name]
    bools = np.dtype(np.bool_)
    return Reduction(
        name,
        symbol,
        lambda kind: bools,
        _number(start),
        lambda x, at: x.astype(bools),
        ufunc,
        _same,
        ufunc,
        laws=laws or {},
    )


# -- rows of several components ----------------------------------------------------------------------------------------

POSITION = np.dtype(np.intp)
NOWHERE = np.iinfo(POSITION).max  # after every position


def _positioned(kind: Kind) -> Kind:
    return np.dtype([("value", kind), ("position", POSITION)])


def _position(name: str, start: Callable[[Kind], Any], better: Callable[[ND, ND], ND]) -> Reduction:
    """Where the best value is: of equal ones the first, and a NaN is better than every number."""

    def lift(x: ND, at: ND) -> ND:
        out = np.empty(x.shape, _positioned(x.dtype))
        out["value"], out["position"] = x, at
        return out

    def merge(a: ND, b: ND) -> ND:
        old, new = a["value"], b["value"]
        missing, found = old != old, new != new
        wins = (better(new, old) & ~missing) | (found & ~missing)
        tied = (old == new) | (missing & found)
        return np.where(wins | (tied & (b["position"] < a["position"])), b, a)

    return Reduction(
        name,
        name,
        _positioned,
        lambda kind: (start(kind["value"]), NOWHERE),
        lift,
        merge,
        lambda x: x["position"],
    )


def _spread(kind: Kind) -> Kind:
    mean = np.complex128 if kind.kind == "c" else np.float64
    return np.dtype([("count", np.int64), ("mean", mean), ("low", mean), ("squares", np.float64)])


def _spread_lift(x: ND, at: ND) -> ND:
    out = np.empty(x.shape, _spread(x.dtype))
    with np.errstate(all="ignore"):
        # NaN about a mean that is not finite
        out["count"], out["mean"], out["low"], out["squares"] = 1, x, 0, (x * 0).real
    return out


def two_sum(a: ND, b: ND) -> tuple[ND, ND]:
    """The sum, rounded, and what was rounded away (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _spread_merge(a: ND, b: ND) -> ND:
    """Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979.

    Means are sums of two numbers: the difference of two that are large beside what it is would lose all digits.
    """
    out: ND = np.empty(np.broadcast_shapes(a.shape, b.shape), a.dtype)
    count = out["count"] = a["count"] + b["count"]
    with np.errstate(all="ignore"):
        share = b["count"] / count
        delta = (b["mean"] - a["mean"]) + (b["low"] - a["low"])
        mean, low = two_sum(a["mean"], a["low"] + delta * share)
        sure = np.isfinite(mean)
        out["mean"] = np.where(sure, mean, a["mean"] * (a["count"] / count) + b["mean"] * share)
        out["low"] = np.where(sure, low, 0)
        within = a["squares"] + b["squares"]
        squares = within + (delta * delta.conj()).real * (a["count"] * share)
        out["squares"] = np.where(np.isinf(within), within, squares)  # what overflows stays so
    # A contribution of nothing leaves the other as it is, if that is not finite, too.
    return np.where(b["count"] == 0, a, np.where(a["count"] == 0, b, out))


def _rows() -> dict[str, Reduction]:
    flips = {"negative": TOGETHER, "positive": TOGETHER}
    sums = {"add": TOGETHER, "subtract": TOGETHER, **flips, "multiply": ONE, "divide": FIRST}
    counts = np.dtype(np.intp)
    rows = [
        _row("add", "sum", _number(0), sums),
        _row("multiply", "product", _number(1), {"multiply": TOGETHER, "positive": TOGETHER}),
        _row("minimum", "min", _greatest, {"minimum": TOGETHER, "positive": TOGETHER}),
        _row("maximum", "max", _least, {"maximum": TOGETHER, "positive": TOGETHER}),
        _row("fmin", "fmin", _skipped(_greatest)),
        _row("fmax", "fmax", _skipped(_least)),
        _truth("logical_or", "any", 0, {"logical_or": TOGETHER}),
        _truth("logical_and", "all", 1, {"logical_and": TOGETHER}),
        _truth("logical_xor", "logical_xor", 0),
        _row("bitwise_and", "bitwise_and", _bits(True), {"bitwise_and": TOGETHER}),
        _row("bitwise_or", "bitwise_or", _bits(False), {"bitwise_or": TOGETHER}),
        _row("bitwise_xor", "bitwise_xor", _bits(False), {"bitwise_xor": TOGETHER}),
        # One value alone keeps its sign in NumPy, and is changed by an identity: parts are not reduced by themselves.
        _row("gcd", "gcd", _number(0), associative=False),
        _row("lcm", "lcm", _number(1), associative=False, commutative=False),
        _row("hypot", "hypot", _number(0), associative=False, commutative=False),
        _row("logaddexp", "logaddexp", lambda kind: -np.inf, associative=False, commutative=False),
        _position("argmin", _greatest, np.less),
        _position("argmax", _least, np.greater),
        # An element is one block's, the others contribute -0.0 (with zero, -0.0 would lose its sign). Functions that
        # change signs would make +0.0 of that, so that there are no laws; a sum adds these up with the rest.
        Reduction("placed", "parts", _itself, _nothing, _same, np.add, _same, np.add),
        Reduction(
            "count", "count", lambda kind: counts, _number(0), lambda x, at: (x != 0).astype(counts), np.add, _same,
            np.add,
        ),
        Reduction(
            "moments", "moments", _spread, lambda kind: (0, 0, 0, 0), _spread_lift, _spread_merge,
            lambda x: x["squares"],
        ),
    ]  # fmt: skip
    return {row.name: row for row in rows}


_TABLE = _rows()


def by_name(name: str) -> Reduction:
    """The row of a reduction."""
    return _TABLE[name]


def every() -> tuple[Reduction, ...]:
    """All rows."""
    return tuple(_TABLE.values())


def splits(name: str) -> bool:
    """Whether parts of the values may be reduced by themselves, by the ufunc of this name."""
    row = _TABLE.get(name)
    return row is not None and row.ufunc is not None and row.associative and row.ufunc.__name__ == name


SPLITTING = frozenset(filter(splits, _TABLE))  # the names of such ufuncs


def _laws() -> dict[str, dict[Reduction, str]]:
    found: dict[str, dict[Reduction, str]] = {}
    for row in _TABLE.values():
        for fn, how in row.laws.items():
            found.setdefault(fn, {})[row] = how
    return found


LAWS = _laws()  # scalar function -> reduction -> which arguments may be contributions of it


# -- a user's own ------------------------------------------------------------------------------------------------------

_users: weakref.WeakValueDictionary[Hashable, Reduction] = weakref.WeakValueDictionary()


def user_reduction(name: str, key: Hashable, merge: Callable[[ND, ND], ND]) -> Reduction:
    """The reduction by a user's function of two arrays of values. It need not have an identity, nor be commutative.

    Contributions say whether they are there: what is not changes nothing. Equal keys are one reduction.
    """
    found = _users.get(key)
    if found is None:
        found = Reduction(
            name,
            name,
            lambda kind: np.dtype([("there", np.bool_), ("value", kind)]),
            lambda kind: np.zeros((), kind),
            lambda x, at: _there(x),
            _Present(merge),
            lambda x: x["value"],
            commutative=False,
            key=key,
        )
        _users[key] = found
    return found


def _there(values: ND) -> ND:
    out = np.empty(values.shape, np.dtype([("there", np.bool_), ("value", values.dtype)]))
    out["there"], out["value"] = True, values
    return out


@dataclass(frozen=True)
class _Present:
    """Two contributions that may not be there."""

    of_values: Callable[[ND, ND], ND]

    def __call__(self, a: ND, b: ND) -> ND:
        both = a["there"] & b["there"]
        if both.all():
            return _there(np.asarray(self.of_values(a["value"], b["value"])))
        out = np.where(a["there"], a, b)
        if both.any():
            out["value"][both] = self.of_values(a["value"][both], b["value"][both])
        return out
