"""The virtual cluster: p workers in one process, each with blocks of its own. Everything but the wire is real."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewise.engine import Options
from tilewise.engine.cluster import Cluster
from tilewise.engine.worker import Failure, Worker
from tilewise.layout import Mesh


class Virtual(Cluster):
    """Workers as plain objects; a call runs at once."""

    name = "virtual"
    mortal = False

    def __init__(self, mesh: Mesh, memory: int | None = None) -> None:
        super().__init__(mesh, memory)
        self.restart()

    def call(self, worker: int, method: str, *args: Any, returns: int = 1) -> list[Any]:
        """Run a method of a worker."""
        got = getattr(self.workers[worker], method)(*args)
        return [got] if returns == 1 else [got[0], *map(_sent, got[1:])]

    def wait(self, futures: Sequence[Any]) -> list[Any]:
        """Results are there already."""
        return list(futures)

    def restart(self) -> None:
        """Fresh workers."""
        self.workers = [Worker(i, self.mesh, self.memory) for i in range(self.mesh.workers)]

    def close(self) -> None:
        """Forget all blocks."""
        super().close()
        self.workers = []


def open(mesh: Mesh, options: Options) -> Virtual:
    """The engine for a session."""
    return Virtual(mesh, options.memory)


def _sent(pieces: Any) -> Any:
    """What comes out at the other end of the wire: the sender may overwrite its blocks before it is read."""
    return pieces if isinstance(pieces, Failure) else [p.copy() for p in pieces]
