"""A change of layout. In: a node. Out: the same value in other places (mesh plans only)."""

from __future__ import annotations

from typing import Any

from tilewise.ir.node import Op
from tilewise.layout import Layout, describe


class Move(Op):
    """From one layout to another. No two are equal: a plan has each of its exchanges once."""

    __slots__ = ("dst", "src")
    name = "move"

    def __init__(self, src: Layout, dst: Layout) -> None:
        self.src = src
        self.dst = dst

    def numpy(self, *arrays: Any) -> Any:
        return arrays[0]

    def label(self) -> str:
        return f"move to {describe(self.dst)}"
