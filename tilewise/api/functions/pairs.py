"""tw.allpairs: a function of two rows, on all pairs. In: the function, two matrices. Out: a matrix.

The function is traced on one row of each. Its graph is then read with two axes more in front, so that `a - b` is a
difference of all pairs inside one kernel, and `a @ b` one matrix product.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewise.api.create import asarray
from tilewise.api.functions.guards import Guards
from tilewise.api.functions.native.tiles import NativePairs, by_element, pairs_dtype, pairs_loop
from tilewise.api.functions.native.vectorized import little, with_captured
from tilewise.api.functions.purity import Untraceable, function_key, library, plain
from tilewise.api.functions.trace.array_trace import Made, Spec, trace
from tilewise.api.functions.trace.scalar_trace import own_key
from tilewise.api.functions.warn import name_of, warn
from tilewise.array import record as rec
from tilewise.array.handle import Array, from_node, node_of
from tilewise.array.schedule import policy
from tilewise.config import current
from tilewise.errors import FunctionError, message
from tilewise.ir.node import Node, intern
from tilewise.ops.contract import Contract, einsum, matmul
from tilewise.ops.create import full
from tilewise.ops.elementwise import Map, apply, cast
from tilewise.ops.join import broadcast_view, copy
from tilewise.ops.reduce import Reduce, reduce
from tilewise.ops.reshape import reshape
from tilewise.ops.traits.rule import LETTERS
from tilewise.ops.user import Opaque, opaque
from tilewise.python.refuse import Refused
from tilewise.records import dataclass


def allpairs(f: Callable[..., Any], x: Any, y: Any = None) -> Array:
    """`f(x[i], y[j])` for all rows of x and of y (of x itself, if y is not given), at [i, j] of the result.

    >>> import tilewise as tw
    >>> x = tw.arange(6.0).reshape(3, 2)
    >>> tw.allpairs(lambda a, b: ((a - b) ** 2).sum(), x)
    Array([[ 0.,  8., 32.],
           [ 8.,  0.,  8.],
           [32.,  8.,  0.]])
    >>> tw.allpairs(tw.dot, x, tw.ones((2, 2)))
    Array([[1., 1.],
           [5., 5.],
           [9., 9.]])
    """
    a = asarray(x)
    b = a if y is None else asarray(y)
    if a.ndim == 0 or b.ndim == 0:
        raise ValueError(message("allpairs needs rows", got="an array without axes"))
    policy.flush_loop([a, b])
    captured: list[Array] = []
    if by_element(f):
        try:
            return _compiled(f, a, b)
        except Refused as error:
            refused: Untraceable | Refused = error
        warn("allpairs", f, refused, [a, b])
        return _looped(f, a, b)
    try:
        found = plain(f)
        if found is not None:
            watch = Guards()
            function_key(found, arrays=captured, watch=watch)
            if watch.kinds:
                raise Untraceable("a class of arrays, and stand-ins are of another than rows")
        elif not library(f):
            raise Untraceable(f"a {type(f).__name__} (not a plain function)", pure=False)
        return rec.record(_lifted(f, a, b, captured))
    except Untraceable as error:
        why: Untraceable | Refused = error
    if not little([a, b], a.shape[0] * b.shape[0]) and current().engine != "numpy":
        try:
            return _compiled(f, a, b)
        except Refused as error:
            why = error if error.line else why
    warn("allpairs", f, why, [a, b])
    return _looped(f, a, b)


def _compiled(f: Any, a: Any, b: Any) -> Array:
    """All pairs by compiled code. Raises Refused."""
    dtypes, ranks = (a.dtype, b.dtype), (a.ndim, b.ndim)
    dtype = pairs_dtype(f, dtypes, ranks)
    if dtype is None:
        if 0 in (a.shape[0], b.shape[0]):
            raise Refused("a result whose type depends on values")
        dtype = np.asarray(f(rec.unwrap(a[0]), rec.unwrap(b[0]))).dtype
    run = NativePairs(pairs_loop(f, dtypes, ranks, dtype), dtype)
    if policy.small([a, b]):
        return rec.wrap(run(rec.unwrap(a), rec.unwrap(b), *run.loop.captured))  # type: ignore[no-any-return]
    left, right = LETTERS[: a.ndim - 1], LETTERS[a.ndim - 1 : a.ndim + b.ndim - 2]
    terms = [f"Y{left}", f"Z{right}"]
    nodes, terms = with_captured(run.loop, [rec.as_node(a), rec.as_node(b)], terms, a.ndim + b.ndim - 2)
    key, text = ("compiled pairs", own_key(f, run), dtype.str), f"allpairs with {name_of(f)}"
    op = Opaque(run, key, f"{','.join(terms)}->YZ", None, text)
    return rec.record(opaque(op, nodes, (a.shape[0], b.shape[0]), dtype))


def _lifted(f: Any, a: Any, b: Any, captured: list[Array]) -> Node:
    specs = [Spec(m.shape[1:], m.dtype, None) for m in (a, b)]
    template = trace(specs, lambda others, rows: others.of(f)(*rows), captured)
    results = template.result[1]
    if template.result[0] is not None or template.writes or not isinstance(results[0], Made):
        raise Untraceable("a result that is not one new array, or a write to a row")
    leaves = [_Lift(node_of(a[:, None]), True, False), _Lift(node_of(b[None, :]), False, True)]
    leaves += [_Lift(x._cell.read(), False, False) for x in {x._cell: x for x in captured}.values()]
    made = dict(zip(template.inputs, leaves, strict=True))
    for n in template.order:
        if n not in made:
            made[n] = _lift(n, [made[i] for i in n.inputs] if n.value is None else [])
    end = made[results[0].node]
    shape = (a.shape[0], b.shape[0], *results[0].node.shape)
    if not end.node.shape:
        return full(shape, end.node)
    return end.node if end.node.shape == shape else copy(broadcast_view(end.node, shape), None)


@dataclass(frozen=True)
class _Lift:
    """A node with two axes in front (rows of x, rows of y) if it hangs on either, else as it was."""

    node: Node
    on_x: bool
    on_y: bool

    @property
    def on(self) -> bool:
        return self.on_x or self.on_y


def _lift(n: Node, ins: list[_Lift]) -> _Lift:
    on_x, on_y = any(i.on_x for i in ins), any(i.on_y for i in ins)
    op = n.op
    if not (on_x or on_y):  # of arrays that the function refers to, or of none
        return _Lift(intern(op, tuple(i.node for i in ins), n.shape, n.dtype, n.order) if ins else n, False, False)
    if type(op) is Map:
        parts = tuple(_padded(i.node, n.ndim + 2) if i.on else i.node for i in ins)
        if op.fn.name == "cast":
            return _Lift(cast(parts[0], n.dtype), on_x, on_y)
        results = (n.dtype,) * op.fn.nout
        return _Lift(apply(op.fn.name, parts, (*(p.dtype for p in parts), *results), op.which), on_x, on_y)
    if isinstance(op, Reduce):
        axes = tuple(a + 2 for a in op.axes)
        return _Lift(reduce(ins[0].node, op.fn, axes, op.keepdims, op.dtype), on_x, on_y)
    if isinstance(op, Contract):
        return _Lift(_product(n, op, ins), on_x, on_y)
    raise Untraceable(f"{op.label()} of a row")


def _padded(node: Node, ndim: int) -> Node:
    """Axes of length one after the first two, to have `ndim` in all."""
    if node.ndim == ndim:
        return node
    return node_of(from_node(node)[(slice(None), slice(None), *[None] * (ndim - node.ndim), ...)])


def _product(n: Node, op: Contract, ins: list[_Lift]) -> Node:
    """A contraction of rows as one of matrices."""
    terms, out = op.letters.split("->")
    letters, parts = [], []
    for term, i in zip(terms.split(","), ins, strict=True):
        lead = ("Y" if i.on_x else "") + ("Z" if i.on_y else "")
        kept = tuple(d for d, on in zip(i.node.shape, (i.on_x, i.on_y), strict=False) if on) + i.node.shape[2:]
        letters.append(lead + term)
        parts.append(reshape(i.node, kept, "C") if i.on and len(lead) < 2 else i.node)
    lead = "".join(c for c in "YZ" if any(c in t for t in letters))
    if op.how == "vdot" and n.dtype.kind == "c":
        raise Untraceable("vdot of complex rows")
    pair = sorted(zip(letters, parts, strict=True), key=lambda p: p[0])
    if [t[:1] for t, _ in pair] == ["Y", "Z"] and [len(t) for t in letters] == [2, 2] and out == "":
        left, right = (x for _, x in pair)
        made = matmul(left, node_of(from_node(right).T), n.dtype)
    else:
        made = einsum(f"{','.join(letters)}->{lead}{out}", tuple(parts), n.dtype)
    if len(lead) == 2:
        return made
    shape = (made.shape[0], 1) if lead == "Y" else (1, made.shape[0])
    return reshape(made, (*shape, *made.shape[1:]), "C")


@dataclass(frozen=True)
class Pairs:
    """Two loops over rows of blocks."""

    f: Any
    tail: tuple[int, ...]
    dtype: np.dtype[Any]

    def __call__(self, a: Any, b: Any) -> Any:
        out = np.empty((len(a), len(b), *self.tail), self.dtype)
        for i, p in enumerate(a):
            for j, q in enumerate(b):
                made = np.asarray(self.f(p, q))
                if made.shape != self.tail:
                    text = f"{name_of(self.f)} gives results of one shape for all pairs"
                    raise FunctionError(message(text, got=f"{made.shape} after {self.tail}"))
                out[i, j] = made
        return out


def _looped(f: Any, a: Any, b: Any) -> Array:
    """Rows of blocks, pair by pair, on NumPy."""
    if 0 in (a.shape[0], b.shape[0]):
        raise FunctionError(message("allpairs cannot tell the dtype of no rows", cure="Give at least one row of each"))
    one = np.asarray(f(rec.unwrap(a[0]), rec.unwrap(b[0])))
    run = Pairs(f, one.shape, one.dtype)
    if policy.small([a, b]) or not rec.numeric(one.dtype):
        return rec.wrap(run(rec.unwrap(a), rec.unwrap(b)))  # type: ignore[no-any-return]
    names = iter("bcdefghijklmnopqrstuvwx")
    left, right = ("".join(next(names) for _ in range(m.ndim - 1)) for m in (a, b))
    tail = "".join(next(names) for _ in one.shape)
    op = Opaque(run, ("pairs", own_key(f, run)), f"Y{left},Z{right}->YZ{tail}", None, f"allpairs with {name_of(f)}")
    shape = (a.shape[0], b.shape[0], *one.shape)
    return rec.record(opaque(op, (rec.as_node(a), rec.as_node(b)), shape, one.dtype))
