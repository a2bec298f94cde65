"""Arrays of programs in memory. In: an emitter. Out: IR for arguments, views, results, overlaps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from tilewise.backend.llvm.emit.frame import DATA_OFFSET
from tilewise.backend.llvm.emit.text import COMPLEX, Function, Val
from tilewise.backend.llvm.math.scalar import IR_TYPE
from tilewise.backend.llvm.program import layout
from tilewise.backend.llvm.program.allocation import count, counted
from tilewise.kernel.program.effects import touches
from tilewise.kernel.program.ir import SHORT, Const, Invoke, Program, Return, View

if TYPE_CHECKING:
    from tilewise.backend.llvm.program.emit import Emitter

# The type of an element in memory; complex ones as integers of the same size, only to count places.
STORED = {**IR_TYPE, "bool": "i8", "complex128": "{ double, double }", "complex64": "{ float, float }"}


def align(dtype: str) -> int:
    size = np.dtype(dtype).itemsize
    return size // 2 if dtype.startswith("complex") else size


FIRST_NOTE = 100  # math functions have numbers below


class Scopes:
    """Which accesses cannot meet: LLVM's scopes, one for each argument and place of allocation."""

    def __init__(self, fn: Function, program: Program, first: int = FIRST_NOTE) -> None:
        """first: the number of the first note."""
        self.fn, self.program = fn, program
        roots = sorted({r for name in program.arrays for r in self.roots(name)})
        lines = fn.metadata
        lines.append(f'!{first} = distinct !{{!{first}, !"program"}}')
        self.unlikely, self.scalar, self.rolled = first + 1, first + 2, first + 3
        lines.append(f'!{self.unlikely} = !{{!"branch_weights", i32 1, i32 2000}}')
        lines.append(f'!{self.scalar} = !{{!"llvm.loop.vectorize.enable", i1 false}}')
        lines.append(f'!{self.rolled} = !{{!"llvm.loop.unroll.disable"}}')
        self.numbers = {r: first + 4 + k for k, r in enumerate(roots)}
        lines += [f"!{n} = distinct !{{!{n}, !{first}}}" for n in self.numbers.values()]
        self.next = first + 4 + len(roots)  # the number of the next note
        self.sets: dict[frozenset[int], int] = {}
        self.params = {p.name for p in program.params}

    def roots(self, array: str) -> list[str]:
        """What LLVM knows an array's memory by. (It may move what a version of a loop does past other statements.)"""
        return [self._of(r) for r in self.program.arrays[array].memory]

    def _of(self, root: str) -> str:
        return "arguments" if not self.program.apart and root.startswith(("argument", "outer")) else root

    def note(self, array: str) -> str:
        """What is said at a load or store."""
        mine = frozenset(self.numbers[r] for r in self.roots(array))
        others = frozenset(self.numbers.values()) - mine
        if not mine or not others:
            return ""
        return f", !alias.scope !{self._set(mine)}, !noalias !{self._set(others)}"

    def _set(self, numbers: frozenset[int]) -> int:
        if numbers not in self.sets:
            self.sets[numbers] = self.next
            self.fn.metadata.append(f"!{self.next} = !{{{', '.join(f'!{n}' for n in sorted(numbers))}}}")
            self.next += 1
        return self.sets[numbers]

    def plain_loop(self) -> str:
        """What is said of a loop that shall stay as it is: neither vectors nor copies of its body."""
        n = self.next
        self.next += 1
        self.fn.metadata.append(f"!{n} = distinct !{{!{n}, !{self.scalar}, !{self.rolled}}}")
        return f", !llvm.loop !{n}"

    def scalar_loop(self) -> str:
        """What is said of a loop that is quicker by elements than by vectors; it may be unrolled."""
        n = self.next
        self.next += 1
        self.fn.metadata.append(f"!{n} = distinct !{{!{n}, !{self.scalar}}}")
        return f", !llvm.loop !{n}"

    def independent_loop(self) -> tuple[str, str]:
        """What is said of a loop whose iterations do not meet in memory, and at each of its accesses."""
        n = self.next
        self.next += 3
        self.fn.metadata += [
            f"!{n} = distinct !{{}}",
            f'!{n + 1} = !{{!"llvm.loop.parallel_accesses", !{n}}}',
            f"!{n + 2} = distinct !{{!{n + 2}, !{n + 1}}}",
        ]
        return f", !llvm.loop !{n + 2}", f", !llvm.access.group !{n}"

    def outside(self, array: str) -> bool:
        """Whether an array may show memory of the caller's."""
        return bool(self.program.arrays[array].memory & self.params)

    def touches(self, s: Invoke, functions: Sequence[Program]) -> bool:
        """Whether a call of a function of the program may change something of the caller's."""
        return touches(self.program, s, functions, self.params)


