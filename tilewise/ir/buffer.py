"""Memory of a device as a value. In: parts that only their backend looks into. Out: what a plan hands around.

Work that fills a buffer may still be under way: `ready` says when it has ended. Whoever looks into the parts waits
first; whoever only hands a buffer on does not.
"""

from __future__ import annotations

from typing import Any, Protocol

from tilewise.records import dataclass

HOST = "host"
DENSE, CSR = "dense", "csr"
PARTS = {DENSE: 1, CSR: 3}  # of CSR: where rows begin, columns, values


class Event(Protocol):
    """The end of some work. A failure of the work is raised by `wait`."""

    def wait(self) -> None:
        """Return when the work has ended."""

    def done(self) -> bool:
        """Whether it has ended."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """A value in the memory of a device: one part for dense data, three for CSR."""

    device: str
    format: str
    parts: tuple[Any, ...]
    ready: Event | None = None  # None: it is

    def __post_init__(self) -> None:
        if len(self.parts) != PARTS[self.format]:
            raise ValueError(f"{self.format} data has {PARTS[self.format]} parts, got {len(self.parts)}")

    def wait(self) -> tuple[Any, ...]:
        """The parts, once the work that fills them has ended."""
        if self.ready is not None:
            self.ready.wait()
        return self.parts
