"""How far the vector math is from the exact values. In: a function's name, a dtype. Out: the largest error in ulp.

`python -m tests.kernel.ulps` measures every function and writes docs/vector-math.md; the tests take smaller samples.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath
import numpy as np

from tests.kernel.support import ND, call, one_op

DOCUMENT = Path(__file__).parents[2] / "docs" / "vector-math.md"
DTYPES = ("float64", "float32")
LIMIT_ULP = 2.0
TABLE_SAMPLES = 20_000  # per function and dtype, of the document
DIGITS = 40  # of the exact values

Range = tuple[float, float]
Pairs = Callable[[np.random.Generator, int, str], tuple[ND, ND]]

HUGE, TINY = 1.7e308, 5e-324
LOGS: tuple[Range, ...] = ((TINY, HUGE), (0.25, 4.0), (1 - 1e-6, 1 + 1e-6))
TURNS: tuple[Range, ...] = ((-1e-3, 1e-3), (-10.0, 10.0), (-1e6, 1e6), (-HUGE, HUGE))
ARCS: tuple[Range, ...] = ((-1.0, 1.0), (-0.6, 0.6), (0.9999, 1.0), (-1.0, -0.9999))

# One operand: where the samples lie, each range half even in value and half even in bits; the exact function.
ONE: dict[str, tuple[tuple[Range, ...], Callable[..., Any]]] = {
    "exp": (((-746.0, 710.0), (-2.0, 2.0)), mpmath.exp),
    "exp2": (((-1076.0, 1025.0), (-2.0, 2.0)), lambda x: mpmath.mpf(2) ** x),
    "expm1": (((-746.0, 710.0), (-60.0, 60.0), (-2.0, 2.0)), mpmath.expm1),
    "log": (LOGS, mpmath.log),
    "log2": (LOGS, lambda x: mpmath.log(x, 2)),
    "log10": (LOGS, mpmath.log10),
    "log1p": ((*LOGS, (-1 + 1e-16, -0.5), (-0.5, 2.0)), mpmath.log1p),
    "cbrt": (((-HUGE, HUGE), (0.125, 8.0)), lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x))),
    "sin": (TURNS, mpmath.sin),
    "cos": (TURNS, mpmath.cos),
    "tan": (TURNS, mpmath.tan),
    "arcsin": (ARCS, mpmath.asin),
    "arccos": (ARCS, mpmath.acos),
    "arctan": (((-HUGE, HUGE), (-4.0, 4.0)), mpmath.atan),
    "sinh": (((-711.0, 711.0), (-2.0, 2.0)), mpmath.sinh),
    "cosh": (((-711.0, 711.0), (-2.0, 2.0)), mpmath.cosh),
    "tanh": (((-25.0, 25.0), (-1.0, 1.0)), mpmath.tanh),
    "arcsinh": (((-HUGE, HUGE), (-4.0, 4.0)), mpmath.asinh),
    "arccosh": (((1.0, HUGE), (1.0, 4.0), (1.0, 1 + 1e-6)), mpmath.acosh),
    "arctanh": (ARCS, mpmath.atanh),
    "erf": (((-7.0, 7.0), (-1.5, 1.5)), mpmath.erf),
    "erfc": (((-7.0, 27.3), (-1.5, 1.5)), mpmath.erfc),
    "ndtr": (((-38.5, 9.0), (-2.0, 2.0)), lambda x: mpmath.erfc(-x / mpmath.sqrt(2)) / 2),
    "expit": (((-746.0, 40.0), (-2.0, 2.0)), lambda x: 1 / (1 + mpmath.exp(-x))),
    "logit": (((0.0, 1.0), (0.5 - 1e-6, 0.5 + 1e-6), (0.9999, 1.0)), lambda x: mpmath.log(x / (1 - x))),
    "gamma": (((1e-300, 171.7), (0.5, 6.0)), mpmath.gamma),
    "gammaln": (((1e-300, 1e300), (0.5, 12.0), (1 - 1e-4, 1 + 1e-4), (2 - 1e-4, 2 + 1e-4)), mpmath.loggamma),
}


def _any_two(rng: np.random.Generator, n: int, dtype: str) -> tuple[ND, ND]:
    wide = [sample(((-HUGE, HUGE), (-8.0, 8.0)), dtype, n, rng) for _ in range(2)]
    # Operands of one size too: the cases where both count.
    with np.errstate(over="ignore"):
        wide[1][::2] = wide[0][::2] * rng.uniform(-4, 4, wide[0][::2].size).astype(dtype)
    return wide[0], wide[1]


def _powers(rng: np.random.Generator, n: int, dtype: str) -> tuple[ND, ND]:
    x = sample(((TINY, HUGE), (0.5, 2.0), (1 - 1e-6, 1 + 1e-6)), dtype, n, rng)
    reach = 100.0 if dtype == "float32" else 740.0
    with np.errstate(all="ignore"):
        y = rng.uniform(-1, 1, x.size) * reach / np.maximum(np.abs(np.log(x.astype(float))), 1e-9)
    y[::7] = np.round(np.clip(y[::7], -1e6, 1e6))
    return x, y.astype(dtype)


def _sums(rng: np.random.Generator, n: int, dtype: str) -> tuple[ND, ND]:
    x = sample(((-700.0, 700.0),), dtype, n, rng)
    return x, x + sample(((-40.0, 40.0),), dtype, n, rng)


def _entropies(rng: np.random.Generator, n: int, dtype: str) -> tuple[ND, ND]:
    x = sample(((-100.0, 100.0),), dtype, n, rng)
    return x, sample(((1e-30, 1e30), (0.25, 4.0)), dtype, 2 * n, rng)[: x.size]


TWO: dict[str, tuple[Pairs, Callable[..., Any]]] = {
    "power": (_powers, mpmath.power),
    "arctan2": (_any_two, mpmath.atan2),
    "hypot": (_any_two, mpmath.hypot),
    "logaddexp": (_sums, lambda x, y: mpmath.log(mpmath.exp(x) + mpmath.exp(y))),
    "logaddexp2": (_sums, lambda x, y: mpmath.log(mpmath.mpf(2) ** x + mpmath.mpf(2) ** y, 2)),
    "xlogy": (_entropies, lambda x, y: x * mpmath.log(y)),
}
# Where terms cancel the result is small, and no double holds the terms well enough: the error is in their ulp.
OF_OPERANDS = ("logaddexp", "logaddexp2")


def sample(ranges: tuple[Range, ...], dtype: str, n: int, rng: np.random.Generator) -> ND:
    """Some n values: of each range half even in value, half even in their bits. No zeros, no infinities."""
    each, parts = max(1, n // (2 * len(ranges))), []
    info = np.finfo(dtype)
    for low, high in ranges:
        low, high = (float(np.clip(v, float(info.min), float(info.max))) for v in (low, high))
        middle, half = low / 2 + high / 2, high / 2 - low / 2
        parts.append((middle + half * rng.uniform(-1, 1, each)).astype(dtype))
        first, last = (_place(v, dtype) for v in (low, high))
        parts.append(_at_place(rng.integers(first, last, each, dtype=np.int64, endpoint=True), dtype))
    x = np.concatenate(parts)
    return x[np.isfinite(x) & (x != 0)]


def _place(value: float, dtype: str) -> int:
    """The number of floats between zero and a value, negative below zero."""
    bits = np.asarray(abs(value), dtype).view(f"i{np.dtype(dtype).itemsize}")
    return int(bits) if value >= 0 else -int(bits)


def _at_place(places: ND, dtype: str) -> ND:
    sizes = np.abs(places).astype(f"i{np.dtype(dtype).itemsize}").view(dtype)
    return np.where(places < 0, -sizes, sizes)


def ulps(got: ND, exact: list[Any], at_least: ND | None = None) -> float:
    """The largest distance from the exact values in units of their last place (or of `at_least`'s, if larger)."""
    worst = 0.0
    info = np.finfo(got.dtype)
    top = mpmath.mpf(float(info.max)) * (1 + mpmath.mpf(2) ** (-info.nmant - 3))
    for i, (g, e) in enumerate(zip(got.tolist(), exact, strict=True)):
        if abs(e) >= top:
            assert abs(g) == np.inf or abs(g) == float(info.max)
            continue
        size = e if at_least is None else max(abs(e), mpmath.mpf(float(at_least[i])))
        exponent = max(mpmath.frexp(size)[1] - 1 if size else info.minexp, info.minexp)
        assert np.isfinite(g), (g, e)
        worst = max(worst, float(abs(mpmath.mpf(g) - e) / mpmath.mpf(2) ** (exponent - info.nmant)))
    return worst


def measure(fn: str, dtype: str, samples: int, seed: int) -> float:
    """The largest error of a function in some samples."""
    rng = np.random.default_rng(seed)
    if fn in ONE:
        ranges, exact = ONE[fn]
        operands = [sample(ranges, dtype, samples, rng)]
    else:
        draw, exact = TWO[fn]
        operands = list(draw(rng, samples, dtype))
        good = np.isfinite(operands[1]) & (operands[1] != 0)
        operands = [a[good] for a in operands]
    if fn in ("arctanh", "logit"):
        operands = [a[np.abs(a) < 1] for a in operands]
    (got,) = call(one_op(fn, (dtype,) * len(operands), dtype), operands[0].shape, operands)
    with mpmath.workdps(DIGITS):
        values = [exact(*map(mpmath.mpf, row)) for row in zip(*(a.tolist() for a in operands), strict=True)]
        return ulps(got, values, np.max(np.abs(operands), axis=0) if fn in OF_OPERANDS else None)


def functions() -> list[str]:
    """Every function that is measured."""
    return [*ONE, *TWO]


def document() -> str:
    """The text of docs/vector-math.md."""
    rows = []
    for fn in functions():
        errors = [measure(fn, dtype, TABLE_SAMPLES, seed=0) for dtype in DTYPES]
        rows.append(f"| {fn} | " + " | ".join(f"{np.ceil(e * 100) / 100:.2f}" for e in errors) + " |")
    return "\n".join([*HEAD, *rows, ""])


def documented() -> dict[tuple[str, str], float]:
    """The errors that docs/vector-math.md claims, by function and dtype."""
    found = {}
    for line in DOCUMENT.read_text().splitlines():
        cells = [c.strip() for c in line.strip("|").split("|")]
        if len(cells) == 3 and cells[0] in functions():
            found.update({(cells[0], dtype): float(c) for dtype, c in zip(DTYPES, cells[1:], strict=True)})
    return found


HEAD = [
    "# Vector math",
    "",
    "Elementary and special functions are polynomials on whole vectors, in code of our own (`tilewise/backend/llvm/`).",
    "The error of each is at most 2 ulp; special values (infinities, NaN, signed zeros, poles) are as NumPy and SciPy",
    "have them. Lanes that the vector code leaves to the C library: sin, cos and tan beyond 2**20 (sin and cos of",
    "float32: 2**30), gamma and gammaln below 0, gammaln above 2**1000. float16 is computed as float32 and rounded.",
    "",
    "The table holds the largest error found, in units of the last place of the exact result, among some",
    f"{TABLE_SAMPLES:,} samples of each dtype (half even in value, half even in their bits, more near hard places),",
    "against mpmath. `python -m tests.kernel.ulps` measures and writes it; the tests check it with other samples.",
    "logaddexp and logaddexp2 are measured in ulp of the largest operand or result: their terms may cancel.",
    "",
    "| function | float64 | float32 |",
    "|---|---|---|",
]

if __name__ == "__main__":
    DOCUMENT.write_text(document())
