"""Products and sums of one-hot matrices as reductions by key."""

from __future__ import annotations

import numpy as np

from tilewise.ir.node import Node
from tilewise.ops.bucket import bucket, elsewhere
from tilewise.ops.const import const
from tilewise.ops.contract import Contract
from tilewise.ops.elementwise import Map, apply
from tilewise.ops.index import Gather
from tilewise.ops.rearrange import arranged, source
from tilewise.ops.reduce import Reduce
from tilewise.ops.views import Window
from tilewise.records import dataclass
from tilewise.rewrite.keys import count_up, known, positive, uncast
from tilewise.rewrite.rule import Rule


@dataclass(frozen=True)
class OneHot:
    """A matrix of zeros and ones: along `axis` (the other counts buckets), element i has its one at keys[i]."""

    keys: Node
    buckets: int
    axis: int


def _may_be(node: Node) -> bool:
    """Whether a node is made as one-hot matrices are, as far as plans' keys tell: a comparison, or rows of a matrix."""
    while node.value is None and node.ndim == 2:
        op = node.op
        if type(op) is Map and op.fn.name == "equal":
            return True
        if type(op) is Gather:
            return node.inputs[0].ndim == 2 and node.inputs[1].ndim == 1
        if type(op) is not Window and not (type(op) is Map and op.fn.name == "cast"):
            return False
        node = node.inputs[0]
    return False


def one_hot(node: Node) -> OneHot | None:
    """The one-hot matrix that a node is, if it is one."""
    turned = False
    while node.value is None and node.ndim == 2:
        op = node.op
        if type(op) is Map and op.fn.name == "cast" and (node.inputs[0].dtype.kind == "b" or node.dtype.kind in "iuf"):
            node = node.inputs[0]
        elif type(op) is Window:
            base, axes = source(node)
            if base is node or sorted(a for a in axes if a is not None) != [0, 1]:
                return None
            node, turned = base, turned != (axes == (1, 0))
        else:
            found = _compared(node) if type(op) is Map and op.fn.name == "equal" else _picked(node)
            return found and OneHot(found.keys, found.buckets, found.axis ^ turned)
    return None


def _compared(node: Node) -> OneHot | None:
    """keys[:, None] == arange(k), or arange(k)[:, None] == keys."""
    for x, counted in (node.inputs, node.inputs[::-1]):
        keys, axes = source(uncast(x))
        keys = uncast(keys)
        if keys.ndim != 1 or keys.dtype.kind not in "iu" or 0 not in axes:
            continue
        axis = axes.index(0) + node.ndim - len(axes)
        across = counted.ndim - (node.ndim - (1 - axis))  # the other axis, in what counts
        if keys.shape[0] != node.shape[axis] or across < 0 or counted.shape[across] != node.shape[1 - axis]:
            continue
        if counted.size == counted.shape[across] and count_up(counted):
            return OneHot(keys, node.shape[1 - axis], axis)
    return None


def _picked(node: Node) -> OneHot | None:
    """eye(k)[keys]."""
    op = node.op
    if type(op) is not Gather or op.key != (("a", 0),):
        return None
    eye, keys = node.inputs
    n = eye.shape[0]
    if keys.ndim != 1 or keys.dtype.kind not in "iu" or eye.shape != (n, n):
        return None
    value = known(eye)
    return OneHot(positive(keys, n), n, 0) if value is not None and np.array_equal(value, np.eye(n)) else None


def _product(node: Node) -> bool:
    op = node.op
    assert type(op) is Contract
    return (
        len(node.inputs) == 2
        and all(x.known for x in node.inputs)
        and op.how != "vdot"
        and (node.dtype.kind in "iu" or node.dtype.char in "fd")
        and any(_may_be(x) for x in node.inputs)
    )


def one_hot_product(node: Node) -> Node | None:
    """(keys[:, None] == arange(k)).T @ x => x added up by key (and NaN where a zero meets what is not finite)"""
    op = node.op
    assert type(op) is Contract
    ins, out = op.letters.split("->")
    terms = ins.split(",")
    for k in (0, 1):
        hot, values = node.inputs[k], node.inputs[1 - k]
        if not _may_be(hot) or (found := one_hot(hot)) is None:
            continue
        each, into = terms[k][found.axis], terms[k][1 - found.axis]
        other = terms[1 - k]
        rest = other.replace(each, "")
        fits = other.count(each) == 1 and into not in other and each not in out and sorted(out) == sorted(into + rest)
        if each == into or not fits or values.shape[other.index(each)] != found.keys.shape[0]:
            continue
        rows = arranged(values, [other.index(c) for c in each + rest])
        made = bucket(rows, found.keys, "add", found.buckets)
        if node.dtype.kind == "f":
            made = apply("add", (made, elsewhere(made, rows, found.keys)), (node.dtype,) * 3)
        return arranged(made, [(into + rest).index(c) for c in out])
    return None


def _count(node: Node) -> bool:
    op = node.op
    assert type(op) is Reduce
    return op.fn == "add" and len(op.axes) == 1 and not op.keepdims and _may_be(node.inputs[0])


def one_hot_sum(node: Node) -> Node | None:
    """(keys[:, None] == arange(k)).sum(0) => 1 added up by key"""
    op = node.op
    assert type(op) is Reduce
    found = one_hot(node.inputs[0])
    if found is None or op.axes != (found.axis,):
        return None
    return bucket(const(node.dtype.type(1)), found.keys, "add", found.buckets)


RULES = (Rule((Contract,), _product, one_hot_product, rounds="f"), Rule((Reduce,), _count, one_hot_sum))
