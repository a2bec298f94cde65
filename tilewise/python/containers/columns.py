"""Items of containers as numbers in arrays beside each other. In: numbers, tuples of them. Out: columns, values again.

A list of (int, float) has two arrays, one of the integers and one of the floats. A list among items is its number in
its pool (pools.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from tilewise.kernel.program.ir import INT, Const, Dim, Expr, Store, Var
from tilewise.python.build import ONE, Array, Choice, List, Scalar, Static, Tuple, Value, add, element, mul
from tilewise.python.refuse import Pools, Refused
from tilewise.python.types import PY_BOOL, PY_INT, Arr, Lst, Mixed, Num, Tup, Type, key, suffix

if TYPE_CHECKING:
    from tilewise.python.statements import Statements
from tilewise.python import values
from tilewise.python.arrays import elementwise
from tilewise.python.containers import pools
from tilewise.python.scalars import arithmetic

Item = Num | Tup | Lst | Mixed
TAG = Num(False, "uint8")  # which of several types an item has
MOST_TYPES = 4


def full(t: Type) -> Num | Tup | Lst:
    """The type of items: nothing is known of their values."""
    if isinstance(t, Lst):
        return t
    if isinstance(t, Tup):
        return Tup(tuple(full(i) for i in t.items))
    assert isinstance(t, Num)
    return PY_INT if t.py and t.dtype == INT else PY_BOOL if t.py and t.dtype == "bool" else Num(t.py, t.dtype)


def item_of(lo: Statements, found: Value, line: int) -> Scalar | Tuple | List:
    """A value that can be an item: a number, a list, or a tuple of such; it is computed now."""
    if isinstance(found, Tuple) and found.listed:
        place = f"{lo.scope.prefix}item@{line}"
        if place not in lo.functions.pools.pool:
            raise Pools((place,))
        return pools.made(lo, place, [item_of(lo, v, line) for v in found.items], line)
    if isinstance(found, List):
        if found.at is None:
            raise Pools((found.t.place,))
        return List(found.t, lo.b.keep(found.at))
    if isinstance(found, Tuple):
        return Tuple(tuple(item_of(lo, v, line) for v in found.items))
    if isinstance(found, Static):
        cure = "Use numbers or tuples of them"
        raise Refused(f"{values.type_text(found).strip()} as a key or an item of a list, dict or set", line, cure)
    s = values.scalar(lo, found, line)
    return Scalar(s.t, lo.b.keep(s.e))


def mixed(types: tuple[Item, ...], known: Mixed | None) -> Mixed:
    """The type of items that may be of any of some types. Raises Refused."""
    found: dict[Any, Any] = {}
    for t in (*(known.alternatives if known else ()), *types):
        for one in t.alternatives if isinstance(t, Mixed) else (t,):
            found[key(one)] = one
    if any(map(of_lists, found.values())):
        raise Refused(f"a list of {' or '.join(map(str, found.values()))}", 0, "Give all items one type")
    if len(found) > MOST_TYPES:
        raise Refused(f"a list of {' or '.join(map(str, found.values()))}", 0, "Give all items one type")
    return Mixed(tuple(found.values()))


def of_lists(t: Type) -> bool:
    return isinstance(t, Lst) or (isinstance(t, Tup) and any(map(of_lists, t.items)))


def type_of(item: Value) -> Num | Tup | Lst:
    """What a container of such items is of."""
    if isinstance(item, List):
        return item.t
    if isinstance(item, Tuple):
        return Tup(tuple(map(type_of, item.items)))
    assert isinstance(item, Scalar)
    return full(item.t)


def numbers(item: Value) -> list[Scalar]:
    """The numbers of an item, from the first to the last."""
    if isinstance(item, Tuple):
        return [s for v in item.items for s in numbers(v)]
    if isinstance(item, List):
        assert item.at is not None
        return [Scalar(PY_INT, item.at)]
    assert isinstance(item, Scalar)
    return [item]


def kinds(t: Item) -> list[Num]:
    """The types of these numbers."""
    if isinstance(t, Tup):
        return [n for i in t.items for n in kinds(i)]  # type: ignore[arg-type]
    if isinstance(t, Lst):
        return [PY_INT]
    return [TAG, *(n for i in t.alternatives for n in kinds(i))] if isinstance(t, Mixed) else [t]


def names(place: str, t: Item) -> list[str]:
    """The arrays of a container's items."""
    return [f"{place}#{k}{suffix(n)}" for k, n in enumerate(kinds(t))]


def fits(t: Item | None, item: Value) -> bool:
    if isinstance(t, Mixed):
        return _alternative(t, item) is not None
    return t is not None and key(type_of(item)) == key(t)


def _alternative(t: Mixed, item: Value) -> int | None:
    """Which of several types an item has."""
    keys = [key(i) for i in t.alternatives]
    mine = key(type_of(item))
    return keys.index(mine) if mine in keys else None


