"""Operators of handles as machine code. In: operations of a program. Out: after some thousand, a quicker `Array`.

A handle's operator in Python takes about a microsecond before NumPy is called, machine code a tenth (docs/design/0048).
It does the same for small known arrays, and calls the Python function for all else, so nobody can tell but by a clock.
It is fetched when a program has done so many small operations that it pays; most programs never load a compiler.
"""

from __future__ import annotations

import contextvars
import ctypes
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise.array import indexing, operators, setitem
from tilewise.array.cell import Cell
from tilewise.array.chains.consumer import at_once
from tilewise.array.elementwise_call import ElementwiseCall
from tilewise.array.handle import Array, from_buffer
from tilewise.array.number import CLASSES
from tilewise.array.schedule.promote import LEAST_BYTES, promotion
from tilewise.array.slots.functions import FUNCTIONS
from tilewise.backend import NATIVE, chosen, named
from tilewise.backend.handles import (
    AT_ONCE,
    BINARY,
    COMPARE,
    METHODS,
    NUMBER_METHODS,
    OF_NDARRAYS,
    SCRATCH,
    STATE,
    WORDS,
)
from tilewise.config import LEAST, current, name_passes
from tilewise.later import later

if TYPE_CHECKING:
    from tilewise.array.slots import layout
else:
    layout = later("tilewise.array.slots.layout")

SWITCH = "operators"  # as a name of `without`: Python's functions stay
name_passes(SWITCH)
OPERATIONS = 4096  # before the code is fetched: some milliseconds of work
MIDDLING = 16  # operations that one on middling arrays counts for: Python's code is out of the caches by the next
KEPT = 256  # handles and cells that stay at hand, of 72 and 88 bytes
MOST_ELEMENTS = 16384  # of what the code does at once: 256 KiB of the widest numbers, from where more is to be decided
WIDEST = 32  # bytes of a number
FLOAT64 = 8
OF_NUMBERS = "number_"  # before the names of methods of known numbers
CALL = "ufunc_call"  # of elementwise functions


