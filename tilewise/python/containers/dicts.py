"""Dicts and sets of numbers, or of tuples of them. In: displays, subscripts, methods. Out: tables in arrays.

As a list (lists.py), a dict is known by the place where it is made. Its entries are columns in the order of insertion
(`#k`, `#v`, their hashes, whether they are alive), and a table of open addresses says where they are. What goes through
the table is written in Python (hashing.py). The order of a set is not ours to know: loops over sets are refused.
"""

from __future__ import annotations

import ast
import contextlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from tilewise.kernel.program.ir import (
    BOOL,
    INT,
    RERUN,
    Const,
    Dim,
    Expr,
    Fail,
    If,
    Op,
    Pick,
    Set,
    Span,
    Store,
    Var,
    View,
)
from tilewise.python.build import (
    ONE,
    ZERO,
    Array,
    Dict,
    List,
    Scalar,
    Static,
    Tuple,
    Value,
    add,
    compare,
    either,
    element,
    sub,
)
from tilewise.python.refuse import Mixes, Refused
from tilewise.python.scope import Dead
from tilewise.python.types import LENGTH, PY_BOOL, PY_INT, Arr, Dct, Num, Tup, ints, join

if TYPE_CHECKING:
    from tilewise.python.statements import Statements
from tilewise.python.containers import columns, hashing, lists, watched
from tilewise.python.functions import calls
from tilewise.python.host import calling
from tilewise.python.scalars import arithmetic
from tilewise.python.standard import sequences, written_dicts

ROOM = 8  # entries that a new dict has room for
INLINED = 2  # lines of a program in which going through the table is part of the code
SPARE = 2  # places of the table for each entry, at least
MIXING = 0x9E3779B97F4A7C15  # an odd number without a pattern (2**64 over the golden ratio)


def made(lo: Statements, items: list[tuple[Value, Value | None]], name: str, line: int, *, members: bool) -> Dict:
    """A dict, or a set (`members`), known by a name for its place."""
    place = f"{name}@{line}"
    lists.alone(lo, place, lo.assigned, line, pooled=False)
    for part in ("n", "live"):
        lo.b.names[f"{place}#{part}"] = INT
        lo.b.emit(Set(f"{place}#{part}", ZERO))
    found = Dict(Dct(None, None, place, members))
    for k, v in items:
        found = put(lo, found, k, v, line)
    return found


def comprehended(lo: Statements, node: ast.DictComp | ast.SetComp) -> Value:
    """{... for ... in ... if ...}: a loop that puts items."""
    name = f"dict@{node.lineno}.{node.col_offset}"
    whole: Any = ast.Name(name, ast.Load())
    first: ast.expr
    body: list[ast.stmt]
    if isinstance(node, ast.DictComp):
        first = ast.Dict([], [])
        body = [ast.Assign([ast.Subscript(whole, node.key, ast.Store())], node.value)]
    else:
        first = ast.Call(ast.Name("set", ast.Load()), [], [])
        body = [ast.Expr(ast.Call(ast.Attribute(whole, "add", ast.Load()), [node.elt], []))]
    for gen in reversed(node.generators):
        for test in reversed(gen.ifs):
            body = [ast.If(test, body, [])]
        body = [ast.For(gen.target, gen.iter, body, [])]
    tree = [ast.Assign([ast.Name(name, ast.Store())], first), *body]
    with sequences.written_out(lo, tree, node.generators, name, node, "a dict of") as full:
        assert lo.env is not None
        return lo.fetch(full, lo.env[full][0])


def length(found: Dict) -> Scalar:
    return Scalar(ints(0, LENGTH), Var(f"{found.t.place}#live", INT))


def contains(lo: Statements, found: Dict, wanted: Value, line: int) -> Scalar:
    """wanted in found"""
    found = now(lo, found)
    if found.t.key is None:
        _key(lo, wanted, line)
        return arithmetic.constant(False)
    at, _, _ = _find(lo, found, wanted, line)
    return Scalar(PY_BOOL, compare("greater_equal", at, ZERO))


def item(lo: Statements, found: Dict, wanted: Value, line: int) -> Value:
    """found[wanted]"""
    found = now(lo, found)
    if found.t.members:
        raise Refused("a subscript of a set", line)
    at = _present(lo, found, wanted, line)
    return _value(lo, found, at)


