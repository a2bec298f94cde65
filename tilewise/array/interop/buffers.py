"""Python's buffer protocol for Arrays. In: the class. Out: `memoryview(x)`, files, hashes and codecs take Arrays.

From Python 3.12 on a class has `__buffer__`; before, only types written in C answer. There, the slot of the type that
`PyObject_GetBuffer` looks at is filled with a function of ours, which asks what the array lends.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable
from typing import Any

AS_BUFFER = 20 * ctypes.sizeof(ctypes.c_void_p)  # where a type object keeps its PyBufferProcs, in every 3.x
_SLOT = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_int)
_RELEASE = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_filled: list[Any] = []  # functions that types refer to


class _Stopped(threading.local):
    """What ended an evaluation that a buffer was asked of, in this thread."""

    by: tuple[int, BaseException] | None = None


_stopped = _Stopped()


class _Refused(threading.local):
    """Of which array memory to write to was refused last, in this thread."""

    array: int | None = None


refused = _Refused()
WRITABLE, FORMAT = 1, 4  # Python's PyBUF_ flags


def raise_again(x: Any) -> None:
    """Raise what ended the evaluation of an array when its buffer was asked for (Ctrl-C, say)."""
    if _stopped.by is not None:
        (asked, error), _stopped.by = _stopped.by, None
        if asked == id(x):
            raise error


def fill_buffer_slot(cls: type, lend: Callable[[Any, int], Any]) -> None:
    """Have instances of a class hand out the buffers of what `lend` gives for them and for the flags of who asks."""
    if sys.version_info >= (3, 12) or sys.implementation.name != "cpython":
        return
    get = ctypes.pythonapi.PyObject_GetBuffer
    get.argtypes, get.restype = [ctypes.py_object, ctypes.c_void_p, ctypes.c_int], ctypes.c_int

    def getbuffer(x: Any, view: int, flags: int) -> int:
        # An exception cannot leave a function that C calls. Most who ask say what is missing ("a bytes-like object");
        # NumPy asks for `__array__` next, which raises it.
        _stopped.by = None
        try:
            shown = lend(x, flags)
        except BufferError:
            return -1
        except BaseException as error:
            _stopped.by = id(x), error
            return -1
        if shown is None:
            return -1
        try:
            given: int = get(shown, view, flags)  # the view holds on to what was lent, and lets go of it by itself
        except (BufferError, ValueError):  # read-only memory, a dtype that buffers do not know
            return -1
        return given

    def release(x: int | None, view: int | None) -> None:
        """Never called: views belong to what was lent. It says to `numpy.frombuffer` that a view is to be kept."""

    slots = _SLOT(getbuffer), _RELEASE(release)
    table = ctypes.c_void_p.from_address(id(cls) + AS_BUFFER)
    assert table.value, "a class has a table of its own"
    for i, slot in enumerate(slots):  # the two of PyBufferProcs, in their order
        place = ctypes.c_void_p.from_address(table.value + i * ctypes.sizeof(ctypes.c_void_p))
        place.value = ctypes.cast(slot, ctypes.c_void_p).value
    _filled.extend(slots)
