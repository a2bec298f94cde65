"""A program with a loop that goes on where it was, killed on the way. In: a folder, when to die. Out: its checkpoints.

`python -m tests.store.killed --cases 20 [--engine ray]` kills it at random moments, on Ray each time with another
number of workers; `every` is one iteration, or a time. What is left of a killed program's processes must go by itself.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np

import tilewise as tw

STEPS, RAY_STEPS = 12, 60
SOON = "0.3s"
MARK = "TILEWISE_TESTS_KILLED"  # in the environment of all that a case starts
BUSY, MOST_BUSY = 75, 10  # exit status of a program for which Ray did not start in time, and how often that may be
ORPHAN_SECONDS = 180.0  # for processes to notice that all is gone: those that Ray was about to start take a minute


def step(x: Any, i: int) -> Any:
    return x * 0.5 + i


def expected(steps: int = STEPS) -> Any:
    x = np.zeros((40, 25))
    for i in range(steps):
        x = step(x, i)
    return x


def program(
    folder: str,
    log: str,
    moment: int | None = None,
    pause: float = 0.0,
    workers: int = 0,
    every: Any = 1,
    steps: int = STEPS,
) -> None:
    """The loop, on so many workers of Ray if any; its process is killed at the `moment`-th call that writes."""
    if moment is not None:
        _die_at(moment)
    where: Any = {"engine": "ray", "workers": workers, "checkpoint": folder, "every": every}
    try:
        session: Any = tw.session(**where) if workers else nullcontext()
    except tw.TilewiseError as error:
        sys.exit(BUSY if "Ray did not start" in str(error) else str(error))
    with session, tw.config(eager_bytes=0 if workers else 4096):
        state = {"x": tw.zeros((40, 25))}
        for i in tw.resumable(range(steps), state, folder, every=every):
            with open(log, "a") as file:
                file.write(f"{i} {time.monotonic()}\n")
            state["x"] = tw.evaluate(step(state["x"], i))
            time.sleep(pause)


def _die_at(moment: int) -> None:
    left = [moment]
    for name in ("pwrite", "fsync", "replace", "unlink", "mkdir"):
        real = getattr(os, name)

        def counted(*args: Any, real: Any = real) -> Any:
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args)

        setattr(os, name, counted)


def lines(log: str) -> list[tuple[int, float]]:
    """The iterations that were begun, and when."""
    with suppress(FileNotFoundError):
        return [(int(i), float(at)) for i, at in (line.split() for line in Path(log).read_text().splitlines())]
    return []


def marked(mark: str) -> list[int]:
    """Processes that a case has started, whatever became of their parents."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            if f"{MARK}={mark}".encode() in Path(f"/proc/{name}/environ").read_bytes():
                found.append(int(name))
    return found


def nothing_is_left(marks: list[str]) -> None:
    """Wait until the processes of killed programs have gone by themselves."""
    until = time.monotonic() + ORPHAN_SECONDS
    while left := [pid for mark in marks for pid in marked(mark)]:
        assert time.monotonic() < until, f"processes {left} outlive their driver"
        time.sleep(0.2)


class Case:
    """One program, killed again and again until it comes to its end."""

    def __init__(self, draw: random.Random, ray: bool, every: Any) -> None:
        self.draw, self.ray, self.every = draw, ray, every
        self.steps = RAY_STEPS if ray else STEPS
        self.kills = 0
        self.workers: list[int] = []

    def run(self, budget: int) -> tuple[int, float]:
        """Iterations done again, and the longest time that a kill has cost."""
        with tempfile.TemporaryDirectory() as folder:
            kept, log = os.path.join(folder, "kept"), os.path.join(folder, "log")
            again, cost = 0, 0.0
            marks: list[str] = []
            busy = last = 0
            while True:
                workers = self.draw.randint(1, 3) if self.ray else 0
                self.workers.append(workers)
                before, mark = len(lines(log)), uuid.uuid4().hex
                child = self._start(kept, log, workers, mark)
                killed = self.kills < budget and self._kill(child, log, before)
                if not killed and child.wait() == BUSY:  # nothing has begun: on a busy machine it is started again
                    busy += 1
                    assert busy <= MOST_BUSY, "Ray does not start"
                    continue
                assert killed or child.returncode == 0, child.returncode
                seen = lines(log)
                if len(seen) > before:
                    # What the run before it had begun, and this one did again; runs that begin nothing lose nothing.
                    lost = [at for i, at in seen[last:before] if i >= seen[before][0]]
                    again += len(lost)
                    cost = max(cost, max(lost) - min(lost) if lost else 0.0)
                    last = before
                marks.append(mark)
                if not killed:
                    break
                self.kills += 1
            nothing_is_left(marks)
            numbers = [i for i, _ in seen]
            assert sorted(set(numbers)) == list(range(self.steps)), numbers
            np.testing.assert_array_equal(np.asarray(tw.open(kept, "x")), expected(self.steps))
            if isinstance(self.every, int):
                assert again <= self.every * self.kills, (again, self.kills)
            else:
                longest = max(b - a for (i, a), (j, b) in itertools.pairwise(seen) if j == i + 1)
                assert cost <= float(self.every[:-1]) + 2 * longest, (cost, longest)
            return again, cost

    def _start(self, kept: str, log: str, workers: int, mark: str) -> subprocess.Popen[bytes]:
        call = f"{kept!r}, {log!r}, None, 0.05, {workers}, {self.every!r}, {self.steps}"
        code = f"from tests.store.killed import program; program({call})"
        return subprocess.Popen([sys.executable, "-c", code], env={**os.environ, MARK: mark})

    def _kill(self, child: subprocess.Popen[bytes], log: str, before: int) -> bool:
        """Kill it some time after its first iteration, or before; whether it was still there."""
        if self.draw.random() < 0.8:
            while child.poll() is None and len(lines(log)) == before:
                time.sleep(0.02)
        with suppress(subprocess.TimeoutExpired):
            child.wait(self.draw.uniform(0.0, 0.05 * self.steps * 0.6))
            return False
        child.kill()
        child.wait()
        return True


def main() -> None:
    """Kill the program at random times; it must come to its end with the right result."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--cases", type=int, default=20, help="kills")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--engine", choices=["local", "ray"], default="local")
    given = parser.parse_args()
    draw, kills = random.Random(given.seed), 0
    while kills < given.cases:
        case = Case(draw, given.engine == "ray", draw.choice([1, 1, SOON]))
        again, cost = case.run(min(5, given.cases - kills))
        kills += case.kills
        on = f" on {', '.join(map(str, case.workers))} workers" if case.ray else ""
        print(
            f"{kills} kills: right{on}, every={case.every!r}: {again} iterations done again, {cost:.2f} s at most",
            flush=True,
        )


if __name__ == "__main__":
    main()
