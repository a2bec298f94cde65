"""Checkpoints: work that is not lost. In: Arrays, a loop and its state. Out: the same, kept on disk on the way.

The format is store/checkpoint.py's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from itertools import islice
from typing import Any

import numpy as np

from tilewise.api.create import asarray
from tilewise.array import record as rec
from tilewise.array.cell import LOCK
from tilewise.array.handle import Array, from_buffer, from_source, source_leaves
from tilewise.array.session import current_session
from tilewise.array.storing import write
from tilewise.engine.remote import Remote
from tilewise.errors import ConfigError, StoreError, message
from tilewise.ir.order import by_strides
from tilewise.store import checkpoint as disk
from tilewise.store import files
from tilewise.store.base import Source
from tilewise.store.checkpoint_interval import DEFAULT, Due

DONE = "iterations done"  # in a manifest: how far a loop is


def checkpoint(x: Any, path: Any) -> Any:
    """Keep an array (or a dict, list or tuple of them) on disk, and go on with the copy: what led to it is forgotten.

    The folder `path` holds one checkpoint: a new one takes the place of the old in one step, when all of it is on the
    disk. `tw.open(path)` has the arrays again.

    >>> import tilewise as tw, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "kept")
    >>> x = tw.checkpoint(tw.arange(3) + 1, path)
    >>> x, tw.open(path)
    (Array([1, 2, 3]), Array([1, 2, 3]))
    """
    named = _named(x)
    kept = save_state(path, named, {})
    if isinstance(x, Mapping):
        return {k: kept[k] for k in x}
    if isinstance(x, list | tuple):
        return type(x)(kept.values())
    return kept["0"]


def _named(x: Any) -> dict[str, Any]:
    if isinstance(x, Mapping):
        return {str(k): v for k, v in x.items()}
    return {str(k): v for k, v in enumerate(x if isinstance(x, list | tuple) else [x])}


def open_checkpoint(path: Any, name: str | None = None) -> Any:
    """The arrays of a checkpoint: one by itself, several by name."""
    folder = files.full_path(path)
    found = disk.read_manifest(folder)
    assert found is not None
    arrays = {k: from_source(disk.BlockSource(b)) for k, b in found.arrays.items()}
    if name is None:
        return arrays["0"] if list(arrays) == ["0"] else arrays
    if name not in arrays:
        raise StoreError(message(f"{folder} has no array {name!r}", cure=f"It has {', '.join(arrays)}"))
    return arrays[name]


def save_state(path: Any, arrays: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Write a checkpoint. Gives the arrays; those that workers hold can be read from it if workers are lost."""
    folder = disk.make_folder(path)
    sources: dict[str, disk.BlockSource] = {}
    kept: dict[str, Any] = {}
    try:
        for k, (name, given) in enumerate(arrays.items()):
            x = given if type(given) is Array else asarray(given)
            order = by_strides(x.shape, x.strides)
            sink = disk.BlockSink(folder, f"array{k}", x.shape, x.dtype, order)
            sources[name] = disk.BlockSource(sink.blocks)
            write(x, sink)
            kept[name] = given
        disk.write_manifest(folder, disk.Manifest({k: s.blocks for k, s in sources.items()}, dict(values)))
    except BaseException:
        for source in sources.values():
            files.remove(source.blocks.path)
        raise
    for name, given in kept.items():
        if type(given) is Array:
            _cut_lineage(given, sources[name])
    disk.remove_others(folder, {s.blocks.path for s in sources.values()} | _still_read(folder))
    return kept


def _cut_lineage(x: Array, source: Source) -> None:
    """An array that workers hold becomes one that they read again if they have to: plans before it are forgotten."""
    with LOCK:
        cell = x._cell
        if cell.node is not None and isinstance(cell.node.value, Remote) and cell.node.shape == source.shape:
            cell.place(from_source(source)._cell.read())


def _still_read(folder: str) -> set[str]:
    """Files of a checkpoint that arrays, or plans that workers may have to run again, still read."""
    session = current_session()
    cluster = None if session is None else session.cluster
    log, saved = ((), None) if cluster is None else (cluster.log, cluster.saved)
    sources = [n.value for n in source_leaves()] + [x for entry in log for x in entry.leaves]
    read = {s.blocks.path for s in sources if isinstance(s, disk.BlockSource) and s.reads(folder)}
    return read if saved is None else read | saved.paths()


# -- loops ------------------------------------------------------------------------------------------------------------