def arguments(em: Emitter) -> None:
    """Take the arguments apart; the call misses if they are not as the program was made for."""
    fn, at = em.fn, 0
    missed = Val(fn, "false", "i1", 1)
    number = 0
    for p in em.p.params:
        word = fn.let(f"getelementptr i64, ptr %objs, i64 {at}")
        at += 1
        if p.array is None:
            number_from(em, p.name, p.dtype, word)
            at += p.dtype == "complex128"
            continue
        obj = fn.let(f"load ptr, ptr {word}")
        field = partial(_field, fn, obj)
        slots, a = em.arrays[p.name], em.p.arrays[p.name]
        fn.do(f"store ptr {field(DATA_OFFSET, 'ptr')}, ptr {slots.data}")
        number += 1
        fn.do(f"store i64 {number}, ptr {slots.base}")
        fn.do(f"store i64 {number}, ptr {slots.ident}")
        dims, strides = field(layout.DIMS_OFFSET, "ptr"), field(layout.STRIDES_OFFSET, "ptr")
        for k in range(a.rank):
            for source, target in ((dims, slots.dims[k]), (strides, slots.strides[k])):
                one = fn.let(f"getelementptr i64, ptr {source}, i64 {k}")
                fn.do(f"store i64 {fn.let(f'load i64, ptr {one}')}, ptr {target}")
            if em.p.short:
                missed = missed | em.word(slots.dims[k]).cmp("ugt", SHORT)
        if p.width:
            missed = missed | em.word(slots.dims[-1]).cmp("ne", p.width)
            fn.do(f"store i64 {p.width}, ptr {slots.dims[-1]}")
        wanted = layout.ALIGNED | (layout.C_CONTIGUOUS if a.dense else 0) | (layout.WRITEABLE if p.written else 0)
        flags = Val(fn, field(layout.FLAGS_OFFSET, "i32"), "i32", 1)
        missed = missed | (flags & wanted).cmp("ne", wanted)
        if p.written and not a.dense:
            missed = missed | _overlaps_itself(em, p.name)
    if em.p.apart:
        several = [p for p in em.p.params if p.array is not None]
        for k, p in enumerate(several):
            for q in several[k + 1 :]:
                if p.written or q.written:
                    missed = missed | ~apart(em, p.name, q.name)
    miss, go = fn.fresh("miss"), fn.fresh("go")
    fn.do(f"br i1 {missed.name}, label %{miss}, label %{go}")
    fn.label(miss)
    fn.do(f"store i64 {layout.MISSED}, ptr {em.out(layout.STATUS)}")
    fn.do(f"br label %{em.exit}")
    fn.label(go)


def _overlaps_itself(em: Emitter, array: str) -> Val:
    """Whether two subscripts may show one element: a step along an axis is within what those of shorter steps cover.

    Some arrays whose axes interleave without meeting count as well.
    """
    a, slots = em.p.arrays[array], em.arrays[array]
    lengths = [em.word(n) for n in slots.dims]
    steps = [s.cmp("slt", 0).select(-s, s) for s in map(em.word, slots.strides)]
    meets, empty = Val(em.fn, "false", "i1", 1), Val(em.fn, "false", "i1", 1)
    for k, (n, step) in enumerate(zip(lengths, steps, strict=True)):
        covered = em.number(np.dtype(a.dtype).itemsize)
        for j, (m, s) in enumerate(zip(lengths, steps, strict=True)):
            if j != k:
                covered = covered + s.cmp("sle", step).select((m - 1) * s, 0)
        meets = meets | (n.cmp("sgt", 1) & step.cmp("slt", covered))
        empty = empty | n.cmp("eq", 0)
    return meets & ~empty


def _field(fn: Function, obj: str, offset: int, ty: str) -> str:
    """A field of an object."""
    return fn.let(f"load {ty}, ptr {fn.let(f'getelementptr i8, ptr {obj}, i64 {offset}')}")


def number_from(em: Emitter, name: str, dtype: str, word: str) -> None:
    """A name gets the number in memory."""
    fn, ty = em.fn, IR_TYPE[dtype]
    if name not in em.names:
        return
    if ty in COMPLEX:
        part = COMPLEX[ty]
        other = fn.let(f"getelementptr {part}, ptr {word}, i64 1")
        re, im = (fn.let(f"load {part}, ptr {p}") for p in (word, other))
        both = f"{{ {part}, {part} }}"
        half = fn.let(f"insertvalue {both} poison, {part} {re}, 0")
        fn.do(f"store {both} {fn.let(f'insertvalue {both} {half}, {part} {im}, 1')}, ptr {em.names[name]}")
    elif dtype == "bool":
        byte = Val(fn, fn.let(f"load i8, ptr {word}"), "i8", 1).cmp("ne", 0)
        fn.do(f"store {byte.text}, ptr {em.names[name]}")
    else:
        fn.do(f"store {ty} {fn.let(f'load {ty}, ptr {word}')}, ptr {em.names[name]}")


def extent(em: Emitter, array: str) -> tuple[Val, Val]:
    """The first address of an array and the first behind it (equal ones if it is empty)."""
    fn, a, slots = em.fn, em.p.arrays[array], em.arrays[array]
    data = Val(fn, fn.let(f"ptrtoint ptr {fn.let(f'load ptr, ptr {slots.data}')} to i64"), "i64", 1)
    low, high = data, data + np.dtype(a.dtype).itemsize
    empty = Val(fn, "false", "i1", 1)
    for k in range(a.rank):
        n, s = em.word(slots.dims[k]), em.word(slots.strides[k])
        span = (n - 1) * s
        low = low + span.intrinsic("smin", 0)
        high = high + span.intrinsic("smax", 0)
        empty = empty | n.cmp("eq", 0)
    return low, empty.select(low, high)


