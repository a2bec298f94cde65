"""Ufuncs and operators on Arrays. In: a NumPy ufunc and operands. Out: an Array, computed at once or recorded.

The first lines of each operator are the fast path: known operands that touch few bytes go straight to NumPy.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewise.array import force as forcing
from tilewise.array import record as rec
from tilewise.array.cell import LOCK
from tilewise.array.handle import Array, from_buffer, meta, same_window, window_of
from tilewise.config import current
from tilewise.ir.node import Node, intern
from tilewise.ops.const import const
from tilewise.ops.create import full
from tilewise.ops.elementwise import UnknownLength, apply, broadcast, cast
from tilewise.ops.index import Update
from tilewise.ops.join import broadcast_view, copy, squeeze_leading

_WEAK = (int, float, complex)  # Python's own numbers take the array's precision (NEP 50)
_loops: dict[tuple[Any, ...], tuple[np.dtype[Any], ...]] = {}


def loop_of(ufunc: np.ufunc, kinds: tuple[Any, ...]) -> tuple[np.dtype[Any], ...]:
    """The dtypes NumPy computes in (arguments, then results). `kinds`: dtypes, or int/float/complex for weak scalars."""
    key = (ufunc, kinds)
    loop = _loops.get(key)
    if loop is None:
        loop = ufunc.resolve_dtypes((*kinds, *([None] * ufunc.nout)))
        _loops[key] = loop
    return loop


def _kind(x: Any) -> Any:
    t = type(x)
    if t is Array:
        return x.dtype
    if t in _WEAK:
        return t
    if isinstance(x, np.ndarray | np.generic):
        return x.dtype
    return np.asarray(x).dtype


class CannotRecord(Exception):
    """The operation has no place in the graph (dtype, casting): NumPy does it."""


def ufunc_node(ufunc: np.ufunc, args: tuple[Any, ...], which: int = 0, dtype: Any = None) -> Node:
    """The node of a ufunc on operands."""
    if dtype is None:
        loop = loop_of(ufunc, tuple(_kind(a) for a in args))
    else:
        kinds = tuple(_kind(a) for a in args)
        signature = (None,) * ufunc.nin + (np.dtype(dtype),) * ufunc.nout
        loop = ufunc.resolve_dtypes((*kinds, *([None] * ufunc.nout)), signature=signature)
    if not rec.numeric(*loop):
        raise CannotRecord
    nodes = _operands(args, loop)
    if rec.repeats(nodes):
        forcing.flush()
        nodes = _operands(args, loop)
    try:
        return apply(ufunc.__name__, nodes, loop, which)
    except UnknownLength:
        for a in args:
            if type(a) is Array:
                a.shape  # noqa: B018  (asks for the lengths)
        return apply(ufunc.__name__, _operands(args, loop), loop, which)


def _operands(args: tuple[Any, ...], loop: tuple[np.dtype[Any], ...]) -> tuple[Node, ...]:
    out = []
    for a, d in zip(args, loop, strict=False):
        if type(a) is Array:
            out.append(rec.as_node(a))
        elif type(a) in _WEAK:
            try:
                out.append(const(d.type(a)))
            except OverflowError:
                raise CannotRecord from None
        else:
            node = rec.as_node(a)
            if not rec.numeric(node.dtype):
                raise CannotRecord
            out.append(node)
    return tuple(out)


def _strict_errors() -> bool:
    """Whether NumPy's error state asks for more than warnings: then work is done where the user is."""
    state = np.geterr()
    return "raise" in state.values() or "call" in state.values()


def binary(ufunc: np.ufunc, a: Any, b: Any) -> Any:
    """ufunc(a, b) without options; the general case behind the operators' fast path."""
    arrays = [x for x in (a, b) if type(x) is Array]
    foreign = sum(x.nbytes for x in (a, b) if isinstance(x, np.ndarray))
    if rec.small(arrays, foreign) and _result_small(a, b):
        return rec.at_once(ufunc, (a, b), {})
    return apply_ufunc(ufunc, (a, b))


def _result_small(a: Any, b: Any) -> bool:
    sa = meta(a).size if type(a) is Array else getattr(a, "size", 1)
    sb = meta(b).size if type(b) is Array else getattr(b, "size", 1)
    if min(sa, sb) <= 1 or sa * sb * 8 < rec.eager_limit():
        return True
    try:
        shape = np.broadcast_shapes(np.shape(meta(a) if type(a) is Array else a), np.shape(meta(b) if type(b) is Array else b))
    except ValueError:
        return True
    n = 8
    for d in shape:
        n *= d
    return n < rec.eager_limit()


def apply_ufunc(ufunc: np.ufunc, args: tuple[Any, ...], dtype: Any = None) -> Any:
    """Record a ufunc (a tuple of Arrays for several results); hands over to NumPy what cannot be recorded."""
    if _strict_errors():
        return rec.at_once(ufunc, args, {} if dtype is None else {"dtype": dtype})
    try:
        nodes = [ufunc_node(ufunc, args, k, dtype) for k in range(ufunc.nout)]
    except CannotRecord:
        return rec.at_once(ufunc, args, {} if dtype is None else {"dtype": dtype})
    results = tuple(rec.record(n, fixed=not n.shape) for n in nodes)
    return results[0] if ufunc.nout == 1 else results