def put(lo: Statements, found: Dict, wanted: Value, value: Value | None, line: int) -> Dict:
    """found[wanted] = value, or found.add(wanted); the dict, whose types may be known now only."""
    found = now(lo, found)
    place = found.t.place
    held = None if value is None else columns.item_of(lo, value, line)
    if found.t.key is None:  # the first one says what the dict is of
        wanted = _key(lo, wanted, line)
        value_type = None if held is None else lo.functions.mixed.get(place) or columns.type_of(held)
        t = Dct(columns.type_of(wanted), value_type, place, found.t.members)
        lo.set_items(found.t, t)
        found = Dict(t)
    _declared(lo, found)
    at, parts, hashed = _find(lo, found, wanted, line)
    if found.t.value is not None:
        assert held is not None
        if not columns.fits(found.t.value, held):
            raise Mixes(place, found.t.value, columns.type_of(held))
    with lo.b.inside() as absent:
        _insert(lo, found, parts, hashed, held, line)
    with lo.b.inside() as there:
        if found.t.value is not None and held is not None:
            columns.write(lo, f"{place}#v", found.t.value, at, held)
    lo.b.emit(If(compare("less", at, ZERO), tuple(absent), tuple(there)))
    return found


def delete(lo: Statements, found: Dict, wanted: Value, line: int) -> None:
    """del found[wanted]"""
    found = now(lo, found)
    _remove(lo, found, _present(lo, found, wanted, line), line)


def method(lo: Statements, found: Dict, name: str, args: list[Value], node: ast.Call) -> Value:
    """The methods of dicts and sets that do not hand out others."""
    found = now(lo, found)
    line = node.lineno
    if name == "clear" and not args:
        watched.moved(lo, found.t.place)
        for part in ("n", "live"):
            lo.b.emit(Set(f"{found.t.place}#{part}", ZERO))
        return Static(None)
    if found.t.members and len(args) == 1:
        if name == "add":
            put(lo, found, args[0], None, line)
            return Static(None)
        if name == "remove":
            delete(lo, found, args[0], line)
            return Static(None)
        if name == "discard":
            if found.t.key is not None:
                at, _, _ = _find(lo, found, args[0], line)
                with lo.b.inside() as there:
                    _remove(lo, found, at, line)
                lo.b.emit(If(compare("greater_equal", at, ZERO), tuple(there)))
            return Static(None)
    if not found.t.members:
        if name == "get" and len(args) in (1, 2):
            return _get(lo, found, args[0], args[1] if len(args) > 1 else Static(None), node, remove=False)
        if name == "pop" and len(args) == 2:
            return _get(lo, found, args[0], args[1], node, remove=True)
        if name == "pop" and len(args) == 1:
            at = _present(lo, found, args[0], line)
            value = _value(lo, found, at)
            _remove(lo, found, at, line)
            return value
        if name == "update" and len(args) == 1 and isinstance(args[0], Dict) and not args[0].t.members:
            return calls.of_written(lo, written_dicts.update, [found, args[0]], {}, node)
        if name == "popitem" and not args:
            return _pop_last(lo, found, line)
        if name == "setdefault" and len(args) == 2:
            return _set_default(lo, found, args[0], args[1], line)
    kind = "set" if found.t.members else "dict"
    raise Refused(f"the method {name} of a {kind}", line, "Use subscripts, in, get, pop, update, add, remove or a loop")


def compared_by_value(found: Dict) -> bool:
    """Whether a dict is equal to others with equal values (as for lists)."""
    t = found.t.value
    return t is None or (not columns.of_lists(cast(Any, t)) and all(n.dtype[0] in "iub" for n in columns.kinds(t)))


def shown_in(lo: Statements, found: Dict, part: str, line: int) -> list[Array]:
    """Views of the entries there are, in their order: of "k", the keys, or "v", the values."""
    found = now(lo, found)
    t = found.t.key if part == "k" else found.t.value
    if t is None:
        return []
    _squeeze(lo, found, line)
    place, out = found.t.place, []
    for source, n in zip(columns.names(f"{place}#{part}", t), columns.kinds(t), strict=True):
        name = lo.b.array(n.dtype, 1)
        lo.b.view(View(name, source, (), (Span(0, ZERO, lo.b.keep(Var(f"{place}#n", INT)), ONE),)))
        out.append(Array(Arr(n.dtype, 1), name))
    return out


def now(lo: Statements, found: Dict) -> Dict:
    return Dict(lists.current(lo, found.t)) if found.t.key is None else found


