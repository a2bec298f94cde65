"""A slice of a Source as a Source: only the chunks that it needs are read. In: a source, starts, steps, lengths."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np

from tilewise.layout import Box
from tilewise.store.base import ND, Source, check_box, cut_at_chunks, read_box


class Part(Source):
    """Elements `start, start + step, ...` along each axis of another source; steps are at least 1."""

    def __init__(self, base: Source, starts: tuple[int, ...], steps: tuple[int, ...], lengths: tuple[int, ...]) -> None:
        self.base, self.starts, self.steps = base, starts, steps
        self.shape, self.dtype, self.order = lengths, base.dtype, base.order
        self.chunks = tuple(max(1, c // s) for c, s in zip(base.chunks, steps, strict=True))
        self.opened_by_workers = base.opened_by_workers

    def fingerprint(self) -> Hashable:
        """That of the source, and which part."""
        return "part", self.base.fingerprint(), self.starts, self.steps, self.shape

    def reads(self, path: str) -> bool:
        """Whether the source does."""
        return self.base.reads(path)

    def parts(self, box: Box) -> Iterator[Box]:
        """Cut where chunks of the source end, if the slice has no steps: no chunk is then read for two parts."""
        if any(s != 1 for s in self.steps):
            yield from cut_at_chunks(box, self.chunks)
            return
        for part in self.base.parts(self._there(box)):
            yield tuple((lo - s, hi - s) for (lo, hi), s in zip(part, self.starts, strict=True))

    def read(self, box: Box, out: ND | None = None) -> ND:
        """The elements of a box; with steps, of what lies between them at most a chunk is held."""
        check_box(box, self.shape, self.dtype, out)
        if out is None:
            out = np.empty([hi - lo for lo, hi in box], self.dtype)
        if not out.size:
            return out
        there = self._there(box)
        if all(s == 1 for s in self.steps):
            read_box(self.base, there, out)
            return out
        between = np.empty([hi - lo for lo, hi in there], self.dtype)
        read_box(self.base, there, between)
        steps: Any = tuple(slice(None, None, s) for s in self.steps)
        out[...] = between[steps]
        return out

    def _there(self, box: Box) -> Box:
        """The box of the source that a box lies in."""
        axes = zip(box, self.starts, self.steps, strict=True)
        return tuple((a + lo * s, a + lo * s if lo >= hi else a + (hi - 1) * s + 1) for (lo, hi), a, s in axes)

    def __reduce__(self) -> Any:
        return Part, (self.base, self.starts, self.steps, self.shape)

    def __repr__(self) -> str:
        return f"<part {self.shape} of {self.base!r}>"
