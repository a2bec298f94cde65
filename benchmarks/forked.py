"""Workers as forked processes: the engine of benchmarks where there is no Ray. In: a mesh. Out: a Cluster.

Everything but placing processes is what a session on Ray has (tilewise/engine/process_cluster.py).
"""

from __future__ import annotations

import multiprocessing as mp
import pickle
from collections.abc import Collection
from typing import Any

from tilewise import engine, interrupts
from tilewise.backend import threads
from tilewise.engine.host import ServedHost
from tilewise.engine.network.links import Address
from tilewise.engine.network.wire import Wire
from tilewise.engine.process_cluster import WiredCluster
from tilewise.layout import Mesh

_fork = mp.get_context("fork")


class Forked(WiredCluster):
    """Open it before this process has threads of its own."""

    name = "forked"

    def __init__(self, mesh: Mesh, options: engine.Options) -> None:
        super().__init__(mesh, options.memory, options.on_loss)
        self.processes: dict[int, Any] = {}
        self.pipes: dict[int, Any] = {}
        self.open()

    def spawn(self, hosts: Collection[int]) -> None:
        """Fork."""
        for h in hosts:
            self.pipes[h], theirs = _fork.Pipe()
            self.processes[h] = _fork.Process(target=self._serve, args=(h, theirs), daemon=True)
            self.processes[h].start()

    def _serve(self, host: int, pipe: Any) -> None:
        interrupts.begin_anew()
        threads.set_threads(1)
        wire = Wire(host, self.secret, "127.0.0.1")
        pipe.send(wire.address)
        ServedHost((), self.mesh, self.memory, wire).serve(pickle.dumps)

    def places(self, hosts: Collection[int], seconds: float) -> dict[int, Address]:
        """All start."""
        return {h: self.pipes[h].recv() for h in hosts}

    def alive(self, host: int) -> bool:
        """Ask the system."""
        return bool(self.processes[host].is_alive())

    def end(self, host: int) -> None:
        """Kill it."""
        self.processes[host].kill()

    def pack(self, value: Any) -> bytes:
        """Pickled."""
        return pickle.dumps(value)


engine.register("forked", Forked)
