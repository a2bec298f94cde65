"""Lists of numbers, or of tuples of them, of one type. In: literals, comprehensions, methods. Out: arrays that grow.

A list is known by the place where it is made: arrays with room for more (columns.py), and a length. Names are
references to the place, so all of them see what one of them appends. Where a list is made again while another name
still has the last one of that place, the function is refused.
"""

from __future__ import annotations

import ast
import math
import random
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tilewise.kernel.program.ir import INT, Const, Dim, Expr, Fail, If, Op, Set, Span, Store, Var, View
from tilewise.python.build import (
    ONE,
    ZERO,
    Array,
    List,
    Scalar,
    Slice,
    Static,
    Tuple,
    Value,
    add,
    compare,
    element,
    pick,
    sub,
)
from tilewise.python.functions.nodes import walk
from tilewise.python.refuse import Mixes, Pools, Refused
from tilewise.python.scope import Dead
from tilewise.python.types import LENGTH, Arr, Dct, Lst, Mixed, Num, Tup, ints

if TYPE_CHECKING:
    from tilewise.python.statements import Statements
from tilewise.python.arrays import elementwise
from tilewise.python.containers import columns, pools
from tilewise.python.functions import calls
from tilewise.python.host import calling
from tilewise.python.standard import sequences, written_lists

_HARMLESS = frozenset("len abs float int bool range min max print".split())
_WITHOUT_LISTS = (np, math, random)  # modules whose functions leave lists as they are
ROOM = 8  # numbers that a new list has room for


def made(lo: Statements, items: tuple[Value, ...], name: str, line: int) -> List:
    """A list of numbers or of tuples, known by a name for its place."""
    place = f"{name}@{line}"
    each = {id(v): columns.item_of(lo, v, line) for v in items}  # of [[0]] * 2, one list is there twice
    given = [each[id(v)] for v in items]
    if place in lo.functions.pools.pool:
        return pools.made(lo, place, given, line)
    alone(lo, place, name, line)
    if not given:
        lo.b.names[_n(place)] = INT
        lo.b.emit(Set(_n(place), ZERO))
        return List(Lst(None, place))
    t = _item_type(lo, place, given)
    found = _storage(lo, place, t, Const(INT, max(ROOM, len(given))), line)
    for k, v in enumerate(given):
        columns.write(lo, place, t, Const(INT, k), v)
    lo.b.emit(Set(_n(place), Const(INT, len(given))))
    return found


def repeated(lo: Statements, items: Tuple, times: Scalar, line: int, column: int) -> List:
    """[x] * n"""
    if len(items.items) != 1:
        raise Refused("a list of several items, repeated", line)
    item = columns.item_of(lo, items.items[0], line)
    place = f"{lo.scope.prefix}list@{line}.{column}"
    n = lo.b.keep(Op("maximum", INT, (calls.whole(lo, times, line).e, ZERO)))
    if place in lo.functions.pools.pool:
        return pools.repeated(lo, place, item, n, line)
    alone(lo, place, lo.assigned, line)
    t = _item_type(lo, place, [item])
    found = _storage(lo, place, t, n, line)
    elementwise.loops(lo, [n], lambda at: columns.write(lo, place, t, at[0], item), line)
    lo.b.emit(Set(_n(place), n))
    return found


def comprehended(lo: Statements, node: ast.ListComp) -> Value:
    """[... for ... in ... if ...]: a loop that appends."""
    line = node.lineno
    name = f"list@{line}.{node.col_offset}"
    target: Any = ast.Name(name, ast.Load())
    append = ast.Call(ast.Attribute(target, "append", ast.Load()), [node.elt], [])
    body: list[ast.stmt] = [ast.Expr(append)]
    for gen in reversed(node.generators):
        for test in reversed(gen.ifs):
            body = [ast.If(test, body, [])]
        body = [ast.For(gen.target, gen.iter, body, [])]
    tree = [ast.Assign([ast.Name(name, ast.Store())], ast.List([], ast.Load())), *body]
    with sequences.written_out(lo, tree, node.generators, name, node, "a list of") as whole:
        assert lo.env is not None
        return lo.fetch(whole, lo.env[whole][0])


def length(lo: Statements, found: List) -> Scalar:
    return Scalar(ints(0, LENGTH), _length(lo, found))


def _length(lo: Statements, found: List) -> Var | Const:
    return Var(_n(found.t.place), INT) if found.at is None else pools.length(lo, found)


def _set_length(lo: Statements, found: List, n: Expr) -> None:
    if found.at is None:
        lo.b.emit(Set(_n(found.t.place), n))
    else:
        pools.set_length(lo, found, n)


