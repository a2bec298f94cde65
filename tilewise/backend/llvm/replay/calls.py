"""Plans of small arrays as few native calls. In: steps, and the values of one run. Out: a `Line`, run again and again.

A step of 10 us is long beside a kernel of one. A run whose values are all kept says what a run of the same geometry
does: which memory each kernel reads and writes, what is made in place. So passes, copies and updates become a table of
native calls, one after the other on one thread, or shared out (parallel.py); intermediate values stay in memory of the
line's own, and only the addresses of arguments and results are filled in. Other steps, and passes that are worth
several threads by themselves, run as ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from tilewise.backend.base import Unfit
from tilewise.backend.host.arrays import fresh
from tilewise.backend.host.steps import run_step
from tilewise.backend.llvm.replay.build import Layer, Steps
from tilewise.backend.llvm.replay.entries import Native, owner_of
from tilewise.backend.llvm.tiles.group import choice_of
from tilewise.config import current
from tilewise.stage.steps import Tiled, View, in_place, makes, passes
from tilewise.tuning import tuned

ND = np.ndarray[Any, Any]

FLAT_BYTES = 128 << 20  # of all values of a run together, from which a line is made


class Lines:
    """The lines of a plan, by geometry. The first run is as ever; the second becomes a line for all that follow."""

    def __init__(self, runner: Any, nodes: Sequence[Any], given: Iterable[int], wanted: Sequence[int]) -> None:
        self._runner, self._nodes, self._given, self._wanted = runner, nodes, tuple(given), wanted
        self._kept: dict[Any, Line | None] = {}  # None: there is none
        self._met: set[Any] = set()
        made = {x for s, *_ in runner.steps if not isinstance(s, View) for x in makes(s)}
        updated = {x for s, *_ in runner.steps for p in passes(s) or (s,) for x in in_place(p)}
        # Whether it matters little that lines let go of values at the end only.
        sizes = [nodes[x].nbytes for x in made.difference(updated, wanted)]
        self.lean = sum(sizes) + max((nodes[x].nbytes for x in updated), default=0) <= tuned().replay_most_bytes

    def found(self, values: list[Any]) -> Line | None:
        """The line for arrays that lie so, if there is one."""
        return self._kept.get(self._key(values))

    def _key(self, values: list[Any]) -> Any:
        return tuple([v.strides if isinstance(v := values[x], np.ndarray) else None for x in self._given])

    def run(self, values: list[Any]) -> None:
        """Fill in the results."""
        key = self._key(values)
        line = self._kept.get(key)
        if line is not None:
            before = values.copy()
            try:
                line.run(values)
                return
            except Unfit:
                self._kept[key] = None
                values[:] = before
        if key in self._kept or key not in self._met:
            self._runner.run(self._nodes, values)
            self._met.add(key)
            return
        if len(self._kept) >= tuned().replays_kept:
            self._kept.clear()
        self._kept[key] = None
        found = self._run_flat(values)
        if found is None:
            return
        steps, groups = found
        with suppress(Unfit):
            self._kept[key] = Line(
                Layer(steps, groups, self._nodes, values, set(self._given), self._wanted), self._wanted
            )

    def _run_flat(self, values: list[Any]) -> tuple[Steps, list[tuple[Tiled, int]]] | None:
        """Run all steps and keep every value; groups without tiles run one by one, and where they begin is told.

        If that takes too much memory (updates that are not in place after all), the rest runs as ever: None.
        """
        run: Steps = []
        groups: list[tuple[Tiled, int]] = []
        dead: list[int] = []
        memory = {id(owner_of(v)) for v in values}
        room = FLAT_BYTES
        for step, kernel, _ in self._runner.steps:
            inner: Steps = [(step, kernel)]
            if isinstance(step, Tiled) and choice_of(step, kernel, self._nodes, values, current()) is None:
                groups.append((step, len(run)))
                inner = list(zip(step.steps, kernel.kernels, strict=True))
            for one, own in inner:
                run_step(one, own, self._nodes, values, set())
                for v in [values[x] for x in makes(one) if id(owner_of(values[x])) not in memory]:
                    memory.add(id(owner_of(v)))
                    room -= getattr(v, "nbytes", 0)
            run += inner
            dead += step.frees
            if room < 0:
                for x in dead:
                    values[x] = None
                dead.clear()
        return None if room < 0 else (run, groups)


class Line:
    """Repeats a run on other arrays of the same geometry."""

    def __init__(self, layer: Layer, wanted: Sequence[int]) -> None:
        """From a run that has kept all its values, laid out. Raises Unfit."""
        nodes, values = layer.nodes, layer.values
        self._nodes = nodes
        self._items = layer.items
        self._arrays: list[Any] = layer.settled()
        for item in self._items:
            if type(item) is Native:
                item.settle(self._arrays, values)
        self._given = [(m.slot, m.position) for m in layer.memories if m.given and m.first < 0]
        new = [(m.slot, nodes[m.position]) for m in layer.memories if m.result and not m.given]
        pooled = tuned().pooled_at_bytes
        self._small = [(slot, n.dims, n.dtype) for slot, n in new if n.order is None and n.nbytes < pooled]
        self._fresh = [(slot, n) for slot, n in new if n.order is not None or n.nbytes >= pooled]
        whole = {slot: (n.dims, n.dtype) for slot, n in new}
        looks = [(pos, layer.looks[pos]) for pos in wanted]
        # of results that are new arrays, which; of others, how they lie
        self._ends = [(p, x.slot, None if x.whole and whole.get(x.slot) == (x.shape, x.dtype) else x) for p, x in looks]

    def run(self, values: list[Any]) -> None:
        """Fill in the results."""
        arrays = self._arrays.copy()
        for slot, pos in self._given:
            arrays[slot] = values[pos]
        for slot, shape, dtype in self._small:
            arrays[slot] = np.empty(shape, dtype)
        for slot, node in self._fresh:
            arrays[slot] = fresh(node)
        for item in self._items:
            if type(item) is Native:
                item.run(arrays, values)
            else:
                item.run(arrays, values, self._nodes)
        for pos, slot, look in self._ends:
            values[pos] = arrays[slot] if look is None else look.at(arrays)
