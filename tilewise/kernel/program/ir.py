"""Programs with loops: a small structured language. What a Python function means is said in it, without Python.

    program  = name, params, locals, body, faults, results, functions (programs that it calls)
    stmt     = name := expr | array[expr, ...] := expr
             | if expr: stmts else: stmts | for name in range(expr, expr, expr): stmts | loop: stmts
             | block label: stmts | leave label | return values | fail fault(expr, ...)
             | array := allocate shape | array := view of array | array := array @ array
             | names, arrays := host function(expr or array, ...)
             | which, names, arrays := function(expr or array, ...)
    expr     = number | name | fn(expr, ...) | array[expr, ...] | dim(array, axis) | expr if expr else expr
             | apart(array, array)

Numbers have a dtype; functions are those of kernels (`kernel/native_support.py`), `libm:...` and a few of integers, on
operands of equal dtypes. Names and arrays are mutable variables, each of one dtype (and rank). A subscript that has a
fault counts from the end if it is negative, and fails if it is out of range. An operation with a fault fails where
its result would not be Python's: sums, products that overflow, divisors that are zero. Operands are evaluated from left
to right, the arms of a conditional only if they are chosen. `loose` sums may be added up in any order. Host functions
are given beside the arguments: they take numbers and arrays, and give such.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

from tilewise.records import dataclass

Host = Callable[[list[Any]], Sequence[Any]]  # what HostCall calls: numbers and arrays, and what it gives for them
INT = "int64"
BOOL = "bool"
CALL = "call:"  # begins the class of a fault that a Python function of these operands raises: "call:log"
HOST = "host"  # the class of a fault that a host function has raised
OWN = "+"  # in a root: of memory that a version of a loop has for itself; before it is the root that it has elsewhere
SHORT = 1 << 31  # products of two such lengths are far from overflowing
RERUN = "rerun"  # the class of a fault that is no error of the program: the result does not fit into our integers


@dataclass(frozen=True, slots=True)
class Fault:
    """An exception: its class, its message (`{0}` and so on: numbers from the program) and its line.

    `file` and `function`: where that line is, if not in the function that the program is made of.
    """

    error: str
    message: str
    line: int
    file: str = ""
    function: str = ""


@dataclass(frozen=True, slots=True)
class Const:
    dtype: str
    value: Any


@dataclass(frozen=True, slots=True)
class Var:
    name: str
    dtype: str


@dataclass(frozen=True, slots=True)
class Op:
    """fn(args); `fault` is the number of what happens where the operation has no result."""

    fn: str
    dtype: str
    args: tuple[Expr, ...]
    fault: int = -1
    loose: bool = False
    exact: bool = False  # of integers: known not to overflow; of divisions: not negative; of shifts: by 0 to 63 bits


@dataclass(frozen=True, slots=True)
class Load:
    """An element. Each subscript has a fault, or -1: it is in range."""

    array: str
    dtype: str
    index: tuple[Expr, ...]
    faults: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Dim:
    """The length of an axis."""

    array: str
    axis: int
    dtype: str = INT


@dataclass(frozen=True, slots=True)
class Pick:
    """yes if test else no."""

    test: Expr
    yes: Expr
    no: Expr
    dtype: str


@dataclass(frozen=True, slots=True)
class Apart:
    """Whether two arrays have no memory in common (False: they may have)."""

    first: str
    second: str
    dtype: str = BOOL


Expr = Const | Var | Op | Load | Dim | Pick | Apart


@dataclass(frozen=True, slots=True)
class Set:
    name: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Store:
    array: str
    index: tuple[Expr, ...]
    value: Expr  # evaluated before the subscripts
    faults: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class If:
    test: Expr
    then: Block
    other: Block = ()


@dataclass(frozen=True, slots=True)
class For:
    """name is set at the start of every iteration; range's arguments are evaluated once, step is not zero."""

    name: str
    start: Expr
    stop: Expr
    step: Expr
    body: Block
    line: int = 0
    rare: bool = False  # hardly ever runs: not worth much code
    independent: bool = False  # no iteration touches an element that another one writes
    parallel: bool = False  # iterations may run at the same time, if their subscripts are in range
    kept: bool = False  # numbers that it sets are read later
    restarts: bool = False  # may be run again from its start, whatever iterations were run: nobody sees what it wrote
    sums: tuple[str, ...] = ()  # integers that it adds to, of which threads have a part each
    proved: Block = ()  # does the same in another order: for where all subscripts are in range


@dataclass(frozen=True, slots=True)
class Loop:
    """Without end, but for what leaves it."""

    body: Block
    line: int = 0


@dataclass(frozen=True, slots=True)
class Named:
    """A block that can be left."""

    label: str
    body: Block


@dataclass(frozen=True, slots=True)
class Leave:
    """Go on after the block of this label, which is around this."""

    label: str


