"""Elements in memory. In: an address, a dtype, lanes. Out: IR that loads or stores them, masked or not.

In memory a bool is a byte, a float16 its bits, and a complex number two parts beside each other.
"""

from __future__ import annotations

from tilewise.backend.llvm.emit.text import SUFFIX, Function, Val, apart, interleave, pair, vtype
from tilewise.backend.llvm.math import half
from tilewise.backend.llvm.math.scalar import IR_TYPE

PART = {"complex128": "float64", "complex64": "float32"}  # what complex numbers are pairs of, in memory


def memory_type(dtype: str) -> str:
    """The type an element has in memory."""
    if dtype in PART:
        return vtype(IR_TYPE[dtype], 1)
    return {"bool": "i8", "float16": "i16"}.get(dtype, IR_TYPE[dtype])


def block(dtype: str, lanes: int) -> str:
    """The type of contiguous elements in memory: those of complex numbers are twice as many parts."""
    return vtype(memory_type(PART[dtype]), 2 * lanes) if dtype in PART else vtype(memory_type(dtype), lanes)


def suffix(dtype: str) -> str:
    """The end of the names of intrinsics that take such elements."""
    part = memory_type(PART.get(dtype, dtype))
    return SUFFIX.get(part, part)


def from_memory(fn: Function, name: str, dtype: str, lanes: int) -> Val:
    """What was loaded, as values."""
    if dtype in PART:
        return pair(*apart(Val(fn, name, memory_type(PART[dtype]), 2 * lanes)))
    value = Val(fn, name, memory_type(dtype), lanes)
    if dtype == "float16":
        return half.from_memory(value)
    return value.cmp("ne", 0) if dtype == "bool" else value


def to_memory(value: Val, dtype: str) -> Val:
    """Values, as they are stored."""
    if dtype in PART:
        return interleave(*value.parts)
    if dtype == "float16":
        return half.to_memory(value)
    return value.convert("zext", "i8") if dtype == "bool" else value


def mask_of(mask: Val, dtype: str) -> tuple[Val, int]:
    """A mask of elements as one of what they are in memory, and its lanes."""
    mask = interleave(mask, mask) if dtype in PART else mask
    return mask, mask.lanes


def load(fn: Function, at: str, dtype: str, lanes: int, mask: Val | None = None) -> Val:
    """Contiguous lanes; masked-off lanes are zero and not touched."""
    vec = block(dtype, lanes)
    if mask is None:
        return from_memory(fn, fn.let(f"load {vec}, ptr {at}, align 1"), dtype, lanes)
    mask, count = mask_of(mask, dtype)
    name = f"llvm.masked.load.v{count}{suffix(dtype)}.p0"
    fn.declares.add(f"declare {vec} @{name}(ptr, i32, <{count} x i1>, {vec})")
    return from_memory(
        fn, fn.let(f"call {vec} @{name}(ptr {at}, i32 1, {mask.text}, {vec} zeroinitializer)"), dtype, lanes
    )


def store(fn: Function, at: str, value: Val, dtype: str, mask: Val | None = None) -> None:
    """Contiguous lanes; masked-off lanes are not touched."""
    value = to_memory(value, dtype)
    if mask is None:
        fn.do(f"store {value.text}, ptr {at}, align 1")
        return
    mask, count = mask_of(mask, dtype)
    name = f"llvm.masked.store.v{count}{suffix(dtype)}.p0"
    fn.declares.add(f"declare void @{name}({vtype(value.ty, count)}, ptr, i32, <{count} x i1>)")
    fn.do(f"call void @{name}({value.text}, ptr {at}, i32 1, {mask.text})")
