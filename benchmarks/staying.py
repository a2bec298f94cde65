"""Long loops on workers: memory of all processes, what copies of blocks cost, recovery. In: an engine. Out: tables.

    python -m benchmarks.staying [--engine ray | forked | virtual] [--steps 5000] [--updates 500]

A loop with a halo in each step, then a loop in which the driver sends an array in each step, with the memory of driver
and workers along the way; then a process is killed. Linux only (/proc).
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy

import tilewise as tw
from benchmarks import forked

SHAPE = (2000, 100)  # 1.6 MB
ROWS = 10


def workers_of(cluster: Any) -> list[int]:
    """The processes of workers on this machine that are children of this one, at any distance."""
    if isinstance(cluster, forked.Forked):
        return [cluster.processes[h].pid for h in cluster.hosts]
    parents: dict[int, int] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                parents[int(name)] = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = []
    for pid in parents:
        at = pid
        while at in parents and at != os.getpid():
            at = parents[at]
        if at == os.getpid() and _command(pid).startswith("ray::Actor"):
            found.append(pid)
    return found


def _command(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline") as file:
            return file.read()
    except OSError:
        return ""


def mebibytes(pid: int) -> float:
    """Resident memory of a process."""
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmRSS"))


def loop(name: str, cluster: Any, step: Callable[[], None], steps: int) -> None:
    """Run, and print memory along the way."""
    print(f"\n{name}\n{'step':>8}{'seconds':>9}{'log':>6}{'copies':>8}  MiB of driver and workers")
    began = time.perf_counter()
    for k in range(steps + 1):
        if k % max(1, steps // ROWS) == 0:
            sizes = " ".join(f"{mebibytes(p):.1f}" for p in (os.getpid(), *workers_of(cluster)))
            passed, copies = time.perf_counter() - began, cluster.counters.copies
            print(f"{k:>8}{passed:>9.2f}{len(cluster.log):>6}{copies:>8}  {sizes}", flush=True)
        step()


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--engine", default="ray", choices=("ray", forked.Forked.name, "virtual"))
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--updates", type=int, default=500)
    options = parser.parse_args()
    random = numpy.random.default_rng(0)
    with tw.config(eager_bytes=0, fallback="silent"), tw.session(engine=options.engine, workers=2) as session:
        cluster: Any = session.cluster
        x = tw.evaluate(tw.asarray(random.random(SHAPE)).relayout(0))

        def halo() -> None:
            x[1:-1] = 0.5 * (x[:-2] + x[2:])
            tw.evaluate(x)

        def update() -> None:
            nonlocal x
            x = tw.evaluate(x * 0.5 + tw.asarray(random.random(SHAPE)))

        loop("a halo in each step", cluster, halo, options.steps)
        loop(f"an array of {x.nbytes:,} bytes to workers in each step", cluster, update, options.updates)
        for _ in range(options.steps // 2):
            halo()
        began = time.perf_counter()
        cluster.settle()
        if options.engine != "virtual":
            before = cluster.counters.exchanges
            os.kill(workers_of(cluster)[-1], signal.SIGKILL)
            began = time.perf_counter()
            float(x.sum())
            took, again = time.perf_counter() - began, len(cluster.log)
            print(f"\nafter a kill: {took:.2f} s, of {before:,} exchanges so far; {again} plans in the log")
    return 0


if __name__ == "__main__":
    sys.exit(main())
