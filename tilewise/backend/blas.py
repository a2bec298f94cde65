"""BLAS for tiles: functions that native code can call, and BLAS on one thread. The door to SciPy's BLAS.

In: a routine's name. Out: its address. Tiles already run on all cores, so BLAS must not start threads of its own
(`one_thread`). NumPy has a BLAS of its own, which this does not touch. The library is opened without SciPy's modules,
which take 0.25 s to load, where its routines have the names of SciPy's own wheels.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import importlib.util
import os
import threading
from collections.abc import Callable, Iterator
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

MODULE = "scipy.linalg.cython_blas"
ROUTINES = ("dgemm", "sgemm", "zgemm", "cgemm", "dgemv", "sgemv", "zgemv", "cgemv")
# (set, get) of the libraries SciPy is built with; its own wheels have the first.
_NAMES = (
    ("scipy_openblas_set_num_threads", "scipy_openblas_get_num_threads"),
    ("openblas_set_num_threads", "openblas_get_num_threads"),
    ("MKL_Set_Num_Threads", "MKL_Get_Max_Threads"),
    ("bli_thread_set_num_threads", "bli_thread_get_num_threads"),
)

_lock = threading.RLock()
_inside = 0  # blocks that are open, in all threads
_outside = 1  # threads of BLAS before the first of them


def _after_fork() -> None:
    """Threads that held the lock, or were inside, are not in the child."""
    global _inside
    _lock._at_fork_reinit()  # type: ignore[attr-defined]
    _inside = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@cache
def address(name: str) -> int:
    """The address of a routine with Fortran's arguments: pointers to everything, matrices by columns.

    >>> address("dgemm") > 0
    True
    """
    routine = getattr(_library(), f"scipy_{name}_", None)
    if routine is not None:
        return int(ctypes.cast(routine, ctypes.c_void_p).value or 0)
    capsule = importlib.import_module(MODULE).__pyx_capi__[name]
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    found = api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule))
    assert found, f"SciPy's capsule of {name} is empty"
    return int(found)


@cache
def _library() -> ctypes.CDLL:
    """What is linked with SciPy's BLAS; symbols are looked for in what it links, too. Raises ImportError."""
    scipy = importlib.util.find_spec("scipy")  # loads nothing
    if scipy is None or scipy.origin is None:
        raise ImportError("there is no SciPy here")
    folder = Path(scipy.origin).with_name("linalg")
    for suffix in EXTENSION_SUFFIXES:
        with contextlib.suppress(OSError):
            return ctypes.CDLL(str(folder / f"cython_blas{suffix}"))
    return ctypes.CDLL(importlib.import_module(MODULE).__file__)  # where it is found only with SciPy's help


@cache
def _controls() -> tuple[Callable[[int], object], Callable[[], int]] | None:
    """How to set and get the threads of SciPy's BLAS; None for a library without threads, or an unknown one."""
    library = _library()
    for names in _NAMES:
        try:
            put, get = (getattr(library, name) for name in names)
        except AttributeError:
            continue
        put.argtypes, put.restype = [ctypes.c_int], None
        get.argtypes, get.restype = [], ctypes.c_int
        return put, get
    return None


def threads() -> int:
    """How many threads SciPy's BLAS would use now (1 if it does not say)."""
    controls = _controls()
    return controls[1]() if controls else 1


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """SciPy's BLAS on one thread per caller, in the whole process (3 µs); blocks may nest and overlap."""
    global _inside, _outside
    controls = _controls()
    if controls is None:
        yield
        return
    put, get = controls
    with _lock:
        if _inside == 0:
            _outside = get()
            put(1)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                put(_outside)
