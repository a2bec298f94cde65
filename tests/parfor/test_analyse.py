"""tw.parfor.analyse on loops with known answers (collection.py)."""

from __future__ import annotations

import pytest

from tests.parfor.collection import ROWS, SETUP, Row
from tests.parfor.python_bodies import ALL, CLASSES, DEPENDENT, DEPENDENT_WITH_CLASSES, INDEPENDENT_WITH_CLASSES
from tilewise.errors import ParforError
from tilewise.parfor.analyse import analyse


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.source.replace("\n", "; ")[:90])
def test_known_answers(row: Row) -> None:
    found = analyse(row.source, SETUP + row.setup)
    assert tuple(v.independent for v in found) == row.answers, "\n".join(map(str, found))
    for verdict in found:
        assert verdict.independent == (verdict.pair is None) == (verdict.variable is None)


BODIES = [
    *((CLASSES, body, False) for body in DEPENDENT_WITH_CLASSES),
    *((CLASSES, body, True) for body in INDEPENDENT_WITH_CLASSES),
    *((ALL, body, False) for body in DEPENDENT),
]


@pytest.mark.parametrize(
    ("setup", "body", "answer"), BODIES, ids=[body.replace("\n    ", "; ") for _, body, _ in BODIES]
)
@pytest.mark.filterwarnings("ignore")
def test_bodies_of_all_of_python(setup: str, body: str, answer: bool) -> None:
    (found,) = analyse(f"for i in parfor(n):\n    {body}", setup)
    assert found.independent == answer, str(found)
    assert found.test != "not followed", found.why


def test_functions_and_their_names() -> None:
    def double(x: list[float], out: list[float], n: int) -> None:
        for i in parfor(range(n)):  # type: ignore[name-defined]  # noqa: F821
            out[i] = 2 * x[i]

    x = [1.0, 2.0, 3.0]
    assert analyse(double, {"x": x, "out": [0.0] * 3, "n": 3})[0].independent
    assert analyse(double, {"x": x, "out": x, "n": 3})[0].independent
    assert not analyse(double, {"x": x, "out": dict.fromkeys(range(3)), "n": 3, "i": 0})[0].reductions


def test_what_is_given() -> None:
    with pytest.raises(ParforError, match="got none"):
        analyse("x = 1")
    found = analyse("for i in parfor(5): A[i] = A[i + 1]", {"A": [0] * 6})
    assert (found[0].variable, found[0].pair, found[0].line) == ("A", (1, 0), 1)
    assert found[0].accesses == ((1, "A[i] = A[i + 1]"),) * 2
