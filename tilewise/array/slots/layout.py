"""Where things lie in objects of this interpreter. In: sample objects. Out: offsets that were checked, or None.

Machine code reads a few pointers out of handles, cells, ndarrays and tuples. Nothing is taken for granted: each offset
is read from the interpreter's own tables or is the one of CPython's and NumPy's headers, and must show the right value
in a sample.
"""

from __future__ import annotations

import ctypes
import sys
import sysconfig
import weakref
from types import MemberDescriptorType
from typing import Any

import numpy as np

from tilewise.array.cell import Cell
from tilewise.array.elementwise_call import ElementwiseCall
from tilewise.array.handle import Array, from_buffer
from tilewise.array.number import CLASSES
from tilewise.array.stack import AT, INNER, SURE
from tilewise.backend.handles import Offsets

_OF_DESCRIPTOR = 40  # CPython: what a descriptor of a slot or an operator points to, behind type, name and full name
_TYPE_OF_DESCRIPTOR = 16
_OFFSET_OF_MEMBER = 16  # in a PyMemberDef, behind its name and kind
NDIM, _DIMS, DTYPE, _FLAGS = 24, 32, 56, 64  # NumPy: PyArrayObject_fields
_NEW_FROM_DESCR = 94  # NumPy: PyArray_API, a part of its stable binary interface
_NUMBER = 28  # NumPy: PyArray_Descr, behind its class and three letters
VALUE = 16  # NumPy: of a float64, where CPython's float has it
LENGTH = 16  # CPython: PyVarObject
_FREEING = 48  # CPython: PyTypeObject, behind name and sizes
OLDEST, NEWEST = (3, 11), (3, 11)  # CPython: versions that all tests of this have run on
NUMPY = 2  # its layouts are the same for all versions that begin so
_GIVEN: list[Any] = [ctypes.py_object, ctypes.py_object, ctypes.c_int, *[ctypes.c_void_p] * 3]
NEW_ARRAY = ctypes.PYFUNCTYPE(ctypes.py_object, *_GIVEN, ctypes.c_int, ctypes.c_void_p)
_HANDLE = ("_cell", "_nd", "_gen", "_fixed")
_CELL = ("buf", "node", "gen", "meta_nd", "leaf", "exports", "owner")


def word(address: int) -> int:
    """The 8 bytes at an address."""
    return ctypes.c_uint64.from_address(address).value


def usual() -> bool:
    """Whether this is a CPython with a lock and a NumPy that we know: objects begin with a count and a type."""
    known = OLDEST <= sys.version_info[:2] <= NEWEST and int(np.__version__.split(".")[0]) == NUMPY
    shared = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    wide = ctypes.sizeof(ctypes.c_void_p) == 8 and sys.byteorder == "little"
    return sys.implementation.name == "cpython" and known and wide and not shared and object.__basicsize__ == 16


def found() -> Offsets | None:
    """The offsets, if all of them are as they should be."""
    if not usual():
        return None
    handle = tuple((name, _slot(Array, name)) for name in _HANDLE)
    cell = tuple((name, _slot(Cell, name)) for name in _CELL)
    items = tuple.__basicsize__
    weak = Array.__weakrefoffset__, Cell.__weakrefoffset__
    immortal = sys.version_info >= (3, 12)
    new = new_array()
    calls = _slot(ElementwiseCall, "_one"), _slot(ElementwiseCall, "_two")
    frame = (INNER, AT) if SURE else (0, 0)
    at = Offsets(handle, cell, NDIM, _DIMS, DTYPE, _FLAGS, _NUMBER, items, LENGTH, new, *calls, *weak, *frame, immortal)
    return at if new and _checked(at) else None


