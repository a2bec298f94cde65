"""Calls of compiled programs. In: a program, then arguments. Out: an `Outcome`; nothing is held while it runs."""

from __future__ import annotations

import ctypes
import math
import struct
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewise.backend.base import Direct, Outcome
from tilewise.backend.llvm.compile import build
from tilewise.backend.llvm.emit.frame import DATA_OFFSET
from tilewise.backend.llvm.emit.text import Function
from tilewise.backend.llvm.program import draws, layout, matrix_product, outline
from tilewise.backend.llvm.program.emit import emitted
from tilewise.backend.llvm.program.host import FORMAT, Table, calls_of
from tilewise.backend.llvm.program.loops import parallel_loop
from tilewise.backend.llvm.program.poll import Poll
from tilewise.backend.llvm.program.team import Team
from tilewise.kernel.program.ir import Host, Program
from tilewise.kernel.program.show import text
from tilewise.tuning import tuned

_SIGNATURE = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_void_p)
_C: Any = ctypes.PyDLL(None)  # for calls that take less time than letting the GIL go
_free, _memmove = _C.free, _C.memmove
_free.argtypes, _free.restype = [ctypes.c_size_t], None
_memmove.argtypes, _memmove.restype = [ctypes.c_size_t] * 3, None


_address = ctypes.c_size_t.from_address


class _Memory(ctypes.c_char * (1 << 47)):  # type: ignore[misc]
    """Memory that a program has allocated, from an address on: it goes back with the object."""

    __slots__ = ()

    def __del__(self, free: Any = _free, start: Any = ctypes.addressof, head: int = layout.HEAD) -> None:
        free(start(self) - head)  # by defaults, as modules are empty when the process ends


class Native:
    """A compiled program."""

    def __init__(self, program: Program, host: Sequence[Host] = (), *, optimistic: bool = True) -> None:
        """optimistic: with code that has no loops for subscripts out of range, as far as it can go without."""
        self.program, self.host, self.optimistic = program, host, optimistic
        self.whole: Native | None = None  # with all loops, once it was needed
        code: Any = build.native(("program", text(program), outline.LONG, outline.PART, optimistic), self._make)
        self._code = code  # which must live as long
        self._call = _SIGNATURE(ctypes.cast(code, ctypes.c_void_p).value or 0)
        formats = ["Q" if p.array is not None else FORMAT[p.dtype] for p in program.params]
        self._pack = struct.Struct("<" + "".join(formats)).pack
        self._host: Table | None = None
        if program.functions or any(calls_of(program.body)):
            self._host = Table(program, host)
            self._pack = _followed(self._pack, self._host.address)
        self._arrays = [k for k, p in enumerate(program.params) if p.array is not None]
        self._complex = [k for k, p in enumerate(program.params) if p.array is None and p.dtype[0] == "c"]
        ranks = [max((a.rank for a in program.arrays.values()), default=0)]
        words = layout.RESULTS + max((len(r) for r in program.results), default=0) * layout.array_words(ranks[0]) * 2
        self._threaded, self._products = parallel_loop.used(program), matrix_product.used(program)
        self._drawn = draws.Used(program)
        self._draws: list[Any] = []
        self._block = ctypes.c_char * (8 * words)
        self._polls: list[Poll] = []
        self._teams: list[Team] = []
        self._single = [self._numbers(r) for r in program.results]
        self._returned = [[_kind(t) for t in r] for r in program.results]
        self._rooms: list[Any] = []

    def _room(self) -> Any:
        """A new block for results."""
        room, poll = self._block(), Poll()
        _WORD.pack_into(room, 8 * layout.POLL, poll.address)
        if self._threaded:
            self._teams.append(Team())
            struct.pack_into("<3q", room, 8 * layout.CLAIM, *self._teams[-1].addresses, tuned().loop_share_units)
        if self._products:
            struct.pack_into("<4q", room, 8 * layout.BLAS, *matrix_product.addresses())
        if self._drawn.generators:
            self._draws.append(self._drawn.block())
            _WORD.pack_into(room, 8 * layout.DRAWS, ctypes.addressof(self._draws[-1]))
        self._polls.append(poll)
        return room

    def direct(self) -> Direct:
        """How the code is called without a detour."""
        if self.whole is not None:
            return self.whole.direct()
        reads = [None if how is None else how.unpack_from for how in self._single]
        singles = [self.single_array(k) for k in range(len(self._returned))]
        first, at = _FIRST.unpack_from, 8 * layout.RESULTS
        host = self._host.address if self._host is not None else 0
        kinds = [[(dtype, rank, words.size) for dtype, rank, words in r] for r in self._returned]
        return Direct(
            self._call, self._pack, first, self._rooms, self._room, reads, at, singles, self.results,
            self.outcome, kinds, self._arrays, host,
        )  # fmt: skip

    def single_array(self, which: int) -> Callable[[Any, Sequence[Any]], Any] | None:
        """What gives the only result, if it is an array: the same as `results`, in fewer steps."""
        if len(self._returned[which]) != 1 or (rank := self._returned[which][0][1]) is None:
            return None
        dtype, _, words = self._returned[which][0]
        unpack, at, end, numbers = words.unpack_from, 8 * layout.RESULTS, 3 + rank, self._arrays

        def one(room: Any, args: Sequence[Any]) -> Any:
            values = unpack(room, at)
            if values[2]:
                return args[numbers[values[2] - 1]]
            if values[1] < layout.HEAP:
                return self.results(room, which, args)[0]
            data, base, shape, strides = values[0], values[1], values[3:end], values[end:]
            nbytes = _address(base + 8).value
            if nbytes <= layout.COPIED_BYTES and (made := _copied(data, base, shape, strides, dtype)) is not None:
                return made
            return np.ndarray(shape, dtype, _shown(base, nbytes), data - base - layout.HEAD if nbytes else 0, strides)

        return one

    def outcome(self, room: Any, args: list[Any]) -> Outcome:
        """What a call has left in a room, which goes back."""
        status, which, written, *payload = _HEAD.unpack_from(room)
        if status == layout.UNPROVED:
            self._rooms.append(room)
            self.whole = Native(self.program, self.host, optimistic=False)
            return self.whole(args)
        values: Sequence[Any] = ()
        if status == layout.RETURNED:
            how = self._single[which]
            values = how.unpack_from(room, 8 * layout.RESULTS) if how is not None else self.results(room, which, args)
        self._rooms.append(room)
        return Outcome(status, which, bool(written), payload, values)

    def _make(self, name: str) -> Function:
        return emitted(self.program, name, self.optimistic)

    def _numbers(self, dtypes: tuple[str, ...]) -> struct.Struct | None:
        """How results are read that are numbers alone."""
        if any(t.startswith("array") or t[0] == "c" for t in dtypes):
            return None
        return struct.Struct("<" + "".join(FORMAT[t] for t in dtypes))

    def __call__(self, args: list[Any]) -> Outcome:
        """args: ndarrays and numbers, in the order of the params."""
        if self.whole is not None:
            return self.whole(args)
        words = args.copy()
        for k in self._arrays:
            words[k] = id(args[k])
        for k in reversed(self._complex):
            words[k : k + 1] = [args[k].real, args[k].imag]
        try:
            room = self._rooms.pop()
        except IndexError:
            room = self._room()
        self._call(self._pack(*words), room)
        return self.outcome(room, args)

    def results(self, room: Any, which: int, args: Sequence[Any]) -> list[Any]:
        """Numbers, ndarrays, and numbers of arguments (in a tuple of one) for those that are returned as they are."""
        made: list[Any] = []
        several: dict[int, Any] = {}  # memory that more than one result shows
        at = 8 * layout.RESULTS
        found = []
        for _, _, words in self._returned[which]:
            found.append(words.unpack_from(room, at))
            at += words.size
        bases = [w[1] for w, (_, rank, _) in zip(found, self._returned[which], strict=True) if rank is not None]
        for (dtype, rank, _), values in zip(self._returned[which], found, strict=True):
            if rank is None:
                made.append(complex(*values) if dtype.kind == "c" else values[0])
                continue
            data, base, ident = values[:3]
            shape, strides = values[3 : 3 + rank], values[3 + rank :]
            if ident:
                made.append((self._arrays[ident - 1],))
            elif not base:  # never allocated: a list without items
                made.append(np.empty(shape, dtype))
            elif base < layout.HEAP:
                whole = args[self._arrays[base - 1]]
                made.append(np.lib.stride_tricks.as_strided(_at(whole, data, dtype), shape, strides))
            elif bases.count(base) == 1 and (copy := _copied(data, base, shape, strides, dtype)) is not None:
                made.append(copy)
            else:
                made.append(_owned(data, base, shape, strides, dtype, several))
        return made


