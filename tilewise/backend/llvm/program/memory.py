"""Arrays of programs in memory. In: an emitter. Out: IR for arguments, views, allocations, results, overlaps."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from tilewise.backend.llvm.emit.frame import DATA_OFFSET
from tilewise.backend.llvm.emit.text import COMPLEX, Function, Val
from tilewise.backend.llvm.math.scalar import IR_TYPE
from tilewise.backend.llvm.program import layout
from tilewise.kernel.program.ir import SHORT, Alloc, Const, Dim, Program, Return, View

if TYPE_CHECKING:
    from tilewise.backend.llvm.program.emit import Emitter

# The type of an element in memory; complex ones as integers of the same size, only to count places.
STORED = {**IR_TYPE, "bool": "i8", "complex128": "{ double, double }", "complex64": "{ float, float }"}


def align(dtype: str) -> int:
    size = np.dtype(dtype).itemsize
    return size // 2 if dtype.startswith("complex") else size


STACK_BYTES = 512  # of an array that lies on the stack
FIRST_NOTE = 100  # math functions have numbers below


class Scopes:
    """Which accesses cannot meet: LLVM's scopes, one for each argument and place of allocation."""

    def __init__(self, fn: Function, program: Program, first: int = FIRST_NOTE) -> None:
        """first: the number of the first note."""
        self.fn, self.program = fn, program
        roots = sorted({self._of(r) for a in program.arrays.values() for r in a.roots})
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

    def _of(self, root: str) -> str:
        return "arguments" if not self.program.apart and root.startswith(("argument", "outer")) else root

    def note(self, array: str) -> str:
        """What is said at a load or store."""
        mine = frozenset(self.numbers[self._of(r)] for r in self.program.arrays[array].roots)
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
        return bool(self.program.arrays[array].roots & self.params)


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
    whole = not s.at and [x.axis for x in s.spans] == list(range(a.rank))
    offsets = [(axis, em.e(i)) for axis, i in s.at]
    for x in s.spans:
        dims.append(em.e(x.length))
        if x.axis < 0:
            steps.append(em.number(0))
            whole = False
            continue
        plain = isinstance(x.start, Const) and x.start.value == 0 and isinstance(x.step, Const) and x.step.value == 1
        whole = whole and plain and x.length == Dim(s.source, x.axis)
        if not plain:
            offsets.append((x.axis, em.e(x.start)))
        stride = strides[x.axis]
        steps.append(stride if isinstance(x.step, Const) and x.step.value == 1 else stride * em.e(x.step))
    # A part without elements may start anywhere: it is not looked at.
    for axis, i in offsets:
        move = i.make(f"mul {i.text}, {strides[axis].name}")
        data = fn.let(f"getelementptr i8, ptr {data}, {move.text}")
    base, ident = em.word(source.base), em.word(source.ident) if whole else em.number(0)
    counted = owned(s.array) and any(em.scopes._of(r) not in em.scopes.params for r in em.p.arrays[s.array].roots)
    if counted:
        count(em, base, 1)
        count(em, em.word(target.base), -1)
    fn.do(f"store ptr {data}, ptr {target.data}")
    em.put(target.base, base)
    em.put(target.ident, ident)
    for k, (n, step) in enumerate(zip(dims, steps, strict=True)):
        em.put(target.dims[k], n)
        em.put(target.strides[k], step)


def owned(array: str) -> bool:
    """Whether a variable keeps memory alive; temporary views do not."""
    return not array.startswith("$") or array.startswith("$a")


_HOLD = """define internal void @hold(i64 %base, i64 %by) {
entry:
  %heap = icmp uge i64 %base, 4096
  br i1 %heap, label %yes, label %no
yes:
  %p = inttoptr i64 %base to ptr
  %old = load i64, ptr %p
  %new = add i64 %old, %by
  store i64 %new, ptr %p
  %last = icmp eq i64 %new, 0
  br i1 %last, label %gone, label %no
gone:
  call void @free(ptr %p)
  ret void
no:
  ret void
}"""


def count(em: Emitter, base: Val, by: int) -> None:
    """One more holder of memory, or one less."""
    em.fn.declares.add("declare void @free(ptr)")
    em.fn.helpers["hold"] = _HOLD
    em.fn.do(f"call void @hold({base.text}, i64 {by})")


