"""What the calls on a tile read. In: a `Tiled`, arrays, a part of the tiles. Out: operands, and the arrays of a run.

An operand is an array that a run is given (all of it, or the slices of a tile), or what a call before has made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tilewise.backend.host.arrays import walked
from tilewise.backend.host.boxes import address_of, box, slices, taken
from tilewise.backend.llvm.call.packing import packed
from tilewise.backend.llvm.call.tile_walk import Ref
from tilewise.ops.views import Arrange
from tilewise.records import dataclass
from tilewise.stage.cut_axis import axis_of, space_of, view_axes
from tilewise.stage.halo import Part, Range, Ranges, renewed
from tilewise.stage.steps import Pass, View
from tilewise.stage.tiles import Formed, Tiling

ND = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Panels:
    """A copy of a part of an array, made once per run."""

    pos: int
    offset: int  # bytes from where the array begins
    pack: Any

    def of(self, arrays: Mapping[int, ND]) -> ND:
        return packed(arrays[self.pos], self.pack, self.offset)


@dataclass(frozen=True)
class Number:
    """The same number in every run."""

    value: int
    dtype: np.dtype[Any]

    def of(self, arrays: Mapping[int, ND]) -> ND:
        return np.array(self.value, self.dtype)


Given = int | Panels | Number  # what a run is given: a whole array by its position, or what is made then


class Operands:
    """The operands of a group of passes, one tile of a part after the other."""

    part: Part
    ranges: Ranges  # the slices that each pass makes on this tile

    def __init__(self, form: Formed, values: Sequence[Any], cut: Tiling) -> None:
        self.step, self.nodes, self.way, self.tile = form.group, form.nodes, cut.way, cut.tile
        n = len(form.nodes) - len(form.shown)  # of the graph; a caller may have values beyond
        self.shown = {n + k: x for k, (x, _) in enumerate(form.shown)}
        self.values = [*values[:n], *(box(values[x], op, None) for x, op in form.shown)]
        self.given: dict[Given, int] = {}  # and its place among the arrays of a run, which all calls share
        self.refs: dict[int, tuple[Any, int, int]] = {}  # what is made by tiles: operand, axis, its first slice
        self.means: dict[int, Any] = {}
        self.met: set[int] = set()

    def begin(self, part: Part, ranges: Ranges) -> None:
        """Start over with a tile of a part, on which passes make some slices."""
        self.part, self.ranges = part, ranges
        self.refs, self.means, self.met = {}, {}, set()

    def _given(self, what: Given, sample: ND, step: int = 0, chunk_step: int = 0) -> Any:
        """An operand among what a run is given."""
        offset = 0
        if what in self.shown:
            base = self.shown[what]
            offset = address_of(self.values[what]) - address_of(self.values[base])
            what = base
        return Ref(sample, step, chunk_step, self.given.setdefault(what, len(self.given)), offset)

    def _given_slices(self, pos: int, array: ND, axis: int, made: Range) -> Any:
        """Some slices of a whole array that a run is given, for the first tile of the part; then those of the next."""
        stride = array.strides[axis]
        ref = self._given(pos, slices(array, axis, 0, made[1] - made[0]), self.tile * stride)
        return ref.on(ref.array, (made[0] - self.part.first * self.tile) * stride)

    def _slices_of(self, pos: int, axis: int, made: Range) -> Any:
        """Some slices of what a step reads along its cut."""
        if pos in self.refs:
            ref, along, first = self.refs[pos]
            return taken(ref, along, made[0] - first, made[1] - first)
        ref = self._given_slices(pos, self.values[pos], axis, made)
        return ref if self._seen_before(pos) else replace(ref, far=self.values[pos].nbytes)

    def _pinned(self, ref: Any, pack: Any) -> Any:
        """A copy of an array that is the same for all tiles, made once per run."""
        pos = list(self.given)[ref.slot]
        assert isinstance(pos, int)
        return self._given(Panels(pos, ref.offset, pack), np.empty(pack.shape, ref.array.dtype))

    def _see(self, step: View) -> None:
        """A view of what is made by tiles: all of their slices, a box of each."""
        op, node = self.nodes[step.pos].op, self.nodes[step.pos]
        ref, axis, first = self.refs[step.input]
        axes, start = view_axes(op, node.ndim), self.way.behind(step.pos)[1] - self.way.behind(step.input)[1]
        view = op.numpy(ref.array) if isinstance(op, Arrange) else box(ref.array, op, axis)
        ref = ref.on(view, address_of(view) - address_of(ref.array))
        self.refs[step.pos] = (ref, axes.index(axis), first - start)

    def _rows(self, step: Pass) -> Range:
        """The slices of its space that a pass goes over on a tile."""
        return renewed(self.way, step.outs[0], self.ranges[step.outs[0]])

    def _operands(self, step: Pass, but: int | None = None) -> list[Any]:
        """What a pass reads on a tile (but for one input)."""
        nodes, made, dim = self.nodes, self._rows(step), self.way.dims[step.outs[0]]
        rank = len(space_of(step, nodes))
        refs: list[Any] = []
        for k, x in enumerate(step.inputs):
            if k == but:
                continue
            along = None if step.letters is None else step.letters[k]
            if x in self.means:
                refs.append(self.means[x])
                continue
            if x in self.refs:
                ref, axis, first = self.refs[x]
                some = taken(ref, axis, made[0] - first, made[1] - first)
                refs.append(some if along is None else some.of(walked(some.array, along, rank)))
                continue
            cut = axis_of(step, k, dim, nodes)
            array = self.values[x] if along is None else walked(self.values[x], along, rank)
            if cut is None:
                refs.append(self._given(x, array))
            else:
                ref = self._given_slices(x, array, cut if along is None else dim, made)
                refs.append(ref if self._seen_before(x) else replace(ref, far=array.nbytes))
        return refs

    def _seen_before(self, x: int) -> bool:
        """Whether a call on this tile reads the memory of an input already; it does from now on."""
        x = self.shown.get(x, x)
        base = dict(zip(self.step.inputs, self.step.sources, strict=False)).get(x, x)
        seen = base in self.met
        self.met.add(base)
        return seen
