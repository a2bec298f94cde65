"""The vector math: errors in ulp against extended precision, and special values against NumPy and math."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from tests.kernel.support import WIDTHS, Array, awkward, call, one_op, pairs
from tilewise.kernel import interpret

LIMIT_ULP = 2.0
SAMPLES = 3000

REFERENCE: dict[str, Callable[..., Any]] = {
    "exp": mpmath.exp, "exp2": lambda x: mpmath.mpf(2) ** x, "expm1": mpmath.expm1, "log": mpmath.log,
    "log2": lambda x: mpmath.log(x, 2), "log1p": lambda x: x - x * x / 2 if abs(x) < 1e-18 else mpmath.log(1 + x),
    "tanh": mpmath.tanh, "sin": mpmath.sin, "cos": mpmath.cos, "erf": mpmath.erf, "power": mpmath.power,
}  # fmt: skip


def spread(low: float, high: float, rng: np.random.Generator) -> Array:
    """Samples even in value, and even in exponent."""
    even = rng.uniform(low, high, SAMPLES // 2)
    top = max(abs(low), abs(high))
    small = (
        top * 2.0 ** rng.uniform(-60, 0, SAMPLES // 2) * np.where(rng.random(SAMPLES // 2) < 0.5, np.sign(low) or 1, 1)
    )
    return np.concatenate([even, small])


def positive(rng: np.random.Generator) -> Array:
    return np.concatenate([2.0 ** rng.uniform(-1074, 1023, SAMPLES // 2), rng.uniform(0.4, 2.5, SAMPLES // 2),
                           1 + rng.normal(size=SAMPLES // 4) * 1e-6])  # fmt: skip


def trig(rng: np.random.Generator) -> Array:
    multiples = np.arange(1, SAMPLES // 2) * (np.pi / 2)
    return np.concatenate(
        [spread(-100, 100, rng), multiples, rng.uniform(-1e6, 1e6, 500), rng.uniform(-1e18, 1e18, 100)]
    )


DOMAIN: dict[str, Callable[[np.random.Generator], Array]] = {
    "exp": lambda r: spread(-745, 709.7, r),
    "exp2": lambda r: spread(-1074, 1023.9, r),
    "expm1": lambda r: np.concatenate([spread(-40, 709.7, r), spread(-2, 2, r)]),
    "log": positive,
    "log2": positive,
    "log1p": lambda r: np.concatenate([positive(r), spread(-0.999999, 3, r)]),
    "tanh": lambda r: np.concatenate([spread(-20, 20, r), spread(-1, 1, r)]),
    "erf": lambda r: np.concatenate([spread(-6.5, 6.5, r), spread(-1.5, 1.5, r)]),
    "sin": trig,
    "cos": trig,
}


def ulps(got: Array, exact: list[Any]) -> float:
    """The largest distance from the exact values in units of the last place of the exact value."""
    worst = 0.0
    info = np.finfo(got.dtype)
    for g, e in zip(got.tolist(), exact, strict=True):
        if abs(e) >= mpmath.mpf(float(info.max)) * (1 + mpmath.mpf(2) ** (-info.nmant - 3)):
            assert abs(g) == np.inf or abs(g) == float(info.max)
            continue
        exponent = max(mpmath.frexp(e)[1] - 1 if e else info.minexp, info.minexp)
        worst = max(worst, float(abs(mpmath.mpf(g) - e) / mpmath.mpf(2) ** (exponent - info.nmant)))
    return worst


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("fn", sorted(DOMAIN))
def test_error(fn: str, dtype: str) -> None:
    mpmath.mp.dps = 40
    with np.errstate(all="ignore"):
        x = DOMAIN[fn](np.random.default_rng(1)).astype(dtype)
    x = x[np.isfinite(x) & (x != 0)]
    x = x[x > {"log": 0, "log2": 0, "log1p": -1}.get(fn, -np.inf)]
    (got,) = call(one_op(fn, (dtype,), dtype), x.shape, [x])
    error = ulps(got, [REFERENCE[fn](mpmath.mpf(v)) for v in x.tolist()])
    print(fn, dtype, error)
    assert error <= LIMIT_ULP


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_power_error(dtype: str) -> None:
    mpmath.mp.dps = 40
    rng = np.random.default_rng(2)
    x = np.concatenate(
        [2.0 ** rng.uniform(-120, 120, 2000), rng.uniform(0.5, 2, 2000), 1 + rng.normal(size=1000) * 1e-7]
    )
    reach = 80.0 if dtype == "float32" else 700.0
    y = rng.uniform(-1, 1, x.size) * reach / np.maximum(np.abs(np.log(x)), 1e-6)
    y[::7] = np.round(np.clip(y[::7], -1e6, 1e6))
    x, y = x.astype(dtype), y.astype(dtype)
    (got,) = call(one_op("power", (dtype, dtype), dtype), x.shape, [x, y])
    error = ulps(got, [mpmath.power(mpmath.mpf(a), mpmath.mpf(b)) for a, b in zip(x.tolist(), y.tolist(), strict=True)])
    print("power", dtype, error)
    assert error <= LIMIT_ULP


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("fn", sorted(REFERENCE))
def test_special_values(fn: str, dtype: str, width: int | None) -> None:
    args = list(pairs(dtype)) if fn == "power" else [awkward(dtype)]
    kernel = one_op(fn, (dtype,) * len(args), dtype)
    (got,) = call(kernel, args[0].shape, args, width=width)
    want = np.empty_like(args[0])
    interpret.run(kernel, args[0].shape, args, (), [want])
    special = ~np.isfinite(want) | (want == 0)
    wrong = special & ~((got == want) & (np.signbit(got) == np.signbit(want)) | np.isnan(got) & np.isnan(want))
    assert not wrong.any(), [a[wrong] for a in [*args, got, want]]
    finite = ~special
    np.testing.assert_allclose(
        got[finite], want[finite], rtol=8 * np.finfo(dtype).eps, atol=float(np.finfo(dtype).tiny) / 1e6
    )
