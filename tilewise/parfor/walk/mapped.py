"""Arrays in mapped files and shared memory. In: an array. Out: which bytes of which file it is.

Two mappings of one file have different addresses and the same bytes, so arrays in them are not told apart by address.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

TABLE = Path("/proc/self/maps")


class FileBytes(NamedTuple):
    """Some bytes of a file; of no file (`file` None): it is not known of which."""

    file: Any
    start: int
    stop: int
    private: bool = False  # what is written here nobody else sees

    def seen_in(self, other: FileBytes) -> bool:
        """Whether what is written here may be seen there."""
        if self.private:
            return False
        if self.file is None or other.file is None:
            return True
        return self.file == other.file and self.start < other.stop and other.start < self.stop


def map_of(array: np.ndarray[Any, Any]) -> mmap.mmap | None:
    """The mapping that an array lies in.

    >>> map_of(np.zeros(3)) is None, map_of(np.frombuffer(mmap.mmap(-1, 16))) is None
    (True, False)
    """
    base: Any = array
    while base is not None:
        if isinstance(base, mmap.mmap):
            return base
        base = base.obj if isinstance(base, memoryview) else getattr(base, "base", None)
    return None


def file_bytes(array: np.ndarray[Any, Any]) -> FileBytes | None:
    """Which bytes of a file an array is; None for one that is in memory of its own."""
    if map_of(array) is None or not array.size:
        return None
    low, high = np.lib.array_utils.byte_bounds(array)
    try:
        lines = os.fsdecode(TABLE.read_bytes()).splitlines()
    except OSError:  # another system
        return FileBytes(None, 0, 0)
    for line in lines:
        span, access, offset, device, inode, *_ = line.split(maxsplit=5)
        start, stop = (int(end, 16) for end in span.split("-"))
        if start <= low < stop:
            begin = int(offset, 16) + low - start
            return FileBytes((device, inode), begin, begin + high - low, access[3] == "p")
    return FileBytes(None, 0, 0)
