"""A backend as a far device would be: its memory cannot be looked into, work ends late, copies are counted.

Kernels run on the reference backend, on a thread of the device's own, in the order they were asked for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from typing import Any

import numpy as np

from tilewise.backend import named
from tilewise.backend.base import Facts, Geometry, Listing
from tilewise.ir.buffer import DENSE, Buffer
from tilewise.kernel.loops import Kernel
from tilewise.stage.steps import Stage

ND = np.ndarray[Any, Any]

LATE_S = 0.002  # after which work begins


class Memory:
    """Memory of the device. Only the device's thread and copies look into it."""

    def __init__(self, array: ND | None = None) -> None:
        self.inside = array

    def __array__(self, *args: Any, **kwargs: Any) -> ND:
        raise TypeError("the memory of the toy device cannot be looked into: use copy_out")


class Late:
    """The end of work on the device's thread."""

    def __init__(self, work: Future[None]) -> None:
        self._work = work

    def wait(self) -> None:
        self._work.result()

    def done(self) -> bool:
        return self._work.done()


class Toy:
    """One device with one queue."""

    name, device = "toy", "toy:0"

    def __init__(self) -> None:
        self.copies = 0
        self.held = threading.Event()  # work begins while it is set
        self.held.set()
        self._queue = ThreadPoolExecutor(1)
        self._inner = named("reference")

    @cached_property
    def facts(self) -> Facts:
        facts: Facts = self._inner.facts
        return facts

    def supports(self, kernel: Kernel) -> bool:
        return True

    def bind(self, stage: Stage, geometry: Geometry) -> Any:
        return self._inner.bind(stage, geometry)

    def run(self, binding: Any, buffers: Mapping[int, Buffer]) -> dict[int, Buffer]:
        given = {x: buffers[x] for x in binding.stage.given}
        for buffer in given.values():
            assert buffer.device == self.device, "a buffer of another device"
        made = {x: Memory() for x in binding.stage.results}

        def work() -> None:
            self.held.wait()
            time.sleep(LATE_S)
            arrays = {x: Buffer("host", DENSE, (inside(*b.wait()),)) for x, b in given.items()}
            for x, buffer in self._inner.run(binding, arrays).items():
                (made[x].inside,) = buffer.parts

        late = Late(self._queue.submit(work))
        return {x: Buffer(self.device, DENSE, (memory,), late) for x, memory in made.items()}

    def empty(self, dims: tuple[int, ...], dtype: np.dtype[Any], order: tuple[int, ...] | None = None) -> Buffer:
        (array,) = self._inner.empty(dims, dtype, order).parts
        return Buffer(self.device, DENSE, (Memory(array),))

    def copy_in(self, array: ND) -> Buffer:
        self.copies += 1
        return Buffer(self.device, DENSE, (Memory(array.copy(order="K")),))

    def copy_out(self, buffer: Buffer) -> ND:
        self.copies += 1
        return inside(*buffer.wait()).copy(order="K")

    def listing(self, kernel: Kernel, shape: tuple[int, ...]) -> Listing:
        listing: Listing = self._inner.listing(kernel, shape)
        return listing


def inside(memory: Memory) -> ND:
    """What the device sees."""
    assert memory.inside is not None, "work that has not ended"
    return memory.inside
