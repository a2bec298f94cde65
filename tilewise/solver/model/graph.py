"""A graph as the solver sees it. In: nodes in order. Out: items (views as cuts, what only renames axes as aliases)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import field

from tilewise.ir.node import Node, known_leaf, twin
from tilewise.layout import (
    Cutting,
    Grid,
    Layout,
    Mesh,
    Outside,
    Placement,
    Replicate,
    Shard,
    all_at,
    at_one_place,
    grid_layout,
    shards,
)
from tilewise.ops.const import Const
from tilewise.ops.order.select import few_sorted, is_sorted
from tilewise.ops.views import Arrange, Cut, Window, apart, unfold
from tilewise.records import dataclass


@dataclass(frozen=True)
class Use:
    """An operand: an item, seen through a renaming of its axes (None: as it is)."""

    item: int
    alias: Arrange | None = None


Aliases = frozenset[Arrange | None]  # how several uses see one item


@dataclass(eq=False)
class Item:
    """A value that is made or given, and whose layout is to be chosen."""

    node: Node
    uses: tuple[Use, ...]
    given: bool  # a leaf
    constant: bool  # a number that every worker has
    users: list[int] = field(default_factory=list)  # items that use it, each once


@dataclass(frozen=True)
class Graph:
    """Items in order, and where each node of the program is to be found.

    The nodes in it are copies without values: a plan that is kept must not keep the data it was first made for. Lengths
    that masks decide have been counted: they are numbers.
    """

    items: tuple[Item, ...]
    at: tuple[Use, ...]


@dataclass(frozen=True)
class Stub:
    """Stands for a leaf's value: its type, not its data."""

    shape: tuple[int, ...]
    dtype: object


class _Items:
    """Items as they are found. (Not closures that call each other: such a cycle would keep values for a while.)"""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.at: dict[Node, Use] = {}
        self.copies: dict[Node, Node] = {}

    def copied(self, n: Node) -> Node:
        copy = twin(n, [self.copies[x] for x in n.inputs])
        copy.shape = n.dims
        return copy

    def add(self, n: Node, uses: tuple[Use, ...], given: bool = False) -> Use:
        """A new item."""
        self.copies[n] = known_leaf(Stub(n.dims, n.dtype), n.order) if given else self.copied(n)
        self.items.append(Item(self.copies[n], uses, given, not given and type(n.op) is Const))
        me = len(self.items) - 1
        for x in {u.item for u in uses}:
            self.items[x].users.append(me)
        return Use(me)

    def view(self, n: Node) -> Use:
        """A cut or a renaming of something that is there."""
        found = self.at.get(n)
        if found is None:
            base = self.at[n.inputs[0]] if n.inputs[0] in self.at else self.view(n.inputs[0])
            if isinstance(n.op, Arrange):
                found = Use(base.item, _composed(base.alias, n))
            elif isinstance(n.op, Cut) and n.shape == n.inputs[0].shape and min(n.op.steps, default=1) > 0:
                found = base
            else:
                found = self.add(n, (base,))
            if n not in self.copies:
                self.copies[n] = self.copied(n)
            self.at[n] = found
        return found


def graph_of(nodes: Sequence[Node], leaves: Collection[Node], wanted: Sequence[int] = ()) -> Graph:
    """Items for nodes; equal views of one base are one item."""
    found = _Items()
    at, copies = found.at, found.copies
    selected = _selected(nodes, {nodes[w] for w in wanted})
    for n in nodes:
        if n in selected:  # a vector that is sorted for some elements only; or these
            made = selected[n]
            at[n] = at[n.inputs[0]] if made is None else found.view(made)
            copies[n] = copies[n.inputs[0]] if made is None else copies[made]
        elif n in leaves or type(n.op) is Const:
            at[n] = found.add(n, (), n in leaves)
        elif type(n.op) is Window and (u := unfold(w) if type((w := apart(n)).op) is Window else w) is not n:
            at[n] = found.view(u)
            copies[n] = copies[u]
        elif type(n.op) in (Cut, Arrange):
            at[n] = found.view(n)
        else:
            at[n] = found.add(n, tuple([at[x] for x in n.inputs]))
    return Graph(tuple(found.items), tuple([at[n] for n in nodes]))


