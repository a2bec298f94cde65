"""Square roots by multiplications: the bits of the instruction, also where a root is close to the middle of two."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.kernel.support import ND, RUNNABLE, call, one_op
from tilewise.backend import llvm
from tilewise.backend.llvm.emit.bodies import rooted
from tilewise.backend.llvm.math.neon import REGISTERS
from tilewise.kernel.family import ARM
from tilewise.kernel.loops import Instr, Kernel, Output

COUNT = 200_003


def near_middles(rng: np.random.Generator) -> ND:
    """Squares of numbers in the middle of two doubles, rounded, and their neighbours."""
    m = 1 + rng.integers(0, 2**52, COUNT) * 2.0**-52
    return m * m + 2 * m * 2.0**-53 + rng.integers(-1, 2, COUNT) * 2.0**-52


NUMBERS = {
    "any bits": lambda rng: rng.integers(-(2**63), 2**63 - 1, COUNT, endpoint=True).view("f8"),
    "fractions": lambda rng: rng.random(COUNT),
    "just above 1 and 2": lambda rng: (
        (1 + rng.integers(0, 1000, COUNT) * 2.0**-52) * rng.choice([1, 2, 2.0**-700], COUNT)
    ),
    "just below 4 and 2": lambda rng: (4 - rng.integers(1, 1000, COUNT) * 2.0**-51) * rng.choice([1, 0.5], COUNT),
    "squares": lambda rng: rng.integers(0, 2**26, COUNT).astype("f8") ** 2,
    "close to middles": near_middles,
    "special": lambda rng: rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, 5e-324, 1.7e308, 2.3e-308], COUNT),
}


def same_bits(got: ND, want: ND) -> bool:
    nan = np.isnan(want)
    return np.array_equal(np.isnan(got), nan) and np.array_equal(got[~nan].view("i8"), want[~nan].view("i8"))


@pytest.mark.parametrize("width", RUNNABLE)
@pytest.mark.parametrize("name", NUMBERS)
def test_bits(name: str, width: int | None) -> None:
    x = NUMBERS[name](np.random.default_rng(8))
    for part in (x, x[::3], x[:1], x[:7]):
        (got,) = call(one_op("sqrt", ("float64",), "float64"), part.shape, [part], width=width)
        with np.errstate(invalid="ignore"):
            want = np.sqrt(part)
        assert same_bits(got, want)


@pytest.mark.parametrize("name", NUMBERS)
def test_bits_beside_a_division(name: str) -> None:
    body = (Instr("sqrt", (0,), "float64"), Instr("divide", (1, 2), "float64"))
    kernel = Kernel(("float64",) * 2, (), body, (Output(2), Output(3)), (False,))
    assert rooted(kernel, ("unit",) * 4) == REGISTERS
    rng = np.random.default_rng(8)
    x, y = NUMBERS[name](rng), rng.random(COUNT)
    for part in (slice(None), slice(None, None, 3), slice(7)):
        root, ratio = call(kernel, x[part].shape, [x[part], y[part]])
        with np.errstate(all="ignore"):
            assert same_bits(root, np.sqrt(x[part])) and same_bits(ratio, y[part] / np.sqrt(x[part]))


@pytest.mark.parametrize("name", NUMBERS)
def test_bits_where_multiplications_make_some_lanes(name: str) -> None:
    for others, lanes in ((1, 2), (5, 2), (8, 1), (20, 0)):
        body = (*(Instr("negative", (k,), "float64") for k in range(others)), Instr("sqrt", (0,), "float64"))
        kernel = Kernel(("float64",), (), body, (Output(others + 1),), (False,))
        assert rooted(kernel, ("unit",) * 2) == lanes
        x = NUMBERS[name](np.random.default_rng(8))
        for part in (x, x[::3], x[:7], x[:9]):
            with np.errstate(invalid="ignore"):
                assert same_bits(call(kernel, part.shape, [part])[0], np.sqrt(part))


def test_sums_of_roots_are_left_to_the_divider() -> None:
    kernel = Kernel(("float64",), (), (Instr("sqrt", (0,), "float64"),), (Output(1, "add"),), (True,))
    assert not rooted(kernel, ("unit", "zero"))


@pytest.mark.skipif(not ARM, reason="other CPUs have enough registers for a whole turn")
def test_divisions_of_a_sum_come_between_its_roots():
    """So that the divider works while other units make the next root."""
    body = (Instr("sqrt", (0,), "float64"), Instr("divide", (1, 2), "float64"))
    kernel = Kernel(("float64", "float64"), (), body, (Output(3, "add"),), (False, True))
    text = llvm.listing(kernel, (200, 400)).assembly
    order = re.findall(r"\b(frsqrte|fdiv)\s+v\d+\.2d", text)
    assert "frsqrte frsqrte fdiv fdiv frsqrte frsqrte fdiv fdiv" in " ".join(order)
