"""Arrays as values. In: arrays, tuples of numbers. Out: attributes, products, new arrays."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tilewise.kernel.program.ir import INT, Const, Dim, Expr, Fail, If, Op, Product, Span, Store, Var, View
from tilewise.python.build import ONE, ZERO, Array, Lazy, Scalar, Static, Tuple, Value, compare, element, mul
from tilewise.python.refuse import Refused
from tilewise.python.types import LENGTH, Arr, Num, ints

if TYPE_CHECKING:
    from tilewise.python.statements import Statements
from tilewise.python.arrays import elementwise
from tilewise.python.functions import calls
from tilewise.python.host import calling
from tilewise.python.scalars import arithmetic, stored


def attribute(lo: Statements, v: Array | Lazy, name: str, line: int) -> Value:
    """array.name"""
    if name == "shape":
        return Tuple(tuple(elementwise.length(v, k) for k in range(v.t.rank)))
    if name == "ndim":
        return arithmetic.constant(v.t.rank)
    if name == "size":
        return size_of(lo, v)
    if name == "dtype":
        return Static(np.dtype(v.t.dtype))
    if name == "T":
        return transposed(lo, elementwise.materialised(lo, v, line), range(v.t.rank)[::-1])
    if name in ("real", "imag"):
        return v if name == "real" and v.t.dtype[0] != "c" else part(lo, v, name, line)
    raise Refused(f"the attribute {name} of an array", line)


def part(lo: Statements, v: Array | Lazy, name: str, line: int) -> Lazy:
    """The real parts of complex numbers, or the imaginary ones of any: with a name, they show the memory of v."""
    found = elementwise.elementwise(lo, lambda x: calls.part(lo, x, name, line), name, (v,), line)  # type: ignore[arg-type,return-value]
    shows = v.t.dtype[0] == "c"
    if shows and isinstance(v, Lazy):  # whose memory nobody else sees
        return found

    def shown() -> Array:
        made = calling.called(
            lo, operator.attrgetter(name), [v], {}, line, name=f"the attribute {name}", kind=v.t.kind,
            shown=shows, part=name if shows else "",
        )  # fmt: skip
        assert isinstance(made, Array)
        return made

    return replace(found, shown=shown)


def size_of(lo: Statements, v: Array | Lazy) -> Scalar:
    e: Expr = ONE
    for n in elementwise.shape_of(v):
        e = mul(e, n)
    return Scalar(ints(0, LENGTH), lo.b.held(e))


def transposed(lo: Statements, v: Array, axes: Sequence[int]) -> Array:
    """The array with its axes in another order."""
    spans = tuple(Span(k, ZERO, Dim(v.name, k), ONE) for k in axes)
    name = lo.b.array(v.t.dtype, v.t.rank)
    lo.b.view(View(name, v.name, (), spans))
    return Array(v.t, name)


def from_tuple(lo: Statements, v: Tuple, dtype: str | None, line: int) -> Array:
    """An array of nested numbers."""

    def leaves(x: Value) -> tuple[tuple[int, ...], list[Scalar]]:
        if isinstance(x, Scalar):
            return (), [x]
        if not isinstance(x, Tuple) or not x.items:
            raise Refused("an array of something else than numbers", line)
        inner = [leaves(i) for i in x.items]
        if any(s != inner[0][0] for s, _ in inner):
            raise Refused("an array of rows of different lengths", line)
        return (len(inner), *inner[0][0]), [e for _, some in inner for e in some]

    shape, numbers = leaves(v)
    if dtype is None:
        kinds = [np.dtype(s.t.dtype) for s in numbers]
        dtype = np.result_type(*kinds).name
    made = elementwise.allocated(lo, Arr(dtype, len(shape)), [Const(INT, n) for n in shape], False, line)
    for at, s in zip(np.ndindex(*shape), numbers, strict=True):
        value = stored.stored(lo.b, s, dtype, line)
        lo.b.emit(Store(made.name, tuple(Const(INT, i) for i in at), value, (-1,) * len(at)))
    return made


def from_list(lo: Statements, v: Tuple, line: int) -> Array:
    """What a list is as a subscript: an array, of integers if it is empty."""
    if not v.items:
        return elementwise.allocated(lo, Arr(INT, 1), [ZERO], False, line)
    made = from_tuple(lo, v, None, line)
    if made.t.dtype[0] not in "biu":
        raise Refused(f"a list of {made.t.dtype} as a subscript", line)
    return made


def product(lo: Statements, x: Value, y: Value, line: int) -> Value:
    """x @ y"""
    if not isinstance(x, Array | Lazy) or not isinstance(y, Array | Lazy) or not (x.t.rank and y.t.rank):
        raise Refused("@ of numbers", line)
    if max(x.t.rank, y.t.rank) > 2:
        raise Refused("@ of arrays of more than two axes", line)
    p, q = (
        elementwise.lazy(
            v
            if isinstance(v, Array) or (v.t.rank == 1 and x.t.rank == y.t.rank)
            else elementwise.materialised(lo, v, line)
        )
        for v in (x, y)
    )
    dtype = arithmetic.resolved("multiply", np.dtype(x.t.dtype), np.dtype(y.t.dtype))[-1]
    n, m = elementwise.true_length(lo, p.shape[-1]), elementwise.true_length(lo, q.shape[0])
    if n != m:
        n, m = lo.b.held(n), lo.b.held(m)
        signature = "(n?,k),(k,m?)->(n?,m?)"
        text = "matmul: Input operand 1 has a mismatch in its core dimension 0, with gufunc signature "
        text += f"{signature} (size {{1}} is different from {{0}})"
        lo.b.emit(If(compare("not_equal", n, m), (Fail(lo.b.fault("ValueError", text, line), (n, m)),)))
    kind = "tilewise" if "tilewise" in (x.t.kind, y.t.kind) else "numpy"
    zero = Const(dtype, 0j if dtype[0] == "c" else 0.0 if dtype[0] == "f" else False if dtype == "bool" else 0)

    def dot(left: Callable[[Expr], list[Expr]], right: Callable[[Expr], list[Expr]]) -> Expr:
        def step(acc: Var, at: list[Expr]) -> Expr:
            a = arithmetic.cast(p.element(left(at[0]), False).e, dtype)
            c = arithmetic.cast(q.element(right(at[0]), False).e, dtype)
            return Op("add", dtype, (acc, Op("multiply", dtype, (a, c))), loose=True)

        return elementwise.accumulated(lo, dtype, zero, (n,), step, line)

    one = Num(False, dtype)
    reads = (*p.reads, *q.reads)
    if p.t.rank == q.t.rank == 1:
        return Scalar(one, dot(lambda k: [k], lambda k: [k]))
    if dtype in ("float64", "float32") and x.t.dtype == y.t.dtype:
        a, c = (elementwise.materialised(lo, v, line) for v in (x, y))
        sizes = (*elementwise.shape_of(a)[:-1], *elementwise.shape_of(c)[1:])
        made = elementwise.allocated(lo, Arr(dtype, len(sizes), kind), sizes, False, line)
        lo.b.emit(Product(made.name, a.name, c.name))
        return made
    if q.t.rank == 1:
        shape: tuple[Expr, ...] = (p.shape[0],)
        found = Lazy(
            Arr(dtype, 1, kind), shape, lambda at, _: Scalar(one, dot(lambda k: [at[0], k], lambda k: [k])), reads
        )
        return elementwise.materialised(lo, found, line)
    if p.t.rank == 1:
        rows: tuple[Expr, ...] = (q.shape[1],)
        return elementwise.materialised(
            lo,
            Lazy(Arr(dtype, 1, kind), rows, lambda at, _: Scalar(one, dot(lambda k: [k], lambda k: [k, at[0]])), reads),
            line,
        )
    out = elementwise.allocated(lo, Arr(dtype, 2, kind), (p.shape[0], q.shape[1]), True, line)

    def add_up(at: list[Expr]) -> None:
        i, k, j = at
        a = arithmetic.cast(p.element([i, k], False).e, dtype)
        c = arithmetic.cast(q.element([k, j], False).e, dtype)
        old = element(out.name, dtype, [i, j])
        lo.b.emit(Store(out.name, (i, j), Op("add", dtype, (old, Op("multiply", dtype, (a, c)))), (-1, -1)))

    elementwise.loops(lo, (p.shape[0], n, q.shape[1]), add_up, line)
    return out
