"""Run a plan block by block, in this process. In: streams, leaves, numbers. Out: results: arrays, or spill files.

While a block is computed, the next is read and the one before is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tilewise.engine.counters import DiskCounters
from tilewise.engine.device import runner
from tilewise.engine.prepared import contributes_nothing, has_nothing
from tilewise.engine.stream.collective import run_collective
from tilewise.engine.stream.values import Taken, Values
from tilewise.ir.reductions import Combining, Reduction
from tilewise.layout import Held, owned_box, reduction
from tilewise.ops.const import Const
from tilewise.plan.streams import Loop, Streams, counts_for
from tilewise.stage.steps import Step, Tiled, makes, reads
from tilewise.store import pool
from tilewise.store.base import ND, Source, within
from tilewise.store.spill import check_room


def run_streams(
    streams: Streams,
    leaves: Sequence[Any],
    consts: Sequence[Any],
    backend: str,
    memory: int | None,
    counters: DiskCounters,
) -> list[ND | Source]:
    """The results of a plan. Leaves are arrays, or sources that are read by boxes."""
    check_room(streams.spilled_bytes)
    counters.blocks = streams.blocks
    counters.predicted_read_bytes += streams.read_bytes
    counters.predicted_spilled_bytes += streams.spilled_bytes
    counters.predicted_restored_bytes += streams.restored_bytes
    values = Values(streams, leaves, consts, memory, counters)
    kept = pool.bound(memory)
    try:
        _Run(streams, values, backend).run()
        return [values.there[streams.origin[w]] for w in streams.wanted]
    finally:
        values.close()
        pool.bound(kept)
        counters.peak_bytes = values.blocks.peak_bytes


class _Run:
    def __init__(self, streams: Streams, values: Values, backend: str) -> None:
        self.streams, self.plan, self.values, self.backend = streams, streams.plan, values, backend
        self.consts = {pos: values.there[pos] for pos in self.plan.consts}

    def run(self) -> None:
        """All loops, one after the other."""
        values = self.values
        given = sum(self.plan.specs[x].nbytes for x in self.streams.here)
        values.blocks.reserve(("leaves that are arrays",), given)
        for loop in self.streams.loops:
            if loop.once:
                self._once(loop)
            if loop.steps:
                self._loop(loop)
            for step in loop.after:
                values.make_room(step.pos)
                run_collective(self.streams, step, values)
            values.drop(loop.drops)

    def _once(self, loop: Loop) -> None:
        """Steps on values that are here as a whole."""
        here: list[Any] = [None] * len(self.plan.specs)
        made = {x for s in loop.once for x in makes(s)}
        for x in {x for s in loop.once for x in reads(s)} - made:
            here[x] = self.values.whole(x)
        runner(loop.once, self.backend).run(self._nodes(0), here, free=False)
        for x in made:
            self.values.keep(x, here[x])

    # -- blocks ---------------------------------------------------------------------------------------------------

    def _loop(self, loop: Loop) -> None:
        """All blocks, one after the other."""
        streams, values, store = self.streams, self.values, self.values.blocks
        for pos in loop.gives:
            values.make_room(pos)
        sums = {pos: _Sum(self.plan, pos, pos in streams.in_turn) for pos in loop.partial}
        ends = sum(streams.plan.specs[x].nbytes for x in loop.partial)
        store.reserve(("contributions",), ends + streams.sum_bytes(loop))
        steps = runner(loop.steps, self.backend)
        sizes = [streams.largest(x) for x in range(len(self.plan.specs))]
        work = streams.work_bytes(loop, sizes)
        taken: Taken | None = values.take(loop, 0, None)
        for block in range(streams.blocks):
            assert taken is not None
            arrays = taken.wait()
            last = block + 1 == streams.blocks
            ahead = None if last or not streams.ahead else values.take(loop, block + 1, taken)
            store.reserve(("a block",), work)
            made, nothing = self._block(loop, steps, block, arrays)
            for pos, tree in sums.items():
                tree.add(block, None if pos in nothing else made[pos])
            values.give(block, {pos: made[pos] for pos in loop.gives})
            del made, arrays
            store.release(("a block",))
            before, taken = taken, ahead
            store.release(("blocks read ahead", block))
            if taken is None and not last:
                taken = values.take(loop, block + 1, before)
        values.written()
        store.release(("contributions",))
        for pos, tree in sums.items():
            values.keep(pos, tree.result())

    def _block(self, loop: Loop, steps: Any, block: int, arrays: dict[int, ND]) -> tuple[list[Any], set[int]]:
        """What the steps of a loop make of a block, and which of it are contributions of nothing."""
        here: list[Any] = [None] * len(self.plan.specs)
        for pos, number in self.consts.items():
            here[pos] = number
        for x, array in arrays.items():
            here[x] = array.copy() if self.streams.copies and array.base is not None else array
        nodes, nothing = self._nodes(block), set[int]()
        single = [s for step in loop.steps for s in _single(step)]
        if not any(has_nothing(self.plan, s, block) or contributes_nothing(self.plan, s, block) for s in single):
            steps.run(nodes, here)
        else:
            for step in loop.steps:
                self._some(step, nodes, here, block, nothing)
        return here, nothing

    def _some(self, step: Step, nodes: Sequence[Any], here: list[Any], block: int, nothing: set[int]) -> None:
        """One step of a block that has no elements for some."""
        if isinstance(step, Tiled):
            for inner in step.steps:
                self._some(inner, nodes, here, block, nothing)
        elif has_nothing(self.plan, step, block):
            for p in makes(step):
                n, by = nodes[p], reduction(self.plan.layouts[p])
                if by is None:
                    here[p] = pool.empty(n.dims, n.dtype, n.order)
                else:
                    here[p] = np.full(n.dims, by.identity(n.dtype), n.dtype)
                    nothing.add(p)
        else:
            runner([step], self.backend).run(nodes, here, free=False)

    def _nodes(self, block: int) -> Sequence[Any]:
        """The graph as a block sees it, with the numbers of this run where a step looks at them."""
        nodes = self.plan.nodes(block)
        if not self.plan.stages.centred:
            return nodes
        given = list(nodes)
        for pos, number in self.consts.items():
            given[pos] = replace(given[pos], op=Const(np.asarray(number)[()]))
        return given


def _single(step: Step) -> Sequence[Step]:
    return step.steps if isinstance(step, Tiled) else (step,)


class _Sum:
    """Contributions of blocks to a value; on a grid, to each of its parts."""

    def __init__(self, plan: Any, pos: int, in_turn: bool) -> None:
        self.plan, self.layout, self.spec = plan, plan.layouts[pos], plan.specs[pos]
        self.in_turn = in_turn
        self.by: Reduction | None = reduction(self.layout)
        self.parts: dict[Held, Combining] = {}

    def add(self, block: int, part: ND | None) -> None:
        """What a block contributes; None: nothing."""
        assert self.by is not None
        if counts_for(self.layout, self.plan.mesh, block):
            box = owned_box(self.layout, self.spec.shape, self.plan.mesh, block=block)
            tree = self.parts.get(box) or self.parts.setdefault(box, Combining(self.by))
            if not self.in_turn:
                tree.add(None if part is None else np.asarray(part))
            elif part is not None:
                so_far = tree.result()
                tree.add(part if so_far is None else self.by.combine(so_far, part, so_far))

    def result(self) -> ND:
        """The value."""
        assert self.by is not None
        if len(self.parts) == 1:
            (tree,) = self.parts.values()
            only = tree.result()
            return self._neutral(self.spec.shape) if only is None else np.asarray(only)
        out = pool.empty(self.spec.shape, self.spec.dtype, self.spec.order)
        for box, tree in self.parts.items():
            part = tree.result()
            at = within(box, tuple((0, n) for n in self.spec.shape))  # type: ignore[arg-type]
            out[at] = self._neutral(out[at].shape) if part is None else part
        return out

    def _neutral(self, shape: tuple[int, ...]) -> ND:
        assert self.by is not None
        return np.full(shape, self.by.identity(self.spec.dtype), self.spec.dtype)
