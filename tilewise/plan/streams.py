"""Blocks that take turns. In: a plan for a mesh with a worker per block. Out: `Streams`: loops over blocks, and bytes.

One worker runs such a plan block by block, so that it holds little more than one block at a time. Disk is one more
level of the tiling algebra: what crosses between workers of the mesh is what goes through a file here. An exchange
moves nothing by itself, as a value that is kept can be read by any boxes. What is left of a plan are loops: read boxes,
run steps, keep what later loops need (in memory, or in a spill file), add contributions up. Nothing runs here (see
engine/stream.py). loops.py finds the loops of a plan, compiler/stream.py chooses how many blocks there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import pairwise

from tilewise.layout import (
    Grid,
    Held,
    Layout,
    Mesh,
    Outside,
    Partial,
    Replicate,
    most_held,
    reduction,
    runs,
    shards,
    size,
)
from tilewise.ops.traits.collectives import Traffic
from tilewise.plan.exchanges import Exchanges
from tilewise.plan.stages import memory_of, overwritten
from tilewise.records import dataclass
from tilewise.stage.steps import Exchange, Pass, Step, Tiled, View, makes, reads

COLLECTIVE_BLOCKS = 6  # of its operands and result that a collective holds at once: sent, received, joined, sorted


@dataclass(frozen=True)
class Loop:
    """One turn of all blocks. `takes` are read for every block, `inside` says of which other take one is a part."""

    once: tuple[Step, ...]  # before it, on values that are here as a whole
    steps: tuple[Step, ...]  # on every block
    takes: tuple[int, ...]
    inside: tuple[tuple[int, int], ...]
    gives: tuple[int, ...]  # made block by block, and kept
    partial: tuple[int, ...]  # contributions of blocks, kept as what they add up to
    after: tuple[Exchange, ...]  # collectives, on what is kept
    drops: tuple[int, ...]  # kept values that nobody reads any more
    order: tuple[int, ...]  # of blocks: those that contribute to one part of a value follow one another


@dataclass(frozen=True, eq=False)
class Streams:
    """A plan as loops over blocks. `origin` says which given or kept value each position is read from."""

    plan: Exchanges
    loops: tuple[Loop, ...]
    wanted: tuple[int, ...]  # results, as the caller asked for them
    origin: tuple[int, ...]
    here: frozenset[int]  # leaves that are arrays of this process
    on_disk: frozenset[int]  # kept values that go to spill files
    in_turn: frozenset[int]  # contributions too large for a tree of them: each is added to those before it
    ahead: bool  # blocks are read before they are needed, and written while others are computed
    held: frozenset[int] = frozenset()  # leaves that are on workers, in memory or in files of theirs

    @property
    def blocks(self) -> int:
        """How many take turns."""
        return self.plan.mesh.workers

    def in_file(self, pos: int) -> bool:
        """Whether what a position is read from lies in a file."""
        source = self.origin[pos]
        return source in self.on_disk or (self.plan.specs[source].leaf and source not in self.here)

    def box(self, pos: int, block: int) -> Held:
        """What a block has of a value."""
        return self.plan.types.box(pos, block)

    def copied(self, loop: Loop) -> tuple[int, ...]:
        """What blocks take, or steps before them, that others may see, too, and that is written into: in copies."""
        whole = [x for x in self.written(loop.once) if not self.in_file(x)]
        return (*whole, *(x for x in self.written(loop.steps) if x in loop.takes and not self._apart(loop, x)))

    def written(self, steps: Sequence[Step]) -> tuple[int, ...]:
        """Values whose memory steps may write into."""
        memory = memory_of(steps, self.plan.specs)
        return tuple(dict.fromkeys(memory.get(x, x) for s in steps for x in overwritten(s)))

    def _apart(self, loop: Loop, pos: int) -> bool:
        """Whether each block has what it takes in memory of its own."""
        if not self.in_file(pos) or reduction(self.plan.layouts[pos]) is not None:
            return False
        boxes = [self.box(pos, b) for b in loop.order]
        return all(pos not in both for both in loop.inside) and len({*boxes}) == len(boxes)

    @cached_property
    def read_bytes(self) -> int:
        """Bytes read from sources."""
        return self._moved(self._source)

    @cached_property
    def read_bytes_of(self) -> dict[int, int]:
        """The same for each source."""
        return {
            source: self._moved(lambda x: self.origin[x] == source)  # noqa: B023  # asked at once
            for source in self.plan.leaves
            if self._source(source)
        }

    @cached_property
    def spilled_bytes(self) -> int:
        """Bytes written to spill files (of collectives: at most)."""
        kept = sum(self._bytes(x) for x in self.on_disk)
        sent = [self.plan.traffic(step) for loop in self.loops for step in loop.after]
        return kept + sum(t.bytes for t in sent if t is not None)

    @cached_property
    def restored_bytes(self) -> int:
        """Bytes read from spill files by loops."""
        sent = [(rounds(t), t.bytes) for loop in self.loops for s in loop.after if (t := self.plan.traffic(s))]
        return self.kept_bytes + sum(n * size for n, size in sent)

    @property
    def kept_bytes(self) -> int:
        """Bytes that loops, and the blocks of collectives, read of values in spill files."""
        return self._moved(lambda x: self.origin[x] in self.on_disk)

    def _moved(self, counts: Callable[[int], bool]) -> int:
        """Bytes that loops and collectives read of the values that count; collectives read operands every round."""
        total = 0
        for loop in self.loops:
            total += sum(self.taken_bytes(loop, x) for x in loop.takes if counts(x))
            total += sum(self._bytes(x) for x in self.read_once(loop) if counts(x))
            for step in loop.after:
                traffic = self.plan.traffic(step)
                assert traffic is not None
                for x in reads(step):
                    if counts(x):
                        total += self._in_rounds(loop, x, traffic)
        return total

    def _in_rounds(self, loop: Loop, pos: int, traffic: Traffic) -> int:
        """Bytes that the blocks of a collective read of an operand."""
        if not shards(self.plan.layouts[pos]):
            return self._bytes(pos)
        count = sum(size(self.box(pos, b)) for b in loop.order)
        return (traffic.looks or rounds(traffic) + 1) * count * self.plan.specs[pos].dtype.itemsize

    def read_once(self, loop: Loop) -> tuple[int, ...]:
        """What the steps before a loop read from files, as a whole."""
        made = {x for s in loop.once for x in makes(s)}
        return tuple(dict.fromkeys(x for s in loop.once for x in reads(s) if x not in made and self.in_file(x)))

    def _source(self, pos: int) -> bool:
        source = self.origin[pos]
        return self.plan.specs[source].leaf and source not in self.here and source not in self.held

    def _bytes(self, pos: int) -> int:
        return self.plan.specs[pos].nbytes

    def taken_bytes(self, loop: Loop, pos: int) -> int:
        """Bytes that a loop reads of a value: of blocks that have the same box, the first reads it."""
        if pos not in loop.takes:
            return self._bytes(pos)
        if any(pos == part for part, _ in loop.inside):
            return 0
        boxes = [self.box(pos, b) for b in loop.order]
        new = [*boxes[:1], *(b for a, b in pairwise(boxes) if a != b)]
        return sum(map(size, new)) * self.plan.specs[pos].dtype.itemsize

    # -- memory ---------------------------------------------------------------------------------------------------

    @cached_property
    def peak_bytes(self) -> int:
        """The most bytes at once: arrays that are given, what is kept, and the blocks under way."""
        return max((sum(self.loop_bytes(k)) for k in range(len(self.loops))), default=0)

    def loop_bytes(self, index: int) -> tuple[int, int]:
        """Bytes of a loop: those that do not depend on the number of blocks, and those of its blocks under way."""
        loop = self.loops[index]
        plan = self.plan
        given = sum(self._bytes(x) for x in self.here)
        kept = sum(self._bytes(x) for x in self.kept_during(index) if x not in self.on_disk)
        kept += sum(self.largest(x) for x in loop.partial if x in self.on_disk)
        once = sum(self._bytes(x) for s in loop.once for x in makes(s)) + sum(map(self._bytes, self.read_once(loop)))
        fixed, moving = given + kept + once + self.sum_bytes(loop), 0
        for x in self.buffered(loop):
            if shards(plan.layouts[x]):
                moving += self.largest(x) * (2 if self.ahead else 1)
            else:
                fixed += self.largest(x)
        moving += self.work_bytes(loop, [self.largest(x) for x in range(len(plan.specs))])
        for x in self.copied(loop):
            if x in loop.takes:
                moving += self.largest(x)
            else:
                fixed += self._bytes(x)
        moving += sum(self.largest(x) for x in loop.gives if x in self.on_disk) if self.ahead else 0
        for step in loop.after:
            moving = max(moving, self.collective_bytes(step))
        return fixed, moving

    def sum_bytes(self, loop: Loop) -> int:
        """Bytes of contributions that wait for others, beside the sums and what the block under way contributes."""
        height = tree_height(self.blocks)
        return sum(self.largest(x) * height for x in loop.partial if x not in self.in_turn)

    def buffered(self, loop: Loop) -> list[int]:
        """What is read into memory for a block, of what it takes."""
        parts = {part for part, _ in loop.inside}
        return [x for x in loop.takes if x not in parts and (self.in_file(x) or self._gathered(loop, x))]

    def _gathered(self, loop: Loop, pos: int) -> bool:
        """Whether what some block takes does not lie together."""
        return any(len(runs(s)) != 1 for b in loop.order for s in self.box(pos, b))

    def collective_bytes(self, step: Exchange) -> int:
        """Bytes that a collective takes up for one block."""
        return COLLECTIVE_BLOCKS * max(self.largest(x) for x in (step.pos, step.input, *step.more))

    def work_bytes(self, loop: Loop, sizes: Sequence[int]) -> int:
        """The most bytes that steps make for one block; `sizes` are those of its values."""
        now = most = 0
        shown: dict[int, int] = {}  # what a view shows
        alive: set[int] = set()
        for step in loop.steps:
            for x in makes(step):
                if isinstance(step, View):
                    shown[x] = shown.get(step.input, step.input)
                elif x not in alive:
                    alive.add(x)
                    now += sizes[x]
            inner = sizes_inside(step, sizes)
            most = max(most, now + inner)
            for x in step.frees:
                if x in alive and not any(v == x for v in shown.values()):
                    alive.discard(x)
                    now -= sizes[x]
        return most

    def largest(self, pos: int) -> int:
        """Bytes of the largest block of a value."""
        spec, layout = self.plan.specs[pos], self.plan.layouts[pos]
        if isinstance(layout, Outside):
            return 0
        return most_held(layout, spec.shape, self.plan.mesh) * spec.dtype.itemsize

    def kept_during(self, index: int) -> set[int]:
        """Kept values that are there while a loop runs, those that it makes included."""
        there: set[int] = set()
        for k, loop in enumerate(self.loops[: index + 1]):
            there |= {*loop.gives, *loop.partial, *(s.pos for s in loop.after)}
            there |= {x for s in loop.once for x in makes(s)} if k < index else set()
            if k < index:
                there -= set(loop.drops)
        return there


def rounds(traffic: Traffic) -> int:
    """Exchanges of a collective whose blocks take turns: results are put one behind the other, and not cut evenly."""
    return len(traffic.widths) - traffic.evens


def tree_height(blocks: int) -> int:
    """How many contributions of blocks a tree of sums keeps at most."""
    return (blocks - 1).bit_length() + 2


def sizes_inside(step: Step, sizes: Sequence[int]) -> int:
    """What passes that share tiles store where they run one by one: at most one of the values inside at a time."""
    if not isinstance(step, Tiled):
        return 0
    made = {x for s in step.steps if not isinstance(s, View) for x in makes(s)}
    return 0 if all(isinstance(s, Pass | View) for s in step.steps) else max((sizes[x] for x in made), default=0)


def sums_by_parts(layout: Layout) -> bool:
    """Whether a value has parts that only some blocks contribute to: each is done when these have had their turn."""
    return isinstance(layout, Grid) and reduction(layout) is not None and bool(shards(layout))


def together(mesh: Mesh, layout: Layout, order: Sequence[int]) -> bool:
    """Whether blocks that contribute to one part of such a value follow one another in an order."""
    assert isinstance(layout, Grid)
    by_columns = tuple(order) == _by_columns(mesh)
    return by_columns if isinstance(layout.down, Partial) else not by_columns or 1 in (mesh.rows, mesh.columns)


def turns(mesh: Mesh, layouts: Sequence[Layout]) -> tuple[int, ...]:
    """Blocks in an order in which those that contribute to one part of a value follow one another."""
    if any(sums_by_parts(x) and isinstance(x, Grid) and isinstance(x.down, Partial) for x in layouts):
        return _by_columns(mesh)
    return tuple(range(mesh.workers))


def _by_columns(mesh: Mesh) -> tuple[int, ...]:
    return tuple(row * mesh.columns + column for column in range(mesh.columns) for row in range(mesh.rows))


def counts_for(layout: Layout, mesh: Mesh, block: int) -> bool:
    """Whether a block is the one that speaks for those which hold the same as it does."""
    if not isinstance(layout, Grid):
        return True
    at = divmod(block, mesh.columns)
    return all(k == 0 or not isinstance(p, Replicate) for k, p in zip(at, (layout.down, layout.across), strict=True))
