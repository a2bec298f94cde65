"""Shared by the kernel tests: small kernels and arrays of awkward values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewise.backend import llvm
from tilewise.backend.llvm.compile.cpu import host_machine, level
from tilewise.kernel import interpret
from tilewise.kernel.loops import Instr, Kernel, Output

_WIDEST = host_machine().vector_bytes
# The machine's own code, and that of lesser CPUs: narrower vectors by their own instructions, scalar code.
WIDTHS = (None, *(w for w in (32, 16, 0) if w < _WIDEST or w == 0))
RUNNABLE = (None, *(w for w in (64, 32, 16, 0) if w <= _WIDEST))  # with the least CPU that has the widest vectors
ND = np.ndarray[Any, Any]


def alike(width: int | None) -> tuple[int | None, ...]:
    """The runnable widths that give sums of products the bits of this one: CPUs with SSE alone round the products."""
    fuses = {w: (host_machine() if w is None else level(w)).fuses for w in RUNNABLE}
    return tuple(w for w in RUNNABLE if fuses[w] == fuses[width])


def one_op(fn: str, dtypes: tuple[str, ...], out: str, rank: int = 1) -> Kernel:
    """A kernel of one instruction."""
    n = len(dtypes)
    return Kernel(dtypes, (), (Instr(fn, tuple(range(n)), out),), (Output(n),), (False,) * rank)


def reduction(op: str, dtype: str, reduced: tuple[bool, ...]) -> Kernel:
    """A kernel that only reduces its input."""
    return Kernel((dtype,), (), (), (Output(0, op),), reduced)


def empty_outs(kernel: Kernel, shape: tuple[int, ...], buckets: int = 5) -> list[ND]:
    """New arrays for the outputs of a kernel."""
    kept = kernel.kept(shape)
    return [
        np.empty(shape if o.stored else (buckets, *kept) if o.key is not None else kept, t)
        for o, t in zip(kernel.outputs, kernel.out_dtypes, strict=True)
    ]


def call(kernel: Kernel, shape: tuple[int, ...], inputs: Sequence[ND], params: Sequence[Any] = (),
         outs: Sequence[ND] | None = None, width: int | None = None, buckets: int = 5) -> list[ND]:  # fmt: skip
    """Run a kernel into new arrays."""
    outs = outs or empty_outs(kernel, shape, buckets)
    llvm.compile(kernel, width)(shape, inputs, params, outs)
    return list(outs)


def meaning(kernel: Kernel, shape: tuple[int, ...], inputs: Sequence[ND], buckets: int = 5) -> list[ND]:
    """What a kernel without params gives by its definition."""
    outs = empty_outs(kernel, shape, buckets)
    interpret.run(kernel, shape, inputs, [], outs)
    return outs


def numbers(dtype: str, shape: tuple[int, ...], seed: int = 0, top: int = 20) -> ND:
    """Few different values, so that many are equal, none of them a zero below zero."""
    low = 0 if np.dtype(dtype).kind in "bu" else -top
    return np.random.default_rng(seed).integers(low, top, shape, endpoint=True).astype(dtype)


def views(x: ND) -> list[ND]:
    """The same values in other orders of memory, and other values with other steps."""
    doubled = np.repeat(np.repeat(x, 2, 0), 2, -1)
    return [x, np.asfortranarray(x), doubled[::2, ..., ::2], x[::-1], x[..., ::-1]]


def awkward(dtype: str, seed: int = 0) -> ND:
    """Special and random values of a dtype."""
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return np.array([True, False])
    if kind.kind == "c":
        parts = awkward(f"f{kind.itemsize // 2}", seed)[::4]
        return np.concatenate(
            [complex_of(*(p.ravel() for p in np.meshgrid(parts, parts))), complex_of(parts, np.zeros_like(parts))]
        )
    if kind.kind == "f":
        info = np.finfo(kind)
        limits = [float(info.tiny), float(info.tiny) / 8, float(info.max), float(info.eps), np.inf, np.nan]
        plain = [0.0, 1.0, 0.5, 1.5, 2.5, 3.0, 7.3, 1e-3, 123.456, 2.0**31, 2.0**31 - 0.5, 2.0**15, 300.7]
        with np.errstate(over="ignore"):
            values = np.array(limits + plain + list(rng.normal(size=9) * 10)).astype(kind)
        return np.concatenate([values, -values])
    info = np.iinfo(kind)
    edges = [0, 1, 2, 3, 5, 7, 8, 15, 16, 31, 32, 63, 64, 100, info.max, info.max - 1, info.max // 2]
    if info.min < 0:
        edges += [-1, -2, -3, -7, -8, -64, info.min, info.min + 1]
    return np.concatenate([np.array(edges, kind), rng.integers(info.min, info.max, 9, dtype=kind, endpoint=True)])


def complex_of(real: ND, imag: ND) -> ND:
    """Complex numbers of parts that may be infinite or NaN (arithmetic would mix them)."""
    out = np.empty(real.shape, np.result_type(real.dtype, np.complex64))
    out.real, out.imag = real, imag
    return out


def pairs(dtype: str, other: str | None = None) -> tuple[ND, ND]:
    """Every awkward value with every other."""
    a, b = np.meshgrid(awkward(dtype), awkward(other or dtype))
    return a.ravel().copy(), b.ravel().copy()


def same_bits(a: ND, b: ND) -> bool:
    """Equal to the last bit; NaNs are equal to each other."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind == "c":
        return same_bits(a.real, b.real) and same_bits(a.imag, b.imag)
    if a.dtype.kind != "f":
        return bool((a == b).all())
    nan = np.isnan(a)
    bits = f"u{a.dtype.itemsize}"
    return bool((nan == np.isnan(b)).all() and (a[~nan].view(bits) == b[~nan].view(bits)).all())
