"""docs/coverage.md says what becomes of every NumPy name; few fall back, and each of these says so."""

import pytest

from benchmarks.coverage import PAGE, VERSION, Found, look, names, page
from tilewise.config import config


@pytest.fixture(scope="module")
def found() -> list[Found]:
    with config(native=False):  # what moves does not depend on code
        return [look(name) for name in names()]


def test_few_names_fall_back_and_none_is_absent(found: list[Found]) -> None:
    assert not [f.name for f in found if f.kind == "absent"]
    assert sum(f.kind == "fallback" for f in found) <= 40
    assert {f.name for f in found if f.kind == "fallback" and "." not in f.name} <= {
        "asmatrix", "bmat", "poly", "polydiv", "polymul",
    }  # fmt: skip


def test_what_falls_back_says_so(found: list[Found]) -> None:
    assert not [f.name for f in found if f.kind == "fallback" and not f.warned]
    assert not [f.name for f in found if f.kind in ("native", "composed") and f.warned]


def test_the_page_is_up_to_date(found: list[Found]) -> None:
    text = PAGE.read_text()
    if f"for NumPy {VERSION}," not in text:
        pytest.skip("written for another NumPy")
    assert text == page(found), "python -m benchmarks.coverage --write"
