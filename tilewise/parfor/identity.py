"""Objects of the program in results of workers: sent by name, not copied. In: a job. Out: bytes, and values again.

A forked worker has the objects that were there before the loop at the same addresses. Where a result holds one of
them (`found[i] = best_model`), the plain loop has that very object in it: so its address is sent, and the parent looks
it up.
"""

from __future__ import annotations

import io
import pickle
import types
from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewise.parfor.job import MISSING, Job

MOST_OBJECTS = 100_000  # that are looked at before a loop
_PLAIN = (int, float, complex, str, bytes, bool, type(None), range, np.generic, types.ModuleType)

Objects = Mapping[int, Any]


def outer_objects(job: Job) -> dict[int, Any]:
    """What the names of a loop stand for, and what is in it, by address."""
    code = getattr(job.body, "__code__", None)
    space = getattr(job.body, "__globals__", {})
    queue = [v for v in job.names.values() if v is not MISSING]
    queue += [space[n] for n in (code.co_names if code is not None else ()) if n in space]
    queue.append(job.elements)
    found: dict[int, Any] = {}
    while queue and len(found) < MOST_OBJECTS:
        value = queue.pop()
        if isinstance(value, _PLAIN) or id(value) in found:
            continue
        found[id(value)] = value
        if isinstance(value, list | tuple | set | frozenset):
            queue.extend(value)
        elif isinstance(value, dict):
            queue.extend(value.values())
        elif isinstance(value, np.ndarray):
            queue.extend(value.ravel().tolist() if value.dtype.hasobject else ())
        elif not isinstance(value, type | types.FunctionType | types.ModuleType):
            queue.extend(getattr(value, "__dict__", {}).values())
    return found


class _Pickler(pickle.Pickler):
    def __init__(self, file: Any, outer: Objects) -> None:
        super().__init__(file, protocol=5)
        self.outer = outer

    def persistent_id(self, obj: Any) -> int | None:
        """The address of an object that was there before."""
        return id(obj) if id(obj) in self.outer and self.outer[id(obj)] is obj else None


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: Any, outer: Objects) -> None:
        super().__init__(file)
        self.outer = outer

    def persistent_load(self, pid: int) -> Any:
        """The object itself."""
        return self.outer[pid]


def packed(value: Any, outer: Objects) -> bytes:
    """A value as bytes.

    >>> shared = [1, 2]
    >>> outer = {id(shared): shared}
    >>> unpacked(packed({"a": shared}, outer), outer)["a"] is shared
    True
    """
    file = io.BytesIO()
    _Pickler(file, outer).dump(value)
    return file.getvalue()


def unpacked(data: bytes, outer: Objects) -> Any:
    """The value again."""
    return _Unpickler(io.BytesIO(data), outer).load()
