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
from tilewise.ir.order import same_order
from tilewise.ops.const import const
from tilewise.ops.create import full
from tilewise.ops.elementwise import Map, UnknownLength, apply, broadcast, cast, map_op
from tilewise.ops.index import Update
from tilewise.ops.join import broadcast_view, copy, squeeze_leading

_WEAK = (int, float, complex)  # Python's own numbers take the array's precision (NEP 50)
_loops: dict[tuple[Any, ...], tuple[np.dtype[Any], ...]] = {}
_consts: dict[tuple[Any, np.dtype[Any]], Node] = {}  # constants met of late
MAX_CONSTS = 256


def loop_of(ufunc: np.ufunc, kinds: tuple[Any, ...]) -> tuple[np.dtype[Any], ...]:
    """The dtypes NumPy computes in (arguments, then results), if they can be recorded. `kinds`: dtypes, or int/float/complex for weak scalars."""
    key = (ufunc, kinds)
    loop = _loops.get(key)
    if loop is None:
        loop = ufunc.resolve_dtypes((*kinds, *([None] * ufunc.nout)))
        if not rec.numeric(*loop):
            raise CannotRecord
        _loops[key] = loop
    return loop


def _kind(x: Any) -> Any:
    t = type(x)
    if t is Array:
        nd = x._nd
        return x.dtype if nd is None else nd.dtype
    if t in _WEAK:
        return t
    if isinstance(x, np.ndarray | np.generic):
        return x.dtype
    return np.asarray(x).dtype


class CannotRecord(Exception):
    """The operation has no place in the graph (dtype, casting): NumPy does it."""


def ufunc_node(
    ufunc: np.ufunc, args: tuple[Any, ...], which: int = 0, dtype: Any = None, casting: Any = "same_kind"
) -> Node:
    """The node of a ufunc on operands."""
    if dtype is None and casting == "same_kind":
        loop = loop_of(ufunc, tuple([_kind(a) for a in args]))
    else:
        kinds = tuple(_kind(a) for a in args)
        wanted = (None,) * ufunc.nin + (None if dtype is None else np.dtype(dtype),) * ufunc.nout
        loop = ufunc.resolve_dtypes((*kinds, *([None] * ufunc.nout)), signature=wanted, casting=casting)
        if not rec.numeric(*loop):
            raise CannotRecord
    if ufunc is np.power and loop[0].kind in "iu" and isinstance(args[1], int) and args[1] < 0:
        raise CannotRecord  # NumPy refuses it, at the call
    nodes = _operands(args, loop)
    if rec.repeats(nodes):
        del nodes  # what is held here cannot be updated in place
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
        t = type(a)
        if t is Array:
            out.append(rec.as_node(a))
        elif t in _WEAK:
            node = _consts.get((a, d))
            if node is None:
                try:
                    node = const(d.type(a))
                except OverflowError:
                    raise CannotRecord from None
                if a:  # 0.0 and -0.0 are equal keys
                    if len(_consts) >= MAX_CONSTS:
                        _consts.clear()
                    _consts[a, d] = node
            out.append(node)
        else:
            node = rec.as_node(a)
            if not rec.numeric(node.dtype):
                raise CannotRecord
            out.append(node)
    return tuple(out)


def _strict_errors() -> bool:
    """Whether NumPy's error state asks for more than warnings: then work is done where the user is."""
    global _errors
    here = _error_context()
    seen, strict = _errors
    if here is not seen:
        state = np.geterr()
        strict = "raise" in state.values() or "call" in state.values()
        _errors = (here, strict)
    return strict


_error_variable = getattr(getattr(np._core, "umath", None), "_extobj_contextvar", None)
# The object that holds NumPy's error state here: a new one for each np.errstate or seterr, so identity is enough.
_error_context: Callable[[], Any] = object if _error_variable is None else _error_variable.get
_errors: tuple[Any, bool] = (None, False)  # the last such object, and the answer


def binary(ufunc: np.ufunc, a: Any, b: Any) -> Any:
    """ufunc(a, b) without options; the general case behind the operators' fast path."""
    x, y = _at_hand(a, type(a)), _at_hand(b, type(b))
    if x is not None and y is not None:
        if little(x, y, rec.eager_limit()):
            op = ufunc if type(x) is ND or type(y) is ND else _PLAIN.get(ufunc, ufunc)
            r = op(x, y)
            return from_buffer(r) if type(r) is ND else rec.wrap(r)
    elif (x is not None or type(a) is not Array) and (y is not None or type(b) is not Array):  # lists, other types
        if little(1 if x is None else x, 1 if y is None else y, rec.eager_limit()):
            return rec.at_once(ufunc, (a, b), {})
    if ufunc is np.power and type(a) is Array and not a._fixed and a.dtype.kind in "fc":
        e = _exponent(b)
        if e is not None:
            return apply_ufunc(_POWERS[e], (a,))
    return apply_ufunc(ufunc, (a, b))