# -- writing -------------------------------------------------------------------------------------------------------


def check_writable(x: Array) -> None:
    """Raise NumPy's error if x may not be written to."""
    if x._fixed:
        raise TypeError(f"'{x.dtype.type.__module__}.{x.dtype.type.__name__}' object does not support item assignment")
    if not meta(x).flags.writeable:
        raise ValueError("assignment destination is read-only")


def assign(x: Array, value: Any, casting: str = "unsafe") -> None:
    """x[...] = value: at once if little is touched and known, else recorded."""
    check_writable(x)
    if type(value) is Array and value._cell is x._cell and same_window(x, value):
        return  # what `x[k] += v` ends with: the view has been written already
    target = rec.known(x)
    is_array = type(value) is Array
    source = rec.known(value) if is_array else value
    if target is not None and source is not None:
        foreign = isinstance(source, np.ndarray) and not is_array
        if target.nbytes < rec.eager_limit() or not rec.numeric(target.dtype) or (not is_array and not foreign and np.ndim(source) > 0):
            write_now(x, source, casting)
            return
    if not rec.numeric(x.dtype):
        write_now(x, forcing.force(value) if is_array else value, casting)
        return
    rec.settle(x)
    node = rec.as_node(value)
    if not rec.numeric(node.dtype):
        write_now(x, forcing.force(value) if is_array else value, casting)
        return
    if node.dtype != x.dtype and node.dtype.kind == "c" and x.dtype.kind not in "c":
        write_now(x, forcing.force(value) if is_array else value, casting)  # NumPy warns about the imaginary part
        return
    if not is_array and type(value) in _WEAK:
        node = const(np.asarray(value).astype(x.dtype)[()]) if type(value) is not int else const(np.array(value, x.dtype)[()])
    store(x, node)


def write_now(x: Array, source: Any, casting: str = "unsafe") -> None:
    """Write at once, after making the buffer private."""
    with LOCK:
        forcing.force(x)
        x._cell.own()
        if casting == "unsafe":
            meta(x)[...] = source
        else:
            np.copyto(meta(x), source, casting=casting)  # type: ignore[arg-type]


def store(x: Array, node: Node) -> None:
    """Record that x's part of its cell becomes `node` (broadcast, cast)."""
    with LOCK:
        shape = meta(x).shape
        try:
            fits = broadcast([node.shape, shape]) == shape
        except ValueError:
            fits = False
        except UnknownLength:
            fits = True
        if not fits:
            if len(node.shape) > len(shape) and node.known and node.shape[len(node.shape) - len(shape):] == shape and all(
                d == 1 for d in node.shape[: len(node.shape) - len(shape)]
            ):
                node = squeeze_leading(node, len(shape))
            else:
                text = f"could not broadcast input array from shape {_text(node.shape)} into shape {_text(shape)}"
                raise ValueError(text)
        node = cast(node, x.dtype)
        cell = x._cell
        window = window_of(x)
        if window is None and node.shape == shape and shape != ():
            base_order = cell.read().order
            if node.value is not None or node.order != base_order:
                node = copy(node, base_order)
            new = node
        elif window is None and node.shape == ():
            base = cell.read()
            new = full(base.shape, node, base.order)
        elif window is None:
            base = cell.read()
            new = copy(broadcast_view(node, shape), base.order)
        else:
            base = cell.read()
            new = intern(Update(window), (base, node), base.shape, base.dtype, base.order)
        rec.note_site(new)
        if window is None:
            x._nd = None  # lets go of the old buffer
        cell.record(new)
        forcing.register(cell)


def _text(shape: Any) -> str:
    return str(tuple(shape)).replace(" ", "")


def inplace(ufunc: np.ufunc, x: Array, other: Any) -> Array:
    """x op= other, through x's window."""
    if x._fixed:
        return binary(ufunc, x, other)  # type: ignore[no-any-return]
    target = rec.known(x)
    other_nd = rec.known(other) if type(other) is Array else other
    if target is not None and other_nd is not None:
        if target.nbytes < rec.eager_limit() or not rec.numeric(target.dtype) or _strict_errors():
            with LOCK:
                x._cell.own()
                nd = meta(x)
                ufunc(nd, other_nd, out=nd)
            return x
    update(x, ufunc, (x, other))
    return x


