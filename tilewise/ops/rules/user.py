"""The rule of a user's function on tiles: along the letters that it was declared to be tiled by."""

from __future__ import annotations

from collections.abc import Iterator

from tilewise.ir.node import Node
from tilewise.layout import Mesh, Partial, Shard
from tilewise.ops.rules.rule import WHOLE, Options, Rule, by_letters, cuts_of, specific
from tilewise.ops.user import JOINED, Opaque


@specific.register
def _(op: Opaque, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    ins, out = op.letters.split("->")
    terms = ins.split(",")
    yield from by_letters(terms, out, node, have, mesh)
    if op.accum is not None:
        shapes = [x.shape for x in node.inputs]
        size = next(s[t.index(JOINED)] for t, s in zip(terms, shapes, strict=True) if JOINED in t)
        for cuts in cuts_of(JOINED, size, terms, shapes, have, node, mesh) if size > 1 else ():
            yield Rule(tuple(Shard(t.index(JOINED), cuts) if JOINED in t else WHOLE for t in terms), Partial(op.accum))
