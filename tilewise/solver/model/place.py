"""A graph with its layouts written in. In: a rule per operator, layouts held per value. Out: nodes, layouts, moves."""

from __future__ import annotations

from collections.abc import Callable

from tilewise.ir.node import Node, intern, known_leaf, twin
from tilewise.layout import Layout, Mesh, shards
from tilewise.ops.linalg.cholesky import Cholesky
from tilewise.ops.linalg.qr import tall_qr
from tilewise.ops.moments import Moments
from tilewise.ops.move import Move
from tilewise.ops.order.sort import Sort
from tilewise.ops.reshape import Reshape
from tilewise.ops.traits.collectives import Collective
from tilewise.ops.traits.rule import Rule, makes_contributions
from tilewise.ops.views import Arrange, Cut, all_of, arrange
from tilewise.records import dataclass
from tilewise.solver.model import expand
from tilewise.solver.model.graph import Graph, Item, Stub, Use, behind, seen
from tilewise.solver.model.model import Model
from tilewise.solver.model.replicas import Held, Kind, covers, spread
from tilewise.solver.search.solve import Solution


@dataclass(frozen=True, eq=False)
class Choice:
    """How a plan was chosen: the problem, and its solution with a proof."""

    model: Model
    solution: Solution

    @property
    def cost(self) -> int:
        """What the plan costs, in the machine's units."""
        return self.solution.cost

    def made_in(self, node: int) -> Layout:
        """The layout in which the graph's node of this number is made."""
        return self.rule_of(node).out

    def rule_of(self, node: int) -> Rule:
        """The rule by which the graph's node of this number is computed."""
        item = self.model.graph.at[node].item
        return self.model.choices[item].rules[self.solution.values[self.model.rule_at[item]]]


@dataclass(frozen=True)
class Placed:
    """A graph with a layout for every node, and Move nodes where a layout changes."""

    nodes: tuple[Node, ...]
    layouts: tuple[Layout, ...]
    leaves: tuple[tuple[int, ...], ...]  # positions of each leaf's copies, in the order they were given
    wanted: tuple[int, ...]
    landed: tuple[tuple[int, int], ...]  # (which leaf, position) of inputs' new copies on the workers
    choice: Choice | None = None  # None: by chance


