"""The loop programs: inputs are reproducible, what they write is listed, every rival form and C give the same.

Forms for Numba run as plain Python here: its `prange` is a `range` there.
"""

from __future__ import annotations

import numpy as np
import pytest

import tilewise as tw
from benchmarks.loops import table
from benchmarks.loops.registry import load
from benchmarks.loops.rivals import copied, left, native, with_operators, wrong

PROGRAMS = load()
FORMS = [(name, form) for name, p in PROGRAMS.items() for form in ("own", "parallel") if getattr(p, form)]


def test_there_are_enough() -> None:
    assert len(PROGRAMS) >= 60
    assert sum(p.parakeet and p.c is not None for p in PROGRAMS.values()) >= 20


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_written_is_listed(name: str) -> None:
    program = PROGRAMS[name]
    inputs, again = (program.inputs(program.size("tiny")) for _ in range(2))
    assert wrong([np.array(x) for x in inputs], [np.array(x) for x in again], 0.0, strict=True) == ""
    args = copied(inputs)
    result = program.function(*args)
    assert program.written == tuple(i for i, x in enumerate(args) if not np.array_equal(x, inputs[i]))
    assert left(program, args, result), "nothing can be seen of it"


@pytest.mark.parametrize(("name", "form"), FORMS)
def test_other_forms_do_the_same(name: str, form: str) -> None:
    program = PROGRAMS[name]
    inputs = program.inputs(program.size("tiny"))
    args, others = copied(inputs), copied(inputs)
    want = left(program, args, program.function(*args))
    got = left(program, others, getattr(program, form)(*others))
    assert wrong(got, want, program.rtol, strict=False) == ""


@pytest.mark.parametrize("name", [name for name, p in PROGRAMS.items() if p.c])
def test_c_does_the_same(name: str) -> None:
    program = PROGRAMS[name]
    inputs = program.inputs(program.size("tiny"))
    made = native(program, inputs)
    if made is None:
        pytest.skip("no C compiler")
    args = copied(inputs)
    want = left(program, args, program.function(*args))
    assert wrong(left(program, made[1], made[0](*made[1])), want, program.rtol, strict=False) == ""


@pytest.mark.parametrize("name", ["kmeans", "growcut", "simple_regression", "splat_particles"])
def test_operators_do_the_same(name: str) -> None:
    program = PROGRAMS[name]
    inputs = program.inputs(program.size("tiny"))
    made = with_operators(program, inputs)
    assert made is not None
    args = copied(inputs)
    want = left(program, args, program.function(*args))
    with tw.config(eager_bytes=0, fallback="error"):
        assert wrong(left(program, made[1], made[0](*made[1])), want, program.rtol, strict=True) == ""


def test_differences_are_told() -> None:
    whole, real = np.arange(3), np.arange(3.0)
    assert wrong([whole, real], [whole, real + 1e-12], 1e-9, strict=True) == ""
    assert wrong([whole + (whole == 2)], [whole], 1e-1, strict=True) == "output 0[2] is 3, not 2 (1 of 3 differ)"
    assert wrong([real + 1e-3], [real], 1e-9, strict=True).startswith("output 0[0] is 0.001, not 0.0 (3 of 3")
    assert wrong([real.astype(np.float32)], [real], 1e-3, strict=True) == "output 0 is float32(3,), not float64(3,)"
    assert wrong([], [real], 1e-9, strict=True) == "0 results, not 1"


def test_the_table_judges_by_the_best_rival() -> None:
    seconds = {"python": 1.0, "numba": 0.03, "numba parallel": 0.01, "fastmath": 0.005, "tw.jit": 0.02}
    row = {"program": "lu", "seconds": seconds, "first": {"tw.jit": 0.5, "numba": 1.0}, "problems": {}, "refused": ""}
    table.judge(row)
    assert row["ratios"] == {"python": 50.0, "numba": 0.5, "fastmath": 0.25}
    totals = table.totals([row])
    assert (totals["right"], totals["strict"], totals["below"], totals["slow_first"]) == (1, 1, ["lu"], ["lu"])
    assert "lu" in table.line(row)
    assert "below 0.7 of Numba: 1 lu" in table.summary([row])
