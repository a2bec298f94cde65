"""What a loop of tiny steps costs three bare processes. In: options. Out: a table of ms per step.

    python -m benchmarks.bare_steps [--steps 1000] [--rounds 5]

A driver and two workers, forked, send each other the messages of benchmarks/steps.py and nothing else: for each step a
pickled tuple from the driver to both workers, 8 bytes both ways between these, a report of each; NumPy stands for the
kernels. Nothing is recorded, planned, looked up, counted or logged. No engine that sends such messages from Python is
faster. A halo and an all-reduce differ in their kernel; for `float(sum)` the driver waits for each step.
"""

from __future__ import annotations

import argparse
import os
import pickle
import select
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ELEMENTS = 5000  # of a worker
AHEAD = 32  # steps that the driver starts before it waits
REPORTS = 8  # that go at once
_SIZE = struct.Struct("<I")
START = (1, 77, 12, (101,), (("<f8", b"12345678"),), (102,), "native", (100,), False, ())
REPORT = (3, 77, (8, 0, 80_000))


class End:
    """One end of a connection: whole messages."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setblocking(False)
        self.sock, self.poll, self.got = sock, select.poll(), b""
        self.poll.register(sock, select.POLLIN)

    def give(self, message: Any, times: int = 1) -> None:
        """Send a message, perhaps several times."""
        raw = pickle.dumps(message, 5)
        self.sock.send((_SIZE.pack(len(raw)) + raw) * times)

    def take(self) -> Any:
        """Wait for a message."""
        while True:
            if len(self.got) >= 4:
                end = 4 + _SIZE.unpack_from(self.got)[0]
                if len(self.got) >= end:
                    raw, self.got = self.got[4:end], self.got[end:]
                    return pickle.loads(raw)
            self.poll.poll()
            part = self.sock.recv(1 << 14)
            if not part:
                raise SystemExit  # the driver is gone
            self.got += part

    @property
    def waits(self) -> bool:
        """Whether nothing more has come."""
        return not self.got and not self.poll.poll(0)


def pair() -> tuple[End, End]:
    """Two ends of a connection on loopback."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        return End(one), End(server.accept()[0])


def halo(x: Any, other: End) -> Any:
    """A neighbour's element, and the stencil."""
    other.give((0, (0, 1, 0, 77, 1), [("<f8", (1,), x[:1].tobytes())]))
    wide = np.empty(ELEMENTS + 2)
    wide[1:-1] = x
    wide[-1:] = np.frombuffer(other.take()[2][0][2])
    out = np.add(wide[:-2], wide[2:])
    out *= 0.5
    return out


def all_reduce(x: Any, other: End) -> Any:
    """The sum of both, and a pass with it."""
    part = np.add.reduce(x)
    other.give((0, (0, 1, 0, 77, 1), [("<f8", (), part.tobytes())]))
    mean = (part + np.frombuffer(other.take()[2][0][2])[0]) / (2 * ELEMENTS)
    return np.subtract(x, 0.5 * mean)


def worker(driver: End, other: End, step: Callable[[Any, End], Any]) -> None:
    """Steps until the driver is gone."""
    x, said = np.ones(ELEMENTS), 0
    while True:
        driver.take()
        x = step(x, other)
        said += 1
        if said == REPORTS or driver.waits:
            driver.give(REPORT, said)
            said = 0


def spent(pids: list[int]) -> float:
    """Processor time of processes in ms, as Linux counts it."""
    return sum(int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) for pid in pids) / 1e6


def measure(step: Callable[[Any, End], Any], ahead: int, steps: int, rounds: int) -> tuple[float, float]:
    """Ms per step by the clock, and of processors: the least of some rounds."""
    to_workers = [pair() for _ in range(2)]
    between = pair()
    children = []
    for k in range(2):
        pid = os.fork()
        if not pid:
            try:
                for mine, _ in to_workers:
                    mine.sock.close()
                worker(to_workers[k][1], between[k], step)
            finally:
                os._exit(0)
        children.append(pid)
    ends = [mine for mine, _ in to_workers]
    for _, theirs in to_workers:
        theirs.sock.close()
    least = busy = float("inf")
    for _ in range(rounds):
        used, began, under_way = spent([os.getpid(), *children]), time.perf_counter(), 0
        for _ in range(steps):
            for end in ends:
                end.give(START)
            under_way += 1
            if under_way > ahead:
                for _ in range(max(1, ahead // 2)):
                    for end in ends:
                        end.take()
                    under_way -= 1
        for _ in range(under_way):
            for end in ends:
                end.take()
        least = min(least, (time.perf_counter() - began) / steps * 1e3)
        busy = min(busy, (spent([os.getpid(), *children]) - used) / steps)
    for end in ends:
        end.sock.close()
    for pid in children:
        os.waitpid(pid, 0)
    return least, busy


def main() -> None:
    """Print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print(f"{'ms per step':<16}{'clock':>8}{'processors':>12}")
    for name, step, ahead in (("halo", halo, AHEAD), ("all-reduce", all_reduce, AHEAD), ("float(sum)", all_reduce, 0)):
        clock, processors = measure(step, ahead, options.steps, options.rounds)
        print(f"{name:<16}{clock:>8.3f}{processors:>12.3f}")


if __name__ == "__main__":
    main()
