"""Kills of workers and nodes of a Ray cluster at random moments: `python -m tests.engine.kills --cases 40`.

Each case is a session on a small cluster of nodes, a loop whose every step exchanges data, and one to three kills: of a
worker's process or of a node, soon after each other (during recovery) or not, with a spare node or without, now and
then with one that comes later. It must end in time, with NumPy's answer or the stated error.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import os
import random
import signal
import socket
import struct
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy

import tilewise as tw
from tilewise import engine
from tilewise.errors import PerformanceWarning, TilewiseError

DEADLINE = 90.0  # seconds; a case that takes longer hangs
STATED = ("no place for others", "times in a row", "had its copy")
FEW = 10  # cases, in which both workers and nodes are killed
STORE_BYTES = 80 << 20
_CREDENTIALS = struct.Struct("3i")  # process, user, group


def start() -> Any:
    return numpy.arange(6000.0).reshape(2000, 3) % 7


def program(xp: Any, steps: int) -> list[Any]:
    """A halo and an all-reduce in each step; now and then the driver wants a number or sends an array."""
    x, seen = (tw.asarray(start()).relayout(0) if xp is tw else start()), []
    for k in range(steps):
        x[1:-1] = 0.5 * (x[:-2] + x[2:])
        x = x - x.mean(0)
        if k % 20 == 0:
            x = x + xp.asarray(numpy.full(3, 0.25 * k))
        if k % 50 == 49:
            seen.append(float(abs(x).max()))
        if xp is tw:
            tw.evaluate(x)
    return [numpy.asarray(x), *seen]


class Nodes:
    """A Ray cluster on this machine: a node for Ray's own servers and some with room for a worker each."""

    def __init__(self) -> None:
        from ray._private import utils
        from ray.cluster_utils import Cluster

        utils.set_sigterm_handler = lambda handler: None  # which only the first thread may do
        make: Any = Cluster
        self.made = make(
            initialize_head=True,
            head_node_args={"num_cpus": 0, "include_dashboard": False, "object_store_memory": STORE_BYTES},
        )
        self.workers: list[Any] = []
        self.thread = ThreadPoolExecutor(1)  # the system ends nodes with the thread that started them

    def have(self, count: int) -> None:
        """So many nodes."""
        self.thread.submit(self._have, count).result()

    def _have(self, count: int) -> None:
        while len(self.workers) > count:
            self._lose(len(self.workers) - 1)
        while len(self.workers) < count:
            self.workers.append(self.made.add_node(num_cpus=1, object_store_memory=STORE_BYTES))

    def lose(self, index: int) -> None:
        """One is gone, with all its processes."""
        self.thread.submit(self._lose, index).result()

    def _lose(self, index: int) -> None:
        node = self.workers.pop(index)
        self.made.remove_node(node, allow_graceful=False)
        node.all_processes = {}  # Ray looks for them when this process ends


