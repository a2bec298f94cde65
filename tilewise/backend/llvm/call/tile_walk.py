"""Several kernels on one tile after another. In: kernels, the operands of a tile. Out: a `Walk` over all tiles.

An operand is a `Ref`: an array that is whole (its tiles lie `step` bytes apart), or scratch of the size of a tile, of
which every thread has its own. Tiles are handed out in chunks whose number depends on sizes alone; what is reduced over
tiles is added up per chunk, in a place of its own, so that results do not depend on threads.
"""

from __future__ import annotations

import copy
import os
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from operator import is_not
from typing import Any

import numpy as np

from tilewise import rounding
from tilewise.backend import threads
from tilewise.backend.llvm.call.call_table import CALL_WORDS, OPERAND_WORDS, address, drive, driver
from tilewise.backend.llvm.call.compiled import Compiled, compile
from tilewise.backend.llvm.call.launch import Tree
from tilewise.backend.llvm.call.parallel_for import Parts
from tilewise.backend.llvm.compile.build import Native
from tilewise.backend.llvm.emit.frame import DATA_OFFSET, PARAM_WORDS
from tilewise.backend.llvm.loops.geometry import Pack
from tilewise.kernel.loops import Kernel, Output
from tilewise.records import dataclass
from tilewise.tuning import tuned

ND = np.ndarray[Any, Any]

ALIGN = 64


@dataclass(frozen=True, eq=False)
class Ref:
    """An operand: where it is for the first tile, and how far apart tiles and chunks are (scratch: 0)."""

    array: ND
    step: int = 0
    chunk_step: int = 0
    slot: int | None = None  # of the arrays given to a run; None: scratch
    offset: int = 0  # bytes from where the array of a run begins to where tile 0 would
    far: int = 0  # bytes of all tiles together, if nothing of them is read again (inputs: has been read)

    def of(self, array: ND) -> Ref:
        """Another view of the same memory."""
        return Ref(array, self.step, self.chunk_step, self.slot, self.offset, self.far)

    def on(self, array: ND, bytes: int) -> Ref:
        """A view that begins some bytes on (of scratch, `array` says so itself)."""
        offset = self.offset if self.slot is None else self.offset + bytes
        return Ref(array, self.step, self.chunk_step, self.slot, offset, self.far)


@dataclass(frozen=True)
class Call:
    """One native function for every tile."""

    code: Native
    refs: tuple[Ref, ...]
    params: tuple[tuple[int, str], ...]  # position and format of every param
    geometry: bytes
    tree: Tree | None = None  # of the reductions it makes


