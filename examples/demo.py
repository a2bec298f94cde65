"""A NumPy program run by NumPy and by Tilewise: its plan, result and time. `make demo` and `tilewise demo` run it.

The program prices a book of options (Black and Scholes, 1973). It is written once, for any module that has NumPy's
functions; the normal distribution is the polynomial 26.2.17 of Abramowitz and Stegun, as such programs often have it.
"""

import argparse
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy
import numpy.typing

import tilewise

RATE, VOLATILITY = 0.02, 0.3
ROWS = 4_000_000
ROUNDS = 3  # The best of so many is shown: the first also compiles.


def normal_cdf(np: ModuleType, x: Any) -> Any:
    t = 1.0 / (1.0 + 0.2316419 * np.abs(x))
    poly = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    tail = np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi) * poly
    return np.where(x > 0.0, 1.0 - tail, tail)


def price(np: ModuleType, spot: Any, strike: Any, years: Any) -> Any:
    """The price of a call option, for every row of the book."""
    spread = VOLATILITY * np.sqrt(years)
    d1 = (np.log(spot / strike) + (RATE + 0.5 * VOLATILITY**2) * years) / spread
    return spot * normal_cdf(np, d1) - strike * np.exp(-RATE * years) * normal_cdf(np, d1 - spread)


def book(rows: int) -> list[numpy.typing.NDArray[numpy.float64]]:
    rng = numpy.random.default_rng(2026)
    return [rng.uniform(low, high, rows) for low, high in ((50.0, 150.0), (50.0, 150.0), (0.1, 2.0))]


def timed(run: Callable[[], Any]) -> tuple[Any, list[float]]:
    seconds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        result = run()
        seconds.append(time.perf_counter() - start)
    return result, seconds


def main(rows: int = ROWS) -> None:
    columns = book(rows)
    arrays = [tilewise.asarray(column) for column in columns]

    print(f"The plan for {rows:,} options:\n")
    print(tilewise.explain(price(tilewise, *arrays)))

    expected, theirs = timed(lambda: price(numpy, *columns))
    result, ours = timed(lambda: price(tilewise, *arrays).compute())
    numpy.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-9)

    print(f"\nThe book is worth {result.sum():,.2f}; by NumPy {expected.sum():,.2f}. All {rows:,} prices agree.\n")
    print(f"NumPy    {min(theirs) * 1e3:8.1f} ms")
    print(f"Tilewise {min(ours) * 1e3:8.1f} ms, the first time {ours[0] * 1e3:.1f} ms with planning and compiling")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Price options with NumPy and with Tilewise.")
    parser.add_argument("--rows", type=int, default=ROWS, help="options in the book (default: %(default)s)")
    main(parser.parse_args().rows)
