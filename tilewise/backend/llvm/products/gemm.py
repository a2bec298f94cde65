"""Products of matrices on tiles. In: two operands and a result that move from tile to tile. Out: a call into BLAS.

One small function per dtype, compiled once, reads sizes from its geometry and calls the routine whose address is there.
Words of the geometry: the offsets of the three operands, then m, n, k, the leading dimensions, whether operands are
transposed (as characters), and the routine. BLAS wants columns: a result in rows is the transposed product.
"""

from __future__ import annotations

import importlib
import struct
from functools import cache
from typing import Any

import numpy as np

from tilewise.backend.llvm.call.tile_walk import Call, Ref
from tilewise.backend.llvm.compile.build import Native, native
from tilewise.backend.llvm.emit.frame import DATA_OFFSET
from tilewise.backend.llvm.emit.text import Function, literal

ND = np.ndarray[Any, Any]

ROUTINES = {"float64": ("dgemm", "double"), "float32": ("sgemm", "float")}
MOST = (1 << 31) - 1  # BLAS counts in 32 bits


def product(a: Ref, b: Ref, out: Ref) -> Call | None:
    """The call for out = a @ b on one tile; None if the matrices do not lie as BLAS wants them, or there is none."""
    if not _columns(out.array):
        a, b, out = _turned(b), _turned(a), _turned(out)
    dtype = out.array.dtype.name
    kinds = [_kind(x.array) for x in (a, b)]
    if dtype not in ROUTINES or not _columns(out.array) or None in kinds:
        return None
    (m, k), n = a.array.shape, b.array.shape[1]
    if b.array.shape[0] != k or out.array.shape != (m, n):  # einsum stretches axes of length 1
        return None
    size = out.array.itemsize
    leading = [
        max(x.array.strides[0 if kind == "T" else 1] // size, x.array.shape[1 if kind == "T" else 0], 1)
        for x, kind in zip((a, b, out), (*kinds, "N"), strict=True)
    ]
    words = (m, n, k, *leading)
    if max(words) > MOST:
        return None
    letters = [ord(kind) for kind in kinds if kind is not None]
    place = address(ROUTINES[dtype][0])
    if place is None:
        return None
    geometry = struct.pack("<12q", 0, 0, 0, *words, *letters, place)
    return Call(_code(dtype), (a, b, out), (), geometry)


@cache
def address(routine: str) -> int | None:
    """Where a routine of SciPy's BLAS is; None without SciPy, which is optional."""
    try:
        return int(importlib.import_module("tilewise.backend.blas").address(routine))
    except ImportError:
        return None


def _turned(ref: Ref) -> Ref:
    return ref.of(ref.array.T)


def _columns(x: ND) -> bool:
    """Whether a matrix lies column by column."""
    return (x.shape[0] == 1 or x.strides[0] == x.itemsize) and _apart(x, 1)


def _apart(x: ND, axis: int) -> bool:
    """Whether steps along an axis are whole elements, and no column overlaps the next."""
    far = x.strides[axis]
    return x.shape[axis] == 1 or (far % x.itemsize == 0 and far >= x.itemsize * x.shape[1 - axis])


def _kind(x: ND) -> str | None:
    """ "N" for columns, "T" for rows."""
    if _columns(x):
        return "N"
    return "T" if _columns(x.T) else None


def _code(dtype: str) -> Native:
    return native(("product", dtype), lambda name: _build(name, ROUTINES[dtype][1]))


def _build(name: str, ty: str) -> Function:
    fn = Function(name, "ptr noalias %objs, ptr noalias %geom")

    def word(base: str, index: int, kind: str = "i64") -> str:
        at = fn.hoist(f"getelementptr i64, ptr {base}, i64 {index}")
        return fn.hoist(f"load {kind}, ptr {at}, align 8")

    def operand(k: int) -> str:
        field = fn.hoist(f"getelementptr i8, ptr {word('%objs', k, 'ptr')}, i64 {DATA_OFFSET}")
        data = fn.hoist(f"load ptr, ptr {field}, align 8")
        return fn.hoist(f"getelementptr i8, ptr {data}, i64 {word('%geom', k)}")

    def kept(kind: str, value: str) -> str:
        at = fn.hoist(f"alloca {kind}, align 8")
        fn.do(f"store {kind} {value}, ptr {at}, align 8")
        return at

    a, b, c = (operand(k) for k in range(3))
    m, n, k, lda, ldb, ldc = (kept("i32", fn.hoist(f"trunc i64 {word('%geom', 3 + i)} to i32")) for i in range(6))
    ta, tb = (kept("i8", fn.hoist(f"trunc i64 {word('%geom', 9 + i)} to i8")) for i in range(2))
    one, zero = kept(ty, literal(ty, 1.0)), kept(ty, literal(ty, 0.0))
    args = ", ".join(f"ptr {x}" for x in (ta, tb, m, n, k, one, a, lda, b, ldb, zero, c, ldc))
    fn.do(f"call void {word('%geom', 11, 'ptr')}({args})")
    return fn
