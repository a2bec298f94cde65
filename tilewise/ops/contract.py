"""Contractions: products summed over shared letters. In: nodes and letters. Out: a node.

The letters say what a mesh may cut; NumPy's own matmul, dot, tensordot and einsum say what the value is.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from tilewise.ir.node import Node, Op, intern
from tilewise.ir.order import Order, by_strides, normal
from tilewise.kernel.loops import Instr, Kernel, Output
from tilewise.kernel.native_support import supports, supports_reduce
from tilewise.layout import Layout, Mesh, Partial
from tilewise.ops.elementwise import cast, small
from tilewise.ops.rearrange import arranged
from tilewise.ops.traits.batch import Rolled, batch
from tilewise.ops.traits.block import Part, on_block
from tilewise.ops.traits.lower import Loops, own_loops
from tilewise.ops.traits.rule import LETTERS, WHOLE, Options, Rule, by_letters, specific
from tilewise.ops.traits.work import Work, work
from tilewise.records import dataclass

Axes = tuple[int, ...]
OWN_AT = 1 << 14  # elements of a tensor product that is made in its own shape (some 7 us)


@dataclass(frozen=True)
class Contract(Op):
    """`letters` as in "ij,jk->ik"; `how` is the NumPy function that computes it."""

    letters: str
    how: str
    axes: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    part: bool = False  # of a larger product
    name = "contract"

    @property
    def signature(self) -> Any:
        return Contract, self.letters, self.how == "vdot"  # which conjugates

    def numpy(self, *arrays: Any) -> Any:
        made = self._whole(*arrays)
        # NumPy multiplies 1 x 1 matrices as numbers, which may give -0.0; all other products are sums that begin at 0.
        return made + made.dtype.type(0) if self.part and made.size == 1 else made

    def _whole(self, *arrays: Any) -> Any:
        if self.how == "matmul":
            return np.matmul(*arrays)
        if self.how == "dot":
            return np.dot(*arrays)
        if self.how == "vdot":
            return np.vdot(*arrays)
        if self.how == "tensordot":
            assert self.axes is not None
            return folded(arrays[0], arrays[1], *self.axes)
        return np.einsum(self.letters, *arrays, optimize=len(arrays) > 2)

    def label(self) -> str:
        return f"{self.how} {self.letters}"

    def sizes(self, shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
        """The length of every letter."""
        out: dict[str, int] = {}
        for term, shape in zip(self.letters.split("->")[0].split(","), shapes, strict=True):
            for letter, n in zip(term, shape, strict=True):
                out[letter] = max(n, out.get(letter, 1))
        return out


@on_block.register(Contract)
def _(op: Contract, out: Part, ins: Sequence[Part]) -> Op:
    cut = not all(x.whole for x in ins)
    numbers = all(math.prod(x.shape) == 1 for x in ins)
    return replace(op, part=True) if cut and not numbers else op


def matmul(a: Node, b: Node, dtype: np.dtype[Any]) -> Node:
    """NumPy's matmul: the last two axes multiply, the others broadcast."""
    if a.ndim == 0 or b.ndim == 0:
        which = 0 if a.ndim == 0 else 1
        raise ValueError(
            f"matmul: Input operand {which} does not have enough dimensions (has 0, gufunc core with signature "
            "(n?,k),(k,m?)->(n?,m?) requires 1)"
        )
    inner_a, inner_b = a.shape[-1], b.shape[-2 if b.ndim > 1 else 0]
    if inner_a != inner_b:
        raise ValueError(
            "matmul: Input operand 1 has a mismatch in its core dimension 0, with gufunc signature "
            f"(n?,k),(k,m?)->(n?,m?) (size {inner_b} is different from {inner_a})"
        )
    batch = max(a.ndim - 2, b.ndim - 2, 0)
    outer = LETTERS[:batch]
    row, col, k = tuple(LETTERS[batch : batch + 3])
    la = outer[batch - max(a.ndim - 2, 0) :] + (row if a.ndim > 1 else "") + k
    lb = outer[batch - max(b.ndim - 2, 0) :] + k + (col if b.ndim > 1 else "")
    lo = outer + (row if a.ndim > 1 else "") + (col if b.ndim > 1 else "")
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    shape = lead + (a.shape[-2:-1] if a.ndim > 1 else ()) + (b.shape[-1:] if b.ndim > 1 else ())
    letters = f"{la},{lb}->{lo}"
    order = None
    if batch > 1 and (a.order is not None or b.order is not None):
        lead_first = _small_order(letters, "matmul", (small(a), small(b))) or range(len(shape))
        order = normal([*(k for k in lead_first if k < batch), *range(batch, len(shape))])  # matrices lie as they are
    return intern(Contract(letters, "matmul"), (cast(a, dtype), cast(b, dtype)), shape, dtype, order)


