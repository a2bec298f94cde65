"""Reductions by key. In: values with a leading axis, a key for each. Out: one result per bucket (`ij,i->bj`).

Histograms, segment sums, `bincount`, `np.add.at` on zeros and products with a one-hot matrix are all this.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tilewise import rounding
from tilewise.ir.node import Node, Op, intern
from tilewise.ir.reductions import by_name, splits
from tilewise.ir.scalar import UFUNCS
from tilewise.kernel.loops import Kernel, Output
from tilewise.kernel.native_support import supports_bucket
from tilewise.layout import Mesh, Partial, Shard
from tilewise.ops.elementwise import Map
from tilewise.ops.rearrange import arranged
from tilewise.ops.reduce import Arg
from tilewise.ops.traits.batch import Rolled, batch
from tilewise.ops.traits.lower import Loops, accumulates, own_loops, reduced_axes
from tilewise.ops.traits.rule import LETTERS, Options, Rule, axis_cuts, by_letters, specific
from tilewise.ops.views import Window
from tilewise.records import dataclass

ND = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Bucket(Op):
    """`fn` over the values of each key in [0, buckets); other keys are left out, and what is empty has fn's identity.

    Values are (i, ...) or, the same for every key, a number. Sums of floats begin at 0.0.
    """

    fn: str
    buckets: int
    name = "bucket"

    @property
    def signature(self) -> Any:
        return (Bucket, self.fn)

    def numpy(self, *arrays: Any) -> Any:
        values, keys = arrays
        keys, values = _inside(keys, values, self.buckets)
        if self.fn == "add" and values.ndim == 0:
            counts = np.bincount(keys, minlength=self.buckets)
            return (counts * values).astype(values.dtype)
        if self.fn == "add" and values.dtype.char in "efdFD":
            return _sums(values, keys, self.buckets)
        out = np.full((self.buckets, *values.shape[1:]), by_name(self.fn).identity(values.dtype))
        UFUNCS[self.fn].at(out, keys, values)
        return out

    def label(self) -> str:
        return f"{self.fn} by key"


def _inside(keys: ND, values: ND, buckets: int) -> tuple[ND, ND]:
    """Keys and values without what belongs to no bucket."""
    if keys.size and (keys.min() < 0 or keys.max() >= buckets):
        inside = (keys >= 0) & (keys < buckets)
        keys, values = keys[inside], values if values.ndim == 0 else values[inside]
    return keys.astype(np.intp, copy=False), values


def _sums(values: ND, keys: ND, buckets: int) -> ND:
    """Sums of floats, in float64 until the end."""
    if values.dtype.kind == "c":
        parts = [_sums(part, keys, buckets) for part in (values.real, values.imag)]
        out: ND = np.empty(parts[0].shape, values.dtype)
        out.real, out.imag = parts
        return out
    if values.ndim == 1:
        return np.bincount(keys, values, minlength=buckets).astype(values.dtype, copy=False)
    width = int(np.prod(values.shape[1:], dtype=np.intp))
    total = np.zeros((buckets, width))
    rows = max(rounding.BUCKET_NUMPY_CHUNK // max(width, 1), 4 * buckets, 1)
    across = np.arange(width)
    for low in range(0, len(keys) if width else 0, rows):
        some, part = keys[low : low + rows], values[low : low + rows].reshape(-1, width)
        at = some[:, None] * width + across
        total += np.bincount(at.ravel(), part.ravel(), minlength=total.size).reshape(total.shape)
    return total.reshape(buckets, *values.shape[1:]).astype(values.dtype, copy=False)


def bucket(values: Node, keys: Node, fn: str, buckets: int) -> Node:
    """The node of a reduction by key."""
    return intern(Bucket(fn, buckets), (values, keys), (buckets, *values.shape[1:]), values.dtype)


@dataclass(frozen=True)
class Elsewhere(Op):
    """Of a product with a one-hot matrix, what the zeros add: 0 * x over all elements of other buckets.

    Inputs are the sums by key, the values and the keys. That is 0.0, but NaN where another bucket (or none) has an
    element that is not finite. Sums that are all finite say that there is no such element: then nothing is looked at.
    """

    inside: bool  # every key is known to have a bucket
    name = "elsewhere"

    @property
    def signature(self) -> Any:
        return self

    def numpy(self, *arrays: Any) -> Any:
        sums, values, keys = arrays
        out = np.zeros(sums.shape, sums.dtype)
        buckets = len(sums)
        all_in = self.inside or not keys.size or (keys.min() >= 0 and keys.max() < buckets)
        if all_in and np.isfinite(sums).all():
            return out
        wild = ~np.isfinite(values)
        rows = np.flatnonzero(wild.reshape(len(wild), -1).any(axis=1))
        own = Bucket("add", buckets).numpy(wild[rows].astype(np.intp), keys[rows])
        out[wild[rows].sum(axis=0) > own] = np.nan
        return out


def elsewhere(sums: Node, values: Node, keys: Node) -> Node:
    """What a one-hot product adds to sums by key."""
    limit = below(keys)
    inside = limit is not None and limit <= sums.shape[0]
    return intern(Elsewhere(inside), (sums, values, keys), sums.shape, sums.dtype)


def below(keys: Node) -> int | None:
    """A number that all keys are below, if they are known not to be negative; None if nothing is known.

    Positions of extremes are below the length of the axis, whatever the data.
    """
    while keys.value is None:
        op = keys.op
        if type(op) is Arg:
            base = keys.inputs[0]
            if not base.known:
                return None
            return int(base.size if op.axis is None else base.shape[op.axis])
        cast = type(op) is Map and op.fn.name == "cast" and np.can_cast(keys.inputs[0].dtype, keys.dtype, "safe")
        if not cast and not (type(op) is Window and op.dtype == op.base_dtype):
            return None
        keys = keys.inputs[0]
    return None


# -- on a mesh -----------------------------------------------------------------------------------------------------


@specific.register(Bucket)
def _(op: Bucket, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    each = LETTERS[: node.inputs[0].ndim]
    over = op.fn if splits(op.fn) else None
    yield from by_letters([each, "a"], LETTERS[-1] + each[1:], node, have, mesh, over)


@specific.register(Elsewhere)
def _(op: Elsewhere, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    each = LETTERS[: node.ndim]
    sums = LETTERS[-1] + each[1:]
    for rule in by_letters([sums, each, "a"], sums, node, have, mesh):
        if isinstance(rule.out, Shard) and rule.out.axis > 0:
            yield rule
    if node.inputs[1].shape[0] >= 2:  # a block's own sums say whether its own elements are finite
        for cuts in axis_cuts([*have[1], *have[2]], 0, node.inputs[1].shape[0], mesh):
            yield Rule((Partial("add"), Shard(0, cuts), Shard(0, cuts)), Partial("add"))


# -- together with others, and as loops ------------------------------------------------------------------------------


@batch.register(Bucket)
def _(op: Bucket, first: Node, ins: list[Rolled], count: int, last: bool) -> Node | None:
    values, keys = ins
    if keys.many or not first.inputs[0].ndim:
        return None
    n = values.node.ndim
    rows = values.node if last else arranged(values.node, [1, 0, *range(2, n)])
    made = bucket(rows, keys.node, op.fn, op.buckets)
    return made if last else arranged(made, [1, 0, *range(2, n)])


@reduced_axes.register(Bucket)
def _(op: Bucket, node: Node) -> tuple[int, ...]:
    return (0,)


@accumulates.register(Bucket)
def _(op: Bucket, node: Node) -> bool:
    """By key: a key for each point, values for each or one for all."""
    values, keys = node.inputs
    return _native(op, node) and (not values.shape or values.shape == keys.shape)


@own_loops.register(Bucket)
def _(op: Bucket, node: Node) -> Loops | None:
    """Rows by key."""
    ndim = node.inputs[0].ndim
    if not ndim or not _native(op, node):
        return None
    kernel = Kernel((node.dtype.name, "int64"), (), (), (Output(0, op.fn, key=1),), (True, *(False,) * (ndim - 1)))
    return Loops(kernel, (0, 1), space=0, letters=(tuple(range(ndim)), (0,)))


def _native(op: Bucket, node: Node) -> bool:
    """Whether native code can add up the values."""
    values, keys = node.inputs
    plain = keys.dtype == np.int64 and keys.ndim == 1 and values.dtype == node.dtype and node.dtype.isnative
    return plain and supports_bucket(op.fn, node.dtype.name)
