"""Fusion: which operators share a pass. In: nodes in order, which are wanted. Out: steps in order.

A pass is one loop over one iteration space. Elementwise operators that only operators of the same space use are never
stored. `need[i]` is the number of passes that must have ended before node i can be computed; operators of one space
and one `need` that share an input share a pass, so nothing in a pass waits for the pass itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from math import inf
from typing import Any

from tilewise import rounding
from tilewise.ir.node import Node
from tilewise.ir.scalar import EXPENSIVE, dtype_name
from tilewise.kernel.loops import Instr, Kernel, Output
from tilewise.layout import shards
from tilewise.ops.bucket import Bucket
from tilewise.ops.const import Const
from tilewise.ops.create import Full
from tilewise.ops.elementwise import Map, code_name
from tilewise.ops.index import Update
from tilewise.ops.index import Write as WriteOp
from tilewise.ops.move import Move
from tilewise.ops.reduce import Arg, Reduce, Scan
from tilewise.ops.traits.lower import accumulates, in_body, own_loops, reduced_axes
from tilewise.ops.views import Arrange, Cut, Window
from tilewise.plan.draft import Draft
from tilewise.records import dataclass
from tilewise.stage.steps import Call, Exchange, Pass, Step, View, Write, makes, reads


def fuse(draft: Draft) -> Draft:
    """A pass of the compiler: steps that compute every wanted node.

    Long bodies are cut, unless they may repeat themselves and become short when they are rolled.
    """
    longest = inf if draft.rolls and draft.fusion and len(draft.nodes) > rounding.MAX_BODY else rounding.MAX_BODY
    fuser = _Fuser(draft.nodes, draft.wanted, draft.fusion, draft.layouts, longest)
    return replace(draft, steps=tuple(fuser.steps()))


@dataclass(eq=False)
class _Group:
    need: int
    space: int
    axes: tuple[int, ...] | None
    kind: type | None = None  # of the reductions: over the axes, along them, or by key
    roots: list[int] = field(default_factory=list)
    reads: set[int] = field(default_factory=set)
    members: set[int] = field(default_factory=set)


class _Fuser:
    def __init__(
        self, nodes: Sequence[Node], wanted: Sequence[bool], fusion: bool, layouts: Sequence[Any] | None, longest: float
    ) -> None:
        self.longest = longest
        self.nodes = nodes
        self.wanted = wanted
        self.layouts = layouts
        self.at = {n: i for i, n in enumerate(nodes)}
        self.ins = [tuple(self.at[x] for x in n.inputs) if not _closed(n) else () for n in nodes]
        self.users: list[list[int]] = [[] for _ in nodes]
        for i, ins in enumerate(self.ins):
            for x in ins:
                self.users[x].append(i)
        self.map = [fusion and n.value is None and in_body(n.op, n) for n in nodes]
        self.red = [fusion and n.value is None and self._accumulates(i) for i, n in enumerate(nodes)]
        self.fusion = fusion
        self.space = self._spaces()
        self.root_of_write = self._absorb(fusion)
        self.stored = self._stored()
        self.cut: set[int] = set()  # stored because the body would grow too long
        self.need, self.done = self._levels()
        self._store_shared()

    def _same(self, i: int, x: int) -> bool:
        """Whether x has the iteration space of i."""
        same = self.nodes[i].shape == self.nodes[x].shape
        return same and (self.layouts is None or self.layouts[i] == self.layouts[x])

    def _accumulates(self, i: int) -> bool:
        """Whether a node can end a pass; by key only where keys and values have one space."""
        n = self.nodes[i]
        if not accumulates(n.op, n) or type(n.op) is not Bucket:
            return accumulates(n.op, n)
        values, keys = self.ins[i]
        return not self.nodes[values].shape or self._same(values, keys)

    def _tops(self, root: int) -> list[int]:
        """The values that a root of a pass stores or reduces; the first has the shape of the space."""
        if not self.red[root]:
            return [self.root_of_write.get(root, root)]
        return list(self.ins[root][::-1]) if type(self.nodes[root].op) is Bucket else [self.ins[root][0]]

    def _spaces(self) -> list[int]:
        """A number per node, equal for nodes connected by elementwise steps of one shape."""
        space = list(range(len(self.nodes)))

        def find(i: int) -> int:
            while space[i] != i:
                space[i] = space[space[i]]
                i = space[i]
            return i

        for i, ok in enumerate(self.map):
            if ok:
                for x in self.ins[i]:
                    if self._same(i, x):
                        space[find(i)] = find(x)
        return [find(i) for i in range(len(space))]

    def _absorb(self, fusion: bool) -> dict[int, int]:
        """Updates whose value is computed straight into the window: update -> value."""
        out: dict[int, int] = {}
        if not fusion:
            return out
        for i, n in enumerate(self.nodes):
            if type(n.op) is Update and n.value is None:
                v = self.ins[i][1]
                only = self.users[v] == [i] and not self.wanted[v] and self._alike(i, v)
                if only and self.map[v] and self.nodes[v].shape == n.op.window.shape and n.dtype == self.nodes[v].dtype:
                    out[i] = v
        return out

    def _alike(self, update: int, value: int) -> bool:
        """On a mesh: whether each block's part of the window is the block's part of the value."""
        if self.layouts is None:
            return True
        return len(shards(self.layouts[update])) == len(shards(self.layouts[value]))

    def _stored(self) -> list[bool]:
        absorbed = set(self.root_of_write.values())
        out = []
        for i in range(len(self.nodes)):
            if not self.map[i] or i in absorbed:
                out.append(not self.map[i])
                continue
            outside = any(not self._inside(u, i) for u in self.users[i])
            out.append(self.wanted[i] or outside)
        return out

    def _inside(self, user: int, x: int) -> bool:
        """Whether `user` can take x from a register of the same pass."""
        if self.map[user]:
            return self._same(user, x)
        return self.red[user]

    def _levels(self) -> tuple[list[int], list[int]]:
        need = [0] * len(self.nodes)
        done = [0] * len(self.nodes)
        body = [0] * len(self.nodes)  # instructions to compute a node from what is stored; an upper bound
        absorbed = set(self.root_of_write.values())
        order = self._by_depth()
        rank = {i: k for k, i in enumerate(order)}
        for i in order:
            value = self.root_of_write.get(i)
            body[i] = int(self.map[i])
            for x in self.ins[i]:
                inlined = self.map[x] and x not in self.cut and (self._inside(i, x) or x == value)
                need[i] = max(need[i], need[x] if inlined else done[x])
                body[i] += body[x] if inlined else 0
            if body[i] > self.longest and self.map[i]:
                inside = self._body(i)
                body[i] = len(inside)
                if body[i] > self.longest and i not in absorbed:
                    for k in (i, *(self._beside(i, inside, rank) - absorbed)):
                        self.cut.add(k)
                        self.stored[k] = True
            n = self.nodes[i]
            free = _closed(n) or type(n.op) in (Window, Cut, Arrange) or self._only_constant(i)
            done[i] = need[i] + (0 if free else 1)
        return need, done

    def _body(self, top: int) -> set[int]:
        """Instructions to compute a node from what is stored, up to the limit."""
        seen = {top}
        stack = [top]
        while stack and len(seen) <= self.longest:
            k = stack.pop()
            for x in self.ins[k]:
                if x not in seen and self.map[x] and x not in self.cut and self._same(k, x):
                    seen.add(x)
                    stack.append(x)
        return seen

    def _beside(self, top: int, inside: set[int], rank: dict[int, int]) -> set[int]:
        """Values of the same instructions that only later passes read: they are stored together with the top."""
        users = {u for k in inside for u in self.users[k] if rank[u] < rank[top] and u not in inside and self.map[u]}
        return {u for u in users if self._same(top, u) and all(rank[v] > rank[top] for v in self.users[u])}

    def _by_depth(self) -> list[int]:
        """Nodes after what they read, by how many steps they take: so several chains are cut at the same iteration."""
        depth = [0] * len(self.nodes)
        for i, ins in enumerate(self.ins):
            depth[i] = 1 + max((depth[x] for x in ins), default=0)
        return sorted(range(len(depth)), key=depth.__getitem__)

    def _store_shared(self) -> None:
        """Values that passes of different levels would compute again: store them where that costs less.

        Users come first: what they read from memory is not computed again, nor is what it is made of.
        """
        levels: list[set[int]] = [set() for _ in self.nodes]
        absorbed = set(self.root_of_write.values())
        for i in range(len(self.nodes) - 1, -1, -1):
            if not self.map[i]:
                continue
            for u in self.users[i]:
                if self._inside(u, i):
                    levels[i] |= levels[u] if self.map[u] else {self.need[u]}
                elif self.root_of_write.get(u) == i:
                    levels[i].add(self.need[u])
            if not self.stored[i] and i not in absorbed and len(levels[i]) > 1 and self._heavy(i):
                self.stored[i] = True
            if self.stored[i]:
                levels[i] = {self.need[i]}

    def _heavy(self, i: int) -> bool:
        seen: set[int] = set()
        full: set[int] = set()
        stack = [i]
        while stack:
            k = stack.pop()
            if k in seen:
                continue
            seen.add(k)
            op = self.nodes[k].op
            if type(op) is Map and op.fn.name in EXPENSIVE:
                return True
            if len(seen) > 32:
                return True
            for x in self.ins[k]:
                if self.map[x] and self._same(k, x) and not self.stored[x]:
                    stack.append(x)
                elif self._same(k, x):
                    full.add(x)
        return len(full) > 2

    # -- grouping -----------------------------------------------------------------------------------------------

    def steps(self) -> list[Step]:
        """Passes by level, and all other nodes as steps of their own."""
        groups: dict[int, list[_Group]] = {}  # by level
        units: list[tuple[tuple[int, int, int], Step | _Group]] = []
        writes = self.root_of_write
        absorbed = set(writes.values())
        for i, n in enumerate(self.nodes):
            op = n.op
            if i in writes or self.red[i] or (self.map[i] and self.stored[i] and i not in absorbed):
                self._place(i, groups.setdefault(self.need[i], []))
            elif self.map[i] or _closed(n) or self._only_constant(i):
                continue
            elif type(op) in (Window, Cut, Arrange):
                units.append(((self.need[i], 0, i), View(i, self.ins[i][0])))
            elif isinstance(op, WriteOp):
                units.append(((self.need[i], 2, i), Write(i, self.ins[i][0], self.ins[i][1:], False)))
            elif isinstance(op, Move):
                units.append(((self.need[i], 1, i), Exchange(i, self.ins[i][0], more=self.ins[i][1:])))
            else:
                units.append(((self.need[i], 1, i), self._kernel(i) or Call(i, self.ins[i])))
        for g in (g for level in groups.values() for g in level):
            late = 2 if any(r in writes for r in g.roots) else 1
            units.append(((g.need, late, min(g.roots)), g))
        units.sort(key=lambda u: u[0])
        return self._alive([self._pass(u) if isinstance(u, _Group) else u for _, u in units])

    def _alive(self, steps: list[Step]) -> list[Step]:
        """The steps of which something is read, or wanted: what is stored may be computed again instead."""
        needed = {i for i, w in enumerate(self.wanted) if w}
        out: list[Step] = []
        for step in reversed(steps):
            if not needed.isdisjoint(makes(step)):
                out.append(step)
                needed.update(reads(step))
        return out[::-1]

    def _kernel(self, i: int) -> Pass | None:
        """An operator that is a pass of its own."""
        if not self.fusion:
            return None
        n, ins = self.nodes[i], self.ins[i]
        loops = own_loops(n.op, n)
        if loops is None:
            return None
        arrays, numbers = tuple([ins[k] for k in loops.arrays]), tuple([ins[k] for k in loops.numbers])
        space = i if loops.space is None else ins[loops.space]
        made = (loops.kernel, arrays, numbers, (i,), space, (i,), (None,))
        return Pass(*made, letters=loops.letters, blas=loops.blas)

    def _only_constant(self, i: int) -> bool:
        """A Full that only passes read is a scalar of theirs, never an array."""
        if type(self.nodes[i].op) is not Full or self.wanted[i] or self.nodes[i].value is not None:
            return False
        return all(self.map[u] or self.red[u] for u in self.users[i])

    def _place(self, i: int, groups: list[_Group]) -> None:
        """Add a node to a group of its level with which it shares a pass; a reduction joins all those of reductions."""
        tops = [t for t in self._tops(i) if self.nodes[t].shape or not self.red[i]]
        axes = reduced_axes(self.nodes[i].op, self.nodes[i]) if self.red[i] else None
        kind = _kind(self.nodes[i]) if self.red[i] else None
        need = self.need[i]
        members, ins = self._expand(tops, need)
        new = _Group(need, self.space[tops[0]], axes, kind, [i], ins, members)
        for g in reversed(groups):
            joins = axes is not None and g.axes is not None
            if (joins or len(new.roots) == 1) and self._together(g, new):
                groups.remove(g)
                new.axes = g.axes if new.axes is None else new.axes
                new.kind = g.kind or new.kind
                new.roots = g.roots + new.roots
                new.reads |= g.reads
                new.members |= g.members
        groups.append(new)

    def _together(self, g: _Group, new: _Group) -> bool:
        """Whether two groups can share a pass, and something that it reads or computes."""
        if g.space != new.space or len(g.roots) + len(new.roots) > rounding.MAX_OUTS:
            return False
        if g.axes is not None and new.axes is not None and (g.axes, g.kind) != (new.axes, new.kind):
            return False
        if self.layouts is not None and self.layouts[g.roots[0]] != self.layouts[new.roots[0]] and new.axes is None:
            return False
        shared = g.reads & new.reads or g.members & new.members
        return bool(shared) and len(g.members | new.members) <= self.longest + rounding.MAX_MORE

    def _expand(self, tops: list[int], need: int) -> tuple[set[int], set[int]]:
        """Nodes computed in the pass that computes `tops`, and the values it reads."""
        members: set[int] = set()
        ins: set[int] = set()
        stack = list(tops)
        while stack:
            k = stack.pop()
            if k in members:
                continue
            early = self.stored[k] and self.need[k] < need
            if not self.map[k] or early or (k not in tops and not self._same(k, tops[0])):
                ins.add(k)
                continue
            members.add(k)
            stack.extend(self.ins[k])
        return members, ins

    def _pass(self, g: _Group) -> Step:
        nodes, writes = self.nodes, self.root_of_write
        tops = [self._tops(r) for r in g.roots]
        order = sorted(g.members)
        members = set(order)
        arrays: list[int] = []
        params: list[int] = []
        sharp: list[int] = []
        needed = dict.fromkeys([x for k in order for x in self.ins[k] if x not in members])
        needed |= dict.fromkeys([t for some in tops for t in some if t not in members])
        for x in needed:
            source = self.ins[x][0] if self._only_constant(x) else x
            const = nodes[source].op
            if isinstance(const, Const) and const.sharp:
                sharp.append(x)
            elif not nodes[source].shape:
                params.append(x)
            else:
                arrays.append(x)
        number: dict[int, int] = {x: k for k, x in enumerate([*arrays, *params])}
        body: list[Instr] = []
        base = len(number)
        for x in sharp:
            value = nodes[self.ins[x][0] if self._only_constant(x) else x].op
            assert isinstance(value, Const)
            number[x] = base + len(body)
            body.append(Instr(f"const:{value.value.item()!r}", (), dtype_name(nodes[x].dtype)))
        for k in order:
            op = nodes[k].op
            assert isinstance(op, Map)
            number[k] = base + len(body)
            body.append(Instr(code_name(op), tuple(number[x] for x in self.ins[k]), dtype_name(nodes[k].dtype)))
        outputs = []
        for r, some in zip(g.roots, tops, strict=True):
            op, values = nodes[r].op, [number[t] for t in some]
            if not self.red[r]:
                outputs.append(Output(values[0]))
            elif isinstance(op, Bucket):
                outputs.append(Output(values[1], op.fn, key=values[0]))
            else:
                assert isinstance(op, Reduce | Arg | Scan)
                outputs.append(Output(values[0], op.fn, scan=type(op) is Scan))
        space = tops[0][0]
        rank = len(nodes[space].shape)
        axes = g.axes or ()
        kernel = Kernel(
            tuple(dtype_name(nodes[x].dtype) for x in arrays),
            tuple(dtype_name(nodes[x].dtype) for x in params),
            tuple(body),
            tuple(outputs),
            tuple(a in axes for a in range(rank)),
        )
        sources = tuple(self.ins[x][0] if self._only_constant(x) else x for x in params)
        bases = tuple(self.ins[r][0] if r in writes else None for r in g.roots)
        return Pass(kernel, tuple(arrays), sources, tuple(g.roots), space, tuple(order), bases, fused=True)


def _kind(n: Node) -> type:
    """Reductions of one kind may share a pass: over axes, along one, by key."""
    return type(n.op) if type(n.op) in (Scan, Bucket) else Reduce


def _closed(n: Node) -> bool:
    """Whether the value is there before the plan runs."""
    return n.value is not None or type(n.op) is Const
