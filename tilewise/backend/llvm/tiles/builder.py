"""One geometry of passes that share their tiles. In: a `Tiled`, a `Tiling`, arrays. Out: a `TilePlan`.

Says which arrays a run needs, what is scratch, what is summed over tiles, and which native calls a tile takes. A
product of matrices that only one pass reads is made inside of that pass, where its rows fit into registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise import rounding
from tilewise.backend.host.arrays import fresh
from tilewise.backend.host.boxes import around, boxed, dropped, padded, slices, taken
from tilewise.backend.llvm.call.compiled import compile, nests
from tilewise.backend.llvm.call.tile_walk import Ref, Scratch, Stretch, Walk, calls_of, copied
from tilewise.backend.llvm.tiles.merging import about_own_mean
from tilewise.backend.llvm.tiles.operands import Given, Number, Operands
from tilewise.backend.llvm.tiles.pivots import Pivot
from tilewise.ir.order import strides_of
from tilewise.kernel.loops import Instr, Kernel, Output, nested
from tilewise.later import later
from tilewise.records import dataclass
from tilewise.stage.cut_axis import MEAN, centred, drops_axes, replaces, space_of, target
from tilewise.stage.halo import Part, Range, parts_of
from tilewise.stage.steps import Call, Centre, Pass, View, makes, reads
from tilewise.stage.symmetric import is_gram
from tilewise.stage.tiles import Formed, Tiling
from tilewise.stage.variance import read_once

if TYPE_CHECKING:
    from tilewise.backend.llvm.products import gemm, gram
else:
    gemm = later("tilewise.backend.llvm.products.gemm")
    gram = later("tilewise.backend.llvm.products.gram")

ND = np.ndarray[Any, Any]


@dataclass(frozen=True)
class TilePlan:
    """One geometry: the walk over tiles, and the sums with their chunks."""

    walk: Any
    given: tuple[Given, ...]  # what the walk goes over
    sums: tuple[tuple[int, str, tuple[int, ...]], ...]  # position, reduction, shape of an accumulator
    blas: bool  # some calls are into BLAS
    own: tuple[tuple[int, Any, tuple[int, ...]], ...]  # what each tile has of its own: key, dtype, shape
    merges: tuple[tuple[Centre, int, ND], ...]  # means of tiles, their squared deviations; of how many elements
    pivots: tuple[Pivot, ...]  # squared sums about sampled pivots
    late: frozenset[int]  # means, made after all tiles
    after: tuple[int, ...]  # numbers of the steps that make those that are needed
    mirrored: frozenset[int]  # symmetric sums of which only the part below the diagonal is made
    trees: frozenset[tuple[int, Any]]  # of every pass that reduces, by its first output: in which order

    @property
    def plain(self) -> bool:
        """Whether there is nothing but native calls that fill the results."""
        return not (self.sums or self.blas or self.own or self.merges or self.late or self.after)

    def agrees(self, other: TilePlan) -> bool:
        """Whether both give the same bits: all their tiles, the last ones too, reduce in the same order."""
        return self.trees == other.trees and len(dict(self.trees)) == len(self.trees)


class Builder(Operands):
    """Lays out one geometry: which arrays a run needs, what is scratch, the native calls."""

    def __init__(
        self, form: Formed, kernels: Sequence[Any], values: Sequence[Any], cut: Tiling, *, guess: bool = True
    ) -> None:
        super().__init__(form, values, cut)
        step = form.group
        self.kernels, self.tiles, self.chunks = kernels, cut.tiles, cut.chunks
        self.scratch = Scratch(rounding.SCRATCH_BYTES, cut.tiles)
        self.rooms: dict[int, ND] = {}  # scratch of what is made by tiles and not stored right away
        self.read = {x for s in step.steps for x in reads(s)}
        self.sums: dict[int, tuple[str, tuple[int, ...]]] = {}
        self.samples: dict[int, ND] = {}
        self.trees: set[tuple[int, Any]] = set()
        self.blas = False
        self.mirrored: set[int] = set()
        self.centres = {s.outs[0]: s.centre for s in centred(step, cut.way) if s.centre is not None}
        self.pivots = self._pivots() if guess else {}
        self.own: dict[int, ND] = {}  # what each tile has of its own: a sample
        self.counts: dict[int, ND] = {}  # of elements that are summed, by tile

    def plan(self) -> TilePlan | None:
        stretches = []
        for part in parts_of(self.step, self.way, self.nodes, self.tile):
            whole = self._calls(part, False)
            further = self._calls(part, True) if part.new is not None else []
            if whole is None or further is None:
                return None
            stretches.append(Stretch(part.first, part.stop, whole, further))
        walk = Walk(self.tiles, self.chunks, stretches, self.scratch)
        sums = tuple((x, op, shape) for x, (op, shape) in self.sums.items())
        own = tuple((key, sample.dtype, sample.shape) for key, sample in self.own.items())
        merges = tuple(
            (centre, squares, self.counts[squares])
            for squares, centre in self.centres.items()
            if squares not in self.pivots
        )
        late = frozenset(x for x, at in self.way.at.items() if at == MEAN)
        after = tuple(k for k, s in enumerate(self.step.steps) if late.intersection(makes(s), self.step.outs))
        trees = frozenset(self.trees)
        mirrored = frozenset(self.mirrored)
        pivots = tuple(self.pivots.values())
        return TilePlan(walk, tuple(self.given), sums, self.blas, own, merges, pivots, late, after, mirrored, trees)

    def _pivots(self) -> dict[int, Pivot]:
        """The squared deviations that need no means of tiles, by their position."""
        found: dict[int, Pivot] = {}
        for s in centred(self.step, self.way):
            once = read_once(s, self.step)
            if once is not None and isinstance(self.values[once[0]], np.ndarray):
                assert s.centre is not None
                space = space_of(s, self.nodes)
                axes = tuple(d for d, r in enumerate(s.kernel.reduced) if r)
                number = prod(space[d] for d in axes)
                shape = self.nodes[s.centre.mean].dims
                found[s.outs[0]] = Pivot(once[1], s.outs[0], s.centre.rest, once[0], axes, number, shape)
        return found

    def _calls(self, part: Part, further: bool) -> list[Any] | None:
        """The calls for one of the tiles of a part (`further`: one that reuses slices of the tile before it)."""
        self.scratch.used = 0
        self.begin(part, part.whole if part.new is None or not further else part.new)
        out = self._rooms(further)
        if out is None:
            return None
        waiting: dict[int, tuple[Pass, Any]] = {}  # products that may be made inside of what reads them
        for step, kernel in zip(self.step.steps, self.kernels, strict=True):
            if isinstance(step, View):
                if step.input in self.refs:
                    self._see(step)
                continue
            if isinstance(step, Call) or self.way.at[step.outs[0]] == MEAN or step.outs[0] not in self.ranges:
                continue
            if any(step.outs == p.totals for p in self.pivots.values()):
                continue
            if self._only_read_on(step):
                waiting[step.outs[0]] = step, kernel
                continue
            calls: list[Any] | None = None
            for x in [x for x in step.inputs if x in waiting]:
                inner = waiting.pop(x)
                calls = self._nested(*inner, step, kernel)
                if calls is None:
                    first = self._pass(*inner)
                    if first is None:
                        return None
                    out += first
            if step.outs[0] in self.centres:
                calls = self._deviations(step)
            elif replaces(step):
                calls = self._update(step, kernel)
            elif calls is None:
                calls = self._pass(step, kernel)
            if calls is None:
                return None
            out += calls
        return out

    def _rooms(self, further: bool) -> list[Any] | None:
        """Lay out scratch, the same for all tiles of a part; the calls that move what the tile before it left."""
        self.rooms = {}
        out: list[Any] = []
        for step in self.step.steps:
            if not isinstance(step, Pass) or step.outs[0] not in self.part.whole:
                continue
            low, stop = self.part.whole[step.outs[0]]
            for pos in step.outs:
                shared = isinstance(self.way.at[pos], int) and not self._at_once(step, pos)
                if shared and not self._only_read_on(step) and not self._room(pos, stop - low):
                    return None
        for first, (start, stop) in self.part.kept.items() if further else ():
            for pos, room in self._made_with(first):
                axis, low = self.way.at[pos], self.part.whole[first][0]
                assert isinstance(axis, int)
                old, new = (slices(room, axis, start - low + k, stop - low + k) for k in (self.tile, 0))
                moved = copied(Ref(old), Ref(new), self.scratch, self._pinned)
                if moved is None:
                    return None
                out += moved
        return out

    def _room(self, pos: int, length: int) -> bool:
        """Scratch for some slices of a value, if there is any left."""
        node, axis = self.nodes[pos], self.way.at[pos]
        assert isinstance(axis, int)
        dims = (*node.dims[:axis], length, *node.dims[axis + 1 :])
        wide = padded(dims, node.dtype.itemsize, node.order)
        room = self.scratch.array(wide, node.dtype, strides_of(wide, node.dtype.itemsize, node.order))
        if room is not None:
            self.rooms[pos] = room[tuple(slice(n) for n in dims)]
        return room is not None

    def _made_with(self, first: int) -> list[tuple[int, ND]]:
        """What the pass with some first output keeps in scratch."""
        outs = next(s.outs for s in self.step.steps if isinstance(s, Pass) and s.outs[0] == first)
        return [(pos, self.rooms[pos]) for pos in outs if pos in self.rooms]

    def _at_once(self, step: Pass, pos: int) -> bool:
        """Whether a value is stored as it is made: a tile makes no more of it than its own slices."""
        return pos in self.step.outs and self.part.own.get(step.outs[0]) == self.part.whole[step.outs[0]]

    def _only_read_on(self, step: Pass) -> bool:
        """Whether a step is a product of matrices that one elementwise pass or reduction along its rows reads.

        Or squared distances of which only argmin or argmax is asked for: these take no more than products.
        """
        (made, *more) = step.outs
        if made not in self._products or more or made in self.step.outs or self.way.dims[made] != 0:
            return False
        users = [s for s in self.step.steps if made in reads(s)]
        if len(users) != 1 or not self._may_nest(users[0], made):
            return False
        return step.blas or (isinstance(users[0], Pass) and all(o.is_arg for o in users[0].kernel.outputs))

    def _may_nest(self, user: Pass | View | Call, made: int) -> bool:
        if not isinstance(user, Pass) or user.letters is not None or user.centre is not None or made in user.params:
            return False
        same = space_of(user, self.nodes) == self.nodes[made].dims and self.way.dims[user.outs[0]] == 0
        plain = all(o.key is None and not o.scan for o in user.kernel.outputs)
        if not same or not plain or user.kernel.reduced not in ((False, False), (False, True)):
            return False
        return sum(x in self._products for x in user.inputs) == 1

    @cached_property
    def _products(self) -> set[int]:
        """What products of matrices make, and sums of squared differences."""
        return {s.outs[0] for s in self.step.steps if isinstance(s, Pass) and (s.blas or _is_distance(s.kernel))}

    def _nested(self, inner: Pass, product: Any, step: Pass, kernel: Any) -> list[Any] | None:
        """A product and the pass that reads it as one kernel; None if the rows are too long."""
        at = step.inputs.index(inner.outs[0])
        both = nested(product.kernel, kernel.kernel, at)
        shape = self._shape(inner)
        if not nests(both, shape):
            return None
        factors = self._operands(inner)
        others = self._operands(step, but=at)
        after: list[Any] = []
        outs = self._results(step, after)
        if outs is None:
            return None
        refs = [*factors, *(r.of(r.array[..., None]) for r in others), *outs]
        calls = calls_of(compile(both), shape, refs, step.params, self.scratch, self._pinned)
        return self._in_order(step, calls, after)

    def _deviations(self, step: Pass) -> list[Any] | None:
        """A sum of squared deviations, about pivots or the mean of the tile."""
        assert step.centre is not None
        mean, squares = step.centre.mean, step.outs[0]
        node, shape = self.nodes[step.centre.total], self._shape(step)
        kept = step.kernel.kept(space_of(step, self.nodes))
        before: list[Any] = []
        if squares in self.pivots:
            sample = np.empty(self.nodes[mean].dims, node.dtype)
            self.means[mean] = self._given(~self.pivots[squares].totals[0], sample)
        else:
            made = self._mean(step, kept, shape)
            if made is None:
                return None
            before = made
        inner = about_own_mean(step)
        refs = self._operands(inner)
        refs += [self._own(key, np.empty(kept, node.dtype)) for key in (squares, ~squares)]
        kernel = compile(inner.kernel)
        calls = calls_of(kernel, shape, refs, inner.params, self.scratch, self._pinned)
        return None if calls is None else [*before, *calls]

    def _mean(self, step: Pass, kept: tuple[int, ...], shape: tuple[int, ...]) -> list[Any] | None:
        """The mean of a tile, from its sum."""
        assert step.centre is not None
        total, mean, squares = step.centre.total, step.centre.mean, step.outs[0]
        dtype, space, dim = self.own[total].dtype, space_of(step, self.nodes), self.way.dims[squares]
        others = prod(n for d, n in enumerate(space) if step.kernel.reduced[d] and d != dim)
        self.counts[squares] = others * np.diff([*range(0, self.way.length, self.tile), self.way.length])
        count = Number(others * shape[dim], dtype)
        made = self.scratch.array(kept, dtype)
        if made is None:
            return None
        self.means[mean] = Ref(made.reshape(self.nodes[mean].dims))
        refs = [self._own(total, self.own[total]), self._given(count, count.of({})), Ref(made)]
        divide = _combiner("divide", dtype.name, len(kept))
        calls: list[Any] | None = calls_of(divide, kept, refs, (), self.scratch, self._pinned)
        return calls

    def _own(self, key: int, sample: ND) -> Any:
        """An operand of which each tile has its own."""
        self.own[key] = sample
        return self._given(key, sample, sample.nbytes)

    def _shape(self, step: Pass) -> tuple[int, ...]:
        """The space of a pass on a tile."""
        space, dim = space_of(step, self.nodes), self.way.dims[step.outs[0]]
        low, stop = self._rows(step)
        return (*space[:dim], stop - low, *space[dim + 1 :])

    def _update(self, step: Pass, kernel: Any) -> list[Any] | None:
        """A part of the slices of another value replaced, the rest copied."""
        (pos,), dim, made = step.outs, self.way.dims[step.outs[0]], self.ranges[step.outs[0]]
        found, rows, shape = target(step, self.nodes), self._rows(step), self._shape(step)
        assert found is not None
        base, starts = found
        after: list[Any] = []
        refs = self._operands(step) if shape[dim] else []
        old = self._slices_of(base, dim, made)
        new = self._out(step, 0, pos, after)
        if new is None:
            return None
        begins = [rows[0] + s - made[0] if d == dim else s for d, s in enumerate(starts)]
        inner = [slice(low, low + n) for low, n in zip(begins, shape, strict=True)]
        rest = around(inner, new.array.shape) if shape[dim] else [(slice(None),) * len(shape)]
        calls: list[Any] = []
        for key in rest:
            source, place = (replace(boxed(ref, key), far=0) for ref in (old, new))
            some = copied(source, place, self.scratch, self._pinned)
            if some is None:
                return None
            calls += some
        if shape[dim]:
            refs.append(boxed(new, inner))
            some = calls_of(kernel, shape, refs, step.params, self.scratch, self._pinned)
            if some is None:
                return None
            calls += some
        return [*calls, *after]

    def _pass(self, step: Pass, kernel: Any) -> list[Any] | None:
        shape = self._shape(step)
        after: list[Any] = []
        refs = self._operands(step)
        if step.blas and (own := self._gram(step, refs[0])) is not None:
            return own
        outs = self._results(step, after)
        if outs is None:
            return None
        refs += outs
        calls = self._product(step, refs) if step.blas else None
        if calls is None:
            calls = calls_of(kernel, shape, refs, step.params, self.scratch, self._pinned)
        return self._in_order(step, calls, after)

    def _in_order(self, step: Pass, calls: list[Any] | None, after: list[Any]) -> list[Any] | None:
        """All calls of a pass; the order in which they reduce is noted."""
        if calls is None:
            return None
        self.trees |= {(step.outs[0], call.tree) for call in calls if call.tree is not None}
        return [*calls, *after]

    def _results(self, step: Pass, after: list[Any]) -> list[Any] | None:
        """What a pass makes on a tile; None if there is too little scratch."""
        refs = [self._out(step, k, pos, after) for k, pos in enumerate(step.outs)]
        return None if any(r is None for r in refs) else refs

    def _product(self, step: Pass, refs: list[Any]) -> list[Any] | None:
        """A product of matrices by BLAS; None if it cannot take their strides."""
        assert step.letters is not None
        first, second, out = refs
        if 0 not in step.letters[0]:
            first, second = second, first
        call = gemm.product(first.of(first.array[:, 0, :]), second.of(second.array[0].T), out)
        self.blas = self.blas or call is not None
        return None if call is None else [call]

    def _gram(self, step: Pass, first: Any) -> list[Any] | None:
        """A matrix by its own transpose, summed over tiles, by code of our own; None if it is not that."""
        (pos,) = step.outs
        if self.way.at[pos] != "add" or not is_gram(step, self.nodes):
            return None
        total = np.empty(self.nodes[pos].dims, self.nodes[pos].dtype)
        assert step.letters is not None
        lacks = 1 if 0 in step.letters[0] else 0
        rows = first.of(first.array.squeeze(lacks).T)
        call = gram.gram(rows, self._given(pos, total, 0, total.nbytes), times=self.tiles)
        if call is None:
            return None
        self.sums[pos] = ("add", total.shape)
        self.mirrored.add(pos)
        return [call]

    def _out(self, step: Pass, k: int, pos: int, after: list[Any]) -> Any:
        node, where, made = self.nodes[pos], self.way.at[pos], self.ranges[step.outs[0]]
        reduced, space = step.kernel.reduced, space_of(step, self.nodes)
        if isinstance(where, str):
            kept = tuple(n for n, r in zip(space, reduced, strict=True) if not r)
            kept = node.dims if step.kernel.outputs[k].key is not None else kept
            if any(pos == c.total for c in self.centres.values()):
                return self._own(pos, np.empty(kept, node.dtype))
            result = self.scratch.array(kept, node.dtype)
            if result is None:
                return None
            self.sums[pos] = (where, kept)
            total = np.empty(kept, node.dtype)
            acc = self._given(pos, total, 0, total.nbytes)
            add = calls_of(
                _combiner(where, node.dtype.name, len(kept)),
                kept,
                [acc, Ref(result), acc],
                (),
                self.scratch,
                self._pinned,
            )
            if add is None:
                return None
            after += add
            return Ref(result)
        assert isinstance(where, int)
        if pos not in self.step.outs and pos not in self.rooms and not self._room(pos, made[1] - made[0]):
            return None  # a product that could have been made inside of another pass
        if pos in self.rooms:
            ref, first = Ref(self.rooms[pos]), self.part.whole[step.outs[0]][0]
            if pos in self.step.outs and step.outs[0] in self.part.own:
                own = self.part.own[step.outs[0]]
                stored = self._stored(pos, where, own)
                source = taken(ref, where, own[0] - first, own[1] - first)
                copies = copied(source, stored, self.scratch, self._pinned)
                if copies is None:
                    return None
                after += copies
            out = taken(ref, where, made[0] - first, made[1] - first)
        else:
            ref = out = self._stored(pos, where, made)
            first = made[0]
        self.refs[pos] = (ref, where, first)
        return out.of(dropped(out.array, reduced)) if drops_axes(step, k, node) else out

    def _stored(self, pos: int, axis: int, made: Range) -> Any:
        """Some slices of a value that is needed outside."""
        if pos not in self.samples:
            self.samples[pos] = fresh(self.nodes[pos])
        ref = self._given_slices(pos, self.samples[pos], axis, made)
        read = pos in self.read and pos not in self.rooms
        return ref if read else replace(ref, far=self.samples[pos].nbytes)


def _combiner(op: str, dtype: str, rank: int) -> Any:
    kernel = Kernel((dtype, dtype), (), (Instr(op, (0, 1), dtype),), (Output(2),), (False,) * rank)
    return compile(kernel)


def _is_distance(kernel: Kernel) -> bool:
    """Whether a kernel adds up squared differences of rows."""
    sums = [o.reduce for o in kernel.outputs] == ["add"] and kernel.reduced == (False, False, True)
    squares = [i.fn for i in kernel.body] in (["subtract", "square"], ["subtract", "multiply"])
    return sums and squares and not kernel.params
