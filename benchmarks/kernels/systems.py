"""The systems of the table. In: a program and its inputs. Out: a call without arguments that computes the result.

Inputs are in each system's own arrays before the clock starts; every call ends with the result computed. NumPy and the
Python peers allocate their results as their users pay for it; C writes into the same buffers again.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

import tilewise as tw
from benchmarks.kernels.native import library
from benchmarks.kernels.registry import Inputs, Program
from benchmarks.kernels.threads import THREADS

Call = Callable[[], Any]
PEERS = ("numpy", "numba", "jax", "numexpr", "dask", "sklearn")


def _numpy(program: Program, inputs: Inputs) -> Call:
    return lambda: program.source(np, *inputs)


def tilewise_inputs(inputs: Inputs) -> Inputs:
    """Known Tilewise arrays of the same elements."""
    return tuple(tw.asarray(x) if isinstance(x, np.ndarray) else x for x in inputs)


def evaluated(result: Any) -> Any:
    """A program's result, computed."""
    return tw.evaluate(*result) if isinstance(result, tuple) else tw.evaluate(result)


def _tilewise(program: Program, inputs: Inputs) -> Call:
    given = tilewise_inputs(inputs)
    return lambda: evaluated(program.source(tw, *given))


def _jit(program: Program, inputs: Inputs) -> Call:
    given, compiled = tilewise_inputs(inputs), tw.jit(program.source)
    return lambda: evaluated(compiled(tw, *given))


def _numba(program: Program, inputs: Inputs) -> Call | None:
    if program.numba is None:
        return None
    numba = importlib.import_module("numba")
    compiled = program.numba(numba, numba.njit(parallel=True, fastmath=True))
    return lambda: compiled(*inputs)


def _jax(program: Program, inputs: Inputs) -> Call | None:
    if program.jax is False:
        return None
    jax = importlib.import_module("jax")
    jax.config.update("jax_enable_x64", True)
    if program.jax is True:

        def plain(*args: Any) -> Any:
            return program.source(jax.numpy, *args)

        function: Any = plain
    else:
        function = program.jax(jax, jax.numpy)
    fixed = tuple(i for i, x in enumerate(inputs) if not isinstance(x, np.ndarray))
    compiled = jax.jit(function, static_argnums=fixed)
    given = tuple(jax.numpy.asarray(x) if isinstance(x, np.ndarray) else x for x in inputs)
    return lambda: jax.block_until_ready(compiled(*given))


def _numexpr(program: Program, inputs: Inputs) -> Call | None:
    return program.numexpr and program.numexpr(importlib.import_module("numexpr"), *inputs)


def _dask(program: Program, inputs: Inputs) -> Call | None:
    if program.dask is None:
        return None
    importlib.import_module("dask").config.set(scheduler="threads", num_workers=THREADS)
    return program.dask(importlib.import_module("dask.array"), *inputs)


def _sklearn(program: Program, inputs: Inputs) -> Call | None:
    return program.sklearn and program.sklearn(importlib.import_module("sklearn"), *inputs)


def _c(program: Program, inputs: Inputs) -> Call | None:
    lib = library() if program.c is not None else None
    return None if lib is None or program.c is None else program.c(lib, *inputs)


MAKERS: dict[str, Callable[[Program, Inputs], Call | None]] = {
    "tilewise": _tilewise,
    "tw.jit": _jit,
    "c": _c,
    "numpy": _numpy,
    "numba": _numba,
    "jax": _jax,
    "numexpr": _numexpr,
    "dask": _dask,
    "sklearn": _sklearn,
}


def arrays(result: Any) -> tuple[Any, ...]:
    """A result as NumPy arrays."""
    return tuple(np.asarray(x) for x in (result if isinstance(result, (tuple, list)) else (result,)))


def differs(result: Any, expected: Any, rtol: float, *, strict: bool = False) -> str:
    """What is wrong with a result, or nothing. `strict` looks at dtypes and shapes, too."""
    for k, (x, y) in enumerate(zip(arrays(result), arrays(expected), strict=True)):
        if x.size != y.size or (strict and (x.shape, x.dtype) != (y.shape, y.dtype)):
            return f"result {k} is {x.dtype}{x.shape}, not {y.dtype}{y.shape}"
        x = x.reshape(y.shape)
        scale = float(np.max(np.abs(y), initial=0.0, where=np.isfinite(y))) if y.size else 0.0
        near = np.isclose(x, y, rtol=rtol, atol=rtol * scale, equal_nan=True)
        if not near.all():
            at = tuple(map(int, np.argwhere(~near)[0]))
            return f"result {k}{list(at)} is {x[at]}, not {y[at]} ({int((~near).sum())} of {near.size} differ)"
    return ""