def _declared(lo: Statements, found: Dict) -> None:
    """The variables of a dict whose types are known."""
    place = found.t.place
    assert found.t.key is not None
    columns.declared(lo, f"{place}#k", found.t.key)
    if found.t.value is not None:
        columns.declared(lo, f"{place}#v", found.t.value)
    for name, dtype in ((_table(place), INT), (_hashes(place), INT), (_alive(place), BOOL)):
        lo.b.arrays[name] = (dtype, 1)
        lo.b.roots.setdefault(name, frozenset())


def _hash(lo: Statements, part: Scalar, line: int) -> Expr:
    """Some bits of a number; equal integers have equal ones, whatever their types."""
    e: Expr = part.e
    if part.t.dtype[0] == "c":
        raise Refused("a complex number as a key", line)
    if part.t.dtype[0] == "f":
        wide = lo.b.held(arithmetic.cast(e, "float64"))
        nan = lo.b.fault(RERUN, "a NaN as a key: Python knows those by identity, compiled loops do not", line)
        lo.b.emit(If(compare("not_equal", wide, wide), (Fail(nan),)))
        e = Op("float_bits", INT, (Op("add", "float64", (wide, Const("float64", 0.0))),))  # of -0.0, those of 0.0
    return arithmetic.cast(arithmetic.cast(e, INT), "uint64")


def _key(lo: Statements, wanted: Value, line: int) -> Scalar | Tuple:
    """A key, as it is now."""
    if columns.of_lists(columns.type_of(found := columns.item_of(lo, wanted, line))) or isinstance(found, List):
        raise Refused("a list as a key", line, "Use a tuple")
    return found


def _find(lo: Statements, found: Dict, wanted: Value, line: int) -> tuple[Expr, Scalar | Tuple, Expr]:
    """The entry of a key or -1, the key as it is now, its hash."""
    _declared(lo, found)
    t, place = found.t, found.t.place
    assert t.key is not None
    parts = _key(lo, wanted, line)
    numbers, kinds = columns.numbers(parts), columns.kinds(t.key)
    alike = _shape(columns.type_of(parts)) == _shape(t.key)
    if not alike or not all(map(_comparable, numbers, kinds)):
        raise Refused(f"a key {columns.type_of(parts)} for keys {t.key}", line, "Give all keys one type")
    hashed: Expr = Const("uint64", 0)
    for s in numbers:
        hashed = Op("bitwise_xor", "uint64", (hashed, _hash(lo, s, line)))
        hashed = lo.b.keep(Op("multiply", "uint64", (hashed, Const("uint64", MIXING))))
        hashed = Op("bitwise_xor", "uint64", (hashed, Op("right_shift", "uint64", (hashed, Const("uint64", 32)))))
    number = lo.b.keep(arithmetic.cast(hashed, INT))
    arrays = tuple(Array(Arr(n.dtype, 1), a) for n, a in zip(kinds, columns.names(f"{place}#k", t.key), strict=True))
    args: list[Value] = [
        Array(Arr(INT, 1), _table(place)), Scalar(ints(0, LENGTH), Var(f"{place}#n", INT)), Tuple(arrays),
        Tuple(tuple(numbers)), Scalar(PY_INT, number),
    ]  # fmt: skip
    at = _written(lo, hashing.find, args, line)
    return lo.b.keep(at.e), parts, number


def _comparable(s: Scalar, n: Num) -> bool:
    """Whether equal numbers have equal hashes."""
    return s.t.dtype == n.dtype or (s.t.whole and n.whole)


def _shape(t: Any) -> Any:
    return tuple(map(_shape, t.items)) if isinstance(t, Tup) else ""


def _written(lo: Statements, f: Any, args: list[Value], line: int) -> Scalar:
    """A function of hashing.py: part of the code in the first lines that need it, elsewhere a call."""
    node = SimpleNamespace(lineno=line, col_offset=0)
    places = lo.functions.places.setdefault(f, {})
    known = places.setdefault((lo.scope.prefix, line), len(places))
    with lo.b.surely():
        made = calls.of_written(lo, f, args, {}, node) if known < INLINED else calls.of_shared(lo, f, args, node)
    return made if isinstance(made, Scalar) else arithmetic.constant(0)