class Placer:
    """Builds the placed graph item by item, in order."""

    def __init__(self, graph: Graph, kind: Callable[[int], Kind], mesh: Mesh) -> None:
        self.graph = graph
        self.mesh = mesh
        self.kind = kind
        self.nodes: list[Node] = []
        self.layouts: list[Layout] = []
        self.copies: list[dict[Layout, int]] = []  # per item: where it is, in which layouts
        self.at: dict[Node, int] = {}
        self.aliases: dict[tuple[Arrange, int, Layout], int] = {}
        self.first: dict[int, Held] = {}  # of leaves: the layouts they came in

    def give(self, item: Item, layouts: Held) -> None:
        """A leaf, in the layouts it is in already."""
        n = item.node
        self.first[len(self.copies)] = layouts
        self.copies.append({x: self.add(known_leaf(Stub(n.dims, n.dtype), n.order), x) for x in layouts})

    def constant(self, item: Item, layout: Layout) -> None:
        """A number that every worker has."""
        self.copies.append({layout: self.add(item.node, layout)})

    def make(self, item: Item, rule: Rule) -> None:
        """An operator by a rule."""
        n = item.node
        ins = [self.see(use, layout, isinstance(n.op, Cut)) for use, layout in zip(item.uses, rule.ins, strict=True)]
        self.copies.append({rule.out: self._steps(n, ins, rule)})

    def _steps(self, n: Node, ins: list[int], rule: Rule) -> int:
        """An operator in one step, or in several."""
        if rule.collective:
            return self._regroup(n, ins, rule.out)
        if rule.partial is not None:
            return expand.by_contributions(self, n, ins, rule.partial, rule.out)
        if rule.once:
            ins = expand.counted_once(self, n, ins, rule)
        if isinstance(n.op, Moments):
            return expand.moments(self, n, ins[0], rule.out)
        if isinstance(n.op, Reshape) and makes_contributions(rule):
            return expand.apart(self, n, ins[0], rule.out)
        tall = tall_qr(n, rule.ins)
        if tall is not None:
            return expand.tall_qr(self, n, ins[0], tall)
        if isinstance(n.op, Cholesky) and shards(rule.out):
            return expand.cholesky(self, n, ins[0], self.mesh)
        node = intern(n.op, tuple(self.nodes[i] for i in ins), n.shape, n.dtype, n.order)
        node.site = node.site or n.site
        return self.add(node, rule.out)

    def hold(self, item: int, held: Held) -> None:
        """A value in some layouts, whatever else it is in."""
        have = self.copies[item]
        missing = tuple(x for x in held if x not in have)
        if not missing:
            return
        parents = dict(zip(missing, spread(tuple(have), missing, self.kind(item))[1], strict=True))
        while parents:
            for x, parent in list(parents.items()):
                if parent in have:
                    anew = self.kind(item).made_anew(parent, x)
                    base = have[parent]
                    have[x] = self.add(twin(self.nodes[base]), x) if anew else self.move(base, x)
                    del parents[x]

    def see(self, use: Use, layout: Layout, cut: bool = False) -> int:
        """An operand in a layout: where its value is held so, or taken from what is held. Cuts may have more ghosts."""
        have = self.copies[use.item]
        want = behind(layout, use.alias)
        if self.graph.items[use.item].constant:
            (got,) = have
        elif want in have:
            got = want
        else:
            got = next((x for x in have if covers(x, want)), want) if cut else want
            self.hold(use.item, (got,))
        base = have[got]
        if use.alias is None:
            return base
        wide = layout if got == want else seen(got, use.alias, self.mesh)
        assert wide is not None
        return self._alias(use.alias, base, wide)

    def leave(self, use: Use, layout: Layout) -> int:
        """A result in its final layout."""
        self.hold(use.item, (layout,))
        base, final = self.copies[use.item][layout], seen(layout, use.alias, self.mesh)
        assert final is not None, "results are not cut along an axis they do not have"
        return base if use.alias is None else self._alias(use.alias, base, final)

    def _alias(self, alias: Arrange, base: int, layout: Layout) -> int:
        key = (alias, base, layout)
        if key not in self.aliases:
            node = arrange(self.nodes[base], alias)
            self.aliases[key] = self.add(twin(node) if node in self.at else node, layout)
        return self.aliases[key]

    def move(self, i: int, layout: Layout) -> int:
        """A value in another layout (itself, if it is in that one)."""
        if layout == self.layouts[i]:
            return i
        x = self.nodes[i]
        node = intern(Move(self.layouts[i], layout), (x,), x.dims, x.dtype, x.order)
        node.site = x.site
        return self.add(node, layout)

    def trimmed(self, i: int, layout: Layout) -> int:
        """A value without its ghosts (itself, if it has none): a view."""
        if layout == self.layouts[i]:
            return i
        return self.add(all_of(self.nodes[i]), layout)

    def _regroup(self, n: Node, ins: list[int], out: Layout) -> int:
        """An operator done by a collective; for a sort, each block is sorted first."""
        operands = tuple(self.nodes[i] for i in ins)
        if isinstance(n.op, Sort):
            blocks = intern(n.op, operands, n.shape, n.dtype, n.order)
            blocks.site = blocks.site or n.site
            self.add(blocks, self.layouts[ins[0]])
            operands = (blocks,)
        whole = intern(Collective(n.op, self.layouts[ins[0]], out), operands, n.shape, n.dtype, n.order)
        whole.site = n.site
        return self.add(whole, out)

    def add(self, node: Node, layout: Layout) -> int:
        """A node, in a layout."""
        known = self.at.get(node)
        if known is None:
            known = self.at[node] = len(self.nodes)
            self.nodes.append(node)
            self.layouts.append(layout)
        return known