class Scratch:
    """Memory for one thread's tiles, laid out once per walk."""

    def __init__(self, size: int, tiles: int = 1) -> None:
        self.tiles = tiles  # that calls are laid out for
        raw = np.empty(size + ALIGN, np.uint8)
        start = -raw.ctypes.data % ALIGN
        self.memory = raw[start : start + size]
        self.address = self.memory.ctypes.data
        self.used = 0

    def array(self, shape: tuple[int, ...], dtype: Any, strides: tuple[int, ...] | None = None) -> ND | None:
        """A part of the memory; None if there is none left."""
        kind = np.dtype(dtype)
        size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
        if self.used + size > self.memory.size:
            return None
        made: ND = np.ndarray(shape, kind, self.memory.data, self.used, strides)
        self.used += -(-size // ALIGN) * ALIGN
        return made


# Another array for a run to be given: a copy of one it is given, in panels. None: copies are made by calls, each time.
Pin = Callable[[Ref, Pack], Ref] | None


def calls_of(
    kernel: Compiled, shape: tuple[int, ...], refs: Sequence[Ref], params: Sequence[int], scratch: Scratch, pin: Pin
) -> list[Call] | None:
    """The native calls of a kernel on one tile; None if there is no native code, or too little scratch."""
    n = len(kernel.kernel.inputs)
    far = sum(r.far for r in refs[n:]) if all(r.far for r in refs[n:]) else 0
    fetched = [k for k, r in enumerate(refs[:n]) if r.far >= tuned().fetch_at_bytes]
    launch = kernel.alone(shape, [r.array for r in refs], far, fetched, scratch.tiles)
    if launch is None:
        return None
    if far >= tuned().stream_at_bytes and not launch.streams:
        staged = _staged(kernel, shape, refs, params, scratch, pin)
        if staged is not None:
            return staged
    operands = [*refs, *[refs[0]] * kernel.beside]
    before: list[Call] = []
    for pack in launch.packs:
        ref = refs[pack.operand]
        if pin is not None and ref.slot is not None and not ref.step:
            operands[pack.operand] = pin(ref, pack)
            continue
        made = _packed(ref, pack, scratch, pin)
        if made is None:
            return None
        operands[pack.operand], calls = made
        before += calls
    for k, dtype, size in launch.scratch:
        array = scratch.array(size, dtype)
        if array is None:
            return None
        operands[k] = Ref(array)
    formats = tuple(zip(params, kernel.kernel.params, strict=True))
    work = [Call(launch.code, tuple(operands), formats, g, launch.tree) for g in launch.parts]
    for combine in launch.combines:
        out, found = refs[n + combine.output], operands[n + combine.output].array
        work.append(Call(combine.code, tuple(operands[k] for k in combine.operands), (), combine.geom))
        seen = np.lib.stride_tricks.as_strided(out.array, combine.shape, combine.strides)
        result = found[:, 0, : combine.columns].reshape(combine.shape).view(out.array.dtype)  # bytes are booleans
        assert np.may_share_memory(result, found), "a reshaped result is no view"
        copy = copied(Ref(result), out.of(seen), scratch, pin)
        if copy is None:
            return None
        work += copy
    return before + work


def _staged(
    kernel: Compiled, shape: tuple[int, ...], refs: Sequence[Ref], params: Sequence[int], scratch: Scratch, pin: Pin
) -> list[Call] | None:
    """The calls of a kernel that fills scratch, which is then copied past the caches; None if that brings nothing."""
    n, used = len(kernel.kernel.inputs), scratch.used
    own, after = list(refs), []
    if any(_flat(ref.array) is None for ref in refs[n:]):
        return None
    for k, ref in enumerate(refs[n:], n):
        made = scratch.array(ref.array.shape, ref.array.dtype, ref.array.strides)
        copy = None if made is None else _streamed(made, ref)
        if made is None or copy is None:
            scratch.used = used
            return None
        own[k] = Ref(made)
        after.append(copy)
    calls = calls_of(kernel, shape, own, params, scratch, pin)
    return None if calls is None else [*calls, *after]


def _streamed(source: ND, target: Ref) -> Call | None:
    """The call that copies scratch past the caches; None if that cannot be."""
    flat, out = _flat(source), _flat(target.array)
    assert flat is not None and out is not None
    copy = compile(Kernel((flat.dtype.name,), (), (), (Output(0),), (False,)))
    launch = copy.alone(flat.shape, [flat, out], target.far)
    if launch is None or not launch.streams:
        return None
    (geometry,) = launch.parts
    return Call(launch.code, (Ref(flat), target.of(out)), (), geometry)


def _flat(array: ND) -> ND | None:
    """All elements in the order of memory; None if they are not contiguous."""
    ordered = array.transpose(sorted(range(array.ndim), key=lambda d: -array.strides[d]))
    return ordered.reshape(-1) if ordered.flags.c_contiguous else None


def _packed(ref: Ref, pack: Pack, scratch: Scratch, pin: Pin) -> tuple[Ref, list[Call]] | None:
    """An input that is copied into panels for each tile (beyond the last lane lies anything)."""
    target = scratch.array(pack.shape, ref.array.dtype)
    if target is None:
        return None
    width = pack.shape[-1]
    full, rest = divmod(pack.lanes, width)
    whole = np.lib.stride_tricks.as_strided(ref.array, pack.shape, pack.strides)
    calls: list[Call] = []
    for start, part in (
        (0, (..., slice(0, full), slice(None), slice(None))),
        (full, (..., slice(full, full + 1), slice(None), slice(rest))),
    ):
        if whole[part].size:
            source = ref.on(whole[part], start * pack.strides[-3])
            some = copied(source, Ref(target[part]), scratch, pin)
            if some is None:
                return None
            calls += some
    return Ref(target), calls


def copied(source: Ref, target: Ref, scratch: Scratch, pin: Pin) -> list[Call] | None:
    """The calls that copy one operand to another of the same shape."""
    dtype, shape = target.array.dtype.name, target.array.shape
    copy = compile(Kernel((dtype,), (), (), (Output(0),), (False,) * len(shape)))
    return calls_of(copy, shape, [source, target], (), scratch, pin)


class Table:
    """Calls as the words that the loop over tiles reads. Addresses are filled in for every run and every thread."""

    def __init__(self, calls: Sequence[Call], layout: Scratch) -> None:
        self._links: list[tuple[int, int]] = []  # words that hold the address of another word
        self.slots: list[tuple[int, int]] = []  # words that hold the address of an ndarray
        self._offsets: list[int] = []  # words that hold where the operands in these begin
        self._places: list[tuple[int, int]] = []  # words that hold an address in scratch
        self.params: list[tuple[int, int, str]] = []  # words that hold a number: its position and dtype
        self._codes = [call.code for call in calls]  # their memory lives as long as they do
        base = layout.memory.ctypes.data
        words = [len(calls), *[0] * (CALL_WORDS * len(calls))]
        for c, call in enumerate(calls):
            row = 1 + CALL_WORDS * c
            words[row], words[row + 3] = address(call.code), len(call.refs)
            self._links.append((row + 1, len(words)))
            self._operands(call, words, base)
            geometry = struct.unpack(f"<{len(call.geometry) // 8}q", call.geometry)
            self._links.append((row + 2, len(words)))
            words += geometry
            self._links.append((row + 4, len(words)))
            self._offsets += [len(words) + OPERAND_WORDS * k for k, r in enumerate(call.refs) if r.slot is not None]
            words += [w for k, r in enumerate(call.refs) for w in (geometry[k] + r.offset, r.step, r.chunk_step)]
        self._template = np.array(words, np.int64)
        self._links_at, linked = _columns(self._links)
        self._linked = 8 * linked

    def _operands(self, call: Call, words: list[int], base: int) -> None:
        """The block of a call's operands; for scratch, a word that stands where an ndarray keeps its data pointer."""
        at = len(words)
        numbers = [at + len(call.refs)]
        for _, kind in call.params:
            numbers.append(numbers[-1] + PARAM_WORDS.get(kind, 1))
        words += [0] * (numbers[-1] - at)
        for k, ref in enumerate(call.refs):
            if ref.slot is not None:
                self.slots.append((at + k, ref.slot))
            else:
                self._links.append((at + k, len(words)))
                self._places.append((len(words), ref.array.ctypes.data - base))
                words.append(0)
                words[at + k] = -DATA_OFFSET
        self.params += [(where, p, kind) for where, (p, kind) in zip(numbers, call.params, strict=False)]

    def moved(self, where: Callable[[int], tuple[int, int]]) -> Table:
        """The same calls on other arrays: `where` a slot is now, and how many bytes on."""
        new = copy.copy(self)
        new._template, new.slots = self._template.copy(), []
        for (at, slot), offset in zip(self.slots, self._offsets, strict=True):
            there, bytes = where(slot)
            new.slots.append((at, there))
            new._template[offset] += bytes
        return new

    def blank(self) -> ND:
        """Words of their own, linked to each other; `fill` adds what a run gives."""
        words = self._template.copy()
        words[self._links_at] += words.ctypes.data + self._linked
        return words

    def fill(self, words: ND, arrays: Sequence[ND], params: Callable[[int], Any], memory: Scratch) -> None:
        """The words for one thread of a run."""
        view = words.data
        self.place(view, arrays)
        self.lay(view, memory)
        self.number(view, [bits(params(pos), kind).tolist() for _, pos, kind in self.params])

    def place(self, view: memoryview[int], arrays: Sequence[ND]) -> None:
        """Where the arrays of a run are."""
        for at, slot in self.slots:
            view[at] = id(arrays[slot])

    def lay(self, view: memoryview[int], memory: Scratch) -> None:
        """Where scratch is."""
        base = memory.address
        for at, offset in self._places:
            view[at] = base + offset

    def number(self, view: memoryview[int], numbers: Sequence[Sequence[int]]) -> None:
        """The words of every param."""
        for (at, _, _), found in zip(self.params, numbers, strict=True):
            for k, word in enumerate(found):
                view[at + k] = word


def _columns(pairs: Sequence[tuple[int, int]]) -> tuple[ND, ND]:
    """Pairs as two arrays."""
    table = np.array(pairs, np.int64).reshape(-1, 2)
    return table[:, 0].copy(), table[:, 1].copy()


@dataclass(frozen=True)
class Stretch:
    """Tiles in a row that are alike: calls for one of them, and for one that has what the tile before left, if any."""

    first: int
    stop: int
    calls: Sequence[Call]
    further: Sequence[Call]


Words = list[list[list[int]]]  # of tables, of params


class _Room:
    """What one thread has for a walk: words of the tables it needs, most of them as its last run left them."""

    def __init__(self, tables: Sequence[Table], needed: Sequence[int]) -> None:
        self._tables = [tables[k] for k in needed]
        self._words = [table.blank() for table in self._tables]
        self._views = [words.data for words in self._words]
        self._memory: Scratch | None = None  # while a run has it
        self._laid: Scratch | None = None  # as the words say, and the numbers; None: an interrupt may have come between
        self._numbers: Words | None = None
        self.places = [0] * len(tables)  # addresses of the words of all tables
        for k, words in zip(needed, self._words, strict=True):
            self.places[k] = words.ctypes.data

    def fill(self, arrays: Sequence[ND], numbers: Words) -> None:
        """What is not as it was; scratch is taken from what is idle."""
        memory = _spaces.pop() if _spaces else Scratch(rounding.SCRATCH_BYTES)
        laid, numbered = memory is self._laid, numbers is self._numbers
        self._laid = self._numbers = None
        for k, (table, view) in enumerate(zip(self._tables, self._views, strict=True)):
            table.place(view, arrays)
            if not laid:
                table.lay(view, memory)
            if not numbered:
                table.number(view, numbers[k])
        self._memory, self._laid, self._numbers = memory, memory, numbers

    def leave(self) -> None:
        """Give scratch back, once (an interrupt may have come before there was any)."""
        memory, self._memory = self._memory, None
        if memory is not None:
            _spaces.append(memory)


class Walk:
    """Calls for all tiles, and how these are handed out."""

    def __init__(self, tiles: int, chunks: int, stretches: Sequence[Stretch], layout: Scratch) -> None:
        self.tiles, self.chunks = tiles, chunks
        self._brief_s = tuned().walk_brief_s
        self._stretches = [(s.first, s.stop, bool(s.further)) for s in stretches]
        self._calls = [list(self._of(c)) for c in range(chunks)]
        self._needed = sorted({table for calls in self._calls for table, _ in calls})
        self._begin([Table(calls, layout) for s in stretches for calls in (s.calls, s.further)])

    def _begin(self, tables: list[Table]) -> None:
        self._tables = tables
        self._idle: list[_Room] = []  # of threads that are not at work
        self._numbers: tuple[list[Any], Words] = [], [[] for _ in self._needed]  # of the last run, and their words
        self._parts: Parts | None = None  # once a run has been short: Python does not see every chunk of it

    def moved(self, where: Callable[[int], tuple[int, int]]) -> Walk:
        """The same walk over other arrays: `where` a slot is now, and how many bytes on."""
        new = copy.copy(self)
        new._begin([table.moved(where) for table in self._tables])
        return new

    def _of(self, chunk: int) -> Iterator[tuple[int, bytes]]:
        """The calls for a chunk of tiles: of which table, over which range."""
        begin, end = self.tiles * chunk // self.chunks, self.tiles * (chunk + 1) // self.chunks
        for k, (first, stop, further) in enumerate(self._stretches):
            low, high = max(begin, first), min(end, stop)
            middle = min(low + 1, high) if further else high
            for table, start, last in ((2 * k, low, middle), (2 * k + 1, middle, high)):
                if start < last:
                    yield table, struct.pack("<3q", start, last, chunk)

    def run(self, arrays: Sequence[ND], params: Callable[[int], Any]) -> None:
        """Over all tiles, on all threads."""
        used: list[_Room] = []
        numbers = self._as_words(params)

        def tables() -> list[int]:
            """The addresses of the tables of a thread."""
            room = self._idle.pop() if self._idle else _Room(self._tables, self._needed)
            used.append(room)
            room.fill(arrays, numbers)
            return room.places

        began, parts = time.perf_counter(), self._parts
        try:
            if parts is None:
                self._run_by_chunk(tables)
            else:
                parts.run(tables)
        finally:
            for room in reversed(used):  # a thread gets the same the next time: its core's caches hold it
                room.leave()
                self._idle.append(room)
        if time.perf_counter() - began >= self._brief_s:
            self._parts = None
        elif parts is None:
            self._parts = Parts(driver(), [self._calls])

    def _as_words(self, params: Callable[[int], Any]) -> Words:
        """The words of every param of the needed tables; those of the last run, if the numbers are the same objects."""
        tables = [self._tables[k] for k in self._needed]
        values = [params(pos) for table in tables for _, pos, _ in table.params]
        before, words = self._numbers
        if len(before) != len(values) or any(map(is_not, values, before)):
            words = [[bits(params(pos), kind).tolist() for _, pos, kind in table.params] for table in tables]
            # An array may be written to before the next run, and may show a part of memory that is to be let go of.
            self._numbers = [None if isinstance(v, np.ndarray) else v for v in values], words
        return words

    def _run_by_chunk(self, tables: Callable[[], list[int]]) -> None:
        """Chunks handed out by Python, which may be interrupted after each."""
        go, ready = drive(), list[list[int]]()

        def chunk(c: int) -> None:
            own = ready.pop() if ready else tables()
            for table, part in self._calls[c]:
                go(own[table], part)
            ready.append(own)

        threads.run(chunk, self.chunks)


def bits(value: Any, dtype: str) -> ND:
    """A number as the words that code reads it from."""
    text = np.asarray(value, dtype).tobytes()
    return np.frombuffer(text.ljust(8 * PARAM_WORDS.get(dtype, 1), b"\0"), np.int64)


_spaces: list[Scratch] = []  # of threads that are not at work
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_spaces.clear)
