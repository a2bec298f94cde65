"""tw.parfor.analyse on loops with known answers (rows/)."""

from __future__ import annotations

import pytest

from tests.parfor.python_bodies import ALL, CLASSES, DEPENDENT, DEPENDENT_WITH_CLASSES, INDEPENDENT_WITH_CLASSES
from tests.parfor.rows.aliases import ALIAS_ROWS
from tests.parfor.rows.calls import CONTAINERS, NUMPY, WRITES_BY_CALLS
from tests.parfor.rows.cells import CELL_ROWS
from tests.parfor.rows.forms import FORM_ROWS
from tests.parfor.rows.functions import FUNCTION_ROWS
from tests.parfor.rows.groups import GROUP_ROWS
from tests.parfor.rows.instances import INSTANCE_ROWS
from tests.parfor.rows.linked import COUNTED, DRAWN, LINKED
from tests.parfor.rows.names import ITERATORS, LATER, LEFT_NAMES, NESTS, REDUCTIONS, SCALARS
from tests.parfor.rows.own_code import GENERATORS, KEYS, OWN_CODE
from tests.parfor.rows.places import ELEMENTS, NARROW, SLICES, VIEWS
from tests.parfor.rows.reductions import APART_ROWS, REDUCTION_ROWS
from tests.parfor.rows.row import SETUP
from tilewise.errors import ParforError
from tilewise.parfor.analyse import analyse

GROUPS = {
    "elements": ELEMENTS,
    "slices": SLICES,
    "views": VIEWS,
    "scalars": SCALARS,
    "reductions": REDUCTIONS,
    "containers": CONTAINERS,
    "numpy": NUMPY,
    "nests": NESTS,
    "names that are left": LEFT_NAMES,
    "where the program goes on": LATER,
    "narrow integers": NARROW,
    "iterators": ITERATORS,
    "writes by calls": WRITES_BY_CALLS,
    "rows of groups": GROUP_ROWS,
    "generators": GENERATORS,
    "keys": KEYS,
    "code that is not called": OWN_CODE,
    "all kinds of accumulations": REDUCTION_ROWS,
    "told apart": APART_ROWS,
    "cells, copies and attributes": CELL_ROWS,
    "plain forms": FORM_ROWS,
    "aliases": ALIAS_ROWS,
    "instances": INSTANCE_ROWS,
    "loops in functions": FUNCTION_ROWS,
    "objects linked to others": LINKED,
    "generators of lists": DRAWN,
    "positions that are counted": COUNTED,
}


@pytest.mark.parametrize("group", GROUPS)
def test_known_answers(group: str) -> None:
    wrong = []
    for row in GROUPS[group]:
        found = analyse(row.source, SETUP + row.setup)
        if tuple(v.independent for v in found) != row.answers:
            wrong.append("\n".join((row.source, *map(str, found))))
        for verdict in found:
            assert verdict.independent == (verdict.pair is None) == (verdict.variable is None)
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize(
    ("setup", "bodies", "answer"),
    [(CLASSES, DEPENDENT_WITH_CLASSES, False), (CLASSES, INDEPENDENT_WITH_CLASSES, True), (ALL, DEPENDENT, False)],
    ids=["dependent, classes", "independent, classes", "dependent"],
)
@pytest.mark.filterwarnings("ignore")
def test_bodies_of_all_of_python(setup: str, bodies: list[str], answer: bool) -> None:
    wrong = []
    for body in bodies:
        (found,) = analyse(f"for i in parfor(n):\n    {body}", setup)
        if found.independent != answer or found.test == "not followed":
            wrong.append(f"{body}\n{found}")
    assert not wrong, "\n\n".join(wrong)


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
