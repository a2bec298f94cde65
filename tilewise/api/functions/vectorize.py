"""tw.vectorize: a function of numbers on all elements. In: the function. Out: NumPy's result and dtype, traced or not.

NumPy calls the function with Python's numbers, and takes the dtype from one more call with the first element as a
NumPy scalar. So a function is traced twice: on Python's kinds for the values, on dtypes for the dtype. What cannot be
traced is compiled from its source (native/vectorized.py), or called by NumPy.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from tilewise.api.functions.native.kinds import PYTHON
from tilewise.api.functions.native.vectorized import applied, by_source, first, little, loops_in
from tilewise.api.functions.purity import Untraceable
from tilewise.api.functions.trace.scalar_trace import Traced, key_of, own_key, traced
from tilewise.api.functions.trace.scalar_tracer import dtype_of
from tilewise.api.functions.trace.tape import Interval, Tape, limits, whole_limits
from tilewise.api.functions.warn import name_of, warn
from tilewise.array import record as rec
from tilewise.array.arithmetic import strict_errors
from tilewise.array.handle import Array
from tilewise.array.schedule import policy
from tilewise.config import current
from tilewise.ir.node import Node
from tilewise.ops.create import full
from tilewise.ops.elementwise import broadcast, cast
from tilewise.ops.join import broadcast_view, copy
from tilewise.ops.traits.rule import LETTERS
from tilewise.ops.user import Opaque, opaque
from tilewise.python.refuse import Refused
from tilewise.records import dataclass

ELEMENTS = frozenset("?bhilqBHILQefdFD")
LONG = 128  # operations of a trace: loops that make more are better compiled as loops
NOT_CALLS = (  # why a call is NumPy's own, whatever the function is
    "options (keywords, excluded, signature or cache)",
    "an np.errstate that raises around it",
    "arguments that are not numbers",
    "no elements to tell the dtype",
    "results that are not numbers",
)


class vectorize(np.vectorize):
    """A function of numbers, applied to all elements; NumPy's signature, results and dtypes.

    The function is traced: called once with stand-ins for an element, and what it does to them becomes part of the
    graph. It may use arithmetic, comparisons, `abs`, `min`, `max`, functions of `math`, NumPy's elementwise functions,
    `np.where` and other such functions. What looks at a value (`if x > 0`, `while`) is compiled from its source. What
    cannot be compiled is called by NumPy for every element, and a PerformanceWarning says why.

    >>> import math
    >>> import tilewise as tw
    >>> @tw.vectorize
    ... def damped(t, rate):
    ...     return math.exp(-rate * t) * math.cos(t)
    >>> damped(tw.arange(3.0), 0.5).round(3)
    Array([ 1.   ,  0.328, -0.153])
    >>> @tw.vectorize
    ... def collatz(n):
    ...     steps = 0
    ...     while n > 1:
    ...         n = n // 2 if n % 2 == 0 else 3 * n + 1
    ...         steps += 1
    ...     return steps
    >>> collatz(tw.arange(1, 8))
    Array([ 0,  1,  7,  2,  5,  8, 16])
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if getattr(self, "pyfunc", None) is np._NoValue:  # used as a decorator with options
            return super().__call__(*args, **kwargs)
        if any(map(rec.peculiar, args)):
            return rec.at_once(super().__call__, args, kwargs)  # results are of the class, which NumPy sees to
        f = self.pyfunc
        arrays = [a if type(a) is Array else np.asarray(rec.unwrap(a)) for a in args]
        try:
            if kwargs or self.excluded or self.signature is not None or self.cache or not args:
                raise Untraceable(NOT_CALLS[0], pure=False)
            if strict_errors():
                raise Untraceable(NOT_CALLS[1], pure=False)
            self._check(arrays)
            return _traced(f, arrays, self.otypes)
        except Untraceable as error:
            why: Any = error
            pure, plain_call = error.pure, error.construct in NOT_CALLS
        # Not above: what these raise has nothing to do with the trace.
        if not plain_call and current().engine != "numpy" and (loops_in(f) or not little(arrays)):
            try:
                made, targets, more = by_source(f, arrays, self.otypes)
            except Refused as error:
                why = error if error.line else why
            else:
                return run(made, [*arrays, *more], targets) if isinstance(made, Tape) else applied(made, arrays)
        return self._on_numpy(args, kwargs, arrays, why, pure)

    def _check(self, arrays: Sequence[Any]) -> None:
        if any(a.dtype.char not in ELEMENTS or not a.dtype.isnative for a in arrays):
            raise Untraceable(NOT_CALLS[2], pure=False)
        if self.otypes is None and any(a.size == 0 for a in arrays):
            raise Untraceable(NOT_CALLS[3], pure=False)
        if self.otypes is not None and any(np.dtype(t).char not in ELEMENTS for t in self.otypes):
            raise Untraceable(NOT_CALLS[4], pure=False)

    def _on_numpy(self, args: Any, kwargs: Any, arrays: Sequence[Any], error: Any, pure: bool) -> Any:
        """NumPy calls the function: later and by tiles if it does nothing else, else now."""
        warn("vectorize", self.pyfunc, error, args)
        ours = [a for a in arrays if type(a) is Array]
        if pure and not policy.small(ours):
            dtype = self._found(arrays)
            if dtype is not None:
                return _recorded(self.pyfunc, arrays, dtype)
        return rec.at_once(super().__call__, args, kwargs)

    def _found(self, arrays: Sequence[Any]) -> np.dtype[Any] | None:
        """The dtype of the one result, from the first element, as NumPy finds it; None if it is not one number."""
        if self.otypes is not None:
            return np.dtype(self.otypes[0]) if len(self.otypes) == 1 else None
        made = self.pyfunc(*[first(a) for a in arrays])
        dtype = np.asarray(made).dtype
        return dtype if not isinstance(made, tuple) and dtype.char in ELEMENTS else None


