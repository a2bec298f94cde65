"""Short texts of LLVM IR that all operators of handles use. In: names of words of the state, offsets. Out: text."""

from __future__ import annotations

from tilewise.backend.handles import STATE, WORDS

TYPE = 8  # bytes before an object's type: its count of references
VALUE = 16  # bytes before the value of a number
NUMERIC = 0xE1FFFF  # NumPy's numbers of dtypes, as bits: all before `object`, dates, durations and float16
MOST = 1 << 62  # elements, where a product has no room in 64 bits
CARRAY = 0x501  # flags of NumPy: in one piece, aligned, writable


def place(name: str) -> str:
    """Where a word of the state is."""
    return f"getelementptr ([{WORDS} x ptr], ptr @state, i64 0, i64 {STATE[name]})"


def load(name: str) -> str:
    """Load an address of the state that never changes."""
    return f"load ptr, ptr {place(name)}, !invariant.load !0"


def number(name: str) -> str:
    """Load a number of the state, which may change."""
    return f"load i64, ptr {place(name)}"


def get(result: str, of: str, offset: int, ty: str = "ptr") -> str:
    """Load what lies at an offset of an object."""
    return f"  %{result}.at = getelementptr i8, ptr %{of}, i64 {offset}\n  %{result} = load {ty}, ptr %{result}.at"
