"""How two processes can swap arrays each step: sockets, pipes, shared memory, Ray. In: options. Out: a table and JSON.

    python -m benchmarks.transport [--steps 200] [--without-ray] [--output benchmarks/results/transport.json]

Each step is a halo: both sides give an array and take one of the same size. "wire" is what the engine on Ray uses
(tilewise/engine/network/wire.py), with its tags and headers, large arrays in shared memory; the others are
bare. Times are medians of steps, in ms.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing as mp
import os
import platform
import select
import socket
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from tilewise.engine.network.transport import Tag
from tilewise.engine.network.wire import Wire

RESULTS = Path(__file__).resolve().parent / "results" / "transport.json"
SIZES = (8, 80_000, 800_000, 8_000_000)  # bytes that each side gives
WARM = 5
Step = Callable[[Any, Any], None]  # an array to give, an array to fill


def over_socket(sock: socket.socket) -> Step:
    """Give and take at once: neither side waits until the other has read."""
    sock.setblocking(False)
    poll = select.poll()

    def step(give: Any, take: Any) -> None:
        out, into = memoryview(give).cast("B"), memoryview(take).cast("B")
        while out or into:
            try:
                while out:
                    out = out[sock.send(out) :]
            except BlockingIOError:
                pass
            try:
                while into:
                    into = into[sock.recv_into(into) :]
            except BlockingIOError:
                poll.register(sock, select.POLLIN | (select.POLLOUT if out else 0))
                poll.poll()

    return step


def tcp(rank: int, pipe: Connection) -> Step:
    """A TCP connection on loopback."""
    if rank == 0:
        with socket.create_server(("127.0.0.1", 0)) as server:
            pipe.send(server.getsockname())
            sock, _ = server.accept()
    else:
        sock = socket.create_connection(pipe.recv())
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return over_socket(sock)


def unix(rank: int, pipe: Connection) -> Step:
    """A Unix socket."""
    path = f"\0tilewise-{os.getppid()}"
    sock = socket.socket(socket.AF_UNIX)
    if rank == 0:
        sock.bind(path)
        sock.listen()
        pipe.send(path)
        sock, _ = sock.accept()
    else:
        sock.connect(pipe.recv())
    return over_socket(sock)


def pipes(rank: int, pipe: Connection) -> Step:
    """multiprocessing.connection: one side gives first, as neither reads while it gives."""

    def step(give: Any, take: Any) -> None:
        if rank:
            pipe.recv_bytes_into(take)
            pipe.send_bytes(give)
        else:
            pipe.send_bytes(give)
            pipe.recv_bytes_into(take)

    return step


def shared(rank: int, pipe: Connection) -> Step:
    """Shared memory, and one byte over a socket to say that it is full."""
    mine = SharedMemory(create=True, size=2 * max(SIZES))
    pipe.send(mine.name)
    theirs = SharedMemory(pipe.recv())
    signal = over_socket(socket.socket(fileno=os.dup(pipe.fileno())))
    byte, half = (np.zeros(1, np.uint8), np.zeros(1, np.uint8)), [0]

    def step(give: Any, take: Any) -> None:
        at = half[0] = max(SIZES) - half[0]  # by turns: the other may still read what was given in the last step
        np.frombuffer(mine.buf, np.uint8, give.nbytes, at)[:] = give
        signal(*byte)
        take[:] = np.frombuffer(theirs.buf, np.uint8, take.nbytes, at)

    return step


def zeromq(rank: int, pipe: Connection) -> Step:
    """ZeroMQ, frames not copied."""
    import zmq  # optional

    sock = zmq.Context().socket(zmq.PAIR)
    if rank == 0:
        pipe.send(sock.bind_to_random_port("tcp://127.0.0.1"))
    else:
        sock.connect(f"tcp://127.0.0.1:{pipe.recv()}")

    def step(give: Any, take: Any) -> None:
        sock.send(give, copy=False)
        take[:] = np.frombuffer(sock.recv(copy=False).buffer, np.uint8)

    return step


def wire(rank: int, pipe: Connection) -> Step:
    """The engine's own."""
    ours = Wire(rank, b"benchmark", "127.0.0.1")
    pipe.send(ours.address)
    ours.meet(0, {rank: ours.address, 1 - rank: pipe.recv()}, [0, 1])
    count = [0]

    def step(give: Any, take: Any) -> None:
        tag = Tag(0, count[0], 0)
        ours.send(rank, 1 - rank, tag, [give])
        take[:] = ours.receive(1 - rank, rank, tag)[0]
        count[0] += 1

    return step


