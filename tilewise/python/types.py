"""What a name may be. In: nothing. Out: types, their keys, their joins.

Numbers have two families: Python's (unbounded integers, exceptions) and NumPy's (dtypes that wrap, no exceptions). A
name has several alternatives where ways of control meet; `UNBOUND` is one of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tilewise.python.refuse import Mixes, Pools, Refused

LEAST, MOST = -(1 << 63), (1 << 63) - 1
SMALL = 1 << 31  # arguments below are known to be so
LENGTH = 1 << 44  # no array is longer
SLOW_STEP = 16  # a counter that grows by so much at a time needs years for the way from 2**62 to 2**63
# An interval that grows in a loop goes to the next of these.
STEPS = (0, 1 << 31, 1 << 45, 1 << 62)


@dataclass(frozen=True)
class Num:
    """A number: `py` has Python's meaning (dtype bool, int64, float64 or complex128). Integers are in lo ... hi."""

    py: bool
    dtype: str
    lo: int = LEAST
    hi: int = MOST

    @property
    def whole(self) -> bool:
        return self.dtype[0] in "iu"

    def __str__(self) -> str:
        if not self.py:
            return self.dtype
        return {"int64": "int", "float64": "float", "bool": "bool", "complex128": "complex"}[self.dtype]


@dataclass(frozen=True)
class Arr:
    """An array; `kind` is "numpy" or "tilewise"."""

    dtype: str
    rank: int
    kind: str = "numpy"

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(':' * self.rank)}]"


@dataclass(frozen=True)
class Tup:
    items: tuple[Type, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.items))})"


@dataclass(frozen=True)
class Mixed:
    """Items of a list that are of several types; each says which it is."""

    alternatives: tuple[Num | Tup, ...]

    def __str__(self) -> str:
        return " or ".join(map(str, self.alternatives))


@dataclass(frozen=True)
class Lst:
    """A list of numbers, tuples or lists (None: it is empty), by the place where it is made.

    `pooled`: there may be many of this place, which is that of their pool (containers/pools.py).
    """

    item: Num | Tup | Lst | Mixed | None
    place: str
    pooled: bool = False

    def __str__(self) -> str:
        return "an empty list" if self.item is None else f"list of {self.item}"


@dataclass(frozen=True)
class Dct:
    """A dict of numbers or tuples (key None: it is empty), or a set (`members`), by the place where it is made."""

    key: Num | Tup | Lst | None
    value: Num | Tup | Lst | Mixed | None
    place: str
    members: bool

    def __str__(self) -> str:
        kind = "set" if self.members else "dict"
        if self.key is None:
            return f"an empty {kind}"
        return f"set of {self.key}" if self.members else f"dict of {self.key} to {self.value}"


@dataclass(frozen=True, eq=False)
class Obj:
    """A value known when the function is compiled: a module, a function, None, text, a dtype."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Obj) and (other.value is self.value or _same(self.value, other.value))

    def __hash__(self) -> int:
        return hash(type(self.value))

    def __str__(self) -> str:
        return "None" if self.value is None else f"{type(self.value).__name__} {getattr(self.value, '__name__', '')}"


@dataclass(frozen=True)
class Unbound:
    def __str__(self) -> str:
        return "no value"


Type = Num | Arr | Tup | Lst | Dct | Obj | Unbound
UNBOUND = Unbound()
PY_BOOL, PY_FLOAT, PY_COMPLEX = Num(True, "bool", 0, 1), Num(True, "float64"), Num(True, "complex128")
PY_INT = Num(True, "int64")
NONE = Obj(None)


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and isinstance(a, str | bytes | slice) and a == b


def ints(lo: int, hi: int) -> Num:
    """Python's integers of a range, cut to what ours can be."""
    return Num(True, "int64", max(lo, LEAST), min(hi, MOST))


def key(t: Type) -> Any:
    """Types with equal keys share a variable."""
    if isinstance(t, Num):
        return ("py" if t.py else "np", t.dtype)
    if isinstance(t, Arr):
        return ("array", t.dtype, t.rank, t.kind)
    if isinstance(t, Tup):
        return ("tuple", *map(key, t.items))
    if isinstance(t, Lst):
        return ("list", t.place, t.pooled)  # an empty one may become any
    if isinstance(t, Dct):
        return ("dict", t.place)
    return t


