"""Writing into arrays. In: an Array, a value or a ufunc with operands. Out: nothing; the array's cell has a new value.

At once if little is touched and known, else as a recorded Update of the whole cell (see docs/design/0004-in-place.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tilewise.array import force as forcing
from tilewise.array import record as rec
from tilewise.array.arithmetic import WEAK, CannotRecord, binary, kind_of, loop_of, strict_errors, ufunc_node
from tilewise.array.cell import LOCK, ND
from tilewise.array.chains.chain import settle
from tilewise.array.handle import Array, meta, node_of, refresh, same_window, window_of
from tilewise.array.interop.array_like import given
from tilewise.array.number import ARE_ARRAYS
from tilewise.array.pending import register
from tilewise.array.schedule import policy, sites
from tilewise.array.schedule.exact import exact
from tilewise.array.session import on_workers
from tilewise.ir.node import Node, intern
from tilewise.ir.order import same_order
from tilewise.ops.const import const
from tilewise.ops.create import full
from tilewise.ops.elementwise import UnknownLength, broadcast, cast
from tilewise.ops.index import Update
from tilewise.ops.join import broadcast_view, copy, squeeze_leading
from tilewise.ops.reshape import reshape
from tilewise.ops.views import Window, unfold


def check_writable(x: Array) -> None:
    """Raise NumPy's error if x may not be written to."""
    if x._fixed and ARE_ARRAYS:
        x._fixed = False
        refresh(x)
    if x._fixed:
        raise TypeError(f"'{x.dtype.type.__module__}.{x.dtype.type.__name__}' object does not support item assignment")
    if not meta(x).flags.writeable:
        raise ValueError("assignment destination is read-only")


def assign(x: Array, value: Any, casting: str = "unsafe") -> None:
    """x[...] = value: at once if little is touched and known, else recorded."""
    check_writable(x)
    settle(value)
    if type(value) is Array and value._cell is x._cell and same_window(x, value):
        return  # what `x[k] += v` ends with: the view has been written already
    if type(value) is Array and value._fixed and x.dtype.kind in "iu" and not np.can_cast(value.dtype, x.dtype):
        value = forcing.force(value)[()]  # NumPy refuses numbers that do not fit: too large, NaN, infinity
    target = policy.known(x)
    is_array = type(value) is Array
    source = policy.known(value) if is_array else value
    if target is not None and source is not None:
        foreign = isinstance(source, np.ndarray) and not is_array
        if (
            target.nbytes < policy.eager_limit()
            or not rec.numeric(target.dtype)
            or (not is_array and not foreign and np.ndim(source) > 0)
        ):
            write_now(x, source, casting)
            return
    if not rec.numeric(x.dtype):
        write_now(x, forcing.force(value) if is_array else value, casting)
        return
    if is_array:
        meta(value)  # what is written must fit now: no error may be left for later
    if policy.settle(x, value):
        assign(x, value, casting)
        return
    if not rec.numeric(value.dtype if is_array else rec.as_array(value).dtype):
        write_now(x, forcing.force(value) if is_array else value, casting)
        return
    node = rec.as_node(value)
    if node.dtype != x.dtype and node.dtype.kind == "c" and x.dtype.kind not in "c":
        write_now(x, forcing.force(value) if is_array else value, casting)  # NumPy warns about the imaginary part
        return
    if not is_array and (type(value) in WEAK or isinstance(value, np.generic)):
        one = np.zeros(1, x.dtype)
        one[0, ...] = value  # NumPy's conversion of a number, and its complaint
        node = const(one[0])
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


def fits(given: Any, shape: Any) -> bool:
    """Whether a value broadcasts to a shape (or may: a mask decides)."""
    try:
        return bool(broadcast([given, shape]) == shape)
    except ValueError:
        return False
    except UnknownLength:
        return True


def _all_folded(shown: ND, base: Node) -> bool:
    """Whether a view shows all elements of its base in their order, in another shape."""
    plain = base.known and base.order is None and shown.flags.c_contiguous
    return bool(plain and shown.size == base.size and shown.dtype == base.dtype)


def value_shown(x: Array) -> Node | None:
    """What a view shows, to be written to as a value of its own and then put back (`store`), as workers do.

    None where there are no workers, x is no view, or the view shows elements twice or in no order that can be cut.
    """
    if not on_workers() or window_of(x) is None or any(s == 0 and n > 1 for s, n in _steps(meta(x))):
        return None
    node = node_of(x)
    plain = node is x._cell.read() or (type(node.op) is Window and unfold(node) is not node)
    return node if plain else None


