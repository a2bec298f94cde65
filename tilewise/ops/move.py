"""A change of layout. In: a node. Out: the same value in other places (mesh plans only)."""

from __future__ import annotations

from typing import Any

import numpy as np

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


class Regroup(Move):
    """Blocks that are sorted each become one sorted array, cut as `dst` says. What moves depends on the data."""

    __slots__ = ()
    name = "sample sort"

    def numpy(self, *arrays: Any) -> Any:
        return np.sort(arrays[0])

    def label(self) -> str:
        return "sample sort"
