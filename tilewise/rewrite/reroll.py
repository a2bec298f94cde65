"""Re-rolling: siblings that are equal but for a number or a slice become one node with one more axis.

Loops over columns and over clusters, several products with one matrix: whatever was computed for each and then stacked.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tilewise import rounding
from tilewise.ir.node import Node, known_leaf
from tilewise.ops.const import Const
from tilewise.ops.join import Concat
from tilewise.ops.rearrange import arranged
from tilewise.ops.reduce import Reduce
from tilewise.ops.traits.batch import Rolled, batch
from tilewise.ops.views import Window, explain, view
from tilewise.rewrite.masked import by_key
from tilewise.rewrite.rule import Rule

Siblings = tuple[Node, ...]


def _shaped(node: Node) -> bool:
    parts = node.inputs
    if len(parts) < rounding.REROLL_MIN_SIBLINGS or any(p.value is not None or type(p.op) is not Window for p in parts):
        return False
    first = parts[0].inputs[0]  # a part is a view with a new axis of what was computed
    return first.value is None and all(p.inputs[0].value is None and p.inputs[0].op == first.op for p in parts)


def rerolled(node: Node) -> Node | None:
    """stack([f(x[:, 0]), f(x[:, 1]), ...], 1) => f(x), and with x[keys == j] for x[:, j] => f(x by key)"""
    op = node.op
    assert type(op) is Concat
    if any(p.shape[op.axis] != 1 for p in node.inputs):
        return None
    last = _last(node.inputs)
    made = _rolled(node.inputs, last, max(rounding.REROLL_MAX_BYTES, node.nbytes))
    if made is None or not made.many:
        return None
    lead = list(range(node.ndim)) if last else list(range(1, node.ndim + 1))
    lead[op.axis] = node.ndim if last else 0
    return arranged(made.node, lead)


def _rolled(top: Siblings, last: bool, most: int) -> Rolled | None:
    """The node that stands for all siblings.

    Siblings are computed one after the other, their node at once: no value may be larger than `most` bytes, or the
    value that they are slices of. (A pass never stores most of them, but not all functions can be part of one.)
    """
    done: dict[Siblings, Rolled] = {}
    stack = [top]
    while stack:
        same = stack[-1]
        if same in done:
            stack.pop()
            continue
        made = _at_once(same, last)
        if made is None:
            first = same[0]
            if len(done) > rounding.REROLL_MAX_NODES:
                return None
            if any(s.value is not None or s.op != first.op or not s.known for s in same):
                return None
            ins = [tuple([s.inputs[k] for s in same]) for k in range(len(first.inputs))]
            missing = [x for x in ins if x not in done]
            if missing:
                stack += missing
                continue
            node = batch(first.op, first, [done[x] for x in ins], len(same), last)
            if node is None or (type(node.op) is not Window and node.nbytes > most):
                return None
            made = Rolled(node, True)
        elif made.many:
            most = max(most, made.node.nbytes)
        done[same] = made
        stack.pop()
    return done[top]


def _at_once(same: Siblings, last: bool) -> Rolled | None:
    """Siblings that need no look behind them: all the same, numbers, slices of one value, sums by key."""
    first = same[0]
    if all(s is first for s in same):
        return Rolled(first, False)
    ops = [s.op for s in same]
    if any(s.value is not None for s in same):
        return None
    if type(first.op) is Const and all(type(op) is Const and op.value.dtype == first.dtype for op in ops):
        values = np.array([op.value for op in ops if isinstance(op, Const)], first.dtype)
        return Rolled(known_leaf(values, None), True)
    if type(first.op) is Window and (sliced := _slices(same, last)) is not None:
        return Rolled(sliced, True)
    if type(first.op) is Reduce and (made := by_key(same)) is not None:
        return Rolled(arranged(made, [*range(1, made.ndim), 0]) if last and made.ndim > 1 else made, True)
    return None


def _step(same: Siblings) -> int | None:
    """Bytes from each slice of one value to the next; None if they are not so."""
    op = same[0].op
    assert type(op) is Window
    ops = [s.op for s in same if type(s.op) is Window and s.inputs[0] is same[0].inputs[0]]
    if len(ops) < len(same) or any(o != replace(op, offset=o.offset) for o in ops):
        return None
    step = ops[1].offset - op.offset
    return step if all(o.offset == op.offset + j * step for j, o in enumerate(ops)) else None


def _slices(same: Siblings, last: bool) -> Node | None:
    first = same[0]
    op, step = first.op, _step(same)
    assert type(op) is Window
    if step is None:
        return None
    shape = (*op.shape, len(same)) if last else (len(same), *op.shape)
    strides = (*op.strides, step) if last else (step, *op.strides)
    made = view(first.inputs[0], op.offset, shape, strides, op.dtype)
    plain = type(made.op) is not Window or made.value is not None or explain(made.op) is not None
    return made if plain else None  # overlapping slices are no box that a mesh could cut


def _last(top: Siblings) -> bool:
    """Whether the new axis is the fastest in memory, as for columns: then it comes last."""
    pair = (top[0], top[1])
    seen: set[Siblings] = set()
    stack: list[Siblings] = [pair]
    while stack and len(seen) < rounding.REROLL_MAX_NODES:
        a, b = stack.pop()
        if a is b or (a, b) in seen or a.value is not None or b.value is not None:
            continue
        seen.add((a, b))
        if type(a.op) is Window and type(b.op) is Window and a.inputs[0] is b.inputs[0]:
            step = abs(b.op.offset - a.op.offset)
            return all(step <= abs(s) for s, n in zip(a.op.strides, a.op.shape, strict=True) if n > 1)
        stack += zip(a.inputs, b.inputs, strict=False)
    return False


RULES = (Rule((Concat,), _shaped, rerolled, rounds="biufc"),)  # what is compared or cast may have been rounded before