def apart(em: Emitter, a: str, b: str) -> Val:
    """Whether two arrays lie apart."""
    (low, high), (low2, high2) = extent(em, a), extent(em, b)
    return high.cmp("ule", low2) | high2.cmp("ule", low)


def view(em: Emitter, s: View) -> None:
    """s.array shows a part of s.source."""
    fn = em.fn
    source, target = em.arrays[s.source], em.arrays[s.array]
    a = em.p.arrays[s.source]
    data = fn.let(f"load ptr, ptr {source.data}")
    size = np.dtype(a.dtype).itemsize
    strides = [em.word(p) for p in source.strides]
    if a.unit and a.rank:
        strides[-1] = em.number(size)
    dims: list[Val] = []
    steps: list[Val] = []
    offsets = [(axis, em.e(i)) for axis, i in s.at]
    for x in s.spans:
        dims.append(em.e(x.length))
        if x.axis < 0:
            steps.append(em.number(0))
            continue
        plain = isinstance(x.start, Const) and x.start.value == 0 and isinstance(x.step, Const) and x.step.value == 1
        if not plain:
            offsets.append((x.axis, em.e(x.start)))
        stride = strides[x.axis]
        steps.append(stride if isinstance(x.step, Const) and x.step.value == 1 else stride * em.e(x.step))
    # A part without elements may start anywhere: it is not looked at.
    for axis, i in offsets:
        move = i.make(f"mul {i.text}, {strides[axis].name}")
        data = fn.let(f"getelementptr i8, ptr {data}, {move.text}")
    base, ident = em.word(source.base), em.word(source.ident) if s.renamed else em.number(0)
    if counted(em, s.array):
        count(em, base, 1)
        count(em, em.word(target.base), -1)
    fn.do(f"store ptr {data}, ptr {target.data}")
    em.put(target.base, base)
    em.put(target.ident, ident)
    for k, (n, step) in enumerate(zip(dims, steps, strict=True)):
        em.put(target.dims[k], n)
        em.put(target.strides[k], step)


def returned(em: Emitter, s: Return) -> None:
    """Hand the results over; arrays among them are held once more, for the caller."""
    fn, at = em.fn, layout.RESULTS
    made = [None if isinstance(v, str) else em.e(v) for v in s.values]
    for v, number in zip(s.values, made, strict=True):
        if number is not None:
            hand_number(em, number, em.out(at))
            at += 2 if number.ty == "c128" else 1
            continue
        assert isinstance(v, str)
        count(em, em.word(em.arrays[v].base), 1)
        hand_array(em, v, em.out(at))
        at += layout.array_words(em.p.arrays[v].rank)
    if em.main is not None and em.reruns:
        em.put(em.out(layout.WRITTEN), em.word(em.written))
    fn.do(f"store i64 {s.which}, ptr {em.out(layout.WHICH)}")
    fn.do(f"store i64 {layout.RETURNED}, ptr {em.out(layout.STATUS)}")


def hand_array(em: Emitter, name: str, at: str) -> None:
    """The words of an array, to memory."""
    fn, slots = em.fn, em.arrays[name]
    data = fn.let(f"ptrtoint ptr {fn.let(f'load ptr, ptr {slots.data}')} to i64")
    words = [em.number(data), *map(em.word, (slots.base, slots.ident, *slots.dims, *slots.strides))]
    for k, w in enumerate(words):
        em.put(fn.let(f"getelementptr i64, ptr {at}, i64 {k}"), w)


def take_array(em: Emitter, name: str, at: str) -> None:
    """An array variable gets what words in memory say; it holds that memory already."""
    count(em, em.word(em.arrays[name].base), -1)
    copy_words(em, name, at)


def copy_words(em: Emitter, name: str, at: str) -> None:
    """The words of an array, from memory to its variable."""
    fn, slots = em.fn, em.arrays[name]
    data = fn.let(f"load ptr, ptr {at}")
    fn.do(f"store ptr {data}, ptr {slots.data}")
    for k, place in enumerate((slots.base, slots.ident, *slots.dims, *slots.strides)):
        em.put(place, em.word(fn.let(f"getelementptr i64, ptr {at}, i64 {k + 1}")))


def hand_number(em: Emitter, v: Val, at: str) -> None:
    """A number, to memory; bools and the like in a whole word."""
    fn = em.fn
    if v.ty in COMPLEX:
        for k, part in enumerate(v.parts):
            place = fn.let(f"getelementptr {part.ty}, ptr {at}, i64 {k}")
            fn.do(f"store {part.text}, ptr {place}")
        return
    if v.ty == "i1":
        v = v.convert("zext", "i64")
    fn.do(f"store {v.text}, ptr {at}")
