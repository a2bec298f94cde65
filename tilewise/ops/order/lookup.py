"""Functions that look every element up in tables. In: elements, tables. Out: what was found, element by element.

The tables go to every worker, the elements stay. Where it is the table that is long, each worker counts in its own part
of it: a position in a sorted table is the sum of the positions in its parts. Where both are long, elements (each once
per worker) go to where the table has their range of values, and answers come back.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

import numpy as np

from tilewise.ir.node import Node, Op, intern
from tilewise.layout import Mesh, Partial, Shard
from tilewise.ops.order.distinct import DIVIDED, divided, divided_bytes
from tilewise.ops.order.sort import ranges
from tilewise.ops.traits.collectives import (
    ND,
    CollectiveCall,
    Exchanging,
    Operand,
    Outbox,
    Parts,
    Traffic,
    exchange_rounds,
    traffic,
    worker_cuts,
)
from tilewise.ops.traits.rule import LETTERS, WHOLE, Options, Rule, axis_cuts, by_letters, specific
from tilewise.ops.traits.work import Work, work
from tilewise.records import dataclass


@dataclass(frozen=True)
class Lookup(Op):
    """A NumPy function of elements (the first operand) and tables; `options` are its other arguments.

    What is `likely` decides only how workers exchange elements.
    """

    fn: str
    options: tuple[tuple[str, Any], ...] = ()
    likely: tuple[int, int] = (0, 0)  # different elements, and entries of the table, expected in all; 0: nothing known
    name = "lookup"

    def numpy(self, *arrays: Any) -> Any:
        function = getattr(np, self.fn)
        given = (arrays[1], arrays[0]) if self.fn == "searchsorted" else arrays
        return function(*given, **dict(self.options))

    def label(self) -> str:
        return self.fn


def lookup(
    fn: str,
    elements: Node,
    tables: Sequence[Node],
    dtype: np.dtype[Any],
    options: tuple[tuple[str, Any], ...] = (),
    likely: tuple[int, int] = (0, 0),
) -> Node:
    """The node of a function of elements."""
    return intern(Lookup(fn, options, likely), (elements, *tables), elements.shape, dtype)


# -- on a mesh -----------------------------------------------------------------------------------------------------


@specific.register(Lookup)
def _(op: Lookup, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    letters = LETTERS[: node.ndim]
    rest = iter(LETTERS[node.ndim :])
    terms = [letters, *("".join(next(rest) for _ in range(x.ndim)) for x in node.inputs[1:])]
    yield from by_letters(terms, letters, node, have, mesh, pieces=True)
    table = node.inputs[1]
    if op.fn == "searchsorted" and table.shape[0] >= 2:
        for cuts in axis_cuts(have[1], 0, table.shape[0], mesh):
            yield Rule((WHOLE, Shard(0, cuts)), Partial("add"))
    both = node.ndim and node.shape[0] >= 2 and table.shape[0] >= 2
    if op.fn in BY_RANGE and mesh.workers > 1 and both and node.inputs[0].dtype == table.dtype:
        for mine in axis_cuts(have[0], 0, node.shape[0], mesh):
            for cuts in axis_cuts(have[1], 0, table.shape[0], mesh):
                tables = (Shard(0, cuts),) * (len(node.inputs) - 1)
                yield Rule((Shard(0, mine), *tables), Shard(0, mine), collective=True)


# What a worker says of a value follows from the part of the table around it.
BY_RANGE = ("searchsorted", "isin", "interp")


@traffic.register(Lookup)
def _(op: Lookup, ins: Sequence[Operand], out: Operand, mesh: Mesh) -> Traffic:
    """Elements to ranges of the table, for which it has to be divided first if it is not sorted; answers back."""
    p, (elements, table, *more) = mesh.workers, ins
    item, count, entries = elements.dtype.itemsize, math.prod(elements.shape), table.shape[0]
    each = item + out.dtype.itemsize
    most_asked, likely_asked = count * each, _once_each(op.likely[0], count, p) * each
    asked = likely_asked - likely_asked // p
    if op.fn != "isin":  # the table is sorted
        few = p * (p - 1) * sum(x.dtype.itemsize for x in ins[1:])
        return Traffic("values by range", few + most_asked, (1 + len(more), 1, 1), expected=few + asked)
    few, most_known = divided_bytes(item, mesh), entries * item
    # Where nothing is known of a table, half of it is taken to be equal (distinct.py).
    known = _once_each(op.likely[1], entries, p) * item if op.likely[1] else most_known // 2
    expected = few + asked + known - known // p
    return Traffic("values by range", few + most_asked + most_known, (*DIVIDED, 2, 1), expected=expected)


def _once_each(likely: int, count: int, workers: int) -> int:
    """So many elements are sent if each worker sends its different ones."""
    return min(likely * workers, count) if likely else count


@exchange_rounds.register(Lookup)
def _(op: Lookup, call: CollectiveCall, worker: int, blocks: Parts, *tables: Parts) -> Exchanging:
    parts = {b: blocks[b] for b in sorted(blocks)}
    elements = np.concatenate([x.reshape(-1) for x in parts.values()])
    values, which = np.unique(elements, return_inverse=True)
    own = [np.concatenate([table[b] for b in sorted(table)]) for table in tables]
    found = (yield from ANSWERS[op.fn](op, call, worker, values, *own))[which.reshape(-1)]
    out: Parts = {}
    start = 0
    for b, x in parts.items():
        out[b] = found[start : start + x.size].reshape(x.shape)
        start += x.size
    return out


Answers = Generator[Outbox, Outbox, ND]


def _members(op: Lookup, call: CollectiveCall, worker: int, values: ND, own: ND) -> Answers:
    """Which values are in the table, of which this worker has a part in no order."""
    p, own = call.mesh.workers, np.unique(own)
    split = yield from divided(np.unique(np.concatenate([values, own])), worker, call.mesh)
    asked, known = ranges(values, split, p), ranges(own, split, p)
    inbox = yield [[values[asked[w] : asked[w + 1]], own[known[w] : known[w + 1]]] for w in range(p)]
    here = np.concatenate([piece[1] for piece in inbox])
    answers = yield [[op.numpy(piece[0], here)] for piece in inbox]
    return np.concatenate([piece for (piece,) in answers])


def _positions(op: Lookup, call: CollectiveCall, worker: int, values: ND, own: ND) -> Answers:
    """Positions in the sorted table, of which this worker has a part."""
    layout = call.ins[1].layout
    assert isinstance(layout, Shard)
    cuts, side = worker_cuts(layout.cuts, call.mesh), dict(op.options)["side"]
    inbox = yield [[own[:1]] for _ in range(call.mesh.workers)]
    asked = yield _to_owners(values, inbox, side)
    answers = yield [[op.numpy(piece, own) + cuts[worker]] for (piece,) in asked]
    return np.concatenate([piece for (piece,) in answers])


def _to_owners(values: ND, firsts: Outbox, side: Any) -> Outbox:
    """Sorted values for the workers in whose parts of a sorted table they are; the first of each part is known."""
    there = np.array([w for w, piece in enumerate(firsts) if piece[0].size])
    owner = there[np.maximum(np.searchsorted(np.concatenate([piece[0] for piece in firsts]), values, side) - 1, 0)]
    edges = np.searchsorted(owner, np.arange(len(firsts) + 1))
    return [[values[edges[w] : edges[w + 1]]] for w in range(len(firsts))]


def _between(op: Lookup, call: CollectiveCall, worker: int, values: ND, own: ND, heights: ND) -> Answers:
    """Values along straight lines: a part of the table ends where the next begins."""
    inbox = yield [[own[:1], heights[:1]] for _ in range(call.mesh.workers)]
    asked = yield _to_owners(values, inbox, "right")
    after = next((piece for piece in inbox[worker + 1 :] if piece[0].size), None)
    if after is not None:  # what is beyond the end is another's
        own, heights = np.append(own, after[0]), np.append(heights, after[1])
    answers = yield [[_interpolated(op, piece, own, heights)] for (piece,) in asked]
    return np.concatenate([piece for (piece,) in answers])


def _interpolated(op: Lookup, x: ND, own: ND, heights: ND) -> ND:
    """NumPy takes NaN for the only entry of a table; here it is one of several."""
    return np.where(np.isnan(x), x, op.numpy(x, own, heights)) if x.size else x


ANSWERS: dict[str, Callable[..., Answers]] = {"searchsorted": _positions, "isin": _members, "interp": _between}


@work.register(Lookup)
def _(op: Lookup, shapes: Sequence[tuple[int, ...]], size: int) -> Work:
    return Work(compared=size * math.log2(max(math.prod(shapes[1]), 2)))
