"""What a line is made of. In: how its values lie, native calls, other steps. Out: items that run on a line's arrays."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewise import rounding
from tilewise.backend.base import Unfit
from tilewise.backend.host.arrays import fresh
from tilewise.backend.host.boxes import address_of
from tilewise.backend.host.steps import run_step
from tilewise.backend.llvm.call.call_table import drive, driver
from tilewise.backend.llvm.call.parallel_for import Parts
from tilewise.backend.llvm.call.tile_walk import Scratch, Table, bits
from tilewise.backend.llvm.tiles.builder import TilePlan
from tilewise.backend.llvm.tiles.group import choice_of, run_chosen
from tilewise.config import current
from tilewise.ops.views import strided
from tilewise.records import dataclass
from tilewise.stage.steps import Step, Tiled, passes

ND = np.ndarray[Any, Any]

WHOLE = struct.pack("<3q", 0, 1, 0)  # the one tile of the one chunk


@dataclass(frozen=True)
class Look:
    """How a value lies in memory."""

    slot: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]
    whole: bool

    def at(self, arrays: Sequence[ND]) -> ND:
        base = arrays[self.slot]
        if self.whole and base.dtype == self.dtype and base.shape == self.shape:  # memory of a line's own is bytes
            return base
        return strided(base, self.offset, self.shape, self.strides, self.dtype)


class Native:
    """Native calls in a row; phases of several parts are shared by threads. Numbers may be other ones each time."""

    def __init__(self, phases: Sequence[Sequence[Sequence[Any]]], numbers: dict[int, Look | None]) -> None:
        numbered = [(part, calls) for phase in phases for part, calls in enumerate(phase)]
        # Code lives as long as the tables. Parts of one phase have scratch of their own.
        self._tables = [(Table(calls, scratch_of(part)), part) for part, calls in numbered]
        self._numbers = numbers
        self._go = drive()
        k = iter(range(len(numbered)))
        handed = [[[(next(k), WHOLE)] for _ in phase] for phase in phases]
        self._parts = Parts(driver(), handed) if len(numbered) > 1 else None

    def settle(self, arrays: Sequence[ND | None], values: list[Any]) -> None:
        """Fill in what stays: memory of the line's own (the others are None), numbers."""
        sample = [_NOTHING if a is None else a for a in arrays]
        self._addresses: list[int] = []
        self._open: list[tuple[Any, list[tuple[int, int]], list[Any]]] = []  # words, and what to fill in
        for table, part in self._tables:
            words = table.blank()
            table.fill(words, sample, values.__getitem__, scratch_of(part))
            slots = [(at, slot) for at, slot in table.slots if arrays[slot] is None]
            self._addresses.append(words.ctypes.data)
            self._open.append((words.data, slots, [p for p in table.params if p[1] in self._numbers]))

    def run(self, arrays: Sequence[ND], values: list[Any]) -> None:
        for view, slots, params in self._open:
            for at, slot in slots:
                view[at] = id(arrays[slot])
            for at, pos, kind in params:
                look = self._numbers[pos]
                number = values[pos] if look is None else look.at(arrays)
                for k, word in enumerate(bits(number, kind).tolist()):
                    view[at + k] = word
        if self._parts is None:
            self._go(self._addresses[0], WHOLE)
        else:
            self._parts.run(lambda: self._addresses)


@dataclass(frozen=True)
class Other:
    """A step that runs as ever: what it needs to see, and what it makes."""

    step: Step
    kernel: Any
    needs: tuple[tuple[int, Look], ...]
    made: tuple[tuple[int, Look], ...]

    def run(self, arrays: list[ND], values: list[Any], nodes: Sequence[Any]) -> None:
        self.given(arrays, values)
        run_step(self.step, self.kernel, nodes, values, set())
        self.take(arrays, values)

    def given(self, arrays: Sequence[ND], values: list[Any]) -> None:
        """See what it needs."""
        for pos, look in self.needs:
            values[pos] = look.at(arrays)

    def take(self, arrays: list[ND], values: list[Any]) -> None:
        """Keep what it has made."""
        for pos, look in self.made:
            if values[pos].strides != look.strides:
                raise Unfit(f"{type(self.step).__name__} gives another order")
            arrays[look.slot] = values[pos]


