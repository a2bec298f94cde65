"""The programs of benchmarks/layouts.py: no random plan, nor that of a hand analysis, moves less than the solver's."""

import pytest

from benchmarks.bytes import Mesh
from benchmarks.layouts import ROWS, Row, better, measure


@pytest.mark.parametrize("mesh", [Mesh(4), Mesh(4, 2)], ids=["4", "2x2"])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.run.__name__)
def test_no_plan_is_better(row: Row, mesh: Mesh) -> None:
    found = measure(row, mesh, seeds=3)
    assert found["optimal"] and not better(found)
