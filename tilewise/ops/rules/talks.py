"""Rules of operators along the axis that is cut, where workers talk (ops/regroup.py, engine/talks/)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tilewise.ir.node import Node
from tilewise.layout import Layout, Mesh, Shard, even_shard
from tilewise.ops.contract import LETTERS
from tilewise.ops.index import At, Compress, Gather, Put, one_array
from tilewise.ops.reduce import Arg, Scan
from tilewise.ops.rules.rule import (
    ASSOCIATIVE,
    WHOLE,
    Options,
    Rule,
    axis_cuts,
    by_letters,
    specific,
)
from tilewise.ops.sort import Argsort, Sort


@specific.register
def _(op: Sort, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    for rule in by_letters([LETTERS[: node.ndim]], LETTERS[: node.ndim], node, have, mesh):
        if isinstance(rule.out, Shard) and rule.out.axis != op.axis:
            yield rule
        elif node.ndim == 1 and mesh.workers > 1:
            yield Rule(rule.ins, even_shard(0, node.shape, mesh), talks=True)


@specific.register
def _(op: Scan, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    term = LETTERS[: node.ndim]
    joins = op.fn in ASSOCIATIVE and (node.dtype == np.bool_ or not op.fn.startswith("logical"))
    for rule in by_letters([term], term, node, have, mesh):
        if isinstance(rule.out, Shard) and rule.out.axis != op.axis:
            yield rule
        elif joins and mesh.workers > 1:
            yield Rule(rule.ins, rule.out, talks=True)


@specific.register
def _(op: Argsort, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    term = LETTERS[: node.ndim]
    for rule in by_letters([term], term, node, have, mesh):
        if isinstance(rule.out, Shard) and rule.out.axis != op.axis:
            yield rule
        elif node.ndim == 1 and mesh.workers > 1 and op.kind in ("stable", "mergesort"):
            # Of equal elements, other kinds give the positions in an order that only NumPy's own loops know.
            yield Rule(rule.ins, even_shard(0, node.shape, mesh), talks=True)


@specific.register
def _(op: Arg, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    base = node.inputs[0]
    term = LETTERS[: base.ndim]
    if op.axis is not None:
        out = "".join(c if i != op.axis else c.swapcase() if op.keepdims else "" for i, c in enumerate(term))
        yield from by_letters([term], out, node, have, mesh)
    if mesh.workers == 1 or base.size == 0:
        return
    ends: list[Layout] = [WHOLE, *(even_shard(a, node.shape, mesh) for a, n in enumerate(node.shape) if n > 1)]
    for axis in range(base.ndim) if op.axis is None else (op.axis,):
        if base.shape[axis] >= 2:
            for cuts in axis_cuts(have[0], axis, base.shape[axis], mesh):
                yield from (Rule((Shard(axis, cuts),), end, talks=True) for end in ends)


@specific.register
def _(op: Gather, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    at = one_array(op.key)
    if at is None:
        return
    base, index = node.inputs
    term = LETTERS[: base.ndim]
    own = LETTERS[base.ndim : base.ndim + index.ndim]
    yield from (
        r
        for r in by_letters([term, own], term[:at] + own + term[at + 1 :], node, have, mesh)
        if not (isinstance(r.ins[0], Shard) and r.ins[0].axis == at)
    )
    if mesh.workers == 1 or base.shape[at] < 2:
        return
    for k, n in enumerate(index.shape):
        if n >= 2 or index.size == 1:
            for asked in axis_cuts(have[1], k, n, mesh):
                for cuts in axis_cuts(have[0], at, base.shape[at], mesh):
                    yield Rule((Shard(at, cuts), Shard(k, asked)), Shard(at + k, asked), talks=True)


@specific.register(Put)
@specific.register(At)
def _(op: Any, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    if op.window is not None:
        return
    at, index = one_array(op.key), node.inputs[-1]
    if at is None:
        return
    if index.dtype == np.bool_:
        yield from _masked(node, have, mesh)
    elif index.ndim == 1:
        yield from _indexed(node, at, have, mesh)


def _masked(node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    """Writing where a mask over leading axes holds, one after the other: along these axes, workers talk."""
    base, value, mask = node.inputs
    letters = LETTERS[: base.ndim]
    terms = [letters, LETTERS[base.ndim] + letters[mask.ndim :], letters[: mask.ndim]]
    for rule in by_letters(terms, letters, node, have, mesh):
        if isinstance(rule.out, Shard) and rule.out.axis >= mask.ndim:
            yield rule
    n = base.shape[0]
    if mesh.workers > 1 and n >= 2:
        for cuts in axis_cuts([*have[0], *have[2]], 0, n, mesh):
            for given in axis_cuts(have[1], 0, value.shape[0], mesh):
                yield Rule((Shard(0, cuts), Shard(0, given), Shard(0, cuts)), Shard(0, cuts), talks=True)


def _indexed(node: Node, at: int, have: Options, mesh: Mesh) -> Iterator[Rule]:
    """Writing at the indices of an array: along other axes each block does it; along this one, workers talk."""
    base, *given, index = node.inputs
    letters = LETTERS[: base.ndim]
    own = LETTERS[base.ndim]
    picked = letters[:at] + own + letters[at + 1 :]
    if any(x.ndim > base.ndim for x in given):
        return
    terms = [letters, *(picked[base.ndim - x.ndim :] for x in given), own]
    for rule in by_letters(terms, letters, node, have, mesh):
        if isinstance(rule.out, Shard) and rule.out.axis != at:
            yield rule
    n, length = index.shape[0], base.shape[at]
    if mesh.workers == 1 or n < 1 or length < 2:
        return
    for asked in axis_cuts(have[-1], 0, n, mesh):
        values: list[Layout] = []
        for x in given:
            k = at - (base.ndim - x.ndim)
            values.append(Shard(k, asked) if k >= 0 and x.shape[k] == n > 1 else WHOLE)
        for cuts in axis_cuts(have[0], at, length, mesh):
            yield Rule((Shard(at, cuts), *values, Shard(0, asked)), Shard(at, cuts), talks=True)


@specific.register
def _(op: Compress, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    base, mask = node.inputs
    letters = LETTERS[: base.ndim]
    yield from by_letters([letters, letters[: mask.ndim]], LETTERS[base.ndim] + letters[mask.ndim :], node, have, mesh)
    n = base.shape[0]
    if mesh.workers > 1 and n >= 2:
        even = even_shard(0, node.shape, mesh)
        for cuts in axis_cuts([*have[0], *have[1]], 0, n, mesh):
            yield Rule((Shard(0, cuts), Shard(0, cuts)), even, talks=True)
