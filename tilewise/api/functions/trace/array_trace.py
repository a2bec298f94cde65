"""Tracing a function of arrays. In: the function, what its arguments are. Out: a `Template`: its graph, to be replayed.

The function runs once on stand-ins: pending arrays with a type and no value. Whoever asks for a value ends the trace.
Arrays that the function refers to otherwise (its closure) are stand-ins as well while it runs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from tilewise.api.functions.purity import SCALARS, Untraceable, bare
from tilewise.api.functions.trace.captured_arrays import Captured, line_of
from tilewise.array import force as forcing
from tilewise.array.cell import LOCK, Cell
from tilewise.array.handle import UNMADE, Array, from_node, meta, node_of, on_cell, refresh
from tilewise.array.record import numeric
from tilewise.array.schedule import loop_flush
from tilewise.config import config
from tilewise.ir.node import Node, intern, known_leaf, numbered, twin
from tilewise.ir.order import Order, by_strides
from tilewise.ops.const import Const
from tilewise.ops.join import copy
from tilewise.records import dataclass


class Spec(NamedTuple):
    """The type of an argument; `fixed`: a number."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    order: Order
    fixed: bool = False


@dataclass(frozen=True)
class Nothing:
    """The value of a stand-in."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def spec_of(x: Any) -> Spec:
    """What an Array or ndarray is.

    Raises Untraceable for axes that go on by the same stride, or none (windows, np.broadcast_to): which of them is the
    slower one is open, and other operands decide the order of results; of a stand-in's axes it never is.
    """
    ours = type(x) is Array
    nd = meta(x) if ours else x
    if not nd.flags.c_contiguous:
        steps = [abs(s) for n, s in zip(nd.shape, nd.strides, strict=True) if n > 1]
        if nd.size and (0 in steps or len({*steps}) < len(steps)):
            raise Untraceable("an argument that shows elements more than once", pure=False)
    order = None if nd.flags.c_contiguous else by_strides(nd.shape, nd.strides)
    return Spec(nd.shape, nd.dtype, order, ours and x._fixed)


@dataclass(frozen=True)
class Given:
    """A result that is an argument itself."""

    which: int


@dataclass(frozen=True)
class Made:
    """A result that is computed: the node, and whether it is a number."""

    node: Node
    fixed: bool


@dataclass(frozen=True)
class Template:
    """A function's graph. `inputs` are the leaves that stand for arguments, `writes` what becomes of some of them."""

    inputs: tuple[Node, ...]
    order: tuple[Node, ...]  # all nodes, inputs before users
    result: Any  # nested as the function gave it: Given, Made, numbers
    writes: tuple[tuple[int, Node], ...]
    reshaped: frozenset[int]  # inputs of which there are views in another shape, or in an order that is asked for

    @functools.cached_property
    def at(self) -> dict[Node, int]:
        """The position of each node."""
        return {n: i for i, n in enumerate(self.order)}

    @functools.cached_property
    def _made(self) -> list[tuple[int, Node, tuple[int, ...]]]:
        """What is made again at each replay: position, node, positions of its inputs."""
        rows = [(i, n) for i, n in enumerate(self.order) if n.value is None and type(n.op) is not Const]
        return [(i, n, tuple(self.at[x] for x in n.inputs)) for i, n in rows]

    def replay(self, leaves: Sequence[Node], more: dict[Node, Node] | None = None) -> list[Node]:
        """The same graph on other leaves: what each node became. `more` says what becomes of further leaves."""
        made = list(self.order)
        for old, new in (*zip(self.inputs, leaves, strict=True), *(more or {}).items()):
            place = self.at.get(old)
            if place is not None:
                made[place] = new
        for i, n, ins in self._made:
            new = made[i] = intern(n.op, tuple([made[k] for k in ins]), n.shape, n.dtype, n.order)
            if new.site is None:
                new.site = n.site
        return made


STRINGS = frozenset((str,))


def flatten(value: Any, leaves: list[Any]) -> Any:
    """Nested tuples, lists and dicts as a structure; what is in them goes to `leaves`."""
    t = type(value)
    if t is tuple or t is list:
        return (t, tuple(flatten(v, leaves) for v in value))
    if t is dict and STRINGS.issuperset(map(type, value)):
        return (dict, tuple(value), tuple(flatten(v, leaves) for v in value.values()))
    if t is dict:  # 1 and True are equal keys, and objects may change
        return (dict, None, flatten(tuple(value.items()), leaves))
    if isinstance(value, tuple) and bare(t):
        return (t, None, tuple(flatten(v, leaves) for v in value))
    leaves.append(value)
    return None


def unflatten(structure: Any, leaves: Iterator[Any]) -> Any:
    """The nested value again."""
    if structure is None:
        return next(leaves)
    if structure[0] is dict and structure[1] is None:
        return dict(unflatten(structure[2], leaves))
    if structure[0] is dict:
        return {k: unflatten(s, leaves) for k, s in zip(structure[1], structure[2], strict=True)}
    if len(structure) == 3:
        return structure[0](*(unflatten(s, leaves) for s in structure[2]))
    return structure[0](unflatten(s, leaves) for s in structure[1])


def containers(value: Any) -> set[int]:
    """The identities of the lists and dicts in a nested value."""
    inner: Iterable[Any] = ()
    if isinstance(value, dict):
        inner = value.values()
    elif isinstance(value, list | tuple):
        inner = value
    own = {id(value)} if isinstance(value, list | dict) else set()
    return own.union(*map(containers, inner))