def _copied(data: int, base: int, shape: Any, strides: Any, dtype: Any) -> Any:
    """A small array in C order, copied; its memory goes back. None: it is another kind of array."""
    if math.prod(shape) * dtype.itemsize > layout.COPIED_BYTES:
        return None
    made = np.empty(shape, dtype)
    if made.size and made.strides != strides:
        return None
    _memmove(_address(id(made) + DATA_OFFSET).value, data, made.nbytes)
    _free(base)
    return made


def _owned(data: int, base: int, shape: Any, strides: Any, dtype: Any, several: dict[int, Any]) -> Any:
    """An array in the memory that the program has allocated."""
    nbytes = _address(base + 8).value
    if base not in several:
        several[base] = _shown(base, nbytes)
    return np.ndarray(shape, dtype, several[base], data - base - layout.HEAD if nbytes else 0, strides)


def _shown(base: int, nbytes: int) -> memoryview:
    """Memory that a program has allocated; it goes back when nobody looks at it any more."""
    return memoryview(_Memory.from_address(base + layout.HEAD))[:nbytes]


def _followed(pack: Callable[..., bytes], address: int) -> Callable[..., bytes]:
    """The arguments, and what is given beside them."""
    tail, limit = struct.Struct("<3q").pack, sys.getrecursionlimit
    return lambda *words: pack(*words) + tail(address, limit(), 0)


def vector_loops(program: Program) -> int:
    """How many loops of a program have become vectors."""
    return build.optimised(emitted(program, build.ENTRY)).count("\nvector.body")


def _kind(result: str) -> tuple[np.dtype[Any], int | None, struct.Struct]:
    """The dtype and rank of a result (no rank: a number), and its words."""
    _, _, array = result.partition("array ")
    if not array:
        return np.dtype(result), None, struct.Struct("<" + FORMAT[result])
    dtype, rank = array.split()
    return np.dtype(dtype), int(rank), struct.Struct(f"<{layout.array_words(int(rank))}q")


def _at(whole: Any, data: int, dtype: Any) -> Any:
    """One element of the memory that an array shows, as an array that keeps it alive."""
    if not whole.size:
        return np.zeros(1, dtype)
    interface = {"data": (data, not whole.flags.writeable), "shape": (1,), "typestr": dtype.str, "version": 3}
    return np.asarray(_Shown(interface, whole))


class _Shown:
    """Memory of another array."""

    def __init__(self, interface: dict[str, Any], keeps: Any) -> None:
        self.__array_interface__, self.keeps = interface, keeps


_WORD = struct.Struct("<q")
_FIRST = struct.Struct("<2q")
_HEAD = struct.Struct(f"<{layout.POLL}q")