def _present(lo: Statements, found: Dict, wanted: Value, line: int) -> Expr:
    """The entry of a key that must be there."""
    parts: Value
    if found.t.key is None:
        at, parts = Const(INT, -1), _key(lo, wanted, line)
    else:
        at, parts, _ = _find(lo, found, wanted, line)  # type: ignore[assignment]

    def missing(k: Any) -> None:
        raise KeyError(k)

    env = dict(lo.env or {})
    with lo.b.inside() as fails, contextlib.suppress(Dead):
        calling.called(lo, missing, [parts], {}, line, name="KeyError", sampled=lambda k: None)
        lo.fail("KeyError", "", line)
    if found.t.key is None:
        lo.b.block.extend(fails)
        lo.env = None
        raise Dead
    lo.env = env
    lo.b.emit(If(compare("less", at, ZERO), tuple(fails)))
    return at


def _value(lo: Statements, found: Dict, at: Expr) -> Value:
    t = found.t.value
    assert t is not None
    return columns.read(lo, columns.names(f"{found.t.place}#v", t), t, at, keep=True)


def _get(lo: Statements, found: Dict, wanted: Value, default: Value, node: ast.Call, *, remove: bool) -> Value:
    """The value of a key, or another."""
    line, start = node.lineno, len(lo.b.block)
    default = lo.settled(default, line)
    if found.t.key is None:
        _key(lo, wanted, line)
        return default
    at, _, _ = _find(lo, found, wanted, line)
    full = f"{lo.scope.prefix}get@{line}.{node.col_offset}"
    before = dict(lo.env or {})
    with lo.b.inside() as there:
        lo.bind(full, _value(lo, found, at), line, full=True)
        if remove:
            _remove(lo, found, at, line)
    one, lo.env = lo.env, dict(before)
    with lo.b.inside() as absent:
        lo.bind(full, default, line, full=True)
    lo.env = join(one, lo.env)
    lo.b.emit(If(compare("less", at, ZERO), tuple(absent), tuple(there)))
    assert lo.env is not None
    alts = lo.env[full]
    if len(alts) > 1:
        raise calls.Several(node, f"get, which gives {' or '.join(map(str, alts))}", line, full, lo.b.block[start:])
    return lo.fetch(full, alts[0])


def _pop_last(lo: Statements, found: Dict, line: int) -> Value:
    """The entry that came last, which goes."""
    live = Var(f"{found.t.place}#live", INT)
    fault = lo.b.fault("KeyError", "popitem(): dictionary is empty", line)
    lo.b.emit(If(compare("equal", live, ZERO), (Fail(fault),)))
    if found.t.key is None or found.t.value is None:
        lo.env = None
        raise Dead
    _squeeze(lo, found, line)
    at = lo.b.keep(sub(Var(f"{found.t.place}#n", INT), ONE))
    place, t = f"{found.t.place}#k", found.t.key
    entry = Tuple((columns.read(lo, columns.names(place, t), t, at, keep=True), _value(lo, found, at)))
    _remove(lo, found, at, line)
    return entry


def _set_default(lo: Statements, found: Dict, wanted: Value, default: Value, line: int) -> Value:
    """The value of a key, which it gets if it has none."""
    held, kept = columns.item_of(lo, default, line), _key(lo, wanted, line)
    if found.t.key is not None:
        at, _, _ = _find(lo, found, kept, line)
        with lo.b.inside() as absent:
            put(lo, found, kept, held, line)
        lo.b.emit(If(compare("less", at, ZERO), tuple(absent)))
    else:
        found = put(lo, found, kept, held, line)
    return item(lo, found, kept, line)