def _traced(f: Any, arrays: Sequence[Any], given: Any) -> Any:
    """The results of a function that can be traced."""
    key = key_of(f)
    dtypes = tuple(a.dtype for a in arrays)
    values = traced(f, [PYTHON[d.kind] for d in dtypes], key)
    if len(values.tape.entries) > LONG and loops_in(f):
        raise Untraceable("a loop of many operations")
    targets = _targets(f, arrays, dtypes, given, key, values)
    tape = values.tape
    if tape.asks and not tape.fits(whole_limits(dtypes), targets):
        bounds = [_range(a) if i in tape.asks else None for i, a in enumerate(arrays)]
        if not tape.fits(bounds, targets):
            raise Untraceable("whole numbers that may leave 64 bits, or a division by zero")
    return run(tape, arrays, targets)


def _targets(
    f: Any, arrays: Sequence[Any], dtypes: tuple[np.dtype[Any], ...], given: Any, key: Hashable, values: Traced
) -> tuple[np.dtype[Any], ...]:
    """The dtypes of the results: given, or what the first element's would be."""
    tape = values.tape
    if tape.several and len(tape.results) == 1:
        raise Untraceable("a tuple of one", pure=False)  # which NumPy takes for a number
    if given is not None:
        targets = tuple(np.dtype(t) for t in given)
        if len(targets) != len(tape.results):
            raise Untraceable("another number of results than of otypes", pure=False)
    else:
        kinds = traced(f, dtypes, key)
        if kinds.sure:
            targets = tuple(dtype_of(k) for k in kinds.kinds)
        else:  # the type of the result depends on the value, as max(x, 0) does
            made = f(*[first(a) for a in arrays])
            targets = tuple(np.asarray(m).dtype for m in (made if isinstance(made, tuple) else (made,)))
    for have, want in zip(tape.dtypes, targets, strict=True):
        if want.char not in ELEMENTS or (have.kind == "c" != want.kind) or (want.kind == "b" != have.kind):
            raise Untraceable(f"results of {have} that NumPy stores as {want}")
        if have.kind == "f" and want.kind in "iu":  # NaN and what is too large would raise
            raise Untraceable(f"results of {have} that NumPy stores as {want}")
    return targets


def _range(a: Any) -> Interval | None:
    """The least and greatest element of an array of whole numbers."""
    if a.dtype.kind == "b" or a.size == 0:
        return limits(a.dtype) if a.dtype.itemsize < 8 else (0, 0)
    return int(a.min()), int(a.max())


def run(tape: Tape, arrays: Sequence[Any], targets: Sequence[np.dtype[Any]]) -> Any:
    """A tape on arrays that broadcast together: at once if they are small, else recorded."""
    ours = [a for a in arrays if type(a) is Array]
    policy.flush_loop(ours)
    if policy.small(ours) and all(a.nbytes < policy.eager_limit() for a in arrays):
        shape = np.broadcast_shapes(*(a.shape for a in arrays))
        plain = [rec.unwrap(a) if type(a) is Array else a for a in arrays]
        plain = [np.asarray(a) for a in plain]
        found = [
            np.broadcast_to(x, shape).astype(t, order="K", copy=np.shape(x) != shape or _same(x, plain))
            for x, t in zip(tape.arrays(plain), targets, strict=True)
        ]
        made = [rec.wrap(x) for x in found]
    else:
        shapes = [a.shape for a in arrays]  # lengths that masks decide are asked for
        shape = np.broadcast_shapes(*shapes)
        nodes = [rec.as_node(a) for a in arrays]
        made = []
        for node, t in zip(tape.nodes(nodes), targets, strict=True):
            made.append(rec.record(_whole(cast(node, t), nodes, broadcast([n.shape for n in nodes]))))
    return tuple(made) if tape.several else made[0]


def _same(x: Any, plain: Sequence[Any]) -> bool:
    return any(np.may_share_memory(x, p) for p in plain)


def _whole(node: Node, inputs: Sequence[Node], shape: Any) -> Node:
    """A result of its own, in the shape of all arguments together."""
    if not node.shape and shape:
        return full(shape, node)
    if node.shape != shape:
        return copy(broadcast_view(node, shape), None)
    return copy(node, node.order) if any(node is i for i in inputs) and shape else node


@dataclass(frozen=True)
class Elements:
    """NumPy's vectorize of a function, on a block."""

    f: Any
    dtype: np.dtype[Any]

    def __call__(self, *blocks: Any) -> Any:
        shape = np.broadcast_shapes(*(b.shape for b in blocks))
        if 0 in shape:
            return np.empty(shape, self.dtype)
        arrays = map(np.asarray, blocks)  # a NumPy scalar would be given as it is
        return np.ascontiguousarray(np.vectorize(self.f, otypes=[self.dtype.char])(*arrays)).reshape(shape)


def _recorded(f: Any, arrays: Sequence[Any], dtype: np.dtype[Any]) -> Array:
    """A pending result that NumPy computes element by element."""
    nodes = tuple(rec.as_node(a) for a in arrays)
    shape = broadcast([n.shape for n in nodes])
    out = LETTERS[: len(shape)]
    letters = ",".join(out[len(shape) - n.ndim :] for n in nodes) + "->" + out
    run = Elements(f, dtype)
    op = Opaque(run, ("elements", own_key(f, run), dtype.str), letters, None, name_of(f))
    return rec.record(opaque(op, nodes, shape, dtype))
