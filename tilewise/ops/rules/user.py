"""The rule of a user's function on tiles: along the letters that it was declared to be tiled by."""

from __future__ import annotations

from collections.abc import Iterator

from tilewise.ir.node import Node
from tilewise.layout import Mesh
from tilewise.ops.rules.rule import Options, Rule, by_letters, specific
from tilewise.ops.user import Opaque


@specific.register
def _(op: Opaque, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    ins, out = op.letters.split("->")
    yield from by_letters(ins.split(","), out, node, have, mesh, op.accum)
