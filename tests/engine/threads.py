"""A cluster whose processes are threads: the real wire, hosts and driver, without Ray. Processes can be ended, and
places can be short."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Collection
from contextlib import suppress
from typing import Any

import numpy
import pytest

import tilewise as tw
from tilewise.engine import Options
from tilewise.engine.host import ServedHost
from tilewise.engine.network.links import Address
from tilewise.engine.network.wire import Wire
from tilewise.engine.process_cluster import WiredCluster
from tilewise.layout import Mesh

cloudpickle: Any = pytest.importorskip("ray.cloudpickle")


class Threads(WiredCluster):
    """`room`: how many processes there may be at once."""

    name = "threads"
    quiet_seconds = 0.2
    place_seconds = 0.3
    start_seconds = 0.5

    def __init__(self, mesh: Mesh, options: Options, room: int = 99) -> None:
        super().__init__(mesh, options.memory, options.on_loss, options.least)
        self.room = room
        self.wires: dict[int, Wire] = {}
        self.queue: list[int] = []
        self.open()

    def spawn(self, hosts: Collection[int]) -> None:
        """Those for which there is room start at once."""
        self.queue.extend(hosts)

    def places(self, hosts: Collection[int], seconds: float) -> dict[int, Address]:
        """Start what there is room for."""
        until = time.monotonic() + seconds
        while True:
            while self.queue and len(self.wires) < self.room:
                h = self.queue.pop(0)
                self.wires[h] = Wire(h, self.secret, "127.0.0.1")
                host = ServedHost((), self.mesh, self.memory, self.wires[h])
                threading.Thread(target=host.serve, args=(cloudpickle.dumps,), daemon=True).start()
            found = {h: self.wires[h].address for h in hosts if h in self.wires}
            if len(found) == len(hosts) or time.monotonic() > until:
                return found
            time.sleep(0.02)

    def alive(self, host: int) -> bool:
        """Whether it was not ended."""
        return host in self.wires

    def end(self, host: int) -> None:
        """Forget it; its thread ends with the driver's link."""
        self.wires.pop(host, None)
        if host in self.queue:
            self.queue.remove(host)
        self.lines.drop(host)

    def kill(self, host: int) -> None:
        """As the end of a process: all its connections close."""
        for link in list(self.wires[host].links.values()):
            with suppress(OSError):  # the other end may be gone, too
                link.sock.shutdown(socket.SHUT_RDWR)
        del self.wires[host]

    def pack(self, value: Any) -> Any:
        """Pickled."""
        return cloudpickle.dumps(value)


def process_of(cluster: Threads, worker: int) -> int:
    """The process that has a worker now."""
    return next(h for h, workers in cluster.hosts.items() if worker in workers)


def start() -> Any:
    """What `steps` begins with."""
    return numpy.arange(60.0).reshape(20, 3) % 7


def steps(x: Any, count: int) -> Any:
    """A loop with a halo and an all-reduce in each iteration, over ndarrays or Arrays."""
    for _ in range(count):
        x[1:-1] = 0.5 * (x[:-2] + x[2:])
        x = x - x.mean(0)
        if isinstance(x, tw.Array):
            tw.evaluate(x)
    return x
