"""What a program of the table is. In: functions with their rivals. Out: `PROGRAMS`, by name.

A program is written once, as `f(np, *inputs)` for a NumPy user. Rivals that need another text are makers beside it:

- numba: `maker(numba, jit)` gives a function of the inputs (`jit` is `njit(parallel=True, fastmath=True)`),
- jax: True if the source itself may be jitted, or `maker(jax, jnp)` that gives a function to jit,
- numexpr, dask, sklearn: `maker(module, *inputs)` gives a function without arguments,
- c: `maker(lib, *inputs)` gives a function without arguments; its result buffers are its own and used again.

Without C, the limit is the least traffic over the copy bandwidth or the least work over BLAS's rate, whichever is more.
Programs of microseconds, where calls are all that counts, have no limit but their peers.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

ND = np.ndarray[Any, Any]
Inputs = tuple[Any, ...]
Maker = Callable[..., Callable[..., Any]]

SCALES = (1_000, 100_000, 10_000_000)  # elements, for the comparison with NumPy alone


@dataclass(frozen=True)
class Program:
    """One row of the table; `size` counts elements of its largest array (or of its iteration space)."""

    name: str
    source: Callable[..., Any]
    inputs: Callable[[int], Inputs]
    size: int
    sizes: tuple[int, ...] = ()  # further sizes under all systems
    scales: tuple[int, ...] = SCALES
    of_limit: float = 0.8  # goal: the limit's time over ours
    of_peer: float = 1.0  # goal: the best Python peer's time over ours
    median: bool = False  # of nine, instead of the best
    numpy_most: int | None = None  # NumPy would need too much memory beyond this size
    rtol: float = 1e-9
    moved: Callable[..., int] | None = None  # bytes that any version must move, from inputs and the result
    work: Callable[..., float] | None = None  # floating-point operations, where the limit is BLAS's rate
    numba: Maker | None = None
    jax: bool | Maker = True
    numexpr: Maker | None = None
    dask: Maker | None = None
    sklearn: Maker | None = None
    c: Maker | None = None


GROUPS = "pointwise regression kmeans stencils rows pairs products fractals images particles".split()
PROGRAMS: dict[str, Program] = {}


def program(inputs: Callable[[int], Inputs], size: int, **more: Any) -> Callable[[Callable[..., Any]], Any]:
    """Enter a function into the table under its name."""

    def enter(source: Callable[..., Any]) -> Callable[..., Any]:
        name = source.__name__
        assert name not in PROGRAMS, name
        PROGRAMS[name] = Program(name, source, inputs, size, **more)
        return source

    return enter


def load() -> dict[str, Program]:
    """All programs, in the order of the table."""
    for group in GROUPS:
        importlib.import_module(f"benchmarks.kernels.{group}")
    return PROGRAMS


def uniform(*shape: int, seed: int = 0) -> ND:
    """Numbers in [0, 1)."""
    return np.random.default_rng(seed).random(shape)


def normal(*shape: int, seed: int = 0) -> ND:
    """Normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape)


def side(n: int, power: int = 2) -> int:
    """The side of a square (cube, …) of about n elements."""
    return max(round(n ** (1 / power)), 4)


def nbytes(*arrays: Any) -> int:
    """Bytes of arrays (tuples of arrays included), each once."""
    flat = [y for x in arrays for y in (x if isinstance(x, tuple) else (x,))]
    return sum(np.asarray(x).nbytes for x in {id(x): x for x in flat}.values())
