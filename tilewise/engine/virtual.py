"""The virtual cluster: p workers in one process, each with blocks of its own. Everything but the wire is real."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewise.engine import Options
from tilewise.engine.cluster import Cluster
from tilewise.engine.host import Host
from tilewise.engine.network.transport import Mailbox
from tilewise.layout import Mesh


class Virtual(Cluster):
    """One host of all workers, in this process; a call runs at once."""

    name = "virtual"
    mortal = False
    in_process = True

    def __init__(self, mesh: Mesh, memory: int | None = None) -> None:
        super().__init__(mesh, memory)
        self.hosts = {0: tuple(range(mesh.workers))}
        self.host = Host(self.hosts[0], mesh, memory, Mailbox())

    def call(self, host: int, method: str, *args: Any) -> Any:
        """Run a method of the host."""
        return self.host.answer(method, args)

    def tell(self, host: int, method: str, *args: Any) -> None:
        """Run a method of the host."""
        self.call(host, method, *args)

    def wait(self, futures: Sequence[Any]) -> list[Any]:
        """Results are there already."""
        return list(futures)

    def restart(self) -> None:
        """Fresh workers."""
        self.host.reset(self.hosts[0])

    def close(self) -> None:
        """Forget all blocks."""
        super().close()
        self.host.reset(())


def open(mesh: Mesh, options: Options) -> Virtual:
    """The engine for a session."""
    return Virtual(mesh, options.memory)
