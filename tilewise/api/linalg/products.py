"""Products. In: NumPy's arguments of matmul, dot, einsum, tensordot, inner, outer, vdot. Out: Arrays."""

from __future__ import annotations

import operator
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from numpy._core.einsumfunc import _parse_einsum_input as parse_einsum  # type: ignore[attr-defined]
from numpy.lib.array_utils import normalize_axis_index

from tilewise.api.dispatch import NAMED, QUICK, call, implements, into, multiplied, product
from tilewise.api.ufuncs import know
from tilewise.api.views import shown
from tilewise.array import force as forcing
from tilewise.array import record as rec
from tilewise.array.arithmetic import binary
from tilewise.array.fallback import fallback
from tilewise.array.handle import Array, from_buffer, from_number, meta
from tilewise.array.interop.array_like import given
from tilewise.array.operators import foreign
from tilewise.array.schedule import policy
from tilewise.array.session import on_workers
from tilewise.config import LEAST, current
from tilewise.ir.node import Node
from tilewise.ops import contract as ops

_NDARRAY = np.ndarray  # one look-up less


def _nodes(*args: Any) -> tuple[Node, ...]:
    """The operands' nodes, after a flush if the program repeats here."""
    nodes = tuple(rec.as_node(a) for a in args)
    if policy.repeats(nodes):
        del nodes  # what is held here cannot be updated in place
        policy.flush()
        nodes = tuple(rec.as_node(a) for a in args)
    return nodes


def _product(make: Callable[..., Node], *args: Any) -> Node | None:
    """The node of a product; None for dtypes that NumPy multiplies on its own.

    On workers, a length that a mask decides may be multiplied with itself; else a product takes numbers.
    """
    nodes = _nodes(*args)
    if (d := _dtype(*nodes)) is None:
        return None
    if not all(n.known for n in nodes):
        if on_workers():
            with suppress(TypeError, ValueError):  # lengths that differ, or may
                return make(nodes, d)
        for a in args:
            if type(a) is Array:
                meta(a)
        nodes = _nodes(*args)
    return make(nodes, d)


def _dtype(*nodes: Node) -> np.dtype[Any] | None:
    """The dtype of a product; None for kinds that NumPy multiplies on its own."""
    d = np.result_type(*(n.dtype for n in nodes))
    return d if rec.numeric(d) else None


def _recorded(node: Node | None) -> Any:
    return NotImplemented if node is None else rec.record(node, fixed=node.shape == ())


@implements(np.matmul, np.linalg.matmul)
def _matmul(a: Any, b: Any) -> Any:
    return _recorded(_product(lambda n, d: ops.matmul(n[0], n[1], d), a, b))


def matmul(a: Any, b: Any, /, out: Any = None, **kwargs: Any) -> Any:
    """Matrix product.

    >>> import tilewise as tw
    >>> tw.matmul(tw.eye(2), tw.array([1.0, 2.0]))
    Array([1., 2.])
    """
    if kwargs:
        return fallback(np.matmul, (a, b), {**kwargs, "out": out} if out is not None else kwargs, "matmul")
    if out is not None:
        return into(np.matmul, (a, b), {}, out)
    found = product(np.matmul, a, b)
    try:
        return call(np.matmul, (a, b), {}) if found is None else found
    except ValueError as error:
        return matmul(*given(error, (a, b)))


know(np.matmul, matmul)


def _matmul_operator(self: Array, other: Any) -> Any:
    cell = self._cell
    if cell.node is None and self._gen == cell.gen and type(other) is Array and not self._fixed:
        c = other._cell
        if c.node is None and other._gen == c.gen:
            a: Any = self._nd
            b: Any = other._nd
            size = a.nbytes + b.nbytes
            if size < LEAST.eager_bytes or size < current().eager_bytes or policy.slight(a, b):
                r = multiplied(a, b)
                if type(r) is _NDARRAY:
                    return from_buffer(r)
                return from_number(r) if type(r) in rec.SCALARS else rec.wrap(r)
    return NotImplemented if foreign(other) or _numbers(self, other) else matmul(self, other)


def _numbers(a: Array, b: Any) -> bool:
    """Whether both are numbers, which NumPy's scalars do not multiply so."""
    return a._fixed and not isinstance(b, np.ndarray) and (type(b) is not Array or b._fixed) and np.ndim(b) == 0


