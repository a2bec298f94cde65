"""What native code is handed: words with addresses and params, and inputs copied into panels."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import numpy as np

from tilewise.backend.llvm.emit.bodies import beside
from tilewise.backend.llvm.loops.geometry import Pack
from tilewise.kernel.loops import Kernel
from tilewise.store import pool

ND = np.ndarray[Any, Any]

_PARAM_FORMAT = {
    "float64": "d", "float32": "f4x", "bool": "?7x", "int8": "b7x", "int16": "h6x", "int32": "i4x", "int64": "q",
    "uint8": "B7x", "uint16": "H6x", "uint32": "I4x", "uint64": "Q", "float16": "e6x", "complex64": "ff",
    "complex128": "dd",
}  # fmt: skip


@cache
def objs_packer(kernel: Kernel) -> Callable[..., bytes]:
    """The function from addresses of operands and values of params to `objs`."""
    operands = len(kernel.inputs) + len(kernel.outputs) + len(beside(kernel))
    # "<": no padding beyond what the formats say
    formats = "".join(_PARAM_FORMAT.get(t, "8x") for t in kernel.params) + "Q" * len(kernel.tables)
    pack = struct.Struct("<" + "Q" * operands + formats).pack
    if not kernel.tables and not any(t.startswith("complex") for t in kernel.params):
        return pack
    numbers = operands + len(kernel.params)

    def in_parts(*values: Any) -> bytes:
        flat = list(values[:operands])
        for value, dtype in zip(values[operands:numbers], kernel.params, strict=True):
            flat += [value.real, value.imag] if dtype.startswith("complex") else [value]
        return pack(
            *flat, *[_table_address(t, dtype) for t, dtype in zip(values[numbers:], kernel.tables, strict=True)]
        )

    return in_parts


def _table_address(table: ND, dtype: str) -> int:
    assert table.dtype == dtype and table.flags.c_contiguous, f"a table of {table.dtype}, the kernel wants {dtype}"
    return int(table.ctypes.data)


def address_words(arrays: Iterable[ND]) -> bytes:
    """The addresses of some arrays."""
    words = [id(a) for a in arrays]
    return struct.pack(f"<{len(words)}Q", *words)


class _Memory:
    """Memory as NumPy is told of it."""

    def __init__(self, source: ND, pack: Pack, offset: int) -> None:
        about = source.__array_interface__
        start, _ = about["data"]
        place = {"data": (start + offset, True), "shape": pack.shape, "strides": pack.strides}
        self.__array_interface__ = {**about, **place}
        self.source = source  # lives as long as this is looked at


def packed(source: ND, pack: Pack, offset: int = 0) -> ND:
    """A copy of an input in panels, from some bytes on."""
    target = pool.empty(pack.shape, source.dtype)
    width = pack.shape[-1]
    full, rest = divmod(pack.lanes, width)
    whole = np.asarray(_Memory(source, pack, offset))
    target[..., :full, :, :] = whole[..., :full, :, :]
    if rest:
        target[..., full, :, :rest] = whole[..., full, :, :rest]
        target[..., full, :, rest:] = 0
    return target
