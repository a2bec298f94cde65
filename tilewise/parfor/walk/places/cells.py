"""Subscripts where they are read: regions of arrays, cells of lists and dicts. In: values, subscripts. Out: values."""

from __future__ import annotations

import ast
import collections
import contextlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tilewise.kernel.dependence.expr import (
    Expr,
    Undecided,
    computed,
    constant,
    scale,
)
from tilewise.parfor.walk.kept import replace
from tilewise.parfor.walk.knowns import Alike, fixed_key
from tilewise.parfor.walk.own_code import has_operators
from tilewise.parfor.walk.places.groups import chosen_rows
from tilewise.parfor.walk.places.subscripts import (
    LONGEST_TABLE,
    Part,
    Slice,
    subscript_view,
    wrapped,
)
from tilewise.parfor.walk.record import fixed_text, unknown
from tilewise.parfor.walk.scope import Walk
from tilewise.parfor.walk.values import (
    ANYTHING,
    INTEGER,
    TEXT,
    Group,
    Obj,
    Val,
    join,
    narrow_of,
    of_expr,
)

MOST_ROWS = 4096  # of a table of positions
MOST_CHOICES = 16  # positions of a list that is written out
PLAIN_DICTS = (dict, collections.OrderedDict)
DICTS = (collections.defaultdict, collections.Counter)


