"""Workers that talk. In: an operator along the axis that is cut, a worker's blocks of its operands. Out: its result's.

A family of operators is one generator (`conversation`), run by every worker alike: each `yield` is an exchange. It
gives a list of arrays for every worker (itself included; all lists of an exchange have the length that `traffic` in
ops/regroup.py announced) and gets what every worker gave it. What it returns are the worker's blocks.
"""

from __future__ import annotations

import functools
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewise.layout import Mesh
from tilewise.ops.regroup import Operand, Regroup

ND = np.ndarray[Any, Any]
Parts = dict[int, ND]  # block -> array; -1 for values held once per worker
Said = list[list[ND]]  # per worker: arrays
Conversation = Generator[Said, Said, Parts]


@dataclass(frozen=True, eq=False)
class Scene:
    """One regrouping of a plan: the operator, its operands and its result."""

    regroup: Regroup
    ins: tuple[Operand, ...]
    out: Operand
    mesh: Mesh
    site: tuple[str, int] | None


@functools.singledispatch
def conversation(op: Any, scene: Scene, worker: int, *sources: Parts) -> Conversation:
    """What one worker says, and makes of what it hears."""
    raise AssertionError(f"blocks do not talk in {op}")


class Talk:
    """A conversation under way, as one worker leads it."""

    def __init__(self, scene: Scene, worker: int, sources: list[Parts]) -> None:
        self.scene = scene
        self.result: Parts | None = None
        self._talk = conversation(scene.regroup.op, scene, worker, *sources)
        self.said: Said = []
        self._go_on(None)

    def hear(self, heard: Said) -> None:
        """What every worker has said, this one included; now the next is said, or the result is there."""
        self._go_on(heard)

    def _go_on(self, heard: Said | None) -> None:
        try:
            with np.errstate(all="ignore"):  # recorded work raises no warnings
                self.said = next(self._talk) if heard is None else self._talk.send(heard)
        except StopIteration as end:
            self.result = end.value
        except Exception as error:
            if self.scene.site is not None:
                file, line = self.scene.site
                error.add_note(f"in {self.scene.regroup.label()}, recorded at {file}:{line}")
            raise
