"""What a mesh may do with an operator. In: a node, where its operands lie. Out: rules: layouts of operands and result.

Most rules follow from index letters (docs/architecture.md): cutting a letter shards the operands that have it,
replicates the others, and shards the result, or makes it partial if the letter is reduced. Cuts are inherited from the
largest operand that is already cut along the letter, so that nothing moves that need not. Operators register theirs
(`specific`) beside their class, and what moves within an operator that is several steps (`inner_exchanges`).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from tilewise.ir.node import Node
from tilewise.ir.reductions import by_name
from tilewise.layout import (
    Cuts,
    Cutting,
    Grid,
    Layout,
    Mesh,
    OnDriver,
    Outside,
    Partial,
    Piecewise,
    Placement,
    Replicate,
    Shard,
    at_first,
    bare,
    column_cut,
    even_cuts,
    even_divisions,
    grid_layout,
    placements,
    reduction,
    shards,
)
from tilewise.ops.move import Pin
from tilewise.records import dataclass

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
WHOLE = Replicate()
ADD = by_name("add")
MAX_CUTS = 2  # of uneven cuts along a letter, how many are weighed beside the even ones
FIRST_BYTES = 1 << 16  # up to so many, work on a value may be done in one place where bytes are all that counts
MAX_PIECES = 4  # of divisions in pieces


@dataclass(frozen=True)
class Rule:
    """One way to run an operator in pieces: where operands must lie, and where the result then lies."""

    ins: tuple[Layout, ...]
    out: Layout
    collective: bool = False  # ops/traits/collectives.py; valid only on a 1-D mesh
    line: bool = False  # valid only on a line of workers: never one direction's part of a rule for a grid
    once: bool = False  # whole operands count in one contribution only (ops/once.py)
    partial: Layout | None = None  # of blocks' contributions, which are reduced to `out` (solver/model/expand.py)


def makes_contributions(rule: Rule) -> bool:
    """Whether a rule's result is partial though no operand is."""
    return reduction(rule.out) is not None and not any(reduction(x) is not None for x in rule.ins)


Options = Sequence[Sequence[Placement]]  # per operand: the ways it might lie along a line of workers


def rules(node: Node, have: Sequence[Sequence[Layout]], mesh: Mesh, *, first: bool = False) -> Sequence[Rule]:
    """All rules of a node, given how each operand might lie; the last is always to replicate everything.

    `first`: also to do it in the first block, if operands and result are small. Where only bytes count, a sum that one
    place takes in and works on costs less than one that all do; where time counts, all may as well.

    On a grid a rule for all workers in one line is one choice, a rule for each direction the other.
    """
    found = divisions(node, have, mesh)
    return with_first(node, have, found, mesh) if first else found


def divisions(node: Node, have: Sequence[Sequence[Layout]], mesh: Mesh) -> tuple[Rule, ...]:
    """The rules that do not depend on what counts, bytes or time."""
    if isinstance(node.op, Pin):
        layout = node.op.layout(node.dims, mesh)
        return (Rule((layout,), layout),)
    every = Rule((WHOLE,) * len(node.inputs), WHOLE)
    found: list[Rule] = []
    if mesh.total_blocks > 1 and _known(node):  # else nothing is cut: all layouts are this one
        found.extend(_line_rules(node, [[x for x in h if not isinstance(x, Grid)] for h in have], mesh))
        if mesh.grid:
            found.extend(on_grid(node.op, node, have, mesh))
            down, across = (
                [r for r in _line_rules(node, [_direction(h, k) for h in have], line) if not (r.collective or r.line)]
                for k, line in enumerate((mesh.down, mesh.across))
            )
            pairs = itertools.product([*down, every], [*across, every])
            found.extend([Rule(*pair) for a, b in pairs if (pair := _both(a, b)) is not None])
    found.append(every)
    return tuple(dict.fromkeys(found))


def _known(node: Node) -> bool:
    return node.known and all([x.known for x in node.inputs])


def with_first(node: Node, have: Sequence[Sequence[Layout]], found: tuple[Rule, ...], mesh: Mesh) -> tuple[Rule, ...]:
    """The rules of `divisions`, and those that do it in the first block."""
    if isinstance(node.op, Pin) or mesh.workers == 1 or not node.ndim or not _known(node) or not fits_first(node):
        return found
    *others, every = found
    more = _in_first(node, have, others, mesh)
    return tuple(dict.fromkeys((*others, *more, every))) if more else found


