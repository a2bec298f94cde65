"""How a job travels to workers. In: a job. Out: bytes, and the arrays that they refer to, each once.

The body and all functions of the user's are sent by value: a worker need not have their files, and sees the values
that global names have now. Arrays are left out of the bytes: what owns memory is sent once, and views are made again
there, so that names that share memory still do. What cannot be sent is found before anything runs.
"""

from __future__ import annotations

import io
import pickle
import sys
import sysconfig
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tilewise.engine.ray_tasks import cloudpickle
from tilewise.errors import ParforError, message
from tilewise.parfor.job import Job, unseen
from tilewise.parfor.plan.values import root_of

Array = np.ndarray[Any, Any]
LIBRARIES = tuple(filter(None, (sysconfig.get_path(n) for n in ("stdlib", "platstdlib", "purelib", "platlib"))))


class Packed:
    """Bytes, and the arrays that they refer to by number."""

    def __init__(self, data: bytes, roots: list[Array]) -> None:
        self.data = data
        self.roots = roots


_Pickler: Any = cloudpickle.Pickler


class _Packer(_Pickler):  # type: ignore[misc]
    """Leaves arrays out."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=5)
        self.roots: list[Array] = []
        self.numbers: dict[int, int] = {}

    def persistent_id(self, thing: Any) -> Any:
        """Where an array lies in what owns its memory."""
        if not isinstance(thing, np.ndarray) or type(thing) not in (np.ndarray, np.memmap) or thing.dtype.hasobject:
            return None
        root = root_of(thing)
        if not (root.flags.c_contiguous or root.flags.f_contiguous) or type(root) not in (np.ndarray, np.memmap):
            root = thing = np.array(thing)
        if id(root) not in self.numbers:
            self.numbers[id(root)] = len(self.roots)
            self.roots.append(root)
        number = self.numbers[id(root)]
        if thing is root:
            return number, None
        offset = thing.__array_interface__["data"][0] - root.__array_interface__["data"][0]
        return number, (offset, thing.shape, thing.strides, thing.dtype)


class _Unpacker(pickle.Unpickler):
    def __init__(self, data: bytes, roots: list[Array]) -> None:
        super().__init__(io.BytesIO(data))
        self.roots = roots

    def persistent_load(self, place: Any) -> Any:
        number, view = place
        root = self.roots[number]
        if view is None:
            return root
        offset, shape, strides, dtype = view
        memory = root.reshape(-1, order="A").view(np.uint8)
        return np.ndarray(shape, dtype, memory.data, offset, strides) if root.size else np.empty(shape, dtype)


def packed(job: Job) -> Packed:
    """The job without its arrays; raises if something of it cannot be sent."""
    kept, names = job.names, dict(job.names)
    for pattern in job.inputs:
        names[pattern.name] = None  # parts of it come with the tasks
    job.names = names
    inputs, count, progress = job.inputs, job.count, job.progress
    job.inputs, job.count, job.progress = (), Job.count, unseen
    try:
        with _by_value():
            return _packed(job)
    except (ParforError, KeyboardInterrupt):
        raise
    except Exception as error:
        raise ParforError(
            message(
                f"{_culprit(job)} of the parfor at {job.where} cannot be sent to workers ({_first_line(error)})",
                cure='Use mode="processes", whose workers have it without being sent, or make it inside of the loop',
            )
        ) from error
    finally:
        job.names, job.inputs, job.count, job.progress = kept, inputs, count, progress


def _packed(thing: Any) -> Packed:
    file = io.BytesIO()
    packer = _Packer(file)
    packer.dump(thing)
    return Packed(file.getvalue(), packer.roots)


def unpacked(data: bytes, roots: list[Array]) -> Any:
    """What was packed, with arrays in the place of those that were left out."""
    return _Unpacker(data, roots).load()


def _culprit(job: Job) -> str:
    """What cannot be sent, by its name."""
    candidates = {**job.names, "what the loop goes over": job.elements}
    code = job.body.__code__
    for name in code.co_names:
        if name in job.body.__globals__:
            candidates.setdefault(name, job.body.__globals__[name])
    for name, cell in zip(code.co_freevars, job.body.__closure__ or (), strict=True):
        if not name.startswith("_tw_"):
            candidates.setdefault(name, cell.cell_contents)
    for name, value in candidates.items():
        try:
            with _by_value():
                _packed(value)
        except Exception:
            return f"{name} ({type(value).__name__})"
    return "the body"


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".split("\n", 1)[0][:200]


@contextmanager
def _by_value() -> Iterator[None]:
    """Inside, functions and classes of the user's own modules are pickled with their code."""
    own = [m for m in list(sys.modules.values()) if _is_own(m)]
    before = set(cloudpickle.list_registry_pickle_by_value())
    added = [m for m in own if m.__name__ not in before]
    for module in added:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in added:
            cloudpickle.unregister_pickle_by_value(module)


def _is_own(module: Any) -> bool:
    """Whether a module is the user's: workers may not have it, or have it in another state."""
    if not isinstance(module, types.ModuleType) or module.__name__.split(".")[0] in ("tilewise", "__main__", "ray"):
        return False
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and not file.startswith(LIBRARIES) and sys.modules.get(module.__name__) is module
