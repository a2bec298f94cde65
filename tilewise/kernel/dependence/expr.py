"""Integer expressions over loop indices. In: constants, indices, operators.

Out: `Expr`: form, bounds, values at points.

An expression is affine (a constant and integer multiples of indices), or computed: then it has bounds and can be
evaluated, which is what the inspector does (inspect.py). Indices are normalised: they count 0, 1, 2, ... up to an
extent that may itself be an expression over outer indices. No memory is accessed here, apart from tables given as
such.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Points = Mapping["Index", Any]  # a value, or an array of values, for each index
Bound = int | float  # the floats are infinities
LARGEST = 1 << 62  # values beyond this are not computed with NumPy's integers


class Undecided(Exception):
    """An expression has no value that can be computed here: out of a table, a division by zero, too large."""


@dataclass(frozen=True, eq=False)
class Index:
    """A loop that counts 0, 1, ... extent - 1. Two loops are never equal, whatever their names."""

    name: str
    extent: Expr

    @property
    def last(self) -> Bound:
        """The largest value it can have; below 0 for a loop that never runs."""
        return self.extent.hi - 1


@dataclass(eq=False, slots=True)  # never changed; "frozen" would make it three times as slow to create
class Expr:
    """A value that depends on loop indices only: `const` plus `terms` where it is affine, else `function`."""

    terms: tuple[tuple[Index, int], ...]
    const: int
    lo: Bound
    hi: Bound
    function: Callable[[Points], Any] | None = None
    inner: frozenset[Index] = frozenset()  # indices of a computed expression
    integer: bool = True
    same: Any = None  # computed expressions with equal keys are equal

    @property
    def affine(self) -> bool:
        """Whether the form is known."""
        return self.function is None

    @property
    def constant(self) -> bool:
        """Whether no index is in it."""
        return self.affine and not self.terms

    @property
    def indices(self) -> frozenset[Index]:
        """All indices it depends on."""
        return frozenset(index for index, _ in self.terms) if self.affine else self.inner

    def slope(self, index: Index) -> int:
        """The coefficient of an index."""
        for at, c in self.terms:
            if at is index:
                return c
        return 0

    def at(self, points: Points) -> Any:
        """The value at points; raises `Undecided`.

        >>> n = Index("i", constant(4))
        >>> (var(n) * 3 + 1).at({n: np.arange(4)})
        array([ 1,  4,  7, 10])
        """
        if self.function is not None:
            return self.function(points)
        if max(abs(self.lo), abs(self.hi)) > LARGEST:
            raise Undecided
        total: Any = self.const
        for index, slope in self.terms:
            total = total + slope * points[index]
        return total

    def evaluates(self) -> bool:
        """Whether it has a value, as far as can be said without points."""
        if self.indices or self.function is None:
            return True
        try:
            self.function({})
        except Undecided:
            return False
        return True

    def key(self) -> Any:
        """Equal for expressions that are known to be equal."""
        if self.affine:
            return (self.const, tuple(sorted((id(index), slope) for index, slope in self.terms)))
        return self.same if self.same is not None else id(self)

    def __add__(self, other: Expr | int) -> Expr:
        return add(self, lift(other))

    def __sub__(self, other: Expr | int) -> Expr:
        return add(self, scale(lift(other), -1))

    def __mul__(self, factor: int) -> Expr:
        return scale(self, factor)


def constant(value: int) -> Expr:
    """A number."""
    return Expr((), int(value), int(value), int(value))


def lift(value: Expr | int) -> Expr:
    """An expression of either."""
    return value if isinstance(value, Expr) else constant(value)


def var(index: Index) -> Expr:
    """The index itself."""
    return Expr(((index, 1),), 0, 0, max(index.last, 0))


def _times(a: Bound, b: Bound) -> Bound:
    return 0 if a == 0 or b == 0 else a * b


def _affine(terms: Mapping[Index, int], const: int) -> Expr:
    kept = tuple((index, slope) for index, slope in terms.items() if slope)
    lo: Bound = const
    hi: Bound = const
    for index, slope in kept:
        far = _times(slope, max(index.last, 0))
        lo, hi = lo + min(0, far), hi + max(0, far)
    return Expr(kept, const, lo, hi)


def add(a: Expr, b: Expr) -> Expr:
    """The sum.

    >>> i = Index("i", constant(10))
    >>> e = add(var(i), constant(5)); (e.lo, e.hi, e.affine)
    (5, 14, True)
    """
    if a.affine and b.affine:
        terms = dict(a.terms)
        for index, slope in b.terms:
            terms[index] = terms.get(index, 0) + slope
        return _affine(terms, a.const + b.const)
    return computed(lambda x, y: x + y, (a, b), (a.lo + b.lo, a.hi + b.hi), "+")


def scale(a: Expr, factor: int) -> Expr:
    """A multiple."""
    if a.affine:
        return _affine({index: slope * factor for index, slope in a.terms}, a.const * factor)
    ends = sorted((_times(a.lo, factor), _times(a.hi, factor)))
    return computed(lambda x: x * factor, (a,), (ends[0], ends[1]), ("*", factor))


def multiply(a: Expr, b: Expr) -> Expr:
    """The product: affine where one factor is constant."""
    if b.constant:
        return scale(a, b.const)
    if a.constant:
        return scale(b, a.const)
    ends = [_times(x, y) for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
    return computed(lambda x, y: x * y, (a, b), (min(ends), max(ends)), "**")


def _divisor(y: Any) -> Any:
    if np.any(np.asarray(y) == 0):
        raise Undecided
    return y


def _floor(value: Bound, divisor: int) -> Bound:
    return value if isinstance(value, float) else value // divisor


def floor_divide(a: Expr, b: Expr) -> Expr:
    """Python's `//`.

    >>> i = Index("i", constant(10))
    >>> e = floor_divide(var(i), constant(3)); (e.lo, e.hi, e.affine)
    (0, 3, False)
    """
    if b.constant and b.const > 0:
        d = b.const
        if a.affine and all(slope % d == 0 for _, slope in a.terms):
            return _affine({index: slope // d for index, slope in a.terms}, a.const // d)
        return computed(lambda x: x // d, (a,), (_floor(a.lo, d), _floor(a.hi, d)), ("//", d))
    most = max(abs(a.lo), abs(a.hi)) + 1
    return computed(lambda x, y: x // _divisor(y), (a, b), (-most, most), "//")


def remainder(a: Expr, b: Expr) -> Expr:
    """Python's `%`: the sign of the divisor."""
    if b.constant and b.const > 0:
        d = b.const
        if a.lo >= 0 and a.hi < d:
            return a
        if a.affine and all(slope % d == 0 for _, slope in a.terms):
            return constant(a.const % d)
        return computed(lambda x: x % d, (a,), (0, d - 1), ("%", d))
    most = max(abs(b.lo), abs(b.hi))
    return computed(lambda x, y: x % _divisor(y), (a, b), (-most, most), "%")