WAYS = {
    "wire": wire,
    "tcp": tcp,
    "unix": unix,
    "pipe": pipes,
    "shared memory": shared,
    "zeromq": zeromq,
}


def run(way: str, rank: int, pipe: Connection, steps: int, answer: Any) -> None:
    """One side."""
    step = WAYS[way](rank, pipe)
    found = []
    for size in SIZES:
        give, take = np.full(size, rank, np.uint8), np.empty(size, np.uint8)
        seconds = []
        for _ in range(WARM + (steps if size < max(SIZES) else steps // 4)):
            began = time.perf_counter()
            step(give, take)
            seconds.append(time.perf_counter() - began)
        assert (take == 1 - rank).all()
        found.append(median(seconds[WARM:]) * 1e3)
    answer.put(found)
    pipe.close()


def measure(way: str, steps: int) -> list[float] | None:
    """Milliseconds by size; None if it is not installed."""
    if way == "zeromq":
        try:
            import zmq  # noqa: F401
        except ImportError:
            return None
    context = mp.get_context("fork")
    ends, answer = context.Pipe(), context.Queue()
    sides = [context.Process(target=run, args=(way, r, ends[r], steps, answer)) for r in range(2)]
    for side in sides:
        side.start()
    found = [answer.get(timeout=120) for _ in sides]
    for side in sides:
        side.join()
    return [max(both) for both in zip(*found, strict=True)]


def measure_ray(steps: int) -> dict[str, list[float]]:
    """Two actors: one calls the other, or the driver hands futures on, or it waits for each step."""
    from tilewise.engine import ray as door  # Ray is optional

    ray: Any = door.ray

    class Side:
        def give(self, data: Any) -> Any:
            return data

        def swap(self, other: Any, size: int, steps: int) -> float:
            data, seconds = np.zeros(size, np.uint8), []
            for _ in range(WARM + steps):
                began = time.perf_counter()
                ray.get(other.give.remote(data))
                seconds.append(time.perf_counter() - began)
            return median(seconds[WARM:]) * 1e3

    connection = door.start()
    try:
        sides = [ray.remote(num_cpus=0)(Side).remote() for _ in range(2)]
        found: dict[str, list[float]] = {"ray: actor to actor": [], "ray: futures ahead": [], "ray: driver waits": []}
        for size in SIZES:
            count = steps // 4 if size < max(SIZES) else 10
            found["ray: actor to actor"].append(ray.get(sides[0].swap.remote(sides[1], size, count)))
            for name in ("ray: futures ahead", "ray: driver waits"):
                data = ray.put(np.zeros(size, np.uint8))
                pieces = ray.get([s.give.remote(data) for s in sides]) and [data, data]
                began = time.perf_counter()
                for _ in range(count):
                    pieces = [sides[0].give.remote(pieces[1]), sides[1].give.remote(pieces[0])]
                    if name == "ray: driver waits":
                        ray.wait(pieces, num_returns=2, fetch_local=False)
                ray.wait(pieces, num_returns=2, fetch_local=False)
                found[name].append((time.perf_counter() - began) / count * 1e3)
    finally:
        connection.end()
    return found


def main() -> int:
    """Print and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--without-ray", action="store_true")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    rows: dict[str, list[float]] = {}
    for way in WAYS:
        found = measure(way, options.steps)
        if found is not None:
            rows[way] = found
    if not options.without_ray:
        rows.update(measure_ray(options.steps))
    print(f"{'ms per step':<22}" + "".join(f"{size:>12,}" for size in SIZES) + "  bytes each way")
    for name, ms in rows.items():
        print(f"{name:<22}" + "".join(f"{x:>12.3f}" for x in ms))
    machine = {"python": platform.python_version(), "cpus": os.cpu_count(), "system": platform.platform()}
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps({"machine": machine, "bytes": SIZES, "ms": rows}, indent=1) + "\n")
    print(f"written: {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