def dot(a: Node, b: Node, dtype: np.dtype[Any]) -> Node:
    """NumPy's dot for operands of at least one axis: last of a with second to last of b."""
    if a.ndim <= 2 and b.ndim <= 2 and a.shape[-1] == b.shape[-2 if b.ndim > 1 else 0]:
        node = matmul(a, b, dtype)  # the same letters; NumPy's dot and matmul differ in the last bits
        assert isinstance(node.op, Contract)
        return intern(Contract(node.op.letters, "dot"), node.inputs, node.shape, dtype)
    axis = b.ndim - 2 if b.ndim > 1 else 0
    if a.shape[-1] != b.shape[axis]:
        raise ValueError(
            f"shapes {_text(a.shape)} and {_text(b.shape)} not aligned: "
            f"{a.shape[-1]} (dim {a.ndim - 1}) != {b.shape[axis]} (dim {axis})"
        )
    return _pairs(a, b, (a.ndim - 1,), (axis,), dtype, "dot")


def vdot(a: Node, b: Node, dtype: np.dtype[Any]) -> Node:
    """NumPy's vdot of two vectors: the first is conjugated."""
    if a.shape != b.shape:
        raise ValueError("vectors have different lengths")
    return intern(Contract("a,a->", "vdot"), (cast(a, dtype), cast(b, dtype)), (), dtype)


def tensordot(a: Node, b: Node, axes: tuple[tuple[int, ...], tuple[int, ...]], dtype: np.dtype[Any]) -> Node:
    """Sum over pairs of axes."""
    left, right = axes
    if len(left) != len(right) or any(a.shape[i] != b.shape[j] for i, j in zip(left, right, strict=True)):
        raise ValueError("shape-mismatch for sum")
    return _pairs(a, b, left, right, dtype, "tensordot")


def folded(a: Any, b: Any, left: Axes, right: Axes) -> Any:
    """np.tensordot of ndarrays; what there is to know about shapes is worked out once."""
    order, matrix, other, other_matrix, shape = _folds(a.shape, b.shape, left, right)
    matrices = a.transpose(order).reshape(matrix), b.transpose(other).reshape(other_matrix)
    if a.dtype != b.dtype or math.prod(shape) < OWN_AT:
        return np.dot(*matrices).reshape(shape)
    out = np.empty(shape, a.dtype)  # memory of its own: what is a view of another array is copied before it is kept
    np.dot(*matrices, out=out.reshape(matrix[0], other_matrix[1]))
    return out


@functools.lru_cache(maxsize=1024)
def _folds(a: Axes, b: Axes, left: Axes, right: Axes) -> tuple[Axes, Axes, Axes, Axes, Axes]:
    """The order and the matrix that each operand becomes, and the shape of the result."""
    left = tuple(normalize_axis_index(i, len(a)) for i in left)
    right = tuple(normalize_axis_index(i, len(b)) for i in right)
    if len({*left}) < len(left) or len({*right}) < len(right) or [a[i] for i in left] != [b[i] for i in right]:
        raise ValueError("shape-mismatch for sum")
    first, second = [i for i in range(len(a)) if i not in left], [i for i in range(len(b)) if i not in right]
    inner, kept, new = math.prod(a[i] for i in left), tuple(a[i] for i in first), tuple(b[i] for i in second)
    return (*first, *left), (math.prod(kept), inner), (*right, *second), (inner, math.prod(new)), kept + new


def _pairs(a: Node, b: Node, left: tuple[int, ...], right: tuple[int, ...], dtype: np.dtype[Any], how: str) -> Node:
    la = list(LETTERS[: a.ndim])
    lb = list(LETTERS[a.ndim : a.ndim + b.ndim])
    for i, j in zip(left, right, strict=True):
        lb[j] = la[i]
    keep_a = [i for i in range(a.ndim) if i not in left]
    keep_b = [j for j in range(b.ndim) if j not in right]
    lo = "".join(la[i] for i in keep_a) + "".join(lb[j] for j in keep_b)
    shape = tuple(a.shape[i] for i in keep_a) + tuple(b.shape[j] for j in keep_b)
    op = Contract(f"{''.join(la)},{''.join(lb)}->{lo}", how, (left, right) if how == "tensordot" else None)
    return intern(op, (cast(a, dtype), cast(b, dtype)), shape, dtype)


