"""Where arrays lie on a mesh of workers, and exactly what moves when that changes. Moves no data (see engine/)."""

from tilewise.layout.cuts import (
    Cuts,
    concat_cuts,
    even_cuts,
    local_slice,
    merge_cuts,
    slice_cuts,
    split_cuts,
)
from tilewise.layout.describe import describe
from tilewise.layout.moves import Exchange, Kind, Piece, moves
from tilewise.layout.placement import (
    DRIVER,
    Box,
    Layout,
    Mesh,
    OnDriver,
    Partial,
    Replicate,
    Shard,
    box_size,
    check,
    even_shard,
    held_box,
    owned_box,
    place,
)
from tilewise.layout.route import route

__all__ = [
    "DRIVER",
    "Box",
    "Cuts",
    "Exchange",
    "Kind",
    "Layout",
    "Mesh",
    "OnDriver",
    "Partial",
    "Piece",
    "Replicate",
    "Shard",
    "box_size",
    "check",
    "concat_cuts",
    "describe",
    "even_cuts",
    "even_shard",
    "held_box",
    "local_slice",
    "merge_cuts",
    "moves",
    "owned_box",
    "place",
    "route",
    "slice_cuts",
    "split_cuts",
]
