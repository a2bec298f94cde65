"""Lists that are known by number: many of one kind in one arena. In: lengths, items. Out: where items lie.

Where lists of one place are used beside each other (lists of lists, `previous = current` in a loop), no name of the
program can stand for one of them. Then they are in a pool: its arrays (columns.py) hold the items of all of them, and
`#heads` says of each list where its items begin, how many there are and for how many there is room. A reference is a
number, and names and items that have the same one are the same list. Which places share a pool, and of what its lists
are, is found while lowering, which then begins anew (`Pools`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tilewise.kernel.program.ir import INT, Const, Dim, Expr, Fail, If, Set, Span, Store, Var, View
from tilewise.python.build import (
    ONE,
    ZERO,
    Array,
    List,
    Scalar,
    Sequence_,
    Tuple,
    Value,
    add,
    compare,
    element,
    mul,
    pick,
)
from tilewise.python.refuse import Pools, Refused
from tilewise.python.types import LENGTH, Arr, Lst, Mixed, Tup, ints, key

if TYPE_CHECKING:
    from tilewise.python.statements import Statements
from tilewise.python.arrays import elementwise
from tilewise.python.containers import columns, hashing
from tilewise.python.functions import calls

START, COUNT, CAPACITY, WORDS = 0, 1, 2, 4  # of a list in `#heads`
DEEPEST = 4  # lists inside of each other
ROOM = 8  # items that a list gets room for when the first is appended


@dataclass
class Shared:
    """Which places share a pool, and of what the lists of a pool are."""

    pool: dict[str, str] = field(default_factory=dict)  # of a place
    items: dict[str, Any] = field(default_factory=dict)  # of a pool; lists in it by any place of theirs

    def learn(self, found: Pools) -> None:
        """Places that share a pool, and types of what is put into it. Raises Refused."""
        wanted = list(dict.fromkeys(self.pool.get(p, p) for p in found.places))
        name, *others = wanted
        for p in found.places:
            self.pool[p] = name
        self.pool[name] = name
        items = [t for t in (*(self.items.pop(p, None) for p in wanted), *found.items) if t is not None]
        for p, old in list(self.pool.items()):
            if old in others:
                self.pool[p] = name
        for t in items:
            known = self.items.get(name)
            self.items[name] = t if known is None or self._same(known, t) else self._joined(known, t)

    def type_of(self, place: str, depth: int = 0) -> Lst:
        """The type of the lists of a place."""
        if depth > DEEPEST:
            raise Refused("lists inside of each other without end", 0, "Use lists of numbers, or an array")
        pool = self.pool[place]
        return Lst(self._now(self.items.get(pool), depth), pool, True)

    def _now(self, t: Any, depth: int) -> Any:
        if isinstance(t, Lst):
            return self.type_of(t.place, depth + 1)
        return Tup(tuple(self._now(i, depth) for i in t.items)) if isinstance(t, Tup) else t

    def _same(self, a: Any, b: Any) -> bool:
        return bool(key(self._now(a, 0)) == key(self._now(b, 0)))

    def _joined(self, a: Any, b: Any) -> Any:
        """The type of items of both types."""
        if (places := lists_apart(a, b)) is not None:
            self.learn(Pools(places))
            return a
        return columns.mixed((a, b), None)


def lists_apart(a: Any, b: Any) -> tuple[str, str] | None:
    """The pools of lists where two types differ in them; None: they differ in something else, too."""
    if isinstance(a, Lst) and isinstance(b, Lst):
        return a.place, b.place
    if isinstance(a, Tup) and isinstance(b, Tup) and len(a.items) == len(b.items):
        unlike = [(x, y) for x, y in zip(a.items, b.items, strict=True) if key(x) != key(y)]
        return lists_apart(*unlike[0]) if unlike else None
    return None


def numbered(v: Value) -> list[List]:
    """The lists of pools in a value."""
    if isinstance(v, Tuple | Sequence_):
        return [n for part in (v.items if isinstance(v, Tuple) else v.parts) for n in numbered(part)]
    return [v] if isinstance(v, List) and v.at is not None else []


def first_apart(types: Sequence[Any]) -> tuple[str, str] | None:
    """The same, of the first two of several types that differ in lists."""
    pairs = ((types[0], t) for t in types[1:] if key(t) != key(types[0]))
    return next((found for a, b in pairs if (found := lists_apart(a, b)) is not None), None)


def made(lo: Statements, place: str, items: list[Any], line: int) -> List:
    """A new list of a place that is in a pool."""
    t = _holding(lo, place, items)
    found = _new(lo, t, Const(INT, len(items)), line)
    start = lo.b.keep(_word(found, START))
    for k, v in enumerate(items):
        columns.write(lo, t.place, _item(t), add(start, Const(INT, k)), v)
    return found


def repeated(lo: Statements, place: str, item: Any, times: Expr, line: int) -> List:
    """[item] * times"""
    t = _holding(lo, place, [item])
    found = _new(lo, t, times, line)
    start = lo.b.keep(_word(found, START))
    from_start = lambda at: columns.write(lo, t.place, _item(t), add(start, at[0]), item)  # noqa: E731
    elementwise.loops(lo, [times], from_start, line)
    return found


def length(lo: Statements, found: List) -> Var | Const:
    return lo.b.keep(_word(found, COUNT))


def set_length(lo: Statements, found: List, count: Expr) -> None:
    _set_word(lo, found, COUNT, count)


def place_of(lo: Statements, found: List, at: Expr) -> Expr:
    """Where an item lies in the arrays of the pool."""
    return lo.b.keep(add(_word(found, START), at))


def start(lo: Statements, found: List) -> Var | Const:
    return lo.b.keep(_word(found, START))


def append(lo: Statements, found: List, item: Any, line: int) -> None:
    b, pool = lo.b, found.t.place
    t = _holding(lo, pool, [item])
    n = length(lo, found)
    with b.inside() as full:
        first, used = b.keep(_word(found, START)), Var(_used(pool), INT)
        room = b.keep(add(add(n, n), Const(INT, ROOM)))
        # The last list of the arena grows where it is; others go to the end, and leave their place.
        into = b.keep(pick(compare("equal", add(first, _word(found, CAPACITY)), used), first, used))
        _make_room(lo, t, b.keep(add(into, room)), line)
        arrays = arrays_of(t)
        args: list[Value] = [columns_of(arrays), *(Scalar(ints(0, LENGTH), e) for e in (first, into, n))]
        with b.inside() as moves:
            rare(lo, hashing.shifted, args, line)
        b.emit(If(compare("not_equal", first, into), tuple(moves)))
        for word, e in ((START, into), (CAPACITY, room)):
            _set_word(lo, found, word, e)
        b.emit(Set(used.name, add(into, room)))
    b.emit(If(compare("equal", n, _word(found, CAPACITY)), tuple(full)))
    columns.write(lo, pool, _item(t), place_of(lo, found, n), item)
    set_length(lo, found, add(n, Const(INT, 1)))


def leaves(lo: Statements, t: Any, shown: Iterator[str]) -> list[str]:
    """The arrays of which callers make items of a type: its columns, and behind numbers of lists their pools."""
    if isinstance(t, Lst):
        return [next(shown), *of_pool(lo, t)]
    if isinstance(t, Tup):
        return [n for i in t.items for n in leaves(lo, i, shown)]
    if isinstance(t, Mixed):
        return [next(shown), *(n for i in t.alternatives for n in leaves(lo, i, shown))]
    return [next(shown)]


def of_pool(lo: Statements, t: Lst) -> list[str]:
    """The same, of all lists of a pool."""
    _declare(lo, t)
    heads = _shown(lo, (_heads(t.place), INT), mul(Var(_count(t.place), INT), Const(INT, WORDS)))
    if t.item is None:
        return [heads]
    used = Var(_used(t.place), INT)
    return [heads, *leaves(lo, t.item, iter([_shown(lo, a, used) for a in arrays_of(t)]))]


def _shown(lo: Statements, array: tuple[str, str], count: Expr) -> str:
    name = lo.b.array(array[1], 1)
    lo.b.view(View(name, array[0], (), (Span(0, ZERO, lo.b.keep(count), ONE),)))
    return name


def _holding(lo: Statements, place: str, items: list[Any]) -> Lst:
    """The type of the lists of a place, which can hold some items."""
    t: Lst = lo.functions.pools.type_of(place)
    for v in items:
        if t.item is None or not columns.fits(t.item, v):
            raise Pools((t.place,), (columns.type_of(v),))
    _declare(lo, t)
    return t


def _declare(lo: Statements, t: Lst) -> None:
    for name in (_used(t.place), _count(t.place)):
        lo.b.names[name] = INT
    lo.b.arrays[_heads(t.place)] = (INT, 1)
    lo.b.roots.setdefault(_heads(t.place), frozenset())
    if t.item is not None:
        columns.declared(lo, t.place, t.item)


def _new(lo: Statements, t: Lst, n: Expr, line: int) -> List:
    """A list of so many items, of which none is written yet."""
    b, pool = lo.b, t.place
    lo.made_lists.add(pool)
    used, count = Var(_used(pool), INT), Var(_count(pool), INT)
    if not isinstance(n, Const):
        too_long = b.fault("MemoryError", "", line)
        b.emit(If(compare("greater", n, Const(INT, LENGTH)), (Fail(too_long),)))
    number, first = b.keep(count), b.keep(used)
    end = b.keep(add(first, n))
    heads = [(_heads(pool), INT)]
    last = add(mul(number, Const(INT, WORDS)), Const(INT, WORDS))
    with b.inside() as more:
        _grow(lo, heads, mul(number, Const(INT, WORDS)), b.keep(last), line)
    b.emit(If(compare("less", Dim(heads[0][0], 0), last), tuple(more)))
    _make_room(lo, t, end, line)
    found = List(t, number)
    for word, e in ((START, first), (COUNT, n), (CAPACITY, n)):
        _set_word(lo, found, word, e)
    b.emit(Set(used.name, end))
    b.emit(Set(count.name, add(number, Const(INT, 1))))
    return found


def _make_room(lo: Statements, t: Lst, end: Expr, line: int) -> None:
    """The arena goes to this place at least."""
    arrays = arrays_of(t)
    if not arrays:
        return
    with lo.b.inside() as more:
        _grow(lo, arrays, Var(_used(t.place), INT), end, line)
    lo.b.emit(If(compare("less", Dim(arrays[0][0], 0), end), tuple(more)))


def _grow(lo: Statements, arrays: list[tuple[str, str]], used: Expr, end: Expr, line: int) -> None:
    size = lo.b.keep(add(add(end, end), Const(INT, ROOM)))
    args: list[Value] = [columns_of(arrays), *(Scalar(ints(0, LENGTH), e) for e in (lo.b.keep(used), size))]
    made = rare(lo, hashing.moved(len(arrays)), args, line)
    for (name, _), one in zip(arrays, made.items if isinstance(made, Tuple) else (made,), strict=True):
        assert isinstance(one, Array)
        lo.b.rename(name, one.name)


def rare(lo: Statements, f: Any, args: list[Value], line: int) -> Value:
    with lo.b.rarely(), lo.b.surely():
        return calls.of_shared(lo, f, args, SimpleNamespace(lineno=line, col_offset=0))


def columns_of(arrays: list[tuple[str, str]]) -> Tuple:
    return Tuple(tuple(Array(Arr(dtype, 1), name) for name, dtype in arrays))


def arrays_of(t: Lst) -> list[tuple[str, str]]:
    if t.item is None:
        return []
    return [(a, n.dtype) for a, n in zip(columns.names(t.place, t.item), columns.kinds(t.item), strict=True)]


def _item(t: Lst) -> Any:
    assert t.item is not None
    return t.item


def _word(found: List, word: int) -> Expr:
    return element(_heads(found.t.place), INT, [_word_at(found, word)])


def _set_word(lo: Statements, found: List, word: int, e: Expr) -> None:
    lo.b.emit(Store(_heads(found.t.place), (_word_at(found, word),), e, (-1,)))


def _word_at(found: List, word: int) -> Expr:
    assert found.at is not None
    return add(mul(found.at, Const(INT, WORDS)), Const(INT, word))


def heads_of(t: Lst) -> Array:
    return Array(Arr(INT, 1), _heads(t.place))


def _heads(pool: str) -> str:
    return f"{pool}#heads"


def _used(pool: str) -> str:
    return f"{pool}#used"


def _count(pool: str) -> str:
    return f"{pool}#count"
