"""The programs of benchmarks/layouts.py: which plans, random or made by hand, move less than the solver's."""

import pytest

from benchmarks.bytes import Mesh
from benchmarks.layouts import ROWS, Row, better, measure

# A single number is left on all workers, though only the driver is expected to read it (0010-tiling-problem.md).
BETTER = {("find_change", 1), ("predict_price", 1)}


@pytest.mark.parametrize("mesh", [Mesh(4), Mesh(4, 2)], ids=["4", "2x2"])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.run.__name__)
def test_what_other_plans_move(row: Row, mesh: Mesh) -> None:
    found = measure(row, mesh, seeds=3)
    assert found["optimal"] and found["solver"] <= found["best"]
    assert better(found) == ((row.run.__name__, mesh.columns) in BETTER)