def _insert(lo: Statements, found: Dict, parts: Value, hashed: Expr, value: Value | None, line: int) -> None:
    """A new entry, with more room where there is none."""
    b, place, t = lo.b, found.t.place, found.t
    assert t.key is not None
    if not columns.fits(t.key, parts):
        raise Refused(f"a key {columns.type_of(parts)} for keys {t.key}", line, "Give all keys one type")
    watched.moved(lo, found.t.place)
    used, live = Var(f"{place}#n", INT), Var(f"{place}#live", INT)
    table, hashes, alive = _table(place), _hashes(place), _alive(place)
    with b.inside() as crowded:
        _squeeze(lo, found, line)
        few = compare("less", Op("multiply", INT, (live, Const(INT, 2 * SPARE)), exact=True), Dim(table, 0))
        room = Op("multiply", INT, (Dim(table, 0), Const(INT, 2)), exact=True)
        # Where nothing is used, a dict of this place may have been here before.
        size = Pick(compare("equal", used, ZERO), Const(INT, SPARE * ROOM), Pick(few, Dim(table, 0), room, INT), INT)
        args: list[Value] = [Scalar(ints(0, LENGTH), b.keep(size)), _array(hashes, INT), Scalar(ints(0, LENGTH), used)]
        _renewed(lo, hashing.filled, args, [table], line)
    twice = Op("multiply", INT, (add(used, ONE), Const(INT, SPARE)), exact=True)
    b.emit(If(either(compare("equal", used, ZERO), compare("greater", twice, Dim(table, 0))), tuple(crowded)))
    with b.inside() as more:
        every = _entries(found)
        args = [Tuple(tuple(_array(*e) for e in every)), Scalar(ints(0, LENGTH), used)]
        _renewed(lo, hashing.grown(len(every)), args, [name for name, _ in every], line)
    b.emit(If(compare("equal", used, Dim(hashes, 0)), tuple(more)))
    columns.write(lo, f"{place}#k", t.key, used, parts)
    if t.value is not None and value is not None:
        columns.write(lo, f"{place}#v", t.value, used, value)
    b.emit(Store(hashes, (used,), hashed, (-1,)))
    b.emit(Store(alive, (used,), Const(BOOL, True), (-1,)))
    slot: list[Value] = [_array(table, INT), Scalar(PY_INT, hashed), Scalar(ints(0, LENGTH), used)]
    _written(lo, hashing.enter, slot, line)
    b.emit(Set(used.name, add(used, ONE)))
    b.emit(Set(live.name, add(live, ONE)))


def _remove(lo: Statements, found: Dict, at: Expr, line: int) -> None:
    """The entry of a place goes."""
    place = found.t.place
    watched.moved(lo, found.t.place)
    if place not in lo.b.removed:
        lo.b.removed.add(place)
        lo.b.grown += 1  # loops around here are looked at again
    lo.b.emit(Store(_alive(place), (at,), Const(BOOL, False), (-1,)))
    hashed = lo.b.keep(element(_hashes(place), INT, [at]))
    args: list[Value] = [_array(_table(place), INT), Scalar(PY_INT, hashed), Scalar(ints(0, LENGTH), at)]
    _written(lo, hashing.leave, args, line)
    lo.b.emit(Set(f"{place}#live", sub(Var(f"{place}#live", INT), ONE)))


def _squeeze(lo: Statements, found: Dict, line: int) -> None:
    """Without entries that are gone."""
    place, t = found.t.place, found.t
    assert t.key is not None
    _declared(lo, found)
    if place not in lo.b.removed:  # nothing has gone so far
        return
    used, live = Var(f"{place}#n", INT), Var(f"{place}#live", INT)
    args: list[Value] = [
        _array(_table(place), INT), Scalar(ints(0, LENGTH), used),
        Tuple(tuple(_array(*e) for e in _entries(found))),
    ]  # fmt: skip
    with lo.b.inside() as gaps:
        _rare(lo, hashing.squeeze, args, line)
        lo.b.emit(Set(used.name, live))
    lo.b.emit(If(compare("not_equal", used, live), tuple(gaps)))


def _rare(lo: Statements, f: Any, args: list[Value], line: int) -> Value:
    """A call of a function of hashing.py that hardly ever runs."""
    with lo.b.rarely(), lo.b.surely():
        return calls.of_shared(lo, f, args, SimpleNamespace(lineno=line, col_offset=0))


def _renewed(lo: Statements, f: Any, args: list[Value], names: list[str], line: int) -> None:
    """A function of hashing.py that makes new arrays, which arrays of a dict become."""
    made = _rare(lo, f, args, line)
    fresh = made.items if isinstance(made, Tuple) else (made,)
    for name, one in zip(names, fresh, strict=True):
        assert isinstance(one, Array)
        lo.b.rename(name, one.name)


def _entries(found: Dict) -> list[tuple[str, str]]:
    """The arrays of entries, with their dtypes: whether they are alive, their hashes, keys and values."""
    place, t = found.t.place, found.t
    assert t.key is not None
    every = [(f"{place}#k", t.key), *([(f"{place}#v", t.value)] if t.value is not None else [])]
    parts = [(a, n.dtype) for p, i in every for a, n in zip(columns.names(p, i), columns.kinds(i), strict=True)]
    return [(_alive(place), BOOL), (_hashes(place), INT), *parts]


def _array(name: str, dtype: str) -> Array:
    return Array(Arr(dtype, 1), name)


def _table(place: str) -> str:
    return f"{place}#table"


def _hashes(place: str) -> str:
    return f"{place}#hashes"


def _alive(place: str) -> str:
    return f"{place}#alive"
