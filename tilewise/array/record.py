"""Recording: at once, or into the graph. In: operands as users give them. Out: Arrays.

`small` decides by the bytes an operation touches. What is done at once goes through NumPy itself; `wrap` then finds out
whether NumPy's result is a view of a cell or new memory.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

from tilewise import compiler
from tilewise.array import force as forcing
from tilewise.array import turns
from tilewise.array.cell import ND, Cell, address, root
from tilewise.array.foreign import broadcast_copy, broadcasts, copied, made_new, snapshot
from tilewise.array.handle import NUMBER, Array, from_buffer, from_node, from_number, meta, node_of, on_cell
from tilewise.array.pending import PENDING, pending_cells, register, waiting
from tilewise.array.session import cluster_here
from tilewise.array.turns import Place, behind, pending, sites
from tilewise.config import current
from tilewise.ir.node import Node, known_leaf
from tilewise.ir.order import by_strides
from tilewise.ops.const import Const, const
from tilewise.ops.views import strided

PACKAGE = str(Path(__file__).resolve().parents[1])
NUMPY = str(Path(np.__file__).parent)
NATIVE_KINDS = frozenset("?bhilqBHILQefdgFDGpP")  # NumPy's numeric dtypes, by character

_spots: dict[Place, Spot] = {}  # all places met
MAX_SPOTS = 4096


# -- where the user is ---------------------------------------------------------------------------------------------


class Spot:
    """A place in the user's code: its key, file and line; `inner` if it is NumPy's code running over our functions."""

    __slots__ = ("code", "inner", "line", "place")  # read twice as fast as a named tuple's

    def __init__(self, place: Place, line: tuple[str, int], inner: bool, code: CodeType) -> None:
        self.place = place
        self.line = line
        self.inner = inner
        self.code = code  # keeps its id its own


def spot(depth: int) -> Spot:
    """The innermost place outside of this package, at least `depth` frames up from the caller."""
    frame = sys._getframe(depth + 1)
    while True:
        code = frame.f_code
        place = (id(code), frame.f_lasti)
        found = _spots.get(place)
        if found is not None:
            return found
        if frame.f_back is None or not code.co_filename.startswith(PACKAGE):
            break
        frame = frame.f_back
    if len(_spots) >= MAX_SPOTS:
        _spots.clear()
        turns.forget_places()
    inner = code.co_filename.startswith(NUMPY)
    found = _spots[place] = Spot(place, (code.co_filename, frame.f_lineno), inner, code)
    return found


def outside(frame: FrameType) -> tuple[str, int]:
    """The user's file and line behind code of NumPy's that runs over our functions (api/compose.py)."""
    while frame.f_back is not None and frame.f_code.co_filename.startswith((PACKAGE, NUMPY)):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def record(node: Node, fixed: bool = False, depth: int = 1, at: Spot | None = None) -> Array:
    """A pending array for a node. `depth`: the user is at least so many frames up from the caller; or `at` a spot."""
    x = from_node(node, fixed)
    if node.site is None and node.value is None:
        mark(node, at or spot(depth + 1))
    register(x._cell)
    return x


def note_site(node: Node) -> None:
    """Remember the user's line, and the call sites this node hangs on."""
    if node.site is None:
        mark(node, spot(2))


def mark(node: Node, at: Spot) -> None:
    """The same for a spot that is known."""
    node.site = outside(sys._getframe(1)) if at.inner else at.line
    if type(node.op) is Const:
        return  # hangs on nothing, and may outlive what its bit would mean
    trail = 0
    if PENDING:
        for i in node.inputs:
            if i.trail:
                trail |= i.trail
            elif i.inputs and i.value is None:
                trail |= behind(i)
    elif sites:
        turns.nothing_pending()
    weight = node.op.weight
    if weight:
        pending.recorded += weight
    else:
        trail |= turns.kind(node, trail)
    bit = sites.get(at.place)
    node.trail = trail | (turns.bit_of(at.place) if bit is None else bit)


def repeats(nodes: Sequence[Node]) -> bool:
    """Whether to flush before an operation on these nodes is recorded here (see `flush`)."""
    trail = 0
    for n in nodes:
        trail |= n.trail
    return trail != 0 and _due(trail, spot(2).place, nodes)


def _due(trail: int, place: Place, nodes: Sequence[Node]) -> bool:
    """Whether a loop has turned at a place that a trail has been at, and is to be flushed there."""
    bit = sites.get(place)
    return bit is not None and bool(trail & bit) and current().flush and turns.due(place, trail, nodes)


def flush(place: Place | None = None, later: Collection[Cell] = ()) -> None:
    """Evaluate what is pending, before the operation at a place (the user's) is recorded again."""
    planned = compiler.planned_count
    forcing.flush(later)
    turns.flushed(place or spot(2).place, planned)


def settle(x: Array, value: Any = None) -> bool:
    """Before `value` is written to x: flush if this place already wrote to x. Call before reading any operand's node.

    The value itself stays pending, so that it is computed in the pass that writes it, unless it hangs on x.
    True if x is known since: much may be, and little enough to be done at once.
    """
    node = x._cell.node
    if node is None or not node.trail:
        return False
    at = spot(1)
    again = _due(node.trail, at.place, (node,))
    keep = again and type(value) is Array and value._cell.node is not None and not _hangs(value._cell, node)
    del node  # what is held here cannot be updated in place
    if not again:
        return False
    flush(at.place, (value._cell,) if keep else ())
    return not waiting(x._cell)


