"""What functions of arrays make of shapes, and how much work they are. In: a name, operands. Out: `Work`.

A family is a table. Shapes are of expressions over loop indices, whose upper bounds give the worst case and whose
middles give the expected time. What is in no table is taken to make something as large as all that it is given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilewise.kernel.dependence.expr import Expr, constant, greatest

Shape = tuple[Expr, ...]
NOTHING: Any = type("Nothing", (), {"__repr__": lambda self: "NOTHING"})()

FUNCTIONS = frozenset(
    "exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan arctan2 sinh cosh tanh sqrt cbrt power "
    "float_power hypot divide true_divide floor_divide remainder mod fmod".split()
)
MAPS = frozenset(
    "add subtract multiply negative positive absolute abs fabs sign maximum minimum fmax fmin square reciprocal "
    "greater greater_equal less less_equal equal not_equal logical_and logical_or logical_not logical_xor isnan isinf "
    "isfinite where clip rint floor ceil trunc round around conj conjugate bitwise_and bitwise_or bitwise_xor invert "
    "left_shift right_shift nan_to_num real imag angle heaviside signbit copysign isclose".split()
)
REDUCTIONS = frozenset(
    "sum prod mean std var min max amin amax any all argmin argmax nansum nanmean nanstd nanvar nanmin nanmax "
    "count_nonzero ptp average norm trace".split()
)
SCANS = frozenset("cumsum cumprod diff gradient".split())
SORTS = frozenset("sort argsort unique median percentile quantile partition argpartition lexsort".split())
PRODUCTS = frozenset("matmul dot inner vdot".split())
FACTORS = {"solve": 0.7, "inv": 2.0, "det": 0.7, "slogdet": 0.7, "cholesky": 0.35, "qr": 2.7, "svd": 20.0}
FACTORS |= {"eig": 25.0, "eigh": 9.0, "eigvalsh": 4.0, "eigvals": 10.0, "lstsq": 4.0, "pinv": 22.0, "matrix_rank": 8.0}
NEW = frozenset("zeros ones empty full".split())
LIKE = frozenset(
    "zeros_like ones_like empty_like full_like copy array asarray ascontiguousarray asfortranarray".split()
)
VIEWS = frozenset("transpose reshape ravel squeeze swapaxes moveaxis expand_dims broadcast_to view T diagonal".split())
JOINS = frozenset("concatenate stack vstack hstack column_stack append tile repeat".split())
RANDOM = frozenset(
    "normal standard_normal random uniform integers choice permutation poisson exponential binomial gamma beta".split()
)


@dataclass(frozen=True)
class Value:
    """What is known of a value: the object itself, a whole number, or the shape of an array."""

    known: Any = NOTHING
    number: Expr | None = None
    shape: Shape | None = None
    itemsize: int = 8
    bytes: int = 0  # of memory of its own, made inside of the loop
    memory: frozenset[int] = frozenset()  # what it keeps alive, by number
    owner: Any = None  # the array from outside that it is, or is a part of
    items: tuple[Value, ...] | None = None
    function: Any = None
    scalar: bool = False
    strides: tuple[int, ...] | None = None  # of a view of an array from outside, in bytes

    @property
    def spread(self) -> float:
        """How many times more memory than its own is read with it: lines of the cache of which it needs a part."""
        if not self.shape or self.strides is None or len(self.strides) != len(self.shape):
            return 1.0
        if most(self.shape) * min(map(abs, self.strides)) < CACHE_BYTES:
            return 1.0
        return min(max(1.0, min(map(abs, self.strides)) / self.itemsize), LINE_BYTES / self.itemsize)


CACHE_BYTES = 1 << 18  # from which on it matters how memory is read
LINE_BYTES = 64
NUMBER = Value(scalar=True)


@dataclass(frozen=True)
class Work:
    """The result of a call, and what it takes."""

    value: Value
    kind: str
    amount: float
    text: str
    workspace: int = 0  # bytes beside operands and result
    locked: float = 0.0  # the part of its time in which it holds the interpreter's lock, however long it takes
    saved: float = 0.0  # the part of its time that machine code would not take, with the same bits


def most(shape: Shape) -> int:
    """Elements at most."""
    return int(math.prod(max(0.0, min(float(n.hi), 1e15)) for n in shape))


def middle(shape: Shape) -> float:
    """Elements to be expected."""
    return math.prod(max(0.0, (max(float(n.lo), 0.0) + min(float(n.hi), 1e15)) / 2) for n in shape)


def new(shape: Shape, itemsize: int = 8) -> Value:
    """An array that is made here."""
    return Value(shape=shape, itemsize=itemsize, bytes=most(shape) * itemsize)


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """The shape of an elementwise result."""
    rank = max(map(len, shapes), default=0)
    out = []
    for d in range(1, rank + 1):
        sizes = [s[-d] for s in shapes if len(s) >= d]
        wide = [n for n in sizes if not (n.constant and n.const == 1)]
        total = wide[0] if wide else sizes[0]
        for n in wide[1:]:
            total = total if n.key() == total.key() else greatest(total, n)
        out.append(total)
    return tuple(reversed(out))


def spread(operands: Sequence[Value]) -> float:
    """The largest of operands."""
    return max((v.spread for v in operands), default=1.0)


def text_of(name: str, operands: Sequence[Value]) -> str:
    """An operator with the sizes of its operands at most."""
    sizes = ["x".join(f"{int(min(n.hi, 1e15))}" for n in v.shape) for v in operands if v.shape]
    return f"{name} {', '.join(sizes)}".strip()


def elementwise(name: str, operands: Sequence[Value]) -> Work:
    """A map over broadcast operands."""
    shapes = [v.shape for v in operands if v.shape is not None]
    if not shapes:
        return Work(NUMBER, "python", 1, name)
    shape = broadcast(shapes)
    small = name in ("greater", "less", "equal", "not_equal", "greater_equal", "less_equal", "isnan", "isfinite")
    itemsize = 1 if small else max(v.itemsize for v in operands if v.shape is not None)
    kind = "function" if name in FUNCTIONS else "map"
    return Work(new(shape, itemsize), kind, middle(shape) * spread(operands), text_of(name, operands))


def reduction(name: str, operand: Value, axis: Any, keep: bool) -> Work:
    """A reduction over all axes, or over one."""
    assert operand.shape is not None
    shape = operand.shape
    if axis is None:
        out: Value = NUMBER
    elif isinstance(axis, int) and -len(shape) <= axis < len(shape):
        at = axis % len(shape)
        kept = (constant(1),) if keep else ()
        out = new((*shape[:at], *kept, *shape[at + 1 :]))
    else:
        out = new(shape, operand.itemsize)
    passes = 3 if name in ("std", "var", "nanstd", "nanvar") else 1
    # Squares of differences are as large as the operand.
    workspace = most(shape) * 8 * (2 if name.startswith("nan") else 1) if passes > 1 or name.startswith("nan") else 0
    return Work(out, "reduce", passes * middle(shape) * operand.spread, text_of(name, [operand]), workspace)


def product(a: Value, b: Value) -> Work:
    """A matrix product; operands in other memory orders are copied at worst."""
    assert a.shape is not None and b.shape is not None
    if not a.shape or not b.shape:
        return elementwise("multiply", (a, b))
    inner = a.shape[-1]
    left, right = a.shape[:-1], b.shape[:-2] + b.shape[-1:] if len(b.shape) > 1 else ()
    if len(a.shape) > 2 or len(b.shape) > 2:
        left = broadcast([a.shape[:-2], b.shape[:-2]]) + a.shape[-2:-1]
        right = b.shape[-1:] if len(b.shape) > 1 else ()
    shape = (*left, *right)
    flops = 2 * middle((*shape, inner))
    kind = "product" if len(a.shape) > 1 and len(b.shape) > 1 else "dot"
    flops *= spread((a, b)) if kind == "dot" else 1.0
    value = new(shape, max(a.itemsize, b.itemsize)) if shape else NUMBER
    copies = sum(most(v.shape) * v.itemsize for v in (a, b) if v.shape is not None and v.owner is not None)
    text, vectors = text_of("matmul", (a, b)), not shape  # of which NumPy's matmul holds the interpreter's lock
    return Work(value, kind, flops, text, copies if kind == "product" else 0, vectors)


def factor(name: str, operands: Sequence[Value]) -> Work:
    """Solvers and factorisations: cubic in the shorter side."""
    shape = operands[0].shape or ()
    sides = sorted(shape[-2:], key=lambda n: float(n.hi))
    if len(sides) < 2:
        return unknown(name, operands)
    short, long = sides
    flops = FACTORS[name] * middle((short, short, long))
    bytes_in = sum(most(v.shape) * v.itemsize for v in operands if v.shape)
    if name in ("det", "slogdet", "matrix_rank"):
        value = NUMBER
    elif name in ("solve", "lstsq") and len(operands) > 1 and operands[1].shape is not None:
        value = new((shape[-1], *operands[1].shape[1:]))
    elif name in ("svd", "eig", "eigh", "qr"):
        value = Value(bytes=3 * most((long, long)) * 8)
    else:
        value = new(shape)
    return Work(value, "factor", flops, text_of(name, operands), 2 * bytes_in)


def unknown(name: str, operands: Sequence[Value]) -> Work:
    """A function of which nothing is known: it may make as much as it is given, twice."""
    arrays = [v for v in operands if v.shape is not None]
    total = sum(most(v.shape) * v.itemsize for v in arrays if v.shape is not None)
    elements = sum(middle(v.shape) for v in arrays if v.shape is not None)
    if not arrays:
        return Work(Value(), "call", 0, f"{name}(...)")
    shape = max((v.shape for v in arrays if v.shape is not None), key=most)
    return Work(Value(shape=shape, bytes=total), "function", elements, text_of(name, operands), total)
