"""Dicts, sets and lists of tuples in compiled functions, and quotients of long integers, against plain Python."""

import re
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.python import container_functions as f

V = np.array([3.0, -1.0, 2.5, 3.0, -0.0, 0.0])
N = np.array([3, 1, 2, 3, 1, 1, 7, -9])

COMPILED: list[tuple[Any, ...]] = [  # by LLVM as well, which takes seconds for some
    (f.counted, V),
    (f.missing, np.array([1.0, 3.0, 1.0]), 3),
    (f.missing, np.array([3.0, 5.0]), 2),
    (f.pairs, 9),
    (f.quotients, V, 2**62 + 1, 3),
    (f.quotients, V, 2**61, 0),
    (f.merged, V),
    (f.most_frequent, N),
    (f.last_entries, N),
]
INTERPRETED: list[tuple[Any, ...]] = [
    (f.counted, N[:0]),
    (f.accumulated, V),
    (f.grid_of_keys, 9),
    (f.made_anew, 9),
    (f.grows_in_its_loop, 5),
    (f.members, V),
    (f.not_a_number, np.array([1.0, np.nan, np.nan])),
    (f.search, np.arange(12.0).reshape(3, 4)),
    (f.small_things, V, "all", 1_000_007),
    (f.small_things, V, "sum", 0),
    (f.quotients, V, -(2**63) + 3, 2**63 - 1),
    (f.quotients, V, 2**61 + 7, -(2**63)),
    (f.empty_at_first, 1),
    (f.empty_at_first, 5),
    (f.default_that_puts, 1),
    (f.window, 60),
    (f.left_after_a_change, np.zeros(6), 0, 5),
    (f.left_after_a_change, np.zeros(6), 3, 3),
    (f.left_after_a_change, np.zeros(6), 3, 0),
    (f.left_after_a_change, np.zeros(6), 5, 0),
    (f.merged, N),
    (f.merged, N[:1]),
    (f.last_of_none, N.copy()),
    (f.last_entries, V),
    (f.equal_dicts, N),
    (f.most_frequent, N[:0]),
    (f.by_pairs, V),
    (f.by_pairs, N),
]


@pytest.mark.parametrize("row", COMPILED, ids=lambda r: r[0].__name__)
def test_containers_do_what_pythons_do(agree, row):
    agree(*row)


@pytest.mark.parametrize("agree", ["interpreted"], indirect=True)
@pytest.mark.parametrize("row", INTERPRETED, ids=lambda r: r[0].__name__)
def test_programs_of_containers_do_what_python_does(agree, row):
    agree(*row)


def test_entries_that_go():
    with tw.config(native=False):  # the longest program here: seconds of LLVM's
        got = tw.jit(f.emptied, strict=True)(40)
    assert got == f.emptied(40) and list(got[1]) == list(f.emptied(40)[1])


@pytest.mark.parametrize("native", [True, False])
def test_a_slice_of_everything_is_another_object(native):
    a = np.arange(3.0)
    with tw.config(native=native):
        whole, other, turned = tw.jit(f.beside_its_slice, strict=True)(a)
    assert other is a
    assert whole is not a and turned is not a
    assert np.shares_memory(whole, a) and np.shares_memory(turned, a)


def over_members(n):
    total = 0
    for k in {1, 2, n}:
        total += k
    return total


def mixed_keys(n):
    d = {}
    for i in range(n):
        d[i] = 1
        d[i * 0.5] = 2
    return len(d)


@pytest.mark.parametrize("row", [(over_members, "a loop over a set"), (mixed_keys, "a key float for keys int")])
def test_what_containers_cannot_be_is_said(row):
    function, what = row
    with pytest.raises(tw.TilewiseError, match=re.escape(what)):
        tw.jit(function, strict=True)(4)
    with pytest.warns(tw.PerformanceWarning, match=re.escape(what)):
        assert tw.jit(function)(4) == function(4)