def suffix(t: Type) -> str:
    """The part of a variable's name that tells its types apart."""
    if isinstance(t, Num):
        return ("" if t.py else "np.") + t.dtype
    if isinstance(t, Lst):
        return f"list@{t.place}"
    assert isinstance(t, Arr)
    return f"{t.kind[0]}{t.dtype}x{t.rank}"


def merge(a: Type, b: Type) -> Type:
    """Of two types with equal keys."""
    if isinstance(a, Num) and isinstance(b, Num):
        return replace(a, lo=min(a.lo, b.lo), hi=max(a.hi, b.hi))
    if isinstance(a, Tup) and isinstance(b, Tup):
        return Tup(tuple(map(merge, a.items, b.items)))
    if isinstance(a, Lst) and isinstance(b, Lst):
        if a.item is not None and b.item is not None and a.item != b.item:
            raise Mixes(a.place, a.item, b.item)
        return b if a.item is None else a
    if isinstance(a, Dct) and isinstance(b, Dct):
        if a.key is not None and a.key == b.key and a.value != b.value:
            raise Mixes(a.place, a.value, b.value)
        if a.key is not None and b.key is not None and a.key != b.key:
            raise Refused(f"a {a} or {b}", 0, "Give all keys and all values one type")
        return b if a.key is None else a
    return a


def replaced(t: Type, old: Type, new: Type) -> Type:
    """A type in which one is another now, in tuples as well."""
    if isinstance(t, Tup):
        return Tup(tuple(replaced(i, old, new) for i in t.items))
    return new if t == old else t


Alts = tuple[Type, ...]
Env = dict[str, Alts]


def join_alts(a: Alts, b: Alts) -> Alts:
    found = {key(t): t for t in a}
    for t in b:
        k = key(t)
        found[k] = merge(found[k], t) if k in found else t
    lists = [t for t in found.values() if isinstance(t, Lst)]
    if len(lists) > 1 and any(t.pooled for t in lists):
        raise Pools(tuple(t.place for t in lists))
    return tuple(found.values())


def join(a: Env | None, b: Env | None) -> Env | None:
    """Where two ways meet; None: a way that nobody goes."""
    if a is None or b is None:
        return b if a is None else a
    absent = (UNBOUND,)
    return {n: a[n] if a.get(n) is b.get(n) else join_alts(a.get(n, absent), b.get(n, absent)) for n in {**a, **b}}


def widen(old: Env, new: Env) -> Env:
    """The head of a loop after one more look: what grew goes to the next step."""
    return {n: tuple(_widened(old.get(n, ()), t) for t in alts) for n, alts in new.items()}


def patient(head: Env, after: Env) -> Env:
    """What is known after an iteration, without counters that would take years to come further than they may be."""
    return {n: tuple(_counted(head.get(n, ()), t) for t in alts) for n, alts in after.items()}


def _counted(old: Alts, t: Type) -> Type:
    before = next((o for o in old if key(o) == key(t)), None)
    if not isinstance(t, Num) or not isinstance(before, Num):
        return t
    far, slow = STEPS[-1], SLOW_STEP
    lo = before.lo if before.lo <= -far and before.lo - t.lo <= slow and t.lo > LEAST else t.lo
    hi = before.hi if far <= before.hi and t.hi - before.hi <= slow and t.hi < MOST else t.hi
    return replace(t, lo=lo, hi=hi)


def _widened(old: Alts, t: Type) -> Type:
    before = next((o for o in old if key(o) == key(t)), None)
    if before is None or before == t:
        return t
    if isinstance(t, Tup) and isinstance(before, Tup):
        return Tup(tuple(_widened((o,), i) for o, i in zip(before.items, t.items, strict=True)))
    if not isinstance(t, Num) or not isinstance(before, Num):
        return t
    lo = t.lo if t.lo == before.lo else max((-s for s in STEPS if -s <= t.lo), default=LEAST)
    hi = t.hi if t.hi == before.hi else min((s for s in STEPS if s >= t.hi), default=MOST)
    return replace(t, lo=lo, hi=hi)
