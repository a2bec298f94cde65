"""Lines of memory that are fetched before they are read. In: loops, places in a row. Out: inputs worth it; prefetches.

One stream per core does not keep memory busy: the hardware looks a few lines ahead, and stops at the end of a page.
So lines come into the L2 cache long before they are read, and from there into the L1 cache. Nothing is read where
nothing is (a prefetch does not fault), and no result changes.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tilewise.backend.llvm.emit.frame import Frame
from tilewise.backend.llvm.emit.text import Function
from tilewise.backend.llvm.loops.geometry import Nest

L2, L1 = 2, 3  # LLVM's numbers for caches
# 32 and 2 KiB, 16 and 4 KiB are about the same, 16 and 1 KiB or 8 and 1 KiB less good, one distance takes 1.1 times as
# long (docs/design/0023-prefetch.md)
AHEAD_BYTES = {L2: 16384, L1: 2048}
# Where the hardware looks far enough by itself (`VectorUnit.follows`) it does so for one or two streams, and from
# memory for a third one too late.
HELPED_BYTES = {L2: 3072}
LINE_BYTES = 64
FORMS = ("rows", "short")


def streams(nest: Nest, itemsizes: tuple[int, ...], inputs: Iterable[int]) -> tuple[int, ...]:
    """Those of some inputs whose memory the loops walk in order."""
    return tuple(k for k in inputs if nest.form in FORMS and _in_order(nest, k, itemsizes[k]))


def _in_order(nest: Nest, k: int, itemsize: int) -> bool:
    """Whether a row is contiguous, and the next one begins where it ends (or is far)."""
    if nest.dims[-1].strides[k] != itemsize:
        return False
    row = nest.dims[-1].size * itemsize
    following = [d.strides[k] for d in reversed(nest.dims[:-1]) if d.strides[k] and d.size > 1]
    return row >= 8 * max(AHEAD_BYTES.values()) or not following or following[0] == row


def bytes_of(nest: Nest, k: int, itemsize: int) -> int:
    """The bytes of an input that loops read."""
    return itemsize * int(np.prod([d.size for d in nest.dims if d.strides[k]], dtype=np.int64))


def fetch(fn: Function, at: str, cache: int = L1) -> None:
    """Fetch the line of an address into a cache and all that are farther from the core."""
    fn.declares.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    fn.do(f"call void @llvm.prefetch.p0(ptr {at}, i32 0, i32 {cache}, i32 1)")


def fetch_ahead(frame: Frame, at: list[str], column: str, lanes: int, in_order: bool = True) -> None:
    """Fetch what comes some bytes after these lanes, of the inputs that are worth it."""
    distances = HELPED_BYTES if in_order and frame.spec.machine.follows else AHEAD_BYTES
    for k in frame.spec.fetched:
        here = frame.address(k, at, column)
        for line in range(0, lanes * np.dtype(frame.dtypes[k]).itemsize, LINE_BYTES):
            for cache, ahead in distances.items():
                fetch(frame.fn, frame.fn.let(f"getelementptr i8, ptr {here}, i64 {ahead + line}"), cache)