@dataclass(frozen=True, slots=True)
class Return:
    """Which of the program's results it is, and its numbers and arrays (names) in their order."""

    which: int
    values: tuple[Expr | str, ...]


@dataclass(frozen=True, slots=True)
class Fail:
    fault: int
    values: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class Alloc:
    """A new array in C order. Faults: lengths below zero, more than can be counted, more than there is.

    private: when it comes here again, nobody looks at the array of the last time.
    """

    array: str
    shape: tuple[Expr, ...]
    zero: bool
    fault: int
    huge: int
    full: int
    private: bool = False


@dataclass(frozen=True, slots=True)
class Span:
    """An axis of a view: start, start + step, ... (so many). Of axis -1: a new one of length 1, or repeated."""

    axis: int
    start: Expr
    length: Expr
    step: Expr


@dataclass(frozen=True, slots=True)
class View:
    """array shows a part of source: some axes at one place each (in range), others along spans.

    renamed: it is source itself, another name for the same object; a slice of everything is not.
    """

    array: str
    source: str
    at: tuple[tuple[int, Expr], ...]
    spans: tuple[Span, ...]
    renamed: bool = False


@dataclass(frozen=True, slots=True)
class Product:
    """array (in C order, it is there) becomes left @ right, summed in any order; one of these may be a vector."""

    array: str
    left: str
    right: str


@dataclass(frozen=True, slots=True)
class Draw:
    """What a HostCall has to do with a generator of random numbers: it draws a number that NumPy's C code can give.

    `generator`: which of the host's functions gives the generator. `function`: the C function, with the last of the
    inputs; none: the generator is made anew. `needs`: of each of these, what it must be; others are left to Python.
    """

    generator: int
    function: str = ""
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HostCall:
    """Numbers and arrays (names) that a function of the caller's gives for others.

    Arrays among the results are new and in C order, or show memory of inputs if `shown`. `writes`: inputs that it
    changes. `effect`: it changes something else, so that the program cannot be run again from the start. `lengths`: the
    result is the first input in another shape, so that nobody has to be called where that lies in C order. Of each axis
    there is whether its length is an input, and which one, or the length itself (-1: what is left). `part`: the result
    shows the "real" or "imag" parts of the first input, so that nobody has to be called.
    """

    which: int
    inputs: tuple[Expr | str, ...]
    results: tuple[str, ...]
    fault: int
    writes: tuple[str, ...] = ()
    shown: bool = False
    effect: bool = False
    lengths: tuple[tuple[bool, int], ...] = ()
    draw: Draw | None = None
    part: str = ""


@dataclass(frozen=True, slots=True)
class Invoke:
    """Run a function of the program on numbers and arrays (which it sees as they are, not copies).

    `which` gets the number of the result that it returned, the names of results[which] get its values. `deep` is the
    fault of too deep a recursion, `stack` that of a recursion for which there is no room.
    """

    function: int
    inputs: tuple[Expr | str, ...]
    which: str
    results: tuple[tuple[str, ...], ...]
    deep: int
    stack: int


def results_of(s: HostCall | Invoke) -> tuple[str, ...]:
    """The names and arrays that a call sets."""
    return s.results if isinstance(s, HostCall) else (s.which, *(n for r in s.results for n in r))


Stmt = Set | Store | If | For | Loop | Named | Leave | Return | Fail | Alloc | View | Product | HostCall | Invoke
Block = tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Array:
    """What is known of an array variable. unit: its last axis has no gaps; dense: it lies in C order.

    roots: the arguments and allocations whose memory it may show.
    """

    dtype: str
    rank: int
    unit: bool
    dense: bool
    roots: frozenset[str]

    @property
    def memory(self) -> frozenset[str]:
        """The roots that the memory has elsewhere, too: those by which versions of loops tell it apart left out."""
        return frozenset([r.partition(OWN)[0] for r in self.roots])


@dataclass(frozen=True, slots=True)
class Param:
    """An argument: a number (`array` None; an integer is in low ... high) or an array.

    width: what the last axis's length has to be; 0: anything.
    """

    name: str
    dtype: str
    array: Array | None = None
    written: bool = False
    low: int = -(1 << 63)
    high: int = (1 << 63) - 1
    width: int = 0


@dataclass(frozen=True, slots=True)
class Program:
    name: str
    params: tuple[Param, ...]
    names: dict[str, str]  # numbers: dtypes
    arrays: dict[str, Array]
    body: Block
    faults: tuple[Fault, ...]
    results: tuple[tuple[str, ...], ...]  # of each kind of return: dtypes, "array DTYPE RANK"
    apart: bool = True  # no two arguments share memory of which one is written
    short: bool = False  # no argument is longer than SHORT along an axis
    task: bool = False  # of a parallel loop: it may be told to stop in the middle of any loop
    functions: tuple[Program, ...] = ()  # what `Invoke` runs; their faults are this program's
    notes: tuple[str, ...] = field(default=(), compare=False)
