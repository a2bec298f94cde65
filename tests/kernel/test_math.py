"""The vector math: errors in ulp against extended precision, and special values against NumPy and SciPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernel import ulps
from tests.kernel.support import WIDTHS, awkward, call, one_op, pairs, same_bits
from tilewise.backend.llvm.math.table import FOREIGN, MATH
from tilewise.kernel import interpret
from tilewise.kernel.loops import Instr, Kernel, Output

SAMPLES = 1500
SLACK_ULP = 0.3  # other samples than the document's may find a little more


@pytest.mark.parametrize("dtype", ulps.DTYPES)
@pytest.mark.parametrize("fn", ulps.functions())
def test_error(fn: str, dtype: str) -> None:
    error = ulps.measure(fn, dtype, SAMPLES, seed=1)
    assert error <= min(ulps.LIMIT_ULP, ulps.documented()[fn, dtype] + SLACK_ULP)


def test_every_function_is_documented() -> None:
    table = ulps.documented()
    assert sorted(table) == sorted((fn, dtype) for fn in ulps.functions() for dtype in ulps.DTYPES)
    assert all(error <= ulps.LIMIT_ULP for error in table.values())
    assert set(ulps.functions()) == set(MATH) - FOREIGN - {"float_power"}  # power by another name


def test_powers_of_ten_have_whole_logarithms() -> None:
    n = np.arange(-300, 300)
    x = np.array([float(f"1e{k}") for k in n])
    (got,) = call(one_op("log10", ("float64",), "float64"), x.shape, [x])
    assert (got == n).all()


@pytest.mark.parametrize("width", WIDTHS)
def test_quarter_turns(width: int | None) -> None:
    """Where a sine is largest it is one, and no sine is larger."""
    k = np.arange(-101, 102, 2)
    x = k * (np.pi / 2)
    sine = one_op("sin", ("float64",), "float64")
    assert (call(sine, x.shape, [x], width=width)[0] == (2 - k % 4)).all()
    near = (x[:, None] + np.linspace(-1e-7, 1e-7, 501)).ravel()
    assert (np.abs(call(sine, near.shape, [near], width=width)[0]) <= 1).all()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", ulps.DTYPES)
@pytest.mark.parametrize("fn", sorted(ulps.functions()))
def test_special_values(fn: str, dtype: str, width: int | None) -> None:
    args = list(pairs(dtype)) if fn in ulps.TWO else [awkward(dtype)]
    if fn == "gammaln":  # SciPy's is inf where gamma overflows
        args = [a[~(np.abs(a) < np.finfo(dtype).tiny) | (a == 0)] for a in args]
    kernel = one_op(fn, (dtype,) * len(args), dtype)
    (got,) = call(kernel, args[0].shape, args, width=width)
    want = np.empty_like(args[0])
    interpret.run(kernel, args[0].shape, args, (), [want])
    special = ~np.isfinite(want) | (want == 0)
    wrong = special & ~((got == want) & (np.signbit(got) == np.signbit(want)) | np.isnan(got) & np.isnan(want))
    assert not wrong.any(), [a[wrong] for a in [*args, got, want]]
    finite = ~special
    np.testing.assert_allclose(
        got[finite], want[finite], rtol=100 * np.finfo(dtype).eps, atol=float(np.finfo(dtype).tiny) / 1e6
    )


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", [*ulps.DTYPES, "float16"])
def test_functions_called_often_have_the_same_bits(dtype: str, width: int | None) -> None:
    x = awkward(dtype)
    for fn in ("exp", "sin", "power"):
        args = (0, 0) if fn == "power" else (0,)
        once = Kernel((dtype,), (), (Instr(fn, args, dtype),), (Output(1),), (False,))
        often = Kernel((dtype,), (), (Instr(fn, args, dtype),) * 4, tuple(Output(1 + i) for i in range(4)), (False,))
        (want,) = call(once, x.shape, [x], width=width)
        assert all(same_bits(got, want) for got in call(often, x.shape, [x], width=width))
