"""A user's function on tiles. In: nodes, the function, the letters along which it may be cut. Out: a node.

The letters are the user's word that the function of a part is that part of the function, along those that operands and
result share; `accum` says how parts along the letter JOINED, which the result lacks, come together: a ufunc's name, or
(a fold) a reduction of the user's own. The function sees ndarrays; nothing looks into it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import field
from typing import Any

import numpy as np

from tilewise.ir.node import Node, Op, Shape, intern
from tilewise.ir.reductions import Reduction
from tilewise.layout import Mesh, Partial, Shard
from tilewise.ops.reduce import contribution
from tilewise.ops.traits.rule import WHOLE, Options, Rule, by_letters, cuts_of, settled, specific
from tilewise.records import dataclass

JOINED = "Z"


@dataclass(frozen=True)
class Opaque(Op):
    """`run` on whole blocks. Equal if the key is: code, defaults and closure values of the user's function."""

    run: Callable[..., Any] = field(compare=False)
    key: Hashable
    letters: str
    accum: str | Reduction | None
    text: str
    name = "user function"

    @property
    def signature(self) -> Any:
        return (Opaque, self.letters, self.text)  # a plan for one worker takes the function from the graph

    def numpy(self, *arrays: Any) -> Any:
        return self.run(*arrays)

    def label(self) -> str:
        return f"{self.text}, compiled" if getattr(self.run, "native", False) else f"{self.text} on NumPy tiles"


@dataclass(frozen=True)
class Folded(Op):
    """What a user's function makes of a block, as a contribution to what it makes of the whole."""

    of: Opaque
    name = "fold of block"

    def numpy(self, *arrays: Any) -> Any:
        assert isinstance(self.of.accum, Reduction)
        made = np.asarray(self.of.run(*arrays))
        return self.of.accum.lift(made, np.zeros((), np.intp))

    def label(self) -> str:
        return f"{self.of.text}, of blocks"


@contribution.register(Opaque)
def _(op: Opaque, node: Node) -> Op:
    return Folded(op)


def opaque(op: Opaque, inputs: tuple[Node, ...], shape: Shape, dtype: np.dtype[Any]) -> Node:
    """The node of a user's function; it gives C-ordered arrays of this type."""
    return intern(op, inputs, shape, dtype)


# -- on a mesh -----------------------------------------------------------------------------------------------------


@specific.register(Opaque)
def _(op: Opaque, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    ins, out = op.letters.split("->")
    terms = ins.split(",")
    yield from by_letters(terms, out, node, have, mesh)
    if op.accum is not None:
        shapes = [x.shape for x in node.inputs]
        size = next(s[t.index(JOINED)] for t, s in zip(terms, shapes, strict=True) if JOINED in t)
        for cuts in cuts_of(JOINED, size, terms, shapes, have, node, mesh) if size > 1 else ():
            places = tuple(Shard(t.index(JOINED), cuts) if JOINED in t else WHOLE for t in terms)
            if isinstance(op.accum, str):
                yield Rule(places, Partial(op.accum))
            else:
                yield from (Rule(places, end, line=True, partial=Partial(op.accum)) for end in settled(node, mesh))
