"""Objects of the program in results of workers: sent by name, not copied. In: a job. Out: bytes, and values again.

A forked worker has the objects that were there before the loop at the same addresses. Where a result holds one of
them (`found[i] = best_model`), the plain loop has that very object in it: so its address is sent, and the parent looks
it up. A view of such an array (`rows[i] = [x[i]]`) is sent as the place it shows, and is a view again: what other
iterations write there can be seen through it.
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
            queue.extend(() if value.base is None else (value.base,))
        elif not isinstance(value, type | types.FunctionType | types.ModuleType):
            queue.extend(getattr(value, "__dict__", {}).values())
    return found


class _Pickler(pickle.Pickler):
    def __init__(self, file: Any, outer: Objects) -> None:
        super().__init__(file, protocol=5)
        self.outer = outer

    def persistent_id(self, obj: Any) -> Any:
        """The address of an object that was there before, or of the array whose memory one shows, and where."""
        if id(obj) in self.outer and self.outer[id(obj)] is obj:
            return id(obj), None
        base = _shown(obj) if type(obj) is np.ndarray else None
        if base is None or id(self.outer.get(id(base))) != id(base):
            return None
        offset = obj.__array_interface__["data"][0] - base.__array_interface__["data"][0]
        return id(base), (obj.shape, obj.dtype, offset, obj.strides, obj.flags.writeable)


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: Any, outer: Objects) -> None:
        super().__init__(file)
        self.outer = outer

    def persistent_load(self, pid: tuple[int, Any]) -> Any:
        """The object itself, or a view of it."""
        key, view = pid
        found = self.outer[key]
        if view is None:
            return found
        shape, dtype, offset, strides, writeable = view
        made = np.ndarray(shape, dtype, found if found.flags.c_contiguous else found.T, offset, strides)
        made.flags.writeable = writeable
        return made


def _shown(view: Any) -> Any:
    """The array that owns the memory of a view, if a view can be made of it again; else None."""
    base = view.base
    if type(base) is not np.ndarray or not base.flags.forc or base.dtype.hasobject or view.dtype.hasobject:
        return None
    return base if view.size else None


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