Array.__matmul__ = _matmul_operator
Array.__rmatmul__ = lambda self, other: NotImplemented if _numbers(self, other) else matmul(other, self)


def _imatmul(self: Array, other: Any) -> Any:
    if self._fixed:
        return NotImplemented
    if self.ndim < 1 or np.ndim(other) < 2:
        copied = forcing.force(self).copy()
        copied @= rec.unwrap(other)  # NumPy says what is wrong
    return matmul(self, other, out=self)


Array.__imatmul__ = _imatmul


def _strong(x: Any) -> Any:
    """A number with a dtype of its own: dot and inner make arrays of Python's numbers."""
    return np.asarray(x)[()] if type(x) in (bool, int, float, complex) else x


@implements(np.dot)
def dot(a: Any, b: Any, out: Any = None) -> Any:
    """NumPy's dot."""
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        return binary(np.multiply, _strong(a), _strong(b))
    return _recorded(_product(lambda n, d: ops.dot(n[0], n[1], d), a, b))


@implements(np.inner)
def inner(a: Any, b: Any, /) -> Any:
    """Sum over the last axes of both."""
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        return binary(np.multiply, _strong(a), _strong(b))
    if max(np.ndim(a), np.ndim(b)) > 2:  # NumPy's loop over vectors, whose sums begin at 0, as dot's
        turned = b if np.ndim(b) == 1 else b.swapaxes(-1, -2) if type(b) is Array else np.swapaxes(b, -1, -2)
        return dot(a, turned)
    return _tensordot(a, b, (np.ndim(a) - 1,), (np.ndim(b) - 1,), True)


@implements(np.vdot)
def vdot(a: Any, b: Any, /) -> Any:
    """Dot product of all elements, the first conjugated."""
    x, y = (np.ravel(v) if type(v) is not Array else v if v.ndim == 1 else v.reshape(-1) for v in (a, b))
    return _recorded(_product(lambda n, d: ops.vdot(n[0], n[1], d), x, y))


@implements(np.outer)
def outer(a: Any, b: Any, out: Any = None) -> Any:
    """All products of two vectors."""
    x = a.reshape(-1, 1) if type(a) is Array else np.reshape(a, (-1, 1))
    y = b.reshape(1, -1) if type(b) is Array else np.reshape(b, (1, -1))
    return binary(np.multiply, x, y)


def _gufunc(name: str, record: Any) -> Any:
    """A product of vectors and matrices in the last axes, over the others; options beside axis are NumPy's."""
    f = getattr(np, name)

    @implements(f)
    def recorder(a: Any, b: Any, /, axis: Any = -1) -> Any:
        x, y = (v if type(v) is Array else rec.record_const(rec.unwrap(v)) for v in (a, b))
        if operator.index(axis) != -1:  # moveaxis would take several
            x, y = np.moveaxis(x, axis, -1), np.moveaxis(y, axis, -1)  # type: ignore[type-var]
        return record(x, y)

    def function(a: Any, b: Any, /, *args: Any, **kwargs: Any) -> Any:
        if args or set(kwargs) - {"axis"}:
            return (
                fallback(f, (a, b, *args), kwargs, name)
                if "out" not in kwargs
                else into(f, (a, b), kwargs, kwargs["out"])
            )
        return call(f, (a, b), kwargs)

    function.__name__, function.__doc__ = name, f"NumPy's {name}: products of vectors in the last axes."
    know(f, function)
    return function


def _vecdot(x: Any, y: Any) -> Any:
    if x.shape[-1] != y.shape[-1]:
        return NotImplemented  # NumPy's complaint
    product = binary(np.multiply, x.conj(), y)
    return product.sum(-1, dtype=product.dtype)


vecdot = _gufunc("vecdot", _vecdot)
matvec = _gufunc("matvec", lambda x, y: matmul(x, y[..., None])[..., 0])
vecmat = _gufunc("vecmat", lambda x, y: matmul(x.conj()[..., None, :], y)[..., 0, :])
for _made in (matmul, vecdot, matvec, vecmat):  # what a ufunc says of itself
    for _detail in ("nin", "nout", "nargs", "ntypes", "types", "identity", "signature"):
        setattr(_made, _detail, getattr(getattr(np, _made.__name__), _detail))


