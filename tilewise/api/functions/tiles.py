"""tw.map_tiles and tw.join_update: functions of whole tiles. In: the function, arrays, the axis. Out: arrays.

What the rules of operators show to be free of the tiled axis is recorded on whole arrays (rows.py); all else becomes an
operator that calls the function with ndarrays, tile by tile.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from tilewise.api.create import asarray
from tilewise.api.functions.guards import Guards
from tilewise.api.functions.native.loop import Loop, in_parts
from tilewise.api.functions.native.tiles import by_element, call_loop, called, tile_loop
from tilewise.api.functions.native.vectorized import with_captured
from tilewise.api.functions.purity import Untraceable, function_key, library, plain
from tilewise.api.functions.rows import by_rows
from tilewise.api.functions.trace.array_trace import Made, spec_of, trace
from tilewise.api.functions.trace.scalar_trace import own_key
from tilewise.api.functions.warn import name_of, warn
from tilewise.array import record as rec
from tilewise.array.handle import Array
from tilewise.array.schedule import policy
from tilewise.backend import threads
from tilewise.errors import FunctionError, message
from tilewise.ir.reductions import SPLITTING, by_name
from tilewise.ops.traits.rule import LETTERS
from tilewise.ops.user import Opaque, opaque
from tilewise.python.refuse import Refused
from tilewise.records import dataclass

TILE_BYTES = 1 << 20  # of the largest operand: what a function makes on the way stays in a core's cache
PROBE_ROWS = 2


def map_tiles(
    f: Callable[..., Any], *arrays: Any, axis: int = 0, dtype: Any = None, shape: Sequence[int] | None = None
) -> Array:
    """A function of tiles: blocks along `axis`, whole along the other axes. It gives a tile with as many rows.

    The result must not depend on where tiles begin and end. All arrays have the same length along the axis, or 1 (or
    no axes), and are then given whole. Tiles cannot be written to. If f can be traced, and works along other axes only,
    it becomes part of the graph; otherwise it is called with ndarrays, and a PerformanceWarning says why. The dtype
    and shape of the result are found by calling f with two rows, unless they are given.

    >>> import tilewise as tw
    >>> x = tw.arange(6.0).reshape(3, 2)
    >>> tw.map_tiles(lambda t: t / t.sum(axis=1, keepdims=True), x).round(2)
    Array([[0.  , 1.  ],
           [0.4 , 0.6 ],
           [0.44, 0.56]])
    """
    given, n, at = _operands(arrays, axis, "map_tiles")
    policy.flush_loop(given)
    loops = by_element(f)
    why: Untraceable | None = None
    if not policy.small(given) and dtype is None and shape is None and not loops:
        try:
            return _inlined(f, given, at)
        except Untraceable as error:
            why = error
    if dtype is None or shape is None:
        probe = _probe(f, given, at)
        found = _checked(f, f(*probe), probe[_longest(given, at)].shape[at], at)
        shape = (*found.shape[:at], n, *found.shape[at + 1 :])
        dtype = found.dtype
    shape, dtype = tuple(shape), np.dtype(dtype)
    if len(shape) <= at or shape[at] != n:
        what = f"the result of map_tiles is as long as its arrays along axis {at}, which are {n}"
        raise FunctionError(message(what, got=f"shape={shape}", cure="Give the shape of the whole result"))
    loop = None
    if loops and rec.numeric(dtype):
        try:
            loop = tile_loop(f, [x.dtype for x in given], [x.ndim for x in given], dtype, len(shape))
        except Refused as error:
            warn("map_tiles", f, error, given)
    elif why is not None:
        warn("map_tiles", f, why, given)
    run = Tiles(f, at, n, shape, dtype, loop)
    captured = () if loop is None else loop.captured
    if policy.small(given) or not rec.numeric(dtype):
        return rec.wrap(run(*(np.asarray(rec.unwrap(x)) for x in given), *captured))  # type: ignore[no-any-return]
    terms, used = _letters(given, at, n)
    out = "".join("Z" if i == at else LETTERS[used + i] for i in range(len(shape)))
    key = ("tiles", own_key(f, run), at, n, shape, dtype.str, loop is None)
    text = f"map_tiles with {name_of(f)}"
    return _recorded(run, key, terms, out, used + len(shape), None, text, given, shape, dtype)


def join_update(
    f: Callable[..., Any], arrays: Sequence[Any], axes: Sequence[int | None], shape: Sequence[int], accum: Any = "add"
) -> Array:
    """Join tiles of arrays, and gather what a function makes of each join in one array.

    Array k is cut into tiles along `axes[k]` (None: it is given whole to every call). `f` gets one tile of each, and
    gives an update, or a location (where its first element goes) and an update. `accum`, an associative ufunc, merges
    updates of the same place; places without any keep its identity.

    >>> import tilewise as tw
    >>> a, b = tw.arange(6.0).reshape(2, 3), tw.ones((3, 2))
    >>> tw.join_update(lambda s, t: s @ t, (a, b), axes=(1, 0), shape=(2, 2))
    Array([[ 3.,  3.],
           [12., 12.]])
    """
    name = accum if isinstance(accum, str) else getattr(accum, "__name__", repr(accum))
    if name not in SPLITTING:
        raise ValueError(message("accum is an associative ufunc", got=name, cure=f"Use one of {sorted(SPLITTING)}"))
    given: list[Any] = [asarray(x) for x in arrays]
    if len(given) != len(axes):
        raise ValueError(message("join_update takes an axis for each array", got=f"{len(axes)} for {len(given)}"))
    places = [None if a is None else range(x.ndim)[a] for x, a in zip(given, axes, strict=True)]
    lengths = {x.shape[a] for x, a in zip(given, places, strict=True) if a is not None}
    if len(lengths) != 1:
        raise ValueError(message("join_update joins axes of one length", got=f"lengths {sorted(lengths)}"))
    policy.flush_loop(given)
    where = tuple(places)
    size = tuple(int(d) for d in shape)
    parts = [
        np.asarray(rec.unwrap(x if a is None else x[_cut(a, 0, PROBE_ROWS)])) for x, a in zip(given, where, strict=True)
    ]
    if lengths == {0}:
        raise FunctionError(message("join_update cannot tell the dtype of no tiles", cure="Give at least one row"))
    loop = None
    if by_element(f):
        try:
            loop = call_loop(f, [x.dtype for x in given], [x.ndim for x in given])
        except Refused as error:
            warn("join_update", f, error, given)
    else:
        warn("join_update", f, Untraceable("places of its own choice"), given)
    captured = () if loop is None else loop.captured
    tried = f(*parts) if loop is None else called(loop, [*parts, *captured])
    dtype = np.result_type(_update(f, tried, size)[1])
    run = Join(f, where, size, name, dtype, loop)
    if policy.small(given):
        return rec.wrap(run(*(np.asarray(rec.unwrap(x)) for x in given), *captured))  # type: ignore[no-any-return]
    names = iter(LETTERS[:-1])
    terms = ["".join("Z" if i == a else next(names) for i in range(x.ndim)) for x, a in zip(given, where, strict=True)]
    out = "".join(next(names) for _ in size)
    key = ("join", own_key(f, run), where, size, name, loop is None)
    used = sum(x.ndim for x in given) + len(size)
    return _recorded(run, key, terms, out, used, name, f"join_update with {name_of(f)}", given, size, dtype)


def _recorded(
    run: Tiles | Join, key: Hashable, terms: list[str], out: str, used: int, accum: str | None, text: str,
    given: Sequence[Array], shape: Any, dtype: Any,
) -> Array:  # fmt: skip
    nodes: Any = tuple(rec.as_node(x) for x in given)
    if run.loop is not None:
        nodes, terms = with_captured(run.loop, nodes, terms, used)
    op = Opaque(run, key, f"{','.join(terms)}->{out}", accum, text)
    return rec.record(opaque(op, nodes, shape, dtype))


def _operands(arrays: Sequence[Any], axis: int, operator: str) -> tuple[list[Array], int, int]:
    """Arrays, the length of the tiled axis, and the axis."""
    given = [asarray(x) for x in arrays]
    ndim = max((x.ndim for x in given), default=0)
    if ndim == 0:
        raise ValueError(message(f"{operator} needs an array with axes", got=f"{len(given)} without"))
    at = np.lib.array_utils.normalize_axis_index(axis, ndim)
    lengths = {x.shape[at] for x in given if x.ndim > at} - {1} or {1}
    if len(lengths) > 1:
        raise ValueError(message(f"{operator} takes arrays of one length along axis {at}", got=f"{sorted(lengths)}"))
    return given, lengths.pop(), at


def _cut(axis: int, low: int, high: int) -> tuple[slice, ...]:
    return (*[slice(None)] * axis, slice(low, high))


def _tiled(x: Any, at: int, n: int) -> bool:
    return bool(x.ndim > at and x.shape[at] == n)


def _longest(given: Sequence[Any], at: int) -> int:
    """Which operand has the tiled axis in its full length."""
    return max(range(len(given)), key=lambda k: given[k].shape[at] if given[k].ndim > at else -1)


def _letters(given: Sequence[Array], at: int, n: int) -> tuple[list[str], int]:
    """A letter for the tiled axis, others for the rest; how many others there are."""
    terms, used = [], 0
    for x in given:
        terms.append("".join("Z" if i == at and _tiled(x, at, n) else LETTERS[used + i] for i in range(x.ndim)))
        used += x.ndim
    return terms, used


def _inlined(f: Any, given: list[Array], at: int) -> Array:
    """The function's graph on whole arrays, if it works along other axes only."""
    captured: list[Array] = []
    found = plain(f)
    if found is not None:
        watch = Guards()
        function_key(found, arrays=captured, watch=watch)
        if watch.kinds:
            raise Untraceable("a class of arrays, and stand-ins are of another than tiles")
    elif not library(f):
        raise Untraceable(f"a {type(f).__name__} (not a plain function)", pure=False)
    template = trace([spec_of(x) for x in given], lambda others, tiles: others.of(f)(*tiles), captured)
    results = template.result[1]
    if template.result[0] is not None or template.writes or not isinstance(results[0], Made):
        raise Untraceable("a result that is not one new array, or a write to a tile")
    by_rows(template, results[0].node, [at if x.ndim > at and x.shape[at] > 1 else None for x in given], at)
    cells = {x._cell: x for x in captured}
    made = template.replay([*(rec.as_node(x) for x in given), *(c.read() for c in cells)])
    return rec.record(made[template.at[results[0].node]])


