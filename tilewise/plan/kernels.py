"""Operators as kernels. In: a node. Out: whether it fits into a kernel, or a pass of its own."""

from __future__ import annotations

import numpy as np

from tilewise.ir.node import Node
from tilewise.ir.scalar import dtype_name
from tilewise.kernel.loops import Instr, Kernel, Output
from tilewise.kernel.native import DTYPES, supports, supports_arg, supports_bucket, supports_reduce, supports_scan
from tilewise.ops.bucket import Bucket
from tilewise.ops.contract import Contract
from tilewise.ops.create import Full
from tilewise.ops.elementwise import Map, code_name
from tilewise.ops.join import Copy
from tilewise.ops.reduce import Arg, Reduce, Scan
from tilewise.stage.steps import Pass


def native_map(node: Node) -> bool:
    """Whether a node can be part of a kernel's body."""
    op = node.op
    if type(op) is not Map or not node.shape:
        return False
    if not node.dtype.isnative or not all(x.dtype.isnative for x in node.inputs):
        return False  # bytes in the other order have the same names
    return supports(code_name(op), tuple([dtype_name(x.dtype) for x in node.inputs]), dtype_name(node.dtype))


def native_reduce(node: Node) -> bool:
    """Whether a node can end a kernel as an accumulator."""
    op = node.op
    if not node.inputs or not node.inputs[0].dtype.isnative or not reduced_axes(node):
        return False
    if type(op) is Arg:
        return supports_arg(op.fn, node.inputs[0].dtype.name)
    if type(op) is Scan:
        return supports_scan(op.fn, op.dtype.name)
    return type(op) is Reduce and op.dtype.isnative and supports_reduce(op.fn, op.dtype.name)


def reduced_axes(node: Node) -> tuple[int, ...]:
    """The axes of its operand that a reduction takes away; none for other operators."""
    op = node.op
    if type(op) is Bucket:
        return (0,)
    if type(op) is Arg:
        return tuple(range(node.inputs[0].ndim)) if op.axis is None else (op.axis,)
    if type(op) is Scan:
        return (op.axis,)
    return op.axes if type(op) is Reduce else ()


def filling_pass(node: Node, pos: int, inputs: tuple[int, ...]) -> Pass | None:
    """A copy, or a number in every place; None where a mask decides the length, or without native code."""
    op = node.op
    if type(op) not in (Copy, Full) or not node.known or not node.shape or not node.dtype.isnative:
        return None
    name = node.dtype.name
    if name not in DTYPES or node.inputs[0].dtype != node.dtype:
        return None
    given, params = ((name,), ()) if type(op) is Copy else ((), (name,))
    kernel = Kernel(given, params, (), (Output(0),), (False,) * node.ndim)
    arrays, numbers = (inputs, ()) if type(op) is Copy else ((), inputs)
    return Pass(kernel, arrays, numbers, (pos,), pos, (pos,), (None,))


def product_pass(node: Node, pos: int, inputs: tuple[int, ...]) -> Pass | None:
    """A sum of products of two operands; None without native code, or where NumPy is better (floats, many letters)."""
    op = node.op
    if type(op) is not Contract or len(node.inputs) != 2 or not node.dtype.isnative:
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
    return Pass(kernel, inputs, (), (pos,), pos, (pos,), (None,), letters=walks, blas=blas)


def native_bucket(node: Node) -> bool:
    """Whether a node can end a kernel as accumulators by key: a key for each point, values for each or one for all."""
    if type(node.op) is not Bucket or not _plain_bucket(node):
        return False
    values, keys = node.inputs
    return not values.shape or values.shape == keys.shape


def _plain_bucket(node: Node) -> bool:
    """Whether native code can add up the values of a reduction by key."""
    values, keys = node.inputs
    assert isinstance(node.op, Bucket)
    plain = keys.dtype == np.int64 and keys.ndim == 1 and values.dtype == node.dtype and node.dtype.isnative
    return plain and supports_bucket(node.op.fn, node.dtype.name)


def bucket_pass(node: Node, pos: int, inputs: tuple[int, ...]) -> Pass | None:
    """A reduction by key of rows."""
    op = node.op
    if type(op) is not Bucket or not _plain_bucket(node) or not node.inputs[0].shape:
        return None
    name, ndim = node.dtype.name, node.inputs[0].ndim
    kernel = Kernel((name, "int64"), (), (), (Output(0, op.fn, key=1),), (True, *(False,) * (ndim - 1)))
    return Pass(kernel, inputs, (), (pos,), inputs[0], (pos,), (None,), letters=(tuple(range(ndim)), (0,)))
