"""Arrays flush against memory that may not be touched: code that reads or writes one byte too far dies at once."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence

import numpy as np

from tests.kernel.support import ND

PAGE = mmap.PAGESIZE
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def fenced(nbytes: int) -> tuple[ND, int, int]:
    """Bytes between two guard pages: the whole region, where the usable part begins and where it ends."""
    pages = max(1, -(-nbytes // PAGE))
    region = np.frombuffer(mmap.mmap(-1, (pages + 2) * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), np.uint8)
    for page in (0, pages + 1):
        if _libc.mprotect(region.ctypes.data + page * PAGE, PAGE, 0):
            raise OSError(ctypes.get_errno(), "mprotect")
    return region, PAGE, (pages + 1) * PAGE


def strides_for(shape: Sequence[int], itemsize: int, order: Sequence[int], steps: Sequence[int]) -> tuple[int, ...]:
    """Byte strides of an array whose axes lie in memory in this order (outermost first), each walked by its step."""
    strides, size = [0] * len(shape), itemsize
    for axis in reversed(order):
        strides[axis] = size * steps[axis]
        size *= max(1, shape[axis]) * abs(steps[axis])
    return tuple(strides)


def guarded(shape: tuple[int, ...], dtype: str, strides: tuple[int, ...], side: str) -> ND:
    """An array with these strides whose first byte ("left") or last byte ("right") is next to a guard page."""
    itemsize = np.dtype(dtype).itemsize
    reach = [(n - 1) * s for n, s in zip(shape, strides, strict=True)] if 0 not in shape else []
    low, high = sum(min(0, r) for r in reach), sum(max(0, r) for r in reach) + itemsize
    region, first, last = fenced(high - low)
    start = first if side == "left" else last - (high - low)
    return np.ndarray(shape, dtype, buffer=region, offset=start - low, strides=strides)