def _probe(f: Any, given: Sequence[Any], at: int) -> list[Any]:
    """Two rows to try the function on: the arrays' own if they are known, else ones if it can do with these."""
    n = max(x.shape[at] for x in given if x.ndim > at)
    if n == 0 or any(policy.known(x) is None for x in given):
        ones = [
            np.ones([min(d, PROBE_ROWS) or 1 if i == at else d for i, d in enumerate(x.shape)], x.dtype) for x in given
        ]
        try:
            f(*ones)
            return ones
        except Exception:
            if n == 0:
                raise
    return [_tile(np.asarray(rec.unwrap(x[_cut(at, 0, PROBE_ROWS)] if _tiled(x, at, n) else x))) for x in given]


def _tile(nd: Any) -> Any:
    """An ndarray that the function cannot write to."""
    view = np.asarray(nd).view()
    view.flags.writeable = False
    return view


def _checked(f: Any, made: Any, rows: int, at: int) -> Any:
    """What a function gave for a tile, if it is one."""
    tile = np.asarray(made)
    if tile.ndim <= at or tile.shape[at] != rows:
        raise FunctionError(
            message(
                f"{name_of(f)} gives a tile as long as the one it is given along axis {at}",
                got=f"shape {tile.shape} for {rows} rows",
                cure="Keep the tiled axis, or use tw.fold or tw.join_update",
            )
        )
    return tile


