"""The meaning of a kernel, by NumPy alone: the oracle of every target and the fallback where a target has no code.

In: a `Kernel`, the space's shape, inputs, params, preallocated outputs. Out: the outputs, filled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewise.ir.reductions import by_name
from tilewise.ir.scalar import scalar
from tilewise.kernel.loops import CARRIED, CARRY, INNER, ITERATIONS, TABLE, Instr, Kernel, Output, const_value

Scalar = Any  # a Python or NumPy number
LANES = 64  # NumPy converts no more at once


def apply(instr: Instr, args: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """One instruction on whole arrays."""
    dtype = np.dtype(instr.dtype)
    if instr.fn.startswith("const:"):
        return np.asarray(const_value(instr.fn), dtype)
    if instr.fn == "cast":
        return _cast(np.asarray(args[0]), dtype)
    if instr.fn in ("where", "rarely"):
        return np.where(*args).astype(dtype, copy=False)
    name, _, which = instr.fn.partition(":")
    if which:  # one of the results of modf
        return np.asarray(scalar(name).call(*args)[int(which)]).astype(dtype, copy=False)
    return np.asarray(scalar(instr.fn).call(*args)).astype(dtype, copy=False)


def _cast(a: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """astype; NumPy's vectors and what it does at the end of an array convert differently what does not fit."""
    if a.dtype.kind != "f" or dtype.kind not in "iu":
        return a.astype(dtype)
    return np.append(a, np.zeros(LANES, a.dtype)).astype(dtype)[: a.size].reshape(a.shape)


def run(
    kernel: Kernel,
    shape: tuple[int, ...],
    inputs: Sequence[np.ndarray[Any, Any]],
    params: Sequence[Scalar],
    outs: Sequence[np.ndarray[Any, Any]],
) -> None:
    """Fill `outs`; floating-point warnings are silent, as they are in native code."""
    if 0 in shape:  # a block of nothing: so may be its part of what is repeated along an axis
        inputs = [np.empty(shape, a.dtype) for a in inputs]
    values: list[np.ndarray[Any, Any]] = [np.asarray(a) for a in inputs]
    numbers, tables = params[: len(kernel.params)], params[len(kernel.params) :]
    values += [np.asarray(p).astype(t) for p, t in zip(numbers, kernel.params, strict=True)]
    with np.errstate(all="ignore"):
        loop_body = kernel.loop_body or range(0)
        for k, instr in enumerate(kernel.body):
            if instr.fn.startswith(INNER):
                whole = np.broadcast_to(values[instr.args[0]], shape)
                ufunc = getattr(np, instr.fn.removeprefix(INNER))
                values.append(ufunc.reduce(whole, axis=-1, keepdims=True, dtype=whole.dtype))
            elif k not in loop_body:
                values.append(apply(instr, [values[a] for a in instr.args]))
            elif k == loop_body.start:
                _iterations([kernel.body[j] for j in loop_body], values, tables)
        reduced, results = kernel.reduced, []
        if kernel.inner is not None:
            values = [v[..., 0] if v.ndim == len(shape) else v for v in values]
            shape, reduced = shape[:-1], reduced[:-1]
        for output, out in zip(kernel.outputs, outs, strict=True):
            whole = np.broadcast_to(values[output.value], shape)
            if output.reduce is None:
                results.append(whole)
            elif output.key is not None:
                keys = np.broadcast_to(values[output.key], shape)
                results.append(_buckets(output.reduce, reduced, whole, keys, len(out)))
            else:
                results.append(_reduced(output, reduced, whole))
        for out, result in zip(outs, results, strict=True):
            np.copyto(out, result)


def _iterations(
    part: Sequence[Instr], values: list[np.ndarray[Any, Any]], tables: Sequence[np.ndarray[Any, Any]]
) -> None:
    """Add the values of a part that runs for many iterations, as they are after the last one."""
    base = len(values)
    begin = next(i for i in part if i.fn == ITERATIONS)
    kept: list[np.ndarray[Any, Any]] = []
    for iteration in range(int(values[begin.args[0]])):
        before, kept = kept, []
        del values[base:]
        for j, instr in enumerate(part):
            if instr.fn == ITERATIONS:
                values.append(np.asarray(iteration))
            elif instr.fn == CARRIED:
                values.append(before[j - 1] if iteration else values[instr.args[0]])
            elif instr.fn == CARRY:
                kept.append(values[instr.args[1]])
                values.append(kept[-1])
            elif instr.fn.startswith(TABLE):
                values.append(np.asarray(tables[int(instr.fn.removeprefix(TABLE))][iteration]).astype(instr.dtype))
            else:
                values.append(apply(instr, [values[a] for a in instr.args]))


def _reduced(output: Output, reduced: Sequence[bool], whole: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A reduction, a position or a scan."""
    assert output.reduce is not None
    axes = tuple(d for d, r in enumerate(reduced) if r)
    if output.is_arg:
        last = np.moveaxis(whole, axes, range(-len(axes), 0))
        found = last.reshape(*last.shape[: whole.ndim - len(axes)], math.prod(last.shape[whole.ndim - len(axes) :]))
        return np.asarray(getattr(np, output.reduce)(found, axis=-1))
    ufunc = getattr(np, output.reduce)
    if output.scan:
        return np.asarray(ufunc.accumulate(whole, axis=axes[0], dtype=whole.dtype))
    return np.asarray(ufunc.reduce(whole, axis=axes, dtype=whole.dtype))


def _buckets(
    op: str, reduced: Sequence[bool], whole: np.ndarray[Any, Any], keys: np.ndarray[Any, Any], buckets: int
) -> np.ndarray[Any, Any]:
    """Point after point to the bucket that its key names."""
    kept = [d for d, r in enumerate(reduced) if not r]
    result = np.full((buckets, *(whole.shape[d] for d in kept)), by_name(op).identity(whole.dtype))
    inside = np.nonzero((keys >= 0) & (keys < buckets))
    if inside:
        getattr(np, op).at(result, (keys[inside], *(inside[d] for d in kept)), whole[inside])
    return result
