"""Recording: at once, or into the graph. In: operands as users give them. Out: Arrays.

Which of the two is for schedule/policy.py to say. What is done at once goes through NumPy itself; `wrap` then finds out
whether NumPy's result is a view of a cell or new memory.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tilewise.array import force as forcing
from tilewise.array.cell import ND, address, root
from tilewise.array.handle import NUMBER, Array, from_buffer, from_node, from_number, meta, node_of, on_cell
from tilewise.array.interop import elsewhere
from tilewise.array.interop.array_like import given
from tilewise.array.interop.foreign import broadcast_copy, broadcasts, copied, made_new, snapshot
from tilewise.array.number import CLASSES, scalar
from tilewise.array.pending import register
from tilewise.array.schedule.loop_flush import PROMOTED
from tilewise.array.schedule.policy import close
from tilewise.array.schedule.sites import Spot, mark, spot
from tilewise.ir.node import Node, known_leaf
from tilewise.ir.order import by_strides
from tilewise.ops.const import const
from tilewise.ops.views import strided

NATIVE_KINDS = frozenset("?bhilqBHILQefdgFDGpP")  # NumPy's numeric dtypes, by character


def record(node: Node, fixed: bool = False, depth: int = 1, at: Spot | None = None) -> Array:
    """A pending array for a node. `depth`: the user is at least so many frames up from the caller; or `at` a spot."""
    x = from_node(node, fixed)
    if node.site is None and node.value is None:
        mark(node, at or spot(depth + 1))
    register(x._cell)
    return x


# -- operands ------------------------------------------------------------------------------------------------------


def as_node(value: Any, dtype: np.dtype[Any] | None = None) -> Node:
    """A node for an operand: an Array's node, a snapshot of an ndarray, or a constant."""
    if type(value) is Array:
        if value._cell.node is None:
            nd = value._nd
            if nd is None or value._gen != value._cell.gen:
                nd = meta(value)
            if nd.ndim == 0:
                return const(nd[()])  # type: ignore[arg-type]
            if nd is value._cell.buf:
                return value._cell.read()
        return node_of(value)
    nd = as_array(value, dtype)
    if nd.ndim == 0:
        return const(nd[()])  # type: ignore[arg-type]
    if broadcasts(nd):
        return node_of(broadcast_copy(nd))
    nd = nd.copy(order="K")
    return known_leaf(nd, by_strides(nd.shape, nd.strides))


def as_array(value: Any, dtype: np.dtype[Any] | None = None) -> ND:
    """Foreign data as NumPy takes it."""
    try:
        return np.asarray(value, dtype)
    except ValueError as error:
        (made,) = given(error, (value,))
        return np.asarray(made, dtype)


def peculiar(value: Any) -> bool:
    """Whether an ndarray is of a class with ways of its own (masked arrays, matrices): a node would lose them."""
    return type(value) is not np.ndarray and isinstance(value, np.ndarray) and not isinstance(value, np.memmap)


def find_arrays(args: Any, out: list[Array]) -> None:
    """All Arrays in (nested) arguments."""
    for a in args:
        t = type(a)
        if t is Array:
            out.append(a)
        elif t is list or t is tuple:
            find_arrays(a, out)
        elif t is dict:
            find_arrays(a.values(), out)


def numeric(*dtypes: np.dtype[Any]) -> bool:
    """Whether all dtypes are among those that can be recorded (no objects, strings, dates, records)."""
    for d in dtypes:  # noqa: SIM110 (a generator takes twice as long, and everything asks)
        if d.char not in NATIVE_KINDS or not d.isnative:
            return False
    return True


# -- results -------------------------------------------------------------------------------------------------------


