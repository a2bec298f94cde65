"""Deep halos. In: a placed graph. Out: one in which blocks compute some ghosts themselves.

`k` sweeps of a stencil exchange one row each time. One exchange of `k` rows before them moves the same bytes; blocks
then compute rows of their neighbours, too (fewer from sweep to sweep), and no exchange separates the sweeps: they
share tiles as on one worker. A halo is left out where hardly more bytes cross without it and the blocks are much
larger than their ghosts.

First, from the last value to the first, how many ghosts of each must be right; then the graph is built anew. Updates
keep as many ghosts as what they write to, right or not, so that all sweeps look alike and are done in place.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from tilewise import rounding
from tilewise.ir.node import Node, intern, twin
from tilewise.layout import Ghosts, Layout, Mesh, Shard, moves
from tilewise.ops.move import Move
from tilewise.ops.traits.ghosts import NO_GHOSTS, ghosts_made, ghosts_needed, most
from tilewise.ops.views import Arrange, Cut, all_of
from tilewise.solver.model.place import Placed


def deepen(placed: Placed, mesh: Mesh) -> Placed:
    """The graph with fewer, deeper halos; the same graph if no halo can be left out."""
    if mesh.grid:
        return placed
    needs = _Needs(placed, mesh)
    return _Rebuilt(placed, needs).placed() if needs.left_out else placed


class _Needs:
    """Which halos are left out, and how many ghosts of each value must be right then."""

    def __init__(self, placed: Placed, mesh: Mesh) -> None:
        self.nodes = placed.nodes
        self.layouts = placed.layouts
        self.mesh = mesh
        at = {n: i for i, n in enumerate(placed.nodes)}
        self.ins = [() if n.value is not None else tuple([at[x] for x in n.inputs]) for n in placed.nodes]
        self.halos = [i for i in range(len(placed.nodes)) if self._is_halo(i)]
        self.source = {i: self.ins[i][0] for i in self.halos}
        # Values that are never computed with ghosts: results, and those whose halo stays.
        self.whole = {*placed.wanted, *(pos for _, pos in placed.landed)}
        self.ghosts: dict[int, Ghosts] = {}
        self.left_out = 0
        for i in self.halos:
            self._decide(i)

    def origin(self, pos: int) -> int:
        """A value before its halo was exchanged."""
        return self.source.get(pos, pos)

    def cut(self, pos: int) -> Shard:
        """The layout of a value that has ghosts."""
        layout = self.layouts[pos]
        assert isinstance(layout, Shard)
        return layout

    def computed(self, pos: int) -> bool:
        """Whether blocks compute their ghosts of a value: else they are exchanged."""
        return pos in self.ghosts and pos not in self.whole and self._operands(pos, self.ghosts[pos]) is not None

    def operand_layouts(self, pos: int) -> list[Layout]:
        """The layouts of operands before their halos."""
        return [self.layouts[self.origin(x)] for x in self.ins[pos]]

    def _is_halo(self, pos: int) -> bool:
        if type(self.nodes[pos].op) is not Move or not self.ins[pos]:
            return False
        src, dst = self.layouts[self.ins[pos][0]], self.layouts[pos]
        if not (isinstance(src, Shard) and isinstance(dst, Shard)):
            return False
        return src.ghosts == NO_GHOSTS != dst.ghosts and (src.axis, src.cuts) == (dst.axis, dst.cuts)

    def _decide(self, halo: int) -> None:
        """Leave a halo out, if hardly more bytes cross without it."""
        pos, ghosts = self.source[halo], self.cut(halo).ghosts
        if pos not in self.whole and self._operands(pos, ghosts) is not None:
            changed = self._demand(pos, ghosts)
            if changed is not None and self._worth(changed, pos, ghosts):
                self.left_out += 1
                self.ghosts.update(changed)
                return
            self.whole.add(pos)
        self.ghosts[pos] = most(self.ghosts.get(pos, NO_GHOSTS), ghosts)

    def _worth(self, changed: dict[int, Ghosts], pos: int, ghosts: Ghosts) -> bool:
        """Whether hardly more bytes cross."""
        more = sum(
            self._bytes(x, new) - self._bytes(x, self.ghosts.get(x, NO_GHOSTS))
            for x, new in changed.items()
            if x in self.whole or self._operands(x, new) is None
        )
        return more <= self._bytes(pos, ghosts) * (1 + rounding.DEEP_HALO_BYTES)

    def _demand(self, pos: int, ghosts: Ghosts) -> dict[int, Ghosts] | None:
        """What changes if a value is computed with these ghosts; None if blocks are too small for that."""
        changed = {pos: most(self.ghosts.get(pos, NO_GHOSTS), ghosts)}
        waiting = [-pos]
        while waiting:
            x = -heapq.heappop(waiting)
            if not self._fits(x, changed[x]):
                return None
            needs = None if x in self.whole else self._operands(x, changed[x])
            if needs is None:
                continue
            for operand, need in zip(self.ins[x], needs, strict=True):
                y = self.origin(operand)
                old = changed.get(y, self.ghosts.get(y, NO_GHOSTS))
                new = most(old, need)
                if new != old:
                    if y not in changed:
                        heapq.heappush(waiting, -y)
                    changed[y] = new
        return changed

    def _operands(self, pos: int, ghosts: Ghosts) -> list[Ghosts] | None:
        """The ghosts that operands need; None for values whose ghosts have to be exchanged."""
        node, layout = self.nodes[pos], self.layouts[pos]
        if node.value is not None or not isinstance(layout, Shard) or layout.ghosts != NO_GHOSTS:
            return None
        out = Shard(layout.axis, layout.cuts, ghosts)
        return ghosts_needed(node.op, node, out, self.operand_layouts(pos))

    def _fits(self, pos: int, ghosts: Ghosts) -> bool:
        """Whether all blocks own much more than ghosts."""
        layout = self.layouts[pos]
        if not isinstance(layout, Shard) or layout.ghosts != NO_GHOSTS:
            return False
        cuts = layout.cuts
        own = min(high - low for low, high in pairwise(cuts))
        return own > 0 and sum(ghosts) * rounding.DEEP_HALO_ROWS <= own

    def _bytes(self, pos: int, ghosts: Ghosts) -> int:
        """What exchanging a value's ghosts moves."""
        if ghosts == NO_GHOSTS:
            return 0
        layout, node = self.cut(pos), self.nodes[pos]
        wide = Shard(layout.axis, layout.cuts, ghosts)
        return moves(Shard(layout.axis, layout.cuts), wide, node.dims, self.mesh).bytes(node.dtype.itemsize)


