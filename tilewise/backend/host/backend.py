"""Stages on arrays of this process. In: a stage, a geometry, buffers. Out: buffers that are ready.

The base of backends that differ in what a pass or a group is bound to, and in nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tilewise.backend.base import Geometry
from tilewise.backend.host.steps import run_step
from tilewise.ir.buffer import DENSE, HOST, Buffer
from tilewise.records import dataclass
from tilewise.stage.steps import Stage, Step
from tilewise.store import pool

ND = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Binding:
    """A stage bound to code, with the nodes of its geometry."""

    stage: Stage
    nodes: Sequence[Any]
    steps: tuple[tuple[Step, Any], ...]


class OnHost:
    """Buffers are arrays: whoever runs a stage gets its results when it has ended."""

    device = HOST

    def warm_up(self) -> None:
        """Get ready what the first run needs, in time that nobody waits for (backend/ahead.py)."""

    def ask_ahead(
        self, steps: Sequence[tuple[Step, Any]], nodes: Sequence[Any], values: Sequence[Any], least: int
    ) -> Iterator[None]:
        """Get ready what bound steps will need, for arrays that lie so, if they have so many kernels at least.

        Piece by piece, each a turn of the iterator.
        """
        return iter(())

    def bound(self, step: Step) -> Any:
        """What runs a step."""
        raise NotImplementedError

    def bind(self, stage: Stage, geometry: Geometry) -> Binding:
        """Code for every step."""
        return Binding(stage, geometry.nodes, tuple((s, self.bound(s)) for s in stage.steps))

    def run(self, binding: Binding, buffers: Mapping[int, Buffer]) -> dict[int, Buffer]:
        """The results of a stage."""
        values: list[Any] = [None] * len(binding.nodes)
        for x in binding.stage.given:
            (array,) = buffers[x].wait()
            values[x] = _lent(array) if array.ndim else array[()]
        for step, code in binding.steps:
            run_step(step, code, binding.nodes, values, set())
            for x in step.frees:
                values[x] = None
        return {x: held(np.asarray(values[x])) for x in binding.stage.results}

    def empty(self, dims: tuple[int, ...], dtype: np.dtype[Any], order: tuple[int, ...] | None = None) -> Buffer:
        """Memory of the pool."""
        return held(pool.empty(dims, dtype, order))

    def copy_in(self, array: ND) -> Buffer:
        """A copy: the caller may overwrite the array."""
        return held(array.copy(order="K"))

    def copy_out(self, buffer: Buffer) -> ND:
        """A copy: the caller may overwrite it."""
        (array,) = buffer.wait()
        return np.array(array, order="K")


def _lent(array: ND) -> ND:
    """An array that no step may overwrite."""
    view = array.view()
    view.flags.writeable = False
    return view


def held(array: ND) -> Buffer:
    """An array as a buffer that is ready."""
    return Buffer(HOST, DENSE, (array,))
