"""A program with a loop that goes on where it was, killed on the way. In: a folder, when to die. Out: its checkpoints.

`python -m tests.store.killed --cases 20` kills it at random moments instead.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np

import tilewise as tw

STEPS = 12


def step(x: Any, i: int) -> Any:
    return x * 0.5 + i


def expected() -> Any:
    x = np.zeros((40, 25))
    for i in range(STEPS):
        x = step(x, i)
    return x


def program(folder: str, log: str, moment: int | None = None, pause: float = 0.0) -> None:
    """The loop; its process is killed at the `moment`-th call that writes to the disk."""
    if moment is not None:
        _die_at(moment)
    state = {"x": tw.zeros((40, 25))}
    for i in tw.resumable(range(STEPS), state, folder, every=1):
        with open(log, "a") as file:
            file.write(f"{i}\n")
        state["x"] = step(state["x"], i)
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


def main() -> None:
    """Kill the program at random times; it must come to its end with the right result."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    draw = random.Random(given.seed)
    kills = 0
    while kills < given.cases:
        with tempfile.TemporaryDirectory() as folder:
            kept, log = os.path.join(folder, "kept"), os.path.join(folder, "log")
            call = f"from tests.store.killed import program; program({kept!r}, {log!r}, None, 0.05)"
            lost = 0
            while True:
                child = subprocess.Popen([sys.executable, "-c", call])
                try:
                    child.wait(draw.uniform(0.3, 2.5))
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.wait()
                    kills += 1
                    lost += 1
                    continue
                assert child.returncode == 0, child.returncode
                break
            np.testing.assert_array_equal(np.asarray(tw.open(kept, "x")), expected())
            with open(log) as file:
                seen = [int(line) for line in file.read().split()]
            assert sorted(set(seen)) == list(range(STEPS)) and len(seen) <= STEPS + lost, seen
            print(f"{kills} kills: right, {len(seen) - STEPS} iterations done again")


if __name__ == "__main__":
    main()
