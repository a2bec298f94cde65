"""Elementwise programs, and sums of them: one pass over memory each."""

from __future__ import annotations

import math
from typing import Any

import numpy
from scipy.special import erf

from benchmarks.kernels.registry import ND, Inputs, program, uniform

RATE, VOL = 0.03, 0.3
ROOT_HALF = math.sqrt(0.5)
CHUNK = 1_000_000  # Dask's: the best of 1e5, 1e6 and 4e6


def three(n: int) -> Inputs:
    return uniform(n), uniform(n, seed=1), uniform(n, seed=2)


def options(n: int) -> Inputs:
    rng = numpy.random.default_rng(0)
    return rng.uniform(50, 150, n), rng.uniform(50, 150, n), rng.uniform(0.1, 2, n)


# --- Black-Scholes ----------------------------------------------------------------------------------------


def numba_black_scholes(numba: Any, jit: Any) -> Any:
    @jit
    def f(s: ND, k: ND, t: ND) -> tuple[ND, ND]:
        call, put = numpy.empty_like(s), numpy.empty_like(s)
        for i in numba.prange(s.size):
            spread = VOL * math.sqrt(t[i])
            d1 = (math.log(s[i] / k[i]) + (RATE + 0.5 * VOL * VOL) * t[i]) / spread
            d2 = d1 - spread
            n1 = 0.5 * (1 + math.erf(d1 * ROOT_HALF))
            n2 = 0.5 * (1 + math.erf(d2 * ROOT_HALF))
            discounted = k[i] * math.exp(-RATE * t[i])
            call[i] = s[i] * n1 - discounted * n2
            put[i] = discounted * (1 - n2) - s[i] * (1 - n1)
        return call, put

    return f


def dask_black_scholes(da: Any, *inputs: ND) -> Any:
    def block(s: ND, k: ND, t: ND) -> ND:
        return numpy.stack(black_scholes(numpy, s, k, t))

    chunk = min(CHUNK, inputs[0].size)
    given = [da.from_array(x, chunks=chunk) for x in inputs]
    both = da.map_blocks(block, *given, new_axis=0, chunks=((2,), given[0].chunks[0]), dtype=float)
    return lambda: tuple(both.compute())


def numexpr_black_scholes(ne: Any, s: ND, k: ND, t: ND) -> Any:
    # numexpr has no erf: the normal distribution by SciPy between two expressions.
    given = {"s": s, "k": k, "t": t, "DRIFT": RATE + 0.5 * VOL * VOL, "ROOT_HALF": ROOT_HALF, "RATE": RATE, "VOL": VOL}

    def f() -> Any:
        d1 = ne.evaluate("(log(s / k) + DRIFT * t) / (VOL * sqrt(t)) * ROOT_HALF", given)
        d2 = ne.evaluate("d1 - VOL * sqrt(t) * ROOT_HALF", {**given, "d1": d1})
        names = {**given, "e1": erf(d1), "e2": erf(d2)}
        call = ne.evaluate("s * 0.5 * (1 + e1) - k * exp(-RATE * t) * 0.5 * (1 + e2)", names)
        put = ne.evaluate("k * exp(-RATE * t) * 0.5 * (1 - e2) - s * 0.5 * (1 - e1)", names)
        return call, put

    return f


def c_black_scholes(lib: Any, s: ND, k: ND, t: ND) -> Any:
    return lib("black_scholes", s.size, RATE, VOL, s, k, t, out=(lib.empty(s.shape), lib.empty(s.shape)))


@program(
    options,
    8_000_000,
    sizes=(1_000_000, 20_000_000),
    of_limit=0.9,
    of_peer=4.0,
    numba=numba_black_scholes,
    jax=lambda jax, np: lambda s, k, t: prices(np, jax.scipy.special.erf, s, k, t),
    dask=dask_black_scholes,
    numexpr=numexpr_black_scholes,
    c=c_black_scholes,
)
def black_scholes(np: Any, s: Any, k: Any, t: Any) -> Any:
    return prices(np, erf, s, k, t)


