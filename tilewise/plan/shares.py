"""Blocks in turn on several workers. In: streams, a number of workers. Out: whose turn each block is, and what crosses.

The blocks of every loop are dealt out to workers, neighbours to neighbours. A worker runs its share of a loop as one
process would run all of it: it reads its own boxes of the sources and keeps what its blocks make. Before a loop, what
it needs of what others keep crosses, in messages of a bounded size; after it, sums of contributions do. All of this
follows from the plan, so that every worker knows who sends what, and the bytes are known before anything runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from functools import cached_property
from itertools import accumulate, chain, pairwise, product

from tilewise.layout import (
    Box,
    Grid,
    Held,
    Layout,
    Mesh,
    OnDriver,
    Partial,
    Replicate,
    Shard,
    box_size,
    even_cuts,
    is_cut,
    moves,
    overlap,
    owned_box,
    reduction,
    runs,
    shards,
    size,
)
from tilewise.plan.streams import Loop, Streams, counts_for, rounds, sums_by_parts
from tilewise.records import dataclass
from tilewise.stage.steps import makes, reads

SHARE = 8  # one in so many bytes of memory is for messages between workers
LEAST_BYTES = 4096  # of a message


@dataclass(frozen=True)
class Crossing:
    """A part of a kept value that goes from one worker to another."""

    pos: int
    sender: int
    receiver: int
    box: Box


@dataclass(frozen=True, eq=False)
class Shares:
    """Streams whose blocks take turns on several workers."""

    streams: Streams
    workers: int
    message_bytes: int
    held: Mapping[int, Layout] = field(default_factory=dict)  # leaves that workers hold, and how they lie there
    blocks: int = 1  # of a worker, in which it holds values between plans

    # -- what a cluster asks of a plan ----------------------------------------------------------------------------

    @property
    def leaves(self) -> tuple[int, ...]:
        """Positions of leaves."""
        return self.streams.plan.leaves

    @property
    def wanted(self) -> tuple[int, ...]:
        """Positions of results."""
        return self.streams.wanted

    def to_send(self) -> Shares:
        """The same without what workers do not need."""
        plan = self.streams.plan.to_send()
        return replace(self, streams=replace(self.streams, plan=plan))

    @cached_property
    def mesh(self) -> Mesh:
        """The workers, in a line."""
        return Mesh(self.workers, self.blocks)

    # -- whose turn -----------------------------------------------------------------------------------------------

    @cached_property
    def of(self) -> tuple[Streams, ...]:
        """By worker: the loops with the blocks that it has."""
        if self.workers == 1:
            return (self.streams,)
        orders = [self._orders(loop) for loop in self.streams.loops]
        return tuple(
            replace(
                self.streams,
                loops=tuple(
                    replace(loop, order=order[w]) for loop, order in zip(self.streams.loops, orders, strict=True)
                ),
            )
            for w in range(self.workers)
        )

    def _orders(self, loop: Loop) -> list[tuple[int, ...]]:
        """The blocks of a loop by worker; on a grid, whole rows of it, or columns where the loop goes along these."""
        cuts, order = self._down if self._by_columns(loop) else self._across, loop.order
        return [order[a:b] for a, b in pairwise(cuts)]

    def _by_columns(self, loop: Loop) -> bool:
        return loop.order != tuple(range(self.streams.blocks))

    @cached_property
    def _across(self) -> list[int]:
        """Where the shares of workers end in loops that go through blocks by number."""
        return self._cuts(tuple(range(self.streams.blocks)), max(self.streams.plan.mesh.columns, 1))

    @cached_property
    def _down(self) -> list[int]:
        """The same in loops along columns."""
        order = next(loop.order for loop in self.streams.loops if self._by_columns(loop))
        return self._cuts(order, self.streams.plan.mesh.rows)

    def _cuts(self, order: tuple[int, ...], width: int) -> list[int]:
        """Cut an order of blocks, between lines of so many, into shares with about as many elements each.

        Blocks may have nothing: there may be more of them than chunks, or rows. All loops have the same shares, so that
        what one makes is where the next needs it.
        """
        streams, layouts = self.streams, self.streams.plan.layouts
        width = 1 if streams.plan.mesh.columns == 1 else width
        cut = {x for loop in streams.loops for x in (*loop.takes, *loop.gives) if shards(layouts[x])}
        sizes = [sum(size(streams.box(x, b)) for x in cut) for b in order]
        lines = [sum(sizes[k : k + width]) or 1 for k in range(0, len(order), width)]
        ends = [0, *accumulate(lines)]

        def nearest(share: int) -> int:
            return min(range(len(ends)), key=lambda k: abs(ends[k] * self.workers - share * ends[-1]))

        return [nearest(w) * width for w in range(self.workers + 1)]

    @cached_property
    def possible(self) -> bool:
        """Whether workers can share the plan: every result is one box per worker, every part of a sum is one's own."""
        plan = self.streams.plan
        by_parts = [x for loop in self.streams.loops for x in loop.partial if sums_by_parts(plan.layouts[x])]
        for loop in self.streams.loops:
            down = self._by_columns(loop)
            for x in loop.partial:
                layout = plan.layouts[x]
                if x in by_parts and isinstance(layout, Grid) and isinstance(layout.down, Partial) != down:
                    return False
        origins = {self.streams.origin[w] for w in self.wanted}
        return not any(plan.specs[x].leaf for x in origins) and all(self.result(x) is not None for x in origins)

    # -- who may take a turn for another ----------------------------------------------------------------------------

    def anyones(self, index: int) -> bool:
        """Whether any worker can read what blocks of a loop take: from sources, or of values that all of them have."""
        return self._anyones[index]

    @cached_property
    def _anyones(self) -> list[bool]:
        streams = self.streams
        return [
            self.workers > 1
            and all(self.owned(streams.origin[x]) is None or self._brought_to_all(k, x) for x in loop.takes)
            for k, loop in enumerate(streams.loops)
        ]

    def _brought_to_all(self, index: int, pos: int) -> bool:
        """Whether all blocks of a loop take the same part of a value: then every worker with blocks has got it."""
        orders = [own.loops[index].order for own in self.of]
        first = self.streams.box(pos, orders[0][0]) if all(orders) else None
        return first is not None and all(self.streams.box(pos, b) == first for order in orders for b in order)

    @cached_property
    def _before(self) -> list[dict[int, int]]:
        return [
            {b: a for own in self.of for a, b in pairwise(own.loops[k].order)} for k in range(len(self.streams.loops))
        ]

    def before(self, index: int, block: int) -> int | None:
        """The block that has its turn just before this one, on the same worker."""
        return self._before[index].get(block)

    # -- who keeps what -------------------------------------------------------------------------------------------

    @cached_property
    def _maker(self) -> dict[int, int]:
        """By kept value: its loop."""
        return {
            x: k
            for k, loop in enumerate(self.streams.loops)
            for x in (*loop.gives, *loop.partial, *(s.pos for s in loop.after))
        }

    @cached_property
    def _owned(self) -> dict[int, list[list[Box]]]:
        return {}

    def owned(self, pos: int) -> list[list[Box]] | None:
        """By worker: the parts of a kept or held value that are there; None for what all have."""
        found = self._owned.get(pos)
        if found is not None:
            return found
        plan = self.streams.plan
        shape, layout = plan.specs[pos].shape, plan.layouts[pos]
        whole = reduction(layout) is not None and not sums_by_parts(layout)
        if isinstance(self.held.get(pos), Replicate):
            return None
        if pos in self.held:
            boxes = [owned_box(self.held[pos], shape, self.mesh, worker=w) for w in range(self.workers)]
            found = [[plain(b)] for b in boxes]
        elif pos not in self._maker or whole or not is_cut(layout):
            return None
        else:
            found = []
            for own in self.of:
                order = [b for b in own.loops[self._maker[pos]].order if counts_for(layout, plan.mesh, b)]
                held = [owned_box(layout, shape, plan.mesh, block=b) for b in order]
                found.append(merged([box for h in held for box in boxes_of(h)]))
        self._owned[pos] = found
        return found

    def result(self, pos: int) -> Layout | None:
        """How a result lies on the workers: cut along one axis, or all of it on each; None if it does not."""
        shape = self.streams.plan.specs[pos].shape
        owned = self.owned(pos)
        if owned is None:
            return Replicate()
        if 0 in shape:
            return Shard(0, (0,) * self.mesh.total_blocks + (shape[0],))
        for axis, n in enumerate(shape):
            cuts = [0]
            for boxes in owned:
                whole = len(boxes) == 1 and all(
                    s == (0, m) or a == axis for a, (s, m) in enumerate(zip(boxes[0], shape, strict=True))
                )
                if not boxes:
                    cuts.append(cuts[-1])
                elif whole and boxes[0][axis][0] == cuts[-1]:
                    cuts.append(boxes[0][axis][1])
            if len(cuts) == self.workers + 1 and cuts[-1] == n:
                within = [[low + c for c in even_cuts(high - low, self.blocks)[:-1]] for low, high in pairwise(cuts)]
                return Shard(axis, (*chain.from_iterable(within), n))
        return None

    # -- what crosses ---------------------------------------------------------------------------------------------

    @cached_property
    def crossings(self) -> tuple[tuple[Crossing, ...], ...]:
        """By loop: what crosses before it. What a worker was sent for an earlier one is still there."""
        known: set[Crossing] = set()
        out = []
        for k in range(len(self.streams.loops)):
            new = [c for w in range(self.workers) for c in self._needed(k, w) if c not in known]
            known.update(new)
            out.append(tuple(dict.fromkeys(new)))
        return tuple(out)

    def _needed(self, index: int, worker: int) -> Iterator[Crossing]:
        """What a worker needs for its share of a loop that others have."""
        streams, plan = self.streams, self.streams.plan
        loop = self.of[worker].loops[index]
        made = {x for s in loop.once for x in makes(s)}
        wholes = dict.fromkeys(x for s in loop.once for x in reads(s) if x not in made)
        parts = dict.fromkeys(x for x in loop.takes)
        for step in loop.after:
            for x in reads(step):
                (parts if shards(plan.layouts[x]) else wholes)[x] = None
        inside = {part for part, _ in loop.inside}
        for x in (*wholes, *parts):
            pos = streams.origin[x]
            owned = self.owned(pos)
            if owned is None or x in inside or (x in parts and self._maker.get(pos, -1) == index):
                continue  # operands of a collective that the same loop makes are where they are needed
            full = tuple((0, n) for n in plan.specs[pos].shape)
            boxes = [full] if x in wholes else merged([b for o in loop.order for b in boxes_of(streams.box(x, o))])
            if x in wholes and not (loop.order or loop.once):
                continue
            for sender, theirs in enumerate(owned):
                if sender != worker:
                    for box, own in product(boxes, theirs):
                        both = overlap(box, own)
                        if box_size(both):
                            yield Crossing(pos, sender, worker, both)

    def sums(self, loop: Loop) -> list[int]:
        """Contributions of a loop that all workers have a part in."""
        return [x for x in loop.partial if not sums_by_parts(self.streams.plan.layouts[x])]

    def _bytes(self, crossings: Iterator[Crossing]) -> int:
        return sum(box_size(c.box) * self.streams.plan.specs[c.pos].dtype.itemsize for c in crossings)

    @cached_property
    def network_bytes(self) -> int:
        """Bytes that cross between workers; at most, where collectives decide."""
        return self._sent_bytes + self._scattered_bytes + self.bounded_bytes

    @property
    def _sent_bytes(self) -> int:
        summed = [x for loop in self.streams.loops for x in self.sums(loop)]
        there_and_back = 2 * (self.workers - 1) * sum(self.streams.plan.specs[x].nbytes for x in summed)
        return there_and_back + self._bytes(c for loop in self.crossings for c in loop)

    @property
    def _scattered_bytes(self) -> int:
        """Of the driver's arrays, which every worker gets."""
        specs = self.streams.plan.specs
        routes = [(moves(OnDriver(), Replicate(), specs[x].shape, self.mesh), x) for x in self.scattered]
        return sum(e.bytes(specs[x].dtype.itemsize) for e, x in routes)

    @property
    def scattered(self) -> tuple[int, ...]:
        """Leaves that the driver has."""
        return tuple(x for x in self.leaves if x in self.streams.here and x not in self.held)

    @cached_property
    def bounded_bytes(self) -> int:
        """The part of `network_bytes` that depends on data: pieces of collectives, and evening out their results."""
        total = 0
        for loop in self.streams.loops:
            for step in loop.after:
                traffic = self.streams.plan.traffic(step)
                assert traffic is not None
                total += traffic.bytes + self.streams.plan.specs[step.pos].nbytes + 8 * self.workers**2
        return total

    # -- bytes to and from disk -----------------------------------------------------------------------------------

    @property
    def read_bytes(self) -> int:
        """Bytes read from sources, by all workers."""
        return sum(own.read_bytes for own in self.of)

    @property
    def spilled_bytes(self) -> int:
        """Bytes written to spill files (of collectives: at most)."""
        return self.streams.spilled_bytes + self._copied_bytes + self._evened_bytes

    @property
    def restored_bytes(self) -> int:
        """Bytes read from spill files (of collectives: at most)."""
        taken = sum(own.kept_bytes for own in self.of)
        piles = [
            (rounds(t), t.bytes)
            for loop in self.streams.loops
            for s in loop.after
            if (t := self.streams.plan.traffic(s))
        ]
        sent = self._bytes(c for loop in self.crossings for c in loop if c.pos in self.streams.on_disk)
        return taken + sum(n * size for n, size in piles) + sent + self._evened_bytes

    @property
    def _copied_bytes(self) -> int:
        """Of what others keep, written to files of those that got it."""
        there = {*self.streams.on_disk, *self.held}
        return self._bytes(c for loop in self.crossings for c in loop if c.pos in there)

    @property
    def _evened_bytes(self) -> int:
        """Results of collectives before they lie where they belong."""
        return sum(self.streams.plan.specs[s.pos].nbytes for loop in self.streams.loops for s in loop.after)