def item(lo: Statements, found: List, index: tuple[Value, ...], line: int) -> Value:
    """x[i]"""
    found = now(lo, found)
    at = _at(lo, found, index, "list index out of range", line)
    t = _item(found, line)
    keep = isinstance(t, Tup | Mixed) or found.at is not None
    return columns.read(lo, columns.names(found.t.place, t), t, at, keep=keep)


def compared_by_value(one: List, other: List) -> bool:
    """Whether lists are equal if their items are: for Python, the same NaN is equal to itself as an item."""
    found = [n for t in (one.t.item, other.t.item) if t is not None for n in columns.kinds(t)]
    lists = any(t is not None and columns.of_lists(cast(Any, t)) for t in (one.t.item, other.t.item))
    return not lists and all(n.dtype[0] in "iub" for n in found)


def part(lo: Statements, found: List, along: Slice, node: ast.Subscript) -> Value:
    """x[a:b:c], a new list."""
    given = along.start, along.stop, along.step
    ends: list[Value] = [Static(None) if p is None else calls.whole(lo, p, node.lineno) for p in given]
    return calls.of_written(lo, written_lists.part, [found, *ends], {}, node)


def set_item(lo: Statements, found: List, index: tuple[Value, ...], value: Value, line: int) -> None:
    """x[i] = value"""
    found = now(lo, found)
    item = columns.item_of(lo, value, line)
    at = _at(lo, found, index, "list assignment index out of range", line)
    if found.at is not None and not columns.fits(found.t.item, item):
        raise Pools((found.t.place,), (columns.type_of(item),))
    _take(found, item)
    columns.write(lo, found.t.place, _item(found, line), at, item)


def method(lo: Statements, found: List, name: str, args: list[Value], line: int) -> Value:
    """x.append(v), x.pop(), x.clear()"""
    found = now(lo, found)
    if name == "append" and len(args) == 1:
        return _append(lo, found, columns.item_of(lo, args[0], line), line)
    if name == "pop" and not args:
        fault = lo.b.fault("IndexError", "pop from empty list", line)
        n = _length(lo, found)
        lo.b.emit(If(compare("equal", n, ZERO), (Fail(fault),)))
        if found.t.item is None:
            lo.env = None
            raise Dead
        _set_length(lo, found, sub(n, ONE))
        last = _length(lo, found)
        at = last if found.at is None else pools.place_of(lo, found, last)
        return columns.read(lo, columns.names(found.t.place, found.t.item), found.t.item, at, keep=True)
    if name == "clear" and not args:
        _set_length(lo, found, ZERO)
        return Static(None)
    raise Refused(f"the method {name} of a list", line, "Use append, pop, insert, sort and the like, or an array")


def sort(lo: Statements, found: List, reverse: Value | None, line: int) -> Value:
    """x.sort(), by Python: columns of tuples are sorted together."""
    found = now(lo, found)
    down = reverse.e if isinstance(reverse, Scalar) else Const("bool", False)
    if not isinstance(down, Const) or not (reverse is None or isinstance(reverse, Scalar)):
        raise Refused("sort with this", line)
    if found.t.item is None:
        return Static(None)
    if columns.of_lists(cast(Any, found.t.item)):
        raise Refused("sort of a list of lists", line, "Sort tuples")
    shown, t = shown_in(lo, found, line), found.t.item

    def act(*parts: Any) -> None:
        items = columns.items_of(t, [x.tolist() for x in parts])
        order = sorted(range(len(items)), key=items.__getitem__, reverse=bool(down.value))
        for x in parts:
            x[:] = x[order]

    calling.called(lo, act, shown, {}, line, name="list.sort", sampled=_sorted, writes=range(len(shown)))
    return Static(None)


def _sorted(*parts: Any) -> None:
    for x in parts:
        x.tolist().sort()


def as_array(lo: Statements, found: List, line: int) -> Array:
    """The items, as a new array: of NumPy's dtype for them."""
    if isinstance(found.t.item, Tup | Lst):
        of = "tuples" if isinstance(found.t.item, Tup) else "lists"
        raise Refused(f"an array of a list of {of}", line, "Fill an array in the loop")
    if isinstance(found.t.item, Mixed):
        return _of_mixed(lo, found, found.t.item, line)
    (shown,) = shown_in(lo, found, line)
    made = elementwise.allocated(lo, shown.t, elementwise.shape_of(shown), False, line)
    elementwise.fill(lo, made, elementwise.lazy(shown), True, line)
    return made


