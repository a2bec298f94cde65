"""Python's own library inside of compiled loops: values, exceptions, messages, against plain Python."""

import math
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.python import library_of_python as f


@pytest.mark.parametrize("x", [2.675, 0.125, -1e-5, math.nan, math.inf, 1e300, 5e15, 9007199254740993.5])
def test_round(agree: Any, x: float) -> None:
    for dtype in (np.float64, np.float32):
        agree(f.rounded, x, np.array([1.25, -2.675, 1e17], dtype))


def test_round_by_python(agree: Any) -> None:
    assert agree(f.rounded_by_python, 1234.567, 2)[1] == (1234.57, 1230.0, 12300)


def test_round_is_exact() -> None:
    """Ties of decimals that binary fractions are near to, at every magnitude."""
    rng = np.random.default_rng(7)
    scale = 10.0 ** rng.integers(-12, 12, 4000)
    ties = rng.integers(-(10**7), 10**7, 4000) / 2000.0
    x = np.concatenate([ties, rng.uniform(-1, 1, 4000) * scale, np.nextafter(ties, 1e9)])

    def each(x, out):  # type: ignore[no-untyped-def]
        for i in range(len(x)):
            out[i] = round(float(x[i]), 3)

    got = np.zeros(len(x))
    tw.jit(each, strict=True)(x, got)
    assert [repr(float(v)) for v in got] == [repr(round(float(v), 3)) for v in x]


@pytest.mark.parametrize("args", [(12, 18), (-7, 0), (0, 5), (2**40, 2**20)])
def test_math_of_integers(agree: Any, args: tuple[int, int]) -> None:
    agree(f.whole_numbers, *args)


def test_math_raises_at_the_line_of_its_call(agree: Any) -> None:
    assert agree(f.negative_root, 1, 1)[0] == "ValueError"


@pytest.mark.parametrize("x", [-0.0, 1e22, -1e300, math.nan, math.inf, -math.inf])
def test_math_of_infinities(agree: Any, x: float) -> None:
    """NaN of something else than NaN is an error, also of an infinity; what was written before stays."""
    ends = agree(f.angles, np.array([1.0, x, 2.0]), np.zeros((3, 3)))
    assert ends[0] == ("ValueError" if math.isinf(x) else "returned")
    ends = agree(f.remainders, np.array([1.0, x, 2.0]), 3.0, np.zeros((3, 2)))
    assert ends[0] == ("ValueError" if math.isinf(x) else "returned")
    agree(f.remainders, np.array([1.0]), x, np.zeros((1, 2)))


def test_exponentials_of_all_kinds_of_complex_numbers(agree: Any) -> None:
    parts = [0.0, -0.0, 1.0, math.inf, -math.inf, math.nan, 710.0, -745.2, 1e-300, 1e22]
    z = np.array([complex(x, y) for x in parts for y in parts])
    out = np.zeros((len(z), 2))
    agree(f.complex_exponentials, z, out)


@pytest.mark.parametrize("x", [0.0, 1.5, 170.0])
def test_math_of_floats(agree: Any, x: float) -> None:
    agree(f.of_floats, x)


def test_messages(agree: Any) -> None:
    for function in (f.asserted, f.asserted_otherwise):
        assert agree(function, np.array([1.0, -2.5]), 3)[0] == "AssertionError"
        assert agree(function, np.array([1.0, 2.5]), 3)[0] == "returned"
    kinds = [agree(f.raised, np.array([1.0, -2.5]), k)[:2] for k in range(5)]
    assert [k[0] for k in kinds] == ["OwnError", "ValueError", "ValueError", "KeyError", "OwnError"]
    assert kinds[0][1] == "('bad -1.5', 1)"


@pytest.mark.parametrize("z", [1.5 - 2j, 1e200 + 0j, 0j, complex(math.inf, 1)])
def test_powers_of_complex_numbers(agree: Any, z: complex) -> None:
    agree(f.complex_powers, z)
    agree(f.complex_powers_of_numpy, np.complex128(z if abs(z) < 10 else 2j))


def test_min_max_sum_of_several(agree: Any) -> None:
    agree(f.of_several, np.array([1.0, -3.0, 2.0]), 6)
    agree(f.of_several, np.array([1, -3, 2], np.int32), 0)
    assert agree(f.least_of_none, 0)[0] == "ValueError"
    assert agree(f.least_of_none, 3)[1] == 0