def _exponent(b: Any) -> Any:
    """A number for which NumPy's power has a function of its own, or None."""
    if type(b) in (int, float) or (isinstance(b, np.floating | np.integer) and b.dtype.itemsize <= 8):
        return b if b in _POWERS else None
    return None


def pair(ufunc: np.ufunc, a: Any, b: Any) -> Any:
    """Record ufunc(a, b) for Arrays and numbers: apply_ufunc with everything cached that can be."""
    if rec.turned((a, b)):
        return binary(ufunc, a, b)
    if _strict_errors():
        return rec.at_once(ufunc, (a, b), {})
    kinds = (ufunc, _kind(a), _kind(b))
    found = _pairs.get(kinds)
    try:
        if found is None:
            loop = loop_of(ufunc, kinds[1:])
            found = _pairs[kinds] = (loop, map_op(ufunc.__name__, loop[2]))
        loop, op = found
        x, y = nodes = _operands((a, b), loop)
        plain = x.order is None and y.order is None and x.dtype is loop[0] and y.dtype is loop[1]
        if plain and (x.shape == y.shape or not y.shape):
            node = intern(op, nodes, x.shape, loop[2])
        else:
            node = ufunc_node(ufunc, (a, b))
    except CannotRecord:
        return rec.at_once(ufunc, (a, b), {})
    return rec.record(node, not node.shape, 3)


_pairs: dict[tuple[Any, ...], tuple[tuple[np.dtype[Any], ...], Map]] = {}


def apply_ufunc(ufunc: np.ufunc, args: tuple[Any, ...], dtype: Any = None) -> Any:
    """Record a ufunc (a tuple of Arrays for several results); hands over to NumPy what cannot be recorded."""
    if dtype is None and ufunc.nout == 1 and len(args) < 3 and rec.turned(args):
        return unary(ufunc, *args) if len(args) == 1 else binary(ufunc, *args)
    if _strict_errors():
        return rec.at_once(ufunc, args, {} if dtype is None else {"dtype": dtype})
    try:
        if ufunc.nout == 1:
            node = ufunc_node(ufunc, args, 0, dtype)
            return rec.record(node, not node.shape, 4)
        nodes = [ufunc_node(ufunc, args, k, dtype) for k in range(ufunc.nout)]
    except CannotRecord:
        return rec.at_once(ufunc, args, {} if dtype is None else {"dtype": dtype})
    return tuple(rec.record(n, fixed=not n.shape) for n in nodes)


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
    if type(value) is Array and value._fixed and x.dtype.kind in "iu" and value.dtype.kind in "fc":
        value = forcing.force(value)[()]  # NumPy refuses numbers that are no integers: NaN, infinity
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
    if is_array:
        value.shape  # noqa: B018  (what is written must fit now: no error may be left for later)
    if rec.settle(x):
        assign(x, value, casting)
        return
    if not rec.numeric(value.dtype if is_array else np.asarray(value).dtype):
        write_now(x, forcing.force(value) if is_array else value, casting)
        return
    node = rec.as_node(value)
    if node.dtype != x.dtype and node.dtype.kind == "c" and x.dtype.kind not in "c":
        write_now(x, forcing.force(value) if is_array else value, casting)  # NumPy warns about the imaginary part
        return
    if not is_array and (type(value) in _WEAK or isinstance(value, np.generic)):
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
    if rec.settle(x):
        return inplace(ufunc, x, other)
    update(x, ufunc, (x, other))
    return x


def _check_cast(ufunc: np.ufunc, args: tuple[Any, ...], to: np.dtype[Any], casting: str) -> None:
    """NumPy refuses an output's dtype before it looks at shapes; hand that case to NumPy."""
    if not np.can_cast(loop_of(ufunc, tuple(_kind(a) for a in args))[-1], to, casting):  # type: ignore[arg-type]
        raise CannotRecord


