"""A layout in a few words, for explain and for errors."""

from __future__ import annotations

from functools import lru_cache

from tilewise.layout.cuts import even_cuts
from tilewise.layout.placement import Grid, Layout, OnDriver, Partial, Piecewise, Replicate, Shard, Stored, bare

AXIS_NAMES = {0: "rows", 1: "columns"}


@lru_cache(maxsize=4096)
def describe(layout: Layout) -> str:
    match layout:
        case Shard(axis=axis, cuts=cuts, ghosts=ghosts):
            blocks = len(cuts) - 1
            text = f"{AXIS_NAMES.get(axis, f'axis {axis}')}/{blocks}"
            if cuts != even_cuts(cuts[-1], blocks):
                text += " uneven"
            return text if ghosts == (0, 0) else f"{text} with ghosts {ghosts[0]}+{ghosts[1]}"
        case Piecewise(axis=axis, sets=sets):
            return f"{AXIS_NAMES.get(axis, f'axis {axis}')}/{len(sets)} in pieces"
        case Replicate():
            return "replicated"
        case Partial(op=op):
            return f"partial {op.symbol}"
        case OnDriver():
            return "on the driver"
        case Stored():
            return "in a store"
        case Grid(down=down, across=across):
            text = f"{describe(bare(down))} x {describe(bare(across))}"
            both = [f"{p.ghosts[0]}+{p.ghosts[1]}" if isinstance(p, Shard) else "0+0" for p in (down, across)]
            return text if both == ["0+0", "0+0"] else f"{text} with ghosts {' x '.join(both)}"
