"""What a mesh may do with an operator. In: a node, where its operands lie. Out: rules: layouts of operands and result.

Most rules follow from index letters (DESIGN, the one idea): cutting a letter shards the operands that have it,
replicates the others, and shards the result, or makes it partial if the letter is reduced. Cuts are inherited from the
largest operand that is already cut along the letter, so that nothing moves that need not.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewise.ir.node import Node
from tilewise.ir.scalar import LAWS
from tilewise.layout import (
    Cuts,
    Grid,
    Layout,
    Mesh,
    OnDriver,
    Partial,
    Placement,
    Replicate,
    Shard,
    concat_cuts,
    even_cuts,
    grid_layout,
    placements,
    slice_cuts,
    split_cuts,
)
from tilewise.ops.contract import LETTERS, Contract
from tilewise.ops.create import Arange, Full
from tilewise.ops.elementwise import Map
from tilewise.ops.index import Gather, Update, one_array
from tilewise.ops.join import Broadcast, Concat, Copy, Reshape
from tilewise.ops.random import Random
from tilewise.ops.reduce import Arg, Reduce, Scan
from tilewise.ops.sort import Argsort, Bincount, Sort
from tilewise.ops.views import Arrange, Cut, explain

WHOLE = Replicate()
MAX_CUTS = 2  # of uneven cuts along a letter, how many are weighed beside the even ones
ASSOCIATIVE = frozenset(
    "add multiply minimum maximum fmin fmax logical_and logical_or logical_xor "
    "bitwise_and bitwise_or bitwise_xor".split()
)


@dataclass(frozen=True)
class Rule:
    """One way to run an operator in pieces: where operands must lie, and where the result then lies."""

    ins: tuple[Layout, ...]
    out: Layout
    talks: bool = False  # workers in one line talk (ops/regroup.py); never one direction's part of a rule for a grid


Options = Sequence[Sequence[Placement]]  # per operand: the ways it might lie along a line of workers


def rules(node: Node, have: Sequence[Sequence[Layout]], mesh: Mesh) -> list[Rule]:
    """All rules of a node, given how each operand might lie; the last is always to replicate everything.

    On a grid a rule for all workers in one line is one choice, a rule for each direction the other.
    """
    every = Rule((WHOLE,) * len(node.inputs), WHOLE)
    found: list[Rule] = []
    if node.known and all(x.known for x in node.inputs):
        found.extend(_line_rules(node, [[x for x in h if not isinstance(x, Grid)] for h in have], mesh))
        if mesh.grid:
            down = _line_rules(node, [_along(h, 0) for h in have], mesh.down)
            across = _line_rules(node, [_along(h, 1) for h in have], mesh.across)
            pairs = itertools.product([*down, every], [*across, every])
            found.extend(
                Rule(*pair) for a, b in pairs if not (a.talks or b.talks) and (pair := _both(a, b)) is not None
            )
    found.append(every)
    return list(dict.fromkeys(found))


def _along(layouts: Sequence[Layout], direction: int) -> list[Layout]:
    """How an operand might lie along one direction of the grid."""
    return [placements(x)[direction] for x in layouts if isinstance(x, Grid)]


def _line_rules(node: Node, have: Sequence[Sequence[Layout]], line: Mesh) -> list[Rule]:
    options = [[x for x in h if not isinstance(x, OnDriver | Grid)] for h in have]
    return [r for r in specific(node.op, node, options, line) if _reachable(r, options)]


def _reachable(rule: Rule, have: Options) -> bool:
    """Nothing is made partial on purpose: only what is partial already may stay so."""
    return all(not isinstance(r, Partial) or r in h for r, h in zip(rule.ins, have, strict=True))


def _both(down: Rule, across: Rule) -> tuple[tuple[Layout, ...], Layout] | None:
    """A rule for each direction as one rule; None where the two do not go together, or are not really two."""
    parts = [_grid(a, b) for a, b in zip((*down.ins, down.out), (*across.ins, across.out), strict=True)]
    if any(p is None for p in parts) or not any(isinstance(p, Grid) for p in parts):
        return None
    *ins, out = (p for p in parts if p is not None)
    return tuple(ins), out


def _grid(down: Layout, across: Layout) -> Layout | None:
    assert not isinstance(down, OnDriver | Grid) and not isinstance(across, OnDriver | Grid)
    if isinstance(down, Shard) and isinstance(across, Shard):
        return None if down.axis == across.axis else grid_layout(down, across)
    if isinstance(down, Partial) and isinstance(across, Partial) and down != across:
        return None
    return grid_layout(down, across)


@functools.singledispatch
def specific(op: Any, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    """Rules beyond replicating; operators without a row here have none."""
    return iter(())


# -- by letters ----------------------------------------------------------------------------------------------------


def by_letters(
    terms: Sequence[str], out: str, node: Node, have: Options, mesh: Mesh, op: str | None = None
) -> Iterator[Rule]:
    """A rule per letter. `op` is the reduction of letters that the result lacks (None: they cannot be cut)."""
    shapes = [x.shape for x in node.inputs]
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for letter, d in zip(term, shape, strict=True):
            sizes[letter] = max(sizes.get(letter, 1), d) if d != 0 else 0
    tied = {c for term in terms for c in term if term.count(c) > 1}
    for letter, size in sizes.items():
        if letter in tied or size < 2 or (letter not in out and op is None):
            continue
        for cuts in _cuts(letter, size, terms, shapes, have, node, mesh):
            ins: list[Layout] = [
                Shard(t.index(letter), cuts) if letter in t and s[t.index(letter)] == size else WHOLE
                for t, s in zip(terms, shapes, strict=True)
            ]
            result: Layout = Shard(out.index(letter), cuts) if letter in out else Partial(op or "")
            yield Rule(tuple(ins), result)


def _cuts(
    letter: str, size: int, terms: Sequence[str], shapes: Sequence[Any], have: Options, node: Node, mesh: Mesh
) -> list[Cuts]:
    """Cuts worth trying for a letter: those of operands that may be cut so, the largest first, and even ones."""
    found: dict[Cuts, int] = {}
    for term, shape, layouts, x in zip(terms, shapes, have, node.inputs, strict=True):
        axis = term.find(letter)
        if axis >= 0 and shape[axis] == size:
            for cuts in known_cuts(layouts, axis):
                found[cuts] = max(found.get(cuts, 0), x.nbytes)
    return _few(sorted(found, key=lambda c: -found[c]), size, mesh)


def known_cuts(layouts: Sequence[Layout], axis: int) -> list[Cuts]:
    """The cuts that an operand might have along an axis."""
    return list(dict.fromkeys(x.cuts for x in layouts if isinstance(x, Shard) and x.axis == axis))


def _few(found: Sequence[Cuts], size: int, mesh: Mesh) -> list[Cuts]:
    """Some cuts, and the even ones."""
    return list(dict.fromkeys((*found[:MAX_CUTS], even_cuts(size, mesh.total_blocks))))


def _axis_cuts(layouts: Sequence[Layout], axis: int, size: int, mesh: Mesh) -> list[Cuts]:
    return _few(known_cuts(layouts, axis), size, mesh)


def _still_partial(layouts: Sequence[Placement]) -> Iterator[Rule]:
    """Elements that only change places may do so before their contributions are reduced."""
    for p in layouts:
        if isinstance(p, Partial):
            yield Rule((p,), p)


def _aligned(node: Node) -> tuple[list[str], str]:
    """Letters of an elementwise node: operands aligned at the right."""
    out = LETTERS[: node.ndim]
    return [out[node.ndim - x.ndim :] for x in node.inputs], out


@specific.register
def _(op: Map, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    terms, out = _aligned(node)
    yield from by_letters(terms, out, node, have, mesh)
    for over, how in LAWS.get(op.fn.name, {}).items():
        p = Partial(over)
        if how == "together" and all(x.shape == node.shape for x in node.inputs):
            yield Rule((p,) * len(node.inputs), p)
        elif how == "one" and node.dtype.kind in "iu":  # of floats, a part that is zero times inf is not zero
            yield Rule((p, WHOLE), p)
            yield Rule((WHOLE, p), p)


@specific.register
def _(op: Reduce, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    term = LETTERS[: node.inputs[0].ndim]
    out = "".join(c if i not in op.axes else c.swapcase() if op.keepdims else "" for i, c in enumerate(term))
    over = op.fn if op.fn in ASSOCIATIVE else None
    yield from by_letters([term], out, node, have, mesh, over)
    if over is not None:
        yield Rule((Partial(over),), Partial(over))


@specific.register
def _(op: Contract, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    ins, out = op.letters.split("->")
    yield from by_letters(ins.split(","), out, node, have, mesh, "add")
    if node.dtype.kind in "iu":  # of floats, a part that is zero times inf is not zero
        for k in range(len(node.inputs)):
            parts: list[Layout] = [WHOLE] * len(node.inputs)
            parts[k] = Partial("add")
            yield Rule(tuple(parts), Partial("add"))


@specific.register
def _(op: Sort, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    for rule in by_letters([LETTERS[: node.ndim]], LETTERS[: node.ndim], node, have, mesh):
        if isinstance(rule.out, Shard) and rule.out.axis != op.axis:
            yield rule
        elif node.ndim == 1 and mesh.workers > 1:
            yield Rule(rule.ins, Shard(0, even_cuts(node.shape[0], mesh.total_blocks)), talks=True)


@specific.register
def _(op: Scan, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    term = LETTERS[: node.ndim]
    joins = op.fn in ASSOCIATIVE and (node.dtype == np.bool_ or not op.fn.startswith("logical"))
    for rule in by_letters([term], term, node, have, mesh):
        if isinstance(rule.out, Shard) and rule.out.axis != op.axis:
            yield rule
        elif joins and mesh.workers > 1:
            yield Rule(rule.ins, rule.out, talks=True)


@specific.register
def _(op: Argsort, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    term = LETTERS[: node.ndim]
    for rule in by_letters([term], term, node, have, mesh):
        if isinstance(rule.out, Shard) and rule.out.axis != op.axis:
            yield rule


@specific.register
def _(op: Arg, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    if op.axis is not None:
        term = LETTERS[: node.inputs[0].ndim]
        out = "".join(c if i != op.axis else c.swapcase() if op.keepdims else "" for i, c in enumerate(term))
        yield from by_letters([term], out, node, have, mesh)


@specific.register
def _(op: Copy, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    term = LETTERS[: node.ndim]
    yield from by_letters([term], term, node, have, mesh)
    yield from _still_partial(have[0])


@specific.register
def _(op: Broadcast, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    yield from _still_partial(have[0])
    for axis, size in enumerate(node.shape):
        if size < 2:
            continue
        source = node.inputs[0]
        k = axis - (node.ndim - source.ndim)
        if k < 0 or source.shape[k] == 1:
            yield Rule((WHOLE,), Shard(axis, even_cuts(size, mesh.total_blocks)))
        else:
            for cuts in _axis_cuts(have[0], k, size, mesh):
                yield Rule((Shard(k, cuts),), Shard(axis, cuts))


@specific.register
def _(op: Bincount, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    yield from by_letters(["a"] * len(node.inputs), "b", node, have, mesh, "add")


# -- creation ------------------------------------------------------------------------------------------------------


@specific.register
def _(op: Full, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    for axis, size in enumerate(node.shape):
        if size >= 2:
            yield Rule((WHOLE,), Shard(axis, even_cuts(size, mesh.total_blocks)))


@specific.register
def _(op: Arange, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    if op.length >= 2:
        yield Rule((), Shard(0, even_cuts(op.length, mesh.total_blocks)))


@specific.register
def _(op: Random, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    for axis, size in enumerate(op.shape):
        if size >= 2:
            yield Rule((), Shard(axis, even_cuts(size, mesh.total_blocks)))


# -- by cuts -------------------------------------------------------------------------------------------------------


@specific.register
def _(op: Cut, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    yield from _still_partial(have[0])
    base = node.inputs[0]
    for axis, (start, step, length) in enumerate(zip(op.starts, op.steps, node.shape, strict=True)):
        n = base.shape[axis]
        if n < 2 or step < 1:
            continue
        for cuts in _axis_cuts(have[0], axis, n, mesh):
            near = _centred(cuts, start, length, n) if step == 1 and length < n else None
            if near is not None:
                target, ghosts = near
                yield Rule((Shard(axis, cuts, ghosts),), Shard(axis, target))
            else:
                yield Rule((Shard(axis, cuts),), Shard(axis, slice_cuts(cuts, start, step, length)))


def _centred(cuts: tuple[int, ...], start: int, length: int, n: int) -> tuple[tuple[int, ...], tuple[int, int]] | None:
    """Cuts that all windows of this length share, and the ghosts this one then needs; None if those are not few.

    Shifted windows of a stencil (`A[:-2]`, `A[1:-1]`, `A[2:]`) so get the same cuts and pay one halo.
    """
    target = slice_cuts(cuts, (n - length) // 2, 1, length)
    low = high = 0
    smallest = n
    for j in range(len(cuts) - 1):
        own = cuts[j + 1] - cuts[j]
        if target[j] == target[j + 1]:
            continue
        low = max(low, cuts[j] - (target[j] + start))
        high = max(high, target[j + 1] + start - cuts[j + 1])
        smallest = min(smallest, own)
    if max(low, high) * 4 > smallest:
        return None
    return target, (low, high)


@specific.register
def _(op: Arrange, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    term = LETTERS[: node.inputs[0].ndim]
    out = "".join(term[a] if a is not None else LETTERS[-1 - k] for k, a in enumerate(op.axes))
    yield from by_letters([term], out, node, have, mesh)
    for k, (a, size) in enumerate(zip(op.axes, node.shape, strict=True)):
        if a is None and size >= 2:
            yield Rule((WHOLE,), Shard(k, even_cuts(size, mesh.total_blocks)))
    yield from _still_partial(have[0])


@specific.register
def _(op: Update, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    found = explain(op.window)
    base, value = node.inputs
    if found is None:
        return
    axes = found[0]
    for axis, n in enumerate(base.shape):
        if n < 2:
            continue
        where = [k for k, a in enumerate(axes) if a.base == axis]
        if where and axes[where[0]].step < 1:
            continue
        for cuts in _axis_cuts(have[0], axis, n, mesh):
            inside: Layout = WHOLE
            if where:
                walk = axes[where[0]]
                k = where[0] - (len(axes) - value.ndim)
                if k >= 0 and value.shape[k] == walk.length and walk.length > 1:
                    inside = Shard(k, slice_cuts(cuts, walk.start, walk.step, walk.length))
            yield Rule((Shard(axis, cuts), inside), Shard(axis, cuts))


@specific.register
def _(op: Concat, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    term = LETTERS[: node.ndim]
    for axis, size in enumerate(node.shape):
        if size < 2:
            continue
        cuts = even_cuts(size, mesh.total_blocks)
        if axis == op.axis:
            parts = concat_cuts(cuts, tuple(x.shape[axis] for x in node.inputs))
            yield Rule(tuple(Shard(axis, c) for c in parts), Shard(axis, cuts))
        else:
            terms = [term] * len(node.inputs)
            for chosen in _cuts(term[axis], size, terms, [x.shape for x in node.inputs], have, node, mesh):
                yield Rule((Shard(axis, chosen),) * len(node.inputs), Shard(axis, chosen))


@specific.register
def _(op: Reshape, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    yield from _still_partial(have[0])
    if op.order != "C" or node.size == 0:
        return
    for i, o, inner_in, inner_out in _groups(node.inputs[0].shape, node.shape):
        size = node.inputs[0].shape[i]
        even = tuple(c * inner_out // inner_in for c in even_cuts(node.shape[o], mesh.total_blocks))
        for cuts in dict.fromkeys((*_axis_cuts(have[0], i, size, mesh), even)):
            if cuts[-1] != size:
                continue
            to = split_cuts(tuple(c * inner_in for c in cuts), inner_out)
            if to is not None:
                yield Rule((Shard(i, cuts),), Shard(o, to))


def _groups(a: Sequence[int], b: Sequence[int]) -> Iterator[tuple[int, int, int, int]]:
    """Groups of axes with equal products: first axis on each side, and elements below it in the group."""
    i = j = 0
    while i < len(a) and j < len(b):
        if a[i] == 1:
            i += 1
            continue
        if b[j] == 1:
            j += 1
            continue
        pa, pb, ei, ej = a[i], b[j], i + 1, j + 1
        while pa != pb:
            if pa < pb:
                pa *= a[ei]
                ei += 1
            else:
                pb *= b[ej]
                ej += 1
        yield i, j, pa // a[i], pb // b[j]
        i, j = ei, ej


@specific.register
def _(op: Gather, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    at = one_array(op.key)
    if at is None:
        return
    base, index = node.inputs
    term = LETTERS[: base.ndim]
    own = LETTERS[base.ndim : base.ndim + index.ndim]
    yield from (
        r
        for r in by_letters([term, own], term[:at] + own + term[at + 1 :], node, have, mesh)
        if not (isinstance(r.ins[0], Shard) and r.ins[0].axis == at)
    )
    if mesh.workers == 1 or base.shape[at] < 2:
        return
    for k, n in enumerate(index.shape):
        if n >= 2 or index.size == 1:
            for asked in _axis_cuts(have[1], k, n, mesh):
                for cuts in _axis_cuts(have[0], at, base.shape[at], mesh):
                    yield Rule((Shard(at, cuts), Shard(k, asked)), Shard(at + k, asked), talks=True)