def _parts(t: Mixed, columns: list[Any]) -> list[list[Any]]:
    """The columns of each of several types; the first of all is that of tags."""
    found, at = [], 1
    for i in t.alternatives:
        found.append(columns[at : at + len(kinds(i))])
        at += len(found[-1])
    return found


def declared(lo: Statements, place: str, t: Item) -> list[str]:
    """The arrays, as variables of the program."""
    made = names(place, t)
    if of_lists(cast(Any, t)):
        lo.b.holders[place] = t
    for name, n in zip(made, kinds(t), strict=True):
        lo.b.arrays[name] = (n.dtype, 1)
        lo.b.roots.setdefault(name, frozenset())
    return made


def allocate(lo: Statements, place: str, t: Item, room: Expr, line: int) -> None:
    """New arrays for items."""
    for name, n in zip(declared(lo, place, t), kinds(t), strict=True):
        fresh = elementwise.allocated(lo, Arr(n.dtype, 1), [room], False, line)
        lo.b.rename(name, fresh.name)


def write(lo: Statements, place: str, t: Item, at: Expr, item: Value) -> None:
    into = names(place, t)
    if isinstance(t, Mixed):
        k = _alternative(t, item)
        assert k is not None
        lo.b.emit(Store(into[0], (at,), Const(TAG.dtype, k), (-1,)))
        into = _parts(t, into)[k]
    for name, s in zip(into, numbers(item), strict=True):
        lo.b.emit(Store(name, (at,), s.e, (-1,)))


def read(lo: Statements, arrays: list[str], t: Item, at: Expr, *, keep: bool = False) -> Scalar | Tuple | List | Choice:
    """The item of a place. `keep`: as it is now, whatever happens to the container."""
    keep = keep or of_lists(cast(Any, t))
    if isinstance(t, Mixed):
        at = lo.b.held(at)
        which = lo.b.keep(arithmetic.cast(element(arrays[0], TAG.dtype, [at]), INT))
        assert isinstance(which, Var)
        parts = zip(t.alternatives, _parts(t, arrays), strict=True)
        return Choice(tuple(read(lo, columns, i, at, keep=True) for i, columns in parts), which.name)

    def one(n: Num, name: str) -> Scalar:
        e: Expr = element(name, n.dtype, [at])
        return Scalar(n, lo.b.keep(e) if keep else e)

    return built(t, iter([one(n, a) for n, a in zip(kinds(t), arrays, strict=True)]))


def built(t: Item, parts: Iterator[Scalar]) -> Scalar | Tuple | List:
    """A number, or a tuple of them, of its parts."""
    if isinstance(t, Tup):
        return Tuple(tuple(built(i, parts) for i in t.items))  # type: ignore[arg-type]
    return List(t, next(parts).e) if isinstance(t, Lst) else next(parts)


def grow(lo: Statements, place: str, t: Item, used: Expr, line: int) -> None:
    """Twice the room for items, of which so many are used."""
    grow_arrays(lo, [(a, n.dtype) for a, n in zip(names(place, t), kinds(t), strict=True)], used, line)


def grow_arrays(lo: Statements, arrays: list[tuple[str, str]], used: Expr, line: int) -> None:
    """The same, of arrays and their dtypes."""
    for name, dtype in arrays:
        room = lo.b.keep(Dim(name, 0))
        more = elementwise.allocated(lo, Arr(dtype, 1), [add(mul(room, Const(INT, 2)), ONE)], False, line)

        def copy(at: list[Any], name: str = name, dtype: str = dtype, more: Array = more) -> None:
            lo.b.emit(Store(more.name, (at[0],), element(name, dtype, [at[0]]), (-1,)))

        with lo.b.rarely():
            elementwise.loops(lo, [used], copy, line)
        lo.b.rename(name, more.name)


def structure(t: Item) -> Any:
    """How an item is made of elements of its columns, for those who make results of them."""
    if isinstance(t, Mixed):
        return ("mixed", *map(structure, t.alternatives))
    if isinstance(t, Lst):
        return ("lists", t.place, *([structure(t.item)] if t.item is not None else []))
    return ("tuple", *map(structure, t.items)) if isinstance(t, Tup) else ("py" if t.py else "np", t.dtype)  # type: ignore[arg-type]


def items_of(t: Item, parts: list[list[Any]]) -> list[Any]:
    """The items, of what is in their columns."""
    if isinstance(t, Mixed):
        each = [items_of(i, p) for i, p in zip(t.alternatives, _parts(t, parts), strict=True)]
        return [each[which][k] for k, which in enumerate(parts[0])]
    if isinstance(t, Tup):
        found, at = [], 0
        for i in t.items:
            found.append(items_of(i, parts[at : at + len(kinds(i))]))  # type: ignore[arg-type]
            at += len(kinds(i))  # type: ignore[arg-type]
        return list(zip(*found, strict=True))
    return parts[0]
