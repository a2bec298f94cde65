"""Ufuncs on Arrays. In: a NumPy ufunc and operands. Out: an Array, computed at once or recorded.

Writing the result into an array that is there is in assign.py, Python's operators are in operators.py.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewise.array import record as rec
from tilewise.array.handle import NUMBER, Array, from_buffer, from_node, from_number, meta
from tilewise.array.number import CLASSES
from tilewise.array.pending import PENDING, register
from tilewise.array.schedule import policy, sites
from tilewise.array.schedule.exact import exact
from tilewise.array.schedule.shifted import read_shifted
from tilewise.config import LEAST
from tilewise.ir.node import Leaf, Node, intern
from tilewise.ops.const import number, numbers
from tilewise.ops.elementwise import Map, UnknownLength, apply, cast, map_op
from tilewise.ops.periodic import MOVES

BOOL = np.dtype(bool)

NUMBERS = frozenset((int, float, complex, bool, np.bool_, *(np.dtype(c).type for c in "bhilqBHILQefdFD")))
NUMBERS |= frozenset(CLASSES.values())
BASES = {ours: base for base, ours in CLASSES.items()}  # NumPy's functions take three times as long for other classes


def at_hand(x: Any, t: Any) -> Any:
    """An operand as NumPy takes it, or None if it is pending or not a plain number or array."""
    if t is Array:
        cell = x._cell
        if cell is NUMBER:
            return x._nd
        if cell.node is not None:
            return None
        nd = x._nd if x._gen == cell.gen else meta(x)
        return nd[()] if x._fixed else nd
    if t in BASES:
        return BASES[t](x)
    return x if t in NUMBERS or t is ND else None


def few(x: Any) -> Any:
    """The ndarray of a known array so small that NumPy works on it at once, whatever the settings; else None."""
    if type(x) is Array:
        cell = x._cell
        if cell.node is None and x._gen == cell.gen and not x._fixed:
            nd: Any = x._nd
            if nd.nbytes < LEAST.eager_bytes:
                return nd
    return None


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


POWERS = {1: np.positive, 2: np.square, -1: np.reciprocal, 0.5: np.sqrt}  # as ndarray.__pow__ does for these exponents
COMPLEX_POWERS = ((int, 2), (int, -1), (float, 0.5))
EXTREMES = (np.maximum, np.minimum)  # recorded as operators are
BINARY = {
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
COMPARE = {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}
ORDERS = frozenset((np.less, np.less_equal, np.greater, np.greater_equal))
PLAIN: dict[Any, Any] = {
    f: getattr(operator, f"__{n}__") for n, f in (BINARY | COMPARE).items()
}  # much quicker than a ufunc for two scalars
WEAK = (int, float, complex)  # Python's own numbers take the array's precision (NEP 50)
_loops: dict[tuple[Any, ...], tuple[np.dtype[Any], ...]] = {}


def loop_of(ufunc: np.ufunc, kinds: tuple[Any, ...]) -> tuple[np.dtype[Any], ...]:
    """The dtypes NumPy computes in (arguments, then results), if they can be recorded.

    `kinds`: dtypes, or int/float/complex for weak scalars.
    """
    key = (ufunc, kinds)
    loop = _loops.get(key)
    if loop is None:
        loop = ufunc.resolve_dtypes((*kinds, *([None] * ufunc.nout)))
        if not rec.numeric(*loop):
            raise CannotRecord
        _loops[key] = loop
    return loop


def kind_of(x: Any) -> Any:
    t = type(x)
    if t is Array:
        nd = x._nd
        if nd is not None:
            return nd.dtype
        node = x._cell.node
        return x.dtype if node is None else node.dtype
    if t in WEAK:
        return t
    if isinstance(x, np.ndarray | np.generic):
        return x.dtype
    return rec.as_array(x).dtype


class CannotRecord(Exception):
    """The operation has no place in the graph (dtype, casting): NumPy does it."""


def ufunc_node(
    ufunc: np.ufunc, args: tuple[Any, ...], which: int = 0, dtype: Any = None, casting: Any = "same_kind"
) -> Node:
    """The node of a ufunc on operands."""
    if ufunc is np.divmod:  # its parts have native code
        ufunc, which = (np.floor_divide, np.remainder)[which], 0
    if dtype is None and casting == "same_kind":
        loop = loop_of(ufunc, tuple([kind_of(a) for a in args]))
    else:
        kinds = tuple(kind_of(a) for a in args)
        wanted = (None,) * ufunc.nin + (None if dtype is None else rec.dtype_of(dtype),) * ufunc.nout
        loop = ufunc.resolve_dtypes((*kinds, *([None] * ufunc.nout)), signature=wanted, casting=casting)
        if not rec.numeric(*loop):
            raise CannotRecord
    if ufunc is np.power and loop[0].kind in "iu" and isinstance(args[1], int) and args[1] < 0:
        raise CannotRecord  # NumPy refuses it, at the call
    nodes = _operands(args, loop)
    if policy.repeats(nodes):
        del nodes  # what is held here cannot be updated in place
        policy.flush()
        nodes = _operands(args, loop)
    try:
        return apply(ufunc.__name__, nodes, loop, which)
    except UnknownLength:
        for a in args:
            if type(a) is Array:
                meta(a)  # asks for the lengths
        return apply(ufunc.__name__, _operands(args, loop), loop, which)


def _operands(args: tuple[Any, ...], loop: tuple[np.dtype[Any], ...]) -> tuple[Node, ...]:
    return tuple([_operand(a, d) for a, d in zip(args, loop, strict=False)])


def _operand(a: Any, d: np.dtype[Any]) -> Node:
    """The node of an operand; a number becomes one of dtype `d`."""
    t = type(a)
    if t is Array:
        node = a._cell.node
        return node if node is not None and node.inputs and a._nd is None else rec.as_node(a)
    if t in WEAK:
        found = numbers.get((a, d))
        if found is not None:
            return found
        try:
            return number(a, d)
        except OverflowError:
            raise CannotRecord from None
    if rec.peculiar(a):
        raise CannotRecord
    other = rec.as_node(a)
    if not rec.numeric(other.dtype):
        raise CannotRecord
    return other


def strict_errors() -> bool:
    """Whether NumPy's error state asks for more than warnings: then work is done where the user is."""
    found = _errors
    return found[1] if _error_context() is found[0] else _error_state()[1]