def _in_first(node: Node, have: Sequence[Sequence[Layout]], found: Sequence[Rule], mesh: Mesh) -> list[Rule]:
    """A small operator done in the first block, if all operands come together there.

    These are sums of contributions, unless they are only scaled, which can be done before they are summed; what was
    made of them; and what the driver has.
    """
    end = at_first(node.dims, mesh)
    more = [replace(r, out=end) for r in found if r.partial is not None]
    there = [at_first(x.dims, mesh) if x.ndim and x.dims[0] else WHOLE for x in node.inputs]
    kept = any(reduction(r.out) is not None and not r.once for r in found)
    scaled = kept and [x.shape for x in node.inputs if x.ndim] == [node.shape]
    arrays = [(row, here) for x, row, here in zip(node.inputs, have, there, strict=True) if x.ndim]
    come = [here in row or (not scaled and any(reduction(x) is ADD for x in row)) for row, here in arrays]
    near = [OnDriver() in row for row, _ in arrays]
    if any(come) and all(a or b for a, b in zip(come, near, strict=True)) and all(map(fits_first, node.inputs)):
        more.append(Rule(tuple(there), end))
    return more


def driver_matters(node: Node, have: Sequence[Sequence[Layout]]) -> bool:
    """Whether the rules of an operator may depend on which operands the driver has (`_in_first`)."""
    if not any([not isinstance(x, OnDriver) for row in have for x in row]):
        return False  # Nothing has come together in the first block.
    return node.ndim > 0 and fits_first(node) and all([fits_first(x) for x in node.inputs])


def fits_first(x: Node) -> bool:
    """Whether a value is small enough to be worked on in one place."""
    return x.ndim == 0 or 0 < x.nbytes <= FIRST_BYTES


def _direction(layouts: Sequence[Layout], direction: int) -> list[Layout]:
    """How an operand might lie along one direction of the grid."""
    return [placements(x)[direction] for x in layouts if isinstance(x, Grid)]


def _line_rules(node: Node, have: Sequence[Sequence[Layout]], line: Mesh) -> list[Rule]:
    options = [[x for x in h if not isinstance(x, Outside | Grid)] for h in have]
    return [r for r in specific(node.op, node, options, line) if _reachable(r, options)]


def _reachable(rule: Rule, have: Options) -> bool:
    """Nothing is made partial on purpose: only what is partial already may stay so."""
    return all(not isinstance(r, Partial) or r in h for r, h in zip(rule.ins, have, strict=True))


def _both(down: Rule, across: Rule) -> tuple[tuple[Layout, ...], Layout] | None:
    """A rule for each direction as one rule; None where the two do not go together, or are not really two."""
    parts: list[Layout] = []
    for a, b in zip((*down.ins, down.out), (*across.ins, across.out), strict=True):
        part = _grid(a, b)
        if part is None:
            return None
        parts.append(part)
    return (tuple(parts[:-1]), parts[-1]) if any([isinstance(p, Grid) for p in parts]) else None


@functools.lru_cache(maxsize=4096)
def _grid(down: Layout, across: Layout) -> Layout | None:
    assert not isinstance(down, Outside | Grid) and not isinstance(across, Outside | Grid)
    if isinstance(down, Cutting) and isinstance(across, Cutting):
        return None if down.axis == across.axis else grid_layout(down, across)
    if isinstance(down, Partial) and isinstance(across, Partial) and down != across:
        return None
    return grid_layout(down, across)