def prices(np: Any, erf: Any, s: Any, k: Any, t: Any) -> Any:
    """Of calls and puts; `erf` belongs to the module."""
    spread = VOL * np.sqrt(t)
    d1 = (np.log(s / k) + (RATE + 0.5 * VOL * VOL) * t) / spread
    d2 = d1 - spread
    n1, n2 = 0.5 * (1 + erf(d1 * ROOT_HALF)), 0.5 * (1 + erf(d2 * ROOT_HALF))
    discounted = k * np.exp(-RATE * t)
    return s * n1 - discounted * n2, discounted * (1 - n2) - s * (1 - n1)


# --- a chain, and a sum -----------------------------------------------------------------------------------


def numba_chain(numba: Any, jit: Any) -> Any:
    return jit(lambda a, b, c: 2 * a * b + c - a / 3 + b * c)


def dask_chain(da: Any, *inputs: ND) -> Any:
    a, b, c = (da.from_array(x, chunks=min(CHUNK, x.size)) for x in inputs)
    result = 2 * a * b + c - a / 3 + b * c
    return lambda: result.compute()


def numexpr_chain(ne: Any, a: ND, b: ND, c: ND) -> Any:
    names = {"a": a, "b": b, "c": c}
    return lambda: ne.evaluate("2 * a * b + c - a / 3 + b * c", names)


@program(
    three,
    20_000_000,
    sizes=(1_000_000,),
    of_limit=0.95,
    of_peer=2.3,
    numba=numba_chain,
    dask=dask_chain,
    numexpr=numexpr_chain,
    c=lambda lib, a, b, c: lib("chain", a.size, a, b, c, out=lib.empty(a.shape)),
)
def chain(np: Any, a: Any, b: Any, c: Any) -> Any:
    return 2 * a * b + c - a / 3 + b * c


def numba_sum(numba: Any, jit: Any) -> Any:
    @jit
    def f(a: ND, b: ND, c: ND) -> float:
        total = 0.0
        for i in numba.prange(a.size):
            total += (a[i] - b[i]) ** 2 * c[i]
        return total

    return f


def dask_sum(da: Any, *inputs: ND) -> Any:
    a, b, c = (da.from_array(x, chunks=min(CHUNK, x.size)) for x in inputs)
    result = ((a - b) ** 2 * c).sum()
    return lambda: result.compute()


def numexpr_sum(ne: Any, a: ND, b: ND, c: ND) -> Any:
    names = {"a": a, "b": b, "c": c}
    return lambda: ne.evaluate("sum((a - b) ** 2 * c)", names)


@program(
    three,
    20_000_000,
    sizes=(1_000_000,),
    of_limit=0.95,
    numba=numba_sum,
    dask=dask_sum,
    numexpr=numexpr_sum,
    c=lambda lib, a, b, c: lib("weighted_sum", a.size, a, b, c, out=numpy.empty(1)),
)
def weighted_sum(np: Any, a: Any, b: Any, c: Any) -> Any:
    return ((a - b) ** 2 * c).sum()


@program(
    three,
    10_000_000,
    numba=lambda numba, jit: jit(lambda x, y, z: (x + y + z) / 3),
    numexpr=lambda ne, x, y, z: lambda: ne.evaluate("(x + y + z) / 3", {"x": x, "y": y, "z": z}),
    moved=lambda x, y, z, result: 4 * x.nbytes,
)
def simple_avg(np: Any, x: Any, y: Any, z: Any) -> Any:
    return (x + y + z) / 3


# --- the derivative of Rosenbrock's function --------------------------------------------------------------


def numba_rosenbrock(numba: Any, jit: Any) -> Any:
    @jit
    def f(x: ND) -> ND:
        n = x.size
        der = numpy.empty_like(x)
        for i in numba.prange(1, n - 1):
            der[i] = 200 * (x[i] - x[i - 1] ** 2) - 400 * (x[i + 1] - x[i] ** 2) * x[i] - 2 * (1 - x[i])
        der[0] = -400 * x[0] * (x[1] - x[0] ** 2) - 2 * (1 - x[0])
        der[n - 1] = 200 * (x[n - 1] - x[n - 2] ** 2)
        return der

    return f