def mild_errors() -> tuple[Any, Any] | None:
    """The variable with NumPy's error state, and what it is: no strict one as long as it is that. None: not known."""
    return None if _error_variable is None or strict_errors() else (_error_variable, _error_context())


def underflow_told() -> bool:
    """Whether NumPy tells about results that are too small."""
    return _error_state()[2]


def _error_state() -> tuple[Any, bool, bool]:
    global _errors
    here = _error_context()
    found = _errors
    if here is not found[0]:
        state = np.geterr()
        found = _errors = (here, "raise" in state.values() or "call" in state.values(), state["under"] != "ignore")
    return found


_error_variable = getattr(getattr(np._core, "umath", None), "_extobj_contextvar", None)
# The object that holds NumPy's error state here: a new one for each np.errstate or seterr, so identity is enough.
_error_context: Callable[[], Any] = object if _error_variable is None else _error_variable.get
_errors: tuple[Any, bool, bool] = (None, False, False)  # the last such object, and the answers


def binary(ufunc: np.ufunc, a: Any, b: Any) -> Any:
    """ufunc(a, b) without options; the general case behind the operators' fast path."""
    if type(a) is Array and type(b) is Array:
        c, d = a._cell, b._cell
        if c.node is None and d.node is None and a._gen == c.gen and b._gen == d.gen:
            x: Any = a._nd
            y: Any = b._nd
            if x.nbytes < LEAST.eager_bytes and x.shape == y.shape and not a._fixed and not b._fixed:
                r = ufunc(x, y)
                return from_buffer(r) if type(r) is ND else rec.wrap(r)
    x, y = at_hand(a, type(a)), at_hand(b, type(b))
    if x is not None and y is not None:
        if little(x, y, policy.eager_limit()):
            op = ufunc if type(x) is ND or type(y) is ND else PLAIN.get(ufunc, ufunc)
            r = op(x, y)
            return from_buffer(r) if type(r) is ND else rec.wrap(r)
    elif (
        (x is not None or type(a) is not Array)  # lists, other types
        and (y is not None or type(b) is not Array)
        and little(1 if x is None else x, 1 if y is None else y, policy.eager_limit())
    ):
        return rec.at_once(ufunc, (a, b), {})
    if ufunc is np.power and type(a) is Array and not a._fixed and a.dtype.kind in "fc":
        weak = type(b) in (int, float) or (isinstance(b, np.floating) and np.result_type(a.dtype, b.dtype) == a.dtype)
        # NumPy's power has functions of its own for these; of complex numbers for 2, -1 and 0.5, but not for 2.0.
        if weak and b in POWERS and (a.dtype.kind == "f" or (type(b), b) in COMPLEX_POWERS):
            return apply_ufunc(POWERS[b], (a,))
    if ufunc in EXTREMES and type(a) is type(b) is Array:
        return pair(ufunc, a, b)
    return apply_ufunc(ufunc, (a, b))


def _complex_numbers(*args: Any) -> bool:
    """Whether all are numbers, and one of them is complex."""
    return all(type(x) is not Array or x._fixed for x in args) and any(np.dtype(kind_of(x)).kind == "c" for x in args)


