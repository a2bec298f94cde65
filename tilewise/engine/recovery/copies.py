"""Copies of blocks, for the time when the process that has them is lost. In: blocks by worker and key. Out: the same.

Every now and then (copying.py says when) each process keeps what its workers hold and sends it to a neighbour. Under a
limit of memory, copies lie in files without a name, which go with the process.
"""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import IO, Any

import numpy as np

from tilewise.ops.traits.collectives import Parts

ND = np.ndarray[Any, Any]


class Copies:
    """The copies that one process keeps: of its own workers' blocks, and of others'."""

    def __init__(self, in_files: bool = False) -> None:
        self.in_files = in_files
        self._kept: dict[tuple[int, int], Parts | IO[bytes]] = {}

    def put(self, worker: int, values: Mapping[int, Parts]) -> None:
        """Keep the blocks of a worker, by key."""
        for key, parts in values.items():
            self._drop([(worker, key)])
            self._kept[worker, key] = self._in_file(parts) if self.in_files else parts

    def get(self, worker: int, keys: Collection[int]) -> dict[int, Parts]:
        """The blocks of a worker under those of the keys that are here."""
        found: dict[int, Parts] = {}
        for key in keys:
            kept = self._kept.get((worker, key))
            if kept is None:
                continue
            if isinstance(kept, dict):
                found[key] = kept
            else:
                kept.seek(0)
                found[key] = pickle.load(kept)
        return found

    def drop(self, keys: Collection[int]) -> None:
        """Let go of the copies of values."""
        gone = {*keys}
        self._drop([at for at in self._kept if at[1] in gone])

    def keep_only(self, keys: Collection[int]) -> None:
        """Let go of the copies of all other values."""
        self._drop([at for at in self._kept if at[1] not in keys])

    def _drop(self, gone: Iterable[tuple[int, int]]) -> None:
        for at in gone:
            kept = self._kept.pop(at, {})
            if not isinstance(kept, dict):
                kept.close()

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self._kept)

    def __contains__(self, at: object) -> bool:
        return at in self._kept

    def __len__(self) -> int:
        return len(self._kept)

    @staticmethod
    def _in_file(parts: Parts) -> IO[bytes]:
        file = tempfile.TemporaryFile(prefix="tilewise-")  # noqa: SIM115 - open as long as the copy is kept
        pickle.dump(parts, file, 5)
        return file


def packed(values: Mapping[int, Parts]) -> list[ND]:
    """Blocks as the pieces of one message: first what describes them, then each as it lies in memory."""
    described = []
    blocks: list[ND] = []
    for key, parts in values.items():
        described.append((key, [(block, _outermost_first(x)) for block, x in parts.items()]))
        blocks.extend(x.transpose(_outermost_first(x)) for x in parts.values())
    return [np.frombuffer(pickle.dumps(described), np.uint8), *blocks]


def unpacked(pieces: Sequence[ND]) -> dict[int, Parts]:
    """What `packed` was given, with the same order in memory."""
    blocks = iter(pieces[1:])
    return {
        key: {block: _owned(next(blocks)).transpose(np.argsort(axes)) for block, axes in parts}
        for key, parts in pickle.loads(pieces[0].tobytes())
    }


def _outermost_first(x: ND) -> tuple[int, ...]:
    return tuple(sorted(range(x.ndim), key=lambda axis: -abs(x.strides[axis])))


def _owned(x: ND) -> ND:
    """Small pieces come as a part of a message, to be read only."""
    return x if x.flags.writeable else x.copy()
