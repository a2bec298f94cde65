"""A user's function on tiles. In: nodes, the function, the letters along which it may be cut. Out: a node.

The letters are the user's word that the function of a part is that part of the function, along those that operands and
result share; `accum` says how parts along the letter JOINED, which the result lacks, come together. The function sees
ndarrays; nothing looks into it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewise.ir.node import Node, Op, Shape, intern

JOINED = "Z"


@dataclass(frozen=True)
class Opaque(Op):
    """`run` on whole blocks. Equal if the key is: code, defaults and closure values of the user's function."""

    run: Callable[..., Any] = field(compare=False)
    key: Hashable
    letters: str
    accum: str | None
    text: str
    name = "user function"

    @property
    def signature(self) -> Any:
        return (Opaque, self.letters, self.text)  # a plan for one worker takes the function from the graph

    def numpy(self, *arrays: Any) -> Any:
        return self.run(*arrays)

    def label(self) -> str:
        return f"{self.text} on NumPy tiles"


def opaque(op: Opaque, inputs: tuple[Node, ...], shape: Shape, dtype: np.dtype[Any]) -> Node:
    """The node of a user's function; it gives C-ordered arrays of this type."""
    return intern(op, inputs, shape, dtype)
