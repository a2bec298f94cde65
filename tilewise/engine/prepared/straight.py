"""Runs by script in a process with one worker, in the fewest words. In: a script, arrays, a wire. Out: arrays.

What `replay.py` does round by round for workers that take turns is one loop here, and results are not entered in the
worker's store until something else than such a run asks for them: loops of small steps drop what they make soon.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewise.backend.host.arrays import has_margins
from tilewise.engine.held import Held
from tilewise.engine.network.wire import Wire
from tilewise.engine.prepared.plan import Prepared
from tilewise.engine.prepared.replay import NOTHING, Reached, Script, Values, compute
from tilewise.interrupts import allowed, waits
from tilewise.ops.traits.collectives import Parts

ND = np.ndarray[Any, Any]


class Fresh:
    """Results in new memory that are not in a worker's store yet."""

    def __init__(self, store: Held) -> None:
        self._store = store
        # By key: the array, and the only block that it is, how it lies, and its bytes.
        self._values: dict[int, tuple[ND, tuple[Any, int, int]]] = {}
        self.nbytes = 0

    def drop(self, keys: Sequence[int]) -> None:
        """Let go of values, wherever they are."""
        for key in keys:
            found = self._values.pop(key, None)
            if found is None:
                self._store.drop(key)
            else:
                self.nbytes -= found[1][2]

    def enter(self) -> None:
        """All of them go to the store."""
        if self._values:
            for key, (x, (block, lies, _)) in self._values.items():
                self._store.put_new(key, block, x, lies)
            self._values.clear()
            self.nbytes = 0

    def given(
        self, learned: Prepared, backend: str, leaves: Sequence[Any], consts: Sequence[Any]
    ) -> tuple[Script, Values, int] | None:
        """A script, its values before the run, and what the run takes up; None if it must be run in another way."""
        by: Script | None = learned.scripts.get(backend)
        if by is None:
            return None
        values = by.values(consts)
        ways: list[Any] = [backend]
        for pos, leaf in zip(learned.plan.leaves, leaves):  # noqa: B905  (as many: it is a run of this plan)
            there = self._values.get(leaf)
            way: int | None
            if there is not None:
                values[pos], (_, way, _) = there
            else:
                parts, way = self._store.lies(leaf, has_margins) if type(leaf) is int else (None, None)
                if not parts:
                    return None
                (values[pos],) = parts.values()
            ways.append(way)
        peak = learned.peaks.get((*ways,))
        if peak is None and None in ways:
            self.enter()
            found = self.lie(backend, leaves)
            peak = None if found is None else learned.peaks.get(found[1])
        return None if peak is None else (by, values, peak)

    def lie(self, backend: str, leaves: Sequence[Any]) -> tuple[list[Parts], tuple[Any, ...]] | None:
        """Stored values, and how they lie: equal where a run counts blocks alike. None if one is not here."""
        found, ways = list[Parts](), list[Any]([backend])
        for leaf in leaves:
            parts, way = self._store.lies(leaf, has_margins) if type(leaf) is int else (None, None)
            if not parts:
                return None
            found.append(parts)
            ways.append(way)
        if None in ways:  # some share memory
            given = [x for parts in found for x in parts.values()]
            return found, (backend, *map(has_margins, given), *self._store.blocks.lie(given))
        return found, (*ways,)

    def keep(self, by: Script, keys: Sequence[int], values: Values, leaves: Sequence[int]) -> None:
        """Take the results of a run."""
        kept = by.kept
        if kept is None:
            if len(by.lies) < len(keys):  # not all are in new memory, or it is not known yet how they lie
                self.enter()
                by.keep(keys, values, [self._store[x] for x in leaves], self._store)
                return
            kept = by.kept = [(pos, (block, by.lies[pos], values[pos].nbytes)) for pos, block in by.results]
        for key, (pos, known) in zip(keys, kept):  # noqa: B905  (one key for each)
            self._values[key] = values[pos], known
            self.nbytes += known[2]


def run(by: Script, values: Values, wire: Wire, me: int, epoch: int, number: int, reached: Reached) -> int:
    """All rounds: the bytes that came from others. No block is counted on the way: Ctrl-C may come at any moment.

    Recorded work raises no warnings: NumPy is quiet in all of a process that serves (`ServedHost.serve`).
    """
    came, held = 0, waits()
    for k, (senders, joins, acts, body, cuts) in enumerate(by.rounds):
        waiting = NOTHING
        if senders:
            waiting = {}
            for v in senders:
                waiting[v] = wire.receive(v, me, (epoch, number, k))
        if acts is None or held:
            with allowed():
                came += compute(by, values, waiting, joins, body, came, reached)
        else:
            act = None
            try:
                for join in joins:
                    came += join(values, waiting)
                for act in acts:
                    act(values)
            except Exception as error:
                by.note_site(error, act)
                raise
        for v, cut in cuts:
            wire.send(me, v, (epoch, number, k + 1), cut(values))
    return came
