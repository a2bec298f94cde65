"""Nodes: the immutable, interned graph. In: an operator and its input nodes. Out: the one node that stands for them.

Interned: equal structure is the same object, so equality and hashing cost nothing, however deep the graph.
Everything that walks a graph does so iteratively (a program may record 100,000 operators).
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

MOST_SHARES = 4096
_shares: dict[tuple[tuple[str, int], int], float] = {}  # by the line and rank of a mask: which share it kept


class Length:
    """The length of an axis made by a mask: unknown until `value` is set. Equal only to itself (its mask names it)."""

    __slots__ = ("__weakref__", "mask", "value")

    def __init__(self, mask: Node) -> None:
        self.mask = mask
        self.value: int | None = None

    def count(self) -> int:
        """The number; its mask must have been counted."""
        assert self.value is not None, "a length was asked for before its mask was counted"
        return self.value

    def settle(self, count: int) -> None:
        """The mask has been counted."""
        self.value = count
        self.note(count / max(self.mask.size, 1))

    def note(self, share: float) -> None:
        """Remember which share of the mask's elements is kept, for masks to come from the same line."""
        site = self.mask.site
        if site is not None:
            if len(_shares) >= MOST_SHARES:
                _shares.clear()
            _shares[site, self.mask.ndim] = share

    def last_share(self) -> float | None:
        """The share that a mask from the same line kept the last time."""
        site = self.mask.site
        return None if site is None else _shares.get((site, self.mask.ndim))

    def __repr__(self) -> str:
        return "?" if self.value is None else str(self.value)


Dim = Any  # int, or Length where a mask decides
Shape = tuple[Dim, ...]


class Op:
    """An operator: what a node does with its inputs. Subclasses are frozen values; see ops/."""

    __slots__ = ()
    name: str = "op"
    weight: int = 0  # how long an elementwise operator makes a kernel, in simple instructions; 0 for all others
    stays: bool = False  # whether its result is for other operators, or was placed by the user: the driver reads none

    @property
    def signature(self) -> Any:
        """What of the operator decides a plan for one worker (offsets, sizes and scalar values do not)."""
        return type(self)

    def numpy(self, *arrays: Any) -> Any:
        """The operator's meaning, in NumPy."""
        raise AssertionError(f"{self.name} has no NumPy meaning")

    def label(self) -> str:
        """How plans name it."""
        return self.name


class Node:
    """One value of the graph: operator, inputs, and the type of the result (shape, dtype, memory order).

    `order` is the permutation of axes from slowest to fastest in memory; None is C order.
    """

    __slots__ = ("__weakref__", "dtype", "inputs", "op", "order", "shape", "site", "trail", "value")

    op: Op
    inputs: tuple[Node, ...]
    shape: Shape
    dtype: np.dtype[Any]
    order: tuple[int, ...] | None
    site: tuple[str, int] | None  # the user's file and line
    trail: int  # bit set of call sites that pending ancestors were recorded from
    value: Any  # the array, once it is known: a node with a value is not computed again

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def known(self) -> bool:
        """Whether every length is a number."""
        for d in self.shape:  # noqa: SIM110 (a generator takes twice as long, and everything asks)
            if type(d) is Length:
                return False
        return True

    @property
    def dims(self) -> tuple[int, ...]:
        """The shape in numbers, once every mask it hangs on has been counted."""
        for d in self.shape:
            if type(d) is Length:
                return tuple(e.count() if type(e) is Length else e for e in self.shape)
        return self.shape

    @property
    def size(self) -> int:
        n = 1
        for d in self.shape:
            n *= (d.value or 0) if type(d) is Length else d
        return n

    @property
    def nbytes(self) -> int:
        return int(self.size * self.dtype.itemsize)

    def __repr__(self) -> str:
        return f"<{self.op.label()} {self.dtype}{list(self.shape)}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return (thaw, (freeze([self]), 0))


# The nodes alive, by operator and the ids of inputs (a node that is alive keeps its inputs alive, so ids are theirs).
# Entries of nodes that died stay until there are many: a callback for each would cost a third of recording it.
_table: dict[Any, weakref.ref[Node]] = {}
_sweep_at = 4096  # entries
_SWEEP_LEAST = 4096


def intern(
    op: Op,
    inputs: tuple[Node, ...],
    shape: Shape,
    dtype: np.dtype[Any],
    order: tuple[int, ...] | None = None,
) -> Node:
    """The node for (op, inputs): an existing one, or a new one. The type must follow from op and inputs."""
    key: tuple[Any, ...]
    if len(inputs) == 2:
        a, b = inputs
        key = (op, id(a), id(b))
    elif len(inputs) == 1:
        key = (op, id(inputs[0]))
    else:
        key = (op, *[id(x) for x in inputs])
    ref = _table.get(key)
    if ref is not None:
        node = ref()
        if node is not None:
            return node
    node = Node()
    node.op = op
    node.inputs = inputs
    node.shape = shape
    node.dtype = dtype
    node.order = order
    node.site = None
    node.trail = 0
    node.value = None
    _table[key] = _weak(node)
    if len(_table) > _sweep_at:
        _sweep()
    return node


_weak = weakref.ref


def _sweep() -> None:
    """Take out the entries of nodes that died."""
    global _sweep_at
    for key, ref in _table.copy().items():  # making a list may collect garbage, which changes it
        if ref() is None and _table.get(key) is ref:
            taken = _table.pop(key, ref)  # another thread may have swept it,
            if taken is not ref:  # or made the node again, just now
                _table.setdefault(key, taken)
    _sweep_at = max(_SWEEP_LEAST, 2 * len(_table))