def function_of_numpy(number: int) -> int:
    """The address of a function that NumPy has for extensions, from its table of them; 0: not there."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    try:
        return word(get(np._core._multiarray_umath._ARRAY_API, None) + 8 * number)  # type: ignore[attr-defined]
    except (AttributeError, ValueError):
        return 0


def new_array() -> int:
    """The address of PyArray_NewFromDescr; 0: not there."""
    address = function_of_numpy(_NEW_FROM_DESCR)
    if not address:
        return 0
    make = NEW_ARRAY(address)
    dtype = np.dtype(np.float64)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(dtype))  # which it takes
    made = make(np.ndarray, dtype, 2, ctypes.addressof((ctypes.c_int64 * 2)(3, 5)), None, None, 0, None)
    good = type(made) is np.ndarray and made.dtype is dtype and made.shape == (3, 5) and made.flags.carray
    return address if good else 0


def _slot(cls: type, name: str) -> int:
    """Where a slot lies in an object of a class, as its descriptor says; -1 if that looks otherwise than it should."""
    descriptor = cls.__dict__[name]
    if type(descriptor) is not MemberDescriptorType or word(id(descriptor) + _TYPE_OF_DESCRIPTOR) != id(cls):
        return -1
    return word(word(id(descriptor) + _OF_DESCRIPTOR) + _OFFSET_OF_MEMBER)


def freeing(cls: type) -> int | None:
    """Where a class says who lets go of its objects, if that is what any class written in Python has there."""
    usual_one, other = word(id(_Plain) + _FREEING), word(id(int) + _FREEING)
    return id(cls) + _FREEING if word(id(cls) + _FREEING) == usual_one != other else None


class _Plain:
    """A class like any other."""

    __slots__ = ("__weakref__", "slot")


def _checked(at: Offsets) -> bool:
    nd = np.zeros((3, 5), np.float32)
    x = from_buffer(nd)
    key = ("a", "b", "c")
    for sample, slots in ((x, at.handle), (x._cell, at.cell)):
        size = type(sample).__basicsize__
        for name, offset in slots:
            if not 16 <= offset <= size - 8 or word(id(sample) + offset) != id(getattr(sample, name)):
                return False
    if not all(_whole(*each) for each in ((x, _HANDLE, at.handle_references), (x._cell, _CELL, at.cell_references))):
        return False
    for f in (np.sqrt, np.add, np.divmod):
        called = ElementwiseCall(f)
        if word(id(called) + at.one) != id(called._one) or word(id(called) + at.two) != id(called._two):
            return False
    kinds = [np.dtype(letter) for letter in np.typecodes["All"]]
    if any(ctypes.c_int32.from_address(id(d) + at.number).value != d.num for d in kinds):
        return False
    if ctypes.c_double.from_address(id(value := CLASSES[np.float64](1.5)) + VALUE).value != value:
        return False
    if word(id(nd) + at.dtype) != id(nd.dtype) or word(id(key) + at.length) != len(key):
        return False
    if [word(id(key) + at.items + 8 * k) for k in range(len(key))] != [id(k) for k in key]:
        return False
    if ctypes.c_int32.from_address(id(nd) + at.ndim).value != 2:
        return False
    if any(ctypes.c_int32.from_address(id(a) + at.flags).value != a.flags.num for a in (nd, nd.T, nd[1:, 1:])):
        return False
    dims, strides = word(id(nd) + at.dims), word(id(nd) + at.dims + 8)
    if strides != dims + 8 * nd.ndim or dims % 8:  # NumPy has both in one piece of memory
        return False
    return [word(dims), word(dims + 8)] == [3, 5]


def _whole(sample: Any, slots: tuple[str, ...], references: int) -> bool:
    """Whether an object has these slots and weak references, which lie where they should, and nothing else."""
    cls = type(sample)
    inside = references > 0  # from CPython 3.12 on, they lie before an object
    if {*slots, "__weakref__"} != set(cls.__slots__) or cls.__dictoffset__ or cls.__mro__ != (cls, object):
        return False
    if cls.__basicsize__ != 16 + 8 * (len(slots) + inside) or references not in (16 + 8 * len(slots), 16, -32):
        return False
    before = word(id(sample) + references)
    reference = weakref.ref(sample)
    return before == 0 and word(id(sample) + references) == id(reference)


def operator_base(name: str) -> int | None:
    """CPython's description of an operator, which NumPy's descriptor of the same one points to."""
    cls = np.ufunc if name == "__call__" else np.ndarray
    descriptor: Any = cls.__dict__.get(name)
    if type(descriptor) is not type(int.__add__) or word(id(descriptor) + _TYPE_OF_DESCRIPTOR) != id(cls):
        return None
    base = word(id(descriptor) + _OF_DESCRIPTOR)
    return base if ctypes.string_at(word(base)) == name.encode() else None