@dataclass(frozen=True)
class Tiles:
    """A function on one tile of a block after the other."""

    f: Any
    axis: int
    length: int  # of the axis, of all blocks together
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    loop: Loop | None = None

    @property
    def native(self) -> bool:
        """Whether it is compiled."""
        return self.loop is not None

    def __call__(self, *given: Any) -> Any:
        at = self.axis
        blocks, captured = _apart(given, self.loop)
        rows = max(b.shape[at] for b in blocks if b.ndim > at)
        cut = [b.ndim > at and (b.shape[at] != 1 or rows == 1) for b in blocks]
        if self.length != 0 and any(b.ndim > at and b.shape[at] == 0 for b in blocks):
            rows = 0
        out = np.empty((*self.shape[:at], rows, *self.shape[at + 1 :]), self.dtype)
        biggest = max(b.nbytes for b in blocks) // max(rows, 1)
        step = max(1, TILE_BYTES // max(biggest, 1))
        if self.loop is not None:
            self._compiled(self.loop, out, blocks, captured, cut, step)
            return out
        for low in range(0, rows, step):
            high = min(low + step, rows)
            tiles = [_tile(b[_cut(at, low, high)] if c else b) for b, c in zip(blocks, cut, strict=True)]
            made = _checked(self.f, self.f(*tiles), high - low, at)
            part = out[_cut(at, low, high)]
            if made.shape != part.shape or not np.can_cast(made.dtype, self.dtype, "same_kind"):
                text = f"{name_of(self.f)} gives tiles of {self.dtype} and shape {part.shape} here"
                got = f"{made.dtype} and {made.shape}"
                raise FunctionError(message(text, got=got, cure="Give dtype= and shape= of the whole result"))
            part[...] = made
        return out

    def _compiled(self, loop: Loop, out: Any, blocks: Any, captured: Any, cut: list[bool], step: int) -> None:
        """The tiles on all threads."""
        at = self.axis
        places = [_cut(at, low, low + step) for low in range(0, out.shape[at], step)]
        parts = [out[p] if at == 0 else np.empty(out[p].shape, out.dtype) for p in places]

        def args(k: int) -> list[Any]:
            tiles = [b[places[k]] if c else b for b, c in zip(blocks, cut, strict=True)]
            return [parts[k], *(_tile(np.ascontiguousarray(t)) for t in tiles), *captured]

        in_parts(loop, len(parts), args)
        for p, part in zip(places, parts, strict=True) if at else ():
            out[p] = part


def _update(f: Any, made: Any, shape: tuple[int, ...]) -> tuple[tuple[int, ...], Any]:
    """Where an update goes, and the update."""
    where: Any = (0,) * len(shape)
    if isinstance(made, tuple):
        where, made = made
        where = tuple(int(i) for i in where)
    update = np.asarray(made)
    fits = len(where) == len(shape) == update.ndim
    if not fits or any(w < 0 or w + d > n for w, d, n in zip(where, update.shape, shape, strict=True)):
        text = f"{name_of(f)} gives updates inside of shape {shape}"
        raise FunctionError(message(text, got=f"shape {update.shape} at {where}"))
    return where, update


@dataclass(frozen=True)
class Join:
    """A function on joined tiles of blocks; its updates merged."""

    f: Any
    axes: tuple[int | None, ...]
    shape: tuple[int, ...]
    accum: str
    dtype: np.dtype[Any]
    loop: Loop | None = None

    @property
    def native(self) -> bool:
        """Whether it is compiled."""
        return self.loop is not None

    def __call__(self, *given: Any) -> Any:
        blocks, captured = _apart(given, self.loop)
        merge = by_name(self.accum)
        out = np.full(self.shape, merge.identity(self.dtype))
        rows = next(b.shape[a] for b, a in zip(blocks, self.axes, strict=True) if a is not None)
        biggest = max(b.nbytes for b, a in zip(blocks, self.axes, strict=True) if a is not None) // max(rows, 1)
        step = max(1, TILE_BYTES // max(biggest, 1))
        lows = range(0, rows, step)
        updates: list[Any] = [None] * len(lows)

        def compute(k: int) -> None:
            cuts = [None if a is None else _cut(a, lows[k], min(lows[k] + step, rows)) for a in self.axes]
            tiles = [_tile(b if c is None else b[c]) for b, c in zip(blocks, cuts, strict=True)]
            updates[k] = self.f(*tiles) if self.loop is None else called(self.loop, [*tiles, *captured])

        def add(k: int) -> None:
            where, update = _update(self.f, updates[k], self.shape)
            updates[k] = None
            part = out[tuple(slice(w, w + d) for w, d in zip(where, update.shape, strict=True))]
            merge.combine(part, update, out=part)

        if self.loop is not None:  # updates are merged in order: the bits do not depend on threads
            threads.run_in_turn(compute, add, lambda k: None, len(lows))
            return out
        for k in range(len(lows)):
            compute(k)
            add(k)
        return out


def _apart(given: Sequence[Any], loop: Loop | None) -> tuple[Sequence[Any], list[Any]]:
    """Blocks, and arrays that the function refers to."""
    if loop is None:
        return given, []
    return given[: len(given) - len(loop.captured)], loop.given(given)
