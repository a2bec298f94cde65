"""The programs of benchmarks/bytes.py on a line and a grid: they move what they announce, near the least possible."""

import pytest

from benchmarks.bytes import PROGRAMS, Mesh, Row, above, measure

MESHES = {"4": Mesh(4), "2x2": Mesh(4, 2)}
# What a better plan would move is in the table of the benchmark, and why not in docs/design/0026-index-sets.md.
ABOVE = {
    "4": ("A.var(0)",),
    "2x2": ("A.var(0)", "A.reshape(-1, 8).sum(1)"),
}


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("row", PROGRAMS, ids=lambda row: row.name)
def test_near_the_lower_bound(row: Row, mesh: str) -> None:
    found = measure(row, MESHES[mesh])
    assert found["counted"] <= found["announced"]
    assert above(found, MESHES[mesh]) == (row.name in ABOVE[mesh])
