"""Where things lie in what calls of compiled functions take and give. In: sample objects. Out: checked places."""

from __future__ import annotations

import ctypes

import numpy as np

from tilewise.array.slots.layout import DTYPE, LENGTH, NDIM, VALUE, function_of_numpy, new_array, usual, word
from tilewise.backend.entry import Places

_DATA = 16  # NumPy: PyArrayObject_fields
_ROOM = 16  # ctypes: CDataObject
_SCALAR = 60  # NumPy: PyArray_API, PyArray_Scalar
_NUMBERS = (
    1.5, 1.5 - 2.5j, np.float64(2.5), np.float32(0.1), np.complex64(3 + 4j), np.complex128(0.1j), np.int8(-3),
    np.int16(-300), np.int32(-70000), np.int64(-(1 << 40)), np.uint8(200), np.uint64(1 << 63), np.bool_(True),
)  # fmt: skip


def found() -> Places | None:
    """The places, if all of them are as they should be."""
    if not usual():
        return None
    new, number = new_array(), _new_number()
    at = Places(NDIM, DTYPE, _DATA, VALUE, tuple.__basicsize__, LENGTH, bytes.__basicsize__ - 1, _ROOM, new, number)
    return at if new and number and _checked(at) else None


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
