"""The virtual cluster: p workers in one process, each with blocks of its own. Everything but the wire is real."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewise.engine.cluster import Cluster
from tilewise.engine.worker import Worker
from tilewise.layout import Mesh


class Virtual(Cluster):
    """Workers as plain objects; a call runs at once."""

    name = "virtual"

    def __init__(self, mesh: Mesh) -> None:
        super().__init__(mesh)
        self.workers = [Worker(i, mesh) for i in range(mesh.workers)]

    def call(self, worker: int, method: str, *args: Any, returns: int = 1) -> Any:
        """Run a method of a worker."""
        return getattr(self.workers[worker], method)(*args)

    def wait(self, futures: Sequence[Any]) -> list[Any]:
        """Results are there already."""
        return list(futures)

    def restart(self) -> None:
        """Fresh workers."""
        self.workers = [Worker(i, self.mesh) for i in range(self.mesh.workers)]

    def close(self) -> None:
        """Forget all blocks."""
        super().close()
        self.workers = []
