"""What plans may ask of this machine. In: its caches, and what measurements say of tiles. Out: `Facts`."""

from __future__ import annotations

from tilewise import rounding
from tilewise.backend.base import Facts
from tilewise.machine import machine


def host_facts(vector_bytes: int) -> Facts:
    """The facts of this machine, for code with vectors of some bytes."""
    m = machine()
    sizes = m.l1_bytes, m.l2_bytes, m.l3_bytes, m.memory_bytes
    return Facts(
        vector_bytes, *sizes, rounding.TILE_BYTES, rounding.TILE_ROWS, rounding.PRODUCT_ROWS, rounding.HALO_BYTES
    )
