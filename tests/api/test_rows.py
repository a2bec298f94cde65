"""Every family of NumPy's functions, and the methods of arrays, against NumPy."""

from __future__ import annotations

import pytest

import tilewise
from tests.api.support import MODES, check_all, rows

# family, units in the last place that values may differ by, whether the memory order must be NumPy's
FAMILIES = {
    "creation": (0, True),
    "reduction_extras": (64, False),
    "products": (512, False),
    "shapes": (0, False),
    "selecting": (8, False),
    "indexing": (0, False),
    "attributes": (8, True),
    "protocols": (64, False),
}
ON_WORKERS = "shapes selecting indexing attributes".split()
REDUCTIONS = "sum prod min max mean var std any all argmin argmax".split()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("family", FAMILIES)
def test_family(family: str, mode: str) -> None:
    ulps, order = FAMILIES[family]
    check_all(rows(family), mode, ulps, order)


@pytest.mark.parametrize("family", ON_WORKERS)
def test_family_on_workers(family: str) -> None:
    with tilewise.config(native=False), tilewise.session(engine="virtual", mesh=(2, 2)):
        check_all(rows(family), "recorded", 64, order=False)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str, mode: str) -> None:
    check_all([r.format(f=name) for r in rows("reductions")], mode, 64)
