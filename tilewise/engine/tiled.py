"""Running passes that share their tiles. In: a `Tiled`, arrays. Out: its results, with every tile in the caches once.

What a run needs is worked out once per geometry: along which dim to cut, how long tiles are, the native calls. Where
tiles bring nothing (little data, sums too large to have several of, nothing native) the passes run one by one. Other
lengths of tiles are tried (tuning.py) if every reduction is made in the same order whatever the length.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewise.config import Settings, current
from tilewise.engine import tuning
from tilewise.engine.buffers import fresh, walked
from tilewise.engine.tuning import Trials
from tilewise.ir.order import strides_of
from tilewise.ir.scalar import UFUNCS
from tilewise.kernel.loops import Instr, Kernel, Output
from tilewise.ops.views import Arrange, Window
from tilewise.plan.steps import Pass, Tiled, View
from tilewise.plan.tuned import FACTORS, USUAL, class_of, record_of
from tilewise.plan.ways import Tiling, axis_of, drops_axes, fitted, space_of, tiling, view_axes
from tilewise.target.threads import get_threads

Array = np.ndarray[Any, Any]
See = Callable[[Array], Array]
Given = tuple[tuple[int, See | None], ...]  # arrays that a run is given: position, and how they are seen

GEOMETRIES = 64


@dataclass
class Group:
    """A `Tiled` bound to kernels, and what was worked out for the geometries met so far."""

    step: Tiled
    kernels: list[Any]

    def __post_init__(self) -> None:
        self.plans: dict[Any, _Choice | None] = {}


@dataclass(frozen=True)
class _Plan:
    """One geometry: the walk over tiles, and the sums with their chunks."""

    walk: Any
    arrays: Given  # of full tiles
    more: Given  # of the last tile
    sums: tuple[tuple[int, str, tuple[int, ...]], ...]  # position, reduction, shape of an accumulator
    blas: bool  # some calls are into BLAS
    trees: frozenset[tuple[int, Any]]  # of every pass that reduces, by its first output: in which order

    def agrees(self, other: _Plan) -> bool:
        """Whether both give the same bits: all their tiles, the last ones too, reduce in one order."""
        return self.trees == other.trees and len(dict(self.trees)) == len(self.trees)


@dataclass
class _Choice:
    """One geometry: the plan it has as a rule, and those for other lengths of tiles (None: not to be had)."""

    usual: _Plan
    trials: Trials | None = None  # None: one length only
    others: dict[float, _Plan | None] = field(default_factory=dict)


def run_tiled(
    step: Tiled, group: Group, nodes: Sequence[Any], values: list[Any], noted: set[Any], each: Callable[..., None]
) -> None:
    """Tile by tile, or, where that does not pay, pass by pass."""
    settings = current()
    key = (
        settings.tile,
        settings.tune,
        get_threads(),
        *[(a.shape, a.strides) for x in step.inputs if isinstance(a := values[x], np.ndarray)],
        *[nodes[s.pos].op if isinstance(s, View) else nodes[s.outs[0]].dims for s in step.steps],
    )
    try:
        choice = group.plans[key]
    except KeyError:
        if len(group.plans) >= GEOMETRIES:
            group.plans.clear()
        choice = group.plans[key] = _choice(step, group, nodes, values, settings)
    if choice is None:
        for inner, kernel in zip(step.steps, group.kernels, strict=True):
            each(inner, kernel, nodes, values, noted)
    elif choice.trials is None:
        _run(choice.usual, step, nodes, values)
    else:
        _run_tuned(choice, choice.trials, step, group, nodes, values)


def _run_tuned(
    choice: _Choice, trials: Trials, step: Tiled, group: Group, nodes: Sequence[Any], values: list[Any]
) -> None:
    """A run that may try another length of tiles."""
    turn, seconds, build_s = trials.begin(), None, 0.0
    try:
        plan: _Plan | None = choice.usual
        if turn.factor != USUAL:
            if turn.factor not in choice.others:
                began = tuning.clock()
                choice.others[turn.factor] = _other(choice.usual, step, group, nodes, values, turn.factor)
                build_s = tuning.clock() - began
            plan = choice.others[turn.factor]
            if plan is None:
                plan, turn, build_s = choice.usual, trials.refuse(turn, build_s), 0.0
        assert plan is not None
        began = tuning.clock()
        _run(plan, step, nodes, values)
        seconds = tuning.clock() - began
    finally:
        trials.end(turn, seconds, build_s)


def _run(plan: _Plan, step: Tiled, nodes: Sequence[Any], values: list[Any]) -> None:
    """Over all tiles."""
    made: dict[int, Array] = {}
    sums: dict[int, Array] = {}
    for pos, op, shape in plan.sums:
        dtype = nodes[pos].dtype
        sums[pos] = np.full((plan.walk.chunks, *shape), _llvm().identity(op, dtype.name), dtype)
    for pos in step.outs:
        if pos not in sums:
            made[pos] = fresh(nodes[pos])
    found = {**{x: values[x] for x in step.inputs}, **made, **sums}
    arrays, more = (
        [found[pos] if see is None else see(found[pos]) for pos, see in given] for given in (plan.arrays, plan.more)
    )
    with _one_thread_each() if plan.blas else nullcontext():
        plan.walk.run(arrays, more, values.__getitem__)
    for pos, op, _ in plan.sums:
        out = made[pos] = fresh(nodes[pos])
        out[...] = _added(sums[pos], op).reshape(out.shape)
    for pos in step.outs:
        values[pos] = made[pos]


def _llvm() -> Any:
    return importlib.import_module("tilewise.target.llvm")


def _one_thread_each() -> Any:
    """Tiles already run on all cores: BLAS starts no threads of its own."""
    return importlib.import_module("tilewise.target.blas").one_thread()


def _added(parts: Array, op: str) -> Array:
    """The parts combined pairwise, in a fixed order."""
    ufunc = UFUNCS[op]
    with np.errstate(all="ignore"):
        while len(parts) > 1:
            half = len(parts) // 2
            rest = parts[2 * half :]
            parts = np.concatenate([ufunc(parts[: 2 * half : 2], parts[1 : 2 * half : 2]), rest])
    first: Array = parts[0]
    return first


def _choice(step: Tiled, group: Group, nodes: Sequence[Any], values: list[Any], settings: Settings) -> _Choice | None:
    """What a geometry needs; None if its passes are better run one by one."""
    if any(not hasattr(k, "alone") for s, k in zip(step.steps, group.kernels, strict=True) if isinstance(s, Pass)):
        return None
    cut = tiling(step, nodes, settings.tile)
    if cut is None:
        return None
    began, codes = tuning.clock(), _llvm().compiled_count()
    plan = _Layout(step, group, nodes, values, cut).plan()
    if plan is None or not cut.loose:
        return None if plan is None else _Choice(plan)
    fit = fitted(cut)
    if fit.tile != cut.tile:  # what all machines agree in is what the length for all of them gives
        better = _Layout(step, group, nodes, values, fit).plan()
        if better is None or not better.agrees(plan):
            return _Choice(plan)
        plan = better
    if not settings.tune:
        return _Choice(plan)
    offered = [f for f in FACTORS if fitted(cut, f).tile != fit.tile]
    record = record_of(class_of(settings.cache_dir, step, cut))
    build_s = tuning.clock() - began if _llvm().compiled_count() == codes else tuning.BUILD_S
    return _Choice(plan, Trials(record, offered, build_s))


def _other(
    usual: _Plan, step: Tiled, group: Group, nodes: Sequence[Any], values: list[Any], factor: float
) -> _Plan | None:
    """The plan for another length of tiles; None if there is none that gives the same bits."""
    cut = tiling(step, nodes)
    assert cut is not None
    plan = _Layout(step, group, nodes, values, fitted(cut, factor)).plan()
    return plan if plan is not None and plan.agrees(usual) else None


class _Layout:
    """Lays out one geometry: which arrays a run needs, what is scratch, the native calls."""

    def __init__(self, step: Tiled, group: Group, nodes: Sequence[Any], values: list[Any], cut: Tiling) -> None:
        self.step, self.group, self.nodes, self.values = step, group, nodes, values
        self.way, self.tile, self.tiles, self.chunks = cut.way, cut.tile, cut.tiles, cut.chunks
        self.llvm = _llvm()
        self.scratch = self.llvm.Scratch(self.llvm.SCRATCH_BYTES)
        self.arrays: list[tuple[int, See | None]] = []
        self.refs: dict[int, tuple[Any, int]] = {}  # what is made by tiles: operand and axis
        self.sums: dict[int, tuple[str, tuple[int, ...]]] = {}
        self.samples: dict[int, Array] = {}
        self.trees: set[tuple[int, Any]] = set()
        self.blas = False

    def plan(self) -> _Plan | None:
        rest = self.way.length - (self.tiles - 1) * self.tile
        last = self._calls(rest) if rest != self.tile else []
        more = tuple(self.arrays)
        full = self._calls(self.tile)
        if full is None or last is None:
            return None
        walk = self.llvm.Walk(self.tiles, self.chunks, full, last, self.scratch)
        sums = tuple((x, op, shape) for x, (op, shape) in self.sums.items())
        return _Plan(walk, tuple(self.arrays), more, sums, self.blas, frozenset(self.trees))

    def _calls(self, length: int) -> list[Any] | None:
        """The calls for a tile of some length."""
        self.scratch.used = 0
        self.arrays, self.refs, self.sums = [], {}, {}
        out: list[Any] = []
        for step, kernel in zip(self.step.steps, self.group.kernels, strict=True):
            if isinstance(step, View):
                self._see(step)
                continue
            calls = self._pass(step, kernel, length)
            if calls is None:
                return None
            out += calls
        return out

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
        nodes = self.nodes
        space = space_of(step, nodes)
        dim = self.way.dims[step.outs[0]]
        shape = (*space[:dim], length, *space[dim + 1 :])
        refs: list[Any] = []
        for k, x in enumerate(step.inputs):
            along = None if step.letters is None else step.letters[k]
            see = None if along is None else _walk(along, len(space))
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
        after: list[Any] = []
        for k, pos in enumerate(step.outs):
            ref = self._out(step, k, pos, dim, length, space, after)
            if ref is None:
                return None
            refs.append(ref)
        calls = self._product(step, refs) if step.blas else None
        if calls is None:
            calls = self.llvm.calls_of(kernel, shape, refs, step.params, self.scratch, self._pinned)
        if calls is None:
            return None
        self.trees |= {(step.outs[0], call.tree) for call in calls if call.tree is not None}
        return [*calls, *after]

    def _product(self, step: Pass, refs: list[Any]) -> list[Any] | None:
        """A product of matrices by BLAS; None if they do not lie as it wants them."""
        assert step.letters is not None
        first, second, out = refs
        if 0 not in step.letters[0]:
            first, second = second, first
        call = self.llvm.product(first.of(first.array[:, 0, :]), second.of(second.array[0].T), out)
        self.blas = self.blas or call is not None
        return None if call is None else [call]

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
            result = self.scratch.array(kept, node.dtype)
            if result is None:
                return None
            self.sums[pos] = (where, kept)
            total = np.empty(kept, node.dtype)
            acc = self._given(pos, None, total, 0, total.nbytes)
            add = self.llvm.calls_of(
                _adder(where, node.dtype.name, len(kept)),
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
        return self._given(pos, see, see(ref.array), ref.step)


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


def _adder(op: str, dtype: str, rank: int) -> Any:
    kernel = Kernel((dtype, dtype), (), (Instr(op, (0, 1), dtype),), (Output(2),), (False,) * rank)
    return _llvm().compile(kernel)