class Cells(Walk):
    """Follows subscripts."""

    def parts_of(self, node: ast.expr) -> list[Part]:
        """The parts of a subscript; a tuple of one is left as it is, since as a key it is not what it holds."""
        if isinstance(node, ast.Tuple):
            parts = [self._part(e) for e in node.elts]
            if len(parts) == 1 and isinstance(parts[0], Val):
                return [Val(items=(parts[0],), scalar=parts[0].scalar)]
            return parts
        if isinstance(node, ast.Call) and node.args and not node.keywords and self._is_product(node):
            return [self._part(e) for e in node.args]
        part = self._part(node)
        if isinstance(part, Val) and part.items is not None and len(part.items) != 1:
            return list(part.items)
        return [part]

    def _is_product(self, node: ast.Call) -> bool:
        """Whether a subscript is `np.ix_(...)`: all positions of one axis with all of the next, as tables are taken."""
        named = isinstance(node.func, ast.Name | ast.Attribute) and "ix_" in ast.unparse(node.func)
        return named and self.ev(node.func).known is np.ix_ and not any(isinstance(e, ast.Starred) for e in node.args)

    def _part(self, node: ast.expr) -> Part:
        if isinstance(node, ast.Slice):
            ends = (node.lower, node.upper, node.step)
            return Slice(*(self.use(self.ev(e)) if e is not None else None for e in ends))
        if isinstance(node, ast.List):
            items = [self.use(self.ev(e)) for e in node.elts]
            if items and all(i.expr is not None and i.expr.constant and i.kind == "i" for i in items):
                return Val(known=tuple(i.expr.const for i in items if i.expr is not None), scalar=True)
            exprs = tuple(i.expr for i in items if i.expr is not None and i.kind == "i")
            if items and len(exprs) == len(items) <= MOST_CHOICES:
                return Val(positions=exprs)
            return self.made(items, array=False)
        value = self.use(self.ev(node))
        if value.is_known and isinstance(value.known, slice):
            ends = (value.known.start, value.known.stop, value.known.step)
            return Slice(*(None if e is None else self.value_of(e, "a slice") for e in ends))
        if value.function is None and value.method is not None and value.method[1] == "slice" and value.method[0].items:
            one = value.method[0].items
            return Slice(*((None if v.is_known and v.known is None else v) for v in one))
        return value

    def load(self, base: Val, parts: list[Part], node: ast.expr | None = None) -> Val:
        """`base[parts]` where it is read."""
        if base.view is not None:
            return self._load_region(base, parts)
        if base.items is not None and len(parts) == 1 and isinstance(parts[0], Val) and parts[0].expr is not None:
            at = parts[0].expr
            if at.constant and -len(base.items) <= at.const < len(base.items):
                return base.items[at.const]
        if base.items is not None:
            total: Val | None = None
            for item in base.items:
                total = join(total, item)
            return total or Val()
        part = parts[0] if len(parts) == 1 else None
        if base.is_known and base.known is np.s_ and isinstance(part, Slice):
            none = Val(known=None, scalar=True)
            return Val(
                method=(Val(items=(part.start or none, part.stop or none, part.step or none)), "slice"), scalar=True
            )
        if base.is_known and base.scalar and not isinstance(base.known, str | bytes | range):
            return ANYTHING if not base.scalar else Val(scalar=False, objs=base.objs)
        if self.own_subscripts(base):
            return ANYTHING
        key = self.key_of(parts, base)
        self.touch_cells(base, key, write=False)
        if base.is_known and isinstance(base.known, dict) and type(base.known) not in PLAIN_DICTS:
            self.touch_cells(base, key, write=True)  # a key that is missing is added
        found = self._found(base, parts, key)
        if not isinstance(part, Slice) or (base.is_known and base.scalar) or all(obj.array for obj in base.objs):
            return found
        new = self.made([found], array=False)  # a list of what is found, not that itself
        return new if base.is_known and isinstance(base.known, list) else join(found, new)

    def own_subscripts(self, base: Val) -> bool:
        """Whether an object has subscripts of its own making; recorded as a call of what is not known."""
        plain = (list, tuple, str, bytes, bytearray, range, Alike, *PLAIN_DICTS, *DICTS)
        own = base.is_known and type(base.known) not in plain and not base.scalar
        if own or base.method is not None or any(o.cls is not None for o in base.objs):
            name = next(iter(base.objs)).name if base.objs else "?"
            self.hazard(name, "call", "what its subscripts do is not known")
            return True
        return False

    def _load_region(self, base: Val, parts: list[Part]) -> Val:
        assert base.view is not None
        parts = _indices(parts)
        if base.is_known and isinstance(base.known, np.ndarray) and base.known.dtype.names and len(parts) == 1:
            part = parts[0]
            if isinstance(part, Val) and isinstance(part.known, str | list):
                return self.value_of(base.known[part.known], base.view.obj.name)
        found = subscript_view(base.view, parts, self)
        if found is None:
            return self.within(base)
        view, selects = found
        if selects:
            self.touch_view(view, write=False)
            return self.made([base], kind=base.kind)
        if view.axes or view.within or base.kind == "V":  # an element with fields shares memory
            return Val(view=view, kind=base.kind, group=self._row_of_table(base.known, parts))
        self.touch_view(view, write=False)
        if base.kind == "O":
            return ANYTHING
        out = Val(scalar=True, kind=base.kind)
        if base.is_known and isinstance(base.known, np.ndarray) and base.known.dtype.kind in "iubfU":
            out = replace(out, narrow=narrow_of(base.known.dtype))
            at = [p.expr for p in parts if isinstance(p, Val)]
            whole = all(e is not None and e.integer for e in at) and len(at) == len(parts) == base.known.ndim
            if whole and self.memory.constant(base.view.obj, at_once=False):
                from_table = _gathered(base.known, [e for e in at if e is not None], base.view.obj)
                return replace(out, expr=from_table) if from_table is not None else out
        return out

    def _row_of_table(self, table: Any, parts: list[Part]) -> Group | None:
        """The positions in a row of a table that does not change, by which other arrays may be indexed."""
        if not isinstance(table, np.ndarray) or table.ndim != 2 or table.dtype.kind not in "iu" or len(parts) != 1:
            return None
        (part,) = parts
        at = part.expr if isinstance(part, Val) and part.kind == "i" else None
        if at is None or not at.integer or at.lo < 0 or at.hi >= len(table) or table.size > LONGEST_TABLE:
            return None
        return chosen_rows(list(table), at, self) if len(table) <= MOST_ROWS else None

    def key_of(self, parts: list[Part], base: Val) -> Expr:
        """The key of a cell of a list or dict."""
        if len(parts) != 1:
            if _own_equality(base):
                return unknown()
            items = [p for p in parts if isinstance(p, Val)]
            return (self.object_expr(Val(items=tuple(items))) if len(items) == len(parts) else None) or unknown()
        (part,) = parts
        if isinstance(part, Slice) or _own_equality(base):
            return unknown()
        found = self.object_expr(part)
        if found is None:
            return unknown()
        if base.is_known and isinstance(base.known, list) and found.integer:
            return wrapped(found, constant(len(base.known))) or unknown()
        if (
            base.is_known
            and isinstance(base.known, Alike)
            and found.lo < 0
            and all(isinstance(v, list) for v in base.known.values)
        ):
            return unknown()
        if not base.is_known and found.lo < 0 and found.integer:
            return unknown()
        return found

    def touch_cells(self, base: Val, key: Expr, write: bool, op: str | None = None) -> None:
        """Record an access to a cell of a list, a dict or an instance."""
        if base.ident is not None:
            self.touch("cells", (base.ident, key), base.objs, write, op=op)
            return
        for obj in base.objs:
            if obj.array:
                self.touch_object(obj, write, op)
            else:
                self.touch("cells", (constant(obj.code), key), frozenset((obj,)), write, op=op)
        if base.anything:
            self.touch_value(ANYTHING, write, op)

    def length_read(self, value: Val) -> bool:
        """Record that the length of a list is read; whether it stays what it is at entry."""
        self.touch_cells(value, fixed_key("its length"), write=False)
        for obj in value.objs:
            obj.length_used = True
        return not any(("length", obj.key) in self.memory.not_constant for obj in value.objs)

    def _found(self, base: Val, parts: list[Part], key: Expr) -> Val:
        """What is in a cell."""
        if base.is_known and base.scalar:  # texts, ranges
            if isinstance(base.known, range) and key.integer:
                at = wrapped(key, constant(len(base.known)))
                if at is not None:
                    return of_expr(scale(at, base.known.step) + base.known.start)
            return TEXT
        if base.is_known and len(base.objs) == 1 and isinstance(base.known, list | dict):
            (obj,) = base.objs
            if type(base.known) in DICTS:
                return self._default(base.known, obj, key)
            if self.constant_at(obj, key):
                return self._at_entry(base.known, key, obj)
            return self._left_or_put(base.known, key, obj) or self.held_by(obj, base.known, obj.name)
        if isinstance(base.known, Alike) and all(self.constant_at(obj, key) for obj in base.objs):
            found = self._in_one_of(base.known, key, next(iter(base.objs)).name)
            if found is not None:
                return found
        total: Val | None = None
        for obj in base.objs:
            if obj.array:
                total = join(total, self.within(Val(objs=frozenset((obj,)), kind=base.kind)))
            else:
                known = base.known if base.is_known else obj.value
                total = join(total, self.held_by(obj, known, obj.name))
        if base.anything:
            return ANYTHING
        return total or Val()

    def _default(self, known: Any, obj: Obj, key: Expr) -> Val:
        """What is in a cell of a dict that adds what is missing."""
        if isinstance(known, collections.Counter):
            return INTEGER
        factory = known.default_factory
        if any(factory is made for made in (list, dict, set)):
            obj.content |= self.made([], array=False, name=f"a {factory.__name__}").objs
            return self._left_or_put(known, key, obj) or self.held_by(obj, known, obj.name)
        if not (factory is int or factory is float) or obj.content or obj.anything:
            return ANYTHING
        kind = kind_of_numbers([*known.values(), factory()])
        return ANYTHING if kind is None else Val(scalar=True, kind=kind)

    @staticmethod
    def is_dict(value: Val) -> bool:
        """Whether a value is surely a dict that was there before, or one of several."""
        several = value.known.values if isinstance(value.known, Alike) else (value.known,)
        return value.is_known and all(type(one) in (*PLAIN_DICTS, *DICTS) for one in several)

    def elements_of(self, values: Iterable[Val]) -> list[Val]:
        """What lists and other containers among values hold: it gets into those that are made of them."""
        return [
            self.contents(v)
            for v in values
            if v.view is None and not v.scalar and not (v.objs and all(o.array for o in v.objs))
        ]

    def constant_at(self, obj: Obj, key: Expr) -> bool:
        """Whether what is in a cell before the loop may be used; with a text as its key, other cells do not matter."""
        return self.memory.constant(obj, at=fixed_text(key))

    def _at_entry(self, known: Any, key: Expr, obj: Obj) -> Val:
        """What is in a cell of a list or dict before the loop."""
        if isinstance(known, dict):
            return self._looked_up(known, key, obj.name)
        if not key.integer:
            return self.held_by(obj, known, obj.name)
        found = self.element(known, key, obj.name)
        if found.view is not None and key.lo >= 0 and key.hi < len(known):
            found = replace(found, group=chosen_rows(known, key, self))
        return found

    def _left_or_put(self, known: Any, key: Expr, obj: Obj) -> Val | None:
        """What is in a cell that the loop writes to: what was there, or what this iteration has put there.

        What another iteration has put there is a conflict over the cell. None where it is not known which object it is.
        """
        own = frozenset(obj.content)
        if obj.anything or obj.resized or obj.maybe_written or (own and not self._private(own)):
            return None
        if not known:
            return None
        there = self._at_entry(known, key, obj)
        if there.anything or not there.objs or there.view is not None or any(o.array for o in there.objs):
            return None
        ident = constant(next(iter(there.objs)).code) if len(there.objs) == 1 else there.ident
        return None if ident is None else replace(there, known=Val().known, ident=ident, objs=there.objs | own)

    def _in_one_of(self, several: Alike, key: Expr, name: str) -> Val | None:
        """What is at one key of several lists or dicts, of which a value is one; None if it is not in all of them."""
        if key.indices or not all(type(held) in (list, *PLAIN_DICTS) for held in several.values):
            return None
        with contextlib.suppress(Undecided, LookupError, TypeError):
            at = np.asarray(key.at({}))[()]
            at = at.item() if isinstance(at, np.integer) else at
            return self.element([held[at] for held in several.values], several.at, name)
        return None

    def _looked_up(self, known: dict[Any, Any], key: Expr, name: str) -> Val:
        if not key.indices:
            with contextlib.suppress(Exception):
                at = key.at({})
                at = at[()] if isinstance(at, np.ndarray) else at
                if at in known:
                    return self.value_of(known[at], name)
        keys = list(known)
        if not keys:
            return Val()
        if keys == list(range(len(keys))) and key.integer:
            return self.element(list(known.values()), key, name)
        order = {k: n for n, k in enumerate(keys)}
        if len(keys) and len(keys) < 100_000:
            find = np.frompyfunc(lambda k: order[k], 1, 1)
            at = computed(lambda ks: find(ks).astype(np.int64), [key], (0, len(keys) - 1))
            return self.element(list(known.values()), at, name)
        return ANYTHING

    def contents(self, value: Val) -> Val:
        """Anything that may be found in a value."""
        if value.items is not None:
            total: Val | None = None
            for item in value.items:
                total = join(total, item)
            return total or Val()
        if value.view is not None:
            return self.within(value)
        if value.anything:
            return ANYTHING
        return self._found(replace(value, known=value.known), [], unknown()) if value.objs else Val(scalar=value.scalar)

    def region(self, base: Val, parts: list[Any]) -> Val:
        """The region of an array that a subscript is."""
        assert base.view is not None
        parts = _indices(parts)
        if base.is_known and len(parts) == 1 and isinstance(parts[0], Val) and isinstance(parts[0].known, str):
            with contextlib.suppress(Exception):
                return self.value_of(base.known[parts[0].known], base.view.obj.name)
        found = subscript_view(base.view, parts, self)
        if found is None:
            return self.within(base)
        return Val(view=found[0], kind=base.kind)

    def load_target(self, base: Val, at: Val) -> Val:
        """The region `base[at]` where it is written."""
        if base.view is None:
            return base
        parts = list(at.items) if at.items is not None else [at]
        return self.region(base, parts)


