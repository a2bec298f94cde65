"""Sums of squared deviations from a mean. In: a pass, its graph. Out: what it is centred on, if it is such a sum.

A mean is known after all tiles, so sums of squares about it would need a second pass over the data. Instead each tile
takes its squares about its own mean, while it is in the caches (plan/tile.py joins the passes).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewise.ir.node import Node
from tilewise.kernel.loops import Kernel, Output
from tilewise.ops.const import Const
from tilewise.ops.elementwise import Map
from tilewise.ops.moments import Terms
from tilewise.ops.reduce import Reduce
from tilewise.records import dataclass
from tilewise.stage.steps import Centre, Pass, Tiled


@dataclass(frozen=True)
class Deviations:
    """A sum of squared deviations: of which value, from which mean, which is which sum divided by which number."""

    value: Any
    mean: Any
    total: Any
    count: Any
    off: Any


def deviations(root: Any) -> Deviations | None:
    """What a node sums the squared deviations from; None if that is not what it does.

    The sum of the mean is over the same value and the same axes. Whether it is divided by the number of its terms
    is checked at each run: plans for one worker have no sizes.
    """
    if type(root.op) is not Reduce or root.op.fn != "add" or root.dtype.char not in "fd" or root.value is not None:
        return None
    off = _squared(root.inputs[0])
    if off is None or off.op.fn.name != "subtract":  # type: ignore[attr-defined]
        return None
    for value, mean in (off.inputs, off.inputs[::-1]):
        total = _total(mean)
        if total is None or total.inputs[0] is not value or total.dtype != root.dtype:
            continue
        if _aligned(total, root.op.axes):
            return Deviations(value, mean, total, mean.inputs[1], off)
    return None


def centre_of(step: Pass, nodes: Sequence[Node], at: Mapping[Node, int]) -> Centre | None:
    """What a pass sums the squared deviations from; None if that is not what it does.

    It may sum the plain deviations, too: these say by how much the mean was rounded.
    """
    root, *more = (nodes[x] for x in step.outs)
    found = deviations(root) if len(more) < 2 else None
    if found is None or at[found.off] not in step.members or at[found.mean] not in (*step.inputs, *step.params):
        return None
    rest = None
    if more:
        (plain,) = more
        if type(plain.op) is not Reduce or plain.op != root.op or plain.inputs[0] is not found.off:
            return None
        rest = step.outs[1]
    constants = len(step.kernel.body) - len(step.members)
    first = len(step.kernel.inputs) + len(step.kernel.params) + constants
    off = first + step.members.index(at[found.off])
    return Centre(at[found.mean], at[found.total], at[found.count], off, rest)


def read_once(step: Pass, group: Tiled) -> tuple[int, tuple[int, ...]] | None:
    """The input whose squared deviations a pass sums, and the earlier sums of it, for the mean.

    None if that is not all.
    """
    centre, kernel = step.centre, step.kernel
    assert centre is not None
    n = len(kernel.inputs)
    of = step.inputs.index(centre.mean) if centre.mean in step.inputs else n + step.params.index(centre.mean)
    (value,) = (a for a in kernel.body[centre.off - n - len(kernel.params)].args if a != of)
    if value >= n or step.letters is not None or step.inputs[value] not in group.inputs:
        return None
    x = step.inputs[value]
    (made,) = (s for s in group.steps if isinstance(s, Pass) and centre.total in s.outs)
    sums = (Output(0, "add"),) * len(made.outs)  # with the axes that they reduce, and without
    plain = Kernel((kernel.inputs[value],), (), (), sums, kernel.reduced)
    return (x, made.outs) if made.inputs == (x,) and made.kernel == plain and made.letters is None else None


def _squared(node: Node) -> Node | None:
    """What a node is the square of."""
    if type(node.op) is not Map or node.value is not None:
        return None
    name, inner = node.op.fn.name, node.inputs[0]
    if (name != "square" and not (name == "multiply" and node.inputs[1] is inner)) or inner.value is not None:
        return None
    return inner if type(inner.op) is Map else None


def _total(mean: Node) -> Node | None:
    """The sum of which a node is a fraction."""
    if mean.value is not None or type(mean.op) is not Map or mean.op.fn.name != "divide":
        return None
    total, count = mean.inputs
    if (
        type(count.op) not in (Const, Terms)
        or total.value is not None
        or type(total.op) is not Reduce
        or total.op.fn != "add"
    ):
        return None
    return total


def _aligned(total: Node, axes: tuple[int, ...]) -> bool:
    """Whether a sum is over these axes, and meets the axes that are left when it is broadcast."""
    op = total.op
    assert isinstance(op, Reduce)
    return op.axes == axes and (op.keepdims or axes == tuple(range(len(axes))))