def stand_in(spec: Spec) -> Array:
    """A pending Array without a value."""
    return from_node(known_leaf(Nothing(spec.shape, spec.dtype), spec.order), spec.fixed)


def _standing_for(arrays: Sequence[Array]) -> dict[int, Array]:
    """A stand-in for each of the arrays, by identity; they share cells as the arrays do."""
    cells: dict[Cell, Cell] = {}
    made: dict[int, Array] = {}
    for x in arrays:
        nd, cell = meta(x), x._cell
        if cell not in cells:
            base = cell.meta()
            order = None if base.flags.c_contiguous else by_strides(base.shape, base.strides)
            cells[cell] = stand_in(Spec(base.shape, base.dtype, order))._cell
        made[id(x)] = y = on_cell(cells[cell], nd)
        y._gen, y._fixed = UNMADE, x._fixed
        refresh(y)  # the same part of the other cell
    return made


Change = Callable[[Sequence[Node]], dict[Node, Node]]


def _as_written(roots: Sequence[Node]) -> dict[Node, Node]:
    return {}


def trace(specs: Sequence[Spec], call: Any, captured: Sequence[Array] = (), change: Change = _as_written) -> Template:
    """The template of `call(others, arguments)`, which calls `others.of(f)`, a copy of f.

    `captured` are the arrays that f refers to; the copy refers to stand-ins. `change` may put other nodes into the
    template's place.

    Raises Untraceable.
    """
    if not all(isinstance(d, int) for s in specs for d in s.shape):
        raise Untraceable("arguments whose lengths masks decide")
    with LOCK, _recording() as reshaped:
        args = [stand_in(s) for s in specs]
        outer = _standing_for(captured)
        seen_by_f = [*args, *outer.values()]
        others = Captured(outer)
        cells = list(dict.fromkeys(x._cell for x in seen_by_f))
        leaves = [c.node for c in cells]
        shapes = [(x.shape, x.dtype) for x in seen_by_f]
        try:
            with others.unwritten():
                given = call(others, args)
        except forcing.ValueAsked as error:
            raise Untraceable("a use of a value, not only of arrays", line_of(error)) from None
        except forcing.TraceTooLong as error:
            raise Untraceable("a loop of too many operations to be traced", line_of(error)) from None
        except Untraceable:
            raise
        except Exception as error:
            raise Untraceable(f"what raises {type(error).__name__} ({error})", line_of(error)) from None
        if shapes != [(x.shape, x.dtype) for x in seen_by_f]:
            raise Untraceable("a new shape or dtype for an argument itself (x.shape = ...)")
        found: list[Any] = []
        structure = flatten(given, found)
        if any(type(r) is Array and r._cell.node is not None and not r._cell.node.known for r in found):
            raise Untraceable("lengths that masks decide")
        results = [_result(r, args, cells) for r in found]
        seen = [r._cell for r in found if type(r) is Array]
        if len(set(seen)) < len(seen):
            raise Untraceable("results that share memory")
        writes = tuple((i, c.node) for i, c in enumerate(cells) if c.node is not leaves[i])
        if any(n is None for _, n in writes):
            raise Untraceable("a write that is done at once")
        roots = [r.node for r in results if isinstance(r, Made)] + [n for _, n in writes if n is not None]
        new = change(roots)
        order = tuple(numbered([new.get(r, r) for r in roots]))
        if any(not n.known for n in order):
            raise Untraceable("lengths that masks decide")
        own = _own(order)
        results = [Made(own[new.get(r.node, r.node)], r.fixed) if isinstance(r, Made) else r for r in results]
        writes = tuple((i, own[new.get(n, n)]) for i, n in writes if n is not None)
        again = frozenset(i for i, c in enumerate(cells) if c in reshaped)
        result = (structure, tuple(results))
        # Stand-ins are pending: each has a node.
        return Template(tuple(leaves), tuple(own.values()), result, writes, again)  # type: ignore[arg-type]


def _own(order: Sequence[Node]) -> dict[Node, Node]:
    """Nodes that nobody else has, for those that others may have recorded as well and will give a value to."""
    own: dict[Node, Node] = {}
    for n in order:
        computed = n.value is None and type(n.op) is not Const
        own[n] = twin(n, [own[i] for i in n.inputs]) if computed else n
    return own


@contextmanager
def _recording() -> Iterator[set[Cell]]:
    """Inside, all is recorded; gives the cells of which there are views in another shape, or in an order asked for."""
    reshaped: set[Cell] = set()
    token = forcing.tracing.set(reshaped)
    loop_flush.pending.traced = loop_flush.pending.recorded
    try:
        with config(eager_bytes=0, flush=False, fallback="silent"):
            yield reshaped
    finally:
        forcing.tracing.reset(token)


def _result(r: Any, args: Sequence[Array], cells: Sequence[Cell]) -> Any:
    if type(r) is not Array:
        if not isinstance(r, SCALARS):
            raise Untraceable(f"a result that is of type {type(r).__name__}")
        return r
    for i, a in enumerate(args):
        if r is a:
            return Given(i)
    if r._cell in cells:
        raise Untraceable("a result that is a view of an argument")
    if not meta(r).flags.writeable:
        raise Untraceable("a result that is read-only")
    if not numeric(r.dtype):
        raise Untraceable(f"a result of dtype {r.dtype}")
    node = node_of(r)
    return Made(copy(node, node.order) if node.value is not None else node, r._fixed)