def worker_pids() -> list[int]:
    """Processes of workers, wherever they run on this machine."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/cmdline", "rb") as file:
            if file.read().startswith(b"ray::Actor"):
                with open(f"/proc/{name}/status") as status:
                    if f"Uid:\t{os.getuid()}\t" in status.read():
                        found.append(int(name))
    return found


def mine(cluster: Any) -> list[int]:
    """Those of them that belong to a session."""
    pids = []
    for link in list(cluster.lines.links.values()):
        with contextlib.suppress(OSError):
            pids.append(_owner_of(link.sock))
    return [p for p in pids if p]


def _owner_of(sock: socket.socket) -> int:
    """The process at the other end of a connection within this machine."""
    if sock.family == socket.AF_UNIX:
        return int(_CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))[0])
    port, inode = sock.getpeername()[1], ""
    with open("/proc/net/tcp") as table:
        for line in table.readlines()[1:]:
            words = line.split()
            if words[3] == "0A" and int(words[1].rpartition(":")[2], 16) == port:
                inode = words[9]
    for pid in worker_pids():
        with contextlib.suppress(OSError):
            for fd in os.listdir(f"/proc/{pid}/fd"):
                if os.readlink(f"/proc/{pid}/fd/{fd}") == f"socket:[{inode}]":
                    return pid
    return 0


class Killer(threading.Thread):
    """Kills at random moments while a session runs."""

    def __init__(self, nodes: Nodes, cluster: Any, chance: random.Random, late: bool) -> None:
        super().__init__(daemon=True)
        self.nodes, self.cluster, self.chance, self.late = nodes, cluster, chance, late
        self.over = threading.Event()
        self.kills: Counter[str] = Counter()

    def run(self) -> None:
        """One to three, some soon after each other."""
        for _ in range(self.chance.randint(1, 3)):
            if self.over.wait(self.chance.choice([0.05, 0.3, 1.0, 3.0]) * self.chance.random()):
                break
            if self.chance.random() < 0.35 and self.nodes.workers:
                self.nodes.lose(self.chance.randrange(len(self.nodes.workers)))
                self.kills["nodes"] += 1
                continue
            with contextlib.suppress(IndexError, ProcessLookupError, RuntimeError):
                os.kill(self.chance.choice(mine(self.cluster)), signal.SIGKILL)
                self.kills["workers"] += 1
        if self.late and not self.over.wait(self.chance.uniform(0.0, 8.0)):
            self.nodes.have(3)


@contextlib.contextmanager
def short_waits() -> Iterator[None]:
    """The session waits seconds, not a minute."""
    from tilewise.engine.ray import RayCluster

    before = RayCluster.quiet_seconds, RayCluster.place_seconds, RayCluster.look_seconds
    RayCluster.quiet_seconds, RayCluster.place_seconds, RayCluster.look_seconds = 4.0, 6.0, 0.5
    yield
    RayCluster.quiet_seconds, RayCluster.place_seconds, RayCluster.look_seconds = before


def case(nodes: Nodes, seed: int, totals: Counter[str]) -> str:
    """One session with kills: what came out."""
    chance = random.Random(seed)
    on_loss = engine.ON_LOSS[seed % 3]
    spare = chance.random() < 0.5
    nodes.have(3 if spare else 2)
    nodes.made.wait_for_nodes()
    steps = chance.choice([500, 2000, 5000])
    # A session that waits until there is a place needs one to come.
    late = on_loss == "wait" or chance.random() < 0.3
    options: Any = {"engine": "ray", "workers": 2, "address": nodes.made.address, "on_loss": on_loss}
    began = time.monotonic()
    with tw.session(**options) as session:
        cluster: Any = session.cluster
        killer = Killer(nodes, cluster, chance, late)
        killer.start()
        try:
            got = program(tw, steps)
            for a, b in zip(got, program(numpy, steps), strict=True):
                numpy.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
            counters = cluster.counters
            assert counters.network_bytes == counters.predicted_bytes, counters
            outcome = "right, after a loss" if counters.replays else "right"
        except TilewiseError as error:
            if not any(words in str(error) for words in STATED):
                raise
            outcome = next(words for words in STATED if words in str(error))
        finally:
            killer.over.set()
            killer.join()
    totals.update(killer.kills)
    where = f"{on_loss}, {'a spare node' if spare else 'no spare node'}{', one comes later' if late else ''}"
    kills = ", ".join(f"{n} {what}" for what, n in killer.kills.items()) or "none"
    print(f"{seed:4} {steps} steps, {where}; killed: {kills}: {outcome} ({time.monotonic() - began:.1f} s)", flush=True)
    return outcome


def main() -> None:
    """Run cases; a wrong answer, another error or one that does not end stops the program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0, help="of the first case")
    args = parser.parse_args()
    warnings.simplefilter("ignore", PerformanceWarning)
    outcomes: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    with tw.config(eager_bytes=0, fallback="silent", objective="bytes"), short_waits():
        nodes = Nodes()
        try:
            for seed in range(args.seed, args.seed + args.cases):
                faulthandler.dump_traceback_later(DEADLINE, exit=True)
                outcomes[case(nodes, seed, totals)] += 1
        finally:
            faulthandler.cancel_dump_traceback_later()
            nodes.made.shutdown()
    print(f"{sum(outcomes.values())} cases, kills: {dict(totals)}; outcomes: {dict(outcomes)}", file=sys.stdout)
    if args.cases >= FEW and not (totals["workers"] and totals["nodes"]):
        sys.exit("nobody of a kind was killed: this has shown nothing")


if __name__ == "__main__":
    main()