def _own_equality(base: Val) -> bool:
    """Whether a dict has keys of classes that say themselves what they are equal to: any key may be one of them."""
    several = base.known.values if isinstance(base.known, Alike) else (base.known,)
    return any(has_operators(cls) for one in several if isinstance(one, dict) for cls in set(map(type, one)))


def kind_of_numbers(values: Iterable[Any]) -> str | None:
    """The highest kind of numbers, all immutable; None if there are other things among them.

    >>> kind_of_numbers([1, 2.5]), kind_of_numbers([]), kind_of_numbers(["a"])
    ('f', 'i', None)
    """
    types_held = set(map(type, values))
    if not all(issubclass(t, bool | int | float | complex | np.number | np.bool_) for t in types_held):
        return None
    return max((np.dtype(t).kind for t in types_held), key="buifc".index, default="i")


def _indices(parts: list[Part]) -> list[Part]:
    """The parts of a subscript of an array, where `A[(i,)]` is `A[i]`."""
    if len(parts) == 1 and isinstance(parts[0], Val) and parts[0].items is not None and len(parts[0].items) == 1:
        return list(parts[0].items)
    return parts


def _gathered(table: Any, at: Sequence[Expr], obj: Obj) -> Expr | None:
    if table.size > 1_000_000 or table.size == 0 or table.dtype == np.uint64:
        return None
    if table.dtype.kind == "f" and table.dtype != np.float64:  # computed with fewer digits than here
        return None

    dtype: Any = {"f": float, "U": object}.get(table.dtype.kind, np.int64)

    def look_up(*where: Any) -> Any:
        obj.evaluated = True
        return table[tuple(np.asarray(w) for w in where)].astype(dtype)

    whole = table.dtype.kind in "iub"
    obj.evaluated |= whole  # its bounds are
    bounds = (int(table.min()), int(table.max())) if whole else (-np.inf, np.inf)
    return computed(look_up, at, bounds, ("table", id(table)), whole)