def pair(ufunc: np.ufunc, a: Any, b: Any) -> Any:
    """Record ufunc(a, b) for Arrays and numbers: apply_ufunc with everything cached that can be."""
    if ufunc in ORDERS and _complex_numbers(a, b):
        return rec.at_once(PLAIN[ufunc], (a, b), {})  # with NaN, NumPy orders its scalars differently from its arrays
    at = sites.spot(2)
    if PENDING and policy.flush_loop((a, b), at, ufunc is not np.power):
        return binary(ufunc, a, b)
    state = _errors
    if state[1] if _error_context() is state[0] else strict_errors():
        return rec.at_once(ufunc, (a, b), {})
    x = a._cell.node if type(a) is Array and a._nd is None else None  # what is pending has its node at hand
    y = b._cell.node if type(b) is Array and b._nd is None else None
    kinds = (ufunc, kind_of(a) if x is None else x.dtype, kind_of(b) if y is None else y.dtype)
    found = _pairs.get(kinds)
    try:
        if found is None:
            loop = loop_of(ufunc, kinds[1:])
            found = _pairs[kinds] = (loop, map_op(ufunc.__name__, loop[2]))
        loop, op = found
        if x is None or not x.inputs:
            x = _operand(a, loop[0])
        if y is None or not y.inputs:
            y = _operand(b, loop[1])
        nodes = (x, y)
        if type(x.op) in MOVES or type(y.op) in MOVES:
            x, y = nodes = (read_shifted(x), read_shifted(y))
        typed = x.dtype is loop[0] and y.dtype is loop[1]
        plain = x.order is None and y.order is None and (x.shape == y.shape or not y.shape or not x.shape)
        if plain and typed:
            node = intern(op, nodes, x.shape or y.shape, loop[2])
        elif plain and ufunc is not np.power:
            node = intern(op, (cast(x, loop[0]), cast(y, loop[1])), x.shape or y.shape, loop[2])
        elif typed and x.order == y.order and x.shape == y.shape and 1 not in x.shape and _dense(x) and _dense(y):
            node = intern(op, nodes, x.shape, loop[2], x.order)
        else:
            node = ufunc_node(ufunc, (a, b))
    except (CannotRecord, TypeError):  # of records, or dates and numbers, only the operator says whether they are equal
        return rec.at_once(PLAIN.get(ufunc, ufunc), (a, b), {})
    made = from_node(node, not node.shape)  # as `rec.record` does
    if node.site is None and node.value is None:
        sites.mark(node, at)
    register(made._cell)
    return made


def _dense(x: Node) -> bool:
    """Whether a value's order determines its strides: a view may have strides of zero."""
    return type(x.op) is Map or type(x.op) is Leaf


def choose(args: tuple[Any, ...]) -> Any:
    """np.where of pending arrays of one shape (or numbers); None if they are something else."""
    if len(args) != 3 or not PENDING:
        return None
    some = False
    for a in args:
        if type(a) is Array:
            some = some or a._cell.node is not None
        elif type(a) not in WEAK:
            return None
    if not some:
        return None
    at = sites.spot(1)
    condition, x, y = args
    kinds = (kind_of(x), kind_of(y))
    d = _choices.get(kinds)
    if d is None:
        d = np.result_type(*(k(0) if isinstance(k, type) else k for k in kinds))
        if not rec.numeric(d):
            return None
        _choices[kinds] = d
    if kind_of(condition) is not BOOL or policy.flush_loop(args, at, exact=True):
        return None
    try:
        nodes = (_operand(condition, BOOL), cast(_operand(x, d), d), cast(_operand(y, d), d))
    except CannotRecord:
        return None
    shape = nodes[0].shape
    if not shape:
        return None
    for n in nodes:
        if n.order is not None or (n.shape != shape and n.shape):
            return None
    return rec.record(intern(map_op("where", d), nodes, shape, d), at=at)


_choices: dict[tuple[Any, ...], np.dtype[Any]] = {}
_pairs: dict[tuple[Any, ...], tuple[tuple[np.dtype[Any], ...], Map]] = {}


def apply_ufunc(ufunc: np.ufunc, args: tuple[Any, ...], dtype: Any = None) -> Any:
    """Record a ufunc (a tuple of Arrays for several results); hands over to NumPy what cannot be recorded."""
    if dtype is None and ufunc.nout == 1 and len(args) < 3:
        if policy.flush_loop(args, None, exact(ufunc, [kind_of(a) for a in args])):
            return unary(ufunc, *args) if len(args) == 1 else binary(ufunc, *args)
    elif policy.close(args):
        return rec.at_once(ufunc, args, {} if dtype is None else {"dtype": dtype})
    if strict_errors():
        return rec.at_once(ufunc, args, {} if dtype is None else {"dtype": dtype})
    try:
        if ufunc.nout == 1:
            node = ufunc_node(ufunc, args, 0, dtype)
            return rec.record(node, not node.shape, 2)
        nodes = [ufunc_node(ufunc, args, k, dtype) for k in range(ufunc.nout)]
    except CannotRecord:
        return rec.at_once(ufunc, args, {} if dtype is None else {"dtype": dtype})
    return tuple(rec.record(n, fixed=not n.shape) for n in nodes)


def unary(ufunc: np.ufunc, x: Any) -> Any:
    """ufunc(x)."""
    t = type(x)
    nd = at_hand(x, t)
    if nd is not None:
        if t is not Array or nd.nbytes < LEAST.eager_bytes or nd.nbytes < policy.eager_limit():
            r = ufunc(nd)
            if type(r) is ND:
                return from_buffer(r)
            return from_number(r) if type(r) in rec.SCALARS else rec.wrap(r)
    elif t is not Array:
        return rec.at_once(ufunc, (x,), {})
    return apply_ufunc(ufunc, (x,))
