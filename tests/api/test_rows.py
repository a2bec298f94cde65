"""Every family of NumPy's functions, and the methods of arrays, against NumPy."""

from __future__ import annotations

import pytest

from tests.api import rows
from tests.api.support import MODES, check_all

# family, units in the last place that values may differ by, whether the memory order must be NumPy's
FAMILIES = {
    "CREATION": (0, True), "REDUCTION_EXTRAS": (64, False), "PRODUCTS": (512, False), "SHAPES": (0, False), "SELECTING": (8, False),
    "INDEXING": (0, False), "ATTRIBUTES": (8, True), "PROTOCOLS": (64, False),
}  # fmt: skip
REDUCTIONS = "sum prod min max mean var std any all argmin argmax".split()


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("family", FAMILIES)
def test_family(family: str, mode: str) -> None:
    ulps, order = FAMILIES[family]
    check_all(lines(getattr(rows, family)), mode, ulps, order)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str, mode: str) -> None:
    check_all([r.format(f=name) for r in lines(rows.REDUCTIONS)], mode, 64)
