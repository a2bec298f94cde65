"""Programs on 2 and 4 processes of this machine beside Dask distributed and NumPy. Out: a table and JSON.

    python -m benchmarks.cluster [--workers 2,4] [--only name,…] [--repeat 3] [--scale 1.0] [--output …]

Data are in place before the clock runs: on workers, cut by rows; for Dask persisted, in chunks that were best of some
(per worker: 1, 2 and 4, tried before). For products chunks of Dask are squares, and four of our workers are one, too.
Both systems have the same number of processes with the same number of threads, and take turns; NumPy has all cores.
Times are the best of some. Bytes are those that cross between workers, and what goes through the program. Goals: 3
times as fast as Dask in the geometric mean, no program below 1.2 (products: 1.0), never more bytes.
Then: what a plan costs besides its work, what uneven work costs (skew.py), and how bytes grow with workers (growth.py).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy

import tilewise as tw
from benchmarks.cluster import growth, skew
from benchmarks.cluster.programs import PROGRAMS, Program

RESULTS = Path(__file__).resolve().parents[1] / "results" / "cluster.json"
MEAN_GOAL = 3.0
CHUNKS = (1, 2, 4)  # per worker, tried for Dask
PLANS = 200  # of which the cost is measured


class Ours:
    """Tilewise on Ray: workers in a line, or in a square."""

    def __init__(self, workers: int, threads: int, side: int = 0) -> None:
        self.side = side
        place: dict[str, Any] = {"mesh": (side, side)} if side else {"workers": workers}
        self.session = tw.session(engine="ray", threads=threads, **place)

    def prepared(self, program: Program, inputs: tuple[Any, ...]) -> Callable[[], Any]:
        """What one run is."""
        given = [tw.asarray(x) for x in inputs]
        axes = (0, 1) if self.side else (0,)
        placed = [tw.evaluate(x.relayout(*axes)) if k < program.cut else x for k, x in enumerate(given)]

        def run() -> Any:
            result = program.source(tw, tw.evaluate, *placed)
            self.session.cluster.settle()  # type: ignore[union-attr]
            return result

        return run

    def moved(self) -> int:
        """Bytes so far."""
        assert self.session.cluster is not None
        return self.session.cluster.counters.network_bytes

    def step(self, x: Any) -> Any:
        """A small plan."""
        y = tw.evaluate(x + 1)
        self.session.cluster.settle()  # type: ignore[union-attr]
        return y

    def vector(self) -> Any:
        """Some numbers on workers."""
        return tw.evaluate(tw.asarray(numpy.zeros(1_000)).relayout(0))

    def close(self) -> None:
        """End."""
        self.session.close()


def count_shuffles(dask_worker: Any) -> None:
    """Shuffles of tables go past Dask's own log of transfers: count what a worker gets by them."""
    receive = dask_worker.handlers["shuffle_receive"]
    dask_worker.shuffled_bytes = 0

    async def counted(data: Any, **named: Any) -> Any:
        pieces = [data] if isinstance(data, bytes) else [piece for _, piece in data]
        dask_worker.shuffled_bytes += sum(len(p) if isinstance(p, bytes) else int(p.nbytes) for p in pieces)
        return await receive(data=data, **named)

    dask_worker.handlers["shuffle_receive"] = counted


