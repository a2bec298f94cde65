"""The options of a parfor, checked. In: keywords. Out: `Options`.

What the user gives is kept, the rest is chosen later.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from tilewise.config import parse_bytes
from tilewise.errors import ParforError, message
from tilewise.parfor.partition import PARTITIONERS
from tilewise.records import dataclass

MODES = ("threads", "processes", "cluster", "mesh")
MERGES = ("memory", "file", "cluster")
SIZED = ("fixed", "factoring_cmin", "factoring_cmax")


@dataclass(frozen=True)
class Options:
    """None: chosen when the loop runs."""

    check: bool = True
    workers: int | None = None
    mode: str | None = None
    tasks: int | None = None
    task_size: int | None = None
    partition: str | None = None
    merge: str | None = None
    memory: int | None = None
    rng: Any = None


def checked(given: dict[str, Any]) -> Options:
    """Options of a loop; raises for what does not exist, with what does.

    >>> checked({"workers": 3}).workers
    3
    >>> checked({"worker": 3})
    Traceback (most recent call last):
    tilewise.errors.ParforError: parfor has no option 'worker'. Use one of check, memory, ...
    """
    names = sorted(f.name for f in fields(Options))
    for name in given:
        if name not in names:
            raise ParforError(message(f"parfor has no option {name!r}", cure=f"Use one of {', '.join(names)}"))
    if given.get("memory") is not None:
        given = {**given, "memory": _bytes(given["memory"])}
    options = Options(**given)
    if not isinstance(options.check, bool | np.bool_):
        raise ParforError(message("check is True or False", got=repr(options.check)))
    for name in ("workers", "tasks", "task_size"):
        value = getattr(options, name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1):
            raise ParforError(message(f"{name} is a whole number of at least 1", got=repr(value)))
    for name, allowed in (("mode", MODES), ("merge", MERGES), ("partition", tuple(PARTITIONERS))):
        value = getattr(options, name)
        if value is not None and value not in allowed:
            raise ParforError(message(f"{name} is one of {', '.join(allowed)}", got=repr(value)))
    if options.merge == "cluster" and options.mode not in (None, "cluster"):
        raise ParforError(
            message(
                "results are merged on the cluster where the loop runs there",
                got=f"mode={options.mode!r}",
                cure='Use mode="cluster", or merge="file"',
            )
        )
    _sizes(options)
    if options.rng is not None and not isinstance(options.rng, np.random.Generator):
        raise ParforError(
            message(
                "rng is a generator that streams can be spawned from",
                got=type(options.rng).__name__,
                cure="Use np.random.default_rng(seed)",
            )
        )
    return options


def _bytes(memory: Any) -> int:
    try:
        return parse_bytes(memory)
    except (TypeError, ValueError):
        raise ParforError(
            message("memory is a number of bytes", got=repr(memory), cure='Write memory="2GiB"')
        ) from None


def _sizes(options: Options) -> None:
    if options.tasks is not None and (options.task_size is not None or options.partition is not None):
        raise ParforError(
            message(
                "tasks, the number of equal tasks, stands without partition and task_size", cure="Leave the others out"
            )
        )
    if options.task_size is not None and options.partition is not None and options.partition not in SIZED:
        raise ParforError(
            message(
                f"partition={options.partition!r} has no size of tasks",
                got=f"task_size={options.task_size}",
                cure=f"Use one of {', '.join(SIZED)}",
            )
        )
