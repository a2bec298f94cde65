"""The meaning of a kernel, by NumPy alone: the oracle of every target and the fallback where a target has no code.

In: a `Kernel`, the space's shape, inputs, params, preallocated outputs. Out: the outputs, filled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewise.kernel.loops import Instr, Kernel, const_value

Scalar = Any  # a Python or NumPy number

_erf: Callable[..., Any] = np.vectorize(math.erf, otypes=[np.float64])


def apply(instr: Instr, args: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """One instruction on whole arrays."""
    dtype = np.dtype(instr.dtype)
    if instr.fn.startswith("const:"):
        return np.asarray(const_value(instr.fn), dtype)
    if instr.fn == "cast":
        return np.asarray(args[0]).astype(dtype)
    if instr.fn == "where":
        return np.where(*args).astype(dtype, copy=False)
    if instr.fn == "erf":
        return np.asarray(_erf(args[0])).astype(dtype)
    return np.asarray(getattr(np, instr.fn)(*args)).astype(dtype, copy=False)


def run(
    kernel: Kernel,
    shape: tuple[int, ...],
    inputs: Sequence[np.ndarray[Any, Any]],
    params: Sequence[Scalar],
    outs: Sequence[np.ndarray[Any, Any]],
) -> None:
    """Fill `outs`; floating-point warnings are silent, as they are in native code."""
    axes = tuple(d for d, r in enumerate(kernel.reduced) if r)
    values: list[np.ndarray[Any, Any]] = [np.asarray(a) for a in inputs]
    values += [np.asarray(p).astype(t) for p, t in zip(params, kernel.params, strict=True)]
    with np.errstate(all="ignore"):
        for instr in kernel.body:
            values.append(apply(instr, [values[a] for a in instr.args]))
        results = []
        for output in kernel.outputs:
            whole = np.broadcast_to(values[output.value], shape)
            if output.reduce is None:
                results.append(whole)
            else:
                ufunc = getattr(np, output.reduce)
                results.append(ufunc.reduce(whole, axis=axes, dtype=whole.dtype))
        for out, result in zip(outs, results, strict=True):
            np.copyto(out, result)
