"""Chunks of bucket reductions. In: a kernel, its dims, the buckets of its outputs. Out: a `Nest` of form "buckets".

The number of chunks follows from sizes alone (sums must not depend on threads), and their accumulators stay small
beside the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tilewise import rounding
from tilewise.backend.llvm.loops.geometry import Cut, Dim, Nest, Partials
from tilewise.kernel.loops import Kernel


def bucket_nest(kernel: Kernel, dims: Sequence[Dim], itemsizes: Sequence[int], buckets: Sequence[int]) -> Nest:
    """The loops of a kernel whose reductions have keys."""
    none = (0,) * len(itemsizes)
    dims = list(dims) if any(d.reduced for d in dims) else [Dim(1, True, none), *dims]
    inner = dims[-1]
    chunked = max((d for d in dims if d.reduced and d is not inner), key=lambda d: d.size, default=inner)
    loops = [chunked, *(d for d in dims if d is not chunked)] if chunked is not inner else dims
    kept = [d for d in loops if not d.reduced]
    columns = prod(d.size for d in kept)
    points = prod(d.size for d in loops)
    accumulators = columns * max(buckets)
    least = max(rounding.BUCKET_CHUNK_POINTS, rounding.POINTS_PER_BUCKET * accumulators)
    pair = points >= max(2 * rounding.BUCKET_CHUNK_POINTS, rounding.PAIR_POINTS_PER_BUCKET * accumulators)
    some = max(2 if pair else 1, min(rounding.BUCKET_CHUNKS, points // least))
    length = -(-chunked.size // min(chunked.size, some))
    chunks = -(-chunked.size // length)
    steps = {id(d): prod(e.size for e in kept[i + 1 :]) for i, d in enumerate(kept)}
    keyed = [j for j, o in enumerate(kernel.outputs) if o.key is not None]
    n = len(kernel.inputs)
    partials, extras = {}, [length, 0, chunks]
    for j, count in zip(keyed, buckets, strict=True):
        size = (count + 1) * columns
        adds = kernel.outputs[j].reduce == "add"  # the order of products shows in the signs of complex zeros
        tables = rounding.BUCKET_TABLES if adds and not kept and size <= rounding.BUCKET_TABLES_UP_TO else 1
        partials[j] = Partials((1, chunks * tables, size), tuple(kept), count)
        extras += [count, columns * itemsizes[n + j], size * tables, size * itemsizes[n + j] * (tables > 1)]

    def laid_out(d: Dim) -> Dim:
        strides = list(d.strides)
        for j in keyed:
            strides[n + j] = steps.get(id(d), 0) * itemsizes[n + j]
        return Dim(d.size, d.reduced, tuple(strides))

    return Nest(
        "buckets",
        tuple(laid_out(d) for d in loops),
        tuple(extras),
        (Cut(chunks, 1, extra=1),),
        partials,
        chunked=0 if chunked is not inner else len(loops) - 1,
    )
