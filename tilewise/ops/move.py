"""A change of layout. In: a node. Out: the same value in other places (mesh plans only)."""

from __future__ import annotations

from typing import Any

from tilewise.errors import LayoutError, message
from tilewise.ir.node import Node, Op, intern
from tilewise.layout import Layout, Mesh, Placement, Replicate, describe, even_shard, grid_layout
from tilewise.records import dataclass


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


@dataclass(frozen=True)
class Pin(Op):
    """A value in a layout that the user chose: an axis (None: not cut) for all workers, or one per direction of a grid.

    `parts` are how many parts the user expects each to be cut into (None: as many as there are workers).
    """

    axes: tuple[int | None, ...]
    parts: tuple[int | None, ...]
    name = "relayout"
    stays = True

    def numpy(self, *arrays: Any) -> Any:
        return arrays[0][...]

    def label(self) -> str:
        return f"relayout({', '.join(map(str, self.axes))})"

    def layout(self, shape: tuple[int, ...], mesh: Mesh) -> Layout:
        """The layout on a mesh; an error where the mesh has no such directions."""
        lines = (mesh,) if len(self.axes) == 1 else (mesh.down, mesh.across)
        if len(self.axes) == 2 and not mesh.grid:
            raise LayoutError(
                message(
                    "a layout with two directions needs a mesh with two",
                    got=f"{self.label()} on {mesh} workers",
                    cure="Open the session with mesh=(2, 4), or give one axis",
                )
            )
        if mesh.total_blocks == 1:
            return Replicate()
        chosen: list[Placement] = []
        for axis, parts, line in zip(self.axes, self.parts, lines, strict=True):
            if parts is not None and parts != line.total_blocks:
                raise LayoutError(
                    message(
                        f"axis {axis} cannot be cut into {parts} parts",
                        got=f"a mesh of {mesh} workers with {mesh.blocks} blocks each",
                        cure=f"Ask for {line.total_blocks}",
                    )
                )
            chosen.append(Replicate() if axis is None else even_shard(axis, shape, line))
        return chosen[0] if len(chosen) == 1 else grid_layout(*chosen)


def pin(x: Node, axes: tuple[int | None, ...], parts: tuple[int | None, ...]) -> Node:
    """The node of a pinned value."""
    return intern(Pin(axes, parts), (x,), x.shape, x.dtype, x.order)
