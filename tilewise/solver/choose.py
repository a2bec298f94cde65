"""Choose a layout for every node. In: nodes in order, where the leaves lie. Out: the graph with its changes of layout.

A forward pass: each node takes the rule that is cheapest given where its operands already lie (bytes over the network,
bytes of memory touched per worker, a latency per exchange). A conversion of a value is made once and shared.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from tilewise.cost.model import Machine, exchange_seconds, work_seconds
from tilewise.ir.node import Node, intern, known_leaf
from tilewise.layout import Layout, Mesh, OnDriver, Partial, Replicate, Shard, even_shard, route
from tilewise.ops.const import Const
from tilewise.ops.move import Move, Regroup
from tilewise.ops.rules import Rule, rules
from tilewise.ops.sort import Sort
from tilewise.ops.views import Arrange, Cut, Window, unfold

INNER_AXIS = 1.25  # pieces cut along a fast axis are many short runs of memory


@dataclass(frozen=True)
class Stub:
    """Stands for a leaf's value in a plan: its type, not its data."""

    shape: tuple[int, ...]
    dtype: object


@dataclass(frozen=True)
class Placed:
    """A graph with a layout for every node, and Move nodes where a layout changes."""

    nodes: tuple[Node, ...]
    layouts: tuple[Layout, ...]
    leaves: tuple[int, ...]  # positions of the leaves, in the order they were given
    wanted: tuple[int, ...]
    landed: tuple[tuple[int, int], ...]  # (which leaf, position) of inputs' first copies on the workers


def choose(
    nodes: Sequence[Node],
    wanted: Sequence[int],
    leaves: dict[Node, Layout],
    mesh: Mesh,
    machine: Machine,
    seed: int | None = None,
) -> Placed:
    """Layouts for a graph. With a seed, arbitrary valid ones (to test that no choice changes a result)."""
    return _Chooser(nodes, leaves, mesh, machine, None if seed is None else random.Random(seed)).run(wanted)


def _is_halo(src: Layout, dst: Layout) -> bool:
    """Whether a move only adds ghosts."""
    if not (isinstance(src, Shard) and isinstance(dst, Shard)):
        return False
    return (src.axis, src.cuts, src.ghosts) == (dst.axis, dst.cuts, (0, 0)) and dst.ghosts != (0, 0)


