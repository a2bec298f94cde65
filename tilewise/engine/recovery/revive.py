"""Lost workers are brought back. In: what is known of the hosts. Out: workers that hold again what they held.

Every so often what workers hold is copied to neighbours. When a worker is lost, all begin anew: copies are restored,
and the plans that ran since are run again (they are deterministic).
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tilewise import events
from tilewise.engine.host import Copied
from tilewise.engine.hosts import Hosts, Mark, WorkerLost
from tilewise.engine.recovery.copies import packed, unpacked
from tilewise.engine.recovery.copying import LEAST_PLANS, REMEMBERED_BYTES, keepers
from tilewise.engine.recovery.replay_log import Entry
from tilewise.engine.recovery.worker_errors import Failure
from tilewise.errors import TilewiseError, message

T = TypeVar("T")

REVIVALS = 3  # a plan that workers do not survive so many times would kill them again
RUNS_AHEAD = 32  # runs under way: the driver waits before it starts more
RUNS_LEFT = 16  # until so many are left: it wakes up once for several, and workers do not run out of work


class Recovery(Hosts):
    """Copies of what workers hold, and workers that replace others."""

    # -- what running plans provides (engine/cluster.py) ----------------------------------------------------------

    def settle(self) -> None:
        """Wait for all that is under way."""
        raise NotImplementedError

    def _settle(self, most: int) -> None:
        raise NotImplementedError

    def _start(self, entry: Entry, gone: list[int]) -> None:
        raise NotImplementedError

    def _give_up(self, entries: Sequence[Entry], error: Exception) -> None:
        raise NotImplementedError

    def _take_dead(self) -> list[int]:
        raise NotImplementedError

    # -- copies ---------------------------------------------------------------------------------------------------

    def _copy_if_due(self) -> None:
        """Start a copy of what workers hold if it is time (before a plan, when what the last one read is gone)."""
        self.copying.plans += 1
        remembered = self.log.nbytes
        if not self.copies_blocks or (self.copying.plans < LEAST_PLANS and remembered <= REMEMBERED_BYTES):
            return
        if not self.copying.may_be_due(remembered):
            return
        self.log.release(list(self.dead))  # which workers hear of when the plan starts
        nbytes = self.log.fresh_bytes()
        if not self._copy_under_way():
            if self.copying.due(nbytes, remembered):
                self._surely(self._start_copy)
        elif self.copying.crowded(nbytes, remembered // 2):
            self.settle()

    def _copy_under_way(self) -> bool:
        return any(isinstance(x, Mark) for x in self.under_way)

    def _start_copy(self) -> None:
        """Let each host keep what its workers hold, and give it to a neighbour. Waits for nothing."""
        if self._copy_under_way():  # workers were lost when this was tried before, and bringing them back made one
            return
        mark = Mark(tuple(sorted(self.log.fresh)), frozenset(self.log))
        self.copying.begun()
        try:
            where = keepers(self.hosts, self.node_of)
            futures = self.call_all("copy", self.epoch, next(self.counter), mark.keys, where)
        except BaseException:
            self.broken = True  # perhaps some wait for others
            raise
        self.under_way[mark] = futures

    def _copied(self, mark: Mark, reports: Sequence[Copied]) -> None:
        """A copy is made, if all hosts say so: plans that ran before it are not needed any more."""
        if len(reports) < len(self.hosts):
            self.copying.failed()
            return
        nbytes = max(r.nbytes for r in reports)
        self.copying.took(min(r.seconds for r in reports), nbytes)  # the others waited for the last one
        self._counters.copies += 1
        self._counters.copied_bytes += nbytes * self.mesh.workers
        for report in reports:
            for w, pieces in report.for_driver.items():
                self.copies.put(w, unpacked(pieces))
        self.log.copied(mark.before, mark.keys)
        self._drop_unneeded()

    def _drop_unneeded(self) -> None:
        """Copies that no plan and no array hang on go, wherever they are."""
        gone, self.log.unneeded = self.log.unneeded, set()
        if gone:
            self.copies.drop(gone)
            if self.saved is not None:
                self.saved.drop(gone)
            for h in self.hosts:
                self.tell(h, "drop_copies", sorted(gone))

    # -- on disk --------------------------------------------------------------------------------------------------

    def _save_if_due(self) -> None:
        """Write what workers hold to the session's checkpoint, if it is time (between two plans)."""
        if self.saved is not None and self.mortal and self.saved.due.now():
            self._surely(self._save)
            self.saved.due.again()

    def _save(self) -> None:
        """Each process writes what its workers hold and no file has yet; plans that ran before are not needed."""
        assert self.saved is not None
        self._settle(0)
        self.log.release(list(self.dead))
        maker = self.log.maker
        keys = sorted(k for k in self.log.live if k not in self.saved.keys and k in maker and not maker[k].rooted)
        if keys:
            token = self.saved.new(range(self.mesh.workers))
            paths = {w: self.saved.path(token, w) for w in range(self.mesh.workers)}
            try:
                self._counters.saved_bytes += sum(self._answers(self.call_all("save", keys, paths)))
            except BaseException:
                self.saved.drop(())  # what was written of it
                raise
            self.saved.keys.update(dict.fromkeys(keys, token))
        self._counters.saves += 1
        self.log.copied(frozenset(self.log), keys)
        self._drop_unneeded()

    def _restore(self) -> None:
        """Workers hold again what was copied, from wherever a copy is."""
        keys = self.log.kept()
        there = dict(zip(self.hosts, self._answers(self.call_all("holds")), strict=True))
        handed: dict[tuple[int, int], list[int]] = {}
        given: dict[int, list[int]] = {}
        filed: dict[int, dict[str, list[int]]] = {}
        lost: set[int] = set()
        for home, workers in self.hosts.items():
            for w, key in itertools.product(workers, keys):
                if (w, key) in there[home]:
                    continue
                giver = next((h for h, held in there.items() if (w, key) in held), None)
                if giver is not None:
                    handed.setdefault((w, self.hosts[giver][0]), []).append(key)
                elif (w, key) in self.copies:
                    given.setdefault(w, []).append(key)
                elif self.saved is not None and key in self.saved.keys:
                    path = self.saved.path(self.saved.keys[key], w)
                    filed.setdefault(w, {}).setdefault(path, []).append(key)
                else:
                    lost.add(key)
        run = next(self.counter)
        known = {w: packed(self.copies.get(w, its)) for w, its in given.items()}
        left = [k for k in keys if k not in lost]
        self._answers(
            [
                self.call(
                    h,
                    "restore",
                    self.epoch,
                    run,
                    left,
                    handed,
                    {w: known[w] for w in ws if w in known},
                    {w: filed[w] for w in ws if w in filed},
                )
                for h, ws in self.hosts.items()
            ]
        )
        self.copies.keep_only(left)
        if lost:
            self._mourn(lost)

    def _answers(self, futures: Sequence[Any]) -> list[Any]:
        """What hosts say; a failure is raised."""
        try:
            answers = self.wait(futures)
        except BaseException:
            self.disregard(futures)
            raise
        failures = [a for a in answers if isinstance(a, Failure)]
        if any(f.lost for f in failures):
            raise WorkerLost(next(f.lost for f in failures if f.lost))
        for failure in failures:
            if failure.error is not None:
                raise failure.error
        return answers

    def _mourn(self, lost: set[int]) -> None:
        """Values that can neither be restored nor made again, and all that was made of them."""
        entries = []
        for entry in self.log:
            if lost.intersection(entry.keys) or lost.intersection(x for x in entry.leaves if isinstance(x, int)):
                entries.append(entry)
                lost.update(entry.keys)
        self._give_up(
            entries,
            TilewiseError(
                message(
                    "the value was lost with the process that held it and the one that had its copy",
                    cure="Compute it again from its sources; what other values need is still there",
                )
            ),
        )

    # -- bringing back --------------------------------------------------------------------------------------------

    def _surely(self, do: Callable[[], T]) -> T:
        """Do something with workers, and bring them back if they are lost in it."""
        why = "an earlier use found one gone"
        self.lost_at = None
        for _ in range(REVIVALS + 1):
            try:
                if self.broken:
                    self.lost_at = self.lost_at or time.monotonic()
                    self._revive()
                    self.lost_at = None
                return do()
            except WorkerLost as lost:
                self.broken, why = True, str(lost)
        raise TilewiseError(
            message(
                f"workers were lost {REVIVALS + 1} times in a row; the last time: {why}",
                cure="Look for what ends them (often memory: use more workers, or smaller arrays)",
            )
        )

    def _revive(self) -> None:
        """Replace lost workers, restore what was copied, and run again what came after (plans are deterministic)."""
        began = time.perf_counter()
        self.disregard([f for futures in self.under_way.values() for f in futures])
        self.under_way.clear()
        self.restart()
        self.taught = set()
        self._take_dead()
        self._counters.replays += 1
        gone: list[int] = []
        copied = len(self.log.kept()) > 0
        if self.copying.last or self.saved is not None:  # there may be copies
            self.log.without_copies()
            self._restore()
        for entry, unneeded in self.log.replay():
            # Handles that die meanwhile wait: entries to come may still read what they were on.
            self._start(entry, gone)
            gone = unneeded
            self._settle(RUNS_AHEAD)
        self.dead.extend(gone)
        self.broken = False  # interrupted before, all this is done again
        if events.listeners:
            events.emit(events.Event("retry", "lost workers", began, time.perf_counter()))
        if copied:
            self._start_copy()  # at once, so that there are two of everything again