def unwrap(value: Any) -> Any:
    """NumPy's view of an argument: Arrays become ndarrays or scalars (computed if pending), containers are followed."""
    t = type(value)
    if t is Array:
        return forcing.force(value)[()] if value._fixed else forcing.force(value)
    if t is list or t is tuple:
        return value if ATOMS.issuperset(map(type, value)) else t(unwrap(v) for v in value)
    if t is dict:
        return {k: unwrap(v) for k, v in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return t(*(unwrap(v) for v in value))
    return scalar(value) if t in KNOWN else value


def elements(value: Any, objects: bool) -> Any:
    """What goes into a new array. Dicts and lists stay the same ones: an array of objects may keep them.

    So do Arrays if it is known to be one, so that writes to them are seen through it.
    """
    t = type(value)
    if t is Array and objects and not value._fixed:
        return value
    if t is list or t is tuple:
        if ATOMS.issuperset(map(type, value)):
            return value
        parts = [elements(v, objects) for v in value]
        return t(parts) if any(map(operator.is_not, parts, value)) else value
    return value if t is dict else unwrap(value)


def dtype_of(given: Any) -> np.dtype[Any]:
    """A dtype as users name it. `np.dtype` takes classes of `np.dtypes`, which NumPy's functions know, for objects."""
    kind: Any = given
    if isinstance(given, type) and issubclass(given, np.dtype):
        try:
            kind = kind()
        except TypeError:
            kind = kind.type  # of strings: of any length
    return np.dtype(kind)  # type: ignore[no-any-return]  # of Any it knows no class


ATOMS = frozenset((int, float, complex, bool, str, type(None), slice, type(Ellipsis), type, *np.sctypeDict.values()))
KNOWN = frozenset(CLASSES.values())
SCALARS = frozenset((np.bool_, *(np.dtype(c).type for c in "bhilqBHILQefdgFDG")))
_HUGE = 1 << 80  # more bytes than any limit has


def look(args: Iterable[Any], plain: list[Any], arrays: list[Array], foreign: list[Any]) -> int:
    """One walk over arguments: NumPy's view of each goes to `plain`. Returns the bytes of the largest (a list: of all).

    If one is pending, the answer is huge and `plain` is not complete. Numbers become NumPy's scalars, as they would be
    in NumPy.
    """
    touched = 0
    for a in args:
        t = type(a)
        if t is Array:
            arrays.append(a)
            cell = a._cell
            if cell is NUMBER:
                touched = touched or a._nd.nbytes
                plain.append(a._nd)
                continue
            if cell.node is not None and not (cell.node.trail & PROMOTED and close((a,))):
                touched += _HUGE
                continue
            nd = a._nd
            if a._gen != cell.gen or nd is None:
                nd = meta(a)
            if nd.nbytes > touched:
                touched = nd.nbytes
            plain.append(nd[()] if a._fixed else nd)
        elif t in ATOMS:
            plain.append(a)
        elif t in KNOWN:
            plain.append(scalar(a))
        elif t is list or t is tuple:
            if is_plain(a):  # axes, shapes
                plain.append(a)
                continue
            inner: list[Any] = []
            touched = max(touched, look(a, inner, arrays, foreign) * len(a))
            plain.append(inner if t is list else tuple(inner))
        elif t is dict:
            inner = []
            touched = max(touched, look(a.values(), inner, arrays, foreign) * len(a))
            plain.append(dict(zip(a, inner, strict=False)))
        else:
            if isinstance(a, np.ndarray):
                foreign.append(a)
            plain.append(unwrap(a))
    return touched


def is_plain(parts: Any) -> bool:
    """Whether a list or tuple holds only numbers, strings and the like, or lists and tuples of them."""
    for v in parts:
        t = type(v)
        if t not in ATOMS and ((t is not list and t is not tuple) or not is_plain(v)):
            return False
    return True


def wrap(value: Any, sources: Sequence[Array] = (), foreign: Sequence[Any] = ()) -> Any:
    """Arrays for what NumPy returned: views of a source's memory become views of its cell."""
    t = type(value)
    if t is np.ndarray:
        if value.base is None and not foreign:  # new memory, or an argument itself
            for x in sources:
                if x._nd is value:
                    return x
                if x._cell.buf is value:
                    return on_cell(x._cell, value)  # type: ignore[arg-type]
            return from_buffer(value)
        return wrap_array(value, sources, foreign)
    if t in SCALARS:
        return from_number(value)
    if isinstance(value, np.generic):
        if type(value) in KNOWN:
            return value
        if isinstance(value, np.void | np.str_ | np.bytes_ | np.object_ | np.datetime64 | np.timedelta64):
            return value  # nothing is recorded of these, and `np.datetime64(x.max())` takes none of ours
        return from_number(value)
    if t is list or t is tuple:
        return t(wrap(v, sources, foreign) for v in value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return t(*(wrap(v, sources, foreign) for v in value))
    return value


def wrap_array(nd: ND, sources: Sequence[Array], foreign: Sequence[Any] = ()) -> Array:
    """An Array for an ndarray: an alias if it shows a source's memory, else the owner of new memory."""
    base = root(nd)
    behind = getattr(base.base, "base", None)
    if isinstance(behind, np.ndarray):  # NumPy's as_strided puts an object of its own between an array and its memory
        base, writeable = root(behind), nd.flags.writeable
        nd = strided(base, address(nd) - address(base), nd.shape, nd.strides, nd.dtype)
        nd.flags.writeable = writeable
    for x in sources:
        cell = x._cell
        buf = cell.buf
        if x._nd is nd:
            return x
        if buf is base or (buf is not None and buf.base is base):  # a buffer in another order is itself a view
            return on_cell(cell, nd)
    if base is not nd or not nd.flags.writeable or not (nd.flags.c_contiguous or nd.flags.f_contiguous):
        if base is nd or not made_new(base, foreign):
            if base is nd or nd.size == 0 or base.nbytes > nd.nbytes or not (base.flags.forc and numeric(nd.dtype)):
                return copied(nd)
            base, nd = snapshot(base, nd)
        x = from_buffer(base)
        x._nd = nd
        return x
    if any(nd is f for f in foreign):
        return from_buffer(nd.copy(order="K"))
    return from_buffer(nd)


_OF_MEMORY = (np.shares_memory, np.may_share_memory)  # what copies say is not what was asked


def at_once(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call NumPy on the arrays' memory and wrap what it returns."""
    sources: list[Array] = []
    foreign: list[Any] = []
    plain: list[Any] = []
    more: list[Any] = []
    if look(args, plain, sources, foreign) + (look(kwargs.values(), more, sources, foreign) if kwargs else 0) >= _HUGE:
        few = args if func in _OF_MEMORY else elsewhere.parts_here(args)
        if few is not args:
            try:
                return at_once(func, few, kwargs)
            except ValueError as error:
                if "read-only" not in str(error):  # else it writes into its argument: that must be the array itself
                    raise
        elsewhere.refuse_larger(str(getattr(func, "__name__", func)), sources)
        forcing.evaluate([x._cell for x in sources])
        for x in sources:
            forcing.force(x)  # what is on workers comes here
        sources, foreign, plain, more = [], [], [], []
        look(args, plain, sources, foreign)
        look(kwargs.values(), more, sources, foreign)
    try:
        made = func(*plain, **dict(zip(kwargs, more, strict=True))) if kwargs else func(*plain)
    except ValueError as error:
        return at_once(func, given(error, args), kwargs)
    return wrap(made, sources, foreign)


def record_const(value: Any) -> Array:
    """A snapshot of foreign data as a known Array."""
    try:
        return from_buffer(np.array(value, copy=True, order="K"))
    except ValueError as error:
        return given(error, (value,))[0]  # type: ignore[no-any-return]