def least(a: Expr, b: Expr) -> Expr:
    """The smaller one."""
    if a.hi <= b.lo:
        return a
    if b.hi <= a.lo:
        return b
    return computed(np.minimum, (a, b), (min(a.lo, b.lo), min(a.hi, b.hi)), "min")


def greatest(a: Expr, b: Expr) -> Expr:
    """The larger one."""
    if a.lo >= b.hi:
        return a
    if b.lo >= a.hi:
        return b
    return computed(np.maximum, (a, b), (max(a.lo, b.lo), max(a.hi, b.hi)), "max")


def select(condition: Expr, a: Expr, b: Expr) -> Expr:
    """`a if condition else b`; both are evaluated, each only where it is taken."""
    if condition.constant:
        return a if condition.const else b
    parts = (condition, a, b)

    def function(points: Points) -> Any:
        count = max((np.size(points[i]) for i in inner), default=1)
        taken = np.broadcast_to(np.asarray(condition.at(points), dtype=bool), count)
        out = np.empty(count, dtype=np.int64 if a.integer and b.integer else object)
        for expr, mask in ((a, taken), (b, ~taken)):
            if mask.any():
                part = {i: np.broadcast_to(points[i], count)[mask] for i in expr.indices}
                out[mask] = expr.at(part)
        return out

    inner = frozenset().union(*(e.indices for e in parts))
    bounds = min(a.lo, b.lo), max(a.hi, b.hi)
    same = ("select", *(e.key() for e in parts))
    return Expr((), 0, *bounds, function, inner, a.integer and b.integer, same)


