"""Calls like the last one of compiled code, by machine code. In: code, its circumstances. Out: a function of arguments.

The same as quick_call.py makes, with the same checks, as a table that one piece of machine code reads
(backend/entry.py). It takes a tenth of the time. The code is fetched when a program has made many calls.
"""

from __future__ import annotations

import contextvars
import ctypes
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tilewise.api.functions.call_cache import MISSED
from tilewise.api.functions.guards import ABSENT, Guards
from tilewise.api.functions.quick_call import Quick
from tilewise.array import force as forcing
from tilewise.array.arithmetic import mild_errors, strict_errors
from tilewise.array.slots import entry_layout
from tilewise.backend import NATIVE, chosen, named
from tilewise.backend import entry as words
from tilewise.backend.base import Direct
from tilewise.config import Settings, current, lookup
from tilewise.python.types import LEAST, MOST, SMALL

SWITCH = "entry"  # as a name of `without`: Python's functions stay
_O = 8  # CPython: METH_O, a function of one argument
_NUMBERS = {"float64": words.FLOAT, "int64": words.WHOLE, "bool": words.TRUTH, "complex128": words.COMPLEX}


class _Method(ctypes.Structure):
    """CPython: PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("code", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("text", ctypes.c_char_p),
    )


class Entry:
    """The machine code: fetched once, by a thread of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun = False
        self._method: _Method | None = None

    def ready(self) -> bool:
        """Whether there is such code, and it is wanted here."""
        return self._method is not None and _wanted()

    def ask(self) -> bool:
        """Fetch the code while the program goes on; gives whether it is there. Never is, where there can be none."""
        if self.ready() or not _wanted():
            return self.ready()
        with self._lock:
            begun, self._begun = self._begun, True
        if begun:
            return False
        if current().wait_for_native:
            self._fetch()
        else:
            run = contextvars.copy_context().run
            threading.Thread(target=run, args=(self._fetch,), name="tilewise entry", daemon=True).start()
        return self.ready()

    def _fetch(self) -> None:
        at = entry_layout.found()
        address = 0 if at is None else named(NATIVE).entry(at)
        if address:
            method = _Method(b"call", address, _O, None)
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(method))  # for ever: functions point to it
            self._method = method

    def function(self, table: tuple[Any, ...]) -> Quick:
        """A function of a tuple of arguments."""
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
        assert self._method is not None
        made: Quick = make(ctypes.addressof(self._method), table, None)
        return made


ENTRY = Entry()


def _wanted() -> bool:
    settings = current()
    return chosen(settings) == NATIVE and SWITCH not in settings.without


def native_call(
    checks: list[tuple[Any, Any, int]],
    guards: Guards,
    settings: list[Settings],
    direct: Direct,
    structures: Sequence[Any],
    builders: Sequence[Callable[..., Any]],
    ended: Callable[..., Any],
) -> Quick | None:
    """What quick_call.py gives, of the same; None if the machine code cannot do it."""
    errors = mild_errors()
    records = [_argument(*check) for check in checks]
    size = sum(2 if r[0] == words.BYTES16 else 1 for r in records if r is not None)
    plain = all(type(where) is dict for where, _, _ in guards.names)
    if not guards.sure or errors is None or None in records or not plain or size > words.MOST_WORDS:
        return None

    def finish(args: tuple[Any, ...], room: Any, which: int) -> Any:
        single = direct.singles[which] if structures[which][:2] == ("array", "numpy") else None
        if single is None:
            found = builders[which](direct.results(room, which, args), args)
        else:
            found = single(room, args)
        direct.rooms.append(room)
        return found

    here, config, base = lookup()
    head: dict[str, Any] = {
        "missed": MISSED, "tuple": tuple, "ndarray": np.ndarray, "true": True, "false": False, "none": None,
        "settings": settings, "here": here, "config": config, "base": base, "tracing": forcing.tracing,
        "errors": errors[0], "state": errors[1], "strict": strict_errors, "ended": ended, "finish": finish,
        "rooms": direct.rooms, "room": direct.room,
    }  # fmt: skip
    held: list[Any] = [*head.values(), direct, guards, checks]  # the table has their addresses
    table = [id(head[name]) for name in words.HEAD if name in head]
    code = ctypes.cast(direct.call, ctypes.c_void_p).value or 0  # type: ignore[arg-type]
    counts = len(checks), len(guards.names), len(guards.functions), len(guards.cells), len(structures)
    table += [code, direct.host, *counts]
    for record in records:
        table += record or ()
    for where, name, value in guards.names:
        held += [where, name, value]
        table += [id(where), id(name), 0 if value is ABSENT else id(value)]
    for f, its_code, defaults in guards.functions:
        held += [f, its_code, defaults]
        table += [id(f), id(its_code), 0 if defaults is None else id(defaults)]
    for cell, value in guards.cells:
        held += [cell, value]
        table += [id(cell), id(value)]
    nodes: list[int] = []
    beginnings: list[int] = []
    for k, structure in enumerate(structures):
        beginnings.append(len(table) + len(structures) + len(nodes))
        nodes += _result(structure, direct, k, held)
    packed = struct.pack(f"<{len(table) + len(beginnings) + len(nodes)}q", *table, *beginnings, *nodes)
    return ENTRY.function((packed, *held))


def _argument(kind: Any, dtype: Any, rank: int) -> tuple[int, ...] | None:
    """The words of an argument; None: of a kind that the machine code does not know."""
    if rank >= 0:
        return words.ARRAY, id(kind), id(dtype), rank
    if kind is int:
        return words.INT, id(int), *((-SMALL, SMALL - 1) if dtype else (LEAST, MOST))
    if kind is bool:
        return words.BOOL, id(bool), 0, 0
    found = np.dtype(kind)
    return (words.BYTES[found.itemsize], id(kind), 0, 0) if found.kind in "biufc" else None


def _result(structure: Any, direct: Direct, which: int, held: list[Any]) -> list[int]:
    """The nodes of a result. One node says that Python makes it."""
    places = _places(direct, which)
    if structure[:2] == ("array", "numpy"):
        offset, (dtype, rank, _) = next(places)
        held.append(dtype)
        return [words.NDARRAY, offset, id(dtype), rank or 0, dtype.itemsize, *direct.arrays]
    return _node(structure, places, held) or [words.OTHER, 0, 0, 0, 0]


def _places(direct: Direct, which: int) -> Iterator[tuple[int, tuple[np.dtype[Any], int | None, int]]]:
    at = direct.at
    for kind in direct.kinds[which]:
        yield at, kind
        at += kind[2]


def _node(structure: Any, places: Iterator[Any], held: list[Any]) -> list[int] | None:
    """The nodes of a number, an object, or a tuple of such; None: of another kind."""
    kind = structure[0]
    if kind == "object":
        held.append(structure[1].value)
        return [words.OBJECT, 0, id(structure[1].value), 0, 0]
    if kind == "tuple":
        parts = [_node(s, places, held) for s in structure[1:]]
        if any(p is None for p in parts):
            return None
        return [words.TUPLE, 0, 0, len(parts), 0, *(w for p in parts for w in p or ())]
    if kind not in ("py", "np"):
        return None
    offset, (dtype, rank, _) = next(places)
    if rank is not None:
        return None
    if structure[1] != dtype.name:
        return None
    if kind == "py":
        return [_NUMBERS[dtype.name], offset, 0, 0, 0] if dtype.name in _NUMBERS else None
    held.append(dtype)
    return [words.SCALAR, offset, id(dtype), 0, 0]
