"""Calls of Python functions from compiled programs. In: a HostCall. Out: IR for it; the function that IR calls.

The code writes its numbers and arrays as words into a block on its stack and calls one address, which it is given
beside its arguments; the results come back in the same block. ctypes takes the GIL for the time of the call.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise.backend.llvm.emit.control import word_at
from tilewise.backend.llvm.emit.text import Val
from tilewise.backend.llvm.program import draws, layout, memory, new_shape
from tilewise.backend.llvm.program.allocation import count
from tilewise.backend.llvm.program.environment import ask
from tilewise.kernel.program.ir import Block, Host, HostCall, Program
from tilewise.kernel.program.walk import statements

if TYPE_CHECKING:
    from tilewise.backend.llvm.program.emit import Emitter

_CALLED = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
FORMAT = {
    "float64": "d", "float32": "f4x", "bool": "?7x", "int8": "b7x", "int16": "h6x", "int32": "i4x", "int64": "q",
    "uint8": "B7x", "uint16": "H6x", "uint32": "I4x", "uint64": "Q", "complex64": "ff", "complex128": "dd",
}  # fmt: skip
_PAIR = struct.Struct("<2q")
_aligned_alloc = ctypes.CDLL(None).aligned_alloc
_aligned_alloc.argtypes, _aligned_alloc.restype = [ctypes.c_size_t, ctypes.c_size_t], ctypes.c_void_p


def calls_of(block: Block) -> Iterator[HostCall]:
    """All HostCalls, those inside of other statements too."""
    return (s for s in statements(block) if isinstance(s, HostCall))


def words_of(program: Program, v: Any) -> int:
    """How many words a number or an array takes."""
    if isinstance(v, str) and v in program.arrays:
        return layout.array_words(program.arrays[v].rank)
    return 2 if (program.names[v] if isinstance(v, str) else v.dtype) == "complex128" else 1


def call(em: Emitter, s: HostCall) -> None:
    """IR for a call: what goes in, the call, what comes out."""
    fn = em.fn
    size = max(sum(words_of(em.p, v) for v in s.inputs), sum(words_of(em.p, v) for v in s.results), 1)
    room = fn.hoist(f"alloca [{size} x i64], align 16")
    at = 0
    numbers: list[Val] = []
    for v in s.inputs:
        place = fn.let(f"getelementptr i64, ptr {room}, i64 {at}")
        if isinstance(v, str):
            memory.hand_array(em, v, place)
        else:
            numbers.append(em.e(v))
            memory.hand_number(em, numbers[-1], place)
        at += words_of(em.p, v)
    if em.reruns and (s.effect or any(em.scopes.outside(a) for a in s.writes)):
        fn.do(f"store i64 1, ptr {em.written}")

    def by_python() -> None:
        em.fail_if(ask(em, s.which, room).cmp("ne", 0), s.fault)

    if s.part:
        _part(em, s, room)
    elif s.lengths:
        new_shape.shown(em, s, room, by_python)
    elif s.draw is not None and s.draw.function:
        em.draws.drawn(s, numbers, room, by_python)
    else:
        by_python()
    if s.draw is not None and not s.draw.function:
        em.draws.made(s.draw)
    at = 0
    for name in s.results:
        place = fn.let(f"getelementptr i64, ptr {room}, i64 {at}")
        if name in em.p.arrays:
            memory.take_array(em, name, place)
        else:
            memory.number_from(em, name, em.p.names[name], place)
        at += words_of(em.p, name)


def _part(em: Emitter, s: HostCall, room: str) -> None:
    """The words of the real or imaginary parts of an array, in place of its own: they lie beside each other."""
    fn = em.fn
    assert isinstance(s.inputs[0], str)
    data, base, ident = (word_at(fn, room, k) for k in range(3))
    count(em, em.word(base), 1)
    if s.part == "imag":
        em.put(data, em.word(data) + np.dtype(em.p.arrays[s.inputs[0]].dtype).itemsize // 2)
    em.put(ident, em.number(0))


class Table:
    """The function that compiled code calls, for all HostCalls of a program."""

    def __init__(self, program: Program, host: Sequence[Host]) -> None:
        every = (program, *program.functions)
        self._made = {s.which: _called(p, s, host[s.which]) for p in every for s in calls_of(p.body)}
        found = draws.Used(program)
        if found.generators:
            held = draws.Held(found, host)
            self._made |= {draws.BEGIN: held.begin, draws.END: held.end}
        self._function = _CALLED(self._run)
        self.address = ctypes.cast(self._function, ctypes.c_void_p).value or 0

    def _run(self, which: int, room: int) -> int:
        try:
            self._made[which](room)
        except BaseException:  # kept by the host function itself
            return 1
        return 0


class _Memory:
    """Memory of a running program."""

    def __init__(self, data: int, shape: Any, strides: Any, dtype: Any) -> None:
        self.__array_interface__ = {
            "data": (data, False), "shape": shape, "strides": strides, "typestr": dtype.str, "version": 3,
        }  # fmt: skip


def _called(program: Program, s: HostCall, f: Host) -> Callable[[int], None]:
    """One HostCall: words to values, the call, values to words."""
    ins, outs = ([_format(program, v) for v in some] for some in (s.inputs, s.results))
    read = struct.Struct("<" + "".join(text for _, _, text in ins))
    write = struct.Struct("<" + "".join(text for _, _, text in outs))

    block = ctypes.c_char * max(read.size, write.size)
    rooms: dict[int, Any] = {}  # by address: a loop has the same one in all its iterations
    last: dict[int, tuple[Any, Any]] = {}  # of each place: words of an array, and the array

    def run(room: int) -> None:
        try:
            held = rooms[room]
        except KeyError:
            rooms.clear()
            held = rooms[room] = block.from_address(room)
        words = read.unpack_from(held)
        values: list[Any] = []
        seen: list[tuple[Any, Sequence[int]]] = []
        at = 0
        for dtype, rank, _ in ins:
            if rank is None:
                pair = dtype.kind == "c"
                values.append(complex(words[at], words[at + 1]) if pair else words[at])
                at += 1 + pair
                continue
            mine = words[at : at + 3 + 2 * rank]
            before = last.get(at)
            if before is not None and before[0] == mine:
                found = before[1]
            else:
                shape, strides = mine[3 : 3 + rank], mine[3 + rank :]
                found = np.empty(shape, dtype) if 0 in shape else np.asarray(_Memory(mine[0], shape, strides, dtype))
                last[at] = mine, found
            if s.shown:
                seen.append((found, mine))
            values.append(found)
            at += layout.array_words(rank)
        made: list[Any] = []
        for v, (dtype, rank, _) in zip(f(values), outs, strict=True):
            if rank is None:
                made += [v.real, v.imag] if dtype.kind == "c" else [v]
                continue
            itself = next((words for x, words in seen if x is v and words[1]), None)
            base = next((words[1] for x, words in seen if v.size and np.may_share_memory(x, v)), 0)
            made += _handed(v, base) if itself is None else _held_again(itself)
        write.pack_into(held, 0, *made)

    return run


def _format(program: Program, v: Any) -> tuple[Any, int | None, str]:
    """Dtype, rank (None: a number) and words."""
    if isinstance(v, str) and v in program.arrays:
        a = program.arrays[v]
        return np.dtype(a.dtype), a.rank, f"{layout.array_words(a.rank)}q"
    dtype = program.names[v] if isinstance(v, str) else v.dtype
    return np.dtype(dtype), None, FORMAT[dtype]


def _held_again(words: Sequence[int]) -> Sequence[int]:
    """The words of an input that is given back."""
    if words[1] >= layout.HEAP:
        ctypes.c_int64.from_address(words[1]).value += 1
    return words


def _handed(v: Any, base: int) -> Sequence[int]:
    """The words of an array: memory of an input (its base), or new memory with a head, as programs have it."""
    if base:
        if base >= layout.HEAP:
            ctypes.c_int64.from_address(base).value += 1
        return [v.__array_interface__["data"][0], base, 0, *v.shape, *v.strides]
    base = _aligned_alloc(64, (v.nbytes + 127) & -64) or 0
    if not base:
        raise MemoryError
    data = base + layout.HEAD
    v = np.ascontiguousarray(v) if v.ndim else v
    ctypes.memmove(base, _PAIR.pack(1, v.nbytes), 16)
    ctypes.memmove(data, v.__array_interface__["data"][0], v.nbytes)
    return [data, base, 0, *v.shape, *v.strides]