def einsum(letters: str, operands: tuple[Node, ...], dtype: np.dtype[Any]) -> Node:
    """Explicit einsum ("ij,jk->ik"): every letter's lengths must agree (1 broadcasts)."""
    ins, out = letters.split("->")
    sizes: dict[str, int] = {}
    for term, node in zip(ins.split(","), operands, strict=True):
        for letter, d in zip(term, node.shape, strict=True):
            if sizes.setdefault(letter, d) != d:
                if sizes[letter] != 1 and d != 1:
                    raise ValueError(
                        f"operands could not be broadcast together: letter {letter!r} is {sizes[letter]} and {d}"
                    )
                sizes[letter] = d if sizes[letter] == 1 else sizes[letter]
    shape = tuple(sizes[c] for c in out)
    order = None
    if len(shape) > 1:
        order = _small_order(letters, "einsum", tuple(small(x) for x in operands))
    return intern(Contract(letters, "einsum"), tuple(cast(x, dtype) for x in operands), shape, dtype, order)


@functools.lru_cache(maxsize=256)
def _small_order(letters: str, how: str, kinds: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]) -> Order:
    """The memory order NumPy's function gives its result, shown by it on axes of at most two elements."""
    operands = [np.ndarray(shape, np.float64, np.ones(2 ** len(shape)), 0, strides) for shape, strides in kinds]
    made = Contract(letters, how).numpy(*operands)
    return by_strides(made.shape, made.strides)


def _text(shape: tuple[int, ...]) -> str:
    return str(shape).replace(" ", "")


# -- on a mesh -----------------------------------------------------------------------------------------------------


@specific.register(Contract)
def _(op: Contract, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    ins, out = op.letters.split("->")
    yield from by_letters(ins.split(","), out, node, have, mesh, "add", pieces=True)
    if node.dtype.kind in "iu":  # of floats, a part that is zero times inf is not zero
        for k in range(len(node.inputs)):
            parts: list[Layout] = [WHOLE] * len(node.inputs)
            parts[k] = Partial("add")
            yield Rule(tuple(parts), Partial("add"))


@work.register(Contract)
def _(op: Contract, shapes: Sequence[tuple[int, ...]], size: int) -> Work:
    local: dict[str, int] = {}
    for term, shape in zip(op.letters.split("->")[0].split(","), shapes, strict=True):
        for letter, n in zip(term, shape, strict=True):
            local[letter] = min(local.get(letter, n), n)
    return Work(flops=2.0 * math.prod(local.values()))


# -- together with others, and as loops ------------------------------------------------------------------------------


@batch.register(Contract)
def _(op: Contract, first: Node, ins: list[Rolled], count: int, last: bool) -> Node | None:
    """Several products of one matrix and a vector are a product of matrices."""
    matrix, vector = ins
    if op.how not in ("matmul", "dot") or [x.ndim for x in first.inputs] != [2, 1] or matrix.many:
        return None
    made = matmul(matrix.node, vector.node if last else arranged(vector.node, [1, 0]), first.dtype)
    return made if last else arranged(made, [1, 0])


@own_loops.register(Contract)
def _(op: Contract, node: Node) -> Loops | None:
    """A sum of products of two operands; NumPy is better for floats with many letters."""
    if len(node.inputs) != 2 or not node.dtype.isnative:
        return None
    if op.how == "vdot" and node.dtype.kind == "c":  # its first operand is conjugated
        return None
    ins, out = op.letters.split("->")
    a, b = ins.split(",")
    if any(len(set(t)) < len(t) for t in (a, b, out)) or any(x.dtype != node.dtype for x in node.inputs):
        return None
    letters = out + "".join(c for c in dict.fromkeys(a + b) if c not in out)
    if len(letters) == len(out):  # nothing is summed: einsum adds even that to zero
        return None
    blas = len(letters) > 2 and node.dtype.kind == "f"
    if blas and not (len(letters) == 3 and all(len(t) == 2 for t in (a, b, out))):
        return None
    name = node.dtype.name
    if not (supports("multiply", (name, name), name) and supports_reduce("add", name)):
        return None
    reduced = tuple(c not in out for c in letters)
    kernel = Kernel((name, name), (), (Instr("multiply", (0, 1), name),), (Output(2, "add"),), reduced)
    walks = tuple(tuple(letters.index(c) for c in term) for term in (a, b))
    return Loops(kernel, (0, 1), letters=walks, blas=blas)
