"""Where things lie in what calls of compiled functions take and give. In: sample objects. Out: checked places."""

from __future__ import annotations

import ctypes

import numpy as np

from tilewise.array.slots.layout import (
    DTYPE,
    LENGTH,
    NDIM,
    NEW_ARRAY,
    VALUE,
    function_of_numpy,
    new_array,
    usual,
    word,
)
from tilewise.backend.entry import Places

_DATA = 16  # NumPy: PyArrayObject_fields
_ROOM = 16  # ctypes: CDataObject
_SCALAR, _SET_BASE = 60, 282  # NumPy: PyArray_API, PyArray_Scalar and PyArray_SetBaseObject
_CARRAY = 0x501  # NumPy: the flags of an array in C order, aligned, that can be written to
_NUMBERS = (
    1.5, 1.5 - 2.5j, np.float64(2.5), np.float32(0.1), np.complex64(3 + 4j), np.complex128(0.1j), np.int8(-3),
    np.int16(-300), np.int32(-70000), np.int64(-(1 << 40)), np.uint8(200), np.uint64(1 << 63), np.bool_(True),
)  # fmt: skip


def found() -> Places | None:
    """The places, if all of them are as they should be."""
    if not usual():
        return None
    given = new_array(), _new_number(), _set_base()
    at = Places(NDIM, DTYPE, _DATA, VALUE, tuple.__basicsize__, LENGTH, bytes.__basicsize__ - 1, _ROOM, *given)
    return at if all(given) and _checked(at) else None


def _new_number() -> int:
    """The address of PyArray_Scalar; 0: not there."""
    address = function_of_numpy(_SCALAR)
    if not address:
        return 0
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(address)
    for x in _NUMBERS[2:]:
        sample = np.asarray(x)
        made = make(sample.ctypes.data, sample.dtype, None)
        if type(made) is not sample.dtype.type or made != x:
            return 0
    return address


def _set_base() -> int:
    """The address of PyArray_SetBaseObject; 0: not there."""
    address, make = function_of_numpy(_SET_BASE), new_array()
    if not address or not make:
        return 0
    memory, dtype = (ctypes.c_int64 * 3)(2, 7, 8), np.dtype(np.int64)  # a length, then elements
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(dtype))  # which it takes
    start = ctypes.addressof(memory)
    made = NEW_ARRAY(make)(np.ndarray, dtype, 1, start, None, start + 8, _CARRAY, None)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))  # the same
    good = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.py_object)(address)(made, memory) == 0
    return address if good and made.base is memory and made.tolist() == [7, 8] and made.flags.carray else 0


def _checked(at: Places) -> bool:
    for x in _NUMBERS:
        nd = np.asarray(x)
        if ctypes.string_at(id(x) + at.value, nd.nbytes) != nd.tobytes():
            return False
    nd, key, text, room = np.zeros((3, 5), np.float32), (1.5, 2.5), b"some words", (ctypes.c_char * 24)()
    if word(id(nd) + at.dtype) != id(nd.dtype) or word(id(nd) + at.data) != nd.ctypes.data:
        return False
    if ctypes.c_int32.from_address(id(nd) + at.ndim).value != 2 or word(id(key) + at.length) != len(key):
        return False
    if [word(id(key) + at.items), word(id(key) + at.items + 8)] != [*map(id, key)]:
        return False
    return ctypes.string_at(id(text) + at.bytes) == text and word(id(room) + at.room) == ctypes.addressof(room)