class Product:
    """A product that is left to NumPy and BLAS. It is a `Call` without all that has been looked at before."""

    def __init__(self, multiply: Callable[[ND, ND], Any], inputs: tuple[Look, Look], made: Look) -> None:
        self._multiply, self._inputs, self._made = multiply, inputs, made

    def run(self, arrays: list[ND], values: list[Any], nodes: Sequence[Any]) -> None:
        a, b = self._inputs
        with np.errstate(all="ignore"):  # recorded work raises no warnings
            made = np.asarray(self._multiply(a.at(arrays), b.at(arrays)))
        if made.strides != self._made.strides:
            raise Unfit("a product in another order")
        arrays[self._made.slot] = made


class Tiles:
    """Passes that share tiles. Once the length of tiles is settled, addresses of the line's arrays are filled in."""

    def __init__(self, other: Other, nodes: Sequence[Any], values: list[Any]) -> None:
        """From a run that has kept its values."""
        assert isinstance(other.step, Tiled)
        self._other, self._settings = other, current()
        self._choice = choice_of(other.step, other.kernel, nodes, values, self._settings)
        params = {x for step in passes(other.step) for x in step.params}
        self._numbers = [(x, look) for x, look in other.needs if x in params]
        self._fresh = [(look.slot, nodes[pos]) for pos, look in other.made]
        self._looks = dict((*other.needs, *other.made))
        self._walks: dict[int, Any] = {}  # by the id of a plan, which the choice holds; None: other arrays are needed

    def run(self, arrays: list[ND], values: list[Any], nodes: Sequence[Any]) -> None:
        if current() is not self._settings:
            self._other.run(arrays, values, nodes)
            return
        plan = None if self._choice is None else self._choice.settled
        if plan is None or not plan.plain or self._walks.get(id(plan), plan) is None:
            self._run_as_ever(arrays, values, nodes)
            return
        for slot, node in self._fresh:
            arrays[slot] = fresh(node)
        walk = self._walks.get(id(plan))
        if walk is None:
            walk = self._walks[id(plan)] = self._moved(plan, arrays)
        if walk is None:
            self._run_as_ever(arrays, values, nodes)
            return
        for pos, look in self._numbers:
            values[pos] = look.at(arrays)
        made = [x for x in plan.given if not isinstance(x, int)]
        found = {x: self._looks[x].at(arrays) for x in plan.given if isinstance(x, int)} if made else {}
        walk.run([*arrays, *(x.of(found) for x in made)], values.__getitem__)

    def _run_as_ever(self, arrays: list[ND], values: list[Any], nodes: Sequence[Any]) -> None:
        """As a step, but for the question what to do with arrays that lie so."""
        other = self._other
        assert isinstance(other.step, Tiled)
        other.given(arrays, values)
        run_chosen(self._choice, other.step, other.kernel, nodes, values, set(), run_step, self._settings)
        other.take(arrays, values)

    def _moved(self, plan: TilePlan, arrays: Sequence[ND]) -> Any:
        """The walk of a plan over the arrays of the line and what a run makes after them; None if it has others."""
        places: list[tuple[int, int]] = []
        made = len(arrays)
        for x in plan.given:
            if not isinstance(x, int):
                places.append((made, 0))
                made += 1
            elif x in self._looks:
                look = self._looks[x]
                places.append((look.slot, address_of(look.at(arrays)) - address_of(arrays[look.slot])))
            else:
                return None
        return plan.walk.moved(places.__getitem__)


def owner_of(value: Any) -> Any:
    """What has the memory of an array; the value, if it is none."""
    return value.base if isinstance(value, np.ndarray) and isinstance(value.base, np.ndarray) else value


_NOTHING = np.empty(0)
_memory: list[Any] = []


def scratch_of(part: int = 0) -> Any:
    """Memory for what the calls of a part need beside their operands; lines run one at a time."""
    while len(_memory) <= part:
        _memory.append(Scratch(rounding.SCRATCH_BYTES))
    _memory[part].used = 0
    return _memory[part]
