"""Draws from Python's own generators (`random.Random`). In: the address of a generator's state. Out: IR for a number.

CPython keeps the state of its Mersenne twister in the object: a position, then 624 words. Compiled code draws from
there, as `_randommodule.c` does, so that Python goes on where it ends. Where the state lies elsewhere, Python is asked.
"""

from __future__ import annotations

import _random
import ctypes
import random
import sys
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewise.backend.llvm.emit.text import Function, Val

WORDS, FAR = 624, 397
HEAD = object.__basicsize__  # of an object, before the state
FUNCTIONS = {"python_random": "double", "python_bits": "i64", "python_range": "i64"}


@cache
def usable() -> bool:
    """Whether the state lies where it is expected."""
    size = ctypes.sizeof(ctypes.c_uint32) * (WORDS + 1)
    if sys.implementation.name != "cpython" or _random.Random.__basicsize__ < HEAD + size:
        return False
    sample = random.Random(7)
    sample.random()
    found = tuple((ctypes.c_uint32 * (WORDS + 1)).from_address(address(sample)))
    return bool((*found[1:], found[0]) == sample.getstate()[1])


def address(generator: random.Random) -> int:
    """Where the state of a generator lies."""
    return id(generator) + HEAD


def drawn(fn: Function, function: str, state: str, args: Sequence[Val]) -> str:
    """A number of the type that `FUNCTIONS` says."""
    fn.helpers["python_random"] = _TEXT
    fn.declares.add("declare i64 @llvm.ctlz.i64(i64, i1)")
    given = "".join(f", {v.text}" for v in args)
    return str(fn.let(f"call {FUNCTIONS[function]} @{function}(ptr {state}{given})"))


_TEXT = f"""define internal void @python_twist(ptr %p0, ptr %p1, ptr %p2) alwaysinline {{
entry:
  %w0 = load i32, ptr %p0
  %w1 = load i32, ptr %p1
  %w2 = load i32, ptr %p2
  %high = and i32 %w0, {-(1 << 31)}
  %low = and i32 %w1, {(1 << 31) - 1}
  %both = or i32 %high, %low
  %half = lshr i32 %both, 1
  %last = and i32 %both, 1
  %odd = icmp ne i32 %last, 0
  %twist = select i1 %odd, i32 {0x9908B0DF - (1 << 32)}, i32 0
  %mixed = xor i32 %w2, %half
  %new = xor i32 %mixed, %twist
  store i32 %new, ptr %p0
  ret void
}}

define internal void @python_part(ptr %words, i64 %from, i64 %to, i64 %far) alwaysinline {{
entry:
  br label %loop
loop:
  %k = phi i64 [ %from, %entry ], [ %next, %loop ]
  %next = add i64 %k, 1
  %other = add i64 %k, %far
  %p0 = getelementptr i32, ptr %words, i64 %k
  %p1 = getelementptr i32, ptr %words, i64 %next
  %p2 = getelementptr i32, ptr %words, i64 %other
  call void @python_twist(ptr %p0, ptr %p1, ptr %p2)
  %more = icmp ult i64 %next, %to
  br i1 %more, label %loop, label %done
done:
  ret void
}}

define internal void @python_words(ptr %state) noinline {{
entry:
  %words = getelementptr i8, ptr %state, i64 4
  call void @python_part(ptr %words, i64 0, i64 {WORDS - FAR}, i64 {FAR})
  call void @python_part(ptr %words, i64 {WORDS - FAR}, i64 {WORDS - 1}, i64 {FAR - WORDS})
  %p0 = getelementptr i32, ptr %words, i64 {WORDS - 1}
  %p2 = getelementptr i32, ptr %words, i64 {FAR - 1}
  call void @python_twist(ptr %p0, ptr %words, ptr %p2)
  ret void
}}

define internal i32 @python_word(ptr %state) {{
entry:
  %old = load i32, ptr %state
  %left = icmp ult i32 %old, {WORDS}
  br i1 %left, label %take, label %refill
refill:
  call void @python_words(ptr %state)
  br label %take
take:
  %at = phi i32 [ %old, %entry ], [ 0, %refill ]
  %wide = zext i32 %at to i64
  %words = getelementptr i8, ptr %state, i64 4
  %p = getelementptr i32, ptr %words, i64 %wide
  %y = load i32, ptr %p
  %next = add i32 %at, 1
  store i32 %next, ptr %state
  %s1 = lshr i32 %y, 11
  %y1 = xor i32 %y, %s1
  %s2 = shl i32 %y1, 7
  %m2 = and i32 %s2, {0x9D2C5680 - (1 << 32)}
  %y2 = xor i32 %y1, %m2
  %s3 = shl i32 %y2, 15
  %m3 = and i32 %s3, {0xEFC60000 - (1 << 32)}
  %y3 = xor i32 %y2, %m3
  %s4 = lshr i32 %y3, 18
  %y4 = xor i32 %y3, %s4
  ret i32 %y4
}}

define internal double @python_random(ptr %state) {{
entry:
  %first = call i32 @python_word(ptr %state)
  %second = call i32 @python_word(ptr %state)
  %a = lshr i32 %first, 5
  %b = lshr i32 %second, 6
  %x = uitofp i32 %a to double
  %y = uitofp i32 %b to double
  %high = fmul double %x, 67108864.0
  %both = fadd double %high, %y
  %made = fmul double %both, 0x3CA0000000000000
  ret double %made
}}

define internal i64 @python_bits(ptr %state, i64 %k) {{
entry:
  %first = call i32 @python_word(ptr %state)
  %few = icmp ule i64 %k, 32
  br i1 %few, label %one, label %two
one:
  %less = sub i64 32, %k
  %by = trunc i64 %less to i32
  %short = lshr i32 %first, %by
  %found = zext i32 %short to i64
  ret i64 %found
two:
  %second = call i32 @python_word(ptr %state)
  %beyond = sub i64 64, %k
  %over = trunc i64 %beyond to i32
  %top = lshr i32 %second, %over
  %wide = zext i32 %top to i64
  %up = shl i64 %wide, 32
  %down = zext i32 %first to i64
  %made = or i64 %up, %down
  ret i64 %made
}}

define internal i64 @python_range(ptr %state, i64 %low, i64 %width) {{
entry:
  %zeros = call i64 @llvm.ctlz.i64(i64 %width, i1 false)
  %k = sub i64 64, %zeros
  br label %draw
draw:
  %r = call i64 @python_bits(ptr %state, i64 %k)
  %fits = icmp ult i64 %r, %width
  br i1 %fits, label %good, label %draw
good:
  %made = add i64 %low, %r
  ret i64 %made
}}"""