def allocate(em: Emitter, s: Alloc) -> None:
    """Memory for an array; that of its last turn, if nobody else holds it and it is large enough."""
    if s.private and not em.long and _on_stack(em, s):
        return
    fn, target = em.fn, em.arrays[s.array]
    a = em.p.arrays[s.array]
    dims = [em.e(n) for n in s.shape]
    bad = huge = Val(fn, "false", "i1", 1)
    total = em.number(np.dtype(a.dtype).itemsize)
    strides: list[Val] = []
    for n in reversed(dims):
        bad = bad | n.cmp("slt", 0)
        strides.insert(0, total)
        fn.declares.add("declare { i64, i1 } @llvm.smul.with.overflow.i64(i64, i64)")
        both = fn.let(f"call {{ i64, i1 }} @llvm.smul.with.overflow.i64({total.text}, {n.text})")
        total = Val(fn, fn.let(f"extractvalue {{ i64, i1 }} {both}, 0"), "i64", 1)
        huge = huge | Val(fn, fn.let(f"extractvalue {{ i64, i1 }} {both}, 1"), "i1", 1)
    em.fail_if(bad, s.fault)
    em.fail_if(huge, s.huge)
    fn.declares |= {"declare void @free(ptr)", "declare ptr @aligned_alloc(i64, i64)", "declare ptr @malloc(i64)"}
    fn.helpers["hold"] = _HOLD
    fn.helpers["obtain"] = _OBTAIN
    holder = target.base
    if s.private and not em.long:  # views do not count who holds it: its variable has no base
        if s.array not in em.kept:
            em.kept[s.array] = fn.hoist("alloca i64")
            fn.entry.append(f"  store i64 0, ptr {em.kept[s.array]}")
        holder = em.kept[s.array]
    spare = _spare(em, s)
    base = Val(fn, fn.let(f"call i64 @obtain({em.word(holder).text}, {total.text}, ptr {spare})"), "i64", 1)
    em.put(holder, base)
    em.fail_if(base.cmp("eq", 0), s.full)
    start = base + layout.HEAD
    data = fn.let(f"inttoptr {start.text} to ptr")
    fn.do(f"store ptr {data}, ptr {target.data}")
    em.put(target.ident, em.number(0))
    for k, (n, stride) in enumerate(zip(dims, strides, strict=True)):
        em.put(target.dims[k], n)
        em.put(target.strides[k], stride)
    if s.zero:
        fn.declares.add("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
        fn.do(f"call void @llvm.memset.p0.i64(ptr {data}, i8 0, {total.text}, i1 false)")


def _spare(em: Emitter, s: Alloc) -> str:
    """Where a place in a loop writes down memory that others hold at the time; "null": it does not.

    `y = y + f(y)` needs two arrays in turns: while one is read, the other is written.
    """
    if s.private or em.long or not em.nested or em.within:
        return "null"
    if s.array not in em.spares:
        em.spares[s.array] = em.fn.hoist("alloca i64")
        em.fn.entry.append(f"  store i64 0, ptr {em.spares[s.array]}")
    return em.spares[s.array]


def _on_stack(em: Emitter, s: Alloc) -> bool:
    """Memory on the stack for a small array of known lengths; False: it is none."""
    fn, target = em.fn, em.arrays[s.array]
    shape = [n.value for n in s.shape if isinstance(n, Const)]
    size = np.dtype(em.p.arrays[s.array].dtype).itemsize
    if len(shape) < len(s.shape) or min(shape, default=1) < 1 or size * math.prod(shape) > STACK_BYTES:
        return False
    place = fn.hoist(f"alloca [{size * math.prod(shape)} x i8], align 64")
    fn.do(f"store ptr {place}, ptr {target.data}")
    em.put(target.ident, em.number(0))
    for k, n in enumerate(shape):
        em.put(target.dims[k], em.number(n))
        em.put(target.strides[k], em.number(size * math.prod(shape[k + 1 :])))
    if s.zero:
        fn.declares.add("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
        fn.do(f"call void @llvm.memset.p0.i64(ptr {place}, i8 0, i64 {size * math.prod(shape)}, i1 false)")
    return True


SPARE_BYTES = 1 << 20  # of arrays that are kept for the next turn
SMALL_BYTES = 512  # of arrays that need not begin with a line of the cache: malloc is several times faster

_OBTAIN = f"""define internal i64 @obtain(i64 %old, i64 %size, ptr %spare) {{
entry:
  %again = call i1 @usable(i64 %old, i64 %size)
  br i1 %again, label %same, label %other
same:
  ret i64 %old
other:
  %turns = icmp ne ptr %spare, null
  br i1 %turns, label %look, label %drop
look:
  %kept = load i64, ptr %spare
  %small = icmp ule i64 %size, {SPARE_BYTES}
  %next = select i1 %small, i64 %old, i64 0
  store i64 %next, ptr %spare
  %usable = call i1 @usable(i64 %kept, i64 %size)
  br i1 %usable, label %swap, label %replace
swap:
  br i1 %small, label %swapped, label %let
let:
  call void @hold(i64 %old, i64 -1)
  br label %swapped
swapped:
  ret i64 %kept
replace:
  call void @hold(i64 %kept, i64 -1)
  br i1 %small, label %fresh, label %drop
drop:
  call void @hold(i64 %old, i64 -1)
  br label %fresh
fresh:
  %up = add i64 %size, {layout.HEAD + 63}
  %all = and i64 %up, -64
  %short = icmp ule i64 %size, {SMALL_BYTES}
  br i1 %short, label %any, label %lines
any:
  %m1 = call ptr @malloc(i64 %all)
  br label %got
lines:
  %m2 = call ptr @aligned_alloc(i64 64, i64 %all)
  br label %got
got:
  %m = phi ptr [ %m1, %any ], [ %m2, %lines ]
  %none = icmp eq ptr %m, null
  br i1 %none, label %fail, label %good
good:
  store i64 1, ptr %m
  %s = getelementptr i64, ptr %m, i64 1
  store i64 %size, ptr %s
  %w = ptrtoint ptr %m to i64
  ret i64 %w
fail:
  ret i64 0
}}

define internal i1 @usable(i64 %old, i64 %size) {{
entry:
  %heap = icmp uge i64 %old, 4096
  br i1 %heap, label %look, label %no
look:
  %p = inttoptr i64 %old to ptr
  %holders = load i64, ptr %p
  %q = getelementptr i64, ptr %p, i64 1
  %room = load i64, ptr %q
  %alone = icmp eq i64 %holders, 1
  %fits = icmp uge i64 %room, %size
  %both = and i1 %alone, %fits
  ret i1 %both
no:
  ret i1 0
}}"""


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


def release_all(em: Emitter) -> None:
    """What variables and places of allocation hold is let go."""
    for place in (*em.kept.values(), *em.spares.values()):
        count(em, em.word(place), -1)
    for name, slots in em.arrays.items():
        roots = em.p.arrays[name].roots
        if (
            owned(name)
            and name not in em.scopes.params
            and any(r not in em.scopes.params and r != "arguments" for r in roots)
        ):
            count(em, em.word(slots.base), -1)
