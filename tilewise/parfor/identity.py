"""Objects of the program in results of workers: sent by name, not copied. In: a job. Out: bytes, and values again.

A forked worker has the objects that were there before the loop at the same addresses. Where a result holds one of
them (`found[i] = best_model`), the plain loop has that very object in it: so its address is sent, and the parent looks
it up. A view of such an array (`rows[i] = x[i]`) is sent as the place that it shows, and is a view again. Of arrays
that the loop made, those that share memory (`a[i] = t; b[i] = t[1:]`) still do.
"""

from __future__ import annotations

import io
import pickle
import struct
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tilewise.parfor.job import MISSING, Job
from tilewise.parfor.merge import Changes
from tilewise.parfor.plan.values import root_of

Array = np.ndarray[Any, Any]
MOST_OBJECTS = 100_000  # that are looked at before a loop
_PLAIN = (int, float, complex, str, bytes, bool, type(None), range, np.generic, types.ModuleType)
_ARRAYS = (np.ndarray, np.matrix, np.recarray, np.memmap)  # classes whose views are made by `view`
_HEAD = struct.Struct("<q")  # where the arrays begin

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
            queue.append(root_of(value))
        elif isinstance(value, types.FunctionType):
            queue.extend(_of_function(value))
        elif isinstance(value, types.MethodType):
            queue.extend((value.__self__, value.__func__))
        elif not isinstance(value, type):
            queue.extend(getattr(value, "__dict__", {}).values())
    return found


def _of_function(function: types.FunctionType) -> Iterator[Any]:
    """What a function of the program may return: what its names stand for. Libraries have objects of their own."""
    if (function.__module__ or "").split(".")[0] in sys.stdlib_module_names | {"numpy", "scipy", "tilewise"}:
        return
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # a name that has no value yet
            continue
    codes = [function.__code__]
    for code in codes:
        codes += [c for c in code.co_consts if isinstance(c, types.CodeType)]
        yield from (function.__globals__[n] for n in code.co_names if n in function.__globals__)


def _place(view: Array, root: Array) -> tuple[Any, ...]:
    """Where a view lies in the memory of an array, and what it is like."""
    offset = view.__array_interface__["data"][0] - root.__array_interface__["data"][0]
    return type(view), view.shape, view.dtype, offset, view.strides, view.flags.writeable


def _shows(view: Array, root: Array) -> bool:
    """Whether a view can be made again by its place."""
    same = view.dtype == root.dtype if root.dtype.hasobject else not view.dtype.hasobject
    return bool(view.size and root.flags.forc and same and type(view) in _ARRAYS and view is not root)


def _view(root: Array, place: tuple[Any, ...]) -> Array:
    """The view at a place."""
    kind, shape, dtype, offset, strides, writeable = place
    flat = np.asarray(root).reshape(-1, order="A")
    if dtype.hasobject:
        made = np.lib.stride_tricks.as_strided(flat[offset // dtype.itemsize :], shape, strides)
    else:
        made = np.ndarray(shape, dtype, flat.view(np.uint8), offset, strides)
    if not writeable:
        made.flags.writeable = False
    return made if kind is np.ndarray else made.view(kind)


class _Pickler(pickle.Pickler):
    def __init__(self, file: Any, outer: Objects) -> None:
        super().__init__(file, protocol=5)
        self.outer = outer
        self.arrays: dict[int, Array] = {}  # that the loop made, by address
        self.views: dict[int, Array] = {}  # of arrays that were there before, by address: kept, so that it stays theirs
        self.data: set[int] = set()  # arrays whose elements are sent, whatever they show

    def persistent_id(self, obj: Any) -> Any:
        """The address of an object that was there before, and the place in it that a view shows; or an array's own."""
        if self.outer.get(id(obj), self) is obj:
            return "object", id(obj), None, 0
        if isinstance(obj, Changes):
            self.data |= {id(obj.values), id(obj.cells)}
        if not isinstance(obj, np.ndarray) or id(obj) in self.data:
            return None
        root = root_of(obj)
        if self.outer.get(id(root), self) is root and _shows(obj, root):
            self.views[id(obj)] = obj
            return "object", id(root), _place(obj, root), id(obj)
        if type(obj) not in _ARRAYS or obj.dtype.hasobject:
            return None
        self.arrays[id(obj)] = obj
        return "array", id(obj), None, 0

    def made(self) -> dict[int, tuple[Array, Any]]:
        """Arrays that the loop made: what to send, and the place in it. Where several show one memory, all of it."""
        users: dict[int, int] = {}
        for array in self.arrays.values():
            users[id(root_of(array))] = users.get(id(root_of(array)), 0) + 1
        found = {}
        for key, array in self.arrays.items():
            root = root_of(array)
            shared = users[id(root)] > 1 and _shows(array, root)
            found[key] = (root, _place(array, root)) if shared else (array, None)
        return found


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: Any, outer: Objects, made: Objects) -> None:
        super().__init__(file)
        self.outer, self.made = outer, made
        self.views: dict[int, Array] = {}

    def persistent_load(self, pid: tuple[str, int, Any, int]) -> Any:
        """The object itself, or a view of it: the same one wherever the worker had the same one."""
        kind, key, place, view = pid
        found = self.outer[key] if kind == "object" else self.made[key]
        if place is None:
            return found
        if view not in self.views:
            self.views[view] = _view(found, place)
        return self.views[view]


def packed(value: Any, outer: Objects) -> bytes:
    """A value as bytes.

    >>> shared = [1, 2]
    >>> outer = {id(shared): shared}
    >>> unpacked(packed({"a": shared}, outer), outer)["a"] is shared
    True
    """
    file = io.BytesIO()
    file.write(_HEAD.pack(0))
    pickler = _Pickler(file, outer)
    pickler.dump(value)
    begin = file.tell()
    pickle.dump(pickler.made(), file, protocol=5)
    file.seek(0)
    file.write(_HEAD.pack(begin))
    return file.getvalue()


def unpacked(data: bytes, outer: Objects) -> Any:
    """The value again."""
    (begin,) = _HEAD.unpack_from(data)
    file = io.BytesIO(data)
    file.seek(begin)
    arrays = pickle.load(file)
    made = {key: array if place is None else _view(array, place) for key, (array, place) in arrays.items()}
    file.seek(_HEAD.size)
    return _Unpickler(file, outer, made).load()