def update(x: Array, ufunc: np.ufunc, args: tuple[Any, ...], casting: str = "same_kind") -> None:
    """x[...] = ufunc(*args), with the ufunc's casting rule for its output."""
    if not meta(x).flags.writeable:
        raise ValueError("output array is read-only")
    rec.settle(x)
    try:
        node = ufunc_node(ufunc, args)
    except CannotRecord:
        with LOCK:
            values = [rec.unwrap(a) for a in args]
            x._cell.own() if x._cell.node is None else None
            forcing.force(x)
            x._cell.own()
            ufunc(*[meta(x) if a is x else v for a, v in zip(args, values, strict=True)], out=meta(x), casting=casting)  # type: ignore[call-overload]
        return
    if not np.can_cast(node.dtype, x.dtype, casting):  # type: ignore[arg-type]
        # NumPy's own exception, from operands without data.
        tiny = [np.zeros((), a.dtype) if type(a) is Array else a for a in args]
        ufunc(*tiny, out=np.zeros((), x.dtype), casting=casting)  # type: ignore[call-overload]
        raise AssertionError("NumPy accepted a cast that can_cast refused")
    shape = meta(x).shape
    if node.known and broadcast([node.shape, shape]) != shape:
        raise ValueError(
            f"non-broadcastable output operand with shape {_text(shape)} doesn't match the broadcast shape {_text(node.shape)}"
        )
    store(x, node)


# -- operators -----------------------------------------------------------------------------------------------------


def _forward(ufunc: np.ufunc) -> Callable[[Array, Any], Any]:
    def method(self: Array, other: Any) -> Any:
        cell = self._cell
        if cell.node is None and self._gen == cell.gen:
            a = self._nd
            t = type(other)
            if t is float or t is int:
                if a.nbytes < current().eager_bytes:  # type: ignore[union-attr]
                    r = ufunc(a, other)
                    return from_buffer(r) if type(r) is np.ndarray else from_buffer(np.asarray(r), True)
            elif t is Array:
                c = other._cell
                if c.node is None and other._gen == c.gen:
                    b = other._nd
                    if a.shape == b.shape and a.nbytes < current().eager_bytes:  # type: ignore[union-attr]
                        r = ufunc(a, b)
                        return from_buffer(r) if type(r) is np.ndarray else from_buffer(np.asarray(r), True)
        if _foreign(other):
            return NotImplemented
        return binary(ufunc, self, other)

    return method


def _foreign(other: Any) -> bool:
    """Whether Python should ask the other operand."""
    if isinstance(other, Array | np.ndarray | np.generic | int | float | complex | bool | list | tuple):
        return False
    return getattr(other, "__array_ufunc__", True) is None or hasattr(other, "__array_priority__")


def _backward(ufunc: np.ufunc) -> Callable[[Array, Any], Any]:
    def method(self: Array, other: Any) -> Any:
        cell = self._cell
        if cell.node is None and self._gen == cell.gen and (type(other) is float or type(other) is int):
            a = self._nd
            if a.nbytes < current().eager_bytes:  # type: ignore[union-attr]
                r = ufunc(other, a)
                return from_buffer(r) if type(r) is np.ndarray else from_buffer(np.asarray(r), True)
        return binary(ufunc, other, self)

    return method


def _assigning(ufunc: np.ufunc) -> Callable[[Array, Any], Array]:
    def method(self: Array, other: Any) -> Array:
        return inplace(ufunc, self, other)

    return method


def _unary(ufunc: np.ufunc) -> Callable[[Array], Any]:
    def method(self: Array) -> Any:
        return unary(ufunc, self)

    return method


def unary(ufunc: np.ufunc, x: Any) -> Any:
    """ufunc(x)."""
    if type(x) is not Array or rec.small((x,)):
        return rec.at_once(ufunc, (x,), {})
    return apply_ufunc(ufunc, (x,))


_POWERS = {1: np.positive, 2: np.square, -1: np.reciprocal, 0.5: np.sqrt}  # as ndarray.__pow__ does for these exponents


def _power(self: Array, other: Any, modulo: Any = None) -> Any:
    if modulo is not None:
        return NotImplemented
    if rec.small((self,)) and type(other) in (int, float):
        return rec.at_once(operator.pow, (self, other), {})
    if type(other) in (int, float) and other in _POWERS:
        kind = self.dtype.kind
        if kind in "fc" or (kind in "iu" and other in (1, 2) and type(other) is int):
            return apply_ufunc(_POWERS[other], (self,))
    return binary(np.power, self, other)


_BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "truediv": np.divide,
    "floordiv": np.floor_divide,
    "mod": np.remainder,
    "pow": np.power,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "lshift": np.left_shift,
    "rshift": np.right_shift,
}
_COMPARE = {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}

for _name, _ufunc in _BINARY.items():
    setattr(Array, f"__{_name}__", _forward(_ufunc))
    setattr(Array, f"__r{_name}__", _backward(_ufunc))
    setattr(Array, f"__i{_name}__", _assigning(_ufunc))
for _name, _ufunc in _COMPARE.items():
    setattr(Array, f"__{_name}__", _forward(_ufunc))
for _name, _ufunc in {"neg": np.negative, "pos": np.positive, "abs": np.absolute, "invert": np.invert}.items():
    setattr(Array, f"__{_name}__", _unary(_ufunc))
Array.__pow__ = _power  # type: ignore[attr-defined]


def _divmod(self: Array, other: Any) -> Any:
    return self // other, self % other


def _rdivmod(self: Array, other: Any) -> Any:
    return other // self, other % self


Array.__divmod__ = _divmod  # type: ignore[attr-defined]
Array.__rdivmod__ = _rdivmod  # type: ignore[attr-defined]
