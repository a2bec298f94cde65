"""The meaning of a kernel, by NumPy alone: the oracle of every target and the fallback where a target has no code.

In: a `Kernel`, the space's shape, inputs, params, preallocated outputs. Out: the outputs, filled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewise.ir.scalar import scalar
from tilewise.kernel.loops import Instr, Kernel, const_value

Scalar = Any  # a Python or NumPy number


def apply(instr: Instr, args: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """One instruction on whole arrays."""
    dtype = np.dtype(instr.dtype)
    if instr.fn.startswith("const:"):
        return np.asarray(const_value(instr.fn), dtype)
    if instr.fn == "cast":
        return np.asarray(args[0]).astype(dtype)
    if instr.fn == "where":
        return np.where(*args).astype(dtype, copy=False)
    name, _, which = instr.fn.partition(":")
    if which:  # one of the results of modf
        return np.asarray(scalar(name).call(*args)[int(which)]).astype(dtype, copy=False)
    return np.asarray(scalar(instr.fn).call(*args)).astype(dtype, copy=False)


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