def _hangs(cell: Cell, on: Node) -> bool:
    """Whether a pending value needs a node, other than through arrays that a flush makes known."""
    start = cell.read()
    known_then = {c.node for c in pending_cells() if c is not cell}
    stack, met = [start], {start}
    while stack:
        n = stack.pop()
        if n is on:
            return True
        if n.value is None and n not in known_then:
            stack += [i for i in n.inputs if i not in met]
            met.update(n.inputs)
    return False


def turned(args: Sequence[Any], at: Spot | None = None) -> bool:
    """Flush if the program repeats here (a loop has turned). True if it did: decide again what to do at once."""
    trail = 0
    node = None
    whole = True
    for a in args:
        if type(a) is Array:
            node = a._cell.node
            if node is not None:
                trail |= node.trail
                nd = a._nd
                if nd is not None and type(nd.base) is np.ndarray and not _part(nd, node):
                    whole = False  # a window onto what is not computed yet
    del node  # what is held here cannot be updated in place
    if not trail:
        return False
    place = (at or spot(1)).place
    bit = sites.get(place)
    if bit is None or not trail & bit or (whole and turns.within(place, trail)):
        return False
    given = [a for a in args if type(a) is Array and a._cell.node is not None]
    if not whole and any(not _shifted(a) for a in given):
        trail |= turns.OTHER
    if not _due(trail, place, [a._cell.read() for a in given]):
        return False
    flush(place, [a._cell for a in given if not a._cell.read().trail & bit])
    return not any(waiting(a._cell) for a in args if type(a) is Array)  # what cannot be evaluated stays


def _part(nd: ND, node: Node) -> bool:
    """Whether a view of what is pending is a part of its complex numbers."""
    return node.dtype.kind == "c" and nd.dtype.kind == "f" and nd.shape == node.shape


def _shifted(x: Array) -> bool:
    """Whether x is all of what is not computed yet, or a part of it element by element."""
    nd, node = x._nd, x._cell.read()
    if nd is None or type(nd.base) is not np.ndarray or _part(nd, node):
        return True
    return turns.shifted(nd.strides, nd.dtype, node)


# -- operands ------------------------------------------------------------------------------------------------------


def known(x: Array) -> ND | None:
    """The ndarray of a known array, or None."""
    cell = x._cell
    if cell.node is not None:
        return None
    nd = x._nd
    return nd if nd is not None and x._gen == cell.gen else meta(x)


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
    nd = np.asarray(value, dtype)
    if nd.ndim == 0:
        return const(nd[()])  # type: ignore[arg-type]
    if broadcasts(nd):
        return node_of(broadcast_copy(nd))
    nd = nd.copy(order="K")
    return known_leaf(nd, by_strides(nd.shape, nd.strides))


def peculiar(value: Any) -> bool:
    """Whether an ndarray is of a class with ways of its own (masked arrays, matrices): a node would lose them."""
    return type(value) is not np.ndarray and isinstance(value, np.ndarray) and not isinstance(value, np.memmap)


def eager_limit() -> int:
    """Bytes below which work on known data is done at once."""
    settings = current()
    return sys.maxsize if settings.engine == "numpy" else settings.eager_bytes


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


def small(arrays: Sequence[Array], extra: int = 0) -> bool:
    """Whether the arrays are all known and each has few bytes (docs/design/0003-at-once.md)."""
    touched = extra
    for x in arrays:
        nd = known(x)
        if nd is None:
            return False
        touched = max(touched, nd.nbytes)
    return touched < eager_limit()


def slight(a: Any, b: Any) -> bool:
    """Whether a product of known ndarrays is a matrix times a vector, here, with a small result.

    Such a product is one call of BLAS, recorded or not; recorded, it would make all that follows pending.
    """
    if type(a) is not np.ndarray or type(b) is not np.ndarray or a.ndim + b.ndim not in (2, 3) or 0 in (a.ndim, b.ndim):
        return False
    settings = current()
    inner = a.shape[0] if a.ndim == 1 else b.shape[0]
    if settings.engine is not None or max(a.nbytes, b.nbytes) >= settings.eager_bytes * max(inner, 1):
        return False
    return cluster_here(settings.blocks)[0] is None


def numeric(*dtypes: np.dtype[Any]) -> bool:
    """Whether all dtypes are among those that can be recorded (no objects, strings, dates, records)."""
    return all(d.char in NATIVE_KINDS and d.isnative for d in dtypes)


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
    return value


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
            if cell.node is not None:
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


def at_once(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call NumPy on the arrays' memory and wrap what it returns."""
    sources: list[Array] = []
    foreign: list[Any] = []
    plain: list[Any] = []
    more: list[Any] = []
    if look(args, plain, sources, foreign) + (look(kwargs.values(), more, sources, foreign) if kwargs else 0) >= _HUGE:
        forcing.evaluate([x._cell for x in sources])
        for x in sources:
            forcing.force(x)  # what lies on workers comes here
        sources, foreign, plain, more = [], [], [], []
        look(args, plain, sources, foreign)
        look(kwargs.values(), more, sources, foreign)
    if kwargs:
        return wrap(func(*plain, **dict(zip(kwargs, more, strict=True))), sources, foreign)
    return wrap(func(*plain), sources, foreign)


def record_const(value: Any) -> Array:
    """A snapshot of foreign data as a known Array."""
    return from_buffer(np.array(value, copy=True, order="K"))
