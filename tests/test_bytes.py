"""The programs of benchmarks/bytes.py on four workers: they move what they announce, near the least possible."""

import pytest

from benchmarks.bytes import PROGRAMS, Mesh, Row, above, measure

# What a better plan would move is in the table of the benchmark, and why not in docs/design/0026-index-sets.md.
ABOVE = ("A.var(0)", "apply_along_axis(A)")


@pytest.mark.parametrize("row", PROGRAMS, ids=lambda row: row.name)
def test_near_the_lower_bound(row: Row) -> None:
    mesh = Mesh(4)
    found = measure(row, mesh)
    assert found["counted"] <= found["announced"]
    assert above(found, mesh) == (row.name in ABOVE)