def plain(held: Held) -> Box:
    """A box of intervals."""
    return tuple(runs(s)[0] if runs(s) else (0, 0) for s in held)


def boxes_of(held: Held) -> list[Box]:
    """Boxes that together are all of it; none of them empty."""
    return [box for box in product(*map(runs, held)) if box_size(box)]


def merged(boxes: list[Box]) -> list[Box]:
    """Boxes with those joined that touch or overlap along one axis and are equal along the others.

    >>> merged([((0, 2), (0, 5)), ((2, 3), (0, 5)), ((4, 5), (0, 5))])
    [((0, 3), (0, 5)), ((4, 5), (0, 5))]
    """
    found = sorted(dict.fromkeys(boxes))
    for axis in range(len(found[0]) if found else 0):
        by_rest: dict[Box, list[tuple[int, int]]] = {}
        for box in found:
            by_rest.setdefault(box[:axis] + box[axis + 1 :], []).append(box[axis])
        found = []
        for rest, intervals in by_rest.items():
            for low, high in _joined(sorted(intervals)):
                found.append((*rest[:axis], (low, high), *rest[axis:]))
    return sorted(found)


def _joined(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    out: list[tuple[int, int]] = []
    for low, high in intervals:
        if out and low <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], high))
        else:
            out.append((low, high))
    return out


def in_parts(box: Box, itemsize: int, most: int) -> Iterator[Box]:
    """A box in parts of at most so many bytes (one element, if that is more).

    >>> list(in_parts(((0, 4), (0, 3)), 8, 48))
    [((0, 2), (0, 3)), ((2, 4), (0, 3))]
    """
    nbytes = box_size(box) * itemsize
    axis = next((a for a, (lo, hi) in enumerate(box) if hi - lo > 1), None)
    if nbytes <= most or axis is None:
        yield box
        return
    low, high = box[axis]
    row = nbytes // (high - low)
    step = max(most // row, 1)
    for at in range(low, high, step):
        part = (*box[:axis], (at, min(at + step, high)), *box[axis + 1 :])
        yield from in_parts(part, itemsize, most) if row > most else (part,)