class _Rebuilt:
    """The graph with its new halos."""

    def __init__(self, placed: Placed, needs: _Needs) -> None:
        self.old = placed
        self.needs = needs
        self.nodes: list[Node] = []
        self.layouts: list[Layout] = []
        self.known: set[Node] = set()
        self.plain: dict[int, int] = {}  # values as they were
        self.wide: dict[int, tuple[int, Ghosts]] = {}  # values with ghosts, and how many
        self.narrow: dict[tuple[int, Ghosts], int] = {}  # parts of these
        for pos in range(len(placed.nodes)):
            if pos not in needs.source:
                self._build(pos)

    def placed(self) -> Placed:
        old = self.old
        return replace(
            old,
            nodes=tuple(self.nodes),
            layouts=tuple(self.layouts),
            leaves=tuple(tuple(self._as_it_was(pos) for pos in copies) for copies in old.leaves),
            wanted=tuple(self._as_it_was(pos) for pos in old.wanted),
            landed=tuple((leaf, self._as_it_was(pos)) for leaf, pos in old.landed),
        )

    def _build(self, pos: int) -> None:
        needs, node = self.needs, self.old.nodes[pos]
        if not needs.computed(pos):
            self.plain[pos] = self._plain(pos)
            if pos in needs.ghosts:
                self.wide[pos] = self._exchanged(pos, needs.ghosts[pos]), needs.ghosts[pos]
            return
        if isinstance(node.op, Cut | Arrange):
            return  # views are made for those who read them
        cut = needs.cut(pos)
        least = Shard(cut.axis, cut.cuts, needs.ghosts[pos])
        ghosts, reads = ghosts_made(node.op, node, least, self._available(pos))
        ins = [self._with(x, g) for x, g in zip(needs.ins[pos], reads, strict=True)]
        self.wide[pos] = self._add(node, ins, Shard(cut.axis, cut.cuts, ghosts)), ghosts

    def _plain(self, pos: int) -> int:
        """A value as it was; a window looks at the widest form of its base, so that all windows look at one."""
        node = self.old.nodes[pos]
        if node.value is not None:
            return self._append(node, self.old.layouts[pos])
        ins = [self._as_it_was(x, isinstance(node.op, Cut)) for x in self.needs.ins[pos]]
        return self._add(node, ins, self.old.layouts[pos])

    def _as_it_was(self, pos: int, wider: bool = False) -> int:
        """A value with the ghosts it had; perhaps with more."""
        layout, origin = self.old.layouts[pos], self.needs.origin(pos)
        if wider and origin in self.wide and (pos != origin or origin not in self.plain):
            return self.wide[origin][0]
        if pos == origin and pos in self.plain:
            return self.plain[pos]
        assert isinstance(layout, Shard)
        return self._with(pos, layout.ghosts)

    def _with(self, pos: int, ghosts: Ghosts) -> int:
        """A value with exactly these ghosts."""
        pos = self.needs.origin(pos)
        if pos in self.plain and ghosts == NO_GHOSTS:
            return self.plain[pos]
        if pos in self.wide and self.wide[pos][1] == ghosts:
            return self.wide[pos][0]
        key = (pos, ghosts)
        if key not in self.narrow:
            self.narrow[key] = self._narrow(pos, ghosts)
        return self.narrow[key]

    def _narrow(self, pos: int, ghosts: Ghosts) -> int:
        node, cut = self.old.nodes[pos], self.needs.cut(pos)
        layout = Shard(cut.axis, cut.cuts, ghosts)
        if pos in self.wide:
            view = all_of(self.nodes[self.wide[pos][0]])
            return self._append(twin(view) if view in self.known else view, layout)
        (operand,) = self.needs.ins[pos]
        origin = self.needs.origin(operand)
        if isinstance(node.op, Cut):
            base = self.wide[origin][0] if origin in self.wide else self._with(origin, self._has(origin))
        else:
            assert isinstance(node.op, Arrange)
            new = node.op.axes[cut.axis] is None
            base = self._as_it_was(operand) if new else self._with(operand, ghosts)
        return self._add(node, [base], layout)

    def _available(self, pos: int) -> list[Layout]:
        """Operands with all ghosts that they can have."""
        out: list[Layout] = []
        for x, layout in zip(self.needs.ins[pos], self.needs.operand_layouts(pos), strict=True):
            wide = isinstance(layout, Shard) and layout.ghosts == NO_GHOSTS
            out.append(Shard(layout.axis, layout.cuts, self._has(x)) if wide and isinstance(layout, Shard) else layout)
        return out

    def _has(self, pos: int) -> Ghosts:
        """The most ghosts a value can have."""
        pos = self.needs.origin(pos)
        if pos in self.wide:
            return self.wide[pos][1]
        if pos in self.plain:
            return NO_GHOSTS
        node, cut = self.old.nodes[pos], self.needs.cut(pos)
        return ghosts_made(node.op, node, cut, self._available(pos))[0]

    def _exchanged(self, pos: int, ghosts: Ghosts) -> int:
        cut, node = self.needs.cut(pos), self.nodes[self.plain[pos]]
        wide = Shard(cut.axis, cut.cuts, ghosts)
        halo = intern(Move(cut, wide), (node,), node.dims, node.dtype, node.order)
        halo.site = node.site
        return self._append(halo, wide)

    def _add(self, node: Node, ins: Sequence[int], layout: Layout) -> int:
        made = intern(node.op, tuple([self.nodes[i] for i in ins]), node.shape, node.dtype, node.order)
        made.site = made.site or node.site
        return self._append(twin(made) if made in self.known else made, layout)

    def _append(self, node: Node, layout: Layout) -> int:
        self.known.add(node)
        self.nodes.append(node)
        self.layouts.append(layout)
        return len(self.nodes) - 1