class Slots:
    """The table of the code, and the Python functions that it stands in front of."""

    def __init__(self) -> None:
        self._state = (ctypes.c_uint64 * WORDS)()
        self._scratch = (ctypes.c_double * SCRATCH)()
        self._at_once = (ctypes.c_uint64 * AT_ONCE)()
        self._python = dict(_own)
        self._put: dict[tuple[type, str], Any] = {}  # descriptors that are Array's now, and those of numbers
        self._addresses: dict[str, int] | None = None
        self._freeing: dict[int, int] = {}  # where a class says who lets go of its objects -> who did
        self.installed = False
        objects: dict[str, Any] = {
            "array": Array,
            "cell": Cell,
            "number": CLASSES[np.float64],
            "ndarray": np.ndarray,
            "float64": np.float64,
            "float": float,
            "int": int,
            "int64": np.int64,
            "slice": slice,
            "tuple": tuple,
            "nonetype": type(None),
            "ellipsis": type(Ellipsis),
            "none": None,
            "false": False,
            "zero": 0,
            "notimplemented": NotImplemented,
            "float64_dtype": np.dtype(np.float64),
            "dot": np.ndarray.dot,
            CALL: _own[CALL],
        }
        self._held = objects | self._python  # the table has their addresses
        for name, value in self._held.items():
            self._state[STATE[name]] = id(value)
        self._state[STATE["scratch"]] = ctypes.addressof(self._scratch)
        self._state[STATE["at_once"]] = ctypes.addressof(self._at_once)
        self._state[STATE["room_handles"]] = self._state[STATE["room_cells"]] = KEPT

    def install(self) -> bool:
        """Let the code be the operators of Arrays, if there can be such code here. May take a while."""
        if self.installed or not wanted():
            return self.installed
        if self._addresses is None:
            at = layout.found()
            state = ctypes.addressof(self._state)
            self._addresses = {} if at is None else named(NATIVE).operators(at, state)
            LEAST.follow(self._limit)
            if self._addresses:  # handles may outlive all modules of the interpreter: the table stays for ever
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))
        if self._addresses:
            # What a program has put in a method's place stays there.
            made = {
                (cls, method): self._descriptor(cls, method, name)
                for name, function in self._python.items()
                for cls, method in [_place(name)]
                if cls.__dict__.get(method) is function
            }
            freeing = {layout.freeing(Array): "free_handle", layout.freeing(Cell): "free_cell"}
            if None not in made.values() and None not in freeing:
                for where, function in freeing.items():
                    assert where is not None
                    self._freeing[where] = layout.word(where)
                    ctypes.c_uint64.from_address(where).value = self._addresses[function]
                self._put = made
                for (cls, method), descriptor in made.items():
                    setattr(cls, method, descriptor)
                promotion.follow(self._number("allowance"))
                at_once.follow(self._number("waiting"), self._at_once)
                base = layout.operator_base("__neg__")  # how one operand is passed
                if base is not None:
                    for name in OF_NDARRAYS:
                        FUNCTIONS[name] = _new_descriptor()(np.ndarray, base, self._addresses[name])
                self.installed = True
        return self.installed

    def _number(self, name: str) -> ctypes.c_int64:
        """A number of the table."""
        return ctypes.c_int64.from_address(ctypes.addressof(self._state) + 8 * STATE[name])

    def remove(self) -> None:
        """Python's functions again."""
        self.installed = False
        FUNCTIONS.clear()
        for name, function in self._python.items():
            cls, method = _place(name)
            if (descriptor := self._put.get((cls, method))) is not None and cls.__dict__.get(method) is descriptor:
                setattr(cls, method, function)
        for where, before in self._freeing.items():
            ctypes.c_uint64.from_address(where).value = before

    def _limit(self, eager_bytes: int) -> None:
        self._state[STATE["limit"]] = min(MOST_ELEMENTS, eager_bytes // WIDEST)
        self._state[STATE["limit_float64"]] = eager_bytes // FLOAT64

    def _descriptor(self, cls: type, method: str, name: str) -> Any:
        """What `type` takes for an operator written in C: it puts the address into the type."""
        assert self._addresses is not None
        base = layout.operator_base(method)
        return None if base is None else _new_descriptor()(cls, base, self._addresses[_function(name)])


def _place(name: str) -> tuple[type, str]:
    """The class and the name of a method in the table."""
    if name == CALL:
        return ElementwiseCall, "__call__"
    if name.startswith(OF_NUMBERS):
        return CLASSES[np.float64], f"__{name.removeprefix(OF_NUMBERS)}__"
    return Array, f"__{name}__"


def _function(method: str) -> str:
    """The function behind a method: `__add__` and `__radd__` have one, all comparisons have one."""
    if method.startswith(OF_NUMBERS):
        return OF_NUMBERS + method.removeprefix(OF_NUMBERS).removeprefix("r")
    if method in COMPARE:
        return "compare"
    if method == "delitem":
        return "setitem"
    if method[1:] in (*BINARY, "pow", "matmul") and method.startswith("r"):
        return method[1:]
    return method


def _new_descriptor() -> Callable[[type, int, int], Any]:
    make = ctypes.pythonapi.PyDescr_NewWrapper
    make.restype, make.argtypes = ctypes.py_object, [ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p]
    return make


def wanted() -> bool:
    """Whether the settings here allow machine code, and as operators."""
    settings = current()
    return chosen(settings) == NATIVE and SWITCH not in settings.without


_own: dict[str, Any] = {}  # Python's functions by name
_made: list[Slots] = []
_lock = threading.Lock()  # of installing
if hasattr(os, "register_at_fork"):  # a thread that held it is not in the child
    os.register_at_fork(after_in_child=_lock._at_fork_reinit)  # type: ignore[attr-defined]


def slots() -> Slots:
    """The one there is."""
    stop_counting()
    if not _made:
        _made.append(Slots())
    return _made[0]


def install() -> bool:
    """Let machine code be the operators of Arrays. Gives whether it is."""
    with _lock:
        return slots().install()


def start_counting() -> None:
    """Fetch the code after so many operations: results of operators, and keys, are counted. All methods are made."""
    names = [*METHODS, *(OF_NUMBERS + name for name in NUMBER_METHODS), CALL]
    _own.update({name: cls.__dict__[method] for name in names for cls, method in [_place(name)]})
    left = OPERATIONS
    begun = False

    def count(done: int = 1) -> None:
        nonlocal left, begun
        left -= done
        if left <= 0 and not begun:
            begun = True
            stop_counting()
            _begin()

    def boxed(nd: Any) -> Array:
        count(MIDDLING if nd.nbytes >= LEAST_BYTES else 1)
        return from_buffer(nd)

    def getitem(self: Array, key: Any) -> Any:
        count()
        return indexing.getitem(self, key)

    def setting(self: Array, key: Any, value: Any) -> None:
        count()
        setitem.setitem(self, key, value, 2)

    operators.boxed = boxed
    _counting[:] = [("__getitem__", getitem, indexing.getitem), ("__setitem__", setting, setitem.setitem)]
    for name, counted, _ in _counting:
        setattr(Array, name, counted)


_counting: list[tuple[str, Any, Any]] = []  # methods that count, and those that they stand for


def stop_counting() -> None:
    """Python's functions as they are."""
    operators.boxed = from_buffer
    while _counting:
        name, counted, plain = _counting.pop()
        if Array.__dict__[name] is counted:
            setattr(Array, name, plain)


def _begin() -> None:
    """Fetch the code while the program goes on."""
    if not wanted():
        return
    if current().wait_for_native:
        install()
    else:
        run = contextvars.copy_context().run
        threading.Thread(target=run, args=(install,), name="tilewise operators", daemon=True).start()
