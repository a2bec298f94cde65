"""Wrong uses: NumPy's exception, at the user's line, and no array changed by it."""

from __future__ import annotations

import traceback
from typing import Any

import numpy
import pytest

import tilewise
from tests.api.support import MODES, OPERANDS, difference, rows, run

LATE = ("is out of bounds for", "negative integer powers", "Singular matrix", "not positive definite")  # the data tell


@pytest.mark.parametrize("mode", MODES)
def test_the_exception_is_numpys_at_the_call(mode: str) -> None:
    found = []
    for text in rows("wrong"):
        expected, _ = run(text, numpy)
        assert isinstance(expected, Exception), f"NumPy accepts {text}"
        with tilewise.config(**MODES[mode]):
            got, after = run(text, tilewise)
            if not isinstance(got, Exception) and any(t in str(expected) for t in LATE):
                try:
                    got = [x.compute() for x in (got, *after.values()) if type(x) is tilewise.Array]
                except Exception as error:
                    got = error
                    continue
            if type(got) is not type(expected):
                found.append(f"{text}\n    NumPy raises {expected!r}, we give {got!r}")
                continue
            for name, value in after.items():
                same = (
                    difference(eval(OPERANDS[name], {"np": numpy, "nd": numpy}), value)
                    if OPERANDS[name].startswith("np")
                    else None
                )
                if same:
                    found.append(f"{text}\n    {name} was changed: {same}")
    assert not found, f"{len(found)} rows differ\n" + "\n".join(found)


def test_the_traceback_shows_the_users_line() -> None:
    with tilewise.config(eager_bytes=0):
        x = tilewise.ones((2, 3))
        try:
            x + tilewise.ones(4)
        except ValueError as error:
            lines = traceback.extract_tb(error.__traceback__)
            assert lines[0].filename == __file__
            assert "shapes (2,3) (4,)" in str(error)


def test_a_late_error_names_where_it_was_recorded_and_loses_nothing() -> None:
    with tilewise.config(eager_bytes=0):
        x, wrong = tilewise.arange(3), tilewise.arange(9)
        y = x[wrong]
        with pytest.raises(IndexError) as caught:
            y.compute()
        assert any(__file__ in note for note in caught.value.__notes__)
        assert x.compute().tolist() == [0, 1, 2]


def test_a_class_derived_from_ours_is_numpys() -> None:
    class Base(tilewise.ndarray):
        def total(self) -> float:
            return float(super().sum())

    class Named(Base):
        def __new__(cls, values: Any, name: str) -> Any:
            made = tilewise.asarray(values).view(cls)
            made.name = name
            return made

        def __array_finalize__(self, other: Any) -> None:
            self.name = getattr(other, "name", None)

    assert issubclass(Named, numpy.ndarray) and issubclass(Named, tilewise.ndarray)
    x = Named([1.0, 2.0], "a")
    assert isinstance(x, tilewise.ndarray) and (x * 2)[1:].name == "a" and (x + 1).total() == 5.0
    assert isinstance(tilewise.ndarray.__new__(Base, (2, 3)), Base)
    assert not isinstance(numpy.ones(2), tilewise.ndarray) and not issubclass(numpy.ndarray, tilewise.ndarray)


def test_a_view_of_another_class_is_numpys_of_a_copy() -> None:
    mine = type("Mine", (numpy.ndarray,), {})
    x = tilewise.arange(3)
    for view in (x.view(mine), x.view(type=mine)):
        assert type(view) is mine
        view[0] = 9
        assert x[0] == 0