def gather(table: np.ndarray[Any, Any], at: Sequence[Expr]) -> Expr:
    """`table[at]` for a table of integers that does not change.

    >>> i = Index("i", constant(3))
    >>> gather(np.array([4, 2, 9]), [var(i)]).at({i: np.arange(3)})
    array([4, 2, 9])
    """

    def look_up(*where: Any) -> Any:
        try:
            return table[tuple(np.asarray(w) for w in where)]
        except IndexError as error:
            raise Undecided from error

    integer = table.dtype.kind in "iub"
    bounds = (int(table.min()), int(table.max())) if integer and table.size else (-math.inf, math.inf)
    return computed(look_up, tuple(at), bounds, ("gather", id(table)), integer)


def computed(
    function: Callable[..., Any],
    parts: Sequence[Expr],
    bounds: tuple[Bound, Bound] = (-math.inf, math.inf),
    same: Any = None,
    integer: bool = True,
) -> Expr:
    """Any function of expressions, evaluated on arrays; constants are folded."""
    large = max((abs(b) for b in bounds if b not in (-math.inf, math.inf)), default=0) > LARGEST

    def at(points: Points) -> Any:
        if large:
            raise Undecided
        try:
            return function(*(part.at(points) for part in parts))
        except (ArithmeticError, ValueError, TypeError, LookupError) as error:
            raise Undecided from error

    inner = frozenset().union(*(part.indices for part in parts))
    if not inner and integer and not large:
        try:
            return constant(int(at({})))
        except Undecided:
            pass
    key = None if same is None else (same, *(part.key() for part in parts))
    return Expr((), 0, *bounds, at, inner, integer, key)


_OUTCOMES: Mapping[str, Callable[[Expr, Expr], bool | None]] = {
    "<": lambda a, b: True if a.hi < b.lo else False if a.lo >= b.hi else None,
    "<=": lambda a, b: True if a.hi <= b.lo else False if a.lo > b.hi else None,
    "==": lambda a, b: False if a.hi < b.lo or a.lo > b.hi else True if a.lo == a.hi == b.lo == b.hi else None,
}
_FUNCTIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "<": np.less,
    "<=": np.less_equal,
    "==": np.equal,
    "!=": np.not_equal,
}


def compare(sign: str, a: Expr, b: Expr) -> Expr:
    """A comparison as 0 or 1; a constant where bounds decide it.

    >>> i = Index("i", constant(10))
    >>> compare("<", var(i), constant(10)).const
    1
    """
    if sign in (">", ">="):
        return compare("<" if sign == ">" else "<=", b, a)
    if a.integer and b.integer:
        known = _OUTCOMES["==" if sign == "!=" else sign](a, b)
        if known is not None:
            return constant(known != (sign == "!="))
    return computed(_FUNCTIONS[sign], (a, b), (0, 1), sign)


def choose(at: Expr, options: Sequence[Expr]) -> Expr:
    """`options[at]` for a position that is never outside.

    >>> i = Index("i", constant(2))
    >>> choose(var(i), [constant(7), var(i) * 5]).at({i: np.arange(2)})
    array([7, 5])
    """
    out = options[-1]
    for position in reversed(range(len(options) - 1)):
        out = select(compare("==", at, constant(position)), options[position], out)
    return out


def both(a: Expr, b: Expr) -> Expr:
    """`a and b` of conditions; the second is looked at only where the first holds."""
    return select(a, truth(b), constant(0))


def either(a: Expr, b: Expr) -> Expr:
    """`a or b` of conditions."""
    return select(a, constant(1), truth(b))


def truth(a: Expr) -> Expr:
    """1 where it is not zero."""
    return a if a.lo >= 0 and a.hi <= 1 else computed(lambda x: np.not_equal(x, 0), (a,), (0, 1), "bool")


def negate(a: Expr) -> Expr:
    """`not a` of a condition."""
    if a.constant:
        return constant(not a.const)
    return computed(lambda x: np.equal(x, 0), (a,), (0, 1), "not")
