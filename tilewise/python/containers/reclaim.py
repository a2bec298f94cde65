"""Memory of lists that nobody has any more. In: a program with pools (pools.py). Out: the same, which reuses it.

Before a statement that makes lists, where nothing is under way, the arena of their pool may be packed anew: what names
of the program, items of other containers and lists of other pools refer to stays, in the order of the numbers. Which
names there are is known when all is lowered, so statements get a mark first (`Statements.statement`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from tilewise.kernel.program.ir import INT, Block, Const, Expr, If, Named, Op, Set, Store, Var
from tilewise.kernel.program.walk import BLOCKS
from tilewise.python.build import Array, Scalar, Tuple, add, compare, mul
from tilewise.python.types import LENGTH, Arr, Lst, Mixed, Tup, ints

if TYPE_CHECKING:
    from tilewise.python.statements import Statements
from tilewise.python.arrays import elementwise
from tilewise.python.containers import columns, hashing, pools

MARK = "reclaim:"  # what marks begin with, before the name of a pool
FEWEST = 1 << 16  # items of an arena that is packed: 512 KiB of numbers
GROWTH = 2  # an arena is packed again when it has so many times the items that it had then


def mark(pool: str) -> Named:
    """Where the arena of a pool may be packed."""
    return Named(MARK + pool, ())


def resolved(lo: Statements, block: Block, line: int) -> Block:
    """Statements, with code where marks are."""
    made: list[Any] = []
    for s in block:
        if isinstance(s, Named) and s.label.startswith(MARK):
            made += _packed(lo, s.label.removeprefix(MARK), line)
            continue
        if (inner := BLOCKS.get(type(s))) is not None:
            s = replace(cast(Any, s), **{n: resolved(lo, getattr(s, n), line) for n in inner})
        made.append(s)
    return tuple(made)


def _packed(lo: Statements, pool: str, line: int) -> list[Any]:
    """All arenas are packed if that of a pool has grown: those whose lists hold others come first."""
    every = [lo.functions.pools.type_of(p) for p in sorted(set(lo.functions.pools.pool.values()))]
    every = [t for t in every if f"{t.place}#used" in lo.b.names]
    used, limit = Var(f"{pool}#used", INT), _limit(lo, pool)
    most = Op("maximum", INT, (limit, Const(INT, FEWEST)))
    with lo.b.inside() as block:
        with lo.b.inside() as full:
            for t in sorted(every, key=_depth, reverse=True):
                if t.item is not None:
                    _pack(lo, t, every, line)
            for t in every:
                now = Var(f"{t.place}#used", INT)
                lo.b.emit(Set(_limit(lo, t.place).name, mul(now, Const(INT, GROWTH))))
        lo.b.emit(If(compare("less", most, used), tuple(full)))
    return block


def _pack(lo: Statements, t: Lst, every: list[Lst], line: int) -> None:
    """The arena of a pool, with the lists that somebody has."""
    count = _whole(Var(f"{t.place}#count", INT))
    heads = pools.heads_of(t)
    slots = [n for n in lo.b.names if n.endswith(f":list@{t.place}")]
    roots = elementwise.allocated(lo, Arr(INT, 1), [Const(INT, len(slots))], False, line)
    for k, name in enumerate(slots):
        lo.b.emit(Store(roots.name, (Const(INT, k),), Var(name, INT), (-1,)))
    marks = pools.rare(lo, hashing.marked, [count, roots], line)
    for place, item in lo.b.holders.items():
        owner = next((o for o in every if o.place == place), None)
        for name in _numbers(place, item, t.place):
            if owner is not None:
                others = _whole(Var(f"{place}#count", INT))
                pools.rare(
                    lo, hashing.mark_lists, [marks, pools.heads_of(owner), others, Array(Arr(INT, 1), name)], line
                )
            else:
                n = _whole(Var(f"{place.removesuffix('#v')}#n", INT))
                pools.rare(lo, hashing.mark_items, [marks, Array(Arr(INT, 1), name), n], line)
    size = pools.rare(lo, hashing.live, [marks, heads, count], line)
    assert isinstance(size, Scalar)
    kept = lo.b.keep(size.e)
    arrays = pools.arrays_of(t)
    room = _whole(lo.b.keep(add(add(kept, kept), Const(INT, pools.ROOM))))
    made = pools.rare(lo, hashing.packed(len(arrays)), [pools.columns_of(arrays), heads, marks, count, room], line)
    for (name, _), one in zip(arrays, made.items if isinstance(made, Tuple) else (made,), strict=True):
        assert isinstance(one, Array)
        lo.b.rename(name, one.name)
    lo.b.emit(Set(f"{t.place}#used", kept))


def _numbers(place: str, item: Any, pool: str) -> list[str]:
    """The columns of a container in which there are numbers of lists of a pool."""
    kinds = _kinds(item)
    return [n for n, kind in zip(columns.names(place, item), kinds, strict=True) if kind == pool]


def _kinds(t: Any) -> list[str]:
    """Of each column, the pool of which it has numbers of lists; nothing of others."""
    if isinstance(t, Lst):
        return [t.place]
    if isinstance(t, Tup):
        return [k for i in t.items for k in _kinds(i)]
    return ["", *(k for i in t.alternatives for k in _kinds(i))] if isinstance(t, Mixed) else [""]


def _depth(t: Any) -> int:
    """How deep lists are inside of each other."""
    if isinstance(t, Lst):
        return 1 + _depth(t.item)
    return max(map(_depth, t.items), default=0) if isinstance(t, Tup) else 0


def _limit(lo: Statements, pool: str) -> Var:
    lo.b.names[f"{pool}#limit"] = INT
    return Var(f"{pool}#limit", INT)


def _whole(e: Expr) -> Scalar:
    return Scalar(ints(0, LENGTH), e)