def resumable(
    iterable: Iterable[Any], state: MutableMapping[str, Any], path: Any = None, every: Any = None
) -> Iterator[Any]:
    """Iterate, and keep the state on disk on the way: a program that is started again goes on where it was.

    `state` is a dict of all that an iteration leaves for the next: arrays, numbers, text, random generators. The loop
    reads and writes it; whatever else it uses must be the same in every run. After an iteration, if `every` says so
    ("30s", the default, or a number of iterations), the state is written to the folder `path`; at the end in any case.
    When the program is started again and the folder is there, `state` is what was written last, and the iterations
    before are left out. Without a path both are those of `tw.session(checkpoint=path, every=...)`.

    >>> import tilewise as tw, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "kept")
    >>> def program(stop):
    ...     state = {"x": tw.zeros(2)}
    ...     for i in tw.resumable(range(5), state, path, every=1):
    ...         if i == stop:
    ...             break  # or a crash
    ...         state["x"] = state["x"] + i
    ...     return state["x"]
    >>> program(stop=3)
    Array([3., 3.])
    >>> program(stop=None)  # goes on with i = 3
    Array([10., 10.])
    """
    session = current_session()
    if path is None and session is not None:
        path, every = session.checkpoint, session.every if every is None else every
    if path is None:
        raise ConfigError(
            message("resumable needs a folder", cure="Pass path=, or run it in tw.session(checkpoint=path)")
        )
    due = Due(DEFAULT if every is None else every)
    done = _restore(path, state)
    for item in islice(iterable, done, None):
        yield item
        done += 1
        if due.now():
            _keep(path, state, done)
            due.again()
    if due.since:
        _keep(path, state, done)


def _keep(path: Any, state: MutableMapping[str, Any], done: int) -> None:
    """Write the state after so many iterations."""
    arrays: dict[str, Any] = {}
    values: dict[str, Any] = {}
    for name, value in state.items():
        if not isinstance(name, str):
            raise StoreError(message("names in the state of a loop are text", got=repr(name)))
        if type(value) is Array or isinstance(value, np.ndarray | np.generic):
            arrays[name] = value
            values[name] = "array" if type(value) is Array else "ndarray" if isinstance(value, np.ndarray) else "scalar"
        elif isinstance(value, np.random.Generator):
            values[name] = {"generator": _plain(value.bit_generator.state)}
        else:
            values[name] = {"value": _checked(name, rec.unwrap(value))}
    save_state(path, arrays, {DONE: done, "state": values})


def _plain(value: Any) -> Any:
    """A generator's state as JSON has it."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        return {"dtype": value.dtype.str, "list": value.tolist()}
    return value.item() if isinstance(value, np.generic) else value


def _unplain(value: Any) -> Any:
    if isinstance(value, dict):
        if value.keys() == {"dtype", "list"}:
            return np.array(value["list"], value["dtype"])
        return {k: _unplain(v) for k, v in value.items()}
    return value


def _checked(name: str, value: Any) -> Any:
    """A value, if JSON gives it back as it was."""
    try:
        if json.loads(json.dumps(value)) == value or value != value:
            return value
    except (TypeError, ValueError):
        pass
    raise StoreError(
        message(
            f"{name!r} in the state of a loop cannot be kept on disk",
            got=f"a {type(value).__name__}",
            cure="Keep arrays, numbers, text, lists of these, or random generators there",
        )
    )


def _restore(path: Any, state: MutableMapping[str, Any]) -> int:
    """Put what was written last into the state; how many iterations were done (0: there is nothing yet)."""
    folder = files.full_path(path)
    found = disk.read_manifest(folder)
    if found is None:
        disk.make_folder(path)
        return 0
    if DONE not in found.values:
        raise StoreError(message(f"{folder} is a checkpoint of arrays, not of a loop", cure="Choose another folder"))
    kinds = found.values["state"]
    if kinds.keys() != state.keys():
        raise StoreError(
            message(
                f"{folder} was written by a loop with another state, {sorted(kinds)}",
                got=str(sorted(state)),
                cure="Remove the folder to begin anew, or choose another",
            )
        )
    made: dict[str, Any] = {}
    for name, kind in kinds.items():
        if kind in ("array", "ndarray", "scalar"):
            whole = disk.BlockSource(found.arrays[name]).whole()
            made[name] = from_buffer(whole) if kind == "array" else whole if kind == "ndarray" else whole[()]
        elif "generator" in kind:
            made[name] = _drawing_on(state[name], kind["generator"], folder)
        else:
            made[name] = kind["value"]
    state.update(made)
    done: int = found.values[DONE]
    return done


def _drawing_on(generator: Any, saved: Any, folder: str) -> Any:
    """The generator that a program begins with, at the place where it was."""
    try:
        generator.bit_generator.state = _unplain(saved)
    except (AttributeError, ValueError, TypeError) as error:
        raise StoreError(message(f"{folder} was written with another random generator", got=str(error))) from None
    return generator
