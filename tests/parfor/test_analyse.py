"""tw.parfor.analyse on loops with known answers (collection.py)."""

from __future__ import annotations

import pytest

from tests.parfor.collection import ROWS, SETUP, Row
from tilewise.parfor.analyse import analyse


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.source.replace("\n", "; ")[:90])
def test_known_answers(row: Row) -> None:
    found = analyse(row.source, SETUP + row.setup)
    assert tuple(v.independent for v in found) == row.answers, "\n".join(map(str, found))
    for verdict in found:
        assert verdict.independent == (verdict.pair is None) == (verdict.variable is None)