def _steps(shown: ND) -> Iterator[tuple[int, int]]:
    return zip(shown.strides, shown.shape, strict=True)


def store(x: Array, node: Node) -> None:
    """Record that x's part of its cell becomes `node` (broadcast, cast)."""
    with LOCK:
        shape = meta(x).shape
        if not fits(node.shape, shape):
            extra = len(node.shape) - len(shape)
            if extra > 0 and node.known and all(d == 1 for d in node.shape[:extra]) and fits(node.shape[extra:], shape):
                node = squeeze_leading(node, len(shape))
            else:
                text = f"could not broadcast input array from shape {_text(node.shape)} into shape {_text(shape)}"
                raise ValueError(text)
        node = cast(node, x.dtype)
        cell = x._cell
        window = window_of(x)
        if window is None and node.shape == shape and shape != ():
            base_order = cell.read().order
            if node.value is not None or not same_order(shape, node.order, base_order):
                node = copy(node, base_order)
            new = node
        elif window is None and node.shape == ():
            base = cell.read()
            new = full(base.shape, node, base.order)
        elif window is None:
            base = cell.read()
            new = copy(broadcast_view(node, shape), base.order)
        elif node.shape == shape and on_workers() and _all_folded(meta(x), cell.read()):
            base = cell.read()
            new = copy(node, None) if node.shape == base.shape else reshape(node, base.dims, "C")
        else:
            base = cell.read()
            new = intern(Update(window), (base, node), base.shape, base.dtype, base.order)
        sites.note_site(new)
        if window is None:
            x._nd = None  # lets go of the old buffer
        cell.record(new)
        register(cell)


def _text(shape: Any) -> str:
    return str(tuple(shape)).replace(" ", "")


def inplace(ufunc: np.ufunc, x: Array, other: Any) -> Array:
    """x op= other, through x's window."""
    if x._fixed:
        return binary(ufunc, x, other)  # type: ignore[no-any-return]
    settle(x, other)
    strict = strict_errors()
    if strict:
        rec.unwrap((x, other))
    target = policy.known(x)
    other_nd = policy.known(other) if type(other) is Array else other
    here = target is not None and other_nd is not None
    if here and (target.nbytes < policy.eager_limit() or not rec.numeric(target.dtype) or strict):  # type: ignore[union-attr]
        with LOCK:
            x._cell.own()
            nd = meta(x)
            try:
                ufunc(nd, other_nd, out=nd)
            except ValueError as error:
                return inplace(ufunc, x, *given(error, (other,)))
        return x
    if policy.settle(x, other) or (not exact(ufunc, [kind_of(x), kind_of(other)]) and policy.close((x, other))):
        return inplace(ufunc, x, other)
    update(x, ufunc, (x, other))
    return x


def _check_cast(ufunc: np.ufunc, args: tuple[Any, ...], to: np.dtype[Any], casting: str) -> None:
    """NumPy refuses an output's dtype before it looks at shapes; hand that case to NumPy."""
    if not np.can_cast(loop_of(ufunc, tuple(kind_of(a) for a in args))[-1], to, casting):  # type: ignore[arg-type]
        raise CannotRecord


def update(x: Array, ufunc: np.ufunc, args: tuple[Any, ...], casting: str = "same_kind") -> None:
    """x[...] = ufunc(*args), with the ufunc's casting rule for its output."""
    if not meta(x).flags.writeable:
        raise ValueError("output array is read-only")
    settle(x, *args)
    for a in args:
        if type(a) is Array:
            meta(a)  # what is written must fit now: no error may be left for later
    policy.settle(x)
    try:
        _check_cast(ufunc, args, x.dtype, casting)
        node = ufunc_node(ufunc, args)
    except (CannotRecord, TypeError):  # NumPy does it, or says why not
        with LOCK:
            values = [rec.unwrap(a) for a in args]
            x._cell.own() if x._cell.node is None else None
            forcing.force(x)
            x._cell.own()
            ufunc(*[meta(x) if a is x else v for a, v in zip(args, values, strict=True)], out=meta(x), casting=casting)
        return
    shape = meta(x).shape
    if node.known and broadcast([node.shape, shape]) != shape:
        raise ValueError(
            f"non-broadcastable output operand with shape {_text(shape)} doesn't match the broadcast shape "
            f"{_text(node.shape)}"
        )
    store(x, node)
