"""In which loop over blocks each step runs. In: a plan for a mesh with a worker per block. Out: `Streams`.

A loop ends where a value is needed that all blocks have a part in: a sum, or blocks in another layout. What later loops
read of a block is kept, or made again if that moves fewer bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tilewise.layout import Held, is_cut, most_held, reduction
from tilewise.ops.const import Const
from tilewise.ops.moments import Terms
from tilewise.ops.traits.collectives import Collective
from tilewise.plan.exchanges import Exchanges
from tilewise.plan.stages import keeping, memory_of, overwritten
from tilewise.plan.streams import Loop, Streams, sums_by_parts, together, tree_height, turns
from tilewise.stage.steps import Exchange, Pass, Step, Tiled, View, makes, passes, reads

SHARE = 8  # one in so many bytes of memory may be contributions that wait in a tree


def streams(plan: Exchanges, wanted: Sequence[int], here: Iterable[int], memory: int, ahead: bool) -> Streams:
    """The loops of a plan. What does not fit into memory beside the blocks under way goes to spill files."""
    found = _Loops(plan, tuple(wanted), frozenset(here))
    made = found.streams(memory, ahead)
    if any(x not in {found.origin[w] for w in wanted} for x in made.on_disk) and found.make_again():
        other = found.streams(memory, ahead)
        moved = [s.read_bytes + s.spilled_bytes + s.restored_bytes for s in (made, other)]
        made = other if moved[1] <= moved[0] else made
    return made


class _Loops:
    """Steps by loop, and what is kept between loops."""

    def __init__(self, plan: Exchanges, wanted: tuple[int, ...], here: frozenset[int]) -> None:
        self.plan, self.wanted, self.here = plan, wanted, here
        self.steps = _needed(plan.steps, wanted)
        self.origin = list(range(len(plan.specs)))
        self.made: dict[int, int] = {}  # by value: the loop that makes it
        self.level: dict[int, int] = {}  # by step: its loop
        self.again: dict[int, set[int]] = {}  # by loop: steps of earlier ones that run in it, too
        self.writes = any(overwritten(s) for s in self.steps)
        self._place()
        self._count_late()

    def streams(self, memory: int, ahead: bool) -> Streams:
        """Loops; of what they keep, the smallest values stay in memory."""
        loops = tuple(loop for k in range(max(self.level.values(), default=-1) + 1) for loop in self._ordered(k))
        kept = [x for loop in loops for x in (*loop.gives, *(s.pos for s in loop.after))]
        sums = [x for loop in loops for x in loop.partial]
        layouts, mesh = self.plan.layouts, self.plan.mesh
        by_parts = ((x, loop.order) for loop in loops for x in loop.partial if sums_by_parts(layouts[x]))
        kept += [x for x, order in by_parts if together(mesh, layouts[x], order)]
        high = tree_height(self.plan.mesh.workers) * SHARE
        turn = frozenset(
            x
            for x in sums
            if most_held(self.plan.layouts[x], self.plan.specs[x].shape, self.plan.mesh)
            * self.plan.specs[x].dtype.itemsize
            * high
            > memory
        )
        made = Streams(self.plan, loops, self.wanted, tuple(self.origin), self.here, frozenset(kept), turn, ahead)
        for x in sorted(kept, key=lambda x: self.plan.specs[x].nbytes):
            other = replace(made, on_disk=made.on_disk - {x})
            made = other if other.peak_bytes <= memory else made
        return made

    # -- which loop -----------------------------------------------------------------------------------------------

    def _place(self) -> None:
        """As early as can be."""
        ready = [0] * len(self.origin)  # from which loop on a value can be read
        for k, step in enumerate(self.steps):
            ins = reads(step)
            if isinstance(step, Exchange) and not self._collective(step):
                source = self.origin[step.pos] = self.origin[step.input]
                cut = source in self.made and is_cut(self.plan.layouts[source])
                ready[step.pos] = self.made[source] + 1 if cut else ready[step.input]
                continue
            own = max((ready[x] for x in ins), default=0)
            self.level[k] = own
            for x in makes(step):
                self.made[x] = own
                ready[x] = own + isinstance(step, Exchange)

    def _count_late(self) -> None:
        """Make numbers of terms where they are read: every block has its own, whatever their layout says."""
        for k, step in enumerate(self.steps):
            own = [x for x in makes(step) if type(self.plan.specs[x].op) is Terms]
            if not own or k not in self.level:
                continue
            readers = sorted({level for m, level in self.level.items() if {*own} & {*reads(self.steps[m])}})
            for x in own:
                self.level[k] = self.made[x] = readers[0] if readers else self.level[k]
            for level in readers[1:]:
                self.again.setdefault(level, set()).add(k)

    def _blocks(self, pos: int) -> bool:
        """Whether a value is made block by block (not a sum of what blocks contribute)."""
        layout = self.plan.layouts[pos]
        return pos in self.made and is_cut(layout) and reduction(layout) is None

    # -- loops ----------------------------------------------------------------------------------------------------

    def _ordered(self, index: int) -> tuple[Loop, ...]:
        """A loop. Collectives are of blocks in their own order: if it has another, they come in one after it."""
        loop, order = self._loop(index), tuple(range(self.plan.mesh.workers))
        if not loop.after or loop.order == order:
            return (loop,)
        return replace(loop, after=(), drops=()), Loop((), (), (), (), (), (), loop.after, loop.drops, order)

    def _loop(self, index: int) -> Loop:
        own = {k for k, level in self.level.items() if level == index}
        after = tuple(s for k in sorted(own) if isinstance(s := self.steps[k], Exchange))
        own = {k for k in own if not isinstance(self.steps[k], Exchange)}
        whole = {k for k in own if not self._blockwise(self.steps[k])}
        once = tuple(self.steps[k] for k in sorted(whole))
        there = sorted({k for k in own if self._blockwise(self.steps[k])} | self.again.get(index, set()))
        new = {x for k in own for x in makes(self.steps[k])}
        readers = self._readers()
        ends = {self.origin[w] for w in self.wanted}
        sent = {self.origin[x] for s in after for x in reads(s)}
        kept = [x for k in there for x in makes(self.steps[k]) if x in new]
        gives = tuple(x for x in kept if self._blocks(x) and (x in ends or x in sent or readers.get(x, -1) > index))
        sums = (x for x in kept if reduction(self.plan.layouts[x]) is not None)
        partial = tuple(x for x in sums if x in ends or x in sent or readers.get(x, -1) > index)
        steps = self._keeping(_needed([self.steps[k] for k in there], (*gives, *partial)), (*gives, *partial))
        others = {self.origin[x] for k in self.level.keys() - whole for x in reads(self.steps[k])}
        once = tuple(self._keeping(once, others | ends))
        made = {x for s in steps for x in makes(s)}
        takes = tuple(dict.fromkeys(x for s in steps for x in reads(s) if x not in made and not self._constant(x)))
        everything = {x for x, level in self.made.items() if level <= index}
        drops = tuple(sorted(x for x in everything if readers.get(x, -1) == index and x not in ends))
        order = turns(self.plan.mesh, [self.plan.layouts[x] for x in partial])
        settled = _settled(steps, {*gives, *partial})
        return Loop(once, settled, takes, self._inside(takes), gives, partial, after, drops, order)

    def _keeping(self, steps: Sequence[Step], kept: Iterable[int]) -> list[Step]:
        """Steps that do not overwrite what is kept as it is now. (Of what was kept before they have copies.)"""
        if not self.writes:
            return list(steps)
        memory = memory_of(steps, self.plan.specs)
        made = {x for s in steps for x in makes(s)}
        shown = {memory.get(x, x) for x in kept if x in made}
        return [keeping(s, {b for b in overwritten(s) if memory.get(b, b) in shown}) for s in steps]

    def _readers(self) -> dict[int, int]:
        """By value: the last loop that reads it from where it is kept."""
        last: dict[int, int] = {}
        for k, level in self.level.items():
            inside = not isinstance(self.steps[k], Exchange)
            for x in reads(self.steps[k]):
                source = self.origin[x]
                own = inside and source == x
                again = own and any(source in makes(self.steps[m]) for m in self.again.get(level, ()))
                same = own and self.made.get(x) == level and is_cut(self.plan.layouts[x])
                if not again and not same:
                    last[source] = max(last.get(source, -1), level)
        for index, steps in self.again.items():
            inner = {x for m in steps for x in makes(self.steps[m])}
            for x in (x for m in steps for x in reads(self.steps[m]) if x not in inner):
                last[self.origin[x]] = max(last.get(self.origin[x], -1), index)
        return last

    def _blockwise(self, step: Step) -> bool:
        seen = {x for p in passes(step) for x in (*p.inputs, *p.outs, p.space)} or {*makes(step), *reads(step)}
        return any(is_cut(self.plan.layouts[x]) for x in seen)

    def _constant(self, pos: int) -> bool:
        return type(self.plan.specs[pos].op) is Const and not self.plan.specs[pos].leaf

    def _collective(self, step: Exchange) -> bool:
        return isinstance(self.plan.specs[step.pos].op, Collective)

    def _inside(self, takes: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """Takes that are parts of others in every block: both of one value."""
        found: dict[int, int] = {}
        types = self.plan.types
        for x in takes:
            for y in takes:
                if x == y or self.origin[x] != self.origin[y] or y in found or found.get(x) is not None:
                    continue
                if all(_contained(types.box(x, b), types.box(y, b)) for b in range(self.plan.mesh.workers)):
                    found |= {part: y for part, other in found.items() if other == x} | {x: y}
        return tuple(found.items())

    # -- making values again --------------------------------------------------------------------------------------

    def make_again(self) -> bool:
        """Let loops make what they need of earlier ones again, where it comes from leaves by passes alone."""
        if self.writes:
            return False
        maker = {x: k for k, s in enumerate(self.steps) if k in self.level for x in makes(s)}
        for k, level in self.level.items():
            if isinstance(self.steps[k], Exchange):
                continue
            for x in reads(self.steps[k]):
                if self.origin[x] == x and self._blocks(x) and self.made[x] < level:
                    steps = self._made_by(x, maker)
                    if steps is not None:
                        self.again.setdefault(level, set()).update(steps)
        return bool(self.again)

    def _made_by(self, pos: int, maker: dict[int, int]) -> set[int] | None:
        """The steps that make a value from what can be read in any loop; None if there are others than passes."""
        found: set[int] = set()
        open_ = [pos]
        while open_:
            x = open_.pop()
            source = self.origin[x]
            if not self._blocks(source):
                continue
            if source != x or not isinstance(self.steps[maker[x]], Pass | Tiled | View):
                return None
            if maker[x] not in found:
                found.add(maker[x])
                open_ += reads(self.steps[maker[x]])
        return found


def _contained(a: Held, b: Held) -> bool:
    """Whether one box of plain intervals lies in another."""
    return all(
        isinstance(x, tuple) and isinstance(y, tuple) and (x[0] == x[1] or (y[0] <= x[0] and x[1] <= y[1]))
        for x, y in zip(a, b, strict=True)
    )


def _needed(steps: Sequence[Step], wanted: Sequence[int]) -> list[Step]:
    """The steps that results depend on."""
    needed, found = set(wanted), []
    for step in reversed(steps):
        if needed.intersection(makes(step)):
            needed.update(reads(step))
            found.append(step)
    return found[::-1]


def _settled(steps: Sequence[Step], kept: set[int]) -> tuple[Step, ...]:
    """The steps of a loop, which say what dies where within one block."""
    last: dict[int, int] = {}
    for k, step in enumerate(steps):
        for x in (*reads(step), *makes(step)):
            last[x] = k
    return tuple(
        replace(s, frees=tuple(sorted(x for x, at in last.items() if at == k and x not in kept)))
        for k, s in enumerate(steps)
    )