@functools.singledispatch
def specific(op: Any, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    """Rules beyond replicating; operators without a row here have none."""
    return iter(())


@functools.singledispatch
def on_grid(op: Any, node: Node, have: Sequence[Sequence[Layout]], mesh: Mesh) -> Iterator[Rule]:
    """Rules that cut both directions of a grid at once, beyond pairs of rules for lines; most operators have none."""
    return iter(())


@functools.singledispatch
def inner_exchanges(op: Any, node: Node, rule: Rule, mesh: Mesh) -> list[tuple[Layout, Layout, tuple[int, ...]]]:
    """What moves within an operator that is several steps: from where to where, and its shape."""
    return []


def by_letters(
    terms: Sequence[str],
    out: str,
    node: Node,
    have: Options,
    mesh: Mesh,
    op: str | None = None,
    *,
    pieces: bool = False,
) -> Iterator[Rule]:
    """A rule per letter. `op` is the reduction of letters that the result lacks (None: they cannot be cut).

    `pieces`: the operator takes blocks with any indices, in any order.
    """
    shapes = [x.shape for x in node.inputs]
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for letter, d in zip(term, shape, strict=True):
            sizes[letter] = max(sizes.get(letter, 1), d) if d != 0 else 0
    tied = {c for term in terms for c in term if term.count(c) > 1}
    inherited = any([isinstance(x, Cutting) for row in have for x in row])
    for letter, size in sizes.items():
        if letter in tied or size < 2 or (letter not in out and op is None):
            continue
        found: list[Cuts | Piecewise] = [_even(size, mesh.total_blocks)]
        if inherited:
            found = [*cuts_of(letter, size, terms, shapes, have, node, mesh)]
        if pieces and (inherited or mesh.grid):
            found += _in_pieces(letter, size, terms, shapes, have, mesh)
        places = [term.find(letter) for term in terms]
        cut_at = [k if k >= 0 and shape[k] == size else -1 for k, shape in zip(places, shapes, strict=True)]
        end = out.find(letter)
        for cut in dict.fromkeys(found):
            ins = tuple([WHOLE if k < 0 else _along(cut, k) for k in cut_at])
            yield Rule(ins, _along(cut, end) if end >= 0 else Partial(op or ""))


@functools.lru_cache(maxsize=4096)
def _along(cut: Cuts | Piecewise, axis: int) -> Cutting:
    """A division of an axis."""
    return cut.along(axis) if isinstance(cut, Piecewise) else shard(axis, cut)


def _in_pieces(
    letter: str, size: int, terms: Sequence[str], shapes: Sequence[Any], have: Options, mesh: Mesh
) -> list[Cuts | Piecewise]:
    """Divisions of a letter in pieces that operands may have, and on a grid that by columns of workers."""
    found = [
        x.along(0)
        for term, shape, layouts in zip(terms, shapes, have, strict=True)
        for x in layouts
        if isinstance(x, Piecewise) and term.find(letter) == x.axis and shape[x.axis] == size
    ]
    return [*list(dict.fromkeys(found))[:MAX_PIECES], *by_columns(size, mesh)]


def by_columns(size: int, mesh: Mesh) -> list[Cuts | Piecewise]:
    """An axis cut over all workers of a grid, column by column."""
    if not mesh.grid:
        return []
    cut = column_cut(0, size, mesh)
    return [cut if isinstance(cut, Piecewise) else cut.cuts]


@functools.lru_cache(maxsize=4096)
def shard(axis: int, cuts: Cuts) -> Shard:
    """The one object for a cut without ghosts: rules are compared and looked up a lot."""
    return Shard(axis, cuts)


@functools.lru_cache(maxsize=4096)
def _even(size: int, blocks: int) -> Cuts:
    return even_cuts(size, blocks)


def cuts_of(
    letter: str, size: int, terms: Sequence[str], shapes: Sequence[Any], have: Options, node: Node, mesh: Mesh
) -> list[Cuts]:
    """Cuts worth trying for a letter: those of operands that may be cut so, the largest first, and even ones."""
    found: dict[Cuts, int] = {}
    for term, shape, layouts, x in zip(terms, shapes, have, node.inputs, strict=True):
        axis = term.find(letter)
        if axis >= 0 and shape[axis] == size:
            for cuts in known_cuts(layouts, axis):
                found[cuts] = max(found.get(cuts, 0), x.nbytes)
    return few(sorted(found, key=lambda c: -found[c]), size, mesh)


def cutting_both(layouts: Sequence[Layout], shape: Sequence[int], axes: Sequence[int], mesh: Mesh) -> list[Grid]:
    """Layouts that cut two axes, one along each direction: those that an operand might have, and even ones."""
    a, b = axes
    found = [x for x in layouts if isinstance(x, Grid) and {p.axis for p in shards(x)} == {a, b} and _plain(x)]
    even = [
        Grid(shard(i, _even(shape[i], mesh.down.total_blocks)), shard(j, _even(shape[j], mesh.across.total_blocks)))
        for i, j in ((a, b), (b, a))
        if shape[i] > 1 < shape[j]
    ]
    return list(dict.fromkeys((*found, *even)))


def _plain(grid: Grid) -> bool:
    """Whether all cuts are plain ones without ghosts."""
    return all(not isinstance(p, Piecewise) for p in shards(grid)) and bare(grid) == grid


def known_cuts(layouts: Sequence[Layout], axis: int) -> list[Cuts]:
    """The cuts that an operand might have along an axis."""
    return list(dict.fromkeys(x.cuts for x in layouts if isinstance(x, Shard) and x.axis == axis))


def few(found: Sequence[Cuts], size: int, mesh: Mesh) -> list[Cuts]:
    """Some cuts, and the even ones."""
    return list(dict.fromkeys((*found[:MAX_CUTS], _even(size, mesh.total_blocks))))


def axis_cuts(layouts: Sequence[Layout], axis: int, size: int, mesh: Mesh) -> list[Cuts]:
    return few(known_cuts(layouts, axis), size, mesh)


def settled(node: Node, mesh: Mesh) -> list[Layout]:
    """Where a result that was reduced from contributions may lie."""
    return [WHOLE, *(x for a, n in enumerate(node.dims) if n > 1 for x in even_divisions(a, n, mesh))]


def still_partial(layouts: Sequence[Placement]) -> Iterator[Rule]:
    """Elements that only change places may do so before their contributions are reduced."""
    for p in layouts:
        if isinstance(p, Partial):
            yield Rule((p,), p)
