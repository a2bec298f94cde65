"""The code of a kernel for people to read. In: a kernel and the arrays' geometry. Out: LLVM IR and assembly as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tilewise.backend.llvm.call.compiled import compile
from tilewise.backend.llvm.compile import build
from tilewise.kernel.loops import Kernel

ND = np.ndarray[Any, Any]


BUCKETS = 16  # that are shown where sizes say nothing of their number


class Listing(NamedTuple):
    """What a kernel is compiled from, and to."""

    ir: str
    assembly: str


def _meta_array(shape: tuple[int, ...], dtype: str) -> ND:
    """An array of this shape in C order, without memory: only its strides are looked at."""
    strides = np.cumprod((np.dtype(dtype).itemsize, *shape[:0:-1]))[::-1] if shape else ()
    return np.lib.stride_tricks.as_strided(np.empty(1, dtype), shape, tuple(map(int, strides)), writeable=False)


def listing(
    kernel: Kernel,
    shape: tuple[int, ...],
    inputs: Sequence[ND] | None = None,
    outs: Sequence[ND] | None = None,
    vector_bytes: int | None = None,
) -> Listing:
    """The code that runs a kernel over a non-empty space; operands lie in C order unless arrays say otherwise."""
    kept = tuple(n for n, r in zip(shape, kernel.reduced, strict=True) if not r)
    if inputs is None:
        inputs = [_meta_array(shape, dtype) for dtype in kernel.inputs]
    if outs is None:
        pairs = zip(kernel.outputs, kernel.out_dtypes, strict=True)
        outs = [_meta_array(shape if o.stored else kept if o.key is None else (BUCKETS, *kept), t) for o, t in pairs]
    code = compile(kernel, vector_bytes).code_for(shape, (*inputs, *outs))
    return Listing(*build.listing(code))