def _tensordot(a: Any, b: Any, left: tuple[int, ...], right: tuple[int, ...], number: bool) -> Any:
    node = _product(lambda n, d: ops.tensordot(n[0], n[1], (left, right), d), a, b)
    return NotImplemented if node is None else rec.record(node, fixed=number and node.shape == ())


@implements(np.tensordot, np.linalg.tensordot)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """Sum over pairs of axes."""
    na, nb = np.ndim(a), np.ndim(b)
    if np.ndim(axes) == 0:
        k = int(axes)
        left, right = tuple(range(na - k, na)), tuple(range(k))
    else:
        first, second = axes
        left = tuple(first) if np.ndim(first) else (first,)
        right = tuple(second) if np.ndim(second) else (second,)
    if len(left) != len(right):
        raise ValueError("shape-mismatch for sum")
    left = tuple(normalize_axis_index(i, na) for i in left)
    right = tuple(normalize_axis_index(i, nb) for i in right)
    if len(set(left)) != len(left) or len(set(right)) != len(right):
        return NotImplemented  # NumPy's complaint
    return _tensordot(a, b, left, right, False)  # NumPy's ends in a reshape: an array, also without axes


def _tensordot_now(a: Any, b: Any, axes: Any = 2) -> Any:
    """np.tensordot of ndarrays."""
    try:
        if type(axes) is int:
            left, right = tuple(range(-axes, 0)), tuple(range(axes))
        else:
            left, right = tuple(axes[0]), tuple(axes[1])
        return ops.folded(a, b, left, right)
    except (TypeError, ValueError, AttributeError, IndexError):
        return np.tensordot(a, b, axes)  # it says what is wrong


_tensordot_now.__qualname__ = "tensordot"  # in complaints about its arguments
QUICK[np.tensordot] = NAMED[np.tensordot] = _tensordot_now


@implements(np.einsum)
def einsum(*operands: Any, out: Any = None, optimize: Any = False, **kwargs: Any) -> Any:
    """Sums of products named by letters."""
    if kwargs or not operands:
        return NotImplemented
    arrays = operands[1:]
    if isinstance(operands[0], str) and "->" in operands[0] and "." not in operands[0]:
        ins, result = operands[0].replace(" ", "").split("->")
    else:  # dots, no result, or numbers for letters: NumPy says what they stand for
        if not isinstance(operands[0], str):
            arrays = operands[: len(operands) - len(operands) % 2 : 2]
            if any(type(k) is int and k < 0 for labels in operands[1::2] for k in labels):
                return NotImplemented  # letters counted from the end below, an error for NumPy
        ins, result, _ = parse_einsum([meta(x) if type(x) is Array else x for x in operands])
    terms = ins.split(",")
    text = f"{ins}->{result}"
    if len(terms) != len(arrays) or not all(len(t) == np.ndim(x) for t, x in zip(terms, arrays, strict=True)):
        return NotImplemented  # NumPy's own complaint
    if len(set(result)) != len(result) or not set(result) <= set(ins):
        return NotImplemented
    if type(optimize) is not bool:
        np.einsum_path(text, *(meta(x) if type(x) is Array else x for x in arrays), optimize=optimize)  # may complain
    if len(arrays) == 1 and set(terms[0]) == set(result):  # a diagonal, or a transpose, is a view
        x = arrays[0]
        return shown(x, np.einsum(text, meta(x))) if type(x) is Array else NotImplemented
    given = [_diagonal(t, x) for t, x in zip(terms, arrays, strict=True)]
    text = f"{','.join(t for t, _ in given)}->{result}"
    return _recorded(_product(lambda nodes, d: ops.einsum(text, nodes, d), *(x for _, x in given)))


def _diagonal(term: str, x: Any) -> tuple[str, Any]:
    """An operand of einsum without letters that come twice: of these axes only the diagonal counts."""
    once = "".join(dict.fromkeys(term))
    if once == term or type(x) is not Array or any(x.shape[k] != x.shape[term.index(c)] for k, c in enumerate(term)):
        return term, x
    return once, shown(x, np.einsum(f"{term}->{once}", meta(x)))