def jax_rosenbrock(jax: Any, np: Any) -> Any:
    def f(x: Any) -> Any:
        xm, before, after = x[1:-1], x[:-2], x[2:]
        inner = 200 * (xm - before**2) - 400 * (after - xm**2) * xm - 2 * (1 - xm)
        first = -400 * x[0] * (x[1] - x[0] ** 2) - 2 * (1 - x[0])
        return np.concatenate([first[None], inner, (200 * (x[-1] - x[-2] ** 2))[None]])

    return f


@program(
    lambda n: (uniform(n),),
    10_000_000,
    numba=numba_rosenbrock,
    jax=jax_rosenbrock,
    c=lambda lib, x: lib("rosenbrock", x.size, x, out=lib.empty(x.shape)),
)
def rosenbrock(np: Any, x: Any) -> Any:
    xm, before, after = x[1:-1], x[:-2], x[2:]
    der = np.empty_like(x)
    der[1:-1] = 200 * (xm - before**2) - 400 * (after - xm**2) * xm - 2 * (1 - xm)
    der[0] = -400 * x[0] * (x[1] - x[0] ** 2) - 2 * (1 - x[0])
    der[-1] = 200 * (x[-1] - x[-2] ** 2)
    return der


# --- Wald's statistic: small vectors, where calls cost more than elements ---------------------------------


def normal_pair(n: int) -> Inputs:
    rng = numpy.random.default_rng(0)
    return rng.standard_normal(n) + 0.1, rng.standard_normal(n)


@program(
    normal_pair,
    10_000,
    scales=(1_000, 100_000),
    numba=lambda numba, jit: jit(lambda x, y: (x.mean() - y.mean()) / numpy.sqrt(x.var() / x.size + y.var() / y.size)),
)
def wald(np: Any, x: Any, y: Any) -> Any:
    return (x.mean() - y.mean()) / np.sqrt(x.var() / x.size + y.var() / y.size)


# --- smoothing: y[i] = ALPHA x[i] + (1 - ALPHA) y[i - 1], by doubling ---------------------------------------

ALPHA = 0.1


def numba_smoothing(numba: Any, jit: Any) -> Any:
    @numba.njit(fastmath=True)  # sequential: there is nothing to share out
    def f(x: ND) -> ND:
        y = numpy.empty_like(x)
        last = 0.0
        for i in range(x.size):
            last = ALPHA * x[i] + (1 - ALPHA) * last
            y[i] = last
        return y

    return f


def jax_smoothing(jax: Any, np: Any) -> Any:
    def f(x: Any) -> Any:
        y, keep, shift = ALPHA * x, 1 - ALPHA, 1
        while shift < x.size and keep > 1e-18:
            y = y.at[shift:].add(keep * y[:-shift])
            keep, shift = keep * keep, 2 * shift
        return y

    return f


@program(
    lambda n: (uniform(n),),
    1_000_000,
    numba=numba_smoothing,
    jax=jax_smoothing,
    c=lambda lib, x: lib("smoothing", x.size, ALPHA, x, out=lib.empty(x.shape)),
)
def smoothing(np: Any, x: Any) -> Any:
    y, keep, shift = ALPHA * x, 1 - ALPHA, 1
    while shift < x.size and keep > 1e-18:
        y[shift:] = y[shift:] + keep * y[:-shift]
        keep, shift = keep * keep, 2 * shift
    return y


# --- collatz: a loop until all are done -------------------------------------------------------------------


def numba_collatz(numba: Any, jit: Any) -> Any:
    @jit
    def f(start: ND) -> ND:
        steps = numpy.zeros_like(start)
        for i in numba.prange(start.size):
            x, n = start[i], 0
            while x != 1 and n < LONGEST:
                x = x // 2 if x % 2 == 0 else 3 * x + 1
                n += 1
            steps[i] = n
        return steps

    return f


LONGEST = 60


@program(
    lambda n: (numpy.arange(1, n + 1),),
    200_000,
    scales=(1_000, 100_000, 1_000_000),
    numba=numba_collatz,
    c=lambda lib, start: lib("collatz", start.size, LONGEST, start, out=numpy.empty_like(start)),
)
def collatz(np: Any, start: Any) -> Any:
    x, steps = start, np.zeros_like(start)
    for _ in range(LONGEST):
        going = x != 1
        x = np.where(going, np.where(x % 2 == 0, x // 2, 3 * x + 1), x)
        steps = steps + going
    return steps
