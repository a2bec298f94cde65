"""Results by file: workers stage what they changed block by block. In: arrays. Out: files of plain numbers, merged.

For each array a worker writes three files: the cells that it changed (int64), their values (the bytes of the array's
own dtype), and how many of each block. Merging reads one block at a time, so that memory holds the result and one
block of each worker. Files hold numbers only; nothing in them is ever executed. They are in a folder of their own that
only this user can open, which is removed at the end.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from tilewise.errors import ParforError, message
from tilewise.parfor.merge import Changes, apply, block_of, changes

BLOCK_BYTES = 8 << 20  # of an array's memory that is merged at a time


class StagingFolder:
    """A folder of staged blocks. Made where the loop is; workers open it by its path."""

    def __init__(self, folder: str | None = None, block_bytes: int = BLOCK_BYTES) -> None:
        self.folder = folder or tempfile.mkdtemp(prefix="tilewise-parfor-")
        self.block_bytes = block_bytes

    def __enter__(self) -> StagingFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _files(self, name: str, number: int) -> tuple[Path, Path, Path]:
        start = Path(self.folder) / f"{name}-{number}"
        return start.with_suffix(".cells"), start.with_suffix(".values"), start.with_suffix(".counts")

    def _blocks(self, array: np.ndarray[Any, Any]) -> list[slice]:
        step = max(1, self.block_bytes // max(1, array.itemsize))
        return [slice(k, min(k + step, array.size)) for k in range(0, array.size, step)]

    def write(self, name: str, number: int, after: np.ndarray[Any, Any], before: np.ndarray[Any, Any] | None) -> bool:
        """Stage what a worker changed in an array (`before` None: it was zero); False for arrays of objects."""
        if after.dtype.hasobject:
            return False
        cells_at, values_at, counts_at = self._files(name, number)
        counts = []
        with cells_at.open("wb") as cells, values_at.open("wb") as values:
            for block in self._blocks(after):
                found = changes(block_of(after, block), None if before is None else block_of(before, block))
                places = np.arange(block.stop - block.start) if found.cells is None else found.cells
                counts.append(len(places))
                cells.write(places.astype(np.int64, copy=False).tobytes())
                values.write(found.values.tobytes())
        counts_at.write_bytes(np.array(counts, dtype=np.int64).tobytes())
        return True

    def merge(self, number: int, result: np.ndarray[Any, Any], names: Sequence[str]) -> None:
        """Write what workers staged into an array, one block at a time."""
        if result.dtype.hasobject:
            return
        blocks = self._blocks(result)
        counts = {}
        for name in names:
            try:
                counts[name] = np.fromfile(self._files(name, number)[2], dtype=np.int64)
            except OSError as error:
                raise ParforError(
                    message(
                        f"what a worker staged is not in {self.folder}",
                        cure='Use merge="memory", or merge="cluster" where workers have other disks',
                    )
                ) from error
            if len(counts[name]) != len(blocks):
                raise ParforError(message(f"a file in {self.folder} is not whole", cure="Is the disk full?"))
        begins = {name: np.concatenate(([0], np.cumsum(c))) for name, c in counts.items()}
        for k, block in enumerate(blocks):
            for name in names:
                begin, count = int(begins[name][k]), int(counts[name][k])
                if count:
                    apply(block_of(result, block), self._read(name, number, result.dtype, begin, count))

    def _read(self, name: str, number: int, dtype: np.dtype[Any], begin: int, count: int) -> Changes:
        cells_at, values_at, _ = self._files(name, number)
        cells = np.fromfile(cells_at, dtype=np.int64, count=count, offset=8 * begin)
        values = np.fromfile(values_at, dtype=np.uint8, count=count * dtype.itemsize, offset=dtype.itemsize * begin)
        if len(cells) != count or len(values) != count * dtype.itemsize:
            raise ParforError(message(f"a file in {self.folder} is not whole", cure="Is the disk full?"))
        return Changes(cells, values.view(dtype))
