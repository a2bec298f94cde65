"""Elementwise maps. In: nodes that broadcast together. Out: a Map node with NumPy's shape, dtype and order.

One class for all scalar functions (ir/scalar.py is the table). Arguments are cast explicitly to the loop's dtypes, so
the body of a kernel is typed and a cast is fused like everything else.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tilewise.config import current
from tilewise.ir.node import Length, Node, Op, Shape, intern
from tilewise.ir.order import Order, broadcast_order, strides_of
from tilewise.ir.reductions import LAWS, ONE, TOGETHER
from tilewise.ir.scalar import EXPENSIVE, Scalar, dtype_name, scalar
from tilewise.kernel.native_support import supports
from tilewise.layout import Ghosts, Layout, Mesh, Partial, Shard
from tilewise.ops.const import Const
from tilewise.ops.traits.batch import Rolled, batch
from tilewise.ops.traits.ghosts import NO_GHOSTS, ghosts_made, ghosts_needed, least
from tilewise.ops.traits.lower import in_body
from tilewise.ops.traits.rule import LETTERS, WHOLE, Options, Rule, by_letters, specific
from tilewise.ops.traits.work import Work, work
from tilewise.ops.views import Window

HEAVY = 6  # simple instructions that an expensive function counts for


class Map(Op):
    """`fn` on each element. One object per (function, result dtype, which result): identity is equality."""

    __slots__ = ("dtype", "fn", "weight", "which")
    name = "map"

    def __init__(self, fn: Scalar, dtype: np.dtype[Any], which: int) -> None:
        self.fn = fn
        self.dtype = dtype
        self.which = which
        self.weight = (HEAVY if fn.name in EXPENSIVE else 1) * (2 if dtype.kind == "c" else 1)

    @property
    def signature(self) -> Any:
        return self

    def numpy(self, *arrays: Any) -> Any:
        if self.fn.name == "cast":
            return np.asarray(arrays[0]).astype(self.dtype)
        result = self.fn.call(*arrays)
        return result[self.which] if self.fn.nout > 1 else result

    def label(self) -> str:
        return f"{self.fn.name}:{self.dtype}" if self.fn.name == "cast" else self.fn.name

    def __reduce__(self) -> tuple[Any, ...]:
        return (map_op, (self.fn.name, self.dtype, self.which))


_ops: dict[tuple[str, np.dtype[Any], int], Map] = {}


def map_op(name: str, dtype: np.dtype[Any], which: int = 0) -> Map:
    """The Map operator for a scalar function and result dtype."""
    key = (name, dtype, which)
    op = _ops.get(key)
    if op is None:
        op = _ops.setdefault(key, Map(scalar(name), dtype, which))
    return op


def code_name(op: Map) -> str:
    """The name of a function in a kernel's body; one of several results is named by its number."""
    return f"{op.fn.name}:{op.which}" if op.fn.nout > 1 else op.fn.name


def broadcast(shapes: list[Shape]) -> Shape:
    """NumPy's broadcasting; symbolic lengths fit themselves and 1. Raises NumPy's ValueError."""
    out = shapes[0]
    for shape in shapes[1:]:
        if shape == out or shape == ():
            continue
        if len(shape) > len(out):
            out, shape = shape, out
        pad = len(out) - len(shape)
        dims = list(out)
        for i, d in enumerate(shape):
            e = dims[pad + i]
            if d is e or d == 1:
                continue
            if type(d) is not Length and type(e) is not Length and d == e:
                continue
            if type(e) is not Length and e == 1:
                dims[pad + i] = d
                continue
            if type(d) is Length or type(e) is Length:
                raise UnknownLength(d if type(d) is Length else e)
            text = " ".join(str(s).replace(" ", "") for s in shapes)
            raise ValueError(f"operands could not be broadcast together with shapes {text} ")
        out = tuple(dims)
    return out


class UnknownLength(Exception):
    """A length that a mask decides is needed now. The caller resolves it and tries again."""


def cast(node: Node, dtype: np.dtype[Any]) -> Node:
    """`node` as dtype; the node itself if it already is."""
    if node.dtype == dtype:
        return node
    return intern(map_op("cast", dtype), (node,), node.shape, dtype, node.order)


def part(base: Node, offset: int, shape: Shape, strides: tuple[int, ...], dtype: np.dtype[Any]) -> Node | None:
    """The real or imaginary part of all of a complex value that is not known yet; None if a view is none."""
    if base.value is not None or base.dtype.kind != "c" or dtype.kind != "f" or shape != base.shape or not shape:
        return None
    if 2 * dtype.itemsize != base.dtype.itemsize or strides != strides_of(shape, base.dtype.itemsize, base.order):
        return None
    if offset not in (0, dtype.itemsize):
        return None
    return intern(map_op("imag" if offset else "real", dtype), (base,), shape, dtype, base.order)


def strideless(node: Node) -> bool:
    """Whether it is new memory without elements."""
    return 0 in node.shape and type(node.op) is not Window


def seen(node: Node) -> Shape:
    """The shape as NumPy's iterator sees it: an axis without a stride has no say in the memory order.

    A view that repeats an axis gives it none, and neither does new memory without elements.
    """
    op = node.op
    if strideless(node):
        return (1,) * node.ndim
    if type(op) is Window and 0 in op.strides:
        return tuple(1 if s == 0 else d for s, d in zip(op.strides, node.shape, strict=True))
    return node.shape


