"""Values while a body is traced: all iterations at once. In: NumPy's operators and functions. Out: `Node`s.

A node has the axes of the loops that it depends on, a sample (its value in the first iterations, computed by NumPy, so
that dtypes, shapes and errors are NumPy's), and what makes its array: axes of loops first, then those of the value.
`Traced` is a name's handle on a node: operators in place give it another one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewise.array.handle import from_buffer
from tilewise.parfor.bodies.arrays.axes import Axis, NotArrays, Position, Ranges, as_position, merged

MOST_NODES = 400  # of a body; more are loops that were unrolled
ELEMENT_SECONDS = 0.7e-9  # of an elementwise operation, by NumPy or ours
PRODUCT_SECONDS = 0.1e-9  # of a multiplication in a product of matrices
CALL_SECONDS = 1.5e-6  # of an operation on arrays, by the interpreter


class Values:
    """The arrays of nodes for some part of the iterations; those that do not depend on it are kept."""

    def __init__(self, ranges: Ranges, kept: dict[int, Any]) -> None:
        self.ranges, self.kept = ranges, kept
        self.made: dict[int, Any] = {}

    def of(self, node: Node) -> Any:
        """The array of a node."""
        part = any(axis in self.ranges.parts for axis in node.dims)
        store = self.made if part else self.kept
        if id(node) not in store:
            found = node.make(self)
            shape = (*(self.ranges.length(a) for a in node.dims), *np.shape(node.sample))
            if tuple(found.shape) != shape or found.dtype != np.asarray(node.sample).dtype:
                raise NotArrays(f"a value of {found.dtype}, which is {np.asarray(node.sample).dtype} in the loop")
            store[id(node)] = found
        return store[id(node)]

    def aligned(self, node: Node, dims: Sequence[Axis], rank: int) -> Any:
        """The same with an axis for each of `dims`, and as many axes of the value."""
        array, pad = self.of(node), rank - np.ndim(node.sample)
        if tuple(dims) == node.dims and not pad:
            return array
        return array[(*(slice(None) if a in node.dims else None for a in dims), *[None] * pad, ...)]


@dataclass(frozen=True, eq=False)
class Node:
    """A value of all iterations. `factors`: it is the product of two values of which each depends on other loops."""

    dims: tuple[Axis, ...]
    sample: Any
    make: Callable[[Values], Any]
    factors: tuple[Node, Node] | None = None
    shown: bool = False  # it shows the memory of an array from outside

    @property
    def elements(self) -> int:
        """How many numbers it has in all."""
        return math.prod(a.length for a in self.dims) * int(np.size(self.sample))


class Recorder:
    """What a trace has made, and what it costs."""

    def __init__(self) -> None:
        self.active: list[Axis] = []
        self.written: set[int] = set()  # nodes of arrays that the loop writes to
        self.nodes: list[Node] = []
        self.seconds = 0.0  # all at once
        self.plain_seconds = 0.0  # in the loop

    def add(self, node: Node, work: float | None = None, rate: float = ELEMENT_SECONDS) -> Traced:
        """A new value; `work`: operations per element."""
        if len(self.nodes) >= MOST_NODES:
            raise NotArrays("a body of many operations")
        self.nodes.append(node)
        size = float(np.size(node.sample)) if work is None else work
        self.seconds += math.prod(a.length for a in node.dims) * size * rate
        trips = math.prod(a.length for a in self.active)
        self.plain_seconds += trips * (CALL_SECONDS + size * ELEMENT_SECONDS)
        return Traced(node, self)


class Traced(np.lib.mixins.NDArrayOperatorsMixin):
    """A value of all iterations, as bodies see it: like the array or number of one iteration."""

    def __init__(self, node: Node, recorder: Recorder) -> None:
        self.node, self.recorder = node, recorder
        self.viewed = False  # another value shows its memory

    shape = property(lambda self: np.shape(self.node.sample))
    ndim = property(lambda self: np.ndim(self.node.sample))
    size = property(lambda self: np.size(self.node.sample))
    dtype = property(lambda self: np.asarray(self.node.sample).dtype)

    def __len__(self) -> int:
        return len(self.node.sample)

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise NotArrays("a number of the data used as a condition, a subscript or an argument")

    __bool__ = __float__ = __int__ = __index__ = __iter__ = __array__ = __complex__ = __hash__ = _refuse

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        rules = ROUTES["ufunc"](self.recorder, ufunc, method, inputs, options)
        if out is None:
            return rules
        (target,) = out
        if not isinstance(target, Traced):
            raise NotArrays("a result written to an array from outside")
        return target.become(rules)

    def become(self, other: Traced) -> Traced:
        """Operators in place."""
        same = other.shape == self.shape and other.dtype == self.dtype
        if self.ndim and (self.viewed or self.node.shown or not same):
            raise NotArrays("an operator in place on a part of an array")
        if not self.ndim:
            return other
        self.node = other.node
        return self

    def __array_function__(self, func: Any, types: Any, args: Any, options: Any) -> Any:
        return ROUTES["function"](self.recorder, func, args, options)

    def __getitem__(self, key: Any) -> Any:
        return ROUTES["getitem"](self.recorder, self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        ROUTES["setitem"](self.recorder, self, key, value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return ROUTES["attribute"](self.recorder, self, name)


# What operators and functions do, by the other modules of this folder (which need the classes above).
ROUTES: dict[str, Callable[..., Any]] = {}


def node_of(recorder: Recorder, value: Any) -> Node:
    """The node of a traced value, of a position, or of something that is the same in all iterations."""
    if isinstance(value, Traced):
        if id(value.node) in recorder.written:
            raise NotArrays("an array that is read and written")
        return value.node
    if isinstance(value, Position):
        dims = value.dims
        return Node(dims, value.sample, lambda v: from_buffer(np.ascontiguousarray(value.values(v.ranges, dims))))
    if isinstance(value, bool | int | float | complex | np.generic):
        return Node((), value, lambda v: np.asarray(value))
    if type(value) is np.ndarray:
        return Node((), value, lambda v: from_buffer(value))
    raise NotArrays(f"a {type(value).__name__} in an array expression")


def elementwise(recorder: Recorder, f: Callable[..., Any], values: Sequence[Any], options: dict[str, Any]) -> Traced:
    """f of values, element by element."""
    nodes = [node_of(recorder, v) for v in values]
    sample = f(*(n.sample for n in nodes), **options)
    if isinstance(sample, tuple):
        raise NotArrays("a function of several results")
    dims, rank = merged(*(n.dims for n in nodes)), np.ndim(sample)

    def make(v: Values) -> Any:
        return f(*(n.sample if _plain(n) else v.aligned(n, dims, rank) for n in nodes), **options)

    factors = None
    if f is np.multiply and len(nodes) == 2 and not options and all(np.ndim(n.sample) == 1 for n in nodes):
        a, b = nodes
        if a.dims and b.dims and not set(a.dims) & set(b.dims) and np.shape(a.sample) == np.shape(b.sample):
            factors = (a, b)
    return recorder.add(Node(dims, sample, make, factors))


def _plain(node: Node) -> bool:
    """A number that is the same in all iterations: NumPy's rules for numbers apply to it."""
    return not node.dims and isinstance(node.sample, bool | int | float | complex | np.generic)