def update(x: Array, ufunc: np.ufunc, args: tuple[Any, ...], casting: str = "same_kind") -> None:
    """x[...] = ufunc(*args), with the ufunc's casting rule for its output."""
    if not meta(x).flags.writeable:
        raise ValueError("output array is read-only")
    for a in args:
        if type(a) is Array:
            a.shape  # noqa: B018  (what is written must fit now: no error may be left for later)
    rec.settle(x)
    try:
        _check_cast(ufunc, args, x.dtype, casting)
        node = ufunc_node(ufunc, args)
    except (CannotRecord, TypeError):  # NumPy does it, or says why not
        with LOCK:
            values = [rec.unwrap(a) for a in args]
            x._cell.own() if x._cell.node is None else None
            forcing.force(x)
            x._cell.own()
            ufunc(*[meta(x) if a is x else v for a, v in zip(args, values, strict=True)], out=meta(x), casting=casting)  # type: ignore[call-overload]
        return
    shape = meta(x).shape
    if node.known and broadcast([node.shape, shape]) != shape:
        raise ValueError(
            f"non-broadcastable output operand with shape {_text(shape)} doesn't match the broadcast shape {_text(node.shape)}"
        )
    store(x, node)


# -- operators -----------------------------------------------------------------------------------------------------


_NUMBERS = frozenset((int, float, complex, bool, np.bool_, *(np.dtype(c).type for c in "bhilqBHILQefdFD")))


def _at_hand(x: Any, t: Any) -> Any:
    """An operand as NumPy takes it, or None if it is pending or not a plain number or array."""
    if t is Array:
        cell = x._cell
        if cell.node is not None:
            return None
        nd = x._nd if x._gen == cell.gen else meta(x)
        return nd[()] if x._fixed else nd
    return x if t in _NUMBERS or t is ND else None


ND = np.ndarray


def little(a: Any, b: Any, limit: int) -> bool:
    """Whether two operands and what they broadcast to are below the limit."""
    if type(a) is not ND:
        return bool((b.nbytes if type(b) is ND else 16) < limit)
    if a.nbytes >= limit:
        return False
    if type(b) is not ND or a.shape == b.shape:
        return True
    if b.nbytes >= limit:
        return False
    if a.size * b.size * 8 < limit:
        return True
    try:
        return np.broadcast(a, b).size * 8 < limit
    except ValueError:
        return True  # NumPy's own complaint


def _forward(ufunc: np.ufunc, op: Callable[[Any, Any], Any]) -> Callable[[Array, Any], Any]:
    """`self op other`. Python's operator on NumPy's arrays and scalars is what a NumPy program would do."""

    def method(self: Array, other: Any) -> Any:
        cell = self._cell
        t = type(other)
        if cell.node is None and self._gen == cell.gen:
            a: Any = self._nd
            settings = current()
            limit = settings.eager_bytes
            if a.nbytes < limit:
                b = other
                if t is Array:
                    c = other._cell
                    if c.node is not None:
                        return pair(ufunc, self, other)
                    b = other._nd if other._gen == c.gen else meta(other)
                    if a.shape != b.shape and not little(a, b, limit):
                        return pair(ufunc, self, other) if settings.engine is None else binary(ufunc, self, other)
                    if other._fixed:
                        b = b[()]
                elif t not in _NUMBERS:
                    if t is str or t is bytes:
                        return rec.at_once(op, (self, other), {})
                    return NotImplemented if _foreign(other) else binary(ufunc, self, other)
                r = op(a[()] if self._fixed else a, b)
                return from_buffer(r) if type(r) is ND else from_buffer(asarray(r), True)
            if settings.engine is None and (t is Array or t in _NUMBERS):
                return pair(ufunc, self, other)
        elif cell.node is not None and (t is Array or t in _NUMBERS):
            return pair(ufunc, self, other)
        if _foreign(other):
            return NotImplemented
        if ufunc is np.multiply and t in _SEQUENCES and self._fixed and self.dtype.kind in "iu":
            return other * int(forcing.fetch(self))  # n * [0] repeats the list
        if t is str or t is bytes:
            return rec.at_once(op, (self, other), {})
        return binary(ufunc, self, other)

    return method


asarray = np.asarray


def _foreign(other: Any) -> bool:
    """Whether Python should ask the other operand."""
    t = type(other)
    if t is Array or t in _NUMBERS:
        return False
    if isinstance(other, np.ndarray | np.generic | int | float | complex | bool | list | tuple):
        return False
    return getattr(other, "__array_ufunc__", True) is None or hasattr(other, "__array_priority__")


