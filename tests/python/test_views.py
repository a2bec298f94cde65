"""Arrays that show others, or are others, in compiled loops: what NumPy writes through them, and what it refuses."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.python import view_functions as f
from tests.python.conftest import ended, same
from tilewise.backend.llvm.program import host
from tilewise.errors import FunctionError

Z = np.arange(1.0, 8.0) * (1 - 0.5j)
M = np.arange(12.0).reshape(3, 4) * (2 + 1j)
X = np.array([3.0, 1.0, 2.0, 6.0, 4.0, 5.0])
A = np.array([[4.0, 1.0, -2.0], [7.0, 5.0, 0.5], [-3.0, 0.25, 6.0]])

ROWS: list[tuple[Any, ...]] = [
    (f.writes_parts, Z),
    (f.writes_parts, Z.astype(np.complex64)),
    (f.writes_parts, M[1:, ::-2].T[0]),
    (f.writes_parts, Z[:0]),
    (f.reads_parts_after_writes, Z, 9),
    (f.reads_parts_after_writes, M[::-1, 1], 4),
    (f.writes_attributes, Z, 5),
    (f.writes_attributes, M[:, 2], 3),
    (f.overlapping, Z / 8),
    (f.overlapping, Z[::-2] / 8),
    (f.one_after_the_other, Z),
    (f.one_after_the_other, np.arange(3000) * (1 + 1j)),
    (f.parts_of_parts, M),
    (f.parts_of_parts, np.asfortranarray(M)),
    (f.parts_of_parts, M.T[1:].astype(np.complex64)),
    (f.parts_of_results, Z, 3),
    (f.parts_in_expressions, Z, 9),
    (f.changed_while_evaluated, Z),
    (f.parts_of_reals, X),
    (f.parts_of_reals, np.arange(4)),
    (f.parts_of_reals, np.arange(4, dtype=np.float32)[::-2]),
    (f.tuple_of_parts, Z),
    (f.given_parts, Z),
    (f.recurses_into_parts, Z),
    (f.not_copied, X),
    (f.not_copied, np.arange(12.0)[::2]),
    (f.copied_in_spite, X),
    (f.without_nans, X, np.array([1.0, np.inf, 0.5, np.nan, 2.0, 0.0])),
    (f.into_places, X, np.zeros(6)),
    (f.views_of_functions, A, 3),
    (f.reads_diagonals, A),
    (f.reads_diagonals, A.T[::-1].astype(np.float32)),
]
LEFT_TO_PYTHON: list[tuple[Any, ...]] = [
    (f.writes_diagonal, A),
    (f.writes_part_of_diagonal, A),
    (f.sorts_diagonal, A),
    (f.returns_diagonal, A),
    (f.returns_broadcast, A),
    (f.writes_imaginary_of_reals, A),
    (f.writes_by_recursion, A),
    (f.writes_what_recursion_gives, A),
    (f.windows, A),
    (f.copies_perhaps, A, True),
    (f.copies_perhaps, A, False),
    (f.overwrites, A),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].__name__)
def test_views(agree: Any, row: tuple[Any, ...]) -> None:
    assert agree(*row)[0] == "returned"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].__name__)
def test_results_share_memory_as_they_do_in_python(row: tuple[Any, ...]) -> None:
    assert _shared(tw.jit(row[0], strict=True), row[1:]) == _shared(row[0], row[1:])


def _shared(function: Callable[..., Any], given: tuple[Any, ...]) -> list[Any]:
    """Which results share memory with an argument, and which can be written to."""
    args = copy.deepcopy(given)
    with np.errstate(all="ignore"):
        found = function(*args)
    arrays = [v for v in (found if isinstance(found, tuple) else (found,)) if isinstance(v, np.ndarray)]
    several = [a for a in args if isinstance(a, np.ndarray)]
    return [([np.shares_memory(v, a) for a in several], v.flags.writeable) for v in arrays]


@pytest.mark.parametrize("row", LEFT_TO_PYTHON, ids=lambda row: row[0].__name__)
def test_what_python_must_do(row: tuple[Any, ...]) -> None:
    function, given = row[0], row[1:]
    with pytest.raises(FunctionError):
        tw.jit(function, strict=True)(*copy.deepcopy(given))
    mine, theirs = copy.deepcopy(given), copy.deepcopy(given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tw.PerformanceWarning)
        got = ended(tw.jit(function), mine)
    assert same(got, ended(function, theirs)) and same(mine, theirs)
    if isinstance(got[1], np.ndarray):
        assert got[1].flags.writeable == function(*copy.deepcopy(given)).flags.writeable


@pytest.mark.parametrize("how", range(10))
def test_the_argument_itself(how: int) -> None:
    compiled = tw.jit(f.itself, strict=True)
    for x in (X.copy(), np.arange(6.0).reshape(2, 3)):
        assert compiled(x, how) is x and compiled(x, how) is x


def test_a_diagonal_that_is_written_says_why() -> None:
    with pytest.raises(FunctionError, match=r"np.diag, a read-only array, that is written to.*copy\(\)"):
        tw.jit(f.writes_diagonal, strict=True)(A.copy())
    with pytest.raises(FunctionError, match="as a result"):
        tw.jit(f.returns_diagonal, strict=True)(A.copy())


def test_parts_do_not_need_python(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    run = host.Table._run

    def counted(self: Any, which: int, room: int) -> int:
        calls.append(which)
        return run(self, which, room)

    monkeypatch.setattr(host.Table, "_run", counted)
    tw.jit(f.writes_parts, strict=True)(Z.copy())
    tw.jit(f.parts_in_expressions, strict=True)(Z.copy(), 3)
    tw.jit(f.reads_parts_after_writes, strict=True)(Z.copy(), 3)
    assert not calls


def test_read_only_arguments() -> None:
    z = Z.copy()
    z.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"), warnings.catch_warnings():
        warnings.simplefilter("ignore", tw.PerformanceWarning)
        tw.jit(f.writes_parts)(z)
    assert np.array_equal(z, Z)