class _Chooser:
    def __init__(
        self,
        nodes: Sequence[Node],
        leaves: dict[Node, Layout],
        mesh: Mesh,
        machine: Machine,
        dice: random.Random | None,
    ) -> None:
        self.given = nodes
        self.leaves = leaves
        self.mesh = mesh
        self.machine = machine
        self.dice = dice
        self.nodes: list[Node] = []
        self.layouts: list[Layout] = []
        self.new: dict[Node, int] = {}  # given node -> position of its value
        self.moved: dict[tuple[int, Layout], int] = {}
        self.at: dict[Node, int] = {}
        self.landed: dict[int, int] = {}  # leaf on the driver -> its first copy on the workers
        self.pins: list[Node] = []  # keeps rebuilt nodes alive: equal structure must stay one node

    def run(self, wanted: Sequence[int]) -> Placed:
        for n in self.given:
            if n in self.leaves:
                stub = known_leaf(Stub(n.dims, n.dtype), n.order)
                self.new[n] = self._add(stub, self.leaves[n])
            elif type(n.op) is Const:
                self.new[n] = self._add(n, Replicate())
            elif type(n.op) is Window and (u := unfold(n)) is not n:
                self.new[n] = self._view(u)
            else:
                self.new[n] = self._place(n, [self._nearest(self.new[x]) for x in n.inputs])
        self._widen_halos()
        homes, self.landed = self.landed, {}
        ends = tuple(self._settled(self.new[self.given[w]]) for w in wanted)
        leaves = tuple(self.new[n] for n in self.given if n in self.leaves)
        landed = tuple((leaves.index(i), m) for i, m in homes.items() if self.nodes[i].ndim)
        return Placed(tuple(self.nodes), tuple(self.layouts), leaves, ends, landed)

    def _add(self, node: Node, layout: Layout) -> int:
        """A node's position. Views that turn out to be the same make their users the same: each node stands once."""
        known = self.at.get(node)
        if known is not None:
            return known
        self.at[node] = len(self.nodes)
        self.nodes.append(node)
        self.layouts.append(layout)
        return len(self.nodes) - 1

    def _view(self, u: Node) -> int:
        """The chain of Cut and Arrange that a view was unfolded into."""
        chain = []
        while u not in self.new and type(u.op) in (Cut, Arrange):
            chain.append(u)
            u = u.inputs[0]
        for n in reversed(chain):
            self.new[n] = self._place(n, [self._nearest(self.new[n.inputs[0]])])
        return self.new[chain[0]] if chain else self.new[u]

    def _nearest(self, i: int) -> int:
        """An input that has left the driver is taken from where it went first."""
        return self.landed.get(i, i)

    def _place(self, n: Node, ins: list[int]) -> int:
        have = [self.layouts[i] for i in ins]
        found = rules(n, have, self.mesh)
        if self.dice is not None:
            rule = self.dice.choice(found)
        else:
            rule = min(found, key=lambda r: self._seconds(n, ins, r))
        inputs = [self._move(i, layout) for i, layout in zip(ins, rule.ins, strict=True)]
        if isinstance(n.op, Sort) and isinstance(rule.out, Shard) and rule.out.axis == n.op.axis:
            return self._sort(n, inputs[0], rule.out)
        node = intern(n.op, tuple(self.nodes[i] for i in inputs), n.shape, n.dtype, n.order)
        if node.site is None:
            node.site = n.site
        return self._add(node, rule.out)

    def _sort(self, n: Node, i: int, out: Shard) -> int:
        """Sort every block, then let blocks exchange ranges."""
        blocks = intern(n.op, (self.nodes[i],), n.shape, n.dtype, n.order)
        blocks.site = blocks.site or n.site
        self._add(blocks, self.layouts[i])
        whole = intern(Regroup(self.layouts[i], out), (blocks,), n.shape, n.dtype, n.order)
        whole.site = n.site
        return self._add(whole, out)

    def _seconds(self, n: Node, ins: list[int], rule: Rule) -> float:
        total = work_seconds(n, rule, self.mesh, self.machine)
        for i, layout in zip(ins, rule.ins, strict=True):
            if self.layouts[i] != layout and (i, layout) not in self.moved:
                x = self.nodes[i]
                inner = isinstance(layout, Shard) and layout.axis != (x.order or (0,))[0]
                for e in route(self.layouts[i], layout, x.dims, self.mesh):
                    cost = exchange_seconds(e.bytes(x.dtype.itemsize), self.mesh, self.machine)
                    total += cost * (INNER_AXIS if inner else 1.0)
        if isinstance(rule.out, Partial):
            # A partial result is settled sooner or later.
            reduced = route(rule.out, Replicate(), n.dims, self.mesh)
            total += 0.5 * sum(exchange_seconds(e.bytes(n.dtype.itemsize), self.mesh, self.machine) for e in reduced)
        return total

    def _move(self, i: int, layout: Layout) -> int:
        if self.layouts[i] == layout:
            return i
        if not self.nodes[i].ndim and isinstance(self.nodes[i].op, Const):
            return i
        done = self.moved.get((i, layout))
        if done is None:
            x = self.nodes[i]
            move = Move(self.layouts[i], layout)
            node = intern(move, (x,), x.dims, x.dtype, x.order)
            node.site = x.site
            done = self.moved[(i, layout)] = self._add(node, layout)
            if isinstance(self.layouts[i], OnDriver):
                self.landed.setdefault(i, done)
        return done

    def _settled(self, i: int) -> int:
        """A result must not stay partial or on the driver, nor keep ghosts."""
        layout = self.layouts[i]
        if isinstance(layout, OnDriver):
            return self._move(i, Replicate())
        if isinstance(layout, Partial):
            shape = self.nodes[i].shape
            long = max(range(len(shape)), key=lambda a: shape[a], default=None)
            small = self.nodes[i].nbytes <= self.machine.small_bytes or long is None
            return self._move(i, Replicate() if small or long is None else even_shard(long, shape, self.mesh))
        if isinstance(layout, Shard) and layout.ghosts != (0, 0):
            return self._move(i, Shard(layout.axis, layout.cuts))
        return i

    def _widen_halos(self) -> None:
        """Cuts of one base with different ghosts share one halo: as wide as the widest."""
        wide: dict[tuple[int, int, tuple[int, ...]], tuple[int, int]] = {}
        halos = [(i, d) for i, d in self.moved if _is_halo(self.layouts[i], d)]
        for i, d in halos:
            assert isinstance(d, Shard)
            low, high = wide.get((i, d.axis, d.cuts), (0, 0))
            wide[(i, d.axis, d.cuts)] = (max(low, d.ghosts[0]), max(high, d.ghosts[1]))
        change: dict[int, tuple[int, Layout]] = {}
        for i, d in halos:
            assert isinstance(d, Shard)
            full = Shard(d.axis, d.cuts, wide[(i, d.axis, d.cuts)])
            if full != d:
                change[self.moved[(i, d)]] = (i, full)
        if change:
            self._rebuild(change)

    def _rebuild(self, change: dict[int, tuple[int, Layout]]) -> None:
        """Replace halo moves by wider shared ones; positions are kept, duplicates point at the first."""
        goal = {m: (i, self.layouts[m]) for (i, _), m in self.moved.items()} | change
        first: dict[tuple[int, Layout], int] = {}
        to: list[int] = list(range(len(self.nodes)))
        for m in sorted(goal):
            to[m] = first.setdefault(goal[m], m)
        fresh: list[Node] = []
        where = {n: k for k, n in enumerate(self.nodes)}
        for k, n in enumerate(self.nodes):
            if k in change and to[k] == k:
                i, layout = change[k]
                self.layouts[k] = layout
                n = intern(Move(self.layouts[i], layout), (fresh[i],), n.shape, n.dtype, n.order)
            elif n.value is None and n.inputs and to[k] == k:
                ins = tuple(fresh[to[where[x]]] for x in n.inputs)
                site = n.site
                n = intern(n.op, ins, n.shape, n.dtype, n.order)
                n.site = n.site or site
            fresh.append(n)
        keep = [k for k in range(len(fresh)) if to[k] == k]
        # A shared halo must stand before every user: users come after the first of its duplicates, which is kept.
        index = {k: new for new, k in enumerate(keep)}
        self.pins = self.nodes
        self.nodes = [fresh[k] for k in keep]
        self.at = {n: i for i, n in enumerate(self.nodes)}
        self.layouts = [self.layouts[k] for k in keep]
        self.new = {n: index[to[k]] for n, k in self.new.items()}
        moved = {(index[to[i]], index[to[m]]) for (i, _), m in self.moved.items()}
        self.moved = {(i, self.layouts[m]): m for i, m in moved}
        self.landed = {index[to[i]]: index[to[m]] for i, m in self.landed.items()}
