"""Short texts of LLVM IR that all operators of handles use. In: names of words of the state, offsets. Out: text."""

from __future__ import annotations

from tilewise.backend.handles import STATE, WORDS

TYPE = 8  # bytes before an object's type: its count of references
VALUE = 16  # bytes before the value of a number
NUMERIC = 0xE1FFFF  # NumPy's numbers of dtypes, as bits: all before `object`, dates, durations and float16
MOST = 1 << 62  # elements, where a product has no room in 64 bits
OWNED = 0x4  # a flag of NumPy: the memory is the array's own, and not what it is a view of
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


def type_of(result: str, of: str) -> str:
    """Load an object's type."""
    return get(result, of, TYPE)


def known(x: str, then: str) -> str:
    """The ndarray of a handle that is known, as %n and its name, and on to a label; else to %slow."""
    return f"""  %n{x} = call ptr @known(ptr %{x})
  %not{x} = icmp eq ptr %n{x}, null
  br i1 %not{x}, label %slow, label %{then}"""


def give(function: str, *arguments: str, name: str = "f") -> str:
    """Return what a Python function of the state gives."""
    operands = ", ".join(f"ptr %{a}" for a in (name, *arguments))
    return f"""  %{name} = {load(function)}
  %r{name} = call ptr @python{len(arguments)}({operands})
  ret ptr %r{name}"""


def one_of(value: str, **names: str) -> str:
    """Whether a value is one of two or three words of the state: %ab or %abc."""
    loads = [f"  %{name} = {load(word)}" for name, word in names.items()]
    same = [f"  %{x} = icmp eq ptr %{value}, %{name}" for x, name in zip("abc", names, strict=False)]
    either = ["  %ab = or i1 %a, %b", "  %abc = or i1 %ab, %c"][: len(names) - 1]
    return "\n".join([*loads, *same, *either])