class Dask:
    """Dask distributed."""

    def __init__(self, workers: int, threads: int) -> None:
        import dask.array
        from dask.distributed import Client, LocalCluster, wait

        self.da, self.wait, self.workers = dask.array, wait, workers
        self.servers = LocalCluster(
            n_workers=workers, threads_per_worker=threads, processes=True, dashboard_address=None, silence_logs=50
        )
        self.client = Client(self.servers)
        self.client.run(count_shuffles)
        self.sent = 0  # bytes to and from the client

    def prepared(self, program: Program, inputs: tuple[Any, ...]) -> Callable[[], Any]:
        """What one run is, with the best of some chunks."""
        ways = [self._way(program, inputs, per_worker) for per_worker in CHUNKS]
        return min(ways, key=lambda way: min(seconds(way) for _ in range(2)))

    def _way(self, program: Program, inputs: tuple[Any, ...], per_worker: int) -> Callable[[], Any]:
        parts = self.workers * per_worker
        placed = []
        for k, x in enumerate(inputs):
            if k >= program.cut:
                placed.append(x)
                continue
            side = math.ceil(math.sqrt(parts))
            chunks = tuple(-(-n // side) for n in x.shape) if program.grid else (-(-len(x) // parts), *x.shape[1:])
            placed.append(self.da.from_array(x, chunks=chunks).persist())
        self.wait([x for x in placed if not isinstance(x, numpy.ndarray)])

        def run() -> Any:
            result = program.dask(self.da, lambda v: v.persist(), self.fetch, *placed)
            if not isinstance(result, numpy.ndarray):
                self.wait(result)
            return result

        return run

    def fetch(self, x: Any, again: bool = True) -> Any:
        """A small value on the client. As with us, one worker is there: the others get it `again` from there."""
        got = self.da.compute(*x) if isinstance(x, tuple) else x.compute()
        nbytes = sum(v.nbytes for v in (got if isinstance(x, tuple) else (got,)))
        self.sent += nbytes * (self.workers if again else 1)
        return got

    def moved(self) -> int:
        """Bytes so far: between workers, to the client, and from there to all workers but one (in graphs)."""

        def total(dask_worker: Any) -> int:
            gathered = sum(int(row["total"]) for row in dask_worker.transfer_incoming_log)
            return gathered + int(dask_worker.shuffled_bytes)

        return sum(self.client.run(total).values()) + self.sent

    def step(self, x: Any) -> Any:
        """A small graph."""
        y = (x + 1).persist()
        self.wait(y)
        return y

    def vector(self) -> Any:
        """Some numbers on workers."""
        x = self.da.from_array(numpy.zeros(1_000), chunks=-(-1_000 // self.workers)).persist()
        self.wait(x)
        return x

    def close(self) -> None:
        """End."""
        self.client.close()
        self.servers.close()


def seconds(run: Callable[[], Any]) -> float:
    """Of one run."""
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def measure(program: Program, systems: dict[str, Any], repeat: int, scale: float) -> dict[str, Any]:
    """Best times and bytes of one program under all systems, which take turns."""
    inputs = program.inputs(scale)
    expected = program.source(numpy, lambda x: x, *inputs)
    runs = {name: system.prepared(program, inputs) for name, system in systems.items()}
    row: dict[str, Any] = {"bytes": {}, "right": {}}
    for name, run in runs.items():
        before = systems[name].moved()
        result = run()
        row["bytes"][name] = systems[name].moved() - before
        row["right"][name] = bool(numpy.allclose(numpy.asarray(result), expected, rtol=1e-6, atol=1e-8))
        del result  # Dask would find it again by its name
        run()
    runs["numpy"] = lambda: program.source(numpy, lambda x: x, *inputs)
    seen: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeat):
        for name, run in runs.items():
            seen[name].append(seconds(run))
    return {**row, **{name: min(found) for name, found in seen.items()}}


def plan_cost(system: Any) -> float:
    """Seconds of one small plan after the other."""
    x = system.vector()
    for _ in range(10):
        x = system.step(x)
    best = math.inf
    for _ in range(3):
        began = time.perf_counter()
        for _ in range(PLANS // 3):
            x = system.step(x)
        best = min(best, (time.perf_counter() - began) / (PLANS // 3))
    return best


def compare(workers: int, names: list[str], repeat: int, scale: float) -> dict[str, Any]:
    """All programs with so many workers."""
    threads = max(1, (os.cpu_count() or 1) // workers)
    systems: dict[str, Any] = {"dask": Dask(workers, threads)}
    side = math.isqrt(workers) if workers > 1 and math.isqrt(workers) ** 2 == workers else 0
    rows = []
    print(f"\n{workers} workers of {threads} threads")
    print(f"{'program':20} {'ours ms':>9} {'dask ms':>9} {'dask/us':>8} {'numpy/us':>9} {'bytes':>13} {'of dask':>13}")
    try:
        for name in sorted(names, key=lambda name: not PROGRAMS[name].grid):  # chunks of both in a square: first
            wanted = side if PROGRAMS[name].grid else 0
            if "ours" not in systems or systems["ours"].side != wanted:
                if "ours" in systems:
                    systems.pop("ours").close()
                systems = {"ours": Ours(workers, threads, wanted), **systems}
            row = {"name": name, **measure(PROGRAMS[name], systems, repeat, scale)}
            rows.append(row)
            ours, dask = row["bytes"]["ours"], row["bytes"]["dask"]
            ratio = row["dask"] / row["ours"]
            ok = ratio >= PROGRAMS[name].least and ours <= dask
            wrong = "" if all(row["right"].values()) else f" wrong: {row['right']}"
            print(
                f"{name:20} {row['ours'] * 1e3:9.1f} {row['dask'] * 1e3:9.1f} {ratio:8.2f} "
                f"{row['numpy'] / row['ours']:9.2f} {ours:13,} {dask:13,} {'' if ok else '!'}{wrong}",
                flush=True,
            )
        mean = math.exp(sum(math.log(r["dask"] / r["ours"]) for r in rows) / len(rows))
        print(f"geometric mean of dask/us: {mean:.2f} (goal {MEAN_GOAL})")
        costs = {name: plan_cost(system) for name, system in systems.items()}
        print(f"one small plan after the other: {costs['ours'] * 1e3:.2f} ms, Dask {costs['dask'] * 1e3:.2f} ms")
    finally:
        for system in systems.values():
            system.close()
    return {"workers": workers, "threads": threads, "mean": mean, "plan_seconds": costs, "rows": rows}


def main() -> None:
    """Compare, then count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", default="2,4")
    parser.add_argument("--only", default=",".join(PROGRAMS))
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--without", default="", help="growth, to leave it and skew out")
    parser.add_argument("--output", type=Path, default=RESULTS)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    tables = [compare(int(w), args.only.split(","), args.repeat, args.scale) for w in args.workers.split(",") if w]
    uneven = {} if args.without == "growth" else skew.report()
    grown = [] if args.without == "growth" else growth.report()
    args.output.parent.mkdir(parents=True, exist_ok=True)
    head = {"cpu": platform.machine(), "cores": os.cpu_count(), "load": os.getloadavg()}
    args.output.write_text(json.dumps({**head, "tables": tables, "skew": uneven, "growth": grown}, indent=1) + "\n")


if __name__ == "__main__":
    main()
