"""What a backend and the handles of arrays agree on, so that machine code can be the operators of handles.

A table (`STATE`) holds a few numbers, then addresses of objects, then those of the Python functions that do what the
code leaves to them. The code is `FUNCTIONS`: what CPython calls for `a + b`, `a += b`, `-a`, `a < b`, `a ** b`,
`a @ b`, `a[k]`, `a[k] = v` and `del a[k]`.
"""

from __future__ import annotations

from tilewise.records import dataclass

BINARY = {
    "add": "Add",
    "sub": "Subtract",
    "mul": "Multiply",
    "truediv": "TrueDivide",
    "floordiv": "FloorDivide",
    "mod": "Remainder",
    "and": "And",
    "or": "Or",
    "xor": "Xor",
}
UNARY = {"neg": "Negative", "abs": "Absolute"}
NUMERICAL = ("add", "sub", "mul", "truediv")  # operators that known numbers have as machine code, too
COMPARE = ("lt", "le", "eq", "ne", "gt", "ge")  # in CPython's order
OBJECTS = (
    "array cell number ndarray float64 float int int64 slice tuple nonetype ellipsis none false zero "
    "notimplemented float64_dtype dot ufunc_call"
).split()
METHODS = [
    *(f"{r}{name}" for name in BINARY for r in ("", "r", "i")),
    *UNARY,
    *COMPARE,
    "pow",
    "rpow",
    "matmul",
    "rmatmul",
    "getitem",
    "setitem",
    "delitem",
]
# Numbers: elements below which an operation is done at once, of any dtype and of float64; how many operations on larger
# arrays of float64 may still be done before a Python function decides about one; whether some of these wait for the
# next one (array/chains/), and a table of instructions where none does; lists of memory that is at hand, and how much
# more of it is kept; how many objects are being let go of inside of one another, and a list of those that wait.
NUMBERS = ["limit", "limit_float64", "allowance", "waiting", "at_once", "free_handles", "free_cells", "room_handles"]
NUMBERS += ["room_cells", "depth", "later", "scratch"]
AT_ONCE = 512  # instructions that the table has room for, a power of two: each has one place, by its address
NUMBER_METHODS = [f"{r}{name}" for name in NUMERICAL for r in ("", "r")]  # of numbers; in the table as `number_add`
STATE = {
    name: k for k, name in enumerate([*NUMBERS, *OBJECTS, *METHODS, *(f"number_{name}" for name in NUMBER_METHODS)])
}  # where each word is in the table
WORDS = len(STATE)
FUNCTIONS = [*BINARY, *(f"i{name}" for name in BINARY), *UNARY, "compare", "pow", "matmul", "getitem", "setitem"]
FUNCTIONS += ["free_handle", "free_cell"]  # what CPython calls when nobody refers to one any more
FUNCTIONS += [*(f"number_{name}" for name in NUMERICAL), "ufunc_call"]
OF_NDARRAYS = ["cumsum"]  # functions of one ndarray: a new one, or NotImplemented
FUNCTIONS += OF_NDARRAYS
SCRATCH = 1024  # elements of float64 that the table has memory for: what is computed before it is written in place


@dataclass(frozen=True)
class Offsets:
    """Where things lie in objects, in bytes."""

    handle: tuple[tuple[str, int], ...]  # slots of a handle by name
    cell: tuple[tuple[str, int], ...]
    ndim: int  # of an ndarray
    dims: int
    dtype: int
    flags: int
    number: int  # of a dtype: which one of NumPy's it is
    items: int  # of a tuple
    length: int
    new_array: int  # the address of NumPy's function that makes an ndarray
    one: int  # of an elementwise function: NumPy's of one operand, or None
    two: int
    handle_references: int  # weak ones to a handle
    cell_references: int
    frame: int  # of a frame object: where the interpreter's own is; 0: not known
    instruction: int  # of that: the address of the instruction that it is at
    immortal: bool  # None, False and 0 are not counted
