"""One geometry of passes that share their tiles. In: a `Tiled`, a `Tiling`, arrays. Out: a `Plan`: calls on every tile.

Says which arrays a run needs, what is scratch, what is summed over tiles, and which native calls a tile takes. A
product of matrices that only one pass reads is made inside of that pass, where its rows fit into registers.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from tilewise.engine.buffers import fresh, walked
from tilewise.engine.merging import about_own_mean
from tilewise.ir.order import strides_of
from tilewise.kernel.loops import Instr, Kernel, Output, nested
from tilewise.ops.views import Arrange, Window
from tilewise.plan.steps import Call, Pass, Tiled, View, makes, reads
from tilewise.plan.symmetric import is_gram
from tilewise.plan.ways import MEAN, Tiling, axis_of, centred, drops_axes, space_of, view_axes

Array = np.ndarray[Any, Any]
See = Callable[[Array], Array]
Given = tuple[tuple[int, See | None], ...]  # arrays that a run is given: position, and how they are seen


@dataclass(frozen=True)
class Plan:
    """One geometry: the walk over tiles, and the sums with their chunks."""

    walk: Any
    arrays: Given  # of full tiles
    more: Given  # of the last tile
    sums: tuple[tuple[int, str, tuple[int, ...]], ...]  # position, reduction, shape of an accumulator
    blas: bool  # some calls are into BLAS
    own: tuple[tuple[int, Any, tuple[int, ...]], ...]  # what each tile has of its own: key, dtype, shape
    merges: tuple[tuple[int, int, Array], ...]  # sums of tiles, and of their squared deviations; of how many elements
    late: frozenset[int]  # means, made after all tiles
    after: tuple[int, ...]  # numbers of the steps that make those that are needed
    mirrored: frozenset[int]  # symmetric sums of which only the part below the diagonal is made
    trees: frozenset[tuple[int, Any]]  # of every pass that reduces, by its first output: in which order

    def agrees(self, other: Plan) -> bool:
        """Whether both give the same bits: all their tiles, the last ones too, reduce in one order."""
        return self.trees == other.trees and len(dict(self.trees)) == len(self.trees)


def llvm() -> Any:
    """The compiler, loaded when it is first needed."""
    return importlib.import_module("tilewise.target.llvm")


class Layout:
    """Lays out one geometry: which arrays a run needs, what is scratch, the native calls."""

    def __init__(
        self, step: Tiled, kernels: Sequence[Any], nodes: Sequence[Any], values: list[Any], cut: Tiling
    ) -> None:
        self.step, self.kernels, self.nodes, self.values = step, kernels, nodes, values
        self.way, self.tile, self.tiles, self.chunks = cut.way, cut.tile, cut.tiles, cut.chunks
        self.llvm = llvm()
        self.scratch = self.llvm.Scratch(self.llvm.SCRATCH_BYTES)
        self.arrays: list[tuple[int, See | None]] = []
        self.refs: dict[int, tuple[Any, int]] = {}  # what is made by tiles: operand and axis
        self.sums: dict[int, tuple[str, tuple[int, ...]]] = {}
        self.samples: dict[int, Array] = {}
        self.trees: set[tuple[int, Any]] = set()
        self.blas = False
        self.mirrored: set[int] = set()
        self.totals = {s.outs[0]: s.centre.total for s in centred(step, cut.way) if s.centre is not None}
        self.own: dict[int, Array] = {}  # what each tile has of its own: a sample
        self.means: dict[int, Any] = {}
        self.counts: dict[int, Array] = {}  # of elements that are summed, by tile

    def plan(self) -> Plan | None:
        rest = self.way.length - (self.tiles - 1) * self.tile
        last = self._calls(rest) if rest != self.tile else []
        more = tuple(self.arrays)
        full = self._calls(self.tile)
        if full is None or last is None:
            return None
        walk = self.llvm.Walk(self.tiles, self.chunks, full, last, self.scratch)
        sums = tuple((x, op, shape) for x, (op, shape) in self.sums.items())
        own = tuple((key, sample.dtype, sample.shape) for key, sample in self.own.items())
        merges = tuple((total, squares, self.counts[squares]) for squares, total in self.totals.items())
        late = frozenset(x for x, at in self.way.at.items() if at == MEAN)
        after = tuple(k for k, s in enumerate(self.step.steps) if late.intersection(makes(s), self.step.outs))
        trees = frozenset(self.trees)
        mirrored = frozenset(self.mirrored)
        return Plan(walk, tuple(self.arrays), more, sums, self.blas, own, merges, late, after, mirrored, trees)

    def _calls(self, length: int) -> list[Any] | None:
        """The calls for a tile of some length."""
        self.scratch.used = 0
        self.arrays, self.refs, self.sums, self.means = [], {}, {}, {}
        out: list[Any] = []
        waiting: dict[int, tuple[Pass, Any]] = {}  # products that may be made inside of what reads them
        for step, kernel in zip(self.step.steps, self.kernels, strict=True):
            if isinstance(step, View):
                self._see(step)
                continue
            if isinstance(step, Call) or self.way.at[step.outs[0]] == MEAN:
                continue
            if self._only_read_on(step):
                waiting[step.outs[0]] = step, kernel
                continue
            calls: list[Any] | None = None
            for x in [x for x in step.inputs if x in waiting]:
                inner = waiting.pop(x)
                calls = self._nested(*inner, step, kernel, length)
                if calls is None:
                    first = self._pass(*inner, length)
                    if first is None:
                        return None
                    out += first
            if step.outs[0] in self.totals:
                calls = self._deviations(step, length)
            elif calls is None:
                calls = self._pass(step, kernel, length)
            if calls is None:
                return None
            out += calls
        return out

    def _only_read_on(self, step: Pass) -> bool:
        """Whether a step is a product of matrices that one elementwise pass or reduction along its rows reads."""
        (made, *more) = step.outs
        if not step.blas or more or made in self.step.outs or self.way.dims[made] != 0:
            return False
        users = [s for s in self.step.steps if made in reads(s)]
        return len(users) == 1 and self._may_nest(users[0], made)

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
        """What products of matrices make."""
        return {s.outs[0] for s in self.step.steps if isinstance(s, Pass) and s.blas}

    def _nested(self, inner: Pass, product: Any, step: Pass, kernel: Any, length: int) -> list[Any] | None:
        """A product and the pass that reads it as one kernel; None if the rows are too long."""
        at = step.inputs.index(inner.outs[0])
        both = nested(product.kernel, kernel.kernel, at)
        shape = (length, *space_of(inner, self.nodes)[1:])
        if not self.llvm.nests(both, shape):
            return None
        factors = self._operands(inner, 0, length)
        others = self._operands(step, 0, length, but=at)
        after: list[Any] = []
        outs = self._results(step, 0, length, after)
        if outs is None:
            return None
        refs = [*factors, *(r.of(r.array[..., None]) for r in others), *outs]
        calls = self.llvm.calls_of(self.llvm.compile(both), shape, refs, step.params, self.scratch, self._pinned)
        return self._in_order(step, calls, after)

    def _deviations(self, step: Pass, length: int) -> list[Any] | None:
        """A sum of squared deviations, about the mean of the tile."""
        assert step.centre is not None
        total, mean, squares = step.centre.total, step.centre.mean, step.outs[0]
        kept, dtype = self.own[total].shape, self.own[total].dtype
        space, dim = space_of(step, self.nodes), self.way.dims[squares]
        others = prod(n for d, n in enumerate(space) if step.kernel.reduced[d] and d != dim)
        self.counts[squares] = others * np.diff([*range(0, self.way.length, self.tile), self.way.length])
        count = np.array(others * length, dtype)
        made = self.scratch.array(kept, dtype)
        if made is None:
            return None
        refs = [self._own(total, self.own[total]), self._given(total, lambda _: count, count, 0), self.llvm.Ref(made)]
        divide = _combiner("divide", dtype.name, len(kept))
        before = self.llvm.calls_of(divide, kept, refs, (), self.scratch, self._pinned)
        self.means[mean] = self.llvm.Ref(made.reshape(self.nodes[mean].dims))
        inner = about_own_mean(step)
        refs = self._operands(inner, dim, length)
        refs += [self._own(key, np.empty(kept, dtype)) for key in (squares, ~squares)]
        shape = (*space[:dim], length, *space[dim + 1 :])
        kernel = self.llvm.compile(inner.kernel)
        calls = self.llvm.calls_of(kernel, shape, refs, inner.params, self.scratch, self._pinned)
        return None if before is None or calls is None else [*before, *calls]

    def _own(self, key: int, sample: Array) -> Any:
        """An operand of which each tile has its own."""
        self.own[key] = sample
        return self._given(key, None, sample, sample.nbytes)

    def _see(self, step: View) -> None:
        """A view of what is made by tiles."""
        op, node = self.nodes[step.pos].op, self.nodes[step.pos]
        axes = view_axes(op, node.ndim)
        arrange = op if isinstance(op, Arrange) else Arrange(axes, node.dims)
        ref, axis = self.refs[step.input]
        if ref.slot is not None:
            pos, see = self.arrays[ref.slot]
            assert isinstance(op, Window | Arrange)
            ref = self._given(pos, _after(see, arrange.numpy), arrange.numpy(ref.array), ref.step)
        else:
            ref = ref.of(arrange.numpy(ref.array))
        self.refs[step.pos] = (ref, axes.index(axis))

    def _given(self, pos: int, see: See | None, sample: Array, step: int, chunk_step: int = 0) -> Any:
        """An operand among the arrays that a run is given."""
        self.arrays.append((pos, see))
        return self.llvm.Ref(sample, step, chunk_step, len(self.arrays) - 1)

    def _pinned(self, ref: Any, see: See) -> Any:
        """A copy of an array that is the same for all tiles, made once per run."""
        pos, before = self.arrays[ref.slot]
        return self._given(pos, _after(before, see), see(ref.array), 0, ref.chunk_step)

    def _pass(self, step: Pass, kernel: Any, length: int) -> list[Any] | None:
        space = space_of(step, self.nodes)
        dim = self.way.dims[step.outs[0]]
        shape = (*space[:dim], length, *space[dim + 1 :])
        after: list[Any] = []
        refs = self._operands(step, dim, length)
        if step.blas and (own := self._gram(step, refs[0])) is not None:
            return own
        outs = self._results(step, dim, length, after)
        if outs is None:
            return None
        refs += outs
        calls = self._product(step, refs) if step.blas else None
        if calls is None:
            calls = self.llvm.calls_of(kernel, shape, refs, step.params, self.scratch, self._pinned)
        return self._in_order(step, calls, after)

    def _in_order(self, step: Pass, calls: list[Any] | None, after: list[Any]) -> list[Any] | None:
        """All calls of a pass; the order in which they reduce is noted."""
        if calls is None:
            return None
        self.trees |= {(step.outs[0], call.tree) for call in calls if call.tree is not None}
        return [*calls, *after]

    def _operands(self, step: Pass, dim: int, length: int, but: int | None = None) -> list[Any]:
        """What a pass reads on a tile (but for one input)."""
        nodes = self.nodes
        space = space_of(step, nodes)
        refs: list[Any] = []
        for k, x in enumerate(step.inputs):
            if k == but:
                continue
            along = None if step.letters is None else step.letters[k]
            see = None if along is None else _walk(along, len(space))
            if x in self.means:
                refs.append(self.means[x])
                continue
            if x in self.refs:
                ref, axis = self.refs[x]
                array = ref.array if see is None else see(ref.array)
                axis = axis if along is None else dim
                refs.append(
                    ref.of(_front(array, axis, length))
                    if see is None or ref.slot is None
                    else self._again(ref, see, axis, length)
                )
                continue
            cut = axis_of(step, k, dim, nodes)
            array = self.values[x] if see is None else see(self.values[x])
            if cut is None:
                refs.append(self._given(x, see, array, 0))
            else:
                axis = cut if along is None else dim
                refs.append(self._given(x, see, _front(array, axis, length), self.tile * array.strides[axis]))
        return refs

    def _results(self, step: Pass, dim: int, length: int, after: list[Any]) -> list[Any] | None:
        """What a pass makes on a tile; None if there is too little scratch."""
        space = space_of(step, self.nodes)
        refs = [self._out(step, k, pos, dim, length, space, after) for k, pos in enumerate(step.outs)]
        return None if any(r is None for r in refs) else refs

    def _product(self, step: Pass, refs: list[Any]) -> list[Any] | None:
        """A product of matrices by BLAS; None if they do not lie as it wants them."""
        assert step.letters is not None
        first, second, out = refs
        if 0 not in step.letters[0]:
            first, second = second, first
        call = self.llvm.product(first.of(first.array[:, 0, :]), second.of(second.array[0].T), out)
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
        call = self.llvm.gram(rows, self._given(pos, None, total, 0, total.nbytes))
        if call is None:
            self.arrays.pop()
            return None
        self.sums[pos] = ("add", total.shape)
        self.mirrored.add(pos)
        return [call]

    def _again(self, ref: Any, see: See, axis: int, length: int) -> Any:
        """Another view of an array that a run is given."""
        pos, before = self.arrays[ref.slot]
        return self._given(pos, _after(before, see), _front(see(ref.array), axis, length), ref.step)

    def _out(
        self, step: Pass, k: int, pos: int, dim: int, length: int, space: tuple[int, ...], after: list[Any]
    ) -> Any:
        node, where = self.nodes[pos], self.way.at[pos]
        reduced = step.kernel.reduced
        drops = drops_axes(step, k, node)
        see = _drop(reduced) if drops else None
        if isinstance(where, str):
            kept = tuple(n for n, r in zip(space, reduced, strict=True) if not r)
            kept = node.dims if step.kernel.outputs[k].key is not None else kept
            if pos in self.totals.values():
                return self._own(pos, np.empty(kept, node.dtype))
            result = self.scratch.array(kept, node.dtype)
            if result is None:
                return None
            self.sums[pos] = (where, kept)
            total = np.empty(kept, node.dtype)
            acc = self._given(pos, None, total, 0, total.nbytes)
            add = self.llvm.calls_of(
                _combiner(where, node.dtype.name, len(kept)),
                kept,
                [acc, self.llvm.Ref(result), acc],
                (),
                self.scratch,
                self._pinned,
            )
            if add is None:
                return None
            after += add
            return self.llvm.Ref(result)
        assert isinstance(where, int)
        if pos in self.step.outs:
            if pos not in self.samples:
                self.samples[pos] = fresh(node)
            whole = self.samples[pos]
            ref = self._given(pos, None, _front(whole, where, length), self.tile * whole.strides[where])
            if not self._read_here(pos):
                ref = replace(ref, last_bytes=whole.nbytes)
        else:
            dims = (*node.dims[:where], self.tile, *node.dims[where + 1 :])
            array = self.scratch.array(dims, node.dtype, strides_of(dims, node.dtype.itemsize, node.order))
            if array is None:
                return None
            ref = self.llvm.Ref(_front(array, where, length))
        self.refs[pos] = (ref, where)
        if see is None:
            return ref
        if ref.slot is None:
            return ref.of(see(ref.array))
        return replace(self._given(pos, see, see(ref.array), ref.step), last_bytes=ref.last_bytes)

    def _read_here(self, pos: int) -> bool:
        """Whether a step of the group reads a value, or a view of it."""
        return any(pos in reads(s) for s in self.step.steps)


def _front(array: Array, axis: int, length: int) -> Array:
    """The first part of an array along an axis."""
    return array[(slice(None),) * axis + (slice(0, length),)]


def _walk(along: tuple[int, ...], rank: int) -> See:
    return lambda x: walked(x, along, rank)


def _after(first: See | None, then: See) -> See:
    return then if first is None else lambda x: then(first(x))


def _drop(reduced: tuple[bool, ...]) -> See:
    """Without the axes that a reduction keeps with length one."""
    key = (*(0 if r else slice(None) for r in reduced), Ellipsis)
    return lambda x: x[key]


def _combiner(op: str, dtype: str, rank: int) -> Any:
    kernel = Kernel((dtype, dtype), (), (Instr(op, (0, 1), dtype),), (Output(2),), (False,) * rank)
    return llvm().compile(kernel)
