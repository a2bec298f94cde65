"""Slices of arrays, read or sent in the arrays' place. In: wanted nodes. Out: equal ones.

Of an array in a file, only what its slices show is read. An array on the driver that is sent to workers stays there for
later, one of its slices does not: so slices are sent until they come to a share of the array, and then all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd, prod
from typing import Any

from tilewise.array.cell import Outside, private_copy
from tilewise.ir.node import Node, intern, known_leaf, numbered
from tilewise.ir.order import strides_of
from tilewise.ops.views import Arrange, Cut, Window, arrange, unfold, view
from tilewise.store.base import Source
from tilewise.store.source_slice import Part

MOST_SHARE = 0.5  # of an array: what its slices may come to


def sliced_inputs(
    roots: Sequence[Node], here: Callable[[Node], bool], stand_in: Callable[[Node, Cut], Any]
) -> Sequence[Node]:
    """Wanted nodes that read slices of arrays which are here, where nothing needs more of them; else themselves."""
    new: dict[Node, Node] = {}
    for x, views in _views(roots, lambda n: _large(n) and here(n), of_wanted=False).items():
        cuts = {_cut(shown): None for shown in views.values()}
        if not _fits(x, cuts):
            continue
        leaves = {c: known_leaf(stand_in(x, c), x.order) for c in cuts}
        for n, shown in views.items():
            leaf = leaves[_cut(shown)]
            new[n] = arrange(leaf, shown.op) if type(shown.op) is Arrange else leaf
    return _replaced(roots, new) if new else roots


def _views(roots: Sequence[Node], asked: Callable[[Node], bool], of_wanted: bool) -> dict[Node, dict[Node, Node]]:
    """Leaves of which nothing but slices is needed, with these: each as a Cut or an Arrange of one.

    Of a source (`of_wanted`: also if wanted themselves) other views, too: as a Cut of the lines that they lie in.
    """
    nodes = numbered(roots)
    parts: dict[Node, dict[Node, Node] | None] = {n: {} for n in nodes if asked(n)}
    if not parts:
        return {}
    for n in (*nodes, None):
        for x in roots if n is None else n.inputs if n.value is None else ():
            found = parts.get(x)
            if found is not None:
                shown = None if n is None else _shown(n) or (_lines(n) if of_wanted else None)
                if shown is None or n is None or (n in roots and not of_wanted):
                    parts[x] = None
                else:
                    found[n] = shown
    return {x: views for x, views in parts.items() if views}


def sliced_sources(roots: Sequence[Node]) -> Sequence[Node]:
    """Wanted nodes that read only the box of a source in which all its slices lie; else themselves."""
    new: dict[Node, Node] = {}
    for x, views in _views(roots, _in_a_file, of_wanted=True).items():
        part = _box(x, [_cut(shown) for shown in views.values()])
        if part is not None:
            leaf = known_leaf(part, x.order, Outside())
            for n, shown in views.items():
                new[n] = _window(leaf, part, n, shown)
    return _replaced(roots, new) if new else roots


def _in_a_file(n: Node) -> bool:
    return isinstance(n.value, Source) and not n.value.on_workers and n.ndim > 0 and n.known and n.size > 0


def _box(x: Node, cuts: Sequence[Cut]) -> Part | None:
    """The least part of a source, with one step along each axis, that has all cuts; None if that is all of it."""
    assert isinstance(x.value, Source)
    full = [c for c in cuts if 0 not in c.lengths]
    if not full:
        return Part(x.value, (0,) * x.ndim, (1,) * x.ndim, cuts[0].lengths if len(cuts) == 1 else (0,) * x.ndim)
    starts, steps, lengths = [], [], []
    for axis in range(x.ndim):
        ends = [(c.starts[axis], c.starts[axis] + c.steps[axis] * (c.lengths[axis] - 1)) for c in full]
        low, high = min(min(e) for e in ends), max(max(e) for e in ends)
        step = gcd(*(abs(c.steps[axis]) for c in full if c.lengths[axis] > 1), *(min(e) - low for e in ends)) or 1
        starts.append(low)
        steps.append(step)
        lengths.append((high - low) // step + 1)
    if tuple(lengths) == x.dims:
        return None
    return Part(x.value, tuple(starts), tuple(steps), tuple(lengths))


def _window(leaf: Node, part: Part, n: Node, shown: Node) -> Node:
    """A view of a source as a view of a part of it."""
    cut, strides = _cut(shown), strides_of(part.shape, leaf.dtype.itemsize, part.order)
    if type(n.op) is Window and _shown(n) is None:
        slow = _slowest(n.inputs[0])
        skipped = cut.starts[slow] - (cut.starts[slow] - part.starts[slow]) // part.steps[slow]
        return view(leaf, n.op.offset - skipped * strides[slow], n.dims, n.op.strides, n.dtype)
    own = [step // by * s for step, by, s in zip(cut.steps, part.steps, strides, strict=True)]
    axes = shown.op.axes if isinstance(shown.op, Arrange) else tuple(range(leaf.ndim))
    starts = zip(cut.starts, part.starts, part.steps, strides, strict=True)
    offset = sum((at - low) // by * s for at, low, by, s in starts) if n.size else 0
    return view(leaf, offset, n.dims, tuple(0 if a is None else own[a] for a in axes), n.dtype)


def part_here(x: Node, cut: Cut) -> Any:
    """A slice of an array, as a value of its own; it counts as sent."""
    outside = _outside(x)
    if outside is not None:
        outside.sent += prod(cut.lengths) * x.dtype.itemsize
    return private_copy(x.value[cut.key()])


def _large(n: Node) -> bool:
    return n.value is not None and n.ndim > 0 and n.known


def _outside(x: Node) -> Outside | None:
    found = getattr(x.op, "exports", None)
    return found if isinstance(found, Outside) else None


def _fits(x: Node, cuts: dict[Cut, None]) -> bool:
    """Whether slices are little of an array, with those that were sent before."""
    outside = _outside(x)
    size = sum(prod(c.lengths) for c in cuts) * x.dtype.itemsize
    return size + (0 if outside is None else outside.sent) <= MOST_SHARE * x.nbytes


def _shown(n: Node) -> Node | None:
    """A slice as a Cut of its base, or an Arrange of one; None if it is none."""
    if type(n.op) not in (Window, Cut):
        return None
    shown = unfold(n) if type(n.op) is Window else n
    cut = shown.inputs[0] if type(shown.op) is Arrange else shown
    return shown if type(cut.op) is Cut and cut.inputs[0] is n.inputs[0] else None


def _lines(n: Node) -> Node | None:
    """A slice that has all that a view shows of its base: whole lines of the axis that is slowest in memory."""
    base = n.inputs[0]
    if type(n.op) is not Window or not n.size or not base.ndim or not base.dtype.itemsize:
        return None
    slow = _slowest(base)
    step = strides_of(base.dims, base.dtype.itemsize, base.order)[slow]
    ways = [(d - 1) * s for d, s in zip(n.op.shape, n.op.strides, strict=True)]
    low = n.op.offset + sum(min(w, 0) for w in ways)
    high = n.op.offset + sum(max(w, 0) for w in ways) + n.dtype.itemsize
    starts, lengths = [0] * base.ndim, list(base.dims)
    starts[slow] = low // step
    lengths[slow] = -(-high // step) - low // step
    cut = Cut(tuple(starts), (1,) * base.ndim, tuple(lengths))
    return intern(cut, (base,), cut.lengths, base.dtype, base.order)


def _slowest(x: Node) -> int:
    return 0 if x.order is None else x.order[0]


def _cut(shown: Node) -> Cut:
    cut = shown.inputs[0].op if type(shown.op) is Arrange else shown.op
    assert isinstance(cut, Cut)
    return cut


def _replaced(roots: Sequence[Node], new: dict[Node, Node]) -> list[Node]:
    for n in numbered(roots):
        if n not in new:
            same = n.value is not None or all(new[x] is x for x in n.inputs)
            new[n] = n if same else intern(n.op, tuple(new[x] for x in n.inputs), n.shape, n.dtype, n.order)
            new[n].site = new[n].site or n.site
    return [new[r] for r in roots]
