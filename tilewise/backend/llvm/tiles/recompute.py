"""Light passes that are computed again where they are read. In: passes that share tiles. Out: fewer of them, and tiles.

A window of a map is the map of windows: a pass whose results are only read through windows need not store them, if each
reader computes its window. That costs instructions and reads of its inputs, and saves stores, reads and the moving of
halos. The windows of its inputs are no nodes of the graph: they get positions beyond it (`Formed.shown`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from tilewise import rounding
from tilewise.backend.llvm.tiles.lengths import tiling
from tilewise.ir.order import Order
from tilewise.ir.scalar import EXPENSIVE
from tilewise.kernel.loops import Instr, Kernel, Output
from tilewise.ops.views import Cut, Window, axes_of
from tilewise.records import dataclass
from tilewise.stage.cut_axis import replaces, space_of
from tilewise.stage.steps import Call, Pass, Tiled, View, makes, passes, reads
from tilewise.stage.tiles import Formed

LOAD, STORE, SIMPLE, DEAR = 2, 8, 1, 20  # of a vector in the L2 cache, and instructions: parts of about 0.15 ns

Sym = tuple[str, int]  # an input, a param or an instruction, by number


@dataclass(frozen=True)
class Shown:
    """The type of a window that the graph does not have."""

    dims: tuple[int, ...]
    dtype: np.dtype[Any]
    order: Order

    @property
    def ndim(self) -> int:
        return len(self.dims)

    @property
    def nbytes(self) -> int:
        return prod(self.dims) * self.dtype.itemsize


def formed(group: Tiled, nodes: Sequence[Any], forced: int | None = None) -> Formed | None:
    """How a group runs with the sizes at hand; None if its passes are better run one by one."""
    for light in passes(group):
        found = _without(light, group, nodes)
        if found is not None:
            fewer, shown = found
            more = [*nodes, *(Shown(op.shape, nodes[x].dtype, nodes[x].order) for x, op in shown)]
            cut = tiling(fewer, more, forced)
            if cut is not None:
                return Formed(fewer, more, shown, cut)
    cut = tiling(group, nodes, forced)
    return None if cut is None else Formed(group, nodes, (), cut)


def _map(step: Pass) -> bool:
    plain = step.letters is None and not replaces(step)
    return plain and not any(step.kernel.reduced) and all(o.reduce is None for o in step.kernel.outputs)


def _without(
    light: Pass, group: Tiled, nodes: Sequence[Any]
) -> tuple[Tiled, tuple[tuple[int, Window | Cut], ...]] | None:
    """The group without one pass, whose readers compute it again; None if that is not possible, or costs more."""
    made, space = {x for s in group.steps for x in makes(s)}, space_of(light, nodes)
    if not light.inputs or not _map(light) or any(x in made or nodes[x].dims != space for x in light.inputs):
        return None
    if any(isinstance(s, Call) or (isinstance(s, Pass) and s.centre is not None) for s in group.steps):
        return None  # what is made after all tiles is found by its number
    seen = {s.pos: s for s in group.steps if isinstance(s, View) and s.input in light.outs}
    hidden = {*light.outs, *seen}
    users = [s for s in passes(group) if hidden.intersection(reads(s))]
    gone = [light, *users, *seen.values()]
    others = [s for s in group.steps if s not in gone]
    if hidden.intersection(group.outs) or any(hidden.intersection(reads(s)) for s in others) or not seen:
        return None
    if not all(_follows(u, seen, nodes) for u in users):
        return None
    shown: dict[tuple[int, Window | Cut], int] = {}
    merged = _merged(light, users, seen, nodes, shown)
    if merged is None or _price(merged) >= sum(_price(s) for s in (light, *users)):
        return None
    first = group.steps.index(users[0])
    steps = [s for s in group.steps[:first] if s in others] + [merged] + [s for s in group.steps[first:] if s in others]
    base = dict(zip(group.inputs, group.sources, strict=True))
    base |= {pos: base[x] for (x, _), pos in shown.items()}
    have = {x for s in steps for x in makes(s)}
    inputs = tuple(dict.fromkeys(x for s in steps for x in reads(s) if x not in have))
    return Tiled(tuple(steps), inputs, group.outs, tuple(base[x] for x in inputs)), tuple(shown)


def _follows(user: Pass, seen: dict[int, View], nodes: Sequence[Any]) -> bool:
    """Whether a pass is a map of nothing but boxes of what a light pass makes."""
    if not _map(user) or not all(x in seen for x in user.inputs):
        return False
    ops = [nodes[x].op for x in user.inputs]
    return all(isinstance(op, Cut) or (isinstance(op, Window) and _box(op)) for op in ops)


def _box(op: Window) -> bool:
    axes = axes_of(op)
    return axes is not None and all(a.base is not None for a in axes)


def _merged(
    light: Pass, users: Sequence[Pass], seen: dict[int, View], nodes: Sequence[Any], shown: dict[Any, int]
) -> Pass | None:
    """One pass for all users, which computes the light one for each window that they see."""
    if len({space_of(u, nodes) for u in users}) != 1 or sum(len(u.outs) for u in users) > rounding.RECOMPUTED_OUTS:
        return None
    body = _Body()
    for user in users:
        feed = []
        for x in user.inputs:
            op = nodes[x].op
            made = body.add(light, [body.read(p, op, shown, nodes) for p in light.inputs])
            feed.append(made[light.outs.index(seen[x].input)])
        body.results += body.add(user, feed)
    outs = tuple(o for u in users for o in u.outs)
    members = tuple(dict.fromkeys(m for s in (light, *users) for m in s.members))
    kernel = body.kernel(len(space_of(users[0], nodes)))
    if len(kernel.body) > rounding.RECOMPUTED_BODY:
        return None
    return Pass(kernel, tuple(body.inputs), tuple(body.params), outs, users[0].space, members, (None,) * len(outs))


class _Body:
    """Instructions of several passes, each once."""

    def __init__(self) -> None:
        self.inputs: dict[int, str] = {}
        self.params: dict[int, str] = {}
        self.instrs: dict[tuple[str, tuple[Sym, ...], str], int] = {}
        self.results: list[Sym] = []

    def read(self, pos: int, op: Window | Cut, shown: dict[Any, int], nodes: Sequence[Any]) -> Sym:
        """A window of an input."""
        at = shown.setdefault((pos, op), len(nodes) + len(shown))
        self.inputs.setdefault(at, nodes[pos].dtype.name)
        return "input", list(self.inputs).index(at)

    def add(self, step: Pass, feed: list[Sym]) -> list[Sym]:
        """The instructions of a pass on some values; its results."""
        known = list(feed)
        for p, dtype in zip(step.params, step.kernel.params, strict=True):
            self.params.setdefault(p, dtype)
            known.append(("param", list(self.params).index(p)))
        for i in step.kernel.body:
            key = (i.fn, tuple(known[a] for a in i.args), i.dtype)
            known.append(("instr", self.instrs.setdefault(key, len(self.instrs))))
        return [known[o.value] for o in step.kernel.outputs]

    def kernel(self, rank: int) -> Kernel:
        """All of it."""
        begin = {"input": 0, "param": len(self.inputs), "instr": len(self.inputs) + len(self.params)}
        body = [Instr(fn, tuple(begin[k] + n for k, n in args), dtype) for fn, args, dtype in self.instrs]
        outputs = [Output(begin[k] + n) for k, n in self.results]
        names = tuple(self.inputs.values()), tuple(self.params.values())
        return Kernel(*names, tuple(body), tuple(outputs), (False,) * rank)


def _price(step: Pass) -> int:
    """What a pass costs per vector."""
    kernel = step.kernel
    work = sum(DEAR if i.fn in EXPENSIVE else SIMPLE for i in kernel.body)
    return LOAD * len(kernel.inputs) + STORE * len(kernel.outputs) + work