def _backward(ufunc: np.ufunc, op: Callable[[Any, Any], Any]) -> Callable[[Array, Any], Any]:
    def method(self: Array, other: Any) -> Any:
        cell = self._cell
        if cell.node is None and self._gen == cell.gen and type(other) in _NUMBERS:
            a: Any = self._nd
            if a.nbytes < current().eager_bytes:
                r = op(other, a[()] if self._fixed else a)
                return from_buffer(r) if type(r) is ND else from_buffer(asarray(r), True)
        if ufunc is np.multiply and type(other) in _SEQUENCES and self._fixed and self.dtype.kind in "iu":
            return other * int(forcing.fetch(self))  # [0] * n repeats the list
        return binary(ufunc, other, self)

    return method


def _assigning(ufunc: np.ufunc, op: Callable[[Any, Any], Any]) -> Callable[[Array, Any], Array]:
    def method(self: Array, other: Any) -> Array:
        cell = self._cell
        if cell.node is None and self._gen == cell.gen and not self._fixed and cell.free_to_write():
            a = self._nd
            b = _at_hand(other, type(other))
            if b is not None and a.nbytes < current().eager_bytes:  # type: ignore[union-attr]
                op(a, b)
                return self
        return inplace(ufunc, self, other)

    return method


def _unary(ufunc: np.ufunc) -> Callable[[Array], Any]:
    def method(self: Array) -> Any:
        return unary(ufunc, self)

    return method


def unary(ufunc: np.ufunc, x: Any) -> Any:
    """ufunc(x)."""
    t = type(x)
    nd = _at_hand(x, t)
    if nd is not None:
        if t is not Array or nd.nbytes < rec.eager_limit():
            r = ufunc(nd)
            if type(r) is ND:
                return from_buffer(r)
            return from_buffer(asarray(r), True) if type(r) in _NUMBERS else rec.wrap(r)
    elif t is not Array:
        return rec.at_once(ufunc, (x,), {})
    return apply_ufunc(ufunc, (x,))


_SEQUENCES = (list, tuple, str, bytes, bytearray)
_POWERS = {1: np.positive, 2: np.square, -1: np.reciprocal, 0.5: np.sqrt}  # as ndarray.__pow__ does for these exponents


def _power(self: Array, other: Any, modulo: Any = None) -> Any:
    if modulo is not None:
        return NotImplemented
    if type(other) in _NUMBERS:
        nd = _at_hand(self, Array)
        if nd is not None and nd.nbytes < rec.eager_limit():
            return rec.wrap(nd**other)
    if type(other) in (int, float) and other in _POWERS and not self._fixed:  # numbers: (-inf) ** 0.5 is inf
        kind = self.dtype.kind
        if kind in "fc" or (type(other) is int and (other == 2 or (other == 1 and kind in "iu"))):
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
_PLAIN = {f: getattr(operator, f"__{n}__") for n, f in _BINARY.items()}  # much quicker than a ufunc for two scalars
_COMPARE = {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}

BACKWARD: dict[np.ufunc, Callable[[Array, Any], Any]] = {}  # what `number op array` ends in (api/ufuncs.py)

for _name, _ufunc in _BINARY.items():
    _plain = getattr(operator, f"__{_name}__")
    setattr(Array, f"__{_name}__", _forward(_ufunc, _plain))
    BACKWARD[_ufunc] = _backward(_ufunc, _plain)
    setattr(Array, f"__r{_name}__", BACKWARD[_ufunc])
    setattr(Array, f"__i{_name}__", _assigning(_ufunc, getattr(operator, f"__i{_name}__")))
for _name, _ufunc in _COMPARE.items():
    setattr(Array, f"__{_name}__", _forward(_ufunc, getattr(operator, f"__{_name}__")))
for _name, _ufunc in {"neg": np.negative, "pos": np.positive, "abs": np.absolute, "invert": np.invert}.items():
    setattr(Array, f"__{_name}__", _unary(_ufunc))
Array.__pow__ = _power  # type: ignore[attr-defined]


def _divmod(self: Array, other: Any) -> Any:
    return self // other, self % other


def _rdivmod(self: Array, other: Any) -> Any:
    return other // self, other % self


Array.__divmod__ = _divmod  # type: ignore[attr-defined]
Array.__rdivmod__ = _rdivmod  # type: ignore[attr-defined]