def _of_mixed(lo: Statements, found: List, t: Mixed, line: int) -> Array:
    """The same, of items of several types with one dtype."""
    kinds = {columns.kinds(i)[0].dtype for i in t.alternatives}
    if len(kinds) > 1 or not all(isinstance(i, Num) for i in t.alternatives):
        raise Refused(f"an array of a list of {t}", line, "Fill an array in the loop")
    tags, *parts = shown_in(lo, found, line)
    made = elementwise.allocated(lo, Arr(kinds.pop(), 1), elementwise.shape_of(tags), False, line)

    def copy(at: list[Any]) -> None:
        which = element(tags.name, tags.t.dtype, at)
        e: Expr = element(parts[0].name, made.t.dtype, at)
        for k, part in enumerate(parts[1:], 1):
            e = pick(compare("equal", which, Const(tags.t.dtype, k)), element(part.name, made.t.dtype, at), e)
        lo.b.emit(Store(made.name, tuple(at), e, (-1,)))

    elementwise.loops(lo, list(elementwise.shape_of(tags)), copy, line)
    return made


def shown_in(lo: Statements, found: List, line: int) -> list[Array]:
    """Views of the items there are, one for each of their numbers."""
    found = now(lo, found)
    if found.t.item is None:
        return [elementwise.allocated(lo, Arr("float64", 1), [ZERO], False, line)]
    made, first, count = [], pools.start(lo, found) if found.at is not None else ZERO, lo.b.keep(_length(lo, found))
    for source, n in zip(columns.names(found.t.place, found.t.item), columns.kinds(found.t.item), strict=True):
        name = lo.b.array(n.dtype, 1)
        lo.b.view(View(name, source, (), (Span(0, first, count, ONE),)))
        made.append(Array(Arr(n.dtype, 1), name))
    return made


def of_lists(found: Value) -> list[str]:
    """The places of lists of lists that a loop goes over."""
    parts = (found, *getattr(found, "parts", ()))
    every = [p.t for p in parts if isinstance(p, List) and not p.t.pooled]
    return [t.place for t in every if t.item is not None and columns.of_lists(cast(Any, t.item))]


def calm(lo: Statements, found: Value, body: list[ast.stmt]) -> bool:
    """Whether statements leave the lists of pools that a loop goes over as long as they are, and where they are.

    Any list may be the one that it goes over, so all that may make, lengthen or shorten one counts.
    """
    parts = (found, *getattr(found, "parts", ()))
    if not any(isinstance(p, List) and p.at is not None for p in parts):
        return True
    inner = [n for s in body for n in walk(s)]
    bound = {n.id for n in inner if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}

    def other(n: ast.AST) -> bool:
        """Whether something has a name here, and is no list of a pool, or is a module that knows no lists."""
        if not isinstance(n, ast.Name) or n.id in bound or lo.env is None:
            return False
        if not lo.is_local(n.id):
            return any(outside(lo, n.id) is m for m in _WITHOUT_LISTS)
        alts = lo.env.get(lo.owner(n.id).prefix + n.id, ())
        return all(isinstance(t, Num | Arr | Dct) or (isinstance(t, Lst) and _of_numbers(t)) for t in alts)

    for n in inner:
        if isinstance(n, ast.List | ast.ListComp | ast.Slice | ast.FunctionDef | ast.Lambda):
            return False
        if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name) and not other(n.target):
            alts = (lo.env or {}).get(lo.scope.prefix + n.target.id, ())
            if not alts or any(isinstance(t, Lst) for t in alts):
                return False
        if isinstance(n, ast.Call):
            harmless = isinstance(n.func, ast.Name) and n.func.id in _HARMLESS and not lo.is_local(n.func.id)
            method = isinstance(n.func, ast.Attribute) and other(n.func.value)
            if not (harmless or (method and not any(isinstance(a, ast.Starred) for a in n.args))):
                return False
    return True


def outside(lo: Statements, name: str) -> Any:
    """What a name of the module is."""
    scope: Any = lo.scope
    while scope.function is None:
        scope = scope.parent
    return scope.function.__globals__.get(name)


def _of_numbers(t: Lst) -> bool:
    return not t.pooled and not (t.item is not None and columns.of_lists(cast(Any, t.item)))