def positions(recorder: Recorder, ufunc: Any, inputs: Sequence[Any]) -> Any:
    """Arithmetic of positions: again positions where possible; None: not this kind of operation."""
    a, *rest = map(as_position, inputs)
    if ufunc is np.negative and a is not None:
        return a.times(-1)
    if len(rest) != 1:
        return None
    b = rest[0]
    if a is not None and b is not None:
        if ufunc in (np.add, np.subtract):
            return a.plus(b, 1 if ufunc is np.add else -1)
        if ufunc is np.multiply and not (a.terms and b.terms):
            return a.times(b.const) if not b.terms else b.times(a.const)
    return None


def position_ufunc(self: Position, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
    """Arithmetic of positions with anything."""
    found = positions(None, ufunc, inputs) if method == "__call__" and not options else None  # type: ignore[arg-type]
    if found is not None:
        return found
    other = next((x for x in inputs if isinstance(x, Traced)), None)
    if other is None:
        raise NotArrays("arithmetic of loop variables beyond sums and multiples")
    return ROUTES["ufunc"](other.recorder, ufunc, method, inputs, options)


def _operator(ufunc: Any, swapped: bool = False) -> Callable[..., Any]:
    def apply(self: Position, *other: Any) -> Any:
        return position_ufunc(self, ufunc, "__call__", *((*other, self) if swapped else (self, *other)))

    return apply


Position.__array_ufunc__ = position_ufunc
for _name, _ufunc in (("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("truediv", np.divide)):
    setattr(Position, f"__{_name}__", _operator(_ufunc))
    setattr(Position, f"__r{_name}__", _operator(_ufunc, swapped=True))
setattr(Position, "__neg__", _operator(np.negative))  # noqa: B010