def twin(node: Node, inputs: Sequence[Node] | None = None) -> Node:
    """Another node for the same operator, known to nobody and without a value; of other inputs, if they are given."""
    other = Node()
    other.op, other.inputs = node.op, node.inputs if inputs is None else tuple(inputs)
    other.shape, other.dtype, other.order = node.shape, node.dtype, node.order
    other.site, other.trail, other.value = node.site, node.trail, None
    return other


class Leaf(Op):
    """A value that exists before the graph does: the contents of a cell at one version.

    No two leaves are equal; the cell keeps the one for its current version. `exports` are references to what was
    handed out of the buffer; `unshared` says that nothing but the evaluation under way still knows the leaf.
    """

    __slots__ = ("exports", "unshared")
    name = "leaf"

    def __init__(self, exports: list[Any] | None = None) -> None:
        self.exports = exports
        self.unshared = False


_new = object.__new__


def known_leaf(value: Any, order: tuple[int, ...] | None, exports: list[Any] | None = None) -> Node:
    """A leaf node with its value (an array here, or a handle on one that an engine holds)."""
    node = Node()  # no two leaves are equal: there is nothing to look up
    op = node.op = _new(Leaf)
    op.exports = exports
    op.unshared = False
    node.inputs = ()
    node.shape = value.shape
    node.dtype = value.dtype
    node.order = order
    node.site = None
    node.trail = 0
    node.value = value
    return node


def become_leaf(node: Node, value: Any, exports: list[Any] | None = None) -> None:
    """A node that others hang on is known: it lets go of what it was computed from, and is a leaf from now on."""
    key = (node.op, *[id(x) for x in node.inputs])
    ref = _table.get(key)
    if ref is not None and ref() is node:  # its inputs may die now, and others get their ids
        del _table[key]
    node.value = value
    node.op = Leaf(exports)
    node.inputs = ()
    node.trail = 0


def walk(roots: Iterable[Node]) -> list[Node]:
    """All nodes that must be known to compute `roots`, inputs before users, each once.

    Nodes that have a value are not looked behind.
    """
    return list(numbered(roots))


def numbered(roots: Iterable[Node]) -> dict[Node, int]:
    """The nodes of `walk` in its order, each with its position."""
    roots = list(roots)
    at: dict[Node, int] = {}
    try:
        for root in roots:
            if root not in at:
                _number(root, at)
    except RecursionError:  # a deep graph
        return _numbered_deep(roots)
    return at


def _number(node: Node, at: dict[Node, int]) -> None:
    """Number what a node hangs on, then the node: twice as quick as with a stack of our own."""
    if node.value is None:
        for x in node.inputs:
            if x not in at:
                if x.inputs:
                    _number(x, at)
                else:
                    at[x] = len(at)
    at[node] = len(at)


def _numbered_deep(roots: list[Node]) -> dict[Node, int]:
    """The same for graphs of any depth."""
    at: dict[Node, int] = {}
    stack = list(roots)
    stack.reverse()
    push, pop = stack.append, stack.pop
    while stack:
        node = pop()
        if node in at:
            continue
        if node.value is None:
            inputs = node.inputs
            for x in inputs:
                if x not in at:  # come back when the inputs are done
                    push(node)
                    stack += inputs[::-1]
                    break
            else:
                at[node] = len(at)
        else:
            at[node] = len(at)
    return at


def freeze(roots: Sequence[Node]) -> tuple[list[Any], list[int]]:
    """A flat, picklable form of a graph (pickle must not recurse)."""
    nodes = walk(roots)
    at = {n: i for i, n in enumerate(nodes)}
    lengths: dict[Length, int] = {}
    rows: list[Any] = []
    for n in nodes:
        for d in n.shape:
            if type(d) is Length and d not in lengths and d.mask in at:
                lengths[d] = at[d.mask]
        # Where the mask is not in the graph any more, the length has been counted.
        shape = tuple(
            d if type(d) is not Length else ("len", lengths[d], d.value) if d in lengths else d.count() for d in n.shape
        )
        known = n.value is not None
        ins = () if known else tuple(at[x] for x in n.inputs)
        rows.append((n.value if known else n.op, ins, shape, n.dtype, n.order, n.site))
    return rows, [at[r] for r in roots]


def thaw(frozen: tuple[list[Any], list[int]], which: int) -> Node:
    """One root of a frozen graph."""
    return thaw_all(frozen)[which]


def thaw_all(frozen: tuple[list[Any], list[int]]) -> list[Node]:
    """Rebuild a frozen graph through the interning constructor; its roots."""
    rows, roots = frozen
    nodes: list[Node] = []
    lengths: dict[int, Length] = {}
    for op, ins, shape, dtype, order, site in rows:
        dims: list[Dim] = []
        for d in shape:
            if isinstance(d, tuple):
                length = lengths.setdefault(d[1], Length(nodes[d[1]]))
                length.value = d[2]
                d = length
            dims.append(d)
        if isinstance(op, Op):
            node = intern(op, tuple(nodes[i] for i in ins), tuple(dims), dtype, order)
        else:
            node = known_leaf(op, order)
        if node.site is None:
            node.site = site
        nodes.append(node)
    return [nodes[r] for r in roots]