def small(node: Node) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and strides of an array of ones and twos that lies in memory as the node does (8 bytes each)."""
    shape = tuple(1 if d == 1 else 2 for d in node.shape)
    strides = strides_of(shape, 8, node.order)
    return shape, tuple(0 if d == 1 else s for d, s in zip(seen(node), strides, strict=True))


def walked(node: Node) -> Order:
    """The memory order NumPy gives a result that is made by walking over one operand."""
    return node.order and broadcast_order(node.ndim, [(seen(node), node.order)])


def apply(name: str, args: tuple[Node, ...], loop: tuple[np.dtype[Any], ...], which: int = 0) -> Node:
    """The node of a scalar function on `args`, by the loop's dtypes (arguments, then results)."""
    shape = args[0].shape
    for a in args:
        if a.shape != shape:
            shape = broadcast([a.shape for a in args])
            break
    order = None
    inputs = args
    for i, a in enumerate(args):
        if a.order is not None and order is None:
            order = broadcast_order(len(shape), [(seen(x), x.order) for x in args])
        if a.dtype is not loop[i] and a.dtype != loop[i]:
            inputs = (*inputs[:i], cast(a, loop[i]), *inputs[i + 1 :])
    return intern(map_op(name, loop[len(args) + which], which), inputs, shape, loop[len(args) + which], order)


# -- on a mesh -----------------------------------------------------------------------------------------------------


@specific.register(Map)
def _(op: Map, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    terms, out = _aligned(node)
    yield from by_letters(terms, out, node, have, mesh, pieces=True)
    for over, how in LAWS.get(op.fn.name, {}).items():
        p = Partial(over)
        if how == TOGETHER:
            if all(x.shape == node.shape for x in node.inputs):
                yield Rule((p,) * len(node.inputs), p)
            places = _added_once(node) if over.name == "add" else ()
            yield from (Rule(_only(p, k), p, once=True, line=True) for k in places)
        else:
            yield from (Rule(_only(p, k), p) for k in scaled(node, how))


def _only(p: Partial, place: int) -> tuple[Layout, Layout]:
    return (WHOLE, p) if place else (p, WHOLE)


def _added_once(node: Node) -> tuple[int, ...]:
    """Which argument may be contributions if the other is whole: one worker adds it to its own."""
    if len(node.inputs) != 2 or (node.dtype.kind not in "iu" and current().exact):
        return ()
    return tuple(k for k, x in enumerate(node.inputs) if x.shape == node.shape)


def scaled(node: Node, how: str) -> tuple[int, ...]:
    """Which argument may be contributions if the other is whole: each is scaled by itself.

    Of floats only by a number other than zero: a part that is zero times an infinity is not zero. A sum of integers is
    exact, and the mean of integers that NumPy gives is the nearest float: their parts are not rounded before.
    """
    if how == TOGETHER:
        return ()
    places = (0, 1) if how == ONE else (0,)
    if node.dtype.kind in "iu":
        return places
    if node.dtype.kind != "f" or current().exact:
        return ()
    ins = node.inputs
    return tuple(k for k in places if ins[k].shape == node.shape and _is_scale(ins[1 - k]) and not _counts(ins[k]))


def _is_scale(x: Node) -> bool:
    return type(x.op) is Const and x.op.scales


def _counts(x: Node) -> bool:
    """Whether a value is reduced from integers that became floats."""
    below = x.inputs[0] if x.inputs and type(x.op) is not Map else None
    return below is not None and below.dtype.kind == "f" and _was_integer(below)


def _was_integer(x: Node) -> bool:
    return type(x.op) is Map and x.op.fn.name == "cast" and x.inputs[0].dtype.kind in "biu"


def _aligned(node: Node) -> tuple[list[str], str]:
    """Letters of an elementwise node: operands aligned at the right."""
    out = LETTERS[: node.ndim]
    return [out[node.ndim - x.ndim :] for x in node.inputs], out


@work.register(Map)
def _(op: Map, shapes: Sequence[tuple[int, ...]], size: int) -> Work:
    return Work(functions=size if op.fn.name in EXPENSIVE else 0)


@ghosts_needed.register(Map)
def _(op: Map, node: Node, out: Shard, ins: Sequence[Layout]) -> list[Ghosts] | None:
    return [out.ghosts if isinstance(x, Shard) else NO_GHOSTS for x in ins]


@ghosts_made.register(Map)
def _(op: Map, node: Node, out: Shard, ins: Sequence[Layout]) -> tuple[Ghosts, list[Ghosts]]:
    cut = [x.ghosts for x in ins if isinstance(x, Shard)]
    ghosts = functools.reduce(least, cut) if cut else out.ghosts
    return ghosts, [ghosts if isinstance(x, Shard) else NO_GHOSTS for x in ins]


# -- together with others, and as loops ------------------------------------------------------------------------------


@batch.register(Map)
def _(op: Map, first: Node, ins: list[Rolled], count: int, last: bool) -> Node | None:
    args = tuple([x.aligned(first.ndim, last) for x in ins])
    shape = (*first.shape, count) if last else (count, *first.shape)
    order = broadcast_order(len(shape), [(seen(x), x.order) for x in args])
    return intern(op, args, shape, first.dtype, order)


@in_body.register(Map)
def _(op: Map, node: Node) -> bool:
    if not node.shape or not node.dtype.isnative or not all(x.dtype.isnative for x in node.inputs):
        return False  # bytes in the other order have the same names
    return supports(code_name(op), tuple([dtype_name(x.dtype) for x in node.inputs]), dtype_name(node.dtype))
