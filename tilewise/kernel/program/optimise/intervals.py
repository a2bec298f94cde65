"""Where integers can be at a place of a program. In: what is known, expressions, tests. Out: intervals, more knowledge.

What is known are the ends of names and of lengths of arrays, and least differences of two of these: `j` in `range(i)`
is below `i`. Operations with a fault have succeeded where their result is seen, so they say something about their
operands: a subscript is in range, a divisor is not zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from tilewise.kernel.program import ir

Key = str | tuple[str, int]  # a name, or an axis of an array: its length
Interval = tuple[int, int]

LEAST, MOST = -(1 << 63), (1 << 63) - 1
ANY = (LEAST, MOST)
LENGTH = 1 << 44  # no array is longer
LONGEST_SHIFT = 62
MOST_ROWS, LONGEST_ROW = 100, 16  # of differences that are kept at a time
FEW_ROWS = 40  # of differences that are all looked through
STEPS_BETWEEN = 5  # of differences that are added up
# Where the end of an interval that grows in a loop goes: the next of these.
STEPS = (0, 1, LONGEST_SHIFT, 63, 64, 255, (1 << 31) - 1, (1 << 32) - 1, LENGTH, 1 << 53, 1 << 62, MOST)
ENDS = {t: (int(np.iinfo(t).min), int(np.iinfo(t).max)) for t in "int8 int16 int32 uint8 uint16 uint32".split()}
ENDS["bool"] = (0, 1)


@dataclass(frozen=True)
class State:
    """ends: of integers that are known better than by their dtype; gaps[x][y]: x - y is at least so much."""

    ends: dict[Key, Interval]
    gaps: dict[Key, dict[Key, int]]

    def of(self, key: Key) -> Interval:
        return self.ends.get(key, ANY if isinstance(key, str) else (0, LENGTH))

    def without(self, keys: Iterable[Key]) -> State:
        """Nothing is known of these any more."""
        gone = set(keys)
        if not gone:
            return self
        gaps = {}
        for x, row in self.gaps.items():
            left = row if gone.isdisjoint(row) else {y: c for y, c in row.items() if y not in gone}
            if left and x not in gone:
                gaps[x] = left
        return State({k: v for k, v in self.ends.items() if k not in gone}, gaps)

    def moved(self, key: Key, by: int) -> State:
        """A name has become larger by a number: its ends are not known, but how far others are from it."""
        gaps = {x: {**row, key: row[key] - by} if key in row else row for x, row in self.gaps.items()}
        if key in gaps:
            gaps[key] = {y: c + by for y, c in gaps[key].items()}
        return State({k: v for k, v in self.ends.items() if k != key}, gaps)

    def within(self, key: Key, low: int, high: int) -> State | None:
        """One more thing that holds; None: it cannot."""
        old = self.of(key)
        new = max(old[0], low), min(old[1], high)
        if new[0] > new[1]:
            return None
        if new == old:
            return self
        ends = {**self.ends, key: new}
        for x, row in self.gaps.items():  # others that are a known distance away
            if key in row and new[0] + row[key] > self.of(x)[0]:
                ends[x] = new[0] + row[key], ends.get(x, self.of(x))[1]
        for y, c in self.gaps.get(key, {}).items():
            if new[1] - c < self.of(y)[1]:
                ends[y] = ends.get(y, self.of(y))[0], new[1] - c
        return State(ends, self.gaps)

    def above(self, x: Key, y: Key, least: int) -> State:
        """x - y is at least this."""
        row = self.gaps.get(x, {})
        full = len(row) >= LONGEST_ROW or (not row and len(self.gaps) >= MOST_ROWS)
        if row.get(y, LEAST) >= least or x == y or (full and y not in row):
            return self
        return State(self.ends, {**self.gaps, x: {**row, y: least}})

    def through(self, key: Key) -> State:
        """What follows for others from how far they are from a name, of which less will be known."""
        made = self
        for y, c in self.gaps.get(key, {}).items():
            for x, row in self.gaps.items():
                if key in row and x != y:
                    made = made.above(x, y, row[key] + c)
        return made

    def holds(self, x: Key, y: Key, least: int) -> bool:
        """Whether x - y is at least this, by what is known of each, or by way of others (of one, if there are many)."""
        row = self.gaps.get(x, {})
        if self.of(x)[0] - self.of(y)[1] >= least or row.get(y, 2 * LEAST) >= least:
            return True
        if len(self.gaps) <= FEW_ROWS:
            return bool(row) and self.gap(x, y) >= least
        return any(c + self.gaps[z].get(y, 2 * LEAST) >= least for z, c in row.items() if z in self.gaps)

    def gap(self, x: Key, y: Key) -> int:
        """The least that x - y can be, by way of others, too."""
        best, last = {x: 0}, [x]
        for _ in range(STEPS_BETWEEN):
            found = []
            for a in last:
                for b, c in self.gaps.get(a, {}).items():
                    if best.get(b, 2 * LEAST) < best[a] + c:
                        best[b] = best[a] + c
                        found.append(b)
            if not found:
                break
            last = found
        return best.get(y, 2 * LEAST)


def joined(a: State | None, b: State | None) -> State | None:
    """What holds in both; None is a place that is never reached."""
    if a is None or b is None or a is b:
        return b if a is None else a
    ends = a.ends
    if a.ends != b.ends:
        pairs = [(k, v, b.ends[k]) for k, v in a.ends.items() if k in b.ends]
        ends = {k: v if v == w else (min(v[0], w[0]), max(v[1], w[1])) for k, v, w in pairs}
    if a.gaps == b.gaps:
        return State(ends, a.gaps)
    gaps: dict[Key, dict[Key, int]] = {}
    for one, other in ((a, b), (b, a)):
        for x, row in one.gaps.items():
            theirs = other.gaps.get(x, {})
            if row == theirs:
                gaps[x] = row
                continue
            left = {y: min(c, theirs.get(y, c)) for y, c in row.items() if y in theirs or other.holds(x, y, c)}
            if left:
                gaps[x] = {**gaps.get(x, {}), **left}
    return State(ends, gaps)


def widened(old: State, new: State, surely: bool) -> State:
    """`new`, which holds more than `old`, with ends that still grow set to the next step (surely: to the last)."""
    ends = {}
    for k, (low, high) in new.ends.items():
        was = old.of(k)
        if was == (low, high):
            ends[k] = was
            continue
        if low < was[0]:
            low = LEAST if surely else -min(s for s in (*STEPS, -LEAST) if s >= -low)
        if high > was[1]:
            high = MOST if surely else min(s for s in STEPS if s >= high)
        if (low, high) != ANY:
            ends[k] = low, high
    if new.gaps == old.gaps:
        return State(ends, old.gaps)
    gaps = {}
    for x, row in new.gaps.items():
        was_row = old.gaps.get(x, {})
        left = {y: c for y, c in row.items() if was_row.get(y, c) == c and old.holds(x, y, c)}
        if left:
            gaps[x] = left
    return State(ends, gaps)


# -- expressions -----------------------------------------------------------------------------------------------------


def key_of(e: ir.Expr) -> Key | None:
    """What an expression reads, if it is a name of an integer or a length."""
    if isinstance(e, ir.Var):
        return e.name if e.dtype == ir.INT else None
    return (e.array, e.axis) if isinstance(e, ir.Dim) else None


def linear(e: ir.Expr) -> tuple[dict[Key, int], int] | None:
    """A sum of names, lengths and a number."""
    if isinstance(e, ir.Const) and e.dtype == ir.INT:
        return {}, int(e.value)
    if (key := key_of(e)) is not None:
        return {key: 1}, 0
    if isinstance(e, ir.Op) and e.fn in ("add", "subtract") and e.dtype == ir.INT and (e.exact or e.fault >= 0):
        a, b = linear(e.args[0]), linear(e.args[1])
        if a is not None and b is not None:
            return less(a, b, -1 if e.fn == "add" else 1)
    return None


def less(a: tuple[dict[Key, int], int], b: tuple[dict[Key, int], int], times: int = 1) -> tuple[dict[Key, int], int]:
    """a - times * b."""
    terms = dict(a[0])
    for k, c in b[0].items():
        terms[k] = terms.get(k, 0) - times * c
    return {k: c for k, c in terms.items() if c}, a[1] - times * b[1]


def _apart(form: tuple[dict[Key, int], int] | None) -> tuple[Key, Key, int] | None:
    """x, y and c of a form x - y + c."""
    if form is None or sorted(form[0].values()) != [-1, 1]:
        return None
    x, y = sorted(form[0], key=lambda k: -form[0][k])
    return x, y, form[1]


def interval(e: ir.Expr, st: State) -> Interval:
    """Where an integer or a bool can be; of other dtypes, anywhere."""
    if isinstance(e, ir.Const):
        return (int(e.value), int(e.value)) if e.dtype == ir.INT or e.dtype in ENDS else ANY
    if (key := key_of(e)) is not None:
        return st.of(key)
    if isinstance(e, ir.Pick):
        ways = [(e.yes, refined(st, e.test, True)), (e.no, refined(st, e.test, False))]
        found = [interval(x, s) for x, s in ways if s is not None]
        return (min(f[0] for f in found), max(f[1] for f in found)) if found else ANY
    known = ENDS.get(e.dtype, ANY)
    if not isinstance(e, ir.Op):
        return known
    low, high = _operation(e, [interval(a, st) for a in e.args], st)
    if e.dtype == ir.INT and (apart := _apart(linear(e))) is not None:
        x, y, c = apart
        if x in st.gaps:
            low = max(low, st.gap(x, y) + c)
        if y in st.gaps:
            high = min(high, c - st.gap(y, x))
    low, high = max(low, known[0]), min(high, known[1])
    return (low, high) if low <= high else known


def sure(e: ir.Op, args: list[Interval]) -> bool:
    """Whether an operation of integers needs no check, and none of those that its general form makes."""
    a, b = args[0], args[-1]
    if e.fn in _SUMS:
        low, high = _SUMS[e.fn](a, b)
        return low >= LEAST and high <= MOST
    if e.fn in ("floor_divide", "remainder"):
        return a[0] >= 0 and b[0] > 0
    if e.fn == "left_shift":
        low, high = _shifted(a, b)
        return b[0] >= 0 and b[1] <= LONGEST_SHIFT and low >= LEAST and high <= MOST
    return e.fn == "right_shift" and b[0] >= 0 and b[1] <= 63


def _ends(f: Callable[[int, int], int]) -> Callable[[Interval, Interval], Interval]:
    def act(a: Interval, b: Interval) -> Interval:
        found = [f(x, y) for x in a for y in b]
        return min(found), max(found)

    return act


_SUMS: dict[str, Callable[[Interval, Interval], Interval]] = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "subtract": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "multiply": _ends(lambda x, y: x * y),
}


def _shifted(a: Interval, b: Interval) -> Interval:
    return _ends(lambda x, y: x << y)(a, (max(b[0], 0), min(max(b[1], 0), 64)))


def _operation(e: ir.Op, args: list[Interval], st: State) -> Interval:
    """Before it is cut to what the dtype can be."""
    fn = e.fn
    if fn in ("cast", "natural", "nonzero", "ones", "absolute", "negative") or fn.startswith("fit:"):
        return _of_one(e, args[0], st)
    if e.dtype != ir.INT or len(args) != 2 or any(x.dtype != ir.INT for x in e.args):
        return ENDS.get(e.dtype, ANY)
    a, b = args
    if fn in _SUMS:
        made = _SUMS[fn](a, b)
        fits = e.exact or e.fault >= 0 or (made[0] >= LEAST and made[1] <= MOST)
        return made if fits else ANY
    if fn in ("minimum", "maximum"):
        f = min if fn == "minimum" else max
        return f(a[0], b[0]), f(a[1], b[1])
    if fn in ("floor_divide", "negatable_divide"):
        return _ends(lambda x, y: x // y)(a, b) if b[0] > 0 else (-max(map(abs, a)), max(map(abs, a)))
    if fn == "remainder":
        if b[0] <= 0:
            return min(b[0] + 1, 0), max(b[1] - 1, 0)
        return 0, min(a[1], b[1] - 1) if a[0] >= 0 else b[1] - 1
    if fn == "left_shift":
        made = _shifted(a, b)
        if made[0] >= LEAST and made[1] <= MOST and b[0] >= 0:
            return made
        return (0 if a[0] >= 0 else LEAST, MOST) if e.fault >= 0 else ANY
    if fn == "right_shift":
        return (0, a[1] >> min(max(b[0], 0), 64)) if a[0] >= 0 else (a[0], max(a[1], -1))
    if fn == "bitwise_and" and (a[0] >= 0 or b[0] >= 0):
        return 0, min(x[1] for x in args if x[0] >= 0)
    if fn in ("bitwise_or", "bitwise_xor") and a[0] >= 0 and b[0] >= 0:
        return 0, (1 << max(a[1], b[1]).bit_length()) - 1
    return (0, LENGTH) if fn == "subscript" else ANY


def _of_one(e: ir.Op, a: Interval, st: State) -> Interval:
    known = ENDS.get(e.dtype, ANY)
    whole = e.args[0].dtype in ENDS or e.args[0].dtype == ir.INT
    if e.fn == "cast":
        fits = whole and e.dtype not in ("bool", "uint64") and known[0] <= a[0] and a[1] <= known[1]
        return a if fits else known
    if e.fn == "natural":
        return max(a[0], 0), max(a[1], 0)
    if e.fn in ("nonzero", "ones"):
        return a if e.fn == "nonzero" else (0, 64)
    if e.dtype != ir.INT or e.args[0].dtype != ir.INT or a[0] == LEAST:
        return known
    if e.fn == "absolute":
        return 0 if a[0] <= 0 <= a[1] else min(map(abs, a)), max(map(abs, a))
    return (-a[1], -a[0]) if e.fn == "negative" else known


# -- tests -----------------------------------------------------------------------------------------------------------

_OPPOSITE = {
    "less": "greater_equal", "less_equal": "greater", "greater": "less_equal", "greater_equal": "less",
    "equal": "not_equal", "not_equal": "equal",
}  # fmt: skip
_SWAPPED = {"less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal"}


def refined(st: State | None, test: ir.Expr, holds: bool) -> State | None:
    """What is known where a test holds, or does not; None: that is nowhere."""
    if st is None:
        return None
    if isinstance(test, ir.Const):
        return st if bool(test.value) == holds else None
    if isinstance(test, ir.Pick):
        yes, no = (learned(refined(st, test.test, way), e) for way, e in ((True, test.yes), (False, test.no)))
        return joined(refined(yes, test.yes, holds), refined(no, test.no, holds))
    if not isinstance(test, ir.Op):
        return st
    if test.fn == "logical_not" and test.args[0].dtype == "bool":
        return refined(st, test.args[0], not holds)
    if test.fn in ("logical_and", "logical_or"):
        if not all(a.dtype == "bool" for a in test.args):
            return st
        first, second = test.args
        if (test.fn == "logical_and") == holds:
            return refined(refined(st, first, holds), second, holds)
        # One of the two decides: what holds in either case, without those that cannot be.
        return joined(refined(st, first, holds), refined(refined(st, first, not holds), second, holds))
    if test.fn in _OPPOSITE and all(a.dtype == ir.INT for a in test.args):
        return _compared(st, test.fn if holds else _OPPOSITE[test.fn], *test.args)
    return st


def _compared(st: State, fn: str, a: ir.Expr, b: ir.Expr) -> State | None:
    if fn in ("greater", "greater_equal"):
        fn, a, b = _SWAPPED[fn], b, a
    x, y = interval(a, st), interval(b, st)
    if fn == "not_equal":
        for e, ends, other in ((a, x, y), (b, y, x)):
            if other[0] == other[1] and other[0] in ends:
                at = other[0]
                found = narrowed(st, e, ends[0] + (at == ends[0]), ends[1] - (at == ends[1]))
                if found is None:
                    return None
                st = found
        return st
    gap = int(fn == "less")
    made = narrowed(st, a, LEAST, y[1] - gap)
    made = None if made is None else narrowed(made, b, x[0] + gap, MOST)
    if fn == "equal" and made is not None:
        made = narrowed(made, a, y[0], MOST)
        made = None if made is None else narrowed(made, b, LEAST, x[1])
    if made is None:
        return None
    p, q = linear(a), linear(b)
    if p is not None and q is not None:
        for first, second in ((p, q), (q, p)) if fn == "equal" else ((p, q),):
            if (apart := _apart(less(second, first))) is not None:
                made = made.above(apart[0], apart[1], gap - apart[2])
    return made


def narrowed(st: State, e: ir.Expr, low: int, high: int) -> State | None:
    """What follows for names if an expression is in here."""
    if (key := key_of(e)) is not None:
        return st.within(key, low, high)
    if isinstance(e, ir.Const):
        return st if low <= e.value <= high else None
    if not isinstance(e, ir.Op) or e.dtype != ir.INT or not (e.exact or e.fault >= 0):
        return st
    if e.fn in ("add", "subtract") and isinstance(e.args[1], ir.Const):
        c = e.args[1].value if e.fn == "add" else -e.args[1].value
        return narrowed(st, e.args[0], low - c, high - c)
    if e.fn == "multiply" and e.args[0] == e.args[1] and high >= 0:
        root = math.isqrt(high)
        return narrowed(st, e.args[0], -root, root)
    return st


def learned(st: State | None, e: ir.Expr) -> State | None:
    """What is known after an expression has been evaluated without a fault."""
    if st is None or isinstance(e, ir.Const | ir.Var | ir.Dim | ir.Apart):
        return st
    if isinstance(e, ir.Pick):
        return learned(st, e.test)
    for a in e.index if isinstance(e, ir.Load) else e.args:
        st = learned(st, a)
    if st is None:
        return None
    if isinstance(e, ir.Load):
        return subscripted(st, e.array, e.index, e.faults)
    if e.fault < 0 or not e.args or e.args[-1].dtype != ir.INT:
        return st
    last = e.args[-1]
    if e.fn == "natural":
        return narrowed(st, last, 0, MOST)
    if e.fn == "left_shift":
        return narrowed(st, last, 0, LONGEST_SHIFT) if interval(e.args[0], st)[0] > 0 else st
    if e.fn in ("floor_divide", "remainder", "nonzero"):
        return _compared(st, "not_equal", last, ir.Const(ir.INT, 0))
    return st


def in_range(st: State, array: str, axis: int, i: ir.Expr) -> bool:
    """Whether a subscript is known to be that of an element, counted from the start."""
    return i.dtype == ir.INT and below(st, i, ir.Dim(array, axis))


def below(st: State, i: ir.Expr, n: ir.Expr) -> bool:
    """Whether an integer is known to be in 0, ..., n - 1."""
    room = ir.Op("subtract", ir.INT, (n, i), exact=True)
    return interval(i, st)[0] >= 0 and interval(room, st)[0] > 0


def equal_to(st: State, key: Key, ends: Interval, form: tuple[dict[Key, int], int] | None) -> State:
    """A name or a length has got a value: its ends, and what it is the sum of."""
    if ends != ANY:
        st = State({**st.ends, key: ends}, st.gaps)
    if form is not None and len(form[0]) == 1 and key not in form[0]:
        ((other, times),) = form[0].items()
        if times == 1:
            st = st.above(key, other, form[1]).above(other, key, -form[1])
    return st


def subscripted(st: State, array: str, index: tuple[ir.Expr, ...], faults: tuple[int, ...]) -> State | None:
    """An element has been found."""
    now: State | None = st
    for axis, i in enumerate(index):
        if now is None:
            return None
        if i.dtype != ir.INT:
            continue
        natural = faults[axis] < 0 or interval(i, now)[0] >= 0
        if natural:
            now = _compared(now, "less", i, ir.Dim(array, axis))
        else:
            now = narrowed(now, i, -LENGTH, LENGTH)
        if natural and now is not None:
            now = narrowed(now, i, 0, LENGTH)
    return now
