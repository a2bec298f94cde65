"""What runs plans: engines with workers, found by name (below), and the runner of one process (run.py).

An engine with workers is a Cluster (cluster.py) that says how to call a worker and how to wait. Its module has a
function `open(mesh, options)`; it is loaded when a session first asks for it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

from tilewise.layout import Mesh

LOCAL = "local"  # no workers: this process and its threads
MODULES = {"virtual": "tilewise.engine.virtual", "ray": "tilewise.engine.ray"}
ON_LOSS = ("shrink", "wait", "fail")  # when processes of workers are lost and there is no place for others


class Options(NamedTuple):
    """What a session was asked for besides the mesh; an engine takes what concerns it."""

    memory: int | None = None  # bytes that the blocks of a worker may take up
    address: str | None = None  # of a cluster that is there already
    threads: int | None = None  # per worker
    on_loss: str = "shrink"  # one of ON_LOSS
    least: int | None = None  # processes that must be there to begin with; None: one for each worker


Opener = Callable[[Mesh, Options], Any]  # gives a Cluster

_registered: dict[str, Opener] = {}


def names() -> tuple[str, ...]:
    """What `tw.session(engine=...)` takes."""
    return (LOCAL, *MODULES, *(name for name in _registered if name not in MODULES))


def open(name: str, mesh: Mesh, options: Options) -> Any:
    """A cluster of the engine of that name."""
    opener = _registered.get(name)
    if opener is None:
        opener = importlib.import_module(MODULES[name]).open
    return opener(mesh, options)


def register(name: str, opener: Opener) -> None:
    """Add an engine while a program runs (or put it in the place of another)."""
    assert name != LOCAL, "the local engine has no workers"
    _registered[name] = opener


def unregister(name: str) -> None:
    """Take out an engine that was registered."""
    del _registered[name]