def _selected(nodes: Sequence[Node], wanted: Collection[Node]) -> dict[Node, Node | None]:
    """Sorts of which only a few elements are used (None: nobody needs them), and what selects these elements."""
    users: dict[Node, list[Node]] = {n: [] for n in nodes if is_sorted(n) and n not in wanted}
    if not users:
        return {}
    for n in nodes:
        for x in n.inputs if n.value is None else ():
            if x in users:
                users[x].append(n)
    found: dict[Node, Node | None] = {}
    for n, by in users.items():
        made = [few_sorted(unfold(u)) if type(u.op) is Window else None for u in by]
        if by and None not in made:
            found |= {n: None, **dict(zip(by, made, strict=True))}
    return found


def _composed(inner: Arrange | None, n: Node) -> Arrange:
    """The renaming `n` of something that is itself renamed."""
    assert isinstance(n.op, Arrange)
    axes = n.op.axes if inner is None else tuple(None if a is None else inner.axes[a] for a in n.op.axes)
    return Arrange(axes, n.dims)


def seen(layout: Layout, alias: Arrange | None, mesh: Mesh) -> Layout | None:
    """The layout that an alias has when its base has this one; None if that is cut along an axis it does not have."""
    if alias is None or isinstance(layout, Outside):
        return layout
    axes = alias.axes
    if any(cut.axis not in axes for cut in shards(layout)):
        return _at_owner(layout, alias, mesh)
    return _each(layout, lambda p: p.along(axes.index(p.axis)) if isinstance(p, Cutting) else p)


def _at_owner(layout: Layout, alias: Arrange, mesh: Mesh) -> Layout | None:
    """Cut along an axis of length one that is dropped: its owner has everything. None where that has no axis to say."""
    if isinstance(layout, Grid):
        return _at_owners(layout, alias, mesh)
    axis = next((k for k, a in enumerate(alias.axes) if a is not None), None)
    if axis is None or not isinstance(layout, Shard) or layout.cuts[-1] != 1:
        return None
    blocks = len(layout.cuts) - 1
    return Shard(axis, all_at(layout.cuts.index(1) - 1, alias.lengths[axis], blocks))


def _at_owners(layout: Grid, alias: Arrange, mesh: Mesh) -> Layout | None:
    """The same on a grid: one row or column of workers has everything, cut along the other direction."""
    for k, (gone, kept) in enumerate(((layout.down, layout.across), (layout.across, layout.down))):
        one = isinstance(gone, Shard) and gone.cuts[-1] == 1 and gone.axis not in alias.axes
        if one and isinstance(kept, Cutting) and kept.axis in alias.axes:
            assert isinstance(gone, Shard)
            return at_one_place(mesh, 1 - k, gone.cuts.index(1) - 1, alias.axes.index(kept.axis), kept)
    return None


def behind(layout: Layout, alias: Arrange | None) -> Layout:
    """The layout that the base must have for an alias to have this one (parts of a repeated axis come from all)."""
    if alias is None:
        return layout
    axes = alias.axes

    def one(p: Placement) -> Placement:
        if not isinstance(p, Cutting):
            return p
        axis = axes[p.axis]
        return Replicate() if axis is None else p.along(axis)

    return _each(layout, one)


def results(uses: Iterable[Use]) -> dict[int, Aliases]:
    """Per item: how these uses see it."""
    out: dict[int, Aliases] = {}
    for use in uses:
        out[use.item] = out.get(use.item, frozenset()) | {use.alias}
    return out


def shown(layout: Layout, aliases: Aliases, mesh: Mesh) -> bool:
    """Whether all of these have a layout where what they are aliases of has this one."""
    return all(seen(layout, alias, mesh) is not None for alias in aliases)


def _each(layout: Layout, change: Callable[[Placement], Placement]) -> Layout:
    """A layout with each of its placements changed."""
    assert not isinstance(layout, Outside)
    if isinstance(layout, Grid):
        return grid_layout(change(layout.down), change(layout.across))
    return change(layout)