def changes(lo: Statements, found: Value, body: list[ast.stmt]) -> bool:
    """Whether a loop over lists may change a list: its length, or what it iterates over."""
    parts = [p for p in (found, *getattr(found, "parts", ())) if isinstance(p, List) and p.at is None]
    if not parts:
        return False
    calls_ = (n for s in body for n in walk(s) if isinstance(n, ast.Call))
    stores = (n for s in body for n in walk(s) if isinstance(n, ast.Subscript) and not isinstance(n.ctx, ast.Load))
    names = [n.value for n in stores if isinstance(n.value, ast.Name)]
    for call in calls_:
        if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name):
            names.append(call.func.value)
        if not isinstance(call.func, ast.Name) or call.func.id not in _HARMLESS:
            names += [a for a in call.args if isinstance(a, ast.Name)]
    places = {p.t.place for p in parts}
    for n in names:
        if lo.is_local(n.id) and lo.env is not None:
            alts = lo.env.get(lo.owner(n.id).prefix + n.id, ())
            if any(isinstance(t, Lst) and t.place in places for t in alts):
                return True
    return any(isinstance(n.func, ast.Name) and lo.is_local(n.func.id) for s in body for n in _calls(s))


def _calls(node: ast.AST) -> list[ast.Call]:
    return [n for n in walk(node) if isinstance(n, ast.Call)]


def _append(lo: Statements, found: List, item: Value, line: int) -> Value:
    if found.at is not None:
        pools.append(lo, found, item, line)
        return Static(None)
    b, n = lo.b, Var(_n(found.t.place), INT)
    if found.t.item is None:  # the first one says what the list is of
        t = _item_type(lo, found.t.place, [item])
        empty, found = found.t, _storage(lo, found.t.place, t, Const(INT, ROOM), line)
        lo.set_items(empty, found.t)
    _take(found, item)
    t = _item(found, line)
    data = columns.names(found.t.place, t)
    if data:
        with b.inside() as grow:
            columns.grow(lo, found.t.place, t, n, line)
        b.emit(If(compare("equal", n, Dim(data[0], 0)), tuple(grow)))
    columns.write(lo, found.t.place, t, n, item)
    b.emit(Set(n.name, add(n, ONE)))
    return Static(None)


def _item_type(lo: Statements, place: str, items: list[Any]) -> columns.Item:
    """What a list is of that is made of some items."""
    known = lo.functions.mixed.get(place)
    t = known or columns.type_of(items[0])
    if not all(columns.fits(t, v) for v in items):
        raise Mixes(place, *map(columns.type_of, items))
    return t


def _take(found: List, item: Value) -> None:
    """The list gets an item of its type; with another, it is a list of several types, and all is looked at again."""
    if found.t.item is not None and not columns.fits(found.t.item, item):
        raise Mixes(found.t.place, found.t.item, columns.type_of(item))


def _item(found: List, line: int) -> columns.Item:
    if found.t.item is None:
        raise Refused("an item of an empty list", line)
    return found.t.item


def _at(lo: Statements, found: List, index: tuple[Value, ...], text: str, line: int) -> Any:
    if len(index) != 1 or not isinstance(index[0], Scalar):
        raise Refused("a part of a list", line, "Use an array")
    i = calls.whole(lo, index[0], line)
    fault = lo.b.fault("IndexError", text, line)
    if found.t.item is None:
        lo.b.emit(Fail(fault))
        lo.env = None
        raise Dead
    at = lo.b.keep(Op("subscript", INT, (lo.b.held(i.e), _length(lo, found)), fault))
    return at if found.at is None else pools.place_of(lo, found, at)


def _storage(lo: Statements, place: str, t: columns.Item, room: Any, line: int) -> List:
    """A list at a place, with room for some items."""
    lo.b.names[_n(place)] = INT
    columns.allocate(lo, place, t, room, line)
    return List(Lst(t, place))


def alone(lo: Statements, place: str, name: str, line: int, *, pooled: bool = True) -> None:
    """Nobody else may have the last list of a place, where a new one is made; else it is to be one of a pool."""
    if place in lo.b.iterated:
        raise Refused("a list or dict that is made anew while a loop goes over it", line, "Give it a name of its own")
    for other, alts in (lo.env or {}).items():
        if other != name and any(_refers(t, place) for t in alts):
            if pooled:
                raise Pools((place,))
            raise Refused("dicts of one place that are used beside each other", line, "Use arrays")


def current(lo: Statements, empty: Any) -> Any:
    """The type of a container that was empty when it was looked at: subscripts and arguments may have put items."""
    every = [t for alts in (lo.env or {}).values() for t in alts]
    while every:
        t = every.pop()
        if isinstance(t, Tup):
            every += t.items
        elif isinstance(t, Lst | Dct) and t.place == empty.place and t != empty:
            return t
    return empty


def now(lo: Statements, found: List) -> List:
    return List(current(lo, found.t)) if found.t.item is None and found.at is None else found


def _refers(t: Any, place: str) -> bool:
    return (isinstance(t, Lst | Dct) and t.place == place) or any(_refers(i, place) for i in getattr(t, "items", ()))


def _n(place: str) -> str:
    return f"{place}#n"
