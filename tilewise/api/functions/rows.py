"""Whether a graph works on rows alone. In: a template, which axis is tiled. Out: nothing, or `Untraceable`.

Each operator says where the tiled axis goes; one that mixes rows, or that knows how many there are, ends the walk.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from tilewise.api.functions.purity import Untraceable
from tilewise.api.functions.trace.array_trace import Template
from tilewise.ir.node import Node
from tilewise.ops.contract import Contract
from tilewise.ops.create import Full
from tilewise.ops.elementwise import Map
from tilewise.ops.fft import Fft
from tilewise.ops.join import Broadcast, Copy
from tilewise.ops.order.sort import Argsort, Sort
from tilewise.ops.reduce import Arg, Reduce, Scan
from tilewise.ops.views import Window, explain


def by_rows(template: Template, result: Node, tiled: Sequence[int | None], axis: int) -> None:
    """Raise unless rows of the result are what the function gives for rows of the inputs."""
    extra = len(template.inputs) - len(tiled)
    at: dict[Node, int | None] = dict(zip(template.inputs, [*tiled, *[None] * extra], strict=True))
    for n in template.order:
        if n not in at:
            ins = [at[x] for x in n.inputs] if n.value is None else []
            at[n] = None if all(a is None for a in ins) else _axis(n.op, n, ins)
            if at[n] is not None and any(_counts(x, n, at) for x in n.inputs):
                raise Untraceable(f"{n.op.label()} with something as long as all rows")
    if at[result] != axis:
        raise Untraceable(f"a result that does not have its rows along axis {axis}")


def _counts(x: Node, n: Node, at: dict[Node, int | None]) -> bool:
    """Whether an operand that does not hang on rows has as many."""
    k = at[n]
    if at[x] is not None or type(n.op) is not Map or type(x.op) is Full or k is None:
        return False
    place = k - (n.ndim - x.ndim)
    return place >= 0 and x.shape[place] != 1


def _mixes(op: Any) -> Untraceable:
    return Untraceable(f"{op.label()}, which may mix rows")


@functools.singledispatch
def _axis(op: Any, n: Node, ins: Sequence[int | None]) -> int | None:
    """Where an operator leaves the tiled axis of its operands."""
    raise _mixes(op)


@_axis.register(Map)
@_axis.register(Broadcast)
def _(op: Any, n: Node, ins: Sequence[int | None]) -> int | None:
    places = {a + n.ndim - x.ndim for a, x in zip(ins, n.inputs, strict=True) if a is not None}
    if len(places) > 1:
        raise _mixes(op)
    return places.pop()


@_axis.register(Copy)
def _(op: Copy, n: Node, ins: Sequence[int | None]) -> int | None:
    return ins[0]


@_axis.register(Sort)
@_axis.register(Argsort)
@_axis.register(Scan)
@_axis.register(Fft)
def _(op: Any, n: Node, ins: Sequence[int | None]) -> int | None:
    if op.axis == ins[0]:
        raise _mixes(op)
    return ins[0]


@_axis.register(Reduce)
def _(op: Reduce, n: Node, ins: Sequence[int | None]) -> int | None:
    return _left(op, op.axes, ins[0], op.keepdims)


@_axis.register(Arg)
def _(op: Arg, n: Node, ins: Sequence[int | None]) -> int | None:
    if op.axis is None:
        raise _mixes(op)
    return _left(op, (op.axis,), ins[0], op.keepdims)


def _left(op: Any, axes: tuple[int, ...], at: int | None, keepdims: bool) -> int | None:
    if at is None or at in axes:
        raise _mixes(op)
    return at if keepdims else at - sum(a < at for a in axes)


@_axis.register(Window)
def _(op: Window, n: Node, ins: Sequence[int | None]) -> int | None:
    found = explain(op)
    for k, walk in enumerate(() if found is None else found[0]):
        if walk.base is not None and walk.base == ins[0]:
            if (walk.start, walk.step, walk.length) == (0, 1, n.inputs[0].shape[walk.base]):
                return k
            break
    raise _mixes(op)


@_axis.register(Contract)
def _(op: Contract, n: Node, ins: Sequence[int | None]) -> int | None:
    terms, out = op.letters.split("->")
    letters = {t[a] for t, a in zip(terms.split(","), ins, strict=True) if a is not None}
    letter = letters.pop()
    whole = [t for t, a in zip(terms.split(","), ins, strict=True) if a is None]
    if letters or letter not in out or any(letter in t for t in whole):
        raise _mixes(op)
    return out.index(letter)
